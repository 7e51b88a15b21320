/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.c - the backend between memory here and memory of other engines, by RC queue pairs
 * of an mlx5 device whose WQEs are built by hand. Without a device it reaches nothing, and
 * says why; the other backends serve.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dv/backend.h"
#include "dv/rdma_explain.h"
#include "dv/rdma_load.h"
#include "dv/rdma_memory.h"
#include "dv/rdma_poller.h"
#include "ring/clock.h"
#include "ring/wake.h"

#define TICK_NS 10000000u	/* between two looks at deadlines */

/* ---- control ----------------------------------------------------------- */

static void set_tick(struct rdma_instance *inst, uint32_t ns)
{
	struct itimerspec t = { .it_interval = { 0, ns }, .it_value = { 0, ns } };

	if (inst->tick_ns == ns)
		return;
	inst->tick_ns = ns;
	timerfd_settime(inst->timer_fd, 0, &t, NULL);
}

static void rdma_ready(struct backend_instance *base)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_note *n, *next;
	uint64_t now;
	bool calls, pauses, loads;

	wake_event_drain(inst->event_fd);
	wake_event_drain(inst->timer_fd);
	for (n = rdma_note_take(&inst->inbox); n; n = next) {
		next = n->next;
		rdma_take_note(inst, n);
	}
	rdma_rails_listen(inst);
	now = clock_monotonic_ns();
	calls = rdma_call_patrol(inst, now);
	pauses = rdma_route_patrol(inst, now);
	loads = rdma_load_patrol(inst, now);
	set_tick(inst, calls || pauses ? TICK_NS : loads ? RDMA_SAMPLE_NS : 0);
}

static int watch(struct rdma_instance *inst, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(inst->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int rdma_start(struct backend_instance *base, const struct wired_link *w, int *fd)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	int rc;

	inst->wire = *w;
	rc = watch(inst, inst->event_fd);
	if (rc == 0)
		rc = watch(inst, inst->timer_fd);
	*fd = inst->epoll_fd;
	if (rc == 0 && !rdma_rails_find(inst))
		rc = -ENODEV;
	return rc;
}

/* ---- life -------------------------------------------------------------- */

static int open_fds(struct rdma_instance *inst)
{
	inst->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	inst->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	inst->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return inst->epoll_fd < 0 || inst->event_fd < 0 || inst->timer_fd < 0 ? -errno : 0;
}

/* All queues, regions, guests and links are gone. */
static void rdma_destroy(struct backend_instance *base)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;

	rdma_call_close(inst);
	rdma_tenants_free(inst);
	rdma_rails_close(inst);
	for (uint32_t i = 0; i < inst->nr_queues; i++)
		free(inst->queues[i]);
	if (inst->epoll_fd >= 0)
		close(inst->epoll_fd);
	if (inst->event_fd >= 0)
		close(inst->event_fd);
	if (inst->timer_fd >= 0)
		close(inst->timer_fd);
	free(inst->loads);
	free(inst);
}

static int rdma_create(struct backend_instance **out, const struct backend_options *o)
{
	struct rdma_instance *inst = calloc(1, sizeof(*inst));
	int rc;

	if (!inst)
		return -ENOMEM;
	inst->base.ops = &rdma_backend;
	inst->o = o->rdma;
	inst->pools = o->qp_pools;
	inst->nr_pools = o->nr_qp_pools;
	inst->loads = calloc(1, sizeof(*inst->loads));
	LIST_INIT(&inst->tenants);
	LIST_INIT(&inst->peers);
	LIST_INIT(&inst->conns);
	LIST_INIT(&inst->served);
	rc = open_fds(inst);
	if (!inst->loads)
		rc = -ENOMEM;
	if (rc < 0)
		rdma_destroy(&inst->base);
	else
		*out = &inst->base;
	return rc;
}

static int rdma_queue_open(struct backend_instance *base, int event_fd, struct backend_queue **out)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_queue *q;

	if (inst->nr_queues == RDMA_QUEUES_MAX)
		return -EBUSY;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->base.ops = &rdma_backend;
	q->base.inst = base;
	q->inst = inst;
	q->event_fd = event_fd;
	TAILQ_INIT(&q->conns);
	TAILQ_INIT(&q->lines);
	TAILQ_INIT(&q->called_back);
	transfer_list_init(&q->ended);
	q->index = inst->nr_queues;
	inst->queues[inst->nr_queues++] = q;
	*out = &q->base;
	return 0;
}

