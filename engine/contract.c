/* SPDX-License-Identifier: Apache-2.0 */
/* contract.c - makes sets of contracts; what it decides once, the judge only looks up. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bounds.h"
#include "engine/contract_set.h"
#include "engine/round.h"
#include "engine/words.h"

/* ---- qos --------------------------------------------------------------- */

static void override(struct qos_terms *terms, const struct qos_terms *by)
{
	if (by->given & QOS_HAS_PRIORITY)
		terms->priority = by->priority;
	if (by->given & QOS_HAS_BYTES)
		terms->max_inflight_bytes = by->max_inflight_bytes;
	if (by->given & QOS_HAS_REQUESTS)
		terms->max_inflight_requests = by->max_inflight_requests;
	if (by->given & QOS_HAS_ACTIONS)
		terms->actions = by->actions;
	terms->given |= by->given;
}

/* Global defaults, then the tenant's, then those of its intent. */
static void resolve_terms(struct contract *c, const struct contract_config *config)
{
	const struct qos_tenant *t = NULL;

	for (uint8_t i = 0; i < config->nr_qos_tenants; i++)
		if (strcmp(config->qos_tenants[i].name, c->name) == 0)
			t = &config->qos_tenants[i];
	for (uint8_t i = 0; i < INTENTS; i++) {
		bool matched = t && t->has_intent & 1u << i;

		c->matches[i] = !config->has_qos ? MATCH_NONE : !t ? MATCH_GLOBAL :
				matched ? MATCH_INTENT : MATCH_TENANT;
		c->terms[i] = config->qos_defaults;
		if (t)
			override(&c->terms[i], &t->defaults);
		if (matched)
			override(&c->terms[i], &t->intents[i]);
	}
}

void contract_matched_name(const struct contract *c, uint8_t intent, char *text, size_t size)
{
	switch (c->matches[intent]) {
	case MATCH_INTENT:
		snprintf(text, size, "%s.%s", c->name, word_name(WORD_INTENT, intent));
		break;
	case MATCH_TENANT:
		snprintf(text, size, "%s.default", c->name);
		break;
	case MATCH_GLOBAL:
		snprintf(text, size, "global_default");
		break;
	default:
		snprintf(text, size, "compatibility_default");
	}
}

/* ---- priorities -------------------------------------------------------- */

/* Numbers grow as priorities fall. The contract's replaces what was asked for; the cap
 * holds over both. */
static uint32_t kind_of(const struct contract *c, uint8_t intent, uint8_t asked, uint8_t cap,
			const struct contract_world *w)
{
	const struct qos_terms *t = &c->terms[intent];
	bool has = t->given & QOS_HAS_PRIORITY;
	uint32_t gets = has ? t->priority : asked ? asked : w->default_priority, kind = 0;

	if (!has && asked && asked < cap && !c->downgrades)
		kind = KIND_DENIED;
	if (gets < cap)
		gets = cap;
	if (asked && gets > asked)
		kind |= KIND_LOWERED;
	return kind | gets << 16 | (w->one_level ? 0 : (gets - TENT_PRIORITY_HIGH) << 24);
}

/* For contract.chosen. */
static uint8_t choose_early(const struct contract *c, uint8_t intent, uint8_t priority, bool far)
{
	struct policy_question q = policy_question(intent, priority, 0, NULL, NULL);
	const struct policy *p;
	uint16_t rule;
	bool lowered;

	q.same_machine = !far;
	if (!c->listed || !policies_ignore_length(c, &q))
		return 0;
	p = contract_choose(c, &q, &rule, &lowered);
	return rule ? 0 : p ? (uint8_t)(p - c->set->config.policies + 1) : CHOSEN_NONE;
}

/* Does the planner's usual choice for memory of this host stand, whatever the request is
 * otherwise? Only such words are for the judge's short way. */
static bool goes_short(const struct contract *c, uint8_t chosen, const struct contract_world *w)
{
	struct plan_list list;

	if (!chosen || !w->planner->mapped)
		return false;
	list = contract_list(c, contract_chosen(c, chosen));
	return plan_lists(&list, w->planner->transport) &&
	       (!list.nr || list.order[0] == w->planner->transport);
}

static void make_kind(struct contract *c, uint8_t intent, uint8_t asked, uint8_t cap,
		      const struct contract_world *w)
{
	uint32_t at = KIND_AT(intent, asked), kind = kind_of(c, intent, asked, cap, w);

	for (int far = 0; far < 2; far++)
		c->chosen[far][at] = choose_early(c, intent, kind >> 16 & 0xff, far);
	if (!goes_short(c, c->chosen[0][at], w))
		kind |= KIND_LONG;
	if (c->terms[intent].given & (QOS_HAS_BYTES | QOS_HAS_REQUESTS))
		kind |= KIND_BOUND;
	if (kind & ~KIND_MASK)
		c->all_short = false;
	c->kinds[at] = kind;
}

static void make_kinds(struct contract *c, uint8_t cap, const struct contract_world *w)
{
	c->all_short = true;
	for (uint8_t i = 0; i < INTENTS; i++)
		for (uint8_t p = 0; p < PRIORITIES; p++)
			make_kind(c, i, p, cap, w);
}

