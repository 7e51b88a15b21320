/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp.c - queue pairs: their life, their state, and when they run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

enum {
	SEND_RECORD = 4,		/* bytes: the receive counter comes first */
	/* In ERR the program posts receives that must come back flushed, and rings nothing. */
	FIRST_FLUSH_POLL_NS = 1000 * 1000, LAST_FLUSH_POLL_NS = 16 * FIRST_FLUSH_POLL_NS,
};

/* ---- life ----------------------------------------------------------------------- */

static bool fits(const struct umem *m, uint64_t offset, uint64_t bytes)
{
	return !bytes || (m && offset <= umem_length(m) && bytes <= umem_length(m) - offset);
}

static bool is_queue_length(uint32_t n)
{
	return n <= HCA_MAX_QUEUE && !(n & (n - 1));
}

static int check_attr(const struct hca_qp_attr *a)
{
	if (a->transport != HCA_RC && a->transport != HCA_UD)
		return -EOPNOTSUPP;
	if (!is_queue_length(a->nr_sq_blocks) || !is_queue_length(a->nr_rq_wqes) ||
	    a->rq_stride_bytes > HCA_MAX_RECV_STRIDE || (a->srq && a->nr_rq_wqes))
		return -EINVAL;
	if (!fits(a->buffer, a->sq_offset, (uint64_t)a->nr_sq_blocks * HCA_BLOCK) ||
	    !fits(a->buffer, a->rq_offset, (uint64_t)a->nr_rq_wqes * a->rq_stride_bytes) ||
	    !fits(a->record, a->record_offset, 8))
		return -EINVAL;
	return 0;
}

/* A number that was freed rests while there are others. */
static int take_number(struct hca *h, struct hca_qp *qp)
{
	for (uint32_t n = 0; n < h->config.nr_qpns; n++) {
		uint32_t i = (h->next_qp + n) % h->config.nr_qpns;

		/* 0 and 1 are the subnet's and the general services' own. */
		if (h->qp_table[i] || h->config.first_qpn + i < 2)
			continue;
		h->qp_table[i] = qp;
		h->next_qp = i + 1;
		qp->qpn = h->config.first_qpn + i;
		return 0;
	}
	return -ENOMEM;
}

static void count_users(const struct hca_qp *qp, uint32_t n)
{
	qp->attr.pd->users += n;
	qp->attr.send_cq->users += n;
	qp->attr.recv_cq->users += n;
	if (qp->attr.srq)
		qp->attr.srq->users += n;
}

static void reset(struct hca_qp *qp)
{
	struct hca_sent *sent = qp->req.sent;

	memset(&qp->values, 0, sizeof(qp->values));
	memset(&qp->req, 0, sizeof(qp->req));
	memset(&qp->resp, 0, sizeof(qp->resp));
	qp->req.sent = sent;
	qp->req.deadline_ns = UINT64_MAX;
	qp->resp.message = HCA_NO_MESSAGE;
	qp->rq_consumed = 0;
	qp->has_rung = qp->wants_run = qp->lost_cqe = false;
	qp->has_established = qp->is_drained = false;
	qp->values.path_mtu_bytes = HCA_MAX_PAYLOAD;
	list_remove(&qp->active);
	hca_gauge_forget(qp);
}

int hca_qp_create(struct hca *h, const struct hca_qp_attr *a, struct hca_qp **out,
		  uint32_t *qpn)
{
	int rc = check_attr(a);
	struct hca_qp *qp;

	if (rc)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->hca = h;
	qp->attr = *a;
	list_init(&qp->active);
	qp->req.sent = calloc(a->nr_sq_blocks + 1, sizeof(*qp->req.sent));
	if (!qp->req.sent || take_number(h, qp)) {
		free(qp->req.sent);
		free(qp);
		return -ENOMEM;
	}
	reset(qp);
	list_append(&h->qps, &qp->all);
	count_users(qp, 1);
	*out = qp;
	*qpn = qp->qpn;
	return 0;
}

void hca_qp_free(struct hca_qp *qp)
{
	count_users(qp, -1U);
	hca_gauge_forget(qp);
	list_remove(&qp->active);
	list_remove(&qp->all);
	qp->hca->qp_table[qp->qpn - qp->hca->config.first_qpn] = NULL;
	if (qp->attr.buffer)
		umem_release(qp->attr.buffer);
	umem_release(qp->attr.record);
	free(qp->req.sent);
	free(qp);
}

int hca_qp_destroy(struct hca_qp *qp)
{
	hca_qp_free(qp);
	return 0;
}

/* ---- state ------------------------------------------------------------------------ */

static bool is_mtu(uint32_t bytes)
{
	return bytes >= 256 && bytes <= HCA_MAX_PAYLOAD && !(bytes & (bytes - 1));
}

