/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenants.h - a tenant is a Unix user. What the engine could run out of is charged to
 * the tenant that makes it use it; none may take more than half, so that no user's
 * flood of connections, rings or mappings locks the others out.
 */
#ifndef TENT_ENGINE_TENANTS_H
#define TENT_ENGINE_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/wakes.h"

enum resource {
	RESOURCE_FDS,	/* descriptors this process holds open */
	RESOURCE_MAPS,	/* mappings, and places in the table of SIGBUS guards */
	RESOURCE_FAR,	/* segments of other engines */
	RESOURCE_FAR_BUFFERS,	/* what those have registered */
	RESOURCE_COUNT
};

struct tenant {
	struct tenant *next;
	uint32_t uid;
	uint32_t nr_clients;	/* attached, as far as limits go */
	uint32_t refs;		/* clients that point here, refused ones too */
	uint32_t nr_names;	/* names that are its, in use or not */
	uint32_t nr_rings;
	uint32_t poller;	/* which serves its rings, while it has some */
	uint32_t used[RESOURCE_COUNT];
	struct wake_account wakes;	/* its poller's, while it has rings */
	uint64_t rest_until_ns;		/* CLOCK_MONOTONIC: what it owes the control thread */
};

/* Part of struct engine. */
struct tenants {
	struct tenant *first;
	uint32_t limit[RESOURCE_COUNT];
	uint32_t used[RESOURCE_COUNT];
};

/* Reads the limits of this process. guards: mappings are limited by that table too. far,
 * far_buffers: what one tenant may have of other engines. */
void tenants_open(struct tenants *t, bool guards, uint32_t far, uint32_t far_buffers);
void tenants_close(struct tenants *t);

/* The tenant of a user; it stays while it has refs, names or segments of other engines,
 * see tenant_tidy(). NULL: no memory. */
struct tenant *tenant_find(struct tenants *t, uint32_t uid);
/* Frees it when nothing is its any more. */
void tenant_tidy(struct tenants *t, struct tenant *tenant);

/* True when the tenant may use n more, which are then charged. */
bool tenant_charge(struct tenants *t, struct tenant *tenant, enum resource r, uint32_t n);
void tenant_refund(struct tenants *t, struct tenant *tenant, enum resource r, uint32_t n);

#endif /* TENT_ENGINE_TENANTS_H */
