/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poller_sleep.c - what a poller does when there is nothing to do: spin, give way, or
 * sleep until a client, a backend or the control thread writes an eventfd.
 *
 * F6: it sets NEED_WAKE in every ring, wake_barrier(), looks again, sleeps. A client
 * that publishes after the look sees the flag and writes the ring's eventfd. Watching
 * is edge-triggered, so no eventfd is ever read: it is shared with the client, which
 * could empty it before we do and make us block.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/intake.h"
#include "engine/sched.h"
#include "ring/wake.h"

#define SLEEP_MAX_MS 10
#define SLEEP_UNSURE_MS 1	/* a wakeup may be missed, see sleep_now() */
#define SLEEP_CHECK_IDLE_TURNS 32u /* idle turns between two thoughts of sleep */
#define EVENTS 16

int poller_event_fd_create(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static int watch(struct poller *p, int fd)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };

	return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

int poller_sleep_open(struct poller *p)
{
	if (!p->o.threaded)
		return 0;
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0)
		return -errno;
	return watch(p, p->o.event_fd);
}

void poller_sleep_close(struct poller *p)
{
	if (p->epoll_fd >= 0)
		close(p->epoll_fd);
	p->epoll_fd = -1;
}

int poller_watch(struct poller *p, struct ring_state *r)
{
	return p->epoll_fd < 0 ? 0 : watch(p, r->host.event_fd);
}

int poller_watch_fd(struct poller *p, int fd)
{
	return p->epoll_fd < 0 ? 0 : watch(p, fd);
}

void poller_unwatch(struct poller *p, struct ring_state *r)
{
	if (p->epoll_fd >= 0)
		epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, r->host.event_fd, NULL);
}

/* ---- giving way -------------------------------------------------------- */

void poller_set_yield(struct poller *p, bool yield)
{
	store_relaxed(&p->yield, (uint32_t)yield);
}

static void set_flags(struct poller *p, uint32_t set, uint32_t clear)
{
	for (struct ring_state *r = p->rings; r; r = r->next)
		ring_host_set_flags(&r->host, set, clear);
}

void poller_tell_yield(struct poller *p)
{
	p->yielding = load_relaxed(&p->yield);
	set_flags(p, p->yielding ? TENT_ENGINE_SPIN_YIELD : 0,
		  p->yielding ? 0 : TENT_ENGINE_SPIN_YIELD);
}

/* ---- sleeping ---------------------------------------------------------- */

static bool ring_waits(const struct ring_state *r)
{
	if (r->end_rule)
		return !r->ended;
	return r->attention || intake_has_batch(r) || load_relaxed(&r->space->condemned);
}

/* Work that no eventfd announces. */
static bool is_waited_for(const struct poller *p)
{
	if (load_relaxed(&p->inbox) || p->active || sched_waits(p) || p->nr_reclaiming)
		return true;
	for (uint32_t i = 0; i < p->nr_queues; i++)
		if (load_relaxed(&p->queues[i]->watched))
			return true;
	for (const struct ring_state *r = p->rings; r; r = r->next)
		if (ring_waits(r))
			return true;
	return false;
}

/* False: nobody woke it for so long. */
static bool sleep_for(const struct poller *p, int ms)
{
	struct epoll_event events[EVENTS];

	return epoll_wait(p->epoll_fd, events, EVENTS, ms) != 0;
}

/* A client the barrier did not reach (order.h says when) may have published unseen, but
 * its store is here after the first, short sleep, and later ones see the flag. Only an
 * unwatched ring has nobody to wake us at all. */
static void sleep_now(struct poller *p)
{
	set_flags(p, TENT_ENGINE_NEED_WAKE, 0);
	wake_barrier(); /* F6 */
	if (!is_waited_for(p)) {
		stat_add(&p->stats.sleeps, 1);
		if (!sleep_for(p, SLEEP_UNSURE_MS) &&
		    (p->unwatched || is_waited_for(p) ||
		     !sleep_for(p, SLEEP_MAX_MS - SLEEP_UNSURE_MS)))
			stat_add(&p->slept_out, 1);
	}
	set_flags(p, 0, TENT_ENGINE_NEED_WAKE);
}

void poller_idle(struct poller *p)
{
	if (unlikely(p->yielding != (bool)load_relaxed(&p->yield)))
		poller_tell_yield(p);
	if (p->yielding)
		sched_yield();
	if (!p->o.adaptive || p->idle_turns % SLEEP_CHECK_IDLE_TURNS)
		return;
	if (!p->idle_since)
		p->idle_since = ticks_now();
	else if (ticks_now() - p->idle_since >= p->spin_ticks && !is_waited_for(p))
		sleep_now(p);
}
