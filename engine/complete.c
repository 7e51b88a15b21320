/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete.c - writes completions, and keeps the counts that go with them.
 *
 * The clock is read once per run: all completions of a run have the same published
 * time. Clients are woken at the end of a turn, not per completion.
 */
#include <string.h>

#include "engine/bounds.h"
#include "engine/complete.h"
#include "engine/failover.h"
#include "engine/indirect.h"
#include "engine/meters.h"
#include "engine/notice.h"

/* What the completions of a run share. */
struct run {
	struct poller *p;
	struct ring_state *r;
	uint64_t device_ticks, published_ticks;
	uint64_t published_ns;	/* 0: nobody asked yet */
	uint32_t since_device;	/* ticks between device and published */
	uint32_t failed;	/* how many did not complete */
	uint64_t moved[2];	/* bytes, by opcode */
};

static inline void touch(struct poller *p, struct ring_state *r)
{
	if (r->touched)
		return;
	r->touched = true;
	r->next_touched = p->touched;
	p->touched = r;
}

#define COUNT(p, r, counter, n)						\
	do {								\
		stat_add(&(p)->stats.counter, (n));			\
		stat_add(&(r)->stats.counter, (n));			\
	} while (0)

_Static_assert(offsetof(struct poller_stats, written_bytes) ==
	       offsetof(struct poller_stats, read_bytes) + sizeof(uint64_t),
	       "the two are indexed by opcode");

/* ---- one transfer ------------------------------------------------------ */

static __attribute__((noinline)) void note_deadline(struct run *run, struct transfer *t)
{
	if (!run->published_ns)
		run->published_ns = poller_ns(run->p, run->published_ticks);
	if (t->status == TENT_STATUS_COMPLETED) {
		if (likely(t->deadline_ns >= run->published_ns)) {
			COUNT(run->p, run->r, deadlines_met, 1);
			return;
		}
		t->flags |= TENT_CQE_F_DEADLINE_MISSED;
		COUNT(run->p, run->r, deadlines_missed, 1);
	} else if (t->status != TENT_STATUS_FAILED) {
		return;
	}
	if (t->deadline_ns <= poller_ns(run->p, t->seen_ticks))
		COUNT(run->p, run->r, deadlines_infeasible, 1);
}

/* flags, status << 16, transport << 24. */
static inline uint32_t end_word(const struct transfer *t)
{
	return t->flags | (uint32_t)t->status << 16 | (uint32_t)t->transport << 24;
}
#define IS_PLAIN(end) (((end) & 0xffffff) == TENT_STATUS_COMPLETED << 16)

/* Counts what is not plainly COMPLETED. Its end_word(), now that all of it is known. */
static __attribute__((noinline)) uint32_t note_odd(struct run *run, struct transfer *t)
{
	if (unlikely(t->flags & (TRANSFER_F_PROBE | TENT_CQE_F_FAILED_OVER)))
		failover_told(run->p, t);
	if (t->flags & TRANSFER_F_COUNTED)
		bounds_ended(t);
	t->flags &= (uint16_t)~(TRANSFER_F_COUNTED | TRANSFER_F_BOUND);
	if (t->flags & TENT_CQE_F_INTENT_DOWNGRADED)
		COUNT(run->p, run->r, downgrades_intent, 1);
	if (t->flags & TENT_CQE_F_PRIORITY_DOWNGRADED)
		COUNT(run->p, run->r, downgrades_priority, 1);
	if (t->flags & TENT_CQE_F_POLICY_DOWNGRADED)
		COUNT(run->p, run->r, downgrades_policy, 1);
	if (t->flags & TENT_CQE_F_TAIL_IGNORED)
		COUNT(run->p, run->r, tails_ignored, 1);
	run->failed += t->status != TENT_STATUS_COMPLETED;
	if (t->status == TENT_STATUS_CANCELED)
		COUNT(run->p, run->r, canceled, 1);
	else if (t->status == TENT_STATUS_TIMEOUT)
		COUNT(run->p, run->r, timed_out, 1);
	else if (t->status != TENT_STATUS_COMPLETED)
		COUNT(run->p, run->r, failed, 1);
	return end_word(t);
}

