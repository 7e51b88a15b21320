/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_table.h - the keys: those we implement, and those of the existing engine
 * that we know by name. Tables only; config.c walks them, tentctl and the tests list
 * them.
 */
#ifndef TENT_ENGINE_CONFIG_TABLE_H
#define TENT_ENGINE_CONFIG_TABLE_H

#include <jansson.h>

#include "engine/config.h"

enum config_type {
	CONFIG_BOOL,
	CONFIG_BOOL_NOT,	/* the target holds the opposite */
	CONFIG_UINT,
	CONFIG_INDEX,		/* 0 to max, or -1, which the target holds as all ones */
	CONFIG_CHOICE,		/* one of choices; the target holds min + its position */
	CONFIG_TEXT,
	CONFIG_CORES,		/* a list of CPU numbers */
	CONFIG_ENGINE		/* "thread", "caller" or "unix:/path" */
};

/* A key we implement. */
struct config_key {
	const char *path;
	enum config_type type;
	uint16_t offset, size;		/* of the target in struct engine_config */
	uint64_t min, max;		/* in the key's own unit */
	uint64_t scale;			/* from the key's unit to the target's; 0: 1 */
	const char *choices;		/* "strict|compat" */
	bool (*valid)(const char *text); /* CONFIG_TEXT; NULL: any that fits */
	const char *allowed;		/* CONFIG_TEXT: what valid takes, in words */
	const char *initial;		/* the default, as text */
	const char *meaning;		/* one line, for people */
};

/* A key of the existing engine that we do not implement. */
struct config_foreign {
	const char *path;		/* one that ends in an asterisk: all below it */
	const char *silent;		/* a value that asks for what we do anyway, or NULL */
	const char *instead;		/* what happens instead */
};

/* Key number i, or NULL past the last. */
const struct config_key *config_key_at(unsigned int i);
/* A table's path in the spelling that path uses: "rdma/x" is another one for
 * "transports/rdma/x". */
const char *config_path_as(const char *own, const char *path);
/* By path, in either spelling. NULL: unknown. */
const struct config_key *config_key_find(const char *path);
unsigned int config_key_index(const struct config_key *k);
/* The known key that a mistyped path most resembles, or NULL. */
const struct config_key *config_key_guess(const char *path);

/* An environment variable of the existing engine that stands for a key. */
struct config_alias {
	const char *variable, *path;
};
const struct config_alias *config_alias_at(unsigned int i);

const struct config_foreign *config_foreign_at(unsigned int i);
const struct config_foreign *config_foreign_find(const char *path);
/* Environment variables of the existing engine that stand for nothing here. */
const struct config_foreign *config_variable_at(unsigned int i);

/* Is path the inside of the tree: does a known or foreign key lie below it? */
bool config_is_section(const char *path);
/* Is it policy, qos or authorization, or below, or the QP pools that these name: not keys,
 * but sections of JSON? */
bool config_is_contract(const char *path);

/* Store one value. False: wrong type or out of range; *c is then unchanged. */
bool config_store_text(const struct config_key *k, struct engine_config *c,
		       const char *text);
bool config_store_json(const struct config_key *k, struct engine_config *c,
		       const json_t *value);

/* The value in c, what is allowed, as text for people. */
void config_value_text(const struct config_key *k, const struct engine_config *c,
		       char *text, size_t size);
void config_allowed_text(const struct config_key *k, char *text, size_t size);

#endif /* TENT_ENGINE_CONFIG_TABLE_H */
