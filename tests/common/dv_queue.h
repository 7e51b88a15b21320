/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dv_queue.h - a send queue and its completion queue in plain memory: the test is the card.
 * What the card reads and writes is shared with children, so that a parent can watch one.
 */
#ifndef TENT_TESTS_DV_QUEUE_H
#define TENT_TESTS_DV_QUEUE_H

#include "dv/run.h"

#define QUEUE_QPN 0x123456u
#define QUEUE_CQN 0x77u
#define QUEUE_BLOCKS_MAX 1024u
#define QUEUE_READS 16u

/* What the card sees. */
struct dv_queue_memory {
	_Alignas(64) uint8_t sq[QUEUE_BLOCKS_MAX * DV_BB];
	_Alignas(64) uint8_t cqes[QUEUE_BLOCKS_MAX * 128];
	_Alignas(64) uint8_t uar[4096];		/* its register at 0x800 */
	_Alignas(64) uint8_t cq_uar[4096];
	_Alignas(64) __be32 dbrec[2];
	_Alignas(64) __be32 cq_dbrec[2];
};

struct dv_queue {
	struct dv_queue_memory *memory;
	struct mlx5dv_qp qp;
	struct mlx5dv_cq dcq;
	struct dv_uar uar;
	struct dv_sq sq;
	struct dv_cq cq;
	_Alignas(16) uint8_t book[QUEUE_BLOCKS_MAX * 16];
	uint32_t pi;		/* of the completion queue, as the card counts it */
	uint32_t nr_bb;
	uint32_t half_bytes;
};

/* nr_bb blocks and as many entries of cqe_bytes; all is dirty before. half_bytes: of
 * BlueFlame, 0 or 256. Fails the test where it cannot. */
void dv_queue_open(struct dv_queue *q, uint32_t nr_bb, uint32_t cqe_bytes, uint32_t half_bytes);
void dv_queue_close(struct dv_queue *q);

/* Moves a queue in which nothing is under way to any position, as if it had come there. */
void dv_queue_seek(struct dv_queue *q, uint32_t sq_position, uint32_t cq_position);

/* The register half that comes next. */
uint8_t *dv_queue_register(struct dv_queue *q);
/* The WQE at a position. */
uint8_t *dv_queue_block(struct dv_queue *q, uint32_t at);
bool dv_queue_is_signalled(struct dv_queue *q, uint32_t at);

/* Writes the next entry as the card does: the WQE whose first block is counter ended well,
 * or with a syndrome; or an entry with any high bits of op_own. */
void dv_queue_complete(struct dv_queue *q, uint16_t counter);
void dv_queue_fail(struct dv_queue *q, uint16_t counter, uint8_t syndrome);
void dv_queue_entry(struct dv_queue *q, uint16_t counter, uint8_t op_own);

#endif /* TENT_TESTS_DV_QUEUE_H */
