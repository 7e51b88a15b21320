/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_links.c - what an engine says to those who call it over TCP, and that nobody who
 * calls it wrongly, slowly, too often or not at all keeps it from an honest peer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/backends.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

static struct engine_address at;

/* Nobody of these tests is too slow for a machine that is busy. */
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

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void an_honest_peer_is_served(void)
{
	struct wire w;

	wire_join(&w, &at, 99);
	wire_ping(&w);
	wire_close(&w);
}

/* ---- hello ------------------------------------------------------------- */

static void hello_tells_who_is_there(void **state)
{
	char name[ADDRESS_SIZE];
	struct wire w, again;
	uint64_t epoch, same;
	json_t *hello;

	(void)state;
	engine_address_print(&at, name);
	wire_dial(&w, &at);
	wire_send(&w, wire_hello(5));
	hello = wire_expect(&w, "hello");
	assert_true(frame_u64(hello, "epoch", &epoch) && epoch);
	assert_string_equal(frame_text(hello, "name", 80), name);
	json_decref(hello);
	wire_ping(&w);
	wire_dial(&again, &at);
	wire_send(&again, wire_hello(5));	/* the same engine, once more */
	hello = wire_expect(&again, "hello");
	assert_true(frame_u64(hello, "epoch", &same) && same == epoch);
	json_decref(hello);
	wire_ping(&again);
	wire_ping(&w);
	wire_close(&w);
	wire_close(&again);
}

static json_t *own_epoch(void)
{
	struct wire w;
	json_t *hello;

	wire_dial(&w, &at);
	wire_send(&w, wire_hello(5));
	hello = wire_expect(&w, "hello");
	wire_close(&w);
	return hello;	/* its own, replayed */
}

static void a_hello_that_says_nothing_is_refused(void **state)
{
	static const char *const names[] = {
		"text", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:5/text", "file:///etc", ":", "a b:5",
	};
	struct wire w;

	(void)state;
	wire_dial(&w, &at);
	wire_send(&w, wire_hello(0));
	wire_expect_refusal(&w, "epoch");
	wire_close(&w);
	wire_dial(&w, &at);
	wire_send(&w, json_pack("{s:s}", "type", "hello"));
	wire_expect_refusal(&w, "epoch");
	wire_close(&w);
	for (size_t i = 0; i < NR(names); i++) {
		json_t *hello = wire_hello(7);

		json_object_set_new(hello, "name", json_string(names[i]));
		wire_dial(&w, &at);
		wire_send(&w, hello);
		wire_expect_refusal(&w, "name");
		wire_close(&w);
	}
	an_honest_peer_is_served();
}

static void an_engine_that_calls_itself_is_told(void **state)
{
	struct wire w;

	(void)state;
	wire_dial(&w, &at);
	wire_send(&w, own_epoch());
	wire_expect_refusal(&w, "itself");
	wire_close(&w);
}

static void hello_comes_first_and_once(void **state)
{
	struct wire w;

	(void)state;
	wire_dial(&w, &at);
	wire_send(&w, json_pack("{s:s}", "type", "ping"));
	wire_expect_refusal(&w, "first");
	wire_close(&w);
	wire_join(&w, &at, 7);
	wire_send(&w, wire_hello(7));
	wire_expect_refusal(&w, "once");
	wire_close(&w);
	wire_join(&w, &at, 7);
	wire_send(&w, json_pack("{s:s}", "type", "gossip"));
	wire_expect_refusal(&w, "type");
	wire_close(&w);
	an_honest_peer_is_served();
}

/* ---- bytes that are no frames ------------------------------------------ */

