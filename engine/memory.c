/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - registration, and its end: out of the table first, so that no new request
 * finds the region; then every poller lets go of it; only then is it unmapped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/device.h"
#include "engine/files.h"
#include "engine/memory.h"
#include "engine/region_table.h"
#include "engine/wired.h"

#define DROPS_PER_ROUND 8u	/* a dying client's regions do not swamp a poller */
#define PROBE_PAGES 4096u

typedef struct tent_ctl_mem_register register_request;

/* ---- dropping ---------------------------------------------------------- */

static void region_release(struct engine *e, struct client *c, struct owned_region *r)
{
	struct buffer *b = r->region.backing;

	if (r->region.file) {
		file_release(e, c, r);
		return;
	}
	wired_region_close(e, &r->region);
	device_region_close(e, &r->region);
	if (b && --b->nr_regions == 0 && !b->id)
		buffer_leave(c, b);
	free(r);
}

static void release_dropped(struct engine *e, struct client *c)
{
	for (; c->dropping; c->dropping--) {
		struct owned_region *r = c->doomed;

		c->doomed = r->next;
		region_release(e, c, r);
	}
	if (c->doomed)
		memory_drop(e, c);
	else
		buffers_unmap(e, c, c->resume);
}

static void unpin_dropped(struct client *c)
{
	struct owned_region *r = c->doomed;

	for (uint32_t i = 0; i < c->dropping; i++, r = r->next)
		wired_region_close(c->chore.item.engine, &r->region);
}

static void dropped(struct engine *e, void *client)
{
	struct client *c = client;
	struct owned_region *r = c->doomed;
	bool takes_long = false;

	for (uint32_t i = 0; i < c->dropping; i++, r = r->next)
		takes_long |= wired_takes_long(&r->region);
	if (takes_long)
		chore_send(e, c, unpin_dropped, release_dropped);
	else
		release_dropped(e, c);
}

void memory_drop(struct engine *e, struct client *c)
{
	struct poller_command order = {
		.type = POLLER_DROP_REGION, .rule = TENT_RULE_TARGET_GONE,
	};

	round_begin(c->round);
	for (struct owned_region *r = c->doomed; r; r = r->next) {
		if (c->dropping == DROPS_PER_ROUND || !round_has_room(c->round, e->nr_pollers))
			break;
		order.region = &r->region;
		round_add_all(e, c->round, &order);
		c->dropping++;
	}
	client_await(e, c, dropped);
}

static void doom(struct client *c, struct region *r)
{
	struct owned_region *o = (struct owned_region *)r;

	r->dropped = true;
	o->next = c->doomed;
	c->doomed = o;
}

/* Takes the regions that leaves() picks out of the table. False: no memory. */
static bool doom_some(struct engine *e, struct client *c,
		      bool (*leaves)(const struct region *r, const void *context),
		      const void *context)
{
	struct region_table *old = c->segment->table, *new;

	new = region_table_without(old, leaves, context);
	if (!new)
		return false;
	for (uint32_t i = 0; i < old->nr; i++) {
		if (leaves(old->entries[i].region, context))
			doom(c, old->entries[i].region);
	}
	region_table_publish(e, c->segment, new);
	return true;
}

void memory_doom_all(struct engine *e, struct client *c, struct segment *s)
{
	struct region_table *old = s->table;

	for (uint32_t i = 0; i < old->nr; i++)
		doom(c, old->entries[i].region);
	region_table_publish(e, s, region_table_empty());
}

static const struct backend *owner_backend(const struct engine *e, uint32_t *index)
{
	for (*index = 0; *index < e->nr_instances; (*index)++) {
		if (e->instances[*index]->ops->owner_open)
			return e->instances[*index]->ops;
	}
	return NULL;
}

/* A chore: it waits for whoever copies just now. */
static void close_owner(struct client *c)
{
	uint32_t index;

	owner_backend(c->chore.item.engine, &index)->owner_close(c->owner);
}

