/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_conn.c - one connection, at either end: frames out, frames in, its end. It has one
 * receive and one send with the kernel at a time, and more only of sends in place whose
 * memory the kernel still reads.
 *
 * A receive takes the rest of a payload right where it goes, and up to TCP_AHEAD bytes
 * behind it; only those are copied, when they turn out to be payload too. A multishot
 * receive would save a lone round trip one of its two io_uring_enter(), but takes bytes to
 * buffers of the kernel's choice: all payload would be copied.
 *
 * A send in place has head and tail beside the payload. Linux takes registered buffers in
 * such a one from 6.15 on only, so they are not used.
 */
#include <errno.h>
#include <string.h>
#include <tent/tentring.h>

#include "io/copy.h"
#include "io/crc32c.h"
#include "io/tcp_serve.h"

#define OP_BYTES 4096	/* what an operation costs, however short, in bytes of a long one */

static const uint8_t zeros[TCP_ZEROS];

/* ---- frames ------------------------------------------------------------ */

struct tcp_frame *tcp_frame_take(struct tcp_conn *c)
{
	struct tcp_frame *f = TAILQ_FIRST(&c->free);

	if (!f)
		return NULL;
	TAILQ_REMOVE(&c->free, f, link);
	*f = (struct tcp_frame){
		.conn = c, .in_use = true, .generation = f->generation + 1,
		.head = { .magic = TCP_MAGIC, .version = TCP_VERSION },
	};
	c->nr_used++;
	return f;
}

void tcp_frame_put(struct tcp_frame *f)
{
	struct tcp_conn *c = f->conn;
	struct tcp_job *job = f->job;

	if (f->queued || f->nr_kernel || !f->answered)
		return;
	if (f->silent_ns)
		tcp_frame_heard(f);
	if (f->loan)
		tcp_loan_give(f);
	f->in_use = false;
	f->job = NULL;
	f->region = NULL;
	c->nr_used--;
	TAILQ_INSERT_HEAD(&c->free, f, link);
	if (job)
		tcp_job_frame_over(job);
	if (c->stalled || c->line)
		tcp_conn_wake(c);
}

void tcp_frame_send(struct tcp_frame *f)
{
	f->queued = true;
	TAILQ_INSERT_TAIL(&f->conn->to_send, f, link);
	tcp_count(&f->conn->queue->counts.frames, 1);
	tcp_conn_wake(f->conn);
}

void tcp_frame_unsend(struct tcp_frame *f)
{
	TAILQ_REMOVE(&f->conn->to_send, f, link);
	f->queued = false;
}

/* ---- out --------------------------------------------------------------- */

static void add(struct tcp_op *op, const void *from, uint32_t length)
{
	op->iov[op->msg.msg_iovlen++] = (struct iovec){ (void *)(uintptr_t)from, length };
}

/* Checksums are made piece by piece, as bytes go out: a peer has whole frames of them for
 * the price of a head, and others are served meanwhile. */
static void sum(struct tcp_frame *f, uint32_t end)
{
	if (!(f->head.flags & TCP_F_CRC) || !f->payload || end <= f->summed)
		return;
	f->tail.crc32c = crc32c(f->tail.crc32c, f->payload + f->summed, end - f->summed);
	f->summed = end;
}

/* What of a frame begins at f->sent, up to room bytes. How many; *whole: to its end. */
static uint32_t add_frame(struct tcp_op *op, struct tcp_frame *f, uint32_t room, bool *whole)
{
	uint32_t at = f->sent, head = sizeof(f->head), tail_at = head + f->payload_length, n;

	if (at < head) {
		add(op, (const uint8_t *)&f->head + at, head - at);
		at = head;
	}
	n = tail_at - at;
	if (f->payload_length && at < tail_at) {
		n = n < room ? n : room;
		if (!f->payload)
			n = n < TCP_ZEROS ? n : TCP_ZEROS;
		add(op, f->payload ? f->payload + (at - head) : zeros, n);
		at += n;
		sum(f, at - head);
	}
	if (f->payload_length && at >= tail_at) {
		add(op, (const uint8_t *)&f->tail + (at - tail_at), tcp_frame_size(f) - at);
		at = tcp_frame_size(f);
	}
	*whole = at == tcp_frame_size(f);
	f->in_send = true;
	return at - f->sent;
}

