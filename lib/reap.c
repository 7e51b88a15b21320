/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reap.c - takes completions into batch state, and every wait for the engine.
 *
 * All of it runs under the ring's lock. The engine never waits for us: what is not
 * reaped stays in the ring, and the room it takes is our own.
 */
#include <sched.h>
#include <unistd.h>

#include "lib/lib.h"
#include "ring/wake.h"

#define REAP_AT_ONCE 32u
#define WAIT_NS 100000000ull		/* one bounded wait: 100 ms */
#define QUIET_NS 10000000ull		/* fruitless polling before we look if it lives */
#define IDLE_TURNS 64			/* caller mode: idle turns before yielding */

void lib_ring_tell_later(struct lib_ring *r, struct lib_batch *b)
{
	if (!load_relaxed(&r->wants_fd))
		return;
	r->nr_unseen += b->unseen != r->watch;
	b->unseen = r->watch;
}

void lib_ring_told(struct lib_ring *r, struct lib_batch *b)
{
	r->nr_unseen -= b->unseen && b->unseen == r->watch;
	b->unseen = 0;
}

static void complete_task(struct lib_ring *r, const struct tent_completion *c,
			  const struct lib_batch *polled)
{
	struct lib_batch *b = lib_batch_at((uint32_t)(c->user_data >> 32));
	uint64_t word = lib_task_word(c->status, c->transport, c->rule, c->error, c->flags);

	/* A batch stays in its ring, and its place taken, until its last task ended:
	 * anything else is no completion of ours. */
	if (!b || load_acquire(&b->ring) != r) /* L1 */
		return;
	if (b != polled)
		lib_ring_tell_later(r, b);
	lib_task_finish(b, (uint32_t)c->user_data, word, c->bytes); /* it may be gone now */
}

static void complete(struct lib_ring *r, const struct tent_completion *c,
		     const struct lib_batch *polled)
{
	if (c->flags & TENT_CQE_F_REJECTED) {
		r->verdict.rejected = true;
		r->verdict.rule = c->rule;
		r->verdict.index = c->index;
		r->verdict.value = (int64_t)c->bytes;
	} else if (c->user_data == LIB_DATA_INDIRECT) {
		lib_indirect_finish(r, c, polled);
	} else if (c->user_data == LIB_DATA_NOTIFY) {
		r->sent.ended = true;
		r->sent.rule = c->rule;
	} else if (c->user_data != LIB_DATA_CANCEL) {
		complete_task(r, c, polled);
	}
}

uint32_t lib_ring_reap(struct lib_ring *r, const struct lib_batch *polled)
{
	struct tent_completion done[REAP_AT_ONCE];
	uint32_t total = 0, nr;

	do {
		nr = tent_ring_poll(r->tent, done, REAP_AT_ONCE);
		for (uint32_t i = 0; i < nr; i++)
			complete(r, &done[i], polled);
		total += nr;
		r->reaped += nr;
	} while (nr == REAP_AT_ONCE);
	if (total)
		r->quiet_since_ns = 0;
	return total;
}

void lib_ring_check(struct lib_ring *r)
{
	uint64_t now = tent_ring_ticks_to_ns(r->tent, tent_ring_now_ticks());
	uint32_t rule;

	if (!r->quiet_since_ns)
		r->quiet_since_ns = now;
	if (now - r->quiet_since_ns < QUIET_NS)
		return;
	r->quiet_since_ns = now;
	rule = tent_ring_end_rule(r->tent);
	if (!rule && !tent_client_engine_alive(r->engine->client))
		rule = TENT_RULE_ENGINE_LOST;
	if (!rule)
		return;
	lib_ring_reap(r, NULL); /* what it still had published */
	lib_ring_lost(r, rule);
}

static void end_tasks(struct lib_batch *b, uint64_t word)
{
	uint32_t nr = b->nr_tasks, left = b->pending;

	/* The last one may reclaim b: nothing of it is read after that. */
	for (uint32_t i = 0; i < nr && left; i++)
		left -= lib_task_finish(b, i, word, 0);
}

void lib_ring_lost(struct lib_ring *r, uint32_t rule)
{
	struct tent_ring *tent = r->tent;
	int error = tent_rule_error(rule);
	uint64_t word = lib_task_word(error == TENT_ERR_CANCELED ? TENT_STATUS_CANCELED :
				      TENT_STATUS_FAILED, 0, (uint16_t)rule, error, 0);

	if (rule == TENT_RULE_ENGINE_LOST)
		store_relaxed(&r->engine->lost, 1u);
	store_relaxed(&r->tent, NULL);
	tent_ring_close(tent); /* before the tasks end: nothing moves after it */
	for (uint32_t i = 0; i < lib_batch_count(); i++) {
		struct lib_batch *b = lib_batch_at(i);

		if (load_acquire(&b->ring) == r && load_relaxed(&b->pending)) /* L1 */
			end_tasks(b, word);
	}
	if (r->indirect)
		lib_indirect_put(r->engine, r->indirect);
	r->indirect = NULL;
}

