/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp.c - two engines move bytes between their clients over TCP, by io_uring and
 * without it. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/test_tcp_fix.h"

/* ---- bytes arrive ------------------------------------------------------ */

static void every_length_arrives_by_write_and_comes_back_by_read(void **state)
{
	static const uint64_t lengths[] = { 1, 2, 47, 48, 63, 64, 4095, 4096, 8136, 8137, 8192,
					    65536, 262143, 262144, 262145, 1000003, SIZE };
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	for (size_t i = 0; i < NR(lengths); i++) {
		uint64_t n = lengths[i], at = (SIZE - n) / 2;

		pattern_fill(p.mine, SIZE, (uint32_t)i + 1);
		memset(p.theirs, 0, SIZE);
		completed(pair_move(&p, TENT_OPCODE_WRITE, at, at, n), n);
		assert_memory_equal(p.theirs + at, p.mine + at, n);
		assert_true(is_zero(p.theirs, at) && is_zero(p.theirs + at + n, SIZE - at - n));
		memset(p.mine, 0, SIZE);
		completed(pair_move(&p, TENT_OPCODE_READ, at, at, n), n);
		assert_memory_equal(p.theirs + at, p.mine + at, n);
		assert_true(is_zero(p.mine, at) && is_zero(p.mine + at + n, SIZE - at - n));
	}
	pair_close(&p);
}

static void nothing_is_moved_by_a_length_of_zero(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	completed(pair_move(&p, TENT_OPCODE_WRITE, 0, 0, 0), 0);
	completed(pair_move(&p, TENT_OPCODE_READ, SIZE, SIZE, 0), 0);
	pair_close(&p);
}

static void many_requests_at_once_all_arrive(void **state)
{
	enum { COUNT = 400, BYTES = 4096 };
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	pattern_fill(p.mine, SIZE, 7);
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; i < COUNT; i++)
			pair_submit(&p, TENT_OPCODE_WRITE, i * BYTES, (COUNT - 1 - i) * BYTES, BYTES);
		for (int i = 0; i < COUNT; i++)
			completed(engine_fix_wait(p.ring), BYTES);
		for (uint64_t i = 0; i < COUNT; i++)
			assert_memory_equal(p.theirs + i * BYTES,
					    p.mine + (COUNT - 1 - i) * BYTES, BYTES);
		memset(p.theirs, 0, SIZE);
	}
	pair_close(&p);
}

static void both_directions_and_both_operations_run_at_once(void **state)
{
	struct pair there, back;

	(void)state;
	pair_open(&there, TENT_PERM_GLOBAL_READ_WRITE);
	pair_open_from(&back, &two, &one, TENT_PERM_GLOBAL_READ_WRITE);
	for (int round = 0; round < 8; round++) {
		pattern_fill(there.mine, SIZE / 2, (uint32_t)round);
		pattern_fill(there.theirs + SIZE / 2, SIZE / 2, (uint32_t)round + 100);
		pattern_fill(back.mine, SIZE, (uint32_t)round + 200);
		pair_submit(&there, TENT_OPCODE_WRITE, 0, 0, SIZE / 2);
		pair_submit(&there, TENT_OPCODE_READ, SIZE / 2, SIZE / 2, SIZE / 2);
		pair_submit(&back, TENT_OPCODE_WRITE, 0, 0, SIZE);
		completed(engine_fix_wait(there.ring), SIZE / 2);
		completed(engine_fix_wait(there.ring), SIZE / 2);
		completed(engine_fix_wait(back.ring), SIZE);
		assert_memory_equal(there.mine, there.theirs, SIZE);
		assert_memory_equal(back.mine, back.theirs, SIZE);
	}
	pair_close(&back);
	pair_close(&there);
}

