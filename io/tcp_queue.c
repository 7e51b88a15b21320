/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_queue.c - the poller's turn: notes, what the kernel brought, what goes out. */
#include "io/tcp_serve.h"
#include "ring/clock.h"

#define RESULTS_PER_TURN 16u	/* twice: each may be TCP_PIECE bytes that are summed */
#define TURN_BYTES (1 << 20)	/* that the kernel is asked to move, and a little more */
#define DRAIN_ROUNDS 200u

/* ---- notes ------------------------------------------------------------- */

void tcp_note_push(struct tcp_note **inbox, struct tcp_note *n)
{
	struct tcp_note *head = load_relaxed(inbox);

	do {
		n->next = head;
	} while (!compare_exchange(inbox, &head, n)); /* R16, pairs with A16 */
}

struct tcp_note *tcp_note_take(struct tcp_note **inbox)
{
	struct tcp_note *n, *next, *list = NULL;

	if (!load_relaxed(inbox))
		return NULL;
	/* A16, pairs with R16 in tcp_note_push(). */
	for (n = exchange(inbox, NULL); n; n = next) {
		next = n->next;
		n->next = list;
		list = n;
	}
	return list;
}

static void conn_came(struct tcp_queue *q, struct tcp_conn *c)
{
	TAILQ_INSERT_TAIL(&q->conns, c, link);
	q->nr_conns++;
	tcp_conn_begin(c);
	if (c->line)
		tcp_line_up(c);
	if (q->io->join(q, c) < 0)
		tcp_conn_cut(c);
}

static void take_note(struct tcp_queue *q, struct tcp_note *n)
{
	struct tcp_conn *c = n->about;

	switch (n->kind) {
	case NOTE_CONN:
		conn_came(q, c);
		break;
	case NOTE_FAILED:
		tcp_line_failed(n->about);
		break;
	case NOTE_RETIRE:
		if (c->state == CONN_UP)
			tcp_conn_cut(c);
		tcp_door_send(q->inst, n);
		break;
	case NOTE_FENCED:
		tcp_line_fenced(c);
		tcp_conn_give(c, NOTE_OVER);
		break;
	case NOTE_LEAVE:
		tcp_peer_leave(q, n->about);
		break;
	default:
		break;
	}
}

static void take_notes(struct tcp_queue *q)
{
	struct tcp_note *n, *next;

	store_relaxed(&q->base.called, 0u);
	for (n = tcp_note_take(&q->inbox); n; n = next) {
		next = n->next;
		take_note(q, n);
		q->base.moved = true;
	}
}

/* ---- the turn ---------------------------------------------------------- */

void tcp_conn_wake(struct tcp_conn *c)
{
	if (c->ready || c->state != CONN_UP)
		return;
	c->ready = true;
	TAILQ_INSERT_TAIL(&c->queue->ready, c, ready_link);
}

/* Those that are left have their go in the next turn. */
static void run_ready(struct tcp_queue *q)
{
	struct tcp_conn *c;

	while (q->turn_left > 0 && (c = TAILQ_FIRST(&q->ready))) {
		TAILQ_REMOVE(&q->ready, c, ready_link);
		c->ready = false;
		tcp_conn_run(c);
	}
}

static void reap(struct tcp_queue *q)
{
	struct tcp_op *op;

	for (uint32_t i = 0; i < RESULTS_PER_TURN && (op = q->io->reap(q)); i++) {
		tcp_conn_result(op->conn, op);
		q->base.moved = true;
	}
}

/* A send that fits its socket is over within flush(), and what waits behind it goes out
 * in the same turn. */
struct transfer *tcp_poll(struct backend_queue *queue)
{
	struct tcp_queue *q = (struct tcp_queue *)queue;

	if (load_relaxed(&q->base.called))
		take_notes(q);
	if (q->nr_conns) {
		q->turn_left = TURN_BYTES;
		reap(q);
		run_ready(q);
		q->io->flush(q);
		reap(q);
		if (!TAILQ_EMPTY(&q->ready)) {
			run_ready(q);
			q->io->flush(q);
		}
		q->base.moved |= !TAILQ_EMPTY(&q->ready);
	}
	if (!TAILQ_EMPTY(&q->called_back))
		tcp_back_check(q);
	if (!TAILQ_EMPTY(&q->detached))
		tcp_silence_check(q);
	if (!TAILQ_EMPTY(&q->starving))
		tcp_loans_check(q);
	if (!TAILQ_EMPTY(&q->cut))
		tcp_conns_settle(q);
	q->base.serves = q->nr_conns;
	return transfer_list_take(&q->ended);
}

/* ---- without a poller -------------------------------------------------- */

void tcp_queue_drain(struct tcp_queue *q)
{
	struct tcp_conn *c;

	TAILQ_FOREACH(c, &q->conns, link)
		tcp_conn_cut(c);
	for (uint32_t i = 0; i < DRAIN_ROUNDS; i++) {
		q->io->flush(q);
		reap(q);
		if (!tcp_conns_settle(q))
			break;
		q->io->wait(q);
	}
}
