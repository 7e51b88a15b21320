/* SPDX-License-Identifier: Apache-2.0 */
/* failover.c - see failover.h. */
#include "engine/contract_set.h"
#include "engine/failover.h"
#include "engine/meters.h"
#include "engine/sched.h"

/* Another path may do better. */
static bool is_of_path(uint16_t rule)
{
	switch (rule) {
	case TENT_RULE_TRANSPORT_REACH:	/* the owner's engine says so of its own memory */
	case TENT_RULE_INTEGRITY:
	case TENT_RULE_FILE_IO:
	case TENT_RULE_PEER_LOST:
	case TENT_RULE_SYSTEM:
	case TENT_RULE_INJECTED:
	case TENT_RULE_CARD:
		return true;
	default:
		return false;
	}
}

/* No client can bring that about by what it does to its own memory or file; it would
 * keep others off the path. */
static bool pauses(uint16_t rule)
{
	return rule == TENT_RULE_PEER_LOST || rule == TENT_RULE_SYSTEM ||
	       rule == TENT_RULE_INJECTED || rule == TENT_RULE_CARD;
}

/* ---- ways that are paused ---------------------------------------------- */

/* Rings know from the planner whether there is a short way. */
static void replan(struct poller *p)
{
	planner_init(&p->planner, p->queues, p->nr_queues, &p->paths);
	for (struct ring_state *r = p->rings; r; r = r->next)
		judge_take_contract(&r->intake.judge, r->intake.judge.contract);
}

static void note_failure(struct poller *p, const struct transfer *t)
{
	if (pauses(t->rule) && paths_failed(&p->paths, t, ticks_now())) {
		stat_add(&p->stats.pauses, 1);
		stat_add(&t->ring->stats.pauses, 1);
		replan(p);
	}
}

/* ---- whether and where ------------------------------------------------- */

static bool overlaps(uint64_t a, uint64_t b, uint64_t length)
{
	return a < b + length && b < a + length;
}

/* A part that was moved has changed what is to be moved. */
static bool is_onto_itself(const struct transfer *t)
{
	if (t->local->addr && t->remote->addr)
		return overlaps((uintptr_t)transfer_local(t), (uintptr_t)transfer_remote(t),
				t->length);
	return (t->local->device ? t->remote->device != NULL :
		t->local->owner && t->local->owner == t->remote->owner) &&
	       overlaps(t->local_addr, t->remote_addr, t->length);
}

/* A contract that lists what may be done in need leaves out what may not. */
static bool is_allowed(const struct contract *c, const struct transfer *t)
{
	const struct qos_terms *terms;

	if (!c)
		return true;
	terms = &c->terms[transfer_intent(t)];
	return !(terms->given & QOS_HAS_ACTIONS) ||
	       terms->actions & 1u << QOS_FALLBACK_TRANSPORT;
}

static uint32_t hops_of(const struct transfer *t)
{
	return t->flags & TENT_CQE_F_FAILED_OVER ? t->hops : 0;
}

static bool may_go_on(const struct poller *p, const struct transfer *t)
{
	return is_of_path(t->rule) && hops_of(t) < p->o.failover_attempts &&
	       t->state != TRANSFER_CANCELING && !t->ring->end_rule &&
	       !(t->flags & TENT_CQE_F_TARGET_UNFENCED);
}

/* By the contract of now. One that names a policy has its list with it. */
static struct plan_list list_of(const struct contract *c, const struct transfer *t)
{
	const struct policy_question q = policy_question(transfer_intent(t), t->priority,
							 t->length, t->local, t->remote);
	uint16_t rule;
	bool lowered;

	if (!c)
		return (struct plan_list){ .allowed = UINT32_MAX };
	return contract_list(c, contract_choose(c, &q, &rule, &lowered));
}

static bool find_next(const struct planner *p, const struct contract *c, struct transfer *t)
{
	if (is_onto_itself(t) || !is_allowed(c, t))
		return false;
	if (!(t->intent & TRANSFER_HAS_REST)) {
		const struct plan_list list = list_of(c, t);

		plan_rest(p, &list, t);
	}
	return plan_next(p, c ? c->transports : UINT32_MAX, t);
}

uint32_t failover_ways(const struct planner *p, const struct contract *c, uint32_t attempts,
		       const struct transfer *t, uint8_t *ways)
{
	struct transfer copy = *t;
	uint32_t n = 0;

	while (n < attempts && n < TRANSFER_WAYS && find_next(p, c, &copy))
		ways[n++] = copy.transport;
	return n;
}

/* ---- hops -------------------------------------------------------------- */

/* It begins anew, and its record says what it went through. */
static void begin_anew(struct transfer *t, uint8_t from)
{
	if (!(t->flags & TENT_CQE_F_FAILED_OVER)) {
		t->hops = 0;
		t->why = (uint8_t)t->rule;
		t->flags |= (uint16_t)(TENT_CQE_F_FAILED_OVER | from << TENT_CQE_FIRST_SHIFT);
	}
	t->hops++;
	t->attempts = 0;
	t->status = TENT_STATUS_WAITING;
	t->error = TENT_OK;
	t->rule = TENT_RULE_NONE;
	t->rail = 0;
	t->done = 0;
}
_Static_assert(TENT_RULE_COUNT <= UINT8_MAX + 1, "why holds a rule");

static bool hop(struct poller *p, struct transfer *t)
{
	/* A7, pairs with R7 in contracts.c */
	const struct contract *c = load_acquire(&t->ring->space->contract);
	const uint8_t from = t->transport;

	note_failure(p, t);
	t->flags &= (uint16_t)~TRANSFER_F_PROBE;
	if (!may_go_on(p, t) || !find_next(&p->planner, c, t))
		return false;
	if (p->meters)
		meters_count_hop(p->meters, t, from);
	stat_add(&p->stats.failovers, 1);
	stat_add(&t->ring->stats.failovers, 1);
	begin_anew(t, from);
	return true;
}

bool failover(struct poller *p, struct transfer *t)
{
	if (!hop(p, t))
		return false;
	sched_enter(p, t->ring, t, ticks_now());
	return true;
}

void failover_told(struct poller *p, struct transfer *t)
{
	bool completed = t->status == TENT_STATUS_COMPLETED;

	if (t->flags & TRANSFER_F_PROBE && completed && t->attempts &&
	    paths_worked(&p->paths, t))
		replan(p);
	t->flags &= (uint16_t)~TRANSFER_F_PROBE;
	if (!(t->flags & TENT_CQE_F_FAILED_OVER))
		return;
	t->attempts = (uint8_t)(t->attempts + t->hops);
	if (completed)
		t->rule = t->why;
	if (t->batch)	/* they need not have begun alike */
		t->flags &= (uint16_t)~(0xfu << TENT_CQE_FIRST_SHIFT);
}