static void end_buffers(struct engine *e, struct client *c)
{
	c->owner = NULL;
	while (c->buffers)
		buffer_leave(c, c->buffers);
	buffers_unmap(e, c, c->after_end);
}

/* The pollers have let go of everything. */
static void end_dropped(struct engine *e, struct client *c)
{
	if (c->owner)
		chore_send(e, c, close_owner, end_buffers);
	else
		end_buffers(e, c);
}

void memory_end(struct engine *e, struct client *c,
		void (*after)(struct engine *e, struct client *c))
{
	c->after_end = after;
	c->resume = end_dropped;
	memory_drop(e, c);
}

/* ---- registering ------------------------------------------------------- */

/* In this process: used in place, so it must be there. Guard pages and the like are
 * found by those who touch them, as with any pointer of the program. */
static bool is_mapped(uint64_t base, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = base & ~(page - 1);
	unsigned char there[PROBE_PAGES];

	while (at < base + length) {
		uint64_t left = base + length - at, most = PROBE_PAGES * page;

		if (mincore((void *)(uintptr_t)at, left < most ? left : most, there) < 0)
			return false;
		at += most;
		if (left <= most)
			break;
	}
	return true;
}

static bool back_in_place(struct engine *e, struct client *c, const register_request *q,
			  struct region *r)
{
	if (q->base + q->length > UINTPTR_MAX || !is_mapped(q->base, q->length)) {
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, q->base,
				   "address is 0x%llx, where not all of the range is mapped; "
				   "allowed: memory the engine can share or copy",
				   (unsigned long long)q->base);
		return false;
	}
	r->addr = (uint8_t *)(uintptr_t)q->base;
	r->shareable = true;
	return true;
}

/* What keeps the private memory of this client from being copied: an errno. */
static int owner_open(struct engine *e, struct client *c)
{
	uint32_t index;
	const struct backend *b = owner_backend(e, &index);
	int rc;

	if (c->owner)
		return 0;
	if (!b)
		return EOPNOTSUPP;
	if (c->peer.mem_fd < 0)
		return c->peer.mem_error;
	rc = b->owner_open(e->instances[index], c->peer.mem_fd, &c->owner);
	if (rc < 0)
		return -rc;
	c->peer.mem_fd = -1;	/* the backend's now */
	return 0;
}

static bool back_by_copies(struct engine *e, struct client *c, const register_request *q,
			   struct region *r)
{
	int error = owner_open(e, c);

	if (!error) {
		r->owner = c->owner;
		return true;
	}
	errno = error;
	if (error == EOPNOTSUPP)
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, q->base,
				   "this is private memory, and no enabled transport copies "
				   "such; allowed: memory of tent_client_alloc() or a memfd");
	else
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, q->base,
				   "this is private memory, and the engine cannot use "
				   "/proc/%d/mem (%m); allowed: memory of tent_client_alloc() "
				   "or a memfd", (int)c->peer.pid);
	return false;
}

/* Mappings are of whole pages: an address and an offset that lie differently in theirs
 * belong to no mapping, and would give us pointers of another alignment. */
static bool back_by_buffer(struct engine *e, struct client *c, const register_request *q,
			   struct buffer *b, struct region *r)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end;

	if (__builtin_add_overflow(q->offset, q->length, &end) || end > b->mem.size ||
	    (q->base - q->offset) & (page - 1)) {
		client_refuse_text(e, c, TENT_RULE_MEM_RANGE, q->offset,
				   "offset is 0x%llx, length 0x%llx; allowed: a range inside the "
				   "0x%zx bytes of this memory that base can be a mapping of",
				   (unsigned long long)q->offset, (unsigned long long)q->length,
				   b->mem.size);
		return false;
	}
	r->addr = (uint8_t *)b->mem.addr + q->offset;
	r->backing = b;
	r->shareable = true;
	return true;
}

/* A mapping made for a range that was then refused goes again. */
static bool back_by_fd(struct engine *e, struct client *c, struct ctl_message *m,
		       struct region *r)
{
	struct buffer *b = buffer_of_fd(e, c, m);

