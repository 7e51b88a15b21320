/* SPDX-License-Identifier: Apache-2.0 */
/* test_failover_fix.h - a rig of several backends that fail, by injected faults or by a
 * script, and what completions then say. */
#ifndef TENT_TEST_FAILOVER_FIX_H
#define TENT_TEST_FAILOVER_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/rig.h"

#define NULLS TENT_TRANSPORT_MPCOMM	/* the null backend's number */
#define SECOND TENT_TRANSPORT_UB
#define THIRD TENT_TRANSPORT_TPU
#define COPY TENT_TRANSPORT_SHM
#define HOUR_NS 3600000000000ull

/* The null backend under other numbers. */
static struct backend second, third;

static inline int setup(void **state)
{
	(void)state;
	second = third = null_backend;
	second.transport = SECOND;
	third.transport = THIRD;
	return 0;
}

/* Up to four backends, each with its faults; "" for none. */
static inline struct rig *start(const struct rig_backend *list, uint32_t nr, uint32_t attempts)
{
	struct rig_options o = { .poller = {
		.core = -1, .spin_ns = 50000, .turn_slots = 16, .turn_bytes = 65536,
		.answer_fd = -1, .event_fd = -1, .failover_attempts = attempts,
		.request_timeout_ns = HOUR_NS,
	} };

	for (uint32_t i = 0; i < nr; i++)
		o.backends[i] = list[i];
	return rig_new(&o);
}

#define START(attempts, ...)						\
	start((const struct rig_backend[]){ __VA_ARGS__ },		\
	      sizeof((const struct rig_backend[]){ __VA_ARGS__ }) /	\
	      sizeof(struct rig_backend), attempts)

static inline struct tent_completion move(struct rig *r, int opcode, int32_t hint)
{
	struct rig_ring *ring = &r->rings[0];

	rig_request(ring, 0, opcode, 0, 0, 4096)->request.transport_hint = hint;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	return rig_finish(r, ring);
}

static inline struct tent_completion write_one(struct rig *r)
{
	return move(r, TENT_OPCODE_WRITE, TENT_TRANSPORT_UNSPEC);
}

static inline void expect_over(const struct tent_completion *c, uint8_t first, uint8_t last,
			uint32_t attempts)
{
	assert_int_equal(c->status, TENT_STATUS_COMPLETED);
	assert_int_equal(c->error, 0);
	assert_int_equal(c->transport, last);
	assert_int_equal(c->attempts, attempts);
	assert_int_equal(c->bytes, 4096);
	assert_int_equal(c->flags, TENT_CQE_F_FAILED_OVER | first << TENT_CQE_FIRST_SHIFT);
	assert_int_equal(TENT_CQE_FIRST_TRANSPORT(c->flags), first);
}

static inline void expect_end(const struct tent_completion *c, uint8_t status, uint16_t rule,
		       uint8_t transport, uint32_t attempts)
{
	assert_int_equal(c->status, status);
	assert_int_equal(c->rule, rule);
	assert_int_equal(c->error, tent_rule_error(rule));
	assert_int_equal(c->transport, transport);
	assert_int_equal(c->attempts, attempts);
}

/* ---- a backend that fails by the script ---------------------------------- */

static struct script {
	uint16_t rule;			/* that every post ends with; 0: it completes */
	uint16_t flags;
	uint32_t posts;
	struct transfer *kept;		/* pends: the one it has */
	bool pends, gives_back;
} script;

static inline enum post_result script_post(struct backend_queue *queue, struct transfer *t,
				    uint64_t budget)
{
	(void)queue;
	(void)budget;
	script.posts++;
	if (!script.rule) {
		t->done = t->length;
		t->status = TENT_STATUS_COMPLETED;
		return POST_DONE;
	}
	t->done = t->length / 2;
	t->flags |= script.flags;
	transfer_end_by(t, script.rule);
	if (!script.pends)
		return POST_FAILED;
	script.kept = t;
	return POST_PENDING;
}

static inline struct transfer *script_poll(struct backend_queue *queue)
{
	struct transfer *t = script.gives_back ? script.kept : NULL;

	(void)queue;
	if (t)
		t->next = script.kept = NULL;
	return t;
}

/* What it has, ended as it would have been anyhow. */
static inline bool script_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	(void)queue;
	(void)rule;
	assert_ptr_equal(t, script.kept);
	script.kept = NULL;
	return true;
}

static inline const struct backend *scripted(uint16_t rule)
{
	static struct backend b;

	b = null_backend;
	b.transport = SECOND;
	b.post = script_post;
	b.poll = script_poll;
	b.cancel = script_cancel;
	script = (struct script){ .rule = rule };
	return &b;
}

#endif /* TENT_TEST_FAILOVER_FIX_H */
