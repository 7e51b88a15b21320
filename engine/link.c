/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - one connection between engines: bytes in, bytes out, and who is there. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/peers.h"
#include "engine/wired.h"

#define READ_PER_TURN 16384u	/* a link that sends much waits for its neighbours */

/* ---- out --------------------------------------------------------------- */

/* False: the link has ended. */
bool link_flush(struct engine *e, struct link *l)
{
	size_t sent = 0;

	if (!l->out_used)
		return true;
	while (sent < l->out_used) {
		ssize_t n = send(l->fd, l->out + sent, l->out_used - sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			link_end(e, l, NULL);
			return false;
		}
		sent += (size_t)n;
	}
	if (sent) {
		l->out_used -= sent;
		memmove(l->out, l->out + sent, l->out_used);
	}
	if (l->source.wants_out != (l->out_used > 0)) {
		l->source.wants_out = l->out_used > 0;
		control_rearm(e, &l->source);
	}
	return true;
}

bool link_queue(struct link *l, const uint8_t *bytes, size_t size)
{
	size_t used = l->out_used + size, room;
	uint8_t *out;

	if (used > LINK_OUT_MAX)
		return false;
	if (used > l->out_room) {
		room = 2 * used < LINK_OUT_MAX ? 2 * used : LINK_OUT_MAX;
		out = realloc(l->out, room);
		if (!out)
			return false;
		l->out = out;
		l->out_room = room;
	}
	memcpy(l->out + l->out_used, bytes, size);
	l->out_used = used;
	return true;
}

void link_send(struct engine *e, struct link *l, json_t *frame)
{
	size_t size;
	uint8_t *bytes = frame_bytes(frame, &size);
	bool fits = bytes && !l->over && (l->tls ? link_tls_queue(l, bytes, size) :
						   link_queue(l, bytes, size));

	free(bytes);
	if (l->over)
		return;
	if (!fits)
		link_end(e, l, "it does not read what it asked for");
	else if (!l->source.wants_out)	/* else it says when it takes more */
		link_flush(e, l);
}

/* Whether they arrive is its peer's affair. */
void link_refuse(struct engine *e, struct link *l, const char *why)
{
	link_send(e, l, json_pack("{s:s,s:s}", "type", "refused", "reason", why));
	e->links.refused++;
	link_end(e, l, why);
}

/* ---- frames ------------------------------------------------------------ */

static void say_hello(struct engine *e, struct link *l)
{
	char name[ADDRESS_SIZE];
	json_t *hello;

	engine_address_print(&e->address, name);
	hello = json_pack("{s:s,s:o,s:s}", "type", "hello", "epoch", frame_hex(e->epoch),
			  "name", name);
	json_object_set_new(hello, "notices", json_integer(1));
	hello_put_data(e, l, hello);
	hello_put_wired(e, hello);
	link_send(e, l, hello);
}

void link_greet(struct engine *e, struct link *l)
{
	if (l->peer)
		say_hello(e, l);
}

/* Where it says that it listens: an address, or "". */
static bool read_name(struct link *l, const json_t *frame)
{
	const char *name = frame_text(frame, "name", sizeof(l->name) - 1);
	struct segment_name n;

	if (!name || segment_name_read(name, &n) ||
	    (n.form == SEGMENT_ADDRESS ? *n.text : n.form != SEGMENT_OWN))
		return false;
	if (n.form == SEGMENT_ADDRESS)
		engine_address_print(&n.engine, l->name);
	return true;
}

/* Both know each other from here on. */
static void up(struct engine *e, struct link *l, uint64_t epoch)
{
	l->epoch = epoch;
	l->state = LINK_UP;
	l->reader.limit = FRAME_MAX;
	if (l->peer) {
		peer_is_up(e, l->peer, l);
		return;
	}
	e->links.nr_hello--;
	link_invite(e, l);
	say_hello(e, l);
}

static void take_hello(struct engine *e, struct link *l, const json_t *frame)
{
	uint64_t epoch;
	uint32_t notices;

	if (l->state == LINK_HELLO)
		link_find_user(e, l);
	if (l->state != LINK_HELLO) {
		link_refuse(e, l, "hello comes once");
	} else if (!frame_u64(frame, "epoch", &epoch) || !epoch || !read_name(l, frame)) {
		link_refuse(e, l, "hello needs an epoch that is not 0 and a name");
	} else if (epoch == e->epoch) {
		link_refuse(e, l, "this engine has called itself");
	} else if (!l->peer && e->links.nr - e->links.nr_hello >= e->config.links_max) {
		link_refuse(e, l, "there are as many connections as "
			    "limits/peer_connections allows");
	} else if (!l->peer && !link_has_share(e, l)) {
		link_refuse(e, l, "one user, or one host, may have half of "
				  "limits/peer_connections");
	} else {
		hello_get_data(l, frame);
		l->takes_notices = frame_uint(frame, "notices", 1, &notices) && notices;
		hello_get_wired(l, frame);
		up(e, l, epoch);
	}
}

static void take_ping(struct engine *e, struct link *l, const json_t *frame)
{
	(void)frame;
	link_send(e, l, json_pack("{s:s}", "type", "pong"));
}

static void take_pong(struct engine *e, struct link *l, const json_t *frame)
{
	(void)e;
	(void)l;
	(void)frame;	/* that it came is all it says */
}

/* Why it does not want us; or that it, who came to us, leaves. */
static void take_refused(struct engine *e, struct link *l, const json_t *frame)
{
	const char *why = frame_text(frame, "reason", 120);

	link_end(e, l, why ? why : "it refuses, and does not say why");
}

/* Who may send a frame of a type, and when. */
enum { FIRST = 1, TO_CALLER = 2, TO_CALLED = 4, BOTH = 6 };

