/* SPDX-License-Identifier: Apache-2.0 */
/* pingpong.c - a bare cache-line ping-pong: what no shared-memory ring can beat. */
#include <pthread.h>

#include "perf/common/machine.h"
#include "perf/common/pingpong.h"
#include "ring/clock.h"
#include "ring/order.h"

/* Each line has one writer; 128 bytes apart for the adjacent-line prefetch. */
struct court {
	_Alignas(128) uint64_t ping;	/* the measuring thread writes */
	_Alignas(128) uint64_t pong;	/* the partner writes */
	_Alignas(128) uint64_t rounds;	/* constant */
};

static void *partner(void *arg)
{
	struct court *c = arg;

	for (uint64_t i = 1; i <= c->rounds; i++) {
		while (load_acquire(&c->ping) != i)	/* pairs with ping's store */
			;
		store_release(&c->pong, i);
	}
	return NULL;
}

static void measure(struct court *c, uint32_t warmup, struct samples *ticks)
{
	for (uint64_t i = 1; i <= c->rounds; i++) {
		uint64_t begin = ticks_now();

		store_release(&c->ping, i);
		while (load_acquire(&c->pong) != i)	/* pairs with pong's store */
			;
		if (i > warmup)
			samples_add(ticks, ticks_now() - begin);
	}
}

int pingpong_run(int core, uint32_t warmup, uint32_t rounds, struct samples *ticks)
{
	struct court c = { .rounds = (uint64_t)warmup + rounds };
	pthread_t thread;
	int rc = machine_start_on(core, &thread, partner, &c);

	if (rc)
		return rc;
	measure(&c, warmup, ticks);
	pthread_join(thread, NULL);
	return 0;
}
