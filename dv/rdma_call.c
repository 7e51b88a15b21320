/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_call.c - connections that we ask by. A line calls, its peer answers with the other
 * end; one that broke is destroyed here before its peer is asked to do the same, so local
 * memory is safe at once, and the peer's as soon as it has answered.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dv/rdma.h"
#include "ring/clock.h"

/* ---- frames ------------------------------------------------------------ */

static bool tell(struct rdma_instance *inst, const struct rdma_conn *c, const char *what,
		 const struct dv_endpoint *e)
{
	const struct rdma_route *r = c->line->route;
	json_t *frame;

	if (!r->peer->end)
		return false;
	frame = rdma_frame(what, c->id, e, NULL);
	json_object_set_new(frame, "uid", json_integer(r->tenant->uid));
	return inst->wire.to_far(inst->wire.context, r->peer->end, frame);
}

/* ---- freeing ----------------------------------------------------------- */

static void peer_free(struct rdma_peer *p)
{
	struct rdma_route *r;

	while ((r = LIST_FIRST(&p->routes))) {
		LIST_REMOVE(r, all);
		for (uint32_t i = 0; i < r->nr_lines; i++)
			free(r->lines[i].jobs);
		free(r);
	}
	LIST_REMOVE(p, all);
	free(p);
}

static void peer_free_if_over(struct rdma_peer *p)
{
	if (!p->end && !p->left && !p->nr_conns)
		peer_free(p);
}

static void conn_free(struct rdma_instance *inst, struct rdma_conn *c)
{
	struct rdma_peer *p = c->line->route->peer;

	inst->nr_calls -= c->calls || c->ends;
	dv_qp_close(&c->qp);
	LIST_REMOVE(c, all);
	free(c->book);
	free(c);
	p->nr_conns--;
	peer_free_if_over(p);
}

/* ---- calling ----------------------------------------------------------- */

static void line_failed(struct rdma_line *l)
{
	struct rdma_route *r = l->route;

	r->failed_ns = clock_monotonic_ns();
	store_relaxed(&r->is_down, 1u);
	l->call.kind = NOTE_FAILED;
	rdma_queue_send(l->queue, &l->call);
}

/* What facts say of it from now on: at which of our ports, to whom, what. */
static void explain(struct rdma_instance *inst, const struct rdma_conn *c, const char *what)
{
	const struct rdma_peer *p = c->line->route->peer;

	snprintf(inst->why, sizeof(inst->why), "%s port %u to %s%s%s%s: %s", inst->device.name,
		 inst->device.port, p->name, *p->address ? " (" : "", p->address,
		 *p->address ? ")" : "", what);
}

static void call_failed(struct rdma_instance *inst, struct rdma_conn *c, const char *why)
{
	struct rdma_line *l = c->line;

	explain(inst, c, why);
	tell(inst, c, "end", NULL);
	conn_free(inst, c);
	line_failed(l);
}

static struct rdma_conn *conn_create(struct rdma_instance *inst, struct rdma_line *l)
{
	struct rdma_conn *c = calloc(1, sizeof(*c));
	const struct dv_qp_options o = {
		.td = l->queue->td, .depth = inst->o.depth, .timeout = (uint8_t)inst->o.timeout,
		.retries = (uint8_t)inst->o.retries, .sl = (uint8_t)inst->o.service_level,
		.tc = (uint8_t)inst->o.traffic_class, .hop_limit = (uint8_t)inst->o.hop_limit,
	};

	if (!c)
		return NULL;
	if (dv_qp_open(&c->qp, &inst->device, l->route->tenant->pd, &o, inst->why,
		       sizeof(inst->why)) < 0) {
		free(c);
		return NULL;
	}
	c->line = l;
	c->id = ++inst->last_id;
	TAILQ_INIT(&c->struck);
	LIST_INSERT_HEAD(&inst->conns, c, all);
	l->route->peer->nr_conns++;
	return c;
}

/* Queues as they were laid open, before anything was completed to them. */
static bool open_queues(struct rdma_conn *c)
{
	struct rdma_queue *q = c->line->queue;

	if (!q->has_uar)
		dv_uar_init(&q->uar, &c->qp.sq_raw);
	q->has_uar = true;
	c->book = calloc(1, dv_sq_book_bytes(c->qp.sq_raw.sq.wqe_cnt));
	return c->book && dv_cq_init(&c->cq, &c->qp.cq_raw) == 0;
}

