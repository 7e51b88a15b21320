/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_peers.c - a tentd whose port for peers is attacked, while an honest tentd
 * moves bytes to it and from it, and a client of its own is served. Each attack once on an engine
 * in the clear and once on one with a secret; then all of them at once.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/frame.h"
#include "engine/tls.h"
#include "ring/order.h"
#include "tests/common/raw.h"
#include "tests/common/soak.h"
#include "tests/common/tentd.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define FLOOD 10000
#define SIZE 65536
#define STRANGERS_MAX 256	/* a quarter of limits/peer_connections */

static struct tentd victim, honest;
static struct tent_client *owner;
static uint8_t *theirs;		/* its memory, SIZE bytes */
static char secret[64];		/* a file; "": none */
static struct tls *guesses;	/* knows another secret */
static struct sockaddr_in port;	/* the victim's */

/* ---- who is honest ----------------------------------------------------- */

struct witness {
	pthread_t threads[2];
	uint32_t stop;			/* set by the test */
	uint32_t rounds[2];		/* done so far */
};

__attribute__((noreturn))
static void fail_here(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	fprintf(stderr, "an honest %s: %s\n", what, info.message);
	abort();
}

static void move(struct tent_ring *ring, int opcode, const void *mine, tent_segment_id_t id)
{
	struct tent_request_v1 r = engine_fix_request(opcode, mine, id, theirs, SIZE);
	struct tent_completion done;

	if (tent_ring_submit(ring, &r, 1, sizeof(r), 0, 0))
		fail_here("submit");
	while (!tent_ring_poll(ring, &done, 1))
		need(tent_ring_wait(ring, UINT64_MAX) == 0);
	if (done.status != TENT_STATUS_COMPLETED) {
		fprintf(stderr, "an honest transfer ended with status %u, rule %u\n",
			done.status, done.rule);
		abort();
	}
}

/* Writes, sees that it arrived, reads it back. */
static void use(struct tent_client *c, tent_segment_id_t id, uint32_t round)
{
	struct tent_ring *ring;
	void *mine;

	if (tent_client_alloc(c, SIZE, NULL, &mine) ||
	    tent_client_register(c, mine, SIZE, TENT_PERM_LOCAL_READ_WRITE, NULL, 0) ||
	    tent_ring_open(c, 16, 16, &ring))
		fail_here("client's memory");
	memset(mine, (int)(round % 255 + 1), SIZE);
	move(ring, TENT_OPCODE_WRITE, mine, id);
	need(memcmp(mine, theirs, SIZE) == 0);
	memset(mine, 0, SIZE);
	move(ring, TENT_OPCODE_READ, mine, id);
	need(memcmp(mine, theirs, SIZE) == 0);
	tent_ring_close(ring);
}

/* A link has 5 s for its hello, which on a busy machine may pass without an attack. */
static void open_patiently(struct tent_client *c, tent_segment_id_t *id)
{
	struct tent_error_info info = { .size = sizeof(info) };

	while (tent_client_open_segment(c, tent_client_segment(owner), id)) {
		tent_client_error(&info);
		if (!strstr(info.message, "it did not say in time who it is"))
			fail_here("open");
		fprintf(stderr, "an honest link was late\n");
	}
}

/* Of the other engine: each time over a link, new or not. */
static void *moves_bytes(void *arg)
{
	struct witness *w = arg;

	while (!load_relaxed(&w->stop)) {
		struct tent_client *c;
		tent_segment_id_t id;

		if (tent_client_attach(honest.socket, NULL, &c))
			fail_here("attach");
		open_patiently(c, &id);
		use(c, id, w->rounds[0]);
		tent_client_detach(c);
		store_relaxed(&w->rounds[0], w->rounds[0] + 1);
	}
	return NULL;
}

