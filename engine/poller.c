/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller.c - the turn: orders, rings, backends, scheduler, wakeups, the slow clock.
 * A turn is bounded whatever clients do; an idle one looks at one line per ring.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/complete.h"
#include "engine/due.h"
#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/meters.h"
#include "engine/sched.h"
#include "engine/stats.h"
#include "engine/thread.h"
#include "ring/spin.h"
#include "ring/wake.h"

#define RESYNC_NS 1000000000u	/* between two looks at CLOCK_MONOTONIC, while turns are idle */
#define STALE_NS 10000000000u	/* a clock this old is set right even in a busy turn */
#define TICK_MIN_NS 100000u
#define TICK_MAX_NS 1000000u
#define TEND_IDLE_TURNS 64u	/* idle turns between two looks at silent rings */

/* ---- the turn ---------------------------------------------------------- */

__attribute__((noinline)) void poller_resync(struct poller *p)
{
	tick_clock_resync(&p->clock);
	p->synced = ticks_now();
}

/* What silent rings need now and then: an end when the SIGBUS handler condemned their
 * client, and a wake that was missed. */
static void tend_rings(struct poller *p)
{
	for (struct ring_state *r = p->rings; r; r = r->next) {
		if (load_relaxed(&r->space->condemned))
			ring_begin_end(r, TENT_RULE_RING_MAPPING);
		complete_wake_missed(r);
	}
}

/* Ageing and timeouts; only while something is in flight. */
static void slow_clock(struct poller *p)
{
	uint64_t now = ticks_now();

	if (now < p->next_tick)
		return;
	p->next_tick = now + p->tick_period;
	sched_tick(p, now);
	tend_rings(p);
	if (now - p->synced > p->resync_ticks)
		poller_resync(p);
}

static __attribute__((noinline)) void idle_clock(struct poller *p)
{
	if (++p->idle_turns % TEND_IDLE_TURNS)
		return;
	tend_rings(p);
	sched_poll(p);		/* backends that hold nothing may have to tidy up */
	if (ticks_now() - p->synced > p->resync_ticks)
		poller_resync(p);
}

/* What earlier turns left, and what this one took and did not end at once. */
static __attribute__((noinline)) bool go_on(struct poller *p)
{
	bool any = false;

	if (unlikely(p->nr_posted || poller_serves(p)))
		any |= sched_poll(p);
	if (sched_waits(p))
		any |= sched_turn(p);
	if (unlikely(p->nr_reclaiming))
		any |= indirect_reclaim(p);
	if (p->in_flight)
		slow_clock(p);
	return any;
}

bool poller_turn(struct poller *p)
{
	bool any = false;
	uint32_t nr;

	p->direct_left = p->turn_bytes;
	if (unlikely(load_relaxed(&p->inbox) || p->active))
		any = poller_commands(p);
	for (struct ring_state *r = p->rings; r; r = r->next) {
		if (unlikely(r->attention))
			any |= r->end_rule ? ring_end_step(p, r) : intake_attend(p, r);
		else if (ring_host_peek(&r->host, &nr))
			any |= intake_ring(p, r);
	}
	if ((p->nr_posted | p->nr_linked | p->nr_reclaiming | p->in_flight) ||
	    poller_serves(p))
		any |= go_on(p);
	complete_wake(p);
	stat_add(&p->stats.turns, 1);
	if (!any)
		idle_clock(p);
	return any;
}

/* ---- the thread -------------------------------------------------------- */

static void *poller_main(void *arg)
{
	struct poller *p = arg;

	while (!p->stopped)
		if (poller_turn(p))
			p->idle_since = 0;
		else
			poller_idle(p);
	return NULL;
}

static int pin(pthread_attr_t *attr, int core)
{
	cpu_set_t set;

	if (core < 0)
		return 0;
	if (core >= CPU_SETSIZE)
		return -EINVAL;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return -pthread_attr_setaffinity_np(attr, sizeof(set), &set);
}

static int start_thread(struct poller *p)
{
	pthread_attr_t attr;
	int rc;

	rc = -pthread_attr_init(&attr);
	if (rc < 0)
		return rc;
	rc = pin(&attr, p->o.core);
	if (rc == 0)
		rc = thread_start(&p->thread, &attr, poller_main, p);
	pthread_attr_destroy(&attr);
	if (rc < 0)
		return rc;
	p->has_thread = true;
	pthread_setname_np(p->thread, "tent-poller");
	return 0;
}

/* ---- making and freeing ------------------------------------------------ */