static void take_frame(struct engine *e, struct link *l, const json_t *frame)
{
	static const struct {
		const char *type;
		unsigned int when;
		void (*take)(struct engine *e, struct link *l, const json_t *frame);
	} types[] = {
		{ "hello", FIRST | BOTH, take_hello },
		{ "refused", FIRST | BOTH, take_refused },
		{ "ping", BOTH, take_ping },
		{ "pong", BOTH, take_pong },
		{ "describe", TO_CALLED, link_take_describe },
		{ "segment", TO_CALLER, far_take_segment },
		{ "missing", TO_CALLER, far_take_missing },
		{ "changed", TO_CALLER, far_take_changed },
		{ "notify", TO_CALLED, link_take_notify },
		{ "notified", TO_CALLER, far_take_notified },
		{ "rdma", BOTH, link_take_wired },
	};
	const char *type = frame_text(frame, "type", 32);
	unsigned int role = l->peer ? TO_CALLER : TO_CALLED;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(types[i].type, type) != 0 || !(types[i].when & role))
			continue;
		if ((types[i].when & FIRST) || l->state == LINK_UP)
			types[i].take(e, l, frame);
		else
			link_refuse(e, l, "hello comes first");
		return;
	}
	link_refuse(e, l, "the frame has a type that this version does not know");
}

/* ---- in ---------------------------------------------------------------- */

static const char *fault_of(const struct link *l, enum frame_result result)
{
	if (result == FRAME_MAGIC && l->reader.head[0] == TLS_RECORD_HANDSHAKE)
		return "it speaks TLS, and this engine has no peers/secret_file";
	return frame_fault(result);
}

void link_take(struct engine *e, struct link *l, const uint8_t *bytes, size_t size)
{
	while (size && !l->over) {
		json_t *frame = NULL;
		size_t taken;
		enum frame_result result = frame_read(&l->reader, bytes, size, &taken, &frame);

		if (result < 0) {
			link_refuse(e, l, fault_of(l, result));
			return;
		}
		if (frame)
			take_frame(e, l, frame);
		json_decref(frame);
		bytes += taken;
		size -= taken;
	}
}

static void take_wire(struct engine *e, struct link *l, const uint8_t *bytes, size_t size)
{
	l->heard_ns = clock_monotonic_ns();
	l->asked_ns = 0;
	if (e->links.tls)
		link_tls_take(e, l, bytes, size);
	else
		link_take(e, l, bytes, size);
}

/* False: the other end did not take the call. */
static bool connected(struct engine *e, struct link *l)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error) {
		link_end(e, l, strerror(error));
		return false;
	}
	l->state = LINK_HELLO;
	l->source.wants_out = false;
	if (e->links.tls)
		link_tls_call(e, l);
	else
		link_greet(e, l);
	return !l->over;
}

static void link_ready(struct engine *e, struct event_source *s)
{
	struct link *l = (struct link *)s;	/* its first member */
	uint8_t bytes[READ_PER_TURN];
	ssize_t n;

	if (l->state == LINK_CALLING && !connected(e, l))
		return;
	if (l->out_used && !link_flush(e, l))
		return;
	n = recv(l->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0)
		take_wire(e, l, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		link_end(e, l, NULL);
	if (!l->over)
		control_rearm(e, s);
}

/* ---- life -------------------------------------------------------------- */

/* Left alone, the kernel would take megabytes for who does not read. */
static void bound_unread(int fd)
{
	const int size = LINK_SOCKET_MAX;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static void insert(struct engine *e, struct link *l)
{
	l->next = e->links.list;
	l->at = &e->links.list;
	if (l->next)
		l->next->at = &l->next;
	e->links.list = l;
	e->links.nr += !l->peer;
	e->links.nr_hello += !l->peer;
}

struct link *link_create(struct engine *e, int fd, const char *from, struct engine_peer *peer)
{
	struct link *l = calloc(1, sizeof(*l));

	if (l)
		l->source.wants_out = peer != NULL;	/* it says when it is connected */
	if (!l || control_watch(e, &l->source, fd, link_ready) < 0) {
		free(l);
		close(fd);
		return NULL;
	}
	bound_unread(fd);
	l->fd = fd;
	l->peer = peer;
	l->state = peer ? LINK_CALLING : LINK_HELLO;
	frame_reader_init(&l->reader, FRAME_HELLO_MAX);
	snprintf(l->from, sizeof(l->from), "%s", from);
	l->opened_ns = l->heard_ns = clock_monotonic_ns();
	insert(e, l);
	return l;
}

/* What it did not read is dropped with the connection: the kernel would keep it, and
 * try for minutes. */
static void drop_unread(const struct link *l)
{
	const struct linger abort = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
}

void link_end(struct engine *e, struct link *l, const char *why)
{
	struct links *all = &e->links;

	if (l->over)
		return;
	l->over = true;
	if (why)
		snprintf(all->last_fault, sizeof(all->last_fault), "%s: %s", l->from, why);
	control_unwatch(e, &l->source);
	if (l->out_used)
		drop_unread(l);
	close(l->fd);
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	all->nr -= !l->peer;
	all->nr_hello -= !l->peer && l->state == LINK_HELLO;
	link_unfollow_all(l);
	link_uninvite(e, l);
	frame_reader_free(&l->reader);
	free(l->out);
	l->out = NULL;
	l->out_used = l->out_room = 0;
	l->next = all->dead;
	all->dead = l;
	if (l->peer)
		peer_is_down(e, l->peer, why ? why : "it closed the connection");
}

void link_abort(struct engine *e, struct link *l, const char *why)
{
	if (!l->over)
		drop_unread(l);
	link_end(e, l, why);
}