static bool values_are_sound(const struct hca *h, const struct hca_qp_values *v, uint32_t mask)
{
	uint32_t max_reads = h->config.max_rd_atomic < HCA_MAX_READS ? h->config.max_rd_atomic
								      : HCA_MAX_READS;

	return !((mask & IBV_QP_PATH_MTU && !is_mtu(v->path_mtu_bytes)) ||
		 (mask & IBV_QP_TIMEOUT && v->timeout > 31) ||
		 (mask & IBV_QP_RETRY_CNT && v->retry_count > 7) ||
		 (mask & IBV_QP_RNR_RETRY && v->rnr_retry > 7) ||
		 (mask & IBV_QP_MIN_RNR_TIMER && v->min_rnr_timer > 31) ||
		 (mask & IBV_QP_MAX_QP_RD_ATOMIC && v->max_rd_atomic > max_reads) ||
		 (mask & IBV_QP_MAX_DEST_RD_ATOMIC && v->max_dest_rd_atomic > max_reads));
}

static void take_route(struct hca_qp_values *to, const struct hca_qp_values *v, uint32_t mask)
{
	if (mask & IBV_QP_AV) {
		uint8_t port = to->route.port;

		to->route = v->route;
		if (!to->route.port)
			to->route.port = port;
	}
	if (mask & IBV_QP_PORT) {
		to->port = v->port;
		to->route.port = v->port;
	}
}

static void take_values(struct hca_qp_values *to, const struct hca_qp_values *v, uint32_t mask)
{
#define TAKE(bit, field)				\
	do {						\
		if (mask & (bit))			\
			to->field = v->field;		\
	} while (0)
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_ACCESS_FLAGS, access);
	TAKE(IBV_QP_PATH_MTU, path_mtu_bytes);
	TAKE(IBV_QP_DEST_QPN, dest_qpn);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_count);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, sqd_event);
#undef TAKE
	to->rq_psn &= HCA_PSN_MASK;
	to->sq_psn &= HCA_PSN_MASK;
	to->dest_qpn &= HCA_QPN_MASK;
	take_route(to, v, mask);
}

static void enter(struct hca_qp *qp, enum hca_qp_state from, enum hca_qp_state to)
{
	qp->values.state = to;
	if (to == HCA_QP_RTR && qp->attr.transport == HCA_RC)
		qp->resp.epsn = qp->values.rq_psn;
	if (to == HCA_QP_RTS && from == HCA_QP_RTR)
		hca_requester_start(qp);
	if (to == HCA_QP_SQD && from == HCA_QP_RTS)
		qp->is_drained = false;
	/* What was posted before may have rung in vain. */
	if (to == HCA_QP_RTS && qp->has_rung)
		hca_qp_load_record(qp);
}

/* Whatever the record of a new queue holds, nobody has posted. */
static void clear_record(struct hca_qp *qp)
{
	uint32_t word = HCA_UNWRITTEN;

	qp->has_rung = false;
	umem_write(qp->attr.record, qp->attr.record_offset + SEND_RECORD, &word, sizeof(word));
}

int hca_qp_modify(struct hca_qp *qp, const struct hca_qp_values *v, uint32_t mask)
{
	enum hca_qp_state from = qp->values.state, to;

	if (mask & IBV_QP_CUR_STATE && v->current_state != from)
		return -EINVAL;
	to = mask & IBV_QP_STATE ? v->state : from;
	if (to > HCA_QP_ERR || !hca_qp_change_is_legal(qp->attr.transport, from, to, mask) ||
	    !values_are_sound(qp->hca, v, mask))
		return -EINVAL;
	if (from == HCA_QP_RESET && to != HCA_QP_RESET)
		clear_record(qp);
	if (to == HCA_QP_RESET) {
		reset(qp);
	} else if (to == HCA_QP_ERR) {
		hca_qp_fail(qp);
		hca_qp_settle(qp);
	} else {
		take_values(&qp->values, v, mask);
		enter(qp, from, to);
		hca_qp_settle(qp);
	}
	return 0;
}

void hca_qp_query(const struct hca_qp *qp, struct hca_qp_values *out)
{
	*out = qp->values;
	out->current_state = out->state;
	/* As asked for, these are the next PSNs, not those that connected it. */
	if (qp->attr.transport == HCA_RC && out->state >= HCA_QP_RTR)
		out->rq_psn = qp->resp.epsn;
	if (out->state >= HCA_QP_RTS)
		out->sq_psn = qp->req.next_psn;
}

