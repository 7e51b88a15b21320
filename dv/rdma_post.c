/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_post.c - transfers to memory of other engines: post() takes one as a job of its
 * line, and completions end it.
 *
 * Called back, a job ends when the pieces that are out have completed, for only then is it
 * known that no byte of it moves any more; where they do not in time, the connections of its
 * line that have some out are broken and their end decides.
 */
#include <tent/tentring.h>

#include "dv/rdma_poller.h"
#include "ring/clock.h"

/* ---- jobs -------------------------------------------------------------- */

void rdma_job_wait(struct rdma_job *job)
{
	if (job->waits || job->rule || job->issued == job->transfer->length)
		return;
	TAILQ_INSERT_TAIL(rdma_job_waiting(job), job, link);
	job->waits = true;
	job->line->only = NULL;
	rdma_line_busy(job->line);
}

/* What was read into memory of a GPU may still be on its way to that. */
static bool has_arrived(const struct transfer *t)
{
	const struct device_memory *m = t->local->device;

	return !m || !m->flush || t->opcode != TENT_OPCODE_READ || m->flush(m);
}

/* All bytes moved is a success, whoever asked it back meanwhile. */
static struct transfer *let_go(struct rdma_job *job)
{
	struct transfer *t = job->transfer;
	struct rdma_queue *q = job->line->queue;

	rdma_job_stop_waiting(job);
	if (job->fence_ns)
		TAILQ_REMOVE(&q->called_back, job, back);
	job->fence_ns = 0;
	if (job->unfenced) {
		t->flags |= TENT_CQE_F_TARGET_UNFENCED;
		stat_add(&q->unfenced, 1);
	}
	if (t->done != t->length)
		transfer_end_by(t, job->rule);
	else if (has_arrived(t))
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	else
		transfer_end_by(t, TENT_RULE_GPU);
	rdma_job_free(q, job);
	return t;
}

void rdma_job_end(struct rdma_job *job)
{
	transfer_list_push(&job->line->queue->ended, let_go(job));
}

void rdma_job_fail(struct rdma_job *job, uint16_t rule)
{
	if (!job->rule)
		job->rule = rule;
	rdma_job_stop_waiting(job);
}

/* ---- called back ------------------------------------------------------- */

bool rdma_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct rdma_queue *q = (struct rdma_queue *)queue;
	struct rdma_job *job = t->backend_data;

	rdma_job_fail(job, rule);
	if (rdma_job_is_over(job)) {
		let_go(job);
		return true;
	}
	job->fence_ns = clock_monotonic_ns() + q->inst->o.fence_ns / 2;
	TAILQ_INSERT_TAIL(&q->called_back, job, back);
	return false;
}

/* Which of them have pieces of this job is not kept; all may. */
static void break_line(struct rdma_line *l)
{
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (l->lanes[i].conn && l->lanes[i].conn->out_bytes)
			rdma_conn_break(l->lanes[i].conn, "requests that were called back did "
					"not complete in time");
}

void rdma_back_check(struct rdma_queue *q)
{
	uint64_t now = clock_monotonic_ns();
	struct rdma_job *job;

	while ((job = TAILQ_FIRST(&q->called_back)) && now >= job->fence_ns) {
		TAILQ_REMOVE(&q->called_back, job, back);
		job->fence_ns = 0;
		if (job->nr_out)
			break_line(job->line);
	}
}

/* ---- posting ----------------------------------------------------------- */

/* The judge has checked the ranges, and the card checks them again by their keys. */
static uint16_t fault_of(const struct transfer *t)
{
	if (!t->local->wired)
		return TENT_RULE_SOURCE_UNREGISTERED;
	return t->remote->wired ? 0 : TENT_RULE_TARGET_UNREGISTERED;
}

