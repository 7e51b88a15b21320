/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_busy.c - a program of libtent that writes blocks inside its own segment, reads
 * them back and compares; for strace (see strace_busy.sh). Which engine it uses is
 * TENT_ENGINE's choice.
 *
 *   api_busy ROUNDS
 *
 * getppid() before and after the rounds tells a tracer what happened in between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tent.h>
#include <unistd.h>

#define BATCH 16
#define BLOCK 4096u
#define AREA (BATCH * (size_t)BLOCK)

static int fail(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_last_error(&info);
	fprintf(stderr, "api_busy: %s: %d %s\n", what, (int)info.error, info.message);
	return 1;
}

/* Submits one batch and polls it, then every task of it, without ever sleeping. */
static int run_batch(tent_engine_t engine, int opcode, unsigned char *source,
		     unsigned char *target)
{
	tent_batch_id_t batch = tent_allocate_batch(engine, BATCH);
	tent_request_v1_t entries[BATCH];
	tent_status_t status;

	for (int i = 0; i < BATCH; i++)
		entries[i] = (tent_request_v1_t) {
			.struct_size = sizeof(entries[i]),
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = opcode, .source = source + i * BLOCK,
			.target_id = TENT_LOCAL_SEGMENT,
			.target_offset = (uintptr_t)(target + i * BLOCK), .length = BLOCK,
		};
	if (tent_submit_v1(engine, batch, entries, BATCH))
		return fail("tent_submit_v1");
	do {
		if (tent_overall_status(engine, batch, &status))
			return fail("tent_overall_status");
	} while (status.status < TENT_STATUS_INVALID);
	for (int i = 0; i < BATCH; i++)
		if (tent_task_status(engine, batch, i, &status) ||
		    status.status != TENT_STATUS_COMPLETED || status.transferred_bytes != BLOCK)
			return fail("tent_task_status");
	return tent_free_batch(engine, batch) ? fail("tent_free_batch") : 0;
}

static int run_rounds(tent_engine_t engine, unsigned char *memory, int rounds)
{
	unsigned char *target = memory + AREA, *back = target + AREA;

	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < AREA; i++)
			memory[i] = (unsigned char)(i * 31 + (size_t)round * 7 + (i >> 8));
		if (run_batch(engine, TENT_OPCODE_WRITE, memory, target) ||
		    run_batch(engine, TENT_OPCODE_READ, back, target))
			return 1;
		if (memcmp(memory, back, AREA)) {
			fprintf(stderr, "api_busy: round %d read back other bytes\n", round);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0, rc;
	tent_engine_t engine = tent_create_engine();
	void *memory;

	if (rounds < 1) {
		fprintf(stderr, "usage: api_busy ROUNDS\n");
		return 2;
	}
	if (!tent_available(engine) || tent_allocate_memory(engine, &memory, 3 * AREA, "*") ||
	    tent_register_memory(engine, memory, 3 * AREA))
		return fail("engine and memory");
	rc = run_rounds(engine, memory, 2);	/* opens this thread's ring, faults pages in */
	getppid();
	rc = rc || run_rounds(engine, memory, rounds);
	getppid();
	tent_destroy_engine(engine);
	if (!rc)
		printf("api_busy: verified %d requests\n", rounds * BATCH * 2);
	return rc;
}
