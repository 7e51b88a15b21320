/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the control thread: waits for sockets, deaths, answers of pollers and the
 * inbox, and does what follows. It waits nowhere else, so no client can hold it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/client.h"
#include "engine/peers.h"
#include "engine/reload.h"
#include "ring/wake.h"

#define EVENTS_PER_TURN 64
#define DRIVES_PER_TURN 64	/* caller mode: turns run before sockets are looked at */
#define PATROL_MS 100		/* between two looks at condemned clients */
#define CALLER_WAIT_MS 1	/* caller mode: between two turns that did nothing */

/* ---- sources ----------------------------------------------------------- */

static int source_control(struct engine *e, struct event_source *s, int op)
{
	struct epoll_event event = {
		.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (s->wants_out ? EPOLLOUT : 0u),
		.data.ptr = s,
	};

	return epoll_ctl(e->epoll_fd, op, s->fd, &event) < 0 ? -errno : 0;
}

int control_watch(struct engine *e, struct event_source *s, int fd,
		  void (*ready)(struct engine *e, struct event_source *s))
{
	int rc;

	s->fd = fd;
	s->ready = ready;
	rc = source_control(e, s, EPOLL_CTL_ADD);
	if (rc < 0)
		s->fd = -1;
	return rc;
}

void control_rearm(struct engine *e, struct event_source *s)
{
	if (s->fd >= 0)
		source_control(e, s, EPOLL_CTL_MOD);
}

void control_unwatch(struct engine *e, struct event_source *s)
{
	if (s->fd >= 0)
		source_control(e, s, EPOLL_CTL_DEL);
	s->fd = -1;
}

/* ---- inbox ------------------------------------------------------------- */

/* All under the lock: once the control thread sees the item, we are through with e,
 * which may be freed then. */
void control_post(struct engine *e, struct inbox_item *item)
{
	pthread_mutex_lock(&e->inbox_lock);
	if (item) {
		item->next = e->inbox;
		e->inbox = item;
	}
	wake_event_signal(e->wake_fd);
	pthread_mutex_unlock(&e->inbox_lock);
}

static void begin_stop(struct engine *e)
{
	if (e->stopping)
		return;
	e->stopping = true;
	for (struct listener *l = e->listeners; l; l = l->next)
		listener_stop(e, l);
	peers_stop(e);
	links_stop(e);
	reload_stop(e);
	for (struct client *c = e->clients, *next; c; c = next) {
		next = c->next;
		client_end(e, c, TENT_RULE_ENGINE_STOPPED);
		client_abandon_errand(e, c);
		client_look_again(e, c);
	}
}

bool control_collect(struct engine *e)
{
	struct inbox_item *list, *next;
	bool stop;

	pthread_mutex_lock(&e->inbox_lock);
	list = e->inbox;
	e->inbox = NULL;
	stop = e->stop_asked;
	pthread_mutex_unlock(&e->inbox_lock);
	for (; list; list = next) {
		next = list->next;
		list->arrive(e, list);
	}
	return stop;
}

static void inbox_ready(struct engine *e, struct event_source *s)
{
	wake_event_drain(s->fd);
	if (control_collect(e))
		begin_stop(e);
	control_rearm(e, s);
}

/* What was answered is looked for in any case. */
static void answers_ready(struct engine *e, struct event_source *s)
{
	wake_event_drain(s->fd);
	control_rearm(e, s);
}

/* ---- caller mode ------------------------------------------------------- */

static uint64_t turns_so_far(const struct engine *e)
{
	struct poller_stats s;

	poller_stats_read(e->pollers[0].poller, &s);
	return s.turns;
}

/* Work that no descriptor announces. */
static bool is_watched(const struct engine_poller *p)
{
	for (uint32_t i = 0; i < p->nr_queues; i++)
		if (load_relaxed(&p->queues[i]->watched))
			return true;
	return false;
}

/* Peers do not wait until the caller has something to do. While it drives by itself it is
 * not competed with, and what it is woken by does not wake us: it is looked after, a
 * thousand times a second. */
static void drive(struct engine *e)
{
	int drives = 0;

	e->drive_again = true;
	if (turns_so_far(e) == e->turns_seen && !load_relaxed(&e->driving)) {
		while (drives < DRIVES_PER_TURN && engine_drive(e))
			drives++;
		e->drive_again = drives == DRIVES_PER_TURN || is_watched(&e->pollers[0]);
	}
	e->turns_seen = turns_so_far(e);
	for (int i = 0; i < 2 && !e->drive_again; i++)
		control_rearm(e, &e->driver[i]);
}

