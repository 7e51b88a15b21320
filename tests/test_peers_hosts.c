/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_peers_hosts.c - two tentd on two hosts: found by every form of address, the cable
 * pulled out and put in again, one of them killed.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/tentd_pair.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define STRANGER 65534u
#define WITH NULL		/* a secret */
#define WITHOUT "\"insecure\": true"
#define DEAD_AFTER_MS 3100	/* docs/peers.md: keepalive_ms of 1000 */

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

static void start_both(const char *form, const char *security)
{
	if (!two.permitted)
		skip();
	for (int i = 0; i < 2; i++)
		tentd_pair_start(&two, i, form, security, NULL);
}

static struct tent_client *attach(int i, const char *name)
{
	struct tent_client *c;

	assert_int_equal(tent_client_attach(two.daemons[i].socket, name, &c), 0);
	return c;
}

/* ---- addresses --------------------------------------------------------- */

/* Each opens a segment of the other, and sees what is registered there, and then more. */
static void find_each_other(const char *form, const char *security)
{
	struct tent_client *c[2];
	tent_segment_id_t id[2];

	start_both(form, security);
	for (int i = 0; i < 2; i++) {
		c[i] = attach(i, "kv");
		engine_fix_memory(c[i], 4096);
	}
	for (int i = 0; i < 2; i++) {
		id[i] = far_open_it(c[i], tent_client_segment(c[!i]));
		assert_int_not_equal(id[i], 0);
		assert_int_equal(far_buffers(c[i], id[i]), 1);
	}
	for (int i = 0; i < 2; i++) {
		engine_fix_memory(c[!i], 4096);
		far_expect_buffers(c[i], id[i], 2);
	}
	for (int i = 0; i < 2; i++)
		tent_client_detach(c[i]);
	tentd_pair_end(&two);
}

static void hosts_find_each_other_by_ipv4(void **state)
{
	(void)state;
	find_each_other(HOSTS_IPV4, WITHOUT);
	find_each_other(HOSTS_IPV4, WITH);
}

static void hosts_find_each_other_by_ipv6(void **state)
{
	(void)state;
	find_each_other("[" HOSTS_IPV6 "]", WITHOUT);
	find_each_other(HOSTS_IPV6, WITH);
}

static void hosts_find_each_other_by_a_link_local_address(void **state)
{
	(void)state;
	find_each_other(HOSTS_LINK_LOCAL "%%" HOSTS_PORT, WITHOUT);
	find_each_other(HOSTS_LINK_LOCAL "%%" HOSTS_PORT, WITH);
}

static void hosts_find_each_other_by_name(void **state)
{
	(void)state;
	find_each_other(HOSTS_NAME, WITHOUT);
	find_each_other(HOSTS_NAME, WITH);
}

/* ---- whose is it ------------------------------------------------------- */

/* Somebody on the engine's host listens at the port that a caller from elsewhere has:
 * that is nothing to go by. */
