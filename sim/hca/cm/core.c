/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.c - event channels and ids: how they begin and end.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "sim/hca/cm/core.h"

/* xorshift64*: nobody must guess these, but they must differ from run to run. */
uint32_t cm_random(struct cm *cm)
{
	cm->random ^= cm->random >> 12;
	cm->random ^= cm->random << 25;
	cm->random ^= cm->random >> 27;
	return (uint32_t)(cm->random * 0x2545f4914f6cdd1dull >> 32);
}

struct cm *cm_create(const struct cm_env *env)
{
	struct cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->env = *env;
	if (getrandom(&cm->random, sizeof(cm->random), 0) != sizeof(cm->random) || !cm->random)
		cm->random = env->now_ns(env->ctx) | 1;
	return cm;
}

void cm_destroy(struct cm *cm)
{
	while (cm->files)
		cm_file_close(cm->files);
	while (cm->connections)
		cm_connection_free(cm, cm->connections);
	free(cm);
}

struct cm_file *cm_file_create(struct cm *cm, void *holder,
			       void (*set_readable)(struct cm_file *))
{
	struct cm_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->cm = cm;
	f->holder = holder;
	f->set_readable = set_readable;
	f->next = cm->files;
	cm->files = f;
	return f;
}

/* One that waits in an event goes with its listener. */
static struct cm_id *first_id(const struct cm_file *f)
{
	struct cm_id *id = f->cm->ids;

	while (id && (id->file != f || id->is_waiting))
		id = id->next;
	return id;
}

void cm_file_close(struct cm_file *f)
{
	struct cm *cm = f->cm;
	struct cm_file **link;
	struct cm_id *id;

	while ((id = first_id(f)))
		cm_id_destroy(id);
	for (link = &cm->files; *link != f; link = &(*link)->next)
		;
	*link = f->next;
	free(f);
}

static int take_handle(struct cm *cm, struct cm_id *id)
{
	uint32_t h;

	for (h = cm->lowest_free; h < CM_MAX_IDS && cm->by_handle[h]; h++)
		;
	cm->lowest_free = h;
	if (h == CM_MAX_IDS)
		return -ENOMEM;
	cm->by_handle[h] = id;
	id->handle = h;
	return 0;
}

struct cm_id *cm_id_create(struct cm_file *f, uint64_t uid, uint32_t port_space, uint32_t qp_type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	if (take_handle(f->cm, id)) {
		free(id);
		return NULL;
	}
	id->file = f;
	id->uid = uid;
	id->port_space = port_space;
	id->qp_type = qp_type;
	id->qkey = CM_UDP_QKEY;
	id->psn = cm_random(f->cm) & HCA_PSN_MASK;
	id->next = f->cm->ids;
	f->cm->ids = id;
	return id;
}

int cm_id_find(struct cm_file *f, uint32_t handle, struct cm_id **out)
{
	struct cm_id *id = handle < CM_MAX_IDS ? f->cm->by_handle[handle] : NULL;

	if (!id || id->is_waiting)
		return -ENOENT;
	if (id->file != f)
		return -EINVAL;
	*out = id;
	return 0;
}

void cm_id_destroy(struct cm_id *id)
{
	struct cm *cm = id->file->cm;
	struct cm_id **link;

	cm_event_purge(id);
	cm_connection_abandon(id);
	for (link = &cm->ids; *link != id; link = &(*link)->next)
		;
	*link = id->next;
	cm->by_handle[id->handle] = NULL;
	if (id->handle < cm->lowest_free)
		cm->lowest_free = id->handle;
	free(id);
}

void cm_device_removed(struct cm *cm, uint32_t device)
{
	struct cm_id *id;

	for (id = cm->ids; id; id = id->next)
		if (id->has_device && id->path.place.device == device)
			cm_event_post(id, CM_EVENT_DEVICE_REMOVAL, 0);
}
