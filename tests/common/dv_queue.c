/* SPDX-License-Identifier: Apache-2.0 */
/* dv_queue.c - queues in plain memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/common/dv_queue.h"

#define REGISTER 0x800

static void init(struct dv_queue *q)
{
	dv_uar_init(&q->uar, &q->qp);
	assert_int_equal(dv_sq_init(&q->sq, &q->qp, QUEUE_QPN, QUEUE_READS, &q->uar, q->book), 0);
	assert_int_equal(dv_cq_init(&q->cq, &q->dcq), 0);
}

void dv_queue_open(struct dv_queue *q, uint32_t nr_bb, uint32_t cqe_bytes, uint32_t half_bytes)
{
	struct dv_queue_memory *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(m, MAP_FAILED);
	assert_true(dv_sq_book_bytes(nr_bb) <= sizeof(q->book));
	memset(m, 0xa5, sizeof(*m));
	*q = (struct dv_queue) { .memory = m, .nr_bb = nr_bb, .half_bytes = half_bytes };
	q->qp = (struct mlx5dv_qp) {
		.dbrec = m->dbrec,
		.sq = { m->sq, nr_bb, DV_BB },
		.bf = { m->uar + REGISTER, half_bytes },
	};
	q->dcq = (struct mlx5dv_cq) {
		.buf = m->cqes, .dbrec = m->cq_dbrec, .cqe_cnt = nr_bb, .cqe_size = cqe_bytes,
		.cq_uar = m->cq_uar, .cqn = QUEUE_CQN,
	};
	init(q);
}

void dv_queue_close(struct dv_queue *q)
{
	munmap(q->memory, sizeof(*q->memory));
}

/* Entries of the lap before have the other owner bit. */
void dv_queue_seek(struct dv_queue *q, uint32_t sq_position, uint32_t cq_position)
{
	uint32_t lap = cq_position & ~(q->nr_bb - 1);

	init(q);
	q->sq.pi = q->sq.rung = sq_position;
	dv_sq_free(&q->sq, sq_position, q->nr_bb, (uint16_t)sq_position); /* READs wrap as well */
	q->sq.reads = q->sq.done.reads;
	q->sq.last = sq_position - 1;
	q->sq.signal_due = q->sq.last + DV_SIGNAL_EVERY;
	if (cq_position) {
		q->pi = lap - q->nr_bb;
		while (q->pi != cq_position)
			dv_queue_complete(q, 0);
	}
	q->pi = cq_position;
	q->cq.lap = lap;
	q->cq.next += (cq_position & (q->nr_bb - 1)) * q->dcq.cqe_size;
	q->cq.owner = !!(cq_position & q->nr_bb);
}

uint8_t *dv_queue_register(struct dv_queue *q)
{
	return q->uar.reg + q->uar.offset;
}

uint8_t *dv_queue_block(struct dv_queue *q, uint32_t at)
{
	return q->memory->sq + (at & (q->nr_bb - 1)) * DV_BB;
}

bool dv_queue_is_signalled(struct dv_queue *q, uint32_t at)
{
	return dv_queue_block(q, at)[11] & MLX5_WQE_CTRL_CQ_UPDATE;
}

static struct mlx5_cqe64 *next_entry(struct dv_queue *q)
{
	size_t at = (q->pi & (q->nr_bb - 1)) * q->dcq.cqe_size + q->dcq.cqe_size - 64;

	return (struct mlx5_cqe64 *)(void *)(q->memory->cqes + at);
}

static void write_entry(struct dv_queue *q, uint8_t opcode, uint16_t counter, uint8_t op_own)
{
	struct mlx5_cqe64 *cqe = next_entry(q);

	cqe->sop_drop_qpn = htobe32((uint32_t)opcode << 24 | QUEUE_QPN);
	cqe->wqe_counter = htobe16(counter);
	cqe->op_own = (uint8_t)(op_own | !!(q->pi & q->nr_bb));
	q->pi++;
}

void dv_queue_complete(struct dv_queue *q, uint16_t counter)
{
	write_entry(q, MLX5_OPCODE_RDMA_WRITE, counter, MLX5_CQE_REQ << 4);
}

void dv_queue_fail(struct dv_queue *q, uint16_t counter, uint8_t syndrome)
{
	struct mlx5_err_cqe *e = (struct mlx5_err_cqe *)next_entry(q);

	e->syndrome = syndrome;
	e->vendor_err_synd = 0x88;
	write_entry(q, MLX5_OPCODE_RDMA_WRITE, counter, MLX5_CQE_REQ_ERR << 4);
}

void dv_queue_entry(struct dv_queue *q, uint16_t counter, uint8_t op_own)
{
	write_entry(q, MLX5_OPCODE_RDMA_WRITE, counter, op_own);
}
