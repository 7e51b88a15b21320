/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_loan.c - what peers want of memory of GPUs here. A frame of it has a buffer on loan
 * for its payload: a WRITE is received into it and then copied, a READ is copied into it
 * and then sent. Frames whose copies are on their way are with neither socket nor kernel;
 * a connection is not over before their copies are.
 *
 * Connections that find no buffer are read no further, and come in their order. So that no
 * peer keeps buffers from others by being slow, one that holds its own for long while
 * others wait is cut.
 */
#include <tent/tentring.h>

#include "io/tcp_serve.h"
#include "ring/clock.h"

static void stop_starving(struct tcp_conn *c)
{
	struct tcp_queue *q = c->queue;

	if (!c->starves)
		return;
	TAILQ_REMOVE(&q->starving, c, starve_link);
	c->starves = false;
	if ((c = TAILQ_FIRST(&q->starving)))
		tcp_conn_wake(c);
}

bool tcp_loan_reaches(const struct tcp_queue *q, const struct region *r)
{
	/* A19, pairs with R19 in staging_fill() */
	return r->device && q->base.lender && load_acquire(&q->base.lender->is_open);
}

struct loan *tcp_loan_take(struct tcp_conn *c, const struct region *r)
{
	struct tcp_queue *q = c->queue;
	struct tcp_conn *first = TAILQ_FIRST(&q->starving);
	struct loan *loan = NULL;

	if (r && r->device && (!first || first == c))
		loan = q->base.lender->borrow(q->base.lender, c->head.length);
	if (loan || !r || !r->device) {
		stop_starving(c);
	} else if (!c->starves) {
		TAILQ_INSERT_TAIL(&q->starving, c, starve_link);
		c->starves = true;
	}
	return loan;
}

void tcp_loan_hold(struct tcp_frame *f, struct loan *loan)
{
	f->loan = loan;
	f->lent_ns = clock_monotonic_ns();
	loan->borrower = f;
	TAILQ_INSERT_TAIL(&f->conn->queue->lent, f, lent);
}

void tcp_loan_give(struct tcp_frame *f)
{
	struct tcp_queue *q = f->conn->queue;

	q->base.lender->give_back(q->base.lender, f->loan);
	f->loan = NULL;
	TAILQ_REMOVE(&q->lent, f, lent);
	if (!TAILQ_EMPTY(&q->starving))
		tcp_conn_wake(TAILQ_FIRST(&q->starving));
}

/* All of a WRITE is in the buffer; or a READ begins. */
void tcp_loan_copy(struct tcp_frame *f, struct region *r, uint64_t address, uint32_t n)
{
	struct lender *l = f->conn->queue->base.lender;

	f->region = r;
	f->copies = true;
	f->conn->nr_copies++;
	l->copy(l, f->loan, f->head.type == TCP_DATA ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, r,
		address, n);
}

static void read_copied(struct tcp_frame *f, uint16_t rule)
{
	f->head.status = rule;
	if (!rule) {
		f->payload = f->loan->bytes;
		return;
	}
	f->head.length = f->head.flags = f->payload_length = 0;
	tcp_loan_give(f);
}

void tcp_loan_copied(struct backend_queue *queue, struct loan *loan, uint16_t rule)
{
	struct tcp_frame *f = loan->borrower;
	struct tcp_conn *c = f->conn;

	(void)queue;
	f->copies = false;
	f->region = NULL;
	c->nr_copies--;
	if (c->state != CONN_UP)
		return;		/* its end gives the buffer back */
	if (f->head.type == TCP_DATA) {
		read_copied(f, rule);
	} else {
		f->head.status = rule;
		tcp_loan_give(f);
	}
	tcp_frame_send(f);
}

/* Others wait. */
void tcp_loans_check(struct tcp_queue *q)
{
	uint64_t now = clock_monotonic_ns();
	struct tcp_frame *f;

	TAILQ_FOREACH(f, &q->lent, lent) {
		if (now - f->lent_ns < q->o.fence_ns)
			break;
		if (!f->copies)
			tcp_conn_cut(f->conn);
	}
}

void tcp_loans_end(struct tcp_conn *c)
{
	for (uint32_t i = 0; i < c->depth; i++)
		if (c->frames[i].in_use && c->frames[i].loan)
			tcp_loan_give(&c->frames[i]);
	stop_starving(c);
}
