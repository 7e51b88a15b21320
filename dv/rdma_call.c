/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_call.c - connections that we ask by. A line calls, its peer answers with the other
 * end; one that broke is destroyed here before its peer is asked to do the same, so local
 * memory is safe at once, and the peer's as soon as it has answered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dv/rdma_memory.h"
#include "ring/clock.h"

/* ---- frames ------------------------------------------------------------ */

static bool tell(struct rdma_instance *inst, const struct rdma_conn *c, const char *what,
		 const struct dv_endpoint *e)
{
	const struct rdma_route *r = c->lane->line->route;
	json_t *frame;

	if (!r->peer->end)
		return false;
	frame = rdma_frame(what, c->id, e, NULL);
	json_object_set_new(frame, "uid", json_integer(r->tenant->uid));
	json_object_set_new(frame, "rail", json_integer(c->lane->rail));
	if (e) {
		json_object_set_new(frame, "service_level", json_integer(c->qp.o.sl));
		json_object_set_new(frame, "traffic_class", json_integer(c->qp.o.tc));
	}
	return inst->wire.to_far(inst->wire.context, r->peer->end, frame);
}

/* ---- freeing ----------------------------------------------------------- */

static void conn_free(struct rdma_instance *inst, struct rdma_conn *c)
{
	struct rdma_peer *p = c->lane->line->route->peer;

	inst->nr_calls -= c->calls || c->ends;
	dv_qp_close(&c->qp);
	LIST_REMOVE(c, all);
	free(c->book);
	free(c->again);
	free(c);
	p->nr_conns--;
	rdma_peer_free_if_over(p);
}

/* ---- calling ----------------------------------------------------------- */

static void lane_failed(struct rdma_lane *lane)
{
	rdma_route_refuse(lane->line->route, lane->rail);
	lane->call.kind = NOTE_FAILED;
	rdma_queue_send(lane->line->queue, &lane->call);
}

/* What facts say of it from now on: at which of our ports, to whom, what. */
static void explain(struct rdma_instance *inst, const struct rdma_lane *lane,
		    const struct dv_address *a, const char *what)
{
	char address[64] = "";

	if (a && a->link)
		dv_address_text(a, address, sizeof(address));
	rdma_rail_fault(inst, &inst->rails[lane->rail], "to %s%s%s%s: %s",
			lane->line->route->peer->name, *address ? " (" : "", address,
			*address ? ")" : "", what);
}

static void call_failed(struct rdma_instance *inst, struct rdma_conn *c, const char *why)
{
	struct rdma_lane *lane = c->lane;

	explain(inst, lane, &c->address, why);
	tell(inst, c, "end", NULL);
	conn_free(inst, c);
	lane_failed(lane);
}

static struct dv_qp_options options_of(const struct rdma_instance *inst,
				       const struct rdma_lane *lane)
{
	const struct qp_pool *pool = lane->line->pool;
	struct dv_qp_options o = {
		.td = lane->line->queue->tracks[lane->rail].td, .depth = inst->o.depth,
		.timeout = (uint8_t)inst->o.timeout, .retries = (uint8_t)inst->o.retries,
		.sl = (uint8_t)inst->o.service_level, .tc = (uint8_t)inst->o.traffic_class,
		.hop_limit = (uint8_t)inst->o.hop_limit,
	};

	if (pool && pool->service_level >= 0)
		o.sl = (uint8_t)pool->service_level;
	if (pool && pool->traffic_class >= 0)
		o.tc = (uint8_t)pool->traffic_class;
	return o;
}

static struct rdma_conn *conn_create(struct rdma_instance *inst, struct rdma_lane *lane)
{
	const struct dv_qp_options o = options_of(inst, lane);
	struct rdma_conn *c = calloc(1, sizeof(*c));
	struct rdma_rail *rail = &inst->rails[lane->rail];
	struct rdma_route *route = lane->line->route;
	char why[200] = "no memory";
	struct ibv_pd *pd = c ? rdma_tenant_pd(route->tenant, rail, why, sizeof(why)) : NULL;

