/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wakes.h - what waking a tenant's clients may take of a poller's time.
 *
 * A wake walks everyone who waits on the ring's futex word or on its completion
 * descriptor, and a client can make these as many as it has processes and poll entries.
 * The poller pays, so its tenant is charged: after a costly wake the tenant's next one
 * waits until WAKE_PART times its cost have passed. Nothing is lost meanwhile; the late
 * look of complete_wake_missed() makes up for what was put off. One such wake can still
 * be long: the kernel alone bounds it, by RLIMIT_NPROC times RLIMIT_NOFILE.
 */
#ifndef TENT_ENGINE_WAKES_H
#define TENT_ENGINE_WAKES_H

#include <stdbool.h>
#include <stdint.h>

struct poller;
struct ring_state;

#define WAKE_CHEAP_NS 50000u	/* what nobody is charged for: some thirty sleepers */
#define WAKE_PART 16u		/* a tenant's costly wakes take less than 1/16 of a poller */

/* One per tenant; its poller's. Where a tenant's rings are on several, a charge may get
 * lost between two of them, and the next wake brings the next. */
struct wake_account {
	uint64_t until;		/* ticks: no wake before; 0: none was costly */
	bool suspect;		/* its last wake was slow: the next one's CPU time is read */
};

/* Wakes the client of a ring the way it wants, unless its tenant has to wait for that.
 * True: it was woken. The poller's thread. */
bool wake_client(struct poller *p, struct ring_state *r);

#endif /* TENT_ENGINE_WAKES_H */
