/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - what users read about a broken rule, from the one list in rules.h. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tent/tentring.h>

#include "ring/rules.h"

struct rule_text {
	const char *name, *field, *allowed;
	int error;
};

static const struct rule_text rules[TENT_RULE_COUNT] = {
#define RULE_TEXT(rule, number, category, text_field, text_allowed)	\
	[number] = { #rule, text_field, text_allowed, TENT_ERR_##category },
	TENT_RULES(RULE_TEXT)
#undef RULE_TEXT
};

static const struct rule_text *rule_find(uint32_t rule)
{
	return rule < TENT_RULE_COUNT && rules[rule].name ? &rules[rule] : NULL;
}

int tent_rule_error(uint32_t rule)
{
	const struct rule_text *r = rule_find(rule);

	if (rule == TENT_RULE_NONE)
		return TENT_OK;
	return r ? r->error : TENT_ERR_RUNTIME;
}

const char *tent_rule_field(uint32_t rule)
{
	const struct rule_text *r = rule_find(rule);

	return r ? r->field : "";
}

const char *tent_rule_name(uint32_t rule)
{
	const struct rule_text *r = rule_find(rule);

	return r ? r->name : "";
}

const char *rule_allowed(uint32_t rule)
{
	const struct rule_text *r = rule_find(rule);

	return r ? r->allowed : "";
}

/* Addresses, flags and bytes are read in hex, everything else is a count or an enum. */
static bool reads_in_hex(uint32_t rule, const struct rule_text *r)
{
	return r->error == TENT_ERR_ADDRESS || r->error == TENT_ERR_FLAGS ||
	       r->error == TENT_ERR_OWNER_GONE || rule == TENT_RULE_POLICY_CHARS;
}

/* Of a text, the value is its length, or the byte that is wrong. */
static const char *verb_of(uint32_t rule, const struct rule_text *r)
{
	if (rule == TENT_RULE_POLICY_CHARS)
		return "has the byte";
	return strcmp(r->field, "policy_name") == 0 ? "has a length of" : "is";
}

void tent_rule_describe(uint32_t rule, int64_t value, char *text, size_t size)
{
	const struct rule_text *r = rule_find(rule);
	char number[24];

	if (!size)
		return;
	if (!r) {
		snprintf(text, size, "rule %" PRIu32 " is broken; value %" PRId64, rule, value);
		return;
	}
	snprintf(number, sizeof(number), reads_in_hex(rule, r) ? "0x%" PRIx64 : "%" PRId64,
		 value);
	snprintf(text, size, "%s %s %s; allowed: %s", r->field, verb_of(rule, r), number,
		 r->allowed);
}
