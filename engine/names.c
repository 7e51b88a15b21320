/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the table of segment names. */
#include <stdlib.h>
#include <string.h>
#include <tent/rules.h>

#include "engine/names.h"

static struct name **bucket_of(struct names *n, const char *text)
{
	uint32_t hash = 2166136261u;	/* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return &n->buckets[hash % NAMES_BUCKETS];
}

bool name_is_plain(const char *text)
{
	size_t length = strnlen(text, NAME_SIZE);

	return length > 0 && length < NAME_SIZE &&
	       strspn(text, NAME_CHARS) == length;
}

struct name *name_find(struct names *n, const char *text)
{
	struct name *name;

	for (name = *bucket_of(n, text); name; name = name->next) {
		if (strcmp(name->text, text) == 0)
			return name;
	}
	return NULL;
}

static uint16_t name_create(struct names *n, struct tenant *tenant, const char *text,
			    struct name **out)
{
	struct name **bucket = bucket_of(n, text), *name;

	if (tenant->nr_names >= NAMES_PER_TENANT_MAX || n->nr >= NAMES_MAX)
		return TENT_RULE_CLIENT_LIMIT;
	name = calloc(1, sizeof(*name));
	if (!name)
		return TENT_RULE_SYSTEM;
	memcpy(name->text, text, strnlen(text, NAME_SIZE - 1));
	name->tenant = tenant;
	name->next = *bucket;
	*bucket = name;
	tenant->nr_names++;
	n->nr++;
	*out = name;
	return 0;
}

uint16_t name_claim(struct names *n, struct tenant *tenant, const char *text, bool kept,
		    struct segment *segment, struct name **out)
{
	struct name *name = name_find(n, text);
	uint16_t rule = 0;

	if (name && name->tenant != tenant)
		return TENT_RULE_NAME_OTHER_TENANT;
	if (name && name->segment)
		return TENT_RULE_NAME_TAKEN;
	if (!name)
		rule = name_create(n, tenant, text, &name);
	if (rule)
		return rule;
	name->kept = kept;
	name->segment = segment;
	*out = name;
	return 0;
}

void name_release(struct names *n, struct name *name)
{
	struct name **at = bucket_of(n, name->text);

	name->segment = NULL;
	if (name->kept)
		return;
	while (*at != name)
		at = &(*at)->next;
	*at = name->next;
	name->tenant->nr_names--;
	n->nr--;
	free(name);
}

void names_close(struct names *n)
{
	for (uint32_t i = 0; i < NAMES_BUCKETS; i++) {
		while (n->buckets[i]) {
			struct name *next = n->buckets[i]->next;

			free(n->buckets[i]);
			n->buckets[i] = next;
		}
	}
	n->nr = 0;
}
