/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - an open device: what becomes of its objects, its pages and its events.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"

int uverbs_open(struct uverbs_file **out, struct uverbs_device *d)
{
	struct uverbs_file *f;

	if (d->is_removed)
		return -ENXIO;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->device = d;
	f->next = d->files;
	d->files = f;
	*out = f;
	return 0;
}

static int destroy_in_engine(struct object *o)
{
	switch (o->type) {
	case OBJECT_QP:
		return hca_qp_destroy(o->qp.hca);
	case OBJECT_SRQ:
		return hca_srq_destroy(o->srq.hca);
	case OBJECT_CQ:
		return hca_cq_destroy(o->cq.hca);
	case OBJECT_PD:
		return hca_pd_destroy(o->pd);
	case OBJECT_MR:
		hca_mr_destroy(o->mr.hca);
		return 0;
	default:
		return 0;
	}
}

int uverbs_destroy_object(struct object *o)
{
	struct uverbs_file *f = o->file;
	int rc = o->users ? -EBUSY : destroy_in_engine(o);

	if (rc)
		return rc;
	if (o->type == OBJECT_CQ && o->cq.channel) {
		event_queue_forget(o->cq.channel, &o->comp_reported);
		event_queue_drop(o->cq.channel);
	}
	if (o->type == OBJECT_UAR) {
		f->device->uars[o->uar / 64] &= ~(1ULL << o->uar % 64);
		f->device->env->uar_freed(f->device->env->ctx, o->uar);
	}
	if (f->async)
		event_queue_forget(f->async, &o->async_reported);
	object_free(&f->objects, o);
	return 0;
}

void uverbs_close(struct uverbs_file *f)
{
	struct uverbs_file **at = &f->device->files;

	for (int type = 0; type < OBJECT_NR_TYPES; type++)
		for (uint32_t i = 0; i < f->objects.nr_slots; i++) {
			struct object *o = object_find(&f->objects, (enum object_type)type, i);

			if (o)
				uverbs_destroy_object(o);
		}
	if (f->async) {
		event_queue_forget(f->async, &f->port_reported);
		event_queue_end(f->async);
		event_queue_drop(f->async);
	}
	object_table_destroy(&f->objects);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	free(f);
}

/* ---- pages ----------------------------------------------------------------- */

int command_alloc_uar(struct command *c, uint64_t type)
{
	struct uverbs_device *d = c->file->device;
	unsigned page = 0;
	struct object *o;

	if (!c->file->async || type > 1)	/* BlueFlame, non-cached */
		return -EINVAL;
	while (page < UVERBS_MAX_UARS && d->uars[page / 64] & 1ULL << page % 64)
		page++;
	if (page == UVERBS_MAX_UARS)
		return -ENOMEM;
	o = command_make(c, OBJECT_UAR);
	if (!o)
		return -ENOMEM;
	o->uar = page;
	d->uars[page / 64] |= 1ULL << page % 64;
	return 0;
}

bool command_knows_uar(const struct command *c, uint32_t page)
{
	return page < UVERBS_MAX_UARS && c->file->device->uars[page / 64] & 1ULL << page % 64;
}

int uverbs_check_mmap(const struct uverbs_file *f, uint64_t offset, uint64_t length,
		      bool is_writable)
{
	uint64_t page = offset / UVERBS_PAGE - UVERBS_FIRST_UAR_PAGE;

	if (offset % UVERBS_PAGE || length != UVERBS_PAGE)
		return -EINVAL;
	if (offset == (uint64_t)UVERBS_CLOCK_PAGE * UVERBS_PAGE)
		return is_writable ? -EPERM : 0;
	if (page >= UVERBS_MAX_UARS)
		return -EINVAL;
	for (uint32_t i = 0; i < f->objects.nr_slots; i++) {
		const struct object *o = object_find(&f->objects, OBJECT_UAR, i);

		if (o && o->uar == page)
			return 0;
	}
	return -EINVAL;
}

/* ---- events ---------------------------------------------------------------- */

void uverbs_cq_event(void *cq_cookie)
{
	struct object *o = cq_cookie;
	struct ib_uverbs_comp_event_desc e = { .cq_handle = o->user_handle };

	if (o->cq.channel)
		event_queue_push(o->cq.channel, &e, &o->comp_reported);
}

void uverbs_async_event(enum hca_event event, void *cookie)
{
	static const uint32_t codes[] = {
		[HCA_EVENT_CQ_ERROR] = IBV_EVENT_CQ_ERR,
		[HCA_EVENT_QP_FATAL] = IBV_EVENT_QP_FATAL,
		[HCA_EVENT_QP_REQUEST_ERROR] = IBV_EVENT_QP_REQ_ERR,
		[HCA_EVENT_QP_ACCESS_ERROR] = IBV_EVENT_QP_ACCESS_ERR,
		[HCA_EVENT_COMM_EST] = IBV_EVENT_COMM_EST,
		[HCA_EVENT_SQ_DRAINED] = IBV_EVENT_SQ_DRAINED,
		[HCA_EVENT_LAST_WQE_REACHED] = IBV_EVENT_QP_LAST_WQE_REACHED,
		[HCA_EVENT_SRQ_ERROR] = IBV_EVENT_SRQ_ERR,
		[HCA_EVENT_SRQ_LIMIT] = IBV_EVENT_SRQ_LIMIT_REACHED,
	};
	struct object *o = cookie;
	struct ib_uverbs_async_event_desc e = {
		.element = o->user_handle,
		.event_type = codes[event],
	};

	if (o->file->async)
		event_queue_push(o->file->async, &e, &o->async_reported);
}

void uverbs_port_event(struct uverbs_device *d, int ibv_event, unsigned port)
{
	struct ib_uverbs_async_event_desc e = {
		.element = port,
		.event_type = (__u32)ibv_event,
	};

	for (struct uverbs_file *f = d->files; f; f = f->next) {
		if (!f->async)
			continue;
		event_queue_push(f->async, &e, &f->port_reported);
		if (d->is_removed)
			event_queue_end(f->async);
	}
}
