/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_faults.c - what the software ConnectX can do wrong, while clients of two tentd
 * move bytes by it: how requests end, what is said about it, and that they go by RDMA again
 * once it is over, with nothing restarted. Where it matters that a request fails there is no
 * other transport that could help.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/rdma_pair.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
/* Three connections have the time that their cards take to give up. */
#define PATIENT ", \"engine\": {\"request_timeout_ms\": 60000}"

/* ---- what is seen ------------------------------------------------------ */

static void expect_facts(int host, const char *text)
{
	const char *facts = rdma_facts_at(host);

	if (!strstr(facts, text))
		fail_msg("no \"%s\" in: %s", text, facts);
}

/* The user's side names its device and port, its peer, and what happened. */
static void expect_reason(const char *text)
{
	expect_facts(1, "last fault: mlx5_0 port 1 to 10.77.0.1:15000");
	expect_facts(1, text);
}

/* How many of all parts went by RDMA. */
static int by_rdma(struct rdma_pair *p)
{
	int nr = 0;

	rdma_submit_all(p, TENT_OPCODE_WRITE);
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);

		nr += c.status == TENT_STATUS_COMPLETED && c.transport == TENT_TRANSPORT_RDMA;
	}
	return nr;
}

/* A peer that did not answer is left alone for a while; one that never is asked again fails
 * the test. */
static void expect_resumed(struct rdma_pair *p, uint32_t seed)
{
	while (by_rdma(p) < RDMA_PARTS)
		;
	rdma_expect_both(p, seed);
}

/* Does it to a pair with nothing but RDMA, over RoCE and over InfiniBand. */
static void over_both_links(const char *extra, void (*test)(struct rdma_pair *p))
{
	struct rdma_pair p;

	for (int link = 0; link < 2; link++) {
		rdma_pair_open(&p, rdma_links[link], RDMA_ALONE, extra);
		test(&p);
		rdma_pair_end(&p);
	}
}

/* ---- what costs time alone --------------------------------------------- */

static void try_slow(struct rdma_pair *p)
{
	static const char *const faults[][2] = {
		{ "late_cqe=20ms", "late_cqe=0s" }, { "bandwidth=400mbit", "bandwidth=0" },
		{ "latency=1ms jitter=1ms", "latency=0s jitter=0s" },
		{ "delay_responses=5%", "delay_responses=0" }, { "mtu=512", "mtu=4096" },
		{ "nak_at=5 nak=96", "nak_at=0" },
	};

	for (uint32_t i = 0; i < COUNT(faults); i++) {
		rdma_set_at((int)i & 1, faults[i][0]);
		rdma_expect_both(p, 10 * i + 1);
		rdma_set_at((int)i & 1, faults[i][1]);
	}
}

static void a_slow_card_or_wire_ends_nothing(void **state)
{
	(void)state;
	over_both_links("", try_slow);
}

/* ---- one request ------------------------------------------------------- */

struct one {
	int number;
	int error;		/* of the request that it hits; 0: it is carried all the same */
	const char *reason;
};

static void expect_one(struct rdma_pair *p, int host, const char *format, const struct one *f)
{
	char what[64];
	int failed;

	snprintf(what, sizeof(what), format, f->number);
	rdma_set_at(host, what);
	failed = rdma_failures(p, TENT_OPCODE_WRITE, f->error);
	if (failed != (f->error != 0))
		fail_msg("%s: %d requests failed", what, failed);
	expect_reason(f->reason);
	rdma_expect_both(p, 5);
}

static void try_syndromes(struct rdma_pair *p)
{
	static const struct one all[] = {
		{ 0x01, TENT_ERR_RUNTIME, "more bytes than a message may have" },
		{ 0x02, 0, "the card cannot execute this WQE" },
		{ 0x04, TENT_ERR_OWNER_GONE, "the local key does not cover these bytes" },
		{ 0x05, 0, "not executed, its connection had ended" },
		{ 0x06, 0, "a memory window" },
		{ 0x10, 0, "the peer's answer made no sense" },
		{ 0x11, 0, "the peer's request may not touch this memory" },
		{ 0x12, 0, "the peer's card takes no such request" },
		{ 0x13, TENT_ERR_OWNER_GONE, "the remote key does not cover these bytes" },
		{ 0x14, 0, "the peer's card could not do it" },
		{ 0x15, 0, "the peer's card does not answer" },
		{ 0x16, 0, "the peer's card is never ready" },
		{ 0x22, 0, "the peer's card gave it up" },
	};

	for (uint32_t i = 0; i < COUNT(all); i++)
		expect_one(p, 1, "syndrome_at=5 syndrome=%d", &all[i]);
}

