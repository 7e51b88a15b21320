/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c - the device's own thread: packets that come in, timers, what the holder has to
 * say, and, where doorbells are polled, the doorbells.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/hca/doorbell/doorbell.h"
#include "sim/hca/front/card.h"

/* Polled: so long without work before the thread naps, and how long naps become. A nap
 * leaves the core to the program; a packet ends it. */
#define SPIN_NS		20000
#define NAP_PART	4
#define LONGEST_NAP_NS	500000
/* However busy, the holder is heard after so many rounds. */
#define HEAR_ROUNDS	64

static bool host_is_lost;
static pthread_mutex_t scan_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the card's */

static void take_packet(void *ctx, uint32_t device, const struct hca_packet *p)
{
	(void)ctx;
	if (device < HOST_MAX_DEVICES && process.cards[device] &&
	    !process.cards[device]->uverbs.is_removed)
		hca_receive(process.cards[device]->uverbs.hca, p);
}

static void hear_host(void)
{
	struct host_event e;
	int rc;

	while (!(rc = host_read(process.host, &e)))
		card_host_event(&e);
	if (rc != -EAGAIN) {
		host_is_lost = true;
		card_host_lost();
	}
}

bool thread_take_packets(void)
{
	bool had_work = false;

	card_give_way();
	card_lock();
	if (process.wire) {
		had_work = wire_receive(process.wire, take_packet, NULL) > 0;
		card_run();
	}
	card_unlock();
	return had_work;
}

bool thread_poll_doorbells(void)
{
	bool had_work;

	if (!doorbell_is_polled())
		return false;
	pthread_mutex_lock(&scan_lock);
	had_work = doorbell_scan();
	pthread_mutex_unlock(&scan_lock);
	card_lock();
	for (int i = 0; i < HOST_MAX_DEVICES; i++)
		if (process.cards[i])
			had_work |= hca_poll_records(process.cards[i]->uverbs.hca);
	card_unlock();
	return had_work;
}

/* Polled: how long to nap, given how long there was nothing to do: a doorbell waits for a
 * part of the time that none had rung. */
static uint64_t nap_ns(bool had_work)
{
	static uint64_t idle_since_ns;
	uint64_t now = card_now_ns(), nap;

	if (had_work || !idle_since_ns)
		idle_since_ns = now;
	if (now - idle_since_ns < SPIN_NS)
		return 0;
	nap = (now - idle_since_ns) / NAP_PART;
	return nap < LONGEST_NAP_NS ? nap : LONGEST_NAP_NS;
}

static void sleep_until(uint64_t deadline_ns, uint64_t longest_ns)
{
	struct pollfd fds[] = {
		{ .fd = host_udp_fd(process.host), .events = POLLIN },
		{ .fd = process.kick_fd, .events = POLLIN },
		{ .fd = host_is_lost ? -1 : host_fd(process.host), .events = POLLIN },
	};
	uint64_t now = card_now_ns();
	uint64_t wait = deadline_ns > now ? deadline_ns - now : 0, count;
	struct timespec t;

	if (wait > longest_ns)
		wait = longest_ns;
	t = (struct timespec){ .tv_sec = (time_t)(wait / 1000000000),
			       .tv_nsec = (long)(wait % 1000000000) };
	ppoll(fds, 3, wait == UINT64_MAX ? NULL : &t, NULL);
	if (fds[1].revents && read(process.kick_fd, &count, sizeof(count)) < 0)
		return;
	if (fds[2].revents) {
		card_lock();
		hear_host();
		card_unlock();
	}
}

/* A card does not wait for a core. The thread runs seldom and briefly; with short slices
 * (Linux 6.12) and, where it is allowed, the highest weight it runs at once, before a
 * program that spins on its queues. */
static void ask_for_the_core(void)
{
	struct {			/* struct sched_attr; glibc has none yet */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} a = { .size = sizeof(a), .policy = SCHED_OTHER, .nice = -20, .runtime_ns = 100000 };

	if (!syscall(SYS_sched_setattr, 0, &a, 0))
		return;
	a.nice = getpriority(PRIO_PROCESS, 0);
	syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *run(void *argument)
{
	unsigned busy_rounds = 0;

	(void)argument;
	prctl(PR_SET_NAME, "tent-hca");
	prctl(PR_SET_TIMERSLACK, 1);
	ask_for_the_core();
	for (;;) {
		bool had_work = thread_take_packets();
		uint64_t next, longest = UINT64_MAX;

		if (doorbell_is_polled()) {
			had_work |= thread_poll_doorbells();
			longest = nap_ns(had_work);
		}
		if (had_work && ++busy_rounds % HEAR_ROUNDS)
			continue;
		if (had_work)
			longest = 0;
		card_lock();
		next = card_run();
		process.wakes_at_ns = next;
		card_unlock();
		sleep_until(next, longest);
		__atomic_store_n(&process.wakes_at_ns, 0, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* All signals go to the program's own threads. */
int thread_start(void)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	process.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (process.kick_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		syscall(SYS_close, process.kick_fd);
		process.kick_fd = -1;
		return -rc;
	}
	pthread_detach(thread);
	return 0;
}

void thread_kick(void)
{
	uint64_t one = 1;
	ssize_t n = write(process.kick_fd, &one, sizeof(one));

	(void)n;		/* full: it is going to wake */
}

void thread_forget(void)
{
	if (process.kick_fd >= 0)
		syscall(SYS_close, process.kick_fd);
	process.kick_fd = -1;
	process.wakes_at_ns = 0;
	host_is_lost = false;
	pthread_mutex_init(&scan_lock, NULL);
}
