/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake_slow.c - what few batches go through: parking and admitting long ones, taking
 * refused ones back, CANCEL and NOP, and the intake of a ring that ends.
 */
#include <string.h>

#include "engine/complete.h"
#include "engine/due.h"
#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/notice.h"
#include "engine/sched.h"

/* ---- refusals ---------------------------------------------------------- */

static void give_batch_back(struct ring_state *r)
{
	struct batch_state *b = r->intake.judge.batch;

	notice_drop(r, r->notice);
	r->notice = NULL;
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
	intake_finish(r);
}

/* ---- long batches ------------------------------------------------------ */

void intake_park(struct ring_state *r, struct transfer **records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		records[i]->state = TRANSFER_PARKED;
		queue_push(&r->intake.parked, records[i]);
	}
}

/* The next parked requests, at most max, into p->piece. */
static uint32_t unpark(struct poller *p, struct ring_state *r, uint32_t max)
{
	struct transfer *t;
	uint32_t n = 0;

	while (n < max && (t = r->intake.parked.head)) {
		queue_remove(&r->intake.parked, t);
		p->piece[n++] = t;
	}
	return n;
}

/* The only one of its batch, and nobody waits: its deadline tells it from nobody. */
static bool goes_at_once(const struct poller *p, const struct transfer *t)
{
	return transfer_may_enter(t) && !sched_waits(p) && p->direct_left > 0;
}

/* list may lie where records go back: what is released meanwhile takes places of it that
 * were read. */
void intake_admit(struct poller *p, struct ring_state *r, struct transfer **list,
		  uint32_t n, uint64_t now)
{
	uint32_t ended = 0, i = 0;

	if (n == 1 && goes_at_once(p, list[0])) {
		sched_one(p, r, list[0]);
		return;
	}
	while (i < n) {
		struct transfer *t = list[i];

		if (transfer_may_enter(t)) {
			i += due_push(p, r, &list[i], n - i, now);
			continue;
		}
		i++;
		if (t->status == TENT_STATUS_WAITING)
			sched_admit(p, r, t, now);
		else
			p->ended[ended++] = t;
	}
	if (ended)
		complete_run(p, r, p->ended, ended, ticks_now());
}

/* Their records left the caches since they were judged, so one costs about what it cost
 * to take. How many, at most max. */
static uint32_t admit(struct poller *p, struct ring_state *r, uint32_t max)
{
	uint32_t n = unpark(p, r, max);

	intake_admit(p, r, p->piece, n, r->intake.judge.seen_ticks);
	if (!r->intake.parked.head)
		r->intake.step = INTAKE_IDLE;
	return n;
}

/* Takes records of a batch back that does not run. How many, at most max. */
static uint32_t release(struct poller *p, struct ring_state *r, uint32_t max)
{
	uint32_t n = unpark(p, r, max);

	for (uint32_t i = 0; i < n; i++)
		ring_release(r, p->piece[i]);
	if (!r->intake.parked.head && r->intake.op == TENT_OP_INDIRECT)
		indirect_discard(p, r);
	return n;
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
	    !s->resv0 && !s->notify)
		return (struct refusal){ 0 };
	return (struct refusal){ .rule = TENT_RULE_SLOT_RESV,
				 .value = (int64_t)(s->resv0 | s->notify) };
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
	} else if (transfer_waits(t)) {
		sched_remove(r, t);
		complete_with(p, t, TENT_RULE_CANCELED);
	} else if (t->status == TENT_STATUS_WAITING) {
		transfer_end_by(t, TENT_RULE_CANCELED);	/* parked: told when it is admitted */
	}
}

/* A look at a record costs so much less than a slot. */
#define RECORDS_PER_SLOT 8u

/* Every request in flight with that user_data; the records are many, a turn short. */
static void cancel_step(struct poller *p, struct ring_state *r, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct transfer *t = ring_record(r, r->intake.cursor++);

		if (!t) {
			complete_slot(p, r, r->intake.found ? 0 : TENT_RULE_CANCEL_UNKNOWN);
			intake_finish(r);
			return;
		}
		cancel_one(p, r, t);
	}
}

void intake_begin_other(struct poller *p, struct ring_state *r, struct tent_slot *s)
{
	bool cancel = s->op == TENT_OP_CANCEL;

	if (s->op == TENT_OP_INDIRECT) {
		indirect_begin(p, r, s);
		return;
	}
	if (s->op == TENT_OP_NOTIFY) {
		notice_begin(p, r, s);
		return;
	}
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
		intake_finish(r);
	}
}

/* ---- steps ------------------------------------------------------------- */

uint32_t intake_slow_step(struct poller *p, struct ring_state *r, uint32_t left)
{
	uint32_t n;

	switch (r->intake.step) {
	case INTAKE_ADMIT:
		return admit(p, r, left);
	case INTAKE_RELEASE:
		n = release(p, r, left);
		if (!r->intake.parked.head)
			publish_refusal(p, r);
		return n ? n : 1;
	default:
		cancel_step(p, r, left * RECORDS_PER_SLOT);
		return left;
	}
}

bool intake_abandon(struct poller *p, struct ring_state *r)
{
	if (r->indirect.admitting) {
		indirect_admit(p, r, p->o.turn_slots);
		return true;
	}
	switch (r->intake.step) {
	case INTAKE_IDLE:
		return false;
	case INTAKE_ADMIT:
		admit(p, r, p->o.turn_slots);
		return true;
	case INTAKE_CANCEL:
		r->intake.step = INTAKE_IDLE;
		return true;
	default:
		r->intake.step = INTAKE_RELEASE;
		release(p, r, p->o.turn_slots);
		if (!r->intake.parked.head) {
			give_batch_back(r);
			r->intake.step = INTAKE_IDLE;
		}
		return true;
	}
}
