/* SPDX-License-Identifier: Apache-2.0 */
/* test_wakes.c - what waking its clients may cost a poller, and who is charged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/complete.h"
#include "tests/common/rig.h"
#include "tests/common/waiters.h"

#define CHEAP_NS 1000
#define COSTLY_NS 1000000

/* Between two looks at a thread's CPU time as much passes as the test says; 0: as it does, to
 * which a machine that is shared adds what others took. */
static long step_ns;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static long cpu_ns;

	if (clock != CLOCK_THREAD_CPUTIME_ID || !step_ns)
		return (int)syscall(SYS_clock_gettime, clock, t);
	cpu_ns += step_ns;
	*t = (struct timespec){ .tv_sec = cpu_ns / 1000000000, .tv_nsec = cpu_ns % 1000000000 };
	return 0;
}

/* From now on the client of this ring wants a token for each publication. */
static void want_tokens(struct rig_ring *ring)
{
	struct tent_client_line *line =
		(struct tent_client_line *)(uintptr_t)ring->host->client_line;

	line->want_wake = TENT_WAKE_EVENTFD;
}

static bool take_token(struct rig_ring *ring)
{
	uint64_t token;

	return read(ring->host->completion_fd, &token, sizeof(token)) == sizeof(token);
}

/* Publishes one completion. True: the turn that did so woke the client. */
static bool is_woken(struct rig *r, struct rig_ring *ring)
{
	rig_slot(ring, 0);
	rig_publish(ring, 1, TENT_OP_NOP, 0);
	poller_turn(r->poller);
	return take_token(ring);
}

/* The late look does not depend on time: on how many turns were idle. */
static bool is_woken_late(struct rig *r, struct rig_ring *ring)
{
	bool woken = false;

	for (int i = 0; i < 1000 && !woken; i++) {
		poller_turn(r->poller);
		woken = take_token(ring);
	}
	return woken;
}

static void a_client_whose_wakes_are_cheap_is_always_woken(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	step_ns = CHEAP_NS;
	want_tokens(ring);
	for (int i = 0; i < 2000; i++) {
		ring->client->wakes.suspect |= i % 2;	/* pushed from its core meanwhile */
		assert_true(is_woken(r, ring));
		assert_int_equal(ring->client->wakes.until, 0);
		rig_reap_all(ring);
	}
	rig_stop(r);
}

static void a_wake_that_cost_its_poller_time_is_charged(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct wake_account *a = &r->clients[0].wakes;
	uint64_t before = ticks_now();

	(void)state;
	step_ns = COSTLY_NS;
	want_tokens(&r->rings[0]);
	a->suspect = true;
	assert_true(is_woken(r, &r->rings[0]));
	assert_true(a->until - before >= poller_ticks(r->poller, COSTLY_NS * WAKE_PART));
	rig_reap_all(&r->rings[0]);
	rig_stop(r);
}

static void a_tenant_that_has_to_wait_does_so_with_all_its_rings(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	(void)state;
	r->clients[0].wakes.until = ticks_now() + ((uint64_t)1 << 60);
	for (int i = 0; i < RIG_RINGS; i++) {
		want_tokens(&r->rings[i]);
		assert_int_equal(is_woken(r, &r->rings[i]), i % 2);
		assert_int_equal(is_woken_late(r, &r->rings[i]), false);
		rig_reap_all(&r->rings[i]);
	}
	rig_stop(r);
}

static void a_wake_that_was_put_off_comes_once_its_time_is_over(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	want_tokens(ring);
	ring->client->wakes.until = ticks_now() + ((uint64_t)1 << 60);
	assert_false(is_woken(r, ring));
	ring->client->wakes.until = ticks_now();
	assert_true(is_woken_late(r, ring));
	assert_false(is_woken_late(r, ring));
	rig_reap_all(ring);
	rig_stop(r);
}

/* The first one makes its tenant suspect, the second is measured and paid for. */
static void a_client_that_many_wait_on_waits_many_times_what_its_wake_cost(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];
	struct wake_account *a = &ring->client->wakes;
	struct waiters waiters;
	uint64_t before;

	(void)state;
	step_ns = 0;
	want_tokens(ring);
	waiters_start(&waiters, ring->host->completion_fd, -1);
	assert_true(is_woken(r, ring));
	assert_true(a->suspect);
	assert_int_equal(a->until, 0);
	before = ticks_now();
	assert_true(is_woken(r, ring));
	assert_true(a->until - before > WAKE_PART * r->poller->cheap_wake_ticks);
	a->until += (uint64_t)1 << 60;	/* whatever the machine does meanwhile */
	assert_false(is_woken(r, ring));
	waiters_end(&waiters);
	step_ns = CHEAP_NS;
	a->until = ticks_now();
	assert_true(is_woken_late(r, ring));
	rig_reap_all(ring);
	assert_true(is_woken(r, ring));
	assert_int_equal(a->until, 0);	/* alone it is cheap again */
	rig_reap_all(ring);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_whose_wakes_are_cheap_is_always_woken),
		cmocka_unit_test(a_wake_that_cost_its_poller_time_is_charged),
		cmocka_unit_test(a_tenant_that_has_to_wait_does_so_with_all_its_rings),
		cmocka_unit_test(a_wake_that_was_put_off_comes_once_its_time_is_over),
		cmocka_unit_test(a_client_that_many_wait_on_waits_many_times_what_its_wake_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
