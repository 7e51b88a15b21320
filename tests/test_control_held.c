/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_held.c - who is served while one client's memory comes or goes, which
 * takes as long as it has pages, or as long as a copy that is under way. The calls that
 * do the work are this program's: they stop until another client was served - or, on the
 * thread that would serve it, do not stop, and tell.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "engine/control.h"
#include "engine/errand.h"
#include "ring/order.h"
#include "tests/common/engine_fix.h"

#define LARGE ((size_t)64 << 30)	/* the most that one client may allocate by default */
#define RING_LARGE ((size_t)4 << 20)	/* less than either half of the largest ring */

enum hold {
	HOLD_NOTHING, HOLD_MAKING, HOLD_UNMAPPING, HOLD_CLOSING, HOLD_WORKER, HOLD_STRAYS
};

static uint32_t hold;		/* enum hold; whoever is held sets it back */
static uint32_t by_control;	/* the control thread did it itself */
static ino_t held_file;		/* HOLD_CLOSING: the memfd that it is about */
static const char *held_name;	/* HOLD_MAKING: the same, by what it is called */
static size_t held_length;	/* HOLD_UNMAPPING: at least */
static sem_t held, go_on, gone_on;
static pthread_t control;	/* the engine's */

/* ---- what is held --------------------------------------------------------- */

static void stop_here(void)
{
	bool is_control = pthread_equal(pthread_self(), load_relaxed(&control));

	store_relaxed(&hold, (uint32_t)HOLD_NOTHING);
	if (is_control)
		store_relaxed(&by_control, 1u);
	sem_post(&held);
	if (is_control)
		return;
	sem_wait(&go_on);
	sem_post(&gone_on);
}

/* Until it has heard it: the next that is held would take its leave. */
static void let_go(void)
{
	sem_post(&go_on);
	while (sem_wait(&gone_on) < 0)
		;
}

static void stop_stray(void)
{
	if (pthread_equal(pthread_self(), load_relaxed(&control)))
		store_relaxed(&by_control, 1u);
	else
		sem_wait(&go_on);
}

static bool is_held_here(enum hold what)
{
	return load_relaxed(&hold) == (uint32_t)what;
}

int memfd_create(const char *name, unsigned int flags)
{
	static int (*real)(const char *, unsigned int);

	if (!real)
		real = (int (*)(const char *, unsigned int))dlsym(RTLD_NEXT, "memfd_create");
	if (is_held_here(HOLD_MAKING) && strcmp(name, load_relaxed(&held_name)) == 0)
		stop_here();
	return real(name, flags);
}

int munmap(void *addr, size_t length)
{
	static int (*real)(void *, size_t);

	if (!real)
		real = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
	if (is_held_here(HOLD_UNMAPPING) && length >= load_relaxed(&held_length))
		stop_here();
	return real(addr, length);
}

/* The last thing that the worker of an owner does. */
static bool is_process_memory(int fd)
{
	char link[32], path[64] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, "/proc/", 6) == 0 &&
	       strstr(path, "/mem");
}

int close(int fd)
{
	static int (*real)(int);
	struct stat s;

	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "close");
	if (is_held_here(HOLD_CLOSING) && fstat(fd, &s) == 0 && s.st_ino == load_relaxed(&held_file))
		stop_here();
	if (is_held_here(HOLD_WORKER) && is_process_memory(fd))
		stop_here();
	if (is_held_here(HOLD_STRAYS) && fstat(fd, &s) == 0 && s.st_ino == load_relaxed(&held_file))
		stop_stray();
	return real(fd);
}

/* Ours sleep on futexes by this call; the control thread does not. */
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
	if (number == SYS_futex && args[1] == FUTEX_WAIT &&
	    pthread_equal(pthread_self(), load_relaxed(&control)))
		store_relaxed(&by_control, 1u);
	return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* ---- who is served --------------------------------------------------------- */

struct pair {
	struct raw slow, other;
	struct raw_memory memory;
};

static void pair_open(struct pair *p)
{
	store_relaxed(&by_control, 0u);
	store_relaxed(&held_name, "tent-buffer");
	store_relaxed(&held_length, LARGE);
	raw_attach(&p->slow, fix.path, NULL);
	raw_attach(&p->other, fix.path, NULL);
}

static void pair_close(struct pair *p)
{
	close(p->slow.sock);
	close(p->other.sock);
	engine_fix_quiet(&fix, 0);
}

static void send_message(struct raw *r, struct ctl_message *m, uint16_t type, uint32_t size)
{
	m->head.type = type;
	m->head.size = size;
	assert_int_equal(ctl_send(r->sock, m, 0), 0);
}