static bool goes_in_place(const struct tcp_conn *c, const struct tcp_frame *f)
{
	const struct tcp_queue *q = c->queue;

	return q->zero_copy && !c->copied && f->payload && f->nr_kernel < UINT16_MAX &&
	       tcp_frame_size(f) - f->sent >= q->o.zero_copy_bytes;
}

static void hold_in_kernel(struct tcp_op *op, struct tcp_frame *f)
{
	op->zero_copy = f;
	if (f->nr_kernel++ == 0)
		f->conn->nr_kernel++;
	tcp_count(&f->conn->queue->counts.zero_copies, 1);
}

static void fill_send(struct tcp_conn *c)
{
	struct tcp_op *op = &c->out;
	uint32_t room = TCP_PIECE;
	struct tcp_frame *f;
	bool whole = true;

	op->zero_copy = NULL;
	TAILQ_FOREACH(f, &c->to_send, link) {
		bool in_place = goes_in_place(c, f);
		uint32_t n;

		if (in_place && op->msg.msg_iovlen)
			break;
		n = add_frame(op, f, room, &whole);
		if (in_place)
			hold_in_kernel(op, f);
		if (in_place || c->careful || !whole || n >= room ||
		    op->msg.msg_iovlen + 3 > TCP_IOVS)
			break;
		room -= n;
	}
}

static void start(struct tcp_conn *c, struct tcp_op *op)
{
	c->queue->turn_left -= OP_BYTES;
	for (size_t i = 0; i < op->msg.msg_iovlen; i++)
		c->queue->turn_left -= (int64_t)op->iov[i].iov_len;
	op->msg.msg_iov = op->iov;
	op->out = true;
	op->canceled = false;
	op->result = 0;
	c->queue->io->start(c->queue, op);
}

static void send_some(struct tcp_conn *c)
{
	if (c->out.out || c->state != CONN_UP || TAILQ_EMPTY(&c->to_send))
		return;
	c->out.msg = (struct msghdr){ 0 };
	fill_send(c);
	tcp_count(&c->queue->counts.sends, 1);
	start(c, &c->out);
}

static void advance(struct tcp_conn *c, uint32_t n)
{
	struct tcp_frame *f;

	TAILQ_FOREACH(f, &c->to_send, link) {
		if (!f->in_send)
			break;
		f->in_send = false;
	}
	while (n && (f = TAILQ_FIRST(&c->to_send))) {
		uint32_t left = tcp_frame_size(f) - f->sent;

		f->sent += n < left ? n : left;
		n -= n < left ? n : left;
		if (f->sent < tcp_frame_size(f))
			break;
		tcp_frame_unsend(f);
		tcp_frame_put(f);
	}
}

/* Memory of the first frame cannot be read: it goes on without, and says so at its end. */
static void memory_failed(struct tcp_conn *c)
{
	struct tcp_frame *f = TAILQ_FIRST(&c->to_send);

	if (!c->careful) {
		c->careful = true;	/* whose memory it was shows next time */
	} else if (f && f->payload) {
		f->payload = NULL;
		f->tail.status = TENT_RULE_COPY_FAULT;
		c->careful = false;
	} else {
		tcp_conn_cut(c);
	}
}

