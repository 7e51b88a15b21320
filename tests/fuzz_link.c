/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_link.c - any bytes, frames and events as the life of one link, which came to us or
 * which we opened, in the clear or secret. No thread runs: the harness is the control
 * thread. Whatever comes: what the engine sends are frames that its end may send, nothing
 * before hello but a refusal and nothing after one; whoever waits is answered; when the
 * link has ended nothing of it is left.
 *
 * Input: one byte of flags, then steps: one byte of kind, one of length, and so many bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/peers.h"
#include "engine/region_table.h"

#define STEPS_MAX 64
#define BUFFERS 300u		/* of our segment: two pages of them */

enum { WE_CALLED = 1, SECRET = 2, OTHER_USERS = 4 };
enum step { BYTES, FRAME, HELLO, CHANGE, OPEN, CLOSE, GONE, NOTIFY, STEPS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct engine e;
static struct region regions[BUFFERS];

/* One input. */
static struct client c;
static int client_end_fd;
static struct link *link_of;
static struct engine_peer *peer;
static int wire;		/* the other end */
static struct tls_session *tls;
static struct frame_reader reader;
static bool said_hello, is_up, was_refused;

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* ---- the engine -------------------------------------------------------- */

static void open_secret(void)
{
	char path[] = "/tmp/tent-fuzz-XXXXXX", error[512];
	int fd = mkostemp(path, O_CLOEXEC);

	need(fd >= 0 && write(fd, "0123456789abcdef0123456789abcdef", 32) == 32);
	close(fd);
	need(!tls_open(&e.links.tls, path, error, sizeof(error)));
	unlink(path);
}

static void start(void)
{
	engine_config_default(&e.config);
	e.config.far_buffers_max = 1000;
	e.epoch = 0x1000;
	e.uid = 12345;
	e.stopping = true;	/* nobody is called again */
	e.links.fd = e.links.owner_fd = -1;
	need(!host_read("10.0.0.1", 8, &e.address));
	e.address.port = 15000;
	e.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	tenants_open(&e.tenants, false, e.config.far_max, e.config.far_buffers_max);
	need(!rounds_open(&e) && !peers_open(&e));
	for (uint32_t i = 0; i < BUFFERS; i++)
		regions[i] = (struct region){ .base = 0x1000 * i, .end = 0x1000 * i + 64,
					      .permission = TENT_PERM_GLOBAL_READ_WRITE };
	open_secret();
}

/* The first nr regions. */
static void publish(uint32_t nr)
{
	struct region *list[BUFFERS];

	for (uint32_t i = 0; i < nr; i++)
		list[i] = &regions[i];
	region_table_publish(&e, c.segment, region_table_of(list, nr));
}

/* What the control thread does between two events. */
static void turn(void)
{
	while (rounds_finish(&e))
		;
	grace_advance(&e);
	while (rounds_finish(&e))
		;
}

static void client_open(void)
{
	int fds[2];

	memset(&c, 0, sizeof(c));
	need(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	c.sock = fds[0];
	client_end_fd = fds[1];
	c.socket.fd = c.death.fd = -1;
	c.peer.uid = 1000;
	c.tenant = tenant_find(&e.tenants, 1000);
	c.tenant->refs++;
	c.round = round_create(&e, CLIENT_ROUND);
	e.last_segment = 0;		/* its life is the same in every input */
	need(!segment_create(&e, &c, "10.0.0.1:15000/kv"));
	need(!name_claim(&e.names, c.tenant, "kv", false, c.segment, &c.name));
	publish(2);
}

static void orphan(void)
{
	if (!c.name)
		return;
	links_segment_gone(&e, c.segment);
	name_release(&e.names, c.name);
	c.name = NULL;
	region_table_publish(&e, c.segment, region_table_empty());
}

static void client_close(void)
{
	far_forget_asker(&e, &c);
	orphan();
	need(!c.segment->followers);
	segments_leave(&e, &c);
	inbox_close(&e, &c);
	client_refund(&e, &c, RESOURCE_FDS, c.fds);
	free(c.round);
	close(c.sock);
	close(client_end_fd);
	c.tenant->refs--;
	tenant_tidy(&e.tenants, c.tenant);
}

/* Each answer is one for somebody who had asked. */
static void read_answers(void)
{
	struct ctl_message m;

	while (ctl_recv(client_end_fd, &m, MSG_DONTWAIT) == 0)
		ctl_close_fds(&m);
}

/* ---- the link ---------------------------------------------------------- */

static void link_open(uint8_t flags)
{
	struct engine_address a = { .kind = HOST_IPV4, .port = 15000, .host = "10.0.0.2" };
	int fds[2];

	need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	wire = fds[1];
	peer = NULL;
	if (flags & WE_CALLED) {
		peer = peer_find(&e, &a);
		peer->state = PEER_CALLING;
	}
	link_of = link_create(&e, fds[0], "10.0.0.2:5", peer);
	need(link_of);
	if (peer)
		peer->link = link_of;
	link_of->owner = flags & OTHER_USERS ? OWNER_KNOWN : OWNER_ELSEWHERE;
	link_of->uid = 7;
	frame_reader_init(&reader, FRAME_MAX);
	said_hello = is_up = was_refused = false;
	tls = flags & SECRET ? tls_session_create(e.links.tls, !peer) : NULL;
}

/* May the engine send this now? */
static void check_frame(const json_t *frame)
{
	static const char *const types[] = { "hello", "refused", "ping", "pong", "describe",
					     "notify", "segment", "missing", "changed",
					     "notified" };
	const char *type = frame_text(frame, "type", 32);
	size_t i = 0;

	while (i < 10 && strcmp(types[i], type) != 0)
		i++;
	need(i < 10 && !was_refused);
	if (i == 0) {
		need(!said_hello);
		said_hello = true;
	} else if (i == 1) {
		was_refused = true;
	} else {
		need(said_hello && is_up);
		need(i < 4 || (i < 6) == (peer != NULL));
	}
}

static void read_frames(const uint8_t *bytes, size_t size)
{
	while (size) {
		json_t *frame = NULL;
		size_t taken;
		enum frame_result result = frame_read(&reader, bytes, size, &taken, &frame);

		need(result >= 0);
		if (frame)
			check_frame(frame);
		json_decref(frame);
		bytes += taken;
		size -= taken;
	}
}

/* The other end may have hung up. */
static void to_wire(const uint8_t *bytes, size_t size)
{
	(void)send(wire, bytes, size, MSG_NOSIGNAL);
}

static void say_secret(void)
{
	uint8_t bytes[4096];
	size_t n;

	while ((n = tls_take(tls, bytes, sizeof(bytes))))
		to_wire(bytes, n);
}

static void read_secret(const uint8_t *bytes, size_t size)
{
	uint8_t plain[16384];
	enum tls_result result;
	size_t n;

	need(tls_put(tls, bytes, size));
	do {
		result = tls_read(tls, plain, sizeof(plain), &n);
		read_frames(plain, n);
	} while (result == TLS_UP || result == TLS_BYTES);
	say_secret();
}

/* What the engine has sent until now. In the clear a secret link may still refuse. */
static bool read_wire(void)
{
	uint8_t bytes[16384];
	ssize_t n = read(wire, bytes, sizeof(bytes));

	if (n <= 0)
		return false;
	if (tls && !(tls_is_fresh(tls) && bytes[0] == FRAME_FIRST_BYTE))
		read_secret(bytes, (size_t)n);
	else if (!tls)
		read_frames(bytes, (size_t)n);
	return true;
}

/* Until neither end has anything to say. */
static void settle(void)
{
	struct link *l = link_of;
	bool more = true;

	while (more) {
		if (l && !l->over)
			l->source.ready(&e, &l->source);
		is_up = is_up || (l && l->state == LINK_UP);
		more = read_wire();
		turn();
	}
	read_answers();
}

/* ---- steps ------------------------------------------------------------- */

static void send_bytes(const uint8_t *bytes, size_t size)
{
	if (!tls)
		to_wire(bytes, size);
	else if (size && tls_is_up(tls) && tls_write(tls, bytes, size))
		say_secret();
}

static void send_frame(const uint8_t *text, size_t size)
{
	uint8_t bytes[FRAME_HEAD + 256] = { 'T', 'E', 'N', 'T', 1, 0, 0, 0, (uint8_t)size };

	memcpy(bytes + FRAME_HEAD, text, size);
	send_bytes(bytes, FRAME_HEAD + size);
}

static void say_hello(uint8_t epoch)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "{\"type\":\"hello\",\"epoch\":\"0x%x\",\"name\":\"\","
			 "\"notices\":%d}", epoch, epoch % 2);

