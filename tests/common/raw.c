/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c - see raw.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ring/order.h"
#include "tests/common/raw.h"

static char last_refusal[sizeof(((struct tent_ctl_status *)0)->message)];

void raw_need(bool good, const char *what, const char *file, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: not so: %s (%m; tentd's last refusal: \"%s\")\n", file, line,
		what, last_refusal);
	_exit(1);
}

int raw_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	strncpy(a.sun_path, path, sizeof(a.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

int raw_call(struct raw *r, struct ctl_message *m, uint16_t type, uint32_t size)
{
	const struct tent_ctl_plain_reply *reply = (const void *)m->bytes;

	m->head.size = size;
	m->head.type = type;
	m->head.cookie++;
	if (ctl_send(r->sock, m, 0) || ctl_recv(r->sock, m, 0))
		return TENT_ERR_ENGINE_LOST;
	need(m->head.type == (type | TENT_CTL_REPLY));
	need(m->head.size >= sizeof(*reply));
	r->status = reply->status;
	if (r->status.error)
		memcpy(last_refusal, r->status.message, sizeof(last_refusal));
	return r->status.error;
}

int raw_hello(struct raw *r, const char *name, uint32_t features)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_hello *h = (void *)m.bytes;

	h->abi_major = TENT_RING_ABI_MAJOR;
	h->features = features;
	snprintf(h->name, sizeof(h->name), "%s", name ? name : "");
	return raw_call(r, &m, TENT_CTL_HELLO, sizeof(*h));
}

void raw_attach(struct raw *r, const char *path, const char *name)
{
	r->sock = raw_socket(path);
	need(r->sock >= 0);
	need(raw_hello(r, name, 0) == 0);
}

int raw_alloc(struct raw *r, uint64_t length, struct raw_memory *mem)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_alloc *a = (void *)m.bytes;
	const struct tent_ctl_mem_alloc_reply *reply = (const void *)m.bytes;
	int rc;

	a->length = length;
	rc = raw_call(r, &m, TENT_CTL_MEM_ALLOC, sizeof(*a));
	if (rc)
		return rc;
	*mem = (struct raw_memory){ .fd = m.fds[0], .length = reply->length,
				    .id = reply->buffer_id, .page_kind = reply->page_kind };
	return 0;
}

int raw_register(struct raw *r, enum tent_mem_kind kind, const void *base, uint64_t length,
		 uint64_t buffer_id, int fd, uint64_t offset, int permission)
{
	struct ctl_message m = { .nr_fds = fd >= 0 };
	struct tent_ctl_mem_register *g = (void *)m.bytes;
	int rc;

	m.fds[0] = fd;
	g->base = (uintptr_t)base;
	g->length = length;
	g->buffer_id = buffer_id;
	g->offset = offset;
	g->kind = kind;
	g->permission = permission;
	rc = raw_call(r, &m, TENT_CTL_MEM_REGISTER, sizeof(*g));
	ctl_close_fds(&m); /* a reply with descriptors would be news */
	return rc;
}

void raw_buffer(struct raw *r, uint64_t length, struct raw_memory *m)
{
	need(raw_alloc(r, length, m) == 0);
	m->addr = mmap(NULL, m->length, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	need(m->addr != MAP_FAILED);
	need(raw_register(r, TENT_MEM_BUFFER, m->addr, m->length, m->id, -1, 0,
			  TENT_PERM_GLOBAL_READ_WRITE) == 0);
}

int raw_unregister(struct raw *r, const void *base, uint64_t length)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_unregister *u = (void *)m.bytes;

	u->base = (uintptr_t)base;
	u->length = length;
	return raw_call(r, &m, TENT_CTL_MEM_UNREGISTER, sizeof(*u));
}

int raw_open_segment(struct raw *r, const char *name, uint64_t *id)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_segment_open *o = (void *)m.bytes;
	int rc;

	snprintf(o->name, sizeof(o->name), "%s", name);
	rc = raw_call(r, &m, TENT_CTL_SEGMENT_OPEN, sizeof(*o));
	*id = ((const struct tent_ctl_segment_open_reply *)m.bytes)->segment_id;
	return rc;
}

/* ---- ring ---------------------------------------------------------------- */

static void ring_map(struct raw_ring *ring, uint64_t client_size, uint64_t engine_size)
{
	ring->client = mmap(NULL, client_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring->client_fd, 0);
	ring->engine = mmap(NULL, engine_size, PROT_READ, MAP_SHARED, ring->engine_fd, 0);
	need(ring->client != MAP_FAILED && ring->engine != MAP_FAILED);
	memcpy(&ring->h, ring->engine, sizeof(ring->h));
	ring->engine_line = (void *)(ring->engine + ring->h.engine_line_offset);
	ring->client_line = (void *)(ring->client + ring->h.client_line_offset);
	ring->position = ring->cq_head = ring->h.first_position;
}

int raw_ring_open(struct raw *r, uint32_t slots, struct raw_ring *ring)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_ring_open *o = (void *)m.bytes;
	const struct tent_ctl_ring_open_reply *reply = (const void *)m.bytes;
	int rc;

	o->slot_count = slots;
	rc = raw_call(r, &m, TENT_CTL_RING_OPEN, sizeof(*o));
	if (rc)
		return rc;
	need(m.nr_fds == 4);
	*ring = (struct raw_ring){ .client_fd = m.fds[0], .engine_fd = m.fds[1],
				   .wake_fd = m.fds[2], .done_fd = m.fds[3],
				   .id = reply->ring_id };
	ring_map(ring, reply->client_size, reply->engine_size);
	return 0;
}

