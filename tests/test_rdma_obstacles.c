/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_obstacles.c - what stands in RDMA's way at one of two tentd, or differs between
 * them: one sentence says so, and other transports serve meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/test_rdma_fix.h"

/* ---- memory and devices ------------------------------------------------ */

static void memory_that_a_card_refuses_goes_by_tcp(void **state)
{
	const struct rdma_host host = { .sim = rdma_links[0] };
	struct rdma_pair p;

	(void)state;
	for (int i = 0; i < 2; i++)
		rdma_start_at(i, &host);
	rdma_set_at(0, "reg_mr_fails=1");
	rdma_open_owner(&p);
	rdma_open_user(&p);
	rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
	expect_facts(0, "last fault: mlx5_0: 4194304 bytes at 0x");
	expect_facts(0, "cannot be registered");
	rdma_pair_close(&p);
	rdma_open_owner(&p);
	rdma_open_user(&p);
	rdma_expect_both(&p, 2);
	rdma_pair_end(&p);
}

#define POOL ((uint64_t)32 << 20)

static uint8_t *pool_of(struct tent_client *c)
{
	void *p;

	assert_int_equal(tent_client_alloc(c, POOL, "*", &p), 0);
	assert_int_equal(tent_client_register(c, p, POOL, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0),
			 0);
	return p;
}

/* It is registered beside the control thread, in more pieces than requests know of. */
static void a_large_pool_moves_across_the_pieces_that_a_card_takes(void **state)
{
	static const char *const small[] = { "--fault", "max_mr_size=2500K", NULL };
	struct rdma_pair p;
	struct tent_completion c;
	uint8_t *theirs, *mine;

	(void)state;
	rdma_pair_open(&p, small, RDMA_ALONE, PATIENT);
	theirs = pool_of(p.owner);
	far_expect_buffers(p.user, p.id, 2);
	mine = pool_of(p.user);
	pattern_fill(mine, POOL, 1);
	c = engine_fix_move(p.ring, TENT_OPCODE_WRITE, mine, p.id, theirs, POOL);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.transport, TENT_TRANSPORT_RDMA);
	assert_memory_equal(mine, theirs, POOL);
	assert_int_equal(tent_client_unregister(p.owner, theirs, POOL), 0);
	far_expect_buffers(p.user, p.id, 1);
	rdma_pair_end(&p);
}

/* One sentence says what stands in the way, and TCP serves. */
static void a_device_that_cannot_be_used_says_why(void **state)
{
	static const char *const forbidden[] = { "--fault", "no_permission=on", NULL };
	static const char *const small[] = { "--fault", "max_mr_size=32K", NULL };
	static const struct {
		const char *const *sim;
		const char *sentence;
	} all[] = {
		{ forbidden, "mlx5_0: no permission to open /dev/infiniband/uverbs0" },
		{ NULL, "there is no mlx5 device here" },
		{ small, "cannot be registered: the device takes 32768 at once; allowed: up to 64 "
			 "times as many" },
	};
	struct rdma_pair p;

	(void)state;
	for (uint32_t i = 0; i < COUNT(all); i++) {
		rdma_pair_open_as(&p, (const struct rdma_host[2]){
			{ .sim = all[i].sim }, { .sim = rdma_links[0] } });
		rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
		expect_facts(0, all[i].sentence);
		rdma_pair_end(&p);
	}
}

static void a_port_that_cannot_be_reached_from_the_start_is_used_once_it_can(void **state)
{
	static const struct {
		const char *sim[3], *sentence, *lift;
	} all[] = {
		{ { "--fault", "link=down" }, "mlx5_0 port 1 is down, not active", "link=up" },
		{ { "--fault", "interface=gone" }, "mlx5_0 port 1: no GID has a network interface",
		  "interface=there" },
	};
	struct rdma_pair p;

	(void)state;
	for (uint32_t k = 0; k < 2 * COUNT(all); k++) {
		struct rdma_host hosts[2] = { { .sim = rdma_links[0] },
					      { .sim = rdma_links[0] } };
		int host = (int)k & 1;

		hosts[host].sim = all[k / 2].sim;
		rdma_pair_open_as(&p, hosts);
		rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
		assert_string_equal(rdma_facts_at(host), all[k / 2].sentence);
		rdma_set_at(host, all[k / 2].lift);
		expect_resumed(&p, 2);
		rdma_pair_end(&p);
	}
}

