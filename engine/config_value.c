/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_value.c - one value of one key: from text or JSON into struct
 * engine_config, and back to text. The key's type alone decides how it is read.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/config_table.h"

#define CORE_MAX 1023		/* CPU_SETSIZE - 1 */
#define PORT_DEFAULT 15000	/* what rpc_server_port 0 stands for, or is counted from */
#define HOST_DEFAULT "127.0.0.1"

static void *target(const struct config_key *k, struct engine_config *c)
{
	return (char *)c + k->offset;
}

static bool store_number(const struct config_key *k, struct engine_config *c, uint64_t n)
{
	uint64_t scaled;

	if (n < k->min || n > k->max)
		return false;
	scaled = n * (k->scale ? k->scale : 1);	/* the table's ranges cannot overflow */
	if (k->offset == offsetof(struct engine_config, port)) {
		c->port_any = n == 0;
		scaled = n ? n : PORT_DEFAULT;
	}
	switch (k->size) {
	case 2:
		*(uint16_t *)target(k, c) = (uint16_t)scaled;
		return true;
	case 4:
		*(uint32_t *)target(k, c) = (uint32_t)scaled;
		return true;
	default:
		*(uint64_t *)target(k, c) = scaled;
		return true;
	}
}

static bool store_index(const struct config_key *k, struct engine_config *c, int64_t n)
{
	if (n < -1 || n > (int64_t)k->max)
		return false;
	*(uint32_t *)target(k, c) = (uint32_t)n;
	return true;
}

static bool store_bool(const struct config_key *k, struct engine_config *c, bool value)
{
	*(bool *)target(k, c) = value != (k->type == CONFIG_BOOL_NOT);
	return true;
}

static bool store_choice(const struct config_key *k, struct engine_config *c,
			 const char *text)
{
	const char *word = k->choices;
	int number = (int)k->min;

	for (;;) {
		size_t len = strcspn(word, "|");

		if (strlen(text) == len && memcmp(text, word, len) == 0)
			break;
		if (word[len] == '\0')
			return false;
		word += len + 1;
		number++;
	}
	if (k->size == sizeof(bool))
		*(bool *)target(k, c) = number;
	else
		*(int *)target(k, c) = number;
	return true;
}

static bool store_string(const struct config_key *k, struct engine_config *c,
			 const char *text)
{
	size_t len = strlen(text);

	if (len >= k->size || (k->valid && !k->valid(text)))
		return false;
	if (k->offset == offsetof(struct engine_config, host)) {
		bool any = len == 0;

		text = any ? HOST_DEFAULT : text;
		len = strlen(text);
		c->host_any = any;
	}
	memset(target(k, c), 0, k->size);
	memcpy(target(k, c), text, len);
	return true;
}

static bool store_engine(const struct config_key *k, struct engine_config *c,
			 const char *text)
{
	bool caller = strcmp(text, "caller") == 0;

	if (strncmp(text, "unix:/", 6) == 0 && strlen(text) - 5 < k->size) {
		memset(c->attach_path, 0, sizeof(c->attach_path));
		memcpy(c->attach_path, text + 5, strlen(text + 5));
		return true;
	}
	if (!caller && strcmp(text, "thread") != 0)
		return false;
	memset(c->attach_path, 0, sizeof(c->attach_path));
	c->caller_mode = caller;
	return true;
}

/* Two pollers on one core would starve each other: a core is named once. */
static bool add_core(int cores[ENGINE_POLLERS_MAX], size_t at, int64_t core)
{
	if (at >= ENGINE_POLLERS_MAX || core < -1 || core > CORE_MAX)
		return false;
	for (size_t i = 0; i < at; i++) {
		if (core >= 0 && cores[i] == core)
			return false;
	}
	cores[at] = (int)core;
	return true;
}

static void no_cores(int cores[ENGINE_POLLERS_MAX])
{
	for (int i = 0; i < ENGINE_POLLERS_MAX; i++)
		cores[i] = -1;
}

/* Digits only, with an optional sign; end is where they stop. */
static bool parse_integer(const char *text, const char **end, bool *negative,
			  uint64_t *value)
{
	const char *digits = text + (*text == '+' || *text == '-');

	*negative = *text == '-';
	*value = 0;
	for (*end = digits; **end >= '0' && **end <= '9'; ++*end) {
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(**end - '0'), value))
			return false;
	}
	return *end != digits;
}

static bool store_cores_text(struct engine_config *c, const char *text)
{
	int cores[ENGINE_POLLERS_MAX];
	size_t nr = 0;

	no_cores(cores);
	while (*text) {
		bool negative;
		uint64_t value;

		if (!parse_integer(text, &text, &negative, &value) || value > CORE_MAX ||
		    !add_core(cores, nr++, negative ? -(int64_t)value : (int64_t)value))
			return false;
		if (*text == ',' && text[1] != '\0')
			text++;
		else if (*text)
			return false;
	}
	memcpy(c->cores, cores, sizeof(cores));
	return true;
}

static bool store_cores_json(struct engine_config *c, const json_t *value)
{
	int cores[ENGINE_POLLERS_MAX];
	const json_t *core;
	size_t i;

	no_cores(cores);
	json_array_foreach(value, i, core) {
		if (!json_is_integer(core) || !add_core(cores, i, json_integer_value(core)))
			return false;
	}
	memcpy(c->cores, cores, sizeof(cores));
	return true;
}

static bool store_bool_text(const struct config_key *k, struct engine_config *c,
			    const char *text)
{
	if (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0)
		return store_bool(k, c, true);
	if (strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0)
		return store_bool(k, c, false);
	return false;
}