	if (!pd || dv_qp_open(&c->qp, &rail->device, pd, &o, why, sizeof(why)) < 0) {
		explain(inst, lane, NULL, why);
		free(c);
		return NULL;
	}
	c->lane = lane;
	c->id = ++inst->last_id;
	LIST_INSERT_HEAD(&inst->conns, c, all);
	route->peer->nr_conns++;
	return c;
}

/* Queues as they were laid open, before anything was completed to them. */
static bool open_queues(struct rdma_conn *c)
{
	struct rdma_track *t = &c->lane->line->queue->tracks[c->lane->rail];
	uint32_t nr_bb = c->qp.sq_raw.sq.wqe_cnt;

	if (!t->has_uar)
		dv_uar_init(&t->uar, &c->qp.sq_raw);
	t->has_uar = true;
	c->book = calloc(1, dv_sq_book_bytes(nr_bb));
	c->again = calloc(nr_bb, sizeof(*c->again));
	return c->book && c->again && dv_cq_init(&c->cq, &c->qp.cq_raw) == 0;
}

static void call(struct rdma_instance *inst, struct rdma_lane *lane)
{
	struct rdma_conn *c = inst->usable & 1u << lane->rail ? conn_create(inst, lane) : NULL;
	struct dv_endpoint own;

	if (!c) {
		lane_failed(lane);
		return;
	}
	c->calls = true;
	inst->nr_calls++;
	c->until_ns = clock_monotonic_ns() + RDMA_CALL_NS;
	if (!open_queues(c)) {
		call_failed(inst, c, "the queues of its QPs are none that this build drives");
		return;
	}
	dv_qp_endpoint(&c->qp, &own);
	if (!tell(inst, c, "call", &own))
		call_failed(inst, c, "its engine does not answer");
}

/* The smaller one is used, which somebody may wonder about. */
static void note_mtu(struct rdma_rail *r, const struct rdma_conn *c)
{
	uint8_t mtu = c->address.mtu;

	if (mtu < r->device.address.mtu)
		snprintf(r->mixed, sizeof(r->mixed), " (%u with %s)", 128u << mtu,
			 c->lane->line->route->peer->name);
}

static void take_answer(struct rdma_instance *inst, struct rdma_conn *c,
			const struct rdma_said *said)
{
	struct rdma_track *t = &c->lane->line->queue->tracks[c->lane->rail];
	char why[200];

	if (!said->has_endpoint) {
		call_failed(inst, c, "its peer answered without an endpoint");
		return;
	}
	if (dv_qp_connect(&c->qp, &said->endpoint, why, sizeof(why)) < 0) {
		call_failed(inst, c, why);
		return;
	}
	if (dv_sq_init(&c->sq, &c->qp.sq_raw, c->qp.qp->qp_num, c->qp.reads, &t->uar, c->book) <
	    0) {
		call_failed(inst, c, "its peer answers no READ");
		return;
	}
	c->address = said->endpoint.address;
	note_mtu(&inst->rails[c->lane->rail], c);
	c->calls = false;
	inst->nr_calls--;
	c->up_ns = clock_monotonic_ns();
	c->note = (struct rdma_note){ .kind = NOTE_CONN, .about = c };
	rdma_queue_send(c->lane->line->queue, &c->note);
}

/* ---- ending ------------------------------------------------------------ */

static void fenced(struct rdma_instance *inst, struct rdma_conn *c, bool fenced)
{
	if (c->ends)
		inst->nr_calls--;
	c->ends = false;
	c->fenced = fenced;
	c->note.kind = NOTE_FENCED;
	rdma_queue_send(c->lane->line->queue, &c->note);
}

/* Another rail may carry what this one could not. Where there is none it is tried again. */
static void pause_pair(struct rdma_instance *inst, const struct rdma_conn *c, uint64_t now)
{
	bool has_others = inst->usable & ~(1u << c->lane->rail);

	if (*c->fault && !c->of_request && has_others)
		rdma_route_pause(c->lane->line->route, c->lane->rail, now - c->up_ns);
}

