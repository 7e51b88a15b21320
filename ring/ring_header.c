/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_header.c - judges the header of a ring that another process made. What passes
 * can be used without any further check: every entry and line lies inside its memfd.
 */
#include <stdbool.h>

#include "ring/client_ring.h"

#define FEATURES_KNOWN (TENT_RING_F_ADAPTIVE | TENT_RING_F_CLIENT_FENCE)

struct area {
	uint64_t offset, size;
};

static bool is_stride(uint32_t n, uint32_t minimum)
{
	return n && !(n & (n - 1)) && n >= minimum && n <= TENT_REQUEST_MAX_STRIDE;
}

/* Aligned, and inside size bytes. */
static bool fits(struct area a, uint64_t align, uint64_t size)
{
	uint64_t end;

	return !(a.offset & (align - 1)) &&
	       !__builtin_add_overflow(a.offset, a.size, &end) && end <= size;
}

/* Both fit, so the sums cannot wrap. */
static bool apart(struct area a, struct area b)
{
	return a.offset + a.size <= b.offset || b.offset + b.size <= a.offset;
}

static const char *check_identity(const struct tent_ring_header *h, uint64_t epoch)
{
	if (h->magic != TENT_RING_MAGIC)
		return "magic";
	if (h->abi_major != TENT_RING_ABI_MAJOR)
		return "abi_major";
	if (h->features & ~FEATURES_KNOWN)
		return "features";
	if (h->header_size < sizeof(*h))
		return "header_size";
	if (h->epoch != epoch)
		return "epoch";
	if (!h->tick_mult)
		return "tick_mult";
	if (h->page_kind > TENT_PAGE_HUGE)
		return "page_kind";
	return h->page_reason < 0 ? "page_reason" : NULL;
}

static const char *check_shape(const struct tent_ring_header *h)
{
	if (!is_ring_size(h->slot_count))
		return "slot_count";
	if (!is_stride(h->slot_stride, sizeof(struct tent_slot)))
		return "slot_stride";
	if (!is_ring_size(h->completion_count))
		return "completion_count";
	if (!is_stride(h->completion_stride, sizeof(struct tent_completion)))
		return "completion_stride";
	return NULL;
}

static const char *check_client_areas(const struct tent_ring_header *h, uint64_t size)
{
	struct area slots = { h->slots_offset, (uint64_t)h->slot_count * h->slot_stride };
	struct area cells = { h->cells_offset, (uint64_t)h->slot_count * TENT_CELL_SIZE };
	struct area line = { h->client_line_offset, sizeof(struct tent_client_line) };

	if (h->client_size != size)
		return "client_size";
	if (!fits(slots, 128, size))
		return "slots_offset";
	if (!fits(cells, 64, size) || !apart(cells, slots))
		return "cells_offset";
	if (!fits(line, 128, size) || !apart(line, slots) || !apart(line, cells))
		return "client_line_offset";
	return NULL;
}

static const char *check_engine_areas(const struct tent_ring_header *h, uint64_t size)
{
	struct area header = { 0, h->header_size };
	struct area line = { h->engine_line_offset, sizeof(struct tent_engine_line) };
	struct area completions = {
		h->completions_offset, (uint64_t)h->completion_count * h->completion_stride,
	};

	if (h->engine_size != size)
		return "engine_size";
	if (!fits(header, 1, size))
		return "header_size";
	if (!fits(line, 128, size) || !apart(line, header))
		return "engine_line_offset";
	if (!fits(completions, 64, size) || !apart(completions, header) ||
	    !apart(completions, line))
		return "completions_offset";
	return NULL;
}

const char *ring_header_check(const struct tent_ring_header *h, uint64_t client_size,
			      uint64_t engine_size, uint64_t epoch)
{
	const char *bad = check_identity(h, epoch);

	if (!bad)
		bad = check_shape(h);
	if (!bad)
		bad = check_client_areas(h, client_size);
	if (!bad)
		bad = check_engine_areas(h, engine_size);
	return bad;
}
