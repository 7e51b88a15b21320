/* SPDX-License-Identifier: Apache-2.0 */
/* poller_state.h - what a poller is made of, for the files of the data path. */
#ifndef TENT_ENGINE_POLLER_STATE_H
#define TENT_ENGINE_POLLER_STATE_H

#include <pthread.h>

#include "engine/plan.h"
#include "engine/ring_state.h"

/* A round of the rings that have work in a line. */
struct sched_line {
	struct ring_state *first, *last;
};

struct poller {
	/* hot */
	struct ring_state *rings;
	struct ring_state *touched;	/* rings published into in this turn */
	struct poller_command *inbox;	/* R8/A8, senders push, newest first */
	struct poller_command *active;	/* begun and not answered, oldest first */
	struct sched_line lines[LINES];
	uint32_t nr_linked;		/* rings in lines, and nr_odd: 0, nothing waits */
	uint32_t nr_odd;		/* rings in due, and shares in held */
	struct transfer *failed;	/* posts that failed in this turn */
	uint32_t in_flight;		/* of all rings */
	uint32_t nr_posted;		/* of all rings */
	uint32_t indirect_entries;	/* of all rings: what INDIRECT batches hold */
	uint32_t nr_reclaiming;		/* INDIRECT batches whose memory goes back */
	bool stopped;
	uint64_t round;			/* of a level, counted over all of them */
	uint64_t next_tick;		/* ticks: when ageing and timeouts are due */
	struct tent_slot *slots;	/* turn_slots private copies */
	char (*cells)[TENT_CELL_SIZE];
	struct transfer **piece;	/* turn_slots records on their way */
	struct transfer **ended;	/* those of them that have ended already */
	struct region_hints hints;
	struct planner planner;
	struct meters *meters;		/* NULL: nobody serves them */
	/* settings */
	struct poller_options o;
	struct backend_queue **queues;
	uint32_t nr_queues;
	struct backend_queue *server;	/* the one that serves peers, or NULL */
	struct tick_clock clock;
	int64_t age_ticks, timeout_ticks; /* INT64_MAX: never; any thread may set the latter */
	uint64_t spin_ticks;
	uint64_t tick_period;		/* ticks between two looks at ages */
	uint64_t cheap_wake_ticks;	/* a slower wake is looked at, see wakes.h */
	uint64_t synced;		/* ticks: when clock was last set right */
	uint64_t resync_ticks, stale_ticks; /* when it should be, when it must be */
	int64_t quantum;		/* bytes a ring moves before the next one's go */
	int64_t turn_bytes;		/* bytes of a turn, see sched_size_turn() */
	int64_t direct_left;		/* bytes that sched_one() may still move in this turn */
	uint32_t yield;			/* any thread sets it; spinning gives way */
	bool yielding;			/* what the rings were told last */
	struct poller_stats stats;
	struct notice *notices;		/* R17/A17, for the control thread, newest first */
	/* sleeping */
	uint64_t idle_since;		/* ticks; 0: busy */
	uint32_t idle_turns;
	uint64_t slept_out;		/* sleeps that nobody ended */
	uint32_t unwatched;		/* rings whose eventfd epoll did not take */
	int epoll_fd;
	pthread_t thread;
	bool has_thread;
	struct paths paths;		/* that failed of late */
	/* what waits otherwise than in lines */
	struct heap due[LEVELS];	/* rings by their first deadline */
	struct ring_due *aside;		/* rings of a level that found no room in this round */
	uint64_t due_order;		/* of the next one that is EARLY */
	int64_t owed[LEVELS];		/* bytes that deadlines took from the level's other line */
	struct bounds_share *held;	/* whose tenants have enough in flight */
};

/* Sets p->clock right. */
void poller_resync(struct poller *p);

/* ticks_now() of a turn as CLOCK_MONOTONIC. */
static inline uint64_t poller_ns(const struct poller *p, uint64_t ticks)
{
	return ticks_to_ns(&p->clock, ticks);
}

/* How many ticks that many nanoseconds are. */
static inline uint64_t poller_ticks(const struct poller *p, uint64_t ns)
{
	return (uint64_t)(((unsigned __int128)ns << 32) / p->clock.tick_mult);
}

/* Are there peers to be served? */
static inline bool poller_serves(const struct poller *p)
{
	return unlikely(p->server) && (p->server->serves | load_relaxed(&p->server->called));
}

/* poller_command.c: begins, advances and answers orders. True: it did something. */
bool poller_commands(struct poller *p);

/* poller_sleep.c: after a turn in which nothing happened. */
void poller_idle(struct poller *p);
int poller_sleep_open(struct poller *p);
void poller_sleep_close(struct poller *p);
int poller_watch(struct poller *p, struct ring_state *r);
void poller_unwatch(struct poller *p, struct ring_state *r);
/* Tells rings whether spinning should yield, after it changed. */
void poller_tell_yield(struct poller *p);

/* ring_end.c: one bounded step of ending a ring. True: it did something. */
bool ring_end_step(struct poller *p, struct ring_state *r);

#endif /* TENT_ENGINE_POLLER_STATE_H */
