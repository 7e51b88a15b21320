/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responder.c - what an RC queue pair does with requests. IBA volume 1, 9.7.4 and 9.9.3.
 *
 * Only the packet with the expected PSN has an effect; one before it is a duplicate, one
 * after it shows a loss. answers.c sends what comes of them.
 */
#include <errno.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/card.h"

/* What an operation's number says, the last two bits of the specification's table 38. */
enum {
	SEND = 1, WRITE = 2, READ = 4, ATOMIC = 8,	/* kinds */
	FIRST = 16, LAST = 32, IMMEDIATE = 64, INVALIDATE = 128,
	KINDS = SEND | WRITE | READ | ATOMIC,
};

static const uint8_t traits[32] = {
	[HCA_SEND_FIRST] = SEND | FIRST,
	[HCA_SEND_MIDDLE] = SEND,
	[HCA_SEND_LAST] = SEND | LAST,
	[HCA_SEND_LAST_IMM] = SEND | LAST | IMMEDIATE,
	[HCA_SEND_ONLY] = SEND | FIRST | LAST,
	[HCA_SEND_ONLY_IMM] = SEND | FIRST | LAST | IMMEDIATE,
	[HCA_SEND_LAST_INVALIDATE] = SEND | LAST | INVALIDATE,
	[HCA_SEND_ONLY_INVALIDATE] = SEND | FIRST | LAST | INVALIDATE,
	[HCA_WRITE_FIRST] = WRITE | FIRST,
	[HCA_WRITE_MIDDLE] = WRITE,
	[HCA_WRITE_LAST] = WRITE | LAST,
	[HCA_WRITE_LAST_IMM] = WRITE | LAST | IMMEDIATE,
	[HCA_WRITE_ONLY] = WRITE | FIRST | LAST,
	[HCA_WRITE_ONLY_IMM] = WRITE | FIRST | LAST | IMMEDIATE,
	[HCA_READ_REQUEST] = READ | FIRST | LAST,
	[HCA_COMPARE_SWAP] = ATOMIC | FIRST | LAST,
	[HCA_FETCH_ADD] = ATOMIC | FIRST | LAST,
};

/* ---- refusing ----------------------------------------------------------------------- */

/* The peer's fault: it learns by a NAK, this side's program by an event. */
static void refuse(struct hca_qp *qp, uint8_t aeth)
{
	qp->resp.has_event = true;
	qp->resp.event = aeth == HCA_AETH_NAK_REMOTE_ACCESS ? HCA_EVENT_QP_ACCESS_ERROR
							      : HCA_EVENT_QP_REQUEST_ERROR;
	hca_respond_last(qp, aeth, qp->resp.epsn);
}

/* A receive WQE that cannot take the message: its completion tells this side. */
static void fail_receive(struct hca_qp *qp, uint8_t syndrome, uint8_t aeth)
{
	struct hca_recv *r = &qp->resp.recv;
	struct hca_done d = { .qp = qp, .wqe_index = r->index };

	r->is_held = false;
	hca_complete_error(&d, false, syndrome);
	hca_respond_last(qp, aeth, qp->resp.epsn);
}

/* False: there is none, and the peer has been told to wait. */
static bool take_receive(struct hca_qp *qp)
{
	int rc = hca_recv_take(qp, &qp->resp.recv);

	if (!rc)
		return true;
	if (rc == -ENOENT) {
		qp->resp.nak_sent = true;
		hca_respond(qp, HCA_AETH_RNR_NAK | qp->values.min_rnr_timer, qp->resp.epsn);
		return false;
	}
	qp->resp.has_event = true;
	qp->resp.event = HCA_EVENT_QP_FATAL;
	hca_respond_last(qp, HCA_AETH_NAK_REMOTE_OPERATION, qp->resp.epsn);
	return false;
}

/* ---- completing ---------------------------------------------------------------------- */

static uint8_t completion_of(uint8_t t)
{
	if (t & WRITE)
		return MLX5_CQE_RESP_WR_IMM;
	if (t & INVALIDATE)
		return MLX5_CQE_RESP_SEND_INV;
	return t & IMMEDIATE ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND;
}

static void complete(struct hca_qp *qp, const struct hca_packet *p, uint8_t t, bool is_in_cqe)
{
	struct hca_responder *r = &qp->resp;
	struct hca_done d = {
		.qp = qp, .wqe_index = r->recv.index, .opcode = completion_of(t),
		.bytes = r->message_bytes, .source_qpn = qp->values.dest_qpn,
		.route = &p->route, .is_solicited = p->solicited,
		.data = is_in_cqe ? p->payload : NULL,
	};

	if (t & IMMEDIATE)
		d.immediate = p->immediate;
	else if (t & INVALIDATE)
		d.immediate = htobe32(p->rkey);
	r->recv.is_held = false;
	hca_complete_recv(&d);
}

