/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receive.c - the life of a connection as the peer's messages move it. IBA volume 1,
 * 12.9.8. A message that fits no connection in its present state is dropped; the sender
 * repeats what matters.
 */
#include <string.h>

#include "sim/hca/cm/core.h"

enum { TRANSPORT_RC = 0 };

/* By our number for it, which the peer may know before we know his. */
static struct cm_connection *find_by_local(struct cm *cm, uint32_t local_id)
{
	struct cm_connection *c;

	for (c = cm->connections; c; c = c->next)
		if (c->local_id == local_id && c->state != CM_CLOSED)
			return c;
	return NULL;
}

static struct cm_connection *find_by_both(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_local(cm, m->remote_id);

	return c && c->remote_id == m->local_id ? c : NULL;
}

static struct cm_connection *find_by_remote(struct cm *cm, uint32_t remote_id, uint64_t guid)
{
	struct cm_connection *c;

	for (c = cm->connections; c; c = c->next)
		if (c->remote_id == remote_id && c->remote_guid == guid && c->state != CM_CLOSED)
			return c;
	return NULL;
}

static void answer(struct cm *cm, const struct cm_path *reply, const struct cm_mad *to,
		   struct cm_mad *m)
{
	m->transaction = to->transaction;
	m->local_id = to->remote_id;
	m->remote_id = to->local_id;
	cm_send(cm, reply, m);
}

static void refuse(struct cm *cm, const struct cm_path *reply, const struct cm_mad *req,
		   enum cm_reject_reason reason)
{
	struct cm_mad m = { .attribute = CM_REJ, .message = CM_MESSAGE_REQ, .reason = reason };

	answer(cm, reply, req, &m);
}

static void tell_disconnected(struct cm_connection *c)
{
	if (!c->id || c->id->state != CM_ID_CONNECT)
		return;
	c->id->state = CM_ID_DISCONNECT;
	cm_event_post(c->id, CM_EVENT_DISCONNECTED, 0);
}

static void fill_private(struct rdma_ucm_conn_param *p, const struct cm_mad *m, uint32_t from)
{
	p->private_data_len = (uint8_t)(cm_mad_private_bytes(m->attribute) - from);
	memcpy(p->private_data, m->private_data + from, p->private_data_len);
}

/* What REQ and REP both tell the program. */
static void fill_event(struct rdma_ucm_event_resp *e, const struct cm_connection *c,
		       const struct cm_mad *m, uint32_t private_from)
{
	struct rdma_ucm_conn_param *p = &e->param.conn;

	fill_private(p, m, private_from);
	p->responder_resources = (uint8_t)c->responder_resources;
	p->initiator_depth = (uint8_t)c->initiator_depth;
	p->flow_control = (uint8_t)m->flow_control;
	p->retry_count = (uint8_t)m->retry_count;
	p->rnr_retry_count = (uint8_t)m->rnr_retry_count;
	p->srq = (uint8_t)m->srq;
	p->qp_num = m->qpn;
	e->ece.vendor_id = m->vendor_id;
	e->ece.attr_mod = m->modifier;
}

/* What the peer offers as a responder is what we may start, and the other way round. */
static void take_peer(struct cm_connection *c, const struct cm_mad *m)
{
	c->remote_id = m->local_id;
	c->remote_guid = m->ca_guid;
	c->remote_qpn = m->qpn;
	c->send_psn = m->psn;
	c->initiator_depth = m->responder_resources;
	c->responder_resources = m->initiator_depth;
	c->rnr_retry_count = m->rnr_retry_count;
}

/* ---- REQ ---------------------------------------------------------------------------- */

static bool is_repeated(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_remote(cm, m->local_id, m->ca_guid);

	if (!c || !cm_path_same_peer(&c->path, reply))
		return false;
	if (c->state == CM_REQ_RECEIVED)
		cm_send_simple(cm, c, CM_MRA);	/* the program still thinks */
	else if (c->state == CM_TIMEWAIT)
		refuse(cm, reply, m, CM_REJECT_STALE_CONNECTION);
	return true;
}

