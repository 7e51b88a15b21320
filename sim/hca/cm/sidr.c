/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidr.c - service id resolution: how a UD program learns the peer's QP. IBA 12.11. And
 * what requests of both kinds share: the IP header, and the new id of a listener.
 */
#include <errno.h>
#include <string.h>

#include "sim/hca/cm/core.h"

/* IPv4 lies in the last 4 bytes, after zeros. */
static void header_ip(const union cm_address *a, uint8_t out[16])
{
	cm_address_ip(a, out);
	if (a->any.sa_family == AF_INET)
		memset(out, 0, 12);
}

int cm_private_data(const struct cm_id *id, const uint8_t *private_data, uint32_t length,
		    struct cm_mad *m)
{
	struct cm_ip_header h = {
		.version = id->source.any.sa_family == AF_INET ? 4 : 6,
		.source_port = cm_address_port(&id->source),
	};

	if (CM_IP_HEADER_BYTES + length > cm_mad_private_bytes(m->attribute))
		return -EINVAL;
	header_ip(&id->source, h.source);
	header_ip(&id->destination, h.destination);
	cm_ip_header_pack(&h, m->private_data);
	memcpy(m->private_data + CM_IP_HEADER_BYTES, private_data, length);
	return 0;
}

static void address_of_header(union cm_address *a, uint32_t version, const uint8_t ip[16],
			      uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (version == 4) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(port);
		memcpy(&a->v4.sin_addr, ip + 12, 4);
	} else {
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons(port);
		memcpy(&a->v6.sin6_addr, ip, 16);
	}
}

struct cm_id *cm_id_of_request(struct cm_id *listener, const struct cm_path *path,
			       const struct cm_ip_header *h)
{
	struct cm_id *id = cm_id_create(listener->file, 0, listener->port_space,
					listener->qp_type);

	if (!id)
		return NULL;
	address_of_header(&id->source, h->version, h->destination,
			  cm_address_port(&listener->source));
	address_of_header(&id->destination, h->version, h->source, h->source_port);
	id->state = CM_ID_CONNECT;
	id->has_device = true;
	id->path = *path;
	id->has_ack_timeout = listener->has_ack_timeout;
	id->ack_timeout = listener->ack_timeout;
	if (!cm_connection_create(id, path)) {
		cm_id_destroy(id);
		return NULL;
	}
	return id;
}

/* ---- the asking side ------------------------------------------------------------------ */

int cm_sidr_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	struct cm_mad m = { .attribute = CM_SIDR_REQ, .pkey = CM_DEFAULT_PKEY };
	struct cm_connection *c;

	if (cm_private_data(id, p->private_data, p->private_data_len, &m))
		return -EINVAL;
	c = cm_connection_create(id, &id->path);
	if (!c)
		return -ENOMEM;
	c->service_id = m.service_id = cm_service_id(id, &id->destination);
	m.transaction = c->transaction;
	m.local_id = c->local_id;
	id->state = CM_ID_CONNECT;
	cm_send_again_until(id->file->cm, c, &m, CM_SIDR_SENT);
	return 0;
}

static void tell_resolved(struct cm_id *id, const struct cm_connection *c, const struct cm_mad *m)
{
	struct rdma_ucm_event_resp *e = cm_event_post(id, CM_EVENT_ESTABLISHED, 0);
	struct rdma_ucm_ud_param *ud = e ? &e->param.ud : NULL;

	if (!e)
		return;
	ud->qp_num = m->qpn;
	ud->qkey = m->qkey;
	cm_path_to_ah(&c->path, &ud->ah_attr);
	ud->private_data_len = (uint8_t)cm_mad_private_bytes(CM_SIDR_REP);
	memcpy(ud->private_data, m->private_data, ud->private_data_len);
}

