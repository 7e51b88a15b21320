/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake.c - from slots to judged transfers.
 *
 * Every slot is copied once and only the copy is looked at. What breaks the protocol
 * of the ring ends the ring; what breaks a rule of the request refuses its batch.
 */
#include <string.h>

#include "engine/complete.h"
#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/sched.h"

/* ---- the batch's first slot -------------------------------------------- */

/* The words that only the first slot of a batch may set, as one. */
static inline uint64_t head_word(const struct tent_slot *s)
{
	uint64_t word;

	memcpy(&word, &s->op, sizeof(word));
	return word & ~0xff00ull;	/* resv0 is the judge's */
}
_Static_assert(offsetof(struct tent_slot, op) == 16 && offsetof(struct tent_slot, resv0) == 17,
	       "head_word() covers op, resv0, flags and cq_head");

/* Unreaped completions, those that admitted work may still post, and this batch must
 * fit together: so a completion is never dropped and never waits for the client. */
static uint16_t room_rule(const struct ring_host *h, const struct tent_slot *s)
{
	uint32_t published = h->cq_tail - h->cq_head, reaped = s->cq_head - h->cq_head;

	if (reaped > published)
		return TENT_RULE_RING_CQ_HEAD;
	if ((uint64_t)(published - reaped) + h->pending + s->nr > (uint64_t)h->completion_mask + 1)
		return TENT_RULE_RING_ROOM;
	return 0;
}

static uint16_t first_slot_rule(const struct ring_host *h, const struct tent_slot *s)
{
	if (s->seq != h->consumed + 1)
		return TENT_RULE_RING_SEQ;
	if (s->nr == 0 || s->nr > h->slot_mask + 1)
		return TENT_RULE_RING_NR;
	if (s->op > TENT_OP_INDIRECT || (s->flags & ~TENT_SLOT_F_ALL))
		return TENT_RULE_RING_FIRST;
	if (s->op != TENT_OP_REQUEST && s->nr != 1)
		return TENT_RULE_RING_NR;
	return room_rule(h, s);
}

/* ---- verdicts ---------------------------------------------------------- */

/* The slots may be reused; the next batch may come. */
static void finish(struct ring_state *r)
{
	uint32_t slots = r->intake.op == TENT_OP_REQUEST ? r->intake.nr : 1;

	ring_host_consume(&r->host, r->host.consumed + slots);
	r->intake.step = INTAKE_IDLE;
}

static void give_batch_back(struct ring_state *r)
{
	struct batch_state *b = r->intake.batch;

	if (!b || b->indirect)
		return;
	b->next = r->free_batches;
	r->free_batches = b;
}

static void publish_refusal(struct poller *p, struct ring_state *r)
{
	struct ring_host *h = &r->host;

	complete_refusal(p, r);
	store_relaxed(&h->line->last_rejected, h->consumed);
	store_relaxed(&h->line->rejected, ++h->rejected);
	give_batch_back(r);
	finish(r);
}

void intake_refuse(struct ring_state *r, const struct refusal *why)
{
	if (refusal_precedes(why->rule, r->intake.why.rule))
		r->intake.why = *why;
}

/* From here on its requests count, and each will end. */
static void account(struct poller *p, struct ring_state *r)
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
	r->intake.cursor = 0;
	finish(r);
	r->intake.step = INTAKE_ADMIT;
}

static void batch_open(struct ring_state *r)
{
	struct intake *in = &r->intake;
	struct batch_state *b = r->free_batches;

	r->free_batches = b->next;
	*b = (struct batch_state){
		.user_data = in->user_data, .seen_ticks = in->seen_ticks, .nr = in->nr,
		.credits = in->nr, .left = in->nr, .first_bad = in->nr,
		.posted_ticks = UINT32_MAX, .status = TENT_STATUS_COMPLETED,
	};
	in->batch = b;
}

/* ---- taking a batch of requests ---------------------------------------- */

/* The texts of policy names, for the slots that have one. */
static __attribute__((noinline)) void copy_cells(struct poller *p, struct ring_state *r,
						 uint32_t n)
{
	uint32_t position = r->host.consumed + r->intake.taken;

	for (uint32_t i = 0; i < n; i++)
		if (p->slots[i].request.policy_name)
			ring_host_copy_cell(&r->host, position + i, p->cells[i]);
}

/* Copies the next n slots of the batch; 0, or the rule the ring ends with. The first
 * slot of a batch has been copied already. */
static inline uint16_t copy_slots(struct poller *p, struct ring_state *r, uint32_t n)
{
	uint32_t position = r->host.consumed + r->intake.taken;
	uintptr_t names = (uintptr_t)p->slots[0].request.policy_name;
	uint32_t wrong_seq = 0;
	uint64_t dirty_head = 0;

	for (uint32_t i = r->intake.taken ? 0 : 1; i < n; i++) {
		struct tent_slot *s = &p->slots[i];

		ring_host_copy_slot(&r->host, position + i, s);
		wrong_seq |= s->seq ^ (position + i + 1);
		dirty_head |= head_word(s) | s->nr;
		names |= (uintptr_t)s->request.policy_name;
	}
	if (unlikely(wrong_seq))
		return TENT_RULE_RING_SEQ;
	if (unlikely(dirty_head))
		return TENT_RULE_RING_FIRST;
	if (unlikely(names))
		copy_cells(p, r, n);
	return 0;
}

