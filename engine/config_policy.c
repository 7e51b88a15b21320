/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_policy.c - the policy array, in the existing engine's format. What that skips,
 * drops or clamps is refused here: a filter that is not understood must not let everybody
 * through, nor nobody.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/config_reader.h"
#include "engine/words.h"

static bool read_level(struct reader *r, const char *path, const json_t *value, int8_t *level)
{
	uint64_t n;

	if (!reader_integer(r, path, value, 0, 15, &n))
		return false;
	*level = (int8_t)n;
	return true;
}

static bool read_class(struct reader *r, const char *path, const json_t *value, int16_t *class)
{
	uint64_t n;

	if (!reader_integer(r, path, value, 0, 255, &n))
		return false;
	*class = (int16_t)n;
	return true;
}

/* ---- QP pools ---------------------------------------------------------- */

static bool pool_name(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_name(r, path, value, ((struct qp_pool *)target)->name);
}

/* There is one for each poller, rail, peer and tenant that need it, whatever is asked for. */
static bool pool_qps(struct reader *r, const char *path, const json_t *value, void *target)
{
	uint64_t n;

	(void)target;
	return reader_integer(r, path, value, 1, 65536, &n);
}

static bool pool_level(struct reader *r, const char *path, const json_t *value, void *target)
{
	return read_level(r, path, value, &((struct qp_pool *)target)->service_level);
}

static bool pool_class(struct reader *r, const char *path, const json_t *value, void *target)
{
	return read_class(r, path, value, &((struct qp_pool *)target)->traffic_class);
}

static const struct reader_field pool_fields[] = {
	{ "name", pool_name }, { "num_qp", pool_qps },
	{ "service_level", pool_level }, { "traffic_class", pool_class },
};

static int find_pool(const struct contract_config *c, const char *name)
{
	for (int i = 0; i < c->nr_pools; i++)
		if (strcmp(c->pools[i].name, name) == 0)
			return i;
	return -1;
}

static bool read_pool(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct qp_pool p = { .service_level = -1, .traffic_class = -1 };

	(void)target;
	if (!reader_object(r, path, value, pool_fields,
			   sizeof(pool_fields) / sizeof(pool_fields[0]), &p))
		return false;
	if (!*p.name || !json_object_get(value, "num_qp"))
		return reader_refuse_hidden(r, path, "lacks a key", "name and num_qp");
	if (find_pool(r->c, p.name) >= 0)
		return reader_refuse_hidden(r, path, "has a name that an earlier one has",
					    "each name once");
	r->c->pools[r->c->nr_pools++] = p;
	return true;
}

bool reader_pools(struct reader *r, const json_t *value)
{
	return reader_array(r, "transports/rdma/endpoint/qp_pools", value, QP_POOLS_MAX, read_pool,
			    NULL);
}

/* ---- filters ----------------------------------------------------------- */

static bool policy_name(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_name(r, path, value, ((struct policy *)target)->name);
}

static bool policy_segment(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	static const char *const words[] = { "memory", "file", NULL };
	struct policy *p = target;

	if (!reader_choice(r, path, value, words, &p->segment))
		return false;
	p->segment += POLICY_MEMORY_SEGMENT;
	return true;
}

static bool policy_machine(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	bool same;

	if (!reader_bool(r, path, value, &same))
		return false;
	((struct policy *)target)->machine = same ? POLICY_SAME_MACHINE : POLICY_OTHER_MACHINE;
	return true;
}

static bool memory_kind(struct reader *r, const char *path, const json_t *value, uint8_t *kind)
{
	static const char *const words[] = { "*", "cpu", "cuda", "rocm", "tpu", "unknown", NULL };

	return reader_choice(r, path, value, words, kind);
}

static bool policy_local(struct reader *r, const char *path, const json_t *value, void *target)
{
	return memory_kind(r, path, value, &((struct policy *)target)->local);
}

static bool policy_remote(struct reader *r, const char *path, const json_t *value,
			  void *target)
{
	return memory_kind(r, path, value, &((struct policy *)target)->remote);
}

static bool policy_min(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_integer(r, path, value, 0, INT64_MAX,
			      &((struct policy *)target)->min_size);
}

static bool policy_max(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_integer(r, path, value, 0, INT64_MAX,
			      &((struct policy *)target)->max_size);
}

