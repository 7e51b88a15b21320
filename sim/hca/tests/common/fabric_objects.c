/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_objects.c - what a program has of a card: regions, queues, and how it uses them.
 * Written from mlx5dv.h alone, so that it judges the engine and not itself.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "sim/hca/tests/common/fabric.h"

enum { PAGE = 4096, BLOCK = 64, STRIDE = 64 };

static void *pages(uint64_t bytes)
{
	void *p = aligned_alloc(PAGE, (bytes + PAGE) / PAGE * PAGE);

	if (!p)
		abort();
	memset(p, 0, (bytes + PAGE) / PAGE * PAGE);
	return p;
}

static struct umem *pin(void *p, uint64_t bytes)
{
	struct umem *m;

	if (umem_pin(&m, (uintptr_t)p, bytes, true))
		abort();
	return m;
}

static void put32(uint8_t *to, uint32_t v)
{
	v = htobe32(v);
	memcpy(to, &v, sizeof(v));
}

/* ---- regions ---------------------------------------------------------------------- */

struct fabric_region fabric_region_create(struct fabric_host *h, uint64_t length, uint32_t access)
{
	struct fabric_region r = { .bytes = pages(length), .length = length };

	if (hca_mr_create(h->pd, pin(r.bytes, length), (uintptr_t)r.bytes, length, access, &r.mr,
			  &r.key))
		abort();
	return r;
}

void fabric_region_destroy(struct fabric_region *r)
{
	hca_mr_destroy(r->mr);
	free(r->bytes);
}

uint64_t fabric_address(const struct fabric_region *r, uint64_t offset)
{
	return (uintptr_t)r->bytes + offset;
}

/* ---- completion queues ------------------------------------------------------------ */

struct fabric_cq *fabric_cq_create(struct fabric_host *h, uint32_t nr, uint32_t cqe_bytes)
{
	struct fabric_cq *cq = calloc(1, sizeof(*cq));
	struct hca_cq_attr a;

	if (!cq)
		abort();
	*cq = (struct fabric_cq) {
		.host = h, .buffer = pages((uint64_t)nr * cqe_bytes), .record = pages(8),
		.nr = nr, .cqe_bytes = cqe_bytes,
	};
	for (uint32_t i = 0; i < nr; i++)
		cq->buffer[i * cqe_bytes + cqe_bytes - 1] = MLX5_CQE_INVALID << 4;
	a = (struct hca_cq_attr) {
		.buffer = pin(cq->buffer, (uint64_t)nr * cqe_bytes), .record = pin(cq->record, 8),
		.cqe_bytes = cqe_bytes, .nr_cqes = nr, .cookie = cq,
	};
	if (hca_cq_create(h->hca, &a, &cq->cq, &cq->cqn))
		abort();
	return cq;
}

void fabric_cq_destroy(struct fabric_cq *cq)
{
	if (hca_cq_destroy(cq->cq))
		abort();
	free(cq->buffer);
	free(cq->record);
	free(cq);
}

void fabric_cq_arm(struct fabric_cq *cq, bool is_solicited_only)
{
	uint8_t bytes[8];

	put32(bytes, (is_solicited_only ? 1U << 24 : 0) | (cq->ci & 0xffffff));
	put32(bytes + 4, cq->cqn);
	memcpy(cq->record + 4, bytes, 4);
	hca_cq_doorbell(cq->host->hca, bytes);
}

static void parse(const struct fabric_cq *cq, const uint8_t *slot, struct fabric_cqe *out)
{
	const struct mlx5_cqe64 *c = (const void *)(slot + cq->cqe_bytes - 64);
	const struct mlx5_err_cqe *e = (const void *)c;

	memset(out, 0, sizeof(*out));
	memcpy(out->bytes + 128 - cq->cqe_bytes, slot, cq->cqe_bytes);
	out->op_own = c->op_own;
	out->opcode = c->op_own >> 4;
	out->wqe_counter = be16toh(c->wqe_counter);
	out->qpn = be32toh(c->sop_drop_qpn) & 0xffffff;
	out->wqe_opcode = (uint8_t)(be32toh(c->sop_drop_qpn) >> 24);
	out->uidx = be32toh(c->srqn_uidx) & 0xffffff;
	if (out->opcode == MLX5_CQE_REQ_ERR || out->opcode == MLX5_CQE_RESP_ERR) {
		out->syndrome = e->syndrome;
		out->vendor = e->vendor_err_synd;
		return;
	}
	out->byte_count = be32toh(c->byte_cnt);
	out->immediate = c->imm_inval_pkey;
	out->slid = be16toh(c->slid);
	out->flags_rqpn = be32toh(c->flags_rqpn);
	if (c->op_own & MLX5_INLINE_SCATTER_32)
		out->data = out->bytes + 64;
	else if (c->op_own & MLX5_INLINE_SCATTER_64)
		out->data = out->bytes;
}

