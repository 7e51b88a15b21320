/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_links_user.c - engines of one host without a secret: each speaks for the user
 * whose it is, by the kernel's word. Tests run as root, and become another user for the
 * moment in which a socket is made.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/socket_owner.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define STRANGER 65534u
#define OTHER 65533u

static struct engine_address at;

static void patient(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&fix, patient);
	at = wire_address(&fix);
	return 0;
}

/* This thread alone, until it becomes 0 again. */
static void become(uint32_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

/* ---- the kernel's word ------------------------------------------------- */

struct pair {
	int listening, near, far;	/* far is the one that called */
};

static int family;

static void pair_open(struct pair *p, uint32_t uid, bool taken)
{
	struct sockaddr_storage a = { .ss_family = (sa_family_t)family };
	socklen_t size = sizeof(a);

	if (family == AF_INET)
		((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&a)->sin6_addr = in6addr_loopback;
	p->listening = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listening, (struct sockaddr *)&a, size), 0);
	assert_int_equal(listen(p->listening, 1), 0);
	assert_int_equal(getsockname(p->listening, (struct sockaddr *)&a, &size), 0);
	become(uid);
	p->far = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	become(0);
	assert_int_equal(connect(p->far, (struct sockaddr *)&a, size), 0);
	p->near = taken ? accept4(p->listening, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static void pair_close(struct pair *p)
{
	close(p->listening);
	if (p->near >= 0)
		close(p->near);
	if (p->far >= 0)
		close(p->far);
}

static void the_kernel_tells_whose_a_socket_is(void **state)
{
	static const uint32_t users[] = { 0, STRANGER, 12345, OTHER };
	int asks = socket_owner_open();
	struct pair p;

	(void)state;
	for (size_t i = 0; i < 2 * NR(users); i++) {
		uint32_t uid = 77;

		family = i % 2 ? AF_INET6 : AF_INET;
		pair_open(&p, users[i / 2], true);
		assert_int_equal(socket_owner_find(asks, p.near, &uid), OWNER_KNOWN);
		assert_int_equal(uid, users[i / 2]);
		assert_int_equal(socket_owner_find(asks, p.far, &uid), OWNER_KNOWN);
		assert_int_equal(uid, 0);
		assert_true(socket_owner_works(asks, p.listening));
		pair_close(&p);
	}
	close(asks);
}

/* The kernel would say that it is root's. */
static void a_socket_that_is_closed_is_nobodys(void **state)
{
	int asks = socket_owner_open();
	struct pair p;
	uint32_t uid;

	(void)state;
	for (int i = 0; i < 2; i++) {
		family = i ? AF_INET6 : AF_INET;
		pair_open(&p, STRANGER, true);
		close(p.far);
		p.far = -1;
		assert_int_equal(socket_owner_find(asks, p.near, &uid), OWNER_HIDDEN);
		close(p.near);
		p.near = -1;
		pair_close(&p);
		pair_open(&p, STRANGER, false);		/* nobody has accepted it */
		assert_int_equal(socket_owner_find(asks, p.far, &uid), OWNER_HIDDEN);
		pair_close(&p);
	}
	close(asks);
}

static void what_the_kernel_does_not_tell_is_hidden(void **state)
{
	struct pair p;
	uint32_t uid;

	(void)state;
	family = AF_INET;
	pair_open(&p, STRANGER, true);
	assert_int_equal(socket_owner_find(-1, p.near, &uid), OWNER_HIDDEN);
	assert_false(socket_owner_works(-1, p.listening));
	pair_close(&p);
}

/* ---- who asks ---------------------------------------------------------- */

/* A peer of that user, who has said hello. */
static void join_as(struct wire *w, uint32_t uid, uint64_t epoch)
{
	become(uid);
	wire_dial(w, &at);
	become(0);
	wire_send(w, wire_hello(epoch));
	json_decref(wire_expect(w, "hello"));
}

static struct tent_client *attach_as(uint32_t uid, const char *name)
{
	struct tent_client *c;

	become(uid);
	c = engine_fix_attach(&fix, name);
	become(0);
	return c;
}

/* 0 when it is described, else the rule. */
static uint32_t ask_for(struct wire *w, const char *segment, uint32_t uid)
{
	uint32_t rule = 0;
	json_t *answer;

	wire_send(w, json_pack("{s:s,s:s,s:I,s:i}", "type", "describe", "segment", segment,
			       "uid", (json_int_t)uid, "first", 0));
	answer = wire_receive(w, WIRE_WAIT_MS);
	assert_non_null(answer);
	if (strcmp(frame_text(answer, "type", 32), "segment") != 0)
		assert_true(frame_uint(answer, "rule", UINT16_MAX, &rule));
	json_decref(answer);
	return rule;
}

static void an_engine_asks_for_the_user_whose_it_is(void **state)
{
	struct tent_client *roots = attach_as(0, "roots"), *strangers = attach_as(STRANGER, "his");
	struct wire root, stranger;

	(void)state;
	join_as(&root, 0, 2);
	join_as(&stranger, STRANGER, 3);
	assert_int_equal(ask_for(&stranger, "his", STRANGER), 0);
	assert_int_equal(ask_for(&stranger, "roots", 0), TENT_RULE_SEGMENT_TENANT);
	assert_int_equal(ask_for(&stranger, "his", 0), TENT_RULE_SEGMENT_TENANT);
	assert_int_equal(ask_for(&stranger, "no-such", OTHER), TENT_RULE_SEGMENT_TENANT);
	assert_int_equal(ask_for(&stranger, "no-such", STRANGER), TENT_RULE_SEGMENT_UNKNOWN);
	assert_int_equal(ask_for(&root, "roots", 0), 0);
	assert_int_equal(ask_for(&root, "his", STRANGER), 0);
	assert_int_equal(ask_for(&root, "his", 0), TENT_RULE_SEGMENT_TENANT);
	wire_close(&stranger);
	wire_close(&root);
	tent_client_detach(strangers);
	tent_client_detach(roots);
}

/* Until the other end is accepted the kernel may still see it open. */
static void an_engine_that_has_hung_up_asks_for_nobody(void **state)
{
	struct tent_client *roots = attach_as(0, "roots");
	uint8_t *bytes;
	struct wire honest, w;
	size_t size;

	(void)state;
	join_as(&honest, 0, 2);
	bytes = frame_bytes(json_pack("{s:s,s:s,s:I,s:i}", "type", "describe", "segment", "roots",
				      "uid", (json_int_t)0, "first", 0), &size);
	for (int i = 0; i < 200; i++) {
		json_t *answer;

		become(STRANGER);
		wire_dial(&w, &at);
		become(0);
		wire_send(&w, wire_hello(5));
		wire_write(&w, bytes, size);
		shutdown(w.fd, SHUT_WR);
		while ((answer = wire_receive(&w, WIRE_WAIT_MS))) {
			assert_string_not_equal(frame_text(answer, "type", 32), "segment");
			json_decref(answer);
		}
		wire_close(&w);
		wire_ping(&honest);
	}
	free(bytes);
	wire_close(&honest);
	tent_client_detach(roots);
}

/* ---- who is asked ------------------------------------------------------ */

struct stage {
	struct engine_address a;
	int listening;
	char name[TENT_CTL_NAME_SIZE];
	struct tent_client *user;
	pthread_t thread;
	int rc;
	char said[256];
};

static void *opens(void *arg)
{
	struct tent_error_info info = { .size = sizeof(info) };
	struct stage *s = arg;
	tent_segment_id_t id;

	s->rc = tent_client_open_segment(s->user, s->name, &id);
	if (s->rc)
		tent_client_error(&info);
	snprintf(s->said, sizeof(s->said), "%s", s->rc ? info.message : "");
	return NULL;
}

/* A program of one user takes a port, and a client of another opens a segment there. */
static void stage_open(struct stage *s, struct wire *w, uint32_t listener, uint32_t client)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof(a);

	memset(s, 0, sizeof(*s));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listening, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s->listening, 8), 0);
	getsockname(s->listening, (struct sockaddr *)&a, &size);
	snprintf(s->name, sizeof(s->name), "127.0.0.1:%u/kv", ntohs(a.sin_port));
	s->user = attach_as(client, NULL);
	assert_int_equal(pthread_create(&s->thread, NULL, opens, s), 0);
	memset(w, 0, sizeof(*w));
	frame_reader_init(&w->reader, FRAME_MAX);
	become(listener);
	w->fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC);
	become(0);
	assert_true(w->fd >= 0);
	json_decref(wire_expect(w, "hello"));
	wire_send(w, wire_hello(5));
}