	send_frame((const uint8_t *)text, (size_t)n);
}

static void open_segment(const uint8_t *text, size_t size)
{
	char name[TENT_CTL_NAME_SIZE];
	struct segment_name n;

	snprintf(name, sizeof(name), "10.0.0.2:15000/%.*s", (int)(size < 60 ? size : 60),
		 (const char *)text);
	if (!peer || link_of->over || c.busy || segment_name_read(name, &n))
		return;
	far_open(&e, &c, &n);
	turn();
}

static void close_segment(uint8_t id)
{
	struct ctl_message m = { .nr_fds = 0 };

	((struct tent_ctl_id *)m.bytes)->id = id;
	if (!c.busy && id)
		segment_close(&e, &c, &m);
}

static void change_segment(uint8_t nr)
{
	publish(nr % 2 ? BUFFERS : nr);
	links_segment_changed(&e, c.segment);
}

/* One of a batch that has landed, to a segment that the client has open there. */
static void notify(uint8_t id, const uint8_t *text, size_t size)
{
	const struct handle_table *t = c.space.handles;
	struct segment *s = t && id < t->nr ? t->segments[id] : NULL;
	static struct notice n;

	if (!s || !s->is_far)
		return;
	n.name_length = n.message_length = (uint32_t)size;
	memcpy(n.name, text, size);
	memcpy(n.message, text, size);
	far_notice_send(&e, far_of(s), &n);
}

