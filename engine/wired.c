/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wired.c - what stands between links and the backend whose connections they set up: its
 * frames, the memory that it is told of, and who may speak for whom.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/peers.h"
#include "engine/wired.h"

#define LONG_BYTES (16ull << 20)	/* pages of it are pinned in some milliseconds */

static struct backend_instance *instance(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_instances; i++)
		if (e->instances[i]->ops->wired)
			return e->instances[i];
	return NULL;
}

/* NULL: there is none, or no peer may come. */
static struct backend_instance *started(const struct engine *e)
{
	return e->links.wired_on ? instance(e) : NULL;
}

/* ---- frames ------------------------------------------------------------ */

static bool to_far(void *context, const struct far_end *f, json_t *frame)
{
	struct engine *e = context;

	for (struct link *l = e->links.list; l; l = l->next) {
		if (!l->peer || l->peer->end != f || l->state != LINK_UP)
			continue;
		link_send(e, l, frame);
		return true;
	}
	json_decref(frame);
	return false;
}

static bool to_guest(void *context, const struct guest *g, json_t *frame)
{
	struct engine *e = context;

	for (struct link *l = e->links.list; l; l = l->next) {
		if (l->guest != g)
			continue;
		link_send(e, l, frame);
		return true;
	}
	json_decref(frame);
	return false;
}

void link_take_wired(struct engine *e, struct link *l, const json_t *frame)
{
	struct backend_instance *inst = started(e);
	uint32_t uid;

	if (!inst || !l->wired)
		link_refuse(e, l, "this engine has no RDMA, and did not say so");
	else if (l->peer)
		inst->ops->wired->far_frame(inst, l->peer->end, frame);
	else if (!frame_uint(frame, "uid", UINT32_MAX, &uid))
		link_refuse(e, l, "a frame of rdma needs a uid");
	else if (l->guest && link_speaks_for(e, l, uid))
		inst->ops->wired->guest_frame(inst, l->guest, uid, frame);
	/* Else there is nothing that it could have been told of, and it waits in vain. */
}

void hello_put_wired(const struct engine *e, json_t *hello)
{
	if (started(e))
		json_object_set_new(hello, "rdma", json_true());
}

void hello_get_wired(struct link *l, const json_t *hello)
{
	l->wired = json_is_true(json_object_get(hello, "rdma"));
}

bool wired_invites(const struct engine *e, const struct link *l)
{
	return started(e) && l->wired;
}

void wired_uninvite(struct engine *e, const struct guest *g)
{
	struct backend_instance *inst = started(e);

	if (inst)
		inst->ops->wired->guest_close(inst, g);
}

/* ---- memory ------------------------------------------------------------ */

void wired_region_open(struct engine *e, struct region *r, uint32_t uid)
{
	struct backend_instance *inst = started(e);

	if (inst && (r->device ? r->device->cards_may : r->addr && r->shareable))
		inst->ops->wired->region_open(inst, r, uid);
}

void wired_region_pin(struct engine *e, struct region *r)
{
	if (r->wired)
		instance(e)->ops->wired->region_pin(r);
}

void wired_region_settle(struct engine *e, struct region *r)
{
	if (r->wired && !instance(e)->ops->wired->region_settle(instance(e), r))
		wired_region_close(e, r);
}

bool wired_takes_long(const struct region *r)
{
	return r->wired && r->end - r->base >= LONG_BYTES;
}

void wired_region_close(struct engine *e, struct region *r)
{
	struct backend_instance *inst = instance(e);

	if (r->wired)
		inst->ops->wired->region_close(inst, r);
	r->wired = NULL;
}

json_t *wired_keys(const struct engine *e, const struct region *r)
{
	char text[WIRED_KEYS_SIZE] = "";

	if (r->wired && !instance(e)->ops->wired->region_keys(r, text))
		text[0] = '\0';
	return json_string(text);
}

void wired_far_region_open(struct engine *e, struct region *r, const char *keys)
{
	struct backend_instance *inst = started(e);

	if (inst && keys && r->far->wired)
		inst->ops->wired->far_region_open(inst, r, keys);
}

void wired_far_region_close(struct engine *e, struct region *r)
{
	struct backend_instance *inst = instance(e);

	if (r->wired)
		inst->ops->wired->far_region_close(inst, r);
	r->wired = NULL;
}

void wired_far_open(struct engine *e, struct far_end *f)
{
	struct backend_instance *inst = started(e);

	if (inst)
		inst->ops->wired->far_open(inst, f);
}

void wired_far_close(struct engine *e, struct far_end *f)
{
	struct backend_instance *inst = instance(e);

	if (f->wired)
		inst->ops->wired->far_close(inst, f);
	f->wired = NULL;
}

/* ---- life -------------------------------------------------------------- */

int wired_open(struct engine *e, char *error, size_t size)
{
	struct backend_instance *inst = instance(e);
	struct wired_link w = { .context = e, .to_far = to_far, .to_guest = to_guest };
	int rc;

	if (e->links.fd < 0 || !inst)
		return 0;
	rc = inst->ops->wired->start(inst, &w, &e->links.wired_fd);
	e->links.wired_on = rc == 0;
	if (rc == 0 || rc == -ENODEV)
		return 0;
	snprintf(error, size, "transports/%s cannot be started: %s", inst->ops->name,
		 strerror(-rc));
	return TENT_ERR_RUNTIME;
}

static void wired_ready(struct engine *e, struct event_source *s)
{
	struct backend_instance *inst = instance(e);

	inst->ops->wired->ready(inst);
	control_rearm(e, s);
}

int wired_start(struct engine *e)
{
	if (!e->links.wired_on)
		return 0;
	return control_watch(e, &e->links.wired_source, e->links.wired_fd, wired_ready);
}
