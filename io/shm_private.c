/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_private.c - the poller's half of copies that touch private memory.
 *
 * A transfer we hold is in exactly one place:
 *   waiting   in a channel that had no free lane for it
 *   ready     it has its lanes, and the next step is a copy by the poller
 *   a worker  a lane of it is in_worker; once cancelled also in fencing
 *   ended     to be handed back by the next poll()
 *
 * One chunk at a time: [source worker fills its bounce] -> poller copies ->
 * [target worker drains its bounce]; either bracket is absent when that end is
 * mapped. Two owners' lanes are partners for the time of a chunk. While the
 * source fills, the target's lane lies idle; should that take long, the lane is
 * lent to another transfer and the chunk starts over, so that an owner that does
 * not answer keeps no lane of another one.
 *
 * rule != 0 on a transfer we hold means: end it with that rule as soon as its
 * worker is back.
 */
#include <tent/tentring.h>

#include "io/copy.h"
#include "io/shm.h"
#include "ring/clock.h"

/* Every how many picks the lowest level of waiting transfers comes first. */
#define SHM_PICKS 8u

static struct channel *channel_of(const struct shm_queue *q, const struct region *r)
{
	return r->addr || r->file ? NULL : &r->owner->channels[q->index];
}

static struct channel *source_channel(const struct shm_queue *q, const struct transfer *t)
{
	return channel_of(q, t->opcode == TENT_OPCODE_READ ? t->remote : t->local);
}

static struct channel *target_channel(const struct shm_queue *q, const struct transfer *t)
{
	return channel_of(q, t->opcode == TENT_OPCODE_READ ? t->local : t->remote);
}

static uint64_t source_address(const struct transfer *t)
{
	return t->opcode == TENT_OPCODE_READ ? t->remote_addr : t->local_addr;
}

static uint64_t target_address(const struct transfer *t)
{
	return t->opcode == TENT_OPCODE_READ ? t->local_addr : t->remote_addr;
}

static uint8_t *source_bytes(const struct transfer *t)
{
	return t->opcode == TENT_OPCODE_READ ? transfer_remote(t) : transfer_local(t);
}

static uint8_t *target_bytes(const struct transfer *t)
{
	return t->opcode == TENT_OPCODE_READ ? transfer_local(t) : transfer_remote(t);
}

/* ---- lanes ------------------------------------------------------------- */

static struct lane *lane_of(struct channel *c, const struct transfer *t, bool is_source)
{
	if (c)
		for (uint32_t i = 0; i < SHM_LANES; i++)
			if (c->lanes[i].transfer == t &&
			    c->lanes[i].is_source == is_source)
				return &c->lanes[i];
	return NULL;
}

/* Is it reserved for a chunk whose source does not answer? */
static bool is_lendable(const struct lane *l, uint64_t now_ns)
{
	return l->transfer && !l->in_worker && l->partner && l->partner->in_worker &&
	       now_ns - l->partner->posted_ns > SHM_LEND_NS;
}

static struct lane *lane_find(struct channel *c)
{
	uint64_t now_ns;

	for (uint32_t i = 0; i < SHM_LANES; i++)
		if (!c->lanes[i].transfer && !c->lanes[i].in_worker)
			return &c->lanes[i];
	now_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < SHM_LANES; i++)
		if (is_lendable(&c->lanes[i], now_ns))
			return &c->lanes[i];
	return NULL;
}

static void lane_part(struct lane *l)
{
	if (l->partner)
		l->partner->partner = NULL;
	l->partner = NULL;
}

/* A lane that the worker still has is left behind in it, see harvest(). */
static void lane_release(struct lane *l)
{
	lane_part(l);
	l->transfer = NULL;
}

/* Addresses of different owners say nothing about an overlap. */
static uint64_t next_offset(const struct transfer *t, uint32_t length)
{
	bool same = !t->local->addr && !t->remote->addr &&
		    t->local->owner == t->remote->owner;

	return same ? chunk_offset(t, source_address(t), target_address(t), length) :
		      t->done;
}

