/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvlink.c - the backend between GPUs of this process, and between them and memory of the
 * host. Where the program has no GPU memory it reaches nothing and asks the driver nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/backend.h"
#include "gpu/nvlink.h"

static int nvlink_open(struct backend_instance **out, const struct backend_options *o)
{
	struct nvlink_instance *inst = calloc(1, sizeof(*inst));

	(void)o;
	if (!inst)
		return -ENOMEM;
	inst->base.ops = &nvlink_backend;
	inst->pins = gpu_pins_create();
	if (!inst->pins) {
		free(inst);
		return -ENOMEM;
	}
	*out = &inst->base;
	return 0;
}

static void nvlink_close(struct backend_instance *base)
{
	struct nvlink_instance *inst = (struct nvlink_instance *)base;

	gpu_pins_destroy(inst->pins);
	free(inst);
}

static int nvlink_queue_open(struct backend_instance *base, int event_fd,
			     struct backend_queue **out)
{
	struct nvlink_instance *inst = (struct nvlink_instance *)base;
	struct nvlink_queue *q;

	(void)event_fd;
	if (inst->nr_queues == NVLINK_QUEUES_MAX)
		return -EBUSY;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->base.ops = &nvlink_backend;
	q->base.inst = base;
	transfer_list_init(&q->ended);
	inst->queues[inst->nr_queues++] = q;
	*out = &q->base;
	return 0;
}

static void nvlink_queue_close(struct backend_queue *base)
{
	struct nvlink_queue *q = (struct nvlink_queue *)base;
	const struct nvlink_instance *inst = (struct nvlink_instance *)base->inst;

	for (int i = 0; inst->cuda && i < (int)GPUS_MAX; i++)
		lane_close(inst->cuda, &q->lanes[i], i);
	free(q);
}

/* ---- regions ------------------------------------------------------------ */

static bool is_reached(const struct region *r)
{
	return r->device || (r->addr && load_relaxed(&r->pinned));
}

static bool nvlink_reaches(const struct backend_instance *inst, const struct region *local,
			   const struct region *remote)
{
	(void)inst;
	return (local->device || remote->device) && is_reached(local) && is_reached(remote);
}

static bool nvlink_is_absent(const struct backend_instance *base)
{
	return !load_relaxed(&((const struct nvlink_instance *)base)->is_present);
}

/* Every queue can use it from now on. Those that it had stay, whatever becomes of it. */
static cuda_result open_lanes(struct nvlink_instance *inst, int device)
{
	cuda_result rc = CUDA_OK;

	for (uint32_t i = 0; rc == CUDA_OK && i < inst->nr_queues; i++) {
		struct lane *l = &inst->queues[i]->lanes[device];

		if (!l->stream)
			rc = lane_open(inst->cuda, l, device);
	}
	return rc;
}

static int nvlink_region_open(struct backend_instance *base, struct region *r, char *why,
			      size_t size)
{
	struct nvlink_instance *inst = (struct nvlink_instance *)base;
	struct device_memory *m = calloc(1, sizeof(*m));
	char text[40];
	cuda_result rc;
	int found = m ? gpu_memory_find(m, r->base, r->end - r->base, why, size) : -ENOMEM;

	if (found <= 0) {
		if (!m)
			snprintf(why, size, "there is no memory for it");
		free(m);
		return found;
	}
	if (!inst->cuda)	/* pollers read it, from its first lane on */
		inst->cuda = gpu_driver();
	rc = open_lanes(inst, (int)m->number);
	if (rc != CUDA_OK) {
		snprintf(why, size, "GPU %u: no stream: %s", m->number,
			 gpu_error(inst->cuda, rc, text));
		free(m);
		return -EIO;
	}
	m->context = inst->queues[0]->lanes[m->number].context;
	gpu_share_open(inst->cuda, m, r->base, r->end - r->base);
	r->device = m;
	if (nvlink_is_absent(base))
		inst->pinned_by = (int)m->number;
	store_relaxed(&inst->is_present, 1u);
	return 1;
}

static void nvlink_region_close(struct backend_instance *base, struct region *r)
{
	(void)base;
	gpu_share_close(r->device);
	free(r->device);
	r->device = NULL;
}

static void nvlink_host_open(struct backend_instance *base, struct region *r)
{
	struct nvlink_instance *inst = (struct nvlink_instance *)base;
	uint64_t at = (uintptr_t)r->addr;

	if (nvlink_is_absent(base) || load_relaxed(&r->pinned))
		return;
	if (gpu_pin(inst->pins, at, at + (r->end - r->base), inst->pinned_by))
		store_relaxed(&r->pinned, 1u);
}

static void nvlink_host_close(struct backend_instance *base, struct region *r)
{
	struct nvlink_instance *inst = (struct nvlink_instance *)base;
	uint64_t at = (uintptr_t)r->addr;

	if (load_relaxed(&r->pinned))
		gpu_unpin(inst->pins, at, at + (r->end - r->base));
	store_relaxed(&r->pinned, 0u);
}

/* Which of the GPUs are lost to it, by what. */
static void nvlink_facts(const struct backend_instance *base, char *text, size_t size)
{
	const struct nvlink_instance *inst = (const struct nvlink_instance *)base;
	size_t used = 0;
	char error[40];

	if (nvlink_is_absent(base)) {
		snprintf(text, size, "no memory of GPUs");
		return;
	}
	snprintf(text, size, "copies of the driver");
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		for (uint32_t gpu = 0; gpu < GPUS_MAX && used < size; gpu++) {
			uint32_t failed = load_relaxed(&inst->queues[i]->lanes[gpu].failed);

			if (failed)
				used += (size_t)snprintf(text + used, size - used,
							 "%sGPU %u: %s", used ? ", " : "", gpu,
							 gpu_error(inst->cuda, failed, error));
		}
	}
}

static const struct device_ops nvlink_device = {
	.region_open = nvlink_region_open,
	.region_close = nvlink_region_close,
	.host_open = nvlink_host_open,
	.host_close = nvlink_host_close,
};

const struct backend nvlink_backend = {
	.name = "nvlink",
	.transport = TENT_TRANSPORT_NVLINK,
	.open = nvlink_open,
	.close = nvlink_close,
	.queue_open = nvlink_queue_open,
	.queue_close = nvlink_queue_close,
	.reaches = nvlink_reaches,
	.device = &nvlink_device,
	.is_absent = nvlink_is_absent,
	.facts = nvlink_facts,
	.post = nvlink_post,
	.poll = nvlink_poll,
	.cancel = nvlink_cancel,
};
