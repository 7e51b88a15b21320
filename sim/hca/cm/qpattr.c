/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qpattr.c - what a program must tell its QP so that it fits the connection.
 */
#include <errno.h>
#include <string.h>

#include "sim/hca/cm/core.h"

/* Before there is a connection, and for UD: what any QP needs. */
static void plain_init(const struct cm_id *id, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	out->port_num = (uint8_t)id->path.place.port;
	if (id->qp_type == IBV_QPT_UD) {
		out->qp_attr_mask |= IBV_QP_QKEY;
		out->qkey = id->qkey;
	} else {
		out->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	}
}

static void init(const struct cm_connection *c, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	out->port_num = (uint8_t)c->path.place.port;
	out->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (c->responder_resources)
		out->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void ready_to_receive(const struct cm_connection *c, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	cm_path_to_ah(&c->path, &out->ah_attr);
	out->path_mtu = c->path.mtu;
	out->dest_qp_num = c->remote_qpn;
	out->rq_psn = c->id->psn;
	out->max_dest_rd_atomic = (uint8_t)c->responder_resources;
}

static void ready_to_send(const struct cm_connection *c, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	out->sq_psn = c->send_psn;
	out->timeout = (uint8_t)(c->id->has_ack_timeout ? c->id->ack_timeout : c->ack_timeout);
	out->retry_cnt = (uint8_t)c->retry_count;
	out->rnr_retry = (uint8_t)c->rnr_retry_count;
	out->max_rd_atomic = (uint8_t)c->initiator_depth;
}

static bool is_open(const struct cm_connection *c)
{
	return c->state >= CM_REQ_SENT && c->state <= CM_ESTABLISHED;
}

int cm_qp_attributes(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *out)
{
	const struct cm_connection *c = id->connection;

	memset(out, 0, sizeof(*out));
	out->qp_state = state;
	if (!id->has_device)
		return -EINVAL;
	if (!c || id->qp_type == IBV_QPT_UD) {
		plain_init(id, out);
		return 0;
	}
	if (!is_open(c) || (c->state == CM_REQ_SENT && state != IBV_QPS_INIT))
		return -EINVAL;
	switch (state) {
	case IBV_QPS_INIT:
		init(c, out);
		return 0;
	case IBV_QPS_RTR:
		ready_to_receive(c, out);
		return 0;
	case IBV_QPS_RTS:
		ready_to_send(c, out);
		return 0;
	default:
		return -EINVAL;
	}
}