static void call(struct rdma_instance *inst, struct rdma_line *l)
{
	struct rdma_conn *c = load_relaxed(&inst->gone) ? NULL : conn_create(inst, l);
	struct dv_endpoint own;

	if (!c) {
		line_failed(l);
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

static void take_answer(struct rdma_instance *inst, struct rdma_conn *c,
			const struct rdma_said *said)
{
	struct rdma_peer *p = c->line->route->peer;
	char why[200];

	if (!said->has_endpoint) {
		call_failed(inst, c, "its peer answered without an endpoint");
		return;
	}
	if (dv_qp_connect(&c->qp, &said->endpoint, why, sizeof(why)) < 0) {
		call_failed(inst, c, why);
		return;
	}
	if (dv_sq_init(&c->sq, &c->qp.sq_raw, c->qp.qp->qp_num, c->qp.reads, &c->line->queue->uar,
		       c->book) < 0) {
		call_failed(inst, c, "its peer answers no READ");
		return;
	}
	dv_address_text(&said->endpoint.address, p->address, sizeof(p->address));
	c->calls = false;
	inst->nr_calls--;
	c->note = (struct rdma_note){ .kind = NOTE_CONN, .about = c };
	rdma_queue_send(c->line->queue, &c->note);
}

/* ---- ending ------------------------------------------------------------ */

static void fenced(struct rdma_instance *inst, struct rdma_conn *c, bool fenced)
{
	if (c->ends)
		inst->nr_calls--;
	c->ends = false;
	c->fenced = fenced;
	c->note.kind = NOTE_FENCED;
	rdma_queue_send(c->line->queue, &c->note);
}

/* Nothing was out: its peer may forget it when it likes. */
static void broken(struct rdma_instance *inst, struct rdma_conn *c)
{
	bool told;

	dv_qp_close(&c->qp);
	told = tell(inst, c, "end", NULL);
	if (!c->had_work) {
		fenced(inst, c, true);
		return;
	}
	c->ends = true;
	inst->nr_calls++;
	c->until_ns = clock_monotonic_ns() + inst->o.fence_ns;
	if (*c->fault)
		explain(inst, c, c->fault);
	if (!told)
		explain(inst, c, "its engine does not answer");
}

/* ---- what peers and pollers say ---------------------------------------- */

static struct rdma_conn *find(struct rdma_instance *inst, const struct rdma_peer *p, uint64_t id)
{
	struct rdma_conn *c;

	LIST_FOREACH(c, &inst->conns, all)
		if (c->line->route->peer == p && c->id == id)
			return c;
	return NULL;
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
		call_failed(inst, c, said.reason ? said.reason : "its peer refuses");
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
		rdma_queue_send(c->line->queue, &c->doubt);
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
		peer_free_if_over(p);
		break;
	default:
		break;
	}
}

bool rdma_call_patrol(struct rdma_instance *inst, uint64_t now)
{
	struct rdma_conn *c = LIST_FIRST(&inst->conns), *next;
	struct rdma_peer *p;
	struct rdma_route *r;
	bool waits = false;

	for (; c; c = next) {
		next = LIST_NEXT(c, all);
		if (c->calls && now >= c->until_ns)
			call_failed(inst, c, "its peer did not answer in time");
		else if (c->ends && now >= c->until_ns)
			fenced(inst, c, false);
	}
	LIST_FOREACH(p, &inst->peers, all)
		LIST_FOREACH(r, &p->routes, all) {
			if (r->failed_ns && now - r->failed_ns >= RDMA_HOLDOFF_NS) {
				r->failed_ns = 0;
				store_relaxed(&r->is_down, 0u);
			}
			waits |= r->failed_ns != 0;
		}
	return waits || inst->nr_calls;
}

/* ---- peers ------------------------------------------------------------- */

static void name_peer(struct rdma_peer *p, const struct far_end *f)
{
	const struct sockaddr *a = (const struct sockaddr *)(const void *)f->address;
	char host[64], port[8];

	if (getnameinfo(a, f->address_size, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(p->name, sizeof(p->name), a->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	else
		snprintf(p->name, sizeof(p->name), "a peer");
}

void rdma_far_open(struct backend_instance *base, struct far_end *f)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_peer *p = inst->has_device ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return;
	p->end = f;
	name_peer(p, f);
	LIST_INIT(&p->routes);
	LIST_INSERT_HEAD(&inst->peers, p, all);
	f->wired = p;
}

void rdma_far_close(struct backend_instance *base, struct far_end *f)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_peer *p = f->wired;

	p->end = NULL;
	p->left = inst->nr_queues;
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		p->leave[i] = (struct rdma_note){ .kind = NOTE_LEAVE, .about = p };
		rdma_queue_send(inst->queues[i], &p->leave[i]);
	}
}

static bool line_init(struct rdma_line *l, struct rdma_route *r, struct rdma_queue *q)
{
	l->route = r;
	l->queue = q;
	TAILQ_INIT(&l->free);
	TAILQ_INIT(&l->waiting);
	l->jobs = calloc(RDMA_JOBS, sizeof(*l->jobs));
	for (uint32_t i = 0; l->jobs && i < RDMA_JOBS; i++)
		TAILQ_INSERT_TAIL(&l->free, &l->jobs[i], link);
	return l->jobs;
}

static struct rdma_route *route_create(struct rdma_instance *inst, struct rdma_peer *p,
				       struct rdma_tenant *t)
{
	struct rdma_route *r = calloc(1, sizeof(*r) + inst->nr_queues * sizeof(r->lines[0]));
	bool good = r;

	if (!r)
		return NULL;
	r->peer = p;
	r->tenant = t;
	for (; good && r->nr_lines < inst->nr_queues; r->nr_lines++)
		good = line_init(&r->lines[r->nr_lines], r, inst->queues[r->nr_lines]);
	if (good) {
		LIST_INSERT_HEAD(&p->routes, r, all);
		return r;
	}
	for (uint32_t i = 0; i < r->nr_lines; i++)
		free(r->lines[i].jobs);
	free(r);
	return NULL;
}

static struct rdma_route *route_to(struct rdma_instance *inst, struct rdma_peer *p, uint32_t uid)
{
	struct rdma_tenant *t = rdma_tenant_find(inst, uid);
	struct rdma_route *r;

	if (!t)
		return NULL;
	LIST_FOREACH(r, &p->routes, all)
		if (r->tenant == t)
			return r;
	return route_create(inst, p, t);
}

/* Pollers find it by the region, once that is published. */
void rdma_far_region_open(struct backend_instance *base, struct region *r, const char *keys)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_far *far = calloc(1, sizeof(*far));

	if (!far)
		return;
	if (rdma_keys_read(keys, r->base, r->end, &far->keys))
		far->route = route_to(inst, r->far->wired, r->segment->tenant_uid);
	if (far->route)
		r->wired = far;
	else
		free(far);
}

void rdma_far_region_close(struct backend_instance *base, struct region *r)
{
	(void)base;
	free(r->wired);
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
		peer_free(p);
}
