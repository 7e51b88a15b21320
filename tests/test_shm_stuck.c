/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm_stuck.c - workers that do not come back: who is held up (only what
 * names that owner's memory), what cancelling does in each state, and who cleans
 * up afterwards.
 *
 * A memfd stands in for /proc/PID/mem. A read from it sticks because a
 * userfaultfd keeps the bounce buffer's pages from arriving; a write into it
 * sticks behind another write that holds the file and is itself stuck in a page
 * fault. Both sit in the kernel exactly as they would in a page of a client
 * whose file system does not answer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_shm_fix.h"

#define SIZE	(4u * SHM_CHUNK)
#define ALL	(SIZE + SHM_CHUNK)	/* of the file: the last chunk is the holder's */

/* ---- pages that do not arrive -------------------------------------------- */

static int fault_open(void *addr, size_t size)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r = { .range = { (uintptr_t)addr, size },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (fd < 0)
		fail_msg("userfaultfd: %m (this test needs root, or CAP_SYS_PTRACE)");
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &r), 0);
	return fd;
}

/* Returns once some thread sits in a fault. */
static void fault_wait(int fd)
{
	struct uffd_msg m;

	assert_int_equal(read(fd, &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.event, UFFD_EVENT_PAGEFAULT);
}

/* Lets every page arrive, zeroed. */
static void fault_release(int fd, void *addr, size_t size)
{
	struct uffdio_range r = { (uintptr_t)addr, size };

	assert_int_equal(ioctl(fd, UFFDIO_UNREGISTER, &r), 0);
	close(fd);
}

/* ---- owners -------------------------------------------------------------- */

struct fake {
	int fd;			/* the memory, for the test */
	struct private_owner *owner;
	struct region region;
	size_t bounces;		/* bytes */
	int reads, writes;	/* userfaultfds, or -1 */
	uint8_t *held;		/* the page that the holder of the file waits for */
	pthread_t holder;
};

static void fake_start(struct fake *k, struct shm_fix *f, uint32_t seed)
{
	uint8_t *bytes = malloc(SIZE);

	k->fd = memfd_create("owner", MFD_CLOEXEC);
	assert_int_equal(ftruncate(k->fd, ALL), 0);
	fix_fill(bytes, SIZE, seed);
	assert_int_equal(pwrite(k->fd, bytes, SIZE, 0), SIZE);
	free(bytes);
	assert_int_equal(shm_backend.owner_open(f->inst, dup(k->fd), &k->owner), 0);
	k->region = (struct region){ .base = 0, .end = SIZE, .owner = k->owner };
	k->bounces = (size_t)k->owner->nr_channels * SHM_LANES * SHM_CHUNK;
	k->reads = k->writes = -1;
}

static void fake_stick_reads(struct fake *k)
{
	k->reads = fault_open(k->owner->bounces, k->bounces);
}

static void *hold_file(void *arg)
{
	struct fake *k = arg;

	return pwrite(k->fd, k->held, 4096, SIZE) == 4096 ? k : NULL;
}

static void fake_stick_writes(struct fake *k)
{
	k->held = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	k->writes = fault_open(k->held, 4096);
	assert_int_equal(pthread_create(&k->holder, NULL, hold_file, k), 0);
	fault_wait(k->writes);
}

static void fake_unstick(struct fake *k)
{
	void *ok;

	if (k->reads >= 0)
		fault_release(k->reads, k->owner->bounces, k->bounces);
	if (k->writes >= 0) {
		fault_release(k->writes, k->held, 4096);
		pthread_join(k->holder, &ok);
		assert_ptr_equal(ok, k);
		munmap(k->held, 4096);
	}
	k->reads = k->writes = -1;
}

static void fake_stop(struct fake *k)
{
	fake_unstick(k);
	shm_backend.owner_close(k->owner);
	close(k->fd);
}

/* Returns once the worker of this owner is inside a job of the first queue. */
static void wait_busy(const struct fake *k)
{
	for (;;)
		for (uint32_t i = 0; i < SHM_LANES; i++)
			if (load_acquire(&k->owner->channels[0].lanes[i].state) == LANE_BUSY)
				return;
}

/* Polls until no worker has a lane of the first queue any more. */
static void wait_home(struct shm_fix *f, const struct fake *k)
{
	for (uint32_t i = 0; i < SHM_LANES; i++)
		while (k->owner->channels[0].lanes[i].in_worker)
			assert_null(fix_poll(f));
}

/* So that a slow machine cannot turn a short wait into a long one. */
static void never_give_up(struct fake *k)
{
	for (uint32_t i = 0; i < SHM_LANES; i++)
		if (k->owner->channels[0].lanes[i].fence_ns)
			k->owner->channels[0].lanes[i].fence_ns = UINT64_MAX;
}

static void check_file(const struct fake *k, uint64_t at, const uint8_t *want, size_t n)
{
	uint8_t *got = malloc(n);

	assert_int_equal(pread(k->fd, got, n, (off_t)at), n);
	assert_memory_equal(got, want, n);
	free(got);
}

/* ---- mapped end ----------------------------------------------------------- */

static uint8_t mapped_bytes[SIZE];
static struct region mapped = { .base = 0x9000, .end = 0x9000 + SIZE, .addr = mapped_bytes };

static void start(struct transfer *t)
{
	assert_int_equal(shm_backend.post(t->queue, t, UINT64_MAX), POST_PENDING);
}

static struct transfer read_of(struct shm_fix *f, struct fake *k, uint64_t n)
{
	return fix_transfer(f, TENT_OPCODE_READ, &mapped, 0, &k->region, 0, n);
}

static struct transfer write_to(struct shm_fix *f, struct fake *k, uint64_t n)
{
	return fix_transfer(f, TENT_OPCODE_WRITE, &mapped, 0, &k->region, 0, n);
}

/* Polls until nr transfers have come back. */
static void collect(struct shm_fix *f, int nr)
{
	while (nr > 0)
		for (struct transfer *e = fix_poll(f); e; e = e->next)
			nr--;
	assert_int_equal(nr, 0);
}

/* All lanes in use at once, one transfer in each. */
static void check_lanes_work(struct shm_fix *f, struct fake *k)
{
	struct transfer t[SHM_LANES + 1];

	for (uint32_t i = 0; i <= SHM_LANES; i++) {
		t[i] = read_of(f, k, 1000);
		start(&t[i]);
		assert_int_equal(t[i].rail != 0, i == SHM_LANES); /* the last one waits */
	}
	collect(f, SHM_LANES + 1);
	for (uint32_t i = 0; i <= SHM_LANES; i++)
		assert_int_equal(t[i].status, TENT_STATUS_COMPLETED);
}

/* ---- who is held up ------------------------------------------------------- */

static void a_stuck_owner_does_not_hold_up_another(void **state)
{
	enum { NR = 7 };
	struct shm_fix *f = *state;
	struct transfer t[NR], other;
	struct fake a, b;

	fake_start(&a, f, 1);
	fake_start(&b, f, 2);
	fake_stick_reads(&a);
	for (int i = 0; i < NR; i++) {
		t[i] = read_of(f, &a, 100);
		start(&t[i]);
	}
	fault_wait(a.reads);
	for (int i = 0; i < 100; i++) {
		other = i % 2 ? read_of(f, &b, SIZE) : write_to(f, &b, SIZE);
		fix_run(f, &other, 1);
		assert_int_equal(other.status, TENT_STATUS_COMPLETED);
	}
	fake_unstick(&a);
	collect(f, NR);
	for (int i = 0; i < NR; i++)
		assert_int_equal(t[i].status, TENT_STATUS_COMPLETED);
	fake_stop(&a);
	fake_stop(&b);
}

static void a_stuck_source_lends_the_lanes_it_reserved_at_its_target(void **state)
{
	enum { NR = 6 };
	struct shm_fix *f = *state;
	struct transfer pair[NR], other;
	uint8_t *want = malloc(SIZE);
	struct fake a, b;

	fake_start(&a, f, 1);
	fake_start(&b, f, 2);
	assert_int_equal(pread(a.fd, want, SIZE, 0), SIZE);
	fake_stick_reads(&a);
	for (int i = 0; i < NR; i++) {
		pair[i] = fix_transfer(f, TENT_OPCODE_WRITE, &a.region, 0, &b.region, 0, SIZE);
		start(&pair[i]);
	}
	fault_wait(a.reads);
	for (int i = 0; i < 20; i++) {
		other = read_of(f, &b, SIZE);
		fix_run(f, &other, 1);
		assert_int_equal(other.status, TENT_STATUS_COMPLETED);
	}
	fake_unstick(&a);
	collect(f, NR);
	for (int i = 0; i < NR; i++) {
		assert_int_equal(pair[i].status, TENT_STATUS_COMPLETED);
		assert_int_equal(pair[i].done, SIZE);
	}
	check_file(&b, 0, want, SIZE);
	check_lanes_work(f, &a);
	check_lanes_work(f, &b);
	fake_stop(&a);
	fake_stop(&b);
	free(want);
}

static void a_stuck_target_keeps_no_lane_of_its_source(void **state)
{
	enum { NR = 6 };
	struct shm_fix *f = *state;
	struct transfer pair[NR], other;
	struct fake a, b;

	fake_start(&a, f, 1);
	fake_start(&b, f, 2);
	fake_stick_writes(&b);
	for (int i = 0; i < NR; i++) {
		pair[i] = fix_transfer(f, TENT_OPCODE_READ, &b.region, 0, &a.region, 0, SIZE);
		start(&pair[i]);
	}
	for (int i = 0; i < 50; i++) {
		other = i % 2 ? read_of(f, &a, SIZE) : write_to(f, &a, SIZE);
		fix_run(f, &other, 1);
		assert_int_equal(other.status, TENT_STATUS_COMPLETED);
	}
	fake_unstick(&b);
	collect(f, NR);
	for (int i = 0; i < NR; i++)
		assert_int_equal(pair[i].status, TENT_STATUS_COMPLETED);
	fake_stop(&a);
	fake_stop(&b);
}

/* ---- cancel ---------------------------------------------------------------- */

static void check_canceled(const struct transfer *t)
{
	assert_int_equal(t->status, TENT_STATUS_CANCELED);
	assert_int_equal(t->error, TENT_ERR_CANCELED);
	assert_int_equal(t->rule, TENT_RULE_CANCELED);
	assert_int_equal(t->rail, 0);
}

static void cancel_ends_what_waits_or_is_not_begun_at_once(void **state)
{
	enum { NR = 12 };
	static const int order[] = { 7, 4, 11, 10, 5, 9, 2, 3, 1 };
	struct shm_fix *f = *state;
	struct transfer t[NR];
	struct fake a;

	fake_start(&a, f, 1);
	fake_stick_reads(&a);
	for (int i = 0; i < NR; i++) {
		t[i] = read_of(f, &a, 100);
		start(&t[i]);
		if (i == 0)
			fault_wait(a.reads);
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		struct transfer *c = &t[order[i]];

		assert_true(shm_backend.cancel(f->queue, c, TENT_RULE_CANCELED));
		check_canceled(c);
		assert_int_equal(c->done, 0);
	}
	fake_unstick(&a);
	collect(f, NR - (int)(sizeof(order) / sizeof(order[0])));
	assert_int_equal(t[0].status, TENT_STATUS_COMPLETED);
	assert_int_equal(t[6].status, TENT_STATUS_COMPLETED);
	assert_int_equal(t[8].status, TENT_STATUS_COMPLETED);
	check_lanes_work(f, &a);
	fake_stop(&a);
}

static void cancel_ends_what_the_poller_is_about_to_copy_at_once(void **state)
{
	struct shm_fix *f = *state;
	struct transfer t[3];
	struct fake a;
	uint8_t *want = malloc(SIZE);

	fake_start(&a, f, 1);
	assert_int_equal(pread(a.fd, want, SIZE, 0), SIZE);
	for (int i = 0; i < 3; i++) {
		t[i] = write_to(f, &a, 100);
		start(&t[i]);
	}
	for (int i = 2; i >= 0; i--) {
		assert_true(shm_backend.cancel(f->queue, &t[i], TENT_RULE_TIMEOUT));
		assert_int_equal(t[i].status, TENT_STATUS_TIMEOUT);
		assert_int_equal(t[i].error, TENT_ERR_TIMEOUT);
	}
	assert_null(shm_backend.poll(f->queue));
	check_file(&a, 0, want, SIZE);
	check_lanes_work(f, &a);
	fake_stop(&a);
	free(want);
}

static void cancel_of_a_copy_in_progress_waits_for_the_worker(void **state)
{
	struct shm_fix *f = *state;
	struct transfer t;
	struct fake a;

	fake_start(&a, f, 1);
	t = read_of(f, &a, SIZE);
	fake_stick_reads(&a);
	start(&t);
	fault_wait(a.reads);
	memset(mapped_bytes, 0xa5, SIZE);
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_SOURCE_GONE));
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	never_give_up(&a);
	assert_null(shm_backend.poll(f->queue));
	fake_unstick(&a);
	collect(f, 1);
	assert_int_equal(t.status, TENT_STATUS_FAILED);
	assert_int_equal(t.error, TENT_ERR_OWNER_GONE);
	assert_int_equal(t.rule, TENT_RULE_SOURCE_GONE);
	assert_int_equal(t.flags, 0);
	assert_int_equal(t.done, 0);
	for (size_t i = 0; i < SIZE; i++) /* what came back late was not delivered */
		assert_int_equal(mapped_bytes[i], 0xa5);
	check_lanes_work(f, &a);
	fake_stop(&a);
}

