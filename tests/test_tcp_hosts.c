/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_hosts.c - clients of two tentd on two hosts move bytes: by every form of
 * address, from and to shared memory only, with the cable pulled out in mid-transfer, with
 * one of the daemons killed, and with another way when connections are cut.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/pattern.h"
#include "tests/common/random.h"
#include "tests/common/soak.h"
#include "tests/common/tentd_pair.h"

#define SIZE ((uint64_t)8 << 20)
#define PARTS 32
#define PART (SIZE / PARTS)

static struct tentd_pair two;

static int setup(void **state)
{
	(void)state;
	tentd_pair_open(&two);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tentd_pair_close(&two);
	return 0;
}

/* extra: members of transports/tcp. */
static void start_at(int i, const char *form, const char *extra)
{
	char more[128];

	snprintf(more, sizeof(more), "\"transports\": {\"tcp\": {%s}}", extra);
	tentd_pair_start(&two, i, form, NULL, more);
}

/* ---- an owner on host 0, a user on host 1 ------------------------------ */

struct pair {
	struct tent_client *owner, *user;
	struct tent_ring *ring;
	uint8_t *theirs, *mine;
	tent_segment_id_t id;
};

static uint8_t *memory_of(struct tent_client *c)
{
	void *p;

	assert_int_equal(tent_client_alloc(c, SIZE, "*", &p), 0);
	assert_int_equal(tent_client_register(c, p, SIZE, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0),
			 0);
	return p;
}

static void open_owner(struct pair *p)
{
	assert_int_equal(tent_client_attach(two.daemons[0].socket, "kv", &p->owner), 0);
	p->theirs = memory_of(p->owner);
}

static void open_user(struct pair *p)
{
	assert_int_equal(tent_client_attach(two.daemons[1].socket, NULL, &p->user), 0);
	p->mine = memory_of(p->user);
	p->ring = engine_fix_ring(p->user);
	p->id = far_open_it(p->user, tent_client_segment(p->owner));
}

static void pair_open(struct pair *p, const char *form, const char *extra)
{
	for (int i = 0; i < 2; i++)
		start_at(i, form, extra);
	open_owner(p);
	open_user(p);
}

static void pair_close(struct pair *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->user);
	tent_client_detach(p->owner);
}

static void submit_all(struct pair *p, int opcode)
{
	for (uint64_t i = 0; i < PARTS; i++) {
		struct tent_request_v1 r = engine_fix_request(opcode, p->mine + i * PART, p->id,
							      p->theirs + i * PART, PART);

		assert_int_equal(tent_ring_submit(p->ring, &r, 1, sizeof(r), i, 0), 0);
	}
}

static void expect_all(struct pair *p, int opcode, uint32_t seed)
{
	pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, SIZE, seed);
	memset(opcode == TENT_OPCODE_WRITE ? p->theirs : p->mine, 0, SIZE);
	submit_all(p, opcode);
	for (int i = 0; i < PARTS; i++)
		assert_int_equal(engine_fix_wait(p->ring).status, TENT_STATUS_COMPLETED);
	assert_memory_equal(p->mine, p->theirs, SIZE);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- tests ------------------------------------------------------------- */

static void bytes_travel_by_every_form_of_address(void **state)
{
	static const char *const forms[] = {
		HOSTS_IPV4, "[" HOSTS_IPV6 "]", HOSTS_LINK_LOCAL "%%" HOSTS_PORT, HOSTS_NAME,
	};
	struct pair p;

	(void)state;
	if (!two.permitted)
		skip();
	for (uint32_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		pair_open(&p, forms[i], i & 1 ? "\"io_uring\": false" : "");
		expect_all(&p, TENT_OPCODE_WRITE, 2 * i + 1);
		expect_all(&p, TENT_OPCODE_READ, 2 * i + 2);
		pair_close(&p);
		tentd_pair_end(&two);
	}
}

static struct tent_completion move(struct pair *p, int opcode, const uint8_t *source,
				   const uint8_t *target)
{
	return engine_fix_move(p->ring, opcode, source, p->id, target, PART);
}

/* Only its own process and its engine's workers can read it: as a source the batch is refused,
 * as a target its engine refuses each request. Nothing moves, and shared memory beside it
 * does as before. */
