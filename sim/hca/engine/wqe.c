/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wqe.c - send WQEs: struct mlx5_wqe_ctrl_seg of mlx5dv.h and what follows it.
 *
 * A WQE is copied once and only the copy is looked at. One that no program should have
 * written ends as hardware ends it, with a local error.
 */
#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

enum {
	SEGMENT = 16,
	INLINE_BIT = 0x80000000,
	WHOLE = 0x80000000,		/* what a byte count of 0 means */
	AV_BYTES = 48, SHORT_AV_BYTES = 16,
	AV_IS_LONG = 0x80000000,	/* of dqp_dct */
	AV_HAS_GRH = 1 << 30,		/* of grh_gid_fl */
	OWN_QKEY = 0x80000000,		/* of a Q_Key: the QP's is meant. IBA 10.2.5 */
};

const char *hca_wqe_name(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_NOP: return "nop";
	case MLX5_OPCODE_SEND_INVAL: return "send_inval";
	case MLX5_OPCODE_RDMA_WRITE: return "write";
	case MLX5_OPCODE_RDMA_WRITE_IMM: return "write_imm";
	case MLX5_OPCODE_SEND: return "send";
	case MLX5_OPCODE_SEND_IMM: return "send_imm";
	case MLX5_OPCODE_RDMA_READ: return "read";
	case MLX5_OPCODE_ATOMIC_CS: return "compare_swap";
	case MLX5_OPCODE_ATOMIC_FA: return "fetch_add";
	default: return "unknown";
	}
}

bool hca_wqe_is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
}

bool hca_wqe_wants_response(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_RDMA_READ || hca_wqe_is_atomic(opcode);
}

uint8_t hca_wqe_verdict(struct hca *h, const struct hca_wqe *w)
{
	struct hca_faults *f = h->config.faults;
	uint8_t chosen = 0;

	if (hca_fault_due(&f->syndrome_at))
		chosen = (uint8_t)__atomic_load_n(&f->syndrome, __ATOMIC_RELAXED);
	return chosen ? chosen : w->syndrome;
}

/* Copies n bytes from the queue, which wraps at its end. */
static int copy(const struct hca_qp *qp, uint16_t index, uint8_t *to, uint32_t n)
{
	uint32_t queue_bytes = qp->attr.nr_sq_blocks * HCA_BLOCK;
	uint32_t at = (index & (qp->attr.nr_sq_blocks - 1)) * HCA_BLOCK;
	uint32_t part = queue_bytes - at < n ? queue_bytes - at : n;
	int rc = umem_read(qp->attr.buffer, qp->attr.sq_offset + at, to, part);

	return rc || part == n ? rc
			       : umem_read(qp->attr.buffer, qp->attr.sq_offset, to + part,
					   n - part);
}

/* A compact address vector has no GRH; bit 31 of dqp_dct tells. 0: too short a WQE. */
static uint32_t read_address_vector(const struct hca_qp *qp, const uint8_t *av, uint32_t left,
				    struct hca_wqe *w)
{
	bool is_long = left >= SHORT_AV_BYTES && (get_be32(av + 8) & AV_IS_LONG);
	uint32_t bytes = is_long ? AV_BYTES : SHORT_AV_BYTES, grh;

	if (left < bytes)
		return 0;
	w->qkey = get_be32(av);
	if (w->qkey & OWN_QKEY)
		w->qkey = qp->values.qkey;
	w->dest_qpn = get_be32(av + 8) & HCA_QPN_MASK;
	w->route = (struct hca_route) { .port = qp->values.port, .sl = av[12] & 0xf };
	/* On Ethernet the LID's place has the UDP source port, and SL is a priority. */
	if (qp->hca->config.is_ethernet) {
		w->route.udp_source_port = get_be16(av + 14);
		w->route.sl >>= 1;
	} else {
		w->route.dlid = get_be16(av + 14);
	}
	if (!is_long)
		return bytes;
	grh = get_be32(av + 28);
	w->route.has_grh = qp->hca->config.is_ethernet || (grh & AV_HAS_GRH);
	w->route.sgid_index = (uint8_t)(grh >> 20);
	w->route.flow_label = grh & 0xfffff;
	w->route.tclass = av[26];
	w->route.hop_limit = av[27];
	memcpy(w->route.dgid, av + 32, sizeof(w->route.dgid));
	return bytes;
}

