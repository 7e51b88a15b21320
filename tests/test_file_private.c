/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_private.c - private memory and files: the worker of that memory copies, and
 * what is cancelled is fenced on both sides. A memfd stands in for /proc/PID/mem, and a
 * userfaultfd keeps the pages of bounce buffers from arriving, so that the worker sits
 * in its system call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "test_shm_fix.h"

#define SIZE (5u * SHM_CHUNK)

struct fix {
	struct shm_fix *shm;
	struct backend_instance *inst;
	struct backend_queue *queue;
	int mem_fd;
	struct private_owner *owner;
	struct region local, remote;
	struct file file;
	uint8_t *bytes, *seen;	/* SIZE each: of the memory, and to compare */
	int stuck;		/* userfaultfd, or -1 */
};

static int setup(void **state)
{
	struct backend_options o = { .faults = "", .file = {
		.depth = 4, .chunk_bytes = 4096, .workers = 1 } };
	struct fix *f = calloc(1, sizeof(*f));

	fix_setup((void **)&f->shm);
	assert_int_equal(file_backend.open(&f->inst, &o), 0);
	assert_int_equal(file_backend.queue_open(f->inst, f->shm->event_fd, &f->queue), 0);
	f->mem_fd = memfd_create("owner", MFD_CLOEXEC);
	f->bytes = malloc(SIZE);
	f->seen = malloc(SIZE);
	fix_fill(f->bytes, SIZE, 3);
	assert_int_equal(pwrite(f->mem_fd, f->bytes, SIZE, 0), SIZE);
	assert_int_equal(shm_backend.owner_open(f->shm->inst, dup(f->mem_fd), &f->owner), 0);
	f->local = (struct region){ .end = SIZE + 4096, .owner = f->owner };
	f->file = (struct file){ .fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING),
				 .direct_fd = -1, .writable = true };
	f->remote = (struct region){ .end = INT64_MAX, .file = &f->file };
	f->stuck = -1;
	*state = f;
	return 0;
}

static void unstick(struct fix *f)
{
	struct uffdio_range r = { (uintptr_t)f->owner->bounces,
				  (size_t)f->owner->nr_channels * SHM_LANES * SHM_CHUNK };

	if (f->stuck < 0)
		return;
	assert_int_equal(ioctl(f->stuck, UFFDIO_UNREGISTER, &r), 0);
	close(f->stuck);
	f->stuck = -1;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	unstick(f);
	shm_backend.owner_close(f->owner);
	file_backend.queue_close(f->queue);
	file_backend.close(f->inst);
	fix_teardown((void **)&f->shm);
	close(f->mem_fd);
	close(f->file.fd);
	free(f->bytes);
	free(f->seen);
	free(f);
	return 0;
}