/* The first of the spare ones. issued: how much of the transfer needs no piece any more. */
static inline void job_begin(struct rdma_queue *q, struct rdma_line *l, struct rdma_job *job,
			     struct transfer *t, uint64_t issued, uint32_t rails)
{
	SLIST_FIRST(&l->spares) = SLIST_NEXT(job, spare);
	job->transfer = t;
	job->issued = issued;
	job->rails = rails;
	job->odd = 0;
	t->backend_data = job;
	q->nr_jobs++;
}

/* The one of its policy's pool, if that has one. */
static inline struct rdma_line *line_of(const struct rdma_queue *q, const struct rdma_far *far,
					const struct transfer *t)
{
	uint32_t at = q->index;

	if (t->intent & TRANSFER_HAS_POOL)
		at += t->pool * q->inst->nr_queues;
	return &far->route->lines[at];
}

/* One block of a queue that has room for it. */
static inline bool put_straight(struct rdma_conn *c, uint8_t opcode, const struct dv_piece *d,
				struct rdma_job *job)
{
	struct rdma_counts *counts = c->counts;

	if (opcode == TENT_OPCODE_READ) {
		if (!dv_sq_read(&c->sq, d, job))
			return false;
		stat_add(&counts->reads, 1);
	} else {
		if (!dv_sq_write(&c->sq, d, job))
			return false;
		stat_add(&counts->writes, 1);
	}
	stat_add(&counts->bytes, d->length);
	c->out_bytes += d->length;
	return true;
}

/* By the connection of all of its line, in one WQE of one block. False: untouched; it takes
 * the way of those for which that may not do. */
static inline bool post_straight(struct rdma_queue *q, const struct rdma_near *near,
				 const struct rdma_far *far, struct transfer *t)
{
	struct rdma_line *l = line_of(q, far, t);
	struct rdma_conn *c = l->only;
	struct rdma_job *job = SLIST_FIRST(&l->spares);
	uint32_t rails = near->rails & far->rails;
	const struct dv_keys *local, *remote;

	if (!c || !job || !(rails & 1u << c->rail) || t->length > c->chunk_bytes ||
	    t->length <= DV_INLINE_MAX || near->flushes)
		return false;
	local = &near->mrs[c->rail]->local;
	remote = &far->keys[c->rail];
	if (local->nr > 1 || remote->nr > 1 ||
	    !put_straight(c, t->opcode, &(struct dv_piece){
			.local = t->local_addr, .remote = t->remote_addr,
			.lkey = local->keys[0], .rkey = remote->keys[0],
			.length = (uint32_t)t->length }, job))
		return false;
	job_begin(q, l, job, t, t->length, rails);
	job->nr_out = 1;
	t->rail = c->rail;
	if (!l->busy)
		rdma_line_busy(l);	/* it rings */
	return true;
}

static __attribute__((noinline)) enum post_result post_any(struct rdma_queue *q,
							   struct transfer *t)
{
	uint16_t fault = fault_of(t);
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	struct rdma_line *l;
	struct rdma_job *job;
	uint32_t rails;

	if (fault || !t->length) {
		if (fault)
			transfer_end_by(t, fault);
		else
			transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	l = line_of(q, far, t);
	rails = near->rails & far->rails;
	if (!rails || (l->up != l->all && !rdma_line_call(l, rails))) {
		transfer_end_by(t, TENT_RULE_PEER_LOST);
		return POST_DONE;	/* it is called again a little later */
	}
	job = SLIST_FIRST(&l->spares);
	if (!job)
		return POST_BUSY;
	job_begin(q, l, job, t, t->done, rails);
	job->flushes = near->flushes;
	rdma_job_issue(job);
	store_relaxed(&q->base.watched, 1u);
	return POST_PENDING;
}

enum post_result rdma_post(struct backend_queue *queue, struct transfer *t, uint64_t budget)
{
	struct rdma_queue *q = (struct rdma_queue *)queue;
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;

	(void)budget;	/* the card moves the bytes */
	if (!near || !far || !likely(post_straight(q, near, far, t)))
		return post_any(q, t);
	store_relaxed(&q->base.watched, 1u);
	return POST_PENDING;
}
