/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp_modify.c - MODIFY_QP and QUERY_QP: what the program's attributes are to the engine,
 * and back. Which transitions there are, the engine knows.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"

#define STANDARD_BITS ((1U << 21) - 1)	/* IBV_QP_STATE to IBV_QP_DEST_QPN */

static uint32_t mtu_bytes(uint8_t code)
{
	return 128U << code;		/* IBV_MTU_256 is 1 */
}

static uint8_t mtu_code(uint32_t bytes)
{
	uint8_t code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && mtu_bytes(code) < bytes)
		code++;
	return code;
}

/* The address vector, with what the port adds to it. */
static int fill_route(const struct uverbs_device *d, const struct ib_uverbs_qp_dest *dest,
		      struct hca_route *route)
{
	struct uverbs_port port;

	if (!dest->port_num || dest->port_num > d->nr_ports)
		return -EINVAL;
	d->env->port(d->env->ctx, dest->port_num, &port);
	*route = (struct hca_route){
		.dlid = port.is_ethernet ? 0 : dest->dlid,
		.slid = port.is_ethernet ? 0 : port.lid,
		.sl = dest->sl & 15,
		.port = dest->port_num,
		.has_grh = dest->is_global,
	};
	if (!dest->is_global)
		return port.is_ethernet ? -EINVAL : 0;
	memcpy(route->dgid, dest->dgid, sizeof(route->dgid));
	route->sgid_index = dest->sgid_index;
	route->tclass = dest->traffic_class;
	route->hop_limit = dest->hop_limit;
	route->flow_label = dest->flow_label & 0xfffff;
	return d->env->gid(d->env->ctx, dest->port_num, dest->sgid_index, route->sgid) ?
	       0 : -EINVAL;
}

static int check_modify(const struct uverbs_device *d, const struct ib_uverbs_modify_qp *in)
{
	uint32_t mask = in->attr_mask;

	if (mask & IBV_QP_PORT && (!in->port_num || in->port_num > d->nr_ports))
		return -EINVAL;
	if (mask & IBV_QP_STATE && in->qp_state > IBV_QPS_ERR)
		return -EINVAL;
	if (mask & IBV_QP_CUR_STATE && in->cur_qp_state > IBV_QPS_ERR)
		return -EINVAL;
	if (mask & IBV_QP_PATH_MTU && (in->path_mtu < IBV_MTU_256 ||
				       in->path_mtu > IBV_MTU_4096))
		return -EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && in->pkey_index)
		return -EINVAL;
	/* One path only, and queues that stay as large as they are. */
	if (mask & (IBV_QP_ALT_PATH | IBV_QP_CAP))
		return -EOPNOTSUPP;
	if (mask & IBV_QP_PATH_MIG_STATE && in->path_mig_state > IBV_MIG_ARMED)
		return -EINVAL;
	return 0;
}

static void fill_values(const struct ib_uverbs_modify_qp *in, struct hca_qp_values *v)
{
	*v = (struct hca_qp_values){
		.state = (enum hca_qp_state)in->qp_state,
		.current_state = (enum hca_qp_state)in->cur_qp_state,
		.path_mtu_bytes = in->attr_mask & IBV_QP_PATH_MTU ? mtu_bytes(in->path_mtu) : 0,
		.qkey = in->qkey,
		.rq_psn = in->rq_psn & HCA_PSN_MASK,
		.sq_psn = in->sq_psn & HCA_PSN_MASK,
		.dest_qpn = in->dest_qp_num & HCA_QPN_MASK,
		.access = in->qp_access_flags,
		.pkey_index = in->pkey_index,
		.port = in->port_num,
		.max_rd_atomic = in->max_rd_atomic,
		.max_dest_rd_atomic = in->max_dest_rd_atomic,
		.min_rnr_timer = in->min_rnr_timer & 31,
		.timeout = in->timeout & 31,
		.retry_count = in->retry_cnt & 7,
		.rnr_retry = in->rnr_retry & 7,
		.sqd_event = in->en_sqd_async_notify,
	};
}

static int modify(struct command *c, const struct ib_uverbs_modify_qp *in)
{
	struct object *o = command_find(c, OBJECT_QP, in->qp_handle);
	struct hca_qp_values v;
	int rc = o ? check_modify(c->file->device, in) : -ENOENT;

	if (rc)
		return rc;
	fill_values(in, &v);
	if (in->attr_mask & IBV_QP_AV)
		rc = fill_route(c->file->device, &in->dest, &v.route);
	if (!rc)
		rc = hca_qp_modify(o->qp.hca, &v, in->attr_mask);
	if (rc)
		return rc;
	if (in->attr_mask & IBV_QP_PORT)
		o->qp.port = in->port_num;
	if (in->attr_mask & IBV_QP_AV) {
		o->qp.source_path_bits = in->dest.src_path_bits;
		o->qp.static_rate = in->dest.static_rate;
	}
	return 0;
}

