/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm_private.c - copies to and from the private memory of other processes:
 * forked children as owners, each combination of ends, holes, deaths, and the
 * order of service.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_shm_fix.h"

/* ---- real owners -------------------------------------------------------- */

/* A child that owns `size` bytes at the same address as our mapping of them,
 * which is gone afterwards; page `hole` of it is not mapped (-1: none). */
struct child {
	pid_t pid;
	uint8_t *base;
	size_t size;
	int peek_fd;		/* the test's own way in */
	struct private_owner *owner;
	struct region region;
};

static void child_start(struct child *c, struct shm_fix *f, size_t size, long hole)
{
	char path[32];
	int mem_fd;

	c->size = size;
	c->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	assert_ptr_not_equal(c->base, MAP_FAILED);
	memset(c->base, 0, size);
	if (hole >= 0)
		munmap(c->base + hole * 4096, 4096);
	c->pid = fork();
	if (c->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	munmap(c->base, size);
	snprintf(path, sizeof(path), "/proc/%d/mem", c->pid);
	c->peek_fd = open(path, O_RDWR | O_CLOEXEC);
	mem_fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(c->peek_fd >= 0 && mem_fd >= 0);
	assert_int_equal(shm_backend.owner_open(f->inst, mem_fd, &c->owner), 0);
	c->region = (struct region){ .base = (uintptr_t)c->base, .owner = c->owner,
				     .end = (uintptr_t)c->base + size };
}

static void child_stop(struct child *c)
{
	shm_backend.owner_close(c->owner);
	close(c->peek_fd);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

static void child_write(struct child *c, size_t offset, const void *p, size_t n)
{
	assert_int_equal(pwrite(c->peek_fd, p, n, (off_t)(uintptr_t)c->base + (off_t)offset),
			 n);
}

static void child_read(struct child *c, size_t offset, void *p, size_t n)
{
	assert_int_equal(pread(c->peek_fd, p, n, (off_t)(uintptr_t)c->base + (off_t)offset),
			 n);
}

/* An end that is either mapped or a child's, with the same calls for both. */
struct end {
	struct child *child;	/* or NULL */
	uint8_t *bytes;
	struct region *region;
};

static void end_write(struct end *e, const void *p, size_t n)
{
	if (e->child)
		child_write(e->child, 0, p, n);
	else
		memcpy(e->bytes, p, n);
}

static void end_read(struct end *e, void *p, size_t n)
{
	if (e->child)
		child_read(e->child, 0, p, n);
	else
		memcpy(p, e->bytes, n);
}

/* ---- all combinations ---------------------------------------------------- */

#define ROOM 400000u

static void check_move(struct shm_fix *f, struct end *local, struct end *remote,
		       enum tent_opcode op, size_t local_at, size_t remote_at, size_t n)
{
	static uint8_t l[ROOM], r[ROOM], got[ROOM];
	struct transfer t;

	fix_fill(l, ROOM, (uint32_t)n);
	fix_fill(r, ROOM, (uint32_t)n + 1);
	end_write(local, l, ROOM);
	end_write(remote, r, ROOM);
	t = fix_transfer(f, op, local->region, local_at, remote->region, remote_at, n);
	fix_run(f, &t, 1);
	assert_int_equal(t.status, TENT_STATUS_COMPLETED);
	assert_int_equal(t.done, n);
	assert_int_equal(t.rail, 0);
	if (op == TENT_OPCODE_READ)
		memcpy(l + local_at, r + remote_at, n);
	else
		memcpy(r + remote_at, l + local_at, n);
	end_read(local, got, ROOM);
	assert_memory_equal(got, l, ROOM);
	end_read(remote, got, ROOM);
	assert_memory_equal(got, r, ROOM);
}

static void check_combination(struct shm_fix *f, struct end *local, struct end *remote)
{
	static const size_t sizes[] = { 1, 2, 63, 100, 4096, 4097, 65535, 65536, 65537,
					131072, 300001 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		check_move(f, local, remote, TENT_OPCODE_READ, 77, 4095, sizes[i]);
		check_move(f, local, remote, TENT_OPCODE_WRITE, 8191, 3, sizes[i]);
	}
}

static void every_combination_of_ends_moves_exactly_its_bytes(void **state)
{
	struct shm_fix *f = *state;
	struct child a, b;
	uint8_t *bytes = malloc(ROOM);
	struct region mapped = { .base = 0x5000, .end = 0x5000 + ROOM, .addr = bytes };
	struct end direct = { NULL, bytes, &mapped };
	struct end first = { &a, NULL, &a.region }, second = { &b, NULL, &b.region };

	child_start(&a, f, ROOM + 4096, -1);
	child_start(&b, f, ROOM + 4096, -1);
	check_combination(f, &direct, &first);
	check_combination(f, &first, &direct);
	check_combination(f, &first, &second);
	child_stop(&a);
	child_stop(&b);
	free(bytes);
}

static void moves_within_one_owner_may_overlap(void **state)
{
	static uint8_t model[ROOM], got[ROOM];
	static const long distances[] = { 1, -1, 4096, -4096, 65536, -65536, 100001,
					  -100001, 0 };
	struct shm_fix *f = *state;
	struct child a;

	child_start(&a, f, ROOM, -1);
	for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
		size_t to = 110000 + (size_t)distances[i];
		struct transfer t = fix_transfer(f, TENT_OPCODE_WRITE, &a.region, 110000,
						 &a.region, to, 150000);

		fix_fill(model, ROOM, (uint32_t)i);
		child_write(&a, 0, model, ROOM);
		memmove(model + to, model + 110000, 150000);
		fix_run(f, &t, 1);
		assert_int_equal(t.status, TENT_STATUS_COMPLETED);
		child_read(&a, 0, got, ROOM);
		assert_memory_equal(got, model, ROOM);
	}
	child_stop(&a);
}

static void zero_length_in_private_memory_ends_at_once(void **state)
{
	struct shm_fix *f = *state;
	struct child a;
	struct transfer t;

	child_start(&a, f, 4096, -1);
	t = fix_transfer(f, TENT_OPCODE_WRITE, &a.region, 0, &a.region, 4096, 0);
	assert_int_equal(shm_backend.post(f->queue, &t, 0), POST_DONE);
	assert_int_equal(t.status, TENT_STATUS_COMPLETED);
	child_stop(&a);
}

/* ---- memory that is not there ------------------------------------------- */

static void a_write_into_a_hole_fails_with_the_bytes_it_moved(void **state)
{
	struct shm_fix *f = *state;
	uint8_t *bytes = malloc(ROOM), got[8192];
	struct region mapped = { .base = 0x5000, .end = 0x5000 + ROOM, .addr = bytes };
	struct child a;
	struct transfer t;

	fix_fill(bytes, ROOM, 9);
	child_start(&a, f, 40 * 4096, 30);
	t = fix_transfer(f, TENT_OPCODE_WRITE, &mapped, 0, &a.region, 100, 35 * 4096);
	fix_run(f, &t, 1);
	assert_int_equal(t.status, TENT_STATUS_FAILED);
	assert_int_equal(t.error, TENT_ERR_RUNTIME);
	assert_int_equal(t.rule, TENT_RULE_COPY_FAULT);
	assert_int_equal(t.done, 30 * 4096 - 100);
	child_read(&a, 28 * 4096, got, 8192);
	assert_memory_equal(got, bytes + 28 * 4096 - 100, 8192);
	child_stop(&a);
	free(bytes);
}

static void a_read_from_a_hole_fails_and_claims_no_byte_too_many(void **state)
{
	struct shm_fix *f = *state;
	uint8_t *bytes = malloc(ROOM), *got = malloc(ROOM);
	struct region mapped = { .base = 0x5000, .end = 0x5000 + ROOM, .addr = bytes };
	struct child a;
	struct transfer t;

	fix_fill(got, ROOM, 4);
	child_start(&a, f, 40 * 4096, 30);
	child_write(&a, 0, got, 30 * 4096);
	memset(bytes, 0xa5, ROOM);
	t = fix_transfer(f, TENT_OPCODE_READ, &mapped, 0, &a.region, 0, 35 * 4096);
	fix_run(f, &t, 1);
	assert_int_equal(t.status, TENT_STATUS_FAILED);
	assert_int_equal(t.rule, TENT_RULE_COPY_FAULT);
	assert_int_equal(t.done, 30 * 4096 / SHM_CHUNK * SHM_CHUNK);
	assert_memory_equal(bytes, got, t.done);
	for (size_t i = t.done; i < ROOM; i++)
		assert_int_equal(bytes[i], 0xa5);
	child_stop(&a);
	free(bytes);
	free(got);
}

static void an_address_no_process_has_is_a_fault(void **state)
{
	struct shm_fix *f = *state;
	uint8_t bytes[100];
	struct region mapped = { .base = 0x5000, .end = 0x5000 + 100, .addr = bytes };
	struct child a;
	struct transfer t;

	child_start(&a, f, 4096, -1);
	a.region.base = UINT64_MAX - 1000;
	a.region.end = UINT64_MAX;
	t = fix_transfer(f, TENT_OPCODE_READ, &mapped, 0, &a.region, 10, 100);
	fix_run(f, &t, 1);
	assert_int_equal(t.rule, TENT_RULE_COPY_FAULT);
	assert_int_equal(t.done, 0);
	child_stop(&a);
}

static void an_owner_killed_in_mid_copy_fails_what_touches_it(void **state)
{
	enum { NR = 64 };
	struct shm_fix *f = *state;
	uint8_t *bytes = malloc(ROOM);
	struct region mapped = { .base = 0x5000, .end = 0x5000 + ROOM, .addr = bytes };
	struct transfer t[NR];
	struct child a;
	int failed = 0, left = NR;
	bool killed = false;

	child_start(&a, f, ROOM, -1);
	for (int i = 0; i < NR; i++) {
		t[i] = fix_transfer(f, i % 2, &mapped, 0, &a.region, 0, ROOM);
		assert_int_equal(shm_backend.post(f->queue, &t[i], 0), POST_PENDING);
	}
	while (left > 0) {
		for (struct transfer *e = fix_poll(f); e; e = e->next)
			left--;
		if (left < NR && !killed) {
			kill(a.pid, SIGKILL);
			waitpid(a.pid, NULL, 0);
			killed = true;
		}
	}
	for (int i = 0; i < NR; i++) {
		failed += t[i].status == TENT_STATUS_FAILED;
		if (t[i].status == TENT_STATUS_FAILED)
			assert_int_equal(t[i].rule, TENT_RULE_COPY_FAULT);
		else
			assert_int_equal(t[i].status, TENT_STATUS_COMPLETED);
	}
	assert_true(failed > 0 && failed < NR);
	child_stop(&a);
	free(bytes);
}

/* ---- order and threads --------------------------------------------------- */

static void a_high_level_overtakes_but_does_not_starve_a_low_one(void **state)
{
	enum { NR = 160 };
	struct shm_fix *f = *state;
	uint8_t bytes[64];
	struct region mapped = { .base = 0x5000, .end = 0x5000 + 64, .addr = bytes };
	struct transfer t[NR];
	int rank[NR], next = 0, first_high = NR, last_high = 0, overtaken = 0;
	struct child a;

	child_start(&a, f, 4096, -1);
	for (int i = 0; i < NR; i++) {
		t[i] = fix_transfer(f, TENT_OPCODE_READ, &mapped, 0, &a.region, 0, 64);
		t[i].level = i < NR / 2 ? 2 : 0;
		assert_int_equal(shm_backend.post(f->queue, &t[i], 0), POST_PENDING);
	}
	while (next < NR)
		for (struct transfer *e = fix_poll(f); e; e = e->next)
			rank[e - t] = next++;
	for (int i = NR / 2; i < NR; i++) {
		first_high = rank[i] < first_high ? rank[i] : first_high;
		last_high = rank[i] > last_high ? rank[i] : last_high;
	}
	for (int i = 0; i < NR / 2; i++)
		overtaken += rank[i] < last_high;
	/* Low ones had the lanes at first. Without the exception for them no more
	 * than another set of lanes could come before the last high one. */
	assert_true(first_high <= 2 * (int)SHM_LANES);
	assert_in_range(overtaken, 2 * SHM_LANES + 1, NR / 4);
	child_stop(&a);
}

struct hammer {
	struct shm_fix *f;
	struct backend_queue *queue;
	int fd;
	struct region *remote;
	uint32_t seed;
	int wrong;
};

/* A poller of its own: writes its half of the owner's memory and reads it back. */
static void *hammer_main(void *arg)
{
	struct hammer *h = arg;
	uint8_t *bytes = malloc(2 * 100000);
	struct region mapped = { .base = 0x1000, .end = 0x1000 + 2 * 100000, .addr = bytes };

	for (uint32_t i = 0; i < 60; i++) {
		uint64_t at = h->seed * 150000, n = 1 + (i * 7919) % 100000;
		struct transfer t = fix_transfer(h->f, TENT_OPCODE_WRITE, &mapped, 0,
						 h->remote, at, n);

		fix_fill(bytes, n, h->seed + i);
		fix_run_on(h->queue, h->fd, &t, 1);
		h->wrong += t.status != TENT_STATUS_COMPLETED;
		t = fix_transfer(h->f, TENT_OPCODE_READ, &mapped, 100000, h->remote, at, n);
		fix_run_on(h->queue, h->fd, &t, 1);
		h->wrong += t.status != TENT_STATUS_COMPLETED ||
			    memcmp(bytes, bytes + 100000, n);
	}
	free(bytes);
	return NULL;
}

static void two_pollers_share_an_owner_without_mixing(void **state)
{
	struct shm_fix *f = *state;
	struct hammer h[2] = {
		{ .f = f, .queue = f->queue, .fd = f->event_fd, .seed = 0 },
		{ .f = f, .queue = f->queue2, .fd = f->event_fd2, .seed = 1 },
	};
	pthread_t threads[2];
	struct child a;

	child_start(&a, f, ROOM, -1);
	for (int i = 0; i < 2; i++) {
		h[i].remote = &a.region;
		assert_int_equal(pthread_create(&threads[i], NULL, hammer_main, &h[i]), 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(h[i].wrong, 0);
	}
	child_stop(&a);
}

static void a_queue_opened_after_an_owner_is_refused(void **state)
{
	struct shm_fix *f = *state;
	struct backend_queue *q;
	struct child a;

	child_start(&a, f, 4096, -1);
	assert_int_equal(shm_backend.queue_open(f->inst, -1, &q), -EBUSY);
	child_stop(&a);
}

static void owners_come_and_go_without_leaving_threads_or_descriptors(void **state)
{
	struct shm_fix *f = *state;
	struct shm_instance *inst = (struct shm_instance *)f->inst;
	int threads = fix_settle_threads(), fds = fix_count("/proc/self/fd");

	for (int i = 0; i <= 50; i++) {
		struct child a;

		child_start(&a, f, 4096, -1);
		child_stop(&a);
		while (!LIST_EMPTY(&inst->dying))
			shm_owners_reap(inst, false);
	}
	assert_int_equal(fix_count("/proc/self/fd"), fds);
	while (fix_count("/proc/self/task") > threads)
		sched_yield();
}

#define T(name) cmocka_unit_test_setup_teardown(name, fix_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* It counts, so it comes before workers that may take their time. */
		T(owners_come_and_go_without_leaving_threads_or_descriptors),
		T(every_combination_of_ends_moves_exactly_its_bytes),
		T(moves_within_one_owner_may_overlap),
		T(zero_length_in_private_memory_ends_at_once),
		T(a_write_into_a_hole_fails_with_the_bytes_it_moved),
		T(a_read_from_a_hole_fails_and_claims_no_byte_too_many),
		T(an_address_no_process_has_is_a_fault),
		T(an_owner_killed_in_mid_copy_fails_what_touches_it),
		T(a_high_level_overtakes_but_does_not_starve_a_low_one),
		T(two_pollers_share_an_owner_without_mixing),
		T(a_queue_opened_after_an_owner_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