/* What struct transfer keeps in a completion's order: user_data, bytes, error, index. */
#define BODY_BYTES (offsetof(struct tent_completion, count) -			\
		    offsetof(struct tent_completion, user_data))
/* And rule, rail, attempts. */
#define TAIL_BYTES (sizeof(struct tent_completion) - offsetof(struct tent_completion, rule))
_Static_assert(offsetof(struct transfer, length) - offsetof(struct transfer, rule) == TAIL_BYTES &&
	       offsetof(struct transfer, seen_ticks) -
	       offsetof(struct transfer, user_data) == BODY_BYTES &&
	       offsetof(struct transfer, index) - offsetof(struct transfer, done) ==
	       offsetof(struct tent_completion, index) - offsetof(struct tent_completion, bytes),
	       "fill() copies these as one");

/* Fills the completion of a transfer in, all but its first word. */
static inline void fill(const struct run *run, const struct transfer *t,
			struct tent_completion *c)
{
	uint64_t seen = t->seen_ticks, age = run->published_ticks - seen;

	memcpy(&c->user_data, &t->user_data, BODY_BYTES);
	c->count = 1;
	c->credits = 1;
	c->seen_ticks = seen;
	c->posted_ticks = t->posted_ticks;
	if (likely(age <= UINT32_MAX)) {
		c->device_ticks = (uint32_t)age - run->since_device;
		c->published_ticks = (uint32_t)age;
	} else {
		c->device_ticks = ticks_since(run->device_ticks, seen);
		c->published_ticks = UINT32_MAX;
	}
	memcpy(&c->rule, &t->rule, TAIL_BYTES);
}

/* ---- batches that end in one completion -------------------------------- */

static void publish_batch(const struct run *run, struct batch_state *b)
{
	struct ring_host *h = &run->r->host;
	struct tent_completion *c = ring_host_next(h);

	c->user_data = b->user_data;
	c->bytes = b->bytes;
	c->error = b->error;
	c->index = b->first_bad < b->nr ? b->first_bad : 0;
	c->count = b->nr;
	c->credits = b->credits;
	c->seen_ticks = b->seen_ticks;
	c->posted_ticks = b->posted_ticks == UINT32_MAX ? 0 : b->posted_ticks;
	c->device_ticks = ticks_since(run->device_ticks, b->seen_ticks);
	c->published_ticks = ticks_since(run->published_ticks, b->seen_ticks);
	c->rule = b->rule;
	c->rail = b->rail;
	c->attempts = b->attempts;
	h->pending -= b->credits - 1;
	ring_host_publish(h, c, b->flags | TENT_CQE_F_BATCH, b->status, b->transport);
}

/* The first failure by index speaks for the batch, whatever order they end in. */
static void batch_fail(struct batch_state *b, const struct transfer *t)
{
	if (t->index >= b->first_bad)
		return;
	b->first_bad = t->index;
	b->error = t->error;
	b->rule = t->rule;
	b->status = t->status;
	b->transport = t->transport;
	b->rail = t->rail;
	b->attempts = t->attempts;
}

static inline void batch_take(struct batch_state *b, const struct transfer *t)
{
	b->bytes += t->done;
	b->flags |= t->flags;
	if (t->attempts && t->posted_ticks < b->posted_ticks)
		b->posted_ticks = t->posted_ticks;
	if (unlikely(t->status != TENT_STATUS_COMPLETED)) {
		batch_fail(b, t);
	} else if (likely(b->first_bad == b->nr)) {
		b->transport = t->transport;
		b->rail = t->rail;
		b->attempts = t->attempts;
	}
}

/* Whoever failed, or was taken back, is nothing that anybody should be told of. */
static __attribute__((noinline)) void end_notice(const struct run *run, struct batch_state *b)
{
	if (b->first_bad == b->nr)
		notice_hand_over(run->p, b->notice);
	else
		notice_drop(run->r, b->notice);
	b->notice = NULL;
}

static void batch_close(struct run *run, struct batch_state *b)
{
	struct ring_state *r = run->r;

	if (unlikely(b->notice != NULL))
		end_notice(run, b);
	if (b->member_ends != MEMBER_IS_PUBLISHED)
		publish_batch(run, b);
	if (b->indirect) {
		indirect_done(run->p, r);
		return;
	}
	b->next = r->free_batches;
	r->free_batches = b;
}

