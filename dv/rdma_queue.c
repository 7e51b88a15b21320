/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_queue.c - the poller's turn: notes, what was completed, what goes out. */
#include "dv/rdma_poller.h"
#include "ring/wake.h"

/* ---- notes ------------------------------------------------------------- */

void rdma_note_push(struct rdma_note **inbox, struct rdma_note *n)
{
	struct rdma_note *head = load_relaxed(inbox);

	do {
		n->next = head;
	} while (!compare_exchange(inbox, &head, n)); /* R16, pairs with A16 */
}

struct rdma_note *rdma_note_take(struct rdma_note **inbox)
{
	struct rdma_note *n, *next, *list = NULL;

	if (!load_relaxed(inbox))
		return NULL;
	/* A16, pairs with R16 in rdma_note_push(). */
	for (n = exchange(inbox, NULL); n; n = next) {
		next = n->next;
		n->next = list;
		list = n;
	}
	return list;
}

void rdma_queue_send(struct rdma_queue *q, struct rdma_note *n)
{
	rdma_note_push(&q->inbox, n);
	wake_event_signal(q->event_fd);
}

void rdma_control_send(struct rdma_instance *inst, struct rdma_note *n, enum rdma_kind kind,
		       void *about)
{
	*n = (struct rdma_note){ .kind = kind, .about = about };
	rdma_note_push(&inst->inbox, n);
	wake_event_signal(inst->event_fd);
}

static void take_note(struct rdma_queue *q, struct rdma_note *n)
{
	struct rdma_conn *c = n->about;

	switch (n->kind) {
	case NOTE_CONN:
		TAILQ_INSERT_TAIL(&q->conns, c, link);
		rdma_lane_up(c);
		break;
	case NOTE_FAILED:
		rdma_lane_failed(n->about);
		break;
	case NOTE_DOUBT:
		rdma_conn_doubt(c);
		break;
	case NOTE_FENCED:
		rdma_lane_fenced(c);
		break;
	case NOTE_LEAVE:
		rdma_peer_leave(q, n->about);
		break;
	default:
		break;
	}
}

static void take_notes(struct rdma_queue *q)
{
	struct rdma_note *n, *next;

	for (n = rdma_note_take(&q->inbox); n; n = next) {
		next = n->next;
		take_note(q, n);
		q->base.moved = true;
	}
}

/* ---- the turn ---------------------------------------------------------- */

/* Devices that were taken away: nothing completes by them any more. */
static void break_lost(struct rdma_queue *q, uint32_t usable)
{
	struct rdma_conn *c, *next;

	for (c = TAILQ_FIRST(&q->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!(usable & 1u << c->lane->rail))
			rdma_conn_break(c, "the device was taken out");
	}
}

struct transfer *rdma_poll(struct backend_queue *queue)
{
	struct rdma_queue *q = (struct rdma_queue *)queue;
	uint32_t usable = load_relaxed(&q->inst->usable);
	struct rdma_conn *c, *next;
	struct rdma_line *l, *next_line;

	if (load_relaxed(&q->inbox))
		take_notes(q);
	for (c = TAILQ_FIRST(&q->conns); q->nr_jobs && c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->sq.ci != c->sq.pi)
			q->base.moved |= rdma_conn_reap(c);
	}
	if (usable != load_relaxed(&q->inst->all_rails))
		break_lost(q, usable);
	for (l = TAILQ_FIRST(&q->lines); l; l = next_line) {
		next_line = TAILQ_NEXT(l, link);
		rdma_line_issue(l);
	}
	if (!TAILQ_EMPTY(&q->called_back))
		rdma_back_check(q);
	store_relaxed(&q->base.watched, (uint32_t)(q->nr_jobs != 0));
	return transfer_list_take(&q->ended);
}