static uint32_t rule_of(struct lib_ring *r, int error)
{
	uint32_t rule;

	if (!error)
		return 0;
	if (error == TENT_ERR_ENGINE_LOST)
		return TENT_RULE_ENGINE_LOST;
	rule = tent_ring_end_rule(r->tent);
	return rule || error == TENT_ERR_TIMEOUT ? rule : TENT_RULE_RING_CLOSED;
}

/* Caller mode: one turn. Yields when turns find nothing: another thread may be driving,
 * or a worker of the backend copying. */
static uint32_t drive_turn(struct lib_ring *r, uint32_t *idle)
{
	if (lib_drive(r->engine)) {
		*idle = 0;
		return 0;
	}
	if (++*idle % IDLE_TURNS == 0)
		sched_yield();
	else
		spin_pause();
	return tent_ring_end_rule(r->tent);
}

uint32_t lib_ring_await(struct lib_ring *r, uint32_t position)
{
	uint32_t rule = 0, idle = 0;

	while (!rule && !tent_ring_consumed(r->tent, position)) {
		if (load_relaxed(&r->engine->drives))
			rule = drive_turn(r, &idle);
		else
			rule = rule_of(r, tent_ring_wait_consumed(r->tent, position, WAIT_NS));
		lib_ring_reap(r, NULL);
	}
	lib_ring_reap(r, NULL); /* a refusal precedes consumed */
	return tent_ring_consumed(r->tent, position) ? 0 : rule;
}

static bool has_room(const struct lib_ring *r, uint32_t n)
{
	return tent_ring_room(r->tent) >= n;
}

static bool has_no_indirect(const struct lib_ring *r, uint32_t n)
{
	(void)n;
	return !r->indirect;
}

static bool has_sent(const struct lib_ring *r, uint32_t n)
{
	(void)n;
	return r->sent.ended;
}

/* Waits until completions have made it so; drives in caller mode. */
static uint32_t await_completions(struct lib_ring *r, uint32_t n,
				  bool (*is_so)(const struct lib_ring *r, uint32_t n))
{
	uint32_t rule = 0, idle = 0;

	while (!is_so(r, n)) {
		if (lib_ring_reap(r, NULL))
			continue;
		if (load_relaxed(&r->engine->closing))
			return TENT_RULE_ENGINE_STOPPED;
		if (rule)
			return rule;
		if (load_relaxed(&r->engine->drives))
			rule = drive_turn(r, &idle);
		else
			rule = rule_of(r, tent_ring_wait(r->tent, WAIT_NS));
	}
	return 0;
}

uint32_t lib_ring_make_room(struct lib_ring *r, uint32_t n)
{
	return await_completions(r, n, has_room);
}

uint32_t lib_ring_await_sent(struct lib_ring *r)
{
	return await_completions(r, 0, has_sent);
}

uint32_t lib_ring_await_indirect(struct lib_ring *r)
{
	return await_completions(r, 0, has_no_indirect);
}

/* Only who sits at the ring empties its fd, or it would take a waiter's wake-up; and not
 * before it has looked at every batch whose ends others' looks took over: in which order
 * it looks is its own affair. */
static void tell_waiter(struct lib_ring *r, bool is_waiter)
{
	if (r->nr_unseen && !r->is_told) {
		wake_event_signal(r->self_fd);
		r->is_told = true;
	} else if (is_waiter && !r->nr_unseen && r->is_told) {
		wake_event_drain(r->self_fd);
		r->is_told = false;
	}
}

void lib_ring_rearm(struct lib_ring *r, struct lib_batch *polled)
{
	bool is_waiter, is_ours;

	if (!r->tent || !r->wants_fd)
		return;
	is_waiter = lib_ring_seat(r->engine) == r;
	is_ours = polled && load_acquire(&polled->ring) == r; /* L1 */
	if (is_waiter) {
		wake_event_drain(tent_ring_event_fd(r->tent));
		lib_ring_reap(r, polled); /* what the wake-up just emptied was about */
	}
	while (r->reaped) {
		if (is_ours && !is_waiter)
			lib_ring_tell_later(r, polled); /* it saw that, but its waiter did not */
		r->reaped = 0;
		if (tent_ring_arm(r->tent)) /* else it is armed */
			lib_ring_reap(r, polled);
	}
	if (is_ours && is_waiter)
		lib_ring_told(r, polled);
	tell_waiter(r, is_waiter);
}
