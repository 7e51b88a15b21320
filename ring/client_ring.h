/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_ring.h - the client's private end of a ring.
 *
 * It lies in pages of its own that a fork() wipes in the child: there it has no
 * room, no completions and no memory, so that every call on it does nothing or
 * fails with ENGINE_STALE. That costs the data path not one instruction.
 */
#ifndef TENT_RING_CLIENT_RING_H
#define TENT_RING_CLIENT_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/tentring.h>

#include "ring/client.h"
#include "ring/clock.h"
#include "ring/order.h"
#include "ring/wake.h"

#define RING_SPIN_NS 50000u
#define RING_SLICE_NS 100000000u

/* After publishing: does the engine sleep? */
enum ring_look {
	RING_LOOK_NEVER = 0,	/* BUSY: it never does */
	RING_LOOK = 1,		/* its membarrier makes our compiler fence enough */
	RING_LOOK_FENCE = 2	/* it cannot reach us: fence first */
};

struct tent_ring {
	/* producer */
	uint8_t *slots;		/* client memfd */
	uint8_t *cells;		/* client memfd */
	const struct tent_engine_line *line; /* engine memfd */
	uint32_t slot_mask;
	uint32_t slot_shift;	/* log2 of the stride */
	uint32_t slot_count;
	uint32_t completion_count;
	uint32_t tail;		/* position of the next batch */
	uint32_t consumed;	/* line->consumed when it was last needed */
	uint32_t owed;		/* published entries whose credit is not back */
	uint32_t look;		/* enum ring_look */
	int wake_fd;
	/* consumer */
	const uint8_t *completions; /* engine memfd */
	struct tent_client_line *client_line; /* client memfd */
	uint32_t completion_mask;
	uint32_t completion_shift;
	uint32_t cq_head;	/* position of the next completion */
	uint32_t cq_told;	/* client_line->cq_head */
	uint32_t want_wake;	/* client_line->want_wake */
	int completion_fd;
	/* waiting */
	uint64_t spin_ns;	/* before the first sleep */
	uint64_t slice_ns;	/* of one sleep; then: does the engine live? */
	/* cold */
	struct tent_client *client; /* NULL in a forked child */
	struct ring_record *record;
	struct tick_clock clock;
	struct tent_ring_header header; /* the copy that was checked */
};

/* Judges a copy of a foreign header against the sizes that the engine named in its
 * reply and the epoch of its hello. NULL, or the name of the first bad field. */
const char *ring_header_check(const struct tent_ring_header *h, uint64_t client_size,
			      uint64_t engine_size, uint64_t epoch);

static inline struct tent_slot *ring_slot_at(const struct tent_ring *r, uint32_t position)
{
	return (struct tent_slot *)(r->slots +
		((size_t)(position & r->slot_mask) << r->slot_shift));
}

static inline char *ring_cell_at(const struct tent_ring *r, uint32_t position)
{
	return (char *)r->cells + (size_t)(position & r->slot_mask) * TENT_CELL_SIZE;
}

static inline const struct tent_completion *
ring_completion_at(const struct tent_ring *r, uint32_t position)
{
	return (const struct tent_completion *)(r->completions +
		((size_t)(position & r->completion_mask) << r->completion_shift));
}

/* A3, pairs with R3 in ring_host_publish_at(). */
static inline bool ring_has_completion(const struct tent_ring *r)
{
	uint64_t word = load_acquire((const uint64_t *)ring_completion_at(r, r->cq_head));

	return (uint32_t)word == r->cq_head + 1;
}

/* Entries that may be published, going by what we know without looking. An engine
 * that says nonsense gives no room. */
static inline uint32_t ring_known_room(const struct tent_ring *r)
{
	uint32_t credits = r->completion_count - r->owed;
	uint32_t waiting = r->tail - r->consumed;
	uint32_t slots = waiting <= r->slot_count ? r->slot_count - waiting : 0;

	return credits < slots ? credits : slots;
}

/* Is there room for nr? The engine's line is touched only when what we know is not
 * enough. A2, pairs with R2 in ring_host_consume(). */
static inline bool ring_has_room(struct tent_ring *r, size_t nr)
{
	if (nr <= ring_known_room(r))
		return true;
	if (nr > r->completion_count - r->owed)
		return false;
	r->consumed = load_acquire(&r->line->consumed);
	return nr <= ring_known_room(r);
}

/* F6, pairs with the engine's NEED_WAKE, membarrier and second look. */
static inline void ring_wake_engine(const struct tent_ring *r)
{
	if (r->look == RING_LOOK_NEVER)
		return;
	if (r->look == RING_LOOK_FENCE)
		full_fence();
	else
		compiler_fence();
	if (load_relaxed(&r->line->flags) & TENT_ENGINE_NEED_WAKE)
		wake_event_signal(r->wake_fd);
}

/* cq_head first: an engine that looks late wakes only for what is unreaped. */
static inline void ring_want_wake(struct tent_ring *r, uint32_t set, uint32_t clear)
{
	r->cq_told = r->cq_head;
	store_relaxed(&r->client_line->cq_head, r->cq_head);
	r->want_wake = (r->want_wake & ~clear) | set;
	store_relaxed(&r->client_line->want_wake, r->want_wake);
}

#endif /* TENT_RING_CLIENT_RING_H */
