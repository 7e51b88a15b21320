/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_uring.c - receives and sends by io_uring: one io_uring_enter() of flush() sets off
 * what a turn started, and what comes later interrupts the poller's thread, or wakes it.
 */
#include <errno.h>

#include "io/tcp.h"

#define ENTRIES 1024u
#define WAIT_NS 10000000
/* In user_data, where it is not an operation's own result: */
#define ZERO_COPY_TAG 1u	/* of a send of this frame in place */
#define CANCEL_TAG 2u		/* of what asks this operation back */
#define TAGS 3u

/* Newer than the header of some liburing. */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

static const uint8_t ops_needed[] = {
	IORING_OP_RECVMSG, IORING_OP_SENDMSG, IORING_OP_ASYNC_CANCEL, 0
};
static const uint8_t ops_zero_copy[] = { IORING_OP_SENDMSG_ZC, 0 };

static int uring_open(struct tcp_queue *q, char *why, size_t size)
{
	const struct kring_options o = {
		.entries = ENTRIES, .event_fd = q->event_fd, .ops = ops_needed,
	};
	char no_matter[128];

	q->zero_copy = q->o.zero_copy_bytes &&
		       kring_probe(ops_zero_copy, no_matter, sizeof(no_matter)) == 0;
	return kring_open(&q->kring, &o, why, size);
}

static void uring_close(struct tcp_queue *q)
{
	kring_close(&q->kring);
}

static int uring_wait_fd(const struct tcp_queue *q)
{
	(void)q;
	return -1;	/* it writes the queue's eventfd */
}

static int uring_join(struct tcp_queue *q, struct tcp_conn *c)
{
	(void)q;
	(void)c;
	return 0;
}

static void uring_leave(struct tcp_queue *q, struct tcp_conn *c)
{
	(void)q;
	(void)c;
}

/* An entry, submitting what there is when there is none left. */
static struct io_uring_sqe *entry(struct tcp_queue *q)
{
	struct io_uring_sqe *sqe = kring_entry(&q->kring);

	if (sqe)
		return sqe;
	kring_submit(&q->kring);
	return kring_entry(&q->kring);
}

static uint64_t data_of(const struct tcp_op *op)
{
	return op->zero_copy ? (uintptr_t)op->zero_copy | ZERO_COPY_TAG : (uintptr_t)op;
}

static void uring_start(struct tcp_queue *q, struct tcp_op *op)
{
	struct io_uring_sqe *sqe = entry(q);
	struct tcp_conn *c = op->conn;

	if (!sqe) {	/* the kernel takes nothing now: flush() tries again */
		op->held = true;
		q->nr_held++;
		return;
	}
	if (op == &c->in)
		io_uring_prep_recvmsg(sqe, c->fd, &op->msg, 0);
	else if (op->zero_copy)
		io_uring_prep_sendmsg_zc(sqe, c->fd, &op->msg, MSG_NOSIGNAL);
	else
		io_uring_prep_sendmsg(sqe, c->fd, &op->msg, MSG_NOSIGNAL);
	if (op->zero_copy)
		sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
	sqe->user_data = data_of(op);
}

static void start_held(struct tcp_queue *q, struct tcp_op *op)
{
	if (!op->held)
		return;
	op->held = false;
	q->nr_held--;
	uring_start(q, op);
}

static void uring_flush(struct tcp_queue *q)
{
	struct tcp_conn *c;

	if (q->nr_held) {
		kring_submit(&q->kring);
		TAILQ_FOREACH(c, &q->conns, link) {
			start_held(q, &c->in);
			start_held(q, &c->out);
		}
	}
	if (io_uring_sq_ready(&q->kring.ring))
		kring_submit(&q->kring);
}

static void uring_cancel(struct tcp_queue *q, struct tcp_op *op)
{
	struct io_uring_sqe *sqe;

	start_held(q, op);
	sqe = op->held ? NULL : entry(q);
	if (!sqe) {
		op->canceled = false;	/* asked again by whoever needs it */
		return;
	}
	io_uring_prep_cancel64(sqe, data_of(op), 0);
	sqe->user_data = (uintptr_t)op | CANCEL_TAG;
	op->conn->nr_cancels++;
}

/* Two results come of a send in place: how much was sent, and, later, that its memory is
 * ours again. */
static struct tcp_op *zero_copy_result(struct tcp_frame *f, const struct io_uring_cqe *cqe)
{
	struct tcp_op *op = &f->conn->out;

	if (cqe->flags & IORING_CQE_F_NOTIF) {
		tcp_conn_noticed(f, (uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED);
		return NULL;
	}
	op->result = cqe->res;
	if (!(cqe->flags & IORING_CQE_F_MORE))
		tcp_conn_noticed(f, false);
	return op;
}

/* The kernel does not find an operation that it is about to try again, and that may wait
 * on afterwards: it is asked for until it is back. */
static void cancel_result(struct tcp_queue *q, struct tcp_op *op)
{
	op->conn->nr_cancels--;
	if (op->out && op->canceled)
		uring_cancel(q, op);
}

static struct tcp_op *result_of(struct tcp_queue *q, const struct io_uring_cqe *cqe)
{
	void *data = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)TAGS);
	struct tcp_op *op = data;

	switch (cqe->user_data & TAGS) {
	case ZERO_COPY_TAG:
		return zero_copy_result(data, cqe);
	case CANCEL_TAG:
		cancel_result(q, op);
		return NULL;
	default:
		op->result = cqe->res;
		return op;
	}
}

static struct tcp_op *uring_reap(struct tcp_queue *q)
{
	struct io_uring_cqe *cqe;

	while ((cqe = kring_peek(&q->kring))) {
		struct tcp_op *op = result_of(q, cqe);

		kring_seen(&q->kring);
		if (op)
			return op;
	}
	return NULL;
}

static void uring_wait(struct tcp_queue *q)
{
	struct __kernel_timespec t = { .tv_nsec = WAIT_NS };
	struct io_uring_cqe *cqe;

	io_uring_wait_cqe_timeout(&q->kring.ring, &cqe, &t);
}

const struct tcp_io tcp_io_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.wait_fd = uring_wait_fd,
	.join = uring_join,
	.leave = uring_leave,
	.start = uring_start,
	.cancel = uring_cancel,
	.flush = uring_flush,
	.reap = uring_reap,
	.wait = uring_wait,
};
