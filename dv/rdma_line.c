/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_line.c - the poller's side of connections: they come, complete what was asked of
 * them, and break; and what becomes of the jobs whose pieces they had.
 */
#include <stdio.h>

#include "dv/rdma_poller.h"

/* ---- lines ------------------------------------------------------------- */

void rdma_line_busy(struct rdma_line *l)
{
	if (!l->busy)
		TAILQ_INSERT_TAIL(&l->queue->lines, l, link);
	l->busy = true;
}

void rdma_line_idle(struct rdma_line *l)
{
	if (l->busy)
		TAILQ_REMOVE(&l->queue->lines, l, link);
	l->busy = false;
}

void rdma_line_settle(struct rdma_line *l)
{
	bool waits = rdma_line_waits(l) || !TAILQ_EMPTY(&l->broken);

	l->only = l->nr_lanes == 1 && !waits ? l->lanes[0].conn : NULL;
}

static void call(struct rdma_lane *lane)
{
	if (lane->state != LANE_DOWN)
		return;
	lane->state = LANE_CALLING;
	rdma_control_send(lane->line->queue->inst, &lane->call, NOTE_CALL, lane);
}

static void call_all(struct rdma_line *l, uint32_t rails)
{
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (rails & 1u << i)
			call(&l->lanes[i]);
}

static uint32_t not_down(const struct rdma_line *l)
{
	uint32_t rails = 0;

	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (l->lanes[i].state != LANE_DOWN)
			rails |= 1u << i;
	return rails;
}

bool rdma_line_call(struct rdma_line *l, uint32_t rails)
{
	uint32_t there = not_down(l) & rails;
	uint32_t down = rails & ~there & ~load_relaxed(&l->route->refused);
	uint32_t fresh = down & ~load_relaxed(&l->route->paused);

	call_all(l, fresh);
	if (there | fresh)
		return true;
	call_all(l, down);
	return down;
}

static void fail_unless_carried(struct rdma_job *job)
{
	if (job->rule || rdma_line_call(job->line, job->rails))
		return;
	rdma_job_fail(job, TENT_RULE_PEER_LOST);
	rdma_job_end_if_over(job);
}

/* A lane went down: what has no other ends. */
static void fail_stranded(struct rdma_line *l)
{
	struct rdma_job *job, *next;
	struct rdma_conn *c;

	for (int is_read = 0; is_read < 2; is_read++)
		for (job = TAILQ_FIRST(&l->waiting[is_read]); job; job = next) {
			next = TAILQ_NEXT(job, link);
			fail_unless_carried(job);
		}
	TAILQ_FOREACH(c, &l->broken, link)
		for (uint32_t i = c->at_again; i < c->nr_again; i++)
			if (c->again[i].job->serial == c->again[i].serial)
				fail_unless_carried(c->again[i].job);
}

/* ---- lanes ------------------------------------------------------------- */

/* It is left once no connection is on its way to it. */
static void leave_if_done(struct rdma_queue *q, struct rdma_peer *p)
{
	struct rdma_route *r;

	LIST_FOREACH(r, &p->routes, all)
		for (uint32_t i = q->index; i < r->nr_lines; i += q->inst->nr_queues)
			if (not_down(&r->lines[i]))
				return;
	rdma_control_send(q->inst, &p->leave[q->index], NOTE_LEAVE, p);
}

static void lane_down(struct rdma_lane *lane)
{
	struct rdma_line *l = lane->line;
	struct rdma_peer *p = l->route->peer;

	lane->state = LANE_DOWN;
	if (p->leaves[l->queue->index])
		leave_if_done(l->queue, p);
	else
		fail_stranded(l);
}

void rdma_lane_up(struct rdma_conn *c)
{
	struct rdma_lane *lane = c->lane;
	struct rdma_line *l = lane->line;

	lane->state = LANE_UP;
	lane->conn = c;
	l->up |= 1u << lane->rail;
	c->rail = lane->rail;
	c->chunk_bytes = l->chunk_bytes;
	c->queue = l->queue;
	c->counts = &l->queue->tracks[lane->rail].counts;
	rdma_line_settle(l);
	if (l->route->peer->leaves[l->queue->index])
		rdma_conn_break(c, "");
}

void rdma_lane_failed(struct rdma_lane *lane)
{
	lane_down(lane);
}

