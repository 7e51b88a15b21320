/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* test_poller.c - orders of the control thread, ends of rings, sleep and wake. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "ring/wake.h"
#include "tests/barrier.h"
#include "tests/common/rig.h"

static struct rig *start(const struct rig_options *o)
{
	static struct rig r;

	rig_start(&r, o);
	return &r;
}

/* A table of one client's regions without one of them, published as the control thread
 * would. */
static void unpublish(struct rig_client *c, struct region *gone)
{
	struct region_table *t = c->segment.table;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nr; i++)
		if (t->entries[i].region != gone)
			t->entries[n++] = t->entries[i];
	t->nr = n;
}

static void send(struct rig *r, struct poller_command *c, enum poller_command_type type,
		 struct ring_state *ring, struct region *region)
{
	*c = (struct poller_command){ .type = type, .ring = ring, .region = region,
				      .rule = TENT_RULE_RING_CLOSED };
	poller_send(r->poller, c);
}

static void fill_ring(struct rig_ring *ring, uint32_t n, uint64_t target, uint64_t length)
{
	for (uint32_t i = 0; i < n; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, target, length)
			->request.requested_priority = 1 + (int)i % 3;
	rig_publish(ring, n, TENT_OP_REQUEST, 0);
}

/* ---- dropping a region -------------------------------------------------- */

static void dropping_a_region_ends_queued_requests_that_touch_it(void **state)
{
	struct rig *r = start(&(struct rig_options){ .faults = "busy=1" });
	struct rig_client *own = &r->clients[0], *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	fill_ring(ring, 6, 0, 64);			/* to the peer's region 0 */
	fill_ring(ring, 6, 2 * RIG_REGION_BYTES, 64);	/* to its region 1 */
	rig_settle(r);
	unpublish(peer, &peer->regions[1]);
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[1], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(rig_reap(ring, &c));
		assert_true(c.user_data >= 6);
		assert_int_equal(c.status, TENT_STATUS_FAILED);
		assert_int_equal(c.rule, TENT_RULE_TARGET_GONE);
		assert_int_equal(c.error, TENT_ERR_OWNER_GONE);
	}
	assert_false(rig_reap(ring, &c));
	unpublish(own, &own->regions[0]);
	rig_order(r, POLLER_DROP_REGION, NULL, &own->regions[0], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(rig_reap(ring, &c));
		assert_int_equal(c.rule, TENT_RULE_SOURCE_GONE);
	}
	rig_stop(r);
}

static void dropping_a_region_waits_for_what_the_backend_has(void **state)
{
	static const char *const faults[] = { "pending=1,hold", "pending=1,hold,late" };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct rig *r = start(&(struct rig_options){ .faults = faults[late] });
		struct region *region = &r->clients[1].regions[0];
		struct tent_completion c;

		fill_ring(&r->rings[0], 8, 0, 64);
		fill_ring(&r->rings[2], 8, 2 * RIG_REGION_BYTES, 64);
		rig_settle(r);
		rig_order(r, POLLER_DROP_REGION, NULL, region, TENT_RULE_TARGET_GONE);
		for (uint32_t i = 0; i < 8; i++) {
			assert_true(rig_reap(&r->rings[0], &c));
			assert_int_equal(c.rule, TENT_RULE_TARGET_GONE);
			assert_int_equal(c.status, TENT_STATUS_FAILED);
		}
		assert_false(rig_reap(&r->rings[2], &c));
		rig_stop(r);
	}
}

/* A long batch is half judged when a region it names goes: those requests end with the
 * reason once the batch is through, the others move. */
static void dropping_a_region_reaches_into_a_half_judged_batch(void **state)
{
	struct rig *r = start(&(struct rig_options){ .slots = 64, .completions = 64 });
	struct rig_client *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0,
			    i < 5 ? 2 * RIG_REGION_BYTES : 0, 64);
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);		/* 16 of them */
	unpublish(peer, &peer->regions[1]);
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[1], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 64; i++) {
		struct tent_completion c = rig_finish(r, ring);

		assert_int_equal(c.index, i);
		assert_int_equal(c.rule, i < 5 ? TENT_RULE_TARGET_GONE : 0);
		assert_int_equal(c.status, i < 5 ? TENT_STATUS_FAILED : TENT_STATUS_COMPLETED);
	}
	assert_int_equal(peer->memory[2 * RIG_REGION_BYTES], 0x22);
	assert_int_equal(peer->memory[0], 0x11);
	rig_stop(r);
}

/* Hints keep the way to a region: after the drop they must not lead there. */
static void a_dropped_region_is_not_found_any_more(void **state)
{
	struct rig *r = start(&(struct rig_options){ 0 });
	struct rig_client *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (int round = 0; round < 3; round++) {
		fill_ring(ring, 4, 0, 64);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(rig_finish(r, ring).status, TENT_STATUS_COMPLETED);
	}
	unpublish(peer, &peer->regions[0]);	/* the table keeps its address */
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[0], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 4; i++) {
		struct tent_slot *s = rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);

		s->request.target_offset = peer->regions[0].base;
	}
	rig_publish(ring, 4, TENT_OP_REQUEST, 0);
	assert_int_equal(rig_finish(r, ring).rule, TENT_RULE_TARGET_UNREGISTERED);
	rig_stop(r);
}

