/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - the data path on plain memory, both ends in one thread: a poller in caller
 * mode (or with its thread), two clients with a few regions, rings whose slots the
 * test writes by hand, and a backend that copies or the null backend with faults.
 */
#ifndef TENT_TESTS_RIG_H
#define TENT_TESTS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/poller_state.h"
#include "engine/wakes.h"
#include "tests/common/random.h"

#define RIG_RINGS 4
#define RIG_BACKENDS 4
#define RIG_REGIONS 4
#define RIG_REGION_BYTES 65536u
#define RIG_PEER 1u	/* handle of the other client's segment, in both */
#define RIG_CLOSED 2u	/* a handle that was closed */

/* Client i's regions: 0 and 1 GLOBAL_READ_WRITE, 2 GLOBAL_READ_ONLY, 3
 * LOCAL_READ_WRITE; with a gap of a region after each. */
struct rig_client {
	struct client_space space;
	struct wake_account wakes;
	struct handle_table *handles;
	struct segment segment;
	struct region regions[RIG_REGIONS];
	uint8_t *memory;
};

struct rig_ring {
	struct ring_state *state;
	struct ring_host *host;
	uint32_t position;		/* of the next batch */
	uint32_t cq_head;		/* of the next completion */
	struct rig_client *client;
};

struct rig_options {
	const char *faults;		/* NULL: the copying backend, else null's faults */
	struct rig_backend {		/* or these, in this order, up to the first without ops */
		const struct backend *ops; /* the null backend, or a copy with another number */
		const char *faults;
	} backends[RIG_BACKENDS];
	uint32_t slots, completions;	/* 0: 64 */
	uint32_t first_position;
	struct poller_options poller;	/* turn_slots 0: the rig's defaults */
};

struct rig {
	struct poller *poller;
	struct poller_options options;
	struct rig_client clients[2];
	struct rig_ring rings[RIG_RINGS];	/* even ones client 0's, odd ones client 1's */
	struct backend_instance *insts[RIG_BACKENDS];
	struct backend_queue *queues[RIG_BACKENDS];
	struct backend_queue *queue;	/* the first */
	uint32_t nr_queues;
	struct tick_clock clock;
};

/* Moves bytes at once, at most the budget of each post. */
extern const struct backend rig_copy_backend;

void rig_start(struct rig *r, const struct rig_options *o);
/* The same for the one that a program has at a time. NULL: no options. */
struct rig *rig_new(const struct rig_options *o);
/* Stops the poller, checks that every admitted request ended, frees everything. */
void rig_stop(struct rig *r);

/* Slot i of the next batch, zeroed; its cell. */
struct tent_slot *rig_slot(struct rig_ring *ring, uint32_t i);
char *rig_cell(struct rig_ring *ring, uint32_t i);
/* ... as a sound request between offsets of the client's own memory and the peer's,
 * user_data as its position. */
struct tent_slot *rig_request(struct rig_ring *ring, uint32_t i, int opcode,
			      uint64_t source, uint64_t target, uint64_t length);
/* Fills a slot that lies anywhere. */
void rig_fill(const struct rig_client *from, struct tent_slot *s, int opcode,
	      uint64_t source, uint64_t target, uint64_t length);
/* Address of an offset in a client's memory. */
uint64_t rig_address(const struct rig_client *c, uint64_t offset);

/* Publishes the next batch: seq, nr, cq_head, op and flags. */
void rig_publish(struct rig_ring *ring, uint32_t nr, uint8_t op, uint16_t flags);

/* Publishes n sound requests of all priorities. */
void rig_burst(struct rig_ring *ring, uint32_t n, uint64_t target, uint64_t length);

/* Fails the test unless this completion refuses a batch of nr by its entry index. */
void rig_expect_refused(const struct tent_completion *c, uint16_t rule, uint32_t index,
			uint32_t nr);
/* The next completion, if it is there. */
bool rig_reap(struct rig_ring *ring, struct tent_completion *c);
/* One turn after the other until two in a row did nothing (caller mode). */
void rig_settle(struct rig *r);
/* Reaps one completion, after turns; fails the program when there is none. */
struct tent_completion rig_finish(struct rig *r, struct rig_ring *ring);
/* Reaps all completions that are there; how many. */
uint32_t rig_reap_all(struct rig_ring *ring);

/* Sends an order and turns until it is answered. */
void rig_order(struct rig *r, enum poller_command_type type, struct ring_state *ring,
	       struct region *region, uint16_t rule);

/* Ends the program with a line when good is false. */
void rig_need(bool good, const char *what);

#endif /* TENT_TESTS_RIG_H */