/* The kernel says the same of both: no memory. */
static void a_limit_of_locked_memory_is_named(void **state)
{
	const struct rdma_host host = { .sim = rdma_links[0] };
	struct rlimit before, small;
	struct rdma_pair p;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	small = (struct rlimit){ 8 << 20, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	for (int i = 0; i < 2; i++)
		rdma_start_at(i, &host);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	rdma_set_at(0, "reg_mr_fails=1");
	rdma_open_owner(&p);
	rdma_open_user(&p);
	rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
	expect_facts(0, "RLIMIT_MEMLOCK, 8388608 bytes, is too small for all that is registered");
	rdma_pair_end(&p);
}

static void without_queue_pairs_it_goes_by_tcp_until_there_are_some(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], "", PATIENT);
	for (int host = 0; host < 2; host++) {
		rdma_set_at(host, "create_qp_fails=4294967295");
		rdma_set_at(1, "cq_overrun_at=1");	/* those that there are */
		rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 1);
		expect_reason(host ? ": mlx5_0: no QP: there is no memory, or its" :
				     ": its peer refuses: mlx5_0: no QP: there is no memory, or its");
		rdma_set_at(host, "create_qp_fails=0");
		expect_resumed(&p, 3);
	}
	rdma_pair_end(&p);
}

/* ---- ends that differ -------------------------------------------------- */

static void the_smaller_mtu_is_used_and_named(void **state)
{
	static const char *const small[] = { "--fault", "mtu=512", "--fault", "timeouts=400%", NULL };
	struct rdma_pair p;

	(void)state;
	for (int host = 0; host < 2; host++) {
		rdma_pair_open_as(&p, (const struct rdma_host[2]){
			{ .sim = host ? rdma_links[0] : small, .rdma = RDMA_ALONE },
			{ .sim = host ? small : rdma_links[0], .rdma = RDMA_ALONE } });
		rdma_expect_both(&p, 1);
		expect_facts(1, host ? ", MTU 512: " : " (512 with 10.77.0.1:15000): ");
		rdma_pair_end(&p);
	}
}

/* More pollers here, deeper queues there. */
static void engines_with_other_numbers_of_queue_pairs_understand_each_other(void **state)
{
	const struct rdma_host one = { rdma_links[0], RDMA_ALONE, "" }, other = {
		rdma_links[0], ", \"endpoint\": {\"max_qp_wr\": 16}" RDMA_ALONE,
		", \"engine\": {\"pollers\": 3}",
	};
	struct rdma_pair p;

	(void)state;
	for (int host = 0; host < 2; host++) {
		rdma_pair_open_as(&p, (const struct rdma_host[2]){ host ? one : other,
								    host ? other : one });
		rdma_expect_both(&p, 1);
		rdma_pair_end(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_a_card_refuses_goes_by_tcp),
		cmocka_unit_test(a_large_pool_moves_across_the_pieces_that_a_card_takes),
		cmocka_unit_test(a_device_that_cannot_be_used_says_why),
		cmocka_unit_test(
			a_port_that_cannot_be_reached_from_the_start_is_used_once_it_can),
		cmocka_unit_test(a_limit_of_locked_memory_is_named),
		cmocka_unit_test(without_queue_pairs_it_goes_by_tcp_until_there_are_some),
		cmocka_unit_test(the_smaller_mtu_is_used_and_named),
		cmocka_unit_test(
			engines_with_other_numbers_of_queue_pairs_understand_each_other),
	};

	rdma_fence_ms = RDMA_PATIENT_FENCE_MS;
	return cmocka_run_group_tests(tests, rdma_setup, rdma_teardown);
}
