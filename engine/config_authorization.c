/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_authorization.c - who a tenant is, and what it may have. A user of no tenant has
 * what the one called "default" has, or nothing.
 */
#include <stdio.h>
#include <string.h>

#include "engine/config_reader.h"

static int find_tenant(const struct contract_config *c, const char *name)
{
	for (int i = 0; i < c->nr_tenants; i++)
		if (strcmp(c->tenants[i].name, name) == 0)
			return i;
	return -1;
}

/* ---- one tenant -------------------------------------------------------- */

static bool tenant_name(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_tenant_name(r, path, value, ((struct tenant_rules *)target)->name);
}

static bool add_uid(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct contract_config *c = r->c;
	uint64_t uid;

	(void)target;
	if (!reader_integer(r, path, value, 0, UINT32_MAX - 1, &uid))
		return false;
	for (uint16_t i = 0; i < c->nr_uids; i++)
		if (c->uids[i].uid == uid)
			return reader_refuse(r, path, value, "each user in one tenant, once");
	if (c->nr_uids == TENANT_UIDS_MAX)
		return reader_refuse(r, path, value, "up to 256 users of all tenants");
	c->uids[c->nr_uids++] = (struct tenant_uid){ (uint32_t)uid, c->nr_tenants };
	return true;
}

static bool tenant_uids(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_array(r, path, value, TENANT_UIDS_MAX, add_uid, target);
}

/* A name may stand for several policies: one for memory, one for files. */
static bool add_policy(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct tenant_rules *t = target;
	char name[CONTRACT_NAME_SIZE];
	bool found = false;

	if (!reader_name(r, path, value, name))
		return false;
	for (uint8_t i = 0; i < r->c->nr_policies; i++) {
		if (strcmp(r->c->policies[i].name, name))
			continue;
		t->policies |= 1ull << i;
		found = true;
	}
	return found || reader_refuse_hidden(r, path, "names no policy",
					     "the name of one in policy");
}

static bool tenant_policies(struct reader *r, const char *path, const json_t *value,
			    void *target)
{
	((struct tenant_rules *)target)->policies = 0;
	return reader_array(r, path, value, POLICIES_MAX, add_policy, target);
}

static bool add_transport(struct reader *r, const char *path, const json_t *value,
			  void *target)
{
	uint8_t transport;

	if (!reader_transport(r, path, value, &transport))
		return false;
	((struct tenant_rules *)target)->transports |= 1u << transport;
	return true;
}

static bool tenant_transports(struct reader *r, const char *path, const json_t *value,
			      void *target)
{
	((struct tenant_rules *)target)->transports = 0;
	return reader_array(r, path, value, TENT_TRANSPORT_COUNT, add_transport, target);
}

static bool add_pool(struct reader *r, const char *path, const json_t *value, void *target)
{
	char name[CONTRACT_NAME_SIZE];

	if (!reader_name(r, path, value, name))
		return false;
	for (uint8_t i = 0; i < r->c->nr_pools; i++) {
		if (strcmp(r->c->pools[i].name, name) == 0) {
			((struct tenant_rules *)target)->pools |= 1u << i;
			return true;
		}
	}
	return reader_refuse(r, path, value, "a name in transports/rdma/endpoint/qp_pools");
}

static bool tenant_pools(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_array(r, path, value, QP_POOLS_MAX, add_pool, target);
}

static bool tenant_cap(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_priority(r, path, value, &((struct tenant_rules *)target)->priority_cap);
}

static bool tenant_on_denied(struct reader *r, const char *path, const json_t *value,
			     void *target)
{
	static const char *const words[] = { "reject", "downgrade", NULL };
	struct tenant_rules *t = target;

	if (!reader_choice(r, path, value, words, &t->on_denied))
		return false;
	t->on_denied += DENIED_REJECT;
	return true;
}

static bool tenant_on_expired(struct reader *r, const char *path, const json_t *value,
			      void *target)
{
	static const char *const words[] = { "serve", "refuse", NULL };
	uint8_t choice;

	if (!reader_choice(r, path, value, words, &choice))
		return false;
	((struct tenant_rules *)target)->refuse_expired = choice;
	return true;
}

