/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_client.c - a program of the installed headers and libtentring, no more:
 * attaches to a tentd, writes a pattern into its own segment, reads it back and
 * compares. Built as plain C99, with -m32, and for strace (see strace_busy.sh).
 *
 *   ring_client SOCKET [ROUNDS [marked]]
 *
 * marked: getppid() before and after the rounds, so that a tracer can tell what
 * happened in between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>
#include <unistd.h>

#define BATCH 16
#define BLOCK 4096u

static int fail(const char *what)
{
	struct tent_error_info info;

	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	tent_client_error(&info);
	fprintf(stderr, "ring_client: %s: %d %s\n", what, (int)info.error, info.message);
	return 1;
}

static void fill_batch(struct tent_request_v1 *batch, unsigned char *source,
		       unsigned char *target, int opcode)
{
	int i;

	memset(batch, 0, BATCH * sizeof(*batch));
	for (i = 0; i < BATCH; i++) {
		batch[i].struct_size = TENT_REQUEST_V1_SIZE;
		batch[i].schema_version = TENT_REQUEST_SCHEMA_V1;
		batch[i].opcode = opcode;
		batch[i].source = source + (size_t)i * BLOCK;
		batch[i].target_offset = (uint64_t)(uintptr_t)(target + (size_t)i * BLOCK);
		batch[i].length = BLOCK;
		batch[i].intent_type = TENT_INTENT_FOREGROUND_GET;
	}
}

/* Submits, then polls without ever sleeping: what a BUSY client does. */
static int run_batch(struct tent_ring *ring, const struct tent_request_v1 *batch)
{
	struct tent_completion done[BATCH];
	uint32_t ended = 0, nr, i;

	if (tent_ring_submit(ring, batch, BATCH, sizeof(*batch), 0, 0))
		return fail("tent_ring_submit");
	while (ended < BATCH) {
		if (tent_ring_end_rule(ring))
			return fail("the ring was ended");
		nr = tent_ring_poll(ring, done, BATCH);
		for (i = 0; i < nr; i++) {
			if (done[i].status != TENT_STATUS_COMPLETED || done[i].bytes != BLOCK) {
				fprintf(stderr, "ring_client: request %u: status %d error %d\n",
					(unsigned)done[i].index, (int)done[i].status,
					(int)done[i].error);
				return 1;
			}
		}
		ended += nr;
	}
	return 0;
}

static int run_rounds(struct tent_ring *ring, unsigned char *memory, int rounds)
{
	unsigned char *source = memory, *target = memory + BATCH * BLOCK;
	unsigned char *back = target + BATCH * BLOCK;
	struct tent_request_v1 write_batch[BATCH], read_batch[BATCH];
	int round;
	size_t i;

	fill_batch(write_batch, source, target, TENT_OPCODE_WRITE);
	fill_batch(read_batch, back, target, TENT_OPCODE_READ);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < BATCH * BLOCK; i++)
			source[i] = (unsigned char)(i * 31 + (size_t)round * 7 + (i >> 8));
		if (run_batch(ring, write_batch) || run_batch(ring, read_batch))
			return 1;
		if (memcmp(source, back, BATCH * BLOCK)) {
			fprintf(stderr, "ring_client: round %d read back other bytes\n", round);
			return 1;
		}
	}
	return 0;
}

static int use_ring(struct tent_client *client, int rounds, int marked)
{
	struct tent_ring *ring;
	void *memory;
	int rc;

	if (tent_client_alloc(client, 3 * BATCH * BLOCK, "*", &memory))
		return fail("tent_client_alloc");
	if (tent_client_register(client, memory, 3 * BATCH * BLOCK,
				 TENT_PERM_LOCAL_READ_WRITE, NULL, 0))
		return fail("tent_client_register");
	if (tent_ring_open(client, 0, 0, &ring))
		return fail("tent_ring_open");
	rc = run_rounds(ring, (unsigned char *)memory, 1); /* faults every page in */
	if (marked)
		getppid();
	rc = rc || run_rounds(ring, (unsigned char *)memory, rounds);
	if (marked)
		getppid();
	tent_ring_close(ring);
	return rc;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 10;
	struct tent_client *client;
	int rc;

	if (argc < 2) {
		fprintf(stderr, "usage: ring_client SOCKET [ROUNDS [marked]]\n");
		return 2;
	}
	if (tent_client_attach(argv[1], NULL, &client))
		return fail("tent_client_attach");
	rc = use_ring(client, rounds, argc > 3 && !strcmp(argv[3], "marked"));
	tent_client_detach(client);
	if (!rc)
		printf("ring_client: %d-bit program verified %d requests\n",
		       (int)sizeof(void *) * 8, rounds * BATCH * 2);
	return rc;
}
