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

#include "dv/rdma.h"

#define KEY_TEXT 9u	/* of one key, and what stands before it */

struct rdma_tenant *rdma_tenant_find(struct rdma_instance *inst, uint32_t uid)
{
	struct rdma_tenant *t;

	LIST_FOREACH(t, &inst->tenants, all)
		if (t->uid == uid)
			return t;
	t = inst->has_device ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	t->uid = uid;
	t->pd = dv_pd_open(&inst->device, inst->why, sizeof(inst->why));
	if (!t->pd) {
		free(t);
		return NULL;
	}
	LIST_INSERT_HEAD(&inst->tenants, t, all);
	return t;
}

static unsigned int access_of(const struct region *r)
{
	if (r->internal)
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

/* Without keys it moves another way, and facts say why. */
void rdma_region_open(struct backend_instance *base, struct region *r, uint32_t uid)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_tenant *tenant = rdma_tenant_find(inst, uid);
	struct rdma_near *near = tenant ? calloc(1, sizeof(*near)) : NULL;

	if (!near)
		return;
	near->tenant = tenant;
	if (dv_mr_open(&near->mr, &inst->device, tenant->pd, r->addr, r->end - r->base, r->base,
		       access_of(r), inst->why, sizeof(inst->why)) < 0) {
		free(near);
		return;
	}
	r->wired = near;
}

void rdma_region_close(struct backend_instance *base, struct region *r)
{
	struct rdma_near *near = r->wired;

	(void)base;
	dv_mr_close(near->mr);
	free(near);
}

/* ---- keys as text ------------------------------------------------------ */

_Static_assert(18 + DV_PIECES_MAX * KEY_TEXT < WIRED_KEYS_SIZE, "keys of all pieces fit");

/* "piece/key/key..", in hex: bytes of a piece, then a key for each. */
bool rdma_region_keys(const struct region *r, char *text)
{
	const struct rdma_near *near = r->wired;
	const struct dv_keys *k = &near->mr->remote;
	size_t used = (size_t)snprintf(text, WIRED_KEYS_SIZE, "%" PRIx64, k->piece_bytes);

	for (uint32_t i = 0; i < k->nr; i++)
		used += (size_t)snprintf(text + used, WIRED_KEYS_SIZE - used, "/%08x", k->keys[i]);
	return k->nr > 0;
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

bool rdma_keys_read(const char *text, uint64_t base, uint64_t end, struct dv_keys *k)
{
	uint64_t key;

	*k = (struct dv_keys){ .base = base, .end = end };
	if (!read_hex(&text, 1, 16, &k->piece_bytes) || !k->piece_bytes)
		return false;
	for (; *text == '/' && k->nr < DV_PIECES_MAX; k->nr++) {
		text++;
		if (!read_hex(&text, KEY_TEXT - 1, KEY_TEXT - 1, &key))
			return false;
		k->keys[k->nr] = (uint32_t)key;
	}
	return !*text && k->nr == (end - base - 1) / k->piece_bytes + 1;
}