/* The kernel did not begin it: it goes out again. */
static bool goes_again(int32_t result)
{
	return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

static void sent(struct tcp_conn *c, int32_t result)
{
	bool in_place = c->out.zero_copy;

	advance(c, result > 0 ? (uint32_t)result : 0);
	if (c->guest)
		tcp_request_sent(c);
	if (result >= 0 || goes_again(result))
		return;
	if (result == -EFAULT)
		memory_failed(c);
	else if (in_place && (result == -EINVAL || result == -EOPNOTSUPP || result == -ENOMEM ||
			      result == -ENOBUFS))
		c->copied = true;	/* not this way */
	else
		tcp_conn_cut(c);
}

void tcp_conn_noticed(struct tcp_frame *f, bool copied)
{
	struct tcp_conn *c = f->conn;

	c->copied |= copied;
	if (--f->nr_kernel == 0)
		c->nr_kernel--;
	if (c->state == CONN_UP)
		tcp_frame_put(f);
}

/* ---- in ---------------------------------------------------------------- */

static void receive(struct tcp_conn *c)
{
	struct tcp_op *op = &c->in;
	uint32_t rest = c->ahead_end - c->ahead_at, room;

	if (op->out || c->state != CONN_UP || c->stalled)
		return;
	memmove(c->ahead, c->ahead + c->ahead_at, rest);
	c->ahead_at = 0;
	c->ahead_end = rest;
	op->msg = (struct msghdr){ 0 };
	c->in_payload = 0;
	if (c->stage == IN_PAYLOAD) {
		room = c->payload ? TCP_PIECE : TCP_ZEROS;
		c->in_payload = c->left < room ? c->left : room;
		add(op, c->payload ? c->payload : c->queue->scratch, c->in_payload);
	}
	if (c->in_payload == (c->stage == IN_PAYLOAD ? c->left : 0))
		add(op, c->ahead + rest, TCP_AHEAD - rest);
	tcp_count(&c->queue->counts.receives, 1);
	start(c, op);
}

/* Bytes of the payload are where they belong. */
static void took(struct tcp_conn *c, uint32_t n)
{
	if (c->payload && (c->head.flags & TCP_F_CRC))
		c->crc = crc32c(c->crc, c->payload, n);
	if (c->payload)
		c->payload += n;
	c->left -= n;
	if (!c->left)
		c->stage = IN_TAIL;
}

/* False: more bytes are needed. */
static int judge_head(struct tcp_conn *c)
{
	const struct tcp_head *h = &c->head;

	if (h->magic != TCP_MAGIC || h->version != TCP_VERSION ||
	    (h->resv[0] | h->resv[1] | h->resv[2]))
		return -1;
	return c->line ? tcp_answer_head(c) : tcp_request_head(c);
}

static bool take_head(struct tcp_conn *c)
{
	int rc;

	if (c->ahead_end - c->ahead_at < sizeof(c->head))
		return false;
	memcpy(&c->head, c->ahead + c->ahead_at, sizeof(c->head));
	c->left = 0;
	c->crc = 0;
	c->status = 0;
	rc = judge_head(c);
	c->stalled = rc == 0;
	if (rc < 0)
		tcp_conn_cut(c);
	if (rc <= 0)
		return false;
	c->ahead_at += sizeof(c->head);
	c->stage = c->left ? IN_PAYLOAD : IN_HEAD;
	return true;
}

static bool take_payload(struct tcp_conn *c)
{
	uint32_t n = c->ahead_end - c->ahead_at;

	n = n < c->left ? n : c->left;
	if (!n)
		return false;
	if (c->payload)
		copy_bytes(c->payload, c->ahead + c->ahead_at, n, false);
	c->ahead_at += n;
	took(c, n);
	return true;
}

static bool take_tail(struct tcp_conn *c)
{
	struct tcp_tail tail;
	uint16_t status;

	if (c->ahead_end - c->ahead_at < sizeof(tail))
		return false;
	memcpy(&tail, c->ahead + c->ahead_at, sizeof(tail));
	c->ahead_at += sizeof(tail);
	c->stage = IN_HEAD;
	status = tail.status;
	if (!status && c->payload && (c->head.flags & TCP_F_CRC) && tail.crc32c != c->crc)
		status = TENT_RULE_INTEGRITY;
	c->payload = NULL;
	if (c->line)
		tcp_answer_end(c, status);
	else
		tcp_request_end(c, status);
	return true;
}

static bool step(struct tcp_conn *c)
{
	switch (c->stage) {
	case IN_HEAD:
		return take_head(c);
	case IN_PAYLOAD:
		return take_payload(c);
	default:
		return take_tail(c);
	}
}

/* A receive is out: what is ahead is not whole. */
static void parse(struct tcp_conn *c)
{
	while (!c->in.out && c->state == CONN_UP && step(c))
		;
}

static void came(struct tcp_conn *c, uint32_t n)
{
	uint32_t payload = n < c->in_payload ? n : c->in_payload;

	if (payload)
		took(c, payload);
	c->ahead_end += n - payload;
}

/* Where the payload goes cannot be written. */
static void memory_refused(struct tcp_conn *c)
{
	if (!c->payload) {
		tcp_conn_cut(c);
		return;
	}
	c->payload = NULL;
	if (!c->status)
		c->status = TENT_RULE_COPY_FAULT;
}

static void received(struct tcp_conn *c, int32_t result)
{
	if (result > 0) {
		came(c, (uint32_t)result);
	} else if (result == 0) {
		c->orderly = true;
		tcp_conn_cut(c);
	} else if (result == -EFAULT) {
		memory_refused(c);
	} else if (!goes_again(result)) {
		tcp_conn_cut(c);
	}
	if (c->line)
		tcp_answer_check(c);
	else
		tcp_request_check(c);
}

/* ---- both -------------------------------------------------------------- */

void tcp_conn_result(struct tcp_conn *c, struct tcp_op *op)
{
	op->out = false;
	if (op == &c->in)
		received(c, op->result);
	else
		sent(c, op->result);
	tcp_conn_wake(c);
}

void tcp_conn_run(struct tcp_conn *c)
{
	parse(c);
	if (c->line && c->state == CONN_UP)
		tcp_line_issue(c->line);
	send_some(c);
	receive(c);
}

void tcp_conn_begin(struct tcp_conn *c)
{
	c->in.conn = c->out.conn = c;
	c->state = CONN_UP;
	tcp_conn_wake(c);
}

/* ---- the end ----------------------------------------------------------- */

void tcp_conn_call(struct tcp_conn *c, struct tcp_op *op)
{
	if (!op->out || op->canceled)
		return;
	op->canceled = true;
	c->queue->io->cancel(c->queue, op);
}

/* Whatever the kernel still has to send is dropped, so that it lets go of memory. */
static void disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	connect(fd, &none, sizeof(none));
}