void cm_receive_sidr_rep(struct cm *cm, const struct cm_mad *m)
{
	struct cm_connection *c;

	for (c = cm->connections; c; c = c->next)
		if (c->local_id == m->local_id && c->state == CM_SIDR_SENT)
			break;
	if (!c)
		return;
	c->state = CM_CLOSED;
	c->deadline_ns = UINT64_MAX;
	if (m->status != CM_SIDR_SUCCESS)
		cm_event_post(c->id, CM_EVENT_UNREACHABLE, (int)m->status);
	else if (m->qkey != c->id->qkey)
		cm_event_post(c->id, CM_EVENT_UNREACHABLE, -EINVAL);
	else
		tell_resolved(c->id, c, m);
}

/* ---- the answering side ----------------------------------------------------------------- */

/* fields: the QP and private data, if any. The question may come again: the answer stays. */
void cm_sidr_answer(struct cm *cm, struct cm_connection *c, enum cm_sidr_status status,
		    const struct cm_mad *fields)
{
	c->sent = *fields;
	c->sent.attribute = CM_SIDR_REP;
	c->sent.transaction = c->transaction;
	c->sent.local_id = c->remote_id;
	c->sent.service_id = c->service_id;
	c->sent.status = status;
	c->state = CM_CLOSED;
	cm_send(cm, &c->path, &c->sent);
}

int cm_sidr_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	struct cm_mad m = { .qpn = p->qp_num & HCA_QPN_MASK, .qkey = id->qkey };

	if (id->connection->state != CM_SIDR_RECEIVED ||
	    p->private_data_len > cm_mad_private_bytes(CM_SIDR_REP))
		return -EINVAL;
	memcpy(m.private_data, p->private_data, p->private_data_len);
	cm_sidr_answer(id->file->cm, id->connection, CM_SIDR_SUCCESS, &m);
	return 0;
}

/* A question that was asked before: the answer again, or silence while the program thinks. */
static bool is_repeated(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_connection *c;

	for (c = cm->connections; c; c = c->next) {
		if (!c->id || c->id->qp_type != IBV_QPT_UD || c->remote_id != m->local_id ||
		    c->transaction != m->transaction || !cm_path_same_peer(&c->path, reply))
			continue;
		if (c->state == CM_CLOSED)
			cm_send(cm, &c->path, &c->sent);
		return true;
	}
	return false;
}

static void refuse(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_mad answer = {
		.attribute = CM_SIDR_REP,
		.transaction = m->transaction,
		.local_id = m->local_id,
		.service_id = m->service_id,
		.status = CM_SIDR_UNSUPPORTED,
	};

	cm_send(cm, reply, &answer);
}

static void tell_listener(struct cm_id *listener, struct cm_id *id, const struct cm_mad *m)
{
	struct rdma_ucm_event_resp *e = cm_event_post_request(listener, id);
	struct rdma_ucm_ud_param *ud = e ? &e->param.ud : NULL;

	if (!e) {
		id->connection->state = CM_CLOSED;	/* the peer asks again */
		cm_id_destroy(id);
		return;
	}
	ud->private_data_len = (uint8_t)(cm_mad_private_bytes(CM_SIDR_REQ) - CM_IP_HEADER_BYTES);
	memcpy(ud->private_data, m->private_data + CM_IP_HEADER_BYTES, ud->private_data_len);
}

void cm_receive_sidr_req(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m)
{
	struct cm_id *listener = NULL, *id;
	struct cm_ip_header h;

	if (is_repeated(cm, reply, m))
		return;
	if (cm_ip_header_unpack(&h, m->private_data))
		listener = cm_find_listener(cm, reply->place, m->service_id, &h);
	if (!listener || listener->qp_type != IBV_QPT_UD) {
		refuse(cm, reply, m);
		return;
	}
	id = listener->backlog ? cm_id_of_request(listener, reply, &h) : NULL;
	if (!id)
		return;		/* the peer asks again */
	id->connection->state = CM_SIDR_RECEIVED;
	id->connection->remote_id = m->local_id;
	id->connection->transaction = m->transaction;
	id->connection->service_id = m->service_id;
	tell_listener(listener, id, m);
}
