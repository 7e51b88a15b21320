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
#include "dv/rdma.h"
#include "ring/clock.h"
#include "ring/wake.h"

#define TICK_NS 10000000	/* between two looks at deadlines */
#define EVENTS_PER_TURN 16u

/* ---- the device -------------------------------------------------------- */

/* The first that can be opened. Without one inst->why says what was wrong with the last. */
static void find_device(struct rdma_instance *inst)
{
	const struct dv_choice c = {
		.allow = inst->o.allow, .deny = inst->o.deny, .port = (uint8_t)inst->o.port,
		.gid_index = DV_GID_ANY, .pkey_index = inst->o.pkey_index,
	};
	char names[DV_DEVICES_MAX][DV_NAME_SIZE];
	int nr = dv_device_names(&c, names, inst->why, sizeof(inst->why));

	for (int i = 0; i < nr && !inst->has_device; i++)
		inst->has_device = dv_device_open(&inst->device, names[i], &c, inst->why,
						  sizeof(inst->why)) == 0;
}

static void device_event(struct rdma_instance *inst, enum dv_event e, const void *queue)
{
	if (e == DV_EVENT_PORT) {
		dv_device_probe(&inst->device, inst->why, sizeof(inst->why));
	} else if (e == DV_EVENT_QUEUE) {
		rdma_queue_broke(inst, queue);
	} else if (e == DV_EVENT_GONE) {
		snprintf(inst->why, sizeof(inst->why), "%s was taken out", inst->device.name);
		store_relaxed(&inst->gone, 1u);
		for (uint32_t i = 0; i < inst->nr_queues; i++)
			wake_event_signal(inst->queues[i]->event_fd);
	}
}

/* ---- control ----------------------------------------------------------- */

static void set_ticking(struct rdma_instance *inst, bool on)
{
	struct itimerspec t = { .it_interval = { 0, on ? TICK_NS : 0 },
				.it_value = { 0, on ? TICK_NS : 0 } };

	if (inst->ticking == on)
		return;
	inst->ticking = on;
	timerfd_settime(inst->timer_fd, 0, &t, NULL);
}

static void rdma_ready(struct backend_instance *base)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_note *n, *next;
	const void *queue = NULL;
	enum dv_event e;

	wake_event_drain(inst->event_fd);
	wake_event_drain(inst->timer_fd);
	for (n = rdma_note_take(&inst->inbox); n; n = next) {
		next = n->next;
		rdma_take_note(inst, n);
	}
	for (uint32_t i = 0; i < EVENTS_PER_TURN && inst->has_device; i++) {
		e = dv_device_event(&inst->device, &queue);
		if (e == DV_EVENT_NONE)
			break;
		device_event(inst, e, queue);
	}
	set_ticking(inst, rdma_call_patrol(inst, clock_monotonic_ns()));
}

static int watch(struct rdma_instance *inst, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(inst->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int open_tds(struct rdma_instance *inst)
{
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		struct rdma_queue *q = inst->queues[i];

		q->td = dv_td_open(&inst->device, inst->why, sizeof(inst->why));
		if (!q->td)
			return -EIO;
	}
	return 0;
}

static int rdma_start(struct backend_instance *base, const struct wired_link *w, int *fd)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	int rc;

	inst->wire = *w;
	rc = watch(inst, inst->event_fd);
	if (rc == 0)
		rc = watch(inst, inst->timer_fd);
	find_device(inst);
	if (rc == 0 && inst->has_device)
		rc = watch(inst, inst->device.context->async_fd);
	if (inst->has_device && open_tds(inst) < 0)
		inst->has_device = false;
	*fd = inst->epoll_fd;
	return rc < 0 || inst->has_device ? rc : -ENODEV;
}

/* ---- life -------------------------------------------------------------- */

static int open_fds(struct rdma_instance *inst)
{
	inst->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	inst->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	inst->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return inst->epoll_fd < 0 || inst->event_fd < 0 || inst->timer_fd < 0 ? -errno : 0;
}

static void close_device(struct rdma_instance *inst)
{
	struct rdma_tenant *t;

	while ((t = LIST_FIRST(&inst->tenants))) {
		LIST_REMOVE(t, all);
		ibv_dealloc_pd(t->pd);
		free(t);
	}
	dv_device_close(&inst->device);
}

/* All queues, regions, guests and links are gone. */
static void rdma_destroy(struct backend_instance *base)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;

	rdma_call_close(inst);
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		if (inst->queues[i]->td)
			ibv_dealloc_td(inst->queues[i]->td);
		free(inst->queues[i]);
	}
	close_device(inst);
	if (inst->epoll_fd >= 0)
		close(inst->epoll_fd);
	if (inst->event_fd >= 0)
		close(inst->event_fd);
	if (inst->timer_fd >= 0)
		close(inst->timer_fd);
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
	LIST_INIT(&inst->tenants);
	LIST_INIT(&inst->peers);
	LIST_INIT(&inst->conns);
	LIST_INIT(&inst->served);
	rc = open_fds(inst);
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
	       !load_relaxed(&far->route->is_down) && !load_relaxed(&inst->gone);
}

static void rdma_facts(const struct backend_instance *base, char *text, size_t size)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)base;
	const struct dv_device *d = &inst->device;
	struct rdma_counts sum = { 0 };
	char address[64];

	if (!inst->has_device) {
		snprintf(text, size, "%s", *inst->why ? inst->why : "peers are off");
		return;
	}
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		const struct rdma_counts *c = &inst->queues[i]->counts;

		sum.writes += load_relaxed(&c->writes);
		sum.reads += load_relaxed(&c->reads);
		sum.bytes += load_relaxed(&c->bytes);
		sum.breaks += load_relaxed(&c->breaks);
		sum.unfenced += load_relaxed(&c->unfenced);
	}
	dv_address_text(&d->address, address, sizeof(address));
	snprintf(text, size, "%s port %u, %s, %s: %" PRIu64 " WRITEs and %" PRIu64 " READs of %"
		 PRIu64 " bytes; %u connections served; %" PRIu64 " broken, %" PRIu64
		 " requests unfenced%s%s", d->name, d->port, dv_link_name(d->address.link), address,
		 sum.writes, sum.reads, sum.bytes, inst->nr_served, sum.breaks, sum.unfenced,
		 *inst->why ? "; last fault: " : "", inst->why);
}

static const struct wired_ops wired = {
	.start = rdma_start,
	.ready = rdma_ready,
	.region_open = rdma_region_open,
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
	.facts = rdma_facts,
	.poll = rdma_poll,
	.cancel = rdma_cancel,
};
