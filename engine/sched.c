/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.c - levels, rounds, posting; and the slow clock that ages what waits.
 *
 * A ring is linked in a level while it has entries there. Its visit posts a quantum
 * of bytes and then the next ring has its go, so one ring's large transfers delay
 * another's by a quantum per round, whatever their size.
 */
#include "engine/sched.h"

#define TICK_ENTRIES 256u	/* queued entries a tick looks at */
#define TICK_RECORDS 64u	/* records of a ring a tick looks at for posted ones */

/* ---- levels ------------------------------------------------------------ */

/* The first ring had its go: it goes to the end, or out when it has nothing left. */
static void level_rotate(struct poller *p, uint32_t level)
{
	struct sched_level *l = &p->levels[level];
	struct ring_state *r = l->first;

	l->first = r->levels[level].next;
	r->levels[level].linked = false;
	p->nr_linked--;
	if (r->levels[level].queue.head)
		sched_link(p, r, level);
	else
		r->levels[level].risen = false;
}

/* A ring that has nothing left stays linked until its turn comes. */
void sched_remove(struct ring_state *r, struct transfer *t)
{
	queue_remove(&r->levels[t->level].queue, t);
}

void sched_forget(struct poller *p, struct ring_state *r)
{
	for (uint32_t level = 0; level < LEVELS; level++) {
		struct sched_level *l = &p->levels[level];
		struct ring_state *before = NULL, *at = l->first;

		for (; at && at != r; at = at->levels[level].next)
			before = at;
		if (!at)
			continue;
		if (before)
			before->levels[level].next = r->levels[level].next;
		else
			l->first = r->levels[level].next;
		if (l->last == r)
			l->last = before;
		r->levels[level].linked = false;
		p->nr_linked--;
	}
}

/* ---- posting ----------------------------------------------------------- */

/* A transfer that was posted and is not simply done. Returns the bytes it cost. */
static __attribute__((noinline)) int64_t post_other(struct poller *p, struct transfer *t,
						    enum post_result result, uint64_t before)
{
	switch (result) {
	case POST_BUSY:
		t->attempts = before ? 1 : 0;
		t->ring->busy_round = p->round;
		return 0;
	case POST_PENDING:	/* its other fields are the backend's now */
		t->state = TRANSFER_POSTED;
		t->ring->nr_posted++;
		p->nr_posted++;
		return SCHED_POST_BYTES;
	default:
		return (int64_t)(t->done - before) + SCHED_POST_BYTES;
	}
}

void sched_one_other(struct poller *p, struct ring_state *r, struct transfer *t,
		     enum post_result result)
{
	p->round++;	/* or the mark of a full backend would last for this turn */
	p->direct_left -= post_other(p, t, result, 0);
	if (result != POST_PENDING)
		sched_push(p, r, &t, 1, t->seen_ticks);
}

/* A ring's go: posts from the head of its level. Returns the bytes it cost. */
static inline __attribute__((always_inline)) int64_t
visit(struct poller *p, struct ring_state *r, uint32_t level, int64_t quantum)
{
	struct transfer_queue *q = &r->levels[level].queue;
	struct transfer *ended[SCHED_QUANTUM / SCHED_POST_BYTES], *t = q->head, *next;
	int64_t budget = quantum;	/* the last one may overdraw it */
	struct transfer **end = ended;
	uint64_t now = ticks_now();

	for (; t && budget > 0; t = next) {
		enum post_result result;
		uint64_t before = 0;

		next = t->next;		/* a backend may use it from post() on */
		if (likely(!t->attempts)) {
			result = sched_post_first(t, now, budget);
		} else {
			before = t->done;
			result = t->queue->ops->post(t->queue, t, (uint64_t)budget);
		}
		if (likely(result == POST_DONE)) {
			budget -= (int64_t)(t->done - before) + SCHED_POST_BYTES;
			*end++ = t;
			continue;
		}
		budget -= post_other(p, t, result, before);
		if (result != POST_PENDING)
			break;		/* it stays at the head */
	}
	q->head = t;
	if (t)
		t->prev = NULL;
	else
		q->tail = NULL;
	if (end > ended)
		complete_run(p, r, ended, (uint32_t)(end - ended), ticks_now());
	return quantum - budget;
}

void sched_size_turn(struct poller *p)
{
	int64_t bytes = p->quantum * (1 + p->stats.rings / SCHED_RINGS_PER_QUANTUM);

	p->turn_bytes = bytes < (int64_t)p->o.turn_bytes ? bytes : (int64_t)p->o.turn_bytes;
}

/* What waits longest decides: it is served next. */
static bool is_risen(const struct transfer *t)
{
	return t && t->level + TENT_PRIORITY_HIGH < t->priority;
}

/* What rose has one short go in a round: whoever is below has one too, before the next. */
static int64_t go_bytes(const struct poller *p, struct ring_state *r, uint32_t level,
			int64_t left)
{
	int64_t go = p->quantum;

	if (unlikely(r->levels[level].risen) && is_risen(r->levels[level].queue.head)) {
		go /= SCHED_RISEN_PART;
		r->busy_round = p->round;
	}
	return go < left ? go : left;
}