int command_modify_qp(struct command *c)
{
	const struct ib_uverbs_modify_qp *in = COMMAND_IN(c, ib_uverbs_modify_qp);

	return in->attr_mask & ~STANDARD_BITS ? -EOPNOTSUPP : modify(c, in);
}

int command_modify_qp_ex(struct command *c)
{
	const struct ib_uverbs_ex_modify_qp *in = COMMAND_IN(c, ib_uverbs_ex_modify_qp);
	struct ib_uverbs_ex_modify_qp_resp *out = COMMAND_OUT(c, ib_uverbs_ex_modify_qp_resp);
	struct mlx5_ib_modify_qp_resp *hw;
	int rc;

	if (!command_is_tail_zero(c, sizeof(*in)))
		return -EOPNOTSUPP;
	if (in->base.attr_mask & ~(STANDARD_BITS | IBV_QP_RATE_LIMIT))
		return -EOPNOTSUPP;
	/* Only raw packet queues have a rate. */
	if (in->base.attr_mask & IBV_QP_RATE_LIMIT)
		return -EINVAL;
	rc = modify(c, &in->base);
	if (rc)
		return rc;
	out->response_length = command_response_length(c, sizeof(*out));
	hw = COMMAND_HW_OUT(c, mlx5_ib_modify_qp_resp);
	hw->response_length = c->hw_out_length < sizeof(*hw) ? c->hw_out_length :
			      (__u32)sizeof(*hw);
	return 0;
}

/* ---- QUERY_QP ----------------------------------------------------------------- */

static void fill_dest(const struct hca_qp_values *v, const struct object_qp *qp,
		      struct ib_uverbs_qp_dest *dest)
{
	const struct hca_route *r = &v->route;

	if (!r->port)
		return;			/* not connected yet */
	*dest = (struct ib_uverbs_qp_dest){
		.flow_label = r->flow_label,
		.dlid = r->dlid,
		.sgid_index = r->sgid_index,
		.hop_limit = r->hop_limit,
		.traffic_class = r->tclass,
		.sl = r->sl,
		.src_path_bits = qp->source_path_bits,
		.static_rate = qp->static_rate,
		.is_global = r->has_grh,
		.port_num = r->port,
	};
	memcpy(dest->dgid, r->dgid, sizeof(dest->dgid));
}

static void fill_query(const struct hca_qp_values *v, const struct object_qp *qp,
		       struct ib_uverbs_query_qp_resp *out)
{
	*out = (struct ib_uverbs_query_qp_resp){
		.max_send_wr = qp->max_send_wr,
		.max_recv_wr = qp->max_recv_wr,
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline_data = qp->max_inline_bytes,
		.qkey = v->qkey,
		.rq_psn = v->rq_psn,
		.sq_psn = v->sq_psn,
		.dest_qp_num = v->dest_qpn,
		.qp_access_flags = v->access,
		.pkey_index = v->pkey_index,
		.qp_state = (__u8)v->state,
		.cur_qp_state = (__u8)v->state,
		.path_mtu = v->path_mtu_bytes ? mtu_code(v->path_mtu_bytes) : 0,
		.path_mig_state = IBV_MIG_MIGRATED,
		.sq_draining = v->state == HCA_QP_SQD,
		.max_rd_atomic = v->max_rd_atomic,
		.max_dest_rd_atomic = v->max_dest_rd_atomic,
		.min_rnr_timer = v->min_rnr_timer,
		.port_num = qp->port,
		.timeout = v->timeout,
		.retry_cnt = v->retry_count,
		.rnr_retry = v->rnr_retry,
		.sq_sig_all = qp->signal_all,
	};
	fill_dest(v, qp, &out->dest);
}

int command_query_qp(struct command *c)
{
	struct object *o = command_find(c, OBJECT_QP,
					COMMAND_IN(c, ib_uverbs_query_qp)->qp_handle);
	struct hca_qp_values v;

	if (!o)
		return -ENOENT;
	hca_qp_query(o->qp.hca, &v);
	fill_query(&v, &o->qp, COMMAND_OUT(c, ib_uverbs_query_qp_resp));
	return 0;
}