static bool tenant_strictness(struct reader *r, const char *path, const json_t *value,
			      void *target)
{
	static const char *const words[] = { "strict", "compat", NULL };
	struct tenant_rules *t = target;

	if (!reader_choice(r, path, value, words, &t->validation))
		return false;
	t->validation += VALIDATION_STRICT;
	return true;
}

/* Looked at once all tenants are known, whatever the order of keys. */
static bool skip(struct reader *r, const char *path, const json_t *value, void *target)
{
	(void)r;
	(void)path;
	(void)value;
	(void)target;
	return true;
}

static const struct reader_field tenant_fields[] = {
	{ "name", tenant_name }, { "uids", tenant_uids }, { "policies", tenant_policies },
	{ "transports", tenant_transports }, { "qp_pools", tenant_pools },
	{ "priority_cap", tenant_cap }, { "on_denied", tenant_on_denied },
	{ "on_expired", tenant_on_expired }, { "validation", tenant_strictness },
	{ "shares_with", skip },
};

/* What a tenant is not given a list of it may have all of; but for pools, which are there
 * to be somebody's. */
static bool read_tenant(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct tenant_rules *t = &r->c->tenants[r->c->nr_tenants];

	(void)target;
	*t = (struct tenant_rules){
		.policies = UINT64_MAX, .transports = UINT32_MAX,
		.priority_cap = TENT_PRIORITY_HIGH,
	};
	if (!reader_object(r, path, value, tenant_fields,
			   sizeof(tenant_fields) / sizeof(tenant_fields[0]), t))
		return false;
	if (!*t->name)
		return reader_refuse_hidden(r, path, "has no name", "a name");
	if (find_tenant(r->c, t->name) >= 0)
		return reader_refuse_hidden(r, path, "has the name of an earlier one",
					    "each tenant once");
	r->c->nr_tenants++;
	return true;
}

/* ---- the section ------------------------------------------------------- */

static bool read_tenants(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_array(r, path, value, TENANTS_MAX, read_tenant, target);
}

/* The place of the tenant that is named. */
static bool read_tenant_place(struct reader *r, const char *path, const json_t *value,
			      int *place)
{
	char name[CONTRACT_NAME_SIZE];

	if (!reader_tenant_name(r, path, value, name))
		return false;
	*place = find_tenant(r->c, name);
	return *place >= 0 ||
	       reader_refuse_hidden(r, path, "names no tenant",
				    "the name of one in authorization/tenants");
}

static bool read_in_process(struct reader *r, const json_t *value)
{
	int place;

	if (!read_tenant_place(r, "authorization/in_process", value, &place))
		return false;
	r->c->in_process = (int8_t)place;
	return true;
}

static bool add_guest(struct reader *r, const char *path, const json_t *value, void *target)
{
	int place;

	if (!read_tenant_place(r, path, value, &place))
		return false;
	((struct tenant_rules *)target)->shares_with |= 1ull << place;
	return true;
}

/* The tenants stand in their array in the order of their places. */
static bool read_shares(struct reader *r, const json_t *tenants)
{
	const json_t *tenant;
	size_t i;

	json_array_foreach(tenants, i, tenant) {
		const json_t *guests = json_object_get(tenant, "shares_with");
		char path[READER_PATH];

		snprintf(path, sizeof(path), "authorization/tenants[%zu]/shares_with", i);
		if (guests && !reader_array(r, path, guests, TENANTS_MAX, add_guest,
					    &r->c->tenants[i]))
			return false;
	}
	return true;
}

static const struct reader_field authorization_fields[] = {
	{ "tenants", read_tenants }, { "in_process", skip },
};

bool reader_authorization(struct reader *r, const json_t *value)
{
	const json_t *in_process;

	r->c->has_authorization = true;
	if (!reader_object(r, "authorization", value, authorization_fields,
			   sizeof(authorization_fields) / sizeof(authorization_fields[0]), r->c))
		return false;
	if (!read_shares(r, json_object_get(value, "tenants")))
		return false;
	in_process = json_object_get(value, "in_process");
	return !in_process || read_in_process(r, in_process);
}