static void the_completion_says_that_tcp_moved_it(void **state)
{
	struct pair p;
	struct tent_completion done;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	done = pair_move(&p, TENT_OPCODE_WRITE, 0, 0, 64);
	completed(done, 64);
	assert_int_equal(done.transport, TENT_TRANSPORT_TCP);
	assert_int_equal(done.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
	pair_close(&p);
}

/* ---- who may ----------------------------------------------------------- */

static void the_permission_of_a_buffer_holds(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_ONLY);
	pattern_fill(p.theirs, SIZE, 3);
	completed(pair_move(&p, TENT_OPCODE_READ, 0, 0, SIZE), SIZE);
	assert_memory_equal(p.mine, p.theirs, SIZE);
	refused(pair_move(&p, TENT_OPCODE_WRITE, 0, 0, 64), TENT_ERR_ADDRESS);
	pair_close(&p);
	pair_open(&p, TENT_PERM_LOCAL_READ_WRITE);
	refused(pair_move(&p, TENT_OPCODE_READ, 0, 0, 64), TENT_ERR_ADDRESS);
	refused(pair_move(&p, TENT_OPCODE_WRITE, 0, 0, 64), TENT_ERR_ADDRESS);
	pair_close(&p);
}

static void an_address_that_is_not_registered_is_an_error(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	refused(pair_move(&p, TENT_OPCODE_READ, 0, SIZE, 56), TENT_ERR_ADDRESS);
	refused(pair_move(&p, TENT_OPCODE_READ, 0, SIZE - 55, 56), TENT_ERR_ADDRESS);
	pair_close(&p);
}

/* ---- ends -------------------------------------------------------------- */

/* Unregistered under way: whatever came first, each has one end, and the memory is free
 * when unregister returns. */
