/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_workers.c - operations by threads that call pread() and pwrite(): what a queue
 * has where io_uring is not permitted. As shm's workers do, they look through the
 * queue's operations for one that is offered; what they bring back goes on a stack.
 *
 *   poller: start(), flush()      worker: work()             poller: reap()
 *   op filled in, OFFERED      -> TAKEN, pread/pwrite     -> result in the op
 *           R10/A10                     push: R11/A11
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/thread.h"
#include "io/file.h"
#include "ring/wake.h"

struct file_workers {
	uint32_t calls;		/* counts what was offered; the futex they sleep on */
	uint32_t sleepers;
	uint32_t stopping;
	bool called;		/* the poller's: something was started since flush() */
	uint32_t nr;
	pthread_t threads[];
};

/* ---- workers ----------------------------------------------------------- */

static int32_t op_run(const struct file_op *op)
{
	int fd = op->direct ? op->file->direct_fd : op->file->fd;
	ssize_t n = op->is_read ? pread(fd, op->memory, op->length, (off_t)op->offset) :
				  pwrite(fd, op->memory, op->length, (off_t)op->offset);

	return n < 0 ? -errno : (int32_t)n;
}

static void push_done(struct file_queue *q, struct file_op *op)
{
	struct file_op *top = load_relaxed(&q->done);

	/* R11, pairs with A11 in workers_reap(): the result before the operation. */
	do
		op->next = top;
	while (!compare_exchange(&q->done, &top, op));
	if (!top && q->event_fd >= 0)
		wake_event_signal(q->event_fd);
}

static bool work(struct file_queue *q)
{
	bool any = false;

	for (uint32_t i = 0; i < q->o.depth; i++) {
		struct file_op *op = &q->ops[i];
		uint32_t expected = OP_OFFERED;

		/* A10, pairs with R10 in workers_start(). */
		if (load_relaxed(&op->state) != OP_OFFERED ||
		    !compare_exchange(&op->state, &expected, (uint32_t)OP_TAKEN))
			continue;
		op->result = op_run(op);
		push_done(q, op);
		any = true;
	}
	return any;
}

static void *worker_main(void *arg)
{
	struct file_queue *q = arg;
	struct file_workers *w = q->workers;

	pthread_setname_np(pthread_self(), "tent-file");
	while (!load_acquire(&w->stopping)) { /* A10 */
		uint32_t seen = load_acquire(&w->calls); /* A10 */

		if (work(q))
			continue;
		/* A call after the look changes calls: the futex does not sleep then.
		 * Or its caller sees us here and wakes us: R10/A10 are full fences. */
		fetch_add(&w->sleepers, 1u); /* A10 */
		if (!load_acquire(&w->stopping)) /* A10 */
			wake_futex_wait(&w->calls, seen, UINT64_MAX);
		fetch_add(&w->sleepers, -1u); /* A10 */
	}
	return NULL;
}

/* ---- control ----------------------------------------------------------- */

static void call(struct file_workers *w)
{
	fetch_add(&w->calls, 1u); /* R10, pairs with A10 in worker_main() */
	if (fetch_add(&w->sleepers, 0u)) /* R10 */
		wake_futex_wake(&w->calls);
}

static void workers_close(struct file_queue *q)
{
	struct file_workers *w = q->workers;

	store_release(&w->stopping, 1u); /* R10 */
	call(w);
	while (w->nr)
		pthread_join(w->threads[--w->nr], NULL);
	free(w);
	q->workers = NULL;
}

static int workers_open(struct file_queue *q, char *why, size_t size)
{
	struct file_workers *w = calloc(1, sizeof(*w) + q->o.workers * sizeof(w->threads[0]));
	int rc = w ? 0 : -ENOMEM;

	q->workers = w;
	while (rc == 0 && w->nr < q->o.workers) {
		rc = thread_start_small(&w->threads[w->nr], false, worker_main, q);
		w->nr += rc == 0;
	}
	if (rc < 0)
		snprintf(why, size, "threads for files cannot be started: %s", strerror(-rc));
	if (rc < 0 && w)
		workers_close(q);
	return rc;
}

/* ---- poller ------------------------------------------------------------ */

static void workers_start(struct file_queue *q, struct file_op *op)
{
	/* R10, pairs with A10 in work(): what to do before the state. */
	store_release(&op->state, (uint32_t)OP_OFFERED);
	q->workers->called = true;
}

static void workers_flush(struct file_queue *q)
{
	if (!q->workers->called)
		return;
	q->workers->called = false;
	call(q->workers);
}

static struct file_op *workers_reap(struct file_queue *q)
{
	struct file_op *op;

	if (!q->taken_back && load_relaxed(&q->done))
		q->taken_back = exchange(&q->done, NULL); /* A11, pairs with R11 */
	op = q->taken_back;
	if (!op)
		return NULL;
	q->taken_back = op->next;
	store_relaxed(&op->state, (uint32_t)OP_IDLE);
	return op;
}

/* Only one that no worker has taken yet can be taken back. */
static void workers_cancel(struct file_queue *q, struct file_op *op)
{
	uint32_t expected = OP_OFFERED;

	if (!compare_exchange(&op->state, &expected, (uint32_t)OP_TAKEN)) /* R10/A10 */
		return;
	op->result = -ECANCELED;
	op->next = q->taken_back;
	q->taken_back = op;
}

const struct file_io file_io_workers = {
	.name = "threads",
	.open = workers_open,
	.close = workers_close,
	.start = workers_start,
	.flush = workers_flush,
	.reap = workers_reap,
	.cancel = workers_cancel,
};
