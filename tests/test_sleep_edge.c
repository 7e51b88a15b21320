/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sleep_edge.c - what comes at the very moment somebody falls asleep (ring/order.h,
 * F5 and F6). The system calls are this program's, so that the other side can act there:
 * at the barrier, between the word that asks to be woken and the second look; and in the
 * sleep itself. test_ring_asleep.c and test_poller_thread.c try all moments by chance.
 */
#include "tests/ring_fake.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "ring/client_ring.h"
#include "ring/wake.h"
#include "tests/common/rig.h"

#define FOREVER UINT64_MAX
#define LONG_NS 10000000000ull	/* of a wait that ought not to sleep; its end, if it does */
#define SLEEPS_MOST 100u

typedef void (*edge_hook)(void *arg);

/* What happens at the next barrier, once; and at the next sleep on a futex. */
static edge_hook at_barrier, at_futex;
static void *edge_arg;
static uint32_t futex_sleeps;
/* The poller would sleep beside what it was told at the barrier. */
static struct rig_ring *published;
static uint32_t slept_beside, said_so, poller_sleeps;

static void act(edge_hook *hook)
{
	edge_hook f = exchange(hook, NULL);	/* with its argument; no pair */

	if (f)
		f(edge_arg);
}

static bool is_sleep(long number, const long *args)
{
	return number == SYS_futex && args[1] == FUTEX_WAIT;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long args[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_membarrier && args[0] == MEMBARRIER_CMD_GLOBAL_EXPEDITED)
		act(&at_barrier);
	if (is_sleep(number, args)) {
		futex_sleeps++;
		act(&at_futex);
	}
	return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

int epoll_wait(int fd, struct epoll_event *events, int nr, int timeout_ms)
{
	static int (*real)(int, struct epoll_event *, int, int);
	struct rig_ring *ring = load_acquire(&published);

	if (!real)
		real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT,
									     "epoll_wait");
	fetch_add(&poller_sleeps, 1u);	/* no pair */
	if (ring && ring->host->consumed != ring->position)
		store_relaxed(&slept_beside, 1u);
	return real(fd, events, nr, timeout_ms);
}

/* ---- a client ---------------------------------------------------------------- */

static int open_adaptive(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 8, 0, TENT_RING_F_ADAPTIVE));
	p->ring->spin_ns = 0;
	p->ring->slice_ns = FOREVER / 4;
	edge_arg = p;
	futex_sleeps = 0;
	return 0;
}

static int close_pair(void **state)
{
	at_barrier = at_futex = NULL;
	pair_close(*state);
	free(*state);
	return 0;
}

static void publish_nop(struct tent_ring *r)
{
	struct tent_slot *s = tent_ring_slot(r, 0);

	memset(&s->request, 0, sizeof(s->request) + 8);
	tent_ring_publish(r, 1, TENT_OP_NOP, 0);
}

static void complete(struct pair *p)
{
	engine_take(p->host);
	engine_complete(p->host, 1, 1);
}

/* The engine looked whether the client waits just before that said so. */
static void complete_unseen(void *arg)
{
	struct pair *p = arg;

	assert_int_equal(p->host->client_line->want_wake & TENT_WAKE_FUTEX, TENT_WAKE_FUTEX);
	complete(p);
}

static void a_client_looks_again_before_it_sleeps(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	at_barrier = complete_unseen;
	assert_int_equal(tent_ring_wait(p->ring, LONG_NS), 0);
	assert_null(at_barrier);
	assert_int_equal(futex_sleeps, 0);
}

static void a_client_that_waits_for_a_verdict_looks_again_before_it_sleeps(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	at_barrier = complete_unseen;
	assert_int_equal(tent_ring_wait_consumed(p->ring, p->ring->tail, LONG_NS), 0);
	assert_null(at_barrier);
	assert_int_equal(futex_sleeps, 0);
}

static void end_unseen(void *arg)
{
	ring_host_end(((struct pair *)arg)->host, TENT_RULE_RING_SEQ);
}

static void a_client_looks_again_whether_its_ring_ended(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	at_barrier = end_unseen;
	assert_int_equal(tent_ring_wait(p->ring, LONG_NS), TENT_ERR_PROTOCOL);
	assert_int_equal(futex_sleeps, 0);
}

/* The engine saw that it waits, and wakes it before it sleeps: the word has changed. */
static void complete_and_wake(void *arg)
{
	struct pair *p = arg;

	complete(p);
	assert_true(ring_host_client_waits(p->host));
	ring_host_wake_client(p->host);
}

static void a_wake_that_comes_before_the_sleep_ends_it(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	at_futex = complete_and_wake;
	assert_int_equal(tent_ring_wait(p->ring, LONG_NS), 0);
	assert_int_equal(futex_sleeps, 1);
}

static void complete_unseen_by_fd(void *arg)
{
	struct pair *p = arg;

	assert_int_equal(p->host->client_line->want_wake & TENT_WAKE_EVENTFD,
			 TENT_WAKE_EVENTFD);
	complete(p);
}

static void arming_looks_again(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	at_barrier = complete_unseen_by_fd;
	assert_int_equal(tent_ring_arm(p->ring), 1);
	assert_false(ring_host_client_waits(p->host));
	publish_nop(p->ring);
	at_barrier = end_unseen;
	while (tent_ring_poll(p->ring, &(struct tent_completion){ 0 }, 1))
		;
	assert_int_equal(tent_ring_arm(p->ring), 1);
}

/* ---- a poller ---------------------------------------------------------------- */

/* The client looked whether the engine sleeps just before that said so. On the poller's
 * thread. */
static void publish_unheard(void *arg)
{
	struct rig_ring *ring = arg;

	said_so = load_relaxed(&ring->host->line->flags) & TENT_ENGINE_NEED_WAKE;
	rig_slot(ring, 0);
	rig_publish(ring, 1, TENT_OP_NOP, 0);
	wake_event_drain(ring->host->event_fd);
	store_release(&published, ring);
}

static void a_poller_looks_again_before_it_sleeps(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = {
		.adaptive = true, .threaded = true, .core = -1, .spin_ns = 1000,
		.age_ns = 10000000, .request_timeout_ns = 10000000000, .turn_slots = 64,
		.turn_bytes = 65536, .answer_fd = -1, .event_fd = -1,
	} });
	struct tent_completion c;
	uint32_t sleeps;

	(void)state;
	edge_arg = &r->rings[1];
	store_release(&at_barrier, publish_unheard);
	sleeps = load_relaxed(&poller_sleeps);	/* before there was anything to tell it */
	while (!load_acquire(&published) && load_relaxed(&poller_sleeps) - sleeps < SLEEPS_MOST)
		sched_yield();
	assert_non_null(load_acquire(&published));	/* or it sleeps without a barrier */
	while (!rig_reap(&r->rings[1], &c))
		sched_yield();
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_true(said_so);
	assert_int_equal(load_relaxed(&slept_beside), 0);
	store_release(&published, NULL);
	rig_stop(r);
}

#define ON_PAIR(test) cmocka_unit_test_setup_teardown(test, open_adaptive, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PAIR(a_client_looks_again_before_it_sleeps),
		ON_PAIR(a_client_that_waits_for_a_verdict_looks_again_before_it_sleeps),
		ON_PAIR(a_client_looks_again_whether_its_ring_ended),
		ON_PAIR(a_wake_that_comes_before_the_sleep_ends_it),
		ON_PAIR(arming_looks_again),
		cmocka_unit_test(a_poller_looks_again_before_it_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