/* Its connections need it until rdma_destroy(). */
static void rdma_queue_close(struct backend_queue *base)
{
	(void)base;
}

/* ---- questions --------------------------------------------------------- */

static bool rdma_reaches(const struct backend_instance *base, const struct region *local,
			 const struct region *remote)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)base;
	const struct rdma_near *near = local->wired;
	const struct rdma_far *far = remote->wired;

	return remote->far && near && far && !local->far && near->tenant == far->route->tenant &&
	       (near->rails & far->rails & load_relaxed(&inst->usable) &
		~load_relaxed(&far->route->refused));
}

static struct rdma_counts sum_of(const struct rdma_instance *inst, uint32_t rail)
{
	struct rdma_counts sum = { 0 };

	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		const struct rdma_counts *c = &inst->queues[i]->tracks[rail].counts;

		sum.writes += load_relaxed(&c->writes);
		sum.reads += load_relaxed(&c->reads);
		sum.bytes += load_relaxed(&c->bytes);
		sum.breaks += load_relaxed(&c->breaks);
	}
	return sum;
}

static void rail_facts(const struct rdma_instance *inst, const struct rdma_rail *r, FILE *to)
{
	const struct rdma_counts sum = sum_of(inst, r->index);
	const struct dv_device *d = &r->device;
	char address[64];

	if (!(inst->usable & 1u << r->index)) {
		fprintf(to, "%s%s", r->is_gone ? r->name : r->why,
			r->is_gone ? " was taken out" : "");
		return;
	}
	dv_address_text(&d->address, address, sizeof(address));
	fprintf(to, "%s port %u, %s, %s, MTU %u%s: %" PRIu64 " WRITEs and %" PRIu64 " READs of %"
		PRIu64 " bytes, %" PRIu64 " connections broken", r->name, d->port,
		dv_link_name(d->address.link), address, 128u << d->address.mtu, r->mixed,
		sum.writes, sum.reads, sum.bytes, sum.breaks);
}

static void rdma_facts(const struct backend_instance *base, char *text, size_t size)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)base;
	FILE *to = fmemopen(text, size, "w");
	uint64_t unfenced = 0;

	if (!to)
		return;
	if (!inst->nr_rails)
		fprintf(to, "%s", *inst->why ? inst->why : "peers are off");
	for (uint32_t i = 0; i < inst->nr_rails; i++) {
		fprintf(to, "%s", i ? "; " : "");
		rail_facts(inst, &inst->rails[i], to);
	}
	for (uint32_t i = 0; i < inst->nr_queues; i++)
		unfenced += load_relaxed(&inst->queues[i]->unfenced);
	if (inst->nr_pinning)
		fprintf(to, "; %" PRIu64 " of %" PRIu64 " bytes registered",
			load_relaxed(&inst->pinned_bytes), inst->pinning_bytes);
	if (inst->usable)
		fprintf(to, "; %u connections served, %" PRIu64 " requests unfenced%s%s",
			inst->nr_served, unfenced, *inst->why ? "; last fault: " : "", inst->why);
	fclose(to);
}

static const struct wired_ops wired = {
	.start = rdma_start,
	.ready = rdma_ready,
	.region_open = rdma_region_open,
	.region_pin = rdma_region_pin,
	.region_settle = rdma_region_settle,
	.region_close = rdma_region_close,
	.region_keys = rdma_region_keys,
	.far_region_open = rdma_far_region_open,
	.far_region_close = rdma_far_region_close,
	.far_open = rdma_far_open,
	.far_close = rdma_far_close,
	.far_frame = rdma_far_frame,
	.guest_frame = rdma_guest_frame,
	.guest_close = rdma_guest_close,
};

const struct backend rdma_backend = {
	.name = "rdma",
	.transport = TENT_TRANSPORT_RDMA,
	.open = rdma_create,
	.close = rdma_destroy,
	.queue_open = rdma_queue_open,
	.queue_close = rdma_queue_close,
	.reaches = rdma_reaches,
	.post = rdma_post,
	.wired = &wired,
	.describe = rdma_describe,
	.why_not = rdma_why_not,
	.facts = rdma_facts,
	.load_tell = rdma_load_tell,
	.loads = rdma_load_get,
	.poll = rdma_poll,
	.cancel = rdma_cancel,
};