static void a_syndrome_hits_one_request_or_its_connection(void **state)
{
	(void)state;
	over_both_links("", try_syndromes);
}

static void try_naks(struct rdma_pair *p)
{
	static const struct one all[] = {
		{ 97, 0, "the peer's card takes no such request" },
		{ 98, TENT_ERR_OWNER_GONE, "the remote key does not cover these bytes" },
		{ 99, 0, "the peer's card could not do it" },
	};

	for (uint32_t i = 0; i < COUNT(all); i++)
		expect_one(p, 0, "nak_at=5 nak=%d", &all[i]);
}

static void a_nak_hits_one_request_or_its_connection(void **state)
{
	(void)state;
	over_both_links("", try_naks);
}

/* ---- connections ------------------------------------------------------- */

/* No completion tells of it, an event of the card does. */
static void fill_cq(struct rdma_pair *p)
{
	rdma_expect_both(p, 1);
	rdma_set_at(1, "cq_overrun_at=1");
	rdma_expect_both(p, 3);
	expect_reason("the card says that its queues broke");
}

static void what_a_full_cq_lost_goes_out_again(void **state)
{
	(void)state;
	over_both_links("", fill_cq);
}

static void take_answers(struct rdma_pair *p)
{
	static const struct {
		int host;
		const char *begin, *end;
	} all[] = {
		{ 1, "link=down", "link=up" },
		{ 0, "link=down", "link=up" },
		{ 1, "drop_requests=100%", "drop_requests=0" },
		{ 0, "drop_responses=100%", "drop_responses=0" },
	};

	rdma_expect_both(p, 1);
	for (uint32_t i = 0; i < COUNT(all); i++) {
		rdma_set_at(1, "timeouts=100%");
		rdma_set_at(all[i].host, all[i].begin);
		assert_int_equal(rdma_failures(p, TENT_OPCODE_READ,
					       TENT_ERR_PEER_UNREACHABLE), RDMA_PARTS);
		expect_reason("the peer's card does not answer");
		rdma_set_at(all[i].host, all[i].end);
		rdma_set_at(1, "timeouts=400%");
		expect_resumed(p, 10 * i + 3);
	}
}

static void without_answers_all_fail_until_there_are_some(void **state)
{
	(void)state;
	over_both_links(PATIENT, take_answers);
}

static void while_a_link_is_down_it_goes_by_tcp(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], "", PATIENT);
	rdma_expect_both(&p, 1);
	rdma_set_at(1, "timeouts=100%");
	rdma_set_at(0, "link=down");
	rdma_expect_all(&p, TENT_OPCODE_WRITE, TENT_TRANSPORT_TCP, 3);
	rdma_expect_all(&p, TENT_OPCODE_READ, TENT_TRANSPORT_TCP, 4);
	rdma_set_at(0, "link=up");
	rdma_set_at(1, "timeouts=400%");
	expect_resumed(&p, 5);
	rdma_pair_end(&p);
}

/* What is left is of IPv6, the peer's of IPv4; who looks first says so. */
static void an_address_that_was_taken_away_is_used_again_when_it_is_back(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], RDMA_ALONE, PATIENT);
	rdma_expect_both(&p, 1);
	for (int host = 0; host < 2; host++) {
		rdma_set_at(host, "gid.0=none");
		assert_int_equal(rdma_failures(&p, TENT_OPCODE_WRITE, TENT_ERR_PEER_UNREACHABLE),
				 RDMA_PARTS);
		expect_reason(": its peer has an address of IPv");
		rdma_set_at(host, host ? "gid.0=10.77.0.2" : "gid.0=10.77.0.1");
		expect_resumed(&p, 3);
	}
	rdma_pair_end(&p);
}

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
	rdma_fill(mine, POOL, 1);
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
		cmocka_unit_test(a_slow_card_or_wire_ends_nothing),
		cmocka_unit_test(a_syndrome_hits_one_request_or_its_connection),
		cmocka_unit_test(a_nak_hits_one_request_or_its_connection),
		cmocka_unit_test(what_a_full_cq_lost_goes_out_again),
		cmocka_unit_test(without_answers_all_fail_until_there_are_some),
		cmocka_unit_test(while_a_link_is_down_it_goes_by_tcp),
		cmocka_unit_test(
			an_address_that_was_taken_away_is_used_again_when_it_is_back),
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