static void a_caller_from_elsewhere_is_nobody_of_this_host(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(15999) };
	struct tent_client *owner;
	struct wire w = { .fd = -1 };
	int listening;

	(void)state;
	start_both(HOSTS_IPV4, WITHOUT);
	owner = attach(0, "kv");
	hosts_enter(&two.hosts, 0);
	assert_int_equal(syscall(SYS_setresuid, -1, STRANGER, -1), 0);
	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listening, 1), 0);
	hosts_enter(&two.hosts, 1);
	frame_reader_init(&w.reader, FRAME_MAX);
	w.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(w.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	hosts_enter(&two.hosts, -1);
	a.sin_port = htons(15000);
	a.sin_addr.s_addr = htonl(0x0a4d0001);
	assert_int_equal(connect(w.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	wire_send(&w, wire_hello(9));
	json_decref(wire_expect(&w, "hello"));
	wire_send(&w, json_pack("{s:s,s:s,s:i,s:i}", "type", "describe", "segment", "kv",
				"uid", 0, "first", 0));
	json_decref(wire_expect(&w, "segment"));
	wire_close(&w);
	close(listening);
	tent_client_detach(owner);
	tentd_pair_end(&two);
}

/* ---- the cable --------------------------------------------------------- */

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The kernel would try for a quarter of an hour: 924 s. */
static void a_cable_that_is_pulled_out_loses_the_peer_and_put_in_finds_it(void **state)
{
	struct tent_client *user, *owner;
	tent_segment_id_t id;
	long began, ms;

	(void)state;
	start_both(HOSTS_IPV4, WITH);
	owner = attach(0, "kv");
	engine_fix_memory(owner, 4096);
	user = attach(1, NULL);
	began = now_ms();		/* since then they have heard of each other */
	id = far_open_it(user, tent_client_segment(owner));
	for (int i = 0; i < 2; i++) {
		hosts_cut(&two.hosts);
		far_expect_buffers(user, id, -TENT_RULE_TARGET_PEER);
		ms = now_ms() - began;
		assert_in_range(ms, 3000, 600000);
		if (ms > DEAD_AFTER_MS)		/* on a machine that others use */
			print_message("took %ld ms, not %d\n", ms, DEAD_AFTER_MS);
		engine_fix_memory(owner, 4096);
		began = now_ms();
		hosts_heal(&two.hosts);
		far_expect_buffers(user, id, i + 2);
		assert_int_equal(far_open_it(user, tent_client_segment(owner)), id);
	}
	tent_client_detach(user);
	tent_client_detach(owner);
	tentd_pair_end(&two);
}

static void a_cable_that_is_out_is_an_error_in_time(void **state)
{
	struct tent_client *user;
	tent_segment_id_t id;
	long began = now_ms();

	(void)state;
	start_both(HOSTS_IPV6, WITH);
	user = attach(1, NULL);
	hosts_cut(&two.hosts);
	assert_int_not_equal(tent_client_open_segment(user, "[fd77::1]:15000/kv", &id), 0);
	assert_int_equal(engine_fix_rule(), TENT_RULE_SEGMENT_UNKNOWN);
	assert_in_range(now_ms() - began, 0, 120000);	/* the kernel's connect(): 127 s */
	hosts_heal(&two.hosts);
	tent_client_detach(user);
	tentd_pair_end(&two);
}

/* Its clients lose it, the peer finds another in its place. */
static void a_killed_engine_is_lost_and_its_successor_another(void **state)
{
	struct tent_client *user, *owner;
	tent_segment_id_t id, next;
	char name[TENT_CTL_NAME_SIZE];

	(void)state;
	start_both(HOSTS_NAME, WITH);
	owner = attach(0, "kv");
	strcpy(name, tent_client_segment(owner));
	engine_fix_memory(owner, 4096);
	user = attach(1, NULL);
	id = far_open_it(user, name);
	tentd_end(&two.daemons[0], SIGKILL);
	far_expect_buffers(user, id, -TENT_RULE_TARGET_PEER);
	tent_client_detach(owner);
	tentd_cleanup(&two.daemons[0]);
	tentd_pair_start(&two, 0, HOSTS_NAME, WITH, NULL);
	owner = attach(0, "kv");
	far_expect_buffers(user, id, -TENT_RULE_TARGET_GONE);
	next = far_open_it(user, name);
	assert_int_not_equal(next, id);
	assert_int_equal(far_buffers(user, next), 0);
	tent_client_detach(user);
	tent_client_detach(owner);
	tentd_pair_end(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_find_each_other_by_ipv4),
		cmocka_unit_test(hosts_find_each_other_by_ipv6),
		cmocka_unit_test(hosts_find_each_other_by_a_link_local_address),
		cmocka_unit_test(hosts_find_each_other_by_name),
		cmocka_unit_test(a_caller_from_elsewhere_is_nobody_of_this_host),
		cmocka_unit_test(a_cable_that_is_pulled_out_loses_the_peer_and_put_in_finds_it),
		cmocka_unit_test(a_cable_that_is_out_is_an_error_in_time),
		cmocka_unit_test(a_killed_engine_is_lost_and_its_successor_another),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