/* ---- runs -------------------------------------------------------------- */

/* Counts a transfer; flags, status << 16, transport << 24 of its end. */
static inline uint32_t note(struct run *run, struct transfer *t)
{
	uint32_t end = end_word(t);

	if (unlikely(!IS_PLAIN(end)))
		end = note_odd(run, t);
	run->moved[t->opcode] += t->done;
	return end;
}

/* Those from the list that end by themselves, up to one that does not; how many. What
 * changes per completion is kept in registers meanwhile. */
static inline __attribute__((always_inline)) uint32_t
complete_singles(struct run *run, struct transfer *const *list, uint32_t n)
{
	struct ring_state *r = run->r;
	struct transfer **top = &r->free[r->nr_free];
	uint32_t tail = r->host.cq_tail, i;

	for (i = 0; i < n; i++) {
		struct transfer *t = list[i];
		struct tent_completion *c = ring_host_at(&r->host, tail);
		uint32_t end;

		if (unlikely(t->deadline_ns | (uintptr_t)t->batch)) {
			if (t->batch)
				break;
			note_deadline(run, t);
		}
		end = note(run, t);
		fill(run, t, c);
		ring_host_publish_at(c, ++tail, end);
		t->state = TRANSFER_FREE;
		*top++ = t;
	}
	r->nr_free += i;
	ring_host_published(&r->host, i);
	return i;
}

/* One that ends by itself in a batch that is waited for. */
static void publish_member(const struct run *run, const struct transfer *t, uint32_t end)
{
	struct tent_completion *c = ring_host_next(&run->r->host);

	fill(run, t, c);
	ring_host_publish_end(&run->r->host, c, end);
}

/* What becomes of a request that has ended. Who sees the last one's completion may count
 * on the notification, even if it closes what it was for. */
static __attribute__((noinline)) void end_member(const struct run *run, struct batch_state *b,
						 struct transfer *t, uint32_t end, bool is_last)
{
	if (b->member_ends == MEMBER_HAS_RESULT) {
		indirect_end(b->indirect, t);
		return;
	}
	if (is_last && b->notice)
		end_notice(run, b);
	publish_member(run, t, end);
	ring_release(run->r, t);
}

/* Those that belong to the first one's batch, up to one that does not; how many. */
static __attribute__((noinline)) uint32_t
complete_members(struct run *run, struct transfer *const *list, uint32_t n)
{
	struct batch_state *b = list[0]->batch;
	uint32_t i;

	for (i = 0; i < n && list[i]->batch == b; i++) {
		struct transfer *t = list[i];
		uint32_t end;

		if (unlikely(t->deadline_ns))
			note_deadline(run, t);
		end = note(run, t);
		batch_take(b, t);
		if (unlikely(b->member_ends != MEMBER_ENDS_SILENTLY))
			end_member(run, b, t, end, i + 1 == b->left);
		else
			ring_release(run->r, t);
	}
	b->left -= i;
	if (b->left == 0)
		batch_close(run, b);
	return i;
}

void complete_run(struct poller *p, struct ring_state *r, struct transfer *const *ended,
		  uint32_t n, uint64_t device_ticks)
{
	const uint64_t now = ticks_now();
	struct run run = {
		.p = p, .r = r, .device_ticks = device_ticks, .published_ticks = now,
		.since_device = (uint32_t)(now - device_ticks),
	};

	if (unlikely(p->meters != NULL))
		meters_count(p->meters, &p->clock, ended, n, device_ticks, now);
	for (uint32_t i = 0; i < n; ) {
		i += complete_singles(&run, &ended[i], n - i);
		if (unlikely(i < n))
			i += complete_members(&run, &ended[i], n - i);
	}
	level_add(&r->in_flight, -n);
	level_add(&p->in_flight, -n);
	COUNT(p, r, completed, n - run.failed);
	COUNT(p, r, read_bytes, run.moved[TENT_OPCODE_READ]);
	COUNT(p, r, written_bytes, run.moved[TENT_OPCODE_WRITE]);
	touch(p, r);
}