/* ---- closing a ring ----------------------------------------------------- */

static void closing_a_ring_ends_its_work_and_leaves_others_alone(void **state)
{
	static const char *const faults[] = { "busy=1", "pending=1,hold", "pending=2,hold,late",
					      "pending=3,busy=2" };

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct rig *r = start(&(struct rig_options){ .faults = faults[k] });
		uint32_t closed = 0;
		struct tent_completion c;

		fill_ring(&r->rings[0], 16, 0, 64);
		fill_ring(&r->rings[1], 16, 0, 64);
		poller_turn(r->poller);
		rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL,
			  TENT_RULE_RING_CLOSED);
		for (uint32_t i = 0; i < 16; i++) {
			assert_true(rig_reap(&r->rings[0], &c));
			closed += c.rule == TENT_RULE_RING_CLOSED;
			assert_true(c.rule == 0 || c.rule == TENT_RULE_RING_CLOSED);
		}
		assert_true(closed > 0);
		assert_false(rig_reap(&r->rings[0], &c));
		assert_int_equal(load_relaxed(&r->rings[0].host->line->end_rule),
				 TENT_RULE_RING_CLOSED);
		assert_null(r->rings[0].state->poller);
		while (rig_reap(&r->rings[1], &c))
			assert_int_equal(c.rule, 0);
		rig_stop(r);
	}
}

static void closing_an_unserved_ring_is_answered(void **state)
{
	struct rig *r = start(&(struct rig_options){ 0 });

	(void)state;
	rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL, TENT_RULE_RING_CLOSED);
	rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL, TENT_RULE_RING_CLOSED);
	rig_stop(r);
}

static void closing_in_the_middle_of_a_long_batch_forgets_or_ends_it(void **state)
{
	(void)state;
	for (uint32_t turns = 0; turns < 12; turns++) {
		struct rig *r = start(&(struct rig_options){
			.faults = "busy=1", .slots = 64, .completions = 64 });
		struct rig_ring *ring = &r->rings[0];
		struct tent_completion c;
		uint32_t n = 0;

		for (uint32_t i = 0; i < 64; i++)
			rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
		rig_publish(ring, 64, TENT_OP_REQUEST, 0);
		for (uint32_t i = 0; i < turns; i++)
			poller_turn(r->poller);
		rig_order(r, POLLER_CLOSE_RING, ring->state, NULL, TENT_RULE_RING_CLOSED);
		for (; rig_reap(ring, &c); n++)
			assert_int_equal(c.rule, TENT_RULE_RING_CLOSED);
		assert_int_equal(n, turns < 4 ? 0 : 64);	/* 4 pieces */
		assert_int_equal(ring->state->nr_free, 64);
		rig_stop(r);
	}
}

/* A drop that stands at a ring which is closed meanwhile goes on with the next one. */
static void a_drop_survives_the_close_of_the_ring_it_is_at(void **state)
{
	struct rig *r = start(&(struct rig_options){
		.faults = "pending=1,hold,late", .slots = 2048, .completions = 2048 });
	struct poller_command drop, closes[RIG_RINGS];

	(void)state;
	for (uint32_t k = 0; k < RIG_RINGS; k++) {
		fill_ring(&r->rings[k], 500, 0, 64);
		for (int i = 0; i < 100; i++)
			poller_turn(r->poller);
	}
	send(r, &drop, POLLER_DROP_REGION, NULL, &r->clients[1].regions[0]);
	drop.rule = TENT_RULE_TARGET_GONE;
	poller_turn(r->poller);
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		send(r, &closes[k], POLLER_CLOSE_RING, r->rings[k].state, NULL);
	for (int i = 0; i < 100; i++)
		poller_turn(r->poller);
	assert_true(load_acquire(&drop.answered));
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		assert_true(load_acquire(&closes[k].answered));
	rig_stop(r);
}

/* ---- stop --------------------------------------------------------------- */

