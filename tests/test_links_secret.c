/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_links_secret.c - links of engines that have a peers/secret_file: who knows the
 * secret is served, and nobody who does not is told anything, gets a place for long, or
 * keeps an honest peer from being served.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/backends.h"
#include "tests/common/random.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

static struct engine_address at;
static char ours[64], theirs[64];	/* files with secrets */
static struct tls *knows, *guesses;

static void with_secret(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
	wire_set(c, "peers/secret_file", ours);
}

static void with_another(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/secret_file", theirs);
}

static int setup(void **state)
{
	char error[512];

	(void)state;
	wire_secret_file(ours, "correct-horse-battery-staple-0123456789\n");
	wire_secret_file(theirs, "incorrect-horse-battery-staple-0123456789\n");
	assert_int_equal(tls_open(&knows, ours, error, sizeof(error)), 0);
	assert_int_equal(tls_open(&guesses, theirs, error, sizeof(error)), 0);
	engine_fix_start(&fix, with_secret);
	at = wire_address(&fix);
	return 0;
}

static int teardown(void **state)
{
	engine_fix_teardown(state);
	tls_close(knows);
	tls_close(guesses);
	unlink(ours);
	unlink(theirs);
	return 0;
}

/* Proves that it knows the secret, and says hello. */
static void introduce(struct wire *w, uint64_t epoch)
{
	const char *fault = wire_secret(w, knows);

	if (fault)
		fail_msg("TLS: %s", fault);
	wire_send(w, wire_hello(epoch));
	json_decref(wire_expect(w, "hello"));
}

static void join(struct wire *w, const struct engine_address *a, uint64_t epoch)
{
	wire_dial(w, a);
	introduce(w, epoch);
}

