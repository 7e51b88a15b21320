/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/wire/faults.h"

#include <stdlib.h>
#include <sys/random.h>

#define MILLION 1000000u
#define DEFAULT_REORDER_NS 100000u
#define DEFAULT_DELAY_NS 1000000u
#define MAX_BACKLOG_NS 10000000000ull
#define MAX_DELAYED 16384
#define MAX_DELAYED_BYTES (64u << 20)

/* ---- dice -------------------------------------------------------------------- */

void dice_init(struct dice *d)
{
	*d = (struct dice){ 0 };
	if (getrandom(&d->state, sizeof(d->state), GRND_NONBLOCK) < 0 || !d->state)
		d->state = 1;
}

/* xorshift64* */
static uint32_t roll(struct dice *d)
{
	d->state ^= d->state >> 12;
	d->state ^= d->state << 25;
	d->state ^= d->state >> 27;
	return (uint32_t)(d->state * 0x2545f4914f6cdd1dull >> 32);
}

static bool happens(struct dice *d, const uint32_t *ppm)
{
	uint32_t p = __atomic_load_n(ppm, __ATOMIC_RELAXED);

	return p && (uint64_t)roll(d) * MILLION >> 32 < p;
}

/* Takes one of a count that several processes share. */
static bool counts(uint32_t *left)
{
	uint32_t n = __atomic_load_n(left, __ATOMIC_RELAXED);

	while (n)
		if (__atomic_compare_exchange_n(left, &n, n - 1, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

static uint32_t setting(const uint32_t *field, uint32_t otherwise)
{
	uint32_t v = __atomic_load_n(field, __ATOMIC_RELAXED);

	return v ? v : otherwise;
}

/* ---- judgement --------------------------------------------------------------- */

static bool is_lost(struct wire_faults *f, struct dice *d, bool is_response)
{
	if (counts(&f->loss_count) || happens(d, &f->loss_ppm))
		return true;
	if (is_response)
		return counts(&f->drop_response_count) || happens(d, &f->drop_response_ppm);
	return counts(&f->drop_request_count) || happens(d, &f->drop_request_ppm);
}

static bool is_delayed(struct wire_faults *f, struct dice *d, bool is_response)
{
	if (is_response)
		return counts(&f->delay_response_count) || happens(d, &f->delay_response_ppm);
	return counts(&f->delay_request_count) || happens(d, &f->delay_request_ppm);
}

/* When the last byte has left a link of limited speed, which all processes share. */
static uint64_t pass_link(struct wire_faults *f, size_t bytes, uint64_t now_ns)
{
	uint32_t mbps = __atomic_load_n(&f->bandwidth_mbps, __ATOMIC_RELAXED);
	uint64_t was, start, end;

	if (!mbps)
		return now_ns;
	was = __atomic_load_n(&f->link_free_ns, __ATOMIC_RELAXED);
	do {
		/* Whatever stands there: never further off than a full queue takes. */
		start = was > now_ns && was - now_ns < MAX_BACKLOG_NS ? was : now_ns;
		end = start + bytes * 8000 / mbps;
	} while (!__atomic_compare_exchange_n(&f->link_free_ns, &was, end, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return end;
}

static void reseed(struct dice *d, uint32_t seed)
{
	if (seed == d->seed)
		return;
	d->seed = seed;
	if (seed)
		d->state = seed * 0x9e3779b97f4a7c15ull;
}

uint64_t faults_judge(struct wire_faults *f, struct dice *d, bool is_response, size_t bytes,
		      uint64_t now_ns)
{
	uint32_t jitter_ns = setting(&f->jitter_ns, 0);
	uint64_t due_ns;

	reseed(d, setting(&f->seed, 0));
	if (is_lost(f, d, is_response))
		return FAULTS_LOST;
	due_ns = pass_link(f, bytes, now_ns) + setting(&f->latency_ns, 0);
	if (jitter_ns)
		due_ns += (uint64_t)roll(d) * jitter_ns >> 32;
	if (due_ns < d->last_due_ns)
		due_ns = d->last_due_ns;
	d->last_due_ns = due_ns;
	/* These let others pass. */
	if (happens(d, &f->reorder_ppm))
		due_ns += setting(&f->reorder_ns, DEFAULT_REORDER_NS);
	if (is_delayed(f, d, is_response))
		due_ns += setting(&f->delay_ns, DEFAULT_DELAY_NS);
	return due_ns <= now_ns ? FAULTS_NOW : due_ns;
}

/* ---- the queue: a binary heap ------------------------------------------------ */

static bool is_before(const struct delayed *a, const struct delayed *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static bool make_room(struct delay_queue *q)
{
	size_t room = q->room ? q->room * 2 : 64;
	struct delayed **heap;

	if (q->nr < q->room)
		return true;
	heap = reallocarray(q->heap, room, sizeof(*heap));
	if (!heap)
		return false;
	q->heap = heap;
	q->room = room;
	return true;
}

struct delayed *delay_put(struct delay_queue *q, uint64_t due_ns, const struct outbox_way *way,
			  size_t bytes)
{
	struct delayed *d;
	size_t i = q->nr;

	if (q->nr == MAX_DELAYED || q->bytes + bytes > MAX_DELAYED_BYTES || !make_room(q))
		return NULL;
	d = malloc(sizeof(*d) + bytes);
	if (!d)
		return NULL;
	d->due_ns = due_ns;
	d->order = q->order++;
	d->way = *way;
	d->bytes = bytes;
	q->nr++;
	q->bytes += bytes;
	for (; i && is_before(d, q->heap[(i - 1) / 2]); i = (i - 1) / 2)
		q->heap[i] = q->heap[(i - 1) / 2];
	q->heap[i] = d;
	return d;
}

uint64_t delay_next_ns(const struct delay_queue *q)
{
	return q->nr ? q->heap[0]->due_ns : UINT64_MAX;
}

static void sink_last_from_root(struct delay_queue *q)
{
	struct delayed *last = q->heap[--q->nr];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < q->nr; i = child) {
		if (child + 1 < q->nr && is_before(q->heap[child + 1], q->heap[child]))
			child++;
		if (!is_before(q->heap[child], last))
			break;
		q->heap[i] = q->heap[child];
	}
	q->heap[i] = last;
}

struct delayed *delay_take(struct delay_queue *q, uint64_t now_ns)
{
	struct delayed *first;

	if (!q->nr || q->heap[0]->due_ns > now_ns)
		return NULL;
	first = q->heap[0];
	sink_last_from_root(q);
	q->bytes -= first->bytes;
	return first;
}

void delay_free(struct delay_queue *q)
{
	while (q->nr)
		free(q->heap[--q->nr]);
	free(q->heap);
	*q = (struct delay_queue){ 0 };
}
