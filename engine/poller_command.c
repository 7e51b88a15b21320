/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller_command.c - orders of the control thread. An order may take many turns; each
 * turn does a bounded piece of each, so that closing a full ring or dropping a region
 * is not felt by the rings beside it.
 */
#include <string.h>

#include "engine/complete.h"
#include "engine/due.h"
#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/notice.h"
#include "engine/sched.h"
#include "ring/wake.h"

#define DROP_RECORDS 1024u	/* records looked at per turn for a region */

/* ---- sending ----------------------------------------------------------- */

void poller_send(struct poller *p, struct poller_command *c)
{
	struct poller_command *head = load_relaxed(&p->inbox);

	store_relaxed(&c->answered, 0);
	c->begun = false;
	do {
		c->next = head;
	} while (!compare_exchange(&p->inbox, &head, c)); /* R8, pairs with A8 in receive() */
	if (p->o.threaded && p->o.event_fd >= 0)
		wake_event_signal(p->o.event_fd);
}

/* Senders push the newest first; orders are carried out oldest first. */
static void receive(struct poller *p)
{
	struct poller_command *c, *next, *list = NULL, **end = &p->active;

	if (!load_relaxed(&p->inbox))
		return;
	/* A8, pairs with R8 in poller_send(). */
	for (c = exchange(&p->inbox, NULL); c; c = next) {
		next = c->next;
		c->next = list;
		list = c;
	}
	while (*end)
		end = &(*end)->next;
	*end = list;
}

/* ---- rings ------------------------------------------------------------- */

static void add_ring(struct poller *p, struct ring_state *r)
{
	r->poller = p;
	r->intake.judge = (struct judge){
		.space = r->space, .queues = p->queues, .nr_queues = p->nr_queues,
		.one_level = p->o.no_priorities, .hints = &p->hints,
	};
	judge_settle(&r->intake.judge, &p->planner, r->kinds);
	due_open_ring(r);
	r->next = p->rings;
	p->rings = r;
	if (poller_watch(p, r) < 0)
		p->unwatched++;
	if (p->yielding)
		ring_host_set_flags(&r->host, TENT_ENGINE_SPIN_YIELD, 0);
	store_relaxed(&p->stats.rings, p->stats.rings + 1);
	sched_size_turn(p);
}

/* Scans of other orders may stand at this ring. */
static void remove_ring(struct poller *p, struct ring_state *r)
{
	struct ring_state **link = &p->rings;

	for (struct poller_command *c = p->active; c; c = c->next)
		if (c->begun && c->scan_ring == r) {
			c->scan_ring = r->next;
			c->scan_index = 0;
		}
	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	sched_forget(p, r);
	poller_unwatch(p, r);
	if (r->indirect.ended) {	/* ring_state_destroy() unmaps the rest */
		p->nr_reclaiming--;
		p->indirect_entries -= r->indirect.count;
	}
	r->poller = NULL;
	store_relaxed(&p->stats.rings, p->stats.rings - 1);
	sched_size_turn(p);
}

static bool close_ring(struct poller *p, const struct poller_command *c)
{
	struct ring_state *r = c->ring;

	if (r->poller != p)
		return true;		/* never served */
	ring_begin_end(r, c->rule);
	if (!r->ended)
		return false;
	remove_ring(p, r);
	return true;
}

static bool stop(struct poller *p, const struct poller_command *c)
{
	bool all = true;

	for (struct ring_state *r = p->rings; r; r = r->next) {
		ring_begin_end(r, c->rule);
		all &= r->ended;
	}
	if (!all || p->active != c || c->next)
		return false;
	p->stopped = true;
	return true;
}

/* ---- regions ----------------------------------------------------------- */

/* The rule a transfer that touches the region ends with, or 0. An INDIRECT whose arrays
 * are gone ends as a whole: there is no place for its results. */
static uint16_t drop_rule(const struct poller_command *c, const struct transfer *t)
{
	if (t->local == c->region)
		return TENT_RULE_SOURCE_GONE;
	if (t->remote == c->region)
		return c->rule;
	if (t->batch && t->batch->indirect && !t->batch->indirect->region)
		return TENT_RULE_SOURCE_GONE;
	return 0;
}

