/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_serve.c - an engine whose segments are used by a peer played by hand, who
 * asks for anything, in any words, or says nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "tests/common/data.h"
#include "tests/test_tcp_fix.h"

/* An honest pair beside it, and a link by hand to the owner's engine. */
struct stage {
	struct pair pair;
	struct data_guest guest;
	int fd;
};

static void stage_open(struct stage *s, int permission)
{
	struct engine_address a = wire_address(&two);
	const char *name;

	pair_open(&s->pair, permission);
	name = strchr(tent_client_segment(s->pair.owner), '/') + 1;
	data_join(&s->guest, &a, name);
	s->fd = data_open(&s->guest, 1);
}

/* Takes as little as the kernel lets it before it reads, whatever a socket may have here. */
static void take_little(struct stage *s)
{
	const int bytes = 65536;

	assert_int_equal(setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
}

static void stage_close(struct stage *s)
{
	if (s->fd >= 0)
		close(s->fd);
	wire_close(&s->guest.link);
	pair_close(&s->pair);
}

/* The honest one's bytes arrive. */
static void expect_honest(struct stage *s, uint32_t seed)
{
	pattern_fill(s->pair.mine, SIZE, seed);
	completed(pair_move(&s->pair, TENT_OPCODE_WRITE, 0, 0, SIZE), SIZE);
	assert_memory_equal(s->pair.mine, s->pair.theirs, SIZE);
}

static struct tcp_head answer_of(struct stage *s)
{
	struct tcp_head h;

	data_receive(s->fd, &h, sizeof(h));
	assert_int_equal(h.magic, TCP_MAGIC);
	return h;
}

/* ---- what is right ----------------------------------------------------- */

static void a_frame_that_is_cut_anywhere_is_understood(void **state)
{
	uint8_t bytes[sizeof(struct tcp_head) + 100 + sizeof(struct tcp_tail)] = { 0 };
	struct tcp_head h, a;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
		h = data_request(&s.guest, TCP_WRITE, cut, s.pair.theirs + 7, 100);
		memcpy(bytes, &h, sizeof(h));
		pattern_fill(bytes + sizeof(h), 100, (uint32_t)cut);
		data_send(s.fd, bytes, cut);
		sched_yield();
		data_send(s.fd, bytes + cut, sizeof(bytes) - cut);
		a = answer_of(&s);
		assert_int_equal(a.type, TCP_DONE);
		assert_int_equal(a.status, 0);
		assert_true(a.id == cut);
		assert_memory_equal(s.pair.theirs + 7, bytes + sizeof(h), 100);
	}
	stage_close(&s);
}

static void more_requests_than_are_answered_at_once_are_answered_in_time(void **state)
{
	enum { COUNT = 1000 };
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (uint64_t i = 0; i < COUNT; i++) {
		h = data_request(&s.guest, TCP_READ, i, s.pair.theirs, 0x10000);
		data_send(s.fd, &h, sizeof(h));
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		static uint8_t bytes[0x10000 + sizeof(struct tcp_tail)];

		h = answer_of(&s);
		assert_true(h.id == i && h.status == 0 && h.length == 0x10000);
		data_receive(s.fd, bytes, sizeof(bytes));
	}
	stage_close(&s);
}

/* Nothing is computed of a frame before its bytes go out: a peer that asks for much and
 * reads nothing costs nothing. */
static void a_checksum_is_of_the_bytes_as_they_are_sent(void **state)
{
	enum { COUNT = 16 };	/* more than sockets hold */
	static uint8_t bytes[SIZE];
	struct tcp_head heads[COUNT];
	struct tcp_tail tail;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_ONLY);
	take_little(&s);
	pattern_fill(s.pair.theirs, SIZE, 1);
	for (uint64_t i = 0; i < COUNT; i++) {
		heads[i] = data_request(&s.guest, TCP_READ, i, s.pair.theirs, SIZE);
		heads[i].flags = TCP_F_CRC;
	}
	data_send(s.fd, heads, sizeof(heads));
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_true(answer_of(&s).id == i);
		if (i == 0)
			pattern_fill(s.pair.theirs, SIZE, 2);
		data_receive(s.fd, bytes, sizeof(bytes));
		data_receive(s.fd, &tail, sizeof(tail));
	}
	assert_memory_equal(bytes, s.pair.theirs, SIZE);
	assert_int_equal(tail.crc32c, crc32c(0, bytes, SIZE));
	stage_close(&s);
}

