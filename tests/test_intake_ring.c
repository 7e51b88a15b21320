/* SPDX-License-Identifier: Apache-2.0 */
/* test_intake_ring.c - what else a slot may ask, and what ends a ring: NOP, CANCEL, a
 * broken protocol, slots that change while they are copied. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"
#include "tests/common/soak.h"

/* ---- NOP and CANCEL ----------------------------------------------------- */

static void nop_completes_at_once_with_its_user_data(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_slot(ring, 0)->user_data = 4711;
	rig_publish(ring, 1, TENT_OP_NOP, 0);
	poller_turn(r->poller);
	assert_true(rig_reap(ring, &c));
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.user_data, 4711);
	assert_int_equal(c.credits, 1);
	assert_int_equal(load_relaxed(&ring->host->line->consumed), 1);
	rig_stop(r);
}

static void nop_with_a_dirty_request_area_is_refused(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (size_t at = offsetof(struct tent_slot, notify); at < 128; at++) {
		((uint8_t *)rig_slot(ring, 0))[at] = 1;
		rig_publish(ring, 1, TENT_OP_NOP, 0);
		c = rig_finish(r, ring);
		rig_expect_refused(&c, TENT_RULE_SLOT_RESV, 0, 1);
	}
	rig_stop(r);
}

static void publish_cancel(struct rig_ring *ring, uint64_t user_data)
{
	struct tent_slot *s = rig_slot(ring, 0);

	s->user_data = 999999;
	s->request.source = (void *)(uintptr_t)user_data;
	rig_publish(ring, 1, TENT_OP_CANCEL, 0);
}

static void cancel_ends_a_queued_request_before_it_moves(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=1" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		rig_request(ring, i, TENT_OPCODE_READ, 0, 0, 8)->user_data = 100 + i;
	rig_publish(ring, 3, TENT_OP_REQUEST, 0);
	publish_cancel(ring, 101);
	c = rig_finish(r, ring);
	assert_int_equal(c.user_data, 101);
	assert_int_equal(c.status, TENT_STATUS_CANCELED);
	assert_int_equal(c.rule, TENT_RULE_CANCELED);
	assert_int_equal(c.bytes, 0);
	assert_int_equal(c.attempts, 0);
	c = rig_finish(r, ring);
	assert_int_equal(c.user_data, 999999);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_false(rig_reap(ring, &c));	/* the others are still queued */
	rig_stop(r);
}

static void cancel_asks_the_backend_for_a_pending_request(void **state)
{
	static const char *const faults[] = { "pending=1,hold", "pending=1,hold,late" };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct rig *r = rig_new(&(struct rig_options){ .faults = faults[late] });
		struct rig_ring *ring = &r->rings[0];
		struct tent_completion c[2];

		rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 8)->user_data = 7;
		rig_request(ring, 1, TENT_OPCODE_READ, 0, 0, 8)->user_data = 8;
		rig_publish(ring, 2, TENT_OP_REQUEST, 0);
		rig_settle(r);
		assert_false(rig_reap(ring, &c[0]));
		publish_cancel(ring, 8);
		c[0] = rig_finish(r, ring);
		c[1] = rig_finish(r, ring);
		assert_int_equal(c[late].user_data, 8);
		assert_int_equal(c[late].status, TENT_STATUS_CANCELED);
		assert_int_equal(c[!late].status, TENT_STATUS_COMPLETED);
		rig_stop(r);
	}
}

static void cancel_of_nothing_in_flight_says_so(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 8)->user_data = 7;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	assert_int_equal(c.user_data, 7);
	publish_cancel(ring, 7);	/* it has ended */
	c = rig_finish(r, ring);
	assert_int_equal(c.user_data, 999999);
	assert_int_equal(c.status, TENT_STATUS_FAILED);
	assert_int_equal(c.rule, TENT_RULE_CANCEL_UNKNOWN);
	assert_int_equal(c.error, TENT_ERR_ARGUMENTS);
	assert_int_equal(c.flags, 0);
	rig_stop(r);
}

