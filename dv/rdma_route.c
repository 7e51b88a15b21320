/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_route.c - the engines whose segments are used here, and for which tenants; which of
 * the rails that lead there are paused, because they failed.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "dv/rdma_memory.h"
#include "ring/clock.h"

/* ---- peers ------------------------------------------------------------- */

static void route_free(struct rdma_route *r)
{
	for (uint32_t i = 0; i < r->nr_lines; i++)
		free(r->lines[i].jobs);
	free(r);
}

void rdma_peer_free(struct rdma_peer *p)
{
	struct rdma_route *r;

	while ((r = LIST_FIRST(&p->routes))) {
		LIST_REMOVE(r, all);
		route_free(r);
	}
	LIST_REMOVE(p, all);
	free(p);
}

void rdma_peer_free_if_over(struct rdma_peer *p)
{
	if (!p->end && !p->left && !p->nr_conns)
		rdma_peer_free(p);
}

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
	struct rdma_peer *p = calloc(1, sizeof(*p));

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

/* ---- routes ------------------------------------------------------------ */

static bool line_init(struct rdma_line *l, struct rdma_route *r, struct rdma_queue *q,
		      const struct qp_pool *pool)
{
	l->route = r;
	l->queue = q;
	l->pool = pool;
	l->chunk_bytes = q->inst->o.chunk_bytes;
	l->nr_lanes = q->inst->nr_rails;
	l->all = (1u << l->nr_lanes) - 1;
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		l->lanes[i] = (struct rdma_lane){ .line = l, .rail = (uint8_t)i };
	SLIST_INIT(&l->spares);
	TAILQ_INIT(&l->waiting[0]);
	TAILQ_INIT(&l->waiting[1]);
	TAILQ_INIT(&l->broken);
	l->jobs = calloc(RDMA_JOBS, sizeof(*l->jobs));
	for (uint32_t i = 0; l->jobs && i < RDMA_JOBS; i++) {
		l->jobs[i].line = l;
		SLIST_INSERT_HEAD(&l->spares, &l->jobs[i], spare);
	}
	return l->jobs;
}

static struct rdma_route *route_create(struct rdma_instance *inst, struct rdma_peer *p,
				       struct rdma_tenant *t)
{
	const uint32_t nr = inst->nr_queues * (1 + inst->nr_pools);
	struct rdma_route *r = calloc(1, sizeof(*r) + nr * sizeof(r->lines[0]));
	bool good = r;

	if (!r)
		return NULL;
	r->peer = p;
	r->tenant = t;
	for (; good && r->nr_lines < nr; r->nr_lines++) {
		uint32_t pool = r->nr_lines / inst->nr_queues;

		good = line_init(&r->lines[r->nr_lines], r,
				 inst->queues[r->nr_lines % inst->nr_queues],
				 pool ? &inst->pools[pool - 1] : NULL);
	}
	if (!good) {
		route_free(r);
		return NULL;
	}
	LIST_INSERT_HEAD(&p->routes, r, all);
	return r;
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

/* ---- pauses ------------------------------------------------------------ */

void rdma_route_pause(struct rdma_route *r, uint8_t rail, uint64_t worked_ns)
{
	struct rdma_pause *p = &r->pauses[rail];

	if (!p->length_ns || worked_ns > 10 * p->length_ns)
		p->length_ns = RDMA_PAUSE_NS;
	p->until_ns = clock_monotonic_ns() + p->length_ns;
	p->length_ns = p->length_ns < RDMA_PAUSE_MAX_NS / 2 ? 2 * p->length_ns :
							       RDMA_PAUSE_MAX_NS;
	store_relaxed(&r->paused, r->paused | 1u << rail);
}

static void set_refused(struct rdma_route *r, uint32_t rails)
{
	store_relaxed(&r->refused, rails);
	rdma_changed(r->lines[0].queue->inst);
}

void rdma_route_refuse(struct rdma_route *r, uint8_t rail)
{
	r->pauses[rail].until_ns = clock_monotonic_ns() + RDMA_PAUSE_NS;
	set_refused(r, r->refused | 1u << rail);
}

static void resume(struct rdma_route *r, uint32_t rail)
{
	r->pauses[rail].until_ns = 0;
	store_relaxed(&r->paused, r->paused & ~(1u << rail));
	set_refused(r, r->refused & ~(1u << rail));
}

void rdma_route_resume(struct rdma_instance *inst, uint8_t rail)
{
	struct rdma_peer *p;
	struct rdma_route *r;

	LIST_FOREACH(p, &inst->peers, all)
		LIST_FOREACH(r, &p->routes, all)
			resume(r, rail);
}

static void check_pauses(struct rdma_route *r, uint64_t now)
{
	for (uint32_t i = 0; i < RDMA_RAILS_MAX; i++)
		if (r->pauses[i].until_ns && now >= r->pauses[i].until_ns)
			resume(r, i);
}

bool rdma_route_patrol(struct rdma_instance *inst, uint64_t now)
{
	struct rdma_peer *p;
	struct rdma_route *r;
	uint32_t paused = 0;

	LIST_FOREACH(p, &inst->peers, all)
		LIST_FOREACH(r, &p->routes, all) {
			if (r->paused | r->refused)
				check_pauses(r, now);
			paused |= r->paused | r->refused;
		}
	return paused;
}

/* ---- their memory ------------------------------------------------------ */

static uint32_t rails_of(const struct rdma_instance *inst, const struct rdma_far *far,
			 uint32_t nr)
{
	uint32_t rails = 0;

	for (uint32_t i = 0; i < nr; i++)
		if (far->keys[i].nr)
			rails |= 1u << i;
	return rails & inst->all_rails;
}

/* Pollers find it by the region, once that is published. */
void rdma_far_region_open(struct backend_instance *base, struct region *r, const char *keys)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_peer *p = r->far->wired;
	uint32_t nr = rdma_keys_count(keys);
	struct rdma_far *far = nr ? calloc(1, sizeof(*far) + nr * sizeof(far->keys[0])) : NULL;

	if (!far)
		return;
	if (rdma_keys_read(keys, r->base, r->end, far->keys))
		far->route = route_to(inst, p, r->segment->tenant_uid);
	far->rails = rails_of(inst, far, nr);
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
