/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fenced_rdma.c - an end that is told is an end, on both hosts: requests by RDMA that
 * are ended in mid-transfer by each cause there is. The wire is slow and loses a packet now
 * and then, and sometimes all of them: what is on its way then ends with its connection.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/common/rdma_pair.h"
#include "tests/common/trial_far.h"

#define FENCE_MS 300u		/* peers.md: the bound is fence_ms, whatever it is */
#define NEVER_MS 60000u		/* a timeout that does not come in time */

/* Few pieces are out at a time, so that those of all requests are under way. */
#define PIECES ", \"endpoint\": {\"max_qp_wr\": 16}, \"workers\": {\"block_size\": 16384}" RDMA_ALONE

#define WIRE "--fault", "timeouts=400%", "--fault", "bandwidth=400mbit", "--fault", "loss=2000ppm"
static const char *const roce[] = { "--link", "roce", WIRE, NULL };
static const char *const infiniband[] = { "--link", "ib", WIRE, NULL };

static void lose(bool all);

static struct trials trials = { .backend = "rdma", .bytes = 256 << 10, .lose = lose,
				.bound_ns = FENCE_MS * 1000000ull };
static const char *const *link_now;
static uint64_t stalls, stalled_bytes;	/* that the user's card had on their way then */

static int setup(void **state)
{
	rdma_fence_ms = FENCE_MS;
	trials_open(&trials, -1);
	return rdma_setup(state);
}

static int teardown(void **state)
{
	trials_close(&trials);
	return rdma_teardown(state);
}

/* ---- who takes part ---------------------------------------------------- */

static void lose(bool all)
{
	rdma_hosts_lose(all);
	if (!all)
		return;
	stalls++;
	stalled_bytes += rdma_bytes_in_flight_at(1);
}

static void start_at(int i, uint32_t timeout_ms)
{
	char extra[64];

	snprintf(extra, sizeof(extra), ", \"engine\": {\"request_timeout_ms\": %u}", timeout_ms);
	rdma_start_at(i, &(const struct rdma_host){ link_now, PIECES, extra });
}

static void run(const struct cause *c, const char *const *link, uint32_t timeout_ms)
{
	link_now = link;
	for (int i = 0; i < 2; i++)
		start_at(i, timeout_ms);
	trial_far_open_owner(&trials, rdma_two.daemons[0].socket);
	trial_far_open_user(&trials, rdma_two.daemons[1].socket);
	trials_run(&trials, c);
	trial_far_close_user(&trials);
	trial_far_close_owner();
	tentd_pair_end(&rdma_two);
}

/* ---- what is asked back ------------------------------------------------ */

static void what_is_canceled_moves_no_more(void **state)
{
	static const struct cause by_roce = {
		.name = "cancel, over RoCE", .rules = { TENT_RULE_CANCELED },
		.strike = trial_cancel, .restore = trial_far_await,
	}, by_infiniband = {
		.name = "cancel, over InfiniBand", .rules = { TENT_RULE_CANCELED },
		.strike = trial_cancel, .restore = trial_far_await,
	};

	(void)state;
	run(&by_roce, roce, NEVER_MS);
	run(&by_infiniband, infiniband, NEVER_MS);
}

static void what_is_out_of_time_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "timeout", .rules = { TENT_RULE_TIMEOUT }, .restore = trial_far_await,
	};

	(void)state;
	run(&cause, roce, 50);
}

static void memory_that_is_unregistered_is_left_alone(void **state)
{
	static const struct cause cause = {
		.name = "unregister", .rules = { TENT_RULE_SOURCE_GONE, TENT_RULE_TARGET_GONE },
		.strike = trial_far_take, .restore = trial_far_give,
	};

	(void)state;
	run(&cause, roce, NEVER_MS);
}

/* ---- what goes away ---------------------------------------------------- */

static void stop_user(struct trials *t)
{
	(void)t;
	assert_int_equal(tentd_end(&rdma_two.daemons[1], SIGTERM), 0);
}

static void restart_user(struct trials *t)
{
	trial_far_close_user(t);
	tentd_cleanup(&rdma_two.daemons[1]);
	start_at(1, NEVER_MS);
	trial_far_open_user(t, rdma_two.daemons[1].socket);
}

static void what_a_stopping_engine_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "engine stop", .rules = { TENT_RULE_ENGINE_STOPPED },
		.strike_all = stop_user, .restore = restart_user,
	};

	(void)state;
	run(&cause, infiniband, NEVER_MS);
}

static void kill_peer(struct trials *t)
{
	(void)t;
	tentd_end(&rdma_two.daemons[0], SIGKILL);
}

static void next_peer(struct trials *t)
{
	trial_far_close_owner();
	tentd_cleanup(&rdma_two.daemons[0]);
	start_at(0, NEVER_MS);
	trial_far_next_owner(t, rdma_two.daemons[0].socket);
}

static void what_the_kill_of_a_peer_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "peer kill", .rules = { TENT_RULE_PEER_LOST, TENT_RULE_TARGET_GONE },
		.strike_all = kill_peer, .opcode = trial_far_mostly_read, .restore = next_peer,
	};

	(void)state;
	run(&cause, roce, NEVER_MS);
}

/* Or it would be nothing to end them then. */
static void a_wire_that_stalls_has_bytes_on_their_way(void **state)
{
	(void)state;
	if (!stalls)
		skip();
	print_message("%llu bytes were on their way in %llu stalls\n",
		      (unsigned long long)stalled_bytes, (unsigned long long)stalls);
	assert_true(stalled_bytes > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_canceled_moves_no_more),
		cmocka_unit_test(what_is_out_of_time_moves_no_more),
		cmocka_unit_test(memory_that_is_unregistered_is_left_alone),
		cmocka_unit_test(what_a_stopping_engine_ends_moves_no_more),
		cmocka_unit_test(what_the_kill_of_a_peer_ends_moves_no_more),
		cmocka_unit_test(a_wire_that_stalls_has_bytes_on_their_way),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
