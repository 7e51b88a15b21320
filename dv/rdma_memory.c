/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_memory.c - memory that the device may touch. Each tenant has a protection domain of
 * its own, so that a QP of one reaches nothing of another, whatever key it guesses.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tent.h>

#include "dv/rdma_memory.h"

#define KEY_TEXT 9u	/* of one key, and what stands before it */

struct rdma_tenant *rdma_tenant_find(struct rdma_instance *inst, uint32_t uid)
{
	struct rdma_tenant *t;

	LIST_FOREACH(t, &inst->tenants, all)
		if (t->uid == uid)
			return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->uid = uid;
	LIST_INSERT_HEAD(&inst->tenants, t, all);
	return t;
}

struct ibv_pd *rdma_tenant_pd(struct rdma_tenant *t, const struct rdma_rail *r, char *why,
			      size_t size)
{
	if (!t->pds[r->index])
		t->pds[r->index] = dv_pd_open(&r->device, why, size);
	return t->pds[r->index];
}

void rdma_tenants_free(struct rdma_instance *inst)
{
	struct rdma_tenant *t;

	while ((t = LIST_FIRST(&inst->tenants))) {
		LIST_REMOVE(t, all);
		for (uint32_t i = 0; i < inst->nr_rails; i++)
			if (t->pds[i])
				ibv_dealloc_pd(t->pds[i]);
		free(t);
	}
}

/* Peers write where it is there once their card says so: nobody here could flush it for them. */
static bool is_for_peers(const struct region *r)
{
	return !r->internal && !(r->device && r->device->flush);
}

static unsigned int access_of(const struct region *r)
{
	if (!is_for_peers(r))
		return DV_ACCESS_LOCAL | DV_ACCESS_RELAXED;
	switch (r->permission) {
	case TENT_PERM_GLOBAL_READ_WRITE:
		return DV_ACCESS_READ | DV_ACCESS_WRITE | DV_ACCESS_RELAXED;
	case TENT_PERM_GLOBAL_READ_ONLY:
		return DV_ACCESS_READ | DV_ACCESS_RELAXED;
	default:
		return DV_ACCESS_LOCAL | DV_ACCESS_RELAXED;
	}
}

/* ---- regions ----------------------------------------------------------- */

uint32_t rdma_nearest(const struct rdma_instance *inst, const char *location)
{
	uint32_t rails = 0;

	if (strncmp(location, "cpu:", 4) != 0)
		return inst->all_rails;
	for (uint32_t i = 0; i < inst->nr_rails; i++)
		if (inst->rails[i].node == atoi(location + 4))
			rails |= 1u << i;
	return rails ? rails : inst->all_rails;
}

static uint64_t bytes_of(const struct rdma_near *near, const struct region *r)
{
	return (uint64_t)__builtin_popcount(near->wanted) * (r->end - r->base);
}

void rdma_region_open(struct backend_instance *base, struct region *r, uint32_t uid)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_tenant *tenant = rdma_tenant_find(inst, uid);
	struct rdma_near *near = tenant ? calloc(1, sizeof(*near)) : NULL;

	if (!near)
		return;
	near->inst = inst;
	near->tenant = tenant;
	near->nearest = rdma_nearest(inst, r->location);
	near->flushes = r->device && r->device->flush;
	for (uint32_t i = 0; i < inst->nr_rails; i++)
		if (inst->rails[i].is_open && !inst->rails[i].is_gone &&
		    rdma_tenant_pd(tenant, &inst->rails[i], near->why, sizeof(near->why)))
			near->wanted |= 1u << i;
	inst->nr_pinning++;
	inst->pinning_bytes += bytes_of(near, r);
	r->wired = near;
}

static bool pin_at(struct rdma_near *near, const struct region *r, uint32_t rail, void *addr)
{
	struct rdma_instance *inst = near->inst;

	return dv_mr_open(&near->mrs[rail], &inst->rails[rail].device, near->tenant->pds[rail],
			  addr, r->end - r->base, r->base, access_of(r), &inst->pinned_bytes,
			  near->why, sizeof(near->why)) == 0;
}

static bool pin_dma_buf(struct rdma_near *near, const struct region *r, uint32_t rail)
{
	struct rdma_instance *inst = near->inst;

	return dv_mr_open_dma_buf(&near->mrs[rail], &inst->rails[rail].device,
				  near->tenant->pds[rail], r->device->fd,
				  r->base - r->device->fd_base, r->end - r->base, r->base,
				  access_of(r), &inst->pinned_bytes, near->no_dma_buf,
				  sizeof(near->no_dma_buf)) == 0;
}

/* Of a GPU without a dma-buf: by its address, where a module of the kernel knows of GPUs. */
static bool pin(struct rdma_near *near, const struct region *r, uint32_t rail)
{
	if (!r->device)
		return pin_at(near, r, rail, r->addr);
	if (r->device->fd < 0) {
		snprintf(near->no_dma_buf, sizeof(near->no_dma_buf), "%s", r->device->no_fd);
	} else if (pin_dma_buf(near, r, rail)) {
		near->by_dma_buf |= 1u << rail;
		return true;
	}
	return pin_at(near, r, rail, (void *)(uintptr_t)r->base);
}

