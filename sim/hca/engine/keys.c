/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - protection domains, memory regions and the table of their keys, and data that
 * moves through them. A key is looked up anew at each use, so a region may go at any time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/engine/card.h"

/* A key is a table index of 24 bits over a variant of 8. Low indices are left to keys with
 * a meaning: 0x100 ends a list of segments. */
enum { FIRST_KEY = 0x180000, MIN_BUCKETS = 64 };

int hca_pd_create(struct hca *h, struct hca_pd **out)
{
	struct hca_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->hca = h;
	list_append(&h->pds, &pd->all);
	*out = pd;
	return 0;
}

int hca_pd_destroy(struct hca_pd *pd)
{
	if (pd->users)
		return -EBUSY;
	list_remove(&pd->all);
	free(pd);
	return 0;
}

static struct hca_mr **bucket_of(const struct hca *h, uint32_t key)
{
	return &h->buckets[(key >> 8) & (h->nr_buckets - 1)];
}

static struct hca_mr *find(const struct hca *h, uint32_t key)
{
	struct hca_mr *mr = h->nr_buckets ? *bucket_of(h, key) : NULL;

	while (mr && mr->key != key)
		mr = mr->next;
	return mr;
}

static int grow_buckets(struct hca *h)
{
	uint32_t old_nr = h->nr_buckets;
	struct hca_mr **old = h->buckets, **fresh, *mr, *next;

	if (h->nr_mrs < old_nr)
		return 0;
	h->nr_buckets = old_nr ? old_nr * 2 : MIN_BUCKETS;
	fresh = calloc(h->nr_buckets, sizeof(*fresh));
	if (!fresh) {
		h->nr_buckets = old_nr;
		return -ENOMEM;
	}
	h->buckets = fresh;
	for (uint32_t i = 0; i < old_nr; i++) {
		for (mr = old[i]; mr; mr = next) {
			next = mr->next;
			mr->next = *bucket_of(h, mr->key);
			*bucket_of(h, mr->key) = mr;
		}
	}
	free(old);
	return 0;
}

/* Runs through the indices, then through the variants: a number comes again after 2^32. */
static uint32_t new_key(struct hca *h)
{
	uint32_t key;

	do {
		key = h->next_key;
		h->next_key += 0x100;
		if (h->next_key < 0x100)
			h->next_key = FIRST_KEY | ((key + 1) & 0xff);
	} while (key < FIRST_KEY || find(h, key));
	return key;
}

static int check_range(const struct hca *h, const struct umem *mem, uint64_t iova,
		       uint64_t length)
{
	if (length > umem_length(mem) || iova + length < iova)
		return -EINVAL;
	if (h->config.max_mr_bytes && length > h->config.max_mr_bytes)
		return -EINVAL;
	return 0;
}

int hca_mr_create(struct hca_pd *pd, struct umem *mem, uint64_t iova, uint64_t length,
		  uint32_t access, struct hca_mr **out, uint32_t *key)
{
	struct hca *h = pd->hca;
	struct hca_mr *mr;
	int rc = check_range(h, mem, iova, length);

	if (!rc)
		rc = grow_buckets(h);
	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = (struct hca_mr) {
		.pd = pd, .mem = mem, .iova = iova, .length = length, .access = access,
		.key = new_key(h),
	};
	mr->next = *bucket_of(h, mr->key);
	*bucket_of(h, mr->key) = mr;
	h->nr_mrs++;
	pd->users++;
	*out = mr;
	*key = mr->key;
	return 0;
}

void hca_mr_destroy(struct hca_mr *mr)
{
	struct hca *h = mr->pd->hca;
	struct hca_mr **link = bucket_of(h, mr->key);

	while (*link != mr)
		link = &(*link)->next;
	*link = mr->next;
	h->nr_mrs--;
	mr->pd->users--;
	umem_release(mr->mem);
	free(mr);
}

int hca_mr_change(struct hca_mr *mr, struct hca_pd *pd, int64_t access, struct umem *mem,
		  uint64_t iova, uint64_t length)
{
	int rc = mem ? check_range(mr->pd->hca, mem, iova, length) : 0;

	if (rc)
		return rc;
	if (pd) {
		mr->pd->users--;
		pd->users++;
		mr->pd = pd;
	}
	if (access >= 0)
		mr->access = (uint32_t)access;
	if (mem) {
		umem_release(mr->mem);
		mr->mem = mem;
		mr->iova = iova;
		mr->length = length;
	}
	mr->is_invalid = false;
	return 0;
}

