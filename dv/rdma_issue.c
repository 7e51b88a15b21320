/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_issue.c - jobs become WQEs. The lane that has the fewest bytes out gets the next
 * piece, so a rail that is slow, here or anywhere on its way, gets fewer. Of what is cut in
 * pieces no lane gets more than a few at once, or all would be given away before it shows
 * which rail is slow.
 */
#include "dv/rdma_poller.h"

/* From offset on, for this connection, as far as one key reaches at either end. */
static inline struct dv_piece next_piece(const struct rdma_conn *c, const struct transfer *t,
					 uint64_t offset, uint64_t length)
{
	const struct rdma_near *near = t->local->wired;
	const struct rdma_far *far = t->remote->wired;
	uint64_t n = length < c->chunk_bytes ? length : c->chunk_bytes;
	struct dv_piece d = { .local = t->local_addr + offset,
			      .remote = t->remote_addr + offset };

	d.lkey = dv_keys_find(&near->mrs[c->rail]->local, d.local, n, &n);
	d.rkey = dv_keys_find(&far->keys[c->rail], d.remote, n, &n);
	d.length = (uint32_t)n;
	return d;
}

/* Memory of a GPU is for the card alone to read. */
static inline bool goes_inline(const struct rdma_job *job, const struct dv_piece *d)
{
	return d->length <= DV_INLINE_MAX && job->transfer->local->addr;
}

static inline bool put(struct rdma_conn *c, struct rdma_job *job, const struct dv_piece *d,
		       uint64_t offset)
{
	if (rdma_job_is_read(job))
		return dv_sq_read(&c->sq, d, job);
	if (goes_inline(job, d))
		return dv_sq_write_inline(&c->sq, d, transfer_local(job->transfer) + offset, job);
	return dv_sq_write(&c->sq, d, job);
}

/* How many bytes, of length at most; 0: no room. */
static uint32_t build(struct rdma_conn *c, struct rdma_job *job, uint64_t offset,
		      uint64_t length)
{
	const struct dv_piece d = next_piece(c, job->transfer, offset, length);

	if (!put(c, job, &d, offset))
		return 0;
	stat_add(rdma_job_is_read(job) ? &c->counts->reads : &c->counts->writes, 1);
	stat_add(&c->counts->bytes, d.length);
	c->out_bytes += d.length;
	job->transfer->rail = c->rail;
	job->nr_out++;
	return d.length;
}

/* ---- which lane -------------------------------------------------------- */

/* What a lane may have out before it gets a piece of this. */
static uint64_t window_for(const struct rdma_line *l, const struct rdma_job *job)
{
	return job->transfer->length > l->chunk_bytes ? RDMA_WINDOW * l->chunk_bytes : UINT64_MAX;
}

/* Among these rails, which are up; NULL: none of them has room. */
static struct rdma_conn *least_loaded(const struct rdma_line *l, const struct rdma_job *job,
				      uint32_t rails)
{
	uint64_t window = window_for(l, job);
	struct rdma_conn *best = NULL;

	for (uint32_t i = 0; i < l->nr_lanes; i++) {
		uint32_t rail = (l->turn + i) % l->nr_lanes;
		struct rdma_conn *c = l->lanes[rail].conn;

		if (!(rails & 1u << rail) || c->out_bytes >= window)
			continue;
		if (!best || c->out_bytes < best->out_bytes)
			best = c;
	}
	return best;
}

static uint32_t issue_by_any(struct rdma_line *l, struct rdma_job *job, uint32_t rails,
			     uint64_t offset, uint64_t length)
{
	struct rdma_conn *c;

	while ((c = least_loaded(l, job, rails))) {
		uint32_t built = build(c, job, offset, length);

		if (built) {
			l->turn = c->rail + 1u;
			return built;
		}
		rails &= ~(1u << c->rail);
	}
	return 0;
}

/* How many bytes of it went out; 0: there is no room now. */
static uint32_t issue(struct rdma_line *l, struct rdma_job *job, uint64_t offset, uint64_t length)
{
	const struct rdma_near *near = job->transfer->local->wired;
	uint32_t nearest = l->up & job->rails & near->nearest;
	uint32_t rails = nearest ? nearest : l->up & job->rails;

	if (l->up & (l->up - 1))
		return issue_by_any(l, job, rails, offset, length);
	return rails ? build(l->lanes[__builtin_ctz(rails)].conn, job, offset, length) : 0;
}

static uint32_t issue_next(struct rdma_job *job)
{
	uint32_t n = issue(job->line, job, job->issued, job->transfer->length - job->issued);

	job->issued += n;
	return n;
}

/* ---- what waits -------------------------------------------------------- */

/* True: all of it is out, or nobody wants it any more. */
static bool issue_again(struct rdma_line *l, struct rdma_again *a)
{
	struct rdma_job *job = a->job;
	uint32_t n;

	while (job->serial == a->serial && !job->rule && a->length) {
		n = issue(l, job, a->offset, a->length);
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

/* A piece of the first that has room; it goes to the end then. False: none has. */
static bool issue_one(struct rdma_jobs *waiting)
{
	struct rdma_job *job = TAILQ_FIRST(waiting);

	for (uint32_t i = 0; job && i < BLOCKED_MAX; i++, job = TAILQ_NEXT(job, link))
		if (issue_next(job)) {
			rdma_job_stop_waiting(job);
			rdma_job_wait(job);
			return true;
		}
	return false;
}

/* Jobs take turns, a piece each, and so do WRITEs and READs: of these a card takes a few,
 * and those that wait for that do not hold up WRITEs. */
static void issue_waiting(struct rdma_line *l)
{
	bool writes = true, reads = true;

	while (writes || reads) {
		writes = writes && issue_one(&l->waiting[0]);
		reads = reads && issue_one(&l->waiting[1]);
	}
}

void rdma_job_issue(struct rdma_job *job)
{
	struct rdma_line *l = job->line;

	if (TAILQ_EMPTY(rdma_job_waiting(job)) && TAILQ_EMPTY(&l->broken))
		issue_next(job);
	if (!l->busy)
		rdma_line_busy(l);	/* it rings */
	rdma_job_wait(job);
}

void rdma_line_issue(struct rdma_line *l)
{
	if (!l->up && TAILQ_EMPTY(&l->broken))
		return;
	if (issue_broken(l) && rdma_line_waits(l))
		issue_waiting(l);
	for (uint32_t i = 0; i < l->nr_lanes; i++)
		if (l->lanes[i].conn)
			dv_sq_ring(&l->lanes[i].conn->sq);
	if (rdma_line_waits(l) || !TAILQ_EMPTY(&l->broken))
		return;
	rdma_line_idle(l);
	rdma_line_settle(l);
}
