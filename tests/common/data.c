/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - a peer of an engine, where bytes of requests travel. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/data.h"

static void take_token(struct data_guest *g, const json_t *hello)
{
	const char *text = frame_text(hello, "data_token", 32);
	uint32_t port;

	assert_non_null(text);
	assert_int_equal(sscanf(text, "%16lx%16lx", &g->token[0], &g->token[1]), 2);
	assert_true(frame_uint(hello, "data_port", UINT16_MAX, &port));
	assert_true(frame_u64(hello, "epoch", &g->their_epoch));
	g->address.port = (uint16_t)port;
}

void data_join(struct data_guest *g, const struct engine_address *a, const char *segment)
{
	static uint64_t epoch = 0x1000;
	json_t *frame;

	g->address = *a;
	g->epoch = ++epoch;
	wire_dial(&g->link, a);
	wire_send(&g->link, wire_hello(g->epoch));
	frame = wire_expect(&g->link, "hello");
	take_token(g, frame);
	json_decref(frame);
	wire_send(&g->link, json_pack("{s:s,s:s,s:i,s:i}", "type", "describe", "segment", segment,
				      "uid", (int)getuid(), "first", 0));
	frame = wire_expect(&g->link, "segment");
	assert_true(frame_uint(frame, "handle", 255, &g->handle));
	json_decref(frame);
}

struct tcp_hello data_hello(const struct data_guest *g, uint16_t purpose, uint64_t connection)
{
	return (struct tcp_hello){
		.magic = TCP_HELLO_MAGIC, .version = TCP_VERSION, .purpose = purpose,
		.caller_epoch = g->epoch, .called_epoch = g->their_epoch,
		.token = { g->token[0], g->token[1] }, .connection = connection,
	};
}

int data_call(const struct data_guest *g, const struct tcp_hello *h)
{
	struct wire w;

	wire_dial(&w, &g->address);
	data_send(w.fd, h, sizeof(*h));
	return w.fd;
}

int data_open(const struct data_guest *g, uint64_t connection)
{
	struct tcp_hello h = data_hello(g, TCP_FOR_DATA, connection);
	struct tcp_welcome w;
	int fd = data_call(g, &h);

	data_receive(fd, &w, sizeof(w));
	assert_true(w.magic == TCP_HELLO_MAGIC && w.connection == connection && w.depth);
	return fd;
}

void data_send(int fd, const void *bytes, size_t size)
{
	for (size_t sent = 0; sent < size; ) {
		ssize_t n = send(fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);

		if (n < 0)
			fail_msg("send: %s", strerror(errno));
		sent += (size_t)n;
	}
}

void data_receive(int fd, void *bytes, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (size_t have = 0; have < size; ) {
		ssize_t n = poll(&p, 1, WIRE_WAIT_MS) == 1 ?
			    recv(fd, (char *)bytes + have, size - have, 0) : 0;

		if (n <= 0)
			fail_msg("%zu bytes of %zu came: %s", have, size, strerror(errno));
		have += (size_t)n;
	}
}

void data_expect_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&p, 1, WIRE_WAIT_MS), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

struct tcp_head data_request(const struct data_guest *g, uint8_t type, uint64_t id,
			     const void *address, uint32_t length)
{
	return (struct tcp_head){
		.magic = TCP_MAGIC, .version = TCP_VERSION, .type = type, .id = id,
		.address = (uintptr_t)address, .handle = g->handle, .length = length,
	};
}