/* A rail has all of it or nothing; one may have it where another has not. */
void rdma_region_pin(struct region *r)
{
	struct rdma_near *near = r->wired;

	for (uint32_t i = 0; near->wanted >> i; i++)
		if (near->wanted & 1u << i && pin(near, r, i))
			near->rails |= 1u << i;
}

static enum card_way way_of(const struct rdma_near *near)
{
	if (!near->rails)
		return CARD_NONE;
	return near->by_dma_buf == near->rails ? CARD_BY_DMA_BUF : CARD_BY_ADDRESS;
}

/* "registered with mlx5_0 by dma-buf, mlx5_1 by its address, as ..." */
static void tell_device(const struct rdma_instance *inst, const struct rdma_near *near,
			struct device_memory *m)
{
	FILE *to = fmemopen(m->card, sizeof(m->card), "w");

	m->way = way_of(near);
	if (!to)
		return;
	fprintf(to, "registered with %s", near->rails ? "" : "no card");
	for (uint32_t i = 0; near->rails >> i; i++)
		if (near->rails & 1u << i)
			fprintf(to, "%s%s by %s", near->rails & ((1u << i) - 1) ? ", " : "",
				inst->rails[i].name, near->by_dma_buf & 1u << i ?
				"dma-buf" : "its address");
	if (*near->no_dma_buf)
		fprintf(to, "; not by dma-buf: %s", near->no_dma_buf);
	if (*near->why)
		fprintf(to, "; not by its address: %s", near->why);
	if (near->rails && m->flush)
		fprintf(to, "; not for peers: its GPU has to be told of what they wrote");
	fclose(to);
}

/* Without keys it moves another way, and facts say why. */
bool rdma_region_settle(struct backend_instance *base, struct region *r)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	const struct rdma_near *near = r->wired;

	if (r->device)
		tell_device(inst, near, r->device);
	if (*near->why)
		snprintf(inst->why, sizeof(inst->why), "%s", near->why);
	if (--inst->nr_pinning == 0) {
		inst->pinning_bytes = 0;
		store_relaxed(&inst->pinned_bytes, 0ull);
	}
	return near->rails;
}

void rdma_region_close(struct backend_instance *base, struct region *r)
{
	struct rdma_near *near = r->wired;

	(void)base;
	for (uint32_t i = 0; i < RDMA_RAILS_MAX; i++)
		if (near->mrs[i])
			dv_mr_close(near->mrs[i]);
	free(near);
}

/* ---- keys as text ------------------------------------------------------ */

_Static_assert(18 + DV_PIECES_MAX * KEY_TEXT < WIRED_KEYS_SIZE, "keys of all pieces fit");

/* "piece/key/key..", in hex: bytes of a piece, then a key for each. */
static size_t put_keys(char *text, size_t size, const struct dv_keys *k)
{
	size_t used = (size_t)snprintf(text, size, "%" PRIx64, k->piece_bytes);

	for (uint32_t i = 0; i < k->nr && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "/%08x", k->keys[i]);
	return used;
}

/* Those of each rail, with ";" between; of as many rails as fit. */
bool rdma_region_keys(const struct region *r, char *text)
{
	const struct rdma_near *near = r->wired;
	size_t used = 0, n;
	bool any = false;

	for (uint32_t i = 0; near->rails >> i; i++) {
		char *at = text + used, *keys = at + (i != 0);
		size_t left = WIRED_KEYS_SIZE - used - (i != 0);

		n = near->mrs[i] && near->mrs[i]->remote.nr ?
		    put_keys(keys, left, &near->mrs[i]->remote) : 0;
		if (n >= left) {
			*at = '\0';
			break;
		}
		if (i)
			*at = ';';
		keys[n] = '\0';
		any |= n != 0;
		used = (size_t)(keys - text) + n;
	}
	return any;
}

static bool read_hex(const char **at, size_t least, size_t most, uint64_t *value)
{
	size_t digits = strspn(*at, "0123456789abcdef");

	if (digits < least || digits > most)
		return false;
	*value = strtoull(*at, NULL, 16);
	*at += digits;
	return true;
}

uint32_t rdma_keys_count(const char *text)
{
	uint32_t nr = 1;

	for (const char *at = text; (at = strchr(at, ';')); at++)
		nr++;
	return *text && nr <= RDMA_RAILS_MAX ? nr : 0;
}

static bool read_rail(const char **text, struct dv_keys *k)
{
	uint64_t key;

	if (!read_hex(text, 1, 16, &k->piece_bytes) || !k->piece_bytes)
		return false;
	for (; **text == '/' && k->nr < DV_PIECES_MAX; k->nr++) {
		++*text;
		if (!read_hex(text, KEY_TEXT - 1, KEY_TEXT - 1, &key))
			return false;
		k->keys[k->nr] = (uint32_t)key;
	}
	return k->nr == (k->end - k->base - 1) / k->piece_bytes + 1;
}

bool rdma_keys_read(const char *text, uint64_t base, uint64_t end, struct dv_keys *k)
{
	bool any = false;

	for (;; k++, text++) {
		*k = (struct dv_keys){ .base = base, .end = end };
		if (*text && *text != ';' && !read_rail(&text, k))
			return false;
		any |= k->nr != 0;
		if (*text != ';')
			return any && !*text;
	}
}