/* Of the victim itself: its control thread serves both. */
static void *registers_memory(void *arg)
{
	struct witness *w = arg;
	struct tent_client *c;
	void *memory;

	if (tent_client_attach(victim.socket, NULL, &c))
		fail_here("attach");
	while (!load_relaxed(&w->stop)) {
		if (tent_client_alloc(c, 65536, NULL, &memory) ||
		    tent_client_register(c, memory, 65536, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0) ||
		    tent_client_free(c, memory))
			fail_here("client");
		store_relaxed(&w->rounds[1], w->rounds[1] + 1);
	}
	tent_client_detach(c);
	return NULL;
}

static void witness_rounds(struct witness *w, uint32_t more)
{
	for (int i = 0; i < 2; i++) {
		uint32_t goal = load_relaxed(&w->rounds[i]) + more;

		while (load_relaxed(&w->rounds[i]) < goal)
			poll(NULL, 0, 1);
	}
}

static void witness_begin(struct witness *w)
{
	memset(w, 0, sizeof(*w));
	assert_int_equal(pthread_create(&w->threads[0], NULL, moves_bytes, w), 0);
	assert_int_equal(pthread_create(&w->threads[1], NULL, registers_memory, w), 0);
	witness_rounds(w, 2);
}

static void witness_end(struct witness *w)
{
	witness_rounds(w, 3);
	store_relaxed(&w->stop, 1u);
	for (int i = 0; i < 2; i++)
		pthread_join(w->threads[i], NULL);
}

/* ---- the victim -------------------------------------------------------- */

static int victim_fds(void)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)victim.program.pid);
	d = opendir(path);
	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void start(struct tentd *t)
{
	char json[256];

	/* Nobody honest is silent or late, however busy the machine is. */
	snprintf(json, sizeof(json), "{\"peers\": {\"enable\": true, \"keepalive_ms\": 20000, "
		 "\"secret_file\": \"%s\"}, \"engine\": {\"request_timeout_ms\": 3600000}}", secret);
	tentd_prepare(t);
	tentd_configure(t, json);
	tentd_start_ready(t, NULL);
}

static int setup(void **state)
{
	char error[512], other[64];
	struct segment_name n;

	(void)state;
	wire_secret_file(other, "the-secret-of-none-0123456789-0123456789");
	assert_int_equal(tls_open(&guesses, other, error, sizeof(error)), 0);
	unlink(other);
	start(&victim);
	start(&honest);
	assert_int_equal(tent_client_attach(victim.socket, "kv", &owner), 0);
	theirs = engine_fix_memory(owner, SIZE);
	assert_null(segment_name_read(tent_client_segment(owner), &n));
	port = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(n.engine.port) };
	inet_pton(AF_INET, n.engine.host, &port.sin_addr);
	return 0;
}

static int setup_clear(void **state)
{
	*secret = '\0';
	return setup(state);
}

static int setup_secret(void **state)
{
	wire_secret_file(secret, "the-secret-of-both-0123456789-0123456789");
	return setup(state);
}

static int teardown(void **state)
{
	(void)state;
	tent_client_detach(owner);
	assert_int_equal(tentd_end(&honest, SIGTERM), 0);
	assert_int_equal(tentd_end(&victim, SIGTERM), 0);
	tentd_cleanup(&honest);
	tentd_cleanup(&victim);
	tls_close(guesses);
	if (*secret)
		unlink(secret);
	return 0;
}

/* ---- attacks: any thread ----------------------------------------------- */

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	need(fd >= 0);
	need(connect(fd, (struct sockaddr *)&port, sizeof(port)) == 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t size)
{
	send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);	/* it may have hung up */
}

static void say_frame(int fd, json_t *frame)
{
	size_t size;
	uint8_t *bytes = frame_bytes(frame, &size);

	say(fd, bytes, size);
	free(bytes);
}

/* Until the victim has hung up. */
static void drain(int fd)
{
	char bytes[4096];

	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
}