/* More than have their go in one turn, and nothing comes after. */
static void connections_that_ask_at_once_are_all_answered(void **state)
{
	enum { COUNT = 100 };
	struct stage s;
	int fds[COUNT];

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (uint64_t i = 0; i < COUNT; i++)
		fds[i] = data_open(&s.guest, i + 2);
	for (uint64_t i = 0; i < COUNT; i++) {
		struct tcp_head h = data_request(&s.guest, TCP_READ, i, s.pair.theirs, 1);

		data_send(fds[i], &h, sizeof(h));
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		uint8_t answer[sizeof(struct tcp_head) + 1 + sizeof(struct tcp_tail)];

		data_receive(fds[i], answer, sizeof(answer));
		close(fds[i]);
	}
	stage_close(&s);
}

/* ---- what is refused --------------------------------------------------- */

static void expect_status(struct stage *s, struct tcp_head h, uint16_t status)
{
	static uint8_t payload[4096 + sizeof(struct tcp_tail)];
	struct tcp_head a;

	data_send(s->fd, &h, sizeof(h));
	if (h.type == TCP_WRITE)
		data_send(s->fd, payload, h.length + sizeof(struct tcp_tail));
	a = answer_of(s);
	assert_int_equal(a.status, status);
	assert_int_equal(a.length, 0);
	assert_true(a.id == h.id);
	assert_int_equal(a.type, h.type == TCP_READ ? TCP_DATA : TCP_DONE);
}

static void an_address_that_is_not_registered_has_a_status_and_no_bytes(void **state)
{
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (uint8_t type = TCP_READ; type <= TCP_WRITE; type++) {
		expect_status(&s, data_request(&s.guest, type, 1, s.pair.theirs + SIZE, 56),
			      TENT_RULE_TARGET_UNREGISTERED);
		expect_status(&s, data_request(&s.guest, type, 2, s.pair.theirs + SIZE - 55, 56),
			      TENT_RULE_TARGET_UNREGISTERED);
		expect_status(&s, data_request(&s.guest, type, 3, s.pair.theirs - 1, 56),
			      TENT_RULE_TARGET_UNREGISTERED);
		expect_status(&s, data_request(&s.guest, type, 4, NULL, 56),
			      TENT_RULE_TARGET_UNREGISTERED);
		expect_status(&s, data_request(&s.guest, type, 5, (void *)(UINTPTR_MAX - 9), 56),
			      TENT_RULE_TARGET_UNREGISTERED);
	}
	assert_true(is_zero(s.pair.theirs, SIZE));
	expect_status(&s, data_request(&s.guest, TCP_WRITE, 6, s.pair.theirs, 56), 0);
	stage_close(&s);
}

static void the_owner_holds_to_its_permissions(void **state)
{
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_ONLY);
	memset(s.pair.theirs, 1, SIZE);
	expect_status(&s, data_request(&s.guest, TCP_WRITE, 1, s.pair.theirs, 64),
		      TENT_RULE_TARGET_PERMISSION);
	assert_int_equal(s.pair.theirs[0], 1);
	stage_close(&s);
	stage_open(&s, TENT_PERM_LOCAL_READ_WRITE);
	expect_status(&s, data_request(&s.guest, TCP_READ, 1, s.pair.theirs, 64),
		      TENT_RULE_TARGET_PERMISSION);
	expect_status(&s, data_request(&s.guest, TCP_WRITE, 1, s.pair.theirs, 64),
		      TENT_RULE_TARGET_PERMISSION);
	stage_close(&s);
}