static void private_memory_is_refused_at_either_end(void **state)
{
	uint8_t *here = aligned_alloc(4096, PART), *there = aligned_alloc(4096, PART);
	struct tent_completion c;
	struct pair p;

	(void)state;
	if (!two.permitted)
		skip();
	pair_open(&p, HOSTS_IPV4, "");
	assert_int_equal(tent_client_register(p.user, here, PART, TENT_PERM_LOCAL_READ_WRITE,
					      NULL, 0), 0);
	assert_int_equal(tent_client_register(p.owner, there, PART, TENT_PERM_GLOBAL_READ_WRITE,
					      NULL, 0), 0);
	far_expect_buffers(p.user, p.id, 2);
	pattern_fill(here, PART, 1);
	pattern_fill(there, PART, 2);
	pattern_fill(p.mine, SIZE, 3);
	pattern_fill(p.theirs, SIZE, 3);
	for (int opcode = TENT_OPCODE_READ; opcode <= TENT_OPCODE_WRITE; opcode++) {
		c = move(&p, opcode, here, p.theirs);
		assert_int_equal(c.flags, TENT_CQE_F_REJECTED);
		assert_int_equal(c.rule, TENT_RULE_NO_TRANSPORT);
		c = move(&p, opcode, p.mine, there);
		assert_int_equal(c.status, TENT_STATUS_FAILED);
		assert_int_equal(c.error, TENT_ERR_TRANSPORT);
		assert_int_equal(c.rule, TENT_RULE_TRANSPORT_REACH);
		assert_int_equal(c.bytes, 0);
		assert_memory_equal(p.mine, p.theirs, SIZE);
		expect_all(&p, opcode, 3);
	}
	pattern_fill(p.mine, PART, 1);
	assert_memory_equal(here, p.mine, PART);
	pattern_fill(p.mine, PART, 2);
	assert_memory_equal(there, p.mine, PART);
	pair_close(&p);
	tentd_pair_end(&two);
	free(there);
	free(here);
}

/* What ends says how; what says COMPLETED has all of its bytes there. */
static void check_ends(struct pair *p, int opcode, int *completed)
{
	for (int i = 0; i < PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);
		uint64_t at = c.user_data * PART;

		if (c.status != TENT_STATUS_COMPLETED) {
			assert_true(c.error == TENT_ERR_PEER_UNREACHABLE ||
				    c.error == TENT_ERR_OWNER_GONE ||
				    c.error == TENT_ERR_ADDRESS);
			continue;
		}
		++*completed;
		if (opcode >= 0)
			assert_memory_equal(p->mine + at, p->theirs + at, PART);
	}
}

static void a_cable_that_is_pulled_out_ends_what_is_under_way(void **state)
{
	struct pair p;
	int completed = 0;
	long began = now_ms();		/* since then they have heard of each other */

	(void)state;
	if (!two.permitted)
		skip();
	pair_open(&p, HOSTS_IPV4, "");
	for (int round = 0; round < 2; round++) {
		int opcode = round ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;

		expect_all(&p, opcode, (uint32_t)round + 1);
		hosts_cut(&two.hosts);
		submit_all(&p, opcode);
		check_ends(&p, -1, &completed);
		assert_int_equal(completed, 0);
		assert_in_range(now_ms() - began, 3000, 600000);	/* the kernel's: 924 s */
		if (now_ms() - began > 5500)	/* docs/peers.md: 3.1 s and 2 s */
			print_message("took %ld ms\n", now_ms() - began);
		began = now_ms();
		hosts_heal(&two.hosts);
		far_expect_buffers(p.user, p.id, 1);
		expect_all(&p, opcode, (uint32_t)round + 10);
	}
	pair_close(&p);
	tentd_pair_end(&two);
}

/* The owner's memory is a memory file that this process has: it can be looked at when
 * its daemon is dead. */
static void a_daemon_that_is_killed_leaves_no_success_without_its_bytes(void **state)
{
	const uint32_t rounds = soak_rounds(20);
	uint64_t chance = 20261130;
	struct pair p;
	int completed = 0;

	(void)state;
	if (!two.permitted)
		skip();
	print_message("seed %llu\n", (unsigned long long)chance);
	pair_open(&p, HOSTS_IPV4, "");
	for (uint32_t i = 0; i < rounds; i++) {
		int opcode = i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		pattern_fill(opcode == TENT_OPCODE_WRITE ? p.mine : p.theirs, SIZE, i);
		submit_all(&p, opcode);
		nanosleep(&pause, NULL);
		tentd_end(&two.daemons[0], SIGKILL);
		check_ends(&p, opcode, &completed);
		tent_client_detach(p.owner);
		tentd_cleanup(&two.daemons[0]);
		start_at(0, HOSTS_IPV4, "");
		open_owner(&p);
		far_expect_buffers(p.user, p.id, -TENT_RULE_TARGET_GONE);
		assert_int_equal(tent_client_close_segment(p.user, p.id), 0);
		p.id = far_open_it(p.user, tent_client_segment(p.owner));
		expect_all(&p, TENT_OPCODE_WRITE, i + 1000);
	}
	print_message("%d of %u were complete\n", completed, rounds * PARTS);
	pair_close(&p);
	tentd_pair_end(&two);
}

/* The same from the other side: whoever asked is dead, and the owner's memory is left
 * alone soon after. */