static void random_bytes(void)
{
	uint64_t seed = 1;

	for (int i = 0; i < 300; i++) {
		uint8_t bytes[512];
		int fd = dial();

		for (size_t n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)random_next(&seed);
		if (i % 3 == 1)
			memcpy(bytes, "TENT\1\0\0\0\xf0\1\0\0", 12);
		else if (i % 3 == 2)
			memcpy(bytes, "\x16\3\1\1\xfb\1\0\1\xf7\3\3", 11);
		say(fd, bytes, sizeof(bytes));
		shutdown(fd, SHUT_WR);
		drain(fd);
		close(fd);
	}
}

/* Says what it is, lengths and versions that cannot be, before hello and after. */
static void impossible_heads(void)
{
	static const struct { const char *bytes; size_t size; } heads[] = {
		{ "TENT\1\0\0\0\0\0\0\x40", 12 },		/* 1 GiB */
		{ "TENT\1\0\0\0\xff\xff\xff\xff", 12 }, { "TENT\1\0\0\0\0\0\0\0", 12 },
		{ "TENT\2\0\0\0\2\0\0\0{}", 14 }, { "TENT\xff\xff\0\0\2\0\0\0{}", 14 },
		{ "\x16\3\3\xff\xff\1\0\0\0", 9 }, { "\x16\3\1\0\0", 5 },
		{ "\x17\3\3\x40\0abcd", 9 }, { "\x16\3\1\0\4\1\xff\xff\xff", 9 },
	};

	for (size_t i = 0; i < 20 * NR(heads); i++) {
		int fd = dial();

		if (i % 2)
			say_frame(fd, wire_hello(9));
		say(fd, heads[i / 20].bytes, heads[i / 20].size);
		shutdown(fd, SHUT_WR);
		drain(fd);
		close(fd);
	}
}

static void half_frames(void)
{
	size_t size;
	uint8_t *bytes = frame_bytes(wire_hello(6), &size);

	for (int round = 0; round < 3; round++) {
		for (size_t cut = 1; cut < size; cut += 3) {
			int fd = dial();

			say(fd, bytes, cut);
			close(fd);
		}
	}
	free(bytes);
}

/* What an honest peer said once, to a link in the clear, is said again and again. */
static void replays(void)
{
	for (int i = 0; i < 100; i++) {
		int fd = dial();

		for (int n = 0; n < 1 + i % 3; n++)
			say_frame(fd, wire_hello(0x1234));
		say_frame(fd, json_pack("{s:s,s:s,s:i,s:i}", "type", "describe", "segment", "kv",
					"uid", 0, "first", 0));
		shutdown(fd, SHUT_WR);
		drain(fd);
		close(fd);
	}
}

/* TLS of one who knows another secret, or to an engine that speaks none. */
static void wrong_secrets(void)
{
	for (int i = 0; i < 100; i++) {
		struct tls_session *s = tls_session_create(guesses, true);
		uint8_t bytes[2048];
		int fd = dial();
		size_t size;

		need(tls_read(s, bytes, sizeof(bytes), &size) == TLS_MORE);
		size = tls_take(s, bytes, sizeof(bytes));
		say(fd, bytes, size);
		drain(fd);
		tls_session_free(s);
		close(fd);
	}
}

/* A byte now and then, never enough. */
static void slow_ones(void)
{
	static const char words[] = "TENT\1\0\0\0\x40\0\0\0{\"type\": \"hello\",";
	static const char records[] = "\x16\3\1\2\0\1\0\1\xfc\3\3abcdefghijklmnopqrstuvwxyz";
	int fds[200];

	for (size_t i = 0; i < NR(fds); i++)
		fds[i] = dial();
	for (size_t at = 0; at < 28; at++) {
		for (size_t i = 0; i < NR(fds); i++)
			say(fds[i], (i % 2 ? words : records) + at, 1);
		poll(NULL, 0, 20);
	}
	for (size_t i = 0; i < NR(fds); i++)
		close(fds[i]);
}