/* The same engine has other segments; a link may use those that it asked for. */
static void a_segment_that_was_not_asked_for_is_not_there(void **state)
{
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (uint32_t handle = 0; handle < 300; handle++) {
		if (handle == s.guest.handle)
			continue;
		h = data_request(&s.guest, TCP_READ, handle, s.pair.theirs, 64);
		h.handle = handle;
		expect_status(&s, h, TENT_RULE_TARGET_GONE);
	}
	h.handle = UINT32_MAX;
	expect_status(&s, h, TENT_RULE_TARGET_GONE);
	stage_close(&s);
}

static void a_wrong_checksum_is_said(void **state)
{
	uint8_t bytes[100];
	struct tcp_tail tail = { 0 };
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	pattern_fill(bytes, sizeof(bytes), 5);
	for (int flip = 0; flip < 2; flip++) {
		h = data_request(&s.guest, TCP_WRITE, 1, s.pair.theirs, sizeof(bytes));
		h.flags = TCP_F_CRC;
		tail.crc32c = crc32c(0, bytes, sizeof(bytes)) ^ (uint32_t)flip << 17;
		data_send(s.fd, &h, sizeof(h));
		data_send(s.fd, bytes, sizeof(bytes));
		data_send(s.fd, &tail, sizeof(tail));
		assert_int_equal(answer_of(&s).status, flip ? TENT_RULE_INTEGRITY : 0);
	}
	stage_close(&s);
}

/* ---- what breaks the protocol ------------------------------------------ */

static void frames_that_are_none_end_their_connection_only(void **state)
{
	static const struct {
		size_t at;
		uint8_t flip;
	} wrong[] = {
		{ offsetof(struct tcp_head, magic), 1 }, { offsetof(struct tcp_head, version), 3 },
		{ offsetof(struct tcp_head, type), TCP_READ ^ TCP_DATA },
		{ offsetof(struct tcp_head, type), 0x80 }, { offsetof(struct tcp_head, type), 1 },
		{ offsetof(struct tcp_head, status), 1 }, { offsetof(struct tcp_head, flags), 2 },
		{ offsetof(struct tcp_head, resv), 1 }, { offsetof(struct tcp_head, resv) + 11, 1 },
		{ offsetof(struct tcp_head, length) + 3, 0x40 },	/* 1 GiB */
		{ offsetof(struct tcp_head, length), 64 },		/* 0 */
	};
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (size_t i = 0; i < NR(wrong); i++) {
		struct tcp_head h = data_request(&s.guest, TCP_READ, i, s.pair.theirs, 64);

		((uint8_t *)&h)[wrong[i].at] ^= wrong[i].flip;
		data_send(s.fd, &h, sizeof(h));
		data_expect_end(s.fd);
		s.fd = data_open(&s.guest, i + 2);
		expect_honest(&s, (uint32_t)i);
	}
	stage_close(&s);
}

static void a_stranger_gets_no_byte(void **state)
{
	struct tcp_hello good, h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	good = data_hello(&s.guest, TCP_FOR_DATA, 9);
	for (size_t byte = 0; byte < sizeof(h); byte++) {
		bool is_free = byte - offsetof(struct tcp_hello, connection) < 8 ||
			       byte == offsetof(struct tcp_hello, level);

		h = good;
		((uint8_t *)&h)[byte] ^= 0x40;
		if (!is_free)
			data_expect_end(data_call(&s.guest, &h));
	}
	expect_honest(&s, 1);
	stage_close(&s);
}

static void a_token_is_good_as_long_as_its_link(void **state)
{
	struct tcp_hello h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	wire_close(&s.guest.link);
	data_expect_end(s.fd);
	s.fd = -1;
	h = data_hello(&s.guest, TCP_FOR_DATA, 2);
	data_expect_end(data_call(&s.guest, &h));
	expect_honest(&s, 1);
	pair_close(&s.pair);
}

