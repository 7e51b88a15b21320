/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_door.c - the thread that makes data connections and ends them, so that neither a
 * poller nor the control thread waits for a peer, or allocates for one. It waits for
 * nobody either.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/thread.h"
#include "io/tcp_door.h"
#include "ring/clock.h"
#include "ring/wake.h"

#define EVENTS 64
#define ACCEPTS_PER_TURN 64
#define PATROL_MS 20
#define BACKLOG 512

/* ---- connections ------------------------------------------------------- */

struct tcp_conn *door_conn_create(struct tcp_queue *q)
{
	struct tcp_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->frames = calloc(q->o.depth, sizeof(*c->frames));
	if (!c->frames) {
		free(c);
		return NULL;
	}
	c->queue = q;
	c->fd = -1;
	TAILQ_INIT(&c->free);
	TAILQ_INIT(&c->to_send);
	LIST_INIT(&c->awaited);
	return c;
}

void door_conn_hand_over(struct tcp_door *d, struct tcp_conn *c, int fd, uint32_t depth)
{
	c->fd = fd;
	c->depth = depth < c->queue->o.depth ? depth : c->queue->o.depth;
	for (uint32_t i = 0; i < c->depth; i++) {
		c->frames[i].conn = c;
		TAILQ_INSERT_TAIL(&c->free, &c->frames[i], link);
	}
	LIST_INSERT_HEAD(&d->conns, c, all);
	c->queue->nr_given++;
	c->note = (struct tcp_note){ .kind = NOTE_CONN, .about = c };
	tcp_queue_send(c->queue, &c->note);
}

struct tcp_queue *door_queue(const struct tcp_door *d)
{
	struct tcp_queue *least = d->inst->queues[0];

	for (uint32_t i = 1; i < d->inst->nr_queues; i++)
		if (d->inst->queues[i]->nr_given < least->nr_given)
			least = d->inst->queues[i];
	return least;
}

void door_peer_put(struct tcp_peer *p)
{
	if (p->left || p->nr_conns)
		return;
	LIST_REMOVE(p, all);
	tcp_peer_free(p);
}

static void guest_free_if_over(struct tcp_guest *g)
{
	if (!g->ended || g->nr_conns)
		return;
	LIST_REMOVE(g, all);
	guest_put(g->guest);
	free(g);
}

static void leave_guest(struct tcp_door *d, struct tcp_conn *c)
{
	LIST_REMOVE(c, of_guest);
	d->nr_guest_conns--;
	c->guest->nr_conns--;
	guest_free_if_over(c->guest);
}

void door_conn_free(struct tcp_door *d, struct tcp_conn *c)
{
	struct tcp_visit *v;

	if (c->fd >= 0) {
		LIST_REMOVE(c, all);
		if (d->running)
			c->queue->nr_given--;
		close(c->fd);
	}
	while ((v = LIST_FIRST(&c->awaited)))
		visit_welcome_fence(d, v);
	if (c->guest)
		leave_guest(d, c);
	if (c->line) {
		c->line->peer->nr_conns--;
		door_peer_put(c->line->peer);
	}
	free(c->frames);
	free(c);
}

void door_conn_retire(struct tcp_door *d, struct tcp_conn *c)
{
	(void)d;
	if (c->retiring || c->over)
		return;
	c->retiring = true;
	c->retire = (struct tcp_note){ .kind = NOTE_RETIRE, .about = c };
	tcp_queue_send(c->queue, &c->retire);
}

static void free_if_over(struct tcp_door *d, struct tcp_conn *c)
{
	if (c->over && !c->retiring)
		door_conn_free(d, c);
}

/* ---- notes ------------------------------------------------------------- */

static void guest_ends(struct tcp_door *d, struct tcp_guest *g)
{
	struct tcp_conn *c;

	g->ended = true;
	LIST_FOREACH(c, &g->conns, of_guest)
		door_conn_retire(d, c);
	guest_free_if_over(g);
}

