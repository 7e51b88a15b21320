/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the process that owns the KV pool. It registers the pool and sleeps:
 * the bytes come and go without it. Only where engines are killed it is asked whether
 * they are there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/common/content.h"
#include "perf/replay/replay.h"

#define PAGE 4096

uint64_t store_size(const struct options *o)
{
	return o->pool + (o->checkpoint_flood ? o->flood : 0);
}

void *store_open_pool(tent_engine_t engine, const struct options *o)
{
	uint64_t size = store_size(o);
	void *pool;

	if (tent_allocate_memory(engine, &pool, size, "*")) {
		complain("tent_allocate_memory");
		return NULL;
	}
	/* A store has its pages before it takes traffic. */
	for (uint64_t i = 0; i < size; i += PAGE)
		*(volatile uint8_t *)((uint8_t *)pool + i) = 0;
	if (tent_register_memory(engine, pool, size)) {
		complain("tent_register_memory");
		return NULL;
	}
	return pool;
}

struct store {
	const struct options *o;
	const char *url;
	const struct ledger *ledger;
	tent_engine_t engine;
	const uint8_t *pool;
	uint32_t moves;
};

/* A life of the store: its pool is empty. name: its segment. */
static int open_store(struct store *t, const char *url, char *name, size_t size)
{
	snprintf(name, size, "store-%d-%u", (int)getpid(), t->moves++);
	setenv("TENT_ENGINE", url, 1);
	tent_set_config("local_segment_name", name);
	t->engine = tent_create_engine();
	if (!tent_available(t->engine))
		return complain("store: tent_create_engine");
	t->pool = store_open_pool(t->engine, t->o);
	if (!t->pool)
		return -1;
	if (tent_segment_name(t->engine, name, size))
		return complain("store: tent_segment_name");
	return 0;
}

/* Its engine may be dead: the memory is its own. */
static void check(const struct store *t, char *text, size_t size)
{
	unsigned long long right = 0, wrong = 0;

	for (uint64_t i = 0; i < t->o->pool / t->o->block; i++) {
		const struct ledger_slot *slot = &t->ledger->slots[i];

		if (slot->stored)
			*(content_check(t->pool + i * t->o->block, t->o->block, t->o->seed,
					slot->id) == t->o->block ? &right : &wrong) += 1;
	}
	snprintf(text, size, "right %llu wrong %llu", right, wrong);
}

static int answer(struct store *t, struct helper *h, char *text, size_t size)
{
	if (strcmp(text, "check") == 0) {
		check(t, text, size);
	} else if (strncmp(text, "move ", 5) == 0) {
		char url[128];

		snprintf(url, sizeof(url), "%s", text + 5);
		tent_destroy_engine(t->engine);
		if (open_store(t, url, text, size))
			return -1;
	}
	return helper_say(h, text);
}

static int store_main(struct helper *h, const void *arg)
{
	struct store t = *(const struct store *)arg;
	char text[128];

	if (open_store(&t, t.url, text, sizeof(text)) || helper_say(h, text))
		return 1;
	while (helper_next(h, text, sizeof(text)))
		if (answer(&t, h, text, sizeof(text)))
			return 1;
	tent_destroy_engine(t.engine);
	return 0;
}

int store_start(struct process *p, const struct options *o, const char *engine_url,
		const struct ledger *ledger)
{
	struct store t = { .o = o, .url = engine_url, .ledger = ledger };

	return process_start(p, "replay-store", store_main, &t);
}
