/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.h - what a tenant has in flight, by intent, against max_inflight_bytes and
 * max_inflight_requests of its contract. In flight is what a transport was given and has
 * not ended. One that would be too many is held: it is accepted, and waits for others of
 * its tenant and intent to end, in the order of levels and then as they came; or it fails,
 * where the contract lists what may be done in need and delay is not in it.
 *
 * A tenant's account lives as long as the engine, so that a request is taken off the one
 * that it was put on, whatever contracts say meanwhile. Each poller counts in a share of its
 * own and only reads the others'. Where there are several, one that begins is counted before
 * it looks at the others' shares again (F7), so of those that begin at the same time at most
 * as many do as there is room for. It may be that fewer do: the others begin a turn later, or
 * fail, where they may not wait.
 */
#ifndef TENT_ENGINE_BOUNDS_H
#define TENT_ENGINE_BOUNDS_H

#include "engine/poller_state.h"

/* One poller's part of an account. One writer; other pollers read bytes and requests. */
struct bounds_share {
	struct bounds_account *account;
	uint64_t bytes[INTENTS];
	uint32_t requests[INTENTS];
	struct transfer_queue held[INTENTS][LEVELS];
	uint32_t nr_held;		/* 0: not in the poller's list */
	struct bounds_share *next;
} __attribute__((aligned(128)));

struct bounds_account {
	struct bounds_account *next;
	char name[CONTRACT_NAME_SIZE];	/* of the tenant */
	uint32_t nr;
	struct bounds_share shares[];	/* of each poller */
};

/* Control thread. The account of that tenant, from the list or new in it. NULL: no memory. */
struct bounds_account *bounds_account(struct bounds_account **list, const char *name,
				      uint32_t nr_pollers);
void bounds_close(struct bounds_account **list);	/* pollers are gone */

/* Poller. May it begin? Else it is held, or has failed. */
bool bounds_admit(struct poller *p, struct ring_state *r, struct transfer *t);
/* One that was counted has ended. */
void bounds_ended(struct transfer *t);
/* Takes a held one out. */
void bounds_remove(struct poller *p, struct transfer *t);
/* Lets those begin that there is room for now; a bounded number. */
void bounds_release(struct poller *p);
/* Ends those that are held too long; bounded. */
void bounds_expire(struct poller *p, uint64_t now);

#endif /* TENT_ENGINE_BOUNDS_H */
