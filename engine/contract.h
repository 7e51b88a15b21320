/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - what each tenant may have, made of the configuration's policy, qos and
 * authorization. A set is immutable. The control thread publishes a tenant's contract in
 * its clients' spaces (R7); the judge looks requests up in it, without heap and in a
 * bounded number of steps. Where nothing is configured there is no contract at all.
 */
#ifndef TENT_ENGINE_CONTRACT_H
#define TENT_ENGINE_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/config_contract.h"
#include "engine/plan.h"

#define PRIORITIES (TENT_PRIORITY_LOW + 1)
#define KINDS (INTENTS * PRIORITIES)

/*
 * What a request's intent and priority stand for: the priority it gets and the level it
 * is scheduled in, where put_kind() wants them, and below them what else is to be done.
 * The judge's short way takes only words that have none of these.
 */
#define KIND_LONG	(1u << 0) /* its policy takes a look at the request, or at a list */
#define KIND_LOWERED	(1u << 1) /* less than it asked for: recorded */
#define KIND_DENIED	(1u << 2) /* more than this tenant may have: refused */
#define KIND_BOUND	(1u << 3) /* what is in flight of it is bounded, see bounds.h */
#define KIND_NOTED	(KIND_LOWERED | KIND_DENIED | KIND_BOUND)
#define KIND_MASK	0xffff0000u
#define KIND_AT(intent, priority) ((uint32_t)(intent) * PRIORITIES + (uint32_t)(priority))

struct bounds_account;
struct contract_set;

/* What one tenant may have. */
struct contract {
	const struct contract_set *set;
	uint64_t serial;	/* no other that this process ever has: 1.. */
	uint64_t policies;	/* bit per place in the set's policies */
	uint32_t transports;	/* bit per enum tent_transport */
	bool listed;		/* false: nothing at all */
	bool compat;		/* validation */
	bool downgrades;	/* rather than refuse what is denied */
	bool refuses_expired;
	bool all_short;		/* no word of kinds has more than KIND_MASK */
	uint32_t kinds[KINDS]; /* see KIND_AT() */
	/* By place in kinds, for memory of this host and of others: the policy of those that
	 * name none, whatever their length. */
	uint8_t chosen[2][KINDS]; /* its place + 1; CHOSEN_NONE: there is none; 0: it depends */
	struct qos_terms terms[INTENTS];
	struct bounds_account *account; /* where terms bound what is in flight; else NULL */
	uint8_t matches[INTENTS]; /* enum contract_match */
	uint8_t place;		/* of the tenant in the configuration; TENANTS_MAX: in none */
	uint64_t shares_with;	/* bit per place: whose clients may open its segments */
	char name[CONTRACT_NAME_SIZE];
};

#define CHOSEN_NONE 255u

/* Where the terms for an intent come from. */
enum contract_match { MATCH_NONE, MATCH_GLOBAL, MATCH_TENANT, MATCH_INTENT };

/* What an engine has, as contracts need to know it. */
struct contract_world {
	const struct planner *planner;
	bool compat, one_level;
	uint8_t default_priority;
};

/* NULL with *rc 0: nothing is configured; with -ENOMEM: no memory. Freed like everything
 * that is published, see round.h. */
struct contract_set *contract_set_create(const struct contract_config *c,
					 const struct contract_world *w, int *rc);
/* Before it is published: the accounts of tenants in list. Control thread. 0 or -ENOMEM. */
int contract_set_bind(struct contract_set *set, struct bounds_account **list,
		      uint32_t nr_pollers);
/* The contract of a user, or of this process itself. NULL set: NULL. */
const struct contract *contract_of(const struct contract_set *set, uint32_t uid, bool local);
const struct contract_config *contract_set_config(const struct contract_set *set);

/* May whoever has this contract open segments whose owner has that one? Either may be
 * NULL. Of the same set. */
bool contract_shares(const struct contract *owner, const struct contract *guest);

/* "tenant-a.foreground_get" and the like, as the existing engine calls it. */
void contract_matched_name(const struct contract *c, uint8_t intent, char *text, size_t size);

/* ---- the judge's, and explain's ---------------------------------------- */

/* A request, as policies look at it. */
struct policy_question {
	const char *name;	/* not terminated */
	uint32_t name_length;	/* 0: it names none */
	uint8_t intent, priority; /* effective */
	uint8_t local, remote;	/* POLICY_CPU and so on: what the bytes lie in */
	bool file, same_machine;
	uint64_t length;
};

/* What a file lies on is nobody's memory. */
static inline uint8_t policy_memory(const struct region *r)
{
	return r && r->file ? POLICY_UNKNOWN : r && r->is_gpu ? POLICY_CUDA : POLICY_CPU;
}

/* Of a request that names none. Ends that are not known, NULL, are memory of this host. */
static inline struct policy_question
policy_question(uint8_t intent, uint8_t priority, uint64_t length, const struct region *local,
		const struct region *remote)
{
	return (struct policy_question){
		.intent = intent, .priority = priority, .length = length,
		.local = policy_memory(local), .remote = policy_memory(remote),
		.file = remote && remote->file, .same_machine = !(remote && remote->far),
	};
}

/* Chooses the policy: the named one, else the first that fits and that the tenant may
 * use. NULL with *rule 0: none is configured. *lowered: the name did not count. */
const struct policy *contract_choose(const struct contract *c, const struct policy_question *q,
				     uint16_t *rule, bool *lowered);

/* Would contract_choose() say the same for every length? q names no policy. */
bool policies_ignore_length(const struct contract *c, const struct policy_question *q);

/* What stands against the name that a request has: 0, POLICY_UNKNOWN or POLICY_DENIED. */
uint16_t contract_name_rule(const struct contract *c, const struct policy_question *q);

/* A policy of contract.chosen that is not 0: it, or NULL. */
const struct policy *contract_chosen(const struct contract *c, uint8_t chosen);

/* Where a request with this policy (or NULL) may go. */
static inline struct plan_list contract_list(const struct contract *c, const struct policy *p)
{
	struct plan_list list = { .allowed = c->transports };

	if (p && p->nr_transports) {
		list.nr = p->nr_transports;
		list.order = p->transports;
	}
	return list;
}

#endif /* TENT_ENGINE_CONTRACT_H */