/* The peer's QP is new, so what we had with one of this number is gone. */
static bool is_stale(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_connection *c;

	for (c = cm->connections; c; c = c->next)
		if (c->state == CM_ESTABLISHED && c->remote_qpn == m->qpn &&
		    c->remote_guid == m->ca_guid && cm_path_same_peer(&c->path, reply))
			break;
	if (!c)
		return false;
	refuse(cm, reply, m, CM_REJECT_STALE_CONNECTION);
	cm_disconnect(c->id);
	return true;
}

static void take_request(struct cm_id *listener, const struct cm_path *path,
			 const struct cm_ip_header *h, const struct cm_mad *m)
{
	struct cm_id *id = cm_id_of_request(listener, path, h);
	struct rdma_ucm_event_resp *e;
	struct cm_connection *c;

	if (!id)
		return;
	c = id->connection;
	take_peer(c, m);
	c->state = CM_REQ_RECEIVED;
	c->transaction = m->transaction;
	c->service_id = m->service_id;
	c->retry_count = m->retry_count;
	c->ack_timeout = m->path.ack_timeout;
	id->nr_paths = 1;
	e = cm_event_post_request(listener, id);
	if (e) {
		fill_event(e, c, m, CM_IP_HEADER_BYTES);
		return;
	}
	c->state = CM_CLOSED;		/* memory is short: the peer asks again */
	cm_id_destroy(id);
}

static void receive_req(struct cm *cm, struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_id *listener = NULL;
	struct cm_ip_header h;

	if (is_repeated(cm, reply, m) || is_stale(cm, reply, m))
		return;
	if (cm_ip_header_unpack(&h, m->private_data))
		listener = cm_find_listener(cm, reply->place, m->service_id, &h);
	if (!listener) {
		refuse(cm, reply, m, CM_REJECT_INVALID_SERVICE_ID);
		return;
	}
	if (m->transport != TRANSPORT_RC || listener->qp_type != IBV_QPT_RC) {
		refuse(cm, reply, m, CM_REJECT_INVALID_TRANSPORT);
		return;
	}
	cm_path_of_request(m, reply);
	if (listener->backlog)		/* or else silence: the peer asks again */
		take_request(listener, reply, &h, m);
}

/* ---- the other messages ------------------------------------------------------------------ */

static void receive_rep(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_local(cm, m->remote_id);
	struct rdma_ucm_event_resp *e;

	if (!c)
		return;
	if (c->state != CM_REQ_SENT) {
		if (c->remote_id != m->local_id)
			return;
		if (c->state == CM_REP_RECEIVED)
			cm_send_simple(cm, c, CM_MRA);
		else if (c->state == CM_ESTABLISHED)
			cm_send_simple(cm, c, CM_RTU);
		return;
	}
	take_peer(c, m);
	c->state = CM_REP_RECEIVED;
	c->deadline_ns = UINT64_MAX;
	e = cm_event_post(c->id, CM_EVENT_CONNECT_RESPONSE, 0);
	if (e)
		fill_event(e, c, m, 0);
}

static void receive_rtu(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_both(cm, m);

	if (!c || c->state != CM_REP_SENT)
		return;
	c->state = CM_ESTABLISHED;
	c->deadline_ns = UINT64_MAX;
	cm_event_post(c->id, CM_EVENT_ESTABLISHED, 0);
}

static void receive_mra(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_local(cm, m->remote_id);

	if (!c)
		return;
	if ((c->state == CM_REQ_SENT && m->message == CM_MESSAGE_REQ) ||
	    (c->state == CM_REP_SENT && m->message == CM_MESSAGE_REP))
		c->deadline_ns = cm->env.now_ns(cm->env.ctx) + c->interval_ns +
				 cm_time_ns(cm, c->path.place, m->service_timeout);
}

