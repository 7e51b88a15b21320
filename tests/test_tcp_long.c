/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_long.c - requests longer than numbers of 30 and of 32 bits: for `make soak`,
 * as they take as much memory at each end. Otherwise one that is longer than everything
 * the transport has on its way at once.
 */
#define _GNU_SOURCE
#include "tests/test_tcp_fix.h"

#define GIB ((uint64_t)1 << 30)

struct ends {
	struct tent_client *owner, *user;
	struct tent_ring *ring;
	uint64_t size;
	uint8_t *mine, *theirs;
	tent_segment_id_t id;
};

static uint8_t *memory(struct tent_client *c, uint64_t size)
{
	void *p;

	assert_int_equal(tent_client_alloc(c, size, "*", &p), 0);
	assert_int_equal(tent_client_register(c, p, size, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0),
			 0);
	return p;
}

static void ends_open(struct ends *e, uint64_t size)
{
	e->size = size;
	e->owner = engine_fix_attach(&two, NULL);
	e->user = engine_fix_attach(&one, NULL);
	e->theirs = memory(e->owner, size);
	e->mine = memory(e->user, size);
	e->ring = engine_fix_ring(e->user);
	e->id = far_open_it(e->user, tent_client_segment(e->owner));
}

static void ends_close(struct ends *e)
{
	tent_ring_close(e->ring);
	tent_client_detach(e->user);
	tent_client_detach(e->owner);
}

/* A word says where it belongs. */
static void number(uint8_t *p, uint64_t size)
{
	for (uint64_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word = i * 0x9e3779b97f4a7c15u;

		memcpy(p + i, &word, 8);
	}
}

static void move(struct ends *e, int opcode, uint64_t at, uint64_t n)
{
	completed(engine_fix_move(e->ring, opcode, e->mine + at, e->id, e->theirs + at, n), n);
}

/* There by a WRITE, back by a READ; the bytes around stay as they were. */
static void goes_there_and_back(uint64_t n)
{
	struct ends e;
	uint64_t at = 4093;

	ends_open(&e, n + 8192);
	number(e.mine, e.size);
	move(&e, TENT_OPCODE_WRITE, at, n);
	assert_true(is_zero(e.theirs, at) && is_zero(e.theirs + at + n, e.size - at - n));
	assert_int_equal(memcmp(e.mine + at, e.theirs + at, n), 0);
	memset(e.mine, 0, e.size);
	move(&e, TENT_OPCODE_READ, at, n);
	assert_true(is_zero(e.mine, at) && is_zero(e.mine + at + n, e.size - at - n));
	assert_int_equal(memcmp(e.mine + at, e.theirs + at, n), 0);
	ends_close(&e);
}

static void one_longer_than_the_window_arrives(void **state)
{
	(void)state;
	goes_there_and_back(((uint64_t)96 << 20) + 1);
}

static void one_gib_and_a_byte_arrive(void **state)
{
	(void)state;
	goes_there_and_back(GIB + 1);
}

static void four_gib_and_a_byte_arrive(void **state)
{
	(void)state;
	goes_there_and_back(4 * GIB + 1);
}

static void tune_patient(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "engine/request_timeout_ms", "3600000");
}

static void tune_patient_epoll(struct engine_config *c)
{
	tune_patient(c);
	wire_set(c, "transports/tcp/io_uring", "false");
}

static int patient(void **state)
{
	(void)state;
	return start(tune_patient);
}

static int patient_epoll(void **state)
{
	(void)state;
	return start(tune_patient_epoll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_longer_than_the_window_arrives),
		cmocka_unit_test(one_gib_and_a_byte_arrive),
		cmocka_unit_test(four_gib_and_a_byte_arrive),
	};
	size_t nr = getenv("TENT_SOAK") ? NR(tests) : 1;
	int failed = 0;

	failed += _cmocka_run_group_tests("io_uring", tests, nr, patient, without);
	failed += _cmocka_run_group_tests("epoll", tests, nr, patient_epoll, without);
	return failed;
}
