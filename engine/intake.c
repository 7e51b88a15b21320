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
#include "engine/notice.h"
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

/* op, resv0 and flags as one word; resv0 is the judge's. */
static inline uint32_t op_and_flags(const struct tent_slot *s)
{
	uint32_t word;

	memcpy(&word, &s->op, sizeof(word));
	return word;
}
#define OPS_AND_FLAGS (7u | 0xff00u | TENT_SLOT_F_ALL << 16)
_Static_assert(TENT_OP_NOTIFY <= 7 && offsetof(struct tent_slot, op) == 16 &&
	       offsetof(struct tent_slot, flags) == 18, "OPS_AND_FLAGS is a mask");

static inline uint16_t first_slot_rule(const struct ring_host *h, const struct tent_slot *s)
{
	if (unlikely(s->seq != h->consumed + 1))
		return TENT_RULE_RING_SEQ;
	if (unlikely(s->nr - 1 > h->slot_mask))	/* 0, too */
		return TENT_RULE_RING_NR;
	if (unlikely(op_and_flags(s) & ~OPS_AND_FLAGS))
		return TENT_RULE_RING_FIRST;
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

/* From here on nr more requests count, and may post this many completions. */
static inline void account(struct poller *p, struct ring_state *r, uint32_t nr,
			   uint32_t completions)
{
	r->host.pending += completions;
	level_add(&r->in_flight, nr);
	level_add(&p->in_flight, nr);
	stat_add(&p->stats.batches, 1);
	stat_add(&r->stats.batches, 1);
	stat_add(&p->stats.requests, nr);
	stat_add(&r->stats.requests, nr);
}

void intake_accept(struct poller *p, struct ring_state *r)
{
	uint32_t nr = r->intake.nr;

	if (r->notice)
		r->intake.judge.batch->notice = r->notice;
	r->notice = NULL;
	account(p, r, nr, r->intake.op == TENT_OP_INDIRECT ? 1 : nr);
	intake_finish(r);
}

static __attribute__((noinline)) void batch_open(struct ring_state *r, const struct tent_slot *s)
{
	struct judge *j = &r->intake.judge;
	struct batch_state *b = r->free_batches;

	r->free_batches = b->next;
	*b = (struct batch_state){
		.user_data = s->user_data, .seen_ticks = j->seen_ticks, .nr = s->nr,
		.credits = s->nr, .left = s->nr, .first_bad = s->nr,
		.posted_ticks = UINT32_MAX, .status = TENT_STATUS_COMPLETED,
		.member_ends = s->flags & TENT_SLOT_F_ONE_COMPLETION ? MEMBER_ENDS_SILENTLY :
								       MEMBER_IS_PUBLISHED,
	};
	j->batch = b;
}

/* ---- copying ----------------------------------------------------------- */

/* The texts of policy names, for the slots that have one. */
static void copy_cells(struct poller *p, const struct ring_host *h, uint32_t n,
		       uint32_t position)
{
	for (uint32_t i = 0; i < n; i++)
		if (p->slots[i].request.policy_name)
			ring_host_copy_cell(h, position + i, p->cells[i]);
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
	uint64_t wrong = 0;	/* seq, nr << 32 */
	uint32_t head = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t seq_and_nr;

		memcpy(&seq_and_nr, &s[i].seq, sizeof(seq_and_nr));
		wrong |= seq_and_nr ^ (uint32_t)(position + i + 1);
		head |= (op_and_flags(&s[i]) & ~0xff00u) | s[i].cq_head;
	}
	return (uint32_t)wrong ? TENT_RULE_RING_SEQ : wrong || head ? TENT_RULE_RING_FIRST : 0;
}

/* Some slot is not plain, or breaks the ring's protocol: then the rule, else 0. */
static __attribute__((noinline)) uint16_t copied_odd(struct poller *p,
						     const struct ring_host *h, uint32_t n,
						     uint32_t position, bool has_first)
{
	uint16_t rule = later_slot_rule(&p->slots[has_first], n - has_first,
					position + has_first);

	if (!rule)
		copy_cells(p, h, n, position);
	return rule;
}

/* Copies n slots from position on. 0, or the rule the ring ends with. has_first: the
 * first one is the batch's, and copied already. */