/* Numbers, and numbers as text, count as the existing engine's: 0 HIGH, 1 MEDIUM, 2 LOW. */
static bool policy_priority(struct reader *r, const char *path, const json_t *value,
			    void *target)
{
	uint8_t *priority = &((struct policy *)target)->priority;
	const char *text = json_string_value(value);
	int32_t found;

	if (text && text[0] >= '0' && text[0] <= '2' && !text[1])
		*priority = (uint8_t)(text[0] - '0' + TENT_PRIORITY_HIGH);
	else if (text && word_find_loosely(WORD_PRIORITY, text, &found) && found)
		*priority = (uint8_t)found;
	else if (json_is_integer(value) && json_integer_value(value) >= 0 &&
		 json_integer_value(value) <= 2)
		*priority = (uint8_t)(json_integer_value(value) + TENT_PRIORITY_HIGH);
	else
		return reader_refuse(r, path, value, "\"high\", \"medium\", \"low\", or 0..2");
	return true;
}

static bool policy_intent(struct reader *r, const char *path, const json_t *value,
			  void *target)
{
	const char *text = json_string_value(value);
	int32_t found = json_is_integer(value) && json_integer_value(value) >= 0 &&
			json_integer_value(value) < INTENTS ?
			(int32_t)json_integer_value(value) : -1;

	if (text && strncasecmp(text, "intent_", 7) == 0)
		text += 7;
	if (found < 0 && !(text && word_find_loosely(WORD_INTENT, text, &found)))
		return reader_refuse(r, path, value, "the name of an intent, or 0..6");
	((struct policy *)target)->intent = (int8_t)found;
	return true;
}

/* ---- what a policy gives ------------------------------------------------ */

/* A device that is not used must not turn into all of them. */
static bool policy_devices(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	(void)target;
	if (!json_is_array(value))
		return reader_refuse_type(r, path, value, "an array");
	if (json_array_size(value))
		return reader_refuse(r, path, value, "no device: transports/rdma/devices "
				     "says which are used, by all");
	return true;
}

static bool add_transport(struct reader *r, const char *path, const json_t *value,
			  void *target)
{
	struct policy *p = target;
	uint8_t transport;

	if (!reader_transport(r, path, value, &transport))
		return false;
	if (memchr(p->transports, transport, p->nr_transports))
		return reader_refuse(r, path, value, "each transport once");
	p->transports[p->nr_transports++] = transport;
	return true;
}

static bool policy_transports(struct reader *r, const char *path, const json_t *value,
			      void *target)
{
	if (json_is_array(value) && !json_array_size(value))
		return reader_refuse(r, path, value, "at least one transport; without this key "
				     "all are");
	return reader_array(r, path, value, TENT_TRANSPORT_COUNT - 1, add_transport, target);
}

static bool policy_level(struct reader *r, const char *path, const json_t *value, void *target)
{
	return read_level(r, path, value, &((struct policy *)target)->service_level);
}

static bool policy_class(struct reader *r, const char *path, const json_t *value, void *target)
{
	return read_class(r, path, value, &((struct policy *)target)->traffic_class);
}

static bool policy_pool(struct reader *r, const char *path, const json_t *value, void *target)
{
	char name[CONTRACT_NAME_SIZE];
	int pool;

	if (!reader_name(r, path, value, name))
		return false;
	pool = find_pool(r->c, name);
	if (pool < 0)
		return reader_refuse(r, path, value, "a name in "
				     "transports/rdma/endpoint/qp_pools");
	((struct policy *)target)->pool = (uint8_t)(pool + 1);
	return true;
}

/* ---- the array --------------------------------------------------------- */

static const struct reader_field policy_fields[] = {
	{ "name", policy_name }, { "segment_type", policy_segment },
	{ "same_machine", policy_machine }, { "local_memory", policy_local },
	{ "remote_memory", policy_remote }, { "min_size", policy_min },
	{ "max_size", policy_max }, { "priority", policy_priority },
	{ "intent_type", policy_intent }, { "devices", policy_devices },
	{ "transports", policy_transports }, { "service_level", policy_level },
	{ "traffic_class", policy_class }, { "qp_pool", policy_pool },
};

static bool read_policy(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct policy *p = &r->c->policies[r->c->nr_policies];

	(void)target;
	*p = (struct policy){
		.name = "unnamed", .max_size = UINT64_MAX, .intent = -1, .service_level = -1,
		.traffic_class = -1,
	};
	if (!reader_object(r, path, value, policy_fields,
			   sizeof(policy_fields) / sizeof(policy_fields[0]), p))
		return false;
	if (p->min_size > p->max_size)
		return reader_refuse_hidden(r, path, "has min_size above max_size",
					    "min_size up to max_size");
	r->c->nr_policies++;
	return true;
}

/* An empty array is what none is, as in the existing engine. */
bool reader_policies(struct reader *r, const json_t *value)
{
	if (!reader_array(r, "policy", value, POLICIES_MAX, read_policy, NULL))
		return false;
	r->c->has_policy = r->c->nr_policies > 0;
	return true;
}
