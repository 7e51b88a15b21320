/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_serve.c - what peers ask of segments here. Each frame is judged by itself, against
 * the table of now and by the rules that a client of this engine is judged by; of which
 * segments it may speak its link has settled. Nothing is kept between two frames.
 *
 * A region that is dropped is let go of at once, whatever the peer does: a receive or a
 * send that names it is asked back, and the frame goes on without memory: what comes for
 * it goes nowhere, what is still owed of it is zeros, and its tail says that they are.
 */
#include <tent/tentring.h>

#include "io/tcp_serve.h"
#include "ring/clock.h"

/* ---- judging ----------------------------------------------------------- */

static bool is_permitted(const struct region *r, uint8_t type)
{
	return r->permission == TENT_PERM_GLOBAL_READ_WRITE ||
	       (r->permission == TENT_PERM_GLOBAL_READ_ONLY && type == TCP_READ);
}

static struct region *region_of(const struct tcp_conn *c, uint16_t *status)
{
	const struct tcp_head *h = &c->head;
	/* A7, pairs with R7 in guests.c. */
	const struct segment *s = h->handle < GUEST_SEGMENTS ?
		load_acquire(&c->guest->guest->segments[h->handle]) : NULL;
	struct region *r = NULL;

	*status = TENT_RULE_TARGET_GONE;
	if (!s)
		return NULL;
	*status = TENT_RULE_TARGET_UNREGISTERED;
	if (h->address + h->length >= h->address)
		r = region_find(segment_table(s), h->address, h->length);
	if (!r || r->internal || r->file)
		return NULL;
	*status = TENT_RULE_TARGET_PERMISSION;
	if (!is_permitted(r, h->type))
		return NULL;
	if (!r->addr && !tcp_loan_reaches(c->queue, r))
		r = NULL;
	*status = r ? 0 : TENT_RULE_TRANSPORT_REACH;
	return r;
}

static void begin_read(struct tcp_conn *c, struct tcp_frame *f, struct region *r)
{
	const struct tcp_head *h = &c->head;

	f->region = r;
	if (r) {
		f->payload_length = f->head.length = h->length;
		f->head.flags = h->flags;
	}
	if (f->loan) {
		tcp_loan_copy(f, r, h->address, h->length);
		return;
	}
	if (r)
		f->payload = r->addr + (h->address - r->base);
	tcp_frame_send(f);
}

static void begin_write(struct tcp_conn *c, struct tcp_frame *f, struct region *r)
{
	const struct tcp_head *h = &c->head;

	c->frame = f;
	c->status = f->head.status;
	c->left = h->length;
	if (f->loan) {		/* the region is looked for again when all of it is here */
		c->payload = f->loan->bytes;
		return;
	}
	c->region = r;
	c->payload = r ? r->addr + (h->address - r->base) : NULL;
}

int tcp_request_head(struct tcp_conn *c)
{
	const struct tcp_head *h = &c->head;
	struct loan *loan;
	struct tcp_frame *f;
	struct region *r;
	uint16_t status;

	if ((h->type != TCP_READ && h->type != TCP_WRITE) || h->status ||
	    h->flags & ~TCP_F_ALL || !h->length || h->length > TCP_CHUNK_MAX)
		return -1;
	if (TAILQ_EMPTY(&c->free))
		return 0;
	r = region_of(c, &status);
	loan = tcp_loan_take(c, r);
	if (!loan && r && r->device)
		return 0;
	f = tcp_frame_take(c);
	if (loan)
		tcp_loan_hold(f, loan);
	f->answered = true;	/* nobody answers an answer */
	f->head.id = h->id;
	f->head.type = h->type == TCP_READ ? TCP_DATA : TCP_DONE;
	f->head.status = status;
	if (h->type == TCP_READ)
		begin_read(c, f, r);
	else
		begin_write(c, f, r);
	return 1;
}

/* All of a WRITE is here. */
void tcp_request_end(struct tcp_conn *c, uint16_t status)
{
	struct tcp_frame *f = c->frame;
	struct region *r;

	c->frame = NULL;
	c->region = NULL;
	f->head.status = c->status ? c->status : status;
	if (f->loan && !f->head.status && (r = region_of(c, &f->head.status)) && r->device)
		tcp_loan_copy(f, r, c->head.address, c->head.length);
	else
		tcp_frame_send(f);
}

/* ---- dropping ---------------------------------------------------------- */

static void let_go_in(struct tcp_conn *c)
{
	c->goes = false;
	c->region = NULL;
	c->payload = NULL;
	if (!c->status)
		c->status = TENT_RULE_TARGET_GONE;
}

/* Not begun, it becomes a refusal; begun, it owes zeros. */
static void let_go_out(struct tcp_frame *f)
{
	f->goes = false;
	f->region = NULL;
	f->payload = NULL;
	if (f->sent) {
		f->tail.status = TENT_RULE_TARGET_GONE;
		return;
	}
	f->head.status = TENT_RULE_TARGET_GONE;
	f->head.length = f->head.flags = f->payload_length = 0;
}

void tcp_request_check(struct tcp_conn *c)
{
	if (c->goes)
		let_go_in(c);
}

void tcp_request_sent(struct tcp_conn *c)
{
	struct tcp_frame *f;

	TAILQ_FOREACH(f, &c->to_send, link)
		if (f->goes && !f->in_send && !f->nr_kernel)
			let_go_out(f);
}

/* True: nothing of it touches the region any more. */
static bool drop_in(struct tcp_conn *c)
{
	if (!tcp_conn_fills(c)) {
		let_go_in(c);
		return true;
	}
	c->goes = true;
	tcp_conn_call(c, &c->in);
	return false;
}

static bool drop_out(struct tcp_conn *c, struct tcp_frame *f)
{
	if (f->copies)
		return false;	/* the driver is not asked back */
	if (!f->in_send && !f->nr_kernel) {
		let_go_out(f);
		return true;
	}
	f->goes = true;
	if (f->in_send)
		tcp_conn_call(c, &c->out);
	return false;
}

/* What was sent in place and never confirmed holds memory for as long as the peer
 * likes: not longer than others wait for theirs. */
static void bound(struct tcp_conn *c, bool done)
{
	uint64_t now = done ? 0 : clock_monotonic_ns();

	if (done)
		c->drop_ns = 0;
	else if (!c->drop_ns)
		c->drop_ns = now;
	else if (now - c->drop_ns >= c->queue->o.fence_ns / 2)
		tcp_conn_cut(c);
}

static bool drop_of(struct tcp_conn *c, const struct region *r)
{
	bool done = c->region != r || drop_in(c);

	for (uint32_t i = 0; i < c->depth; i++)
		if (c->frames[i].in_use && c->frames[i].region == r)
			done &= drop_out(c, &c->frames[i]);
	bound(c, done);
	return done;
}

bool tcp_drop(struct backend_queue *queue, const struct region *r)
{
	struct tcp_queue *q = (struct tcp_queue *)queue;
	struct tcp_conn *c;
	bool done = true;

	TAILQ_FOREACH(c, &q->conns, link)
		if (c->guest && c->nr_used)
			done &= drop_of(c, r);
	return done;
}
