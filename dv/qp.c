/* SPDX-License-Identifier: Apache-2.0 */
#include "dv/qp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PSN_MASK 0xffffffu
#define DEFAULT_HOPS 64
#define WQE_BLOCKS 4	/* that libmlx5 keeps for each request: room for the largest there is */
#define RNR_FOREVER 7
#define MIN_RNR_TIMER 12	/* 0.64 ms; nobody receives, so nobody sees it */

static int fail(const struct dv_device *d, const char *what, int error, char *why, size_t size)
{
	snprintf(why, size, "%s: %s: %s", d->name, what, strerror(error));
	return -error;
}

/* ---- making ------------------------------------------------------------ */

struct ibv_td *dv_td_open(const struct dv_device *d, char *why, size_t size)
{
	struct ibv_td_init_attr a = { 0 };
	struct ibv_td *td = ibv_alloc_td(d->context, &a);

	if (!td)
		fail(d, "no doorbell register for a thread", errno, why, size);
	return td;
}

static int open_parent(struct dv_qp *q, struct ibv_pd *pd, char *why, size_t size)
{
	struct ibv_parent_domain_init_attr a = { .pd = pd, .td = q->o.td };

	if (!q->o.td)
		return 0;
	q->parent = ibv_alloc_parent_domain(q->device->context, &a);
	return q->parent ? 0 : fail(q->device, "no parent domain", errno, why, size);
}

/* The CQ has room for a CQE of each block, so it cannot overrun and its doorbell need not be
 * rung, which the device is told where it understands that. */
static int open_cq(struct dv_qp *q, uint32_t nr_cqe, char *why, size_t size)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = nr_cqe, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_context *context = q->device->context;
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &a);

	q->cq_overrun_ignored = ex != NULL;
	q->cq = ex ? ibv_cq_ex_to_cq(ex) : ibv_create_cq(context, (int)nr_cqe, NULL, NULL, 0);
	return q->cq ? 0 : fail(q->device, "no CQ", errno, why, size);
}

static int create_qp(struct dv_qp *q, struct ibv_pd *pd, char *why, size_t size)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = q->parent ? q->parent : pd,
		.send_cq = q->cq, .recv_cq = q->cq,
		.cap = { .max_send_wr = (q->o.depth + WQE_BLOCKS - 1) / WQE_BLOCKS,
			 .max_send_sge = q->o.depth != 0 },
	};
	/* Data of a READ would land in its CQE, where nobody here looks for it. */
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};

	q->qp = mlx5dv_create_qp(q->device->context, &a, &dv);
	if (q->qp || errno != ENOMEM)
		return q->qp ? 0 : fail(q->device, "no QP", errno, why, size);
	snprintf(why, size, "%s: no QP: there is no memory, or its %u are all in use",
		 q->device->name, q->device->max_qp);
	return -ENOMEM;
}

static int lay_open(struct dv_qp *q, char *why, size_t size)
{
	struct mlx5dv_obj o = {
		.qp = { .in = q->qp, .out = &q->sq_raw }, .cq = { .in = q->cq, .out = &q->cq_raw },
	};
	int rc = mlx5dv_init_obj(&o, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ);

	if (rc)
		return fail(q->device, "its queues cannot be laid open", rc, why, size);
	if (q->sq_raw.sq.wqe_cnt <= q->cq_raw.cqe_cnt)
		return 0;
	snprintf(why, size, "%s: a send queue of %u blocks, whose CQ has only %u entries",
		 q->device->name, q->sq_raw.sq.wqe_cnt, q->cq_raw.cqe_cnt);
	return -EOVERFLOW;
}

static int to_init(struct dv_qp *q, char *why, size_t size)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = q->device->port,
		.pkey_index = q->device->choice.pkey_index,
		.qp_access_flags = q->o.depth ? 0 :
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc = ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS);

	return rc ? fail(q->device, "QP to INIT", rc, why, size) : 0;
}

/* Not to be guessed, and not that of an earlier QP of the same number: its packets may still
 * be on their way. */
static int choose_psn(struct dv_qp *q, char *why, size_t size)
{
	if (getrandom(&q->psn, sizeof(q->psn), 0) != sizeof(q->psn))
		return fail(q->device, "no random PSN", errno, why, size);
	q->psn &= PSN_MASK;
	return 0;
}

