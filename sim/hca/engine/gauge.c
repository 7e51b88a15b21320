/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gauge.c - what is on its way, kept where tests can read it. Readers may write there too,
 * so nothing is ever taken from it.
 */
#include "sim/hca/engine/card.h"

/* Of one WQE: its bytes in packets [from, to). */
static uint64_t bytes_between(const struct hca_qp *qp, const struct hca_sent *e, int32_t from,
			      int32_t to)
{
	int64_t mtu = hca_mtu(qp), last = e->nr_psns;
	int64_t start = from > 0 ? from * mtu : 0, end = (to < last ? to : last) * mtu;

	if (end > e->length)
		end = e->length;
	return start < end ? (uint64_t)(end - start) : 0;
}

uint64_t hca_qp_bytes_in_flight(const struct hca_qp *qp)
{
	const struct hca_requester *q = &qp->req;
	uint32_t position = hca_requester_position(qp);
	uint64_t bytes = 0;

	if (qp->attr.transport != HCA_RC)
		return 0;
	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct hca_sent *e = hca_sent_at(qp, i);

		if (psn_diff(position, e->first_psn) <= 0)
			break;
		bytes += bytes_between(qp, e, psn_diff(q->una, e->first_psn),
				       psn_diff(position, e->first_psn));
	}
	return bytes;
}

/* ---- places ------------------------------------------------------------------- */

static uint32_t place_of(const struct hca *h, const struct hca_qp *qp)
{
	uint32_t i = 0;

	while (i < HCA_GAUGES && h->gauged[i] != qp)
		i++;
	return i;
}

static void leave(struct hca_qp *qp)
{
	uint32_t i = place_of(qp->hca, qp);

	if (i == HCA_GAUGES)
		return;
	qp->hca->gauged[i] = NULL;
	__atomic_store_n(&qp->hca->config.gauges->qps[i].qpn, 0, __ATOMIC_RELAXED);
}

static void show(struct hca_qp *qp, uint64_t bytes)
{
	uint32_t i = place_of(qp->hca, qp);
	struct hca_in_flight *at;

	if (i == HCA_GAUGES)
		i = place_of(qp->hca, NULL);
	if (i == HCA_GAUGES)
		return;
	qp->hca->gauged[i] = qp;
	at = &qp->hca->config.gauges->qps[i];
	__atomic_store_n(&at->bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&at->first_psn, qp->req.una, __ATOMIC_RELAXED);
	__atomic_store_n(&at->next_psn, hca_requester_position(qp), __ATOMIC_RELAXED);
	__atomic_store_n(&at->qpn, qp->qpn, __ATOMIC_RELAXED);
}

static void set(struct hca_qp *qp, uint64_t bytes)
{
	struct hca *h = qp->hca;

	if (!h->config.gauges || (!bytes && !qp->bytes_in_flight))
		return;
	h->bytes_in_flight += bytes - qp->bytes_in_flight;
	qp->bytes_in_flight = bytes;
	__atomic_store_n(&h->config.gauges->bytes_in_flight, h->bytes_in_flight,
			 __ATOMIC_RELAXED);
	if (bytes)
		show(qp, bytes);
	else
		leave(qp);
}

void hca_gauge_update(struct hca_qp *qp)
{
	set(qp, hca_qp_bytes_in_flight(qp));
}

void hca_gauge_forget(struct hca_qp *qp)
{
	set(qp, 0);
}
