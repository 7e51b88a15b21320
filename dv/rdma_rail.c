/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_rail.c - the devices of an engine, its rails: in the order of their names, so that
 * those of two hosts with the same devices pair one by one. A rail that cannot be opened
 * keeps its number, and says why.
 */
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "dv/rdma.h"
#include "ring/wake.h"

#define EVENTS_PER_TURN 16u

void rdma_rail_fault(struct rdma_instance *inst, struct rdma_rail *r, const char *format, ...)
{
	va_list args;
	int n = snprintf(r->fault, sizeof(r->fault), "%s port %u ", r->name, r->device.port);

	va_start(args, format);
	vsnprintf(r->fault + n, sizeof(r->fault) - (size_t)n, format, args);
	va_end(args);
	snprintf(inst->why, sizeof(inst->why), "%s", r->fault);
}

/* ---- opening ----------------------------------------------------------- */

/* Doorbell registers of its own for each poller. */
static bool open_tracks(struct rdma_instance *inst, struct rdma_rail *r)
{
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		struct rdma_track *t = &inst->queues[i]->tracks[r->index];

		t->td = dv_td_open(&r->device, r->why, sizeof(r->why));
		if (!t->td)
			return false;
	}
	return true;
}

static void close_tracks(struct rdma_instance *inst, struct rdma_rail *r)
{
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		struct rdma_track *t = &inst->queues[i]->tracks[r->index];

		if (t->td)
			ibv_dealloc_td(t->td);
		t->td = NULL;
	}
}

static bool listen_to(struct rdma_instance *inst, struct rdma_rail *r)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(inst->epoll_fd, EPOLL_CTL_ADD, r->device.context->async_fd, &e) == 0;
}

static void set_usable(struct rdma_instance *inst, uint32_t rails)
{
	store_relaxed(&inst->usable, rails);
	rdma_changed(inst);
}

static void rail_open(struct rdma_instance *inst, struct rdma_rail *r, const struct dv_choice *c)
{
	int rc = dv_device_open(&r->device, r->name, c, r->why, sizeof(r->why));

	if (rc < 0)
		return;
	r->is_open = open_tracks(inst, r) && listen_to(inst, r);
	if (r->is_open) {
		inst->nr_open++;
		if (rc == 0)
			set_usable(inst, inst->usable | 1u << r->index);
	} else {
		close_tracks(inst, r);
		dv_device_close(&r->device);
	}
}

bool rdma_rails_find(struct rdma_instance *inst)
{
	const struct dv_choice c = {
		.allow = inst->o.allow, .deny = inst->o.deny, .port = (uint8_t)inst->o.port,
		.gid_index = inst->o.gid_index, .pkey_index = inst->o.pkey_index,
		.may_be_down = true,
	};
	char names[DV_DEVICES_MAX][DV_NAME_SIZE];
	int nr = dv_device_names(&c, names, inst->why, sizeof(inst->why));

	for (int i = 0; i < nr && inst->nr_rails < RDMA_RAILS_MAX; i++) {
		struct rdma_rail *r = &inst->rails[inst->nr_rails];

		r->index = (uint8_t)inst->nr_rails++;
		snprintf(r->name, sizeof(r->name), "%.*s", DV_NAME_SIZE - 1, names[i]);
		r->node = dv_device_node(r->name);
		store_relaxed(&inst->all_rails, inst->all_rails | 1u << r->index);
		rail_open(inst, r, &c);
	}
	return inst->nr_open;
}

void rdma_rails_close(struct rdma_instance *inst)
{
	for (uint32_t i = 0; i < inst->nr_rails; i++) {
		if (!inst->rails[i].is_open)
			continue;
		close_tracks(inst, &inst->rails[i]);
		dv_device_close(&inst->rails[i].device);
	}
}

/* ---- events ------------------------------------------------------------ */

/* Addresses of a port that is back may be tried at once. */
static void port_changed(struct rdma_instance *inst, struct rdma_rail *r)
{
	if (dv_device_probe(&r->device, r->why, sizeof(r->why)) < 0) {
		snprintf(inst->why, sizeof(inst->why), "%s", r->why);
		return;
	}
	set_usable(inst, inst->usable | 1u << r->index);
	rdma_route_resume(inst, r->index);
}

static void lost(struct rdma_instance *inst, struct rdma_rail *r)
{
	r->is_gone = true;
	rdma_rail_fault(inst, r, "was taken out");
	set_usable(inst, inst->usable & ~(1u << r->index));
	for (uint32_t i = 0; i < inst->nr_queues; i++)
		wake_event_signal(inst->queues[i]->event_fd);
}

static void listen(struct rdma_instance *inst, struct rdma_rail *r)
{
	const void *queue = NULL;

	for (uint32_t i = 0; i < EVENTS_PER_TURN; i++) {
		switch (dv_device_event(&r->device, &queue)) {
		case DV_EVENT_NONE:
			return;
		case DV_EVENT_PORT:
			port_changed(inst, r);
			break;
		case DV_EVENT_QUEUE:
			rdma_queue_broke(inst, queue);
			break;
		case DV_EVENT_GONE:
			lost(inst, r);
			break;
		case DV_EVENT_OTHER:
			break;
		}
	}
}

void rdma_rails_listen(struct rdma_instance *inst)
{
	for (uint32_t i = 0; i < inst->nr_rails; i++)
		if (inst->rails[i].is_open)
			listen(inst, &inst->rails[i]);
}
