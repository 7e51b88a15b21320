/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - see device.h. Only memory of this process is looked at: that of others' GPUs
 * is known to their drivers alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/device.h"

#define DIGITS_MAX 2u
#define WHY_SIZE 192u

static struct backend_instance *instance(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_instances; i++)
		if (e->instances[i]->ops->device)
			return e->instances[i];
	return NULL;
}

bool device_location(const char *text, uint32_t *number)
{
	size_t digits;

	if (strncmp(text, "cuda:", 5) != 0)
		return false;
	text += 5;
	digits = strspn(text, "0123456789");
	if (!digits || digits > DIGITS_MAX || text[digits])
		return false;
	*number = (uint32_t)atoi(text);
	return true;
}

/* It said that this is a GPU's, and it is not. */
static int refuse_location(struct engine *e, struct client *c, const struct region *r)
{
	const struct backend_instance *inst = c->local ? instance(e) : NULL;

	if (r->device)
		client_refuse_text(e, c, TENT_RULE_LOCATION, 0, "location is \"%s\", and the "
				   "memory at 0x%" PRIx64 " is that of cuda:%u; allowed: that, "
				   "\"\" or \"*\"", r->location, r->base, r->device->number);
	else if (!c->local)
		client_refuse_text(e, c, TENT_RULE_NOT_BUILT, 0, "location is \"%s\"; allowed: "
				   "memory of the host, or an engine in the program that has the "
				   "GPU memory", r->location);
	else if (!inst || inst->ops->is_absent(inst))
		client_refuse_text(e, c, TENT_RULE_NOT_BUILT, 0, "location is \"%s\", and memory "
				   "of GPUs is not in this build or on this machine", r->location);
	else
		client_refuse_text(e, c, TENT_RULE_LOCATION, 0, "location is \"%s\", and the "
				   "memory at 0x%" PRIx64 " is the host's; allowed: \"\", \"*\", "
				   "\"cpu\" or \"cpu:N\"", r->location, r->base);
	return -1;
}

/* From the first region of a GPU on, what the host has is pinned for them. */
static void pin_all(struct engine *e, const struct backend_instance *inst, bool was_absent)
{
	if (!was_absent || inst->ops->is_absent(inst))
		return;
	for (struct client *c = e->clients; c; c = c->next) {
		const struct region_table *t = c->segment ? c->segment->table : NULL;

		for (uint32_t i = 0; t && i < t->nr; i++)
			device_host_open(e, t->entries[i].region);
	}
}

/* What is not said, or said less well, is said here. */
static int check_location(struct engine *e, struct client *c, struct region *r)
{
	uint32_t number;
	bool is_gpu = device_location(r->location, &number);

	if (is_gpu ? r->device && r->device->number == number : !r->device || !*r->location ||
	    !strcmp(r->location, "*")) {
		if (r->device)
			snprintf(r->location, sizeof(r->location), "cuda:%u", r->device->number);
		r->is_gpu = r->device != NULL;
		return r->is_gpu;
	}
	refuse_location(e, c, r);
	device_region_close(e, r);
	return -1;
}

int device_region_open(struct engine *e, struct client *c, struct region *r)
{
	struct backend_instance *inst = c->local ? instance(e) : NULL;
	bool was_absent = !inst || inst->ops->is_absent(inst);
	char why[WHY_SIZE];

	if (inst && inst->ops->device->region_open(inst, r, why, sizeof(why)) < 0) {
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, r->base,
				   "address is 0x%" PRIx64 ", length 0x%" PRIx64 ", and %s; "
				   "allowed: memory of one GPU without holes", r->base,
				   r->end - r->base, why);
		return -1;
	}
	if (r->device) {
		pin_all(e, inst, was_absent);
		for (uint32_t i = 0; i < e->nr_pollers; i++)
			staging_fill(e->pollers[i].staging);
	}
	return check_location(e, c, r);
}

/* One line for each way there is, the first time: registrations are many. */
static void say_way(struct engine *e, const struct region *r)
{
	const struct device_memory *m = r->device;

	if (e->card_ways_said & 1u << m->way)
		return;
	e->card_ways_said |= 1u << m->way;
	fprintf(stderr, "tent: memory of %s at 0x%" PRIx64 ": %s\n", r->location, r->base, m->card);
}

void device_region_settle(struct engine *e, struct region *r)
{
	if (!r->device)
		return;
	if (r->device->fd >= 0)
		close(r->device->fd);
	r->device->fd = -1;
	if (!*r->device->card)
		snprintf(r->device->card, sizeof(r->device->card),
			 "registered with no card: this engine has no RDMA");
	else
		say_way(e, r);
}

void device_host_open(struct engine *e, struct region *r)
{
	struct backend_instance *inst = instance(e);

	if (inst && r->addr)
		inst->ops->device->host_open(inst, r);
}

void device_region_close(struct engine *e, struct region *r)
{
	struct backend_instance *inst = instance(e);

	if (inst && r->device)
		inst->ops->device->region_close(inst, r);
	else if (inst && r->addr)
		inst->ops->device->host_close(inst, r);
}
