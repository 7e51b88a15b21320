/* SPDX-License-Identifier: Apache-2.0 */
/* intent_policy.c - the judge's last stage where tenants have contracts: what a request
 * wants, against what its tenant may have. Every request is looked at by itself. */
#include "engine/judge.h"

/* One that would never find room among its tenant's. */
static struct fault bounds_fault(const struct qos_terms *terms, uint64_t length)
{
	if (terms->given & QOS_HAS_BYTES && length > terms->max_inflight_bytes)
		return FAULT(INFLIGHT_BYTES, length);
	if (terms->given & QOS_HAS_REQUESTS && length && !terms->max_inflight_requests)
		return FAULT(INFLIGHT_REQUESTS, 1);
	return NO_FAULT;
}

/* By offset of the fields, as everywhere. */
static struct fault terms_fault(const struct bench *b, const struct contract *c,
				const struct wanted *w, uint32_t kind, uint64_t length)
{
	struct fault f;

	if (!c->listed)
		return FAULT(TENANT_DENIED, b->j->space->tenant_uid);
	if (unlikely(kind & KIND_BOUND) && (f = bounds_fault(&c->terms[w->intent], length)).rule)
		return f;
	if (kind & KIND_DENIED)
		return FAULT(PRIORITY_DENIED, w->priority);
	if (c->refuses_expired && w->deadline_ns && w->deadline_ns <= b->j->now_ns)
		return FAULT(DEADLINE_EXPIRED, w->deadline_ns);
	return NO_FAULT;
}

static void set_policy(const struct contract *c, const struct policy *p, struct transfer *t,
		       struct plan_list *list)
{
	if (unlikely(p && p->pool))
		transfer_set_pool(t, p->pool);
	*list = contract_list(c, p);
}

static bool has_gpu(const struct transfer *t)
{
	return t->local->is_gpu | t->remote->is_gpu;
}

/* Where it may go. The rule against it, or 0; and the flags of what it was denied. */
static uint16_t list_for(const struct bench *b, const struct wanted *w, const char *cell,
			 uint64_t length, struct transfer *t, struct plan_list *list)
{
	const struct contract *c = b->j->contract;
	const uint32_t *kind = &b->kinds[KIND_AT(w->intent, w->priority)];
	struct policy_question q;
	const struct policy *p;
	uint16_t rule;
	bool lowered;

	if (!w->policy_length && !t->remote->file && !has_gpu(t)) {
		uint8_t chosen = c->chosen[t->remote->far != NULL][kind - c->kinds];

		if (chosen) {
			set_policy(c, contract_chosen(c, chosen), t, list);
			return 0;
		}
	}
	q = policy_question((uint8_t)w->intent, *kind >> 16 & 0xff, length, t->local, t->remote);
	q.name = cell;
	q.name_length = (uint32_t)w->policy_length;
	p = contract_choose(c, &q, &rule, &lowered);
	t->flags |= lowered ? TENT_CQE_F_POLICY_DOWNGRADED : 0;
	set_policy(c, p, t, list);
	return rule;
}

bool contract_lasts(const struct contract *c, uint32_t place, const struct transfer *t)
{
	struct policy_question q;

	if (c->kinds[place] & KIND_NOTED)
		return false;
	if (!has_gpu(t))
		return c->chosen[1][place];
	q = policy_question(transfer_intent(t), t->priority, 0, t->local, t->remote);
	return policies_ignore_length(c, &q);
}

struct fault contract_fault(struct bench *b, const struct wanted *w, const char *cell,
			    uint64_t length, struct transfer *t)
{
	const struct contract *c = b->j->contract;
	uint32_t kind = b->kinds[KIND_AT(w->intent, w->priority)];
	struct fault f = terms_fault(b, c, w, kind, length);
	struct plan_list list;
	uint16_t rule;

	if (f.rule)
		return f;
	rule = list_for(b, w, cell, length, t, &list);
	if (rule)
		return (struct fault){ rule, (int64_t)w->policy_length };
	t->flags |= kind & KIND_LOWERED ? TENT_CQE_F_PRIORITY_DOWNGRADED : 0;
	if (unlikely(kind & KIND_BOUND)) {
		t->flags |= TRANSFER_F_BOUND;
		b->some_odd = true;
	}
	rule = plan_search(b->planner, &list, w->hint, t);
	if (!rule && w->policy_length && !(t->flags & TENT_CQE_F_POLICY_DOWNGRADED))
		plan_rest(b->planner, &list, t); /* its name is not kept */
	return (struct fault){ rule, w->hint };
}