/* A free lane for t, filled in for its next chunk; or NULL. */
static struct lane *lane_take(struct channel *c, struct transfer *t, bool is_source)
{
	struct lane *l = lane_find(c);
	uint64_t left = t->length - t->done;

	if (!l)
		return NULL;
	lane_part(l);
	l->transfer = t;
	l->is_source = is_source;
	l->fence_ns = 0;
	l->length = left < SHM_CHUNK ? (uint32_t)left : SHM_CHUNK;
	l->address = next_offset(t, l->length) +
		     (is_source ? source_address(t) : target_address(t));
	l->file = t->remote->file;
	l->file_offset = t->remote_addr + t->done;
	return l;
}

/* ---- waiting ----------------------------------------------------------- */

/* While it waits, rail says at which end; shm has no rails to report. */
enum { WAITS_FOR_SOURCE = 1, WAITS_FOR_TARGET = 2 };

static void waiting_push(struct shm_queue *q, struct transfer *t, uint8_t end)
{
	struct channel *c = end == WAITS_FOR_SOURCE ? source_channel(q, t) :
						      target_channel(q, t);

	t->rail = end;
	transfer_list_push(&c->waiting[t->level], t);
	if (c->nr_waiting++ == 0)
		TAILQ_INSERT_TAIL(&q->starved, c, starved);
}

static void waiting_remove(struct shm_queue *q, struct transfer *t)
{
	struct channel *c = t->rail == WAITS_FOR_SOURCE ? source_channel(q, t) :
							  target_channel(q, t);

	t->rail = 0;
	transfer_list_remove(&c->waiting[t->level], t);
	/* The poller forgets a channel here, before its owner can close. */
	if (--c->nr_waiting == 0)
		TAILQ_REMOVE(&q->starved, c, starved);
}

static struct transfer *waiting_pick(struct shm_queue *q, struct channel *c)
{
	bool lowest_first = ++c->picks % SHM_PICKS == 0;

	for (uint32_t i = 0; i < LEVELS; i++) {
		uint32_t level = lowest_first ? LEVELS - 1 - i : i;
		struct transfer *t = c->waiting[level].first;

		if (t) {
			waiting_remove(q, t);
			return t;
		}
	}
	return NULL;
}

/* ---- steps ------------------------------------------------------------- */

/* Takes the lanes for t's next chunk and sets it off, or lets it wait without
 * any: what waits for one owner must not keep a lane of another. */
static void transfer_start(struct shm_queue *q, struct transfer *t)
{
	struct channel *in = source_channel(q, t), *out = target_channel(q, t);
	struct lane *source = in ? lane_take(in, t, true) : NULL;
	struct lane *target = out ? lane_take(out, t, false) : NULL;

	if ((in && !source) || (out && !target)) {
		if (source)
			lane_release(source);
		if (target)
			lane_release(target);
		waiting_push(q, t, in && !source ? WAITS_FOR_SOURCE : WAITS_FOR_TARGET);
		return;
	}
	if (source && target) {
		source->partner = target;
		target->partner = source;
	}
	if (source)
		shm_lane_post(source);
	else if (target->file)
		shm_lane_post(target);
	else
		transfer_list_push(&q->ready, t);
}

/* Gives free lanes to waiting transfers. One that needs a second lane may go
 * back to waiting, hence the bound. */
static void channel_run(struct shm_queue *q, struct channel *c)
{
	for (uint32_t i = 0; c && i < SHM_LANES && c->nr_waiting && lane_find(c); i++)
		transfer_start(q, waiting_pick(q, c));
}