static void take_note(struct tcp_door *d, struct tcp_note *n)
{
	struct tcp_conn *c = n->about;
	struct tcp_peer *p = n->about;
	struct tcp_guest *g = n->about;

	switch (n->kind) {
	case NOTE_CALL:
		visit_call(d, n->about);
		break;
	case NOTE_FENCE:
		visit_fence(d, c);
		break;
	case NOTE_OVER:
		c->over = true;
		free_if_over(d, c);
		break;
	case NOTE_RETIRE:
		c->retiring = false;
		free_if_over(d, c);
		break;
	case NOTE_PEER:
		LIST_INSERT_HEAD(&d->peers, p, all);
		break;
	case NOTE_LEAVE:
		p->left--;
		door_peer_put(p);
		break;
	case NOTE_GUEST:
		LIST_INSERT_HEAD(&d->guests, g, all);
		break;
	case NOTE_GUEST_ENDS:
		guest_ends(d, g);
		break;
	default:
		break;
	}
}

static void take_notes(struct tcp_door *d)
{
	struct tcp_note *n, *next;

	for (n = tcp_note_take(&d->inbox); n; n = next) {
		next = n->next;
		take_note(d, n);
	}
}

void tcp_door_send(struct tcp_instance *inst, struct tcp_note *n)
{
	tcp_note_push(&inst->door->inbox, n);
	wake_event_signal(inst->door->event_fd);
}

void tcp_queue_send(struct tcp_queue *q, struct tcp_note *n)
{
	tcp_note_push(&q->inbox, n);
	store_relaxed(&q->base.called, 1u);
	if (q->event_fd >= 0)
		wake_event_signal(q->event_fd);
}

/* ---- the loop ---------------------------------------------------------- */

/* Out of descriptors it stays readable, and nobody can do anything about it. */
static void listen_on(struct tcp_door *d, bool on)
{
	struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.ptr = d };

	d->paused = !on;
	epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, d->listen_fd, &e);
}

/* False: nothing more to accept now. */
static bool accept_one(struct tcp_door *d)
{
	int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		store_relaxed(&d->accepted, d->accepted + 1);
		take_notes(d);	/* it may have been told its token since the turn began */
		visit_receive(d, fd);
		return true;
	}
	if (errno == EAGAIN)
		return false;
	/* As links do: errors of the one connection come out here too. */
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		listen_on(d, false);
	return !d->paused;
}

static void accept_some(struct tcp_door *d)
{
	for (int i = 0; i < ACCEPTS_PER_TURN && accept_one(d); i++)
		;
}

static void bury(struct tcp_door *d)
{
	struct tcp_visit *v;

	while ((v = LIST_FIRST(&d->dead))) {
		LIST_REMOVE(v, all);
		free(v);
	}
}

static void patrol(struct tcp_door *d)
{
	uint64_t now = clock_monotonic_ns();
	struct tcp_visit *v, *next;

	for (v = LIST_FIRST(&d->visits); v; v = next) {
		next = LIST_NEXT(v, all);
		visit_patrol(d, v, now);
	}
	if (d->paused) {
		listen_on(d, true);
		accept_some(d);
	}
}

/* Notes before sockets: a peer may use what it was told a moment ago. */
static void turn(struct tcp_door *d)
{
	struct epoll_event events[EVENTS];
	bool waits = !LIST_EMPTY(&d->visits) || d->paused;
	int n = epoll_wait(d->epoll_fd, events, EVENTS, waits ? PATROL_MS : -1);

	wake_event_drain(d->event_fd);
	take_notes(d);
	for (int i = 0; i < n; i++) {
		struct tcp_visit *v = events[i].data.ptr;

		if (events[i].data.ptr == d)
			accept_some(d);
		else if (v && !v->over)
			visit_ready(d, v);
	}
	patrol(d);
	bury(d);
}

static void *door_main(void *arg)
{
	struct tcp_door *d = arg;

	pthread_setname_np(pthread_self(), "tent-tcp");
	while (!load_acquire(&d->stopping)) /* A16 */
		turn(d);
	return NULL;
}

