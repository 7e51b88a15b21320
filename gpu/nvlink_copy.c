/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvlink_copy.c - copies on their way. A transfer has one flight at a time, so that a cancel
 * waits for one; others of its lane keep the GPU busy meanwhile.
 *
 * What a poller asks of the driver neither waits for a GPU nor moves bytes here: memory of
 * the host is pinned, and a copy that would not be is never begun.
 */
#include <string.h>

#include "gpu/nvlink.h"

/* Where the bytes of a transfer are at one end. */
struct copy_end {
	const struct device_memory *device;	/* NULL: of the host */
	uint64_t address;
};

static struct copy_end end_of(const struct region *r, uint64_t address)
{
	if (r->device)
		return (struct copy_end){ r->device, address };
	return (struct copy_end){ NULL, (uintptr_t)r->addr + (address - r->base) };
}

static void ends_of(const struct transfer *t, struct copy_end *from, struct copy_end *to)
{
	struct copy_end local = end_of(t->local, t->local_addr);
	struct copy_end remote = end_of(t->remote, t->remote_addr);

	*from = t->opcode == TENT_OPCODE_READ ? remote : local;
	*to = t->opcode == TENT_OPCODE_READ ? local : remote;
}

/* Of the GPU that reads, or that writes what the host has. */
static struct lane *lane_of(struct nvlink_queue *q, const struct transfer *t)
{
	struct copy_end from, to;

	ends_of(t, &from, &to);
	return &q->lanes[from.device ? from.device->number : to.device->number];
}

/* How many bytes next, of those that are left after done, and from where: none that a later
 * copy still has to read. */
static uint64_t next_bytes(const struct transfer *t, uint64_t done, uint64_t from, uint64_t to,
			   uint64_t *offset)
{
	uint64_t left = t->length - done, distance = to > from ? to - from : from - to;
	uint64_t most = distance && distance < t->length && distance < COPY_BYTES ?
			distance : COPY_BYTES;
	uint64_t n = left < most ? left : most;

	*offset = to > from && distance < t->length ? left - n : done;
	return n;
}

/* ---- beginning ---------------------------------------------------------- */

static cuda_result copy(const struct nvlink_queue *q, const struct lane *l, struct copy_end from,
			struct copy_end to, uint64_t n)
{
	const struct cuda_api *cuda = ((struct nvlink_instance *)q->base.inst)->cuda;

	if (!from.device)
		return cuda->cuMemcpyHtoDAsync_v2(to.address, (void *)(uintptr_t)from.address, n,
						  l->stream);
	if (!to.device)
		return cuda->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to.address, from.address, n,
						  l->stream);
	if (from.device->number == to.device->number)
		return cuda->cuMemcpyDtoDAsync_v2(to.address, from.address, n, l->stream);
	return cuda->cuMemcpyPeerAsync(to.address, q->lanes[to.device->number].context,
				       from.address, l->context, n, l->stream);
}

/* What goes up in one flight. Copies of a stream do not overtake each other. */
static cuda_result copy_some(const struct nvlink_queue *q, const struct lane *l,
			     const struct transfer *t, uint64_t *bytes)
{
	cuda_result rc = CUDA_OK;
	struct copy_end from, to;
	uint64_t offset, n;

	ends_of(t, &from, &to);
	*bytes = 0;
	for (uint32_t i = 0; i < PIECES_MAX && *bytes < COPY_BYTES && rc == CUDA_OK &&
			     t->done + *bytes < t->length; i++) {
		n = next_bytes(t, t->done + *bytes, from.address, to.address, &offset);
		rc = copy(q, l, (struct copy_end){ from.device, from.address + offset },
			  (struct copy_end){ to.device, to.address + offset }, n);
		*bytes += rc == CUDA_OK ? n : 0;
	}
	return rc;
}

/* In the lane's context, which has room for it. */
static cuda_result begin(struct nvlink_queue *q, struct lane *l, struct transfer *t)
{
	const struct cuda_api *cuda = ((struct nvlink_instance *)q->base.inst)->cuda;
	struct flight *f = &l->flights[l->next % LANE_DEPTH];
	cuda_result rc = copy_some(q, l, t, &f->bytes);

	if (rc == CUDA_INVALID_VALUE && !f->bytes)
		return rc;	/* memory that was freed: no copy began, the lane is well */
	f->transfer = t;
	f->rule = 0;
	if (rc == CUDA_OK)
		rc = cuda->cuEventRecord(f->event, l->stream);
	if (rc != CUDA_OK) {
		store_relaxed(&l->failed, rc);
		return rc;
	}
	l->next++;
	store_relaxed(&q->base.watched, ++q->in_flight);
	return CUDA_OK;
}

