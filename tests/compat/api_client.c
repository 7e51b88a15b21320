/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_client.c - a program of the installed headers and libtent, in the common
 * subset of C99 and C++17; it is built as both. Which engine it uses is TENT_ENGINE's
 * choice.
 */
#include <stdio.h>
#include <string.h>
#include <tent/tent.h>
#include <tent/transfer_engine.h>

static const size_t size = 1 << 20;

static int fail(const char *what)
{
	struct tent_error_info info;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	tent_last_error(&info);
	fprintf(stderr, "api_client: %s: %d %s: %s\n", what, (int)info.error, info.field,
		info.message);
	return 1;
}

static int transfer(tent_engine_t engine, unsigned char *source, unsigned char *target)
{
	tent_request_v1_t request;
	tent_status_t status;
	tent_batch_id_t batch = tent_allocate_batch(engine, 1);

	memset(&request, 0, sizeof(request));
	request.struct_size = sizeof(request);
	request.schema_version = TENT_REQUEST_SCHEMA_V1;
	request.opcode = TENT_OPCODE_WRITE;
	request.source = source;
	request.target_offset = (uint64_t)(uintptr_t)target;
	request.length = size;
	if (batch == TENT_INVALID_BATCH || tent_submit_v1(engine, batch, &request, 1))
		return fail("tent_submit_v1");
	do {
		if (tent_overall_status(engine, batch, &status))
			return fail("tent_overall_status");
	} while (status.status < TENT_STATUS_INVALID);
	if (status.status != TENT_STATUS_COMPLETED || status.transferred_bytes != size) {
		fprintf(stderr, "api_client: ended with status %d\n", status.status);
		return 1;
	}
	return tent_free_batch(engine, batch) ? fail("tent_free_batch") : 0;
}

int main(void)
{
	tent_engine_t engine = tent_create_engine();
	void *memory = NULL;
	unsigned char *bytes;
	size_t i;

	if (!tent_available(engine))
		return fail("tent_create_engine");
	if (tent_allocate_memory(engine, &memory, 2 * size, "*"))
		return fail("tent_allocate_memory");
	if (tent_register_memory(engine, memory, 2 * size))
		return fail("tent_register_memory");
	bytes = (unsigned char *)memory;
	for (i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 17 + (i >> 8));
	if (transfer(engine, bytes, bytes + size))
		return 1;
	if (memcmp(bytes, bytes + size, size)) {
		fprintf(stderr, "api_client: other bytes arrived\n");
		return 1;
	}
	tent_free_memory(engine, memory);
	tent_destroy_engine(engine);
	printf("api_client: %u bytes verified\n", (unsigned)size);
	return 0;
}
