/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/uverbs/object.h"

#include <stdlib.h>

#define MAX_SLOTS (1U << 20)

void object_table_destroy(struct object_table *t)
{
	free(t->slots);
	*t = (struct object_table){ 0 };
}

static bool grow(struct object_table *t)
{
	uint32_t nr = t->nr_slots ? t->nr_slots * 2 : 16;
	struct object_slot *slots;

	if (nr > MAX_SLOTS)
		return false;
	slots = realloc(t->slots, nr * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = t->nr_slots; i < nr; i++)
		slots[i] = (struct object_slot){ .next_free = i + 1 };
	t->slots = slots;
	t->first_free = t->nr_slots;
	t->nr_slots = nr;
	return true;
}

struct object *object_make(struct object_table *t, enum object_type type)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o || (t->first_free == t->nr_slots && !grow(t))) {
		free(o);
		return NULL;
	}
	o->type = type;
	o->handle = t->first_free;
	t->first_free = t->slots[o->handle].next_free;
	t->slots[o->handle].object = o;
	return o;
}

void object_free(struct object_table *t, struct object *o)
{
	for (int i = 0; i < OBJECT_MAX_USES; i++)
		if (o->uses[i])
			o->uses[i]->users--;
	t->slots[o->handle] = (struct object_slot){ .next_free = t->first_free };
	t->first_free = o->handle;
	free(o);
}

struct object *object_find(const struct object_table *t, enum object_type type,
			   uint32_t handle)
{
	struct object *o = handle < t->nr_slots ? t->slots[handle].object : NULL;

	return o && o->type == type ? o : NULL;
}

void object_use(struct object *user, struct object *used)
{
	int i = 0;

	while (user->uses[i])
		i++;
	user->uses[i] = used;
	used->users++;
}

void object_unuse(struct object *user, struct object *used)
{
	int i = 0;

	while (user->uses[i] != used)
		i++;
	user->uses[i] = NULL;
	used->users--;
}