static void whoever_speaks_something_else_is_refused(void **state)
{
	static const struct { const char *bytes; size_t size; const char *why; } wrong[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 18, "no frame" },
		{ "\x16\x03\x01\x02\x00", 5, "it speaks TLS" },
		{ "TENT\2\0\0\0\2\0\0\0{}", 14, "version" },
		{ "TENT\0\1\0\0\2\0\0\0{}", 14, "version" },
		{ "TENT\1\0\0\0\0\0\0\x40", 12, "longer" },
		{ "TENT\1\0\0\0\0\0\0\0", 12, "empty" },
		{ "TENT\1\0\0\0\xff\xff\xff\xff", 12, "longer" },
		{ "TENT\1\0\0\0\2\0\0\0{}", 14, "type" },
		{ "TENT\1\0\0\0\4\0\0\0[[[[", 16, "JSON" },
	};
	struct wire honest, w;

	(void)state;
	wire_join(&honest, &at, 8);
	for (size_t i = 0; i < NR(wrong); i++) {
		for (int after_hello = 0; after_hello < 2; after_hello++) {
			if (after_hello)
				wire_join(&w, &at, 9);
			else
				wire_dial(&w, &at);
			wire_write(&w, wrong[i].bytes, wrong[i].size);
			wire_expect_refusal(&w, wrong[i].why);
			wire_close(&w);
			wire_ping(&honest);
		}
	}
	wire_close(&honest);
}

static void random_bytes_end_a_link_and_no_other(void **state)
{
	struct wire honest, w;
	uint32_t seed = 3;

	(void)state;
	wire_join(&honest, &at, 8);
	for (int i = 0; i < 300; i++) {
		uint8_t bytes[64];

		for (size_t at_byte = 0; at_byte < sizeof(bytes); at_byte++) {
			seed = seed * 1664525 + 1013904223;
			bytes[at_byte] = (uint8_t)(seed >> 24);
		}
		if (i % 2)
			memcpy(bytes, "TENT\1\0\0\0\x30\0\0\0", 12);
		wire_dial(&w, &at);
		wire_write(&w, bytes, sizeof(bytes));
		wire_expect_end(&w);
		wire_close(&w);
	}
	wire_ping(&honest);
	wire_close(&honest);
}

static void frames_sent_by_halves_are_waited_for_by_nobody_else(void **state)
{
	struct wire honest, half;
	size_t size;
	uint8_t *bytes = frame_bytes(wire_hello(6), &size);

	(void)state;
	wire_join(&honest, &at, 8);
	for (size_t cut = 1; cut < size; cut += 7) {
		wire_dial(&half, &at);
		wire_write(&half, bytes, cut);
		wire_ping(&honest);
		wire_write(&half, bytes + cut, size - cut);
		json_decref(wire_expect(&half, "hello"));
		wire_close(&half);
		wire_dial(&half, &at);
		wire_write(&half, bytes, cut);
		wire_close(&half);	/* it never comes */
	}
	wire_ping(&honest);
	wire_close(&honest);
	free(bytes);
}

static void strangers_get_less_room_than_peers(void **state)
{
	char *filler = calloc(1, FRAME_HELLO_MAX);
	struct wire w;

	(void)state;
	memset(filler, 'x', FRAME_HELLO_MAX - 1);
	wire_dial(&w, &at);
	wire_send(&w, json_pack("{s:s,s:s}", "type", "hello", "x", filler));
	wire_expect_refusal(&w, "longer");
	wire_close(&w);
	wire_join(&w, &at, 7);
	wire_send(&w, json_pack("{s:s,s:s}", "type", "ping", "x", filler));
	json_decref(wire_expect(&w, "pong"));
	wire_close(&w);
	free(filler);
}

/* ---- many -------------------------------------------------------------- */

static void a_hundred_shake_hands_at_once(void **state)
{
	(void)state;
	wire_shake_hands(&at, NULL);
}

/* Who says nothing, or a byte now and then, loses his place to those who come. */
static void a_crowd_of_the_silent_keeps_nobody_out(void **state)
{
	static struct wire crowd[600];
	struct wire first;

	(void)state;
	wire_join(&first, &at, 8);
	for (size_t i = 0; i < NR(crowd); i++) {
		wire_dial(&crowd[i], &at);
		wire_write(&crowd[i], "TEN", 3);
		if (i % 50 == 0)
			an_honest_peer_is_served();
	}
	wire_expect_end(&crowd[0]);
	an_honest_peer_is_served();
	wire_ping(&first);
	wire_close(&first);
	for (size_t i = 0; i < NR(crowd); i++)
		wire_close(&crowd[i]);
}

