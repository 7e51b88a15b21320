/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake.c - from slots to judged transfers.
 *
 * Every slot is copied once and only the copy is looked at. What breaks the protocol
 * of the ring ends the ring; what breaks a rule of the request refuses its batch.
 */
#include <string.h>

#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/sched.h"

/* ---- the batch's first slot -------------------------------------------- */

/* Unreaped completions, those that admitted work may still post, and this batch must
 * fit together: so a completion is never dropped and never waits for the client. */
static inline uint16_t room_rule(const struct ring_host *h, const struct tent_slot *s)
{
	uint32_t published = h->cq_tail - h->cq_head, reaped = s->cq_head - h->cq_head;

	if (unlikely(reaped > published))
		return TENT_RULE_RING_CQ_HEAD;
	/* None is above 65,536: the sum does not wrap. */
	if (unlikely(published - reaped + h->pending + s->nr > h->completion_mask + 1))
		return TENT_RULE_RING_ROOM;
	return 0;
}

static inline uint16_t first_slot_rule(const struct ring_host *h, const struct tent_slot *s)
{
	if (unlikely(s->seq != h->consumed + 1))
		return TENT_RULE_RING_SEQ;
	if (unlikely(s->nr - 1 > h->slot_mask))	/* 0, too */
		return TENT_RULE_RING_NR;
	if (unlikely(s->op > TENT_OP_INDIRECT || (s->flags & ~TENT_SLOT_F_ALL)))
		return TENT_RULE_RING_FIRST;
	if (unlikely(s->op != TENT_OP_REQUEST && s->nr != 1))
		return TENT_RULE_RING_NR;
	return room_rule(h, s);
}

/* ---- verdicts ---------------------------------------------------------- */

void intake_finish(struct ring_state *r)
{
	uint32_t slots = r->intake.op == TENT_OP_REQUEST ? r->intake.nr : 1;

	r->intake.step = INTAKE_IDLE;
	ring_host_consume(&r->host, r->host.consumed + slots);
}

void intake_refuse(struct ring_state *r, const struct refusal *why)
{
	if (refusal_precedes(why->rule, r->intake.why.rule))
		r->intake.why = *why;
}

/* From here on its requests count. */
static inline void account(struct poller *p, struct ring_state *r)
{
	uint32_t nr = r->intake.nr;

	r->host.pending += r->intake.op == TENT_OP_INDIRECT ? 1 : nr;
	store_relaxed(&r->in_flight, r->in_flight + nr);
	store_relaxed(&p->in_flight, p->in_flight + nr);
	stat_add(&p->stats.batches, 1);
	stat_add(&r->stats.batches, 1);
	stat_add(&p->stats.requests, nr);
	stat_add(&r->stats.requests, nr);
}

void intake_accept(struct poller *p, struct ring_state *r)
{
	account(p, r);
	intake_finish(r);
}

static void batch_open(struct ring_state *r)
{
	struct intake *in = &r->intake;
	struct batch_state *b = r->free_batches;

	r->free_batches = b->next;
	*b = (struct batch_state){
		.user_data = in->user_data, .seen_ticks = in->judge.seen_ticks, .nr = in->nr,
		.credits = in->nr, .left = in->nr, .first_bad = in->nr,
		.posted_ticks = UINT32_MAX, .status = TENT_STATUS_COMPLETED,
	};
	in->judge.batch = b;
}

/* ---- copying ----------------------------------------------------------- */

/* The texts of policy names, for the slots that have one. */
static void copy_cells(struct poller *p, const struct ring_state *r, uint32_t n)
{
	uint32_t position = r->host.consumed + r->intake.taken;

	for (uint32_t i = 0; i < n; i++)
		if (p->slots[i].request.policy_name)
			ring_host_copy_cell(&r->host, position + i, p->cells[i]);
}

/* Copies slots that lie in a row, from position on. Not 0: some seq or nr is wrong. */
static inline __attribute__((always_inline)) uint64_t
copy_row(struct tent_slot *to, const struct tent_slot *from, uint32_t n, uint32_t position,
	 struct sniff *sniff)
{
	const struct tent_slot *end = to + n;
	sniff_word expected = { (int32_t)(position + 1), 0, 0, 0 }, wrong = { 0 };
	uint64_t seq_and_nr;