static void driver_ready(struct engine *e, struct event_source *s)
{
	if (s->fd == e->pollers[0].event_fd)
		wake_event_drain(s->fd);
	drive(e);
}

static int watch_for_caller(struct engine *e)
{
	const struct engine_poller *p = &e->pollers[0];
	int rc;

	if (!e->config.caller_mode || !e->links.data_port)
		return 0;
	rc = control_watch(e, &e->driver[0], p->event_fd, driver_ready);
	if (rc == 0 && p->wait_fd >= 0)
		rc = control_watch(e, &e->driver[1], p->wait_fd, driver_ready);
	return rc;
}

/* ---- the loop ---------------------------------------------------------- */

/* Ends rounds; in caller mode runs the poller for them, as nobody else may. Returns how
 * long to wait for events then: 0 and CALLER_WAIT_MS when it has to go on, -1 when an
 * event will come. */
static int run_rounds(struct engine *e)
{
	for (int drives = 0; ; drives++) {
		while (rounds_finish(e))
			;
		grace_advance(e);
		if (!e->rounds.running || !e->config.caller_mode)
			return -1;
		if (drives == DRIVES_PER_TURN)
			return 0;
		if (!engine_drive(e))
			return CALLER_WAIT_MS;
	}
}

/* The SIGBUS handler only leaves a mark on its client, and a socket does not tell when
 * its other end has read everything. */
static void patrol(struct engine *e)
{
	for (struct client *c = e->clients, *next; c; c = next) {
		next = c->next;
		if (load_relaxed(&c->space.condemned))
			client_end(e, c, TENT_RULE_RING_MAPPING);
		client_look_again(e, c);
	}
	for (struct listener *l = e->listeners; l; l = l->next) {
		if (l->paused)
			listener_resume(e, l);
	}
	links_patrol(e);
}

static bool needs_patrol(const struct engine *e)
{
	const struct listener *l = e->listeners;

	while (l && !l->paused)
		l = l->next;
	return l || (e->guards && e->clients) || e->nr_lingering || e->nr_resting ||
	       links_need_patrol(e);
}

static void all_stopped(struct engine *e, void *context)
{
	(void)context;
	e->finished = true;
}

/* Once all clients have ended, our own links may: who is asked whether it has let go of what
 * was under way knows us by them. And then, once no table waits for its grace, pollers may
 * go. True: they were told. */
static bool finish_stop(struct engine *e)
{
	const struct poller_command order = {
		.type = POLLER_STOP, .rule = TENT_RULE_ENGINE_STOPPED,
	};

	if (!e->stopping || e->stop_sent || e->clients)
		return false;
	links_end(e);
	if (e->rounds.running || peers_busy(e))
		return false;
	e->stop_sent = true;
	round_begin(e->rounds.grace);
	round_add_all(e, e->rounds.grace, &order);
	round_send(e, e->rounds.grace, all_stopped, NULL);
	return true;
}

/* What a request was completed for goes before what its program asks for next. */
static void dispatch(struct engine *e, int timeout_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(e->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);

	notices_serve(e);
	for (int i = 0; i < n; i++) {
		struct event_source *s = events[i].data.ptr;

		if (s->fd >= 0)	/* not ended by an earlier one of these */
			s->ready(e, s);
	}
}

int control_open(struct engine *e)
{
	int rc = control_watch(e, &e->wake, e->wake_fd, inbox_ready);

	if (rc == 0)
		rc = control_watch(e, &e->answer, e->answer_fd, answers_ready);
	if (rc == 0)
		rc = watch_for_caller(e);
	return rc < 0 ? rc : links_start(e);
}

void *control_main(void *engine)
{
	struct engine *e = engine;
	int timeout_ms = -1;

	while (!e->finished) {
		bool more;

		dispatch(e, timeout_ms);
		more = notices_serve(e);	/* after their word for it was drained */
		if (e->drive_again)
			drive(e);
		if (needs_patrol(e))
			patrol(e);
		do {
			timeout_ms = run_rounds(e);
			clients_bury(e);
		} while (finish_stop(e));
		if (timeout_ms < 0 && needs_patrol(e))
			timeout_ms = PATROL_MS;
		if (e->drive_again && timeout_ms != 0)
			timeout_ms = CALLER_WAIT_MS;
		if (more)
			timeout_ms = 0;
	}
	return NULL;
}
