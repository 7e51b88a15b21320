/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_hosts.c - clients of two tentd on two hosts move bytes by RDMA, over RoCE and
 * over InfiniBand, each on software ConnectX devices of its own: with every fault that these
 * know, with one of the daemons killed, with no device at one end.
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
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/hosts.h"
#include "tests/common/random.h"
#include "tests/common/sim.h"
#include "tests/common/soak.h"
#include "tests/common/tentd.h"
#include "tests/common/wire.h"

#define SIZE ((uint64_t)4 << 20)
#define PARTS 32
#define PART (SIZE / PARTS)

/* Retries of half a second in all are too short for a machine that others use. */
static const char *const roce[] = { "--link", "roce", "--fault", "timeouts=400%", NULL };
static const char *const infiniband[] = { "--link", "ib", "--fault", "timeouts=400%", NULL };
static const char *const *const links[] = { roce, infiniband };

static struct hosts hosts;
static bool permitted;
static struct tentd daemons[2];
static char secret[64];

static int setup(void **state)
{
	(void)state;
	wire_secret_file(secret, "two-hosts-that-know-each-other-0123456789");
	permitted = hosts_open(&hosts);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (permitted)
		hosts_close(&hosts);
	unlink(secret);
	return 0;
}

/* sim: options of tent-sim; NULL: it has no device. */
static void start_at(int i, const char *const *sim, const char *extra)
{
	char json[768], host[64];

	snprintf(host, sizeof(host), HOSTS_IPV4, i + 1);
	snprintf(json, sizeof(json), "{\"peers\": {\"enable\": true, \"secret_file\": \"%s\"}, "
		 "\"rpc_server_hostname\": \"%s\", \"rpc_server_port\": 15000, "
		 "\"transports\": {\"rdma\": {\"enable\": true, \"fence_ms\": 5000}}%s}", secret,
		 host, extra);
	tentd_prepare(&daemons[i]);
	tentd_configure(&daemons[i], json);
	daemons[i].sim = sim;
	hosts_enter(&hosts, i);
	tentd_start_ready(&daemons[i], NULL);
	hosts_enter(&hosts, -1);
}

/* A fault of host i's device, or what ends it. */
static void set_at(int i, const char *what)
{
	hosts_enter(&hosts, i);
	sim_set("%s", what);
	hosts_enter(&hosts, -1);
}

static void end_both(void)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tentd_end(&daemons[i], SIGTERM), 0);
		tentd_cleanup(&daemons[i]);
	}
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
	assert_int_equal(tent_client_attach(daemons[0].socket, "kv", &p->owner), 0);
	p->theirs = memory_of(p->owner);
}

static void open_user(struct pair *p)
{
	assert_int_equal(tent_client_attach(daemons[1].socket, NULL, &p->user), 0);
	p->mine = memory_of(p->user);
	p->ring = engine_fix_ring(p->user);
	p->id = far_open_it(p->user, tent_client_segment(p->owner));
}

static void pair_open(struct pair *p, const char *const *sim, const char *extra)
{
	for (int i = 0; i < 2; i++)
		start_at(i, sim, extra);
	open_owner(p);
	open_user(p);
}

static void pair_close(struct pair *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->user);
	tent_client_detach(p->owner);
}

static void fill(uint8_t *p, uint64_t n, uint32_t seed)
{
	for (uint64_t i = 0; i < n; i += 4) {
		seed = seed * 1664525 + 1013904223;
		memcpy(p + i, &seed, 4);
	}
}

static void submit_all(struct pair *p, int opcode)
{
	for (uint64_t i = 0; i < PARTS; i++) {
		struct tent_request_v1 r = engine_fix_request(opcode, p->mine + i * PART, p->id,
							      p->theirs + i * PART, PART);

		assert_int_equal(tent_ring_submit(p->ring, &r, 1, sizeof(r), i, 0), 0);
	}
}