static void a_read_stuck_past_the_bound_ends_and_leaves_its_lane_behind(void **state)
{
	struct shm_fix *f = *state;
	struct transfer t;
	struct fake a;

	fake_start(&a, f, 1);
	t = read_of(f, &a, SIZE);
	fake_stick_reads(&a);
	start(&t);
	fault_wait(a.reads);
	memset(mapped_bytes, 0xa5, SIZE);
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	collect(f, 1); /* the worker is still there */
	check_canceled(&t);
	assert_int_equal(t.flags, 0); /* the target is mapped: fenced */
	memset(&t, 0xee, sizeof(t));
	fake_unstick(&a);
	wait_home(f, &a);
	check_lanes_work(f, &a);
	fake_stop(&a);
	for (size_t i = 1000; i < SIZE; i++)
		assert_int_equal(mapped_bytes[i], 0xa5);
}

static void a_write_stuck_past_the_bound_says_that_its_target_is_unfenced(void **state)
{
	struct shm_fix *f = *state;
	struct transfer t;
	struct fake a;

	fake_start(&a, f, 1);
	fake_stick_writes(&a);
	t = write_to(f, &a, SIZE);
	start(&t);
	assert_null(shm_backend.poll(f->queue)); /* the poller's copy */
	wait_busy(&a);
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	collect(f, 1);
	check_canceled(&t);
	assert_int_equal(t.flags, TENT_CQE_F_TARGET_UNFENCED);
	assert_int_equal(t.done, 0);
	memset(&t, 0xee, sizeof(t));
	fake_unstick(&a);
	wait_home(f, &a);
	check_lanes_work(f, &a);
	fake_stop(&a);
}