/* What slow asked for, or its end, has come to the call that is held; then other asks,
 * and has its answer while that stands still. */
static void other_is_served(struct pair *p)
{
	uint64_t id;

	while (sem_wait(&held) < 0)
		;
	assert_int_equal(load_relaxed(&by_control), 0);
	assert_int_equal(raw_open_segment(&p->other, "", &id), 0);
}

static void slow_has_no_answer_yet(struct pair *p)
{
	struct ctl_message m = { .nr_fds = 0 };

	assert_int_equal(ctl_recv(p->slow.sock, &m, MSG_DONTWAIT), -EAGAIN);
}

static void slow_gets_its_answer(struct pair *p, struct ctl_message *m)
{
	const struct tent_ctl_plain_reply *r = (const void *)m->bytes;

	let_go();
	assert_int_equal(ctl_recv(p->slow.sock, m, 0), 0);
	assert_int_equal(r->status.error, 0);
}

static void allocate(struct pair *p)
{
	assert_int_equal(raw_alloc(&p->slow, LARGE, &p->memory), 0);
	close(p->memory.fd);
}

static void another_is_served_while_memory_is_made(void **state)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct pair p;

	(void)state;
	pair_open(&p);
	((struct tent_ctl_mem_alloc *)m.bytes)->length = LARGE;
	store_relaxed(&hold, (uint32_t)HOLD_MAKING);
	send_message(&p.slow, &m, TENT_CTL_MEM_ALLOC, sizeof(struct tent_ctl_mem_alloc));
	other_is_served(&p);
	slow_has_no_answer_yet(&p);
	slow_gets_its_answer(&p, &m);
	assert_int_equal(m.nr_fds, 1);
	ctl_close_fds(&m);
	pair_close(&p);
}

static void another_is_served_while_memory_is_freed(void **state)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct pair p;

	(void)state;
	pair_open(&p);
	allocate(&p);
	((struct tent_ctl_id *)m.bytes)->id = p.memory.id;
	store_relaxed(&hold, (uint32_t)HOLD_UNMAPPING);
	send_message(&p.slow, &m, TENT_CTL_MEM_FREE, sizeof(struct tent_ctl_id));
	other_is_served(&p);
	slow_has_no_answer_yet(&p);
	slow_gets_its_answer(&p, &m);
	pair_close(&p);
}

static void another_is_served_while_the_memory_of_one_that_left_is_freed(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p);
	allocate(&p);
	store_relaxed(&hold, (uint32_t)HOLD_UNMAPPING);
	shutdown(p.slow.sock, SHUT_WR);
	other_is_served(&p);
	let_go();
	assert_int_equal(recv(p.slow.sock, &p, 1, 0), 0);	/* all of it is gone */
	pair_close(&p);
}

static void another_is_served_while_a_ring_is_made_and_freed(void **state)
{
	struct ctl_message m = { .nr_fds = 0 };
	uint64_t id;
	struct pair p;

	(void)state;
	pair_open(&p);
	store_relaxed(&held_name, "tent-ring-client");
	store_relaxed(&held_length, RING_LARGE);
	((struct tent_ctl_ring_open *)m.bytes)->slot_count = TENT_SLOTS_MAX;
	store_relaxed(&hold, (uint32_t)HOLD_MAKING);
	send_message(&p.slow, &m, TENT_CTL_RING_OPEN, sizeof(struct tent_ctl_ring_open));
	other_is_served(&p);
	slow_has_no_answer_yet(&p);
	slow_gets_its_answer(&p, &m);
	id = ((const struct tent_ctl_ring_open_reply *)m.bytes)->ring_id;
	ctl_close_fds(&m);
	memset(&m, 0, sizeof(m));
	((struct tent_ctl_id *)m.bytes)->id = id;
	store_relaxed(&hold, (uint32_t)HOLD_UNMAPPING);
	send_message(&p.slow, &m, TENT_CTL_RING_CLOSE, sizeof(struct tent_ctl_id));
	other_is_served(&p);
	slow_has_no_answer_yet(&p);
	slow_gets_its_answer(&p, &m);
	pair_close(&p);
}

static void another_is_served_while_a_worker_does_not_come_out_of_a_copy(void **state)
{
	static uint8_t private[4096];
	struct pair p;

	(void)state;
	pair_open(&p);
	assert_int_equal(raw_register(&p.slow, TENT_MEM_PRIVATE, private, sizeof(private), 0, -1,
				      0, TENT_PERM_GLOBAL_READ_WRITE), 0);
	store_relaxed(&hold, (uint32_t)HOLD_WORKER);
	shutdown(p.slow.sock, SHUT_WR);
	other_is_served(&p);
	assert_int_equal(recv(p.slow.sock, &p, 1, 0), 0);	/* left behind, after a while */
	assert_int_equal(load_relaxed(&by_control), 0);
	let_go();
	pair_close(&p);
}

