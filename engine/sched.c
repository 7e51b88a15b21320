/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched.c - lines, rounds, posting; and the slow clock that ages what waits.
 *
 * A ring is linked in a line while it has entries there. Its visit posts a quantum
 * of bytes and then the next ring has its go, so one ring's large transfers delay
 * another's by a quantum per round, whatever their size.
 */
#include "engine/bounds.h"
#include "engine/due.h"
#include "engine/failover.h"
#include "engine/sched.h"

#define TICK_ENTRIES 256u	/* queued entries a tick looks at */
#define TICK_RECORDS 64u	/* records of a ring a tick looks at for posted ones */

/* ---- lines ------------------------------------------------------------- */

/* The first ring had its go: it goes to the end, or out when it has nothing left. */
static inline __attribute__((always_inline)) void line_rotate(struct poller *p, uint32_t line)
{
	struct sched_line *l = &p->lines[line];
	struct ring_state *r = l->first;

	l->first = r->lines[line].next;
	r->lines[line].linked = false;
	p->nr_linked--;
	if (r->lines[line].queue.head)
		sched_link(p, r, line);
}

static uint32_t line_of(const struct transfer *t)
{
	return t->state == TRANSFER_RISEN ? RISEN + t->level :
	       t->state == TRANSFER_DUE ? DUE + t->level : t->level;
}

/* A ring that has nothing left in a line stays linked until its turn comes. */
void sched_remove(struct ring_state *r, struct transfer *t)
{
	if (t->state == TRANSFER_HELD)
		bounds_remove(r->poller, t);
	else if (t->state == TRANSFER_DUE || t->state == TRANSFER_EARLY)
		due_remove(r, t);
	else
		queue_remove(&r->lines[line_of(t)].queue, t);
}

void sched_enter(struct poller *p, struct ring_state *r, struct transfer *t, uint64_t now)
{
	due_push(p, r, &t, 1, now);
}

void sched_admit(struct poller *p, struct ring_state *r, struct transfer *t, uint64_t now)
{
	if (likely(!(t->flags & TRANSFER_F_BOUND)) || bounds_admit(p, r, t))
		sched_enter(p, r, t, now);
}

void sched_forget(struct poller *p, struct ring_state *r)
{
	for (uint32_t line = 0; line < LINES; line++) {
		struct sched_line *l = &p->lines[line];
		struct ring_state *before = NULL, *at = l->first;

		for (; at && at != r; at = at->lines[line].next)
			before = at;
		if (!at)
			continue;
		if (before)
			before->lines[line].next = r->lines[line].next;
		else
			l->first = r->lines[line].next;
		if (l->last == r)
			l->last = before;
		r->lines[line].linked = false;
		p->nr_linked--;
	}
}

/* ---- posting ----------------------------------------------------------- */

/* A transport is through with it. */
static inline void finish(struct poller *p, struct transfer *t)
{
	if (likely(t->status != TENT_STATUS_FAILED) || !failover(p, t))
		complete_one(p, t);
}

__attribute__((noinline)) int64_t sched_post_other(struct poller *p, struct transfer *t,
						   enum post_result result, uint64_t before)
{
	switch (result) {
	case POST_BUSY:
		t->attempts = before ? 1 : 0;
		t->ring->lines[line_of(t)].busy_round = p->round;
		return 0;
	case POST_PENDING:	/* its other fields are the backend's now */
		t->state = TRANSFER_POSTED;
		t->ring->nr_posted++;
		p->nr_posted++;
		return SCHED_POST_BYTES;
	case POST_FAILED:	/* it may go on, when its line is whole again */
		t->next = p->failed;
		p->failed = t;
		/* fallthrough */
	default:
		return (int64_t)(t->done - before) + SCHED_POST_BYTES;
	}
}

/* What a turn's posts failed. */
static __attribute__((noinline)) void finish_failed(struct poller *p)
{
	struct transfer *t;

	while ((t = p->failed)) {
		p->failed = t->next;
		finish(p, t);
	}
}

void sched_one_other(struct poller *p, struct ring_state *r, struct transfer *t,
		     enum post_result result)
{
	p->round++;	/* or the mark of a full backend would last for this turn */
	p->direct_left -= sched_post_other(p, t, result, 0);
	if (result == POST_FAILED)
		finish_failed(p);
	else if (result != POST_PENDING)
		sched_enter(p, r, t, t->seen_ticks);
}