static bool store_number_text(const struct config_key *k, struct engine_config *c,
			      const char *text)
{
	bool negative;
	uint64_t value;

	if (!parse_integer(text, &text, &negative, &value) || *text ||
	    (negative && value))
		return false;
	return store_number(k, c, value);
}

static bool store_index_text(const struct config_key *k, struct engine_config *c,
			     const char *text)
{
	bool negative;
	uint64_t value;

	return parse_integer(text, &text, &negative, &value) && !*text && value <= INT32_MAX &&
	       store_index(k, c, negative ? -(int64_t)value : (int64_t)value);
}

bool config_store_text(const struct config_key *k, struct engine_config *c,
		       const char *text)
{
	switch (k->type) {
	case CONFIG_BOOL:
	case CONFIG_BOOL_NOT:
		return store_bool_text(k, c, text);
	case CONFIG_UINT:
		return store_number_text(k, c, text);
	case CONFIG_INDEX:
		return store_index_text(k, c, text);
	case CONFIG_CHOICE:
		return store_choice(k, c, text);
	case CONFIG_TEXT:
		return store_string(k, c, text);
	case CONFIG_CORES:
		return store_cores_text(c, text);
	case CONFIG_ENGINE:
		return store_engine(k, c, text);
	}
	return false;
}

bool config_store_json(const struct config_key *k, struct engine_config *c,
		       const json_t *value)
{
	switch (k->type) {
	case CONFIG_BOOL:
	case CONFIG_BOOL_NOT:
		return json_is_boolean(value) && store_bool(k, c, json_is_true(value));
	case CONFIG_UINT:
		return json_is_integer(value) && json_integer_value(value) >= 0 &&
		       store_number(k, c, (uint64_t)json_integer_value(value));
	case CONFIG_INDEX:
		return json_is_integer(value) && store_index(k, c, json_integer_value(value));
	case CONFIG_CORES:
		return json_is_array(value) && store_cores_json(c, value);
	default:
		return json_is_string(value) &&
		       config_store_text(k, c, json_string_value(value));
	}
}

static uint64_t load_number(const struct config_key *k, const struct engine_config *c)
{
	const void *at = (const char *)c + k->offset;
	uint64_t n = k->size == 2 ? *(const uint16_t *)at :
		     k->size == 4 ? *(const uint32_t *)at : *(const uint64_t *)at;

	return n / (k->scale ? k->scale : 1);
}

static void choice_text(const struct config_key *k, int number, char *text, size_t size)
{
	const char *word = k->choices;

	for (int i = (int)k->min; i < number; i++)
		word += strcspn(word, "|") + 1;
	snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
}

static void cores_text(const struct engine_config *c, char *text, size_t size)
{
	size_t used = 0;
	int last = ENGINE_POLLERS_MAX;

	text[0] = '\0';
	while (last > 0 && c->cores[last - 1] < 0)
		last--;
	for (int i = 0; i < last && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "",
					 c->cores[i]);
}

void config_value_text(const struct config_key *k, const struct engine_config *c,
		       char *text, size_t size)
{
	const void *at = (const char *)c + k->offset;

	switch (k->type) {
	case CONFIG_BOOL:
	case CONFIG_BOOL_NOT:
		snprintf(text, size, "%s", *(const bool *)at != (k->type == CONFIG_BOOL_NOT) ?
			 "true" : "false");
		break;
	case CONFIG_UINT:
		snprintf(text, size, "%llu", (unsigned long long)load_number(k, c));
		break;
	case CONFIG_INDEX:
		snprintf(text, size, "%d", (int)*(const uint32_t *)at);
		break;
	case CONFIG_CHOICE:
		choice_text(k, k->size == sizeof(bool) ? *(const bool *)at : *(const int *)at,
			    text, size);
		break;
	case CONFIG_TEXT:
		snprintf(text, size, "%s", (const char *)at);
		break;
	case CONFIG_CORES:
		cores_text(c, text, size);
		break;
	case CONFIG_ENGINE:
		snprintf(text, size, "%s%s", c->attach_path[0] ? "unix:" :
			 c->caller_mode ? "caller" : "thread", c->attach_path);
		break;
	}
}

static void choices_text(const struct config_key *k, char *text, size_t size)
{
	const char *word = k->choices;
	size_t used = 0;

	while (used < size) {
		size_t len = strcspn(word, "|");
		bool last = word[len] == '\0';

		used += (size_t)snprintf(text + used, size - used, "%s\"%.*s\"",
					 word == k->choices ? "" : last ? " or " : ", ",
					 (int)len, word);
		if (last)
			break;
		word += len + 1;
	}
}

void config_allowed_text(const struct config_key *k, char *text, size_t size)
{
	switch (k->type) {
	case CONFIG_BOOL:
	case CONFIG_BOOL_NOT:
		snprintf(text, size, "true or false");
		break;
	case CONFIG_UINT:
		snprintf(text, size, "an integer, %llu..%llu", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		break;
	case CONFIG_INDEX:
		snprintf(text, size, "an integer, -1..%llu", (unsigned long long)k->max);
		break;
	case CONFIG_CHOICE:
		choices_text(k, text, size);
		break;
	case CONFIG_TEXT:
		snprintf(text, size, "%s", k->allowed);
		break;
	case CONFIG_CORES:
		snprintf(text, size, "a list of up to %d CPU numbers 0..%d, each once, "
			 "or -1 for not pinned", ENGINE_POLLERS_MAX, CORE_MAX);
		break;
	case CONFIG_ENGINE:
		snprintf(text, size, "\"thread\", \"caller\" or \"unix:/path\" of up to %d "
			 "bytes", SOCKET_PATH_SIZE - 1);
		break;
	}
}