static void stage_close(struct stage *s, struct wire *w)
{
	tent_client_detach(s->user);
	close(s->listening);
	wire_close(w);
}

static void who_takes_the_port_of_an_engine_is_asked_for_nobody_elses(void **state)
{
	struct stage s;
	struct wire w;
	json_t *frame;

	(void)state;
	for (int i = 0; i < 2; i++) {
		stage_open(&s, &w, STRANGER, i ? OTHER : 0);
		pthread_join(s.thread, NULL);
		assert_int_not_equal(s.rc, 0);
		assert_non_null(strstr(s.said, "another user's program listens there"));
		while ((frame = wire_receive(&w, WIRE_WAIT_MS))) {	/* nobody needs it now */
			assert_string_not_equal(frame_text(frame, "type", 32), "describe");
			json_decref(frame);
		}
		stage_close(&s, &w);
	}
}

static void the_engine_of_a_user_is_asked_for_that_user(void **state)
{
	struct stage s;
	struct wire w;

	(void)state;
	for (int i = 0; i < 2; i++) {
		uint32_t listener = i ? 0 : STRANGER;

		stage_open(&s, &w, listener, STRANGER);
		json_decref(wire_expect(&w, "describe"));
		wire_send(&w, json_pack("{s:s,s:s,s:I,s:s,s:s,s:i,s:i,s:[]}", "type", "segment",
					"segment", "kv", "uid", (json_int_t)STRANGER, "life",
					"0x9", "version", "0x1", "first", 0, "total", 0,
					"buffers"));
		pthread_join(s.thread, NULL);
		if (s.rc)
			fail_msg("%s", s.said);
		stage_close(&s, &w);
	}
}