/* Where the data segments begin; 0: the opcode is none of this QP's, or its WQE too short. */
static uint32_t read_head(const struct hca_qp *qp, const uint8_t *b, uint32_t bytes,
			  struct hca_wqe *w)
{
	uint32_t at = SEGMENT, n;

	switch (w->opcode) {
	case MLX5_OPCODE_NOP:
		return at;
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		if (qp->attr.transport == HCA_RC)
			return at;
		n = read_address_vector(qp, b + at, bytes - at, w);
		return n ? at + n : 0;
	case MLX5_OPCODE_SEND_INVAL:
		return qp->attr.transport == HCA_RC ? at : 0;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		n = SEGMENT;
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		n = 2 * SEGMENT;
		break;
	default:
		return 0;
	}
	if (qp->attr.transport != HCA_RC || bytes < at + n)
		return 0;
	w->remote_address = get_be64(b + at);
	w->rkey = get_be32(b + at + 8);
	w->swap_or_add = n > SEGMENT ? get_be64(b + at + 16) : 0;
	w->compare = n > SEGMENT ? get_be64(b + at + 24) : 0;
	return at + n;
}

/* One segment, a pointer or inline data. Its bytes in the WQE, or 0: it does not fit. */
static uint32_t read_segment(const uint8_t *b, uint32_t at, uint32_t end, struct hca_segment *s)
{
	uint32_t count = get_be32(b + at);

	s->is_inline = count & INLINE_BIT;
	s->lkey = get_be32(b + at + 4);
	s->address = get_be64(b + at + 8);
	s->length = count ? count : WHOLE;
	if (!s->is_inline)
		return SEGMENT;
	s->length = count & ~(uint32_t)INLINE_BIT;
	s->address = at + 4;
	if (s->length > end - at - 4)
		return 0;
	return (4 + s->length + SEGMENT - 1) / SEGMENT * SEGMENT;
}

/* A syndrome, or 0. */
static uint8_t read_data(struct hca_wqe *w, uint32_t at, uint32_t end)
{
	struct hca_gather *g = &w->data;

	while (at < end && w->opcode != MLX5_OPCODE_NOP) {
		struct hca_segment *s = &g->segment[g->nr];
		uint32_t n = read_segment(g->bytes, at, end, s);

		if (!n || (s->is_inline && hca_wqe_wants_response(w->opcode)))
			return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		g->length += s->length;
		g->nr++;
		at += n;
	}
	if (g->length > HCA_MAX_MESSAGE_BYTES || (hca_wqe_is_atomic(w->opcode) && g->length != 8))
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	return 0;
}

static uint8_t decode(const struct hca_qp *qp, uint16_t pi, struct hca_wqe *w)
{
	uint8_t *b = w->data.bytes;
	uint32_t bytes, at;

	if (copy(qp, w->index, b, SEGMENT))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->opcode = b[3];
	bytes = (get_be32(b + 4) & 0x3f) * SEGMENT;
	/* A size of nothing, or past what is posted: the card cannot know the next. */
	if (!bytes || (bytes + HCA_BLOCK - 1) / HCA_BLOCK > (uint16_t)(pi - w->index))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->nr_blocks = (uint16_t)((bytes + HCA_BLOCK - 1) / HCA_BLOCK);
	w->fence = b[11] >> 5;
	w->is_signalled = qp->attr.signal_all || (b[11] & MLX5_WQE_CTRL_CQ_UPDATE);
	w->is_solicited = b[11] & MLX5_WQE_CTRL_SOLICITED;
	memcpy(&w->immediate, b + 12, sizeof(w->immediate));
	if (copy(qp, w->index, b, bytes) || b[0] || get_be16(b + 1) != w->index ||
	    get_be32(b + 4) >> 8 != qp->qpn)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	at = read_head(qp, b, bytes, w);
	return at ? read_data(w, at, bytes) : MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
}

void hca_wqe_read(const struct hca_qp *qp, uint16_t index, uint16_t pi, struct hca_wqe *w)
{
	w->index = index;
	w->nr_blocks = 1;
	w->fence = 0;
	w->is_signalled = w->is_solicited = false;
	w->data.nr = 0;
	w->data.length = 0;
	w->syndrome = decode(qp, pi, w);
}