/*
 * A level is served until it is empty, the turn's bytes are spent, or every ring in it
 * found no room or had the one go of what rose. Those are asked again in the levels below:
 * another backend may have some.
 */
static int64_t serve_levels(struct poller *p, int64_t left)
{
	for (uint32_t level = 0; level < LEVELS && left > 0; level++) {
		struct sched_level *l = &p->levels[level];

		p->round++;
		while (l->first && left > 0 && l->first->busy_round != p->round) {
			left -= visit(p, l->first, level,
				      go_bytes(p, l->first, level, left));
			level_rotate(p, level);
		}
	}
	return left;
}

bool sched_turn(struct poller *p)
{
	int64_t left = p->turn_bytes, before;

	do {	/* again only for what rose and has the rest of the turn to itself */
		before = left;
		left = serve_levels(p, left);
	} while (unlikely(left > 0 && left < before && p->nr_linked));
	return left < p->turn_bytes;
}

/* ---- what backends hand back ------------------------------------------- */

static void take_back(struct poller *p, struct transfer *t)
{
	t->ring->nr_posted--;
	p->nr_posted--;
	complete_one(p, t);
}

bool sched_poll(struct poller *p)
{
	bool any = false;

	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];
		struct transfer *t = q->ops->poll ? q->ops->poll(q) : NULL, *next;

		any |= q->moved;
		q->moved = false;
		for (; t; t = next) {
			next = t->next;
			take_back(p, t);
			any = true;
		}
	}
	return any;
}

void sched_call_back(struct poller *p, struct transfer *t, uint16_t rule)
{
	struct backend_queue *q = t->queue;

	if (t->state != TRANSFER_POSTED)
		return;			/* asked already */
	t->state = TRANSFER_CANCELING;
	if (q->ops->cancel && q->ops->cancel(q, t, rule))
		take_back(p, t);
}

/* ---- the slow clock ---------------------------------------------------- */

/* Signed: another core's ticks may be a little behind. */
static bool rises(const struct poller *p, const struct transfer *t, uint64_t now)
{
	return t->queued_ticks && (int64_t)(now - t->queued_ticks) >= p->age_ticks;
}

void sched_age(struct poller *p, struct ring_state *r, uint32_t level, uint64_t now,
	       uint32_t *budget)
{
	struct transfer *t = r->levels[level].queue.head, *next;

	for (; t && *budget; t = next) {
		next = t->next;
		--*budget;
		if (!rises(p, t, now))
			continue;
		sched_remove(r, t);
		t->level--;
		sched_push(p, r, &t, 1, now);
		r->levels[t->level].risen = true;
		stat_add(&p->stats.promotions, 1);
		stat_add(&r->stats.promotions, 1);
	}
}

static bool is_expired(const struct poller *p, const struct transfer *t, uint64_t now)
{
	return (int64_t)(now - t->seen_ticks) >= p->timeout_ticks;
}

static void expire_queued(struct poller *p, struct ring_state *r, uint32_t level,
			  uint64_t now, uint32_t *budget)
{
	struct transfer *t = r->levels[level].queue.head, *next;

	for (; t && *budget; t = next) {
		next = t->next;
		--*budget;
		if (!is_expired(p, t, now))
			continue;
		sched_remove(r, t);
		complete_with(p, t, TENT_RULE_TIMEOUT);
	}
}

/* The round turns as it goes: a ring with many entries that uses the budget up is the
 * last one next time. In a ring the oldest are at the head. */
static void tick_level(struct poller *p, uint32_t level, uint64_t now)
{
	struct sched_level *l = &p->levels[level];
	uint32_t to_age = TICK_ENTRIES, to_expire = TICK_ENTRIES;
	const struct ring_state *first = l->first;

	while (l->first && to_age && to_expire) {
		expire_queued(p, l->first, level, now, &to_expire);
		if (level > 0)
			sched_age(p, l->first, level, now, &to_age);
		level_rotate(p, level);
		if (l->first == first)
			break;
	}
}

/* With a backend too long. */
static void expire_posted(struct poller *p, struct ring_state *r, uint64_t now)
{
	for (uint32_t i = 0; i < TICK_RECORDS && r->nr_posted; i++) {
		struct transfer *t = ring_record(r, r->expiry_cursor++);

		if (!t)
			r->expiry_cursor = 0;
		else if (t->state == TRANSFER_POSTED && is_expired(p, t, now))
			sched_call_back(p, t, TENT_RULE_TIMEOUT);
	}
}

void sched_tick(struct poller *p, uint64_t now)
{
	for (uint32_t level = 0; level < LEVELS; level++)
		tick_level(p, level, now);
	if (!p->nr_posted)
		return;
	for (struct ring_state *r = p->rings; r; r = r->next)
		if (r->nr_posted)
			expire_posted(p, r, now);
}
