/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_state.h - what a poller keeps for one ring. The files of the data path share
 * it; everyone else sees poller.h only.
 *
 * The life of a request: a record from free, filled by the judge (PARKED while the
 * rest of a long batch is judged), waiting (HELD, QUEUED, RISEN, DUE or EARLY), POSTED to a
 * backend, completed, back in free. There are as many records as completions, and the
 * room rule admits no more requests than that, so free is never empty when a batch is
 * admitted.
 */
#ifndef TENT_ENGINE_RING_STATE_H
#define TENT_ENGINE_RING_STATE_H

#include "engine/backend.h"
#include "engine/hot.h"
#include "engine/intent.h"
#include "engine/pages.h"
#include "engine/poller.h"

/* A FIFO linked both ways: cancel and drop take out of the middle. */
struct transfer_queue {
	struct transfer *head, *tail;
};

/* The lines a ring's requests wait in: one for what belongs to a level, and one for what
 * rose to it, which would hold up what belongs there if it stood in the same one. */
enum {
	RISEN = LEVELS,		/* RISEN + level; nothing rises to the last one */
	LINES = RISEN + LEVELS - 1,	/* that have rounds */
	DUE = LINES,		/* DUE + level: what stands by its deadline, see due.h */
	RING_LINES = DUE + LEVELS
};

/* A ring's place in one line of the scheduler. */
struct ring_line {
	struct transfer_queue queue;
	struct ring_state *next;	/* in the line's round */
	uint64_t busy_round;		/* the last round in which its head found no room */
	bool linked;
};

/* What a ring has in one level beside the run of its deadlines, see due.h. */
struct ring_due {
	struct transfer_queue early;	/* as they came */
	struct heap heap;		/* the same, by their deadlines */
	struct heap_link place;		/* of the ring, in the poller's heap or set aside */
	struct ring_due *next_aside;
	struct ring_state *ring;
	uint32_t level;
};

/* What a batch makes of the end of one of its requests. */
enum member_ends {
	MEMBER_ENDS_SILENTLY,	/* ONE_COMPLETION */
	MEMBER_HAS_RESULT,	/* INDIRECT: written beside it */
	MEMBER_IS_PUBLISHED	/* it is only waited for: somebody is to be notified */
};

/* Requests whose ends are waited for together: a ONE_COMPLETION batch, an INDIRECT, one
 * with a notification. */
struct batch_state {
	struct batch_state *next;	/* in the ring's free list */
	struct indirect *indirect;	/* writes each end into results; or NULL */
	struct notice *notice;		/* goes out once all of them completed; or NULL */
	uint64_t user_data;		/* of the first slot */
	uint64_t bytes;
	uint64_t seen_ticks;
	uint32_t nr;			/* requests it stands for */
	uint32_t credits;
	uint32_t left;			/* requests that have not ended */
	uint32_t posted_ticks;		/* of the first to be posted */
	uint32_t first_bad;		/* lowest index that failed, nr: none */
	/* of that one; else of a success */
	int32_t error;
	uint16_t rule;
	uint16_t flags;			/* of all of them */
	uint8_t status;
	uint8_t transport;
	uint8_t rail;
	uint8_t attempts;
	uint8_t member_ends;		/* enum member_ends */
};

/* An INDIRECT batch: its requests live in memory of its own, see indirect.c. */
struct indirect {
	struct transfer *transfers;	/* count of them, NULL: none is running */
	size_t mapped;			/* bytes of transfers still mapped */
	struct region *region;		/* holds the three arrays */
	const uint8_t *entries;		/* this process's addresses */
	const uint8_t *cells;		/* or NULL */
	struct tent_result *results;	/* NULL once the region is gone */
	uint32_t count;
	uint32_t judged;		/* records in use: transfers[0..judged) */
	uint32_t admitted;		/* of these, no longer parked */
	bool admitting;			/* it passed, and not all are admitted */
	bool ended;			/* only its memory is left, see indirect_reclaim() */
	struct batch_state batch;
};

enum intake_step {
	INTAKE_IDLE,		/* looks for a batch */
	INTAKE_TAKE,		/* copies and judges the batch, in pieces */
	INTAKE_ADMIT,		/* it passed: its parked requests enter the scheduler */
	INTAKE_RELEASE,		/* it was refused: its parked records go back */
	INTAKE_CANCEL		/* looks for the requests a CANCEL names */
};

/* The batch at the ring's head. What the judge has to know about it is in judge. */
struct intake {
	uint8_t step;			/* enum intake_step */
	uint8_t op;			/* enum tent_slot_op */
	uint32_t nr;			/* entries: slots, or those of an INDIRECT */
	uint32_t taken;			/* copied and judged so far */
	uint32_t cursor;		/* CANCEL: next record to look at */
	bool found;			/* CANCEL: one was */
	uint64_t user_data;		/* of the first slot */
	uint64_t cancel_data;
	struct refusal why;
	struct transfer_queue parked;
	struct judge judge;
};