static inline __attribute__((always_inline)) uint16_t
copy_slots(struct poller *p, const struct ring_state *r, uint32_t n, uint32_t position,
	   bool has_first, bool *is_plain)
{
	const struct ring_host *h = &r->host;
	const struct tent_slot *slots = (const struct tent_slot *)h->slots;
	struct sniff sniff;
	uint64_t wrong = 0;
	uint32_t i = 0;

	sniff_begin(&sniff, r->intake.judge.slot_flags);
	if (has_first)
		sniff_slot(&sniff, &p->slots[i++], true);
	while (i < n) {		/* twice where the batch wraps */
		uint32_t at = (position + i) & h->slot_mask, row = h->slot_mask + 1 - at;

		row = row < n - i ? row : n - i;
		wrong |= copy_row(&p->slots[i], &slots[at], row, position + i, &sniff);
		i += row;
	}
	*is_plain = sniff_is_plain(&sniff);
	return likely(*is_plain && !wrong) ? 0 : copied_odd(p, h, n, position, has_first);
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

static inline __attribute__((always_inline)) void
prepare(struct poller *p, struct ring_state *r, uint32_t first_index, bool is_plain)
{
	struct judge *j = &r->intake.judge;

	/* A7, pairs with R7 in segments.c and reload.c */
	judge_load(j, load_acquire(&r->space->handles), load_acquire(&r->space->contract));
	j->first_index = first_index;
	j->way = is_plain ? j->short_way : SHORT_NONE;
	if (unlikely(!is_plain))
		set_now(p, j);
}

void intake_prepare(struct poller *p, struct ring_state *r, uint32_t first_index,
		    bool is_plain)
{
	prepare(p, r, first_index, is_plain);
}

/* What intake_batch() says when it is not a whole batch that passed. */
#define BATCH_WAITS (-1)	/* for another turn */
#define BATCH_OTHER 0		/* something else happened: see the ring's state */

/* Remembers a batch that this turn, or this file, does not see through. */
static void remember(struct ring_state *r, const struct tent_slot *s, enum intake_step step)
{
	struct intake *in = &r->intake;

	in->step = (uint8_t)step;
	in->op = s->op;
	in->nr = s->nr;
	in->taken = 0;
	in->user_data = s->user_data;
	in->why = (struct refusal){ 0 };
	r->notice = NULL;
}

/* A whole batch of requests did not simply pass. */
static __attribute__((noinline)) int32_t whole_odd(struct poller *p, struct ring_state *r,
						   enum verdict verdict,
						   const struct refusal *why)
{
	uint32_t n = p->slots[0].nr;

	remember(r, &p->slots[0], INTAKE_RELEASE);
	if (verdict == BATCH_REFUSED) {
		r->intake.why = *why;
		return BATCH_OTHER;
	}
	intake_accept(p, r);
	r->nr_free -= n;
	intake_admit(p, r, &r->free[r->nr_free], n, r->intake.judge.seen_ticks);
	return BATCH_OTHER;
}

/* The ring ends, or its batch is no batch of requests, or one that takes more turns. */
static __attribute__((noinline)) int32_t begin_odd(struct poller *p, struct ring_state *r,
						   uint16_t rule)
{
	struct tent_slot *s = &p->slots[0];
	const bool notifies = notice_is_in(s);

	if (!rule && s->op > TENT_OP_NOTIFY)
		rule = TENT_RULE_RING_FIRST;
	if (!rule && s->op != TENT_OP_REQUEST && s->nr != 1)
		rule = TENT_RULE_RING_NR;
	if (rule) {
		ring_begin_end(r, rule);
		return BATCH_OTHER;
	}
	if ((s->op == TENT_OP_INDIRECT && indirect_must_wait(p, r, s)) ||
	    (notifies && notice_must_wait(r)))
		return BATCH_WAITS;
	remember(r, s, INTAKE_TAKE);
	r->host.cq_head = s->cq_head;
	if (notifies)
		notice_take(r, s, &r->intake.why);
	if (r->intake.why.rule)
		r->intake.step = INTAKE_RELEASE;
	else if (s->op != TENT_OP_REQUEST)
		intake_begin_other(p, r, s);
	else if (s->flags & (TENT_SLOT_F_ONE_COMPLETION | TENT_SLOT_F_NOTIFY))
		batch_open(r, s);
	return BATCH_OTHER;
}

static inline void begin(struct ring_state *r, const struct tent_slot *s)
{
	struct judge *j = &r->intake.judge;

	j->slot_flags = s->flags;
	j->seen_ticks = ticks_now();
	j->now_ns = 0;
	j->batch = NULL;
}

/* False: it goes the longer way, as one with a notification does. */
static __attribute__((noinline)) bool open_whole(struct ring_state *r, const struct tent_slot *s)
{
	if (s->flags & TENT_SLOT_F_NOTIFY)
		return false;
	batch_open(r, s);
	return true;
}

/*
 * Copies and judges the batch at the head: what intake and validation cost; noinline,
 * so that it can be counted. How many requests it has when it is one that passed; their
 * records are then on top of the free stack. Else BATCH_OTHER or BATCH_WAITS.
 */
__attribute__((noinline)) static int32_t intake_batch(struct poller *p, struct ring_state *r,
						      uint32_t left)
{
	struct tent_slot *s = &p->slots[0];
	struct ring_host *h = &r->host;
	enum verdict verdict;
	struct refusal why;
	uint16_t rule;
	bool is_plain;
	uint32_t nr;

	ring_host_copy_slot(h, h->consumed, s);
	nr = s->nr;
	if (unlikely(nr > left && nr <= p->o.turn_slots))
		return BATCH_WAITS;
	rule = first_slot_rule(h, s);
	if (unlikely(load_relaxed(&r->space->condemned)))
		rule = TENT_RULE_RING_MAPPING;
	begin(r, s);
	if (unlikely(rule || s->op != TENT_OP_REQUEST || nr > left))
		return begin_odd(p, r, rule);
	h->cq_head = s->cq_head;
	if (unlikely(s->flags & (TENT_SLOT_F_ONE_COMPLETION | TENT_SLOT_F_NOTIFY)) &&
	    !open_whole(r, s))
		return begin_odd(p, r, 0);
	rule = copy_slots(p, r, nr, h->consumed, true, &is_plain);
	if (unlikely(rule))
		return begin_odd(p, r, rule);
	prepare(p, r, 0, is_plain);
	verdict = judge_batch(&r->intake.judge, p->slots, p->cells, nr,
			      &r->free[r->nr_free - nr], &why);
	if (unlikely(verdict != BATCH_ACCEPTED))
		return whole_odd(p, r, verdict, &why);
	return (int32_t)nr;
}

/* ---- long batches ------------------------------------------------------ */

/* The next piece of a batch that is longer than a turn; how many slots. */
static uint32_t take_piece(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct intake *in = &r->intake;
	uint32_t n = in->nr - in->taken < left ? in->nr - in->taken : left;
	struct transfer **records = &r->free[r->nr_free - n];
	struct refusal why;
	bool is_plain;
	uint16_t rule;

	if (in->taken == 0)
		rule = copy_slots(p, r, n, r->host.consumed, true, &is_plain);
	else
		rule = copy_slots(p, r, n, r->host.consumed + in->taken, false, &is_plain);
	if (rule) {
		ring_begin_end(r, rule);
		return n;
	}
	intake_prepare(p, r, in->taken, is_plain);
	if (judge_batch(&in->judge, p->slots, p->cells, n, records, &why) == BATCH_REFUSED) {
		why.index += in->taken;
		intake_refuse(r, &why);
	}
	if (!in->why.rule)
		notice_cover(r, p->slots, records, n, &in->why);
	in->taken += n;
	if (!in->why.rule) {
		r->nr_free -= n;
		intake_park(r, records, n);
	}
	if (in->taken < in->nr)
		return n;
	if (!in->why.rule)
		intake_accept(p, r);
	in->step = in->why.rule ? INTAKE_RELEASE : INTAKE_ADMIT;
	return n;
}

/* ---- a turn ------------------------------------------------------------ */

/*
 * A ring that has a backlog gains little from more slots in the engine, and its
 * neighbours wait while they are judged, admitted or released. It takes a part of what a
 * turn may, and has none before the turns are over whose parts a batch took that is
 * longer. So does one in the midst of a batch that takes more than a turn. Alone, it takes
 * fewer than a turn posts of small ones: what it took stays in the caches.
 */
#define BACKLOG_PART 16u
#define BACKLOG_PART_ALONE 8u

/* How many of a turn's slots stay where they are. */
static uint32_t turn_floor(const struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots;
	uint32_t part = p->stats.rings > 1 ? BACKLOG_PART : BACKLOG_PART_ALONE;
	uint32_t share = (left + part - 1) / part, paid;

	if (!ring_has_backlog(r) && r->intake.step == INTAKE_IDLE && !r->indirect.admitting) {
		r->slot_debt = 0;
		return 0;
	}
	paid = r->slot_debt < share ? r->slot_debt : share;
	r->slot_debt -= paid;
	return left - (share - paid);
}

/* The ring is in the midst of something. How much of left a step of it used up. */
static __attribute__((noinline)) uint32_t go_on(struct poller *p, struct ring_state *r,
						uint32_t left)
{
	if (r->intake.step != INTAKE_TAKE)
		return intake_slow_step(p, r, left);
	return r->intake.op == TENT_OP_INDIRECT ? indirect_take(p, r, left) :
						  take_piece(p, r, left);
}

/* A whole batch passed: its slots may be reused, its requests enter the scheduler. */
static inline void admit_whole(struct poller *p, struct ring_state *r, uint32_t n)
{
	struct transfer **records;

	account(p, r, n, n);
	ring_host_consume(&r->host, r->host.consumed + n);
	r->nr_free -= n;
	records = &r->free[r->nr_free];
	if (n == 1)
		sched_one(p, r, records[0]);
	else
		sched_push(p, r, records, n, r->intake.judge.seen_ticks);
}

static void set_attention(struct ring_state *r)
{
	r->attention = r->end_rule || r->intake.step != INTAKE_IDLE || r->indirect.admitting;
}

/* What is not simply a batch that is taken whole. How much of left it used up. */
static __attribute__((noinline)) uint32_t other(struct poller *p, struct ring_state *r,
						uint32_t left)
{
	uint32_t used = 1;

	if (r->intake.step != INTAKE_IDLE && !r->end_rule)
		used = go_on(p, r, left);
	set_attention(r);
	return r->end_rule ? left : used;
}

/* A turn's rest for a ring that is in the midst of something, or was a moment ago. */
static __attribute__((noinline)) void attend(struct poller *p, struct ring_state *r,
					     uint32_t left, uint32_t floor)
{
	while (left > floor && intake_has_batch(r)) {
		int32_t taken = BATCH_OTHER;

		if (r->intake.step == INTAKE_IDLE)
			taken = intake_batch(p, r, left);
		if (taken == BATCH_WAITS)
			break;
		if (taken > 0)
			admit_whole(p, r, (uint32_t)taken);
		left -= taken > 0 ? (uint32_t)taken : other(p, r, left - floor);
	}
	if (left < floor)
		r->slot_debt += floor - left;
}

/* A turn of a ring that may have a backlog. */
static __attribute__((noinline)) bool take_share(struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots, floor = turn_floor(p, r);

	attend(p, r, left, floor);
	return left > floor;
}

bool intake_attend(struct poller *p, struct ring_state *r)
{
	bool any = r->indirect.admitting || intake_has_batch(r);
	uint32_t left = p->o.turn_slots, floor = turn_floor(p, r);

	if (r->indirect.admitting) {	/* a share beside that of the slots after it */
		indirect_admit(p, r, left - floor);
		set_attention(r);
	}
	attend(p, r, left, floor);
	return any;
}

bool intake_ring(struct poller *p, struct ring_state *r)
{
	uint32_t left = p->o.turn_slots, nr;

	if (unlikely(p->nr_linked))
		return take_share(p, r);
	do {
		int32_t taken = intake_batch(p, r, left);

		if (unlikely(taken == BATCH_WAITS))
			return left < p->o.turn_slots;
		if (unlikely(taken == BATCH_OTHER)) {
			attend(p, r, left - other(p, r, left), 0);
			return true;
		}
		left -= (uint32_t)taken;
		admit_whole(p, r, (uint32_t)taken);
	} while (left && ring_host_peek(&r->host, &nr));
	return true;
}
