/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the server's view of the store's pool, and its prefetch predictor. */
#include <stdio.h>
#include <stdlib.h>

#include "perf/replay/pool.h"

static void unlink_slot(struct pool *p, uint32_t i)
{
	struct pool_slot *s = &p->slots[i];

	*(s->older == POOL_NONE ? &p->oldest : &p->slots[s->older].newer) = s->newer;
	*(s->newer == POOL_NONE ? &p->newest : &p->slots[s->newer].older) = s->older;
}

static void append_newest(struct pool *p, uint32_t i)
{
	struct pool_slot *s = &p->slots[i];

	s->older = p->newest;
	s->newer = POOL_NONE;
	*(p->newest == POOL_NONE ? &p->oldest : &p->slots[p->newest].newer) = i;
	p->newest = i;
}

static void prepend_oldest(struct pool *p, uint32_t i)
{
	struct pool_slot *s = &p->slots[i];

	s->newer = p->oldest;
	s->older = POOL_NONE;
	*(p->oldest == POOL_NONE ? &p->newest : &p->slots[p->oldest].older) = i;
	p->oldest = i;
}

void pool_init(struct pool *p, uint32_t nr_slots)
{
	*p = (struct pool) { .nr_slots = nr_slots, .oldest = POOL_NONE, .newest = POOL_NONE };
	p->slots = calloc(nr_slots, sizeof(*p->slots));
	if (!p->slots) {
		fprintf(stderr, "out of memory for %u pool slots\n", nr_slots);
		exit(1);
	}
	map_init(&p->where, nr_slots);
	for (uint32_t i = 0; i < nr_slots; i++)
		append_newest(p, i);
}

void pool_free(struct pool *p)
{
	free(p->slots);
	map_free(&p->where);
}

uint32_t pool_find(const struct pool *p, uint64_t id)
{
	const uint64_t *slot = map_get(&p->where, id);

	if (!slot || p->slots[*slot].state == POOL_FREE || p->slots[*slot].id != id)
		return POOL_NONE;
	return (uint32_t)*slot;
}

uint32_t pool_claim(struct pool *p, uint64_t id)
{
	uint32_t i = p->oldest;
	struct pool_slot *s;

	while (i != POOL_NONE && p->slots[i].pins)
		i = p->slots[i].newer;
	if (i == POOL_NONE)
		return POOL_NONE;
	s = &p->slots[i];
	p->evictions += s->state == POOL_STORED;
	s->id = id;
	s->state = POOL_WRITING;
	s->prefetched = false;
	map_put(&p->where, id, i);
	pool_pin(p, i);
	return i;
}

void pool_stored(struct pool *p, uint32_t slot)
{
	p->slots[slot].state = POOL_STORED;
	pool_unpin(p, slot);
}

void pool_abandon(struct pool *p, uint32_t slot)
{
	p->slots[slot].state = POOL_FREE;
	pool_unpin(p, slot);
	unlink_slot(p, slot);
	prepend_oldest(p, slot);
}

void pool_pin(struct pool *p, uint32_t slot)
{
	p->slots[slot].pins++;
	unlink_slot(p, slot);
	append_newest(p, slot);
}

void pool_unpin(struct pool *p, uint32_t slot)
{
	p->slots[slot].pins--;
}

void successors_init(struct successors *s, size_t room)
{
	map_init(&s->next, room);
}

void successors_free(struct successors *s)
{
	map_free(&s->next);
}

void successors_learn(struct successors *s, const uint64_t *ids, uint32_t nr)
{
	for (uint32_t i = 1; i < nr; i++)
		map_put(&s->next, ids[i - 1], ids[i]);
}

static bool contains(const uint64_t *ids, uint32_t nr, uint64_t id)
{
	while (nr > 0)
		if (ids[--nr] == id)
			return true;
	return false;
}

uint32_t successors_follow(const struct successors *s, uint64_t id, uint64_t *out,
			   uint32_t max)
{
	const uint64_t *next = map_get(&s->next, id);
	uint32_t nr = 0;

	while (next && nr < max && !contains(out, nr, *next)) {
		out[nr++] = *next;
		next = map_get(&s->next, *next);
	}
	return nr;
}
