/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - which KV block lies in which slot of the store's pool: an LRU cache of
 * equal slots. A slot with transfers in flight is pinned and never reused; a block
 * can be read once its write has ended.
 */
#ifndef TENT_PERF_REPLAY_POOL_H
#define TENT_PERF_REPLAY_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/replay/map.h"

#define POOL_NONE UINT32_MAX

enum pool_state { POOL_FREE = 0, POOL_WRITING, POOL_STORED };

struct pool_slot {
	uint64_t id;
	uint32_t older, newer;	/* LRU list; POOL_NONE at its ends */
	uint32_t pins;		/* transfers in flight */
	uint8_t state;		/* enum pool_state */
	bool prefetched;	/* and not asked for since */
};

struct pool {
	struct pool_slot *slots;
	struct map where;	/* id -> slot; stale once the slot holds another */
	uint32_t nr_slots;
	uint32_t oldest, newest;
	uint64_t evictions;
};

void pool_init(struct pool *p, uint32_t nr_slots);
void pool_free(struct pool *p);

/* The slot that holds the block or is being written with it, or POOL_NONE. */
uint32_t pool_find(const struct pool *p, uint64_t id);

/* A slot to write a block that is not there into: the least recently used one
 * without pins. It is pinned once and WRITING. POOL_NONE when all are pinned. */
uint32_t pool_claim(struct pool *p, uint64_t id);

/* Ends a claim: the block can be read, or was never stored. */
void pool_stored(struct pool *p, uint32_t slot);
void pool_abandon(struct pool *p, uint32_t slot);

/* A read starts and ends. pool_pin() makes the slot the most recently used. */
void pool_pin(struct pool *p, uint32_t slot);
void pool_unpin(struct pool *p, uint32_t slot);

/* What last followed each prefix. */
struct successors {
	struct map next;	/* id -> id */
};
void successors_init(struct successors *s, size_t room);
void successors_free(struct successors *s);
void successors_learn(struct successors *s, const uint64_t *ids, uint32_t nr);
/* Follows the chain after id; returns how many ids it wrote, at most max. Stops
 * where it would come back to an id already written. */
uint32_t successors_follow(const struct successors *s, uint64_t id, uint64_t *out,
			   uint32_t max);

#endif /* TENT_PERF_REPLAY_POOL_H */
