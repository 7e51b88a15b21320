/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_explain.c - by which devices a request would go, to whom, in how many pieces, and why
 * not by the others; or what keeps it from going by RDMA at all.
 */
#include <stdio.h>

#include "dv/rdma.h"
#include "dv/rdma_explain.h"

/* ---- rails ------------------------------------------------------------- */

/* Why peers are not reached by it at all; NULL: they are. */
static const char *rail_fault(const struct rdma_instance *inst, const struct rdma_rail *r)
{
	if (r->is_gone)
		return "the device was taken out";
	return inst->usable & 1u << r->index ? NULL : r->why;
}

/* Why no request between these two goes by it now; NULL: some may. */
static const char *pair_fault(const struct rdma_instance *inst, const struct rdma_rail *r,
			      const struct rdma_near *near, const struct rdma_far *far)
{
	const uint32_t bit = 1u << r->index;
	const char *fault = rail_fault(inst, r);

	if (fault)
		return fault;
	if (!(near->rails & bit))
		return *near->why ? near->why : "this memory is not registered with it";
	if (!(far->rails & bit))
		return "the other engine has no device of that number for this memory";
	if (load_relaxed(&far->route->refused) & bit)
		return *r->fault ? r->fault : "it was not connected lately";
	return NULL;
}

/* Where others are free too it is left out for less. */
static const char *preference(const struct rdma_rail *r, uint32_t free, uint32_t nearest)
{
	const uint32_t bit = 1u << r->index;

	if (!(free & bit))
		return "it failed lately and is left for a while, as there is another";
	return nearest && !(nearest & bit) ? "another is nearer to the memory" : NULL;
}

static json_t *rail_json(const struct rdma_rail *r, const char *why_not)
{
	char address[64] = "";
	json_t *to;

	if (r->device.port)
		dv_address_text(&r->device.address, address, sizeof(address));
	to = json_pack("{s:i,s:s,s:i,s:s,s:b}", "rail", r->index, "device", r->name, "port",
		       r->device.port, "address", address, "used", !why_not);
	if (why_not)
		json_object_set_new(to, "why_not", json_string(why_not));
	if (*r->fault)
		json_object_set_new(to, "last_fault", json_string(r->fault));
	return to;
}

static json_t *rails_json(const struct rdma_instance *inst, const struct rdma_near *near,
			  const struct rdma_far *far)
{
	json_t *list = json_array();
	uint32_t good = 0, free;

	for (uint32_t i = 0; i < inst->nr_rails; i++)
		if (!pair_fault(inst, &inst->rails[i], near, far))
			good |= 1u << i;
	free = good & ~load_relaxed(&far->route->paused);
	if (!free)
		free = good;
	for (uint32_t i = 0; i < inst->nr_rails; i++) {
		const struct rdma_rail *r = &inst->rails[i];

		json_array_append_new(list, rail_json(r, good & 1u << i ?
			preference(r, free, free & near->nearest) :
			pair_fault(inst, r, near, far)));
	}
	return list;
}

/* ---- pieces ------------------------------------------------------------ */

/* As next_piece() cuts them: where a key ends, and every chunk_bytes. */
static uint64_t pieces_of(const struct rdma_instance *inst, const struct transfer *t,
			  uint32_t rail)
{
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	uint64_t nr = 0, span;

	for (uint64_t at = 0; at < t->length; at += span) {
		dv_keys_find(&near->mrs[rail]->local, t->local_addr + at, t->length - at, &span);
		dv_keys_find(&far->keys[rail], t->remote_addr + at, span, &span);
		nr += (span + inst->o.chunk_bytes - 1) / inst->o.chunk_bytes;
	}
	return nr;
}

/* ---- both of it -------------------------------------------------------- */

void rdma_describe(const struct backend_instance *base, const struct transfer *t, json_t *plan)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)base;
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	const uint32_t rails = near->rails & far->rails;
	const bool has_pool = t->intent & TRANSFER_HAS_POOL;

	json_object_set_new(plan, "peer", json_string(far->route->peer->name));
	json_object_set_new(plan, "qp_pool", has_pool ?
			    json_string(inst->pools[t->pool - 1].name) : json_null());
	json_object_set_new(plan, "slices", json_integer((json_int_t)
			    pieces_of(inst, t, (uint32_t)__builtin_ctz(rails))));
	json_object_set_new(plan, "slice_bytes", json_integer(inst->o.chunk_bytes));
	json_object_set_new(plan, "rails", rails_json(inst, near, far));
}

/* The first device that could have; what keeps it from that. */
static void first_fault(const struct rdma_instance *inst, const struct rdma_near *near,
			const struct rdma_far *far, char *text, size_t size)
{
	for (uint32_t i = 0; i < inst->nr_rails; i++) {
		const struct rdma_rail *r = &inst->rails[i];
		const char *fault = pair_fault(inst, r, near, far);

		if (!fault)
			continue;
		snprintf(text, size, "%s port %u to %s: %s", r->name, r->device.port,
			 far->route->peer->name, fault);
		return;
	}
}

void rdma_why_not(const struct backend_instance *base, const struct region *local,
		  const struct region *remote, char *text, size_t size)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)base;
	const struct rdma_near *near = local->wired;
	const struct rdma_far *far = remote->wired;
	const char *reason = "";

	if (!remote->far || local->far)
		reason = "it moves bytes between this host's memory and another engine's";
	else if (!inst->usable)
		reason = *inst->rails[0].why ? inst->rails[0].why : inst->why;
	else if (!near && local->device)
		reason = local->device->card;
	else if (!near)
		reason = "this memory is registered with no device: its client keeps it to itself";
	else if (!near->rails)
		reason = *near->why ? near->why : "this memory is registered with no device";
	else if (!far)
		reason = "the other engine offers this memory to no device";
	else if (near->tenant != far->route->tenant)
		reason = "the other engine's keys are good for its owner's user alone";
	snprintf(text, size, "%s", reason);
	if (!*reason)
		first_fault(inst, near, far, text, size);
}
