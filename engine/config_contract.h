/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_contract.h - the sections of a configuration that say what tenants may have:
 * policy, qos, authorization, and the names of QP pools. They are read together from one
 * text; names in them are resolved to places in these arrays. docs/tent.conf.5 has
 * their meaning, contract.h what is made of them.
 */
#ifndef TENT_ENGINE_CONFIG_CONTRACT_H
#define TENT_ENGINE_CONFIG_CONTRACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tent/tent.h>

#include "engine/backend.h"

#define CONTRACT_NAME_SIZE 64	/* of policies, tenants and pools, NUL included */
#define POLICIES_MAX 64		/* a mask of them is one word */
#define TENANTS_MAX 64
#define TENANT_UIDS_MAX 256	/* of all tenants */
#define INTENTS (TENT_INTENT_STAGING_INTERNAL + 1)

enum policy_segment { POLICY_ANY_SEGMENT, POLICY_MEMORY_SEGMENT, POLICY_FILE_SEGMENT };
enum policy_memory {
	POLICY_ANY_MEMORY, POLICY_CPU, POLICY_CUDA, POLICY_ROCM, POLICY_TPU, POLICY_UNKNOWN
};
enum policy_machine { POLICY_ANY_MACHINE, POLICY_SAME_MACHINE, POLICY_OTHER_MACHINE };

/* One entry of the policy array: filters, and what whoever passes them gets. */
struct policy {
	char name[CONTRACT_NAME_SIZE];	/* the rest is NUL */
	uint64_t min_size, max_size;	/* of the request, bytes, both included */
	uint8_t segment, machine, local, remote; /* enum policy_... */
	uint8_t priority;		/* enum tent_priority, UNSPEC: any */
	int8_t intent;			/* enum tent_intent, -1: any */
	uint8_t nr_transports;		/* 0: all, in the engine's order */
	uint8_t transports[TENT_TRANSPORT_COUNT]; /* in order of preference */
	uint8_t pool;			/* place in pools + 1; 0: none */
	int8_t service_level;		/* -1: not set */
	int16_t traffic_class;		/* the same */
};

enum qos_action {
	QOS_DELAY, QOS_FALLBACK_TRANSPORT, QOS_LOCAL_RECOMPUTE, QOS_COMPRESS, QOS_REJECT,
	QOS_ACTIONS
};

/* What a contract says; only what is given overrides what is more general. */
struct qos_terms {
	uint64_t max_inflight_bytes;
	uint32_t max_inflight_requests;
	uint8_t given;			/* QOS_HAS_* */
	uint8_t priority;		/* enum tent_priority */
	uint8_t actions;		/* bit per enum qos_action */
};
#define QOS_HAS_PRIORITY	(1u << 0)
#define QOS_HAS_BYTES		(1u << 1)
#define QOS_HAS_REQUESTS	(1u << 2)
#define QOS_HAS_ACTIONS		(1u << 3)

struct qos_tenant {
	char name[CONTRACT_NAME_SIZE];
	struct qos_terms defaults, intents[INTENTS];
	uint8_t has_intent;		/* bit per enum tent_intent: it has an entry */
};

enum on_denied { DENIED_AS_VALIDATION, DENIED_REJECT, DENIED_DOWNGRADE };
enum tenant_validation { VALIDATION_OF_ENGINE, VALIDATION_STRICT, VALIDATION_COMPAT };

struct tenant_rules {
	char name[CONTRACT_NAME_SIZE];
	uint64_t policies;		/* bit per place in policies */
	uint32_t pools;			/* bit per place in pools */
	uint32_t transports;		/* bit per enum tent_transport */
	uint64_t shares_with;		/* bit per place in tenants: they open its segments */
	uint8_t priority_cap;		/* enum tent_priority */
	uint8_t on_denied;		/* enum on_denied */
	uint8_t validation;		/* enum tenant_validation */
	bool refuse_expired;
};

struct contract_config {
	bool has_policy, has_qos, has_authorization;
	uint8_t nr_policies, nr_pools, nr_tenants, nr_qos_tenants;
	uint16_t nr_uids;
	int8_t in_process;		/* place in tenants, -1: as the user's uid */
	struct policy policies[POLICIES_MAX];
	struct qp_pool pools[QP_POOLS_MAX];
	struct qos_terms qos_defaults;
	struct qos_tenant qos_tenants[TENANTS_MAX];
	struct tenant_rules tenants[TENANTS_MAX];
	struct tenant_uid {
		uint32_t uid;
		uint8_t tenant;		/* place in tenants */
	} uids[TENANT_UIDS_MAX];
};

/* Borrowed from the text that is being read; NULL: not in it. */
struct contract_sections {
	const json_t *policy, *qos, *authorization;
	const json_t *pools;		/* transports/rdma/endpoint/qp_pools */
};

/* Before any text was read, and for a text without these sections. */
void contract_config_default(struct contract_config *c);

/* Reads what a text has. 0, or TENT_ERR_CONFIG with one sentence that names the path in
 * the JSON, the value and what is allowed, but no name of a policy or tenant: it goes to
 * logs. *c is garbage then. */
int contract_config_read(struct contract_config *c, const struct contract_sections *s,
			 char *error, size_t size);

/* "delay" and so on; NULL past the last. */
const char *qos_action_name(unsigned int action);

#endif /* TENT_ENGINE_CONFIG_CONTRACT_H */
