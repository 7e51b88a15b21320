/* SPDX-License-Identifier: Apache-2.0 */
/* test_poller_thread.c - the poller in a thread: sleep, wake, orders from others. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/barrier.h"
#include "tests/common/rig.h"

static struct poller_options threaded(bool adaptive)
{
	return (struct poller_options){
		.adaptive = adaptive, .threaded = true, .core = -1, .spin_ns = 1000,
		.age_ns = 10000000, .request_timeout_ns = 10000000000, .turn_slots = 64,
		.turn_bytes = 65536, .answer_fd = -1, .event_fd = -1,
	};
}

static struct tent_completion wait_completion(struct rig_ring *ring)
{
	struct tent_completion c;

	for (uint32_t spins = 0; !rig_reap(ring, &c); spins++)
		if (spins > 10000)
			sched_yield();
	return c;
}

static uint64_t sleeps(struct rig *r)
{
	struct poller_stats s;

	poller_stats_read(r->poller, &s);
	return s.sleeps;
}

/* Each time the poller has gone to sleep again before the next request comes. */
static void a_sleeping_poller_is_woken_by_each_request(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = threaded(true) });

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		struct rig_ring *ring = &r->rings[i % RIG_RINGS];
		uint64_t before = sleeps(r);

		while (sleeps(r) == before ||
		       !(load_acquire(&ring->host->line->flags) & TENT_ENGINE_NEED_WAKE))
			sched_yield();
		rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 64);
		rig_publish(ring, 1, TENT_OP_REQUEST, 0);
		assert_int_equal(wait_completion(ring).status, TENT_STATUS_COMPLETED);
	}
	rig_stop(r);
}

#define EDGES 30000u

/* No wakeup is lost around the moment of falling asleep: so many requests, published at
 * all phases of it, and more until the poller slept. A lost one would be found when the sleep has run its time: that may
 * happen to a request that comes just then, or from a thread that was kept waiting for a
 * CPU itself, but not to many. */
static void no_wakeup_is_lost_at_the_edge_of_sleep(void **state)
{
	uint64_t seed = 9, late = 0;
	struct rig_ring *ring;
	struct rig *r;

	(void)state;
	barrier_reaches_all_cores();
	r = rig_new(&(struct rig_options){ .poller = threaded(true) });
	ring = &r->rings[0];
	for (uint32_t i = 0; i < EDGES || !sleeps(r); i++) {
		uint64_t before;

		if (i % 100 == 0)
			sched_yield();	/* on one core it sleeps only so */
		for (volatile uint32_t spin = random_next(&seed) % 1000; spin; spin--)
			;
		rig_slot(ring, 0);
		before = load_relaxed(&r->poller->slept_out);
		rig_publish(ring, 1, TENT_OP_NOP, 0);
		assert_int_equal(wait_completion(ring).status, TENT_STATUS_COMPLETED);
		late += load_relaxed(&r->poller->slept_out) != before;
	}
	print_message("late %llu of %llu sleeps\n", (unsigned long long)late,
		      (unsigned long long)sleeps(r));
	assert_true(late < 10 + sleeps(r) / 200);
	rig_stop(r);
}

static void a_busy_poller_never_sleeps(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = threaded(false) });
	struct poller_stats s;
	uint64_t turns;

	(void)state;
	poller_stats_read(r->poller, &s);
	turns = s.turns;
	while (s.turns < turns + 10000)
		poller_stats_read(r->poller, &s);
	assert_int_equal(s.sleeps, 0);
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		assert_false(load_relaxed(&r->rings[k].host->line->flags) &
			     TENT_ENGINE_NEED_WAKE);
	rig_stop(r);
}

static void a_backend_wakes_a_sleeping_poller(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "pending=1",
						     .poller = threaded(true) });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 64);
		rig_publish(ring, 1, TENT_OP_REQUEST, 0);
		assert_int_equal(wait_completion(ring).status, TENT_STATUS_COMPLETED);
	}
	rig_stop(r);
}

static void a_client_that_sleeps_is_woken_once_per_turn(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];
	struct tent_client_line *line =
		(struct tent_client_line *)(uintptr_t)ring->host->client_line;
	struct pollfd fd = { .fd = ring->host->completion_fd, .events = POLLIN };

	(void)state;
	rig_burst(ring, 8, 0, 8);
	poller_turn(r->poller);
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	line->want_wake = TENT_WAKE_FUTEX | TENT_WAKE_EVENTFD;
	rig_burst(ring, 8, 0, 8);
	poller_turn(r->poller);
	assert_int_equal(rig_reap_all(ring), 16);
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 1);
	assert_int_equal(poll(&fd, 1, 0), 1);
	rig_stop(r);
}

/* As if its want_wake had still been on its way to us when we looked for it. */
static void sleep_unseen(struct rig_ring *ring, uint32_t cq_head)
{
	struct tent_client_line *line =
		(struct tent_client_line *)(uintptr_t)ring->host->client_line;

	line->cq_head = cq_head;
	line->want_wake = TENT_WAKE_FUTEX | TENT_WAKE_EVENTFD;
}

static void idle_turns(struct rig *r)
{
	for (int i = 0; i < 1000; i++)
		poller_turn(r->poller);
}

