/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_stage.h - an engine that uses a segment of a peer played by hand. */
#ifndef TENT_TEST_TCP_STAGE_H
#define TENT_TEST_TCP_STAGE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "tests/common/data.h"
#include "tests/test_tcp_fix.h"

#define THEIRS 0x100000u	/* where the peer says that its memory is */
#define CHUNK 65536u
#define TOKEN "0123456789abcdef00000000000000ff"

/* Setups: `one`, patient with who plays the peer, and with these keys and values. */
static const char *const *stage_keys;

static inline void stage_tune(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
	wire_set(c, "transports/tcp/crc32c", "true");
	for (const char *const *key = stage_keys; *key; key += 2)
		wire_set(c, key[0], key[1]);
}

#define STAGE_SETUP(name, ...)							\
static int name(void **state)							\
{										\
	static const char *const keys[] = { __VA_ARGS__, NULL };		\
										\
	(void)state;								\
	stage_keys = keys;							\
	engine_fix_start(&one, stage_tune);					\
	return 0;								\
}

static inline int stage_stop(void **state)
{
	(void)state;
	engine_fix_stop(&one);
	return 0;
}

struct stage {
	int listener, data_listener;
	uint16_t data_port;
	struct wire link;
	struct tent_client *user;
	struct tent_ring *ring;
	uint8_t *mine;
	pthread_t thread;
	char name[TENT_CTL_NAME_SIZE];
	tent_segment_id_t id;
	uint32_t rule;
	int fd;			/* the data connection */
	struct tcp_hello hello;	/* what it began with */
};

static inline int listen_any(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	getsockname(fd, (struct sockaddr *)&a, &size);
	*port = ntohs(a.sin_port);
	return fd;
}

static inline void *opens(void *arg)
{
	struct stage *s = arg;

	s->rule = tent_client_open_segment(s->user, s->name, &s->id) ? engine_fix_rule() : 0;
	return NULL;
}

static inline json_t *page(void)
{
	return json_pack("{s:s,s:s,s:i,s:o,s:o,s:i,s:i,s:i,s:[[o,o,i,s]]}", "type", "segment",
			 "segment", "kv", "uid", (int)getuid(), "life", frame_hex(50), "version",
			 frame_hex(1), "first", 0, "total", 1, "handle", 17, "buffers",
			 frame_hex(THEIRS), frame_hex(SIZE), 2, "cpu:0");
}

/* The engine calls: it is told the port of data, and what the segment has. */
static inline void stage_join(struct stage *s)
{
	json_t *hello = wire_hello(5);

	frame_reader_init(&s->link.reader, FRAME_MAX);
	s->link.fd = accept(s->listener, NULL, NULL);
	json_decref(wire_expect(&s->link, "hello"));
	json_object_set_new(hello, "data_port", json_integer(s->data_port));
	json_object_set_new(hello, "data_token", json_string(TOKEN));
	wire_send(&s->link, hello);
	json_decref(wire_expect(&s->link, "describe"));
	wire_send(&s->link, page());
}

/* The segment is open, and the port of data is told. */
static inline void stage_open(struct stage *s)
{
	uint16_t port;

	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->listener = listen_any(&port);
	s->data_listener = listen_any(&s->data_port);
	snprintf(s->name, sizeof(s->name), "127.0.0.1:%u/kv", port);
	s->user = engine_fix_attach(&one, NULL);
	s->mine = memory_of(s->user, TENT_PERM_LOCAL_READ_WRITE);
	s->ring = engine_fix_ring(s->user);
	assert_int_equal(pthread_create(&s->thread, NULL, opens, s), 0);
	stage_join(s);
	pthread_join(s->thread, NULL);
	assert_int_equal(s->rule, 0);
}

static inline void stage_close(struct stage *s)
{
	if (s->fd >= 0)
		close(s->fd);
	close(s->data_listener);
	close(s->listener);
	tent_ring_close(s->ring);
	wire_close(&s->link);
	tent_client_detach(s->user);
}

