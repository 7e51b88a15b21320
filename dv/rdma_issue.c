/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_issue.c - jobs become WQEs. The lane that has the fewest bytes out gets the next
 * piece, so a rail that is slow, here or anywhere on its way, gets fewer. Of what is cut in
 * pieces no lane gets more than a few at once, or all would be given away before it shows
 * which rail is slow.
 */
#include "dv/rdma.h"

/* The part of a job that goes out next. */
struct part {
	struct rdma_job *job;
	uint64_t offset, length;
	uint32_t full;		/* rails that have no room for it */
};

/* A piece for this connection, as far as one key reaches at either end. */
static struct dv_piece next_piece(const struct rdma_conn *c, const struct part *p)
{
	const struct transfer *t = p->job->transfer;
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	uint64_t chunk = c->lane->line->queue->inst->o.chunk_bytes;
	uint64_t n = p->length < chunk ? p->length : chunk;
	struct dv_piece d = { .local = t->local_addr + p->offset,
			      .remote = t->remote_addr + p->offset };

	d.lkey = dv_keys_find(&near->mrs[c->lane->rail]->local, d.local, n, &n);
	d.rkey = dv_keys_find(&far->keys[c->lane->rail], d.remote, n, &n);
	d.length = (uint32_t)n;
	return d;
}

/* How many bytes; 0: no room. */
static uint32_t build(struct rdma_conn *c, const struct part *p)
{
	struct rdma_job *job = p->job;
	struct rdma_counts *counts = &c->lane->line->queue->tracks[c->lane->rail].counts;
	const struct dv_piece d = next_piece(c, p);
	bool built;

	if (rdma_job_is_read(job))
		built = dv_sq_read(&c->sq, &d, job);
	else if (d.length <= DV_INLINE_MAX)
		built = dv_sq_write_inline(&c->sq, &d, transfer_local(job->transfer) + p->offset,
					   job);
	else
		built = dv_sq_write(&c->sq, &d, job);
	if (!built)
		return 0;
	rdma_count(rdma_job_is_read(job) ? &counts->reads : &counts->writes, 1);
	rdma_count(&counts->bytes, d.length);
	c->out_bytes += d.length;
	job->transfer->rail = c->lane->rail;
	job->nr_out++;
	return d.length;
}

/* ---- which lane -------------------------------------------------------- */

static bool is_sliced(const struct rdma_line *l, const struct part *p)
{
	return l->nr_up > 1 && p->job->transfer->length > l->queue->inst->o.chunk_bytes;
}

/* Among these rails; NULL: none of them has room. */
static struct rdma_conn *least_loaded(struct rdma_line *l, const struct part *p, uint32_t rails)
{
	uint64_t window = is_sliced(l, p) ? (uint64_t)RDMA_WINDOW * l->queue->inst->o.chunk_bytes :
					    UINT64_MAX;
	struct rdma_conn *best = NULL;

	for (uint32_t i = 0; i < l->nr_lanes; i++) {
		uint32_t rail = (l->turn + i) % l->nr_lanes;
		struct rdma_conn *c = l->lanes[rail].conn;

		if (!c || !(rails & 1u << rail) || c->out_bytes >= window)
			continue;
		if (!best || c->out_bytes < best->out_bytes)
			best = c;
	}
	return best;
}

static bool has_lane(const struct rdma_line *l, uint32_t rails)
{
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (rails & 1u << i && l->lanes[i].conn)
			return true;
	return false;
}

/* How many bytes of it went out; 0: there is no room now. */
static uint32_t issue(struct rdma_line *l, struct part *p)
{
	uint32_t rails = has_lane(l, p->job->nearest) ? p->job->nearest : p->job->rails;
	struct rdma_conn *c;
	uint32_t built;

	while ((c = least_loaded(l, p, rails & ~p->full))) {
		built = build(c, p);
		if (built) {
			l->turn = c->lane->rail + 1u;
			return built;
		}
		p->full |= 1u << c->lane->rail;
	}
	return 0;
}

/* ---- what waits -------------------------------------------------------- */

/* True: all of it is out, or nobody wants it any more. */
static bool issue_again(struct rdma_line *l, struct rdma_again *a)
{
	struct rdma_job *job = a->job;
	uint32_t n;

	while (job->serial == a->serial && !job->rule && a->length) {
		struct part p = { .job = job, .offset = a->offset, .length = a->length };

		n = issue(l, &p);
		if (!n)
			return false;
		a->offset += n;
		a->length -= n;
	}
	return true;
}

/* What is lost goes before what is new: its jobs are older. False: there is no room. */
static bool issue_broken(struct rdma_line *l)
{
	struct rdma_conn *c;

	while ((c = TAILQ_FIRST(&l->broken))) {
		for (; c->at_again < c->nr_again; c->at_again++)
			if (!issue_again(l, &c->again[c->at_again]))
				return false;
		TAILQ_REMOVE(&l->broken, c, link);
		rdma_control_send(l->queue->inst, &c->note, NOTE_OVER, c);
	}
	return true;
}

#define BLOCKED_MAX 8u	/* jobs without room that are looked at before a turn ends */

/* Jobs take turns, a piece each. */
static void issue_waiting(struct rdma_line *l)
{
	struct rdma_job *job = TAILQ_FIRST(&l->waiting);
	uint32_t blocked = 0, n;

	while (job && blocked < BLOCKED_MAX) {
		struct part p = { .job = job, .offset = job->issued,
				  .length = job->transfer->length - job->issued };

		n = issue(l, &p);
		if (!n) {
			blocked++;
			job = TAILQ_NEXT(job, link);
			continue;
		}
		job->issued += n;
		rdma_job_stop_waiting(job);
		rdma_job_wait(job);
		blocked = 0;
		job = TAILQ_FIRST(&l->waiting);
	}
}

void rdma_line_issue(struct rdma_line *l)
{
	if (!l->nr_up && TAILQ_EMPTY(&l->broken))
		return;
	if (issue_broken(l))
		issue_waiting(l);
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (l->lanes[i].conn)
			dv_sq_ring(&l->lanes[i].conn->sq);
	if (TAILQ_EMPTY(&l->waiting) && TAILQ_EMPTY(&l->broken))
		rdma_line_idle(l);
}
