/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requester.c - an RC send queue: from WQEs to request packets. IBA volume 1, 9.7.
 *
 * Every WQE on its way has an entry in the ring `sent`, and a range of PSNs. A cursor (at,
 * packet) says what to send next; all that goes wrong on the way sets it back to the oldest
 * PSN without an acknowledgement. What comes back is in acks.c.
 */
#include <endian.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/card.h"

enum {
	FENCE_READS = 2,		/* of fm_ce_se's top bits: this, and all above */
};

uint32_t hca_requester_position(const struct hca_qp *qp)
{
	const struct hca_requester *q = &qp->req;

	if (q->at == q->tail)
		return q->next_psn;
	return psn_add(hca_sent_at(qp, q->at)->first_psn, q->packet);
}

static uint32_t in_flight(const struct hca_qp *qp)
{
	return (uint32_t)psn_diff(hca_requester_position(qp), qp->req.una);
}

void hca_requester_start(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	q->una = q->high = q->next_psn = qp->values.sq_psn;
	q->tries_left = qp->values.retry_count;
	q->rnr_tries_left = qp->values.rnr_retry;
}

void hca_requester_rewind(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	q->at = q->head;
	q->packet = 0;
	if (q->head != q->tail && hca_sent_at(qp, q->head)->nr_psns)
		q->packet = (uint32_t)psn_diff(q->una, hca_sent_at(qp, q->head)->first_psn);
	q->nr_reads = 0;
	q->since_ack_request = 0;
}

/* ---- from WQE to entry ------------------------------------------------------------ */

static uint8_t check(struct hca_qp *qp, const struct hca_wqe *w)
{
	uint8_t syndrome = hca_wqe_verdict(qp->hca, w);
	bool is_reading = hca_wqe_wants_response(w->opcode);

	if (syndrome)
		return syndrome;
	if (is_reading && !qp->values.max_rd_atomic)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (hca_gather_check(qp->hca, qp->attr.pd, &w->data,
			     is_reading ? HCA_ACCESS_LOCAL_WRITE : 0))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	return 0;
}

/* Begins the next WQE that is posted. False: there is none, or none may begin. */
static bool begin(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;
	struct hca_wqe *w = &q->sending;
	struct hca_sent *e = hca_sent_at(qp, q->tail);

	if (q->is_stuck || q->ci == q->pi || qp->values.state != HCA_QP_RTS)
		return false;
	hca_wqe_read(qp, q->ci, q->pi, w);
	q->sending_entry = q->tail;
	q->has_sending = true;
	*e = (struct hca_sent) {
		.index = w->index, .nr_blocks = w->nr_blocks, .opcode = w->opcode,
		.syndrome = check(qp, w), .is_signalled = w->is_signalled,
		.is_fence = w->fence >= FENCE_READS,
		.wants_response = hca_wqe_wants_response(w->opcode),
		.first_psn = q->next_psn, .length = (uint32_t)w->data.length,
	};
	q->is_stuck = e->syndrome;
	if (!e->syndrome && e->opcode != MLX5_OPCODE_NOP)
		e->nr_psns = hca_nr_packets(e->length, hca_mtu(qp));
	q->next_psn = psn_add(q->next_psn, e->nr_psns);
	q->ci += e->nr_blocks;
	q->tail++;
	qp->hca->config.counters->wqes++;
	hca_trace_wqe(qp, w);
	return true;
}

/* The WQE behind an entry. It is still the card's; a program that changed it all the same
 * gets the error of a malformed one. */
struct hca_wqe *hca_requester_wqe(struct hca_qp *qp, uint32_t i, bool is_answer)
{
	struct hca_requester *q = &qp->req;
	struct hca_wqe *w = is_answer ? &q->answer : &q->sending;
	bool *has = is_answer ? &q->has_answer : &q->has_sending;
	uint32_t *which = is_answer ? &q->answer_entry : &q->sending_entry;
	struct hca_sent *e = hca_sent_at(qp, i);

	if (*has && *which == i)
		return w;
	*has = true;
	*which = i;
	hca_wqe_read(qp, e->index, (uint16_t)(e->index + e->nr_blocks), w);
	if (w->syndrome || w->opcode != e->opcode || w->data.length != e->length) {
		*has = false;
		return NULL;
	}
	return w;
}

/* ---- from entry to packets ---------------------------------------------------------- */

