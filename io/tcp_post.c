/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_post.c - transfers to memory of other engines. post() takes one as a job of its
 * line, a turn makes frames of waiting jobs, answers end them.
 *
 * Called back, a READ ends as soon as no receive writes to its memory; what still comes
 * for it goes nowhere. A WRITE ends when what was sent of it is answered, for only then
 * is it known that the owner applies no more of it; where answers do not come in time,
 * the connection is cut and its end decides, see tcp_line_lost().
 */
#include <stdlib.h>
#include <tent/tentring.h>

#include "io/tcp.h"
#include "ring/clock.h"

/* ---- jobs -------------------------------------------------------------- */

static bool is_read(const struct tcp_job *job)
{
	return job->transfer->opcode == TENT_OPCODE_READ;
}

static uint32_t window(const struct tcp_line *l)
{
	return l->queue->o.depth < 4 ? 1 : l->queue->o.depth / 4;
}

static void stop_waiting(struct tcp_job *job)
{
	if (job->waits)
		TAILQ_REMOVE(&job->line->waiting, job, link);
	job->waits = false;
}

static void start_waiting(struct tcp_job *job)
{
	if (job->waits || job->rule || job->issued == job->transfer->length ||
	    job->nr_out >= window(job->line))
		return;
	TAILQ_INSERT_TAIL(&job->line->waiting, job, link);
	job->waits = true;
}

/* None of its frames is out. All bytes moved is a success, whoever asked it back
 * meanwhile. */
static struct transfer *job_end(struct tcp_job *job)
{
	struct transfer *t = job->transfer;
	struct tcp_queue *q = job->line->queue;

	stop_waiting(job);
	if (job->fence_ns)
		TAILQ_REMOVE(&q->called_back, job, back);
	if (job->unfenced) {
		t->flags |= TENT_CQE_F_TARGET_UNFENCED;
		tcp_count(&q->counts.unfenced, 1);
	}
	if (t->done == t->length)
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	else
		transfer_end_by(t, job->rule);
	job->transfer = NULL;
	TAILQ_INSERT_HEAD(&job->line->free, job, link);
	job->line->tenant->nr_jobs--;
	q->nr_jobs--;
	return t;
}

static bool is_over(const struct tcp_job *job)
{
	return !job->nr_out && (job->rule || job->transfer->done == job->transfer->length);
}

void tcp_job_frame_over(struct tcp_job *job)
{
	job->nr_out--;
	if (is_over(job))
		transfer_list_push(&job->line->queue->ended, job_end(job));
	else
		start_waiting(job);
}

static void job_fail(struct tcp_job *job, uint16_t rule)
{
	if (!job->rule)
		job->rule = rule;
	stop_waiting(job);
}

/* ---- frames ------------------------------------------------------------ */

/* The job's next bytes. */
static void issue(struct tcp_conn *c, struct tcp_job *job)
{
	struct transfer *t = job->transfer;
	const struct tcp_settings *o = &c->queue->o;
	uint64_t left = t->length - job->issued;
	struct tcp_frame *f = tcp_frame_take(c);

	f->job = job;
	f->at = job->issued;
	f->head.id = (uint64_t)f->generation << 32 | (uint64_t)(f - c->frames);
	f->head.type = is_read(job) ? TCP_READ : TCP_WRITE;
	f->head.handle = t->remote->far_handle;
	f->head.address = t->remote_addr + f->at;
	f->head.length = left < o->chunk_bytes ? (uint32_t)left : o->chunk_bytes;
	f->head.flags = o->crc32c ? TCP_F_CRC : 0;
	if (!is_read(job)) {
		f->payload = transfer_local(t) + f->at;
		f->payload_length = f->head.length;
	}
	job->issued += f->head.length;
	job->nr_out++;
	tcp_frame_send(f);
}

/* As many as there are frames for, jobs taking turns. */
void tcp_line_issue(struct tcp_line *l)
{
	struct tcp_job *job;

	while (l->conn && !TAILQ_EMPTY(&l->conn->free) && (job = TAILQ_FIRST(&l->waiting))) {
		stop_waiting(job);
		issue(l->conn, job);
		start_waiting(job);
	}
}