void intake_prepare(struct poller *p, struct ring_state *r, enum transfer_state state)
{
	struct judge *j = &p->judge;

	j->space = r->space;
	j->handles = load_acquire(&r->space->handles); /* A7, pairs with R7 in segments.c */
	j->now_ns = r->intake.now_ns;
	j->slot_flags = r->intake.flags;
	j->state = state;
	j->first_index = r->intake.taken;
	j->seen_ticks = r->intake.seen_ticks;
	j->batch = r->intake.batch;
}

/* Records that a refused piece left half-filled. */
static void reset(struct transfer **records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		records[i]->state = TRANSFER_FREE;
}

/* A piece of a long batch passed: its requests wait for the others' verdict. */
static void park(struct ring_state *r, struct transfer **records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		queue_push(&r->intake.parked, records[i]);
}

/* The last piece was judged. */
static void conclude(struct poller *p, struct ring_state *r, struct transfer **records,
		     uint32_t n)
{
	struct intake *in = &r->intake;

	if (unlikely(in->why.rule)) {
		in->step = INTAKE_RELEASE;
		return;
	}
	if (unlikely(n < in->nr)) {
		intake_accept(p, r);
		return;
	}
	account(p, r);
	finish(r);
	sched_push(p, r, records, n);
}

static void take(struct poller *p, struct ring_state *r, uint32_t *left)
{
	struct intake *in = &r->intake;
	uint32_t n = in->nr - in->taken < *left ? in->nr - in->taken : *left;
	struct transfer **records = &r->free[r->nr_free - n];
	struct refusal why;
	uint16_t rule = copy_slots(p, r, n);

	*left -= n;
	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return;
	}
	intake_prepare(p, r, n == in->nr ? TRANSFER_QUEUED : TRANSFER_PARKED);
	if (unlikely(!judge_batch(&p->judge, p->slots, p->cells, n, records, &why))) {
		why.index += in->taken;
		intake_refuse(r, &why);
	}
	in->taken += n;
	if (unlikely(in->why.rule)) {
		reset(records, n);
	} else {
		r->nr_free -= n;
		if (unlikely(n < in->nr))
			park(r, records, n);
	}
	if (likely(in->taken == in->nr))
		conclude(p, r, records, n);
}

/* Admits parked requests of an accepted batch, or takes back those of a refused one. */
static uint32_t unpark(struct poller *p, struct ring_state *r)
{
	struct transfer *t;
	uint32_t n = 0;

	while (n < p->o.turn_slots && (t = r->intake.parked.head)) {
		queue_remove(&r->intake.parked, t);
		p->piece[n++] = t;
	}
	return n;
}

static void admit(struct poller *p, struct ring_state *r)
{
	uint32_t n = r->intake.op == TENT_OP_INDIRECT ? indirect_unpark(p, r) : unpark(p, r);

	for (uint32_t i = 0; i < n; i++)
		p->piece[i]->state = TRANSFER_QUEUED;
	sched_push(p, r, p->piece, n);
	if (n < p->o.turn_slots)
		r->intake.step = INTAKE_IDLE;
}

static bool release(struct poller *p, struct ring_state *r)
{
	uint32_t n = unpark(p, r);

	for (uint32_t i = 0; i < n; i++)
		ring_release(r, p->piece[i]);
	if (n == p->o.turn_slots)
		return false;
	if (r->intake.op == TENT_OP_INDIRECT)
		indirect_discard(p, r);
	return true;
}

/* ---- CANCEL and NOP ---------------------------------------------------- */

static bool is_zero(const void *area, size_t size)
{
	const uint8_t *bytes = area;
	uint8_t any = 0;

	for (size_t i = 0; i < size; i++)
		any |= bytes[i];
	return !any;
}

/* Nothing but the words that the operation defines. source: is it one of them? */
static struct refusal bare_refusal(const struct tent_slot *s, bool source)
{
	struct tent_slot copy = *s;

	if (source)
		memset(&copy.request.source, 0, 8);
	if (is_zero(&copy.request, sizeof(*s) - offsetof(struct tent_slot, request)) &&
	    !s->resv0 && !s->resv1)
		return (struct refusal){ 0 };
	return (struct refusal){ .rule = TENT_RULE_SLOT_RESV,
				 .value = (int64_t)(s->resv0 | s->resv1) };
}

/* An INDIRECT is named by its slot's user_data, all of it, or by one entry's. */
static bool is_named(const struct transfer *t, uint64_t user_data)
{
	return t->user_data == user_data ||
	       (t->batch && t->batch->indirect && t->batch->user_data == user_data);
}

