/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acks.c - what comes back to an RC send queue, or does not: acknowledgements, responses,
 * time. IBA volume 1, 9.7.5 to 9.7.8.
 */
#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/card.h"

enum {
	AETH_CLASS_SHIFT = 5, CLASS_ACK = 0, CLASS_RNR_NAK = 1, CLASS_NAK = 3,
	FOREVER = 7,			/* an rnr_retry */
};

/* What a receiver that is not ready asks for. IBA table 45. */
static const uint32_t rnr_timer_us[32] = {
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880,
	163840, 245760, 327680, 491520,
};

/* ---- completing ------------------------------------------------------------------- */

static uint32_t bytes_of(const struct hca_sent *e)
{
	return e->wants_response ? e->length : 0;
}

static void complete(struct hca_qp *qp, const struct hca_sent *e, const void *data)
{
	struct hca_done d = {
		.qp = qp, .wqe_index = e->index, .opcode = e->opcode, .bytes = bytes_of(e),
		.data = data,
	};

	if (e->is_signalled)
		hca_complete_send(&d);
}

/* The oldest WQE ends in error, and with it the QP. */
static void fail(struct hca_qp *qp, uint8_t syndrome)
{
	struct hca_requester *q = &qp->req;
	const struct hca_sent *e = hca_sent_at(qp, q->head);
	struct hca_done d = { .qp = qp, .wqe_index = e->index, .opcode = e->opcode };

	q->head++;
	hca_complete_error(&d, true, syndrome);
	hca_qp_fail(qp);
}

static bool is_done(const struct hca_qp *qp, const struct hca_sent *e)
{
	const struct hca_requester *q = &qp->req;

	return psn_diff(q->una, psn_add(e->first_psn, e->nr_psns)) >= 0;
}

static void report_drained(struct hca_qp *qp)
{
	if (qp->values.state != HCA_QP_SQD || qp->is_drained || qp->req.head != qp->req.tail)
		return;
	qp->is_drained = true;
	if (qp->values.sqd_event)
		hca_event(qp->hca, HCA_EVENT_SQ_DRAINED, qp->attr.cookie);
}

void hca_requester_retire(struct hca_qp *qp, const void *data)
{
	struct hca_requester *q = &qp->req;

	while (q->head != q->tail) {
		const struct hca_sent *e = hca_sent_at(qp, q->head);

		if (e->syndrome) {
			/* All before it are done, or it would not be the oldest. */
			fail(qp, e->syndrome);
			return;
		}
		if (!is_done(qp, e))
			break;
		complete(qp, e, data);
		data = NULL;
		q->head++;
	}
	/* What came late may acknowledge more than was sent again. */
	if ((int32_t)(q->at - q->head) < 0 ||
	    psn_diff(hca_requester_position(qp), q->una) < 0)
		hca_requester_rewind(qp);
	report_drained(qp);
}