void raw_ring_forget(struct raw_ring *ring)
{
	munmap(ring->client, ring->h.client_size);
	munmap(ring->engine, ring->h.engine_size);
	close(ring->client_fd);
	close(ring->engine_fd);
	close(ring->wake_fd);
	close(ring->done_fd);
}

static struct tent_slot *slot_at(struct raw_ring *ring, uint32_t i)
{
	uint32_t at = (ring->position + i) & (ring->h.slot_count - 1);

	return (struct tent_slot *)(ring->client + ring->h.slots_offset) + at;
}

/* All but {seq, nr}, which tells tentd that the rest is there. */
struct tent_slot *raw_slot(struct raw_ring *ring, uint32_t i)
{
	struct tent_slot *s = slot_at(ring, i);

	memset((uint8_t *)s + 8, 0, sizeof(*s) - 8);
	return s;
}

struct tent_slot *raw_request(struct raw_ring *ring, uint32_t i, int opcode,
			      const void *source, uint64_t segment, uint64_t target,
			      uint64_t length)
{
	struct tent_slot *s = raw_slot(ring, i);

	s->user_data = ring->position + i;
	s->cq_head = i ? 0 : ring->cq_head;
	s->request = (struct tent_request_v1){
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = 1,
		.opcode = opcode, .source = (void *)(uintptr_t)source,
		.target_id = segment, .target_offset = target, .length = length,
	};
	s->entry_stride = TENT_REQUEST_V1_SIZE;
	return s;
}

void raw_seq(struct raw_ring *ring, uint32_t i, uint32_t seq, uint32_t nr)
{
	/* R1, pairs with A1 in ring_host_peek(). */
	store_release((uint64_t *)slot_at(ring, i), (uint64_t)nr << 32 | seq);
}

/* A sleeping engine is woken always: an attacker need not be polite about it. */
void raw_publish(struct raw_ring *ring, uint32_t nr)
{
	uint64_t one = 1;

	for (uint32_t i = nr; i-- > 0;)
		raw_seq(ring, i, ring->position + i + 1, i ? 0 : nr);
	ring->position += nr;
	full_fence();
	if (load_relaxed(&ring->engine_line->flags) & TENT_ENGINE_NEED_WAKE)
		need(write(ring->wake_fd, &one, sizeof(one)) == sizeof(one) ||
		     errno == EAGAIN);
}

bool raw_reap(struct raw_ring *ring, struct tent_completion *c)
{
	uint32_t at = ring->cq_head & (ring->h.completion_count - 1);
	struct tent_completion *from = (struct tent_completion *)
		(ring->engine + ring->h.completions_offset) + at;

	/* A3, pairs with R3 in ring_host_publish(). */
	if (load_acquire(&from->seq) != ring->cq_head + 1)
		return false;
	*c = *from;
	ring->cq_head++;
	store_release(&ring->client_line->cq_head, ring->cq_head);
	return true;
}

uint32_t raw_end_rule(const struct raw_ring *ring)
{
	if (!(load_acquire(&ring->engine_line->flags) & TENT_ENGINE_ENDED))
		return 0;
	return load_acquire(&ring->engine_line->end_rule);
}

bool raw_wait(struct raw_ring *ring, struct tent_completion *c)
{
	while (!raw_reap(ring, c)) {
		if (raw_end_rule(ring))
			return raw_reap(ring, c);
		sched_yield();
	}
	return true;
}

bool raw_wait_consumed(struct raw_ring *ring)
{
	/* A2, pairs with R2 in ring_host_consume(). */
	while (load_acquire(&ring->engine_line->consumed) != ring->position) {
		if (raw_end_rule(ring))
			return false;
		sched_yield();
	}
	return true;
}

uint32_t raw_wait_end(struct raw_ring *ring)
{
	while (!raw_end_rule(ring))
		sched_yield();
	return raw_end_rule(ring);
}

const struct raw_message raw_messages[RAW_MESSAGES] = {
	{ TENT_CTL_HELLO, sizeof(struct tent_ctl_hello) },
	{ TENT_CTL_RING_OPEN, sizeof(struct tent_ctl_ring_open) },
	{ TENT_CTL_RING_CLOSE, sizeof(struct tent_ctl_id) },
	{ TENT_CTL_MEM_ALLOC, sizeof(struct tent_ctl_mem_alloc) },
	{ TENT_CTL_MEM_FREE, sizeof(struct tent_ctl_id) },
	{ TENT_CTL_MEM_REGISTER, sizeof(struct tent_ctl_mem_register) },
	{ TENT_CTL_MEM_UNREGISTER, sizeof(struct tent_ctl_mem_unregister) },
	{ TENT_CTL_SEGMENT_OPEN, sizeof(struct tent_ctl_segment_open) },
	{ TENT_CTL_SEGMENT_CLOSE, sizeof(struct tent_ctl_id) },
	{ TENT_CTL_SEGMENT_INFO, sizeof(struct tent_ctl_segment_info) },
	{ TENT_CTL_QUERY, sizeof(struct tent_ctl_query) },
	{ 0, sizeof(struct tent_ctl_head) },
	{ 999, 200 },
	{ TENT_CTL_REPLY | TENT_CTL_HELLO, sizeof(struct tent_ctl_hello_reply) },
};
