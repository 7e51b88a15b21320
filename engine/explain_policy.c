/* SPDX-License-Identifier: Apache-2.0 */
/* explain_policy.c - what a contract made of a request: the effective policy in the words
 * of the RFC, who moves it, and why nobody else does. */
#include <string.h>

#include "engine/contract_set.h"
#include "engine/explain.h"
#include "engine/failover.h"
#include "engine/words.h"

/* ---- the policy -------------------------------------------------------- */

/* The one it went by. rule: what its name met with, or 0. */
static const struct policy *policy_of(const struct explained *x, uint16_t *rule)
{
	struct policy_question q = policy_question(transfer_intent(x->t), x->t->priority,
						   x->t->length, x->t->local, x->t->remote);
	uint16_t none;
	bool lowered;

	q.name = x->cell;
	q.name_length = x->name_length;
	*rule = x->contract && q.name_length ? contract_name_rule(x->contract, &q) : 0;
	return x->contract ? contract_choose(x->contract, &q, &none, &lowered) : NULL;
}

uint16_t explained_name_rule(const struct explained *x)
{
	uint16_t rule;

	policy_of(x, &rule);
	return rule ? rule : TENT_RULE_POLICY_UNKNOWN;
}

static struct plan_list list_of(const struct explained *x)
{
	uint16_t rule;

	if (!x->contract)
		return (struct plan_list){ .allowed = UINT32_MAX };
	return contract_list(x->contract, policy_of(x, &rule));
}

static bool is_absent(const struct backend_queue *q)
{
	return q->ops->is_absent && q->ops->is_absent(q->inst);
}

/* What may move it, in order of preference. */
static json_t *transports_json(const struct explained *x)
{
	struct plan_list list = list_of(x);
	json_t *names = json_array();

	for (uint32_t i = 0; i < list.nr; i++)
		if (plan_lists(&list, list.order[i]))
			json_array_append_new(names, word_json(WORD_TRANSPORT, list.order[i]));
	for (uint32_t i = 0; !list.nr && i < x->nr_queues; i++) {
		uint8_t transport = x->queues[i]->ops->transport;

		if (plan_lists(&list, transport) && !is_absent(x->queues[i]) &&
		    !x->queues[i]->ops->is_stage)
			json_array_append_new(names, word_json(WORD_TRANSPORT, transport));
	}
	return names;
}

static void add_policy(json_t *to, const struct explained *x)
{
	const struct contract_config *config = x->contract ? &x->contract->set->config : NULL;
	uint16_t rule;
	const struct policy *p = policy_of(x, &rule);

	json_object_set_new(to, "policy", json_string(p ? p->name : "default"));
	json_object_set_new(to, "authorized_transports", transports_json(x));
	json_object_set_new(to, "qp_pool", p && p->pool ?
			    json_string(config->pools[p->pool - 1].name) : json_null());
	if (p && p->service_level >= 0)
		json_object_set_new(to, "service_level", json_integer(p->service_level));
	if (p && p->traffic_class >= 0)
		json_object_set_new(to, "traffic_class", json_integer(p->traffic_class));
}

/* ---- the contract ------------------------------------------------------ */

static json_t *actions_json(uint8_t actions)
{
	json_t *list = json_array();

	for (unsigned int i = 0; qos_action_name(i); i++)
		if (actions & 1u << i)
			json_array_append_new(list, json_string(qos_action_name(i)));
	return list;
}

static void add_terms(json_t *to, const struct explained *x)
{
	const struct qos_terms *t = x->contract ? &x->contract->terms[transfer_intent(x->t)] : NULL;
	char matched[CONTRACT_NAME_SIZE + 32] = "compatibility_default";

	if (x->contract)
		contract_matched_name(x->contract, transfer_intent(x->t), matched,
				      sizeof(matched));
	json_object_set_new(to, "matched_policy", json_string(matched));
	if (!t)
		return;
	json_object_set_new(to, "tenant", json_string(x->contract->name));
	if (t->given & QOS_HAS_ACTIONS)
		json_object_set_new(to, "degraded_actions", actions_json(t->actions));
	if (t->given & QOS_HAS_BYTES)
		json_object_set_new(to, "max_inflight_bytes",
				    json_integer((json_int_t)t->max_inflight_bytes));
	if (t->given & QOS_HAS_REQUESTS)
		json_object_set_new(to, "max_inflight_requests",
				    json_integer(t->max_inflight_requests));
}

json_t *explained_effective(const struct explained *x)
{
	json_t *to = json_pack("{s:o,s:o}",
		"intent", word_json(WORD_INTENT, transfer_intent(x->t)),
		"priority", word_json(WORD_PRIORITY, x->t->priority));

	add_policy(to, x);
	add_terms(to, x);
	return to;
}

/* ---- the others -------------------------------------------------------- */

#define WHY_SIZE 300u

/* The backend's own reason, if it has one. */
static const char *why_out_of_reach(const struct backend_queue *q, const struct transfer *t,
				    char text[WHY_SIZE])
{
	*text = '\0';
	if (q->ops->why_not)
		q->ops->why_not(q->inst, t->local, t->remote, text, WHY_SIZE);
	return *text ? text : "it does not reach both ends";
}

/* text: room for what is not said always. */
static const char *why_not(const struct explained *x, const struct plan_list *list,
			   const struct backend_queue *q, char text[WHY_SIZE])
{
	const struct transfer *t = x->t;

	if (x->hint && x->hint != q->ops->transport)
		return "the hint names another";
	if (!(list->allowed & 1u << q->ops->transport))
		return "this tenant may not use it";
	if (!plan_lists(list, q->ops->transport))
		return "the policy does not list it";
	if (t->local && t->remote && !q->ops->reaches(q->inst, t->local, t->remote))
		return why_out_of_reach(q, t, text);
	if (paths_is_paused(x->paths, q->ops->transport, path_epoch(t->remote)))
		return "it is paused after failures";
	return list->nr ? "the policy prefers another" : "another comes first";
}

/* A stage and what it stands for are one transport. */
static bool is_no_other(const struct explained *x, const struct backend_queue *q)
{
	return q->ops->is_stage || (x->t->queue && x->t->queue->ops->is_stage ?
				    x->t->queue->ops->transport == q->ops->transport :
				    x->t->queue == q);
}

/* Why nobody else moves it. */
json_t *explained_others(const struct explained *x)
{
	struct plan_list list = list_of(x);
	json_t *others = json_array();

	for (uint32_t i = 0; i < x->nr_queues; i++) {
		const struct backend_queue *q = x->queues[i];
		char text[WHY_SIZE];

		if (!is_no_other(x, q))
			json_array_append_new(others, json_pack("{s:s,s:s}", "transport",
				q->ops->name, "why_not", why_not(x, &list, q, text)));
	}
	return others;
}

json_t *explained_fallbacks(const struct explained *x)
{
	uint8_t ways[TRANSFER_WAYS];
	json_t *names = json_array();
	struct planner planner;
	uint32_t nr;

	planner_init(&planner, x->queues, x->nr_queues, x->paths);
	nr = x->t->length && x->t->queue ?
	     failover_ways(&planner, x->contract, x->attempts, x->t, ways) : 0;
	for (uint32_t i = 0; i < nr; i++)
		json_array_append_new(names, word_json(WORD_TRANSPORT, ways[i]));
	return names;
}