bool fabric_poll(struct fabric_cq *cq, struct fabric_cqe *out)
{
	const uint8_t *slot = cq->buffer + (uint64_t)(cq->ci & (cq->nr - 1)) * cq->cqe_bytes;
	uint8_t op_own = slot[cq->cqe_bytes - 1];

	if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & 1) != !!(cq->ci & cq->nr))
		return false;
	parse(cq, slot, out);
	cq->ci++;
	put32(cq->record, cq->ci & 0xffffff);
	return true;
}

/* ---- shared receive queues -------------------------------------------------------- */

static uint8_t *srq_wqe(struct fabric_srq *s, uint32_t i)
{
	return s->buffer + (uint64_t)i * s->stride;
}

static void srq_link(struct fabric_srq *s, uint16_t from, uint16_t to)
{
	struct mlx5_wqe_srq_next_seg *next = (void *)srq_wqe(s, from);

	next->next_wqe_index = htobe16(to);
}

struct fabric_srq *fabric_srq_create(struct fabric_host *h, uint32_t nr)
{
	struct fabric_srq *s = calloc(1, sizeof(*s));
	struct hca_srq_attr a;

	if (!s)
		abort();
	*s = (struct fabric_srq) {
		.buffer = pages((uint64_t)nr * STRIDE), .record = pages(8), .nr = nr,
		.stride = STRIDE, .tail = (uint16_t)(nr - 1),
	};
	for (uint32_t i = 0; i < nr; i++)
		srq_link(s, (uint16_t)i, (uint16_t)((i + 1) & (nr - 1)));
	a = (struct hca_srq_attr) {
		.pd = h->pd, .buffer = pin(s->buffer, (uint64_t)nr * STRIDE),
		.record = pin(s->record, 8), .nr_wqes = nr, .stride_bytes = STRIDE, .cookie = s,
	};
	if (hca_srq_create(h->hca, &a, &s->srq, &s->srqn))
		abort();
	return s;
}

void fabric_srq_destroy(struct fabric_srq *s)
{
	if (hca_srq_destroy(s->srq))
		abort();
	free(s->buffer);
	free(s->record);
	free(s);
}

void fabric_srq_free_wqe(struct fabric_srq *s, uint16_t index)
{
	srq_link(s, s->tail, index);
	s->tail = index;
}

static void fill_list(uint8_t *at, uint32_t room, const struct fabric_sge *sge, uint32_t nr)
{
	struct mlx5_wqe_data_seg *seg = (void *)at;
	uint32_t i;

	for (i = 0; i < nr; i++)
		mlx5dv_set_data_seg(&seg[i], sge[i].length, sge[i].key, sge[i].address);
	if (i < room)
		mlx5dv_set_data_seg(&seg[i], 0, 0x100, 0);
}

void fabric_srq_post(struct fabric_srq *s, const struct fabric_sge *sge, uint32_t nr)
{
	uint8_t *wqe = srq_wqe(s, s->head);

	fill_list(wqe + 16, s->stride / 16 - 1, sge, nr);
	s->head = be16toh(((struct mlx5_wqe_srq_next_seg *)wqe)->next_wqe_index);
	put32(s->record, ++s->counter);
}

/* ---- queue pairs ------------------------------------------------------------------ */

struct fabric_qp *fabric_qp_create(struct fabric_host *h, const struct fabric_qp_options *o)
{
	struct fabric_qp *qp = calloc(1, sizeof(*qp));
	struct hca_qp_attr a;
	uint64_t bytes;

