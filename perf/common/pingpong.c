/* SPDX-License-Identifier: Apache-2.0 */
/* pingpong.c - a bare cache-line ping-pong: what no shared-memory ring can beat. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "perf/common/machine.h"
#include "perf/common/pingpong.h"
#include "ring/clock.h"
#include "ring/order.h"

#define PAIRS 64u	/* how far two lines are from both cores depends on their address */

/* Each line has one writer; 128 bytes apart for the adjacent-line prefetch. */
struct court {
	struct pair {
		_Alignas(128) uint64_t ping;	/* the measuring thread writes */
		_Alignas(128) uint64_t pong;	/* the partner writes */
	} pairs[PAIRS];
	uint64_t warmup, rounds;		/* constant; of each pair */
};

static void *partner(void *arg)
{
	struct court *c = arg;

	for (uint32_t n = 0; n < PAIRS; n++) {
		struct pair *p = &c->pairs[n];

		for (uint64_t i = 1; i <= c->warmup + c->rounds; i++) {
			while (load_acquire(&p->ping) != i)	/* pairs with ping's store */
				;
			store_release(&p->pong, i);
		}
	}
	return NULL;
}

static void measure(struct pair *p, uint64_t warmup, uint64_t rounds, struct samples *ticks)
{
	for (uint64_t i = 1; i <= warmup + rounds; i++) {
		uint64_t begin = ticks_now();

		store_release(&p->ping, i);
		while (load_acquire(&p->pong) != i)	/* pairs with pong's store */
			;
		if (i > warmup)
			samples_add(ticks, ticks_now() - begin);
	}
}

int pingpong_run(int core, uint32_t warmup, uint32_t rounds, struct samples *ticks)
{
	struct court *c = aligned_alloc(4096, (sizeof(*c) + 4095) & ~(size_t)4095);
	pthread_t thread;
	int rc;

	if (!c)
		return -ENOMEM;
	memset(c, 0, sizeof(*c));
	c->warmup = warmup / PAIRS + 1;
	c->rounds = rounds / PAIRS + 1;
	rc = machine_start_on(core, &thread, partner, c);
	if (!rc) {
		for (uint32_t n = 0; n < PAIRS; n++)
			measure(&c->pairs[n], c->warmup, c->rounds, ticks);
		pthread_join(thread, NULL);
	}
	free(c);
	return rc;
}
