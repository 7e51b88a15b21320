/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_plain.c - the same by recvmsg() and sendmsg(), where io_uring is not permitted. An
 * operation is tried at once; one that would block waits until the epoll says that its
 * socket is ready again. So does a receive after one into our own memory that came back
 * short: it took all there was, and the epoll tells of what comes next. Nothing comes after
 * an end: where one was told of, it is looked for until it is found.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/tcp.h"
#include "ring/clock.h"

#define EVENTS 16	/* a few: each may bring TCP_PIECE bytes, twice */
/* Ticks between two looks, in turns that follow each other closely: often while something
 * comes, so that answers are not late, else seldom, for the sake of other clients. */
#define LOOK_OFTEN 2000u
#define LOOK_SELDOM 20000u
#define LIVELY 200000u	/* how long something comes after something came */
#define WAIT_MS 10
#define ENDS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

enum place { NOWHERE = 0, IN_TRIES, IN_DONE };	/* NOWHERE: it waits for its socket */

static int plain_open(struct tcp_queue *q, char *why, size_t size)
{
	TAILQ_INIT(&q->tries);
	TAILQ_INIT(&q->done);
	q->zero_copy = false;
	q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (q->epoll_fd >= 0)
		return 0;
	snprintf(why, size, "no epoll: %s", strerror(errno));
	return -errno;
}

static void plain_close(struct tcp_queue *q)
{
	close(q->epoll_fd);
	q->epoll_fd = -1;
}

static int plain_wait_fd(const struct tcp_queue *q)
{
	return q->epoll_fd;
}

static int plain_join(struct tcp_queue *q, struct tcp_conn *c)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = c };

	return epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0 ? -errno : 0;
}

static void plain_leave(struct tcp_queue *q, struct tcp_conn *c)
{
	epoll_ctl(q->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

/* ---- operations -------------------------------------------------------- */

static void move_to(struct tcp_queue *q, struct tcp_op *op, enum place place)
{
	if (op->place == IN_TRIES)
		TAILQ_REMOVE(&q->tries, op, link);
	op->place = (uint8_t)place;
	if (place == IN_TRIES)
		TAILQ_INSERT_TAIL(&q->tries, op, link);
	else if (place == IN_DONE)
		TAILQ_INSERT_TAIL(&q->done, op, link);
}

static void plain_start(struct tcp_queue *q, struct tcp_op *op)
{
	struct tcp_conn *c = op->conn;

	move_to(q, op, op == &c->in && c->drained && !c->ending ? NOWHERE : IN_TRIES);
}

/* Of one with payload it may be what the memory took. */
static bool is_short(const struct tcp_op *op, ssize_t n)
{
	return !op->conn->in_payload && n > 0 && (size_t)n < op->iov[0].iov_len;
}

static void try(struct tcp_queue *q, struct tcp_op *op)
{
	struct tcp_conn *c = op->conn;
	bool in = op == &c->in;
	ssize_t n = in ? recvmsg(c->fd, &op->msg, MSG_DONTWAIT) :
			 sendmsg(c->fd, &op->msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == EAGAIN) {
		move_to(q, op, NOWHERE);
		return;
	}
	op->result = n < 0 ? -errno : (int32_t)n;
	if (in)
		c->drained = is_short(op, n);
	move_to(q, op, IN_DONE);
}

static void plain_flush(struct tcp_queue *q)
{
	struct tcp_op *op;

	while ((op = TAILQ_FIRST(&q->tries)))
		try(q, op);
}

static void ready(struct tcp_queue *q, struct tcp_op *op)
{
	if (op->out && op->place == NOWHERE)
		move_to(q, op, IN_TRIES);
}

/* What became ready since the last look. */
static void look(struct tcp_queue *q, int wait_ms)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(q->epoll_fd, events, EVENTS, wait_ms);

	for (int i = 0; i < n; i++) {
		struct tcp_conn *c = events[i].data.ptr;
		uint32_t what = events[i].events;

		c->ending |= (what & ENDS) != 0;
		if (what & (EPOLLIN | ENDS)) {
			c->drained = false;
			ready(q, &c->in);
		}
		if (what & (EPOLLOUT | ENDS))
			ready(q, &c->out);
	}
}

static struct tcp_op *plain_reap(struct tcp_queue *q)
{
	uint64_t now = ticks_now();
	struct tcp_op *op = TAILQ_FIRST(&q->done);

	if (!op && now - q->looked >= (now - q->came < LIVELY ? LOOK_OFTEN : LOOK_SELDOM)) {
		q->looked = now;
		look(q, 0);
		plain_flush(q);
		op = TAILQ_FIRST(&q->done);
	}
	if (!op)
		return NULL;
	q->came = now;
	TAILQ_REMOVE(&q->done, op, link);
	op->place = NOWHERE;
	return op;
}

static void plain_cancel(struct tcp_queue *q, struct tcp_op *op)
{
	if (op->place == IN_DONE)
		return;
	op->result = -ECANCELED;
	move_to(q, op, IN_DONE);
}

static void plain_wait(struct tcp_queue *q)
{
	look(q, WAIT_MS);
}

const struct tcp_io tcp_io_plain = {
	.name = "epoll",
	.open = plain_open,
	.close = plain_close,
	.wait_fd = plain_wait_fd,
	.join = plain_join,
	.leave = plain_leave,
	.start = plain_start,
	.cancel = plain_cancel,
	.flush = plain_flush,
	.reap = plain_reap,
	.wait = plain_wait,
};