/* ---- operations: true when the packet has had its effect -------------------------------- */

static bool send(struct hca_qp *qp, const struct hca_packet *p, uint8_t t)
{
	struct hca_responder *r = &qp->resp;
	bool is_in_cqe = qp->attr.scatter_recv && (t & FIRST) && (t & LAST) &&
			 hca_fits_cqe(qp->attr.recv_cq, p->length);

	if (t & FIRST && !take_receive(qp))
		return false;
	if (t & FIRST)
		r->message_bytes = 0;
	if (r->message_bytes + p->length > HCA_MAX_MESSAGE_BYTES ||
	    r->message_bytes + p->length > r->recv.to.length) {
		fail_receive(qp, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	if (!is_in_cqe && hca_recv_write(qp, r->message_bytes, p->payload, p->length)) {
		fail_receive(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_AETH_NAK_REMOTE_OPERATION);
		return false;
	}
	r->message_bytes += p->length;
	if (t & INVALIDATE && !hca_key_invalidate(qp->hca, qp->attr.pd, p->rkey)) {
		fail_receive(qp, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, HCA_AETH_NAK_REMOTE_ACCESS);
		return false;
	}
	if (t & LAST)
		complete(qp, p, t, is_in_cqe);
	return true;
}

/* Looks a remote key up, or refuses the peer. */
static bool find_key(struct hca_qp *qp, uint32_t key, uint64_t address, uint64_t length,
		     uint32_t access, struct hca_mr **mr, uint64_t *offset)
{
	if (!hca_key_find(qp->hca, qp->attr.pd, key, address, length, access, mr, offset))
		return true;
	refuse(qp, HCA_AETH_NAK_REMOTE_ACCESS);
	return false;
}

static bool begin_write(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	struct hca_mr *mr;
	uint64_t offset;

	if (p->dma_length > HCA_MAX_MESSAGE_BYTES ||
	    !(qp->values.access & HCA_ACCESS_REMOTE_WRITE)) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	/* An empty write names no memory. */
	if (p->dma_length && !find_key(qp, p->rkey, p->remote_address, p->dma_length,
				       HCA_ACCESS_REMOTE_WRITE, &mr, &offset))
		return false;
	r->write_address = p->remote_address;
	r->write_rkey = p->rkey;
	r->write_left = p->dma_length;
	r->message_bytes = 0;
	return true;
}

static bool store(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	struct hca_mr *mr;
	uint64_t offset;

	if (!p->length)
		return true;
	if (!find_key(qp, r->write_rkey, r->write_address, p->length, HCA_ACCESS_REMOTE_WRITE,
		      &mr, &offset))
		return false;
	if (umem_write(mr->mem, offset, p->payload, p->length)) {
		refuse(qp, HCA_AETH_NAK_REMOTE_ACCESS);
		return false;
	}
	r->write_address += p->length;
	r->write_left -= p->length;
	r->message_bytes += p->length;
	return true;
}

static bool write(struct hca_qp *qp, const struct hca_packet *p, uint8_t t)
{
	struct hca_responder *r = &qp->resp;

	if (t & FIRST && !begin_write(qp, p))
		return false;
	if (t & LAST ? p->length != r->write_left : p->length >= r->write_left) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	if (t & IMMEDIATE && !take_receive(qp))
		return false;
	if (!store(qp, p))
		return false;
	if (t & IMMEDIATE)
		complete(qp, p, t, false);
	return true;
}

/* May a READ or an atomic be taken at all? A peer that keeps to what was agreed has not more
 * of them on their way: it asks for the next when an answer has come whole. */
static bool may_answer(struct hca_qp *qp, uint32_t access)
{
	if (!(qp->values.access & access) ||
	    hca_answers_owed(qp) >= qp->values.max_dest_rd_atomic) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	/* Where there is no place for the answer the request is lost: it will come again. */
	return hca_answers_have_room(qp);
}

static bool read(struct hca_qp *qp, const struct hca_packet *p, uint32_t *nr_psns)
{
	struct hca_mr *mr;
	uint64_t offset;

	if (!may_answer(qp, HCA_ACCESS_REMOTE_READ))
		return false;
	if (p->dma_length > HCA_MAX_MESSAGE_BYTES) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	*nr_psns = hca_nr_packets(p->dma_length, hca_mtu(qp));
	if (p->dma_length && !find_key(qp, p->rkey, p->remote_address, p->dma_length,
				       HCA_ACCESS_REMOTE_READ, &mr, &offset))
		return false;
	hca_answer_add(qp, &(struct hca_answer) {
		.psn = p->psn, .nr_psns = *nr_psns, .address = p->remote_address,
		.rkey = p->rkey, .length = p->dma_length, .msn = qp->resp.msn + 1,
	});
	return true;
}

static bool atomic(struct hca_qp *qp, const struct hca_packet *p)
{
	uint64_t offset, before;
	struct hca_mr *mr;
	int rc;

	if (!may_answer(qp, HCA_ACCESS_REMOTE_ATOMIC))
		return false;
	if (p->remote_address % 8) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return false;
	}
	if (!find_key(qp, p->rkey, p->remote_address, 8, HCA_ACCESS_REMOTE_ATOMIC, &mr, &offset))
		return false;
	if ((p->opcode & 0x1f) == HCA_FETCH_ADD)
		rc = umem_fetch_add64(mr->mem, offset, p->swap_or_add, &before);
	else
		rc = umem_compare_swap64(mr->mem, offset, p->compare, p->swap_or_add, &before);
	if (rc) {
		refuse(qp, HCA_AETH_NAK_REMOTE_ACCESS);
		return false;
	}
	hca_answer_add(qp, &(struct hca_answer) {
		.psn = p->psn, .nr_psns = 1, .msn = qp->resp.msn + 1,
		.is_atomic = true, .original = before,
	});
	return true;
}

/* ---- one packet --------------------------------------------------------------------------- */

/* First, middle and last in their order, and of the sizes that the MTU gives them. */
static bool is_in_place(const struct hca_qp *qp, const struct hca_packet *p, uint8_t t)
{
	uint8_t begun = qp->resp.message;

	if (!t || (t & FIRST ? begun != HCA_NO_MESSAGE : begun != (t & KINDS)))
		return false;
	if (!(t & (SEND | WRITE)))
		return !p->length;
	if (!(t & LAST))
		return p->length == hca_mtu(qp);
	return p->length <= hca_mtu(qp) && (t & FIRST || p->length);
}

static void execute(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_responder *r = &qp->resp;
	uint8_t t = traits[p->opcode & 0x1f];
	uint32_t nr_psns = 1;
	bool is_done;

	if (!is_in_place(qp, p, t)) {
		refuse(qp, HCA_AETH_NAK_INVALID_REQUEST);
		return;
	}
	if (t & SEND)
		is_done = send(qp, p, t);
	else if (t & WRITE)
		is_done = write(qp, p, t);
	else if (t & READ)
		is_done = read(qp, p, &nr_psns);
	else
		is_done = atomic(qp, p);
	if (!is_done)
		return;
	r->nak_sent = false;
	r->epsn = psn_add(r->epsn, nr_psns);
	r->message = t & LAST ? HCA_NO_MESSAGE : t & KINDS;
	if (t & LAST)
		r->msn = psn_add(r->msn, 1);
	if (p->ack_request && t & (SEND | WRITE))
		hca_respond(qp, HCA_AETH_ACK, p->psn);
}

/* What has had its effect is acknowledged anew, or answered from what is remembered. */
static void again(struct hca_qp *qp, const struct hca_packet *p)
{
	uint8_t t = traits[p->opcode & 0x1f];

	qp->hca->config.counters->duplicates++;
	if (t & (READ | ATOMIC))
		hca_answer_again(qp, p);
	else if (p->ack_request && !qp->resp.is_due)
		hca_respond(qp, HCA_AETH_ACK, psn_add(qp->resp.epsn, HCA_PSN_MASK));
}

static void report_gap(struct hca_qp *qp)
{
	qp->hca->config.counters->out_of_sequence++;
	if (qp->resp.nak_sent)
		return;
	qp->resp.nak_sent = true;
	hca_respond(qp, HCA_AETH_NAK_SEQUENCE, qp->resp.epsn);
}

/* An answer that a person asked for. True: the packet has no other. */
static bool inject(struct hca_qp *qp)
{
	struct hca_faults *f = qp->hca->config.faults;
	uint8_t aeth;

	if (!hca_fault_due(&f->nak_at))
		return false;
	aeth = (uint8_t)__atomic_load_n(&f->nak_syndrome, __ATOMIC_RELAXED);
	if (aeth > HCA_AETH_NAK_SEQUENCE) {
		refuse(qp, aeth);
	} else {
		qp->resp.nak_sent = true;
		hca_respond(qp, aeth, qp->resp.epsn);
	}
	return true;
}

void hca_responder_receive(struct hca_qp *qp, const struct hca_packet *p)
{
	int32_t distance = psn_diff(p->psn, qp->resp.epsn);

	if (qp->values.state == HCA_QP_RTR && !qp->has_established) {
		qp->has_established = true;
		hca_event(qp->hca, HCA_EVENT_COMM_EST, qp->attr.cookie);
	}
	if (qp->resp.is_ending)
		return;
	if (distance > 0)
		report_gap(qp);
	else if (distance < 0)
		again(qp, p);
	else if (!inject(qp))
		execute(qp, p);
}