static void a_daemon_that_asked_and_is_killed_is_left(void **state)
{
	const uint32_t rounds = soak_rounds(10);
	uint64_t chance = 20261131;
	struct pair p;

	(void)state;
	if (!two.permitted)
		skip();
	print_message("seed %llu\n", (unsigned long long)chance);
	pair_open(&p, HOSTS_IPV4, "");
	for (uint32_t i = 0; i < rounds; i++) {
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		submit_all(&p, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE);
		nanosleep(&pause, NULL);
		tentd_end(&two.daemons[1], SIGKILL);
		tent_ring_close(p.ring);
		tent_client_detach(p.user);
		tentd_cleanup(&two.daemons[1]);
		assert_int_equal(tent_client_unregister(p.owner, p.theirs, SIZE), 0);
		memset(p.theirs, 0x99, SIZE);
		start_at(1, HOSTS_IPV4, "");
		assert_int_equal(tent_client_register(p.owner, p.theirs, SIZE,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
		assert_true(p.theirs[0] == 0x99 && !memcmp(p.theirs, p.theirs + 1, SIZE - 1));
		open_user(&p);
		expect_all(&p, TENT_OPCODE_READ, i + 1000);
	}
	pair_close(&p);
	tentd_pair_end(&two);
}

/* ---- another way ------------------------------------------------------- */

#define DATA_PORT 15001
#define WITH_NULL "\"port\": 15001, \"fence_ms\": 1000}, \"null\": {\"enable\": true"

/* Resets what the user's host sends there, from now on; or lets it pass again. */
static void filter_data(char verb)
{
	char command[128];

	snprintf(command, sizeof(command), "iptables -%c OUTPUT -p tcp --dport %d "
		 "-j REJECT --reject-with tcp-reset", verb, DATA_PORT);
	hosts_enter(&two.hosts, 1);
	assert_int_equal(system(command), 0);
	hosts_enter(&two.hosts, -1);
}

static void submit_by_tcp(struct pair *p, int opcode, uint64_t part)
{
	struct tent_request_v1 r = engine_fix_request(opcode, p->mine + part * PART, p->id,
						      p->theirs + part * PART, PART);

	r.transport_hint = TENT_TRANSPORT_TCP;
	assert_int_equal(tent_ring_submit(p->ring, &r, 1, sizeof(r), part, 0), 0);
}

/* It was tried by tcp, and ended there or by the null transport, which moves nothing. */
static bool has_gone_on(const struct tent_completion *c)
{
	if (c->status != TENT_STATUS_COMPLETED) {
		assert_int_equal(c->rule, TENT_RULE_PEER_LOST);
		assert_int_equal(c->transport, TENT_TRANSPORT_TCP);
		assert_int_equal(c->flags, TENT_CQE_F_TARGET_UNFENCED);
		return false;
	}
	assert_int_equal(c->transport, TENT_TRANSPORT_MPCOMM);
	assert_int_equal(c->attempts, 2);
	assert_int_equal(c->flags, TENT_CQE_F_FAILED_OVER |
			 TENT_TRANSPORT_TCP << TENT_CQE_FIRST_SHIFT);
	return true;
}

/* A port that did not answer is held off a moment. */
static void connect_again(struct pair *p)
{
	do
		submit_by_tcp(p, TENT_OPCODE_READ, 0);
	while (engine_fix_wait(p->ring).transport != TENT_TRANSPORT_TCP);
}

/* The link lives, and the connections of data are cut: a READ goes on; a WRITE does when
 * nothing of it was sent, else it cannot be fenced and stays as it ended. */
static void what_a_cut_connection_carried_goes_on_unless_it_may_still_land(void **state)
{
	bool went[PARTS] = { false };
	struct pair p;

	(void)state;
	if (!two.permitted)
		skip();
	pair_open(&p, HOSTS_IPV4, WITH_NULL);
	for (int opcode = TENT_OPCODE_READ; opcode <= TENT_OPCODE_WRITE; opcode++) {
		connect_again(&p);
		pattern_fill(p.mine, SIZE, 5);
		memset(p.theirs, 0, SIZE);
		filter_data('I');
		for (uint64_t part = 0; part < PARTS; part++)
			submit_by_tcp(&p, opcode, part);
		for (int i = 0; i < PARTS; i++) {
			struct tent_completion c = engine_fix_wait(p.ring);

			went[c.user_data] = has_gone_on(&c);
			assert_true(went[c.user_data] || opcode == TENT_OPCODE_WRITE);
		}
		filter_data('D');
	}
	connect_again(&p);
	for (uint64_t part = 0; part < PARTS; part++)
		if (went[part])
			assert_true(!p.theirs[part * PART] &&
				    !memcmp(p.theirs + part * PART, p.theirs + part * PART + 1,
					    PART - 1));
	pair_close(&p);
	tentd_pair_end(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_travel_by_every_form_of_address),
		cmocka_unit_test(private_memory_is_refused_at_either_end),
		cmocka_unit_test(a_cable_that_is_pulled_out_ends_what_is_under_way),
		cmocka_unit_test(a_daemon_that_is_killed_leaves_no_success_without_its_bytes),
		cmocka_unit_test(a_daemon_that_asked_and_is_killed_is_left),
		cmocka_unit_test(what_a_cut_connection_carried_goes_on_unless_it_may_still_land),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
