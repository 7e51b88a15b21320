/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legacy_client.c - a program of the older API alone. installed.sh links it with a
 * library of soname libtent_shared.so that is not ours, and starts it on ours.
 */
#include <stdio.h>
#include <string.h>
#include <tent/transfer_engine.h>

#define SIZE 65536

static unsigned char source[SIZE], target[SIZE];

static int wait_for(tent_engine_t engine, tent_batch_id_t batch)
{
	tent_status_t status = { STATUS_WAITING, 0 };

	while (status.status < STATUS_INVALID) {
		if (tent_overall_status(engine, batch, &status))
			return 1;
	}
	return status.status != STATUS_COMPLETED || status.transferred_bytes != SIZE;
}

static int transfer(tent_engine_t engine)
{
	tent_batch_id_t batch = tent_allocate_batch(engine, 1);
	tent_request_t request;

	memset(&request, 0, sizeof(request));
	request.opcode = OPCODE_WRITE;
	request.source = source;
	request.target_id = LOCAL_SEGMENT_ID;
	request.target_offset = (uint64_t)(uintptr_t)target;
	request.length = SIZE;
	if (tent_submit(engine, batch, &request, 1) || wait_for(engine, batch))
		return 1;
	return tent_free_batch(engine, batch);
}

int main(void)
{
	tent_engine_t engine;

	tent_set_config("metadata_type", "p2p");
	engine = tent_create_engine();
	memset(source, 0x5a, SIZE);
	if (!tent_available(engine) || tent_register_memory(engine, source, SIZE) ||
	    tent_register_memory(engine, target, SIZE) || transfer(engine) ||
	    memcmp(source, target, SIZE)) {
		fprintf(stderr, "legacy_client: failed\n");
		return 1;
	}
	tent_unregister_memory(engine, source, SIZE);
	tent_unregister_memory(engine, target, SIZE);
	tent_destroy_engine(engine);
	printf("legacy_client: %d bytes verified\n", SIZE);
	return 0;
}
