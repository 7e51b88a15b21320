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

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/tentd_pair.h"
#include "tests/common/trial.h"

#define FENCE_MS 300u		/* peers.md: the bound is fence_ms, whatever it is */
#define KEEPALIVE_MS 100u
#define SILENCE_MS (3 * KEEPALIVE_MS + 100)	/* the same: then the link is dead */
#define NEVER_MS 60000u		/* a timeout that does not come in time */
#define MBIT_S 400u

static void lose(bool all);

static struct tentd_pair two;	/* the owner's, the user's */
static struct trials trials = { .backend = "tcp", .bytes = 256 << 10, .lose = lose };
static struct tent_client *owner, *user;

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

static void open_owner(void)
{
	assert_int_equal(tent_client_attach(two.daemons[0].socket, "kv", &owner), 0);
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		trial_register(&trials, &trials.places[i], owner, true, false);
}

static void open_user(void)
{
	assert_int_equal(tent_client_attach(two.daemons[1].socket, NULL, &user), 0);
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		trial_register(&trials, &trials.places[i], user, false, false);
	trials_attach(&trials, user);
	trials.id = far_open_it(user, tent_client_segment(owner));
}

static void close_user(void)
{
	trials_detach(&trials);
	tent_client_detach(user);
}

static void start(uint32_t timeout_ms, bool io_uring)
{
	for (int i = 0; i < 2; i++)
		start_at(i, timeout_ms, io_uring);
	open_owner();
	open_user();
}

static void end(void)
{
	close_user();
	tent_client_detach(owner);
	tentd_pair_end(&two);
}

static void lose(bool all)
{
	hosts_lose(&two.hosts, all);
}

/* A link that was lost is back, and what was unregistered is known again. */
static void await_segment(struct trials *t)
{
	far_expect_buffers(user, t->id, TRIAL_PLACES);
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
		.strike = trial_cancel, .restore = await_segment,
	}, by_epoll = {
		.name = "cancel, by epoll", .rules = { TENT_RULE_CANCELED },
		.strike = trial_cancel, .restore = await_segment,
	};

	(void)state;
	run(&by_uring, NEVER_MS, true, FENCE_MS);
	run(&by_epoll, NEVER_MS, false, FENCE_MS);
}

static void what_is_out_of_time_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "timeout", .rules = { TENT_RULE_TIMEOUT }, .restore = await_segment,
	};

	(void)state;
	run(&cause, 20, true, FENCE_MS);
}

static bool takes_theirs(const struct trial *p)
{
	return p->number >> 1 & 1;
}

static uint8_t *take_memory(struct trials *t, struct trial *p)
{
	bool theirs = takes_theirs(p);
	uint8_t *memory = theirs ? p->theirs : p->mine;

	assert_int_equal(tent_client_unregister(theirs ? owner : user, memory, t->bytes), 0);
	return memory;
}

static void give_memory(struct trials *t)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++) {
		const struct trial *p = t->flight[i];
		bool theirs = takes_theirs(p);

		if (p->struck)
			trial_register(t, p, theirs ? owner : user, theirs, false);
	}
	await_segment(t);
}

static void memory_that_is_unregistered_is_left_alone(void **state)
{
	static const struct cause cause = {
		.name = "unregister", .rules = { TENT_RULE_SOURCE_GONE, TENT_RULE_TARGET_GONE },
		.strike = take_memory, .restore = give_memory,
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
	(void)t;
	close_user();
	tentd_cleanup(&two.daemons[1]);
	start_at(1, NEVER_MS, true);
	open_user();
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

/* Nobody can say that WRITEs are fenced, so most are READs. */
static int mostly_read(uint64_t number)
{
	return number % TRIAL_FLIGHT ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
}

static void kill_peer(struct trials *t)
{
	(void)t;
	tentd_end(&two.daemons[0], SIGKILL);
}

static void next_peer(struct trials *t)
{
	tent_client_detach(owner);
	tentd_cleanup(&two.daemons[0]);
	start_at(0, NEVER_MS, true);
	open_owner();
	far_expect_buffers(user, t->id, -TENT_RULE_TARGET_GONE);
	assert_int_equal(tent_client_close_segment(user, t->id), 0);
	t->id = far_open_it(user, tent_client_segment(owner));
}

static void what_the_kill_of_a_peer_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "peer kill", .rules = { TENT_RULE_PEER_LOST, TENT_RULE_TARGET_GONE },
		.strike_all = kill_peer, .opcode = mostly_read, .restore = next_peer,
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
	await_segment(t);
}

static void what_a_cut_ends_moves_no_more_when_it_is_healed(void **state)
{
	static const struct cause cause = {
		.name = "cut", .rules = { TENT_RULE_PEER_LOST }, .strike_all = cut,
		.opcode = mostly_read, .restore = heal,
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
