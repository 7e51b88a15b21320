/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr.h - memory that a device may touch. Its addresses on the wire are those of its owner,
 * wherever it is mapped here. What is longer than the device takes at once is several
 * pieces, each with keys of its own: dv_keys_find() is the only way to one, and says how
 * far it reaches.
 */
#ifndef TENT_DV_MR_H
#define TENT_DV_MR_H

#include "dv/device.h"

#define DV_PIECES_MAX 64u	/* of one range; peers are told the key of each */

/* The keys of a range, here or at a peer. */
struct dv_keys {
	uint64_t base, end;	/* addresses of the owner */
	uint64_t piece_bytes;	/* all pieces but the last are as long */
	uint32_t nr;
	uint32_t keys[DV_PIECES_MAX];
};

/* The key for address, which lies in the range, and in *span how many of the length bytes
 * from there one request may move with it. */
static inline uint32_t dv_keys_find(const struct dv_keys *k, uint64_t address, uint64_t length,
				    uint64_t *span)
{
	uint64_t piece = 0, end = k->end;

	if (__builtin_expect(k->nr > 1, 0)) {
		piece = (address - k->base) / k->piece_bytes;
		if (piece + 1 < k->nr)
			end = k->base + (piece + 1) * k->piece_bytes;
	}
	*span = length < end - address ? length : end - address;
	return k->keys[piece];
}

struct dv_mr {
	struct dv_keys local, remote;	/* remote.nr is 0 where peers may not come */
	struct ibv_mr *mrs[DV_PIECES_MAX];
};

#define DV_PIECES_WANTED 16u	/* what is large is as many at least, to show progress */

enum dv_access {
	DV_ACCESS_LOCAL = 0,
	DV_ACCESS_READ = 1,	/* peers may read it */
	DV_ACCESS_WRITE = 2,	/* peers may write it */
	DV_ACCESS_RELAXED = 4	/* stores may pass each other, where device and CPU can */
};

/* base is what its owner calls addr; both lie alike in a page. access: enum dv_access. All
 * of it, or nothing. *pinned grows by the bytes that are done, for whoever looks; or NULL. */
int dv_mr_open(struct dv_mr **out, const struct dv_device *d, struct ibv_pd *pd, void *addr,
	       uint64_t length, uint64_t base, unsigned int access, uint64_t *pinned, char *why,
	       size_t size);
/* The same of what no CPU touches: a dma-buf, from that byte of it on. fd is not kept. */
int dv_mr_open_dma_buf(struct dv_mr **out, const struct dv_device *d, struct ibv_pd *pd, int fd,
		       uint64_t offset, uint64_t length, uint64_t base, unsigned int access,
		       uint64_t *pinned, char *why, size_t size);
/* When it returns no request of anybody touches the memory through it any more. */
void dv_mr_close(struct dv_mr *m);

#endif /* TENT_DV_MR_H */