static void cancel_reaches_no_other_ring(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=1" });
	struct tent_completion c;

	(void)state;
	rig_request(&r->rings[0], 0, TENT_OPCODE_READ, 0, 0, 8)->user_data = 7;
	rig_publish(&r->rings[0], 1, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	publish_cancel(&r->rings[2], 7);	/* the same client's */
	c = rig_finish(r, &r->rings[2]);
	assert_int_equal(c.rule, TENT_RULE_CANCEL_UNKNOWN);
	rig_stop(r);
}

/* ---- the ring's protocol ------------------------------------------------ */

struct violation {
	uint16_t rule;
	void (*commit)(struct rig_ring *ring);
};

static struct tent_slot *raw(struct rig_ring *ring, uint32_t i)
{
	return (struct tent_slot *)(uintptr_t)ring->host->slots +
	       ((ring->position + i) & ring->host->slot_mask);
}

static void two(struct rig_ring *ring)
{
	rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 8);
	rig_request(ring, 1, TENT_OPCODE_READ, 0, 0, 8);
	rig_publish(ring, 2, TENT_OP_REQUEST, 0);
	ring->position -= 2;
}

static void wrong_seq(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 1)->seq++;
}

static void later_nr(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 1)->nr = 1;
}

static void later_op(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 1)->op = TENT_OP_NOP;
}

static void later_flags(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 1)->flags = TENT_SLOT_F_LEGACY;
}

static void later_cq_head(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 1)->cq_head = 1;
}

static void zero_nr(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->nr = 0;
}

static void large_nr(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->nr = 65;
}

static void huge_nr(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->nr = UINT32_MAX;
}

static void two_nops(struct rig_ring *ring)
{
	rig_slot(ring, 0);
	rig_slot(ring, 1);
	rig_publish(ring, 2, TENT_OP_NOP, 0);
}

static void unknown_op(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->op = 5;
}

static void op_beyond_all(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->op = 8;
}

static void unknown_flag(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->flags = 8;
}

static void future_cq_head(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->cq_head += 2;	/* one completion is published */
}

static void past_cq_head(struct rig_ring *ring)
{
	two(ring);
	raw(ring, 0)->cq_head--;
}

static void over_admission(struct rig_ring *ring)
{
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_READ, 0, 0, 8);
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
}

static const struct violation violations[] = {
	{ TENT_RULE_RING_SEQ, wrong_seq }, { TENT_RULE_RING_FIRST, later_nr },
	{ TENT_RULE_RING_FIRST, later_op }, { TENT_RULE_RING_FIRST, later_flags },
	{ TENT_RULE_RING_FIRST, later_cq_head }, { TENT_RULE_RING_NR, zero_nr },
	{ TENT_RULE_RING_NR, large_nr }, { TENT_RULE_RING_NR, huge_nr },
	{ TENT_RULE_RING_NR, two_nops }, { TENT_RULE_RING_FIRST, unknown_op },
	{ TENT_RULE_RING_FIRST, op_beyond_all },
	{ TENT_RULE_RING_FIRST, unknown_flag }, { TENT_RULE_RING_CQ_HEAD, future_cq_head },
	{ TENT_RULE_RING_CQ_HEAD, past_cq_head }, { TENT_RULE_RING_ROOM, over_admission },
};

/* In each the ring has a request in flight: it ends with the ring's rule, before the
 * client is told; the other rings of both clients do not notice. */