/* Random work on all rings, then stop: every admitted request has exactly one end. */
static void stop_ends_every_accepted_request_exactly_once(void **state)
{
	static const char *const faults[] = { "busy=2", "pending=1,hold", "pending=2,hold,late",
					      "fail=2,more=1" };
	uint64_t seed = 3;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		struct rig *r = start(&(struct rig_options){
			.faults = faults[round % 4], .slots = 64, .completions = 64 });
		uint64_t admitted = 0, ended = 0;
		struct poller_stats s;

		for (uint32_t k = 0; k < RIG_RINGS; k++)
			for (uint32_t left = 64; left; ) {
				uint32_t n = 1 + random_next(&seed) % left;

				fill_ring(&r->rings[k], n, 0, 40000);
				if (random_next(&seed) % 2)
					poller_turn(r->poller);
				left -= n;
			}
		for (uint32_t i = random_next(&seed) % 8; i; i--)
			poller_turn(r->poller);
		rig_order(r, POLLER_STOP, NULL, NULL, TENT_RULE_ENGINE_STOPPED);
		for (uint32_t k = 0; k < RIG_RINGS; k++) {
			uint64_t seen[2] = { 0, 0 };
			struct tent_completion c;

			ring_stats_read(r->rings[k].state, &s);
			admitted += s.requests;
			while (rig_reap(&r->rings[k], &c)) {
				assert_false(seen[c.user_data / 64] >> c.user_data % 64 & 1);
				seen[c.user_data / 64] |= 1ull << c.user_data % 64;
				ended++;
			}
			assert_int_equal(load_relaxed(&r->rings[k].host->line->end_rule),
					 TENT_RULE_ENGINE_STOPPED);
		}
		assert_int_equal(admitted, ended);
		poller_stats_read(r->poller, &s);
		assert_int_equal(s.requests, admitted);
		assert_int_equal(s.in_flight, 0);
		rig_stop(r);
	}
}

/* ---- the thread --------------------------------------------------------- */

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
	struct rig *r = start(&(struct rig_options){ .poller = threaded(true) });

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

/* No wakeup is lost around the moment of falling asleep: 30,000 requests, published at
 * all phases of it. A lost one would be found when the sleep has run its time: that may
 * happen to a request that comes just then, or from a thread that was kept waiting for a
 * CPU itself, but not to many. */
static void no_wakeup_is_lost_at_the_edge_of_sleep(void **state)
{
	uint64_t seed = 9, late = 0;
	struct rig_ring *ring;
	struct rig *r;

	(void)state;
	barrier_reaches_all_cores();
	r = start(&(struct rig_options){ .poller = threaded(true) });
	ring = &r->rings[0];
	for (uint32_t i = 0; i < 30000; i++) {
		uint64_t before;

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
	assert_true(sleeps(r) > 0);
	assert_true(late < 10 + sleeps(r) / 200);
	rig_stop(r);
}

static void a_busy_poller_never_sleeps(void **state)
{
	struct rig *r = start(&(struct rig_options){ .poller = threaded(false) });
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
	struct rig *r = start(&(struct rig_options){ .faults = "pending=1",
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
	struct rig *r = start(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];
	struct tent_client_line *line =
		(struct tent_client_line *)(uintptr_t)ring->host->client_line;
	struct pollfd fd = { .fd = ring->host->completion_fd, .events = POLLIN };

	(void)state;
	fill_ring(ring, 8, 0, 8);
	poller_turn(r->poller);
	assert_int_equal(load_relaxed(&ring->host->line->wake_seq), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	line->want_wake = TENT_WAKE_FUTEX | TENT_WAKE_EVENTFD;
	fill_ring(ring, 8, 0, 8);
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
	struct rig *r = start(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];
	uint8_t tokens[64];

	(void)state;
	fill_ring(ring, 8, 0, 8);
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
	struct rig *r = start(&(struct rig_options){ .faults = "busy=1" });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	rig_slot(ring, 0);
	rig_publish(ring, 1, TENT_OP_NOP, 0);
	poller_turn(r->poller);
	sleep_unseen(ring, 0);
	fill_ring(&r->rings[1], 1, 0, 8);
	while (!load_relaxed(&ring->host->line->wake_seq)) {
		poller_turn(r->poller);
		assert_int_not_equal(load_relaxed(&r->poller->in_flight), 0);
	}
	rig_reap_all(ring);
	rig_stop(r);
}

static void a_client_that_waits_for_what_is_to_come_is_left_asleep(void **state)
{
	struct rig *r = start(&(struct rig_options){ 0 });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	fill_ring(ring, 8, 0, 8);
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
	r = start(&(struct rig_options){ .poller = o });
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
	struct rig *r = start(&(struct rig_options){ .poller = threaded(true) });
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
	r = start(&(struct rig_options){ .poller = o });
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
	struct rig *r = start(&(struct rig_options){ .poller = threaded(false) });
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
		cmocka_unit_test(dropping_a_region_ends_queued_requests_that_touch_it),
		cmocka_unit_test(dropping_a_region_waits_for_what_the_backend_has),
		cmocka_unit_test(dropping_a_region_reaches_into_a_half_judged_batch),
		cmocka_unit_test(a_dropped_region_is_not_found_any_more),
		cmocka_unit_test(closing_a_ring_ends_its_work_and_leaves_others_alone),
		cmocka_unit_test(closing_an_unserved_ring_is_answered),
		cmocka_unit_test(closing_in_the_middle_of_a_long_batch_forgets_or_ends_it),
		cmocka_unit_test(a_drop_survives_the_close_of_the_ring_it_is_at),
		cmocka_unit_test(stop_ends_every_accepted_request_exactly_once),
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