static int large_memfd(void)
{
	int fd = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat s;

	assert_int_equal(ftruncate(fd, (off_t)LARGE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(fstat(fd, &s), 0);
	store_relaxed(&held_file, s.st_ino);
	return fd;
}

static void send_register(struct pair *p, int fd, uint64_t length)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { fd } };
	struct tent_ctl_mem_register *q = (void *)m.bytes;

	q->base = 1ull << 40;
	q->length = length;
	q->kind = TENT_MEM_FD;
	q->permission = TENT_PERM_GLOBAL_READ_WRITE;
	send_message(&p->slow, &m, TENT_CTL_MEM_REGISTER, sizeof(*q));
}

static void another_is_served_while_a_memfd_is_unregistered(void **state)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_unregister *q = (void *)m.bytes;
	struct pair p;
	int fd = large_memfd();

	(void)state;
	pair_open(&p);
	send_register(&p, fd, 4096);
	close(fd);		/* from now on the engine's mapping alone holds it */
	assert_int_equal(ctl_recv(p.slow.sock, &m, 0), 0);
	memset(&m, 0, sizeof(m));
	q->base = 1ull << 40;
	q->length = 4096;
	store_relaxed(&hold, (uint32_t)HOLD_UNMAPPING);
	send_message(&p.slow, &m, TENT_CTL_MEM_UNREGISTER, sizeof(*q));
	other_is_served(&p);
	slow_has_no_answer_yet(&p);
	slow_gets_its_answer(&p, &m);
	pair_close(&p);
}

/* Had we closed it, the engine would close the last reference. */
static void another_is_served_while_a_memfd_that_was_refused_is_closed(void **state)
{
	struct ctl_message m = { .nr_fds = 0 };
	const struct tent_ctl_plain_reply *r = (const void *)m.bytes;
	struct pair p;
	int fd = large_memfd();

	(void)state;
	pair_open(&p);
	store_relaxed(&hold, (uint32_t)HOLD_CLOSING);
	send_register(&p, fd, UINT64_MAX);
	other_is_served(&p);
	assert_int_equal(ctl_recv(p.slow.sock, &m, 0), 0);
	assert_int_equal(r->status.rule, TENT_RULE_MEM_RANGE);
	let_go();
	pair_close(&p);
	close(fd);
}

/* More of them than there are threads for it. */
static void nobody_waits_for_closes_that_do_not_end(void **state)
{
	enum { NR = 300 };
	int fds[NR], fd = large_memfd();
	pthread_t before = load_relaxed(&control);

	(void)state;
	store_relaxed(&control, pthread_self());	/* in its place */
	store_relaxed(&by_control, 0u);
	for (int i = 0; i < NR; i++)
		fds[i] = dup(fd);
	store_relaxed(&hold, (uint32_t)HOLD_STRAYS);
	for (int i = 0; i < NR; i++)
		errand_close_stray(fds[i]);
	assert_int_equal(load_relaxed(&by_control), 0);
	for (int i = 0; i < NR; i++)
		sem_post(&go_on);
	for (int i = 0; i < NR; i++)
		while (fcntl(fds[i], F_GETFD) >= 0)
			sched_yield();
	store_relaxed(&hold, (uint32_t)HOLD_NOTHING);
	store_relaxed(&control, before);
	close(fd);
}

static int setup(void **state)
{
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&gone_on, 0, 0);
	engine_fix_setup(state);
	store_relaxed(&control, fix.engine->thread);
	return 0;
}

/* A test that failed may have left somebody standing. */
static int teardown(void **state)
{
	sem_post(&go_on);
	engine_fix_teardown(state);
	sem_destroy(&held);
	sem_destroy(&go_on);
	sem_destroy(&gone_on);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_is_served_while_memory_is_made),
		cmocka_unit_test(another_is_served_while_memory_is_freed),
		cmocka_unit_test(another_is_served_while_the_memory_of_one_that_left_is_freed),
		cmocka_unit_test(another_is_served_while_a_ring_is_made_and_freed),
		cmocka_unit_test(another_is_served_while_a_worker_does_not_come_out_of_a_copy),
		cmocka_unit_test(another_is_served_while_a_memfd_is_unregistered),
		cmocka_unit_test(another_is_served_while_a_memfd_that_was_refused_is_closed),
		cmocka_unit_test(nobody_waits_for_closes_that_do_not_end),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