struct message {
	uint8_t first, middle, last, only;
};

static struct message message_of(uint8_t opcode)
{
	switch (opcode) {
	case MLX5_OPCODE_SEND_IMM:
		return (struct message) { HCA_SEND_FIRST, HCA_SEND_MIDDLE, HCA_SEND_LAST_IMM,
					  HCA_SEND_ONLY_IMM };
	case MLX5_OPCODE_SEND_INVAL:
		return (struct message) { HCA_SEND_FIRST, HCA_SEND_MIDDLE,
					  HCA_SEND_LAST_INVALIDATE, HCA_SEND_ONLY_INVALIDATE };
	case MLX5_OPCODE_RDMA_WRITE:
		return (struct message) { HCA_WRITE_FIRST, HCA_WRITE_MIDDLE, HCA_WRITE_LAST,
					  HCA_WRITE_ONLY };
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return (struct message) { HCA_WRITE_FIRST, HCA_WRITE_MIDDLE, HCA_WRITE_LAST_IMM,
					  HCA_WRITE_ONLY_IMM };
	default:
		return (struct message) { HCA_SEND_FIRST, HCA_SEND_MIDDLE, HCA_SEND_LAST,
					  HCA_SEND_ONLY };
	}
}

static uint8_t operation_of(const struct hca_sent *e, uint32_t packet)
{
	struct message m = message_of(e->opcode);
	bool is_last = packet + 1 == e->nr_psns;

	if (packet == 0)
		return is_last ? m.only : m.first;
	return is_last ? m.last : m.middle;
}

/* False: the WQE ends in error, at its turn. */
static bool end_in_error(struct hca_qp *qp, struct hca_sent *e, uint8_t syndrome)
{
	e->syndrome = syndrome;
	qp->req.is_stuck = true;
	return false;
}

static uint32_t be32_of(uint32_t bytes_in_memory)
{
	return be32toh(bytes_in_memory);
}