/* ---- who wakes the poller --------------------------------------------------- */

static void a_worker_that_finished_wakes_the_poller(void **state)
{
	struct shm_fix *f = *state;
	struct pollfd p = { .fd = f->event_fd, .events = POLLIN };
	struct transfer t;
	struct fake a;

	fake_start(&a, f, 1);
	t = read_of(f, &a, 100);
	start(&t);
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_ptr_equal(shm_backend.poll(f->queue), &t);
	fake_stop(&a);
}

static void a_copy_left_for_the_next_turn_keeps_the_poller_awake(void **state)
{
	struct shm_fix *f = *state;
	struct pollfd p = { .fd = f->event_fd, .events = POLLIN };
	struct transfer t[2];
	struct fake a;

	fake_start(&a, f, 1);
	fake_stick_writes(&a);
	for (int i = 0; i < 2; i++) {
		t[i] = write_to(f, &a, 100);
		start(&t[i]);
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_null(shm_backend.poll(f->queue)); /* copies one of the two */
	assert_int_equal(poll(&p, 1, 0), 1);
	fake_unstick(&a);
	collect(f, 2);
	fake_stop(&a);
}

/* ---- who cleans up ---------------------------------------------------------- */

static void closing_a_stuck_owner_does_not_wait_for_it(void **state)
{
	struct shm_fix *f = *state;
	struct shm_instance *inst = (struct shm_instance *)f->inst;
	struct transfer t, other;
	struct fake a, b;
	void *bounces;

	fake_start(&a, f, 1);
	fake_start(&b, f, 2);
	t = read_of(f, &a, SIZE);
	fake_stick_reads(&a);
	start(&t);
	fault_wait(a.reads);
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_SOURCE_GONE));
	collect(f, 1);
	bounces = a.owner->bounces;
	shm_backend.owner_close(a.owner);
	assert_ptr_equal(LIST_FIRST(&inst->dying), a.owner);

	other = read_of(f, &b, SIZE);
	fix_run(f, &other, 1);
	assert_int_equal(other.status, TENT_STATUS_COMPLETED);

	fault_release(a.reads, bounces, a.bounces);
	close(a.fd);
	while (!LIST_EMPTY(&inst->dying)) {	/* the worker comes, the poller looks */
		shm_backend.poll(f->queue);
		shm_owners_reap(inst, false);
	}
	fake_stop(&b);
}

