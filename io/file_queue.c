/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_queue.c - the poller's half of the file backend. post() takes a transfer as a
 * job, poll() makes operations of waiting jobs and ends of results.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/file.h"
#include "io/shm.h"

/* ---- ends -------------------------------------------------------------- */

uint16_t file_rule(int32_t result, bool is_read)
{
	switch (result) {
	case 0:
		return is_read ? TENT_RULE_FILE_END : TENT_RULE_FILE_IO;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return TENT_RULE_FILE_SPACE;
	case -EFAULT:
		return TENT_RULE_COPY_FAULT;
	case -EBADF:
	case -EPERM:
	case -EACCES:
	case -EROFS:
	case -ETXTBSY:
	case -ESTALE:
		return TENT_RULE_FILE_ACCESS;
	case -ENOMEM:
		return TENT_RULE_SYSTEM;
	default:
		return TENT_RULE_FILE_IO;
	}
}

static void stop_waiting(struct file_queue *q, struct file_job *job)
{
	if (!job->waits)
		return;
	TAILQ_REMOVE(&q->waiting[job->level], job, link);
	job->waits = false;
}

static void start_waiting(struct file_queue *q, struct file_job *job)
{
	if (job->waits || job->rule || job->issued == job->transfer->length ||
	    job->nr_out == q->window)
		return;
	TAILQ_INSERT_TAIL(&q->waiting[job->level], job, link);
	job->waits = true;
}

/* None of its operations is out. All bytes moved is a success, whoever asked it back
 * meanwhile. */
static struct transfer *job_end(struct file_queue *q, struct file_job *job)
{
	struct transfer *t = job->transfer;

	stop_waiting(q, job);
	if (t->done == t->length)
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	else
		transfer_end_by(t, job->rule);
	job->transfer = NULL;
	TAILQ_INSERT_HEAD(&q->free_jobs, job, link);
	q->nr_jobs--;
	return t;
}

/* ---- operations -------------------------------------------------------- */

static void op_free(struct file_queue *q, struct file_op *op)
{
	op->job = NULL;
	op->next = q->free_ops;
	q->free_ops = op;
}

static void op_start(struct file_queue *q, struct file_op *op)
{
	uint64_t unaligned = op->offset | op->length | (uintptr_t)op->memory;

	op->direct = op->job->direct && !op->direct_failed &&
		     !(unaligned & (op->file->direct_align - 1));
	op->result = 0;
	file_count(&q->counts.ops);
	if (op->direct)
		file_count(&q->counts.direct);
	q->io->start(q, op);
}

/* The job's next bytes. */
static void job_issue(struct file_queue *q, struct file_job *job)
{
	struct transfer *t = job->transfer;
	uint64_t left = t->length - job->issued;
	struct file_op *op = q->free_ops;

	q->free_ops = op->next;
	op->job = job;		/* not its state: workers look at that */
	op->file = t->remote->file;
	op->is_read = t->opcode == TENT_OPCODE_READ;
	op->memory = transfer_local(t) + job->issued;
	op->offset = t->remote_addr + job->issued;
	op->length = left < q->o.chunk_bytes ? (uint32_t)left : q->o.chunk_bytes;
	op->retries = 0;
	op->direct_failed = false;
	job->issued += op->length;
	job->nr_out++;
	op_start(q, op);
}

static struct file_job *pick(struct file_queue *q)
{
	bool lowest_first = ++q->picks % FILE_PICKS == 0;

	for (uint32_t i = 0; i < LEVELS; i++) {
		uint32_t level = lowest_first ? LEVELS - 1 - i : i;
		struct file_job *job = TAILQ_FIRST(&q->waiting[level]);

		if (job)
			return job;
	}
	return NULL;
}

/* As many operations as there are, jobs of a level taking turns. */
static void issue(struct file_queue *q)
{
	struct file_job *job;

	while (q->free_ops && (job = pick(q))) {
		stop_waiting(q, job);
		job_issue(q, job);
		start_waiting(q, job);
	}
}

/* ---- results ----------------------------------------------------------- */

/* The kernel did not begin it, or not all of it: may it go out again? An operation is
 * sent back so when a signal came, or when the thread that submitted it ended. */
static bool goes_again(struct file_queue *q, struct file_op *op)
{
	switch (op->result) {
	case -EINTR:
	case -EAGAIN:
	case -ECANCELED:
		break;
	case -EINVAL:
		if (!op->direct)
			return false;
		op->direct_failed = true;
		break;
	default:
		return false;
	}
	file_count(&q->counts.retries);
	return ++op->retries <= FILE_RETRIES;
}

static void progress(struct file_queue *q, struct file_op *op)
{
	uint32_t n = (uint32_t)op->result;

	op->job->transfer->done += n;
	op->memory += n;
	op->offset += n;
	op->length -= n;
	op->retries = 0;
	if (op->length)
		file_count(&q->counts.short_ops);
}