/* Nobody waits for its answer any more. */
static void detach(struct tcp_frame *f)
{
	struct tcp_conn *c = f->conn;
	struct tcp_job *job = f->job;

	f->job = NULL;
	if (c->frame == f)
		c->payload = NULL;
	f->silent_ns = clock_monotonic_ns() + c->queue->o.fence_ns;
	TAILQ_INSERT_TAIL(&c->queue->detached, f, silent);
	tcp_job_frame_over(job);
}

void tcp_frame_heard(struct tcp_frame *f)
{
	TAILQ_REMOVE(&f->conn->queue->detached, f, silent);
	f->silent_ns = 0;
}

void tcp_silence_check(struct tcp_queue *q)
{
	uint64_t now = clock_monotonic_ns();
	struct tcp_frame *f;

	while ((f = TAILQ_FIRST(&q->detached)) && now >= f->silent_ns) {
		tcp_frame_heard(f);
		tcp_conn_cut(f->conn);
	}
}

/* ---- answers ----------------------------------------------------------- */

/* What a peer may say of a request; anything else of it is nonsense. */
static uint16_t rule_of(uint16_t status)
{
	switch (status) {
	case TENT_RULE_TARGET_UNREGISTERED:
	case TENT_RULE_TARGET_PERMISSION:
	case TENT_RULE_TARGET_GONE:
	case TENT_RULE_TRANSPORT_REACH:
	case TENT_RULE_COPY_FAULT:
	case TENT_RULE_INTEGRITY:
	case TENT_RULE_GPU:
		return status;
	default:
		return TENT_RULE_SYSTEM;
	}
}

static struct tcp_frame *frame_of(const struct tcp_conn *c, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct tcp_frame *f = i < c->depth ? &c->frames[i] : NULL;

	return f && f->in_use && !f->queued && !f->answered && f->head.id == id ? f : NULL;
}

static void answered(struct tcp_frame *f, uint16_t status)
{
	struct tcp_job *job = f->job;

	tcp_count(&f->conn->queue->counts.answers, 1);
	f->answered = true;
	if (job && status)
		job_fail(job, rule_of(status));
	else if (job)
		job->transfer->done += f->head.length;
	tcp_frame_put(f);
}

int tcp_answer_head(struct tcp_conn *c)
{
	const struct tcp_head *h = &c->head;
	struct tcp_frame *f = frame_of(c, h->id);
	bool read = f && f->head.type == TCP_READ;

	if (!f || h->type != (read ? TCP_DATA : TCP_DONE) || h->address || h->handle ||
	    h->flags != (read && !h->status ? f->head.flags : 0) ||
	    h->length != (read && !h->status ? f->head.length : 0))
		return -1;
	if (!h->length) {
		answered(f, h->status);
		return 1;
	}
	c->frame = f;
	c->left = h->length;
	c->payload = f->job ? transfer_local(f->job->transfer) + f->at : NULL;
	return 1;
}

void tcp_answer_end(struct tcp_conn *c, uint16_t status)
{
	struct tcp_frame *f = c->frame;

	c->frame = NULL;
	answered(f, c->status ? c->status : status);
}

void tcp_answer_check(struct tcp_conn *c)
{
	struct tcp_frame *f = c->frame;

	if (f && f->job && f->job->called)
		detach(f);
}

/* ---- called back ------------------------------------------------------- */

static void call_frame(struct tcp_frame *f)
{
	struct tcp_conn *c = f->conn;

	if (f->queued && !f->sent && !f->in_send) {
		tcp_frame_unsend(f);
		f->answered = true;
		tcp_frame_put(f);
	} else if (is_read(f->job)) {
		if (c->frame == f && tcp_conn_fills(c))
			tcp_conn_call(c, &c->in);
		else
			detach(f);
	}
}

static void call_frames(struct tcp_conn *c, struct tcp_job *job)
{
	for (uint32_t i = 0; c && i < c->depth; i++)
		if (c->frames[i].in_use && c->frames[i].job == job)
			call_frame(&c->frames[i]);
}

