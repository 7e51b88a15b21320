/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_config.c - any text as a configuration: it is taken, or refused with a
 * sentence and without a trace. What contracts come of it give no tenant more than its
 * part of authorization.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/config.h"
#include "engine/contract_set.h"
#include "engine/round.h"

static void need(bool good)
{
	if (!good)
		abort();
}

/* The first policy's name, as long as it is and shorter. */
static void ask(const struct contract *c, const struct tenant_rules *t, uint32_t name_length)
{
	const struct policy_question q = {
		.name = c->set->config.policies[0].name, .name_length = name_length,
		.intent = TENT_INTENT_FOREGROUND_GET, .priority = TENT_PRIORITY_HIGH,
		.local = POLICY_CPU, .remote = POLICY_CPU, .same_machine = true, .length = 4096,
	};
	const struct policy *p;
	uint16_t rule;
	bool lowered;

	p = contract_choose(c, &q, &rule, &lowered);
	need(!p || !rule);
	if (p)
		need(t->policies >> (p - c->set->config.policies) & 1);
	if (p && p->pool)
		need(t->pools >> (p->pool - 1) & 1);
}

static void check_tenant(const struct contract *c, const struct tenant_rules *t)
{
	for (uint32_t i = 0; i < KINDS; i++)
		need((c->kinds[i] >> 16 & 0xff) >= t->priority_cap);
	need(c->transports == t->transports);
	for (uint32_t length = 0; length < CONTRACT_NAME_SIZE; length++)
		ask(c, t, length);
}

static void check_contracts(const struct contract_config *config)
{
	const struct planner planner = { .nr_queues = 0 };
	const struct contract_world w = { .planner = &planner, .default_priority = 2 };
	struct contract_set *set;
	int rc;

	set = contract_set_create(config, &w, &rc);
	need(rc == 0);
	for (uint8_t i = 0; set && i < config->nr_tenants; i++)
		check_tenant(&set->contracts[i], &config->tenants[i]);
	for (uint16_t i = 0; set && i < config->nr_uids; i++)
		need(contract_of(set, config->uids[i].uid, false) ==
		     &set->contracts[config->uids[i].tenant]);
	grace_discard(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	struct engine_config before, after;
	struct config_report report;
	int rc;

	if (!text)
		return 0;
	memcpy(text, data, size);
	memset(&before, 0, sizeof(before));
	engine_config_default(&before);
	memcpy(&after, &before, sizeof(after));
	rc = engine_config_apply_json(&after, text, &report);
	if (rc && (!report.error[0] || memcmp(&before, &after, sizeof(before))))
		abort();
	if (!rc)
		check_contracts(&after.contracts);
	free(text);
	return 0;
}
