/* SPDX-License-Identifier: Apache-2.0 */
/* wakes.c - see wakes.h. */
#include "engine/poller_state.h"
#include "engine/wakes.h"

/* Two system calls more than a plain wake, which only suspects pay. Unlike ticks, CPU
 * time has nothing of what others did who pushed us from the core. */
static void wake_charged(struct poller *p, struct ring_state *r, struct wake_account *a)
{
	uint64_t before = clock_thread_cpu_ns(), cost;

	ring_host_wake_client(&r->host);
	cost = clock_thread_cpu_ns() - before;
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