bool tcp_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct tcp_queue *q = (struct tcp_queue *)queue;
	struct tcp_job *job = t->backend_data;

	job_fail(job, rule);
	job->called = is_read(job);
	job->nr_out++;		/* it ends here, not under our hands */
	call_frames(job->line->conn, job);
	if (--job->nr_out == 0) {
		job_end(job);
		return true;
	}
	job->fence_ns = clock_monotonic_ns() + q->o.fence_ns / 2;
	TAILQ_INSERT_TAIL(&q->called_back, job, back);
	return false;
}

static bool has_frames(const struct tcp_conn *c, const struct tcp_job *job)
{
	for (uint32_t i = 0; c && i < c->depth; i++)
		if (c->frames[i].in_use && c->frames[i].job == job)
			return true;
	return false;
}

void tcp_back_check(struct tcp_queue *q)
{
	uint64_t now = clock_monotonic_ns();
	struct tcp_job *job = TAILQ_FIRST(&q->called_back), *next;

	for (; job && now >= job->fence_ns; job = next) {
		next = TAILQ_NEXT(job, back);
		if (has_frames(job->line->conn, job))
			tcp_conn_cut(job->line->conn);
		TAILQ_REMOVE(&q->called_back, job, back);
		job->fence_ns = 0;
	}
}

/* ---- lines ------------------------------------------------------------- */

static void call(struct tcp_line *l)
{
	if (l->state != LINE_DOWN)
		return;
	l->state = LINE_CALLING;
	l->call = (struct tcp_note){ .kind = NOTE_CALL, .about = l };
	tcp_door_send(l->queue->inst, &l->call);
}

/* It is left once no connection is on its way to it. */
static void leave_if_done(struct tcp_queue *q, struct tcp_peer *p)
{
	struct tcp_tenant *t = tcp_tenants(p, q);

	for (uint32_t i = 0; i < p->nr_tenants * LEVELS; i++)
		if (t[i / LEVELS].lines[i % LEVELS].state != LINE_DOWN)
			return;
	tcp_door_send(q->inst, &p->leave[q->index]);
}

static void line_down(struct tcp_line *l)
{
	struct tcp_peer *p = l->peer;

	l->state = LINE_DOWN;
	if (p->leaves[l->queue->index])
		leave_if_done(l->queue, p);
}

void tcp_line_up(struct tcp_conn *c)
{
	struct tcp_line *l = c->line;

	if (l->peer->leaves[l->queue->index]) {
		tcp_conn_cut(c);
		line_down(l);
		return;
	}
	l->state = LINE_UP;
	l->conn = c;
	l->failed_ns = 0;
}

void tcp_line_failed(struct tcp_line *l)
{
	struct tcp_job *job;

	l->failed_ns = clock_monotonic_ns();
	while ((job = TAILQ_FIRST(&l->waiting))) {
		job_fail(job, TENT_RULE_PEER_LOST);
		if (is_over(job))
			transfer_list_push(&l->queue->ended, job_end(job));
	}
	line_down(l);
}

void tcp_peer_leave(struct tcp_queue *q, struct tcp_peer *p)
{
	struct tcp_tenant *t = tcp_tenants(p, q);

	p->leaves[q->index] = true;
	for (uint32_t i = 0; i < p->nr_tenants * LEVELS; i++)
		if (t[i / LEVELS].lines[i % LEVELS].conn)
			tcp_conn_cut(t[i / LEVELS].lines[i % LEVELS].conn);
	leave_if_done(q, p);
}

/* ---- a connection that broke ------------------------------------------- */

/* True: the other side may still apply it. */
static bool lost(struct tcp_conn *c, struct tcp_frame *f)
{
	bool begun = f->sent;

	f->queued = false;
	f->in_send = false;
	if (f->job)
		job_fail(f->job, TENT_RULE_PEER_LOST);
	if (f->job && !is_read(f->job) && begun && !f->answered && !c->orderly)
		return true;
	f->answered = true;
	tcp_frame_put(f);
	return false;
}

bool tcp_line_lost(struct tcp_conn *c)
{
	bool any = false;

	if (!TAILQ_EMPTY(&c->line->waiting))
		call(c->line);	/* those that had nothing in it go on */
	TAILQ_INIT(&c->to_send);
	for (uint32_t i = 0; i < c->depth; i++)
		if (c->frames[i].in_use)
			any |= lost(c, &c->frames[i]);
	return any;
}

