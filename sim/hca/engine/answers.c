/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers.c - what an RC responder sends: READ and atomic responses in the order of their
 * requests, and after them the acknowledgement that is due. A long READ is sent in turns, so
 * an acknowledgement waits for it: it would acknowledge the READ as well.
 */
#include "sim/hca/engine/card.h"

/* What is remembered for duplicates: as many as the peer may have on their way. */
static uint32_t nr_remembered(const struct hca_qp *qp)
{
	uint32_t n = qp->values.max_dest_rd_atomic;

	return qp->resp.nr_cached < n ? qp->resp.nr_cached : n;
}

static bool are_pending(const struct hca_qp *qp)
{
	return qp->resp.queue_head != qp->resp.queue_tail;
}

bool hca_answers_have_room(const struct hca_qp *qp)
{
	return qp->resp.queue_tail - qp->resp.queue_head < HCA_MAX_READS;
}

/* Answers that were sent in this round are not on the wire before its end: what came in it
 * was sent without them. */
uint32_t hca_answers_owed(struct hca_qp *qp)
{
	struct hca_responder *r = &qp->resp;

	if (r->round == qp->hca->round)
		return r->nr_owed;
	r->round = qp->hca->round;
	r->nr_owed = 0;
	for (uint32_t i = r->queue_head; i != r->queue_tail; i++)
		r->nr_owed += !r->queue[i % HCA_MAX_READS].is_again;
	return r->nr_owed;
}

static void enqueue(struct hca_qp *qp, const struct hca_answer *a)
{
	qp->resp.queue[qp->resp.queue_tail++ % HCA_MAX_READS] = *a;
}

static void enqueue_again(struct hca_qp *qp, struct hca_answer a)
{
	a.is_again = true;
	enqueue(qp, &a);
}

void hca_answer_add(struct hca_qp *qp, const struct hca_answer *a)
{
	qp->resp.cache[qp->resp.nr_cached++ % qp->values.max_dest_rd_atomic] = *a;
	qp->resp.nr_owed++;
	enqueue(qp, a);
}

static bool is_queued(const struct hca_qp *qp, uint32_t psn)
{
	const struct hca_responder *r = &qp->resp;

	for (uint32_t i = r->queue_head; i != r->queue_tail; i++) {
		const struct hca_answer *a = &r->queue[i % HCA_MAX_READS];
		int32_t into = psn_diff(psn, a->psn);

		if (into >= (int32_t)a->sent && into < (int32_t)a->nr_psns)
			return true;
	}
	return false;
}

/* A repeated READ may begin in the middle of the first one, but must lie within it. */
static bool read_again(struct hca_qp *qp, const struct hca_answer *a, const struct hca_packet *p)
{
	uint32_t skip = (uint32_t)psn_diff(p->psn, a->psn) * hca_mtu(qp);
	struct hca_answer part = *a;

	if (p->rkey != a->rkey || p->remote_address != a->address + skip ||
	    p->dma_length > a->length - skip)
		return false;
	part.psn = p->psn;
	part.nr_psns = hca_nr_packets(p->dma_length, hca_mtu(qp));
	part.address = p->remote_address;
	part.length = p->dma_length;
	enqueue_again(qp, part);
	return true;
}

void hca_answer_again(struct hca_qp *qp, const struct hca_packet *p)
{
	bool is_atomic = (p->opcode & 0x1f) != HCA_READ_REQUEST;

	if (!hca_answers_have_room(qp) || is_queued(qp, p->psn))
		return;
	for (uint32_t n = 1; n <= nr_remembered(qp); n++) {
		const struct hca_answer *a = &qp->resp.cache[(qp->resp.nr_cached - n) %
							     qp->values.max_dest_rd_atomic];
		int32_t into = psn_diff(p->psn, a->psn);

		if (into < 0 || into >= (int32_t)a->nr_psns || a->is_atomic != is_atomic)
			continue;
		if (is_atomic)
			enqueue_again(qp, *a);
		else
			read_again(qp, a, p);
		return;
	}
}

