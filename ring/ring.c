/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - opens a ring: asks for it, maps it, checks it, and closes it again. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/client_ring.h"

enum ring_fd { FD_CLIENT, FD_ENGINE, FD_WAKE, FD_COMPLETION, FD_COUNT };

/* Pages of its own, wiped by a fork (see client_ring.h). */
static struct tent_ring *ring_alloc(void)
{
	void *p = mmap(NULL, sizeof(struct tent_ring), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, sizeof(struct tent_ring), MADV_WIPEONFORK);
	return p;
}

static void ring_free(struct tent_ring *r)
{
	if (r)
		munmap(r, sizeof(*r));
}

static struct ring_record *record_alloc(void)
{
	struct ring_record *record = calloc(1, sizeof(*record));

	if (!record)
		return NULL;
	record->client_mem.fd = record->engine_mem.fd = -1;
	record->wake_fd = record->completion_fd = -1;
	record->ring = ring_alloc();
	if (!record->ring) {
		free(record);
		return NULL;
	}
	return record;
}

void ring_record_release(struct ring_record *record)
{
	shared_mem_destroy(&record->client_mem);
	shared_mem_destroy(&record->engine_mem);
	fd_close(&record->wake_fd);
	fd_close(&record->completion_fd);
	ring_free(record->ring);
	free(record);
}

/* Maps one of the two memfds. The mapping is all we need: the fd goes, and the pages
 * come now instead of in the first lap. */
