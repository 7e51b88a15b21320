/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging_pool.c - the control thread's half of staging: its queues, made with the poller, and
 * its buffers, made with the first memory of a GPU. They stay until the engine ends.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/staging_parts.h"

#define POOL_BYTES ((size_t)(STAGING_BUFFERS + STAGING_LOANS) * STAGING_BYTES)

/* ---- what it reaches --------------------------------------------------- */

static const struct staging_queue *queue_of(const struct backend_instance *inst)
{
	return (const struct staging_queue *)((const char *)inst -
					    offsetof(struct staging_queue, inst));
}

/* A19, pairs with R19 in staging_fill(). */
static bool is_absent(const struct backend_instance *inst)
{
	return !load_acquire(&inst->changes);
}

/* What the backend does, with a buffer in the GPU's place. */
static bool reaches(const struct backend_instance *inst, const struct region *local,
		    const struct region *remote)
{
	const struct staging_queue *q = queue_of(inst);
	const struct region *buffer = &q->staging->pool;

	if (!local->device == !remote->device || is_absent(inst))
		return false;
	return q->host->ops->reaches(q->host->inst, local->device ? buffer : local,
				     remote->device ? buffer : remote);
}

static void describe(const struct backend_instance *inst, const struct transfer *t, json_t *plan)
{
	const struct staging_queue *q = queue_of(inst);
	const struct region *gpu = t->local->device ? t->local : t->remote;

	json_object_set_new(plan, "staged", json_sprintf(
		"%s reaches no memory of GPU %u: by %u pinned buffers of %u bytes, at most %u "
		"of them for one request", q->ops.name, gpu->device->number, STAGING_BUFFERS,
		STAGING_BYTES, STAGING_WINDOW));
	if (q->host->ops->describe)
		q->host->ops->describe(q->host->inst, t, plan);
}

/* ---- queues ------------------------------------------------------------ */

/* It is a part of its stage. */
static void queue_close(struct backend_queue *queue)
{
	(void)queue;
}

static struct backend_queue *queue_init(struct staging *s, struct backend_queue *host)
{
	struct staging_queue *q = &s->queues[s->nr_queues++];

	q->ops = (struct backend){
		.name = host->ops->name, .transport = host->ops->transport, .is_stage = true,
		.queue_close = queue_close, .reaches = reaches, .is_absent = is_absent,
		.describe = describe, .post = staging_post, .cancel = staging_cancel,
	};
	q->inst.ops = q->base.ops = &q->ops;
	q->base.inst = &q->inst;
	q->host = host;
	q->staging = s;
	return &q->base;
}

static void tap(struct staging *s, struct backend_queue *q)
{
	struct staging_tap *t = &s->taps[s->nr_taps++];

	t->own = q->ops;
	t->ops = *q->ops;
	t->ops.poll = staging_tap_poll;
	t->staging = s;
	q->ops = &t->ops;
}

static struct staging *stage_alloc(struct backend_queue *device)
{
	struct staging *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->device = device;
	s->gpus = device->inst;
	TAILQ_INIT(&s->free_jobs);
	TAILQ_INIT(&s->free);
	TAILQ_INIT(&s->again);
	TAILQ_INIT(&s->lender.again);
	for (uint32_t i = 0; i < LEVELS; i++)
		TAILQ_INIT(&s->waiting[i]);
	for (uint32_t i = 0; i < STAGING_JOBS; i++)
		TAILQ_INSERT_TAIL(&s->free_jobs, &s->jobs[i], link);
	transfer_list_init(&s->ended);
	return s;
}

int staging_open(struct staging **out, struct backend_queue **queues, uint32_t *nr, uint32_t max)
{
	const uint32_t nr_own = *nr;
	struct staging *s = NULL;

	*out = NULL;
	for (uint32_t i = 0; i < nr_own && !s; i++) {
		if (!queues[i]->ops->device)
			continue;
		s = stage_alloc(queues[i]);
		if (!s)
			return -ENOMEM;
	}
	for (uint32_t i = 0; s && i < nr_own; i++) {
		if (!queues[i]->ops->is_staged || *nr == max || s->nr_queues == STAGING_QUEUES_MAX)
			continue;
		queues[(*nr)++] = queue_init(s, queues[i]);
		tap(s, queues[i]);
	}
	for (uint32_t i = 0; s && i < nr_own; i++)
		if (queues[i]->ops->loan_copied && !s->lender.borrower)
			staging_lender_init(s, queues[i]);
	if (s)
		tap(s, s->device);
	*out = s;
	return 0;
}

/* ---- buffers ----------------------------------------------------------- */

static void pool_free(struct staging *s)
{
	if (s->pool.pinned)
		s->gpus->ops->device->host_close(s->gpus, &s->pool);
	pages_free(s->pool.addr, &s->pages);
	free(s->pieces);
	free(s->lender.loans);
	s->lender.loans = NULL;
	s->pool.addr = NULL;
	s->pieces = NULL;
}

static bool pool_make(struct staging *s)
{
	uint8_t *addr = pages_alloc(POOL_BYTES, &s->pages);
	uint64_t base = (uintptr_t)addr;

	s->pool = (struct region){
		.base = base, .end = base + POOL_BYTES, .addr = addr,
	};
	s->pieces = aligned_alloc(64, STAGING_BUFFERS * sizeof(*s->pieces));
	s->lender.loans = aligned_alloc(64, STAGING_LOANS * sizeof(*s->lender.loans));
	if (addr && s->pieces && s->lender.loans)
		s->gpus->ops->device->host_open(s->gpus, &s->pool);
	if (s->pool.pinned)
		return true;
	pool_free(s);
	return false;
}

static void piece_init(struct staging *s, uint32_t i)
{
	struct staging_piece *p = &s->pieces[i];

	*p = (struct staging_piece){ .region = s->pool };
	p->region.base += (uint64_t)i * STAGING_BYTES;
	p->region.end = p->region.base + STAGING_BYTES;
	p->region.addr += (size_t)i * STAGING_BYTES;
	TAILQ_INSERT_TAIL(&s->free, p, link);
}

void staging_fill(struct staging *s)
{
	if (!s || s->pieces || !pool_make(s))
		return;
	for (uint32_t i = 0; i < STAGING_BUFFERS; i++)
		piece_init(s, i);
	staging_lender_fill(s);
	for (uint32_t i = 0; i < s->nr_queues; i++)	/* R19, pairs with A19 in is_absent() */
		store_release(&s->queues[i].inst.changes, 1u);
}

void staging_close(struct staging *s)
{
	if (s && s->pieces)
		pool_free(s);
	free(s);
}