static void release_lanes(struct shm_queue *q, struct transfer *t)
{
	struct channel *in = source_channel(q, t), *out = target_channel(q, t);
	struct lane *source = lane_of(in, t, true), *target = lane_of(out, t, false);

	if (source)
		lane_release(source);
	if (target)
		lane_release(target);
	channel_run(q, in);
	channel_run(q, out);
}

static void finish(struct shm_queue *q, struct transfer *t, uint16_t rule)
{
	release_lanes(q, t);
	if (rule)
		transfer_end_by(t, rule);
	else
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	q->nr_private--;
	transfer_list_push(&q->ended, t);
}

/* A chunk arrived. Others that wait for the lanes go before the next one. */
static void advance(struct shm_queue *q, struct transfer *t, uint32_t moved)
{
	t->done += moved;
	if (t->done == t->length) {
		finish(q, t, 0);
		return;
	}
	release_lanes(q, t);
	transfer_start(q, t);
}

/* The copy between a bounce buffer and what lies at its other end. */
static void copy_step(struct shm_queue *q, struct transfer *t)
{
	struct channel *in = source_channel(q, t);
	struct lane *source = lane_of(in, t, true);
	struct lane *target = lane_of(target_channel(q, t), t, false);

	if (!source) {
		copy_bytes(target->bounce, source_bytes(t) + t->done, target->length, false);
		shm_lane_post(target);
	} else if (target) {
		copy_bytes(target->bounce, source->bounce, target->length, false);
		shm_lane_post(target);
		lane_release(source);
		channel_run(q, in);
	} else {
		copy_bytes(target_bytes(t) + t->done, source->bounce, source->length,
			   t->length >= q->stream_bytes);
		advance(q, t, source->length);
	}
}

/* The same where the other end is a file: the worker did all of it. */
static void file_result(struct shm_queue *q, struct lane *l, struct transfer *t)
{
	if (l->fence_ns)
		transfer_list_remove(&q->fencing, t);
	if (!l->fence_ns && !l->fault) {
		advance(q, t, l->moved);
		return;
	}
	t->done += l->moved;
	finish(q, t, t->done == t->length ? 0 : l->fence_ns ? t->rule : l->fault);
}

/* What a worker brought back for t. */
static void lane_result(struct shm_queue *q, struct lane *l, struct transfer *t)
{
	bool whole = l->moved == l->length;

	if (l->file) {
		file_result(q, l, t);
	} else if (l->fence_ns) {
		transfer_list_remove(&q->fencing, t);
		t->done += l->is_source ? 0 : l->moved;
		finish(q, t, t->rule);
	} else if (!l->is_source && whole) {
		advance(q, t, l->moved);
	} else if (!whole) {
		t->done += l->is_source ? 0 : l->moved;
		finish(q, t, TENT_RULE_COPY_FAULT);
	} else if (target_channel(q, t) && !l->partner) { /* lent on: start over */
		release_lanes(q, t);
		transfer_start(q, t);
	} else {
		transfer_list_push(&q->ready, t);
	}
}

static void harvest(struct shm_queue *q)
{
	struct lane *l, *next;

	if (!load_relaxed(&q->inbox->done))
		return;
	/* A11, pairs with R11 in inbox_push(). */
	for (l = exchange(&q->inbox->done, NULL); l; l = next) {
		next = l->next_done;
		l->in_worker = false;
		if (l->transfer) {
			store_relaxed(&l->state, (uint32_t)LANE_IDLE);
			lane_result(q, l, l->transfer);
			continue;
		}
		/* Left behind by an end that did not wait. Its owner may be
		 * closed already, and freed after the store: touch it last.
		 * R10, pairs with A10 in is_idle(). */
		channel_run(q, l->channel);
		if (!l->in_worker)
			store_release(&l->state, (uint32_t)LANE_IDLE);
	}
}

/* True: the worker had not begun, and will not. */
static bool lane_take_back(struct lane *l)
{
	uint32_t expected = LANE_JOB;

	if (!compare_exchange(&l->state, &expected, (uint32_t)LANE_IDLE)) /* R10/A10 */
		return false;
	l->in_worker = false;
	return true;
}

