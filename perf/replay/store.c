/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the process that owns the KV pool. It registers the pool and sleeps:
 * the bytes come and go without it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

struct store_args {
	const struct options *o;
	const char *url;
};

static int store_main(struct helper *h, const void *arg)
{
	const struct store_args *a = arg;
	tent_engine_t engine;
	char name[128];

	snprintf(name, sizeof(name), "store-%d", (int)getpid());
	setenv("TENT_ENGINE", a->url, 1);
	tent_set_config("local_segment_name", name);
	engine = tent_create_engine();
	if (!tent_available(engine))
		return complain("store: tent_create_engine"), 1;
	if (!store_open_pool(engine, a->o))
		return 1;
	if (tent_segment_name(engine, name, sizeof(name)))
		return complain("store: tent_segment_name"), 1;
	if (helper_ready(h, name))
		return 1;
	helper_wait(h);
	tent_destroy_engine(engine);
	return 0;
}

int store_start(struct process *p, const struct options *o, const char *engine_url)
{
	struct store_args a = { .o = o, .url = engine_url };

	return process_start(p, "replay-store", store_main, &a);
}
