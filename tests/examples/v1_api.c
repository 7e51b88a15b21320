/* SPDX-License-Identifier: Apache-2.0 */
/* v1_api.c - the C API in one page: WRITE a block inside this program's own segment,
 * with an engine thread, or through a tentd with TENT_ENGINE=unix:/path. */
#include <stdio.h>
#include <string.h>
#include <tent/tent.h>

/* What the library has to say, and the exit status. */
static int fail(void)
{
	tent_error_info_t why = { .size = sizeof(why) };

	tent_last_error(&why);
	fprintf(stderr, "%s\n", why.message);
	return 1;
}

int main(void)
{
	tent_engine_t engine = tent_create_engine();
	void *memory;

	if (tent_allocate_memory(engine, &memory, 8192, "*") ||
	    tent_register_memory(engine, memory, 8192))
		return fail();
	strcpy(memory, "a KV block");

	tent_request_v1_t write = {
		.struct_size = sizeof(write), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE, .source = memory,
		.target_id = TENT_LOCAL_SEGMENT, .target_offset = (uintptr_t)memory + 4096,
		.length = 4096, .intent_type = TENT_INTENT_CHECKPOINT,
	};
	tent_batch_id_t batch = tent_allocate_batch(engine, 1);
	tent_status_t status = { TENT_STATUS_FAILED, 0 };

	if (tent_submit_v1(engine, batch, &write, 1))
		return fail();
	do tent_overall_status(engine, batch, &status);
	while (status.status < TENT_STATUS_INVALID);
	printf("status %d: %s\n", status.status, (char *)memory + 4096);
	tent_destroy_engine(engine);
	return status.status != TENT_STATUS_COMPLETED;
}