static void an_honest_peer_is_served(void)
{
	struct wire w;

	join(&w, &at, 99);
	wire_ping(&w);
	wire_close(&w);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- who is who -------------------------------------------------------- */

static void who_knows_the_secret_is_served(void **state)
{
	struct wire a, b;

	(void)state;
	join(&a, &at, 5);
	join(&b, &at, 6);
	for (int i = 0; i < 100; i++) {
		wire_ping(&a);
		wire_ping(&b);
	}
	wire_close(&a);
	wire_ping(&b);
	wire_close(&b);
}

static void who_knows_another_secret_is_refused_and_both_know_why(void **state)
{
	struct wire honest, w;
	const char *fault;

	(void)state;
	join(&honest, &at, 8);
	wire_dial(&w, &at);
	fault = wire_secret(&w, guesses);
	assert_non_null(fault);
	assert_non_null(strstr(fault, "does not take this secret"));
	wire_expect_end(&w);
	wire_expect_fault(&fix, "the secret of the other end is another");
	wire_close(&w);
	wire_ping(&honest);
	wire_close(&honest);
}

static void who_speaks_in_the_clear_is_refused_and_both_know_why(void **state)
{
	static const char *const words[] = {
		"TENT", "TENT\2\0\0\0", "GET / HTTP/1.1\r\n\r\n", "\x15\3\3\0\2\2\x28", "\x80\x2e\1", "x",
	};
	struct wire honest, w;

	(void)state;
	join(&honest, &at, 8);
	wire_dial(&w, &at);
	wire_send(&w, wire_hello(7));
	wire_expect_refusal(&w, "speaks TLS");
	wire_expect_fault(&fix, "speaks TLS");
	wire_close(&w);
	for (size_t i = 0; i < NR(words); i++) {
		wire_dial(&w, &at);
		wire_write(&w, words[i], strlen(words[i]));
		wire_expect_refusal(&w, "peers/secret_file");
		wire_close(&w);
		wire_ping(&honest);
	}
	wire_close(&honest);
}

static void who_speaks_tls_to_an_engine_without_a_secret_is_refused(void **state)
{
	struct engine_fix clear;
	struct engine_address a;
	struct wire honest, w;

	(void)state;
	engine_fix_start(&clear, wire_tune);
	a = wire_address(&clear);
	wire_join(&honest, &a, 8);
	wire_dial(&w, &a);
	assert_non_null(wire_secret(&w, knows));
	wire_expect_end(&w);
	wire_expect_fault(&clear, "it speaks TLS");
	wire_close(&w);
	wire_ping(&honest);
	wire_close(&honest);
	engine_fix_stop(&clear);
}

/* ---- two engines ------------------------------------------------------- */

/* What one engine hears that opens a segment of another; "" when that goes well. */
static void open_between(void (*caller)(struct engine_config *c),
			 void (*called)(struct engine_config *c), const char *caller_hears,
			 const char *called_notes)
{
	struct tent_error_info info = { .size = sizeof(info) };
	struct tent_client *user, *owner;
	struct engine_fix a, b;
	tent_segment_id_t id;
	int rc;

	engine_fix_start(&a, caller);
	engine_fix_start(&b, called);
	owner = engine_fix_attach(&b, "kv");
	engine_fix_memory(owner, 4096);
	user = engine_fix_attach(&a, NULL);
	rc = tent_client_open_segment(user, tent_client_segment(owner), &id);
	if (rc)
		tent_client_error(&info);
	if (!rc != !*caller_hears || !strstr(info.message, caller_hears))
		fail_msg("the caller hears \"%s\", not \"%s\"", info.message, caller_hears);
	if (*called_notes)
		wire_expect_fault(&b, called_notes);
	tent_client_detach(user);
	tent_client_detach(owner);
	engine_fix_stop(&b);
	engine_fix_stop(&a);
}

static void engines_with_one_secret_open_each_others_segments(void **state)
{
	(void)state;
	open_between(with_secret, with_secret, "", "");
}

static void engines_that_do_not_agree_on_secrets_say_why(void **state)
{
	(void)state;
	open_between(with_secret, with_another, "does not take this secret",
		     "the secret of the other end is another");
	open_between(with_secret, wire_tune, "it speaks no TLS", "it speaks TLS");
	open_between(wire_tune, with_secret, "speaks TLS", "speaks TLS");
}

/* ---- bytes that prove nothing ------------------------------------------ */

/* What a caller who knows the secret sends first. */
static size_t first_flight(uint8_t bytes[1024])
{
	struct tls_session *s = tls_session_create(knows, true);
	size_t size;

	assert_int_equal(tls_read(s, bytes, 1024, &size), TLS_MORE);
	size = tls_take(s, bytes, 1024);
	assert_in_range(size, 100, 1023);
	tls_session_free(s);
	return size;
}

/* Whatever comes, until nothing does. */
static void drain(const struct wire *w)
{
	uint8_t bytes[4096];

	while (recv(w->fd, bytes, sizeof(bytes), 0) > 0)
		;
}

static void random_bytes_end_a_link_and_no_other(void **state)
{
	uint8_t bytes[1024];
	uint64_t seed = 5;
	struct wire honest, w;
	size_t size;

	(void)state;
	join(&honest, &at, 8);
	for (int i = 0; i < 300; i++) {
		size = first_flight(bytes);
		if (i % 3)		/* else a hello with some bytes wrong */
			size = 200;
		for (size_t n = i % 3 ? size : 3; n; n--)
			bytes[random_next(&seed) % size] = (uint8_t)random_next(&seed);
		if (i % 3 == 1)
			memcpy(bytes, "\x16\3\1\0\xc3", 5);
		wire_dial(&w, &at);
		wire_write(&w, bytes, size);
		shutdown(w.fd, SHUT_WR);
		drain(&w);
		wire_close(&w);
	}
	wire_ping(&honest);
	wire_close(&honest);
}

/* All that an honest peer sent, sent again: the engine's half is another this time. */
static void a_recording_of_an_honest_peer_is_refused(void **state)
{
	struct tls_session *s = tls_session_create(knows, true);
	uint8_t sent[4096], bytes[4096];
	size_t nr_sent = 0, size;
	struct wire honest, w;
	ssize_t n;

	(void)state;
	join(&honest, &at, 8);
	wire_dial(&w, &at);
	while (tls_read(s, bytes, sizeof(bytes), &size) != TLS_UP) {
		size = tls_take(s, sent + nr_sent, sizeof(sent) - nr_sent);
		wire_write(&w, sent + nr_sent, size);
		nr_sent += size;
		n = recv(w.fd, bytes, sizeof(bytes), 0);
		assert_true(n > 0 && tls_put(s, bytes, (size_t)n));
	}
	nr_sent += tls_take(s, sent + nr_sent, sizeof(sent) - nr_sent);
	wire_close(&w);
	tls_session_free(s);
	for (int i = 0; i < 20; i++) {
		wire_dial(&w, &at);
		wire_write(&w, sent, nr_sent);
		drain(&w);
		wire_expect_fault(&fix, "TLS: ");
		wire_close(&w);
	}
	wire_ping(&honest);
	wire_close(&honest);
}

static void halves_of_a_handshake_are_waited_for_by_nobody_else(void **state)
{
	struct wire honest, half;
	uint8_t bytes[1024];
	size_t size = first_flight(bytes);

	(void)state;
	join(&honest, &at, 8);
	for (size_t cut = 1; cut < size; cut += 11) {
		wire_dial(&half, &at);
		wire_write(&half, bytes, cut);
		wire_ping(&honest);
		wire_close(&half);
	}
	wire_ping(&honest);
	wire_close(&honest);
}

/* Who has proven that he knows the secret may still say nonsense. */
static void wrong_frames_inside_end_the_link_and_no_other(void **state)
{
	static const struct { const char *bytes; size_t size; const char *why; } wrong[] = {
		{ "GET / HTTP/1.1\r\n\r\n", 18, "no frame" },
		{ "\x16\3\1\0\x10", 5, "TLS" },
		{ "TENT\2\0\0\0\2\0\0\0{}", 14, "version" },
		{ "TENT\1\0\0\0\0\0\0\x40", 12, "longer" },
		{ "TENT\1\0\0\0\4\0\0\0[[[[", 16, "JSON" },
	};
	struct wire honest, w;

	(void)state;
	join(&honest, &at, 8);
	for (size_t i = 0; i < 2 * NR(wrong); i++) {
		if (i % 2) {
			join(&w, &at, 9);
		} else {
			wire_dial(&w, &at);
			assert_null(wire_secret(&w, knows));
		}
		wire_write(&w, wrong[i / 2].bytes, wrong[i / 2].size);
		wire_expect_refusal(&w, wrong[i / 2].why);
		wire_close(&w);
		wire_ping(&honest);
	}
	wire_close(&honest);
}

/* ---- many, and slow ---------------------------------------------------- */

static void a_hundred_shake_hands_at_once(void **state)
{
	(void)state;
	wire_shake_hands(&at, knows);
}

static void a_crowd_that_proves_nothing_keeps_nobody_out(void **state)
{
	static struct wire crowd[600];
	struct wire first;
	uint8_t bytes[1024];
	size_t size = first_flight(bytes);

	(void)state;
	join(&first, &at, 8);
	for (size_t i = 0; i < NR(crowd); i++) {
		wire_dial(&crowd[i], &at);
		wire_write(&crowd[i], bytes, i % 3 ? size : i % 2);	/* all, one byte, none */
		if (i % 50 == 0)
			an_honest_peer_is_served();
	}
	wire_ping(&first);
	an_honest_peer_is_served();
	wire_close(&first);
	for (size_t i = 0; i < NR(crowd); i++)
		wire_close(&crowd[i]);
}

/* Silent at each stage: connected, in the middle of the handshake, after it. */
static void who_is_slow_to_prove_anything_is_left_in_time(void **state)
{
	uint64_t began = now_ms();
	struct wire silent, half, proven;
	uint8_t bytes[1024];
	size_t size = first_flight(bytes);

	(void)state;
	wire_dial(&silent, &at);
	wire_dial(&half, &at);
	wire_write(&half, bytes, size / 2);
	wire_dial(&proven, &at);
	assert_null(wire_secret(&proven, knows));
	wire_expect_end(&silent);
	assert_true(now_ms() - began >= 4900);
	wire_expect_end(&half);
	wire_expect_end(&proven);
	wire_close(&silent);
	wire_close(&half);
	wire_close(&proven);
}

/* ---- where it listens -------------------------------------------------- */

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

static void a_daemon_with_a_secret_listens_anywhere(void **state)
{
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	with_secret(&c);
	wire_set(&c, "rpc_server_hostname", "0.0.0.0");
	c.daemon = true;
	assert_int_equal(start(&c, text), 0);
	assert_null(strstr(text, "not checked"));
}

static void a_secret_that_cannot_be_used_keeps_the_engine_from_starting(void **state)
{
	struct engine_config c;
	char text[512];

	(void)state;
	engine_config_default(&c);
	wire_tune(&c);
	wire_set(&c, "peers/secret_file", "/tmp/tent-no-such-secret");
	assert_int_equal(start(&c, text), TENT_ERR_CONFIG);
	assert_non_null(strstr(text, "peers/secret_file is /tmp/tent-no-such-secret: "));
	wire_set(&c, "peers/secret_file", theirs);
	assert_int_equal(chmod(theirs, 0644), 0);
	assert_int_equal(start(&c, text), TENT_ERR_CONFIG);
	assert_non_null(strstr(text, "0644"));
	assert_int_equal(chmod(theirs, 0600), 0);
	assert_int_equal(start(&c, text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_knows_the_secret_is_served),
		cmocka_unit_test(who_knows_another_secret_is_refused_and_both_know_why),
		cmocka_unit_test(who_speaks_in_the_clear_is_refused_and_both_know_why),
		cmocka_unit_test(who_speaks_tls_to_an_engine_without_a_secret_is_refused),
		cmocka_unit_test(engines_with_one_secret_open_each_others_segments),
		cmocka_unit_test(engines_that_do_not_agree_on_secrets_say_why),
		cmocka_unit_test(random_bytes_end_a_link_and_no_other),
		cmocka_unit_test(a_recording_of_an_honest_peer_is_refused),
		cmocka_unit_test(halves_of_a_handshake_are_waited_for_by_nobody_else),
		cmocka_unit_test(wrong_frames_inside_end_the_link_and_no_other),
		cmocka_unit_test(a_hundred_shake_hands_at_once),
		cmocka_unit_test(a_crowd_that_proves_nothing_keeps_nobody_out),
		cmocka_unit_test(who_is_slow_to_prove_anything_is_left_in_time),
		cmocka_unit_test(a_daemon_with_a_secret_listens_anywhere),
		cmocka_unit_test(a_secret_that_cannot_be_used_keeps_the_engine_from_starting),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
