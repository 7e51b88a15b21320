/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - tables of names. What they stand for is frozen, so they only grow. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/words.h"

static const char *const opcodes[] = { "read", "write" };
static const char *const intents[] = {
	"unspec", "foreground_get", "background_prefetch", "migration", "checkpoint",
	"weight_loading", "staging_internal",
};
static const char *const priorities[] = { "unspec", "high", "medium", "low" };
static const char *const transports[] = {
	"unspec", "rdma", "mnnvl", "shm", "nvlink", "gds", "io_uring", "tcp", "ascend",
	"sunrise_link", "tpu", "ub", "mpcomm",
};
static const char *const permissions[] = {
	"local_read_write", "global_read_only", "global_read_write",
};

#define WORDS(list) { list, sizeof(list) / sizeof(list[0]) }
static const struct {
	const char *const *list;
	size_t nr;
} words[] = {
	[WORD_OPCODE] = WORDS(opcodes),
	[WORD_INTENT] = WORDS(intents),
	[WORD_PRIORITY] = WORDS(priorities),
	[WORD_TRANSPORT] = WORDS(transports),
	[WORD_PERMISSION] = WORDS(permissions),
};

const char *word_name(enum word_kind kind, int64_t value)
{
	return value >= 0 && (uint64_t)value < words[kind].nr ? words[kind].list[value] : NULL;
}

json_t *word_json(enum word_kind kind, int64_t value)
{
	const char *name = word_name(kind, value);
	char number[24];

	if (name)
		return json_string(name);
	snprintf(number, sizeof(number), "%" PRId64, value);
	return json_string(number);
}

static bool find(enum word_kind kind, const char *text, int32_t *value,
		 int (*compare)(const char *a, const char *b))
{
	for (size_t i = 0; i < words[kind].nr; i++) {
		if (compare(words[kind].list[i], text) == 0) {
			*value = (int32_t)i;
			return true;
		}
	}
	return false;
}

bool word_find(enum word_kind kind, const char *text, int32_t *value)
{
	return find(kind, text, value, strcmp);
}

bool word_find_loosely(enum word_kind kind, const char *text, int32_t *value)
{
	return find(kind, text, value, strcasecmp);
}
