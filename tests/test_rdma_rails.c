/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_rails.c - two tentd whose hosts have two software ConnectX devices each, and a
 * cable for each pair of them: what goes by which, and what becomes of it when one is lost.
 * There is no other transport that could help.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/rdma_pair.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PATIENT ", \"engine\": {\"request_timeout_ms\": 60000}"

static const char *const roce[] = { "--devices", "2", "--link", "roce", "--fault", "timeouts=200%",
				    NULL };
static const char *const infiniband[] = { "--devices", "2", "--link", "ib", "--fault", "timeouts=200%",
					  NULL };
static const char *const *const links[] = { roce, infiniband };

/* ---- counting ---------------------------------------------------------- */

/* What the user's side says of its device. */
struct said {
	int posted, broken;	/* WRITEs and READs; connections */
};

static struct said said_of(int device)
{
	const char *at;
	char name[16];
	int writes = 0, reads = 0, broken = 0;

	snprintf(name, sizeof(name), "mlx5_%d port", device);
	at = strstr(rdma_facts_at(1), name);
	assert_non_null(at);
	assert_int_equal(sscanf(strstr(at, "MTU"), "MTU %*d: %d WRITEs and %d READs of %*d bytes, "
				"%d", &writes, &reads, &broken), 3);
	return (struct said){ .posted = writes + reads, .broken = broken };
}

static int posted_by(int device)
{
	return said_of(device).posted;
}

/* How many parts were completed by which rail; all were completed. */
struct rails {
	int nr[2];
};

static struct rails rails_of(struct rdma_pair *p, int opcode, uint32_t seed)
{
	struct rails r = { { 0, 0 } };

	pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, RDMA_SIZE, seed);
	rdma_submit_all(p, opcode);
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);

		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.transport, TENT_TRANSPORT_RDMA);
		assert_in_range(c.rail, 0, 1);
		r.nr[c.rail]++;
	}
	assert_memory_equal(p->mine, p->theirs, RDMA_SIZE);
	return r;
}

/* A lane that failed is left for a while; one that never is tried again fails the test. */
static void expect_both_rails(struct rdma_pair *p, uint32_t seed)
{
	struct rails r;

	do
		r = rails_of(p, seed & 1 ? TENT_OPCODE_WRITE : TENT_OPCODE_READ, seed);
	while (!r.nr[0] || !r.nr[1]);
}

/* ---- both are there ---------------------------------------------------- */

/* Of requests that are equally long each takes half. */
static void both_rails_carry_traffic(void **state)
{
	struct rdma_pair p;
	struct rails r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		rdma_pair_open(&p, links[i], RDMA_ALONE, "");
		expect_both_rails(&p, 1);
		r = rails_of(&p, TENT_OPCODE_WRITE, 3);
		assert_in_range(r.nr[0], RDMA_PARTS / 4, 3 * RDMA_PARTS / 4);
		assert_true(posted_by(0) > 0 && posted_by(1) > 0);
		rdma_pair_end(&p);
	}
}

static struct tent_completion move_all(struct rdma_pair *p, int opcode, uint32_t seed)
{
	struct tent_completion c;

	pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, RDMA_SIZE, seed);
	memset(opcode == TENT_OPCODE_WRITE ? p->theirs : p->mine, 0, RDMA_SIZE);
	c = engine_fix_move(p->ring, opcode, p->mine, p->id, p->theirs, RDMA_SIZE);
	if (c.status == TENT_STATUS_COMPLETED)
		assert_memory_equal(p->mine, p->theirs, RDMA_SIZE);
	return c;
}

#define PIECES ", \"workers\": {\"block_size\": 65536}"

/* 4 MiB in 64 pieces, of which a lane has 4 at once: the slow rail gets fewer. */
static void pieces_of_a_large_request_go_by_the_rail_that_is_faster(void **state)
{
	struct rdma_pair p;
	int before[2], nr[2];

	(void)state;
	rdma_pair_open(&p, roce, PIECES RDMA_ALONE, PATIENT);
	expect_both_rails(&p, 1);
	rdma_set_device_at(1, 1, "bandwidth=50mbit");
	for (int i = 0; i < 2; i++)
		before[i] = posted_by(i);
	assert_int_equal(move_all(&p, TENT_OPCODE_WRITE, 5).status, TENT_STATUS_COMPLETED);
	for (int i = 0; i < 2; i++)
		nr[i] = posted_by(i) - before[i];
	assert_int_equal(nr[0] + nr[1], 64);
	assert_true(nr[1] > 0 && nr[1] < nr[0]);
	rdma_pair_end(&p);
}

static void a_small_request_goes_whole(void **state)
{
	struct rdma_pair p;
	int before;

	(void)state;
	rdma_pair_open(&p, roce, PIECES RDMA_ALONE, PATIENT);
	expect_both_rails(&p, 1);
	before = posted_by(0) + posted_by(1);
	assert_int_equal(engine_fix_move(p.ring, TENT_OPCODE_WRITE, p.mine, p.id, p.theirs,
					 65536).status, TENT_STATUS_COMPLETED);
	assert_int_equal(posted_by(0) + posted_by(1) - before, 1);
	rdma_pair_end(&p);
}

