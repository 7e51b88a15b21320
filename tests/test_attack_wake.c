/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_wake.c - what a hostile process can do with what wakes it, and with what
 * it wakes tentd by: the poller writes the one and waits for the other, and may be held
 * at neither. tentd is real, and two honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/asleep.h"
#include "tests/common/foe.h"

static void make_blocking(int fd)
{
	need(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
}

/* Asks for every kind of wake and takes none; the descriptors are as full, and as
 * blocking, as their holder can make them. */
static int attack_want_wake(struct arena *a, void *arg)
{
	static const uint32_t wants[] = { 1, 2, 3, 0xffffffff, 0x80000000 };
	uint64_t full = UINT64_MAX - 1;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	need(write(f.ring.wake_fd, &full, sizeof(full)) == sizeof(full));
	make_blocking(f.ring.wake_fd);
	make_blocking(f.ring.done_fd);
	for (uint32_t i = 0; i < 10000; i++) {
		struct tent_completion c;

		store_relaxed(&f.ring.client_line->want_wake, wants[i % 5]);
		foe_request(&f, 0, 64);
		raw_seq(&f.ring, 0, f.ring.position + 1, 1);
		f.ring.position++;
		need(raw_wait(&f.ring, &c));
	}
	return 0;
}

static void asking_for_wakeups_and_taking_none_blocks_nothing(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_want_wake, NULL, 0), 0);
	arena_check(&arena);
}

struct holder {
	int from, to;
	pid_t tid;		/* set when it is about to; no pair */
	uint32_t over;		/* it could not, or not any longer; no pair */
};

static void *hold_main(void *arg)
{
	struct holder *h = arg;

	store_release(&h->tid, gettid());
	splice(h->from, NULL, h->to, NULL, 4096, 0);
	store_release(&h->over, 1u);
	return NULL;
}

/* True: it sits in it. */
static bool holds(struct holder *h)
{
	while (!load_acquire(&h->over)) {
		pid_t tid = load_acquire(&h->tid);

		if (tid && is_asleep(getpid(), tid))
			return true;
		sched_yield();
	}
	return false;
}

/* One end of a socket pair, or of a pipe, that takes nothing more, and waits. */
static int full_end(bool pipe_end)
{
	static const char page[4096];
	int fds[2];

	if (pipe_end)
		need(pipe2(fds, O_NONBLOCK) == 0);
	else
		need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	while (write(fds[1], page, sizeof(page)) > 0)
		;
	make_blocking(fds[1]);
	return fds[1];
}

/* A token lies there, and threads are in the middle of moving it to where nothing fits:
 * whatever the kernel locks for them, the next token needs it. */
static int attack_hold(struct arena *a, void *arg)
{
	struct holder holders[2];
	pthread_t thread;
	struct foe f;
	int nr = 0;

	(void)arg;
	foe_open(&f, a);
	make_blocking(f.ring.done_fd);
	store_relaxed(&f.ring.client_line->want_wake, TENT_WAKE_EVENTFD);
	foe_request(&f, 0, 64);
	raw_publish(&f.ring, 1);
	foe_complete(&f, 1);
	for (int i = 0; i < 2; i++) {
		holders[i] = (struct holder){ f.ring.done_fd, full_end(i), 0, 0 };
		need(pthread_create(&thread, NULL, hold_main, &holders[i]) == 0);
		pthread_detach(thread);
		nr += holds(&holders[i]);
	}
	need(nr > 0);		/* from a socket the kernel moves bytes to a pipe only */
	for (int i = 0; i < 1000; i++) {
		foe_request(&f, 0, 64);
		raw_publish(&f.ring, 1);
		foe_complete(&f, 1);
	}
	arena_witness(a, 50);
	_exit(0);
}

static void holding_what_tentd_wakes_with_blocks_nothing(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_hold, NULL, 0), 0);
	arena_check(&arena);
}

struct drain {
	int fd;
	uint32_t stop;
};

static void *drain_main(void *arg)
{
	struct drain *d = arg;
	uint64_t count;

	while (!load_acquire(&d->stop))
		if (read(d->fd, &count, sizeof(count)) < 0)
			sched_yield();
	return NULL;
}

/* One thread writes as fast as it can, one empties it before tentd can. */
static int attack_event_storm(struct arena *a, void *arg)
{
	uint64_t one = 1;
	struct foe f;
	struct drain d;
	pthread_t thread;

	(void)arg;
	foe_open(&f, a);
	d = (struct drain){ .fd = f.ring.wake_fd };
	need(pthread_create(&thread, NULL, drain_main, &d) == 0);
	for (uint32_t i = 0; i < 300000; i++)
		need(write(f.ring.wake_fd, &one, sizeof(one)) == sizeof(one));
	store_release(&d.stop, 1u);
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < 1000; i++) {
		foe_request(&f, 0, 64);
		raw_publish(&f.ring, 1);
		foe_complete(&f, 1);
	}
	return 0;
}

static void an_eventfd_storm_holds_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_event_storm, NULL, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asking_for_wakeups_and_taking_none_blocks_nothing),
		cmocka_unit_test(holding_what_tentd_wakes_with_blocks_nothing),
		cmocka_unit_test(an_eventfd_storm_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