/* What one operation brought back: it goes out again, or its job goes on without it. */
static void op_result(struct file_queue *q, struct file_op *op)
{
	struct file_job *job = op->job;
	bool again = op->result > 0;

	if (again)
		progress(q, op);
	else if (!job->rule) {
		again = goes_again(q, op);
		if (!again)
			job->rule = file_rule(op->result, op->is_read);
	}
	if (again && op->length && !job->rule) {
		op_start(q, op);
		return;
	}
	op_free(q, op);
	job->nr_out--;
	if (job->rule)
		stop_waiting(q, job);
	else
		start_waiting(q, job);
	if (!job->nr_out && (job->rule || job->transfer->done == job->transfer->length))
		transfer_list_push(&q->ended, job_end(q, job));
}

static void reap(struct file_queue *q)
{
	struct file_op *op;

	for (uint32_t i = 0; i < q->o.depth && (op = q->io->reap(q)); i++)
		op_result(q, op);
}

/* ---- backend hooks ----------------------------------------------------- */

/* The judge has checked this; see is_sound() in shm.c. */
static bool is_sound(const struct transfer *t)
{
	const struct region *r = t->local;
	const struct file *f = t->remote->file;

	return f && t->local_addr >= r->base && t->local_addr <= r->end &&
	       t->length <= r->end - t->local_addr && t->remote_addr <= INT64_MAX &&
	       t->length <= INT64_MAX - t->remote_addr &&
	       (f->writable || t->opcode == TENT_OPCODE_READ);
}

static bool is_direct(const struct file_queue *q, const struct transfer *t)
{
	const struct file *f = t->remote->file;
	uint64_t unaligned = t->remote_addr | t->length | (uintptr_t)transfer_local(t);

	return q->o.direct && f->direct_fd >= 0 && !(unaligned & (f->direct_align - 1));
}

/* Of the same poller: it has the worker of this private memory. */
static struct shm_queue *shm_queue_of(const struct file_queue *q, const struct transfer *t)
{
	return t->local->owner->channels[q->index].queue;
}

enum post_result file_post(struct backend_queue *queue, struct transfer *t, uint64_t budget)
{
	struct file_queue *q = (struct file_queue *)queue;
	struct file_job *job = TAILQ_FIRST(&q->free_jobs);

	(void)budget;	/* the kernel moves the bytes */
	if (!is_sound(t))
		return post_fail(t, TENT_RULE_TARGET_UNREGISTERED);
	if (!t->length) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		return POST_DONE;
	}
	if (!t->local->addr)
		return private_post(shm_queue_of(q, t), t);
	if (!job)
		return POST_BUSY;
	TAILQ_REMOVE(&q->free_jobs, job, link);
	*job = (struct file_job){ .transfer = t, .level = t->level, .direct = is_direct(q, t) };
	t->backend_data = job;
	q->nr_jobs++;
	start_waiting(q, job);
	return POST_PENDING;
}

/* What is posted goes out here, in one call for all of it; what the kernel finished at
 * once comes back in the same turn. */
struct transfer *file_poll(struct backend_queue *queue)
{
	struct file_queue *q = (struct file_queue *)queue;

	if (!q->nr_jobs)
		return NULL;
	reap(q);
	issue(q);
	q->io->flush(q);
	reap(q);
	return transfer_list_take(&q->ended);
}

bool file_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	struct file_queue *q = (struct file_queue *)queue;
	struct file_job *job;

	if (!t->local->addr)
		return private_cancel(&shm_queue_of(q, t)->base, t, rule);
	job = t->backend_data;
	if (!job->rule)
		job->rule = rule;
	stop_waiting(q, job);
	if (!job->nr_out) {
		job_end(q, job);
		return true;
	}
	for (uint32_t i = 0; i < q->o.depth; i++) {
		if (q->ops[i].job == job)
			q->io->cancel(q, &q->ops[i]);
	}
	return false;
}

/* ---- control ----------------------------------------------------------- */

int file_queue_init(struct file_queue *q)
{
	uint32_t nr_jobs = FILE_JOBS * q->o.depth;

	q->ops = calloc(q->o.depth, sizeof(*q->ops));
	q->jobs = calloc(nr_jobs, sizeof(*q->jobs));
	if (!q->ops || !q->jobs) {
		file_queue_free(q);
		return -ENOMEM;
	}
	TAILQ_INIT(&q->free_jobs);
	for (uint32_t i = 0; i < LEVELS; i++)
		TAILQ_INIT(&q->waiting[i]);
	transfer_list_init(&q->ended);
	for (uint32_t i = q->o.depth; i-- > 0; )
		op_free(q, &q->ops[i]);
	for (uint32_t i = 0; i < nr_jobs; i++)
		TAILQ_INSERT_TAIL(&q->free_jobs, &q->jobs[i], link);
	q->window = q->o.depth < 4 ? 1 : q->o.depth / 4;
	return 0;
}

void file_queue_free(struct file_queue *q)
{
	free(q->ops);
	free(q->jobs);
	q->ops = NULL;
	q->jobs = NULL;
}