/* ---- one is lost ------------------------------------------------------- */

/* Nothing fails, whatever was under way on it; later both are used again. */
static void a_rail_lost_in_mid_transfer_loses_no_request(void **state)
{
	static const struct {
		int host, device;
		const char *begin, *end;
	} all[] = {
		{ 1, 0, "link=down", "link=up" },
		{ 0, 1, "link=down", "link=up" },
		{ 1, 1, "drop_requests=100%", "drop_requests=0" },
		{ 0, 0, "drop_responses=100%", "drop_responses=0" },
	};
	struct rdma_pair p;
	int broken;

	(void)state;
	for (int link = 0; link < 2; link++) {
		rdma_pair_open(&p, links[link], PIECES RDMA_ALONE, PATIENT);
		for (uint32_t i = 0; i < COUNT(all); i++) {
			expect_both_rails(&p, i);
			broken = said_of(all[i].device).broken;
			rdma_set_at(1, "latency=1ms");
			rdma_submit_all(&p, TENT_OPCODE_WRITE);
			rdma_set_device_at(all[i].host, all[i].device, all[i].begin);
			for (int n = 0; n < RDMA_PARTS; n++)
				assert_int_equal(engine_fix_wait(p.ring).status,
						 TENT_STATUS_COMPLETED);
			rdma_set_at(1, "latency=0s");
			for (int opcode = 0; opcode < 2; opcode++)
				assert_int_equal(move_all(&p, opcode, i + 20).status,
						 TENT_STATUS_COMPLETED);
			assert_true(said_of(all[i].device).broken > broken);
			rdma_set_device_at(all[i].host, all[i].device, all[i].end);
			expect_both_rails(&p, i + 40);
		}
		rdma_pair_end(&p);
	}
}

/* What libmlx5 cannot destroy any more it keeps, which is not ours to look for. */
static void a_device_that_is_taken_out_leaves_the_other(void **state)
{
	struct rdma_pair p;

	(void)state;
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
	rdma_pair_open(&p, roce, PIECES RDMA_ALONE, PATIENT);
	unsetenv("ASAN_OPTIONS");
	expect_both_rails(&p, 1);
	rdma_submit_all(&p, TENT_OPCODE_WRITE);
	rdma_set_device_at(1, 0, "removed=on");
	for (int n = 0; n < RDMA_PARTS; n++)
		assert_int_equal(engine_fix_wait(p.ring).status, TENT_STATUS_COMPLETED);
	assert_int_equal(rails_of(&p, TENT_OPCODE_READ, 9).nr[1], RDMA_PARTS);
	assert_non_null(strstr(rdma_facts_at(1), "mlx5_0 was taken out; mlx5_1 port 1"));
	rdma_pair_end(&p);
}

/* ---- not all are there ------------------------------------------------- */

static void a_device_that_is_denied_is_not_opened(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, roce, ", \"devices_denied\": \"mlx5_1\"" RDMA_ALONE, PATIENT);
	assert_int_equal(rails_of(&p, TENT_OPCODE_WRITE, 3).nr[0], RDMA_PARTS);
	assert_null(strstr(rdma_facts_at(0), "mlx5_1"));
	assert_null(strstr(rdma_facts_at(1), "mlx5_1"));
	rdma_pair_end(&p);
}

/* Two rails there, one here; then the other way round. */
static void a_rail_without_a_partner_is_not_used(void **state)
{
	const char *one = ", \"devices\": \"mlx5_0\"" RDMA_ALONE;
	struct rdma_pair p;

	(void)state;
	for (int host = 0; host < 2; host++) {
		rdma_pair_open_as(&p, (const struct rdma_host[2]){
			{ roce, host == 0 ? one : RDMA_ALONE, PATIENT },
			{ roce, host == 1 ? one : RDMA_ALONE, PATIENT } });
		assert_int_equal(rails_of(&p, TENT_OPCODE_WRITE, 3).nr[0], RDMA_PARTS);
		rdma_pair_end(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_rails_carry_traffic),
		cmocka_unit_test(pieces_of_a_large_request_go_by_the_rail_that_is_faster),
		cmocka_unit_test(a_small_request_goes_whole),
		cmocka_unit_test(a_rail_lost_in_mid_transfer_loses_no_request),
		cmocka_unit_test(a_device_that_is_taken_out_leaves_the_other),
		cmocka_unit_test(a_device_that_is_denied_is_not_opened),
		cmocka_unit_test(a_rail_without_a_partner_is_not_used),
	};

	rdma_fence_ms = RDMA_PATIENT_FENCE_MS;
	return cmocka_run_group_tests(tests, rdma_rails_setup, rdma_teardown);
}
