/* SPDX-License-Identifier: Apache-2.0 */
/*
 * card.h - the cards as this process has them: joined to the host at the first open, then
 * kept until the process ends. One lock serialises engine, commands, wire and descriptors.
 */
#ifndef TENT_SIM_HCA_FRONT_CARD_H
#define TENT_SIM_HCA_FRONT_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/hca/engine/engine.h"
#include "sim/hca/host/host.h"
#include "sim/hca/uverbs/uverbs.h"
#include "sim/hca/wire/wire.h"

/* Where the program has mapped a UAR page. */
struct uar_mapping {
	struct uar_mapping *next;
	void *address;
	unsigned page;
};

struct card {
	struct uverbs_device uverbs;
	struct uverbs_env uverbs_env;
	struct hca_env hca_env;
	uint32_t index;
	uint64_t next_ns;		/* when hca_timers() is due */
	struct uar_mapping *mappings;
	bool is_stale;			/* a parent's, in the child of a fork */
};

/* One open() of a node. */
struct card_file {
	struct card *card;
	struct uverbs_file *uverbs;	/* NULL once the process forked */
	int fd;				/* our own copy of the program's descriptor */
};

/* What the process has of the host; all under the lock. */
struct process {
	pid_t owner;
	struct host *host;		/* NULL: not joined */
	struct wire *wire;
	struct card *cards[HOST_MAX_DEVICES];
	int kick_fd;			/* wakes the device's thread */
	uint64_t wakes_at_ns;		/* when that wakes by itself; 0: it is awake */
};

extern struct process process;

void card_lock(void);
void card_unlock(void);
/* For one who takes the lock over and over: lets others have it. */
void card_give_way(void);

uint64_t card_now_ns(void);

/* A child of vfork() shares our memory, but not our descriptors: what it does to its own
 * must not be done to these. */
bool process_is_ours(void);
/* Joins the host if need be. 0, or -errno as open() of a node would give. */
int process_join(void);
/* Device number index, made if need be, joined first. NULL and *error: there is none. */
struct card *card_get(uint32_t index, int *error);
/* Whether a fault keeps the program from opening this device. */
bool card_is_forbidden(const struct card *card);

/* After anything that may have queued packets or begun a timer: sends what waits, and sees
 * to it that the device's thread wakes in time. */
void card_settle(struct card *card);
/* The same, from the thread itself: when it has to run again. */
uint64_t card_run(void);

/* The connection manager is the holder's, so its packets pass by the process. What the program
 * asks of it shall not overtake what its own cards have sent: waits for the link. */
void card_send_first(void);
/* Nor shall what it tells overtake what came in before. */
void card_receive_first(void);

/* What the holder told. */
void card_host_event(const struct host_event *e);
/* The holder is gone: so are all devices. */
void card_host_lost(void);

/* ---- thread.c ---------------------------------------------------------------- */

/* Starts the device's thread. 0 or -errno. */
int thread_start(void);
/* Any thread, also in a signal handler. */
void thread_kick(void);
/* What has come in, or a part of it; false: nothing had. Any thread, not under the lock. */
bool thread_take_packets(void);
/* Polled: what has rung. Before a command, as a doorbell that rang before it is heard before
 * it. Any thread, not under the lock; false: nothing had. */
bool thread_poll_doorbells(void);
/* In the child of a fork. */
void thread_forget(void);

/* ---- uar.c -------------------------------------------------------------------- */

/* Before the first card: how stores are seen. */
void uar_init(void);
/* Watches a page that the program has mapped at address. 0 or -errno. */
int uar_mapped(struct card_file *f, void *address, uint64_t offset);
/* uverbs_env.uars_used and .uar_freed */
void uar_find_mappings(void *card);
void uar_freed(void *card, unsigned page);
/* These addresses are about to hold something else. */
void uar_range_goes(const void *start, size_t length);
/* Doorbells that could not be served where they rang; under the lock. */
void uar_run_deferred(void);

/* ---- mapping.c ---------------------------------------------------------------- */

/* What lies at these addresses is about to go: doorbells are no longer seen there, and the
 * device keeps what it has registered. Not under the lock. */
void mapping_goes(const void *start, size_t length);

#endif /* TENT_SIM_HCA_FRONT_CARD_H */