/* No region leads to it any more, so it has no jobs. */
static void line_leave(struct rdma_line *l)
{
	struct rdma_conn *c;

	while ((c = TAILQ_FIRST(&l->broken))) {
		TAILQ_REMOVE(&l->broken, c, link);
		rdma_control_send(l->queue->inst, &c->note, NOTE_OVER, c);
	}
	rdma_line_idle(l);
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (l->lanes[i].conn)
			rdma_conn_break(l->lanes[i].conn, "");
}

void rdma_peer_leave(struct rdma_queue *q, struct rdma_peer *p)
{
	struct rdma_route *r;

	p->leaves[q->index] = true;
	LIST_FOREACH(r, &p->routes, all)
		for (uint32_t i = q->index; i < r->nr_lines; i += q->inst->nr_queues)
			line_leave(&r->lines[i]);
	leave_if_done(q, p);
}

/* ---- completions ------------------------------------------------------- */

/* Its connection breaks with this piece of it: it waits for the end of that. */
static void strike(struct rdma_conn *c, const struct dv_op *op)
{
	struct rdma_job *job = op->cookie;

	job->nr_struck++;
	c->again[c->nr_again++] = (struct rdma_again){
		.job = job, .serial = job->serial, .length = op->length,
		.offset = op->remote - job->transfer->remote_addr,
	};
}

static void completed(struct rdma_conn *c, const struct dv_op *op)
{
	const struct dv_fault *fault = op->fault;
	struct rdma_job *job = op->cookie;

	job->nr_out--;
	c->out_bytes -= op->length;
	if (likely(!fault)) {
		job->transfer->done += op->length;
		if (likely(rdma_job_is_whole(job)))
			rdma_job_complete(c->queue, job);
		else
			rdma_job_end_if_over(job);
		return;
	}
	if (fault->scope == DV_SCOPE_REQUEST && fault->rule && !c->nr_again) {
		c->of_request = true;	/* the others were flushed */
		rdma_job_fail(job, fault->rule);
	}
	strike(c, op);
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

/* ---- a connection that broke ------------------------------------------- */

/* What is out, too, while the queue is there. */
static void strike_all(struct rdma_conn *c)
{
	struct dv_op op;

	while (dv_sq_retire(&c->sq, c->sq.pi - 1, &op)) {
		((struct rdma_job *)op.cookie)->nr_out--;
		strike(c, &op);
	}
}

void rdma_conn_break(struct rdma_conn *c, const char *why)
{
	struct rdma_lane *lane = c->lane;
	struct rdma_line *l = lane->line;

	strike_all(c);
	if (!*c->fault)
		snprintf(c->fault, sizeof(c->fault), "%s", why);
	lane->state = LANE_FENCING;
	lane->conn = NULL;
	l->only = NULL;
	l->up &= ~(1u << lane->rail);
	TAILQ_REMOVE(&l->queue->conns, c, link);
	stat_add(&c->counts->breaks, 1);
	rdma_control_send(l->queue->inst, &c->note, NOTE_BROKEN, c);
}

void rdma_conn_doubt(struct rdma_conn *c)
{
	if (c->lane->conn == c)
		rdma_conn_reap(c);
	if (c->lane->conn == c)
		rdma_conn_break(c, "the card says that its queues broke");
}

/* A piece is tried again by somebody who may be trusted. What one request is to blame for
 * ends that one, so the others may see it as often as there are such. */
static void resolve(struct rdma_conn *c, struct rdma_job *job)
{
	job->nr_struck--;
	if (!c->fenced && !rdma_job_is_read(job)) {
		job->unfenced = true;
		rdma_job_fail(job, TENT_RULE_PEER_LOST);
	}
	if (!c->of_request && job->struck_by != c->id && ++job->tries == RDMA_TRIES)
		rdma_job_fail(job, TENT_RULE_PEER_LOST);
	job->struck_by = c->id;
	rdma_job_end_if_over(job);
}

/* Of a peer that leaves nothing goes out again, and its line may be gone once that is said. */
void rdma_lane_fenced(struct rdma_conn *c)
{
	struct rdma_line *l = c->lane->line;
	struct rdma_queue *q = l->queue;
	bool leaves = l->route->peer->leaves[q->index];

	for (uint32_t i = 0; i < c->nr_again; i++)
		resolve(c, c->again[i].job);
	if (!leaves) {
		TAILQ_INSERT_TAIL(&l->broken, c, link);
		l->only = NULL;
		rdma_line_busy(l);
	}
	lane_down(c->lane);
	if (leaves)
		rdma_control_send(q->inst, &c->note, NOTE_OVER, c);
}
