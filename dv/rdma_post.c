/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_post.c - transfers to memory of other engines. post() takes one as a job of its
 * line, a turn makes WQEs of waiting jobs, completions end them.
 *
 * Called back, a job ends when the WQEs that are out have completed, for only then is it
 * known that no byte of it moves any more; where they do not in time, its connection is
 * broken and its end decides.
 */
#include <stdio.h>
#include <string.h>
#include <tent/tentring.h>

#include "dv/rdma.h"
#include "ring/clock.h"

/* ---- jobs -------------------------------------------------------------- */

static bool is_read(const struct rdma_job *job)
{
	return job->transfer->opcode == TENT_OPCODE_READ;
}

static void stop_waiting(struct rdma_job *job)
{
	if (job->waits)
		TAILQ_REMOVE(&job->line->waiting, job, link);
	job->waits = false;
}

static void start_waiting(struct rdma_job *job)
{
	if (job->waits || job->rule || job->issued == job->transfer->length)
		return;
	TAILQ_INSERT_TAIL(&job->line->waiting, job, link);
	job->waits = true;
}

/* All bytes moved is a success, whoever asked it back meanwhile. */
static struct transfer *job_end(struct rdma_job *job)
{
	struct transfer *t = job->transfer;
	struct rdma_queue *q = job->line->queue;

	stop_waiting(job);
	if (job->fence_ns)
		TAILQ_REMOVE(&q->called_back, job, back);
	if (job->unfenced) {
		t->flags |= TENT_CQE_F_TARGET_UNFENCED;
		rdma_count(&q->counts.unfenced, 1);
	}
	if (t->done == t->length)
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	else
		transfer_end_by(t, job->rule);
	job->transfer = NULL;
	TAILQ_INSERT_HEAD(&job->line->free, job, link);
	q->nr_jobs--;
	return t;
}

static bool is_over(const struct rdma_job *job)
{
	return !job->nr_out && !job->struck &&
	       (job->rule || job->transfer->done == job->transfer->length);
}

static void end_if_over(struct rdma_job *job)
{
	if (is_over(job))
		transfer_list_push(&job->line->queue->ended, job_end(job));
}

static void job_fail(struct rdma_job *job, uint16_t rule)
{
	if (!job->rule)
		job->rule = rule;
	stop_waiting(job);
}

/* ---- WQEs -------------------------------------------------------------- */

/* The job's next bytes, as far as one key reaches at either end. */
static struct dv_piece next_piece(const struct rdma_job *job, uint64_t chunk_bytes)
{
	const struct transfer *t = job->transfer;
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	struct dv_piece p = { .local = t->local_addr + job->issued,
			      .remote = t->remote_addr + job->issued };
	uint64_t n = t->length - job->issued;

	n = n < chunk_bytes ? n : chunk_bytes;
	p.lkey = dv_keys_find(&near->mr->local, p.local, n, &n);
	p.rkey = dv_keys_find(&far->keys, p.remote, n, &n);
	p.length = (uint32_t)n;
	return p;
}

/* False: no room. */
static bool build(struct rdma_conn *c, struct rdma_job *job)
{
	struct rdma_queue *q = c->line->queue;
	const struct dv_piece p = next_piece(job, q->inst->o.chunk_bytes);
	const uint8_t *bytes = transfer_local(job->transfer) + job->issued;
	bool built;

	if (is_read(job))
		built = dv_sq_read(&c->sq, &p, job);
	else if (p.length <= DV_INLINE_MAX)
		built = dv_sq_write_inline(&c->sq, &p, bytes, job);
	else
		built = dv_sq_write(&c->sq, &p, job);
	if (!built)
		return false;
	rdma_count(is_read(job) ? &q->counts.reads : &q->counts.writes, 1);
	rdma_count(&q->counts.bytes, p.length);
	job->issued += p.length;
	job->nr_out++;
	return true;
}

/* Jobs take turns, a WQE each. */
void rdma_conn_issue(struct rdma_conn *c)
{
	struct rdma_job *job;

	while ((job = TAILQ_FIRST(&c->line->waiting)) && build(c, job)) {
		stop_waiting(job);
		start_waiting(job);
	}
	dv_sq_ring(&c->sq);
}

