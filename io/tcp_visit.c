/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_visit.c - data connections in the making. Whoever calls says in its first 64 bytes
 * who it is and shows the token that its link was given; it is answered then, and a
 * stranger not at all. Strangers are few at a time, and not for long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/tcp_door.h"
#include "ring/clock.h"

static int watch(struct tcp_door *d, struct tcp_visit *v, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = v };

	return epoll_ctl(d->epoll_fd, op, v->fd, &e) < 0 ? -errno : 0;
}

static struct tcp_visit *visit_create(struct tcp_door *d, enum visit_state state, int fd)
{
	struct tcp_visit *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->state = state;
	v->fd = fd;
	v->until_ns = clock_monotonic_ns() + DOOR_HELLO_NS;
	LIST_INSERT_HEAD(&d->visits, v, all);
	d->nr_strangers += state == VISIT_STRANGER;
	return v;
}

static void close_fd(struct tcp_visit *v)
{
	if (v->fd >= 0)
		close(v->fd);
	v->fd = -1;
}

void visit_end(struct tcp_door *d, struct tcp_visit *v)
{
	struct tcp_conn *c = v->conn;

	close_fd(v);
	d->nr_strangers -= v->state == VISIT_STRANGER;
	if (v->state == VISIT_WAITS)
		LIST_REMOVE(v, awaited);
	v->over = true;
	v->conn = NULL;
	LIST_REMOVE(v, all);
	LIST_INSERT_HEAD(&d->dead, v, all);
	if (c && !v->for_fence)
		door_conn_free(d, c);	/* nobody else knew it */
}

/* From here on it is somebody else's descriptor. */
static int take_fd(struct tcp_door *d, struct tcp_visit *v)
{
	int fd = v->fd, yes = 1;

	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	fcntl(fd, F_SETFL, 0);	/* or io_uring would not wait for it */
	v->fd = -1;
	return fd;
}

/* ---- they call --------------------------------------------------------- */

void visit_receive(struct tcp_door *d, int fd)
{
	struct tcp_visit *v, *oldest = NULL;

	if (d->nr_strangers >= DOOR_STRANGERS) {
		LIST_FOREACH(v, &d->visits, all)
			if (v->state == VISIT_STRANGER)
				oldest = v;
		visit_end(d, oldest);
	}
	v = visit_create(d, VISIT_STRANGER, fd);
	if (!v)
		close(fd);
	else if (watch(d, v, EPOLL_CTL_ADD, EPOLLIN) < 0)
		visit_end(d, v);
	else
		visit_ready(d, v);
}

/* Compared as a whole: how long it takes says nothing about a token or a proof. */
static bool is_its(const struct guest *g, const struct tcp_hello *h)
{
	uint64_t right[2] = { g->token[0], g->token[1] };
	struct tcp_hello said = *h;

	if (g->epoch != h->caller_epoch || g->own_epoch != h->called_epoch)
		return false;
	said.token[0] = said.token[1] = 0;
	if (g->prove && !g->prove(g->key, &said, sizeof(said), right))
		return false;
	return !((right[0] ^ h->token[0]) | (right[1] ^ h->token[1]));
}

/* Whoever reads the wire can say again what proved a connection. Its name is then one that
 * was used, or one so old that nobody knows. */
static bool is_fresh(struct guest *g, uint64_t name)
{
	uint64_t ahead = name - g->newest, behind = g->newest - name;

	if (!g->prove)
		return true;
	if (name > g->newest) {
		g->seen = (ahead < 64 ? g->seen << ahead : 0) | 1;
		g->newest = name;
		return true;
	}
	if (behind >= 64 || g->seen >> behind & 1)
		return false;
	g->seen |= 1ull << behind;
	return true;
}

static struct tcp_guest *guest_of(const struct tcp_door *d, const struct tcp_hello *h)
{
	struct tcp_guest *g, *found = NULL;

	LIST_FOREACH(g, &d->guests, all)
		if (is_its(g->guest, h))
			found = g;
	return found && !found->ended ? found : NULL;
}

static bool is_hello(const struct tcp_hello *h)
{
	return h->magic == TCP_HELLO_MAGIC && h->version == TCP_VERSION && !h->resv0 &&
	       !h->resv1 && h->level < LEVELS &&
	       (h->purpose == TCP_FOR_DATA || h->purpose == TCP_FOR_FENCE);
}