void tcp_conn_cut(struct tcp_conn *c)
{
	struct tcp_queue *q = c->queue;

	if (c->state != CONN_UP)
		return;
	c->state = CONN_CUT;
	tcp_count(&q->counts.cuts, 1);
	TAILQ_INSERT_TAIL(&q->cut, c, cut_link);
	tcp_conn_call(c, &c->in);
	tcp_conn_call(c, &c->out);
	disconnect(c->fd);
	if (c->line && c->line->conn == c) {
		c->line->conn = NULL;
		c->line->state = LINE_DOWN;
	}
}

void tcp_conn_give(struct tcp_conn *c, enum tcp_kind kind)
{
	c->state = kind == NOTE_FENCE ? CONN_FENCING : CONN_OVER;
	c->note = (struct tcp_note){ .kind = kind, .about = c };
	tcp_door_send(c->queue->inst, &c->note);
}

static void settle(struct tcp_conn *c)
{
	struct tcp_queue *q = c->queue;

	if (c->ready)
		TAILQ_REMOVE(&q->ready, c, ready_link);
	c->ready = false;
	TAILQ_REMOVE(&q->cut, c, cut_link);
	TAILQ_REMOVE(&q->conns, c, link);
	q->nr_conns--;
	q->io->leave(q, c);
	tcp_loans_end(c);
	tcp_conn_give(c, c->line && tcp_line_lost(c) ? NOTE_FENCE : NOTE_OVER);
}

bool tcp_conns_settle(struct tcp_queue *q)
{
	struct tcp_conn *c = TAILQ_FIRST(&q->cut), *next;

	for (; c; c = next) {
		next = TAILQ_NEXT(c, cut_link);
		tcp_conn_call(c, &c->in);
		tcp_conn_call(c, &c->out);
		if (!c->in.out && !c->out.out && !c->nr_kernel && !c->nr_cancels && !c->nr_copies)
			settle(c);
	}
	return !TAILQ_EMPTY(&q->cut);
}