struct ring_state {
	struct ring_host host;		/* first: its hot line is ours */
	struct ring_state *next;	/* of the poller's rings */
	bool attention;			/* there is work beside batches that are published */
	bool ended;			/* no work is left; the client was told */
	bool touched;			/* completions were published in this turn */
	uint16_t end_rule;		/* non-zero: the ring is ending */
	uint32_t nr_free;
	struct transfer **free;		/* nr_free records, the last is used next */
	struct client_space *space;
	struct poller *poller;		/* NULL: not served */
	uint32_t in_flight;		/* admitted requests that have not ended */
	uint32_t nr_posted;		/* of these, with backends */
	struct ring_state *next_touched;
	uint32_t slot_debt;		/* slots taken beyond the shares of turns, see intake.c */
	struct intake intake;
	struct ring_line lines[RING_LINES];
	struct poller_stats stats;
	struct indirect indirect;
	/* cold */
	struct ring_due due[LEVELS];
	struct bounds_share *share;	/* of its tenant's bounds; what counts nr_bounded */
	uint32_t nr_bounded;		/* requests that are held, or counted */
	uint32_t nr_held;		/* of these, the first */
	uint32_t kinds[KINDS];		/* of the judge */
	uint32_t woken_tail;		/* cq_tail when its client was last woken */
	uint32_t expiry_cursor;		/* next record to check for its timeout */
	uint32_t end_cursor;		/* next record to call back when the ring ends */
	struct transfer *records;
	struct batch_state *batches;
	struct batch_state *free_batches;
	struct notice *notice;		/* of intake's batch, until it is accepted; or NULL */
	struct notice *notices;		/* NOTICES_PER_RING, see notice.c */
	struct notice *free_notices;	/* of these, used before and free again */
	uint32_t nr_notices;		/* that were ever used: the first ones */
	uint32_t notices_out;		/* with the control thread */
	uint32_t nr_records;
	struct pages_info pages;	/* of records */
};

/* The i-th record, those of an INDIRECT after the ring's own; NULL past the last. */
static inline struct transfer *ring_record(const struct ring_state *r, uint32_t i)
{
	if (i < r->nr_records)
		return &r->records[i];
	i -= r->nr_records;
	return i < r->indirect.judged ? &r->indirect.transfers[i] : NULL;
}

/* Has it requests that wait to be posted? (An empty line is unlinked at its next go.) */
static inline bool ring_has_backlog(const struct ring_state *r)
{
	for (uint32_t line = 0; line < LINES; line++)
		if (r->lines[line].queue.head)
			return true;
	for (uint32_t line = DUE; line < RING_LINES; line++)
		if (r->lines[line].linked)
			return true;
	return r->nr_held != 0;
}

/* Has it not ended, and is it nothing to its tenant's bounds? One load for both. */
static inline bool transfer_may_enter(const struct transfer *t)
{
	uint32_t word;		/* flags, status, transport */

	memcpy(&word, &t->flags, sizeof(word));
	return !(word & (TRANSFER_F_BOUND | 0xffu << 16));
}
_Static_assert(TENT_STATUS_WAITING == 0 && offsetof(struct transfer, status) ==
	       offsetof(struct transfer, flags) + 2, "transfer_may_enter() looks at both");

static inline bool transfer_waits(const struct transfer *t)
{
	return t->state >= TRANSFER_QUEUED && t->state <= TRANSFER_HELD;
}

static inline bool transfer_is_posted(const struct transfer *t)
{
	return t->state == TRANSFER_POSTED || t->state == TRANSFER_CANCELING;
}

/* A record goes back; those of an INDIRECT are unmapped together. */
static inline void ring_release(struct ring_state *r, struct transfer *t)
{
	t->state = TRANSFER_FREE;
	r->free[r->nr_free++] = t;
}

static inline void queue_push(struct transfer_queue *q, struct transfer *t)
{
	t->next = NULL;
	t->prev = q->tail;
	if (q->tail)
		q->tail->next = t;
	else
		q->head = t;
	q->tail = t;
}

static inline void queue_remove(struct transfer_queue *q, struct transfer *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		q->head = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		q->tail = t->prev;
}

/* Takes nothing new from the ring, ends what it has with rule; see ring_end.c. */
static inline void ring_begin_end(struct ring_state *r, uint16_t rule)
{
	if (!r->end_rule)
		r->end_rule = rule;
	r->attention = true;
}

#endif /* TENT_ENGINE_RING_STATE_H */
