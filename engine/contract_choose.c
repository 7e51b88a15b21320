/* SPDX-License-Identifier: Apache-2.0 */
/* contract_choose.c - which policy a request goes by. Pure; intake and explain both ask. */
#include <string.h>

#include "engine/contract_set.h"

/* ---- filters ----------------------------------------------------------- */

static bool fits_segment(const struct policy *p, bool file)
{
	return p->segment == POLICY_ANY_SEGMENT || (p->segment == POLICY_FILE_SEGMENT) == file;
}

static bool fits_memory(uint8_t filter, uint8_t memory)
{
	return filter == POLICY_ANY_MEMORY || filter == memory;
}

static bool fits_but_for_length(const struct policy *p, const struct policy_question *q)
{
	return fits_segment(p, q->file) && fits_memory(p->local, q->local) &&
	       fits_memory(p->remote, q->remote) &&
	       (!p->machine || (p->machine == POLICY_SAME_MACHINE) == q->same_machine) &&
	       (!p->priority || p->priority == q->priority) &&
	       (p->intent < 0 || p->intent == q->intent);
}

static bool fits(const struct policy *p, const struct policy_question *q)
{
	return q->length >= p->min_size && q->length <= p->max_size &&
	       fits_but_for_length(p, q);
}

static bool may_use(const struct contract *c, uint32_t i)
{
	return c->policies >> i & 1;
}

/* The first that fits and may be used; NULL: none. */
static const struct policy *first_fit(const struct contract *c, const struct policy_question *q)
{
	const struct contract_config *config = &c->set->config;

	for (uint32_t i = 0; i < config->nr_policies; i++)
		if (may_use(c, i) && fits(&config->policies[i], q))
			return &config->policies[i];
	return NULL;
}

bool policies_ignore_length(const struct contract *c, const struct policy_question *q)
{
	const struct contract_config *config = &c->set->config;

	for (uint32_t i = 0; i < config->nr_policies; i++) {
		const struct policy *p = &config->policies[i];

		if (!may_use(c, i) || !fits_but_for_length(p, q))
			continue;
		return !p->min_size && p->max_size == UINT64_MAX;
	}
	return true;
}

/* ---- names ------------------------------------------------------------- */

/* How a name compares with a policy's. */
static int compare(const struct policy_question *q, const struct policy *p)
{
	int order = memcmp(q->name, p->name, q->name_length);

	return order ? order : -(p->name[q->name_length] != '\0');
}

/* The place in by_name of the first with that name, or where it would be. */
static uint32_t lower_bound(const struct contract_set *set, const struct policy_question *q)
{
	uint32_t low = 0, high = set->config.nr_policies;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(q, &set->config.policies[set->by_name[middle]]) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first of that name for such a segment; the other filters are not for who names it.
 * One that this tenant may use goes before one that it may not. */
static const struct policy *named(const struct contract *c, const struct policy_question *q,
				  uint16_t *rule)
{
	const struct contract_set *set = c->set;

	*rule = TENT_RULE_POLICY_UNKNOWN;
	for (uint32_t at = lower_bound(set, q); at < set->config.nr_policies; at++) {
		const struct policy *p = &set->config.policies[set->by_name[at]];

		if (compare(q, p))
			break;
		if (!fits_segment(p, q->file))
			continue;
		*rule = may_use(c, set->by_name[at]) ? 0 : TENT_RULE_POLICY_DENIED;
		if (!*rule)
			return p;
	}
	return NULL;
}

uint16_t contract_name_rule(const struct contract *c, const struct policy_question *q)
{
	uint16_t rule;

	named(c, q, &rule);
	return rule;
}

const struct policy *contract_chosen(const struct contract *c, uint8_t chosen)
{
	return chosen == CHOSEN_NONE ? NULL : &c->set->config.policies[chosen - 1];
}

const struct policy *contract_choose(const struct contract *c, const struct policy_question *q,
				     uint16_t *rule, bool *lowered)
{
	const struct policy *p;

	*rule = 0;
	*lowered = false;
	if (q->name_length) {
		p = named(c, q, rule);
		*lowered = *rule == TENT_RULE_POLICY_UNKNOWN ? c->compat : c->downgrades;
		if (p || !*lowered) {
			*lowered = false;
			return p;
		}
		*rule = 0;
	}
	if (!c->set->config.has_policy)
		return NULL;
	p = first_fit(c, q);
	*rule = p ? 0 : TENT_RULE_NO_POLICY;
	return p;
}
