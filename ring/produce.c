/* SPDX-License-Identifier: Apache-2.0 */
/*
 * produce.c - publishes batches. The hot path of a client: two lines dirtied for
 * each request, no system call, no lock (make cost counts it).
 */
#include "ring/client_ring.h"
#include "ring/entry.h"

uint32_t tent_ring_room(const struct tent_ring *ring)
{
	struct tent_ring *r = (struct tent_ring *)ring; /* what we know may be refreshed */

	ring_has_room(r, r->completion_count - r->owed);
	return ring_known_room(r);
}

struct tent_slot *tent_ring_slot(struct tent_ring *ring, uint32_t i)
{
	return ring_slot_at(ring, ring->tail + i);
}

char *tent_ring_cell(struct tent_ring *ring, uint32_t i)
{
	return ring_cell_at(ring, ring->tail + i);
}

/* The words between user_data and request: op 0, flags 0, cq_head 0, notify 0. */
static inline void clear_words(struct tent_slot *slot)
{
	memset((uint8_t *)slot + offsetof(struct tent_slot, op), 0,
	       offsetof(struct tent_slot, request) - offsetof(struct tent_slot, op));
}

/* A slot after the first: its seq only counts once the first one is published. */
static inline void head_follower(struct tent_slot *slot, uint32_t position)
{
	uint64_t word = (uint32_t)(position + 1);

	memcpy(slot, &word, sizeof(word));
	clear_words(slot);
}

/* R1, pairs with A1 in ring_host_peek(): every slot of the batch, cq_head (R4) and
 * the data the requests name are visible before {seq, nr}. */
static inline __attribute__((always_inline)) void
publish_first(struct tent_ring *r, uint32_t nr, uint8_t op, uint16_t flags, uint64_t notify)
{
	struct tent_slot *slot = ring_slot_at(r, r->tail);
	uint64_t word = (uint32_t)(r->tail + 1) | (uint64_t)nr << 32;
	uint64_t order = op | (uint64_t)flags << 16 | (uint64_t)r->cq_head << 32;

	clear_words(slot);
	memcpy(&slot->op, &order, sizeof(order));
	slot->notify = notify;
	store_release((uint64_t *)slot, word); /* R1 */
	r->tail += nr;
	r->owed += nr;
	ring_wake_engine(r);
}

uint32_t tent_ring_publish(struct tent_ring *ring, uint32_t nr, enum tent_slot_op op,
			   uint16_t flags)
{
	bool notifies = op == TENT_OP_NOTIFY || (flags & TENT_SLOT_F_NOTIFY);

	if (!nr || !ring_has_room(ring, nr))
		return ring->tail;
	for (uint32_t i = 1; i < nr; i++)
		head_follower(ring_slot_at(ring, ring->tail + i), ring->tail + i);
	publish_first(ring, nr, (uint8_t)op, flags,
		      notifies ? ring_slot_at(ring, ring->tail)->notify : 0);
	return ring->tail;
}

int client_check_entries(const void *entries, size_t count, size_t entry_stride)
{
	int64_t value = 0;
	uint32_t rule = entries_fault(entries, count, entry_stride, &value);

	if (rule == TENT_RULE_ARG_NULL)
		return client_fail_null("entries");
	return rule ? client_fail(rule, value) : 0;
}

static __attribute__((noinline)) int refuse_room(const struct tent_ring *r, size_t count)
{
	if (!r->client)
		return client_fail(TENT_RULE_ENGINE_STALE, 0);
	return client_fail_text(TENT_RULE_BATCH_FULL,
				"count is %zu; allowed: %u, the ring's room now", count,
				ring_known_room(r));
}

/* Where slots are; copied out of the ring, since every store to a slot would make
 * the compiler load these again. */
struct slot_view {
	uint8_t *slots, *cells;
	uint32_t mask, shift;
};

static inline __attribute__((always_inline)) struct tent_slot *
load_slot(const struct slot_view *v, uint32_t position, const uint8_t *entry, size_t stride,
	  uint64_t user_data)
{
	size_t i = position & v->mask;
	struct tent_slot *slot = (struct tent_slot *)(v->slots + (i << v->shift));

	slot->user_data = user_data;
	entry_load(slot, (char *)v->cells + i * TENT_CELL_SIZE, entry, stride);
	return slot;
}

int tent_ring_submit(struct tent_ring *ring, const void *entries, size_t count,
		     size_t entry_stride, uint64_t user_data, uint16_t flags)
{
	const struct slot_view v = { ring->slots, ring->cells, ring->slot_mask,
				     ring->slot_shift };
	const uint8_t *entry = entries, *end;
	uint32_t position = ring->tail;
	struct tent_slot *slot;
	int rc = client_check_entries(entries, count, entry_stride);

	if (rc || !count)
		return rc;
	if (!ring_has_room(ring, count))
		return refuse_room(ring, count);
	end = entry + count * entry_stride;
	load_slot(&v, position, entry, entry_stride, user_data);
	for (entry += entry_stride; entry < end; entry += entry_stride) {
		position++;
		slot = load_slot(&v, position, entry, entry_stride, ++user_data);
		head_follower(slot, position);
	}
	publish_first(ring, (uint32_t)count, TENT_OP_REQUEST, flags, 0);
	return 0;
}

int tent_ring_consumed(const struct tent_ring *ring, uint32_t position)
{
	/* A2, pairs with R2 in ring_host_consume(). */
	return ring->line &&
	       (int32_t)(load_acquire(&ring->line->consumed) - position) >= 0;
}
