/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_secret.c - data connections of engines that share a secret: whoever reads the
 * wire has nothing by which he could open one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/tcp_frame.h"
#include "tests/common/wire.h"

#define SIZE 65536

static char secret[64];		/* a file */
static struct tls *knows;
static struct engine_address at;

/* A peer by hand, that the engine has invited. */
struct guest_of_it {
	struct wire w;
	struct sockaddr_in data;	/* where bytes go */
	uint64_t epoch, own_epoch, token[2];
	uint8_t key[TLS_EXPORT_SIZE];
};

static void with_secret(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
	wire_set(c, "peers/secret_file", secret);
}

static int setup(void **state)
{
	char error[512];

	(void)state;
	wire_secret_file(secret, "what-both-engines-know-0123456789-0123456789");
	assert_int_equal(tls_open(&knows, secret, error, sizeof(error)), 0);
	engine_fix_start(&fix, with_secret);
	at = wire_address(&fix);
	return 0;
}

static int teardown(void **state)
{
	engine_fix_teardown(state);
	tls_close(knows);
	unlink(secret);
	return 0;
}

static void read_token(struct guest_of_it *g, const char *text)
{
	char half[17] = "";

	assert_int_equal(strlen(text), 32);
	for (int i = 0; i < 2; i++) {
		memcpy(half, text + 16 * i, 16);
		g->token[i] = strtoull(half, NULL, 16);
	}
}

static void join(struct guest_of_it *g)
{
	json_t *hello;
	uint32_t port;

	memset(g, 0, sizeof(*g));
	g->own_epoch = 77;
	wire_dial(&g->w, &at);
	assert_null(wire_secret(&g->w, knows));
	wire_send(&g->w, wire_hello(g->own_epoch));
	hello = wire_expect(&g->w, "hello");
	assert_true(frame_u64(hello, "epoch", &g->epoch));
	assert_true(frame_uint(hello, "data_port", UINT16_MAX, &port));
	read_token(g, frame_text(hello, "data_token", 32));
	json_decref(hello);
	assert_true(tls_export(g->w.tls, "tent data", g->key));
	g->data = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	inet_pton(AF_INET, at.host, &g->data.sin_addr);
}

/* The first bytes of a data connection of that name, which prove themselves. */
static struct tcp_hello hello_of(const struct guest_of_it *g, uint64_t name)
{
	struct tcp_hello h = {
		.magic = TCP_HELLO_MAGIC, .version = TCP_VERSION, .purpose = TCP_FOR_DATA,
		.caller_epoch = g->own_epoch, .called_epoch = g->epoch, .connection = name,
	};
	uint64_t proof[2];

	assert_true(tls_prove(g->key, &h, sizeof(h), proof));
	memcpy(h.token, proof, sizeof(proof));
	return h;
}

/* A connection that was let in, or -1: it got no byte, and was closed. */
static int say(const struct guest_of_it *g, const struct tcp_hello *h)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct tcp_welcome answer;
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&g->data, sizeof(g->data)), 0);
	assert_int_equal(send(fd, h, sizeof(*h), MSG_NOSIGNAL), sizeof(*h));
	n = recv(fd, &answer, sizeof(answer), MSG_WAITALL);
	if (n == sizeof(answer))
		return fd;
	assert_true(n <= 0);
	close(fd);
	return -1;
}