static void a_worker_inherits_its_owner_when_the_instance_closes(void **state)
{
	int threads = fix_settle_threads(), fds;
	void *fix = NULL;
	struct shm_fix *f;
	struct transfer t;
	struct fake a;
	void *bounces;

	(void)state;
	fds = fix_count("/proc/self/fd");
	assert_int_equal(fix_setup(&fix), 0);
	f = fix;
	fake_start(&a, f, 1);
	t = read_of(f, &a, SIZE);
	fake_stick_reads(&a);
	start(&t);
	fault_wait(a.reads);
	assert_false(shm_backend.cancel(f->queue, &t, TENT_RULE_ENGINE_STOPPED));
	collect(f, 1);
	assert_int_equal(t.status, TENT_STATUS_CANCELED);
	bounces = a.owner->bounces;
	shm_backend.owner_close(a.owner);
	fix_teardown(&fix);
	fault_release(a.reads, bounces, a.bounces);
	close(a.fd);
	while (fix_count("/proc/self/task") != threads)
		sched_yield();
	assert_int_equal(fix_count("/proc/self/fd"), fds);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fix_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* It counts, so it comes before workers that may take their time. */
		cmocka_unit_test(a_worker_inherits_its_owner_when_the_instance_closes),
		T(a_stuck_owner_does_not_hold_up_another),
		T(a_stuck_source_lends_the_lanes_it_reserved_at_its_target),
		T(a_stuck_target_keeps_no_lane_of_its_source),
		T(cancel_ends_what_waits_or_is_not_begun_at_once),
		T(cancel_ends_what_the_poller_is_about_to_copy_at_once),
		T(cancel_of_a_copy_in_progress_waits_for_the_worker),
		T(a_read_stuck_past_the_bound_ends_and_leaves_its_lane_behind),
		T(a_write_stuck_past_the_bound_says_that_its_target_is_unfenced),
		T(a_worker_that_finished_wakes_the_poller),
		T(a_copy_left_for_the_next_turn_keeps_the_poller_awake),
		T(closing_a_stuck_owner_does_not_wait_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