static void a_violation_ends_its_ring_with_the_rule_and_no_other(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
		struct rig *r = rig_new(&(struct rig_options){ .faults = "pending=2,hold" });
		struct rig_ring *bad = &r->rings[0];
		struct tent_completion c;

		rig_request(bad, 0, TENT_OPCODE_READ, 0, 0, 8);
		rig_request(bad, 1, TENT_OPCODE_READ, 0, 0, 8)->user_data = 55;
		rig_publish(bad, 2, TENT_OP_REQUEST, 0);
		rig_settle(r);		/* one has completed, one is with the backend */
		violations[i].commit(bad);
		rig_settle(r);
		assert_int_equal(load_relaxed(&bad->host->line->end_rule), violations[i].rule);
		assert_true(load_relaxed(&bad->host->line->flags) & TENT_ENGINE_ENDED);
		assert_true(rig_reap(bad, &c));
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_true(rig_reap(bad, &c));
		assert_int_equal(c.user_data, 55);
		assert_int_equal(c.rule, violations[i].rule);
		assert_int_equal(c.error, TENT_ERR_PROTOCOL);
		assert_false(rig_reap(bad, &c));
		for (uint32_t k = 1; k < RIG_RINGS; k++) {
			assert_int_equal(load_relaxed(&r->rings[k].host->line->flags), 0);
			rig_slot(&r->rings[k], 0);
			rig_publish(&r->rings[k], 1, TENT_OP_NOP, 0);
			assert_int_equal(rig_finish(r, &r->rings[k]).status,
					 TENT_STATUS_COMPLETED);
		}
		rig_stop(r);
	}
}

static void a_violation_in_a_later_piece_ends_the_ring_and_starts_nothing(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	((struct tent_slot *)(uintptr_t)ring->host->slots)[50].seq = 0;
	rig_settle(r);
	assert_int_equal(load_relaxed(&ring->host->line->end_rule), TENT_RULE_RING_SEQ);
	assert_false(rig_reap(ring, &c));
	assert_int_equal(r->clients[1].memory[0], 0x22);
	assert_int_equal(ring->state->nr_free, 64);
	rig_stop(r);
}

static void memory_that_was_taken_away_ends_the_clients_rings(void **state)
{
	struct rig *r = rig_new(NULL);

	(void)state;
	store_relaxed(&r->clients[0].space.condemned, 1);
	rig_slot(&r->rings[0], 0);
	rig_publish(&r->rings[0], 1, TENT_OP_NOP, 0);
	for (int i = 0; i < 1000; i++)
		poller_turn(r->poller);
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		assert_int_equal(load_relaxed(&r->rings[k].host->line->end_rule),
				 k % 2 ? 0 : TENT_RULE_RING_MAPPING);
	rig_stop(r);
}

/* ---- copy once ---------------------------------------------------------- */

/* Flips every byte of slot 0 but its seq, over and over, from a process of its own:
 * what the engine reads there is nothing that threads of one program may share. Mostly
 * those of the request, since one before it may end the ring. */
static pid_t start_flipper(const struct ring_host *h)
{
	size_t size = h->client_mem.size;
	pid_t pid = fork();
	volatile uint8_t *slot;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* should the test fail */
	slot = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, h->client_mem.fd, 0);
	if (slot == MAP_FAILED)
		_exit(1);
	for (uint32_t sweep = 1;; sweep++)
		for (size_t at = sweep % 64 ? offsetof(struct tent_slot, request) : 4;
		     at < sizeof(struct tent_slot); at++) {
			uint8_t before = slot[at];

			slot[at] = before ^ 0xff;
			for (volatile int i = 0; i < 30; i++)
				;	/* long enough to be seen */
			slot[at] = before;
		}
}