/* Who gave up before he heard of us names himself instead of our number. */
static struct cm_connection *find_rejected(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c;
	uint64_t guid = 0;
	int i;

	if (m->reason == CM_REJECT_TIMEOUT) {
		for (i = 0; i < 8; i++)
			guid = guid << 8 | m->ari[i];
		return find_by_remote(cm, m->local_id, guid);
	}
	c = find_by_local(cm, m->remote_id);
	return c && (c->state == CM_REQ_SENT || c->remote_id == m->local_id) ? c : NULL;
}

static void receive_rej(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_rejected(cm, m);
	struct rdma_ucm_event_resp *e;

	if (!c)
		return;
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_REQ_RECEIVED:
	case CM_REP_SENT:
		c->state = CM_CLOSED;
		c->deadline_ns = UINT64_MAX;
		break;
	case CM_REP_RECEIVED:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		cm_enter_timewait(cm, c);
		break;
	default:
		return;
	}
	e = cm_event_post(c->id, CM_EVENT_REJECTED, (int)m->reason);
	if (e)
		fill_private(&e->param.conn, m, 0);
}

static void receive_known_dreq(struct cm *cm, struct cm_connection *c, const struct cm_mad *m)
{
	switch (c->state) {
	case CM_REP_SENT:		/* RTU was lost on the way */
	case CM_ESTABLISHED:
		c->transaction = m->transaction;
		c->state = CM_DREQ_RECEIVED;
		c->deadline_ns = UINT64_MAX;
		tell_disconnected(c);
		break;
	case CM_DREQ_SENT:		/* both at once */
		c->transaction = m->transaction;
		cm_send_simple(cm, c, CM_DREP);
		cm_enter_timewait(cm, c);
		tell_disconnected(c);
		break;
	case CM_TIMEWAIT:		/* our DREP was lost */
		cm_send_simple(cm, c, CM_DREP);
		break;
	default:
		break;
	}
}

static void receive_dreq(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_both(cm, m);
	struct cm_mad drep = { .attribute = CM_DREP };

	if (!c)
		answer(cm, reply, m, &drep);	/* let the peer end in peace */
	else if (c->local_qpn == m->qpn)
		receive_known_dreq(cm, c, m);
}

static void receive_drep(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c = find_by_both(cm, m);

	if (!c || (c->state != CM_DREQ_SENT && c->state != CM_DREQ_RECEIVED))
		return;
	cm_enter_timewait(cm, c);
	tell_disconnected(c);
}

static void dispatch(struct cm *cm, struct cm_path *reply, const struct cm_mad *m)
{
	switch (m->attribute) {
	case CM_REQ:
		receive_req(cm, reply, m);
		break;
	case CM_MRA:
		receive_mra(cm, m);
		break;
	case CM_REJ:
		receive_rej(cm, m);
		break;
	case CM_REP:
		receive_rep(cm, m);
		break;
	case CM_RTU:
		receive_rtu(cm, m);
		break;
	case CM_DREQ:
		receive_dreq(cm, reply, m);
		break;
	case CM_DREP:
		receive_drep(cm, m);
		break;
	case CM_SIDR_REQ:
		cm_receive_sidr_req(cm, reply, m);
		break;
	case CM_SIDR_REP:
		cm_receive_sidr_rep(cm, m);
		break;
	}
}

void cm_receive(struct cm *cm, uint32_t device, const struct hca_packet *p)
{
	struct cm_path reply;
	struct cm_mad m;

	if (p->opcode != (HCA_UD | HCA_SEND_ONLY) || p->dest_qpn != CM_QP1 || p->qkey != CM_QP1_QKEY ||
	    !cm_mad_unpack(&m, p->payload, p->length))
		return;
	if (cm_path_reply(cm, device, p, &reply))
		dispatch(cm, &reply, &m);
}