/* It asks and asks, and never reads. */
static void a_deaf_one(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), room = 16384;
	size_t size, used = 0;
	uint8_t *ping = frame_bytes(json_pack("{s:s}", "type", "ping"), &size), many[4096];

	for (; used + size <= sizeof(many); used += size)
		memcpy(many + used, ping, size);
	free(ping);
	need(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) == 0);
	need(connect(fd, (struct sockaddr *)&port, sizeof(port)) == 0);
	say_frame(fd, wire_hello(7));
	while (send(fd, many, used, MSG_NOSIGNAL) > 0)
		;		/* until it has hung up */
	close(fd);
}

static void hang_ups(void)
{
	const struct linger abort_it = { .l_onoff = 1, .l_linger = 0 };

	for (int i = 0; i < 1000; i++) {
		int fd = dial();

		if (i % 2)
			say_frame(fd, wire_hello(7));
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
		close(fd);
	}
}

/* As many at once as this process may have; the rest one after the other. */
static void ten_thousand(void)
{
	static int fds[FLOOD];
	struct rlimit l;
	size_t kept;

	need(getrlimit(RLIMIT_NOFILE, &l) == 0);
	l.rlim_cur = l.rlim_max;
	need(setrlimit(RLIMIT_NOFILE, &l) == 0);
	kept = l.rlim_cur > FLOOD + 1000 ? FLOOD : (size_t)l.rlim_cur / 2;
	for (size_t i = 0; i < FLOOD; i++) {
		if (i >= kept)
			close(fds[i - kept]);
		fds[i] = dial();
		say(fds[i], "TENT\1\0\0\0\x40", i % 10);
	}
	need(victim_fds() < STRANGERS_MAX + 200);	/* and a few honest ones */
	for (size_t i = FLOOD - kept; i < FLOOD; i++)
		close(fds[i]);
}

/* ---- each of them ------------------------------------------------------ */

static void during(void (*attack)(void))
{
	struct witness w;
	int fds;

	witness_begin(&w);
	fds = victim_fds();
	attack();
	witness_end(&w);
	while (victim_fds() > fds + 8)	/* connections of the honest one come and go */
		poll(NULL, 0, 10);
}

#define ATTACKS(X)							\
	X(random_bytes) X(impossible_heads) X(half_frames) X(replays)	\
	X(wrong_secrets) X(slow_ones) X(a_deaf_one) X(hang_ups) X(ten_thousand)

#define TEST(attack)							\
static void attack##_hurt_nobody_else(void **state)			\
{									\
	(void)state;							\
	during(attack);							\
}
ATTACKS(TEST)

static void *repeat(void *attack)
{
	void (*const *body)(void) = attack;

	for (uint32_t i = 0; i < soak_rounds(1); i++)
		(*body)();
	return NULL;
}

static void all_at_once(void)
{
#define BODY(attack) attack,
	static void (*const attacks[])(void) = { ATTACKS(BODY) };
	pthread_t threads[NR(attacks)];

	for (size_t i = 0; i < NR(attacks); i++)
		need(pthread_create(&threads[i], NULL, repeat, (void *)(uintptr_t)&attacks[i]) == 0);
	for (size_t i = 0; i < NR(attacks); i++)
		pthread_join(threads[i], NULL);
}

static void all_of_them_at_once_hurt_nobody_else(void **state)
{
	(void)state;
	during(all_at_once);
}

int main(void)
{
#define ROW(attack) cmocka_unit_test(attack##_hurt_nobody_else),
	const struct CMUnitTest tests[] = {
		ATTACKS(ROW)
		cmocka_unit_test(all_of_them_at_once_hurt_nobody_else),
	};
	int failed = cmocka_run_group_tests_name("in the clear", tests, setup_clear, teardown);

	return failed + cmocka_run_group_tests_name("with a secret", tests, setup_secret, teardown);
}
