/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round.h - orders that go to pollers together, and what happens when all of them
 * are answered; and memory that pollers may still be reading, freed one such round
 * later. The control thread never waits in place for a poller.
 */
#ifndef TENT_ENGINE_ROUND_H
#define TENT_ENGINE_ROUND_H

#include <stddef.h>

#include "engine/poller.h"

struct engine;

struct round_order {
	struct poller_command command;
	struct poller *poller;
};

/* Its owner keeps it for the next time; it is never in two lists. */
struct round {
	struct round *next;
	void (*done)(struct engine *e, void *context);
	void *context;
	bool running;
	uint32_t nr, capacity;
	struct round_order orders[];
};

struct retired;

/* Part of struct engine. */
struct rounds {
	struct round *running;
	struct round *grace;		/* one order per poller, reused */
	struct retired *retired;	/* waits for the next grace round */
	struct retired *passing;	/* freed when the running one is through */
	struct region nothing;		/* no request ever names it */
};

/* At least one order per poller. NULL: no memory. */
struct round *round_create(const struct engine *e, uint32_t capacity);

/* A round is built from empty, then sent. */
void round_begin(struct round *r);
/* True when another n orders fit. */
bool round_has_room(const struct round *r, uint32_t n);
void round_add(struct round *r, struct poller *p, const struct poller_command *order);
/* The same order to every poller. */
void round_add_all(const struct engine *e, struct round *r,
		   const struct poller_command *order);
/* A whole round: each poller passes between two turns, by when it has loaded every table
 * it uses anew. */
void round_fill_grace(struct engine *e, struct round *r);
/* done runs on the control thread, from rounds_finish(), never from here. */
void round_send(struct engine *e, struct round *r,
		void (*done)(struct engine *e, void *context), void *context);

int rounds_open(struct engine *e);
void rounds_close(struct engine *e);	/* pollers are gone: frees what is retired */
/* Runs the ends of rounds that are answered. True: there was one. */
bool rounds_finish(struct engine *e);

/* Zeroed memory that will be published to pollers. */
void *grace_alloc(size_t size);
/* Frees what was never published. NULL is ignored. */
void grace_discard(void *memory);
/* Unpublished before: freed once no poller can be reading it. NULL is ignored. */
void grace_free(struct engine *e, void *memory);
/* Sends what was retired on its way. */
void grace_advance(struct engine *e);

#endif /* TENT_ENGINE_ROUND_H */