/* Its connection broke with something of it: it waits for the end of that. */
static void strike(struct rdma_conn *c, struct rdma_job *job)
{
	if (job->struck)
		return;
	stop_waiting(job);
	job->struck = true;
	TAILQ_INSERT_TAIL(&c->struck, job, link);
}

static void completed(struct rdma_conn *c, const struct dv_op *op)
{
	const struct dv_fault *fault = op->fault;
	struct rdma_job *job = op->cookie;

	job->nr_out--;
	if (!fault) {
		job->transfer->done += op->length;
		end_if_over(job);
		return;
	}
	if (fault->scope == DV_SCOPE_REQUEST && fault->rule && !c->had_work)
		job_fail(job, fault->rule);	/* the others were flushed */
	c->had_work = true;
	strike(c, job);
}

bool rdma_conn_reap(struct rdma_conn *c)
{
	struct dv_run run;
	struct dv_op op;
	bool any = false;

	while (dv_run_next(&c->cq, &c->sq, &run)) {
		any = true;
		while (dv_run_op(&c->sq, &run, &op))
			completed(c, &op);
		if (!run.fault)
			continue;
		dv_fault_describe(run.fault, run.cqe, c->fault, sizeof(c->fault));
		rdma_conn_break(c, "");
		return true;
	}
	if (any && !c->qp.cq_overrun_ignored && dv_cq_untold(&c->cq) >= c->cq.nr / 4)
		dv_cq_tell(&c->cq);
	return any;
}

/* ---- called back ------------------------------------------------------- */

bool rdma_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct rdma_queue *q = (struct rdma_queue *)queue;
	struct rdma_job *job = t->backend_data;

	job_fail(job, rule);
	if (is_over(job)) {
		job_end(job);
		return true;
	}
	job->fence_ns = clock_monotonic_ns() + q->inst->o.fence_ns / 2;
	TAILQ_INSERT_TAIL(&q->called_back, job, back);
	return false;
}

void rdma_back_check(struct rdma_queue *q)
{
	uint64_t now = clock_monotonic_ns();
	struct rdma_job *job = TAILQ_FIRST(&q->called_back), *next;

	for (; job && now >= job->fence_ns; job = next) {
		next = TAILQ_NEXT(job, back);
		TAILQ_REMOVE(&q->called_back, job, back);
		job->fence_ns = 0;
		if (job->nr_out && job->line->conn)
			rdma_conn_break(job->line->conn, "requests that were called back did "
					"not complete in time");
	}
}

/* ---- lines ------------------------------------------------------------- */

static void call(struct rdma_line *l)
{
	if (l->state != LINE_DOWN)
		return;
	l->state = LINE_CALLING;
	rdma_control_send(l->queue->inst, &l->call, NOTE_CALL, l);
}

/* It is left once no connection is on its way to it. */
static void leave_if_done(struct rdma_queue *q, struct rdma_peer *p)
{
	struct rdma_route *r;

	LIST_FOREACH(r, &p->routes, all)
		if (r->lines[q->index].state != LINE_DOWN)
			return;
	rdma_control_send(q->inst, &p->leave[q->index], NOTE_LEAVE, p);
}

static void line_down(struct rdma_line *l)
{
	struct rdma_peer *p = l->route->peer;

	l->state = LINE_DOWN;
	if (p->leaves[l->queue->index])
		leave_if_done(l->queue, p);
	else if (!TAILQ_EMPTY(&l->waiting))
		call(l);
}

void rdma_line_up(struct rdma_conn *c)
{
	struct rdma_line *l = c->line;

	l->state = LINE_UP;
	l->conn = c;
	if (l->route->peer->leaves[l->queue->index])
		rdma_conn_break(c, "");
}

void rdma_line_failed(struct rdma_line *l)
{
	struct rdma_job *job;

	while ((job = TAILQ_FIRST(&l->waiting))) {
		job_fail(job, TENT_RULE_PEER_LOST);
		end_if_over(job);
	}
	line_down(l);
}

