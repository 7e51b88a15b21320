/* SPDX-License-Identifier: Apache-2.0 */
/* ring_state.c - makes and frees what a poller keeps for a ring: chores of its client. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/notice.h"
#include "engine/ring_state.h"
#include "engine/stats.h"

/* Records are touched here, so that no request meets a page fault. The first ones lie
 * on top of the stack: a ring that never has many in flight uses few lines. */
static int make_records(struct ring_state *r)
{
	r->records = pages_alloc((size_t)r->nr_records * sizeof(struct transfer), &r->pages);
	if (!r->records)
		return -ENOMEM;
	r->free = malloc(r->nr_records * sizeof(struct transfer *));
	if (!r->free)
		return -ENOMEM;
	for (uint32_t i = r->nr_records; i-- > 0; ) {
		r->records[i].ring = r;
		ring_release(r, &r->records[i]);
	}
	return 0;
}

/* A batch has at least one request, so there are never more batches than records. */
static int make_batches(struct ring_state *r)
{
	r->batches = calloc(r->nr_records, sizeof(*r->batches));
	if (!r->batches)
		return -ENOMEM;
	for (uint32_t i = r->nr_records; i-- > 0; ) {
		r->batches[i].next = r->free_batches;
		r->free_batches = &r->batches[i];
	}
	return 0;
}

/* Most rings never touch it. */
static int make_notices(struct ring_state *r)
{
	void *memory = mmap(NULL, NOTICES_PER_RING * sizeof(*r->notices), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	r->notices = memory;
	return 0;
}

int ring_state_create(struct ring_state **out, const struct ring_geometry *g,
		      struct client_space *space)
{
	struct ring_state *r = aligned_alloc(64, (sizeof(*r) + 63) & ~(size_t)63);
	int rc;

	if (!r)
		return -ENOMEM;
	*r = (struct ring_state){ .space = space, .nr_records = g->completion_count };
	rc = ring_host_create(&r->host, g);
	if (rc < 0) {
		free(r);
		return rc;
	}
	rc = make_records(r);
	if (rc == 0)
		rc = make_batches(r);
	if (rc == 0)
		rc = make_notices(r);
	if (rc < 0) {
		ring_state_destroy(r);
		return rc;
	}
	*out = r;
	return 0;
}

void ring_state_destroy(struct ring_state *r)
{
	if (!r)
		return;
	if (r->indirect.transfers)
		munmap(r->indirect.transfers, r->indirect.mapped);
	if (r->records)
		pages_free(r->records, &r->pages);
	if (r->notices)
		munmap(r->notices, NOTICES_PER_RING * sizeof(*r->notices));
	free(r->batches);
	free(r->free);
	ring_host_destroy(&r->host);
	free(r);
}

struct ring_host *ring_state_host(struct ring_state *r)
{
	return &r->host;
}

void ring_stats_read(const struct ring_state *r, struct poller_stats *out)
{
	stats_copy(out, &r->stats);
	out->rings = 1;
	out->in_flight = load_relaxed(&r->in_flight);
}