	if (!qp)
		abort();
	qp->host = h;
	qp->send_cq = o->send_cq ? o->send_cq : fabric_cq_create(h, 256, 64);
	qp->recv_cq = o->recv_cq ? o->recv_cq : fabric_cq_create(h, 256, 64);
	qp->nr_blocks = o->nr_blocks ? o->nr_blocks : 64;
	qp->nr_recvs = o->srq ? 0 : o->nr_recvs ? o->nr_recvs : 64;
	qp->stride = STRIDE;
	qp->rq_offset = qp->nr_blocks * BLOCK;
	bytes = qp->rq_offset + qp->nr_recvs * STRIDE;
	qp->buffer = pages(bytes);
	qp->record = pages(8);
	a = (struct hca_qp_attr) {
		.transport = o->transport, .pd = h->pd, .send_cq = qp->send_cq->cq,
		.recv_cq = qp->recv_cq->cq, .srq = o->srq ? o->srq->srq : NULL,
		.buffer = pin(qp->buffer, bytes), .record = pin(qp->record, 8),
		.rq_offset = qp->rq_offset, .nr_sq_blocks = qp->nr_blocks,
		.nr_rq_wqes = qp->nr_recvs, .rq_stride_bytes = STRIDE, .uidx = o->uidx,
		.signal_all = o->signal_all, .scatter_send = o->scatter_send,
		.scatter_recv = o->scatter_recv, .cookie = qp,
	};
	if (hca_qp_create(h->hca, &a, &qp->qp, &qp->qpn))
		abort();
	return qp;
}

void fabric_qp_destroy(struct fabric_qp *qp)
{
	if (hca_qp_destroy(qp->qp))
		abort();
	free(qp->buffer);
	free(qp->record);
	free(qp);
}

enum hca_qp_state fabric_state(const struct fabric_qp *qp)
{
	struct hca_qp_values v;

	hca_qp_query(qp->qp, &v);
	return v.state;
}

const struct fabric_path fabric_usual = {
	.mtu = 1024, .psn = 0xfffff0, .max_reads = 16, .timeout = 14, .retries = 7,
	.rnr_retries = 7, .rnr_timer = 12,
	.access = HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_READ |
		  HCA_ACCESS_REMOTE_ATOMIC,
};

static void modify(struct fabric_qp *qp, const struct hca_qp_values *v, uint32_t mask)
{
	if (hca_qp_modify(qp->qp, v, mask | IBV_QP_STATE))
		abort();
}

static struct hca_route route_from(const struct fabric_qp *qp)
{
	struct hca_route r = { .has_grh = true, .hop_limit = 64, .port = 1 };

	r.sgid[10] = r.sgid[11] = r.dgid[10] = r.dgid[11] = 0xff;
	r.sgid[15] = (uint8_t)(qp->host->index + 1);
	r.dgid[15] = (uint8_t)(2 - qp->host->index);
	if (!qp->host->fabric->is_ethernet) {
		r.slid = (uint16_t)(qp->host->index + 1);
		r.dlid = (uint16_t)(2 - qp->host->index);
	}
	return r;
}

struct hca_route fabric_route_of_peer(const struct fabric_qp *qp)
{
	struct hca_route to = route_from(qp), r = to;

	memcpy(r.sgid, to.dgid, sizeof(r.sgid));
	memcpy(r.dgid, to.sgid, sizeof(r.dgid));
	r.slid = to.dlid;
	r.dlid = to.slid;
	return r;
}