static struct lane *busy_lane(const struct shm_queue *q, const struct transfer *t)
{
	struct lane *source = lane_of(source_channel(q, t), t, true);
	struct lane *target = lane_of(target_channel(q, t), t, false);

	if (source && source->in_worker)
		return source;
	return target && target->in_worker ? target : NULL;
}

/* False: the worker is at the file, which only its own result fences. */
static bool lane_leave(struct lane *l)
{
	uint32_t expected = LANE_BUSY;

	return compare_exchange(&l->state, &expected, (uint32_t)LANE_LEFT); /* R10/A10 */
}

/*
 * Ends cancelled transfers whose worker did not come back within SHM_FENCE_NS.
 * What the worker may still move lies between its owner's memory and that
 * owner's bounce buffer, which is left behind with it: every mapped end is
 * fenced. Only the owner's own pages, which it keeps from arriving, are not, and
 * when they are the target the flag says so.
 */
static void fence_expire(struct shm_queue *q)
{
	uint64_t now_ns = q->fencing.first ? clock_monotonic_ns() : 0;
	struct transfer *t, *next;

	for (t = q->fencing.first; t; t = next) {
		struct lane *l = busy_lane(q, t);

		next = t->next;
		if (now_ns < l->fence_ns)
			break;
		if (l->file && !lane_leave(l))
			continue;
		transfer_list_remove(&q->fencing, t);
		if (!l->is_source)
			t->flags |= TENT_CQE_F_TARGET_UNFENCED;
		finish(q, t, t->rule);
	}
}

/* ---- backend hooks ----------------------------------------------------- */

enum post_result private_post(struct shm_queue *q, struct transfer *t)
{
	struct channel *in = source_channel(q, t), *out = target_channel(q, t);

	if (t->length == 0) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	t->rule = 0;
	t->rail = 0;
	q->nr_private++;
	if (in && in->nr_waiting)
		waiting_push(q, t, WAITS_FOR_SOURCE);
	else if (out && out->nr_waiting)
		waiting_push(q, t, WAITS_FOR_TARGET);
	else
		transfer_start(q, t);
	return POST_PENDING;
}

/*
 * Moves at most one chunk per call, so that a turn stays bounded. When more is
 * ready the poller may not fall asleep on it, and this is the only way to say
 * so: its own eventfd.
 */
struct transfer *private_poll(struct backend_queue *queue)
{
	struct shm_queue *q = (struct shm_queue *)queue;
	struct transfer *t;
	struct channel *c;

	if (q->nr_private == 0 && !load_relaxed(&q->inbox->done))
		return NULL;
	harvest(q);
	t = transfer_list_pop(&q->ready);
	if (t)
		copy_step(q, t);
	fence_expire(q);
	c = TAILQ_FIRST(&q->starved);
	if (c) {	/* a lane may have become lendable meanwhile */
		TAILQ_REMOVE(&q->starved, c, starved);
		TAILQ_INSERT_TAIL(&q->starved, c, starved);
		channel_run(q, c);
	}
	if (q->ready.first)
		shm_inbox_nudge(q->inbox);
	return transfer_list_take(&q->ended);
}

bool private_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct shm_queue *q = (struct shm_queue *)queue;
	struct lane *busy = busy_lane(q, t);

	if (busy && busy->fence_ns)
		return false;
	if (busy && !lane_take_back(busy)) {
		t->rule = rule;
		busy->fence_ns = clock_monotonic_ns() + SHM_FENCE_NS;
		transfer_list_push(&q->fencing, t);
		return false;
	}
	if (t->rail)
		waiting_remove(q, t);
	else if (!busy)
		transfer_list_remove(&q->ready, t);
	release_lanes(q, t);
	transfer_end_by(t, rule);
	q->nr_private--;
	return true;
}