static void expect_all(struct pair *p, int opcode, int transport, uint32_t seed)
{
	fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, SIZE, seed);
	memset(opcode == TENT_OPCODE_WRITE ? p->theirs : p->mine, 0, SIZE);
	submit_all(p, opcode);
	for (int i = 0; i < PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);

		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.transport, transport);
	}
	assert_memory_equal(p->mine, p->theirs, SIZE);
}

static void expect_both(struct pair *p, uint32_t seed)
{
	expect_all(p, TENT_OPCODE_WRITE, TENT_TRANSPORT_RDMA, seed);
	expect_all(p, TENT_OPCODE_READ, TENT_TRANSPORT_RDMA, seed + 1);
}

/* ---- tests ------------------------------------------------------------- */

static void bytes_travel_over_both_links(void **state)
{
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	for (int i = 0; i < 2; i++) {
		pair_open(&p, links[i], "");
		expect_both(&p, 2 * (uint32_t)i + 1);
		pair_close(&p);
		end_both();
	}
}

/* Every byte arrives, and nobody is told of anything. */
static void a_bad_wire_costs_time_alone(void **state)
{
	static const char *const faults[][2] = {
		{ "loss=3%", "loss=0" }, { "reorder=5%", "reorder=0" },
		{ "drop_responses=3%", "drop_responses=0" },
		{ "delay_requests=5%", "delay_requests=0" },
	};
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	pair_open(&p, roce, "");
	for (uint32_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		set_at((int)i & 1, faults[i][0]);
		expect_both(&p, 10 * i + 1);
		set_at((int)i & 1, faults[i][1]);
	}
	pair_close(&p);
	end_both();
}

/* How many of all did not complete; those that did have their bytes there. */
static int failures(struct pair *p, int opcode, int error)
{
	int failed = 0;

	fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, SIZE, 77);
	submit_all(p, opcode);
	for (int i = 0; i < PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);
		uint64_t at = c.user_data * PART;

		if (c.status == TENT_STATUS_COMPLETED) {
			assert_memory_equal(p->mine + at, p->theirs + at, PART);
			continue;
		}
		assert_int_equal(c.error, error);
		assert_int_equal(c.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
		failed++;
	}
	return failed;
}

/* The connection ends with it; what was flushed goes out again on another one. */
static void one_request_that_the_card_refuses_fails_alone(void **state)
{
	static const struct {
		int host;	/* whose card does it */
		const char *fault;
	} all[] = {
		{ 1, "syndrome_at=7 syndrome=4" },	/* local protection */
		{ 0, "nak_at=7 nak=98" },		/* remote access */
	};
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		pair_open(&p, links[i & 1], "");
		expect_both(&p, 1);
		set_at(all[i].host, all[i].fault);
		assert_int_equal(failures(&p, TENT_OPCODE_WRITE, TENT_ERR_OWNER_GONE), 1);
		expect_both(&p, 2);
		pair_close(&p);
		end_both();
	}
}

/* What the card did not report is asked back when its time is up, and fenced. */
static void a_completion_that_is_lost_ends_by_timeout(void **state)
{
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	pair_open(&p, roce, ", \"engine\": {\"request_timeout_ms\": 2000}");
	expect_both(&p, 1);
	set_at(1, "lost_cqe_at=1");
	submit_all(&p, TENT_OPCODE_WRITE);
	for (int i = 0; i < PARTS; i++)
		engine_fix_wait(p.ring);
	expect_both(&p, 3);
	pair_close(&p);
	end_both();
}

static void without_a_device_at_one_end_it_goes_by_tcp(void **state)
{
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	for (int i = 0; i < 2; i++) {
		start_at(i, roce, "");
		start_at(1 - i, NULL, "");
		open_owner(&p);
		open_user(&p);
		expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
		pair_close(&p);
		end_both();
	}
}

/* Nothing is restarted: what is under way ends, what comes next takes the other way. What
 * libmlx5 cannot destroy any more it keeps, which is not ours to look for. */
