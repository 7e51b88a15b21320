/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - a card as a whole: its tables, and what drives it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/engine/card.h"

enum { MAX_OBJECTS = 1 << 16, FIRST_SLOTS = 16 };

/* ---- numbers: from 1, and a number that was freed rests while others are free --- */

static int table_grow(struct hca_table *t)
{
	uint32_t nr = t->nr ? t->nr * 2 : FIRST_SLOTS;
	void **slot;

	if (nr > MAX_OBJECTS)
		return -ENOMEM;
	slot = realloc(t->slot, nr * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (uint32_t i = t->nr; i < nr; i++)
		slot[i] = NULL;
	t->slot = slot;
	t->nr = nr;
	return 0;
}

int hca_table_add(struct hca_table *t, void *object, uint32_t *number)
{
	uint32_t i = t->next;

	if (t->used + 1 >= t->nr && table_grow(t))
		return -ENOMEM;
	do {
		i = (i + 1) & (t->nr - 1);
	} while (i == 0 || t->slot[i]);
	t->slot[i] = object;
	t->next = i;
	t->used++;
	*number = i;
	return 0;
}

void *hca_table_get(const struct hca_table *t, uint32_t number)
{
	return number < t->nr ? t->slot[number] : NULL;
}

void hca_table_remove(struct hca_table *t, uint32_t number)
{
	t->slot[number] = NULL;
	t->used--;
}

/* ---- life ------------------------------------------------------------------- */

int hca_create(struct hca **out, const struct hca_config *c)
{
	struct hca *h;

	if (!c->nr_qpns || c->first_qpn + c->nr_qpns > HCA_QPN_MASK + 1)
		return -EINVAL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->qp_table = calloc(c->nr_qpns, sizeof(struct hca_qp *));
	if (!h->qp_table) {
		free(h);
		return -ENOMEM;
	}
	h->env = *c->env;
	h->round = 1;
	h->config = *c;
	list_init(&h->pds);
	list_init(&h->qps);
	list_init(&h->active);
	*out = h;
	return 0;
}

static void free_tables(struct hca *h)
{
	for (uint32_t i = 1; i < h->srqs.nr; i++) {
		if (h->srqs.slot[i])
			hca_srq_free(h->srqs.slot[i]);
	}
	for (uint32_t i = 1; i < h->cqs.nr; i++) {
		if (h->cqs.slot[i])
			hca_cq_free(h->cqs.slot[i]);
	}
	free(h->srqs.slot);
	free(h->cqs.slot);
}

void hca_destroy(struct hca *h)
{
	while (!list_is_empty(&h->qps))
		hca_qp_free(list_entry(h->qps.next, struct hca_qp, all));
	free_tables(h);
	hca_keys_free(h);
	while (!list_is_empty(&h->pds)) {
		struct list *pd = h->pds.next;

		list_remove(pd);
		free(list_entry(pd, struct hca_pd, all));
	}
	free(h->qp_table);
	free(h);
}

void hca_remove(struct hca *h)
{
	for (struct list *n = h->qps.next; n != &h->qps; n = n->next)
		hca_qp_fail(list_entry(n, struct hca_qp, all));
}

/* ---- the world around -------------------------------------------------------- */

struct hca_qp *hca_qp_find(struct hca *h, uint32_t qpn)
{
	uint32_t i = (qpn & HCA_QPN_MASK) - h->config.first_qpn;

	return i < h->config.nr_qpns ? h->qp_table[i] : NULL;
}

void hca_event(struct hca *h, enum hca_event event, void *cookie)
{
	h->env.async_event(h->env.ctx, event, cookie);
}

void hca_send(struct hca *h, const struct hca_packet *p)
{
	h->config.counters->packets_sent++;
	h->config.counters->bytes_sent += p->length;
	hca_trace_packet(h, p, true);
	h->env.send(h->env.ctx, p);
}

/* Several processes share the field; losing one step of a race does no harm. */
bool hca_fault_due(uint32_t *field)
{
	uint32_t n = __atomic_load_n(field, __ATOMIC_RELAXED);

	if (!n)
		return false;
	__atomic_store_n(field, n - 1, __ATOMIC_RELAXED);
	return n == 1;
}

uint64_t hca_scaled_ns(const struct hca *h, uint64_t ns)
{
	uint32_t percent = __atomic_load_n(&h->config.faults->timeout_scale_percent,
					   __ATOMIC_RELAXED);

	return percent ? ns * percent / 100 : ns;
}

/* ---- what drives it ------------------------------------------------------------ */

void hca_send_doorbell(struct hca *h, uint32_t qpn)
{
	struct hca_qp *qp = hca_qp_find(h, qpn);

	h->has_rung = true;
	if (!qp)
		return;
	h->config.counters->doorbells++;
	qp->has_rung = true;
	hca_qp_load_record(qp);
	hca_qp_settle(qp);
}

static bool poll_cqs(struct hca *h)
{
	bool found = false;

	for (uint32_t i = 1; i < h->cqs.nr; i++) {
		if (h->cqs.slot[i])
			found |= hca_cq_poll_record(h->cqs.slot[i]);
	}
	return found;
}

bool hca_poll_records(struct hca *h)
{
	bool found = poll_cqs(h), has_rung = h->has_rung;

	h->has_rung = false;
	for (struct list *n = h->qps.next; n != &h->qps; n = n->next) {
		struct hca_qp *qp = list_entry(n, struct hca_qp, all);

		if (has_rung && !qp->has_rung)
			qp->has_rung = hca_qp_has_posted(qp);
		if (!qp->has_rung || !hca_qp_load_record(qp))
			continue;
		found = true;
		hca_qp_settle(qp);
	}
	return found;
}

static bool is_for_requester(uint8_t operation)
{
	return operation >= HCA_READ_RESPONSE_FIRST && operation <= HCA_ATOMIC_ACKNOWLEDGE;
}

/* QPs that only wait for a peer to connect take packets too: IBA 10.3.1, RTR. */
static bool can_receive(const struct hca_qp *qp)
{
	return qp->values.state >= HCA_QP_RTR && qp->values.state <= HCA_QP_SQE;
}

/* Connected queue pairs hear nobody but whom their path leads to: IBA 9.6.1. */
static bool is_of_peer(const struct hca_qp *qp, const struct hca_packet *p)
{
	const struct hca_route *path = &qp->values.route;

	if (qp->hca->config.is_ethernet)
		return !memcmp(p->route.sgid, path->dgid, sizeof(path->dgid));
	return p->route.slid == path->dlid;
}

void hca_receive(struct hca *h, const struct hca_packet *p)
{
	struct hca_qp *qp = hca_qp_find(h, p->dest_qpn);

	h->config.counters->packets_received++;
	h->config.counters->bytes_received += p->length;
	hca_trace_packet(h, p, false);
	if (!qp || !can_receive(qp) || p->length > HCA_MAX_PAYLOAD)
		return;
	/* One partition, the default one; its top bit only tells full members. */
	if ((p->pkey & 0x7fff) != 0x7fff || (p->opcode & 0xe0) != qp->attr.transport)
		return;
	if (qp->attr.transport == HCA_RC && !is_of_peer(qp, p))
		return;
	if (qp->attr.transport == HCA_UD)
		hca_ud_receive(qp, p);
	else if (is_for_requester(p->opcode & 0x1f))
		hca_requester_receive(qp, p);
	else
		hca_responder_receive(qp, p);
	hca_qp_settle(qp);
}

static uint64_t late_cqes(struct hca *h, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 1; i < h->cqs.nr && h->nr_late; i++) {
		if (h->cqs.slot[i]) {
			uint64_t due = hca_cq_timers(h->cqs.slot[i], now);

			next = due < next ? due : next;
		}
	}
	return next;
}

uint64_t hca_timers(struct hca *h)
{
	uint64_t now = hca_now(h), next = late_cqes(h, now);
	struct list *n, *following;

	h->round++;
	for (n = h->active.next; n != &h->active; n = following) {
		struct hca_qp *qp = list_entry(n, struct hca_qp, active);
		uint64_t due;

		following = n->next;
		due = hca_qp_timer(qp, now);
		next = due < next ? due : next;
	}
	return next;
}