	if (!b)
		return false;
	if (back_by_buffer(e, c, (const void *)m->bytes, b, r))
		return true;
	if (!b->nr_regions)
		buffer_unmap_unused(e, c, b);
	return false;
}

static bool region_back(struct engine *e, struct client *c, struct ctl_message *m,
			struct region *r)
{
	const register_request *q = (const void *)m->bytes;
	struct buffer *b;

	switch (q->kind) {
	case TENT_MEM_PRIVATE:
		return c->local ? back_in_place(e, c, q, r) : back_by_copies(e, c, q, r);
	case TENT_MEM_FD:
		return back_by_fd(e, c, m, r);
	default:
		b = buffer_find(c, q->buffer_id);
		if (b)
			return back_by_buffer(e, c, q, b, r);
		client_refuse_text(e, c, TENT_RULE_MEM_UNKNOWN, q->buffer_id,
				   "buffer_id is %llu; allowed: that of a MEM_ALLOC",
				   (unsigned long long)q->buffer_id);
		return false;
	}
}

static struct region *region_create(struct engine *e, struct client *c, struct ctl_message *m)
{
	const register_request *q = (const void *)m->bytes;
	struct owned_region *o = calloc(1, sizeof(*o));
	int is_device;

	if (!o) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
		return NULL;
	}
	o->region = (struct region){
		.base = q->base, .end = q->base + q->length, .segment = c->segment,
		.permission = (uint8_t)q->permission, .internal = q->internal != 0, .refs = 1,
	};
	memcpy(o->region.location, q->location, sizeof(o->region.location));
	is_device = device_region_open(e, c, &o->region);
	if (is_device > 0 || (is_device == 0 && region_back(e, c, m, &o->region)))
		return &o->region;
	free(o);
	return NULL;
}

/* Devices have it, or it goes without them. */
static void register_settled(struct engine *e, struct client *c, struct region *r)
{
	struct region_table *t;

	wired_region_settle(e, r);
	device_region_settle(e, r);
	device_host_open(e, r);
	t = region_table_with(c->segment->table, r);
	if (!t) {
		region_release(e, c, (struct owned_region *)r);
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
		return;
	}
	region_table_publish(e, c->segment, t);
	client_reply_plain(e, c);
}

static void pin_run(struct client *c)
{
	wired_region_pin(c->chore.item.engine, c->pinning);
}

static void pin_done(struct engine *e, struct client *c)
{
	struct region *r = c->pinning;

	c->pinning = NULL;
	register_settled(e, c, r);
	client_idle(e, c);
}

static void register_new(struct engine *e, struct client *c, struct ctl_message *m)
{
	struct region *r = region_create(e, c, m);

	if (!r)
		return;
	if (r->backing)
		((struct buffer *)r->backing)->nr_regions++;
	wired_region_open(e, r, c->segment->tenant_uid);
	if (wired_takes_long(r)) {
		c->pinning = r;
		chore_send(e, c, pin_run, pin_done);
		return;
	}
	wired_region_pin(e, r);
	register_settled(e, c, r);
}

/* Is it still the memory that was registered under this range? */
static bool is_same_memory(struct client *c, const struct ctl_message *m,
			   const struct region *r)
{
	const register_request *q = (const void *)m->bytes;
	const struct buffer *b = r->backing;

	if (q->kind == TENT_MEM_PRIVATE)
		return !b;
	if (!b || r->addr != (uint8_t *)b->mem.addr + q->offset)
		return false;
	return q->kind == TENT_MEM_FD ? buffer_is_of_fd(b, m->fds[0]) :
					b == buffer_find(c, q->buffer_id);
}

/* The same range again counts up; it must not hide that something changed. */
static void register_again(struct engine *e, struct client *c, const struct ctl_message *m,
			   struct region *r)
{
	const register_request *q = (const void *)m->bytes;