void hca_qp_fail(struct hca_qp *qp)
{
	enum hca_qp_state from = qp->values.state;

	if (from == HCA_QP_ERR)
		return;
	qp->values.state = HCA_QP_ERR;
	qp->flush_wait_ns = FIRST_FLUSH_POLL_NS;
	qp->flush_poll_ns = hca_now(qp->hca) + qp->flush_wait_ns;
	if (from == HCA_QP_RESET)
		return;
	if (qp->has_rung)
		hca_qp_load_record(qp);
	hca_requester_flush(qp);
	hca_recv_flush(qp);
	qp->resp.queue_head = qp->resp.queue_tail;
	qp->resp.is_due = false;
	hca_gauge_forget(qp);
	if (qp->attr.srq)
		hca_event(qp->hca, HCA_EVENT_LAST_WQE_REACHED, qp->attr.cookie);
}

/* ---- running ------------------------------------------------------------------------ */

static void fatal(struct hca_qp *qp)
{
	hca_event(qp->hca, HCA_EVENT_QP_FATAL, qp->attr.cookie);
	hca_qp_fail(qp);
}

/* Blocks that are posted and not done. */
static uint16_t nr_held(const struct hca_qp *qp)
{
	const struct hca_requester *q = &qp->req;
	uint16_t oldest = q->ci;

	if (q->head != q->tail)
		oldest = hca_sent_at(qp, q->head)->index;
	return (uint16_t)(q->pi - oldest);
}

bool hca_qp_has_posted(const struct hca_qp *qp)
{
	uint32_t word;

	return qp->values.state != HCA_QP_RESET &&
	       !umem_load32(qp->attr.record, qp->attr.record_offset + SEND_RECORD, &word) &&
	       word != HCA_UNWRITTEN;
}

bool hca_qp_load_record(struct hca_qp *qp)
{
	uint16_t pi = qp->req.pi;
	uint32_t word;

	if (qp->values.state < HCA_QP_RTS || !qp->attr.nr_sq_blocks)
		return false;
	if (umem_load32(qp->attr.record, qp->attr.record_offset + SEND_RECORD, &word))
		return false;
	qp->req.pi = (uint16_t)be32toh(word);
	if (nr_held(qp) <= qp->attr.nr_sq_blocks)
		return qp->req.pi != pi;
	/* More than the queue holds: the card would run over WQEs that nobody wrote. */
	qp->req.pi = qp->req.ci;
	if (qp->values.state != HCA_QP_ERR)
		fatal(qp);
	return true;
}

static void run(struct hca_qp *qp)
{
	enum hca_qp_state state = qp->values.state;

	qp->wants_run = false;
	if (state == HCA_QP_ERR || state == HCA_QP_SQE)
		hca_requester_flush(qp);
	if (state == HCA_QP_ERR) {
		hca_recv_flush(qp);
		return;
	}
	if (qp->attr.transport == HCA_RC && state >= HCA_QP_RTR)
		hca_answers_run(qp);
	if (qp->values.state != HCA_QP_RTS && qp->values.state != HCA_QP_SQD)
		return;
	if (qp->attr.transport == HCA_RC)
		hca_requester_run(qp);
	else
		hca_ud_run(qp);
}

static uint64_t next_due(const struct hca_qp *qp)
{
	uint64_t due = qp->req.deadline_ns;

	if (qp->wants_run)
		return 0;
	if (qp->values.state == HCA_QP_ERR)
		return qp->flush_poll_ns;
	return qp->req.rnr_until_ns ? qp->req.rnr_until_ns : due;
}

void hca_qp_settle(struct hca_qp *qp)
{
	bool is_listed = !list_is_empty(&qp->active), is_due;

	run(qp);
	if (qp->lost_cqe && qp->values.state != HCA_QP_ERR)
		fatal(qp);
	hca_gauge_update(qp);
	is_due = next_due(qp) != UINT64_MAX && qp->values.state != HCA_QP_RESET;
	if (is_due && !is_listed)
		list_append(&qp->hca->active, &qp->active);
	else if (!is_due && is_listed)
		list_remove(&qp->active);
}

uint64_t hca_qp_timer(struct hca_qp *qp, uint64_t now)
{
	if (next_due(qp) > now)
		return next_due(qp);
	if (qp->values.state == HCA_QP_ERR) {
		if (qp->flush_wait_ns < LAST_FLUSH_POLL_NS)
			qp->flush_wait_ns *= 2;
		qp->flush_poll_ns = now + qp->flush_wait_ns;
		if (qp->has_rung)
			hca_qp_load_record(qp);
	} else if (!qp->wants_run || qp->req.deadline_ns <= now || qp->req.rnr_until_ns) {
		hca_requester_timer(qp, now);
	}
	hca_qp_settle(qp);
	return next_due(qp);
}

struct hca_packet hca_packet_to_peer(const struct hca_qp *qp, uint8_t operation, uint32_t psn)
{
	return (struct hca_packet) {
		.route = qp->values.route,
		.opcode = (uint8_t)(HCA_RC | operation),
		.pkey = 0xffff,
		.dest_qpn = qp->values.dest_qpn,
		.psn = psn,
	};
}
