/* SPDX-License-Identifier: Apache-2.0 */
/* config_qos.c - the QoS contract, version 1, in the existing engine's format. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/config_reader.h"
#include "engine/words.h"

static const char *const actions[QOS_ACTIONS + 1] = {
	[QOS_DELAY] = "delay", [QOS_FALLBACK_TRANSPORT] = "fallback_transport",
	[QOS_LOCAL_RECOMPUTE] = "local_recompute", [QOS_COMPRESS] = "compress",
	[QOS_REJECT] = "reject",
};

const char *qos_action_name(unsigned int action)
{
	return action < QOS_ACTIONS ? actions[action] : NULL;
}

/* ---- terms ------------------------------------------------------------- */

static bool terms_priority(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	struct qos_terms *t = target;

	t->given |= QOS_HAS_PRIORITY;
	return reader_priority(r, path, value, &t->priority);
}

static const struct {
	const char *name;
	int shift;
} units[] = {
	{ "", 0 }, { "b", 0 }, { "kb", 10 }, { "kib", 10 }, { "mb", 20 }, { "mib", 20 },
	{ "gb", 30 }, { "gib", 30 }, { "tb", 40 }, { "tib", 40 },
};

/* "64 MiB", "64mb", "67108864". */
static bool parse_bytes(const char *text, uint64_t *bytes)
{
	const char *at = text;

	for (*bytes = 0; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(*bytes, 10, bytes) ||
		    __builtin_add_overflow(*bytes, (uint64_t)(*at - '0'), bytes))
			return false;
	if (at == text)
		return false;
	while (*at == ' ')
		at++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcasecmp(units[i].name, at) == 0)
			return !__builtin_mul_overflow(*bytes, 1ull << units[i].shift, bytes);
	return false;
}

static bool terms_bytes(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct qos_terms *t = target;

	t->given |= QOS_HAS_BYTES;
	t->max_inflight_bytes = (uint64_t)json_integer_value(value);
	if ((json_is_integer(value) && json_integer_value(value) >= 0) ||
	    (json_is_string(value) &&
	     parse_bytes(json_string_value(value), &t->max_inflight_bytes)))
		return true;
	return reader_refuse(r, path, value, "bytes below 2^64, or a text with a unit: b, kb, "
			     "kib, mb, mib, gb, gib, tb, tib");
}

static bool terms_requests(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	struct qos_terms *t = target;
	uint64_t n;

	t->given |= QOS_HAS_REQUESTS;
	if (!reader_integer(r, path, value, 0, UINT32_MAX, &n))
		return false;
	t->max_inflight_requests = (uint32_t)n;
	return true;
}

static bool add_action(struct reader *r, const char *path, const json_t *value, void *target)
{
	uint8_t action;

	if (!reader_choice(r, path, value, actions, &action))
		return false;
	((struct qos_terms *)target)->actions |= (uint8_t)(1u << action);
	return true;
}

static bool terms_actions(struct reader *r, const char *path, const json_t *value,
			  void *target)
{
	((struct qos_terms *)target)->given |= QOS_HAS_ACTIONS;
	return reader_array(r, path, value, QOS_ACTIONS, add_action, target);
}

static const struct reader_field terms_fields[] = {
	{ "priority", terms_priority }, { "max_inflight_bytes", terms_bytes },
	{ "max_inflight_requests", terms_requests },
	{ "allowed_degraded_actions", terms_actions },
};

static bool read_terms(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_object(r, path, value, terms_fields,
			     sizeof(terms_fields) / sizeof(terms_fields[0]), target);
}

/* ---- tenants ----------------------------------------------------------- */

/* Spaces around it and its case do not matter; "" is "unspec". */
static bool find_intent(const char *text, int32_t *intent)
{
	char word[32];
	size_t length;

	while (isspace((unsigned char)*text))
		text++;
	length = strlen(text);
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	*intent = TENT_INTENT_UNSPEC;
	if (!length)
		return true;
	if (length >= sizeof(word))
		return false;
	memcpy(word, text, length);
	word[length] = '\0';
	return word_find_loosely(WORD_INTENT, word, intent);
}

static bool tenant_intents(struct reader *r, const char *path, const json_t *value,
			   void *target)
{
	struct qos_tenant *t = target;
	const char *name;
	json_t *terms;

	if (!json_is_object(value))
		return reader_refuse_type(r, path, value, "an object");
	json_object_foreach((json_t *)(uintptr_t)value, name, terms) {
		char below[READER_PATH];
		int32_t intent;

		snprintf(below, sizeof(below), "%.120s/%.60s", path, name);
		if (!find_intent(name, &intent))
			return reader_refuse_hidden(r, below, "is not a known key",
						    "the names of intents");
		if (t->has_intent & 1u << intent)
			return reader_refuse_hidden(r, below, "is set twice", "each intent once");
		t->has_intent |= (uint8_t)(1u << intent);
		if (!read_terms(r, below, terms, &t->intents[intent]))
			return false;
	}
	return true;
}

static bool tenant_name(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_tenant_name(r, path, value, ((struct qos_tenant *)target)->name);
}

static bool tenant_defaults(struct reader *r, const char *path, const json_t *value,
			    void *target)
{
	return read_terms(r, path, value, &((struct qos_tenant *)target)->defaults);
}

static const struct reader_field tenant_fields[] = {
	{ "name", tenant_name }, { "defaults", tenant_defaults }, { "intents", tenant_intents },
};

static bool read_tenant(struct reader *r, const char *path, const json_t *value, void *target)
{
	struct qos_tenant *t = &r->c->qos_tenants[r->c->nr_qos_tenants];

	(void)target;
	if (!reader_object(r, path, value, tenant_fields,
			   sizeof(tenant_fields) / sizeof(tenant_fields[0]), t))
		return false;
	if (!*t->name)
		return reader_refuse_hidden(r, path, "has no name", "a name");
	for (uint8_t i = 0; i < r->c->nr_qos_tenants; i++)
		if (strcmp(r->c->qos_tenants[i].name, t->name) == 0)
			return reader_refuse_hidden(r, path, "has the name of an earlier one",
						    "each tenant once");
	r->c->nr_qos_tenants++;
	return true;
}

/* ---- the section ------------------------------------------------------- */

static bool qos_version(struct reader *r, const char *path, const json_t *value, void *target)
{
	uint64_t n;

	(void)target;
	return reader_integer(r, path, value, 1, 1, &n);
}

static bool qos_defaults(struct reader *r, const char *path, const json_t *value, void *target)
{
	return read_terms(r, path, value, &((struct contract_config *)target)->qos_defaults);
}

static bool qos_tenants(struct reader *r, const char *path, const json_t *value, void *target)
{
	return reader_array(r, path, value, TENANTS_MAX, read_tenant, target);
}

static const struct reader_field qos_fields[] = {
	{ "version", qos_version }, { "defaults", qos_defaults }, { "tenants", qos_tenants },
};

bool reader_qos(struct reader *r, const json_t *value)
{
	r->c->has_qos = true;
	if (!reader_object(r, "qos", value, qos_fields,
			   sizeof(qos_fields) / sizeof(qos_fields[0]), r->c))
		return false;
	return json_object_get(value, "version") ||
	       reader_refuse_hidden(r, "qos", "has no version", "version 1");
}
