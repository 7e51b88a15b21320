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
#include "ring/client.h"
#include "ring/rules.h"

static __thread struct tent_error_info last;

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
		 (long long)value, rule_allowed(rule));
	return store(tent_rule_error(rule), rule, 0, field);
}

int lib_fail_null(const char *field)
{
	snprintf(last.message, sizeof(last.message), "%s is NULL; allowed: %s", field,
		 rule_allowed(TENT_RULE_ARG_NULL));
	return store(tent_rule_error(TENT_RULE_ARG_NULL), TENT_RULE_ARG_NULL, 0, field);
}

int lib_fail_stale(uint64_t batch_id)
{
	return lib_fail_field(TENT_RULE_BATCH_STALE, "batch_id", (int64_t)batch_id);
}

int lib_fail_range(size_t task_id, uint32_t nr)
{
	return lib_fail_text(TENT_ERR_ARGUMENTS, TENT_RULE_TASK_RANGE, "task_id",
			     "task_id is %zu; allowed: below %u, the number of tasks", task_id,
			     nr);
}

int lib_fail_memory(void)
{
	return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "malloc", "out of memory");
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
			 policy, rule_allowed(rule));
	else
		tent_rule_describe(rule, value, rest, sizeof(last.message) - used);
	return store(tent_rule_error(rule), rule, index, tent_rule_field(rule));
}

int tent_last_error(struct tent_error_info *info)
{
	if (!info || info->size < offsetof(struct tent_error_info, field))
		return TENT_ERR_ARGUMENTS;
	error_info_copy(info, &last);
	return 0;
}