static __attribute__((noinline)) void complete_odd_one(struct poller *p, struct transfer *t,
						       uint64_t now)
{
	complete_run(p, t->ring, &t, 1, now);
}

void complete_one(struct poller *p, struct transfer *t)
{
	struct ring_state *r = t->ring;
	const uint64_t now = ticks_now();
	const struct run run = { .device_ticks = now, .published_ticks = now };
	uint32_t end = end_word(t);
	struct tent_completion *c;

	if (unlikely(t->deadline_ns | (uintptr_t)t->batch | (uintptr_t)p->meters) ||
	    unlikely(!IS_PLAIN(end))) {
		complete_odd_one(p, t, now);
		return;
	}
	c = ring_host_next(&r->host);
	fill(&run, t, c);
	ring_host_publish_end(&r->host, c, end);
	level_add(&r->in_flight, -1u);
	level_add(&p->in_flight, -1u);
	COUNT(p, r, completed, 1);
	stat_add(&(&p->stats.read_bytes)[t->opcode], t->done);
	stat_add(&(&r->stats.read_bytes)[t->opcode], t->done);
	ring_release(r, t);
	touch(p, r);
}

void complete_wake_missed(struct ring_state *r)
{
	uint32_t tail = r->host.cq_tail;

	if (r->woken_tail != tail && load_relaxed(&r->host.client_line->cq_head) != tail)
		complete_wake_one(r);
}

void complete_with(struct poller *p, struct transfer *t, uint16_t rule)
{
	transfer_end_by(t, rule);
	complete_one(p, t);
}

/* ---- completions without a transfer ------------------------------------ */

/* Everything but the end of it; the stages are one moment. */
static struct tent_completion *begin_accounted(struct ring_state *r, uint64_t user_data,
					       uint64_t seen_ticks, uint16_t rule)
{
	struct tent_completion *c = ring_host_next(&r->host);
	uint32_t now = ticks_since(ticks_now(), seen_ticks);

	c->user_data = user_data;
	c->bytes = 0;
	c->error = rule ? tent_rule_error(rule) : TENT_OK;
	c->index = 0;
	c->count = 1;
	c->credits = 1;
	c->seen_ticks = seen_ticks;
	c->posted_ticks = now;
	c->device_ticks = now;
	c->published_ticks = now;
	c->rule = rule;
	c->rail = 0;
	c->attempts = 0;
	return c;
}

/* The same for what was never admitted. */
static struct tent_completion *begin_plain(struct ring_state *r, uint16_t rule)
{
	r->host.pending++;
	return begin_accounted(r, r->intake.user_data, r->intake.judge.seen_ticks, rule);
}

static uint8_t status_of(uint16_t rule)
{
	struct transfer t = { .status = TENT_STATUS_COMPLETED };

	if (rule)
		transfer_end_by(&t, rule);
	return t.status;
}

void complete_notice(struct poller *p, struct ring_state *r, const struct notice *n)
{
	struct tent_completion *c = begin_accounted(r, n->user_data, n->seen_ticks, n->rule);

	ring_host_publish(&r->host, c, 0, status_of(n->rule), 0);
	level_add(&r->in_flight, -1u);
	level_add(&p->in_flight, -1u);
	if (n->rule)
		COUNT(p, r, failed, 1);
	else
		COUNT(p, r, completed, 1);
	touch(p, r);
}

void complete_slot(struct poller *p, struct ring_state *r, uint16_t rule)
{
	struct tent_completion *c = begin_plain(r, rule);

	ring_host_publish(&r->host, c, 0,
			  rule ? TENT_STATUS_FAILED : TENT_STATUS_COMPLETED, 0);
	touch(p, r);
}

void complete_refusal(struct poller *p, struct ring_state *r)
{
	const struct intake *in = &r->intake;
	struct tent_completion *c = begin_plain(r, in->why.rule);

	c->bytes = (uint64_t)in->why.value;
	c->index = in->why.index;
	c->count = in->nr;
	c->credits = in->op == TENT_OP_INDIRECT ? 1 : in->nr;
	ring_host_publish(&r->host, c, TENT_CQE_F_REJECTED, TENT_STATUS_INVALID, 0);
	COUNT(p, r, rejected_batches, 1);
	touch(p, r);
}
