/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring_asleep.c - both sides sleep whenever they can, and no wake is lost. By
 * chance: what happens at the edge of a sleep is test_sleep_edge.c's.
 */
#include "tests/ring_fake.h"

#include <poll.h>
#include <sys/syscall.h>

#include "ring/client_ring.h"
#include "ring/wake.h"
#include "tests/barrier.h"
#include "tests/common/asleep.h"

#define FOREVER UINT64_MAX
#define ROUNDS 4000u
#define LATE_MS 200
#define SLICE_MS 1000		/* a client that nobody wakes at all looks after this */
#define RESCUED_MOST 10u

static int open_adaptive(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 8, UINT32_MAX - 2, TENT_RING_F_ADAPTIVE));
	barrier_reaches_all_cores();	/* or a lost wake could be the kernel's */
	return 0;
}

/* An engine with a thread of its own; a test that fails leaves it to close_pair(). */
static struct {
	pthread_t thread;
	bool runs;
	uint32_t stop;
} sleepy;

static void sleepy_join(void)
{
	pthread_join(sleepy.thread, NULL);
	sleepy.runs = false;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	if (sleepy.runs) {
		store_relaxed(&sleepy.stop, 1u);
		wake_event_signal(p->host->event_fd);
		sleepy_join();
	}
	pair_close(p);
	free(p);
	return 0;
}

static void publish_nop(struct tent_ring *r)
{
	struct tent_slot *s = tent_ring_slot(r, 0);

	s->user_data = 1;
	memset(&s->request, 0, sizeof(s->request) + 8);
	tent_ring_publish(r, 1, TENT_OP_NOP, 0);
}

/* ---- the engine -------------------------------------------------------------- */

static uint32_t rescued;	/* sleeps that only a late look ended */
static pid_t client_tid;

/* Who was missed: a client that published unheard, or that sleeps beside what it waits
 * for. True: there was one. One that does not sleep is off its core, and may yet signal. */
static bool look_late(struct ring_host *h)
{
	struct pollfd p = { .fd = h->event_fd, .events = POLLIN };
	uint32_t nr;

	if (!is_asleep(getpid(), client_tid))
		return false;
	if (load_relaxed(&h->client_line->cq_head) != h->cq_tail && ring_host_client_waits(h)) {
		ring_host_wake_client(h);
		return true;
	}
	return ring_host_peek(h, &nr) && poll(&p, 1, 0) == 0;
}

static bool goes_on(void)
{
	return !load_relaxed(&sleepy.stop) && rescued < RESCUED_MOST;
}

/* The engine's half of F6: flag, barrier, second look, sleep; and, as the kernel's barrier
 * is not to be relied on alone (ring/order.h), a late look. */
static void engine_sleep(struct ring_host *h)
{
	struct pollfd p = { .fd = h->event_fd, .events = POLLIN };
	uint32_t nr;

	ring_host_set_flags(h, TENT_ENGINE_NEED_WAKE, 0);
	wake_barrier();
	if (!ring_host_peek(h, &nr))
		while (poll(&p, 1, LATE_MS) == 0 && goes_on())
			if (look_late(h)) {
				rescued++;
				break;
			}
	ring_host_set_flags(h, 0, TENT_ENGINE_NEED_WAKE);
	wake_event_drain(h->event_fd);
}

static void engine_answer(struct ring_host *h)
{
	uint32_t nr;

	while (!ring_host_peek(h, &nr)) {
		if (!goes_on())
			return;
		engine_sleep(h);
	}
	ring_host_consume(h, h->consumed + nr);
	engine_complete(h, 1, nr);
	if (ring_host_client_waits(h))
		ring_host_wake_client(h);
}

/* Gives up, and ends the ring, when too much was missed: the test fails then, and does
 * not take all night. */
static void *sleepy_main(void *host)
{
	for (uint32_t i = 0; i < ROUNDS && goes_on(); i++)
		engine_answer(host);
	if (rescued == RESCUED_MOST)
		ring_host_end(host, TENT_RULE_ENGINE_STOPPED);
	return NULL;
}

static void sleepy_start(struct pair *p)
{
	rescued = 0;
	client_tid = (pid_t)syscall(SYS_gettid);
	store_relaxed(&sleepy.stop, 0u);
	assert_int_equal(pthread_create(&sleepy.thread, NULL, sleepy_main, p->host), 0);
	sleepy.runs = true;
	p->ring->slice_ns = SLICE_MS * 1000000ull;
}

/* None, but where the kernel's barrier passes a core by for a while. What a missing
 * second look loses is seldom enough for chance; test_sleep_edge.c has that. */
static void few_were_rescued(void)
{
	sleepy_join();
	print_message("late looks that were needed: %u of %u rounds\n", rescued, ROUNDS);
	assert_true(rescued < RESCUED_MOST);
}

/* ---- its client -------------------------------------------------------------- */

static void no_futex_wake_is_lost(void **state)
{
	struct pair *p = *state;
	struct tent_completion c;

	sleepy_start(p);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		p->ring->spin_ns = i % 3 ? 0 : 2000; /* sleep at once, or after a look */
		publish_nop(p->ring);
		assert_int_equal(tent_ring_wait(p->ring, FOREVER), 0);
		assert_int_equal(tent_ring_poll(p->ring, &c, 1), 1);
	}
	few_were_rescued();
}

static void no_wake_for_a_verdict_is_lost(void **state)
{
	struct pair *p = *state;
	struct tent_completion c;

	sleepy_start(p);
	p->ring->spin_ns = 0;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		publish_nop(p->ring);
		assert_int_equal(tent_ring_wait_consumed(p->ring, p->ring->tail, FOREVER), 0);
		assert_int_equal(tent_ring_wait(p->ring, FOREVER), 0);
		assert_int_equal(tent_ring_poll(p->ring, &c, 1), 1);
	}
	few_were_rescued();
}

static void wait_for_event(struct tent_ring *r)
{
	struct pollfd fd = { .fd = tent_ring_event_fd(r), .events = POLLIN };

	while (poll(&fd, 1, SLICE_MS) == 0)
		assert_int_equal(tent_ring_end_rule(r), 0);
	wake_event_drain(fd.fd);
}

static void no_event_is_lost(void **state)
{
	struct pair *p = *state;
	struct tent_completion c;

	sleepy_start(p);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		publish_nop(p->ring);
		while (!tent_ring_poll(p->ring, &c, 1)) {
			assert_int_equal(tent_ring_end_rule(p->ring), 0);
			if (!tent_ring_arm(p->ring))
				wait_for_event(p->ring);
		}
	}
	few_were_rescued();
}

#define ON_PAIR(test) cmocka_unit_test_setup_teardown(test, open_adaptive, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PAIR(no_futex_wake_is_lost),
		ON_PAIR(no_wake_for_a_verdict_is_lost),
		ON_PAIR(no_event_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
