/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - the wire, the clock, and the hosts of fabric.h.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/hca/tests/common/fabric.h"

enum { QPNS_PER_HOST = 0x100, MOST_BYTES = 4096 };

uint32_t fabric_random(struct fabric *f)
{
	f->random = f->random * 1664525 + 1013904223;
	return f->random >> 8;
}

static bool happens(struct fabric *f, uint32_t thousandths)
{
	return thousandths && fabric_random(f) % 1000 < thousandths;
}

/* ---- the wire --------------------------------------------------------------------- */

static void keep(struct fabric_packet *to, const struct hca_packet *p)
{
	if (!to->bytes)
		to->bytes = malloc(MOST_BYTES);
	if (p->length > MOST_BYTES || !to->bytes)
		abort();
	to->packet = *p;
	if (p->length)
		memcpy(to->bytes, p->payload, p->length);
	to->packet.payload = to->bytes;
}

static void launch(struct fabric *f, const struct hca_packet *p, int to)
{
	for (uint32_t i = 0; i < FABRIC_IN_FLIGHT; i++) {
		struct fabric_packet *slot = &f->flying[i];

		if (slot->to >= 0)
			continue;
		keep(slot, p);
		slot->to = to;
		f->nr_flying++;
		slot->order = f->order++;
		slot->due_ns = f->now_ns + f->delay_ns;
		if (happens(f, f->reordering))
			slot->due_ns += f->delay_ns + 20000;
		return;
	}
}

/* A packet reaches a host with the addresses that a receiver sees. */
static struct hca_packet as_received(const struct fabric_host *from, const struct hca_packet *p)
{
	struct hca_packet r = *p;

	r.route.sgid[15] = (uint8_t)(from->index + 1);
	r.route.sgid[10] = r.route.sgid[11] = 0xff;
	if (!from->fabric->is_ethernet)
		r.route.slid = (uint16_t)(from->index + 1);
	return r;
}

static void send(void *ctx, const struct hca_packet *p)
{
	struct fabric_host *h = ctx;
	struct fabric *f = h->fabric;
	struct hca_packet copy = as_received(h, p);
	int to = (int)(p->dest_qpn >> 16) - 1;

	keep(&f->log[f->nr_logged++ % FABRIC_LOG], p);
	if (f->is_cut || (f->filter && !f->filter(f->filter_ctx, h->index, &copy)))
		return;
	if (to < 0 || to >= FABRIC_HOSTS || happens(f, f->loss))
		return;
	launch(f, &copy, to);
	if (happens(f, f->duplication))
		launch(f, &copy, to);
}

const struct hca_packet *fabric_sent(const struct fabric *f, uint32_t before)
{
	if (before >= f->nr_logged || before >= FABRIC_LOG)
		return NULL;
	return &f->log[(f->nr_logged - 1 - before) % FABRIC_LOG].packet;
}

static struct fabric_packet *next_flying(struct fabric *f)
{
	struct fabric_packet *best = NULL;
	uint32_t left = f->nr_flying;

	for (uint32_t i = 0; left; i++) {
		struct fabric_packet *p = &f->flying[i];

		if (p->to < 0)
			continue;
		left--;
		if (!best || p->due_ns < best->due_ns ||
		    (p->due_ns == best->due_ns && p->order < best->order))
			best = p;
	}
	return best;
}

static void deliver(struct fabric *f, struct fabric_packet *slot)
{
	struct hca_packet p = slot->packet;
	uint8_t bytes[MOST_BYTES];
	int to = slot->to;

	/* The slot may be taken again before this returns. */
	memcpy(bytes, slot->bytes, p.length);
	p.payload = bytes;
	slot->to = -1;
	f->nr_flying--;
	hca_receive(f->host[to].hca, &p);
}

