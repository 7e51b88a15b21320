/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - who may call a segment what. A name in use is refused to everybody; once
 * its owner died it stays its tenant's, so that nobody else's program can stand in for
 * a server that restarts. Names that the engine picked begin with '~', which no client
 * may ask for, and are never used twice.
 */
#ifndef TENT_ENGINE_NAMES_H
#define TENT_ENGINE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tenants.h"

#define NAME_SIZE 64u			/* of the part after host:port/, NUL included */
#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
#define NAMES_BUCKETS 1024u
#define NAMES_PER_TENANT_MAX 1024u	/* kept ones */
#define NAMES_MAX 65536u

struct segment;

struct name {
	struct name *next;
	struct tenant *tenant;
	struct segment *segment;	/* NULL: its owner died */
	bool kept;			/* stays its tenant's after death */
	char text[NAME_SIZE];
};

/* Part of struct engine. */
struct names {
	struct name *buckets[NAMES_BUCKETS];
	uint32_t nr;
};

void names_close(struct names *n);

/* Is it 1..63 of [A-Za-z0-9._-]? */
bool name_is_plain(const char *text);

/* Takes a name for a segment. kept: chosen by the client. 0, or the enum tent_rule that
 * forbids it. */
uint16_t name_claim(struct names *n, struct tenant *tenant, const char *text, bool kept,
		    struct segment *segment, struct name **out);
/* Its owner is gone. */
void name_release(struct names *n, struct name *name);

struct name *name_find(struct names *n, const char *text);

#endif /* TENT_ENGINE_NAMES_H */
