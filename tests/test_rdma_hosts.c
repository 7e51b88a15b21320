/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_hosts.c - clients of two tentd on two hosts move bytes by RDMA, over RoCE and
 * over InfiniBand, each on software ConnectX devices of its own: with every fault that these
 * know, with one of the daemons killed, with no device at one end.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/random.h"
#include "tests/common/rdma_pair.h"
#include "tests/common/soak.h"

/* ---- tests ------------------------------------------------------------- */

static void bytes_travel_over_both_links(void **state)
{
	struct rdma_pair p;

	(void)state;
	for (int i = 0; i < 2; i++) {
		rdma_pair_open(&p, rdma_links[i], "", "");
		rdma_expect_both(&p, 2 * (uint32_t)i + 1);
		rdma_pair_end(&p);
	}
}

/* Every byte arrives, and nobody is told of anything. */
static void a_bad_wire_costs_time_alone(void **state)
{
	static const char *const faults[][2] = {
		{ "loss=3%", "loss=0" }, { "reorder=5%", "reorder=0" },
		{ "drop_responses=3%", "drop_responses=0" },
		{ "delay_requests=5%", "delay_requests=0" },
	};
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], "", "");
	for (uint32_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		rdma_set_at((int)i & 1, faults[i][0]);
		rdma_expect_both(&p, 10 * i + 1);
		rdma_set_at((int)i & 1, faults[i][1]);
	}
	rdma_pair_end(&p);
}

/* The connection ends with it; what was flushed goes out again on another one. */
static void one_request_that_the_card_refuses_fails_alone(void **state)
{
	static const struct {
		int host;	/* whose card does it */
		const char *fault;
	} all[] = {
		{ 1, "syndrome_at=7 syndrome=4" },	/* local protection */
		{ 0, "nak_at=7 nak=98" },		/* remote access */
	};
	struct rdma_pair p;

	(void)state;
	for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		rdma_pair_open(&p, rdma_links[i & 1], "", "");
		rdma_expect_both(&p, 1);
		rdma_set_at(all[i].host, all[i].fault);
		assert_int_equal(rdma_failures(&p, TENT_OPCODE_WRITE, TENT_ERR_OWNER_GONE), 1);
		rdma_expect_both(&p, 2);
		rdma_pair_end(&p);
	}
}

/* What the card did not report is asked back when its time is up, and fenced. */
/* A card has 16 READs under way; twice as many are asked for before the WRITE. */
static void a_write_does_not_wait_for_reads_that_wait(void **state)
{
	struct tent_request_v1 r[RDMA_PARTS + 1];
	struct tent_completion c;
	struct rdma_pair p;
	int reads = -1;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], "", "");
	rdma_expect_both(&p, 1);
	for (uint64_t i = 0; i <= RDMA_PARTS; i++) { /* from behind: none is merged with the next */
		uint64_t at = (RDMA_PARTS - 1 - i % RDMA_PARTS) * RDMA_PART;

		r[i] = engine_fix_request(i < RDMA_PARTS ? TENT_OPCODE_READ : TENT_OPCODE_WRITE,
					  p.mine + at, p.id, p.theirs + at, RDMA_PART);
	}
	rdma_set_at(0, "bandwidth=100mbit");
	assert_int_equal(tent_ring_submit(p.ring, r, RDMA_PARTS + 1, sizeof(r[0]), 0, 0), 0);
	do {
		c = engine_fix_wait(p.ring);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		reads++;
	} while (c.user_data != RDMA_PARTS);
	assert_in_range(reads, 0, 3 * RDMA_PARTS / 4 - 1);
	rdma_set_at(0, "bandwidth=0");
	for (; reads < RDMA_PARTS; reads++)
		assert_int_equal(engine_fix_wait(p.ring).status, TENT_STATUS_COMPLETED);
	rdma_pair_end(&p);
}

static void a_completion_that_is_lost_ends_by_timeout(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], "", ", \"engine\": {\"request_timeout_ms\": 2000}");
	rdma_expect_both(&p, 1);
	rdma_set_at(1, "lost_cqe_at=1");
	rdma_submit_all(&p, TENT_OPCODE_WRITE);
	for (int i = 0; i < RDMA_PARTS; i++)
		engine_fix_wait(p.ring);
	rdma_expect_both(&p, 3);
	rdma_pair_end(&p);
}

static void without_a_device_at_one_end_it_goes_by_tcp(void **state)
{
	struct rdma_pair p;

	(void)state;
	for (int i = 0; i < 2; i++) {
		rdma_pair_open_as(&p, (const struct rdma_host[2]){
			{ .sim = i ? rdma_links[0] : NULL },
			{ .sim = i ? NULL : rdma_links[0] } });
		rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
		rdma_pair_end(&p);
	}
}

