/* SPDX-License-Identifier: Apache-2.0 */
/* round.c - rounds of orders to pollers, and what rests on them: late freeing. */
#include <errno.h>
#include <stdlib.h>

#include "engine/control.h"

/* In front of every published table; keeps the 16-byte alignment of malloc. */
struct retired {
	struct retired *next;
	uint64_t resv;
};

struct round *round_create(const struct engine *e, uint32_t capacity)
{
	struct round *r;

	if (capacity < e->nr_pollers)
		capacity = e->nr_pollers;
	r = calloc(1, sizeof(*r) + capacity * sizeof(r->orders[0]));
	if (r)
		r->capacity = capacity;
	return r;
}

void round_begin(struct round *r)
{
	r->nr = 0;
}

bool round_has_room(const struct round *r, uint32_t n)
{
	return r->capacity - r->nr >= n;
}

void round_add(struct round *r, struct poller *p, const struct poller_command *order)
{
	r->orders[r->nr].command = *order;
	r->orders[r->nr].poller = p;
	r->nr++;
}

void round_add_all(const struct engine *e, struct round *r,
		   const struct poller_command *order)
{
	for (uint32_t i = 0; i < e->nr_pollers; i++)
		round_add(r, e->pollers[i].poller, order);
}

void round_send(struct engine *e, struct round *r,
		void (*done)(struct engine *e, void *context), void *context)
{
	r->done = done;
	r->context = context;
	r->running = true;
	r->next = e->rounds.running;
	e->rounds.running = r;
	for (uint32_t i = 0; i < r->nr; i++)
		poller_send(r->orders[i].poller, &r->orders[i].command);
}

/* A8, pairs with R8 where the poller answers. */
static bool is_answered(const struct round *r)
{
	for (uint32_t i = 0; i < r->nr; i++) {
		if (!load_acquire(&r->orders[i].command.answered))
			return false;
	}
	return true;
}

/* Takes those that are answered out of the list. */
static struct round *rounds_take(struct engine *e)
{
	struct round **at = &e->rounds.running, *r, *ended = NULL;

	while ((r = *at)) {
		if (!is_answered(r)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = ended;
		ended = r;
	}
	return ended;
}

bool rounds_finish(struct engine *e)
{
	struct round *ended = rounds_take(e), *r;
	bool any = ended;

	while ((r = ended)) {
		ended = r->next;
		r->running = false;
		r->done(e, r->context);	/* may send r again */
	}
	return any;
}

int rounds_open(struct engine *e)
{
	e->rounds.grace = round_create(e, 1);
	return e->rounds.grace ? 0 : -ENOMEM;
}

static void free_all(struct retired *list)
{
	while (list) {
		struct retired *next = list->next;

		free(list);
		list = next;
	}
}

void rounds_close(struct engine *e)
{
	free_all(e->rounds.passing);
	free_all(e->rounds.retired);
	free(e->rounds.grace);
	e->rounds = (struct rounds){ .running = NULL };
}

void *grace_alloc(size_t size)
{
	struct retired *head;
	size_t sum;

	if (__builtin_add_overflow(size, sizeof(*head), &sum))
		return NULL;
	head = calloc(1, sum);
	return head ? head + 1 : NULL;
}

void grace_discard(void *memory)
{
	if (memory)
		free((struct retired *)memory - 1);
}

void grace_free(struct engine *e, void *memory)
{
	struct retired *head = memory;

	if (!memory)
		return;
	head--;
	head->next = e->rounds.retired;
	e->rounds.retired = head;
}

static void grace_over(struct engine *e, void *context)
{
	(void)context;
	free_all(e->rounds.passing);
	e->rounds.passing = NULL;
}

/* Dropping a region that nothing names is answered there. */
void round_fill_grace(struct engine *e, struct round *r)
{
	const struct poller_command order = {
		.type = POLLER_DROP_REGION, .rule = TENT_RULE_TARGET_GONE,
		.region = &e->rounds.nothing,
	};

	round_begin(r);
	round_add_all(e, r, &order);
}

void grace_advance(struct engine *e)
{
	if (!e->rounds.retired || e->rounds.passing)
		return;
	e->rounds.passing = e->rounds.retired;
	e->rounds.retired = NULL;
	round_fill_grace(e, e->rounds.grace);
	round_send(e, e->rounds.grace, grace_over, NULL);
}
