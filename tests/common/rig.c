/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - see rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ring/wake.h"
#include "tests/common/rig.h"

void rig_need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rig: %s\n", what);
	abort();
}

/* ---- the copying backend ------------------------------------------------ */

static int copy_open(struct backend_instance **inst, const struct backend_options *o)
{
	static struct backend_instance one;

	(void)o;
	one.ops = &rig_copy_backend;
	*inst = &one;
	return 0;
}

static void copy_close(struct backend_instance *inst)
{
	(void)inst;
}

static int copy_queue_open(struct backend_instance *inst, int event_fd,
			   struct backend_queue **queue)
{
	(void)event_fd;
	*queue = calloc(1, sizeof(**queue));
	(*queue)->ops = &rig_copy_backend;
	(*queue)->inst = inst;
	return 0;
}

static void copy_queue_close(struct backend_queue *queue)
{
	free(queue);
}

static bool copy_reaches(const struct backend_instance *inst, const struct region *local,
			 const struct region *remote)
{
	(void)inst;
	return local->addr && remote->addr;
}

static enum post_result copy_post(struct backend_queue *queue, struct transfer *t,
				  uint64_t budget)
{
	uint64_t n = t->length - t->done < budget ? t->length - t->done : budget;
	uint8_t *local = transfer_local(t) + t->done, *remote = transfer_remote(t) + t->done;

	(void)queue;
	if (t->opcode == TENT_OPCODE_READ)
		memcpy(local, remote, n);
	else
		memcpy(remote, local, n);
	t->done += n;
	if (t->done < t->length)
		return POST_MORE;
	transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	return POST_DONE;
}

const struct backend rig_copy_backend = {
	.name = "copy", .transport = TENT_TRANSPORT_SHM,
	.open = copy_open, .close = copy_close,
	.queue_open = copy_queue_open, .queue_close = copy_queue_close,
	.reaches = copy_reaches, .reaches_mapped = true, .post = copy_post,
};

/* ---- clients ------------------------------------------------------------ */

uint64_t rig_address(const struct rig_client *c, uint64_t offset)
{
	return (uintptr_t)c->memory + offset;
}

static void make_client(struct rig_client *c, uint32_t id)
{
	static const uint8_t permissions[RIG_REGIONS] = {
		TENT_PERM_GLOBAL_READ_WRITE, TENT_PERM_GLOBAL_READ_WRITE,
		TENT_PERM_GLOBAL_READ_ONLY, TENT_PERM_LOCAL_READ_WRITE,
	};
	struct region_table *t = calloc(1, sizeof(*t) + RIG_REGIONS * sizeof(t->entries[0]));

	c->memory = aligned_alloc(4096, 2 * RIG_REGIONS * RIG_REGION_BYTES);
	rig_need(t && c->memory, "no memory");
	memset(c->memory, 0x11 * (int)(id + 1), 2 * RIG_REGIONS * RIG_REGION_BYTES);
	t->nr = RIG_REGIONS;
	for (uint32_t i = 0; i < RIG_REGIONS; i++) {
		struct region *g = &c->regions[i];

		g->base = rig_address(c, 2ull * i * RIG_REGION_BYTES);
		g->end = g->base + RIG_REGION_BYTES;
		g->addr = (uint8_t *)(uintptr_t)g->base;
		g->permission = permissions[i];
		g->segment = &c->segment;
		g->shareable = true;
		t->entries[i] = (struct region_entry){ g->base, g->end, g, g->end };
	}
	c->segment.table = t;
	c->space.client_id = id;
	c->space.wakes = &c->wakes;
	c->space.default_priority = TENT_PRIORITY_MEDIUM;
}

static void link_clients(struct rig_client *own, struct rig_client *peer)
{
	struct handle_table *h = calloc(1, sizeof(*h) + 3 * sizeof(h->segments[0]));

	rig_need(h, "no memory");
	h->nr = 3;
	h->segments[0] = &own->segment;
	h->segments[RIG_PEER] = &peer->segment;
	own->handles = h;
	own->space.handles = h;
}

static void free_client(struct rig_client *c)
{
	free(c->segment.table);
	free(c->handles);
	free(c->memory);
}

/* ---- rings -------------------------------------------------------------- */