static bool is_let_in(const struct guest_of_it *g, const struct tcp_hello *h)
{
	int fd = say(g, h);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void bytes_move_between_engines_with_a_secret(void **state)
{
	struct tent_client *owner, *user;
	struct tent_completion done;
	uint8_t *mine, *theirs;
	tent_segment_id_t id;
	struct engine_fix two;
	struct tent_ring *ring;

	(void)state;
	engine_fix_start(&two, with_secret);
	owner = engine_fix_attach(&two, NULL);
	theirs = engine_fix_memory(owner, SIZE);
	user = engine_fix_attach(&fix, NULL);
	mine = engine_fix_memory(user, SIZE);
	memset(mine, 0x5a, SIZE);
	assert_int_equal(tent_client_open_segment(user, tent_client_segment(owner), &id), 0);
	ring = engine_fix_ring(user);
	done = engine_fix_move(ring, TENT_OPCODE_WRITE, mine, id, theirs, SIZE);
	assert_int_equal(done.status, TENT_STATUS_COMPLETED);
	assert_memory_equal(mine, theirs, SIZE);
	memset(mine, 0, SIZE);
	done = engine_fix_move(ring, TENT_OPCODE_READ, mine, id, theirs, SIZE);
	assert_int_equal(done.status, TENT_STATUS_COMPLETED);
	assert_memory_equal(mine, theirs, SIZE);
	tent_ring_close(ring);
	tent_client_detach(user);
	tent_client_detach(owner);
	engine_fix_stop(&two);
}

static void a_token_that_is_shown_opens_nothing(void **state)
{
	struct guest_of_it g;
	struct tcp_hello h;

	(void)state;
	join(&g);
	h = hello_of(&g, 1);
	memcpy(h.token, g.token, sizeof(h.token));
	assert_false(is_let_in(&g, &h));
	memset(h.token, 0, sizeof(h.token));
	assert_false(is_let_in(&g, &h));
	h = hello_of(&g, 1);
	assert_true(is_let_in(&g, &h));
	wire_close(&g.w);
}

static void a_proof_is_of_all_that_is_said(void **state)
{
	struct guest_of_it g, other;
	struct tcp_hello h;

	(void)state;
	join(&g);
	join(&other);		/* the same engine by its epoch, on another link */
	h = hello_of(&g, 1);
	h.level = 1;
	assert_false(is_let_in(&g, &h));
	h = hello_of(&g, 1);
	h.connection = 2;
	assert_false(is_let_in(&g, &h));
	h = hello_of(&g, 1);
	h.purpose = TCP_FOR_FENCE;
	assert_false(is_let_in(&g, &h));
	h = hello_of(&g, 1);
	h.token[1] ^= 1;
	assert_false(is_let_in(&g, &h));
	h = hello_of(&other, 1);
	assert_true(is_let_in(&g, &h));		/* as the other's */
	wire_close(&other.w);
	h = hello_of(&g, 1);
	assert_true(is_let_in(&g, &h));
	wire_close(&g.w);
}

static void what_was_read_from_the_wire_opens_nothing_again(void **state)
{
	struct guest_of_it g;
	struct tcp_hello h;
	int fd;

	(void)state;
	join(&g);
	h = hello_of(&g, 1);
	fd = say(&g, &h);
	assert_true(fd >= 0);
	assert_false(is_let_in(&g, &h));	/* while it is there */
	close(fd);
	for (int i = 0; i < 20; i++)
		assert_false(is_let_in(&g, &h));
	wire_close(&g.w);
	join(&g);
	assert_false(is_let_in(&g, &h));	/* on another link */
	wire_close(&g.w);
}

static void names_may_overtake_each_other_a_little(void **state)
{
	static const struct { uint64_t name; bool good; } steps[] = {
		{ 100, true }, { 37, true }, { 36, false }, { 99, true }, { 99, false },
		{ 100, false }, { 101, true }, { 37, false }, { 38, true }, { 163, true },
		{ 101, false }, { 100, false }, { 102, true }, { 500, true }, { 163, false },
		{ 437, true }, { 436, false }, { 0, false }, { UINT64_MAX, true },
		{ UINT64_MAX - 63, true }, { UINT64_MAX - 64, false }, { 1, false },
	};
	struct guest_of_it g;

	(void)state;
	join(&g);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct tcp_hello h = hello_of(&g, steps[i].name);

		if (is_let_in(&g, &h) != steps[i].good)
			fail_msg("step %zu, name %llu", i, (unsigned long long)steps[i].name);
	}
	wire_close(&g.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_move_between_engines_with_a_secret),
		cmocka_unit_test(a_token_that_is_shown_opens_nothing),
		cmocka_unit_test(a_proof_is_of_all_that_is_said),
		cmocka_unit_test(what_was_read_from_the_wire_opens_nothing_again),
		cmocka_unit_test(names_may_overtake_each_other_a_little),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
