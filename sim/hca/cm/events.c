/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - what waits on an event channel for the program to take it.
 */
#include <stdlib.h>

#include "sim/hca/cm/core.h"

static void append(struct cm_file *f, struct cm_event *e)
{
	struct cm_event **end = &f->events;

	while (*end)
		end = &(*end)->next;
	e->next = NULL;
	*end = e;
	if (f->is_readable)
		return;
	f->is_readable = true;
	f->set_readable(f);
}

static struct cm_event *new_event(struct cm_id *id, uint32_t kind, int status)
{
	struct cm_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->id = id;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	e->resp.event = kind;
	e->resp.status = (uint32_t)status;
	append(id->file, e);
	return e;
}

struct rdma_ucm_event_resp *cm_event_post(struct cm_id *id, enum cm_event_kind event, int status)
{
	struct cm_event *e = id && id->uid ? new_event(id, event, status) : NULL;

	return e ? &e->resp : NULL;
}

struct rdma_ucm_event_resp *cm_event_post_request(struct cm_id *listener, struct cm_id *request)
{
	struct cm_event *e = new_event(listener, CM_EVENT_CONNECT_REQUEST, 0);

	if (!e)
		return NULL;
	e->request = request;
	request->is_waiting = true;
	e->resp.id = request->handle;
	listener->backlog--;
	return &e->resp;
}

bool cm_event_take(struct cm_file *f, struct rdma_ucm_event_resp *out)
{
	struct cm_event *e = f->events;

	if (!e)
		return false;
	f->events = e->next;
	*out = e->resp;
	e->id->events_reported++;
	if (e->request) {
		e->request->is_waiting = false;
		e->id->backlog++;
	}
	free(e);
	return true;
}

/* Unlinks the events of an id and gives them back as a list. */
static struct cm_event *extract(struct cm_id *id)
{
	struct cm_event **link = &id->file->events, *taken = NULL, **end = &taken;

	while (*link) {
		if ((*link)->id != id) {
			link = &(*link)->next;
			continue;
		}
		*end = *link;
		*link = (*link)->next;
		end = &(*end)->next;
	}
	*end = NULL;
	return taken;
}

void cm_event_purge(struct cm_id *id)
{
	struct cm_event *e = extract(id), *next;

	for (; e; e = next) {
		next = e->next;
		if (e->request)
			cm_id_destroy(e->request);
		free(e);
	}
}

void cm_event_move(struct cm_id *id, struct cm_file *to)
{
	struct cm_event *e = extract(id), *next;

	for (; e; e = next) {
		next = e->next;
		if (e->request)
			e->request->file = to;
		append(to, e);
	}
	id->file = to;
}

bool cm_event_drained(struct cm_file *f)
{
	bool drained = f->is_readable && !f->events;

	if (drained)
		f->is_readable = false;
	return drained;
}