static int map_one(struct shared_mem *m, int *fd, uint64_t size, bool writable, int seals)
{
	int rc;

	if (size > SIZE_MAX)
		return client_fail(TENT_RULE_RING_SIZE, (int64_t)size);
	rc = shared_mem_map(m, *fd, (size_t)size, writable, seals);
	if (rc < 0)
		return client_fail_system("the engine's ring memory was refused", rc);
	m->fd = -1;
	fd_close(fd);
	madvise(m->addr, m->size, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	return 0;
}

static int take_fds(struct ring_record *record, struct ctl_message *m)
{
	const struct tent_ctl_ring_open_reply *r = (const void *)m->bytes;
	int rc;

	record->id = r->ring_id;
	rc = map_one(&record->client_mem, &m->fds[FD_CLIENT], r->client_size, true, SEALS_SIZE);
	if (rc == 0)
		rc = map_one(&record->engine_mem, &m->fds[FD_ENGINE], r->engine_size, false,
			     SEALS_SIZE | F_SEAL_FUTURE_WRITE);
	if (rc)
		return rc;
	record->wake_fd = m->fds[FD_WAKE];
	record->completion_fd = m->fds[FD_COMPLETION];
	m->fds[FD_WAKE] = m->fds[FD_COMPLETION] = -1;
	return 0;
}

static uint32_t log2_of(uint32_t power)
{
	return (uint32_t)__builtin_ctz(power);
}

static uint32_t look_of(const struct tent_client *c, uint32_t features)
{
	if (!(features & TENT_RING_F_ADAPTIVE))
		return RING_LOOK_NEVER;
	if (features & TENT_RING_F_CLIENT_FENCE || !c->barrier)
		return RING_LOOK_FENCE;
	return RING_LOOK;
}

static void set_up_producer(struct tent_ring *r, uint8_t *client, const uint8_t *engine)
{
	const struct tent_ring_header *h = &r->header;

	r->slots = client + h->slots_offset;
	r->cells = client + h->cells_offset;
	r->line = (const void *)(engine + h->engine_line_offset);
	r->slot_mask = h->slot_count - 1;
	r->slot_shift = log2_of(h->slot_stride);
	r->slot_count = h->slot_count;
	r->completion_count = h->completion_count;
	r->tail = r->consumed = h->first_position;
	r->look = look_of(r->client, h->features);
	r->wake_fd = r->record->wake_fd;
}

static void set_up_consumer(struct tent_ring *r, uint8_t *client, const uint8_t *engine)
{
	const struct tent_ring_header *h = &r->header;

	r->completions = engine + h->completions_offset;
	r->client_line = (void *)(client + h->client_line_offset);
	r->completion_mask = h->completion_count - 1;
	r->completion_shift = log2_of(h->completion_stride);
	r->cq_head = r->cq_told = h->first_position;
	r->completion_fd = r->record->completion_fd;
	r->spin_ns = RING_SPIN_NS;
	r->slice_ns = RING_SLICE_NS;
	r->clock = (struct tick_clock){ h->tick_origin, h->ns_origin, h->tick_mult };
}

/* Copies the header once; from here on only the checked copy is read. */
static int set_up(struct ring_record *record, struct tent_client *c,
		  const struct tent_ctl_ring_open_reply *reply)
{
	struct tent_ring *r = record->ring;
	const char *bad;

	if (record->engine_mem.size < sizeof(r->header))
		return client_fail(TENT_RULE_RING_SIZE, (int64_t)record->engine_mem.size);
	memcpy(&r->header, record->engine_mem.addr, sizeof(r->header));
	bad = ring_header_check(&r->header, reply->client_size, reply->engine_size, c->epoch);
	if (bad)
		return client_fail_text(TENT_RULE_CTL_MESSAGE,
					"the ring header's %s is wrong; "
					"allowed: what this client's ring.h says", bad);
	r->client = c;
	r->record = record;
	set_up_producer(r, record->client_mem.addr, record->engine_mem.addr);
	set_up_consumer(r, record->client_mem.addr, record->engine_mem.addr);
	return 0;
}

static void record_link(struct tent_client *c, struct ring_record *record)
{
	pthread_mutex_lock(&c->lock);
	record->next = c->rings;
	c->rings = record;
	pthread_mutex_unlock(&c->lock);
}

static void record_unlink(struct tent_client *c, struct ring_record *record)
{
	pthread_mutex_lock(&c->lock);
	for (struct ring_record **p = &c->rings; *p; p = &(*p)->next) {
		if (*p == record) {
			*p = record->next;
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
}

/* The engine has made the ring: either we take it whole or it is closed again. */
static int take_ring(struct tent_client *c, struct ring_record *record, struct ctl_message *m)
{
	int rc = take_fds(record, m), close_rc;

	if (rc == 0)
		rc = set_up(record, c, (const void *)m->bytes);
	ctl_close_fds(m);
	if (rc == 0)
		return 0;
	close_rc = client_call_id(c, TENT_CTL_RING_CLOSE, record->id);
	return close_rc ? close_rc : rc;
}

int tent_ring_open(struct tent_client *client, uint32_t slot_count,
		   uint32_t completion_count, struct tent_ring **ring)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_ring_open *q = (void *)m.bytes;
	struct ring_record *record;
	int rc;

	if (!ring)
		return client_fail_null("ring");
	record = record_alloc();
	if (!record)
		return client_fail_system("memory of a ring", -ENOMEM);
	q->slot_count = slot_count;
	q->completion_count = completion_count;
	rc = client_call(client, &m, TENT_CTL_RING_OPEN, sizeof(*q),
			 sizeof(struct tent_ctl_ring_open_reply), FD_COUNT);
	if (rc == 0)
		rc = take_ring(client, record, &m);
	if (rc) {
		ring_record_release(record);
		return rc;
	}
	record_link(client, record);
	*ring = record->ring;
	return 0;
}

/* A child only has the wiped page; the rest is closed with its client. When the
 * engine is gone there is nobody left to touch what is unmapped here. */
void tent_ring_close(struct tent_ring *ring)
{
	struct tent_client *c = ring ? ring->client : NULL;
	struct ring_record *record;

	if (!c) {
		ring_free(ring);
		return;
	}
	record = ring->record;
	client_call_id(c, TENT_CTL_RING_CLOSE, record->id);
	record_unlink(c, record);
	ring_record_release(record);
}

const struct tent_ring_header *tent_ring_header(const struct tent_ring *ring)
{
	return &ring->header;
}