/* From now on the first touch of a bounce buffer waits. */
static void stick(struct fix *f)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r = {
		.range = { (uintptr_t)f->owner->bounces,
			   (size_t)f->owner->nr_channels * SHM_LANES * SHM_CHUNK },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	f->stuck = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (f->stuck < 0)
		fail_msg("userfaultfd: %m (this test needs root, or CAP_SYS_PTRACE)");
	assert_int_equal(ioctl(f->stuck, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(f->stuck, UFFDIO_REGISTER, &r), 0);
}

static void wait_stuck(const struct fix *f)
{
	struct uffd_msg m;

	assert_int_equal(read(f->stuck, &m, sizeof(m)), sizeof(m));
}

static struct transfer make(struct fix *f, int op, uint64_t at, uint64_t offset, uint64_t n)
{
	return (struct transfer){
		.queue = f->queue, .local = &f->local, .remote = &f->remote,
		.local_addr = at, .remote_addr = offset, .length = n, .opcode = (uint8_t)op,
	};
}

static void post(struct transfer *t)
{
	assert_int_equal(file_backend.post(t->queue, t, UINT64_MAX), POST_PENDING);
}

/* shm's queue hands them back. */
static void collect(struct fix *f, int nr)
{
	while (nr > 0)
		for (struct transfer *e = fix_poll(f->shm); e; e = e->next)
			nr--;
	assert_int_equal(nr, 0);
}

static void run(struct fix *f, struct transfer *t)
{
	post(t);
	collect(f, 1);
}

static void ended(const struct transfer *t, uint16_t rule, uint64_t done)
{
	assert_string_equal(tent_rule_name(t->rule), tent_rule_name(rule));
	assert_int_equal(t->status == TENT_STATUS_COMPLETED, rule == 0);
	assert_int_equal(t->done, done);
	assert_int_equal(t->flags, 0);
	assert_int_equal(t->rail, 0);
}

static void bytes_go_both_ways(void **state)
{
	static const uint64_t sizes[] = { 1, 4096, SHM_CHUNK, SHM_CHUNK + 1, SIZE - 77 };
	struct fix *f = *state;

	assert_true(file_backend.reaches(f->inst, &f->local, &f->remote));
	for (size_t i = 0; i < 5; i++) {
		struct transfer t = make(f, TENT_OPCODE_WRITE, 33, 5 * i, sizes[i]);

		assert_int_equal(ftruncate(f->file.fd, 0), 0);
		run(f, &t);
		ended(&t, 0, sizes[i]);
		assert_int_equal(pread(f->file.fd, f->seen, SIZE, (off_t)(5 * i)), sizes[i]);
		assert_memory_equal(f->seen, f->bytes + 33, sizes[i]);

		fix_fill(f->seen, sizes[i], (uint32_t)i);
		assert_int_equal(pwrite(f->file.fd, f->seen, sizes[i], (off_t)(5 * i)), sizes[i]);
		t = make(f, TENT_OPCODE_READ, 44, 5 * i, sizes[i]);
		run(f, &t);
		ended(&t, 0, sizes[i]);
		memcpy(f->bytes + 44, f->seen, sizes[i]);
		assert_int_equal(pread(f->mem_fd, f->seen, SIZE, 0), SIZE);
		assert_memory_equal(f->seen, f->bytes, SIZE);
	}
}

static void many_at_once_all_arrive(void **state)
{
	struct fix *f = *state;
	struct transfer t[40];

	for (uint32_t i = 0; i < 40; i++) {
		t[i] = make(f, TENT_OPCODE_WRITE, i * 8000, (39 - i) * 8000, 8000);
		t[i].level = (uint8_t)(i % LEVELS);
		post(&t[i]);
	}
	collect(f, 40);
	for (uint32_t i = 0; i < 40; i++) {
		ended(&t[i], 0, 8000);
		assert_int_equal(pread(f->file.fd, f->seen, 8000, (39 - i) * 8000), 8000);
		assert_memory_equal(f->seen, f->bytes + i * 8000, 8000);
	}
}

static void every_end_has_its_rule(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 0, 0, SIZE);

	assert_int_equal(ftruncate(f->file.fd, SHM_CHUNK + 100), 0);
	run(f, &t);
	ended(&t, TENT_RULE_FILE_END, SHM_CHUNK + 100);

	/* The memory ends in the last chunk. */
	t = make(f, TENT_OPCODE_WRITE, SIZE - 1000, 0, 2000);
	run(f, &t);
	ended(&t, TENT_RULE_COPY_FAULT, 1000);

	assert_int_equal(ftruncate(f->file.fd, 3 * SHM_CHUNK), 0);
	assert_int_equal(fcntl(f->file.fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	t = make(f, TENT_OPCODE_WRITE, 0, 2 * SHM_CHUNK, 2 * SHM_CHUNK);
	run(f, &t);
	ended(&t, TENT_RULE_FILE_ACCESS, SHM_CHUNK);
}

static void what_waits_for_the_worker_is_given_back_at_once(void **state)
{
	struct fix *f = *state;
	struct transfer t[SHM_LANES + 3];

	stick(f);
	for (uint32_t i = 0; i < SHM_LANES + 3; i++) {
		t[i] = make(f, TENT_OPCODE_WRITE, 0, i * 100, 100);
		post(&t[i]);
		if (i == 0)
			wait_stuck(f);
	}
	for (uint32_t i = SHM_LANES + 2; i > 0; i--) {
		assert_true(file_backend.cancel(f->queue, &t[i], TENT_RULE_CANCELED));
		ended(&t[i], TENT_RULE_CANCELED, 0);
	}
	unstick(f);
	collect(f, 1);
	ended(&t[0], 0, 100);
	assert_int_equal(lseek(f->file.fd, 0, SEEK_END), 100);
}

/* The fence of the lane that has t is over. */
static void fence_is_over(struct fix *f)
{
	for (uint32_t i = 0; i < SHM_LANES; i++)
		if (f->owner->channels[0].lanes[i].fence_ns)
			f->owner->channels[0].lanes[i].fence_ns = 1;
}

static void a_worker_stuck_in_the_memory_is_left_and_does_not_touch_the_file(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, 0, 0, SIZE);

	stick(f);
	post(&t);
	wait_stuck(f);
	assert_false(file_backend.cancel(f->queue, &t, TENT_RULE_TARGET_GONE));
	fence_is_over(f);
	collect(f, 1);
	ended(&t, TENT_RULE_TARGET_GONE, 0);
	unstick(f);
	while (f->owner->channels[0].lanes[0].in_worker)
		assert_null(fix_poll(f->shm));
	assert_int_equal(lseek(f->file.fd, 0, SEEK_END), 0);
	t = make(f, TENT_OPCODE_WRITE, 0, 0, SIZE);	/* the lane works again */
	run(f, &t);
	ended(&t, 0, SIZE);
}

static void only_its_own_result_ends_what_is_at_the_file(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 0, 0, SIZE);

	assert_int_equal(ftruncate(f->file.fd, SIZE), 0);
	stick(f);
	post(&t);
	wait_stuck(f);
	assert_false(file_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	fence_is_over(f);
	for (int i = 0; i < 20; i++)
		assert_null(fix_poll(f->shm));
	unstick(f);
	collect(f, 1);
	ended(&t, TENT_RULE_CANCELED, SHM_CHUNK);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_go_both_ways),
		TEST(many_at_once_all_arrive),
		TEST(every_end_has_its_rule),
		TEST(what_waits_for_the_worker_is_given_back_at_once),
		TEST(a_worker_stuck_in_the_memory_is_left_and_does_not_touch_the_file),
		TEST(only_its_own_result_ends_what_is_at_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
