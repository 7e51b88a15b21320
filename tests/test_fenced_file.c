/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fenced_file.c - an end that is told is an end: requests between memory, shared and
 * private, and a file that are ended in mid-transfer by each cause there is. A file has
 * no owner who could die.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/tentd.h"
#include "tests/common/trial.h"

/* tent(7): the kernel's own result is the end; that of private memory may take so long. */
#define BOUND_NS 100000000u
#define SMALL "transports/file/chunk_bytes=16384", "transports/file/direct=false"

static const char *const by_uring[] = { SMALL, NULL };
static const char *const by_threads[] = { SMALL, "transports/file/io_uring=false", NULL };
static const char *const out_of_time[] = { SMALL, "engine/request_timeout_ms=1", NULL };

static struct trials trials = {
	.backend = "file", .bytes = 512 << 10, .bound_ns = BOUND_NS, .exact = true,
};
static struct tentd tentd;
static struct tent_client *user;
static char path[48];

static int setup(void **state)
{
	int fd;

	(void)state;
	strcpy(path, "/var/tmp/tent-fenced-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(TRIAL_PLACES * trials.bytes)), 0);
	trials_open(&trials, fd);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	trials_close(&trials);
	unlink(path);
	return 0;
}

/* ---- who takes part ---------------------------------------------------- */

static bool is_private(const struct trial *p)
{
	return p->place >> 1 & 1;
}

static void start(const char *const *options)
{
	const char *args[9] = { NULL };
	char name[64];

	for (int i = 0; options[i]; i++) {
		args[2 * i] = "-o";
		args[2 * i + 1] = options[i];
	}
	tentd_prepare(&tentd);
	tentd_start_ready(&tentd, args);
	assert_int_equal(tent_client_attach(tentd.socket, NULL, &user), 0);
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		trial_register(&trials, &trials.places[i], user, false,
			       is_private(&trials.places[i]));
	trials_attach(&trials, user);
	snprintf(name, sizeof(name), "file://%s", path);
	trials.id = far_open_it(user, name);
}

static void end_user(void)
{
	trials_detach(&trials);
	tent_client_detach(user);
}

static void run(const struct cause *c, const char *const *options)
{
	start(options);
	trials_run(&trials, c);
	end_user();
	assert_int_equal(tentd_end(&tentd, SIGTERM), 0);
	tentd_cleanup(&tentd);
}

/* ---- tests ------------------------------------------------------------- */

static void what_is_canceled_moves_no_more(void **state)
{
	static const struct cause causes[] = {
		{ .name = "cancel, by io_uring", .rules = { TENT_RULE_CANCELED },
		  .strike = trial_cancel },
		{ .name = "cancel, by threads", .rules = { TENT_RULE_CANCELED },
		  .strike = trial_cancel },
	};

	(void)state;
	run(&causes[0], by_uring);
	run(&causes[1], by_threads);
}

static void what_is_out_of_time_moves_no_more(void **state)
{
	static const struct cause cause = { .name = "timeout", .rules = { TENT_RULE_TIMEOUT } };

	(void)state;
	run(&cause, out_of_time);
}

static uint8_t *take_memory(struct trials *t, struct trial *p)
{
	assert_int_equal(tent_client_unregister(user, p->mine, t->bytes), 0);
	return p->mine;
}

static void give_memory(struct trials *t)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++)
		if (t->flight[i]->struck)
			trial_register(t, t->flight[i], user, false, is_private(t->flight[i]));
}

static void memory_that_is_unregistered_is_left_alone(void **state)
{
	static const struct cause cause = {
		.name = "unregister", .rules = { TENT_RULE_SOURCE_GONE }, .strike = take_memory,
		.restore = give_memory,
	};

	(void)state;
	run(&cause, by_uring);
}

static void stop_tentd(struct trials *t)
{
	(void)t;
	assert_int_equal(tentd_end(&tentd, SIGTERM), 0);
}

static void restart_tentd(struct trials *t)
{
	(void)t;
	end_user();
	tentd_cleanup(&tentd);
	start(by_uring);
}

static void what_a_stopping_engine_ends_moves_no_more(void **state)
{
	static const struct cause cause = {
		.name = "engine stop", .rules = { TENT_RULE_ENGINE_STOPPED },
		.strike_all = stop_tentd, .restore = restart_tentd,
	};

	(void)state;
	run(&cause, by_uring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_canceled_moves_no_more),
		cmocka_unit_test(what_is_out_of_time_moves_no_more),
		cmocka_unit_test(memory_that_is_unregistered_is_left_alone),
		cmocka_unit_test(what_a_stopping_engine_ends_moves_no_more),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
