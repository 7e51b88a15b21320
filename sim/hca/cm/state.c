/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - the life of a connection as this side moves it: what the program asks, and
 * time. IBA volume 1, 12.9. What the peer says is in receive.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/cm/core.h"

enum {
	RESPONSE_TIMEOUT = 20,		/* 4.3 s for the peer's program to answer */
	MAX_RETRIES = 15,
	MAX_RETRY_COUNT = 7,		/* of a QP */
	CARD_ACK_DELAY = 16,		/* what ConnectX reports as local_ca_ack_delay */
};

/* ---- connections ------------------------------------------------------------------- */

static bool local_id_is_used(const struct cm *cm, uint32_t local_id)
{
	const struct cm_connection *c;

	for (c = cm->connections; c; c = c->next)
		if (c->local_id == local_id)
			return true;
	return false;
}

struct cm_connection *cm_connection_create(struct cm_id *id, const struct cm_path *path)
{
	struct cm_connection *c = calloc(1, sizeof(*c));
	struct cm *cm = id->file->cm;

	if (!c)
		return NULL;
	do {
		c->local_id = cm_random(cm);
	} while (!c->local_id || local_id_is_used(cm, c->local_id));
	c->id = id;
	c->path = *path;
	c->transaction = (uint64_t)c->local_id << 32 | cm_random(cm);
	c->deadline_ns = UINT64_MAX;
	c->next = cm->connections;
	cm->connections = c;
	id->connection = c;
	return c;
}

void cm_connection_free(struct cm *cm, struct cm_connection *c)
{
	struct cm_connection **link;

	for (link = &cm->connections; *link != c; link = &(*link)->next)
		;
	*link = c->next;
	if (c->id)
		c->id->connection = NULL;
	free(c);
}

static void close_connection(struct cm_connection *c)
{
	c->state = CM_CLOSED;
	c->deadline_ns = UINT64_MAX;
}

static uint64_t now_ns(struct cm *cm)
{
	return cm->env.now_ns(cm->env.ctx);
}

/* Late packets of a connection must not reach one that gets its numbers next. */
void cm_enter_timewait(struct cm *cm, struct cm_connection *c)
{
	c->state = CM_TIMEWAIT;
	c->deadline_ns = now_ns(cm) + cm_time_ns(cm, c->path.place, c->ack_timeout);
}

/* ---- sending ------------------------------------------------------------------------- */

void cm_send_again_until(struct cm *cm, struct cm_connection *c, const struct cm_mad *m,
			 enum cm_connection_state state)
{
	c->sent = *m;
	c->state = state;
	c->tries_left = MAX_RETRIES;
	c->interval_ns = cm_time_ns(cm, c->path.place, RESPONSE_TIMEOUT) +
			 2 * cm_time_ns(cm, c->path.place, c->path.life_time);
	c->deadline_ns = now_ns(cm) + c->interval_ns;
	cm_send(cm, &c->path, m);
}

static struct cm_mad message_of(const struct cm_connection *c, uint32_t attribute)
{
	return (struct cm_mad){
		.attribute = attribute,
		.transaction = c->transaction,
		.local_id = c->local_id,
		.remote_id = c->remote_id,
	};
}

void cm_send_simple(struct cm *cm, struct cm_connection *c, uint32_t attribute)
{
	struct cm_mad m = message_of(c, attribute);

	if (attribute == CM_MRA) {
		m.message = c->state == CM_REQ_RECEIVED ? CM_MESSAGE_REQ : CM_MESSAGE_REP;
		m.service_timeout = RESPONSE_TIMEOUT;
	}
	cm_send(cm, &c->path, &m);
}

static uint64_t node_guid(struct cm *cm, struct cm_place at)
{
	struct cm_port port;

	return cm->env.port(cm->env.ctx, at, &port) ? port.node_guid : 0;
}

void cm_send_reject(struct cm *cm, struct cm_connection *c, uint32_t reason,
		    const uint8_t *private_data, uint32_t length)
{
	struct cm_mad m = message_of(c, CM_REJ);
	uint64_t guid = node_guid(cm, c->path.place);
	int i;

	m.reason = reason;
	if (c->state == CM_REQ_RECEIVED)
		m.message = CM_MESSAGE_REQ;
	else if (c->state == CM_REP_RECEIVED)
		m.message = CM_MESSAGE_REP;
	else
		m.message = CM_MESSAGE_OTHER;
	if (reason == CM_REJECT_TIMEOUT) {	/* whose request it was that timed out */
		m.ari_length = sizeof(guid);
		for (i = 0; i < 8; i++)
			m.ari[i] = (uint8_t)(guid >> (56 - 8 * i));
	}
	memcpy(m.private_data, private_data, length);
	cm_send(cm, &c->path, &m);
}

static void send_dreq(struct cm *cm, struct cm_connection *c)
{
	struct cm_mad m = message_of(c, CM_DREQ);

	m.qpn = c->remote_qpn;
	cm_send_again_until(cm, c, &m, CM_DREQ_SENT);
}