int dv_qp_open(struct dv_qp *q, const struct dv_device *d, struct ibv_pd *pd,
	       const struct dv_qp_options *o, char *why, size_t size)
{
	int rc;

	*q = (struct dv_qp){ .device = d, .o = *o };
	if (o->depth > d->max_depth) {
		snprintf(why, size, "%s: a QP of %u requests; allowed: up to %u", d->name, o->depth,
			 d->max_depth);
		return -EINVAL;
	}
	q->reads = o->depth ? d->max_reads : d->max_served;
	if (o->reads && o->reads < q->reads)
		q->reads = o->reads;
	rc = choose_psn(q, why, size);
	if (rc == 0)
		rc = open_parent(q, pd, why, size);
	if (rc == 0)
		rc = open_cq(q, o->depth ? 2 * o->depth : 1, why, size);
	if (rc == 0)
		rc = create_qp(q, pd, why, size);
	if (rc == 0)
		rc = lay_open(q, why, size);
	if (rc == 0)
		rc = to_init(q, why, size);
	if (rc < 0)
		dv_qp_close(q);
	return rc;
}

void dv_qp_close(struct dv_qp *q)
{
	if (q->qp)
		ibv_destroy_qp(q->qp);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->parent)
		ibv_dealloc_pd(q->parent);
	q->qp = NULL;
	q->cq = NULL;
	q->parent = NULL;
}

/* ---- connecting -------------------------------------------------------- */

void dv_qp_endpoint(const struct dv_qp *q, struct dv_endpoint *e)
{
	*e = (struct dv_endpoint){
		.address = q->device->address, .qpn = q->qp->qp_num, .psn = q->psn,
		.reads = q->reads,
	};
}

/* On InfiniBand only what leaves the subnet needs a GRH. */
static bool is_routed(const struct dv_address *from, const struct dv_address *to)
{
	return to->link == IBV_LINK_LAYER_ETHERNET ||
	       from->gid.global.subnet_prefix != to->gid.global.subnet_prefix;
}

static struct ibv_ah_attr path_to(const struct dv_qp *q, const struct dv_address *to)
{
	const struct dv_device *d = q->device;
	struct ibv_ah_attr a = {
		.dlid = to->lid, .port_num = d->port, .sl = q->o.sl,
		.is_global = is_routed(&d->address, to),
	};

	if (a.is_global)
		a.grh = (struct ibv_global_route){
			.dgid = to->gid, .sgid_index = (uint8_t)d->gid_index,
			.hop_limit = q->o.hop_limit ? q->o.hop_limit : DEFAULT_HOPS,
			.traffic_class = q->o.tc,
		};
	return a;
}

static int to_rtr(struct dv_qp *q, const struct dv_endpoint *peer, char *why, size_t size)
{
	uint8_t mtu = q->device->address.mtu;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .dest_qp_num = peer->qpn, .rq_psn = peer->psn,
		.path_mtu = peer->address.mtu < mtu ? peer->address.mtu : mtu,
		.max_dest_rd_atomic = q->o.depth ? 0 : q->reads, .min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = path_to(q, &peer->address),
	};
	int rc = ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_MIN_RNR_TIMER);

	return rc ? fail(q->device, "QP to RTR", rc, why, size) : 0;
}

static int to_rts(struct dv_qp *q, char *why, size_t size)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .sq_psn = q->psn, .max_rd_atomic = q->reads,
		.timeout = q->o.timeout, .retry_cnt = q->o.retries, .rnr_retry = RNR_FOREVER,
	};
	int rc = ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return rc ? fail(q->device, "QP to RTS", rc, why, size) : 0;
}

/* A peer says so, so it is judged. */
static int check_peer(const struct dv_qp *q, const struct dv_endpoint *peer, char *why,
		      size_t size)
{
	const struct dv_address *a = &peer->address;
	const char *wrong = dv_address_fault(&q->device->address, a);

	if (!wrong && (a->mtu < IBV_MTU_256 || a->mtu > IBV_MTU_4096))
		wrong = "has no MTU that there is";
	if (!wrong && (peer->qpn > PSN_MASK || peer->psn > PSN_MASK))
		wrong = "has a QP number or PSN beyond 24 bits";
	if (!wrong)
		return 0;
	snprintf(why, size, "%s port %u (%s): its peer %s", q->device->name, q->device->port,
		 dv_link_name(q->device->address.link), wrong);
	return -EINVAL;
}

int dv_qp_connect(struct dv_qp *q, const struct dv_endpoint *peer, char *why, size_t size)
{
	int rc = check_peer(q, peer, why, size);

	if (rc < 0)
		return rc;
	if (peer->reads < q->reads)
		q->reads = peer->reads;
	rc = to_rtr(q, peer, why, size);
	return rc < 0 || !q->o.depth ? rc : to_rts(q, why, size);
}

int dv_qp_fail(struct dv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return -ibv_modify_qp(q->qp, &a, IBV_QP_STATE);
}