void hca_keys_free(struct hca *h)
{
	for (uint32_t i = 0; i < h->nr_buckets; i++) {
		while (h->buckets[i])
			hca_mr_destroy(h->buckets[i]);
	}
	free(h->buckets);
}

int hca_key_find(struct hca *h, const struct hca_pd *pd, uint32_t key, uint64_t address,
		 uint64_t length, uint32_t access, struct hca_mr **out, uint64_t *offset)
{
	struct hca_mr *mr = find(h, key);

	if (!mr || mr->pd != pd || mr->is_invalid || (mr->access & access) != access)
		return -EACCES;
	if (address < mr->iova || length > mr->length ||
	    address - mr->iova > mr->length - length)
		return -EACCES;
	*out = mr;
	*offset = address - mr->iova;
	return 0;
}

bool hca_key_invalidate(struct hca *h, const struct hca_pd *pd, uint32_t key)
{
	struct hca_mr *mr = find(h, key);

	if (!mr || mr->pd != pd || mr->is_invalid ||
	    !(mr->access & HCA_ACCESS_REMOTE_INVALIDATE))
		return false;
	mr->is_invalid = true;
	return true;
}

int hca_gather_check(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		     uint32_t access)
{
	struct hca_mr *mr;
	uint64_t offset;
	int rc = 0;

	for (uint32_t i = 0; i < g->nr && !rc; i++) {
		const struct hca_segment *s = &g->segment[i];

		if (!s->is_inline)
			rc = hca_key_find(h, pd, s->lkey, s->address, s->length, access,
					  &mr, &offset);
	}
	return rc;
}

static int segment_read(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
			const struct hca_segment *s, uint64_t skip, void *to, uint32_t n)
{
	struct hca_mr *mr;
	uint64_t offset;
	int rc;

	if (s->is_inline) {
		memcpy(to, &g->bytes[s->address + skip], n);
		return 0;
	}
	rc = hca_key_find(h, pd, s->lkey, s->address + skip, n, 0, &mr, &offset);
	return rc ? rc : umem_read(mr->mem, offset, to, n);
}

static int segment_write(struct hca *h, const struct hca_pd *pd, const struct hca_segment *s,
			 uint64_t skip, const void *from, uint32_t n)
{
	struct hca_mr *mr;
	uint64_t offset;
	int rc = hca_key_find(h, pd, s->lkey, s->address + skip, n, HCA_ACCESS_LOCAL_WRITE,
			      &mr, &offset);

	return rc ? rc : umem_write(mr->mem, offset, from, n);
}

/* n bytes of a gather, from offset: piece by piece. */
struct walk {
	const struct hca_segment *s, *end;
	uint64_t offset;		/* in s */
	uint32_t n;
};

static struct walk walk_from(const struct hca_gather *g, uint64_t offset, uint32_t n)
{
	return (struct walk) { g->segment, g->segment + g->nr, offset, n };
}

/* Bytes of the next piece, which begins at offset of s; 0: there is none. */
static uint32_t next_piece(struct walk *w)
{
	uint64_t left;

	for (; w->s != w->end && w->offset >= w->s->length; w->s++)
		w->offset -= w->s->length;
	if (w->s == w->end)
		return 0;
	left = w->s->length - w->offset;
	return left < w->n ? (uint32_t)left : w->n;
}

static void move_on(struct walk *w, uint32_t piece)
{
	w->offset += piece;
	w->n -= piece;
}

int hca_gather_read(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		    uint64_t offset, void *to, uint32_t n)
{
	struct walk w = walk_from(g, offset, n);
	uint32_t piece;

	for (; (piece = next_piece(&w)); move_on(&w, piece)) {
		if (segment_read(h, pd, g, w.s, w.offset, to, piece))
			return -EACCES;
		to = (uint8_t *)to + piece;
	}
	return 0;
}

int hca_gather_write(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		     uint64_t offset, const void *from, uint32_t n)
{
	struct walk w = walk_from(g, offset, n);
	uint32_t piece;

	for (; (piece = next_piece(&w)); move_on(&w, piece)) {
		if (segment_write(h, pd, w.s, w.offset, from, piece))
			return -EACCES;
		from = (const uint8_t *)from + piece;
	}
	return 0;
}
