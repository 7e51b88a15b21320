/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wqe_cost.c - what perf/cost.sh counts of RDMA: requests become WQEs and completions end
 * requests, by hand (dv/) and, doing the same work, by libmlx5.
 *
 *   wqe_cost dv BATCH       queues in plain memory; the program is the card, too
 *   wqe_cost verbs BATCH    ibv_post_send and ibv_poll_cq on the first device there is
 *
 * Each round posts BATCH RDMA WRITEs of 64 bytes, by dv_post() or verbs_post(),
 * waits until the card has written their one completion, and takes it by dv_reap() or
 * verbs_reap(): one look that finds it, one that finds no more, one at the clock. Only what
 * runs inside these four is counted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dv/run.h"
#include "ring/clock.h"

#define BATCH_MAX 256
#define ROUNDS 256		/* counted, and as many before */
#define VERBS_ROUNDS 32		/* a software device takes its time */
#define BLOCKS 1024u
#define BYTES 64

/* What is moved, and where it stands once it has ended. */
struct request {
	struct dv_piece piece;
	uint64_t ended_ticks;	/* 0: not yet */
};

struct world {
	/* dv */
	struct dv_sq sq;
	struct dv_cq cq;
	uint8_t *memory;	/* of its queue */
	uint32_t cqes;		/* written by the card */
	struct request requests[BATCH_MAX];
	uint32_t nr;
	/* verbs */
	struct ibv_qp *qp;
	struct ibv_cq *ibv_cq;
	struct ibv_send_wr wr[BATCH_MAX];
	struct ibv_sge sge[BATCH_MAX];
};

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "wqe_cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- where counting begins and ends ----------------------------------------- */

static __attribute__((noinline)) void cost_begin(void)
{
	__asm__ volatile("# differs from cost_end, or the compiler folds them" ::: "memory");
}

static __attribute__((noinline)) void cost_end(void)
{
	__asm__ volatile("" ::: "memory");
}

/* ---- by hand ----------------------------------------------------------------- */

static __attribute__((noinline)) void dv_post(struct world *w)
{
	for (uint32_t i = 0; i < w->nr; i++)
		need(dv_sq_write(&w->sq, &w->requests[i].piece, &w->requests[i]), "no room");
	dv_sq_ring(&w->sq);
}

static __attribute__((noinline)) void dv_reap(struct world *w)
{
	uint64_t now = ticks_now();
	struct dv_run run;
	struct dv_op op;

	while (dv_run_next(&w->cq, &w->sq, &run))
		while (dv_run_op(&w->sq, &run, &op)) {
			need(!op.fault, "a WRITE failed");
			((struct request *)op.cookie)->ended_ticks = now;
		}
}

static void dv_open(struct world *w)
{
	static _Alignas(64) uint8_t sq[BLOCKS * DV_BB], cqes[BLOCKS * 64], registers[512];
	static _Alignas(16) uint8_t book[BLOCKS * 16];
	static __be32 records[4];
	static struct dv_uar uar;
	struct mlx5dv_qp qp = {
		.dbrec = records, .sq = { sq, BLOCKS, DV_BB }, .bf = { registers, 256 },
	};
	struct mlx5dv_cq cq = {
		.buf = cqes, .dbrec = records + 2, .cqe_cnt = BLOCKS, .cqe_size = 64,
	};

	w->memory = cqes;
	dv_uar_init(&uar, &qp);
	need(!dv_sq_init(&w->sq, &qp, 0x1234, 16, &uar, book) && !dv_cq_init(&w->cq, &cq),
	     "queues");
	for (uint32_t i = 0; i < w->nr; i++)
		w->requests[i].piece = (struct dv_piece) {
			.local = 0x100000 + i * 4096, .remote = 0x900000 + i * 4096,
			.lkey = 1, .rkey = 2, .length = BYTES,
		};
}

/* As the card does, whoever asked for a completion gets one. */
static void dv_complete(struct world *w)
{
	for (uint32_t at = w->sq.ci; at != w->sq.rung; at++) {
		uint8_t *wqe = w->sq.buf + (at & w->sq.mask) * DV_BB;
		struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)(void *)
			(w->memory + (w->cqes & (BLOCKS - 1)) * 64);

		if (!(wqe[11] & MLX5_WQE_CTRL_CQ_UPDATE))
			continue;
		cqe->wqe_counter = htobe16(at & 0xffff);
		cqe->op_own = !!(w->cqes++ & BLOCKS);
	}
}

/* ---- by libmlx5 --------------------------------------------------------------- */

static __attribute__((noinline)) void verbs_post(struct world *w)
{
	struct ibv_send_wr *bad;

	need(!ibv_post_send(w->qp, w->wr, &bad), "ibv_post_send");
}

