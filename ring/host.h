/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the engine's end of a ring. One poller thread uses it at a time.
 *
 * Everything the engine needs is kept in this private struct; the header and the
 * engine line in shared memory are written and never read back.
 */
#ifndef TENT_RING_HOST_H
#define TENT_RING_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/ring.h>

#include "ring/clock.h"
#include "ring/copy_in.h"
#include "ring/mem.h"
#include "ring/order.h"

struct ring_geometry {
	uint32_t slot_count;		/* power of two, 1..TENT_SLOTS_MAX */
	uint32_t completion_count;	/* power of two, 1..TENT_SLOTS_MAX */
	uint32_t first_position;	/* 0; tests of the wrap start elsewhere */
	uint32_t features;		/* TENT_RING_F_* */
	uint64_t epoch;
	struct tick_clock clock;
};

struct ring_host {
	/* hot: read or written for every batch */
	const uint8_t *slots;		/* client memfd */
	uint8_t *completions;		/* engine memfd */
	struct tent_engine_line *line;	/* engine memfd */
	const struct tent_client_line *client_line;
	uint32_t slot_mask;
	uint32_t completion_mask;
	uint32_t consumed;		/* position of the next batch */
	uint32_t cq_tail;		/* position of the next completion */
	uint32_t cq_head;		/* last one the client told us */
	uint32_t pending;		/* completions that accepted work may still post */
	uint32_t line_flags;		/* private copy of line->flags */
	uint32_t wake_seq;		/* private copy of line->wake_seq */
	/* cold */
	const uint8_t *cells;
	uint32_t rejected;
	struct shared_mem client_mem, engine_mem;
	int event_fd;			/* the client writes it when NEED_WAKE is set;
					 * read it with wake_event_drain() only */
	int completion_fd;		/* the client's: readable after TENT_WAKE_EVENTFD */
	int completion_write_fd;	/* our end of it */
};

/* 0 or -errno; on failure nothing is left open. */
int ring_host_create(struct ring_host *h, const struct ring_geometry *g);
void ring_host_destroy(struct ring_host *h);

/* A published batch at the head? A1, pairs with R1 in publish_first(). Its nr
 * is the client's word and unchecked. */
static inline bool ring_host_peek(const struct ring_host *h, uint32_t *nr)
{
	const uint8_t *slot = h->slots +
		(size_t)(h->consumed & h->slot_mask) * sizeof(struct tent_slot);
	uint64_t word = load_acquire((const uint64_t *)slot);

	*nr = (uint32_t)(word >> 32);
	return (uint32_t)word == h->consumed + 1;
}

/* Copies the slot for a position, once. */
static inline __attribute__((always_inline)) void
ring_host_copy_slot(const struct ring_host *h, uint32_t position, struct tent_slot *to)
{
	tent_copy_in(to, h->slots + (size_t)(position & h->slot_mask) * sizeof(*to),
		     sizeof(*to));
}

static inline void ring_host_copy_cell(const struct ring_host *h, uint32_t position,
				       char to[TENT_CELL_SIZE])
{
	tent_copy_in(to, h->cells + (size_t)(position & h->slot_mask) * TENT_CELL_SIZE,
		     TENT_CELL_SIZE);
}

/* The client may reuse everything before position. R2, pairs with A2 in
 * ring_has_room() and tent_ring_consumed(). */
static inline void ring_host_consume(struct ring_host *h, uint32_t position)
{
	h->consumed = position;
	store_release(&h->line->consumed, position);
}

/* The completion for a position from cq_tail on. The room check at intake guarantees
 * that the client has reaped what lies there. */
static inline struct tent_completion *ring_host_at(const struct ring_host *h,
						   uint32_t position)
{
	return (struct tent_completion *)(h->completions +
		(size_t)(position & h->completion_mask) * sizeof(struct tent_completion));
}

/* The next completion, to be filled from byte 8 on. */
static inline struct tent_completion *ring_host_next(const struct ring_host *h)
{
	return ring_host_at(h, h->cq_tail);
}

/* Publishes a completion: seq is its position + 1; end: flags, status << 16 and
 * transport << 24, as they lie after its seq. R3, pairs with A3 in ring_has_completion(). */
static inline void ring_host_publish_at(struct tent_completion *c, uint32_t seq, uint32_t end)
{
	store_release((uint64_t *)c, seq | (uint64_t)end << 32);
}

/* Accounts for n that were published with ring_host_publish_at(). */
static inline void ring_host_published(struct ring_host *h, uint32_t n)
{
	h->cq_tail += n;
	h->pending -= n;
}

/* Publishes ring_host_next(). */
static inline void ring_host_publish_end(struct ring_host *h, struct tent_completion *c,
					 uint32_t end)
{
	ring_host_publish_at(c, h->cq_tail + 1, end);
	ring_host_published(h, 1);
}

static inline void ring_host_publish(struct ring_host *h, struct tent_completion *c,
				     uint16_t flags, uint8_t status, uint8_t transport)
{
	ring_host_publish_end(h, c, flags | (uint32_t)status << 16 |
				    (uint32_t)transport << 24);
}

/* After publishing: does the client sleep? F5, see order.h. */
static inline bool ring_host_client_waits(const struct ring_host *h)
{
	compiler_fence();
	return load_relaxed(&h->client_line->want_wake) != 0;
}

/* Wakes the client the way want_wake says. At most one syscall per way. */
void ring_host_wake_client(struct ring_host *h);

/* Sets and clears TENT_ENGINE_* in the engine line. */
void ring_host_set_flags(struct ring_host *h, uint32_t set, uint32_t clear);

/* Ends the ring with a rule: end_rule, ENDED, wakes the client. */
void ring_host_end(struct ring_host *h, uint32_t rule);

#endif /* TENT_RING_HOST_H */