void fabric_connect_to(struct fabric_qp *a, uint32_t qpn, uint32_t rq_psn, uint32_t sq_psn,
		       const struct fabric_path *p)
{
	struct hca_qp_values v = {
		.state = HCA_QP_INIT, .path_mtu_bytes = p->mtu, .dest_qpn = qpn,
		.rq_psn = rq_psn, .sq_psn = sq_psn, .access = p->access, .port = 1,
		.max_rd_atomic = p->max_reads, .max_dest_rd_atomic = p->max_reads,
		.min_rnr_timer = p->rnr_timer, .timeout = p->timeout,
		.retry_count = p->retries, .rnr_retry = p->rnr_retries, .route = route_from(a),
	};

	modify(a, &v, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	v.state = HCA_QP_RTR;
	modify(a, &v, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	v.state = HCA_QP_RTS;
	modify(a, &v, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC);
}

void fabric_connect(struct fabric_qp *a, struct fabric_qp *b, const struct fabric_path *p)
{
	if (!p)
		p = &fabric_usual;
	fabric_connect_to(a, b->qpn, p->psn + 100, p->psn, p);
	fabric_connect_to(b, a->qpn, p->psn, p->psn + 100, p);
}

void fabric_start_ud(struct fabric_qp *qp, uint32_t qkey)
{
	struct hca_qp_values v = { .state = HCA_QP_INIT, .qkey = qkey, .port = 1 };

	modify(qp, &v, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	v.state = HCA_QP_RTR;
	modify(qp, &v, 0);
	v.state = HCA_QP_RTS;
	modify(qp, &v, IBV_QP_SQ_PSN);
}

/* ---- work ------------------------------------------------------------------------- */

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
}

static uint32_t put_head(uint8_t *b, const struct fabric_wr *wr)
{
	uint32_t at = 16;

	if (wr->dest_qpn) {
		mlx5dv_set_dgram_seg((void *)(b + at), (uint64_t)wr->qkey << 32, wr->dest_qpn, 1, 0,
				     0, 0, (uint8_t[6]){0}, 3, 64, 1U << 30, (uint8_t *)wr->dgid);
		at += 48;
	} else if (is_atomic(wr->opcode) || wr->opcode == MLX5_OPCODE_RDMA_READ ||
		   wr->opcode == MLX5_OPCODE_RDMA_WRITE ||
		   wr->opcode == MLX5_OPCODE_RDMA_WRITE_IMM) {
		struct mlx5_wqe_raddr_seg *raddr = (void *)(b + at);

		raddr->raddr = htobe64(wr->remote_address);
		raddr->rkey = htobe32(wr->rkey);
		at += 16;
	}
	if (is_atomic(wr->opcode)) {
		struct mlx5_wqe_atomic_seg *atomic = (void *)(b + at);

		atomic->swap_add = htobe64(wr->swap_or_add);
		atomic->compare = htobe64(wr->compare);
		at += 16;
	}
	return at;
}

static uint32_t put_data(uint8_t *b, uint32_t at, const struct fabric_wr *wr)
{
	for (uint32_t i = 0; i < wr->nr_sge; i++, at += 16)
		mlx5dv_set_data_seg((void *)(b + at), wr->sge[i].length, wr->sge[i].key,
				    wr->sge[i].address);
	if (wr->inline_bytes) {
		put32(b + at, 0x80000000U | wr->inline_bytes);
		memcpy(b + at + 4, wr->inline_data, wr->inline_bytes);
		at += (4 + wr->inline_bytes + 15) / 16 * 16;
	}
	return at;
}

uint16_t fabric_write_raw(struct fabric_qp *qp, const void *bytes, uint32_t n)
{
	uint16_t index = qp->sq_pi;
	uint32_t end = qp->nr_blocks * BLOCK, at = (index & (qp->nr_blocks - 1)) * BLOCK;
	uint32_t part = n < end - at ? n : end - at;

	memcpy(qp->buffer + at, bytes, part);
	memcpy(qp->buffer, (const uint8_t *)bytes + part, n - part);
	qp->sq_pi += (uint16_t)((n + BLOCK - 1) / BLOCK);
	put32(qp->record + 4, qp->sq_pi);
	return index;
}

uint16_t fabric_write_wqe(struct fabric_qp *qp, const struct fabric_wr *wr)
{
	uint8_t b[16 * 70] __attribute__((aligned(16)));
	uint32_t n;

	memset(b, 0, sizeof(b));
	n = put_data(b, put_head(b, wr), wr);
	mlx5dv_set_ctrl_seg((void *)b, qp->sq_pi, wr->opcode, 0, qp->qpn, wr->fm_ce_se,
			    (uint8_t)(n / 16), 0, wr->immediate);
	return fabric_write_raw(qp, b, n);
}

void fabric_ring(struct fabric_qp *qp)
{
	hca_send_doorbell(qp->host->hca, qp->qpn);
}

uint16_t fabric_post(struct fabric_qp *qp, const struct fabric_wr *wr)
{
	uint16_t index = fabric_write_wqe(qp, wr);

	fabric_ring(qp);
	return index;
}

void fabric_post_recv(struct fabric_qp *qp, const struct fabric_sge *sge, uint32_t nr)
{
	uint8_t *wqe = qp->buffer + qp->rq_offset + (qp->rq_pi & (qp->nr_recvs - 1)) * STRIDE;

	fill_list(wqe, STRIDE / 16, sge, nr);
	put32(qp->record, ++qp->rq_pi);
}