/* A ring's go: posts from the head of its line. Returns the bytes it cost. */
static inline __attribute__((always_inline)) int64_t
visit(struct poller *p, struct ring_state *r, uint32_t line, int64_t quantum)
{
	struct transfer_queue *q = &r->lines[line].queue;
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
		budget -= sched_post_other(p, t, result, before);
		if (result != POST_PENDING && result != POST_FAILED)
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

int64_t sched_visit(struct poller *p, struct ring_state *r, uint32_t line, int64_t quantum)
{
	return visit(p, r, line, quantum);
}

void sched_size_turn(struct poller *p)
{
	int64_t bytes = p->quantum * (1 + p->stats.rings / SCHED_RINGS_PER_QUANTUM);

	p->turn_bytes = bytes < (int64_t)p->o.turn_bytes ? bytes : (int64_t)p->o.turn_bytes;
}

/* The first ring of a line has a go, unless it found no room in this round already.
 * Returns the bytes it cost; negative: it had none. */
static int64_t one_go(struct poller *p, uint32_t line, int64_t bytes)
{
	struct ring_state *r = p->lines[line].first;
	int64_t cost = -1;

	if (r->lines[line].busy_round != p->round)
		cost = visit(p, r, line, bytes);
	line_rotate(p, line);
	return cost;
}

/* One short go of what rose to a level. Returns the bytes it cost. */
static __attribute__((noinline)) int64_t risen_go(struct poller *p, uint32_t level,
						  int64_t left)
{
	int64_t go = p->quantum / SCHED_RISEN_PART;
	int64_t cost = one_go(p, RISEN + level, go < left ? go : left);

	return cost > 0 ? cost : 0;
}

/*
 * A level is served until it is empty, the turn's bytes are spent, or no ring in it finds
 * room any more. Those are asked again in the levels below: another backend may have some.
 * What rose to the level has its short go first: the others' may take the turn's rest.
 */
static inline __attribute__((always_inline)) int64_t
serve_level(struct poller *p, uint32_t level, int64_t left)
{
	const struct sched_line *l = &p->lines[level];
	const struct ring_state *stuck = NULL;	/* and all rings after it */

	p->round++;
	do {
		const struct ring_state *r = l->first;
		int64_t cost;

		if (unlikely(level < LINES - RISEN && p->lines[RISEN + level].first))
			left -= risen_go(p, level, left);
		if (!r || left <= 0 || r == stuck)
			break;
		cost = one_go(p, level, p->quantum < left ? p->quantum : left);
		if (cost >= 0)
			left -= cost;
		stuck = cost >= 0 ? NULL : stuck ? stuck : r;
	} while (left > 0);
	return left;
}

static int64_t serve_levels(struct poller *p, int64_t left)
{
	for (uint32_t level = 0; level < LEVELS && left > 0; level++)
		left = serve_level(p, level, left);
	return left;
}

/* What a level's deadlines owe to what has none. A line that is empty is owed nothing,
 * and nobody more than a quantum, or a flood would come at once later. */
static int64_t pay_loose(struct poller *p, uint32_t level, int64_t left)
{
	int64_t *owed = &p->owed[level], cost = 0;

	if (!p->lines[level].first)
		*owed = 0;
	if (*owed > p->quantum)
		*owed = p->quantum;
	if (*owed > 0)
		cost = one_go(p, level, *owed < left ? *owed : left);
	if (cost <= 0)
		return 0;
	*owed -= cost;
	return cost;
}

/* Deadlines, until none is left or can be moved now. */
static int64_t serve_due(struct poller *p, uint32_t level, int64_t left)
{
	const int64_t share = p->o.loose_percent;

	p->round++;
	while (left > 0 && due_waits(p, level)) {
		int64_t cost;

		left -= pay_loose(p, level, left);
		if (level < LINES - RISEN && p->lines[RISEN + level].first)
			left -= risen_go(p, level, left);
		if (left <= 0)
			break;
		cost = due_go(p, level, p->quantum < left ? p->quantum : left);
		p->owed[level] += cost * share / (100 - share);
		left -= cost;
	}
	if (p->aside)
		due_restore(p, level);
	return left;
}

/* Where more waits than lines. */
static __attribute__((noinline)) int64_t serve_odd(struct poller *p, int64_t left)
{
	if (p->held)
		bounds_release(p);
	for (uint32_t level = 0; level < LEVELS && left > 0; level++) {
		left = serve_due(p, level, left);
		if (left > 0)
			left = serve_level(p, level, left);
	}
	return left;
}

bool sched_turn(struct poller *p)
{
	int64_t left = p->turn_bytes, before;

	do {	/* again only for what rose and has the rest of the turn to itself */
		before = left;
		left = unlikely(p->nr_odd) ? serve_odd(p, left) : serve_levels(p, left);
	} while (unlikely(left > 0 && left < before && p->nr_linked));
	if (unlikely(p->failed))
		finish_failed(p);
	return left < p->turn_bytes;
}

/* ---- what backends hand back ------------------------------------------- */

static void take_back(struct poller *p, struct transfer *t)
{
	t->ring->nr_posted--;
	p->nr_posted--;
	finish(p, t);
}

#define BACK_RUN 64u	/* that are completed together */

/* Those from t on that are of its ring; returns the first that is not. */
static struct transfer *take_back_run(struct poller *p, struct transfer *t)
{
	struct transfer *ended[BACK_RUN], *next;
	struct ring_state *r = t->ring;
	uint32_t n = 0, gone = 0;

	for (; t && t->ring == r && n < BACK_RUN; t = next) {
		next = t->next;
		gone++;
		if (likely(t->status != TENT_STATUS_FAILED) || !failover(p, t))
			ended[n++] = t;
	}
	r->nr_posted -= gone;
	p->nr_posted -= gone;
	if (n)
		complete_run(p, r, ended, n, ticks_now());
	return t;
}

bool sched_poll(struct poller *p)
{
	bool any = false;

	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];
		struct transfer *t = q->ops->poll ? q->ops->poll(q) : NULL;

		any |= q->moved;
		q->moved = false;
		any |= t != NULL;
		while (t && t->next)
			t = take_back_run(p, t);
		if (t)
			take_back(p, t);
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
static bool is_old(const struct poller *p, const struct transfer *t, uint64_t now)
{
	return t->queued_ticks && (int64_t)(now - t->queued_ticks) >= p->age_ticks;
}

/* To the end of what rose to the next higher level. */
static void rise(struct poller *p, struct ring_state *r, struct transfer *t, uint64_t now)
{
	uint32_t line = RISEN + t->level - 1;

	sched_remove(r, t);
	t->level--;
	t->state = TRANSFER_RISEN;
	t->queued_ticks = now;
	queue_push(&r->lines[line].queue, t);
	if (!r->lines[line].linked)
		sched_link(p, r, line);
	stat_add(&p->stats.promotions, 1);
	stat_add(&r->stats.promotions, 1);
}

void sched_age(struct poller *p, struct ring_state *r, uint32_t line, uint64_t now,
	       uint32_t *budget)
{
	struct transfer *t = r->lines[line].queue.head, *next;

	for (; t && *budget; t = next) {
		next = t->next;
		--*budget;
		if (is_old(p, t, now))
			rise(p, r, t, now);
	}
}

bool sched_is_expired(const struct poller *p, const struct transfer *t, uint64_t now)
{
	return (int64_t)(now - t->seen_ticks) >= load_relaxed(&p->timeout_ticks);
}

static void expire_queued(struct poller *p, struct ring_state *r,
			  const struct transfer_queue *q, uint64_t now, uint32_t *budget)
{
	struct transfer *t = q->head, *next;

	for (; t && *budget; t = next) {
		next = t->next;
		--*budget;
		if (!sched_is_expired(p, t, now))
			continue;
		sched_remove(r, t);
		complete_with(p, t, TENT_RULE_TIMEOUT);
	}
}

/* The round turns as it goes: a ring with many entries that uses the budget up is the
 * last one next time. In a ring the oldest are at the head. */
static void tick_line(struct poller *p, uint32_t line, uint64_t now)
{
	struct sched_line *l = &p->lines[line];
	uint32_t to_age = TICK_ENTRIES, to_expire = TICK_ENTRIES;
	const struct ring_state *first = l->first;

	while (l->first && to_age && to_expire) {
		expire_queued(p, l->first, &l->first->lines[line].queue, now, &to_expire);
		if (line != 0 && line != RISEN)
			sched_age(p, l->first, line, now, &to_age);
		line_rotate(p, line);
		if (l->first == first)
			break;
	}
}

/* Those whose deadlines passed while they grew old; nothing comes before them in their
 * level any more, but above it something may. */
static void rise_due(struct poller *p, struct ring_state *r, uint32_t level, uint64_t now)
{
	uint64_t now_ns = poller_ns(p, now);
	struct transfer *t;

	for (uint32_t i = 0; i < TICK_RECORDS; i++) {
		t = due_first(&r->due[level]);
		if (!t || t->deadline_ns > now_ns || !is_old(p, t, now))
			break;
		rise(p, r, t, now);
	}
}

static void tick_due(struct poller *p, struct ring_state *r, uint64_t now)
{
	for (uint32_t level = 0; level < LEVELS; level++) {
		uint32_t to_expire = TICK_RECORDS;

		if (!r->lines[DUE + level].linked)
			continue;
		expire_queued(p, r, &r->lines[DUE + level].queue, now, &to_expire);
		expire_queued(p, r, &r->due[level].early, now, &to_expire);
		if (level)
			rise_due(p, r, level, now);
	}
}

/* What waits otherwise than in lines. */
static __attribute__((noinline)) void tick_odd(struct poller *p, uint64_t now)
{
	bounds_expire(p, now);
	for (struct ring_state *r = p->rings; r; r = r->next)
		tick_due(p, r, now);
}

/* With a backend too long. */
static void expire_posted(struct poller *p, struct ring_state *r, uint64_t now)
{
	for (uint32_t i = 0; i < TICK_RECORDS && r->nr_posted; i++) {
		struct transfer *t = ring_record(r, r->expiry_cursor++);

		if (!t)
			r->expiry_cursor = 0;
		else if (t->state == TRANSFER_POSTED && sched_is_expired(p, t, now))
			sched_call_back(p, t, TENT_RULE_TIMEOUT);
	}
}

void sched_tick(struct poller *p, uint64_t now)
{
	for (uint32_t i = 0; i < LINES; i++)	/* none rises twice: what rose comes first */
		tick_line(p, (RISEN + i) % LINES, now);
	if (p->nr_odd)
		tick_odd(p, now);
	if (!p->nr_posted)
		return;
	for (struct ring_state *r = p->rings; r; r = r->next)
		if (r->nr_posted)
			expire_posted(p, r, now);
}