static void make_ring(struct rig *r, uint32_t i, const struct rig_options *o)
{
	struct rig_ring *ring = &r->rings[i];
	struct ring_geometry g = {
		.slot_count = o->slots ? o->slots : 64,
		.completion_count = o->completions ? o->completions : 64,
		.first_position = o->first_position,
		.features = TENT_RING_F_ADAPTIVE, .epoch = 1, .clock = r->clock,
	};

	ring->client = &r->clients[i % 2];
	rig_need(ring_state_create(&ring->state, &g, &ring->client->space) == 0, "ring");
	ring->host = ring_state_host(ring->state);
	ring->position = ring->cq_head = o->first_position;
	rig_order(r, POLLER_ADD_RING, ring->state, NULL, 0);
}

struct tent_slot *rig_slot(struct rig_ring *ring, uint32_t i)
{
	struct tent_slot *s = (struct tent_slot *)(uintptr_t)ring->host->slots +
			      ((ring->position + i) & ring->host->slot_mask);

	/* {seq, nr} is the engine's to look at meanwhile; publishing stores it whole. */
	memset(&s->user_data, 0, sizeof(*s) - offsetof(struct tent_slot, user_data));
	return s;
}

char *rig_cell(struct rig_ring *ring, uint32_t i)
{
	return (char *)(uintptr_t)ring->host->cells +
	       (size_t)((ring->position + i) & ring->host->slot_mask) * TENT_CELL_SIZE;
}

void rig_fill(const struct rig_client *from, struct tent_slot *s, int opcode,
	      uint64_t source, uint64_t target, uint64_t length)
{
	const struct segment *peer = from->handles->segments[RIG_PEER];

	s->request.struct_size = TENT_REQUEST_V1_SIZE;
	s->request.schema_version = TENT_REQUEST_SCHEMA_V1;
	s->request.opcode = opcode;
	s->request.source = (void *)(uintptr_t)rig_address(from, source);
	s->request.target_id = RIG_PEER;
	s->request.target_offset = peer->table->entries[0].base + target;
	s->request.length = length;
	s->entry_stride = TENT_REQUEST_V1_SIZE;
}

struct tent_slot *rig_request(struct rig_ring *ring, uint32_t i, int opcode,
			      uint64_t source, uint64_t target, uint64_t length)
{
	struct tent_slot *s = rig_slot(ring, i);

	rig_fill(ring->client, s, opcode, source, target, length);
	s->user_data = ring->position + i;
	return s;
}

static void store_seq(struct rig_ring *ring, uint32_t i, uint32_t nr)
{
	struct tent_slot *slots = (struct tent_slot *)(uintptr_t)ring->host->slots;
	uint32_t position = ring->position + i;

	store_release((uint64_t *)&slots[position & ring->host->slot_mask],
		      (uint64_t)nr << 32 | (uint32_t)(position + 1));
}

void rig_publish(struct rig_ring *ring, uint32_t nr, uint8_t op, uint16_t flags)
{
	struct tent_slot *first = (struct tent_slot *)(uintptr_t)ring->host->slots +
				  (ring->position & ring->host->slot_mask);

	first->op = op;
	first->flags = flags;
	first->cq_head = ring->cq_head;
	for (uint32_t i = 1; i < nr; i++)
		store_seq(ring, i, 0);
	store_seq(ring, 0, nr);
	ring->position += nr;
	compiler_fence();
	if (load_relaxed(&ring->host->line->flags) & TENT_ENGINE_NEED_WAKE)
		wake_event_signal(ring->host->event_fd);
}

bool rig_reap(struct rig_ring *ring, struct tent_completion *c)
{
	const struct tent_completion *from = (const struct tent_completion *)
		ring->host->completions + (ring->cq_head & ring->host->completion_mask);
	uint64_t word = load_acquire((const uint64_t *)from);

	if ((uint32_t)word != ring->cq_head + 1)
		return false;
	*c = *from;
	ring->cq_head++;
	return true;
}

uint32_t rig_reap_all(struct rig_ring *ring)
{
	struct tent_completion c;
	uint32_t n = 0;

	while (rig_reap(ring, &c))
		n++;
	return n;
}

void rig_settle(struct rig *r)
{
	for (uint32_t idle = 0, turns = 0; idle < 2; turns++) {
		rig_need(turns < 10000000, "the poller does not come to rest");
		idle = poller_turn(r->poller) ? 0 : idle + 1;
	}
}

struct tent_completion rig_finish(struct rig *r, struct rig_ring *ring)
{
	struct tent_completion c = { 0 };

