/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fenced_tcp.c - an end that is told is an end, on both hosts: requests to memory of
 * another host that are ended in mid-transfer by each cause there is, while the cable is
 * slow, and now and then loses everything for a while.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/tentd_pair.h"
#include "tests/common/trial_far.h"

#define FENCE_MS 300u		/* peers.md: the bound is fence_ms, whatever it is */
#define KEEPALIVE_MS 100u
#define SILENCE_MS (3 * KEEPALIVE_MS + 100)	/* the same: then the link is dead */
#define NEVER_MS 60000u		/* a timeout that does not come in time */
#define MBIT_S 400u

static void lose(bool all);

static struct tentd_pair two;	/* the owner's, the user's */
static struct trials trials = { .backend = "tcp", .bytes = 256 << 10, .lose = lose };

static int setup(void **state)
{
	(void)state;
	tentd_pair_open(&two);
	if (two.permitted)
		hosts_throttle(&two.hosts, MBIT_S);
	trials_open(&trials, -1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	trials_close(&trials);
	tentd_pair_close(&two);
	return 0;
}

/* ---- who takes part ---------------------------------------------------- */

static void start_at(int i, uint32_t timeout_ms, bool io_uring)
{
	char peers[128], more[192];

	snprintf(peers, sizeof(peers), "\"secret_file\": \"%s\", \"keepalive_ms\": %u",
		 two.secret, KEEPALIVE_MS);
	snprintf(more, sizeof(more), "\"engine\": {\"request_timeout_ms\": %u}, \"transports\": "
		 "{\"tcp\": {\"fence_ms\": %u, \"chunk_bytes\": 16384, \"io_uring\": %s}}",
		 timeout_ms, FENCE_MS, io_uring ? "true" : "false");
	tentd_pair_start(&two, i, HOSTS_IPV4, peers, more);
}

static void start(uint32_t timeout_ms, bool io_uring)
{
	for (int i = 0; i < 2; i++)
		start_at(i, timeout_ms, io_uring);
	trial_far_open_owner(&trials, two.daemons[0].socket);
	trial_far_open_user(&trials, two.daemons[1].socket);
}

static void end(void)
{
	trial_far_close_user(&trials);
	trial_far_close_owner();
	tentd_pair_end(&two);
}

static void lose(bool all)
{
	hosts_lose(&two.hosts, all);
}

static void run(const struct cause *c, uint32_t timeout_ms, bool io_uring, uint64_t bound_ms)
{
	if (!two.permitted)
		skip();
	trials.bound_ns = bound_ms * 1000000;
	start(timeout_ms, io_uring);
	trials_run(&trials, c);
	end();
}

/* ---- what is asked back ------------------------------------------------ */

static void what_is_canceled_moves_no_more(void **state)
{
	static const struct cause by_uring = {
		.name = "cancel, by io_uring", .rules = { TENT_RULE_CANCELED },
		.strike = trial_cancel, .restore = trial_far_await,
	}, by_epoll = {
		.name = "cancel, by epoll", .rules = { TENT_RULE_CANCELED },
		.strike = trial_cancel, .restore = trial_far_await,
	};

	(void)state;
	run(&by_uring, NEVER_MS, true, FENCE_MS);
	run(&by_epoll, NEVER_MS, false, FENCE_MS);
}

static void what_is_out_of_time_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "timeout", .rules = { TENT_RULE_TIMEOUT }, .restore = trial_far_await,
	};

	(void)state;
	run(&cause, 20, true, FENCE_MS);
}

static void memory_that_is_unregistered_is_left_alone(void **state)
{
	static const struct cause cause = {
		.name = "unregister", .rules = { TENT_RULE_SOURCE_GONE, TENT_RULE_TARGET_GONE },
		.strike = trial_far_take, .restore = trial_far_give,
	};

	(void)state;
	run(&cause, NEVER_MS, true, FENCE_MS);
}

/* ---- what goes away ---------------------------------------------------- */

static void stop_user(struct trials *t)
{
	(void)t;
	assert_int_equal(tentd_end(&two.daemons[1], SIGTERM), 0);
}

static void restart_user(struct trials *t)
{
	trial_far_close_user(t);
	tentd_cleanup(&two.daemons[1]);
	start_at(1, NEVER_MS, true);
	trial_far_open_user(t, two.daemons[1].socket);
}

static void what_a_stopping_engine_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "engine stop", .rules = { TENT_RULE_ENGINE_STOPPED },
		.strike_all = stop_user, .restore = restart_user,
	};

	(void)state;
	run(&cause, NEVER_MS, true, FENCE_MS);
}

static void kill_peer(struct trials *t)
{
	(void)t;
	tentd_end(&two.daemons[0], SIGKILL);
}

static void next_peer(struct trials *t)
{
	trial_far_close_owner();
	tentd_cleanup(&two.daemons[0]);
	start_at(0, NEVER_MS, true);
	trial_far_next_owner(t, two.daemons[0].socket);
}

static void what_the_kill_of_a_peer_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "peer kill", .rules = { TENT_RULE_PEER_LOST, TENT_RULE_TARGET_GONE },
		.strike_all = kill_peer, .opcode = trial_far_mostly_read, .restore = next_peer,
	};

	(void)state;
	run(&cause, NEVER_MS, true, FENCE_MS);
}

static void cut(struct trials *t)
{
	(void)t;
	lose(true);
}

static void heal(struct trials *t)
{
	lose(false);
	trial_far_await(t);
}

static void what_a_cut_ends_moves_no_more_when_it_is_healed(void **state)
{
	static const struct cause cause = {
		.name = "cut", .rules = { TENT_RULE_PEER_LOST }, .strike_all = cut,
		.opcode = trial_far_mostly_read, .restore = heal,
	};

	(void)state;
	trials.lose = NULL;
	run(&cause, NEVER_MS, true, SILENCE_MS + FENCE_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_canceled_moves_no_more),
		cmocka_unit_test(what_is_out_of_time_moves_no_more),
		cmocka_unit_test(memory_that_is_unregistered_is_left_alone),
		cmocka_unit_test(what_a_stopping_engine_ends_moves_no_more),
		cmocka_unit_test(what_the_kill_of_a_peer_ends_moves_no_more),
		cmocka_unit_test(what_a_cut_ends_moves_no_more_when_it_is_healed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
