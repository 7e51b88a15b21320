/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fenced_shm.c - an end that is told is an end: requests between memory of programs
 * of this host, shared and private at either end, that are ended in mid-transfer by each
 * cause there is.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/tentd.h"
#include "tests/common/trial.h"

#define BOUND_NS 100000000u	/* tent(7): private memory that does not answer */

/* Of an owner in a process of its own. */
struct board {
	uint32_t ready;
	char segment[TENT_CTL_NAME_SIZE];
};

static struct trials trials = {
	.backend = "shm", .bytes = 512 << 10, .bound_ns = BOUND_NS, .exact = true,
};
static struct tentd tentd;
static struct tent_client *user, *owner;	/* owner: NULL, or of this process */
static pid_t owner_pid;
static struct board *board;

static int setup(void **state)
{
	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	trials_open(&trials, -1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	trials_close(&trials);
	munmap(board, sizeof(*board));
	return 0;
}

/* ---- who takes part ---------------------------------------------------- */

static bool is_private(const struct trial *p, bool theirs)
{
	return p->place >> (theirs ? 1 : 2) & 1;
}

static void register_all(struct tent_client *c, bool theirs)
{
	for (uint32_t i = 0; i < TRIAL_PLACES; i++) {
		const struct trial *p = &trials.places[i];

		trial_register(&trials, p, c, theirs, is_private(p, theirs));
	}
}

static void start_tentd(const char *option)
{
	const char *const args[] = { option ? "-o" : NULL, option, NULL };

	tentd_prepare(&tentd);
	tentd_start_ready(&tentd, args);
}

static void end_tentd(void)
{
	assert_int_equal(tentd_end(&tentd, SIGTERM), 0);
	tentd_cleanup(&tentd);
}

static void start_user(const char *segment)
{
	assert_int_equal(tent_client_attach(tentd.socket, NULL, &user), 0);
	register_all(user, false);
	trials_attach(&trials, user);
	trials.id = far_open_it(user, segment);
}

static void end_user(void)
{
	trials_detach(&trials);
	tent_client_detach(user);
}

static void start(const char *option)
{
	start_tentd(option);
	assert_int_equal(tent_client_attach(tentd.socket, NULL, &owner), 0);
	register_all(owner, true);
	start_user(tent_client_segment(owner));
}

static void end(void)
{
	end_user();
	tent_client_detach(owner);
	end_tentd();
}

/* ---- what is asked back ------------------------------------------------ */

static void what_is_canceled_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "cancel", .rules = { TENT_RULE_CANCELED }, .strike = trial_cancel,
	};

	(void)state;
	start(NULL);
	trials_run(&trials, &cause);
	end();
}

static void what_is_out_of_time_moves_no_more(void **state)
{
	static const struct cause cause = { .name = "timeout", .rules = { TENT_RULE_TIMEOUT } };

	(void)state;
	start("engine/request_timeout_ms=1");
	trials_run(&trials, &cause);
	end();
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
			trial_register(t, p, theirs ? owner : user, theirs,
				       is_private(p, theirs));
	}
}

static void memory_that_is_unregistered_is_left_alone(void **state)
{
	static const struct cause cause = {
		.name = "unregister", .rules = { TENT_RULE_SOURCE_GONE, TENT_RULE_TARGET_GONE },
		.strike = take_memory, .restore = give_memory,
	};

	(void)state;
	start(NULL);
	trials_run(&trials, &cause);
	end();
}

/* ---- what goes away ---------------------------------------------------- */

static void stop_tentd(struct trials *t)
{
	(void)t;
	assert_int_equal(tentd_end(&tentd, SIGTERM), 0);
}

static void restart_tentd(struct trials *t)
{
	(void)t;
	end_user();
	tent_client_detach(owner);
	tentd_cleanup(&tentd);
	start(NULL);
}

static void what_a_stopping_engine_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "engine stop",
		.rules = { TENT_RULE_ENGINE_STOPPED, TENT_RULE_TARGET_GONE },
		.strike_all = stop_tentd, .restore = restart_tentd,
	};

	(void)state;
	start(NULL);
	trials_run(&trials, &cause);
	end();
}

static void be_owner(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	need(tent_client_attach(tentd.socket, NULL, &owner) == 0);
	register_all(owner, true);
	strcpy(board->segment, tent_client_segment(owner));
	store_release(&board->ready, 1u);
	for (;;)
		pause();
}

static void start_owner(void)
{
	board->ready = 0;
	fflush(NULL);
	owner_pid = fork();
	assert_true(owner_pid >= 0);
	if (!owner_pid)
		be_owner();
	while (!load_acquire(&board->ready))
		sched_yield();
}

static void kill_owner(struct trials *t)
{
	(void)t;
	kill(owner_pid, SIGKILL);
}

static void next_owner(struct trials *t)
{
	engine_fix_reap(owner_pid);
	assert_int_equal(tent_client_close_segment(user, t->id), 0);
	start_owner();
	t->id = far_open_it(user, board->segment);
}

static void what_the_death_of_an_owner_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "peer kill", .rules = { TENT_RULE_TARGET_GONE, TENT_RULE_COPY_FAULT },
		.strike_all = kill_owner, .restore = next_owner,
	};

	(void)state;
	start_tentd(NULL);
	start_owner();
	start_user(board->segment);
	trials_run(&trials, &cause);
	end_user();
	kill(owner_pid, SIGKILL);
	engine_fix_reap(owner_pid);
	end_tentd();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_canceled_moves_no_more),
		cmocka_unit_test(what_is_out_of_time_moves_no_more),
		cmocka_unit_test(memory_that_is_unregistered_is_left_alone),
		cmocka_unit_test(what_a_stopping_engine_ends_moves_no_more),
		cmocka_unit_test(what_the_death_of_an_owner_ends_moves_no_more),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