/* 0 turns ageing, or the timeout, off. */
static int64_t ticks_or_never(const struct poller *p, uint64_t ns)
{
	uint64_t ticks = ns ? poller_ticks(p, ns) : INT64_MAX;

	return ticks < INT64_MAX ? (int64_t)ticks : INT64_MAX;
}

static void set_times(struct poller *p)
{
	uint64_t period = p->o.age_ns / 8;

	period = period < TICK_MIN_NS ? TICK_MIN_NS : period > TICK_MAX_NS ? TICK_MAX_NS : period;
	p->tick_period = poller_ticks(p, period);
	p->cheap_wake_ticks = poller_ticks(p, WAKE_CHEAP_NS);
	p->spin_ticks = poller_ticks(p, p->o.spin_ns);
	p->resync_ticks = poller_ticks(p, RESYNC_NS);
	p->stale_ticks = poller_ticks(p, STALE_NS);
	p->age_ticks = ticks_or_never(p, p->o.age_ns);
	p->timeout_ticks = ticks_or_never(p, p->o.request_timeout_ns);
	p->paths.errors = p->o.path_errors;
	p->paths.window = poller_ticks(p, p->o.path_window_ns);
	p->paths.pause = poller_ticks(p, p->o.path_pause_ns);
	p->paths.pause_max = poller_ticks(p, p->o.path_pause_max_ns);
}

static int make_staging(struct poller *p)
{
	uint32_t n = p->o.turn_slots;

	p->slots = aligned_alloc(64, n * sizeof(*p->slots));
	p->cells = aligned_alloc(64, n * sizeof(*p->cells));
	p->piece = calloc(n, sizeof(*p->piece));
	p->ended = calloc(n, sizeof(*p->ended));
	if (!p->slots || !p->cells || !p->piece || !p->ended)
		return -ENOMEM;
	if (p->o.metered) {
		p->meters = calloc(1, sizeof(*p->meters));
		if (!p->meters)
			return -ENOMEM;
	}
	memset(p->slots, 0, n * sizeof(*p->slots));
	memset(p->cells, 0, n * sizeof(*p->cells));
	return 0;
}

static void free_all(struct poller *p)
{
	poller_sleep_close(p);
	free(p->slots);
	free(p->cells);
	free(p->piece);
	free(p->ended);
	free(p->meters);
	free(p);
}

int poller_create(struct poller **out, const struct poller_options *o,
		  struct backend_queue **queues, uint32_t nr_queues)
{
	struct poller *p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
	int rc;

	if (!p)
		return -ENOMEM;
	*p = (struct poller){ .o = *o, .queues = queues, .nr_queues = nr_queues,
			      .epoll_fd = -1 };
	p->o.turn_slots = o->turn_slots ? o->turn_slots : 1;
	p->o.turn_bytes = o->turn_bytes > SCHED_POST_BYTES ? o->turn_bytes : SCHED_POST_BYTES;
	p->o.urgent_ns = o->no_priorities ? 0 : o->urgent_ns;
	p->quantum = p->o.turn_bytes < SCHED_QUANTUM ? (int64_t)p->o.turn_bytes : SCHED_QUANTUM;
	sched_size_turn(p);
	for (uint32_t i = 0; i < nr_queues; i++)
		if (queues[i]->ops->peers_open)
			p->server = queues[i];
	p->planner.paths = &p->paths;
	due_open(p);
	tick_clock_calibrate(&p->clock);
	p->synced = ticks_now();
	set_times(p);
	wake_barrier_register();	/* F5: our clients' sleep reaches us */
	rc = make_staging(p);
	if (rc == 0)
		rc = poller_sleep_open(p);
	p->yield = o->threaded && spin_usable_cores() < 2;
	if (rc == 0 && o->threaded)
		rc = start_thread(p);
	if (rc < 0) {
		free_all(p);
		return rc;
	}
	*out = p;
	return 0;
}

void poller_destroy(struct poller *p)
{
	if (!p)
		return;
	if (p->has_thread)
		pthread_join(p->thread, NULL);
	free_all(p);
}

void poller_meters_add(const struct poller *p, struct meters *sum)
{
	if (p->meters)
		meters_add(sum, p->meters);
}

struct paths *poller_paths(struct poller *p)
{
	return &p->paths;
}

void poller_stats_read(const struct poller *p, struct poller_stats *out)
{
	stats_copy(out, &p->stats);
	out->rings = load_relaxed(&p->stats.rings);
	out->in_flight = load_relaxed(&p->in_flight);
}