	for (uint32_t turns = 0; !rig_reap(ring, &c); turns++) {
		rig_need(turns < 10000000, "no completion comes");
		poller_turn(r->poller);
	}
	return c;
}

/* ---- start and stop ----------------------------------------------------- */

void rig_order(struct rig *r, enum poller_command_type type, struct ring_state *ring,
	       struct region *region, uint16_t rule)
{
	struct poller_command c = { .type = type, .rule = rule, .ring = ring,
				    .region = region };

	poller_send(r->poller, &c);
	while (!load_acquire(&c.answered))
		if (!r->options.threaded)
			poller_turn(r->poller);
}

static void set_defaults(struct poller_options *o)
{
	if (o->turn_slots)
		return;
	o->core = -1;
	o->spin_ns = 50000;
	o->turn_slots = 16;
	o->turn_bytes = 65536;
	o->answer_fd = -1;
	if (!o->event_fd)
		o->event_fd = -1;
}

/* The queue is called what its backend is a copy of, as which it was opened. */
static void add_backend(struct rig *r, const struct backend *b, const char *faults)
{
	const struct backend_options o = { .faults = faults ? faults : "" };
	uint32_t i = r->nr_queues++;

	rig_need(b->open(&r->insts[i], &o) == 0, "backend");
	rig_need(b->queue_open(r->insts[i], r->options.event_fd, &r->queues[i]) == 0, "queue");
	r->queues[i]->ops = b;
}

static void add_backends(struct rig *r, const struct rig_options *o)
{
	if (!o->backends[0].ops)
		add_backend(r, o->faults ? &null_backend : &rig_copy_backend, o->faults);
	for (uint32_t i = 0; i < RIG_BACKENDS && o->backends[i].ops; i++)
		add_backend(r, o->backends[i].ops, o->backends[i].faults);
	r->queue = r->queues[0];
}

void rig_start(struct rig *r, const struct rig_options *o)
{
	memset(r, 0, sizeof(*r));
	r->options = o->poller;
	set_defaults(&r->options);
	if (r->options.threaded)
		r->options.event_fd = poller_event_fd_create();
	for (uint32_t i = 0; i < 2; i++)
		make_client(&r->clients[i], i);
	link_clients(&r->clients[0], &r->clients[1]);
	link_clients(&r->clients[1], &r->clients[0]);
	tick_clock_calibrate(&r->clock);
	add_backends(r, o);
	rig_need(poller_create(&r->poller, &r->options, r->queues, r->nr_queues) == 0,
		 "poller");
	for (uint32_t i = 0; i < RIG_RINGS; i++)
		make_ring(r, i, o);
}

struct rig *rig_new(const struct rig_options *o)
{
	static const struct rig_options none;
	static struct rig r;

	rig_start(&r, o ? o : &none);
	return &r;
}

void rig_stop(struct rig *r)
{
	struct poller_stats s;

	rig_order(r, POLLER_STOP, NULL, NULL, TENT_RULE_ENGINE_STOPPED);
	poller_stats_read(r->poller, &s);
	rig_need(s.in_flight == 0, "requests are left");
	rig_need(s.completed + s.failed + s.canceled + s.timed_out == s.requests,
		 "not every request ended once");
	poller_destroy(r->poller);
	for (uint32_t i = 0; i < RIG_RINGS; i++)
		ring_state_destroy(r->rings[i].state);
	for (uint32_t i = 0; i < r->nr_queues; i++) {
		const struct backend *b = r->queues[i]->ops;

		b->queue_close(r->queues[i]);
		b->close(r->insts[i]);
	}
	free_client(&r->clients[0]);
	free_client(&r->clients[1]);
}

void rig_burst(struct rig_ring *ring, uint32_t n, uint64_t target, uint64_t length)
{
	for (uint32_t i = 0; i < n; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, target, length)
			->request.requested_priority = 1 + (int)i % 3;
	rig_publish(ring, n, TENT_OP_REQUEST, 0);
}

void rig_expect_refused(const struct tent_completion *c, uint16_t rule, uint32_t index,
			uint32_t nr)
{
	assert_int_equal(c->flags & TENT_CQE_F_REJECTED, TENT_CQE_F_REJECTED);
	assert_int_equal(c->status, TENT_STATUS_INVALID);
	assert_int_equal(c->rule, rule);
	assert_int_equal(c->error, tent_rule_error(rule));
	assert_int_equal(c->index, index);
	assert_int_equal(c->credits, nr);
	assert_int_equal(c->count, nr);
}
