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

#include <cmocka.h>

#include "tests/test_rdma_fix.h"

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
	};

	rdma_fence_ms = RDMA_PATIENT_FENCE_MS;
	return cmocka_run_group_tests(tests, rdma_setup, rdma_teardown);
}