/* A new socket takes so little at once. */
static bool say_welcome(int fd, uint32_t depth, uint64_t connection)
{
	const struct tcp_welcome w = {
		.magic = TCP_HELLO_MAGIC, .version = TCP_VERSION, .depth = depth,
		.connection = connection,
	};

	return send(fd, &w, sizeof(w), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(w);
}

/* Nobody takes all the places, however many links it has. */
static bool has_place(const struct tcp_door *d, const struct tcp_guest *g)
{
	const struct tcp_guest *other;
	uint32_t nr = 0;

	LIST_FOREACH(other, &d->guests, all)
		nr += other->guest->kin == g->guest->kin ? other->nr_conns : 0;
	return g->nr_conns < TCP_GUEST_CONNS && nr < TCP_CONNS_MAX / 2 &&
	       d->nr_guest_conns < TCP_CONNS_MAX;
}

static void let_in(struct tcp_door *d, struct tcp_visit *v, struct tcp_guest *g)
{
	struct tcp_conn *c = NULL;

	if (has_place(d, g))
		c = door_conn_create(door_queue(d));
	if (!c || !say_welcome(v->fd, c->queue->o.depth, v->hello.connection)) {
		if (c) {
			free(c->frames);
			free(c);
		}
		visit_end(d, v);
		return;
	}
	c->id = v->hello.connection;
	c->guest = g;
	g->nr_conns++;
	d->nr_guest_conns++;
	LIST_INSERT_HEAD(&g->conns, c, of_guest);
	door_conn_hand_over(d, c, take_fd(d, v), UINT32_MAX);
	visit_end(d, v);
}

void visit_welcome_fence(struct tcp_door *d, struct tcp_visit *v)
{
	say_welcome(v->fd, 0, v->hello.connection);
	visit_end(d, v);
}

/* Answered when that connection is closed: then it was received from for the last time. */
static void fence(struct tcp_door *d, struct tcp_visit *v, struct tcp_guest *g)
{
	struct tcp_conn *c;

	LIST_FOREACH(c, &g->conns, of_guest)
		if (c->id == v->hello.connection)
			break;
	if (!c) {
		visit_welcome_fence(d, v);
		return;
	}
	d->nr_strangers--;
	v->state = VISIT_WAITS;
	LIST_INSERT_HEAD(&c->awaited, v, awaited);
	door_conn_retire(d, c);
}

static void judge(struct tcp_door *d, struct tcp_visit *v)
{
	struct tcp_guest *g = is_hello(&v->hello) ? guest_of(d, &v->hello) : NULL;

	if (!g || (v->hello.purpose == TCP_FOR_DATA && !is_fresh(g->guest, v->hello.connection))) {
		store_relaxed(&d->turned_away, d->turned_away + 1);
		visit_end(d, v);
	} else if (v->hello.purpose == TCP_FOR_DATA) {
		let_in(d, v, g);
	} else {
		fence(d, v, g);
	}
}

/* ---- we call ----------------------------------------------------------- */

static void call_failed(struct tcp_door *d, struct tcp_visit *v)
{
	struct tcp_line *l = v->conn->line;

	if (v->for_fence) {
		epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, v->fd, NULL);
		close_fd(v);
		v->state = VISIT_RESTS;
		v->retry_ns = clock_monotonic_ns() + DOOR_RETRY_NS;
		return;
	}
	l->call = (struct tcp_note){ .kind = NOTE_FAILED, .about = l };
	tcp_queue_send(l->queue, &l->call);
	visit_end(d, v);
}

/* The same address as the link's, another port. False: it does not even begin. */
static bool dial(struct tcp_door *d, struct tcp_visit *v)
{
	const struct far_end *end = &v->conn->line->peer->end;
	struct sockaddr_storage a = { 0 };

	memcpy(&a, end->address, end->address_size);
	if (a.ss_family == AF_INET)
		((struct sockaddr_in *)&a)->sin_port = htons(end->data_port);
	else
		((struct sockaddr_in6 *)&a)->sin6_port = htons(end->data_port);
	v->state = VISIT_DIALS;
	v->have = 0;
	v->fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (v->fd < 0)
		return false;
	if (connect(v->fd, (struct sockaddr *)&a, end->address_size) < 0 &&
	    errno != EINPROGRESS)
		return false;
	return watch(d, v, EPOLL_CTL_ADD, EPOLLOUT) == 0;
}

void visit_call(struct tcp_door *d, struct tcp_line *l)
{
	struct tcp_conn *c = door_conn_create(l->queue);
	struct tcp_visit *v = c ? visit_create(d, VISIT_DIALS, -1) : NULL;

	if (!v) {
		if (c)
			free(c->frames);
		free(c);
		l->call = (struct tcp_note){ .kind = NOTE_FAILED, .about = l };
		tcp_queue_send(l->queue, &l->call);
		return;
	}
	c->line = l;
	l->peer->nr_conns++;
	c->id = ++d->last_name;
	v->conn = c;
	if (!dial(d, v))
		call_failed(d, v);
}