static bool make_data_packet(struct hca_qp *qp, struct hca_sent *e, struct hca_packet *p)
{
	struct hca_requester *q = &qp->req;
	const struct hca_wqe *w = hca_requester_wqe(qp, q->at, false);
	uint32_t mtu = hca_mtu(qp), offset = q->packet * mtu;
	bool is_last = q->packet + 1 == e->nr_psns;

	if (!w)
		return end_in_error(qp, e, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	*p = hca_packet_to_peer(qp, operation_of(e, q->packet), hca_requester_position(qp));
	p->length = is_last ? e->length - offset : mtu;
	p->payload = qp->hca->payload;
	if (hca_gather_read(qp->hca, qp->attr.pd, &w->data, offset, qp->hca->payload, p->length))
		return end_in_error(qp, e, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	p->remote_address = w->remote_address;
	p->rkey = e->opcode == MLX5_OPCODE_SEND_INVAL ? be32_of(w->immediate) : w->rkey;
	p->dma_length = e->length;
	p->immediate = w->immediate;
	p->solicited = is_last && w->is_solicited;
	return true;
}

static bool make_atomic_packet(struct hca_qp *qp, struct hca_sent *e, struct hca_packet *p)
{
	const struct hca_wqe *w = hca_requester_wqe(qp, qp->req.at, false);
	bool is_swap = e->opcode == MLX5_OPCODE_ATOMIC_CS;

	if (!w)
		return end_in_error(qp, e, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	*p = hca_packet_to_peer(qp, is_swap ? HCA_COMPARE_SWAP : HCA_FETCH_ADD, e->first_psn);
	p->remote_address = w->remote_address;
	p->rkey = w->rkey;
	p->swap_or_add = w->swap_or_add;
	p->compare = w->compare;
	return true;
}

/* PSNs that one READ request asks for. Ends at the same places in whatever order packets get
 * lost, so that a repeated request lies within one that the peer remembers. */
static uint32_t read_packets(const struct hca_sent *e, uint32_t packet)
{
	uint32_t left = e->nr_psns - packet;
	uint32_t n = HCA_READ_PACKETS - packet % HCA_READ_PACKETS;

	return n < left ? n : left;
}

static bool make_read_packet(struct hca_qp *qp, struct hca_sent *e, struct hca_packet *p)
{
	struct hca_requester *q = &qp->req;
	const struct hca_wqe *w = hca_requester_wqe(qp, q->at, false);
	uint32_t mtu = hca_mtu(qp), offset = q->packet * mtu;
	uint32_t n = read_packets(e, q->packet);

	if (!w)
		return end_in_error(qp, e, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	*p = hca_packet_to_peer(qp, HCA_READ_REQUEST, hca_requester_position(qp));
	p->remote_address = w->remote_address + offset;
	p->rkey = w->rkey;
	p->dma_length = q->packet + n == e->nr_psns ? e->length - offset : n * mtu;
	return true;
}

static bool make_packet(struct hca_qp *qp, struct hca_sent *e, struct hca_packet *p)
{
	switch (e->opcode) {
	case MLX5_OPCODE_RDMA_READ:
		return make_read_packet(qp, e, p);
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		return make_atomic_packet(qp, e, p);
	default:
		return make_data_packet(qp, e, p);
	}
}

/* ---- the cursor ------------------------------------------------------------------------ */

/* PSNs that the next packet takes; a READ's are those of its responses. */
static uint32_t step_of(const struct hca_qp *qp, const struct hca_sent *e)
{
	return e->opcode == MLX5_OPCODE_RDMA_READ ? read_packets(e, qp->req.packet) : 1;
}

/* What is at the cursor may go now. */
static bool may_go(const struct hca_qp *qp)
{
	const struct hca_requester *q = &qp->req;
	const struct hca_sent *e = hca_sent_at(qp, q->at);

	if (q->at == q->tail || e->syndrome)
		return false;
	if (e->is_fence && !q->packet && q->nr_reads)
		return false;
	if (e->wants_response && q->nr_reads >= qp->values.max_rd_atomic)
		return false;
	return !e->nr_psns || in_flight(qp) + step_of(qp, e) <= HCA_WINDOW_PACKETS;
}

static void note_read(struct hca_requester *q, uint32_t end_psn)
{
	q->reads[(q->first_read + q->nr_reads) % HCA_MAX_READS] = end_psn;
	q->nr_reads++;
	q->since_ack_request = 0;	/* its responses acknowledge what was before it */
}

static void move_on(struct hca_qp *qp, const struct hca_sent *e)
{
	struct hca_requester *q = &qp->req;
	uint32_t position;

	q->packet += step_of(qp, e);
	position = psn_add(e->first_psn, q->packet);
	if (e->wants_response)
		note_read(q, position);
	else
		q->since_ack_request++;
	if (psn_diff(position, q->high) > 0)
		q->high = position;
	if (q->packet >= e->nr_psns) {
		q->at++;
		q->packet = 0;
	}
}

/* Asks when the peer would otherwise leave us waiting: nothing that asks follows at once. */
static bool must_ask(struct hca_qp *qp)
{
	const struct hca_requester *q = &qp->req;

	if (q->at == q->tail)
		begin(qp);
	return q->since_ack_request >= HCA_ACK_EVERY || !may_go(qp) ||
	       hca_sent_at(qp, q->at)->opcode == MLX5_OPCODE_NOP;
}

/* False: a packet could not be made. */
static bool step(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;
	struct hca_sent *e = hca_sent_at(qp, q->at);
	struct hca_packet p;

	if (!e->nr_psns) {
		q->at++;
		return true;
	}
	if (!make_packet(qp, e, &p))
		return false;
	move_on(qp, e);
	if (!e->wants_response && must_ask(qp)) {
		p.ack_request = true;
		q->since_ack_request = 0;
	}
	hca_send(qp->hca, &p);
	return true;
}

/* ---- running ------------------------------------------------------------------------------ */

static void arm(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	if (!qp->values.timeout || !in_flight(qp))
		q->deadline_ns = UINT64_MAX;
	else if (q->deadline_ns == UINT64_MAX)
		q->deadline_ns = hca_now(qp->hca) +
				 hca_scaled_ns(qp->hca, 4096ULL << qp->values.timeout);
}

void hca_requester_run(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;
	uint32_t budget = HCA_BUDGET;

	while (!q->rnr_until_ns) {
		if (q->at == q->tail)
			begin(qp);
		if (!may_go(qp))
			break;
		if (!budget--) {
			qp->wants_run = true;
			break;
		}
		if (!step(qp))
			break;
	}
	hca_requester_retire(qp, NULL);
	if (qp->values.state != HCA_QP_ERR)
		arm(qp);
}