	for (; to < end; to++, from++) {
		tent_copy_in(to, from, sizeof(*to));
		wrong |= *(const sniff_word *)to ^ expected;
		expected += (sniff_word){ 1, 0, 0, 0 };
		sniff_slot(sniff, to, false);
	}
	memcpy(&seq_and_nr, &wrong, sizeof(seq_and_nr));
	return seq_and_nr;
}

/* The rule of the ring that a copied slot breaks, which is not the batch's first. */
static uint16_t later_slot_rule(const struct tent_slot *s, uint32_t n, uint32_t position)
{
	uint64_t head = 0;

	for (uint32_t i = 0; i < n; i++)
		if (s[i].seq != position + i + 1)
			return TENT_RULE_RING_SEQ;
	for (uint32_t i = 0; i < n; i++)
		head |= s[i].nr | s[i].op | s[i].flags | s[i].cq_head;
	return head ? TENT_RULE_RING_FIRST : 0;
}

/* Some slot is not plain, or breaks the ring's protocol: then the rule, else 0. */
static __attribute__((noinline)) uint16_t copied_odd(struct poller *p,
						     const struct ring_state *r, uint32_t n)
{
	uint32_t position = r->host.consumed + r->intake.taken, copied = !r->intake.taken;
	uint16_t rule = later_slot_rule(&p->slots[copied], n - copied, position + copied);

	if (!rule)
		copy_cells(p, r, n);
	return rule;
}

/* Copies the next n slots of the batch. 0, or the rule the ring ends with. The first
 * slot of a batch has been copied already. */
static inline __attribute__((always_inline)) uint16_t
copy_slots(struct poller *p, const struct ring_state *r, uint32_t n, bool *is_plain)
{
	const struct ring_host *h = &r->host;
	const struct tent_slot *slots = (const struct tent_slot *)h->slots;
	uint32_t position = h->consumed + r->intake.taken, i = 0;
	struct sniff sniff;
	uint64_t wrong = 0;

	sniff_begin(&sniff, r->intake.judge.slot_flags);
	if (!r->intake.taken)
		sniff_slot(&sniff, &p->slots[i++], true);
	while (i < n) {		/* twice where the batch wraps */
		uint32_t at = (position + i) & h->slot_mask, row = h->slot_mask + 1 - at;

		row = row < n - i ? row : n - i;
		wrong |= copy_row(&p->slots[i], &slots[at], row, position + i, &sniff);
		i += row;
	}
	*is_plain = sniff_is_plain(&sniff);
	return likely(*is_plain && !wrong) ? 0 : copied_odd(p, r, n);
}

/* ---- judging ----------------------------------------------------------- */

/* Deadlines need CLOCK_MONOTONIC: the same one over a whole batch. */
static __attribute__((noinline)) void set_now(struct poller *p, struct judge *j)
{
	if (j->now_ns)
		return;
	if (j->seen_ticks - p->synced > p->stale_ticks)
		poller_resync(p);	/* nobody drove the engine for a long time */
	j->now_ns = poller_ns(p, j->seen_ticks);
}

void intake_prepare(struct poller *p, struct ring_state *r, bool is_plain)
{
	struct judge *j = &r->intake.judge;

	j->handles = load_acquire(&r->space->handles); /* A7, pairs with R7 in segments.c */
	j->first_index = r->intake.taken;
	j->is_plain = is_plain && j->has_short_way;
	if (unlikely(!is_plain))
		set_now(p, j);
}

/* Copies and judges the next n slots. Those of a whole batch of one piece, the common
 * case, are left on top of the free stack: conclude() takes them. */
static inline __attribute__((always_inline)) void
take(struct poller *p, struct ring_state *r, uint32_t n)
{
	struct intake *in = &r->intake;
	struct transfer **records = &r->free[r->nr_free - n];
	struct refusal why;
	bool is_plain;
	uint16_t rule = copy_slots(p, r, n, &is_plain);

	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return;
	}
	intake_prepare(p, r, is_plain);
	if (unlikely(!judge_batch(&in->judge, p->slots, p->cells, n, records, &why))) {
		why.index += in->taken;
		intake_refuse(r, &why);
	}
	in->taken += n;
	in->why.some_ended = why.some_ended;
	if (unlikely(n < in->nr && !in->why.rule)) {
		r->nr_free -= n;
		intake_park(r, records, n);
	}
}

