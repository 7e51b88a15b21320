/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.c - the poller's half of staging: a request between memory of a GPU and something
 * that its backend reaches from memory of the host goes in pieces, each by way of a buffer.
 *
 * Why here, above the backends' tables and below the planner: a piece is nothing but two
 * transfers, one after the other, and there is a backend for each already. The one for GPUs
 * copies between GPU and buffer; tcp, shm or file moves between buffer and the other end
 * and sees memory of the host like any other. None of them has a line for this; what they
 * guarantee of one transfer's end, each guarantees for its part of a piece. A hook in each
 * backend would have been three pipelines to keep right, and a transport of its own would
 * have needed a number, and a policy that lists it, where users mean tcp.
 *
 *   from a GPU    copy (device queue) -> buffer -> move (host's queue)
 *   to a GPU      move (host's queue) -> buffer -> copy (device queue)
 *
 * A request has up to STAGING_WINDOW pieces on their way, so while one is moved others are
 * copied. It ends when none is: called back, no piece goes on to its second way, and what
 * is with a backend is asked back there and waited for. So staging adds to the bound of its
 * two backends nothing. Requests that find no buffer wait for one, levels in their order;
 * buffers always come back, for who holds one waits for no other.
 */
#include "engine/staging_parts.h"

#define STAGING_TURN_BYTES 65536u	/* that the poller moves of a piece itself, in one turn */
#define STAGING_PICKS 8u		/* every so many, the lowest level is first */

/* ---- requests ---------------------------------------------------------- */

static void stop_waiting(struct staging_job *job)
{
	if (job->waits)
		TAILQ_REMOVE(&job->queue->staging->waiting[job->transfer->level], job, link);
	job->waits = false;
}

static void start_waiting(struct staging_job *job)
{
	if (job->waits || job->rule || job->issued == job->transfer->length ||
	    job->nr_out == STAGING_WINDOW)
		return;
	TAILQ_INSERT_TAIL(&job->queue->staging->waiting[job->transfer->level], job, link);
	job->waits = true;
}

/* None of its pieces is out. All bytes moved is a success, whoever asked it back
 * meanwhile. */
static struct transfer *job_end(struct staging_job *job)
{
	struct staging *s = job->queue->staging;
	struct transfer *t = job->transfer;

	stop_waiting(job);
	if (job->unfenced)
		t->flags |= TENT_CQE_F_TARGET_UNFENCED;
	if (t->done == t->length)
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	else
		transfer_end_by(t, job->rule);
	job->transfer = NULL;
	TAILQ_INSERT_HEAD(&s->free_jobs, job, link);
	s->nr_jobs--;
	return t;
}

static void job_fail(struct staging_job *job, uint16_t rule)
{
	stop_waiting(job);
	if (!job->rule)
		job->rule = rule;
}

static void piece_free(struct staging_piece *p)
{
	struct staging_job *job = p->job;
	struct staging *s = job->queue->staging;

	p->job = NULL;
	TAILQ_INSERT_HEAD(&s->free, p, link);
	job->nr_out--;
	if (!job->nr_out && (job->rule || job->transfer->done == job->transfer->length))
		transfer_list_push(&s->ended, job_end(job));
	else
		start_waiting(job);
}

/* ---- pieces ------------------------------------------------------------ */

static bool comes_from_device(const struct transfer *t)
{
	return (t->opcode == TENT_OPCODE_READ ? t->remote : t->local)->device;
}

/* Between buffer and GPU. */
static void aim_copy(struct staging_piece *p, const struct transfer *whole)
{
	bool is_local = whole->local->device;

	p->t.queue = p->job->queue->staging->device;
	p->t.opcode = comes_from_device(whole) ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
	p->t.local = &p->region;
	p->t.local_addr = p->region.base;
	p->t.remote = is_local ? whole->local : whole->remote;
	p->t.remote_addr = (is_local ? whole->local_addr : whole->remote_addr) + p->offset;
}

/* Between buffer and the other end: as the request goes, the buffer in the GPU's place. */
static void aim_move(struct staging_piece *p, const struct transfer *whole)
{
	bool is_local = whole->local->device;

	p->t.queue = p->job->queue->host;
	p->t.opcode = whole->opcode;
	p->t.local = is_local ? &p->region : whole->local;
	p->t.local_addr = is_local ? p->region.base : whole->local_addr + p->offset;
	p->t.remote = is_local ? whole->remote : &p->region;
	p->t.remote_addr = is_local ? whole->remote_addr + p->offset : p->region.base;
}

static void aim(struct staging_piece *p, uint64_t length)
{
	const struct transfer *whole = p->job->transfer;

	p->t = (struct transfer){
		.intent = transfer_intent(whole), .priority = whole->priority,
		.level = whole->level, .status = TENT_STATUS_WAITING, .attempts = 1,
		.length = length, .state = TRANSFER_POSTED,
	};
	if (comes_from_device(whole) != p->is_second)
		aim_copy(p, whole);
	else
		aim_move(p, whole);
	p->t.transport = p->t.queue->ops->transport;
}

static void way_over(struct staging_piece *p);

static void piece_post(struct staging_piece *p)
{
	struct staging *s = p->job->queue->staging;

	switch (p->t.queue->ops->post(p->t.queue, &p->t, STAGING_TURN_BYTES)) {
	case POST_PENDING:
		break;
	case POST_BUSY:
	case POST_MORE:
		TAILQ_INSERT_TAIL(&s->again, p, link);
		p->waits = true;
		break;
	case POST_DONE:
	case POST_FAILED:
		way_over(p);
		break;
	}
}

/* A piece is through with a way, for better or worse. */
static void way_over(struct staging_piece *p)
{
	struct staging_job *job = p->job;
	struct transfer *whole = job->transfer;

	if (p->t.queue == job->queue->host)
		whole->rail = p->t.rail;
	job->unfenced |= (p->t.flags & TENT_CQE_F_TARGET_UNFENCED) != 0;
	if (p->is_second)
		whole->done += p->t.done;
	if (p->t.status != TENT_STATUS_COMPLETED)
		job_fail(job, p->t.rule);
	if (p->is_second || job->rule) {
		piece_free(p);
		return;
	}
	p->is_second = true;
	aim(p, p->t.length);
	piece_post(p);
}

/* Whole pages, for files that are read and written directly; so many that copies and moves
 * of one request go beside each other. */
static uint64_t piece_bytes(const struct staging_job *job)
{
	uint64_t n = (job->transfer->length / STAGING_WINDOW + 4095) & ~4095ull;
	uint64_t left = job->transfer->length - job->issued;

	n = n < STAGING_PIECE_MIN ? STAGING_PIECE_MIN : n > STAGING_BYTES ? STAGING_BYTES : n;
	return n < left ? n : left;
}

static void piece_start(struct staging *s, struct staging_job *job)
{
	struct staging_piece *p = TAILQ_FIRST(&s->free);
	uint64_t n = piece_bytes(job);

	TAILQ_REMOVE(&s->free, p, link);
	p->job = job;
	p->offset = job->issued;
	p->is_second = false;
	p->region.segment = job->transfer->local->segment;
	job->issued += n;
	job->nr_out++;
	start_waiting(job);
	aim(p, n);
	piece_post(p);
}

/* ---- the turn ---------------------------------------------------------- */

static struct staging_job *pick(struct staging *s)
{
	bool lowest_first = ++s->picks % STAGING_PICKS == 0;

	for (uint32_t i = 0; i < LEVELS; i++) {
		uint32_t level = lowest_first ? LEVELS - 1 - i : i;
		struct staging_job *job = TAILQ_FIRST(&s->waiting[level]);

		if (job)
			return job;
	}
	return NULL;
}

static bool any_waits(const struct staging *s)
{
	for (uint32_t level = 0; level < LEVELS; level++)
		if (!TAILQ_EMPTY(&s->waiting[level]))
			return true;
	return false;
}

/* Nobody announces that there is room in a queue. */
static void watch(struct staging *s)
{
	bool watched = !TAILQ_EMPTY(&s->again) || !TAILQ_EMPTY(&s->lender.again) ||
		        (any_waits(s) && !TAILQ_EMPTY(&s->free));

	store_relaxed(&s->queues[0].base.watched, watched);
}

/* What found no room is asked again, once each; then free buffers are given out. */
static void turn(struct staging *s)
{
	struct staging_piece *last = TAILQ_LAST(&s->again, staging_pieces), *p = NULL;
	struct staging_job *job;

	while (p != last) {
		p = TAILQ_FIRST(&s->again);
		TAILQ_REMOVE(&s->again, p, link);
		p->waits = false;
		piece_post(p);
	}
	while (!TAILQ_EMPTY(&s->free) && (job = pick(s))) {
		stop_waiting(job);
		piece_start(s, job);
	}
	staging_loans_again(s);
	watch(s);
}

static struct staging_piece *piece_of(const struct staging *s, struct transfer *t)
{
	struct staging_piece *p = (struct staging_piece *)t;

	return p >= s->pieces && p < s->pieces + STAGING_BUFFERS ? p : NULL;
}

struct transfer *staging_tap_poll(struct backend_queue *queue)
{
	const struct staging_tap *tap = (const struct staging_tap *)queue->ops;
	struct transfer *t = tap->own->poll(queue), *next;
	struct staging *s = tap->staging;

	if (!s->nr_jobs && !s->lender.nr_copies)
		return t;
	for (; t; t = next) {
		struct staging_piece *p = piece_of(s, t);

		next = t->next;
		if (p)
			way_over(p);
		else if (!staging_loan_over(s, t))
			transfer_list_push(&s->ended, t);
		queue->moved = true;
	}
	if (queue == s->device)
		turn(s);
	return transfer_list_take(&s->ended);
}

/* ---- hooks ------------------------------------------------------------- */

static bool is_within(const struct region *r, uint64_t address, uint64_t length)
{
	return address >= r->base && address <= r->end && length <= r->end - address;
}

/* The judge has checked the ranges. A file's is its backend's to judge. */
static uint16_t fault_of(const struct transfer *t)
{
	if (!is_within(t->local, t->local_addr, t->length))
		return TENT_RULE_SOURCE_UNREGISTERED;
	if (!is_within(t->remote, t->remote_addr, t->length))
		return TENT_RULE_TARGET_UNREGISTERED;
	return 0;
}

enum post_result staging_post(struct backend_queue *queue, struct transfer *t, uint64_t budget)
{
	struct staging_queue *q = (struct staging_queue *)queue;
	struct staging *s = q->staging;
	struct staging_job *job = TAILQ_FIRST(&s->free_jobs);
	uint16_t fault = fault_of(t);

	(void)budget;	/* a turn of its own moves bytes, if anybody here does */
	if (fault)
		return post_fail(t, fault);
	if (!t->length) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	if (!job)
		return POST_BUSY;
	TAILQ_REMOVE(&s->free_jobs, job, link);
	*job = (struct staging_job){ .transfer = t, .queue = q };
	t->backend_data = job;
	s->nr_jobs++;
	start_waiting(job);
	watch(s);
	return POST_PENDING;
}

/* It goes no further. With a backend, poll() hands it back, or it comes at once. */
static void call_back(struct staging *s, struct staging_piece *p, uint16_t rule)
{
	struct backend_queue *q = p->t.queue;

	if (p->waits) {
		TAILQ_REMOVE(&s->again, p, link);
		p->waits = false;
		transfer_end_by(&p->t, rule);
		way_over(p);
	} else if (q->ops->cancel(q, &p->t, rule)) {
		way_over(p);
	}
}

bool staging_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct staging *s = ((struct staging_queue *)queue)->staging;
	struct staging_job *job = t->backend_data;

	job_fail(job, rule);
	job->nr_out++;		/* it ends here, not under our hands */
	for (uint32_t i = 0; i < STAGING_BUFFERS; i++)
		if (s->pieces[i].job == job)
			call_back(s, &s->pieces[i], rule);
	watch(s);
	if (--job->nr_out)
		return false;
	job_end(job);
	return true;
}
