/* SPDX-License-Identifier: Apache-2.0 */
/* config_reader.c - values, and how they are refused. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/config_reader.h"
#include "engine/words.h"

#define VALUE_TEXT 96	/* of a refused value */

/* ---- refusals ---------------------------------------------------------- */

bool reader_refuse_hidden(struct reader *r, const char *path, const char *what,
			  const char *allowed)
{
	snprintf(r->error, r->size, "%s %s; allowed: %s", path, what, allowed);
	return false;
}

bool reader_refuse(struct reader *r, const char *path, const json_t *value,
		   const char *allowed)
{
	char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	char text[VALUE_TEXT];

	snprintf(text, sizeof(text), "is %.80s%s", dump ? dump : "?",
		 dump && strlen(dump) > 80 ? "..." : "");
	free(dump);
	return reader_refuse_hidden(r, path, text, allowed);
}

bool reader_refuse_type(struct reader *r, const char *path, const json_t *value,
			const char *allowed)
{
	static const char *const types[] = {
		[JSON_OBJECT] = "is an object", [JSON_ARRAY] = "is an array",
		[JSON_STRING] = "is a string", [JSON_INTEGER] = "is a number",
		[JSON_REAL] = "is a number with a fraction", [JSON_TRUE] = "is true",
		[JSON_FALSE] = "is false", [JSON_NULL] = "is null",
	};

	return reader_refuse_hidden(r, path, types[json_typeof(value)], allowed);
}

/* ---- objects and arrays ------------------------------------------------ */

static const struct reader_field *find_field(const char *name,
					     const struct reader_field *fields, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

static bool refuse_unknown(struct reader *r, const char *path, const char *name,
			   const struct reader_field *fields, size_t nr)
{
	char text[READER_PATH], allowed[256] = "";
	size_t used = 0;

	snprintf(text, sizeof(text), "%s/%.60s", path, name);
	for (size_t i = 0; i < nr && used < sizeof(allowed); i++)
		used += (size_t)snprintf(allowed + used, sizeof(allowed) - used, "%s%s",
					 i ? ", " : "", fields[i].name);
	return reader_refuse_hidden(r, text, "is not a known key", allowed);
}

bool reader_object(struct reader *r, const char *path, const json_t *value,
		   const struct reader_field *fields, size_t nr, void *target)
{
	const char *name;
	json_t *member;

	if (!json_is_object(value))
		return reader_refuse_type(r, path, value, "an object");
	json_object_foreach((json_t *)(uintptr_t)value, name, member) {
		const struct reader_field *f = find_field(name, fields, nr);
		char below[READER_PATH];

		if (!f)
			return refuse_unknown(r, path, name, fields, nr);
		snprintf(below, sizeof(below), "%.120s/%s", path, f->name);
		if (!f->read(r, below, member, target))
			return false;
	}
	return true;
}

bool reader_array(struct reader *r, const char *path, const json_t *value, size_t max,
		  bool (*read)(struct reader *r, const char *path, const json_t *value,
			       void *target), void *target)
{
	const json_t *element;
	char text[READER_PATH];
	size_t i;

	if (!json_is_array(value))
		return reader_refuse_type(r, path, value, "an array");
	if (json_array_size(value) > max) {
		snprintf(text, sizeof(text), "up to %zu entries", max);
		return reader_refuse_hidden(r, path, "is too long", text);
	}
	json_array_foreach(value, i, element) {
		snprintf(text, sizeof(text), "%.120s[%zu]", path, i);
		if (!read(r, text, element, target))
			return false;
	}
	return true;
}

/* ---- values ------------------------------------------------------------ */

bool reader_bool(struct reader *r, const char *path, const json_t *value, bool *b)
{
	*b = json_is_true(value);
	return json_is_boolean(value) || reader_refuse(r, path, value, "true or false");
}

bool reader_integer(struct reader *r, const char *path, const json_t *value, uint64_t min,
		    uint64_t max, uint64_t *n)
{
	json_int_t got = json_is_integer(value) ? json_integer_value(value) : -1;
	char allowed[64];

	*n = (uint64_t)got;
	if (got >= 0 && *n >= min && *n <= max)
		return true;
	snprintf(allowed, sizeof(allowed), "an integer, %llu..%llu", (unsigned long long)min,
		 (unsigned long long)max);
	return reader_refuse(r, path, value, allowed);
}

static bool is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isascii((unsigned char)text[i]) ||
		    (!isalnum((unsigned char)text[i]) && !strchr("._:/-", text[i])))
			return false;
	return length > 0 && length < CONTRACT_NAME_SIZE;
}

