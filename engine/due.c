/* SPDX-License-Identifier: Apache-2.0 */
/* due.c - see due.h. */
#include "engine/due.h"
#include "engine/sched.h"

static struct transfer *transfer_of(const struct heap_link *l)
{
	return l ? (struct transfer *)((uintptr_t)l - offsetof(struct transfer, place)) : NULL;
}

static struct ring_due *due_of(const struct heap_link *l)
{
	return (struct ring_due *)((uintptr_t)l - offsetof(struct ring_due, place));
}

static struct ring_line *run_of(const struct ring_due *d)
{
	return &d->ring->lines[DUE + d->level];
}

struct transfer *due_first(const struct ring_due *d)
{
	struct transfer *run = run_of(d)->queue.head, *early = transfer_of(d->heap.top);

	if (!run || !early)
		return run ? run : early;
	return early->deadline_ns < run->deadline_ns ? early : run;
}

/* Of equal deadlines the one that came first. */
static bool is_sooner(const struct heap_link *a, const struct heap_link *b)
{
	const struct transfer *t = transfer_of(a), *u = transfer_of(b);

	return t->deadline_ns != u->deadline_ns ? t->deadline_ns < u->deadline_ns :
						  t->order < u->order;
}

static bool has_sooner(const struct heap_link *a, const struct heap_link *b)
{
	return due_first(due_of(a))->deadline_ns < due_first(due_of(b))->deadline_ns;
}

void due_open(struct poller *p)
{
	for (uint32_t level = 0; level < LEVELS; level++)
		p->due[level] = (struct heap){ .before = has_sooner,
					       .coins = (uint32_t)ticks_now() };
}

void due_open_ring(struct ring_state *r)
{
	for (uint32_t level = 0; level < LEVELS; level++)
		r->due[level] = (struct ring_due){
			.ring = r, .level = level,
			.heap = { .before = is_sooner, .coins = (uint32_t)ticks_now() },
		};
}

/* ---- who has anything -------------------------------------------------- */

static void link_ring(struct poller *p, struct ring_due *d)
{
	run_of(d)->linked = true;
	p->nr_linked++;
	p->nr_odd++;
	heap_add(&p->due[d->level], &d->place);
}

/* It was taken out of the poller's heap, and has nothing left. */
static void unlink_ring(struct poller *p, struct ring_due *d)
{
	run_of(d)->linked = false;
	p->nr_linked--;
	p->nr_odd--;
}

/* What is first in it has changed, and may be nothing. */
static void place_ring(struct poller *p, struct ring_due *d)
{
	heap_remove(&p->due[d->level], &d->place);
	if (due_first(d))
		heap_add(&p->due[d->level], &d->place);
	else
		unlink_ring(p, d);
}

/* ---- coming and going -------------------------------------------------- */

/* The moment, for those that come in it. */
struct moment {
	uint64_t ticks;
	uint64_t first_ns, end_ns;	/* deadlines that are ahead of it, and near */
};

static inline bool is_urgent(const struct moment *now, uint64_t deadline_ns)
{
	return deadline_ns >= now->first_ns && deadline_ns < now->end_ns;
}

/* Its place, or that of the ring, when that one's first has changed. */
static void place(struct poller *p, struct ring_due *d, const struct transfer *t)
{
	if (unlikely(!run_of(d)->linked))
		link_ring(p, d);
	else if (due_first(d) == t)
		place_ring(p, d);
}

static void push_early(struct poller *p, struct ring_due *d, struct transfer *t)
{
	t->state = TRANSFER_EARLY;
	t->order = p->due_order++;
	queue_push(&d->early, t);
	heap_add(&d->heap, &t->place);
	place(p, d, t);
}

/* Appends those of list that go on with the run of the first one's level; how many. */
static inline uint32_t push_run(struct poller *p, struct ring_state *r,
				struct transfer *const *list, uint32_t n,
				const struct moment *now)
{
	struct transfer *const *at = list, *const *end = list + n;
	struct transfer *t = *at, *last;
	const uint32_t level = t->level;
	struct transfer_queue *q = &r->lines[DUE + level].queue;
	uint64_t deadline_ns = t->deadline_ns, last_ns;

	t->prev = q->tail;
	if (q->tail)
		q->tail->next = t;
	else
		q->head = t;
	for (;;) {
		t->queued_ticks = now->ticks;
		t->state = TRANSFER_DUE;
		last = t;
		last_ns = deadline_ns;
		if (++at == end)
			break;
		t = *at;
		deadline_ns = t->deadline_ns;
		if (t->level != level || deadline_ns < last_ns || deadline_ns >= now->end_ns ||
		    unlikely(!transfer_may_enter(t)))
			break;
		t->prev = last;
		last->next = t;
	}
	last->next = NULL;
	q->tail = last;
	place(p, &r->due[level], *list);
	return (uint32_t)(at - list);
}