static void cancel_one(struct poller *p, struct ring_state *r, struct transfer *t)
{
	if (t->state == TRANSFER_FREE || !is_named(t, r->intake.cancel_data))
		return;
	r->intake.found = true;
	if (transfer_is_posted(t)) {
		sched_call_back(p, t, TENT_RULE_CANCELED);
	} else if (t->status == TENT_STATUS_WAITING) {
		sched_remove(r, t);
		complete_with(p, t, TENT_RULE_CANCELED);
	}
}

/* Every request in flight with that user_data; the records are many, a turn short. */
static void cancel_step(struct poller *p, struct ring_state *r)
{
	for (uint32_t i = 0; i < INTAKE_RECORDS; i++) {
		struct transfer *t = ring_record(r, r->intake.cursor++);

		if (!t) {
			complete_slot(p, r, r->intake.found ? 0 : TENT_RULE_CANCEL_UNKNOWN);
			finish(r);
			return;
		}
		cancel_one(p, r, t);
	}
}

static void begin_bare(struct poller *p, struct ring_state *r, const struct tent_slot *s)
{
	bool cancel = s->op == TENT_OP_CANCEL;

	r->intake.why = bare_refusal(s, cancel);
	if (r->intake.why.rule) {
		publish_refusal(p, r);
	} else if (cancel) {
		memcpy(&r->intake.cancel_data, &s->request.source, 8);
		r->intake.cursor = 0;
		r->intake.found = false;
		r->intake.step = INTAKE_CANCEL;
	} else {
		complete_slot(p, r, 0);
		finish(r);
	}
}

/* ---- steps ------------------------------------------------------------- */

static inline void begin(struct poller *p, struct ring_state *r, const struct tent_slot *s)
{
	struct intake *in = &r->intake;

	r->host.cq_head = s->cq_head;
	in->op = s->op;
	in->flags = s->flags;
	in->nr = s->nr;
	in->taken = 0;
	in->user_data = s->user_data;
	in->seen_ticks = ticks_now();
	if (unlikely(in->seen_ticks - p->synced > p->stale_ticks))
		poller_resync(p);	/* nobody drove the engine for a long time */
	in->now_ns = poller_ns(p, in->seen_ticks);
	in->batch = NULL;
	in->why.rule = 0;
	in->step = INTAKE_TAKE;
}

/* The next batch, or the next piece of a long one; noinline so that it can be counted
 * by itself. False: there is none, or it has to wait for another turn. */
__attribute__((noinline)) static bool intake_batch(struct poller *p, struct ring_state *r,
						   uint32_t *left)
{
	struct tent_slot *s = &p->slots[0];
	uint16_t rule;
	uint32_t nr;

	if (r->intake.step == INTAKE_TAKE) {
		take(p, r, left);
		return true;
	}
	if (!ring_host_peek(&r->host, &nr) || (nr > *left && nr <= p->o.turn_slots))
		return false;
	ring_host_copy_slot(&r->host, r->host.consumed, s);
	rule = first_slot_rule(&r->host, s);
	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return true;
	}
	if (unlikely(s->op == TENT_OP_INDIRECT && indirect_must_wait(p, r, s)))
		return false;
	begin(p, r, s);
	if (likely(s->op == TENT_OP_REQUEST)) {
		if (s->flags & TENT_SLOT_F_ONE_COMPLETION)
			batch_open(r);
		take(p, r, left);
		return true;
	}
	--*left;
	if (s->op == TENT_OP_INDIRECT)
		indirect_begin(p, r, s);
	else
		begin_bare(p, r, s);
	return true;
}

/* One step. False: nothing more can be done in this turn. */
static bool step(struct poller *p, struct ring_state *r, uint32_t *left)
{
	switch (r->intake.step) {
	case INTAKE_ADMIT:
		admit(p, r);
		break;
	case INTAKE_RELEASE:
		if (release(p, r))
			publish_refusal(p, r);
		break;
	case INTAKE_CANCEL:
		cancel_step(p, r);
		break;
	case INTAKE_TAKE:
		if (r->intake.op == TENT_OP_INDIRECT) {
			indirect_take(p, r, left);
			return true;
		}
		/* fall through */
	default:
		return intake_batch(p, r, left);
	}
	*left = 0;	/* a turn does one of the slow things */
	return true;
}

bool intake_ring(struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots;
	bool any = false;

	while (left && !r->end_rule && step(p, r, &left))
		any = true;
	return any;
}

bool intake_abandon(struct poller *p, struct ring_state *r)
{
	switch (r->intake.step) {
	case INTAKE_IDLE:
		return false;
	case INTAKE_ADMIT:
		admit(p, r);
		return true;
	case INTAKE_CANCEL:
		r->intake.step = INTAKE_IDLE;
		return true;
	default:
		r->intake.step = INTAKE_RELEASE;
		if (release(p, r)) {
			give_batch_back(r);
			r->intake.step = INTAKE_IDLE;
		}
		return true;
	}
}