void hca_requester_flush(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	for (; q->head != q->tail; q->head++) {
		const struct hca_sent *e = hca_sent_at(qp, q->head);
		struct hca_done d = { .qp = qp, .wqe_index = e->index, .opcode = e->opcode };

		hca_complete_error(&d, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	}
	while (q->ci != q->pi) {
		struct hca_done d = { .qp = qp, .wqe_index = q->ci };

		hca_wqe_read(qp, q->ci, q->pi, &q->sending);
		d.opcode = q->sending.opcode;
		hca_complete_error(&d, true, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		q->ci += q->sending.nr_blocks;
	}
	q->at = q->head;
	q->packet = q->nr_reads = 0;
	q->una = q->next_psn;
	q->has_sending = q->has_answer = q->is_stuck = false;
	q->deadline_ns = UINT64_MAX;
	q->rnr_until_ns = 0;
}

/* ---- progress ------------------------------------------------------------------------ */

static void note_progress(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	q->tries_left = qp->values.retry_count;
	q->rnr_tries_left = qp->values.rnr_retry;
	q->deadline_ns = UINT64_MAX;
	q->gap_asked = false;
	while (q->nr_reads && psn_diff(q->reads[q->first_read], q->una) <= 0) {
		q->first_read = (q->first_read + 1) % HCA_MAX_READS;
		q->nr_reads--;
	}
}

/* Acknowledges all before end, as far as nothing waits for a response. True: up to end. */
static bool advance(struct hca_qp *qp, uint32_t end)
{
	struct hca_requester *q = &qp->req;
	uint32_t before = q->una;

	for (uint32_t i = q->head; i != q->tail && psn_diff(end, q->una) > 0; i++) {
		const struct hca_sent *e = hca_sent_at(qp, i);
		uint32_t stop = psn_add(e->first_psn, e->nr_psns);

		if (psn_diff(stop, q->una) <= 0)
			continue;
		if (e->wants_response)
			break;
		q->una = psn_diff(stop, end) < 0 ? stop : end;
	}
	if (q->una != before)
		note_progress(qp);
	return q->una == end;
}

static void go_back(struct hca_qp *qp)
{
	qp->hca->config.counters->retries++;
	hca_requester_rewind(qp);
}

/* Later PSNs were answered, so responses got lost: asks for them again, once until some
 * arrive. */
static void fill_gap(struct hca_qp *qp)
{
	hca_requester_retire(qp, NULL);
	if (qp->req.gap_asked || qp->values.state == HCA_QP_ERR)
		return;
	qp->req.gap_asked = true;
	go_back(qp);
}

/* ---- acknowledgements ------------------------------------------------------------------ */

static void on_rnr(struct hca_qp *qp, uint8_t timer)
{
	struct hca_requester *q = &qp->req;
	uint64_t ns = rnr_timer_us[timer] * 1000ULL;

	qp->hca->config.counters->rnr_naks_received++;
	if (!q->rnr_tries_left) {
		fail(qp, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
		return;
	}
	if (qp->values.rnr_retry != FOREVER)
		q->rnr_tries_left--;
	go_back(qp);
	q->rnr_until_ns = hca_now(qp->hca) + hca_scaled_ns(qp->hca, ns);
	q->deadline_ns = UINT64_MAX;
}

static void on_sequence_nak(struct hca_qp *qp)
{
	struct hca_requester *q = &qp->req;

	if (!q->tries_left) {
		fail(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return;
	}
	q->tries_left--;
	q->deadline_ns = UINT64_MAX;
	go_back(qp);
}

static void on_nak(struct hca_qp *qp, uint8_t syndrome)
{
	qp->hca->config.counters->naks_received++;
	switch (syndrome) {
	case HCA_AETH_NAK_SEQUENCE:
		on_sequence_nak(qp);
		break;
	case HCA_AETH_NAK_INVALID_REQUEST:
		fail(qp, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
		break;
	case HCA_AETH_NAK_REMOTE_ACCESS:
		fail(qp, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
		break;
	case HCA_AETH_NAK_REMOTE_OPERATION:
		fail(qp, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
		break;
	default:
		/* Reserved codes. */
		break;
	}
}

static void on_acknowledge(struct hca_qp *qp, const struct hca_packet *p)
{
	uint8_t class = p->syndrome >> AETH_CLASS_SHIFT;

	if (class == CLASS_ACK) {
		if (advance(qp, psn_add(p->psn, 1)))
			hca_requester_retire(qp, NULL);
		else
			fill_gap(qp);
		return;
	}
	if (!advance(qp, p->psn)) {
		fill_gap(qp);
		return;
	}
	hca_requester_retire(qp, NULL);
	if (qp->req.head == qp->req.tail || qp->values.state == HCA_QP_ERR)
		return;
	if (class == CLASS_RNR_NAK)
		on_rnr(qp, p->syndrome & 0x1f);
	else if (class == CLASS_NAK)
		on_nak(qp, p->syndrome);
}

/* ---- responses --------------------------------------------------------------------------- */

static bool fits_in_cqe(const struct hca_qp *qp, const struct hca_sent *e)
{
	return qp->attr.scatter_send && e->is_signalled && e->nr_psns == 1 &&
	       hca_fits_cqe(qp->attr.send_cq, e->length);
}

static void take_data(struct hca_qp *qp, const struct hca_sent *e, const void *data,
		      uint32_t offset, uint32_t n)
{
	struct hca_requester *q = &qp->req;
	bool is_in_cqe = fits_in_cqe(qp, e);
	const struct hca_wqe *w = NULL;

	if (!is_in_cqe) {
		w = hca_requester_wqe(qp, q->head, true);
		if (!w) {
			fail(qp, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
			return;
		}
		if (hca_gather_write(qp->hca, qp->attr.pd, &w->data, offset, data, n)) {
			fail(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
			return;
		}
	}
	q->una = psn_add(q->una, 1);
	note_progress(qp);
	hca_requester_retire(qp, is_in_cqe ? data : NULL);
}

/* Whether the packet is what the oldest WQE waits for now. */
static bool is_awaited(struct hca_qp *qp, const struct hca_packet *p, bool is_atomic)
{
	const struct hca_sent *e;

	if (!advance(qp, p->psn)) {
		fill_gap(qp);
		return false;
	}
	hca_requester_retire(qp, NULL);
	if (qp->req.head == qp->req.tail || qp->values.state == HCA_QP_ERR)
		return false;
	e = hca_sent_at(qp, qp->req.head);
	if (e->wants_response && (e->opcode != MLX5_OPCODE_RDMA_READ) == is_atomic)
		return true;
	fail(qp, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	return false;
}

static void on_read_response(struct hca_qp *qp, const struct hca_packet *p)
{
	uint32_t packet, offset, left;
	const struct hca_sent *e;

	if (!is_awaited(qp, p, false))
		return;
	e = hca_sent_at(qp, qp->req.head);
	packet = (uint32_t)psn_diff(qp->req.una, e->first_psn);
	offset = packet * hca_mtu(qp);
	left = e->length - offset;
	if (p->length != (packet + 1 < e->nr_psns ? hca_mtu(qp) : left)) {
		fail(qp, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
		return;
	}
	take_data(qp, e, p->payload, offset, p->length);
}

static void on_atomic_response(struct hca_qp *qp, const struct hca_packet *p)
{
	if (is_awaited(qp, p, true))
		take_data(qp, hca_sent_at(qp, qp->req.head), &p->original, 0, sizeof(p->original));
}

void hca_requester_receive(struct hca_qp *qp, const struct hca_packet *p)
{
	/* Only what was sent and is not yet done can be answered; the rest is stale. */
	if (psn_diff(p->psn, qp->req.una) < 0 || psn_diff(p->psn, qp->req.high) >= 0) {
		qp->hca->config.counters->duplicates++;
		return;
	}
	switch (p->opcode & 0x1f) {
	case HCA_ACKNOWLEDGE:
		on_acknowledge(qp, p);
		break;
	case HCA_ATOMIC_ACKNOWLEDGE:
		on_atomic_response(qp, p);
		break;
	default:
		on_read_response(qp, p);
		break;
	}
}

/* ---- time ------------------------------------------------------------------------------------ */

void hca_requester_timer(struct hca_qp *qp, uint64_t now)
{
	struct hca_requester *q = &qp->req;

	if (q->rnr_until_ns && q->rnr_until_ns <= now)
		q->rnr_until_ns = 0;
	if (q->deadline_ns > now)
		return;
	qp->hca->config.counters->timeouts++;
	q->deadline_ns = UINT64_MAX;
	if (!q->tries_left) {
		fail(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return;
	}
	q->tries_left--;
	q->gap_asked = false;
	go_back(qp);
}