/* ---- what the program asks --------------------------------------------------------------- */

static uint32_t at_most(uint32_t value, uint32_t limit)
{
	return value < limit ? value : limit;
}

/* The QP waits a round trip and the card's delay: 12.7.34. */
static uint32_t ack_timeout_of(const struct cm_id *id)
{
	uint32_t t = id->path.life_time + 1;

	if (id->has_ack_timeout)
		return id->ack_timeout;
	return t >= CARD_ACK_DELAY ? t + (CARD_ACK_DELAY >= t - 1)
				   : CARD_ACK_DELAY + (t >= CARD_ACK_DELAY - 1u);
}

static void take_parameters(struct cm_connection *c, const struct rdma_ucm_conn_param *p)
{
	c->local_qpn = p->qp_num & HCA_QPN_MASK;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	c->receive_psn = c->id->psn;
}

static void send_req(struct cm *cm, struct cm_connection *c, struct cm_mad *m,
		     const struct rdma_ucm_conn_param *p)
{
	m->attribute = CM_REQ;
	m->transaction = c->transaction;
	m->local_id = c->local_id;
	m->service_id = c->service_id;
	m->ca_guid = node_guid(cm, c->path.place);
	m->qpn = c->local_qpn;
	m->psn = c->receive_psn;
	m->responder_resources = c->responder_resources;
	m->initiator_depth = c->initiator_depth;
	m->remote_response_timeout = m->local_response_timeout = RESPONSE_TIMEOUT;
	m->max_cm_retries = MAX_RETRIES;
	m->flow_control = !!p->flow_control;
	m->retry_count = c->retry_count;
	m->rnr_retry_count = c->rnr_retry_count;
	m->srq = !!p->srq;
	cm_path_to_request(&c->path, c->ack_timeout, m);
	cm_send_again_until(cm, c, m, CM_REQ_SENT);
}

int cm_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p,
	       const struct rdma_ucm_ece *ece)
{
	struct cm_mad m = { .vendor_id = ece->vendor_id, .modifier = ece->attr_mod };
	struct cm *cm = id->file->cm;
	struct cm_connection *c;

	if (id->state != CM_ID_ROUTE_RESOLVED)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return cm_sidr_connect(id, p);
	m.attribute = CM_REQ;
	if (cm_private_data(id, p->private_data, p->private_data_len, &m))
		return -EINVAL;
	c = cm_connection_create(id, &id->path);
	if (!c)
		return -ENOMEM;
	take_parameters(c, p);
	c->service_id = cm_service_id(id, &id->destination);
	c->retry_count = at_most(p->retry_count, MAX_RETRY_COUNT);
	c->rnr_retry_count = at_most(p->rnr_retry_count, MAX_RETRY_COUNT);
	c->ack_timeout = ack_timeout_of(id);
	id->state = CM_ID_CONNECT;
	send_req(cm, c, &m, p);
	return 0;
}

static int send_rep(struct cm *cm, struct cm_connection *c, const struct rdma_ucm_conn_param *p,
		    const struct rdma_ucm_ece *ece)
{
	struct cm_mad m = message_of(c, CM_REP);

	if (c->state != CM_REQ_RECEIVED || p->private_data_len > cm_mad_private_bytes(CM_REP))
		return -EINVAL;
	take_parameters(c, p);
	m.modifier = ece->attr_mod;
	m.vendor_id = ece->vendor_id;
	m.qpn = c->local_qpn;
	m.psn = c->receive_psn;
	m.responder_resources = c->responder_resources;
	m.initiator_depth = c->initiator_depth;
	m.target_ack_delay = CARD_ACK_DELAY;
	m.flow_control = !!p->flow_control;
	m.rnr_retry_count = at_most(p->rnr_retry_count, MAX_RETRY_COUNT);
	m.srq = !!p->srq;
	m.ca_guid = node_guid(cm, c->path.place);
	memcpy(m.private_data, p->private_data, p->private_data_len);
	cm_send_again_until(cm, c, &m, CM_REP_SENT);
	return 0;
}

int cm_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p,
	      const struct rdma_ucm_ece *ece)
{
	int rc;

	if (id->state != CM_ID_CONNECT || !id->connection)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return cm_sidr_accept(id, p);
	rc = send_rep(id->file->cm, id->connection, p, ece);
	if (rc)
		cm_reject(id, CM_REJECT_CONSUMER, p->private_data, 0);
	return rc;
}

int cm_establish(struct cm_id *id)
{
	struct cm_connection *c = id->connection;

	if (id->state != CM_ID_CONNECT || !c || c->state != CM_REP_RECEIVED)
		return -EINVAL;
	c->state = CM_ESTABLISHED;
	cm_send_simple(id->file->cm, c, CM_RTU);
	return 0;
}