static __attribute__((noinline)) void verbs_reap(struct world *w)
{
	uint64_t now = ticks_now();
	struct ibv_wc wc;

	while (ibv_poll_cq(w->ibv_cq, 1, &wc) > 0) {
		need(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		for (uint32_t i = 0; i <= wc.wr_id % BATCH_MAX; i++)
			w->requests[i].ended_ticks = now;
	}
}

static void verbs_connect(struct world *w, struct ibv_context *context)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_port_attr port;
	union ibv_gid gid;

	need(!ibv_query_port(context, 1, &port), "port");
	need(!ibv_query_gid(context, 1, 0, &gid), "GID");
	need(!ibv_modify_qp(w->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR, .dest_qp_num = w->qp->qp_num, .path_mtu = port.active_mtu,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .grh = { .dgid = gid, .hop_limit = 64 },
			     .dlid = port.lid, .port_num = 1 },
	};
	need(!ibv_modify_qp(w->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	need(!ibv_modify_qp(w->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* The last of each 64 is signalled, and the last of all. */
static void verbs_fill(struct world *w, const struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < w->nr; i++) {
		bool is_last = i == w->nr - 1;

		w->sge[i] = (struct ibv_sge) { (uintptr_t)mr->addr + i * BYTES, BYTES, mr->lkey };
		w->wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .next = is_last ? NULL : &w->wr[i + 1],
			.sg_list = &w->sge[i], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = is_last ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = { (uintptr_t)mr->addr + (BATCH_MAX + i) * BYTES, mr->rkey },
		};
	}
}

static void verbs_open(struct world *w)
{
	static _Alignas(4096) uint8_t memory[2 * BATCH_MAX * BYTES];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = BLOCKS / 4, .max_send_sge = 1 },
	};
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	need(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	need(context, list[0]->name);
	pd = ibv_alloc_pd(context);
	need(pd, "protection domain");
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	w->ibv_cq = ibv_create_cq(context, BLOCKS, NULL, NULL, 0);
	a.send_cq = a.recv_cq = w->ibv_cq;
	need(mr && w->ibv_cq && (w->qp = ibv_create_qp(pd, &a)), "queues");
	verbs_connect(w, context);
	verbs_fill(w, mr);
}

/* Until all that the batch will bring lies in the queue: it is read from there, beside
 * libmlx5, so that no look of the counted kind is in vain. */
static void verbs_wait(struct world *w)
{
	struct mlx5dv_cq cq;
	struct mlx5dv_obj o = { .cq = { w->ibv_cq, &cq } };
	uint32_t at;
	const struct mlx5_cqe64 *cqe;

	need(!mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
	at = w->cqes & (cq.cqe_cnt - 1);
	cqe = (const struct mlx5_cqe64 *)(const void *)
	      ((uint8_t *)cq.buf + (at + 1) * cq.cqe_size - 64);
	for (;;) {
		uint8_t op_own = load_relaxed(&cqe->op_own);

		if (op_own >> 4 != MLX5_CQE_INVALID && (op_own & 1) == !!(w->cqes & cq.cqe_cnt))
			break;
		usleep(20); /* the card may be a thread under the same valgrind */
	}
	device_load_fence();	/* D3 */
	w->cqes++;
}

/* ---- rounds ------------------------------------------------------------------- */

static uint32_t count_ended(struct world *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nr; i++) {
		n += w->requests[i].ended_ticks != 0;
		w->requests[i].ended_ticks = 0;
	}
	return n;
}

static void round_trip(struct world *w, bool by_hand)
{
	if (by_hand) {
		dv_post(w);
		dv_complete(w);
		dv_reap(w);
	} else {
		verbs_post(w);
		verbs_wait(w);
		verbs_reap(w);
	}
	need(count_ended(w) == w->nr, "not every request ended");
}

int main(int argc, char **argv)
{
	struct world *w = calloc(1, sizeof(*w));
	bool by_hand = argc == 3 && !strcmp(argv[1], "dv");
	int rounds = by_hand ? ROUNDS : VERBS_ROUNDS;

	need(w, "memory");
	w->nr = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	if (w->nr < 1 || w->nr > BATCH_MAX || (!by_hand && strcmp(argv[1], "verbs"))) {
		fprintf(stderr, "usage: wqe_cost dv|verbs 1..%d\n", BATCH_MAX);
		return 2;
	}
	if (by_hand)
		dv_open(w);
	else
		verbs_open(w);
	for (int i = 0; i < 2 * rounds; i++) {
		if (i == rounds)
			cost_begin(); /* the first half was the warm-up */
		round_trip(w, by_hand);
	}
	cost_end();
	free(w);
	return 0;
}