static void after_a_device_was_taken_out_it_goes_by_tcp(void **state)
{
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
	pair_open(&p, roce, "");
	unsetenv("ASAN_OPTIONS");
	expect_both(&p, 1);
	set_at(1, "removed=on");
	submit_all(&p, TENT_OPCODE_WRITE);
	for (int i = 0; i < PARTS; i++)
		engine_fix_wait(p.ring);
	expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 3);
	pair_close(&p);
	end_both();
}

/* ---- one of them is killed --------------------------------------------- */

/* What says COMPLETED has all of its bytes there. */
static void check_ends(struct pair *p, int *completed)
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
		assert_memory_equal(p->mine + at, p->theirs + at, PART);
	}
}

static void an_owners_daemon_that_is_killed_leaves_no_success_without_its_bytes(void **state)
{
	const uint32_t rounds = soak_rounds(5);
	uint64_t chance = 20261130;
	struct pair p;
	int completed = 0;

	(void)state;
	if (!permitted)
		skip();
	print_message("seed %llu\n", (unsigned long long)chance);
	pair_open(&p, roce, "");
	for (uint32_t i = 0; i < rounds; i++) {
		int opcode = i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		fill(opcode == TENT_OPCODE_WRITE ? p.mine : p.theirs, SIZE, i);
		submit_all(&p, opcode);
		nanosleep(&pause, NULL);
		tentd_end(&daemons[0], SIGKILL);
		check_ends(&p, &completed);
		tent_client_detach(p.owner);
		tentd_cleanup(&daemons[0]);
		start_at(0, roce, "");
		open_owner(&p);
		far_expect_buffers(p.user, p.id, -TENT_RULE_TARGET_GONE);
		assert_int_equal(tent_client_close_segment(p.user, p.id), 0);
		p.id = far_open_it(p.user, tent_client_segment(p.owner));
		expect_both(&p, i + 1000);
	}
	print_message("%d of %u were complete\n", completed, rounds * PARTS);
	pair_close(&p);
	end_both();
}

/* The owner gets its memory back by unregistering it, and it is left alone from then on. */
static void a_daemon_that_asked_and_is_killed_is_left(void **state)
{
	const uint32_t rounds = soak_rounds(5);
	uint64_t chance = 20261131;
	struct pair p;

	(void)state;
	if (!permitted)
		skip();
	print_message("seed %llu\n", (unsigned long long)chance);
	pair_open(&p, infiniband, "");
	for (uint32_t i = 0; i < rounds; i++) {
		struct timespec pause = { .tv_nsec = random_next(&chance) % 4000000 };

		submit_all(&p, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE);
		nanosleep(&pause, NULL);
		tentd_end(&daemons[1], SIGKILL);
		tent_ring_close(p.ring);
		tent_client_detach(p.user);
		tentd_cleanup(&daemons[1]);
		assert_int_equal(tent_client_unregister(p.owner, p.theirs, SIZE), 0);
		memset(p.theirs, 0x99, SIZE);
		start_at(1, infiniband, "");
		assert_int_equal(tent_client_register(p.owner, p.theirs, SIZE,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
		assert_true(p.theirs[0] == 0x99 && !memcmp(p.theirs, p.theirs + 1, SIZE - 1));
		open_user(&p);
		expect_both(&p, i + 1000);
	}
	pair_close(&p);
	end_both();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_travel_over_both_links),
		cmocka_unit_test(a_bad_wire_costs_time_alone),
		cmocka_unit_test(one_request_that_the_card_refuses_fails_alone),
		cmocka_unit_test(a_completion_that_is_lost_ends_by_timeout),
		cmocka_unit_test(without_a_device_at_one_end_it_goes_by_tcp),
		cmocka_unit_test(after_a_device_was_taken_out_it_goes_by_tcp),
		cmocka_unit_test(
			an_owners_daemon_that_is_killed_leaves_no_success_without_its_bytes),
		cmocka_unit_test(a_daemon_that_asked_and_is_killed_is_left),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
