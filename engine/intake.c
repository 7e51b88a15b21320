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
	finish(r);
}

/* list may lie on top of the free stack: nothing is released before it was read. */
void intake_admit(struct poller *p, struct ring_state *r, struct transfer **list,
		  uint32_t n, uint64_t now)
{
	uint32_t waiting = 0, ended = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (list[i]->status == TENT_STATUS_WAITING)
			list[waiting++] = list[i];
		else
			p->ended[ended++] = list[i];
	}
	if (waiting)
		sched_push(p, r, list, waiting, now);
	if (ended)
		complete_run(p, r, p->ended, ended, ticks_now());
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

/* Copies the next n slots of the batch and tells the judge whether they are plain. 0, or
 * the rule the ring ends with. The first slot of a batch has been copied already. */
static inline uint16_t copy_slots(struct poller *p, struct ring_state *r, uint32_t n)
{
	const struct ring_host *h = &r->host;
	const struct tent_slot *slots = (const struct tent_slot *)h->slots;
	uint32_t position = h->consumed + r->intake.taken, copied = r->intake.taken ? 0 : 1;
	struct sniff sniff;
	uint64_t wrong = 0;
	uint16_t rule;

	sniff_begin(&sniff, r->intake.flags);
	if (copied)
		sniff_slot(&sniff, &p->slots[0], true);
	for (uint32_t i = copied, row; i < n; i += row) { /* two rows where it wraps */
		uint32_t at = (position + i) & h->slot_mask;

		row = h->slot_mask + 1 - at;
		row = row < n - i ? row : n - i;
		wrong |= copy_row(&p->slots[i], &slots[at], row, position + i, &sniff);
	}
	p->judge.is_plain = sniff_is_plain(&sniff);
	if (likely(p->judge.is_plain && !wrong))
		return 0;
	rule = later_slot_rule(&p->slots[copied], n - copied, position + copied);
	if (!rule)
		copy_cells(p, r, n);
	return rule;
}

void intake_prepare(struct poller *p, struct ring_state *r)
{
	struct judge *j = &p->judge;

	j->space = r->space;
	j->handles = load_acquire(&r->space->handles); /* A7, pairs with R7 in segments.c */
	j->now_ns = r->intake.now_ns;
	j->slot_flags = r->intake.flags;
	j->first_index = r->intake.taken;
	j->seen_ticks = r->intake.seen_ticks;
	j->batch = r->intake.batch;
}

/* A piece of a long batch passed: its requests wait for the others' verdict. */
static void park(struct ring_state *r, struct transfer **records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		records[i]->state = TRANSFER_PARKED;
		queue_push(&r->intake.parked, records[i]);
	}
}

/*
 * Copies and judges the next n slots. Whole batches of one piece, the common case, pass
 * with their records still on top of the free stack: admit_whole() takes them.
 */
static inline void take(struct poller *p, struct ring_state *r, uint32_t n)
{
	struct intake *in = &r->intake;
	struct transfer **records = &r->free[r->nr_free - n];
	struct refusal why;
	uint16_t rule = copy_slots(p, r, n);

	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return;
	}
	intake_prepare(p, r);
	if (unlikely(!judge_batch(&p->judge, p->slots, p->cells, n, records, &why))) {
		why.index += in->taken;
		intake_refuse(r, &why);
	}
	in->taken += n;
	in->why.some_ended = why.some_ended;
	if (likely(n == in->nr))
		return;
	if (!in->why.rule) {
		r->nr_free -= n;
		park(r, records, n);
	}
}

/* The last piece was judged. */
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
	if (likely(!in->why.some_ended))
		sched_push(p, r, &r->free[r->nr_free], n, in->seen_ticks);
	else
		intake_admit(p, r, &r->free[r->nr_free], n, in->seen_ticks);
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
	uint32_t n = unpark(p, r);

	intake_admit(p, r, p->piece, n, r->intake.seen_ticks);
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
	} else if (t->state == TRANSFER_QUEUED) {
		sched_remove(r, t);
		complete_with(p, t, TENT_RULE_CANCELED);
	} else if (t->status == TENT_STATUS_WAITING) {
		transfer_end_by(t, TENT_RULE_CANCELED);	/* parked: told when it is admitted */
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

/* A new batch is at the head: its first slot is copied and looked at. False: it has to
 * wait for another turn. */
static inline bool intake_begin(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct tent_slot *s = &p->slots[0];
	uint16_t rule;

	ring_host_copy_slot(&r->host, r->host.consumed, s);
	if (unlikely(s->nr > left && s->nr <= p->o.turn_slots))
		return false;
	rule = first_slot_rule(&r->host, s);
	if (unlikely(rule)) {
		ring_begin_end(r, rule);
		return true;
	}
	if (unlikely(s->op == TENT_OP_INDIRECT && indirect_must_wait(p, r, s)))
		return false;
	begin(p, r, s);
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

/* The steps of a batch that are not its judgement, each a turn's work. */
static void slow_step(struct poller *p, struct ring_state *r)
{
	switch (r->intake.step) {
	case INTAKE_ADMIT:
		admit(p, r);
		break;
	case INTAKE_RELEASE:
		if (release(p, r))
			publish_refusal(p, r);
		break;
	default:
		cancel_step(p, r);
	}
}

/* Something other than requests was judged to be well-formed. */
static void begin_other(struct poller *p, struct ring_state *r)
{
	if (r->intake.op == TENT_OP_INDIRECT)
		indirect_begin(p, r, &p->slots[0]);
	else
		begin_bare(p, r, &p->slots[0]);
}

/* One step. How much of left it used up; 0: nothing more can be done in this turn. */
static inline uint32_t step(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct intake *in = &r->intake;
	bool begins = in->step == INTAKE_IDLE;
	uint32_t n;

	if (unlikely(in->step > INTAKE_TAKE)) {
		slow_step(p, r);
		return left;
	}
	if (unlikely(!begins && in->op == TENT_OP_INDIRECT))
		return indirect_take(p, r, left);
	n = intake_batch(p, r, left);
	if (unlikely(r->end_rule || !n))
		return n;
	if (unlikely(in->op != TENT_OP_REQUEST))
		begin_other(p, r);
	else if (likely(in->taken == in->nr))
		conclude(p, r, n);
	return n;
}

static inline bool has_batch(const struct ring_state *r)
{
	uint32_t nr;

	return r->intake.step != INTAKE_IDLE || ring_host_peek(&r->host, &nr);
}

bool intake_ring(struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots, n;
	bool any = false;

	if (unlikely(r->indirect.admitting)) {
		indirect_admit(p, r);
		any = true;
	}
	for (; left && !r->end_rule && has_batch(r); left -= n, any = true) {
		n = step(p, r, left);
		if (!n)
			break;
	}
	return any;
}

bool intake_abandon(struct poller *p, struct ring_state *r)
{
	if (r->indirect.admitting) {
		indirect_admit(p, r);
		return true;
	}
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
