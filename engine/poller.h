/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller.h - the busy loop that owns rings, and how the control thread talks to
 * it. Pollers share nothing with each other.
 */
#ifndef TENT_ENGINE_POLLER_H
#define TENT_ENGINE_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"
#include "engine/mem.h"
#include "ring/host.h"

struct meters;
struct notice;
struct paths;
struct poller;

enum poller_command_type {
	POLLER_ADD_RING,	/* ring: start serving it */
	POLLER_CLOSE_RING,	/* ring: end its work with rule; answered once none is left */
	POLLER_NOTICE_BACK,	/* notice: was the control thread's, see notice.h */
	POLLER_DROP_REGION,	/* region: end what touches it; answered once nothing does */
	POLLER_TELL_LOAD,	/* each backend: load_tell() */
	POLLER_STOP		/* end everything with rule and leave the loop */
};

/* One order from the control thread. The struct is the sender's and must live
 * until it is answered. */
struct poller_command {
	enum poller_command_type type;
	uint16_t rule;			/* enum tent_rule that work ends with */
	struct ring_state *ring;
	struct region *region;
	struct notice *notice;
	struct poller_command *next;	/* R8/A8 */
	uint32_t answered;		/* R8/A8 back; set when the poller is through */
	/* the poller's while it works on the order */
	struct ring_state *scan_ring;
	uint32_t scan_index;
	bool begun, found;
};

struct poller_options {
	bool adaptive;			/* may sleep */
	bool threaded;			/* false: caller mode, poller_turn() by hand */
	int core;			/* CPU to pin to, -1: none */
	uint64_t spin_ns;		/* idle time before it sleeps */
	uint64_t age_ns;		/* a queued entry rises one level after this */
	uint64_t request_timeout_ns;
	uint32_t turn_slots;		/* slots taken per ring and turn, at most */
	uint64_t turn_bytes;		/* bytes moved per turn before it looks at rings again,
					 * at most */
	uint32_t failover_attempts;	/* further ones of a request that a path failed */
	uint32_t path_errors;		/* of a path within path_window_ns begin a pause; */
	uint64_t path_window_ns;	/* 0: none do */
	uint64_t path_pause_ns, path_pause_max_ns; /* of it, doubled while that lasts */
	bool metered;			/* poller_meters_add() has something to add */
	bool no_priorities;		/* one level for all; the demo's control group */
	uint64_t urgent_ns;		/* deadlines so near are served in their order */
	uint32_t loose_percent;		/* of a level, for what is not; below 100 */
	uint32_t index;			/* of the poller in its engine */
	int answer_fd;			/* eventfd of the control thread, written on answers */
	int event_fd;			/* ends its sleep; from poller_event_fd_create() */
};

/* A snapshot of one poller, or one ring; sums are over its life. */
struct poller_stats {
	uint64_t batches, rejected_batches, requests;
	uint64_t completed, failed, canceled, timed_out;
	uint64_t read_bytes, written_bytes;
	uint64_t downgrades_intent, downgrades_priority, downgrades_policy, tails_ignored;
	uint64_t deadlines_met, deadlines_missed, deadlines_infeasible;
	uint64_t promotions, held, failovers, pauses, turns, sleeps;
	uint32_t rings, in_flight;
};

/* queues[i] for i < nr_queues: in the order plan prefers them; owned by the
 * caller, closed after poller_destroy(). 0 or -errno. */
int poller_create(struct poller **p, const struct poller_options *o,
		  struct backend_queue **queues, uint32_t nr_queues);
void poller_destroy(struct poller *p); /* after POLLER_STOP was answered */

/* Control thread. Queues an order and wakes the poller; the answer comes in
 * command->answered and on answer_fd. */
void poller_send(struct poller *p, struct poller_command *command);

/* The eventfd that ends the poller's sleep; it exists before the poller because
 * queue_open() takes it too. -errno on failure. */
int poller_event_fd_create(void);

/* Any thread. A descriptor that ends its sleep whenever it becomes readable. 0 or
 * -errno. */
int poller_watch_fd(struct poller *p, int fd);

/* Any thread. More threads spin than there are cores: the poller and the clients of
 * its rings give way to each other. A poller begins with what spin_usable_cores()
 * says about itself alone. */
void poller_set_yield(struct poller *p, bool yield);

/* Caller mode. One turn; true when it did anything. Serialised by the caller. */
bool poller_turn(struct poller *p);

/* Any thread. Adds what the poller has counted for metrics, if it does. */
void poller_meters_add(const struct poller *p, struct meters *sum);

/* Any thread. Which ways are paused, to ask paths_admit() about. */
struct paths *poller_paths(struct poller *p);

/* Any thread; values may be torn against each other, not in themselves. */
void poller_stats_read(const struct poller *p, struct poller_stats *out);

/* Control thread, or a chore. A ring for a client, not yet served; space outlives it. */
int ring_state_create(struct ring_state **r, const struct ring_geometry *g,
		      struct client_space *space);
void ring_state_destroy(struct ring_state *r); /* after POLLER_CLOSE_RING, or unserved */
struct ring_host *ring_state_host(struct ring_state *r);
void ring_stats_read(const struct ring_state *r, struct poller_stats *out);

#endif /* TENT_ENGINE_POLLER_H */