/* Nothing is restarted: what is under way ends, what comes next takes the other way. What
 * libmlx5 cannot destroy any more it keeps, which is not ours to look for. */
static void after_a_device_was_taken_out_it_goes_by_tcp(void **state)
{
	struct rdma_pair p;

	(void)state;
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
	rdma_pair_open(&p, rdma_links[0], "", "");
	unsetenv("ASAN_OPTIONS");
	rdma_expect_both(&p, 1);
	rdma_set_at(1, "removed=on");
	rdma_submit_all(&p, TENT_OPCODE_WRITE);
	for (int i = 0; i < RDMA_PARTS; i++)
		engine_fix_wait(p.ring);
	rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 3);
	rdma_pair_end(&p);
}

/* ---- one of them is killed --------------------------------------------- */

/* What says COMPLETED has all of its bytes there. */
static void check_ends(struct rdma_pair *p, int *completed)
{
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);
		uint64_t at = c.user_data * RDMA_PART;

		if (c.status != TENT_STATUS_COMPLETED) {
			assert_true(c.error == TENT_ERR_PEER_UNREACHABLE ||
				    c.error == TENT_ERR_OWNER_GONE ||
				    c.error == TENT_ERR_ADDRESS);
			continue;
		}
		++*completed;
		assert_memory_equal(p->mine + at, p->theirs + at, RDMA_PART);
	}
}

static void an_owners_daemon_that_is_killed_leaves_no_success_without_its_bytes(void **state)
{
	const uint32_t rounds = soak_rounds(5);
	uint64_t chance = 20261130;
	struct rdma_pair p;
	int completed = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)chance);
	rdma_pair_open(&p, rdma_links[0], "", "");
	for (uint32_t i = 0; i < rounds; i++) {
		int opcode = i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		pattern_fill(opcode == TENT_OPCODE_WRITE ? p.mine : p.theirs, RDMA_SIZE, i);
		rdma_submit_all(&p, opcode);
		nanosleep(&pause, NULL);
		tentd_end(&rdma_two.daemons[0], SIGKILL);
		check_ends(&p, &completed);
		tent_client_detach(p.owner);
		tentd_cleanup(&rdma_two.daemons[0]);
		rdma_start_at(0, &(const struct rdma_host){ .sim = rdma_links[0] });
		rdma_open_owner(&p);
		far_expect_buffers(p.user, p.id, -TENT_RULE_TARGET_GONE);
		assert_int_equal(tent_client_close_segment(p.user, p.id), 0);
		p.id = far_open_it(p.user, tent_client_segment(p.owner));
		rdma_expect_both(&p, i + 1000);
	}
	print_message("%d of %u were complete\n", completed, rounds * RDMA_PARTS);
	rdma_pair_end(&p);
}

/* The owner gets its memory back by unregistering it, and it is left alone from then on. */
static void a_daemon_that_asked_and_is_killed_is_left(void **state)
{
	const uint32_t rounds = soak_rounds(5);
	uint64_t chance = 20261131;
	struct rdma_pair p;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)chance);
	rdma_pair_open(&p, rdma_links[1], "", "");
	for (uint32_t i = 0; i < rounds; i++) {
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		rdma_submit_all(&p, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE);
		nanosleep(&pause, NULL);
		tentd_end(&rdma_two.daemons[1], SIGKILL);
		tent_ring_close(p.ring);
		tent_client_detach(p.user);
		tentd_cleanup(&rdma_two.daemons[1]);
		assert_int_equal(tent_client_unregister(p.owner, p.theirs, RDMA_SIZE), 0);
		memset(p.theirs, 0x99, RDMA_SIZE);
		rdma_start_at(1, &(const struct rdma_host){ .sim = rdma_links[1] });
		assert_int_equal(tent_client_register(p.owner, p.theirs, RDMA_SIZE,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
		assert_true(p.theirs[0] == 0x99 && !memcmp(p.theirs, p.theirs + 1, RDMA_SIZE - 1));
		rdma_open_user(&p);
		rdma_expect_both(&p, i + 1000);
	}
	rdma_pair_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_travel_over_both_links),
		cmocka_unit_test(a_bad_wire_costs_time_alone),
		cmocka_unit_test(one_request_that_the_card_refuses_fails_alone),
		cmocka_unit_test(a_write_does_not_wait_for_reads_that_wait),
		cmocka_unit_test(a_completion_that_is_lost_ends_by_timeout),
		cmocka_unit_test(without_a_device_at_one_end_it_goes_by_tcp),
		cmocka_unit_test(after_a_device_was_taken_out_it_goes_by_tcp),
		cmocka_unit_test(
			an_owners_daemon_that_is_killed_leaves_no_success_without_its_bytes),
		cmocka_unit_test(a_daemon_that_asked_and_is_killed_is_left),
	};

	return cmocka_run_group_tests(tests, rdma_setup, rdma_teardown);
}