	if (!is_same_memory(c, m, r)) {
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, q->base,
				   "address is 0x%llx, a range that is registered with other "
				   "memory behind it; allowed: the same, or unregister it first",
				   (unsigned long long)q->base);
	} else if (q->permission != r->permission) {
		client_refuse_text(e, c, TENT_RULE_MEM_PERMISSION, (uint64_t)q->permission,
				   "permission is %d, and this range is registered with %d; "
				   "allowed: the same, or unregister it first", q->permission,
				   r->permission);
	} else if (r->refs == UINT32_MAX) {
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, r->refs);
	} else {
		r->refs++;
		client_reply_plain(e, c);
	}
}

/* 0 or the rule that the request breaks by itself. */
static uint16_t check_register(const register_request *q, int nr_fds, uint64_t *value)
{
	uint64_t end;
	uint32_t gpu;
	int node;

	*value = q->kind;
	if (q->resv0 || q->kind > TENT_MEM_FD || nr_fds != (q->kind == TENT_MEM_FD))
		return TENT_RULE_CTL_MESSAGE;
	*value = q->base;
	if (!q->length || __builtin_add_overflow(q->base, q->length, &end))
		return TENT_RULE_MEM_RANGE;
	*value = (uint64_t)(int64_t)q->permission;
	if (q->permission < TENT_PERM_LOCAL_READ_WRITE ||
	    q->permission > TENT_PERM_GLOBAL_READ_WRITE)
		return TENT_RULE_MEM_PERMISSION;
	*value = 0;
	return location_parse(q->location, &node) || device_location(q->location, &gpu) ?
	       0 : TENT_RULE_LOCATION;
}

void memory_register(struct engine *e, struct client *c, struct ctl_message *m)
{
	const register_request *q = (const void *)m->bytes;
	const struct region_table *t = c->segment->table;
	struct region *r;
	uint64_t value;
	uint16_t rule = check_register(q, m->nr_fds, &value);

	if (rule) {
		client_refuse(e, c, rule, value);
		return;
	}
	r = region_table_exact(t, q->base, q->base + q->length);
	if (r)
		register_again(e, c, m, r);
	else if (t->nr >= e->config.regions_max)
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, t->nr);
	else
		register_new(e, c, m);
}

/* ---- unregistering ----------------------------------------------------- */

static void reply_dropped(struct engine *e, struct client *c)
{
	client_reply_plain(e, c);
	client_idle(e, c);
}

void memory_drop_and_reply(struct engine *e, struct client *c)
{
	c->resume = reply_dropped;
	memory_drop(e, c);
}

static bool is_it(const struct region *r, const void *context)
{
	return r == context;
}

void memory_unregister(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_mem_unregister *q = (const void *)m->bytes;
	struct region *r = NULL;
	uint64_t end = 0;

	if (!__builtin_add_overflow(q->base, q->length, &end))
		r = region_table_exact(c->segment->table, q->base, q->length ? end : 0);
	if (!r || r->refs > 1) {	/* unknown is success, as it always was */
		if (r)
			r->refs--;
		client_reply_plain(e, c);
		return;
	}
	if (!doom_some(e, c, is_it, r)) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
		return;
	}
	memory_drop_and_reply(e, c);
}

static bool lies_in(const struct region *r, const void *context)
{
	return r->backing == context;
}

static void free_dropped(struct engine *e, struct client *c)
{
	buffer_leave(c, c->buffer_pending);
	c->buffer_pending = NULL;
	buffers_unmap(e, c, reply_dropped);
}

void memory_free(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_id *q = (const void *)m->bytes;
	struct buffer *b = buffer_find(c, q->id);

	if (!b) {
		client_refuse_text(e, c, TENT_RULE_MEM_UNKNOWN, q->id,
				   "buffer_id is %llu; allowed: that of a MEM_ALLOC",
				   (unsigned long long)q->id);
	} else if (!doom_some(e, c, lies_in, b)) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
	} else {
		c->buffer_pending = b;
		c->resume = free_dropped;
		memory_drop(e, c);
	}
}