/* ---- tenants ----------------------------------------------------------- */

/* A policy whose QP pool is not the tenant's is none of its policies. */
static uint64_t usable(const struct contract_config *config, uint64_t policies, uint32_t pools)
{
	for (uint8_t i = 0; i < config->nr_policies; i++) {
		uint8_t pool = config->policies[i].pool;

		if (pool && !(pools & 1u << (pool - 1)))
			policies &= ~(1ull << i);
	}
	return policies;
}

static uint64_t serials;	/* of all engines; no pair */

static void make_contract(struct contract_set *set, struct contract *c,
			  const struct tenant_rules *t, const struct contract_world *w)
{
	c->set = set;
	c->serial = fetch_add(&serials, 1) + 1; /* no pair */
	c->listed = true;
	memcpy(c->name, t->name, sizeof(c->name));
	c->policies = usable(&set->config, t->policies, t->pools);
	c->transports = t->transports;
	c->compat = t->validation ? t->validation == VALIDATION_COMPAT : w->compat;
	c->downgrades = t->on_denied ? t->on_denied == DENIED_DOWNGRADE : c->compat;
	c->refuses_expired = t->refuse_expired;
	c->place = (uint8_t)(c - set->contracts);
	c->shares_with = t->shares_with;
	resolve_terms(c, &set->config);
	make_kinds(c, t->priority_cap, w);
}

static bool is_default(const char *name)
{
	return strcmp(name, "default") == 0;
}

/* What users of no tenant have: without an authorization section, all that there is. */
static void make_rest(struct contract_set *set, const struct contract_world *w)
{
	struct contract *c = &set->contracts[set->config.nr_tenants];
	const struct tenant_rules all = {
		.name = "default", .policies = UINT64_MAX, .pools = UINT32_MAX,
		.transports = UINT32_MAX, .priority_cap = TENT_PRIORITY_HIGH,
	};

	make_contract(set, c, &all, w);
	c->place = TENANTS_MAX;
	if (!set->config.has_authorization)
		return;
	c->listed = false;
	make_kinds(c, TENT_PRIORITY_HIGH, w);
	for (uint8_t i = 0; i < set->config.nr_tenants; i++)
		if (is_default(set->config.tenants[i].name))
			set->rest = &set->contracts[i];
}

/* ---- sets -------------------------------------------------------------- */

static int by_name(const void *a, const void *b, void *policies)
{
	const struct policy *p = policies;
	uint8_t i = *(const uint8_t *)a, k = *(const uint8_t *)b;
	int order = memcmp(p[i].name, p[k].name, CONTRACT_NAME_SIZE);

	return order ? order : i - k;
}

static void sort_names(struct contract_set *set)
{
	for (uint8_t i = 0; i < set->config.nr_policies; i++)
		set->by_name[i] = i;
	qsort_r(set->by_name, set->config.nr_policies, 1, by_name, set->config.policies);
}

struct contract_set *contract_set_create(const struct contract_config *config,
					 const struct contract_world *w, int *rc)
{
	struct contract_set *set;

	*rc = 0;
	if (!config->has_policy && !config->has_qos && !config->has_authorization)
		return NULL;
	set = grace_alloc(sizeof(*set) + (config->nr_tenants + 1u) * sizeof(set->contracts[0]));
	if (!set) {
		*rc = -ENOMEM;
		return NULL;
	}
	set->config = *config;
	set->rest = &set->contracts[config->nr_tenants];
	sort_names(set);
	for (uint8_t i = 0; i < config->nr_tenants; i++)
		make_contract(set, &set->contracts[i], &config->tenants[i], w);
	make_rest(set, w);
	return set;
}

static bool has_bounds(const struct contract *c)
{
	uint8_t given = 0;

	for (uint8_t i = 0; i < INTENTS; i++)
		given |= c->terms[i].given;
	return given & (QOS_HAS_BYTES | QOS_HAS_REQUESTS);
}

int contract_set_bind(struct contract_set *set, struct bounds_account **list,
		      uint32_t nr_pollers)
{
	for (uint32_t i = 0; set && i <= set->config.nr_tenants; i++) {
		struct contract *c = &set->contracts[i];

		if (!has_bounds(c))
			continue;
		c->account = bounds_account(list, c->name, nr_pollers);
		if (!c->account)
			return -ENOMEM;
	}
	return 0;
}

const struct contract *contract_of(const struct contract_set *set, uint32_t uid, bool local)
{
	if (!set)
		return NULL;
	if (local && set->config.in_process >= 0)
		return &set->contracts[set->config.in_process];
	for (uint16_t i = 0; i < set->config.nr_uids; i++)
		if (set->config.uids[i].uid == uid)
			return &set->contracts[set->config.uids[i].tenant];
	return set->rest;
}

bool contract_shares(const struct contract *owner, const struct contract *guest)
{
	return owner && guest && guest->place < TENANTS_MAX &&
	       owner->shares_with >> guest->place & 1;
}

const struct contract_config *contract_set_config(const struct contract_set *set)
{
	return &set->config;
}