/* More of them than may wait; then as many that say half of it and no more. */
static void strangers_who_say_little_keep_nobody_out(void **state)
{
	enum { COUNT = 300 };
	static int fds[COUNT];
	struct tcp_hello h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	h = data_hello(&s.guest, TCP_FOR_DATA, 2);
	for (int i = 0; i < COUNT; i++) {
		struct wire w;

		wire_dial(&w, &s.guest.address);
		fds[i] = w.fd;
		if (i & 1)
			send(fds[i], &h, sizeof(h) / 2, MSG_NOSIGNAL);
		if (i % 60 == 0) {
			int fd = data_open(&s.guest, (uint64_t)i + 100);

			close(fd);
			expect_honest(&s, (uint32_t)i);
		}
	}
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	stage_close(&s);
}

/* ---- memory that goes away --------------------------------------------- */

static void a_payload_that_does_not_end_keeps_no_memory(void **state)
{
	static uint8_t bytes[0x100000];
	struct tcp_tail tail = { 0 };
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	memset(bytes, 0x77, sizeof(bytes));
	h = data_request(&s.guest, TCP_WRITE, 1, s.pair.theirs, sizeof(bytes));
	data_send(s.fd, &h, sizeof(h));
	data_send(s.fd, bytes, sizeof(bytes) / 2);
	while (((volatile uint8_t *)s.pair.theirs)[sizeof(bytes) / 2 - 1] != 0x77)
		sched_yield();
	assert_int_equal(tent_client_unregister(s.pair.owner, s.pair.theirs, SIZE), 0);
	memset(s.pair.theirs, 0, SIZE);
	data_send(s.fd, bytes, sizeof(bytes) / 2);
	data_send(s.fd, &tail, sizeof(tail));
	h = answer_of(&s);
	assert_int_equal(h.status, TENT_RULE_TARGET_GONE);
	assert_true(is_zero(s.pair.theirs, SIZE));
	stage_close(&s);
}

/* It asks for much and reads nothing: what it is owed then is zeros, and it is told. */
static void an_answer_that_nobody_reads_keeps_no_memory(void **state)
{
	enum { COUNT = 32, BYTES = 1 << 20 };
	static uint8_t bytes[BYTES];
	struct tcp_tail tail;
	struct tcp_head h;
	struct stage s;
	int whole = 0, gone = 0;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	take_little(&s);
	memset(s.pair.theirs, 0x55, SIZE);
	for (uint64_t i = 0; i < COUNT; i++) {
		h = data_request(&s.guest, TCP_READ, i, s.pair.theirs, BYTES);
		data_send(s.fd, &h, sizeof(h));
	}
	data_receive(s.fd, &h, sizeof(h));	/* the others fill the socket meanwhile */
	assert_int_equal(tent_client_unregister(s.pair.owner, s.pair.theirs, SIZE), 0);
	for (int i = 0; i < COUNT; i++) {
		if (i)
			h = answer_of(&s);
		gone += h.status == TENT_RULE_TARGET_GONE ||
			h.status == TENT_RULE_TARGET_UNREGISTERED; /* judged later */
		if (!h.length)
			continue;
		data_receive(s.fd, bytes, BYTES);
		data_receive(s.fd, &tail, sizeof(tail));
		gone += tail.status == TENT_RULE_TARGET_GONE;
		whole += !tail.status;
		if (!tail.status)
			assert_int_equal(bytes[BYTES - 1], 0x55);
	}
	assert_int_equal(whole + gone, COUNT);
	assert_true(gone);
	stage_close(&s);
}