/* ---- acknowledgements -------------------------------------------------------------- */

void hca_respond(struct hca_qp *qp, uint8_t aeth, uint32_t psn)
{
	qp->resp.is_due = true;
	qp->resp.due_aeth = aeth;
	qp->resp.due_psn = psn;
}

void hca_respond_last(struct hca_qp *qp, uint8_t aeth, uint32_t psn)
{
	hca_respond(qp, aeth, psn);
	qp->resp.is_ending = true;
}

static void count(struct hca_counters *c, uint8_t aeth)
{
	if ((aeth & 0x60) == HCA_AETH_RNR_NAK)
		c->rnr_naks_sent++;
	else if ((aeth & 0x60) == 0x60)
		c->naks_sent++;
}

static void acknowledge(struct hca_qp *qp)
{
	struct hca_responder *r = &qp->resp;
	struct hca_packet p = hca_packet_to_peer(qp, HCA_ACKNOWLEDGE, r->due_psn);

	r->is_due = false;
	p.syndrome = r->due_aeth;
	p.msn = r->msn;
	count(qp->hca->config.counters, p.syndrome);
	hca_send(qp->hca, &p);
	if (!r->is_ending)
		return;
	if (r->has_event)
		hca_event(qp->hca, r->event, qp->attr.cookie);
	hca_qp_fail(qp);
}

/* ---- responses ------------------------------------------------------------------------ */

static uint8_t response_of(const struct hca_answer *a)
{
	bool is_last = a->sent + 1 == a->nr_psns;

	if (!a->sent)
		return is_last ? HCA_READ_RESPONSE_ONLY : HCA_READ_RESPONSE_FIRST;
	return is_last ? HCA_READ_RESPONSE_LAST : HCA_READ_RESPONSE_MIDDLE;
}

/* Memory is read as the packet goes, so the region may be gone by then. */
static bool load(struct hca_qp *qp, const struct hca_answer *a, struct hca_packet *p)
{
	uint32_t offset = a->sent * hca_mtu(qp);
	struct hca_mr *mr;
	uint64_t at;

	p->length = a->length - offset < hca_mtu(qp) ? a->length - offset : hca_mtu(qp);
	p->payload = qp->hca->payload;
	if (!p->length)
		return true;
	return !hca_key_find(qp->hca, qp->attr.pd, a->rkey, a->address + offset, p->length,
			     HCA_ACCESS_REMOTE_READ, &mr, &at) &&
	       !umem_read(mr->mem, at, qp->hca->payload, p->length);
}

static void send_part(struct hca_qp *qp, struct hca_answer *a)
{
	uint8_t operation = a->is_atomic ? HCA_ATOMIC_ACKNOWLEDGE : response_of(a);
	struct hca_packet p = hca_packet_to_peer(qp, operation, psn_add(a->psn, a->sent));

	p.syndrome = HCA_AETH_ACK;
	p.msn = a->msn & HCA_PSN_MASK;
	p.original = a->original;
	if (!a->is_atomic && !load(qp, a, &p)) {
		qp->resp.queue_head = qp->resp.queue_tail;
		qp->resp.has_event = true;
		qp->resp.event = HCA_EVENT_QP_ACCESS_ERROR;
		hca_respond_last(qp, HCA_AETH_NAK_REMOTE_ACCESS, p.psn);
		return;
	}
	hca_send(qp->hca, &p);
	if (++a->sent == a->nr_psns)
		qp->resp.queue_head++;
}

void hca_answers_run(struct hca_qp *qp)
{
	struct hca_responder *r = &qp->resp;

	for (uint32_t n = 0; n < HCA_BUDGET && are_pending(qp); n++)
		send_part(qp, &r->queue[r->queue_head % HCA_MAX_READS]);
	if (are_pending(qp))
		qp->wants_run = true;
	else if (r->is_due)
		acknowledge(qp);
}
