/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c - the details of each thread's last failure. A category alone cannot tell a
 * caller what to change, so every failure also stores the field, the value and what
 * would have been allowed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/lib.h"

static __thread struct tent_error_info last;

static const char *const allowed_texts[TENT_RULE_COUNT] = {
#define ALLOWED(name, number, category, field, allowed) [number] = allowed,
	TENT_RULES(ALLOWED)
#undef ALLOWED
};

const char *lib_rule_allowed(uint32_t rule)
{
	return rule < TENT_RULE_COUNT && allowed_texts[rule] ? allowed_texts[rule] : "";
}

const struct tent_error_info *lib_last_error(void)
{
	return &last;
}

static int store(int error, uint32_t rule, uint32_t index, const char *field)
{
	last.size = sizeof(last);
	last.error = error;
	last.rule = rule;
	last.index = index;
	snprintf(last.field, sizeof(last.field), "%s", field);
	return error;
}

int lib_fail(uint32_t rule, int64_t value)
{
	tent_rule_describe(rule, value, last.message, sizeof(last.message));
	return store(tent_rule_error(rule), rule, 0, tent_rule_field(rule));
}

int lib_fail_field(uint32_t rule, const char *field, int64_t value)
{
	snprintf(last.message, sizeof(last.message), "%s is %lld; allowed: %s", field,
		 (long long)value, lib_rule_allowed(rule));
	return store(tent_rule_error(rule), rule, 0, field);
}

int lib_fail_null(const char *field)
{
	snprintf(last.message, sizeof(last.message), "%s is NULL; allowed: %s", field,
		 lib_rule_allowed(TENT_RULE_ARG_NULL));
	return store(tent_rule_error(TENT_RULE_ARG_NULL), TENT_RULE_ARG_NULL, 0, field);
}

int lib_fail_text(int error, uint32_t rule, const char *field, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(last.message, sizeof(last.message), format, args);
	va_end(args);
	return store(error, rule, 0, field);
}

int lib_fail_client(void)
{
	last.size = sizeof(last);
	tent_client_error(&last);
	return last.error;
}

int lib_fail_again(const struct tent_error_info *info)
{
	last = *info;
	return last.error;
}

int lib_fail_entry(uint32_t rule, uint32_t index, int64_t value, const char *policy)
{
	size_t used = (size_t)snprintf(last.message, sizeof(last.message), "entry %u: ", index);
	char *rest = last.message + used;

	if (policy && !strcmp(tent_rule_field(rule), "policy_name"))
		snprintf(rest, sizeof(last.message) - used, "policy_name is \"%.80s\"; allowed: %s",
			 policy, lib_rule_allowed(rule));
	else
		tent_rule_describe(rule, value, rest, sizeof(last.message) - used);
	return store(tent_rule_error(rule), rule, index, tent_rule_field(rule));
}

/* A text that the caller's size cuts must still end in it. */
static void end_text(struct tent_error_info *to, uint32_t size, size_t offset, size_t length)
{
	if (size > offset && size < offset + length)
		((char *)to)[size - 1] = 0;
}

int lib_error_copy(struct tent_error_info *to, const struct tent_error_info *info)
{
	uint32_t size = to->size < sizeof(*to) ? to->size : sizeof(*to);

	memcpy((char *)to + 4, (const char *)info + 4, size - 4);
	end_text(to, size, offsetof(struct tent_error_info, field), sizeof(info->field));
	end_text(to, size, offsetof(struct tent_error_info, message), sizeof(info->message));
	return 0;
}

int tent_last_error(struct tent_error_info *info)
{
	if (!info || info->size < 16)
		return TENT_ERR_ARGUMENTS;
	return lib_error_copy(info, &last);
}
