/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_poller.h - the poller's part of the rdma backend: jobs, what they are issued by, and
 * what comes back. */
#ifndef TENT_DV_RDMA_POLLER_H
#define TENT_DV_RDMA_POLLER_H

#include "dv/rdma.h"

/* rdma_queue.c. */
struct transfer *rdma_poll(struct backend_queue *queue);

/* rdma_post.c. */
enum post_result rdma_post(struct backend_queue *queue, struct transfer *t, uint64_t budget);
bool rdma_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);
/* Who was called back and has waited long enough. */
void rdma_back_check(struct rdma_queue *q);
void rdma_job_fail(struct rdma_job *job, uint16_t rule);
void rdma_job_end(struct rdma_job *job);
void rdma_job_wait(struct rdma_job *job);

static inline bool rdma_job_is_read(const struct rdma_job *job)
{
	return job->transfer->opcode == TENT_OPCODE_READ;
}

/* Those that wait for what it would wait for. */
static inline struct rdma_jobs *rdma_job_waiting(const struct rdma_job *job)
{
	return &job->line->waiting[rdma_job_is_read(job)];
}

static inline void rdma_job_stop_waiting(struct rdma_job *job)
{
	if (job->waits)
		TAILQ_REMOVE(rdma_job_waiting(job), job, link);
	job->waits = false;
}

static inline bool rdma_line_waits(const struct rdma_line *l)
{
	return !TAILQ_EMPTY(&l->waiting[0]) || !TAILQ_EMPTY(&l->waiting[1]);
}

/* It has all that it will; no piece is out or struck. */
static inline bool rdma_job_is_over(const struct rdma_job *job)
{
	return !(job->nr_out | job->nr_struck) &&
	       (job->transfer->done == job->transfer->length || job->rule);
}

static inline void rdma_job_end_if_over(struct rdma_job *job)
{
	if (rdma_job_is_over(job))
		rdma_job_end(job);
}

/* The same, and all went well. */
static inline bool rdma_job_is_whole(const struct rdma_job *job)
{
	return !(job->nr_out | job->odd) && job->transfer->done == job->transfer->length;
}

/* Its place is free; the transfer is the caller's again. */
static inline void rdma_job_free(struct rdma_queue *q, struct rdma_job *job)
{
	job->transfer = NULL;
	job->serial++;
	SLIST_INSERT_HEAD(&job->line->spares, job, spare);
	q->nr_jobs--;
}

/* Of one that is whole. */
static inline void rdma_job_complete(struct rdma_queue *q, struct rdma_job *job)
{
	struct transfer *t = job->transfer;

	transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	transfer_list_push(&q->ended, t);
	rdma_job_free(q, job);
}

/* rdma_issue.c. Pieces of what waits, as far as there is room. */
void rdma_line_issue(struct rdma_line *l);
/* The first piece of one that just came, unless others wait. */
void rdma_job_issue(struct rdma_job *job);

/* rdma_line.c. What was completed. True: something. */
bool rdma_conn_reap(struct rdma_conn *c);
/* Nothing is built or read any more; to control. why: what is known beside CQEs; or "". */
void rdma_conn_break(struct rdma_conn *c, const char *why);
/* What it completed counts; then it breaks, if it has not yet. */
void rdma_conn_doubt(struct rdma_conn *c);
void rdma_lane_up(struct rdma_conn *c);
void rdma_lane_failed(struct rdma_lane *lane);
/* It is destroyed: its pieces go out again, or their jobs end. */
void rdma_lane_fenced(struct rdma_conn *c);
/* Calls the lanes among these that are down; those that are paused if all are. False: none
 * of them is up or may be soon. */
bool rdma_line_call(struct rdma_line *l, uint32_t rails);
/* It has something to issue; it has not. */
void rdma_line_busy(struct rdma_line *l);
void rdma_line_idle(struct rdma_line *l);
/* What comes next may go straight: asked when the last that waited is gone, and when a lane
 * comes up. Whoever makes something wait, or loses a lane, takes l->only away. */
void rdma_line_settle(struct rdma_line *l);
void rdma_peer_leave(struct rdma_queue *q, struct rdma_peer *p);

#endif /* TENT_DV_RDMA_POLLER_H */
