/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.h - who is served next. Three levels, 0 first. In a level deadlines go first, in
 * their order (due.h), but for a share that is left to the others; of these the rings take
 * turns, and in a ring first come is first served. An entry that waited age_ns in its level
 * rises by one, so that low traffic is slow under load but never starves; one that stands
 * by its deadline does once that has passed. What rose waits in a line of its own and has
 * one short go beside each go of what belongs there, so that a backlog that grew old
 * neither stands before it nor halves it.
 */
#ifndef TENT_ENGINE_SCHED_H
#define TENT_ENGINE_SCHED_H

#include "engine/complete.h"

/* What a request costs a turn beside the bytes it moves: bounds how many small ones
 * a turn takes. */
#define SCHED_POST_BYTES 256u
/* At most this much in a ring's go, and this part of it in a go of what rose. */
#define SCHED_QUANTUM 16384u
#define SCHED_RISEN_PART 8
/* What a look at this many rings costs is little beside moving a quantum. */
#define SCHED_RINGS_PER_QUANTUM 16u

/* Puts a ring at the end of a line's round. */
static inline void sched_link(struct poller *p, struct ring_state *r, uint32_t line)
{
	struct sched_line *l = &p->lines[line];

	p->nr_linked++;
	r->lines[line].linked = true;
	r->lines[line].next = NULL;
	if (l->first)
		l->last->lines[line].next = r;
	else
		l->first = r;
	l->last = r;
}

/* Appends those of list that share the first one's level; how many. */
static inline uint32_t sched_push_level(struct poller *p, struct ring_state *r,
			   struct transfer *const *list, uint32_t n, uint64_t now)
{
	struct transfer *t = list[0], *tail;
	uint32_t level = t->level, i = 1;
	struct transfer_queue *q = &r->lines[level].queue;

	t->prev = q->tail;
	if (q->tail)
		q->tail->next = t;
	else
		q->head = t;
	for (;;) {
		t->queued_ticks = now;
		t->state = TRANSFER_QUEUED;
		tail = t;
		if (i == n)
			break;
		t = list[i];
		if (unlikely(t->level != level))
			break;
		t->prev = tail;
		tail->next = t;
		i++;
	}
	tail->next = NULL;
	q->tail = tail;
	if (!r->lines[level].linked)
		sched_link(p, r, level);
	return i;
}

/* Queues n > 0 transfers of one ring, each in its own level, in this order. now: ticks. */
static inline void sched_push(struct poller *p, struct ring_state *r,
			      struct transfer *const *list, uint32_t n, uint64_t now)
{
	uint32_t i = 0;

	do {	/* neighbours mostly share a level */
		i += sched_push_level(p, r, list + i, n - i, now);
	} while (unlikely(i < n));
}

/* The same for one that may stand by its deadline. */
void sched_enter(struct poller *p, struct ring_state *r, struct transfer *t, uint64_t now);

/* The same for one that its tenant's bounds may hold, or end. */
void sched_admit(struct poller *p, struct ring_state *r, struct transfer *t, uint64_t now);

/* The first post of a transfer; now: ticks. */
static inline enum post_result sched_post_first(struct transfer *t, uint64_t now,
						int64_t budget)
{
	t->attempts = 1;
	t->posted_ticks = ticks_since(now, t->seen_ticks);
	return t->queue->ops->post(t->queue, t, (uint64_t)budget);
}

/* It was posted and is not simply done. */
void sched_one_other(struct poller *p, struct ring_state *r, struct transfer *t,
		     enum post_result result);

/* sched_push() for a batch of one. When nothing waits it is posted at once, up to the
 * bytes of a turn: the common case of a program that waits for each answer. */
static inline void sched_one(struct poller *p, struct ring_state *r, struct transfer *t)
{
	enum post_result result;

	if (unlikely(p->nr_linked || p->direct_left <= 0)) {
		sched_push(p, r, &t, 1, t->seen_ticks);
		return;
	}
	result = sched_post_first(t, ticks_now(), p->quantum);
	if (unlikely(result != POST_DONE)) {
		sched_one_other(p, r, t, result);
		return;
	}
	p->direct_left -= (int64_t)t->done + SCHED_POST_BYTES;
	complete_one(p, t);
}

/* The ring leaves; its queues are empty. */
void sched_forget(struct poller *p, struct ring_state *r);

/* Takes one that waits out, from wherever. */
void sched_remove(struct ring_state *r, struct transfer *t);

/* Has it been here for as long as a request may? now: ticks. */
bool sched_is_expired(const struct poller *p, const struct transfer *t, uint64_t now);

/* ---- for due.c ----------------------------------------------------------- */

/* A ring's go in one of its lines; what its head finds no room for stays there, with its
 * round. Returns the bytes it cost. */
int64_t sched_visit(struct poller *p, struct ring_state *r, uint32_t line, int64_t quantum);

static inline enum post_result sched_post(struct transfer *t, uint64_t now, int64_t budget)
{
	if (likely(!t->attempts))
		return sched_post_first(t, now, budget);
	return t->queue->ops->post(t->queue, t, (uint64_t)budget);
}

/* It was posted, when it had moved before bytes, and is not simply done. Returns the bytes
 * it cost. */
int64_t sched_post_other(struct poller *p, struct transfer *t, enum post_result result,
			 uint64_t before);

/* Bytes of a turn, after rings came or went: a quantum, so that no ring is looked at
 * later than that, and with many of them more, up to the configured turn_bytes. */
void sched_size_turn(struct poller *p);

/* Posts up to that and completes what ended. True: something moved. */
bool sched_turn(struct poller *p);

/* Is anything waiting to be posted? */
static inline bool sched_waits(const struct poller *p)
{
	return p->nr_linked != 0;
}

/* Completes what backends hand back. True: there was something. */
bool sched_poll(struct poller *p);

/* Lets old entries rise and too old ones end; bounded, once per tick_period. */
void sched_tick(struct poller *p, uint64_t now);

/* Moves the entries of a line that are in it for age_ticks or longer, whatever their
 * neighbours' ages, to what rose to the next higher level. Looks at *budget entries at
 * most, and takes off what it looked at. */
void sched_age(struct poller *p, struct ring_state *r, uint32_t line, uint64_t now,
	       uint32_t *budget);

/* Asks a posted transfer back, to end it with rule. */
void sched_call_back(struct poller *p, struct transfer *t, uint16_t rule);

#endif /* TENT_ENGINE_SCHED_H */
