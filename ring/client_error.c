/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_error.c - what this thread's last failed call found. A full ring is an
 * everyday answer, so a rule and a value are kept and the sentence is made only when
 * somebody asks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ring/client.h"
#include "ring/rules.h"

struct client_failure {
	int32_t error;
	uint32_t rule;
	int64_t value;
	const char *field;	/* NULL: the rule's */
	char message[256];	/* "": to be made from rule and value */
};

static __thread struct client_failure failure;

int client_fail(uint32_t rule, int64_t value)
{
	failure.error = tent_rule_error(rule);
	failure.rule = rule;
	failure.value = value;
	failure.field = NULL;
	failure.message[0] = '\0';
	return failure.error;
}

int client_fail_null(const char *argument)
{
	client_fail_text(TENT_RULE_ARG_NULL, "%s is NULL; allowed: %s", argument,
			 rule_allowed(TENT_RULE_ARG_NULL));
	failure.field = argument;
	return failure.error;
}

int client_fail_text(uint32_t rule, const char *format, ...)
{
	va_list args;

	client_fail(rule, 0);
	va_start(args, format);
	vsnprintf(failure.message, sizeof(failure.message), format, args);
	va_end(args);
	return failure.error;
}

/* The category is the engine's too: a newer engine may know rules that we do not. */
int client_fail_status(const struct tent_ctl_status *status)
{
	client_fail(status->rule, (int64_t)status->value);
	failure.error = status->error;
	memcpy(failure.message, status->message, sizeof(failure.message));
	failure.message[sizeof(failure.message) - 1] = '\0';
	return failure.error;
}

int client_fail_system(const char *what, int rc)
{
	errno = -rc;
	return client_fail_text(TENT_RULE_SYSTEM, "%s: %m", what);
}

static void describe(struct tent_error_info *info)
{
	memset(info, 0, sizeof(*info));
	info->error = failure.error;
	info->rule = failure.rule;
	snprintf(info->field, sizeof(info->field), "%s",
		 failure.field ? failure.field : tent_rule_field(failure.rule));
	if (failure.message[0])
		memcpy(info->message, failure.message, sizeof(info->message));
	else if (failure.error)
		tent_rule_describe(failure.rule, failure.value, info->message,
				   sizeof(info->message));
}

void error_info_copy(struct tent_error_info *to, const struct tent_error_info *from)
{
	size_t size = to->size < sizeof(*to) ? to->size : sizeof(*to);
	size_t texts = offsetof(struct tent_error_info, flags);

	if (size < sizeof(*to) && size > texts)
		size = texts;
	memcpy((char *)to + sizeof(to->size), (const char *)from + sizeof(from->size),
	       size - sizeof(to->size));
	if (size > offsetof(struct tent_error_info, field) && size <= texts)
		((char *)to)[size - 1] = '\0'; /* where the caller's struct cuts a text */
}

int tent_client_error(struct tent_error_info *info)
{
	struct tent_error_info full;

	if (!info || info->size < offsetof(struct tent_error_info, field))
		return TENT_ERR_ARGUMENTS;
	describe(&full);
	error_info_copy(info, &full);
	return 0;
}