/* Parked ones end where they are, and say so once their batch is admitted. */
static void drop_one(struct poller *p, struct poller_command *c, struct transfer *t)
{
	uint16_t rule = t->state == TRANSFER_FREE ? 0 : drop_rule(c, t);

	if (!rule)
		return;
	if (transfer_is_posted(t)) {
		c->found = true;
		sched_call_back(p, t, rule);
	} else if (transfer_waits(t)) {
		sched_remove(t->ring, t);
		complete_with(p, t, rule);
	} else {
		t->local = t->remote = NULL;
		if (t->status == TENT_STATUS_WAITING)
			transfer_end_by(t, rule);
	}
}

static void begin_pass(struct poller *p, struct poller_command *c)
{
	c->scan_ring = p->rings;
	c->scan_index = 0;
	c->found = false;
}

/* What peers asked for of it, and what backends keep. */
static bool drop_kept(const struct poller *p, const struct poller_command *c)
{
	bool done = true;

	for (uint32_t i = 0; i < p->nr_queues; i++)
		if (p->queues[i]->ops->drop)
			done &= p->queues[i]->ops->drop(p->queues[i], c->region);
	return done;
}

/* Goes over the records of every ring until a whole pass finds nothing with a backend. */
static bool drop_region(struct poller *p, struct poller_command *c)
{
	if (!c->begun) {
		c->begun = true;
		begin_pass(p, c);
		memset(&p->hints, 0, sizeof(p->hints));
		for (struct ring_state *r = p->rings; r; r = r->next) {
			indirect_drop(r, c->region);
			/* A later contract may lie where the last one lay. A7, pairs with
			 * R7 in contracts.c */
			judge_take_contract(&r->intake.judge, load_acquire(&r->space->contract));
		}
	}
	for (uint32_t i = 0; i < DROP_RECORDS && c->scan_ring; i++) {
		struct ring_state *r = c->scan_ring;
		bool idle = !r->in_flight && r->intake.step == INTAKE_IDLE;
		struct transfer *t = idle ? NULL : ring_record(r, c->scan_index++);

		if (t) {
			drop_one(p, c, t);
			continue;
		}
		c->scan_ring = r->next;
		c->scan_index = 0;
	}
	if (c->scan_ring || !drop_kept(p, c))
		return false;
	if (!c->found)
		return true;
	begin_pass(p, c);
	return false;
}

/* ---- load -------------------------------------------------------------- */

static void tell_load(const struct poller *p)
{
	for (uint32_t i = 0; i < p->nr_queues; i++)
		if (p->queues[i]->ops->load_tell)
			p->queues[i]->ops->load_tell(p->queues[i]);
}

/* ---- all of them ------------------------------------------------------- */

static bool carry_out(struct poller *p, struct poller_command *c)
{
	switch (c->type) {
	case POLLER_ADD_RING:
		add_ring(p, c->ring);
		return true;
	case POLLER_CLOSE_RING:
		return close_ring(p, c);
	case POLLER_NOTICE_BACK:
		notice_back(p, c->notice);
		return true;
	case POLLER_DROP_REGION:
		return drop_region(p, c);
	case POLLER_TELL_LOAD:
		tell_load(p);
		return true;
	case POLLER_STOP:
		return stop(p, c);
	}
	return true;
}

/* The struct is its sender's again after the store. */
static void answer(struct poller *p, struct poller_command *c)
{
	store_release(&c->answered, 1); /* R8, pairs with A8 in the sender's wait */
	if (p->o.answer_fd >= 0)
		wake_event_signal(p->o.answer_fd);
}

bool poller_commands(struct poller *p)
{
	struct poller_command **link = &p->active, *c;
	bool any = false;

	receive(p);
	while ((c = *link)) {
		if (!carry_out(p, c)) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		answer(p, c);
		any = true;
	}
	return any;
}
