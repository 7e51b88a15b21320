/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_clock_step.c - somebody sets the wall clock while requests run: timeouts, pauses and
 * deadlines go by CLOCK_MONOTONIC and do not notice. The wall clock of this program jumps
 * at each look at it, hours ahead and back; no other clock of it does.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/clock.h"
#include "tests/common/lib_fix.h"

#define SIZE 65536u
#define TIMEOUT_MS 300u
#define HOUR_S 3600

static uint32_t looks;

static int64_t jump(void)
{
	static const int step[] = { 0, 5, -5, 400, -400, 1 };
	uint32_t i = __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);

	return (int64_t)step[i % 6] * HOUR_S;
}

/* These take the place of libc's in this program. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, t);

	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += jump();
	return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*t = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

static void the_wall_clock_of_this_program_jumps(void **state)
{
	time_t a = time(NULL), b = time(NULL);
	uint64_t began = clock_monotonic_ns();

	(void)state;
	assert_true(b - a > HOUR_S || a - b > HOUR_S);
	assert_true(clock_monotonic_ns() - began < (uint64_t)HOUR_S * 1000000000);
}

static void start(struct lib_fix *f, const char *faults, const char *timeout)
{
	const char *const options[] = { "transports/null/enable=true", faults, timeout, NULL };

	lib_fix_start(f, LIB_THREAD, SIZE, options);
}

static tent_status_t run(struct lib_fix *f, tent_request_v1_t *r)
{
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 1);
	tent_status_t status;

	r->transport_hint = TENT_TRANSPORT_MPCOMM;
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 1), 0);
	status = lib_fix_wait(f->engine, batch);
	tent_free_batch(f->engine, batch);
	return status;
}

static void a_request_times_out_when_its_time_is_over_and_not_before(void **state)
{
	struct lib_fix f;
	tent_request_v1_t r;
	uint64_t began, took;

	(void)state;
	start(&f, "transports/null/faults=pending=1,hold", "engine/request_timeout_ms=300");
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	began = clock_monotonic_ns();
	assert_int_equal(run(&f, &r).status, TENT_STATUS_TIMEOUT);
	took = clock_monotonic_ns() - began;
	assert_true(took >= (TIMEOUT_MS - 1) * 1000000ull);
	assert_true(took < (uint64_t)HOUR_S * 1000000000);
	lib_fix_stop(&f);
}

static void what_is_in_time_does_not_time_out(void **state)
{
	struct lib_fix f;
	tent_request_v1_t r;

	(void)state;
	start(&f, "transports/null/faults=pending=1", "engine/request_timeout_ms=86400000");
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	for (int i = 0; i < 200; i++) {
		time(NULL);
		assert_int_equal(tent_deadline_after_ns((uint64_t)HOUR_S * 1000000000,
							&r.deadline_ns), 0);
		assert_int_equal(run(&f, &r).status, TENT_STATUS_COMPLETED);
	}
	lib_fix_stop(&f);
}

static void a_deadline_is_as_far_ahead_as_it_was_asked_for(void **state)
{
	struct lib_fix f;
	uint64_t deadline, now;

	(void)state;
	start(&f, "transports/null/faults=", "engine/request_timeout_ms=1000");
	for (int i = 0; i < 6; i++) {
		now = tent_monotonic_now_ns();
		assert_int_equal(tent_deadline_after_ns(1000, &deadline), 0);
		assert_in_range(deadline, now + 1000, now + (uint64_t)HOUR_S * 1000000000);
	}
	lib_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wall_clock_of_this_program_jumps),
		cmocka_unit_test(a_request_times_out_when_its_time_is_over_and_not_before),
		cmocka_unit_test(what_is_in_time_does_not_time_out),
		cmocka_unit_test(a_deadline_is_as_far_ahead_as_it_was_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