void tcp_line_fenced(struct tcp_conn *c)
{
	for (uint32_t i = 0; i < c->depth; i++) {
		struct tcp_frame *f = &c->frames[i];

		if (!f->in_use)
			continue;
		if (f->job)
			f->job->unfenced |= !c->fenced;
		f->answered = true;
		tcp_frame_put(f);
	}
}

/* ---- posting ----------------------------------------------------------- */

static bool is_within(const struct region *r, uint64_t address, uint64_t length)
{
	return address >= r->base && address <= r->end && length <= r->end - address;
}

/* The judge has checked the ranges; see is_sound() in shm.c. */
static uint16_t fault_of(const struct transfer *t)
{
	if (!is_within(t->local, t->local_addr, t->length) || !t->local->addr)
		return TENT_RULE_SOURCE_UNREGISTERED;
	if (!is_within(t->remote, t->remote_addr, t->length) || !t->remote->far)
		return TENT_RULE_TARGET_UNREGISTERED;
	return t->remote->far->peer ? 0 : TENT_RULE_PEER_LOST;
}

/* One that does not answer is called again a little later. */
static bool is_held_off(const struct tcp_line *l)
{
	return l->state == LINE_DOWN && l->failed_ns &&
	       clock_monotonic_ns() - l->failed_ns < TCP_HOLDOFF_NS;
}

/* Nobody's, else those of one without jobs, with the connections that there are. All have
 * some: they take turns in having no more until theirs are done, and a little longer. */
static struct tcp_tenant *tenant_take(const struct tcp_queue *q, struct tcp_peer *p)
{
	struct tcp_tenant *first = tcp_tenants(p, q), *end = first + p->nr_tenants, *t;

	for (t = first; t < end; t++)
		if (!t->used)
			return t;
	for (t = first; t < end; t++)
		if (!t->nr_jobs)
			return t;
	for (t = first; t < end && !t->yields; t++)
		;
	if (t == end)
		first[p->next_yield[q->index]++ % p->nr_tenants].yields = TCP_YIELDS;
	return NULL;
}

/* NULL: none for now. */
static struct tcp_tenant *tenant_of(const struct tcp_queue *q, struct tcp_peer *p, uint32_t uid)
{
	struct tcp_tenant *first = tcp_tenants(p, q), *end = first + p->nr_tenants, *t;

	for (t = first; t < end; t++)
		if (t->used && t->uid == uid)
			break;
	if (t < end && t->yields && (t->nr_jobs || --t->yields))
		return NULL;
	if (t == end)
		t = tenant_take(q, p);
	if (!t)
		return NULL;
	t->used = true;
	t->uid = uid;
	t->yields = 0;
	return t;
}

static struct tcp_job *job_take(struct tcp_line *l)
{
	struct tcp_job *job = TAILQ_FIRST(&l->free);

	if (job)
		TAILQ_REMOVE(&l->free, job, link);
	else if (l->nr_made < TCP_JOBS)
		job = &l->jobs[l->nr_made++];
	return job;
}

static enum post_result post_to(struct tcp_tenant *tenant, struct tcp_queue *q,
				struct transfer *t)
{
	struct tcp_line *l = &tenant->lines[t->level];
	struct tcp_job *job;

	if (is_held_off(l))
		return post_fail(t, TENT_RULE_PEER_LOST);
	job = job_take(l);
	if (!job)
		return POST_BUSY;
	*job = (struct tcp_job){ .transfer = t, .line = l };
	t->backend_data = job;
	tenant->nr_jobs++;
	q->nr_jobs++;
	start_waiting(job);
	call(l);
	if (l->conn)
		tcp_conn_wake(l->conn);
	return POST_PENDING;
}

enum post_result tcp_post(struct backend_queue *queue, struct transfer *t, uint64_t budget)
{
	struct tcp_queue *q = (struct tcp_queue *)queue;
	uint16_t fault = fault_of(t);
	struct tcp_tenant *tenant;

	(void)budget;	/* the kernel moves the bytes */
	if (fault)
		return post_fail(t, fault);
	if (!t->length) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	tenant = tenant_of(q, t->remote->far->peer, t->local->segment->tenant_uid);
	return tenant ? post_to(tenant, q, t) : POST_BUSY;
}
