/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recv.c - receive queues, a QP's own and shared ones.
 *
 * Both have a record that counts what was posted, in 16 bits. A QP's own WQEs lie in order;
 * a shared queue's name their successor, since the program frees them in any order.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

enum {
	SEGMENT = 16,			/* bytes of struct mlx5_wqe_data_seg, and others */
	END_OF_LIST = 0x100,		/* an lkey */
	WHOLE = 0x80000000,		/* what a byte count of 0 means */
};

/* The bytes are there already; pointers begin at skip. */
static void parse(struct hca_gather *to, uint32_t skip, uint32_t bytes)
{
	to->nr = 0;
	to->length = 0;
	for (uint32_t at = skip; at + SEGMENT <= bytes; at += SEGMENT) {
		struct hca_segment *s = &to->segment[to->nr];
		uint32_t count = get_be32(&to->bytes[at]) & ~WHOLE;

		s->lkey = get_be32(&to->bytes[at + 4]);
		if (!count && s->lkey == END_OF_LIST)
			break;
		s->address = get_be64(&to->bytes[at + 8]);
		s->length = count ? count : WHOLE;
		s->is_inline = false;
		to->length += s->length;
		to->nr++;
	}
}

/* How many are posted and not taken; -EIO for more than the queue holds. */
static int available(struct umem *record, uint64_t offset, uint16_t taken, uint32_t nr)
{
	uint32_t counter;
	uint16_t n;

	if (umem_load32(record, offset, &counter))
		return -EIO;
	n = (uint16_t)(be32toh(counter) - taken);
	return n <= nr ? n : -EIO;
}

/* ---- shared --------------------------------------------------------------------- */

int hca_srq_create(struct hca *h, const struct hca_srq_attr *a, struct hca_srq **out,
		   uint32_t *srqn)
{
	uint64_t bytes = (uint64_t)a->nr_wqes * a->stride_bytes;
	struct hca_srq *srq;

	if (!a->nr_wqes || a->nr_wqes > HCA_MAX_QUEUE || (a->nr_wqes & (a->nr_wqes - 1)) ||
	    a->stride_bytes < 2 * SEGMENT || a->stride_bytes > HCA_MAX_RECV_STRIDE)
		return -EINVAL;
	if (a->buffer_offset > umem_length(a->buffer) ||
	    bytes > umem_length(a->buffer) - a->buffer_offset ||
	    a->record_offset + 4 < 4 || a->record_offset + 4 > umem_length(a->record))
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->hca = h;
	srq->attr = *a;
	if (hca_table_add(&h->srqs, srq, &srq->srqn)) {
		free(srq);
		return -ENOMEM;
	}
	a->pd->users++;
	*out = srq;
	*srqn = srq->srqn;
	return 0;
}

void hca_srq_free(struct hca_srq *srq)
{
	hca_table_remove(&srq->hca->srqs, srq->srqn);
	srq->attr.pd->users--;
	umem_release(srq->attr.buffer);
	umem_release(srq->attr.record);
	free(srq);
}

int hca_srq_destroy(struct hca_srq *srq)
{
	if (srq->users)
		return -EBUSY;
	hca_srq_free(srq);
	return 0;
}

uint32_t hca_srq_limit(const struct hca_srq *srq)
{
	return srq->limit;
}

static int srq_available(const struct hca_srq *srq)
{
	return available(srq->attr.record, srq->attr.record_offset, srq->consumed,
			 srq->attr.nr_wqes);
}

/* Fires once: the program arms it anew. */
static void check_limit(struct hca_srq *srq, int n)
{
	if ((uint32_t)n >= srq->limit)
		return;
	srq->limit = 0;
	hca_event(srq->hca, HCA_EVENT_SRQ_LIMIT, srq->attr.cookie);
}

int hca_srq_set_limit(struct hca_srq *srq, uint32_t limit)
{
	int n = srq_available(srq);

	if (limit > srq->attr.nr_wqes)
		return -EINVAL;
	srq->limit = limit;
	if (n >= 0)
		check_limit(srq, n);
	return 0;
}

static int break_srq(struct hca_srq *srq)
{
	if (!srq->is_broken)
		hca_event(srq->hca, HCA_EVENT_SRQ_ERROR, srq->attr.cookie);
	srq->is_broken = true;
	return -EIO;
}

static int srq_take(struct hca_srq *srq, struct hca_recv *r)
{
	int n = srq->is_broken ? -EIO : srq_available(srq);

	if (!n)
		return -ENOENT;
	if (n < 0 || umem_read(srq->attr.buffer, srq->attr.buffer_offset +
			       (uint64_t)srq->head * srq->attr.stride_bytes,
			       r->to.bytes, srq->attr.stride_bytes))
		return break_srq(srq);
	r->index = srq->head;
	parse(&r->to, SEGMENT, srq->attr.stride_bytes);
	srq->head = get_be16(&r->to.bytes[offsetof(struct mlx5_wqe_srq_next_seg,
						   next_wqe_index)]);
	/* Garbage here would have the card walk off the queue. */
	if (srq->head >= srq->attr.nr_wqes)
		return break_srq(srq);
	srq->consumed++;
	check_limit(srq, n - 1);
	return 0;
}

/* ---- a QP's own ------------------------------------------------------------------ */

static int rq_take(struct hca_qp *qp, struct hca_recv *r)
{
	const struct hca_qp_attr *a = &qp->attr;
	int n = a->nr_rq_wqes ? available(a->record, a->record_offset, qp->rq_consumed,
					  a->nr_rq_wqes) : 0;
	uint32_t slot = qp->rq_consumed & (a->nr_rq_wqes - 1);

	if (!n)
		return -ENOENT;
	if (n < 0 || umem_read(a->buffer, a->rq_offset + (uint64_t)slot * a->rq_stride_bytes,
			       r->to.bytes, a->rq_stride_bytes))
		return -EIO;
	r->index = qp->rq_consumed++;
	parse(&r->to, 0, a->rq_stride_bytes);
	return 0;
}

int hca_recv_take(struct hca_qp *qp, struct hca_recv *r)
{
	int rc = qp->attr.srq ? srq_take(qp->attr.srq, r) : rq_take(qp, r);

	r->is_held = !rc;
	return rc;
}

/* A shared queue's memory is of its own domain. IBA 10.2.9. */
int hca_recv_write(struct hca_qp *qp, uint64_t offset, const void *from, uint32_t n)
{
	const struct hca_pd *pd = qp->attr.srq ? qp->attr.srq->attr.pd : qp->attr.pd;

	return hca_gather_write(qp->hca, pd, &qp->resp.recv.to, offset, from, n);
}

void hca_recv_flush(struct hca_qp *qp)
{
	struct hca_recv *r = &qp->resp.recv;

	while (r->is_held || (!qp->attr.srq && !hca_recv_take(qp, r))) {
		struct hca_done d = { .qp = qp, .wqe_index = r->index };

		r->is_held = false;
		hca_complete_error(&d, false, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	}
}
