/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ud.c - unreliable datagrams: a packet per message, done when it is sent. IBA 9.8.3.
 */
#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

/* ---- sending ------------------------------------------------------------------------ */

static uint32_t port_mtu(const struct hca_qp *qp)
{
	const struct hca_env *env = &qp->hca->env;
	uint32_t bytes = HCA_MAX_PAYLOAD;

	if (env->port_mtu_bytes)
		bytes = env->port_mtu_bytes(env->ctx, qp->values.port);
	return bytes < HCA_MAX_PAYLOAD ? bytes : HCA_MAX_PAYLOAD;
}

static uint8_t check(struct hca_qp *qp, const struct hca_wqe *w)
{
	uint8_t syndrome = hca_wqe_verdict(qp->hca, w);

	if (syndrome)
		return syndrome;
	if (w->data.length > port_mtu(qp))
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	if (hca_gather_read(qp->hca, qp->attr.pd, &w->data, 0, qp->hca->payload,
			    (uint32_t)w->data.length) ||
	    hca_gather_check(qp->hca, qp->attr.pd, &w->data, 0))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	return 0;
}

static void send(struct hca_qp *qp, const struct hca_wqe *w)
{
	bool has_immediate = w->opcode == MLX5_OPCODE_SEND_IMM;
	struct hca_packet p = {
		.route = w->route,
		.opcode = HCA_UD | (has_immediate ? HCA_SEND_ONLY_IMM : HCA_SEND_ONLY),
		.solicited = w->is_solicited,
		.pkey = 0xffff,
		.dest_qpn = w->dest_qpn,
		.psn = qp->req.next_psn,
		.qkey = w->qkey,
		.source_qpn = qp->qpn,
		.immediate = w->immediate,
		.payload = qp->hca->payload,
		.length = (uint32_t)w->data.length,
	};

	qp->req.next_psn = psn_add(qp->req.next_psn, 1);
	hca_send(qp->hca, &p);
}

static void complete(struct hca_qp *qp, const struct hca_wqe *w, uint8_t syndrome)
{
	struct hca_done d = { .qp = qp, .wqe_index = w->index, .opcode = w->opcode };

	if (syndrome)
		hca_complete_error(&d, true, syndrome);
	else if (w->is_signalled)
		hca_complete_send(&d);
}

void hca_ud_run(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;
	struct hca_wqe *w = &q->sending;

	for (uint32_t n = 0; q->ci != q->pi && qp->values.state == HCA_QP_RTS; n++) {
		uint8_t syndrome;

		if (n == HCA_BUDGET) {
			qp->wants_run = true;
			return;
		}
		hca_wqe_read(qp, q->ci, q->pi, w);
		hca_trace_wqe(qp, w);
		qp->hca->config.counters->wqes++;
		syndrome = check(qp, w);
		if (!syndrome && w->opcode != MLX5_OPCODE_NOP)
			send(qp, w);
		q->ci += w->nr_blocks;
		complete(qp, w, syndrome);
		if (syndrome) {
			/* Only the send queue is in error; receiving goes on. */
			qp->values.state = HCA_QP_SQE;
			hca_requester_flush(qp);
		}
	}
	hca_requester_retire(qp, NULL);
}

/* ---- receiving ------------------------------------------------------------------------ */

enum {
	IPV4_AT = 20,			/* of the 40 bytes; those before it mean nothing */
	NEXT_GRH = 0x1b, NEXT_UDP = 17,
	ROCE_OVERHEAD = 8 + 12 + 8 + 4,	/* UDP, BTH, DETH, ICRC */
	IB_OVERHEAD = 12 + 8 + 4,
};

static uint16_t ip_checksum(const uint8_t header[20])
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get_be16(header + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~(sum + (sum >> 16));
}

static uint32_t bytes_behind(const struct hca *h, const struct hca_packet *p)
{
	uint32_t immediate = (p->opcode & 0x1f) == HCA_SEND_ONLY_IMM ? 4 : 0;

	return (h->config.is_ethernet ? ROCE_OVERHEAD : IB_OVERHEAD) + immediate +
	       (p->length + 3) / 4 * 4;
}

static void write_ipv4(const struct hca *h, const struct hca_packet *p, uint8_t to[20])
{
	to[0] = 0x45;
	to[1] = p->route.tclass;
	put_be16(to + 2, (uint16_t)(20 + bytes_behind(h, p)));
	to[6] = 0x40;			/* don't fragment */
	to[8] = p->route.hop_limit;
	to[9] = NEXT_UDP;
	memcpy(to + 12, p->route.sgid + 12, 4);
	memcpy(to + 16, p->route.dgid + 12, 4);
	put_be16(to + 10, ip_checksum(to));
}

/* A GRH and an IPv6 header have one layout. */
static void write_grh(const struct hca *h, const struct hca_packet *p, uint8_t to[HCA_GRH_BYTES])
{
	const struct hca_route *r = &p->route;

	put_be32(to, 6U << 28 | (uint32_t)r->tclass << 20 | (r->flow_label & 0xfffff));
	put_be16(to + 4, (uint16_t)bytes_behind(h, p));
	to[6] = h->config.is_ethernet ? NEXT_UDP : NEXT_GRH;
	to[7] = r->hop_limit;
	memcpy(to + 8, r->sgid, 16);
	memcpy(to + 24, r->dgid, 16);
}

/* The first 40 bytes of the buffer are the network header's, whether there is one or not. */
static int store(struct hca_qp *qp, const struct hca_packet *p)
{
	uint8_t grh[HCA_GRH_BYTES] = { 0 };
	int rc = 0;

	if (p->route.has_grh) {
		if (hca_route_is_ipv4(qp->hca, &p->route))
			write_ipv4(qp->hca, p, grh + IPV4_AT);
		else
			write_grh(qp->hca, p, grh);
		rc = hca_recv_write(qp, 0, grh, sizeof(grh));
	}
	return rc ? rc : hca_recv_write(qp, HCA_GRH_BYTES, p->payload, p->length);
}

static void fail_receive(struct hca_qp *qp, uint8_t syndrome)
{
	struct hca_done d = { .qp = qp, .wqe_index = qp->resp.recv.index };

	qp->resp.recv.is_held = false;
	hca_complete_error(&d, false, syndrome);
	hca_qp_fail(qp);
}

void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p)
{
	bool has_immediate = (p->opcode & 0x1f) == HCA_SEND_ONLY_IMM;
	struct hca_recv *r = &qp->resp.recv;
	struct hca_done d = {
		.qp = qp,
		.opcode = has_immediate ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND,
		.bytes = HCA_GRH_BYTES + p->length, .immediate = has_immediate ? p->immediate : 0,
		.source_qpn = p->source_qpn, .route = &p->route, .is_solicited = p->solicited,
	};

	/* A datagram that nothing waits for, or that has no right to come, is lost. */
	if ((!has_immediate && (p->opcode & 0x1f) != HCA_SEND_ONLY) ||
	    p->qkey != qp->values.qkey || hca_recv_take(qp, r))
		return;
	if (HCA_GRH_BYTES + p->length > r->to.length) {
		fail_receive(qp, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
		return;
	}
	if (store(qp, p)) {
		fail_receive(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	r->is_held = false;
	d.wqe_index = r->index;
	hca_complete_recv(&d);
}