static inline void begin(struct ring_state *r, const struct tent_slot *s)
{
	struct intake *in = &r->intake;

	r->host.cq_head = s->cq_head;
	in->step = INTAKE_TAKE;
	in->op = s->op;
	in->nr = s->nr;
	in->taken = 0;
	in->user_data = s->user_data;
	in->why.rule = 0;
	in->judge.slot_flags = s->flags;
	in->judge.seen_ticks = ticks_now();
	in->judge.now_ns = 0;
	in->judge.batch = NULL;
}

/* A batch may be at the head: its first slot is copied and looked at. False: there is
 * none, or it has to wait for another turn. */
static inline __attribute__((always_inline)) bool
intake_begin(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct tent_slot *s = &p->slots[0];
	uint16_t rule;

	ring_host_copy_slot(&r->host, r->host.consumed, s);
	if (unlikely(s->nr > left && s->nr <= p->o.turn_slots))
		return false;
	rule = first_slot_rule(&r->host, s);
	if (unlikely(load_relaxed(&r->space->condemned)))
		rule = TENT_RULE_RING_MAPPING;
	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return true;
	}
	if (unlikely(s->op == TENT_OP_INDIRECT && indirect_must_wait(p, r, s)))
		return false;
	begin(r, s);
	if (unlikely(s->flags & TENT_SLOT_F_ONE_COMPLETION) && s->op == TENT_OP_REQUEST)
		batch_open(r);
	return true;
}

/* Copies and judges the batch at the head, or the next piece of a long one: what intake
 * and validation cost; noinline, so that it can be counted. How many slots it took; 0:
 * the batch has to wait. */
__attribute__((noinline)) static uint32_t intake_batch(struct poller *p, struct ring_state *r,
						       uint32_t left)
{
	struct intake *in = &r->intake;
	uint32_t n;

	if (in->step == INTAKE_IDLE && !intake_begin(p, r, left))
		return 0;
	if (unlikely(in->op != TENT_OP_REQUEST || r->end_rule))
		return 1;
	n = in->nr - in->taken;
	n = n < left ? n : left;
	take(p, r, n);
	return n;
}

/* ---- a turn ------------------------------------------------------------ */

/* The last piece of a batch was judged, n slots. */
static inline void conclude(struct poller *p, struct ring_state *r, uint32_t n)
{
	struct intake *in = &r->intake;

	if (unlikely(in->why.rule)) {
		in->step = INTAKE_RELEASE;
		return;
	}
	intake_accept(p, r);
	if (unlikely(n < in->nr)) {
		in->step = INTAKE_ADMIT;
		return;
	}
	r->nr_free -= n;
	if (unlikely(in->why.some_ended))
		intake_admit(p, r, &r->free[r->nr_free], n, in->judge.seen_ticks);
	else if (n == 1)
		sched_one(p, r, r->free[r->nr_free], in->judge.seen_ticks);
	else
		sched_push(p, r, &r->free[r->nr_free], n, in->judge.seen_ticks);
}

/* A step that is not the common one. How much of left it used up. */
static __attribute__((noinline)) uint32_t other_step(struct poller *p, struct ring_state *r,
						     uint32_t left)
{
	if (r->intake.step == INTAKE_TAKE)
		return indirect_take(p, r, left);
	intake_slow_step(p, r);
	return left;	/* a turn does one of the slow things */
}

/* One step. How much of left it used up; 0: nothing more can be done in this turn. */
static inline uint32_t step(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct intake *in = &r->intake;
	uint32_t n;

	if (unlikely(in->step > INTAKE_TAKE ||
		     (in->step == INTAKE_TAKE && in->op == TENT_OP_INDIRECT)))
		return other_step(p, r, left);
	n = intake_batch(p, r, left);
	if (unlikely(!n || r->end_rule))
		return n;
	if (unlikely(in->op != TENT_OP_REQUEST))
		intake_begin_other(p, r, &p->slots[0]);
	else if (likely(in->taken == in->nr))
		conclude(p, r, n);
	return n;
}

bool intake_ring(struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots, n;
	bool any = false;

	if (unlikely(r->indirect.admitting)) {
		indirect_admit(p, r);
		any = true;
	}
	while (left && intake_has_batch(r)) {
		n = step(p, r, left);
		if (unlikely(!n))
			break;
		any = true;
		left -= n;
		if (unlikely(r->end_rule))
			return true;
	}
	r->attention = r->intake.step != INTAKE_IDLE || r->indirect.admitting;
	return any;
}