static inline void submit(struct stage *s, int opcode, uint64_t at, uint64_t n)
{
	struct tent_request_v1 r = engine_fix_request(opcode, s->mine + at, s->id,
						      (void *)(uintptr_t)(THEIRS + at), n);

	engine_fix_submit(s->ring, &r);
}

/* Who calls for data, and what it says. */
static inline int stage_take(struct stage *s, struct tcp_hello *h)
{
	int fd = accept(s->data_listener, NULL, NULL);

	assert_true(fd >= 0);
	data_receive(fd, h, sizeof(*h));
	return fd;
}

static inline void welcome(int fd, uint64_t connection, uint32_t depth)
{
	const struct tcp_welcome w = {
		.magic = TCP_HELLO_MAGIC, .version = TCP_VERSION, .depth = depth,
		.connection = connection,
	};

	data_send(fd, &w, sizeof(w));
}

static inline void stage_accept(struct stage *s)
{
	s->fd = stage_take(s, &s->hello);
	assert_int_equal(s->hello.purpose, TCP_FOR_DATA);
	welcome(s->fd, s->hello.connection, 64);
}

static inline struct tcp_head next(struct stage *s)
{
	struct tcp_head h;

	data_receive(s->fd, &h, sizeof(h));
	assert_true(h.magic == TCP_MAGIC && h.version == TCP_VERSION && !h.status);
	assert_int_equal(h.handle, 17);
	return h;
}

/* A request, with the payload of a WRITE, which must have the sum that it says. */
static inline struct tcp_head next_whole(struct stage *s, uint8_t *bytes)
{
	struct tcp_head h = next(s);
	struct tcp_tail tail;

	if (h.type != TCP_WRITE)
		return h;
	data_receive(s->fd, bytes, h.length);
	data_receive(s->fd, &tail, sizeof(tail));
	assert_int_equal(tail.crc32c, crc32c(0, bytes, h.length));
	assert_int_equal(tail.status, 0);
	return h;
}

/* A request of 64 bytes over a connection of its own, which came whole. */
static inline struct tcp_head stage_ask(struct stage *s, int opcode)
{
	uint8_t bytes[64];

	submit(s, opcode, 0, sizeof(bytes));
	stage_accept(s);
	return next_whole(s, bytes);
}

static inline void stage_reset(struct stage *s)
{
	const struct linger abort = { .l_onoff = 1 };

	setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	close(s->fd);
	s->fd = -1;
}

/* It is asked whether that connection is fenced: where to answer. */
static inline int stage_take_fence(struct stage *s, uint64_t *connection)
{
	struct tcp_hello h;
	int fd = stage_take(s, &h);

	assert_int_equal(h.purpose, TCP_FOR_FENCE);
	*connection = h.connection;
	return fd;
}

static inline struct tcp_head answer_to(const struct tcp_head *h)
{
	return (struct tcp_head){
		.magic = TCP_MAGIC, .version = TCP_VERSION, .id = h->id,
		.type = h->type == TCP_READ ? TCP_DATA : TCP_DONE,
		.length = h->type == TCP_READ ? h->length : 0,
		.flags = h->type == TCP_READ ? h->flags : 0,
	};
}

static inline void answer(struct stage *s, const struct tcp_head *h, const uint8_t *bytes)
{
	struct tcp_head a = answer_to(h);
	struct tcp_tail tail = { 0 };

	data_send(s->fd, &a, sizeof(a));
	if (!a.length)
		return;
	tail.crc32c = crc32c(0, bytes, a.length);
	data_send(s->fd, bytes, a.length);
	data_send(s->fd, &tail, sizeof(tail));
}

static inline void expect(struct tent_completion done, int error, uint32_t rule)
{
	assert_int_not_equal(done.status, TENT_STATUS_COMPLETED);
	if (done.error != error || done.rule != rule)
		fail_msg("error %d, rule %u", done.error, done.rule);
}

#endif /* TENT_TEST_TCP_STAGE_H */