void visit_fence(struct tcp_door *d, struct tcp_conn *c)
{
	struct tcp_visit *v = visit_create(d, VISIT_DIALS, -1);

	if (!v) {
		c->note = (struct tcp_note){ .kind = NOTE_FENCED, .about = c };
		tcp_queue_send(c->queue, &c->note);
		return;
	}
	v->for_fence = true;
	v->conn = c;
	v->until_ns = clock_monotonic_ns() + d->inst->o.fence_ns / 2;
	if (!dial(d, v))
		call_failed(d, v);
}

static void say_hello(struct tcp_door *d, struct tcp_visit *v)
{
	const struct tcp_line *l = v->conn->line;
	const struct far_end *end = &l->peer->end;
	struct tcp_hello h = {
		.magic = TCP_HELLO_MAGIC, .version = TCP_VERSION,
		.purpose = v->for_fence ? TCP_FOR_FENCE : TCP_FOR_DATA,
		.level = (uint16_t)l->level, .caller_epoch = end->own_epoch,
		.called_epoch = end->epoch, .connection = v->conn->id,
	};
	uint64_t token[2] = { end->token[0], end->token[1] };
	bool proven = !end->prove || end->prove(end->key, &h, sizeof(h), token);

	memcpy(h.token, token, sizeof(token));
	v->state = VISIT_SAID;
	if (!proven || send(v->fd, &h, sizeof(h), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(h) ||
	    watch(d, v, EPOLL_CTL_MOD, EPOLLIN) < 0)
		call_failed(d, v);
}

static void fence_answered(struct tcp_door *d, struct tcp_visit *v, bool fenced)
{
	struct tcp_conn *c = v->conn;

	c->fenced = fenced;
	visit_end(d, v);
	c->note = (struct tcp_note){ .kind = NOTE_FENCED, .about = c };
	tcp_queue_send(c->queue, &c->note);
}

static void welcomed(struct tcp_door *d, struct tcp_visit *v)
{
	const struct tcp_welcome *w = &v->welcome;
	struct tcp_conn *c = v->conn;

	if (w->magic != TCP_HELLO_MAGIC || w->version != TCP_VERSION || w->resv0 || w->resv1 ||
	    w->connection != c->id || (!w->depth && !v->for_fence)) {
		call_failed(d, v);
	} else if (v->for_fence) {
		fence_answered(d, v, true);
	} else {
		v->conn = NULL;
		door_conn_hand_over(d, c, take_fd(d, v), w->depth);
		visit_end(d, v);
	}
}

/* ---- both -------------------------------------------------------------- */

/* 1: all of it is here, 0: more is to come, -1: none will. */
static int fill(struct tcp_visit *v, uint32_t size)
{
	ssize_t n = recv(v->fd, v->bytes + v->have, size - v->have, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	v->have += (uint32_t)n;
	return v->have == size;
}

static void stranger_ready(struct tcp_door *d, struct tcp_visit *v)
{
	int rc = fill(v, sizeof(v->hello));

	if (rc > 0)
		judge(d, v);
	else if (rc < 0)
		visit_end(d, v);
}

static void answer_ready(struct tcp_door *d, struct tcp_visit *v)
{
	int rc = fill(v, sizeof(v->welcome));

	if (rc > 0)
		welcomed(d, v);
	else if (rc < 0)
		call_failed(d, v);
}

static void dial_ready(struct tcp_door *d, struct tcp_visit *v)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(v->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
		call_failed(d, v);
	else
		say_hello(d, v);
}

void visit_ready(struct tcp_door *d, struct tcp_visit *v)
{
	switch (v->state) {
	case VISIT_DIALS:
		dial_ready(d, v);
		break;
	case VISIT_SAID:
		answer_ready(d, v);
		break;
	case VISIT_STRANGER:
		stranger_ready(d, v);
		break;
	case VISIT_WAITS:	/* it says more, or leaves: it waits for nothing any more */
		visit_end(d, v);
		break;
	case VISIT_RESTS:
		break;
	}
}

void visit_patrol(struct tcp_door *d, struct tcp_visit *v, uint64_t now)
{
	if (v->state == VISIT_WAITS)
		return;		/* for our own poller, which is bounded */
	if (now >= v->until_ns && v->for_fence) {
		fence_answered(d, v, false);
	} else if (now >= v->until_ns && v->conn) {
		call_failed(d, v);
	} else if (now >= v->until_ns) {
		visit_end(d, v);
	} else if (v->state == VISIT_RESTS && now >= v->retry_ns && !dial(d, v)) {
		call_failed(d, v);
	}
}