static void a_client_that_was_missed_is_woken_by_an_idle_engine_once(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];
	uint8_t tokens[64];

	(void)state;
	rig_burst(ring, 8, 0, 8);
	poller_turn(r->poller);
	sleep_unseen(ring, 0);
	idle_turns(r);
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 1);
	assert_int_equal(read(ring->host->completion_fd, tokens, sizeof(tokens)), 8);
	assert_int_equal(rig_reap_all(ring), 8);
	rig_stop(r);
}

static void a_client_that_was_missed_is_woken_while_others_keep_the_engine_busy(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=1" });
	struct rig_ring *ring = &r->rings[0];
	uint64_t tick;

	(void)state;
	rig_slot(ring, 0);
	rig_publish(ring, 1, TENT_OP_NOP, 0);
	poller_turn(r->poller);
	sleep_unseen(ring, 0);
	rig_burst(&r->rings[1], 1, 0, 8);
	for (int ticks = 0; ticks < 2; ticks += r->poller->next_tick != tick) {
		tick = r->poller->next_tick;
		poller_turn(r->poller);
		assert_int_not_equal(load_relaxed(&r->poller->in_flight), 0);
	}
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 1);
	rig_reap_all(ring);
	rig_stop(r);
}

static void a_client_that_waits_for_what_is_to_come_is_left_asleep(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	rig_burst(ring, 8, 0, 8);
	poller_turn(r->poller);
	assert_int_equal(rig_reap_all(ring), 8);
	sleep_unseen(ring, 8);
	idle_turns(r);
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 0);
	rig_stop(r);
}

static void answers_are_written_to_the_answer_fd(void **state)
{
	struct poller_options o = threaded(true);
	struct rig *r;
	uint64_t count = 0;

	(void)state;
	o.answer_fd = eventfd(0, EFD_NONBLOCK);
	r = rig_new(&(struct rig_options){ .poller = o });
	rig_order(r, POLLER_DROP_REGION, NULL, &r->clients[0].regions[0],
		  TENT_RULE_TARGET_GONE);
	while (read(o.answer_fd, &count, sizeof(count)) < 0)
		assert_int_equal(errno, EAGAIN);
	assert_true(count >= RIG_RINGS);	/* their ADD_RINGs, at least */
	rig_stop(r);
	close(o.answer_fd);
}

struct sender {
	struct rig *rig;
	pthread_t thread;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;

	for (int i = 0; i < 500; i++)
		rig_order(s->rig, POLLER_DROP_REGION, NULL, &s->rig->clients[0].regions[3],
			  TENT_RULE_TARGET_GONE);
	return NULL;
}

static void orders_of_several_senders_are_all_answered(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = threaded(true) });
	struct sender senders[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		senders[i].rig = r;
		assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many,
						&senders[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(senders[i].thread, NULL);
	rig_stop(r);
}

static void a_poller_can_be_pinned_and_a_core_that_is_not_there_is_an_error(void **state)
{
	struct poller_options o = threaded(true);
	cpu_set_t set;
	struct poller *p = NULL;
	struct rig *r;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (o.core = 0; !CPU_ISSET(o.core, &set); o.core++)
		;
	r = rig_new(&(struct rig_options){ .poller = o });
	assert_int_equal(pthread_getaffinity_np(r->poller->thread, sizeof(set), &set), 0);
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(CPU_ISSET(o.core, &set));
	rig_stop(r);
	o.event_fd = poller_event_fd_create();
	o.core = CPU_SETSIZE;
	assert_true(poller_create(&p, &o, NULL, 0) < 0);
	o.core = CPU_SETSIZE - 1;
	assert_true(poller_create(&p, &o, NULL, 0) < 0);
	assert_null(p);
	close(o.event_fd);
}

static void spinning_that_must_yield_is_told_to_the_rings(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = threaded(false) });
	const uint32_t *flags = &r->rings[0].host->line->flags;

	(void)state;
	for (int round = 0; round < 3; round++) {
		poller_set_yield(r->poller, true);
		while (!(load_acquire(flags) & TENT_ENGINE_SPIN_YIELD))
			sched_yield();
		poller_set_yield(r->poller, false);
		while (load_acquire(flags) & TENT_ENGINE_SPIN_YIELD)
			sched_yield();
	}
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sleeping_poller_is_woken_by_each_request),
		cmocka_unit_test(no_wakeup_is_lost_at_the_edge_of_sleep),
		cmocka_unit_test(a_busy_poller_never_sleeps),
		cmocka_unit_test(a_backend_wakes_a_sleeping_poller),
		cmocka_unit_test(a_client_that_sleeps_is_woken_once_per_turn),
		cmocka_unit_test(a_client_that_was_missed_is_woken_by_an_idle_engine_once),
		cmocka_unit_test(a_client_that_was_missed_is_woken_while_others_keep_the_engine_busy),
		cmocka_unit_test(a_client_that_waits_for_what_is_to_come_is_left_asleep),
		cmocka_unit_test(answers_are_written_to_the_answer_fd),
		cmocka_unit_test(orders_of_several_senders_are_all_answered),
		cmocka_unit_test(a_poller_can_be_pinned_and_a_core_that_is_not_there_is_an_error),
		cmocka_unit_test(spinning_that_must_yield_is_told_to_the_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