static uint32_t push_loose(struct poller *p, struct ring_state *r,
			   struct transfer *const *list, uint32_t n, const struct moment *now)
{
	uint32_t i = 1;

	while (i < n && !is_urgent(now, list[i]->deadline_ns) && transfer_may_enter(list[i]))
		i++;
	sched_push(p, r, list, i, now->ticks);
	return i;
}

uint32_t due_push(struct poller *p, struct ring_state *r, struct transfer *const *list,
		  uint32_t n, uint64_t ticks)
{
	const uint64_t next_ns = poller_ns(p, ticks) + 1;
	const struct moment now = { ticks, next_ns, next_ns + p->o.urgent_ns };
	uint32_t i = 0;

	do {
		struct transfer *t = list[i];
		const struct transfer *last = r->lines[DUE + t->level].queue.tail;

		if (!is_urgent(&now, t->deadline_ns)) {
			i += push_loose(p, r, list + i, n - i, &now);
		} else if (likely(!last || last->deadline_ns <= t->deadline_ns)) {
			i += push_run(p, r, list + i, n - i, &now);
		} else {
			t->queued_ticks = ticks;
			push_early(p, &r->due[t->level], t);
			i++;
		}
	} while (i < n && transfer_may_enter(list[i]));
	return i;
}

static void take(struct ring_due *d, struct transfer *t)
{
	if (t->state == TRANSFER_DUE) {
		queue_remove(&run_of(d)->queue, t);
		return;
	}
	queue_remove(&d->early, t);
	heap_remove(&d->heap, &t->place);
}

/* The first one again, which was taken: no deadline of the ring's is before its own. */
static void put_back(struct ring_due *d, struct transfer *t)
{
	struct transfer_queue *q = &run_of(d)->queue;

	t->state = TRANSFER_DUE;
	t->prev = NULL;
	t->next = q->head;
	if (q->head)
		q->head->prev = t;
	else
		q->tail = t;
	q->head = t;
}

void due_remove(struct ring_state *r, struct transfer *t)
{
	struct ring_due *d = &r->due[t->level];
	bool was_first = due_first(d) == t;

	take(d, t);
	if (was_first)
		place_ring(r->poller, d);
}

/* ---- goes -------------------------------------------------------------- */

static void set_aside(struct poller *p, struct ring_due *d)
{
	d->next_aside = p->aside;
	p->aside = d;
}

void due_restore(struct poller *p, uint32_t level)
{
	struct ring_due *d;

	while ((d = p->aside)) {
		p->aside = d->next_aside;
		heap_add(&p->due[level], &d->place);
	}
}

/* A ring's early ones among its run, while no other ring has an earlier deadline than
 * limit. Returns the bytes it cost; *busy: it found no room. */
static int64_t mixed_go(struct poller *p, struct ring_due *d, uint64_t limit, int64_t quantum,
			bool *busy)
{
	struct transfer *ended[SCHED_QUANTUM / SCHED_POST_BYTES], *t;
	int64_t budget = quantum;
	uint64_t now = ticks_now();
	uint32_t n = 0;

	while (budget > 0 && !*busy && (t = due_first(d)) && t->deadline_ns <= limit) {
		uint64_t before = t->attempts ? t->done : 0;
		enum post_result result;

		take(d, t);	/* a backend may use its links from post() on */
		result = sched_post(t, now, budget);
		if (result == POST_DONE) {
			budget -= (int64_t)(t->done - before) + SCHED_POST_BYTES;
			ended[n++] = t;
			continue;
		}
		if (result == POST_MORE || result == POST_BUSY)
			put_back(d, t);
		budget -= sched_post_other(p, t, result, before);
		*busy = result == POST_BUSY;
	}
	if (n)
		complete_run(p, d->ring, ended, n, ticks_now());
	return quantum - budget;
}

int64_t due_go(struct poller *p, uint32_t level, int64_t quantum)
{
	struct ring_due *d = due_of(p->due[level].top);
	bool busy = false;
	int64_t cost;

	heap_remove(&p->due[level], &d->place);
	if (likely(!p->due[level].top && !d->heap.top)) {
		cost = sched_visit(p, d->ring, DUE + level, quantum);
		busy = run_of(d)->busy_round == p->round;
	} else {
		uint64_t limit = p->due[level].top ?
				 due_first(due_of(p->due[level].top))->deadline_ns : UINT64_MAX;

		cost = mixed_go(p, d, limit, quantum, &busy);
	}
	if (!due_first(d))
		unlink_ring(p, d);
	else if (busy)
		set_aside(p, d);
	else
		heap_add(&p->due[level], &d->place);
	return cost;
}