static bool put_name(struct reader *r, const char *path, const char *text, size_t length,
		     char name[CONTRACT_NAME_SIZE])
{
	if (!is_name(text, length))
		return reader_refuse_hidden(r, path, "is no name",
					    "1..63 of A-Z a-z 0-9 . _ : / -");
	memset(name, 0, CONTRACT_NAME_SIZE);
	memcpy(name, text, length);
	return true;
}

bool reader_name(struct reader *r, const char *path, const json_t *value,
		 char name[CONTRACT_NAME_SIZE])
{
	if (!json_is_string(value))
		return reader_refuse_type(r, path, value, "a name");
	return put_name(r, path, json_string_value(value), json_string_length(value), name);
}

bool reader_tenant_name(struct reader *r, const char *path, const json_t *value,
			char name[CONTRACT_NAME_SIZE])
{
	const char *text = json_string_value(value), *end;

	if (!text)
		return reader_refuse_type(r, path, value, "a name");
	end = text + json_string_length(value);
	while (text < end && isspace((unsigned char)*text))
		text++;
	while (text < end && isspace((unsigned char)end[-1]))
		end--;
	if (text == end)
		return put_name(r, path, "default", strlen("default"), name);
	if (!put_name(r, path, text, (size_t)(end - text), name))
		return false;
	for (char *at = name; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return true;
}

bool reader_priority(struct reader *r, const char *path, const json_t *value,
		     uint8_t *priority)
{
	int32_t found;

	if (!json_is_string(value) ||
	    !word_find_loosely(WORD_PRIORITY, json_string_value(value), &found) || !found)
		return reader_refuse(r, path, value, "\"high\", \"medium\" or \"low\"");
	*priority = (uint8_t)found;
	return true;
}

bool reader_choice(struct reader *r, const char *path, const json_t *value,
		   const char *const *words, uint8_t *choice)
{
	char allowed[128] = "";
	size_t used = 0;

	for (uint8_t i = 0; words[i]; i++) {
		if (json_is_string(value) && strcmp(json_string_value(value), words[i]) == 0) {
			*choice = i;
			return true;
		}
		used += (size_t)snprintf(allowed + used, sizeof(allowed) - used, "%s\"%s\"",
					 !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
	}
	return reader_refuse(r, path, value, allowed);
}

bool reader_transport(struct reader *r, const char *path, const json_t *value,
		      uint8_t *transport)
{
	int32_t found;

	if (!json_is_string(value) ||
	    !word_find(WORD_TRANSPORT, json_string_value(value), &found) || !found)
		return reader_refuse(r, path, value, "rdma, mnnvl, shm, nvlink, gds, io_uring, "
				     "tcp, ascend, sunrise_link, tpu, ub or mpcomm");
	*transport = (uint8_t)found;
	return true;
}

/* ---- all of it --------------------------------------------------------- */

void contract_config_default(struct contract_config *c)
{
	memset(c, 0, sizeof(*c));
	c->in_process = -1;
}

/* Names are resolved as they come, so what has them comes first. */
int contract_config_read(struct contract_config *c, const struct contract_sections *s,
			 char *error, size_t size)
{
	struct reader r = { .c = c, .error = error, .size = size };

	contract_config_default(c);
	if ((s->pools && !reader_pools(&r, s->pools)) ||
	    (s->policy && !reader_policies(&r, s->policy)) ||
	    (s->qos && !reader_qos(&r, s->qos)) ||
	    (s->authorization && !reader_authorization(&r, s->authorization)))
		return TENT_ERR_CONFIG;
	return 0;
}
