/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c - a few lines of the C API that every scene needs. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/complain.h"
#include "perf/common/scene.h"

int scene_fail(const char *what)
{
	fprintf(stderr, "show: %s\n", what);
	return -1;
}

tent_engine_t scene_attach(const char *engine, const char *name)
{
	tent_engine_t e;

	setenv("TENT_ENGINE", engine, 1);
	if (name)
		tent_set_config("local_segment_name", name);
	e = tent_create_engine();
	if (tent_available(e))
		return e;
	complain("tent_create_engine");
	tent_destroy_engine(e);
	return NULL;
}

uint8_t *scene_memory(tent_engine_t e, size_t size)
{
	void *addr;

	if (!e)
		return NULL;
	if (tent_allocate_memory(e, &addr, size, "*") || tent_register_memory(e, addr, size)) {
		complain("memory");
		return NULL;
	}
	return addr;
}

tent_request_v1_t scene_request(int opcode, void *source, uint64_t target_id,
				uint64_t target, uint64_t length)
{
	return (tent_request_v1_t) {
		.struct_size = sizeof(tent_request_v1_t),
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode, .source = source, .target_id = target_id,
		.target_offset = target, .length = length,
	};
}

int scene_await(tent_engine_t e, tent_batch_id_t batch)
{
	tent_status_t status = { .status = TENT_STATUS_FAILED };

	do {
		if (tent_overall_status(e, batch, &status))
			return complain("tent_overall_status");
	} while (status.status <= TENT_STATUS_PENDING);
	return status.status;
}