void fabric_run(struct fabric *f, uint64_t ns)
{
	uint64_t end = f->now_ns + ns;

	for (;;) {
		uint64_t next = UINT64_MAX;
		struct fabric_packet *p;

		for (int i = 0; i < FABRIC_HOSTS; i++) {
			uint64_t due = hca_timers(f->host[i].hca);

			next = due < next ? due : next;
		}
		p = next_flying(f);
		if (p && p->due_ns <= f->now_ns) {
			deliver(f, p);
			continue;
		}
		if (p && p->due_ns < next)
			next = p->due_ns;
		if (next == UINT64_MAX)
			break;
		if (next > end) {
			f->now_ns = end;
			break;
		}
		if (next > f->now_ns)
			f->now_ns = next;
	}
}

/* ---- hosts ------------------------------------------------------------------------ */

static uint64_t now_ns(void *ctx)
{
	return ((struct fabric_host *)ctx)->fabric->now_ns;
}

static uint32_t port_mtu_bytes(void *ctx, uint8_t port)
{
	if (port != 1)
		abort();
	return ((struct fabric_host *)ctx)->port_mtu_bytes;
}

static void on_cq_event(void *ctx, void *cookie)
{
	struct fabric_host *h = ctx;

	h->cq_events++;
	h->last_cq = cookie;
}

static void on_event(void *ctx, enum hca_event event, void *cookie)
{
	struct fabric_host *h = ctx;

	if (h->nr_events < FABRIC_EVENTS)
		h->events[h->nr_events++] = (struct fabric_event) { event, cookie };
}

static void on_trace(void *ctx, const char *line)
{
	struct fabric *f = ((struct fabric_host *)ctx)->fabric;

	strncpy(f->trace, line, sizeof(f->trace) - 1);
	f->nr_traced++;
}

bool fabric_has_event(const struct fabric_host *h, enum hca_event event)
{
	for (uint32_t i = 0; i < h->nr_events; i++) {
		if (h->events[i].event == event)
			return true;
	}
	return false;
}

static void start(struct fabric *f, int index, bool is_ethernet)
{
	struct fabric_host *h = &f->host[index];
	struct hca_config c = {
		.env = &h->env, .faults = &h->faults, .counters = &h->counters,
		.gauges = &h->gauges,
		.is_ethernet = is_ethernet, .first_qpn = (uint32_t)(index + 1) << 16,
		.nr_qpns = QPNS_PER_HOST, .max_rd_atomic = 16,
		.max_mr_bytes = 1ULL << 40,
	};

	h->fabric = f;
	h->index = index;
	h->port_mtu_bytes = MOST_BYTES;
	h->env = (struct hca_env) { h, send, now_ns, port_mtu_bytes, on_cq_event, on_event,
				    on_trace };
	if (hca_create(&h->hca, &c) || hca_pd_create(h->hca, &h->pd))
		abort();
}

struct fabric *fabric_create(bool is_ethernet)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->flying = calloc(FABRIC_IN_FLIGHT, sizeof(*f->flying));
	f->log = calloc(FABRIC_LOG, sizeof(*f->log));
	if (!f->flying || !f->log)
		abort();
	for (uint32_t i = 0; i < FABRIC_IN_FLIGHT; i++)
		f->flying[i].to = -1;
	f->now_ns = 1000000;
	f->delay_ns = 1000;
	f->random = 1;
	f->is_ethernet = is_ethernet;
	for (int i = 0; i < FABRIC_HOSTS; i++)
		start(f, i, is_ethernet);
	return f;
}

void fabric_destroy(struct fabric *f)
{
	for (int i = 0; i < FABRIC_HOSTS; i++)
		hca_destroy(f->host[i].hca);
	for (uint32_t i = 0; i < FABRIC_IN_FLIGHT; i++)
		free(f->flying[i].bytes);
	for (uint32_t i = 0; i < FABRIC_LOG; i++)
		free(f->log[i].bytes);
	free(f->flying);
	free(f->log);
	free(f);
}
