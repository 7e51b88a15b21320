/* SPDX-License-Identifier: Apache-2.0 */
/* chore.c - long work on a client's memory, away from the control thread. */
#include "engine/client.h"
#include "engine/thread.h"

static void *chore_main(void *arg)
{
	struct chore *chore = arg;

	chore->run(chore->client);
	control_post(chore->item.engine, &chore->item);
	return NULL;
}

static void chore_back(struct engine *e, struct inbox_item *item)
{
	struct chore *chore = (struct chore *)item;

	chore->done(e, chore->client);	/* may send it again */
}

void chore_send(struct engine *e, struct client *c, void (*run)(struct client *c),
		void (*done)(struct engine *e, struct client *c))
{
	pthread_t thread;

	c->busy = true;
	c->chore = (struct chore){
		.item = { .arrive = chore_back, .engine = e },
		.client = c, .run = run, .done = done,
	};
	/* Out of threads: late is better than never. */
	if (thread_start_small(&thread, true, chore_main, &c->chore) < 0)
		chore_main(&c->chore);
}
