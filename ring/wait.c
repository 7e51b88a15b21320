/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - a client waits for its engine: first spinning, then asleep on the futex
 * word of the engine line. Every sleep is short and followed by a look at whether
 * the engine still lives, so no wait outlasts its engine.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "ring/client_ring.h"

#define SPIN_LOOKS 64		/* between two looks at the clock */
#define SLICE_UNSURE_NS 1000000u /* a wake may be missed: no membarrier */

struct waiter {
	struct tent_ring *ring;
	const uint32_t *position; /* NULL: for a completion */
	uint64_t end_ns;
};

static bool is_ready(const struct waiter *w)
{
	if (w->position)
		return tent_ring_consumed(w->ring, *w->position);
	return ring_has_completion(w->ring);
}

static uint32_t engine_flags(const struct tent_ring *r)
{
	return load_acquire(&r->line->flags); /* A13, pairs with R13 in ring_host_set_flags() */
}

static bool spin(const struct waiter *w, uint64_t now_ns)
{
	uint64_t spin_ns = w->ring->spin_ns;
	uint64_t end_ns = w->end_ns - now_ns < spin_ns ? w->end_ns : now_ns + spin_ns;
	bool yields = engine_flags(w->ring) & TENT_ENGINE_SPIN_YIELD;

	do {
		for (int i = 0; i < SPIN_LOOKS; i++) {
			if (is_ready(w))
				return true;
			if (yields)
				sched_yield();
			else
				spin_pause();
		}
	} while (clock_monotonic_ns() < end_ns &&
		 !(engine_flags(w->ring) & TENT_ENGINE_ENDED));
	return false;
}

/* One sleep. F5, pairs with ring_host_client_waits(): want_wake, barrier, second look.
 * wake_seq is read before that look, so a wake in between ends the sleep at once. */
static int sleep_slice(const struct waiter *w, uint64_t left_ns)
{
	struct tent_ring *r = w->ring;
	uint64_t slice_ns = r->slice_ns;
	uint32_t seq;

	ring_want_wake(r, TENT_WAKE_FUTEX, 0);
	if (!wake_barrier()) /* F5 */
		slice_ns = SLICE_UNSURE_NS;
	seq = load_acquire(&r->line->wake_seq); /* A13, pairs with R13 in wake_futex() */
	if (is_ready(w) || engine_flags(r) & TENT_ENGINE_ENDED)
		return 0;
	return wake_futex_wait(&r->line->wake_seq, seq,
			       left_ns < slice_ns ? left_ns : slice_ns);
}

/* The ring is over; what it delivered before still counts. */
static int fail_ended(const struct waiter *w)
{
	uint32_t rule = tent_ring_end_rule(w->ring);

	if (is_ready(w))
		return 0;
	if (!rule)
		rule = TENT_RULE_RING_CLOSED; /* an engine that gave no reason */
	return client_fail_text(rule, "the engine ended the ring: %s %s; allowed: an open ring",
				tent_rule_name(rule), tent_rule_field(rule));
}

static int sleep_until_ready(const struct waiter *w)
{
	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();
		int rc;

		if (is_ready(w))
			return 0;
		if (engine_flags(w->ring) & TENT_ENGINE_ENDED)
			return fail_ended(w);
		if (now_ns >= w->end_ns)
			return client_fail(TENT_RULE_TIMEOUT, 0);
		rc = sleep_slice(w, w->end_ns - now_ns);
		if (rc == -ETIMEDOUT && !tent_client_engine_alive(w->ring->client))
			return is_ready(w) ? 0 : client_fail(TENT_RULE_ENGINE_LOST, 0);
	}
}

static int wait_until(struct tent_ring *r, const uint32_t *position, uint64_t timeout_ns)
{
	struct waiter w = { .ring = r, .position = position };
	uint64_t now_ns;
	int rc;

	if (!r->client)
		return client_fail(TENT_RULE_ENGINE_STALE, 0);
	if (is_ready(&w))
		return 0;
	now_ns = clock_monotonic_ns();
	if (__builtin_add_overflow(now_ns, timeout_ns, &w.end_ns))
		w.end_ns = UINT64_MAX;
	if (timeout_ns && spin(&w, now_ns))
		return 0;
	rc = sleep_until_ready(&w);
	if (r->want_wake & TENT_WAKE_FUTEX)
		ring_want_wake(r, 0, TENT_WAKE_FUTEX);
	return rc;
}

int tent_ring_wait(struct tent_ring *ring, uint64_t timeout_ns)
{
	return wait_until(ring, NULL, timeout_ns);
}

int tent_ring_wait_consumed(struct tent_ring *ring, uint32_t position, uint64_t timeout_ns)
{
	return wait_until(ring, &position, timeout_ns);
}

int tent_ring_event_fd(const struct tent_ring *ring)
{
	return ring->client ? ring->completion_fd : -1;
}

/* F5 again, with the fd in the futex's place. */
int tent_ring_arm(struct tent_ring *ring)
{
	if (!ring->client)
		return 1;
	ring_want_wake(ring, TENT_WAKE_EVENTFD, 0);
	wake_barrier();
	if (!ring_has_completion(ring) && !(engine_flags(ring) & TENT_ENGINE_ENDED))
		return 0;
	ring_want_wake(ring, 0, TENT_WAKE_EVENTFD);
	return 1;
}

uint32_t tent_ring_end_rule(const struct tent_ring *ring)
{
	if (!ring->line || !(engine_flags(ring) & TENT_ENGINE_ENDED))
		return 0;
	return load_relaxed(&ring->line->end_rule);
}
