/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chore.h - what takes as long as a client's memory has pages: to take them, and to give
 * the last reference to them back; or as long as a copy that is under way. A thread of its
 * own does it; the client is busy until then, others are served. It ends by itself, so
 * that a stop waits for it - unlike an errand (errand.h), which a client can make wait for
 * ever.
 */
#ifndef TENT_ENGINE_CHORE_H
#define TENT_ENGINE_CHORE_H

#include "engine/control.h"

/* Part of struct client, which has one at a time. */
struct chore {
	struct inbox_item item;		/* first: how it comes back */
	struct client *client;
	void (*run)(struct client *c);
	void (*done)(struct engine *e, struct client *c);
};

/* run, on that thread, touches nothing but the memory it is about; done, back on the
 * control thread, ends in client_idle() as a round's does. */
void chore_send(struct engine *e, struct client *c, void (*run)(struct client *c),
		void (*done)(struct engine *e, struct client *c));

#endif /* TENT_ENGINE_CHORE_H */