/* ---- silence ----------------------------------------------------------- */

static void quick(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "500");
}

/* How long this thread was away at most, in ms. */
struct gap {
	uint64_t looked, longest;
};

static void look(struct gap *g)
{
	uint64_t now = now_ms();

	g->longest = now - g->looked > g->longest ? now - g->looked : g->longest;
	g->looked = now;
}

/* Gives every sign of life that it is asked for, until the other one was left. */
static void answer_beside(struct wire *lively, struct wire *silent, struct gap *g)
{
	char byte;

	while (recv(silent->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0) {
		json_t *frame = wire_receive(lively, 20);

		look(g);
		if (frame)
			wire_send(lively, json_pack("{s:s}", "type", "pong"));
		json_decref(frame);
		json_decref(wire_receive(silent, 0));	/* it is asked more than once */
	}
}

/* False: this thread was away for so long that both were silent. */
static bool one_falls_silent(const struct engine_address *a)
{
	struct wire silent, lively;
	uint64_t began = now_ms();
	struct gap g = { 0, 0 };

	wire_join(&silent, a, 1);
	json_decref(wire_expect(&silent, "ping"));
	g.looked = now_ms();
	wire_join(&lively, a, 2);
	answer_beside(&lively, &silent, &g);
	assert_true(now_ms() - began >= 1500);	/* and within the bound, on a quiet machine */
	wire_send(&lively, json_pack("{s:s}", "type", "ping"));
	look(&g);
	if (g.longest < 1000)
		json_decref(wire_expect(&lively, "pong"));
	wire_close(&lively);
	wire_close(&silent);
	return g.longest < 1000;
}

static void a_silent_peer_is_asked_and_then_left(void **state)
{
	struct engine_address a;
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, quick);
	a = wire_address(&f);
	while (!one_falls_silent(&a))
		;
	engine_fix_stop(&f);
}

static void who_does_not_say_hello_in_time_is_left(void **state)
{
	uint64_t began = now_ms();
	struct wire w;

	(void)state;
	wire_dial(&w, &at);
	wire_write(&w, "TENT", 4);
	wire_expect_end(&w);
	assert_true(now_ms() - began >= 4900);
	wire_close(&w);
}

/* ---- where it listens -------------------------------------------------- */

/* How an engine of that configuration starts: 0 and its notices, or the sentence. */
static int start(const struct engine_config *c, char text[512])
{
	struct engine *e;
	int rc = engine_create(&e, c, all_backends, text, 512);

	if (rc)
		return rc;
	strcpy(text, engine_notices(e));
	engine_destroy(e);
	return 0;
}

static void a_port_that_was_asked_for_is_taken_or_an_error(void **state)
{
	struct engine_config c;
	char port[8], text[512];

	(void)state;
	engine_config_default(&c);
	wire_tune(&c);
	snprintf(port, sizeof(port), "%u", at.port);
	wire_set(&c, "rpc_server_port", port);
	assert_int_equal(start(&c, text), TENT_ERR_CONFIG);
	assert_non_null(strstr(text, port));
	assert_non_null(strstr(text, "in use"));
	wire_set(&c, "rpc_server_port", "0");
	assert_int_equal(start(&c, text), 0);
}

static void a_port_that_was_left_open_moves_on_and_says_so(void **state)
{
	struct engine_fix first, second;
	struct engine_address a, b;
	struct engine_config c;
	char text[512];

	(void)state;
	engine_fix_start(&first, wire_tune);
	engine_fix_start(&second, wire_tune);
	a = wire_address(&first);
	b = wire_address(&second);
	assert_true(a.port >= 15000 && b.port > a.port && b.port <= 16999);
	assert_non_null(strstr(engine_notices(second.engine), "port 15000 is in use"));
	engine_config_default(&c);
	wire_tune(&c);
	assert_int_equal(start(&c, text), 0);
	assert_non_null(strstr(text, "listens at port"));
	engine_fix_stop(&second);
	engine_fix_stop(&first);
}

