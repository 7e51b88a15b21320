/* SPDX-License-Identifier: Apache-2.0 */
#include "dv/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ring/order.h"

#define HUGE_PAGE (2ull << 20)
#define LARGE (8ull << 30)	/* takes seconds */

static int verbs_access(unsigned int access)
{
	return IBV_ACCESS_LOCAL_WRITE |
	       (access & DV_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0) |
	       (access & DV_ACCESS_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (access & DV_ACCESS_RELAXED ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

/* What the device takes at once, in whole pages; of huge ones where that leaves some, so
 * that none of them is cut. Less of what is large. */
static uint64_t piece_bytes(const struct dv_device *d, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), most = d->max_mr_bytes;

	if (length >= LARGE && length / DV_PIECES_WANTED < most)
		most = length / DV_PIECES_WANTED + HUGE_PAGE;
	return most >= HUGE_PAGE ? most & ~(HUGE_PAGE - 1) : most & ~(page - 1);
}

static int refuse(const struct dv_device *d, uint64_t length, uint64_t base, int error,
		  char *why, size_t size)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
		snprintf(why, size, "%s: %" PRIu64 " bytes at 0x%" PRIx64 " cannot be registered: "
			 "there is no memory, or RLIMIT_MEMLOCK, %" PRIu64 " bytes, is too small "
			 "for all that is registered (ulimit -l, LimitMEMLOCK=)", d->name, length,
			 base, (uint64_t)limit.rlim_cur);
	else
		snprintf(why, size, "%s: %" PRIu64 " bytes at 0x%" PRIx64 " cannot be registered: "
			 "%s", d->name, length, base, strerror(error));
	return -error;
}

static int check_pieces(const struct dv_device *d, uint64_t length, uint64_t base,
			uint64_t piece, char *why, size_t size)
{
	if (piece && (length - 1) / piece < DV_PIECES_MAX)
		return 0;
	snprintf(why, size, "%s: %" PRIu64 " bytes at 0x%" PRIx64 " cannot be registered: the "
		 "device takes %" PRIu64 " at once; allowed: up to %u times as many", d->name,
		 length, base, d->max_mr_bytes, DV_PIECES_MAX);
	return -EFBIG;
}

/* Where the memory is: mapped at addr, or with addr NULL in a dma-buf. */
struct source {
	uint8_t *addr;
	int fd;
	uint64_t offset;
};

static struct ibv_mr *register_piece(struct ibv_pd *pd, const struct source *s, uint64_t at,
				     uint64_t n, uint64_t iova, int access)
{
	if (s->addr)
		return ibv_reg_mr_iova(pd, s->addr + at, n, iova, access);
	return ibv_reg_dmabuf_mr(pd, s->offset + at, n, iova, s->fd, access);
}

static int register_pieces(struct dv_mr *m, struct ibv_pd *pd, const struct source *s,
			   uint64_t length, int access, uint64_t *pinned)
{
	const struct dv_keys *k = &m->local;

	for (uint64_t at = 0; at < length; at += k->piece_bytes) {
		uint64_t n = length - at < k->piece_bytes ? length - at : k->piece_bytes;
		struct ibv_mr *mr;

		errno = 0;
		mr = register_piece(pd, s, at, n, k->base + at, access);
		if (!mr)
			return errno ? -errno : -EIO;
		m->mrs[m->local.nr] = mr;
		m->local.keys[m->local.nr++] = mr->lkey;
		if (pinned)
			fetch_add(pinned, n);	/* a count: no pair */
	}
	return 0;
}

static void tell_peers(struct dv_mr *m)
{
	m->remote = m->local;
	for (uint32_t i = 0; i < m->remote.nr; i++)
		m->remote.keys[i] = m->mrs[i]->rkey;
}

static int mr_open(struct dv_mr **out, const struct dv_device *d, struct ibv_pd *pd,
		   const struct source *s, uint64_t length, uint64_t base, unsigned int access,
		   uint64_t *pinned, char *why, size_t size)
{
	uint64_t piece = piece_bytes(d, length);
	struct dv_mr *m;
	int rc = check_pieces(d, length, base, piece, why, size);

	if (rc < 0)
		return rc;
	m = calloc(1, sizeof(*m));
	if (!m)
		return refuse(d, length, base, ENOMEM, why, size);
	m->local.base = base;
	m->local.end = base + length;
	m->local.piece_bytes = piece;
	rc = register_pieces(m, pd, s, length, verbs_access(access), pinned);
	if (rc < 0) {
		dv_mr_close(m);
		return refuse(d, length, base, -rc, why, size);
	}
	if (access & (DV_ACCESS_READ | DV_ACCESS_WRITE))
		tell_peers(m);
	*out = m;
	return 0;
}

int dv_mr_open(struct dv_mr **out, const struct dv_device *d, struct ibv_pd *pd, void *addr,
	       uint64_t length, uint64_t base, unsigned int access, uint64_t *pinned, char *why,
	       size_t size)
{
	const struct source s = { .addr = addr };

	return mr_open(out, d, pd, &s, length, base, access, pinned, why, size);
}

int dv_mr_open_dma_buf(struct dv_mr **out, const struct dv_device *d, struct ibv_pd *pd, int fd,
		       uint64_t offset, uint64_t length, uint64_t base, unsigned int access,
		       uint64_t *pinned, char *why, size_t size)
{
	const struct source s = { .fd = fd, .offset = offset };

	return mr_open(out, d, pd, &s, length, base, access, pinned, why, size);
}

void dv_mr_close(struct dv_mr *m)
{
	while (m->local.nr)
		ibv_dereg_mr(m->mrs[--m->local.nr]);
	free(m);
}