/* ---- life -------------------------------------------------------------- */

static int watch(struct tcp_door *d, int fd, void *about)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = about };

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static uint16_t *port_of(struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? &((struct sockaddr_in *)a)->sin_port :
					 &((struct sockaddr_in6 *)a)->sin6_port;
}

/* Beside the engine's own address; its port into *port. */
static int listen_beside(struct tcp_door *d, const struct sockaddr *address, socklen_t size,
			 uint16_t *port)
{
	struct sockaddr_storage a = { 0 };
	socklen_t length = sizeof(a);
	int yes = 1;

	memcpy(&a, address, size);
	*port_of(&a) = htons(d->inst->o.port);
	d->listen_fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->listen_fd < 0)
		return -errno;
	setsockopt(d->listen_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (a.ss_family == AF_INET6)
		setsockopt(d->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(d->listen_fd, (struct sockaddr *)&a, size) < 0 ||
	    listen(d->listen_fd, BACKLOG) < 0 ||
	    getsockname(d->listen_fd, (struct sockaddr *)&a, &length) < 0)
		return -errno;
	*port = ntohs(*port_of(&a));
	return 0;
}

static int open_fds(struct tcp_door *d, const struct sockaddr *address, socklen_t size,
		    uint16_t *port)
{
	int rc;

	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->event_fd < 0 || d->epoll_fd < 0)
		return -errno;
	rc = listen_beside(d, address, size, port);
	if (rc == 0)
		rc = watch(d, d->event_fd, NULL);
	return rc < 0 ? rc : watch(d, d->listen_fd, d);
}

int tcp_door_open(struct tcp_instance *inst, const struct sockaddr *address, socklen_t size,
		  uint16_t *port)
{
	struct tcp_door *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->inst = inst;
	d->event_fd = d->epoll_fd = d->listen_fd = -1;
	inst->door = d;
	rc = open_fds(d, address, size, port);
	if (rc == 0)
		rc = thread_start_small(&d->thread, false, door_main, d);
	d->running = rc == 0;
	if (rc < 0)
		tcp_door_close(inst);
	return rc;
}

void tcp_door_stop(struct tcp_instance *inst)
{
	struct tcp_door *d = inst->door;

	if (!d || !d->running)
		return;
	store_release(&d->stopping, 1u); /* R16, pairs with A16 in door_main() */
	wake_event_signal(d->event_fd);
	pthread_join(d->thread, NULL);
	d->running = false;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Nobody runs, and the queues are gone: who came too late to be known. */
static void take_last_notes(struct tcp_door *d)
{
	struct tcp_note *n, *next;

	for (n = tcp_note_take(&d->inbox); n; n = next) {
		next = n->next;
		if (n->kind == NOTE_PEER || n->kind == NOTE_GUEST)
			take_note(d, n);
	}
}

/* The same: whatever is left is freed as it is. */
static void free_all(struct tcp_door *d)
{
	struct tcp_visit *v;
	struct tcp_conn *c;
	struct tcp_guest *g;
	struct tcp_peer *p;

	while ((v = LIST_FIRST(&d->visits)))
		visit_end(d, v);
	bury(d);
	while ((c = LIST_FIRST(&d->conns)))
		door_conn_free(d, c);
	while ((g = LIST_FIRST(&d->guests))) {
		g->ended = true;
		guest_free_if_over(g);
	}
	while ((p = LIST_FIRST(&d->peers))) {
		p->left = p->nr_conns = 0;
		door_peer_put(p);
	}
}

void tcp_door_close(struct tcp_instance *inst)
{
	struct tcp_door *d = inst->door;

	if (!d)
		return;
	tcp_door_stop(inst);
	take_last_notes(d);
	free_all(d);
	close_fd(d->event_fd);
	close_fd(d->epoll_fd);
	close_fd(d->listen_fd);
	free(d);
	inst->door = NULL;
}