/* What was sent in place is the peer's to confirm: for a while. */
static void one_who_confirms_nothing_is_left(void **state)
{
	enum { COUNT = 32, BYTES = 1 << 20 };
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	for (uint64_t i = 0; i < COUNT; i++) {
		h = data_request(&s.guest, TCP_READ, i, s.pair.theirs, BYTES);
		data_send(s.fd, &h, sizeof(h));
	}
	data_receive(s.fd, &h, sizeof(h));
	assert_int_equal(tent_client_unregister(s.pair.owner, s.pair.theirs, SIZE), 0);
	assert_int_equal(tent_client_register(s.pair.owner, s.pair.theirs, SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	far_expect_buffers(s.pair.user, s.pair.id, 1);
	expect_honest(&s, 1);
	stage_close(&s);
}

/* On this host the end of a connection is seen as soon as it is there. */
static bool is_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* ---- fences ------------------------------------------------------------ */

static void a_fence_is_answered_after_the_last_byte(void **state)
{
	static uint8_t bytes[0x10000];
	struct tcp_welcome w;
	struct tcp_hello h;
	struct tcp_head r;
	struct stage s;
	int fence;

	(void)state;
	stage_open(&s, TENT_PERM_GLOBAL_READ_WRITE);
	memset(bytes, 0x33, sizeof(bytes));
	r = data_request(&s.guest, TCP_WRITE, 1, s.pair.theirs, 2 * sizeof(bytes));
	data_send(s.fd, &r, sizeof(r));
	data_send(s.fd, bytes, sizeof(bytes));
	h = data_hello(&s.guest, TCP_FOR_FENCE, 1);
	fence = data_call(&s.guest, &h);
	data_receive(fence, &w, sizeof(w));
	assert_true(w.magic == TCP_HELLO_MAGIC && w.connection == 1 && !w.depth);
	assert_true(is_closed(s.fd));	/* before it was answered */
	memset(s.pair.theirs, 0, SIZE);
	send(s.fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
	assert_true(is_zero(s.pair.theirs, SIZE));
	expect_honest(&s, 3);
	close(s.fd);
	s.fd = -1;
	data_expect_end(fence);
	fence = data_call(&s.guest, &h);	/* one that nobody knows has ended */
	data_receive(fence, &w, sizeof(w));
	data_expect_end(fence);
	stage_close(&s);
}

static void tune_copied(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "transports/tcp/zero_copy_bytes", "0");
}

static int with_copies(void **state)
{
	(void)state;
	return start(tune_copied);
}

static void tune_in_place(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "transports/tcp/fence_ms", "200");
}

static int in_place(void **state)
{
	(void)state;
	return start(tune_in_place);
}

int main(void)
{
	const struct CMUnitTest held[] = {
		cmocka_unit_test(one_who_confirms_nothing_is_left),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_that_is_cut_anywhere_is_understood),
		cmocka_unit_test(more_requests_than_are_answered_at_once_are_answered_in_time),
		cmocka_unit_test(a_checksum_is_of_the_bytes_as_they_are_sent),
		cmocka_unit_test(connections_that_ask_at_once_are_all_answered),
		cmocka_unit_test(an_address_that_is_not_registered_has_a_status_and_no_bytes),
		cmocka_unit_test(the_owner_holds_to_its_permissions),
		cmocka_unit_test(a_segment_that_was_not_asked_for_is_not_there),
		cmocka_unit_test(a_wrong_checksum_is_said),
		cmocka_unit_test(frames_that_are_none_end_their_connection_only),
		cmocka_unit_test(a_stranger_gets_no_byte),
		cmocka_unit_test(a_token_is_good_as_long_as_its_link),
		cmocka_unit_test(strangers_who_say_little_keep_nobody_out),
		cmocka_unit_test(a_payload_that_does_not_end_keeps_no_memory),
		cmocka_unit_test(an_answer_that_nobody_reads_keeps_no_memory),
		cmocka_unit_test(a_fence_is_answered_after_the_last_byte),
	};
	int failed = 0;

	failed += cmocka_run_group_tests_name("io_uring", tests, with_copies, without);
	failed += cmocka_run_group_tests_name("epoll", tests, with_epoll, without);
	failed += cmocka_run_group_tests_name("in place", held, in_place, without);
	return failed;
}
