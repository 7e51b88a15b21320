/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp.c - making and destroying queue pairs; their states are in qp_modify.c.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"
#include "sim/hca/uverbs/datasheet.h"

/* The extended form of the command says all that the old one can. */
struct qp_request {
	struct ib_uverbs_ex_create_qp core;
	struct mlx5_ib_create_qp hw;
	struct object *pd, *send_cq, *recv_cq, *srq;
};

#define HW_KNOWN_FLAGS							\
	(MLX5_QP_FLAG_SIGNATURE | MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_TUNNEL_OFFLOADS | \
	 MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_TYPE_DCT | MLX5_QP_FLAG_TYPE_DCI | \
	 MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC | \
	 MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE | \
	 MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_DCI_STREAM)
#define HW_SUPPORTED_FLAGS						\
	(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE | \
	 MLX5_QP_FLAG_UAR_PAGE_INDEX)

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int check_hw(const struct command *c, const struct mlx5_ib_create_qp *hw)
{
	if (c->hw_in_length < offsetof(struct mlx5_ib_create_qp, sq_buf_addr))
		return -EINVAL;
	if (hw->flags & ~(uint32_t)HW_KNOWN_FLAGS)
		return -EINVAL;
	if (hw->flags & ~(uint32_t)HW_SUPPORTED_FLAGS)
		return -EOPNOTSUPP;
	/* Without the flag, the page would be one of those that come with the context, and
	 * none do. */
	if (!(hw->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) ||
	    !command_knows_uar(c, hw->bfreg_index))
		return -EINVAL;
	if (hw->sq_wqe_count && (!is_power_of_two(hw->sq_wqe_count) ||
				 hw->sq_wqe_count > datasheet.max_send_blocks))
		return -EINVAL;
	return 0;
}

static int check_recv(const struct qp_request *r)
{
	const struct mlx5_ib_create_qp *hw = &r->hw;

	if (r->srq || !r->core.max_recv_wr)
		return 0;
	if (hw->rq_wqe_shift < 4 || 1ULL << (hw->rq_wqe_shift & 63) >
				    datasheet.max_recv_wqe_bytes || hw->rq_wqe_shift > 31)
		return -EINVAL;
	return is_power_of_two(hw->rq_wqe_count) &&
	       hw->rq_wqe_count <= datasheet.max_qp_wr * 4 ? 0 : -EINVAL;
}

