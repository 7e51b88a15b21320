/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_uring.c - operations by io_uring.
 *
 * The poller's only system call is the io_uring_enter() of flush(), one for all that was
 * started, and the kernel may carry buffered operations out within it: so what it may
 * copy there is bounded, and larger ones are left to the kernel's own threads. Direct
 * ones only begin there.
 */
#include <errno.h>

#include "io/file.h"

#define INLINE_BYTES 65536u	/* copied within one enter, as much as a turn copies elsewhere */
#define CANCEL_DATA 0u		/* user_data of those whose result nobody needs */

static const uint8_t ops_needed[] = {
	IORING_OP_READ, IORING_OP_WRITE, IORING_OP_ASYNC_CANCEL, 0
};

/* Each operation may have an entry of its own and one that cancels it. */
static int uring_open_queue(struct file_queue *q, char *why, size_t size)
{
	const struct kring_options o = {
		.entries = 2 * q->o.depth, .files = 2 * FILE_PLACES, .buffers = FILE_PINS,
		.sqpoll_ms = q->o.sqpoll_ms, .event_fd = q->event_fd, .ops = ops_needed,
	};

	q->inline_left = INLINE_BYTES;
	q->may_pin = true;
	return kring_open(&q->kring, &o, why, size);
}

static void uring_close_queue(struct file_queue *q)
{
	kring_close(&q->kring);
}

/* An entry, submitting what there is when there is none left. */
static struct io_uring_sqe *entry(struct file_queue *q)
{
	struct io_uring_sqe *sqe = kring_entry(&q->kring);

	if (sqe)
		return sqe;
	kring_submit(&q->kring);
	return kring_entry(&q->kring);
}

static bool is_left_to_threads(struct file_queue *q, const struct file_op *op)
{
	if (op->retries)
		return true;
	if (op->direct)
		return false;
	if (op->length > q->inline_left)
		return true;
	q->inline_left -= op->length;
	return false;
}

static void prepare(struct file_queue *q, struct file_op *op, struct io_uring_sqe *sqe, int fd)
{
	int place;

	op->pin = file_pin_take(q, op);
	place = op->pin ? (int)(op->pin - q->pins) : -1;
	if (op->is_read && op->pin)
		io_uring_prep_read_fixed(sqe, fd, op->memory, op->length, op->offset, place);
	else if (op->is_read)
		io_uring_prep_read(sqe, fd, op->memory, op->length, op->offset);
	else if (op->pin)
		io_uring_prep_write_fixed(sqe, fd, op->memory, op->length, op->offset, place);
	else
		io_uring_prep_write(sqe, fd, op->memory, op->length, op->offset);
}

static void uring_start(struct file_queue *q, struct file_op *op)
{
	struct io_uring_sqe *sqe = entry(q);
	const struct file *f = op->file;
	bool has_place = q->kring.has_files && f->place != FILE_NO_PLACE;
	int fd = op->direct ? f->direct_fd : f->fd;

	op->state = OP_TAKEN;
	if (!sqe) {	/* the kernel takes nothing now: flush() tries again */
		op->state = OP_OFFERED;
		q->nr_held++;
		return;
	}
	if (has_place)
		fd = (int)(2 * f->place + op->direct);
	prepare(q, op, sqe, fd);
	if (has_place)
		sqe->flags |= IOSQE_FIXED_FILE;
	if (is_left_to_threads(q, op))
		sqe->flags |= IOSQE_ASYNC;
	sqe->user_data = (uintptr_t)op;
}

static void start_held(struct file_queue *q)
{
	q->nr_held = 0;
	for (uint32_t i = 0; i < q->o.depth; i++) {
		if (q->ops[i].job && q->ops[i].state == OP_OFFERED)
			uring_start(q, &q->ops[i]);
	}
}

static void uring_flush(struct file_queue *q)
{
	if (q->nr_held)
		start_held(q);
	if (io_uring_sq_ready(&q->kring.ring))
		kring_submit(&q->kring);
	q->inline_left = INLINE_BYTES;
	q->may_pin = true;
}

static struct file_op *uring_reap(struct file_queue *q)
{
	struct io_uring_cqe *cqe;

	while ((cqe = kring_peek(&q->kring))) {
		struct file_op *op = (struct file_op *)(uintptr_t)cqe->user_data;

		if (op)
			op->result = cqe->res;
		kring_seen(&q->kring);
		if (!op)
			continue;
		if (op->pin)
			op->pin->nr_out--;
		op->state = OP_IDLE;
		return op;
	}
	return NULL;
}

/* It reaches those that a thread of the kernel has not begun, and interrupts what can be
 * interrupted. */
static void uring_cancel(struct file_queue *q, struct file_op *op)
{
	struct io_uring_sqe *sqe = op->state == OP_TAKEN ? entry(q) : NULL;

	if (!sqe)
		return;
	io_uring_prep_cancel(sqe, op, 0);
	sqe->user_data = CANCEL_DATA;
}

const struct file_io file_io_uring = {
	.name = "io_uring",
	.open = uring_open_queue,
	.close = uring_close_queue,
	.start = uring_start,
	.flush = uring_flush,
	.reap = uring_reap,
	.cancel = uring_cancel,
};