static void memory_that_is_unregistered_under_way_is_let_go_of(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	for (int round = 0; round < 10; round++) {
		int opcode = round & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;

		pair_submit_parts(&p, opcode);
		assert_int_equal(tent_client_unregister(p.owner, p.theirs, SIZE), 0);
		memset(p.theirs, 0xee, SIZE);
		for (int i = 0; i < PARTS; i++)
			ended(engine_fix_wait(p.ring), -TENT_ERR_OWNER_GONE, -TENT_ERR_ADDRESS);
		assert_true(is_all(p.theirs, SIZE, 0xee));
		assert_int_equal(tent_client_register(p.owner, p.theirs, SIZE,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
		far_expect_buffers(p.user, p.id, 1);
	}
	pair_close(&p);
}

static void own_memory_that_is_unregistered_under_way_is_let_go_of(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
	for (int round = 0; round < 10; round++) {
		pair_submit_parts(&p, TENT_OPCODE_READ);
		assert_int_equal(tent_client_unregister(p.user, p.mine, SIZE), 0);
		memset(p.mine, 0xee, SIZE);
		for (int i = 0; i < PARTS; i++)
			ended(engine_fix_wait(p.ring), -TENT_ERR_OWNER_GONE, -TENT_ERR_ADDRESS);
		assert_true(is_all(p.mine, SIZE, 0xee));
		assert_int_equal(tent_client_register(p.user, p.mine, SIZE,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	}
	pair_close(&p);
}

static void an_owner_that_leaves_under_way_ends_what_names_it(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		struct pair p;

		pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
		pair_submit_parts(&p, round & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE);
		tent_client_detach(p.owner);
		p.owner = NULL;
		for (int i = 0; i < PARTS; i++)
			ended(engine_fix_wait(p.ring), -TENT_ERR_OWNER_GONE, -TENT_ERR_ADDRESS);
		pair_close(&p);
	}
}

static void a_client_that_leaves_under_way_disturbs_nobody(void **state)
{
	struct pair stays;

	(void)state;
	pair_open(&stays, TENT_PERM_GLOBAL_READ_WRITE);
	for (int round = 0; round < 10; round++) {
		struct pair p;

		pair_open(&p, TENT_PERM_GLOBAL_READ_WRITE);
		pattern_fill(stays.mine, SIZE, (uint32_t)round);
		pair_submit(&stays, TENT_OPCODE_WRITE, 0, 0, SIZE);
		pair_submit_parts(&p, round & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE);
		pair_close(&p);
		completed(engine_fix_wait(stays.ring), SIZE);
		assert_memory_equal(stays.mine, stays.theirs, SIZE);
	}
	pair_close(&stays);
}

/* ---- who asked stops --------------------------------------------------- */

/* Nothing is left that might still arrive: the other engine said so, which knows who asks
 * by a link that is there till then. */
static void an_engine_that_stops_hears_that_its_writes_are_over(void **state)
{
	struct engine_fix third;
	struct pair p;

	(void)state;
	engine_fix_start(&third, tune_uring);
	pair_open_from(&p, &third, &two, TENT_PERM_GLOBAL_READ_WRITE);
	completed(pair_move(&p, TENT_OPCODE_WRITE, 0, 0, 4096), 4096);
	pair_submit_parts(&p, TENT_OPCODE_WRITE);
	assert_int_equal(tent_ring_wait_consumed(p.ring, 1 + PARTS, UINT64_MAX), 0);
	third.fds = engine_fix_count_fds();	/* its client has some still */
	engine_fix_stop(&third);
	for (int i = 0; i < PARTS; i++) {
		struct tent_completion done = engine_fix_wait(p.ring);

		assert_true(done.status == TENT_STATUS_COMPLETED ||
			    done.rule == TENT_RULE_ENGINE_STOPPED);
		assert_false(done.flags & TENT_CQE_F_TARGET_UNFENCED);
	}
	pair_close(&p);
}

/* ---- without io_uring -------------------------------------------------- */

/* As a container does; for the rest of this process. */
static int forbid_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { NR(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void expect_facts(const char *by, const char *why)
{
	struct tent_client *o;
	char *text;

	assert_int_equal(tent_client_observe(one.path, &o), 0);
	assert_int_equal(tent_client_query(o, TENT_QUERY_STATS, &text), 0);
	tent_client_detach(o);
	if (!strstr(text, by) || !strstr(text, why))
		fail_msg("neither %s nor %s: %s", by, why, text);
	free(text);
}

static void what_stands_in_the_way_of_io_uring_is_said(void **state)
{
	(void)state;
	expect_facts("\"tcp\":\"by epoll (io_uring is not permitted", "a seccomp filter");
}

static void what_the_configuration_says_is_said(void **state)
{
	(void)state;
	expect_facts("\"tcp\":\"by epoll", "transports/tcp/io_uring is false");
}

static int forbidden(void **state)
{
	assert_int_equal(forbid_uring(), 0);
	return with_uring(state);
}

#define TESTS								\
	cmocka_unit_test(every_length_arrives_by_write_and_comes_back_by_read),	\
	cmocka_unit_test(nothing_is_moved_by_a_length_of_zero),		\
	cmocka_unit_test(many_requests_at_once_all_arrive),		\
	cmocka_unit_test(both_directions_and_both_operations_run_at_once), \
	cmocka_unit_test(the_completion_says_that_tcp_moved_it),	\
	cmocka_unit_test(the_permission_of_a_buffer_holds),		\
	cmocka_unit_test(an_address_that_is_not_registered_is_an_error), \
	cmocka_unit_test(memory_that_is_unregistered_under_way_is_let_go_of), \
	cmocka_unit_test(own_memory_that_is_unregistered_under_way_is_let_go_of), \
	cmocka_unit_test(an_owner_that_leaves_under_way_ends_what_names_it), \
	cmocka_unit_test(a_client_that_leaves_under_way_disturbs_nobody), \
	cmocka_unit_test(an_engine_that_stops_hears_that_its_writes_are_over)

int main(void)
{
	const struct CMUnitTest tests[] = { TESTS };
	const struct CMUnitTest driven[] = {
		cmocka_unit_test(every_length_arrives_by_write_and_comes_back_by_read),
		cmocka_unit_test(many_requests_at_once_all_arrive),
		cmocka_unit_test(memory_that_is_unregistered_under_way_is_let_go_of),
	};
	const struct CMUnitTest configured[] = {
		cmocka_unit_test(what_the_configuration_says_is_said),
	};
	const struct CMUnitTest refused_by_kernel[] = {
		cmocka_unit_test(what_stands_in_the_way_of_io_uring_is_said),
		cmocka_unit_test(every_length_arrives_by_write_and_comes_back_by_read),
	};
	int failed = 0;

	failed += cmocka_run_group_tests_name("io_uring", tests, with_uring, without);
	failed += cmocka_run_group_tests_name("epoll", tests, with_epoll, without);
	failed += cmocka_run_group_tests_name("pollers", tests, with_pollers, without);
	failed += cmocka_run_group_tests_name("checksums", tests, with_checksums, without);
	failed += cmocka_run_group_tests_name("caller", driven, with_caller, without);
	failed += cmocka_run_group_tests_name("caller, epoll", driven, with_caller_epoll, without);
	failed += cmocka_run_group_tests_name("configured", configured, with_epoll, without);
	failed += cmocka_run_group_tests_name("seccomp", refused_by_kernel, forbidden, without);
	return failed;
}