/* Nothing was out: its peer may forget it when it likes. */
static void broken(struct rdma_instance *inst, struct rdma_conn *c)
{
	uint64_t now = clock_monotonic_ns();
	bool told;

	dv_qp_close(&c->qp);
	told = tell(inst, c, "end", NULL);
	pause_pair(inst, c, now);
	if (*c->fault)
		explain(inst, c->lane, &c->address, c->fault);
	if (!c->nr_again) {
		fenced(inst, c, true);
		return;
	}
	c->ends = true;
	inst->nr_calls++;
	c->until_ns = now + inst->o.fence_ns / 2;
	if (!told)
		explain(inst, c->lane, &c->address, "its engine does not answer");
}

/* ---- what peers and pollers say ---------------------------------------- */

static struct rdma_conn *find(struct rdma_instance *inst, const struct rdma_peer *p, uint64_t id)
{
	struct rdma_conn *c;

	LIST_FOREACH(c, &inst->conns, all)
		if (c->lane->line->route->peer == p && c->id == id)
			return c;
	return NULL;
}

static void call_refused(struct rdma_instance *inst, struct rdma_conn *c, const char *reason)
{
	char why[256];

	snprintf(why, sizeof(why), "its peer refuses%s%s", reason ? ": " : "",
		 reason ? reason : "");
	call_failed(inst, c, why);
}

void rdma_far_frame(struct backend_instance *base, struct far_end *f, const json_t *frame)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_said said;
	struct rdma_conn *c;

	if (!f->wired || !rdma_frame_read(frame, &said))
		return;
	c = find(inst, f->wired, said.id);
	if (!c)
		return;		/* it was given up meanwhile */
	if (c->calls && strcmp(said.what, "answer") == 0)
		take_answer(inst, c, &said);
	else if (c->calls && strcmp(said.what, "refuse") == 0)
		call_refused(inst, c, said.reason);
	else if (c->ends && strcmp(said.what, "ended") == 0)
		fenced(inst, c, true);
}

/* One that was given back meanwhile is closed before it hears of it, or forgets it. */
void rdma_queue_broke(struct rdma_instance *inst, const void *queue)
{
	struct rdma_conn *c;

	LIST_FOREACH(c, &inst->conns, all) {
		if (c->calls || c->doubted || !queue || (c->qp.qp != queue && c->qp.cq != queue))
			continue;
		c->doubted = true;
		c->doubt = (struct rdma_note){ .kind = NOTE_DOUBT, .about = c };
		rdma_queue_send(c->lane->line->queue, &c->doubt);
	}
}

void rdma_take_note(struct rdma_instance *inst, struct rdma_note *n)
{
	struct rdma_peer *p = n->about;

	switch (n->kind) {
	case NOTE_CALL:
		call(inst, n->about);
		break;
	case NOTE_BROKEN:
		broken(inst, n->about);
		break;
	case NOTE_OVER:
		conn_free(inst, n->about);
		break;
	case NOTE_LEAVE:
		p->left--;
		rdma_peer_free_if_over(p);
		break;
	default:
		break;
	}
}

bool rdma_call_patrol(struct rdma_instance *inst, uint64_t now)
{
	struct rdma_conn *c = LIST_FIRST(&inst->conns), *next;

	for (; c; c = next) {
		next = LIST_NEXT(c, all);
		if (c->calls && now >= c->until_ns)
			call_failed(inst, c, "its peer did not answer in time");
		else if (c->ends && now >= c->until_ns)
			fenced(inst, c, false);
	}
	return inst->nr_calls;
}

void rdma_call_close(struct rdma_instance *inst)
{
	struct rdma_peer *p = LIST_FIRST(&inst->peers), *next;

	for (; p; p = next) {
		next = LIST_NEXT(p, all);
		p->left = 0;
		p->end = NULL;
		p->nr_conns++;	/* it is freed here, not under our hands */
	}
	while (!LIST_EMPTY(&inst->conns))
		conn_free(inst, LIST_FIRST(&inst->conns));
	while ((p = LIST_FIRST(&inst->peers)))
		rdma_peer_free(p);
}