static void do_step(enum step step, const uint8_t *bytes, size_t size)
{
	switch (step) {
	case BYTES:
		send_bytes(bytes, size);
		break;
	case FRAME:
		send_frame(bytes, size);
		break;
	case HELLO:
		say_hello(size ? bytes[0] : 9);
		break;
	case CHANGE:
		if (c.name)
			change_segment(size ? bytes[0] : 0);
		break;
	case OPEN:
		open_segment(bytes, size);
		break;
	case CLOSE:
		close_segment(size ? bytes[0] : 1);
		break;
	case NOTIFY:
		notify(size ? bytes[0] : 1, bytes, size);
		break;
	default:
		orphan();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls *secret;
	uint8_t flags = size ? *data : 0;

	if (!e.epoch)
		start();
	secret = e.links.tls;
	client_open();
	link_open(flags);
	e.links.tls = flags & SECRET ? secret : NULL;
	if (tls && !peer)
		read_secret((const uint8_t *)"", 0);	/* we begin */
	settle();
	for (int i = 0; i < STEPS_MAX && size > 2; i++) {
		size_t n = data[2];

		n = n < size - 3 ? n : size - 3;
		do_step(data[1] % STEPS, data + 3, n);
		settle();
		data += 2 + n;
		size -= 2 + n;
	}
	need(link_of->over || !was_refused);
	if (!link_of->over)
		link_end(&e, link_of, NULL);
	need(!c.busy);			/* whoever waited was told */
	e.links.next_patrol_ns = UINT64_MAX;
	links_patrol(&e);		/* buries it */
	need(!e.links.list && !e.links.dead && !e.links.nr && !e.links.nr_hello);
	close(wire);
	tls_session_free(tls);
	frame_reader_free(&reader);
	client_close();
	for (int i = 0; i < 4; i++)
		turn();
	need(!e.peers->doomed && !e.rounds.retired && !e.tenants.first && !e.names.nr);
	need(!peer || (!peer->segments && !peer->notices.nr_out));
	need(!peer || !(peer->notices.out || peer->notices.waiting));
	e.links.tls = secret;
	return 0;
}