void rdma_peer_leave(struct rdma_queue *q, struct rdma_peer *p)
{
	struct rdma_route *r;

	p->leaves[q->index] = true;
	LIST_FOREACH(r, &p->routes, all)
		if (r->lines[q->index].conn)
			rdma_conn_break(r->lines[q->index].conn, "");
	leave_if_done(q, p);
}

/* ---- a connection that broke ------------------------------------------- */

/* What is out, too, while the queue is there. */
static void strike_all(struct rdma_conn *c)
{
	struct dv_op op;

	while (dv_sq_retire(&c->sq, c->sq.pi - 1, &op)) {
		struct rdma_job *job = op.cookie;

		c->had_work = true;
		job->nr_out--;
		strike(c, job);
	}
}

void rdma_conn_break(struct rdma_conn *c, const char *why)
{
	struct rdma_line *l = c->line;

	strike_all(c);
	if (!*c->fault)
		snprintf(c->fault, sizeof(c->fault), "%s", why);
	l->state = LINE_FENCING;
	l->conn = NULL;
	TAILQ_REMOVE(&l->queue->conns, c, link);
	rdma_count(&l->queue->counts.breaks, 1);
	rdma_control_send(l->queue->inst, &c->note, NOTE_BROKEN, c);
}

void rdma_conn_doubt(struct rdma_conn *c)
{
	if (c->line->conn == c)
		rdma_conn_reap(c);
	if (c->line->conn == c)
		rdma_conn_break(c, "the card says that its queues broke");
}

/* What is done of it stays done; the rest is tried again, by somebody who may be trusted. */
static void resolve(struct rdma_job *job, bool fenced)
{
	job->struck = false;
	job->issued = job->transfer->done;
	if (!fenced && !is_read(job)) {
		job->unfenced = true;
		job_fail(job, TENT_RULE_PEER_LOST);
	}
	if (++job->tries == RDMA_TRIES)
		job_fail(job, TENT_RULE_PEER_LOST);
	start_waiting(job);
	end_if_over(job);
}

void rdma_line_fenced(struct rdma_conn *c)
{
	struct rdma_job *job;

	while ((job = TAILQ_FIRST(&c->struck))) {
		TAILQ_REMOVE(&c->struck, job, link);
		resolve(job, c->fenced);
	}
	line_down(c->line);
}

/* ---- posting ----------------------------------------------------------- */

static bool is_within(const struct region *r, uint64_t address, uint64_t length)
{
	return address >= r->base && address <= r->end && length <= r->end - address;
}

/* The judge has checked the ranges; see is_sound() in shm.c. */
static uint16_t fault_of(const struct transfer *t)
{
	if (!is_within(t->local, t->local_addr, t->length) || !t->local->wired)
		return TENT_RULE_SOURCE_UNREGISTERED;
	if (!is_within(t->remote, t->remote_addr, t->length) || !t->remote->wired)
		return TENT_RULE_TARGET_UNREGISTERED;
	return 0;
}

enum post_result rdma_post(struct backend_queue *queue, struct transfer *t, uint64_t budget)
{
	struct rdma_queue *q = (struct rdma_queue *)queue;
	uint16_t fault = fault_of(t);
	const struct rdma_far *far;
	struct rdma_line *l;
	struct rdma_job *job;

	(void)budget;	/* the card moves the bytes */
	if (fault || !t->length) {
		if (fault)
			transfer_end_by(t, fault);
		else
			transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	far = t->remote->wired;
	l = &far->route->lines[q->index];
	if (l->state == LINE_DOWN && load_relaxed(&far->route->is_down)) {
		transfer_end_by(t, TENT_RULE_PEER_LOST);
		return POST_DONE;	/* it is called again a little later */
	}
	job = TAILQ_FIRST(&l->free);
	if (!job)
		return POST_BUSY;
	TAILQ_REMOVE(&l->free, job, link);
	*job = (struct rdma_job){ .transfer = t, .line = l, .issued = t->done };
	t->backend_data = job;
	q->nr_jobs++;
	store_relaxed(&q->base.watched, 1u);
	start_waiting(job);
	call(l);
	return POST_PENDING;
}