static bool is_within(const struct region *r, uint64_t address, uint64_t length)
{
	return address >= r->base && address <= r->end && length <= r->end - address;
}

enum post_result nvlink_post(struct backend_queue *base, struct transfer *t, uint64_t budget)
{
	struct nvlink_queue *q = (struct nvlink_queue *)base;
	const struct cuda_api *cuda = ((struct nvlink_instance *)base->inst)->cuda;
	struct lane *l = lane_of(q, t);
	cuda_context popped;
	cuda_result rc;

	(void)budget;	/* of what the poller moves itself */
	if (!is_within(t->local, t->local_addr, t->length))
		return post_fail(t, TENT_RULE_SOURCE_UNREGISTERED);
	if (!is_within(t->remote, t->remote_addr, t->length))
		return post_fail(t, TENT_RULE_TARGET_UNREGISTERED);
	if (l->failed)
		return post_fail(t, TENT_RULE_GPU);
	if (l->next - l->first == LANE_DEPTH)
		return POST_BUSY;
	rc = cuda->cuCtxPushCurrent_v2(l->context);
	if (rc == CUDA_OK) {
		rc = begin(q, l, t);
		cuda->cuCtxPopCurrent_v2(&popped);
	}
	return rc == CUDA_OK ? POST_PENDING : post_fail(t, TENT_RULE_GPU);
}

/* ---- ending ------------------------------------------------------------- */

static void flight_over(struct nvlink_queue *q, struct lane *l)
{
	l->first++;
	store_relaxed(&q->base.watched, --q->in_flight);
	q->base.moved = true;
}

static void end(struct nvlink_queue *q, struct transfer *t, uint16_t rule)
{
	if (rule)
		transfer_end_by(t, rule);
	else
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	transfer_list_push(&q->ended, t);
}

/* The first flight of a lane is over. */
static void land(struct nvlink_queue *q, struct lane *l)
{
	struct flight f = l->flights[l->first % LANE_DEPTH];
	struct transfer *t = f.transfer;

	flight_over(q, l);
	t->done += f.bytes;
	if (f.rule || t->done == t->length)
		end(q, t, t->done == t->length ? 0 : f.rule);
	else if (begin(q, l, t) != CUDA_OK)
		end(q, t, TENT_RULE_GPU);
}

/* What it had on its way was never done, or is as far as it will ever be. */
static void crash(struct nvlink_queue *q, struct lane *l, cuda_result why)
{
	store_relaxed(&l->failed, why);
	while (l->first != l->next) {
		struct transfer *t = l->flights[l->first % LANE_DEPTH].transfer;

		flight_over(q, l);
		end(q, t, TENT_RULE_GPU);
	}
}

static void visit(struct nvlink_queue *q, struct lane *l)
{
	const struct cuda_api *cuda = ((struct nvlink_instance *)q->base.inst)->cuda;
	cuda_context popped;
	cuda_result rc = cuda->cuCtxPushCurrent_v2(l->context);
	bool pushed = rc == CUDA_OK;

	for (uint32_t last = l->next; rc == CUDA_OK && !l->failed && l->first != last; ) {
		rc = cuda->cuEventQuery(l->flights[l->first % LANE_DEPTH].event);
		if (rc == CUDA_OK)
			land(q, l);
	}
	if (l->failed)
		rc = l->failed;
	if (rc != CUDA_OK && rc != CUDA_NOT_READY)
		crash(q, l, rc);
	if (pushed)
		cuda->cuCtxPopCurrent_v2(&popped);
}

struct transfer *nvlink_poll(struct backend_queue *base)
{
	struct nvlink_queue *q = (struct nvlink_queue *)base;

	for (uint32_t i = 0; q->in_flight && i < GPUS_MAX; i++)
		if (q->lanes[i].first != q->lanes[i].next)
			visit(q, &q->lanes[i]);
	return transfer_list_take(&q->ended);
}

/* A flight that began cannot be taken back; it is the last of its transfer. */
bool nvlink_cancel(struct backend_queue *base, struct transfer *t, uint16_t rule)
{
	struct nvlink_queue *q = (struct nvlink_queue *)base;
	struct lane *l = lane_of(q, t);

	for (uint32_t i = l->first; i != l->next; i++)
		if (l->flights[i % LANE_DEPTH].transfer == t)
			l->flights[i % LANE_DEPTH].rule = rule;
	return false;
}