static void stop_flipper(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* A length of 256 bytes in which at most one byte is another. */
static bool is_possible(uint64_t bytes)
{
	for (int i = 0; i < 8; i++)
		if (((bytes ^ 256) & ~(0xffull << 8 * i)) == 0)
			return true;
	return false;
}

#define OWN_POISON 0xa5
#define PEER_POISON 0x5a

/* Marks what no READ of client 0 may touch: the gaps after both clients' regions, and
 * the one region that its peer keeps to itself. */
static void poison(struct rig *r)
{
	for (uint32_t i = 0; i < RIG_REGIONS; i++) {
		size_t gap = (2 * i + 1) * RIG_REGION_BYTES;

		memset(r->clients[0].memory + gap, OWN_POISON, RIG_REGION_BYTES);
		memset(r->clients[1].memory + gap, PEER_POISON, RIG_REGION_BYTES);
	}
	memset(r->clients[1].memory + 6 * RIG_REGION_BYTES, PEER_POISON, RIG_REGION_BYTES);
}

/* READs have written inside client 0's regions only, and nothing but what client 1
 * lets others read. */
static void expect_only_legal_writes(const struct rig *r)
{
	static uint8_t own_gap[RIG_REGION_BYTES], hidden[RIG_REGION_BYTES],
		readable[RIG_REGION_BYTES];

	memset(own_gap, OWN_POISON, sizeof(own_gap));
	memset(hidden, PEER_POISON, sizeof(hidden));
	memset(readable, 0x22, sizeof(readable));
	for (uint32_t i = 0; i < 2 * RIG_REGIONS; i++) {
		const uint8_t *own = r->clients[0].memory + i * RIG_REGION_BYTES;
		const uint8_t *peer = r->clients[1].memory + i * RIG_REGION_BYTES;

		assert_memory_equal(peer, i % 2 || i == 6 ? hidden : readable,
				    RIG_REGION_BYTES);
		if (i % 2)
			assert_memory_equal(own, own_gap, RIG_REGION_BYTES);
		else
			assert_null(memchr(own, PEER_POISON, RIG_REGION_BYTES));
	}
}

/*
 * While another process flips the slot's bytes, each round either refuses the batch,
 * ends the ring, or moves exactly what was judged: within the regions, with the length
 * that the completion tells. Both ends lie at the end of a region, where a longer
 * length, obeyed but not judged, would run into poison. It goes on until there were both.
 */
static void what_was_judged_is_what_runs_while_the_slot_is_flipped(void **state)
{
	uint64_t moved = 0, refused = 0, ended = 0;
	uint32_t rounds = soak_rounds(40);

	(void)state;
	for (uint32_t round = 0; round < rounds || !moved || !refused; round++) {
		struct rig *r = rig_new(&(struct rig_options){ .slots = 1, .completions = 1 });
		struct rig_ring *ring = &r->rings[0];
		const uint64_t at = RIG_REGION_BYTES - 256;
		pid_t flipper;

		poison(r);
		flipper = start_flipper(ring->host);
		for (uint32_t i = 0; i < 2000 && !ring->state->end_rule; i++) {
			struct tent_completion c;

			rig_request(ring, 0, TENT_OPCODE_READ, at, at, 256);
			rig_publish(ring, 1, TENT_OP_REQUEST, 0);
			if (i % 500 == 0)
				sched_yield();	/* on one core flips are seen only so */
			rig_settle(r);
			if (!rig_reap(ring, &c))
				break;
			if (c.flags & TENT_CQE_F_REJECTED) {
				refused++;
				continue;
			}
			assert_int_equal(c.status, TENT_STATUS_COMPLETED);
			assert_true(is_possible(c.bytes));
			moved++;
		}
		ended += ring->state->end_rule != 0;
		stop_flipper(flipper);
		expect_only_legal_writes(r);
		rig_stop(r);
	}
	print_message("moved %llu, refused %llu, ended %llu\n", (unsigned long long)moved,
		      (unsigned long long)refused, (unsigned long long)ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nop_completes_at_once_with_its_user_data),
		cmocka_unit_test(nop_with_a_dirty_request_area_is_refused),
		cmocka_unit_test(cancel_ends_a_queued_request_before_it_moves),
		cmocka_unit_test(cancel_asks_the_backend_for_a_pending_request),
		cmocka_unit_test(cancel_of_nothing_in_flight_says_so),
		cmocka_unit_test(cancel_reaches_no_other_ring),
		cmocka_unit_test(a_violation_ends_its_ring_with_the_rule_and_no_other),
		cmocka_unit_test(a_violation_in_a_later_piece_ends_the_ring_and_starts_nothing),
		cmocka_unit_test(memory_that_was_taken_away_ends_the_clients_rings),
		cmocka_unit_test(what_was_judged_is_what_runs_while_the_slot_is_flipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
