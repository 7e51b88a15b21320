/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wqe.h - work queue entries as a ConnectX reads them, a struct for each shape.
 *
 * A send queue is made of basic blocks of 64 bytes (WQEBB); a WQE is one to four of them,
 * in segments of 16 bytes. Every number is big-endian. A slot is dirty: a builder writes
 * each byte that its segments have, and the card reads no others. Every WQE is built
 * without a request for a completion: dv_sq_ring() asks for one on the last.
 */
#ifndef TENT_DV_WQE_H
#define TENT_DV_WQE_H

#include <assert.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdint.h>

#define DV_BB 64u		/* bytes of a basic block */
#define DV_SEGMENT 16u		/* bytes that ctrl.qpn_ds counts */
#define DV_INLINE_MAX 220u	/* bytes of data in a WQE of four blocks */
#define DV_PIECE_MAX 0x7fffffffu /* bytes: 31 bits, of which 0 would mean 2^31 */

/* What one WQE moves. Keys as verbs has them. */
struct dv_piece {
	uint64_t local;		/* address in the space of lkey's region */
	uint64_t remote;	/* the same of rkey's */
	uint32_t lkey, rkey;
	uint32_t length;	/* bytes, 1..DV_PIECE_MAX */
};

/* RDMA WRITE and READ: ctrl | raddr | data. */
struct dv_wqe_rdma {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	struct mlx5_wqe_data_seg data;
	uint8_t unused[16];	/* no segment: neither written nor read */
};
static_assert(sizeof(struct dv_wqe_rdma) == DV_BB, "one block, so it never wraps");

/* RDMA WRITE of bytes that travel in the WQE: ctrl | raddr | length, bytes. */
struct dv_wqe_inline {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	struct mlx5_wqe_inl_data_seg head;
	uint8_t bytes[DV_INLINE_MAX];	/* those of the last segment that are data, then zeroes */
};
static_assert(sizeof(struct dv_wqe_inline) == 4 * DV_BB, "four blocks, half a BlueFlame register");
static_assert(offsetof(struct dv_wqe_inline, bytes) == 36, "data follows its length");

/* Nothing: fills the end of the queue where the next WQE would be split by it. */
struct dv_wqe_nop {
	struct mlx5_wqe_ctrl_seg ctrl;
	uint8_t unused[48];	/* no segment */
};
static_assert(sizeof(struct dv_wqe_nop) == DV_BB, "one block");

/* Of segments, in the unit of ctrl.qpn_ds. */
#define DV_RDMA_DS (offsetof(struct dv_wqe_rdma, unused) / DV_SEGMENT)
#define DV_NOP_DS (offsetof(struct dv_wqe_nop, unused) / DV_SEGMENT)

static inline uint32_t dv_inline_ds(uint32_t length)
{
	return ((uint32_t)offsetof(struct dv_wqe_inline, bytes) + length + DV_SEGMENT - 1) /
	       DV_SEGMENT;
}

/* Blocks of a WQE that carries length bytes, 1..4. */
static inline uint32_t dv_inline_bb(uint32_t length)
{
	return ((uint32_t)offsetof(struct dv_wqe_inline, bytes) + length + DV_BB - 1) / DV_BB;
}

/* Which QP, and how long: the same in all WQEs of a queue and shape. */
static inline __be32 dv_qpn_ds(uint32_t qpn, uint32_t ds)
{
	return htobe32(qpn << 8 | ds);
}

/* pi: of the WQE's first block, of which it holds 16 bits. */
static inline struct mlx5_wqe_ctrl_seg dv_ctrl(uint8_t opcode, uint32_t pi, __be32 qpn_ds)
{
	return (struct mlx5_wqe_ctrl_seg) {
		.opmod_idx_opcode = htobe32((pi & 0xffff) << 8 | opcode),
		.qpn_ds		  = qpn_ds,
	};
}

/* opcode: MLX5_OPCODE_RDMA_WRITE, which reads local memory, or MLX5_OPCODE_RDMA_READ.
 * qpn_ds: with DV_RDMA_DS. */
static inline void dv_wqe_rdma(struct dv_wqe_rdma *w, uint8_t opcode, uint32_t pi,
			       __be32 qpn_ds, const struct dv_piece *p)
{
	w->ctrl = dv_ctrl(opcode, pi, qpn_ds);
	w->raddr.raddr	   = htobe64(p->remote);
	w->raddr.rkey	   = htobe32(p->rkey);
	w->raddr.reserved  = 0;
	w->data.byte_count = htobe32(p->length);
	w->data.lkey	   = htobe32(p->lkey);
	w->data.addr	   = htobe64(p->local);
}

static inline void dv_wqe_nop(struct dv_wqe_nop *w, uint32_t pi, uint32_t qpn)
{
	w->ctrl = dv_ctrl(MLX5_OPCODE_NOP, pi, dv_qpn_ds(qpn, DV_NOP_DS));
}

/* bytes: what goes to p->remote, p->length <= DV_INLINE_MAX of them, readable by the CPU;
 * p->local and p->lkey play no part. */
void dv_wqe_inline(struct dv_wqe_inline *w, uint32_t pi, uint32_t qpn,
		   const struct dv_piece *p, const void *bytes);

/* Bytes of any WQE that carries some: data and inline data have their length in one place. */
static inline uint32_t dv_wqe_length(const void *wqe)
{
	const struct dv_wqe_rdma *w = wqe;

	static_assert(offsetof(struct dv_wqe_rdma, data.byte_count) ==
		      offsetof(struct dv_wqe_inline, head.byte_count), "the same segment");
	return be32toh(w->data.byte_count) & DV_PIECE_MAX;
}

/* The address at the peer of the same. */
static inline uint64_t dv_wqe_remote(const void *wqe)
{
	const struct dv_wqe_rdma *w = wqe;

	return be64toh(w->raddr.raddr);
}

#endif /* TENT_DV_WQE_H */
