/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - makes the two memfds of a ring, and the engine's rare words to a client.
 * Everything a poller does for every batch is inline in host.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ring/host.h"
#include "ring/wake.h"

#define OWN_LINES 128u	/* what one writer writes shares no 128 bytes with others */

static uint64_t align_up(uint64_t offset)
{
	return (offset + OWN_LINES - 1) & ~(uint64_t)(OWN_LINES - 1);
}

/* Where everything lies; sizes are what is used, the memfds are whole pages. */
static void lay_out(struct tent_ring_header *d, const struct ring_geometry *g)
{
	*d = (struct tent_ring_header){
		.magic = TENT_RING_MAGIC,
		.abi_major = TENT_RING_ABI_MAJOR,
		.abi_minor = TENT_RING_ABI_MINOR,
		.features = g->features,
		.header_size = sizeof(*d),
		.first_position = g->first_position,
		.slot_count = g->slot_count,
		.slot_stride = sizeof(struct tent_slot),
		.completion_count = g->completion_count,
		.completion_stride = sizeof(struct tent_completion),
		.epoch = g->epoch,
		.tick_origin = g->clock.tick_origin,
		.ns_origin = g->clock.ns_origin,
		.tick_mult = g->clock.tick_mult,
	};
	d->cells_offset = align_up((uint64_t)g->slot_count * sizeof(struct tent_slot));
	d->client_line_offset = align_up(d->cells_offset +
					 (uint64_t)g->slot_count * TENT_CELL_SIZE);
	d->client_size = d->client_line_offset + sizeof(struct tent_client_line);
	d->engine_line_offset = align_up(sizeof(*d));
	d->completions_offset = align_up(d->engine_line_offset +
					 sizeof(struct tent_engine_line));
	d->engine_size = d->completions_offset +
		(uint64_t)g->completion_count * sizeof(struct tent_completion);
}

/*
 * Gives every entry the seq it would have had one lap ago. Zeroed memory does not
 * do near the wrap: position 2^32 - 1 is published with seq 0.
 */
static void age_entries(uint8_t *entries, size_t stride, uint32_t count, uint32_t first)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t position = first + i;
		uint32_t old_seq = position + 1 - count;

		memcpy(entries + (size_t)(position & (count - 1)) * stride, &old_seq,
		       sizeof(old_seq));
	}
}

/*
 * A socket that the client uses like an eventfd. An eventfd itself would not do: all its
 * holders share one O_NONBLOCK flag, so a client could make our write block. Nor would a
 * pipe: who moves bytes out of one into a socket that is full, or into a page that never
 * arrives, holds the lock that a write waits for, whatever its flags. The client's end
 * can send nothing: what nobody receives, descriptors too, would lie here.
 */
static int open_completion_socket(struct ring_host *h)
{
	int fds[2], size = WAKE_SOCKET_BYTES;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	h->completion_write_fd = fds[0];
	h->completion_fd = fds[1];
	/* The default works too. */
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return shutdown(fds[0], SHUT_RD) < 0 ? -errno : 0;
}

static int open_events(struct ring_host *h)
{
	h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->event_fd < 0)
		return -errno;
	return open_completion_socket(h);
}

/* A ring is small and its pages are wanted before the first request, not in it. */
static int prefault(const struct shared_mem *m)
{
	if (madvise(m->addr, m->size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
		return 0;
	return -errno;
}

static int create_memory(struct ring_host *h, const struct tent_ring_header *d)
{
	int rc = shared_mem_create(&h->client_mem, "tent-ring-client",
				   (size_t)d->client_size, false);

	if (rc == 0)
		rc = shared_mem_create(&h->engine_mem, "tent-ring-engine",
				       (size_t)d->engine_size, true);
	if (rc == 0)
		rc = prefault(&h->client_mem);
	if (rc == 0)
		rc = prefault(&h->engine_mem);
	return rc;
}

/* Writes the header, once: later only private copies of it are read. */
static void settle(struct ring_host *h, struct tent_ring_header *d)
{
	uint8_t *client = h->client_mem.addr, *engine = h->engine_mem.addr;

	d->client_size = h->client_mem.size;
	d->engine_size = h->engine_mem.size;
	d->page_kind = h->client_mem.page_kind;
	d->page_reason = h->client_mem.page_reason;
	memcpy(engine, d, sizeof(*d));
	h->slots = client + d->slots_offset;
	h->cells = client + d->cells_offset;
	h->client_line = (const void *)(client + d->client_line_offset);
	h->line = (void *)(engine + d->engine_line_offset);
	h->completions = engine + d->completions_offset;
	h->line->consumed = d->first_position;
	if (d->first_position) {
		age_entries(client + d->slots_offset, d->slot_stride, d->slot_count,
			    d->first_position);
		age_entries(h->completions, d->completion_stride, d->completion_count,
			    d->first_position);
	}
}

int ring_host_create(struct ring_host *h, const struct ring_geometry *g)
{
	struct tent_ring_header d;
	int rc;

	*h = (struct ring_host){
		.slot_mask = g->slot_count - 1,
		.completion_mask = g->completion_count - 1,
		.consumed = g->first_position,
		.cq_tail = g->first_position,
		.cq_head = g->first_position,
		.client_mem.fd = -1, .engine_mem.fd = -1,
		.event_fd = -1, .completion_fd = -1, .completion_write_fd = -1,
	};
	if (!is_ring_size(g->slot_count) || !is_ring_size(g->completion_count))
		return -EINVAL;
	lay_out(&d, g);
	wake_barrier_register(); /* F5: without it clients sleep in short slices */
	rc = create_memory(h, &d);
	if (rc == 0)
		rc = open_events(h);
	if (rc < 0) {
		ring_host_destroy(h);
		return rc;
	}
	settle(h, &d);
	return 0;
}

void ring_host_destroy(struct ring_host *h)
{
	shared_mem_destroy(&h->client_mem);
	shared_mem_destroy(&h->engine_mem);
	fd_close(&h->event_fd);
	fd_close(&h->completion_fd);
	fd_close(&h->completion_write_fd);
}

static void wake_futex(struct ring_host *h)
{
	store_release(&h->line->wake_seq, ++h->wake_seq); /* R13 */
	wake_futex_wake(&h->line->wake_seq);
}

void ring_host_wake_client(struct ring_host *h)
{
	uint32_t want = load_relaxed(&h->client_line->want_wake);

	if (want & TENT_WAKE_FUTEX)
		wake_futex(h);
	if (want & TENT_WAKE_EVENTFD)
		wake_socket_signal(h->completion_write_fd);
}

void ring_host_set_flags(struct ring_host *h, uint32_t set, uint32_t clear)
{
	h->line_flags = (h->line_flags & ~clear) | set;
	store_release(&h->line->flags, h->line_flags); /* R13, pairs with A13 in engine_flags() */
}

/* Wakes without asking want_wake: nothing comes after this, so nothing may be missed. */
void ring_host_end(struct ring_host *h, uint32_t rule)
{
	store_relaxed(&h->line->end_rule, rule);
	ring_host_set_flags(h, TENT_ENGINE_ENDED, 0);
	wake_futex(h);
	wake_socket_signal(h->completion_write_fd);
}
