/* SPDX-License-Identifier: Apache-2.0 */
/* contracts.c - which contract each client goes by. */
#include "engine/bounds.h"
#include "engine/contracts.h"

struct contract_set *contracts_compile(const struct engine *e,
				       const struct contract_config *c, int *rc)
{
	const struct engine_poller *p = &e->pollers[0];	/* queues are the same in all */
	struct planner planner;
	const struct contract_world w = {
		.planner = &planner, .compat = e->config.compat,
		.one_level = e->config.no_priorities,
		.default_priority = (uint8_t)e->config.default_priority,
	};

	planner_init(&planner, p->queues, p->nr_queues, NULL);
	return contract_set_create(c, &w, rc);
}

int contracts_open(struct engine *e)
{
	int rc;

	e->contracts = contracts_compile(e, &e->config.contracts, &rc);
	return rc < 0 ? rc : contract_set_bind(e->contracts, &e->accounts, e->nr_pollers);
}

void contracts_close(struct engine *e)
{
	grace_discard(e->contracts);
	bounds_close(&e->accounts);
}

const struct contract *contracts_find(const struct engine *e, const struct client *c)
{
	return contract_of(e->contracts, c->peer.uid, c->local);
}

/* A segment whose owner died has no contract: its memory is gone, too. */
bool contracts_may_open(const struct engine *e, const struct segment *s, uint32_t uid,
			bool local)
{
	return s->tenant_uid == uid ||
	       (s->owner && contract_shares(contracts_find(e, s->owner),
					    contract_of(e->contracts, uid, local)));
}

int contracts_replace(struct engine *e, struct contract_set *set)
{
	struct contract_set *old = e->contracts;
	int rc = contract_set_bind(set, &e->accounts, e->nr_pollers);

	if (rc < 0) {
		grace_discard(set);
		return rc;
	}
	e->contracts = set;
	for (struct client *c = e->clients; c; c = c->next) {
		if (c->said_hello) /* R7, pairs with A7 at intake */
			store_release(&c->space.contract, contracts_find(e, c));
	}
	grace_free(e, old);
	return 0;
}