static int reject_sidr(struct cm *cm, struct cm_connection *c, const uint8_t *private_data,
		       uint32_t length)
{
	struct cm_mad m = { .attribute = CM_SIDR_REP };

	if (c->state != CM_SIDR_RECEIVED || length > cm_mad_private_bytes(CM_SIDR_REP))
		return -EINVAL;
	memcpy(m.private_data, private_data, length);
	cm_sidr_answer(cm, c, CM_SIDR_REJECTED, &m);
	return 0;
}

int cm_reject(struct cm_id *id, uint32_t reason, const uint8_t *private_data, uint32_t length)
{
	struct cm_connection *c = id->connection;
	struct cm *cm = id->file->cm;

	if (!c)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return reject_sidr(cm, c, private_data, length);
	if (length > cm_mad_private_bytes(CM_REJ))
		return -EINVAL;
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
		cm_send_reject(cm, c, reason, private_data, length);
		close_connection(c);
		return 0;
	case CM_REP_SENT:
		cm_send_reject(cm, c, reason, private_data, length);
		cm_enter_timewait(cm, c);
		return 0;
	default:
		return -EINVAL;
	}
}

int cm_disconnect(struct cm_id *id)
{
	struct cm_connection *c = id->connection;
	struct cm *cm = id->file->cm;

	if (!c)
		return -EINVAL;
	if (c->state == CM_ESTABLISHED) {
		send_dreq(cm, c);
	} else if (c->state == CM_DREQ_RECEIVED) {
		cm_send_simple(cm, c, CM_DREP);
		cm_enter_timewait(cm, c);
	}
	return 0;
}

int cm_notify(struct cm_id *id, uint32_t ibv_event)
{
	struct cm_connection *c = id->connection;

	if (!c || ibv_event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	if (c->state == CM_ESTABLISHED)
		return -EISCONN;
	if (c->state != CM_REP_SENT)
		return -EINVAL;
	c->state = CM_ESTABLISHED;
	c->deadline_ns = UINT64_MAX;
	cm_event_post(id, CM_EVENT_ESTABLISHED, 0);
	return 0;
}

static void say_goodbye(struct cm *cm, struct cm_connection *c)
{
	static const uint8_t nothing[1];
	static const struct cm_mad no_fields;

	switch (c->state) {
	case CM_REQ_SENT:
		cm_send_reject(cm, c, CM_REJECT_TIMEOUT, nothing, 0);
		close_connection(c);
		break;
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
		cm_send_reject(cm, c, CM_REJECT_CONSUMER, nothing, 0);
		close_connection(c);
		break;
	case CM_REP_SENT:
		cm_send_reject(cm, c, CM_REJECT_CONSUMER, nothing, 0);
		cm_enter_timewait(cm, c);
		break;
	case CM_ESTABLISHED:
		send_dreq(cm, c);
		break;
	case CM_DREQ_RECEIVED:
		cm_send_simple(cm, c, CM_DREP);
		cm_enter_timewait(cm, c);
		break;
	case CM_SIDR_RECEIVED:
		cm_sidr_answer(cm, c, CM_SIDR_REJECTED, &no_fields);
		break;
	case CM_SIDR_SENT:
		close_connection(c);
		break;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
	case CM_CLOSED:
		break;
	}
}

void cm_connection_abandon(struct cm_id *id)
{
	struct cm_connection *c = id->connection;
	struct cm *cm = id->file->cm;

	if (!c)
		return;
	say_goodbye(cm, c);
	id->connection = NULL;
	c->id = NULL;
	if (c->state == CM_CLOSED)
		cm_connection_free(cm, c);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void give_up(struct cm *cm, struct cm_connection *c)
{
	switch (c->state) {
	case CM_DREQ_SENT:
		cm_enter_timewait(cm, c);
		if (c->id && c->id->state == CM_ID_CONNECT) {
			c->id->state = CM_ID_DISCONNECT;
			cm_event_post(c->id, CM_EVENT_DISCONNECTED, -ETIMEDOUT);
		}
		return;
	case CM_TIMEWAIT:
		cm_event_post(c->id, CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	default:
		cm_event_post(c->id, CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
	close_connection(c);
}

static void expire(struct cm *cm, struct cm_connection *c, uint64_t now)
{
	if (c->state == CM_TIMEWAIT || !c->tries_left) {
		give_up(cm, c);
	} else {
		c->tries_left--;
		c->deadline_ns = now + c->interval_ns;
		cm_send(cm, &c->path, &c->sent);
	}
	if (c->state == CM_CLOSED && !c->id)
		cm_connection_free(cm, c);
}

uint64_t cm_timers(struct cm *cm)
{
	struct cm_connection *c, *following;
	uint64_t now = now_ns(cm), first = UINT64_MAX;

	for (c = cm->connections; c; c = following) {
		following = c->next;
		if (c->deadline_ns <= now)
			expire(cm, c, now);
	}
	for (c = cm->connections; c; c = c->next)
		if (c->deadline_ns < first)
			first = c->deadline_ns;
	return first;
}