static int check_core(const struct command *c, const struct qp_request *r)
{
	const struct ib_uverbs_ex_create_qp *core = &r->core;

	switch (core->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UD:
		break;
	case IBV_QPT_UC:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
	/* That a QP never hears its own multicasts is true without doing anything. */
	if (core->comp_mask || core->create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return -EOPNOTSUPP;
	if (!r->pd || !r->send_cq || !r->recv_cq || (core->is_srq && !r->srq))
		return -ENOENT;
	if (core->max_send_wr > datasheet.max_qp_wr || core->max_recv_wr > datasheet.max_qp_wr ||
	    core->max_send_sge > datasheet.max_sge ||
	    core->max_recv_sge > datasheet.max_recv_wqe_bytes / 16 ||
	    core->max_inline_data > datasheet.max_inline_bytes)
		return -EINVAL;
	return check_hw(c, &r->hw);
}

static void find_objects(const struct command *c, struct qp_request *r)
{
	r->pd = command_find(c, OBJECT_PD, r->core.pd_handle);
	r->send_cq = command_find(c, OBJECT_CQ, r->core.send_cq_handle);
	r->recv_cq = command_find(c, OBJECT_CQ, r->core.recv_cq_handle);
	if (r->core.is_srq)
		r->srq = command_find(c, OBJECT_SRQ, r->core.srq_handle);
}

/* The receive queue lies first, the send queue behind it. */
static void lay_out(const struct qp_request *r, struct hca_qp_attr *a)
{
	a->rq_offset = 0;
	if (!r->srq && r->core.max_recv_wr) {
		a->nr_rq_wqes = r->hw.rq_wqe_count;
		a->rq_stride_bytes = 1U << r->hw.rq_wqe_shift;
	}
	a->sq_offset = (uint64_t)a->nr_rq_wqes * a->rq_stride_bytes;
	a->nr_sq_blocks = r->hw.sq_wqe_count;
}

static int pin_queues(const struct qp_request *r, struct hca_qp_attr *a)
{
	uint64_t bytes = a->sq_offset + (uint64_t)a->nr_sq_blocks * 64;
	int rc = 0;

	if (bytes)
		rc = umem_pin(&a->buffer, r->hw.buf_addr, bytes, true);
	if (rc)
		return rc;
	rc = umem_pin(&a->record, r->hw.db_addr, 2 * sizeof(uint32_t), true);
	if (rc && a->buffer)
		umem_release(a->buffer);
	return rc;
}

static void fill_attr(const struct qp_request *r, struct object *o, struct hca_qp_attr *a)
{
	bool scatters = r->hw.flags & MLX5_QP_FLAG_SCATTER_CQE;

	*a = (struct hca_qp_attr){
		.transport = r->core.qp_type == IBV_QPT_UD ? HCA_UD : HCA_RC,
		.pd = r->pd->pd,
		.send_cq = r->send_cq->cq.hca,
		.recv_cq = r->recv_cq->cq.hca,
		.srq = r->srq ? r->srq->srq.hca : NULL,
		.uidx = r->hw.uidx,
		.signal_all = r->core.sq_sig_all,
		/* mlx5: of what is sent, only where every WQE has its CQE, or by request. */
		.scatter_send = scatters && (r->core.sq_sig_all ||
			        r->hw.flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE),
		.scatter_recv = scatters && r->core.qp_type == IBV_QPT_RC,
		.cookie = o,
	};
	lay_out(r, a);
}

static void remember(struct object *o, const struct qp_request *r)
{
	o->user_handle = r->core.user_handle;
	o->qp.is_ud = r->core.qp_type == IBV_QPT_UD;
	o->qp.signal_all = r->core.sq_sig_all;
	o->qp.max_send_wr = r->hw.sq_wqe_count;
	o->qp.max_recv_wr = r->srq || !r->core.max_recv_wr ? 0 : r->hw.rq_wqe_count;
	o->qp.max_send_sge = r->core.max_send_sge;
	o->qp.max_recv_sge = o->qp.max_recv_wr ? (1U << r->hw.rq_wqe_shift) / 16 : 0;
	o->qp.max_inline_bytes = r->core.max_inline_data;
	object_use(o, r->pd);
	object_use(o, r->send_cq);
	object_use(o, r->recv_cq);
	if (r->srq)
		object_use(o, r->srq);
}

static int make_qp(struct command *c, const struct qp_request *r, uint32_t *qpn)
{
	struct object *o = command_make(c, OBJECT_QP);
	struct hca_qp_attr a;
	int rc = -ENOMEM;

	if (o) {
		fill_attr(r, o, &a);
		rc = pin_queues(r, &a);
	}
	if (!rc) {
		rc = hca_qp_create(c->file->device->hca, &a, &o->qp.hca, qpn);
		if (rc) {
			umem_release(a.record);
			if (a.buffer)
				umem_release(a.buffer);
		}
	}
	if (rc)
		return command_unmake(c, rc);
	remember(o, r);
	return 0;
}

static int create(struct command *c, struct qp_request *r,
		  struct ib_uverbs_create_qp_resp *out)
{
	const struct uverbs_env *env = c->file->device->env;
	const struct object_qp *qp;
	int rc;

	find_objects(c, r);
	rc = check_core(c, r);
	if (!rc)
		rc = check_recv(r);
	if (!rc)
		rc = env->refuse_qp(env->ctx);
	if (rc)
		return rc;
	env->uars_used(env->ctx);
	rc = make_qp(c, r, &out->qpn);
	if (rc)
		return rc;
	qp = &c->made->qp;
	out->qp_handle = c->made->handle;
	out->max_send_wr = qp->max_send_wr;
	out->max_recv_wr = qp->max_recv_wr;
	out->max_send_sge = qp->max_send_sge;
	out->max_recv_sge = qp->max_recv_sge;
	out->max_inline_data = qp->max_inline_bytes;
	COMMAND_HW_OUT(c, mlx5_ib_create_qp_resp)->bfreg_index = r->hw.bfreg_index;
	return 0;
}

int command_create_qp(struct command *c)
{
	const struct ib_uverbs_create_qp *in = COMMAND_IN(c, ib_uverbs_create_qp);
	struct qp_request r = {
		.core = {
			.user_handle = in->user_handle,
			.pd_handle = in->pd_handle,
			.send_cq_handle = in->send_cq_handle,
			.recv_cq_handle = in->recv_cq_handle,
			.srq_handle = in->srq_handle,
			.max_send_wr = in->max_send_wr,
			.max_recv_wr = in->max_recv_wr,
			.max_send_sge = in->max_send_sge,
			.max_recv_sge = in->max_recv_sge,
			.max_inline_data = in->max_inline_data,
			.sq_sig_all = in->sq_sig_all,
			.qp_type = in->qp_type,
			.is_srq = in->is_srq,
		},
		.hw = *COMMAND_HW_IN(c, mlx5_ib_create_qp),
	};

	return create(c, &r, COMMAND_OUT(c, ib_uverbs_create_qp_resp));
}

int command_create_qp_ex(struct command *c)
{
	struct ib_uverbs_ex_create_qp_resp *out = COMMAND_OUT(c, ib_uverbs_ex_create_qp_resp);
	struct qp_request r = {
		.core = *COMMAND_IN(c, ib_uverbs_ex_create_qp),
		.hw = *COMMAND_HW_IN(c, mlx5_ib_create_qp),
	};

	if (r.core.comp_mask & ~(uint32_t)IB_UVERBS_CREATE_QP_SUP_COMP_MASK || r.core.reserved)
		return -EINVAL;
	if (!command_is_tail_zero(c, sizeof(r.core)))
		return -EOPNOTSUPP;
	out->response_length = command_response_length(c, sizeof(*out));
	return create(c, &r, &out->base);
}

int command_destroy_qp(struct command *c)
{
	struct object *o = command_find(c, OBJECT_QP,
					COMMAND_IN(c, ib_uverbs_destroy_qp)->qp_handle);
	struct ib_uverbs_destroy_qp_resp *out = COMMAND_OUT(c, ib_uverbs_destroy_qp_resp);

	if (!o)
		return -ENOENT;
	out->events_reported = o->async_reported;
	return uverbs_destroy_object(o);
}