static void a_daemon_listens_on_this_host_unless_told_otherwise(void **state)
{
	static const char *const outward[] = { "0.0.0.0", "[::]" };
	static const char *const inward[] = { "", "127.0.0.1", "127.8.8.8", "localhost", "[::1]" };
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_tune(&c);
	c.daemon = true;
	for (size_t i = 0; i < NR(outward); i++) {
		wire_set(&c, "rpc_server_hostname", outward[i]);
		assert_int_equal(start(&c, text), TENT_ERR_CONFIG);
		if (!strstr(text, "peers/insecure"))
			fail_msg("%s: %s", outward[i], text);
	}
	for (size_t i = 0; i < NR(inward); i++) {
		wire_set(&c, "rpc_server_hostname", inward[i]);
		if (start(&c, text) && !strstr(text, "assign requested address"))
			fail_msg("%s: %s", inward[i], text);	/* IPv6 may be off */
		assert_null(strstr(text, "not checked"));
	}
	wire_set(&c, "rpc_server_hostname", "0.0.0.0");
	wire_set(&c, "peers/insecure", "true");
	assert_int_equal(start(&c, text), 0);
	assert_non_null(strstr(text, "not checked"));
}

static void a_program_listens_where_it_likes_and_warns(void **state)
{
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_tune(&c);
	assert_int_equal(start(&c, text), 0);
	assert_null(strstr(text, "not checked"));
	wire_set(&c, "rpc_server_hostname", "0.0.0.0");
	assert_int_equal(start(&c, text), 0);
	assert_non_null(strstr(text, "not checked"));
}

static void a_host_that_is_not_ours_is_an_error(void **state)
{
	static const char *const hosts[] = { "192.0.2.1", "no-such-host.invalid" };
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_tune(&c);
	for (size_t i = 0; i < NR(hosts); i++) {
		wire_set(&c, "rpc_server_hostname", hosts[i]);
		assert_int_equal(start(&c, text), TENT_ERR_CONFIG);
		assert_non_null(strstr(text, hosts[i]));
	}
}

static void without_peers_nobody_listens(void **state)
{
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_set(&c, "peers/enable", "false");
	c.port = at.port;	/* in use, which is nobody's affair */
	c.port_any = false;
	assert_int_equal(start(&c, text), 0);
	assert_string_equal(text, "");
}

static void who_did_not_ask_for_peers_starts_without_them_and_is_told(void **state)
{
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_set(&c, "rpc_server_hostname", "192.0.2.1");
	assert_int_equal(start(&c, text), 0);
	assert_non_null(strstr(text, "no engine of another host"));
	assert_non_null(strstr(text, "192.0.2.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_tells_who_is_there),
		cmocka_unit_test(a_hello_that_says_nothing_is_refused),
		cmocka_unit_test(an_engine_that_calls_itself_is_told),
		cmocka_unit_test(hello_comes_first_and_once),
		cmocka_unit_test(whoever_speaks_something_else_is_refused),
		cmocka_unit_test(random_bytes_end_a_link_and_no_other),
		cmocka_unit_test(frames_sent_by_halves_are_waited_for_by_nobody_else),
		cmocka_unit_test(strangers_get_less_room_than_peers),
		cmocka_unit_test(a_hundred_shake_hands_at_once),
		cmocka_unit_test(a_crowd_of_the_silent_keeps_nobody_out),
		cmocka_unit_test(a_silent_peer_is_asked_and_then_left),
		cmocka_unit_test(who_does_not_say_hello_in_time_is_left),
		cmocka_unit_test(a_port_that_was_asked_for_is_taken_or_an_error),
		cmocka_unit_test(a_port_that_was_left_open_moves_on_and_says_so),
		cmocka_unit_test(a_daemon_listens_on_this_host_unless_told_otherwise),
		cmocka_unit_test(a_program_listens_where_it_likes_and_warns),
		cmocka_unit_test(a_host_that_is_not_ours_is_an_error),
		cmocka_unit_test(without_peers_nobody_listens),
		cmocka_unit_test(who_did_not_ask_for_peers_starts_without_them_and_is_told),
	};

	return cmocka_run_group_tests(tests, setup, engine_fix_teardown);
}
