/* SPDX-License-Identifier: Apache-2.0 */
/* wakes.c - see wakes.h. */
#include <time.h>

#include "engine/poller_state.h"
#include "engine/wakes.h"

/* A thread that others push from its core is not charged for that, unlike by ticks. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Two system calls more than a plain wake, which only suspects pay. */
static void wake_charged(struct poller *p, struct ring_state *r, struct wake_account *a)
{
	uint64_t before = cpu_ns(), cost;

	ring_host_wake_client(&r->host);
	cost = cpu_ns() - before;
	a->suspect = cost > WAKE_CHEAP_NS;
	if (a->suspect)
		a->until = ticks_now() + poller_ticks(p, cost * WAKE_PART);
}

bool wake_client(struct poller *p, struct ring_state *r)
{
	struct wake_account *a = r->space->wakes;
	uint64_t now = ticks_now();

	if (unlikely(a->until)) {
		if ((int64_t)(now - a->until) < 0)
			return false;
		a->until = 0;
	}
	if (unlikely(a->suspect)) {
		wake_charged(p, r, a);
		return true;
	}
	ring_host_wake_client(&r->host);
	a->suspect = ticks_now() - now > p->cheap_wake_ticks;
	return true;
}