/* ---- how many ---------------------------------------------------------- */

static void few(struct engine_config *c)
{
	patient(c);
	wire_set(c, "limits/peer_connections", "6");
}

static void dial_as(struct wire *w, const struct engine_address *a, uint32_t uid)
{
	become(uid);
	wire_dial(w, a);
	become(0);
	wire_send(w, wire_hello(20));
}

static void join_at(struct wire *w, const struct engine_address *a, uint32_t uid)
{
	dial_as(w, a, uid);
	json_decref(wire_expect(w, "hello"));
}

/* Until one that left has been seen to leave. */
static void join_in_time(struct wire *w, const struct engine_address *a, uint32_t uid)
{
	for (;;) {
		json_t *reply;
		bool in;

		dial_as(w, a, uid);
		reply = wire_receive(w, WIRE_WAIT_MS);
		in = strcmp(frame_text(reply, "type", 32), "hello") == 0;
		json_decref(reply);
		if (in)
			return;
		wire_close(w);
	}
}

static void one_user_may_have_half_of_the_connections(void **state)
{
	struct engine_address a;
	struct wire wires[6], w;
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, few);
	a = wire_address(&f);
	for (int i = 0; i < 3; i++)
		join_at(&wires[i], &a, STRANGER);
	dial_as(&w, &a, STRANGER);
	wire_expect_refusal(&w, "half of limits/peer_connections");
	wire_close(&w);
	for (int i = 3; i < 6; i++)
		join_at(&wires[i], &a, i == 3 ? 0 : OTHER);
	for (int i = 0; i < 6; i++)
		wire_ping(&wires[i]);
	wire_close(&wires[0]);
	join_in_time(&wires[0], &a, STRANGER);
	for (int i = 0; i < 6; i++)
		wire_close(&wires[i]);
	engine_fix_stop(&f);
}

static void no_more_than_the_limit_are_kept(void **state)
{
	struct engine_address a;
	struct wire wires[6], w;
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, few);
	a = wire_address(&f);
	for (int i = 0; i < 6; i++)
		join_at(&wires[i], &a, i % 2 ? STRANGER : OTHER);
	dial_as(&w, &a, 0);
	wire_expect_refusal(&w, "as limits/peer_connections allows");
	wire_close(&w);
	for (int i = 0; i < 6; i++)
		wire_ping(&wires[i]);
	wire_close(&wires[1]);
	join_in_time(&wires[1], &a, 0);
	for (int i = 0; i < 6; i++) {
		wire_ping(&wires[i]);
		wire_close(&wires[i]);
	}
	engine_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_tells_whose_a_socket_is),
		cmocka_unit_test(a_socket_that_is_closed_is_nobodys),
		cmocka_unit_test(what_the_kernel_does_not_tell_is_hidden),
		cmocka_unit_test(an_engine_asks_for_the_user_whose_it_is),
		cmocka_unit_test(an_engine_that_has_hung_up_asks_for_nobody),
		cmocka_unit_test(who_takes_the_port_of_an_engine_is_asked_for_nobody_elses),
		cmocka_unit_test(the_engine_of_a_user_is_asked_for_that_user),
		cmocka_unit_test(one_user_may_have_half_of_the_connections),
		cmocka_unit_test(no_more_than_the_limit_are_kept),
	};

	return cmocka_run_group_tests(tests, setup, engine_fix_teardown);
}
