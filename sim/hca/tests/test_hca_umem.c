/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_umem.c - memory as the device sees it, from pin to release.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/mem/window.h"
#include "sim/hca/tests/common/pages.h"

static void device_and_program_share_bytes(void **state)
{
	uint8_t *p = pages_map(3), got[100];
	struct umem *m = pages_pin(p + 10, 2 * PAGE);

	(void)state;
	memset(p, 7, 3 * PAGE);
	assert_int_equal(umem_read(m, PAGE - 50, got, 100), 0);
	assert_int_equal(got[0] + got[99], 14);
	assert_int_equal(umem_write(m, 2 * PAGE - 3, "abc", 3), 0);
	assert_memory_equal(p + 10 + 2 * PAGE - 3, "abc\7", 4);
	assert_int_equal(umem_length(m), 2 * PAGE);
	umem_release(m);
	munmap(p, 3 * PAGE);
}

static void words_are_read_written_and_changed_in_place(void **state)
{
	uint64_t *w = (uint64_t *)pages_map(1), before;
	struct umem *m = pages_pin(w, PAGE);
	uint32_t value;

	(void)state;
	w[1] = 5;
	assert_int_equal(umem_fetch_add64(m, 8, UINT64_MAX, &before), 0);
	assert_int_equal(before, 5);
	assert_int_equal(w[1], 4);
	assert_int_equal(umem_compare_swap64(m, 8, 5, 9, &before), 0);
	assert_int_equal(before, 4);
	assert_int_equal(w[1], 4);
	assert_int_equal(umem_compare_swap64(m, 8, 4, 9, &before), 0);
	assert_int_equal(before, 4);
	assert_int_equal(w[1], 9);
	assert_int_equal(umem_load32(m, 8, &value), 0);
	assert_int_equal(value, 9);
	w[0] = 0x0102030405060708;
	assert_int_equal(umem_store8(m, 0, 0xff), 0);
	assert_int_equal(w[0], 0x01020304050607ff);
	umem_release(m);
	munmap(w, PAGE);
}

static void what_is_not_there_is_refused(void **state)
{
	uint8_t *p = pages_map(2);
	struct umem *m;

	(void)state;
	assert_int_equal(umem_pin(&m, (uintptr_t)p, 0, true), -EINVAL);
	assert_int_equal(umem_pin(&m, UINT64_MAX - 5, 10, true), -EINVAL);
	assert_int_equal(umem_pin(&m, 0, 10, true), -EFAULT);
	assert_int_equal(umem_pin(&m, 0x8000000000000000, 10, true), -EFAULT);
	assert_int_equal(umem_pin(&m, 0xffffffff80000000, 10, false), -EFAULT);
	assert_int_equal(umem_pin(&m, 4096, SIZE_MAX / 4, false), -EFAULT);
	munmap(p + PAGE, PAGE);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE + 1, true), -EFAULT);
	assert_int_equal(mprotect(p, PAGE, PROT_READ), 0);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE, true), -EFAULT);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE, false), 0);
	umem_release(m);
	munmap(p, PAGE);
}

/* ---- when the program takes its pages away --------------------------------------- */

/* Two mappings of one file: the second shows what lies in the pages of the first. */
static uint8_t *window;

static uint8_t *pages_map_shown(size_t n)
{
	int fd = memfd_create("shown", MFD_CLOEXEC);
	uint8_t *p;

	assert_int_equal(ftruncate(fd, (off_t)(n * PAGE)), 0);
	p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	window = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_ptr_not_equal(window, MAP_FAILED);
	close(fd);
	return p;
}

/* The same for userfaultfd. */
static void need_watch(void)
{
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	pages_need_pins();
	if (fd < 0)
		skip();
	close((int)fd);
}

static void unmapped_pages_stay_the_devices(void **state)
{
	uint8_t *p = pages_map_shown(3), got[2 * PAGE];
	struct umem *m = pages_pin(p + 100, 2 * PAGE);

	(void)state;
	pages_need_pins();
	memset(window, 3, 3 * PAGE);
	munmap(p, 3 * PAGE);
	assert_int_equal(umem_read(m, 0, got, sizeof(got)), 0);
	assert_int_equal(got[0] + got[sizeof(got) - 1], 6);
	window[100 + PAGE] = 9;
	assert_int_equal(umem_read(m, PAGE, got, 1), 0);
	assert_int_equal(got[0], 9);
	memset(got, 5, sizeof(got));
	assert_int_equal(umem_write(m, 1, got, 2 * PAGE - 1), 0);
	assert_int_equal(window[100], 3);
	assert_int_equal(window[101] + window[2 * PAGE + 99], 10);
	assert_int_equal(window[2 * PAGE + 100], 3);
	umem_release(m);
	munmap(window, 3 * PAGE);
}

/* The next mapping comes to lie at the same address. The device must see the old pages and
 * leave the new ones alone. */
static void what_is_mapped_there_next_is_not_touched(void **state)
{
	uint8_t *p = pages_map_shown(2), *again, got[4];
	struct umem *m = pages_pin(p, 2 * PAGE);

	(void)state;
	pages_need_pins();
	memcpy(p + PAGE - 2, "abcd", 4);
	umem_range_goes(p + PAGE, PAGE);
	again = mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(again, p);
	assert_int_equal(umem_read(m, PAGE - 2, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	assert_int_equal(umem_write(m, PAGE - 2, "efgh", 4), 0);
	assert_memory_equal(window + PAGE - 2, "efgh", 4);
	assert_memory_equal(p + PAGE - 2, "\0\0\0\0", 4);
	umem_release(m);
	munmap(p, 2 * PAGE);
	munmap(window, 2 * PAGE);
}

static void dropped_anonymous_pages_are_the_old_ones(void **state)
{
	uint8_t *p = pages_map(1), got[4];
	struct umem *m = pages_pin(p, PAGE);

	(void)state;
	pages_need_pins();
	memcpy(p, "abcd", 4);
	umem_range_goes(p, PAGE);
	madvise(p, PAGE, MADV_DONTNEED);
	assert_int_equal(p[0], 0);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	umem_release(m);
	munmap(p, PAGE);
}

static void words_and_atomics_reach_unmapped_pages(void **state)
{
	uint64_t *p = (uint64_t *)pages_map_shown(1), *w = (uint64_t *)window, before;
	struct umem *m = pages_pin(p, PAGE);
	uint32_t value;

	(void)state;
	pages_need_pins();
	munmap(p, PAGE);
	w[1] = 5;
	assert_int_equal(umem_fetch_add64(m, 8, 2, &before), 0);
	assert_int_equal(before, 5);
	assert_int_equal(w[1], 7);
	assert_int_equal(umem_compare_swap64(m, 8, 5, 9, &before), 0);
	assert_int_equal(before, 7);
	assert_int_equal(w[1], 7);
	assert_int_equal(umem_compare_swap64(m, 8, 7, 9, &before), 0);
	assert_int_equal(w[1], 9);
	assert_int_equal(umem_load32(m, 8, &value), 0);
	assert_int_equal(value, 9);
	w[0] = 0x0102030405060708;
	assert_int_equal(umem_store8(m, 7, 0xff), 0);
	assert_int_equal(w[0], 0xff02030405060708);
	umem_release(m);
	munmap(window, PAGE);
}

/* libc's own munmap(), and one past libc, are nobody's to interpose. */
static void unmapping_is_heard_of_whoever_does_it(void **state)
{
	uint8_t *p = pages_map_shown(2), *q = pages_map_shown(2), *moved, got[4];
	struct umem *m = pages_pin(p + 10, PAGE), *n = pages_pin(q, 2 * PAGE);

	(void)state;
	need_watch();
	memcpy(p + 10, "abcd", 4);
	memcpy(q, "efgh", 4);
	syscall(SYS_munmap, p, 2 * PAGE);
	assert_ptr_equal(mmap(p, PAGE, PROT_READ | PROT_WRITE,
			      MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), p);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	assert_int_equal(umem_write(m, 0, "wxyz", 4), 0);
	assert_int_equal(p[10], 0);

	moved = mremap(q, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, pages_map(2));
	assert_ptr_equal(mmap(q, 2 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), q);
	assert_int_equal(umem_write(n, 1, "xyz", 3), 0);
	assert_memory_equal(moved, "exyz", 4);
	umem_release(m);
	umem_release(n);
	munmap(p, PAGE);
	munmap(q, 2 * PAGE);
	munmap(moved, 2 * PAGE);
}

static void dropping_is_heard_of_too(void **state)
{
	uint8_t *p = pages_map(1), got[4];
	struct umem *m = pages_pin(p, PAGE);

	(void)state;
	need_watch();
	memcpy(p, "abcd", 4);
	syscall(SYS_madvise, p, PAGE, MADV_DONTNEED);
	assert_int_equal(p[0], 0);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	umem_release(m);
	munmap(p, PAGE);
}

/* Larger than one pin, and than the stage. Pages that are never touched would be made by
 * pinning, so the file is of huge size and the range crosses the border by little. */
static void a_range_of_several_pins_is_one(void **state)
{
	uint64_t length = (1ull << 30) + 2 * PAGE, border = 1ull << 30;
	uint8_t *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static uint8_t put[600000], got[600000];
	struct umem *m;

	(void)state;
	pages_need_pins();
	if (!getenv("TENT_SOAK"))
		skip();		/* it takes 1 GiB */
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, length, true), 0);
	munmap(p, length);
	for (size_t i = 0; i < sizeof(put); i++)
		put[i] = (uint8_t)(i * 7);
	assert_int_equal(umem_write(m, border - sizeof(put) + 100, put, sizeof(put)), 0);
	assert_int_equal(umem_read(m, border - sizeof(put) + 100, got, sizeof(got)), 0);
	assert_memory_equal(put, got, sizeof(put));
	umem_release(m);
}

/* ---- files -------------------------------------------------------------------------- */

static void a_file_is_reached_by_its_offsets(void **state)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	uint8_t got[4];
	struct umem *m;

	(void)state;
	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	assert_int_equal(pwrite(fd, "abcd", 4, PAGE + 100), 4);
	assert_int_equal(umem_pin_fd(&m, fd, PAGE + 100, 2 * PAGE, true), 0);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	assert_int_equal(umem_write(m, 2 * PAGE - 4, "efgh", 4), 0);
	assert_int_equal(pread(fd, got, 4, 3 * PAGE + 96), 4);
	assert_memory_equal(got, "efgh", 4);
	/* Cut short under the device. */
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(umem_write(m, 0, "efgh", 4), -EFAULT);
	assert_int_equal(umem_read(m, 0, got, 4), -EFAULT);
	umem_release(m);
	assert_int_equal(umem_pin_fd(&m, fd, PAGE, PAGE, false), -EFAULT);
	assert_int_equal(umem_pin_fd(&m, fd, 0, 0, false), -EINVAL);
	close(fd);
	assert_int_equal(umem_pin_fd(&m, fd, 0, PAGE, false), -EBADF);
}

/* What follows at a descriptor's position says which part of the file it is. */
static void a_window_has_its_own_offsets_and_end(void **state)
{
	const struct window w = { .magic = WINDOW_MAGIC, .start = PAGE, .length = 2 * PAGE };
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	uint8_t got[4];
	struct umem *m;

	(void)state;
	assert_int_equal(pwrite(fd, &w, sizeof(w), 4 * PAGE), sizeof(w));
	assert_int_equal(pwrite(fd, "abcd", 4, PAGE + 100), 4);
	assert_int_equal(lseek(fd, 4 * PAGE, SEEK_SET), 4 * PAGE);
	assert_int_equal(umem_pin_fd(&m, fd, 100, 4, true), 0);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "abcd", 4);
	umem_release(m);
	assert_int_equal(umem_pin_fd(&m, fd, 1, 2 * PAGE, true), -EINVAL);
	assert_int_equal(umem_pin_fd(&m, fd, UINT64_MAX, 2, true), -EINVAL);
	assert_int_equal(lseek(fd, 4 * PAGE + 8, SEEK_SET), 4 * PAGE + 8);
	assert_int_equal(umem_pin_fd(&m, fd, 1, 2 * PAGE, true), 0);
	umem_release(m);
	close(fd);
}

/* Accesses go on while the pages change hands under them. */
struct race {
	struct umem *m;
	bool stop;
	unsigned nr_bad;
};

static void *race_write(void *arg)
{
	struct race *r = arg;
	uint8_t bytes[300];

	memset(bytes, 1, sizeof(bytes));
	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE))
		r->nr_bad += umem_write(r->m, 100, bytes, sizeof(bytes)) != 0;
	return NULL;
}

static void a_copy_in_progress_ends_in_the_old_pages(void **state)
{
	(void)state;
	pages_need_pins();
	for (int i = 0; i < 200; i++) {
		uint8_t *p = pages_map(1), zeros[PAGE] = { 0 };
		struct race r = { .m = pages_pin(p, PAGE) };
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, race_write, &r), 0);
		for (int k = 0; k < i % 20; k++)
			sched_yield();
		umem_range_goes(p, PAGE);
		mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
		sched_yield();
		__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		assert_int_equal(r.nr_bad, 0);
		assert_memory_equal(p, zeros, PAGE);
		umem_release(r.m);
		munmap(p, PAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_and_program_share_bytes),
		cmocka_unit_test(words_are_read_written_and_changed_in_place),
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(unmapped_pages_stay_the_devices),
		cmocka_unit_test(what_is_mapped_there_next_is_not_touched),
		cmocka_unit_test(dropped_anonymous_pages_are_the_old_ones),
		cmocka_unit_test(words_and_atomics_reach_unmapped_pages),
		cmocka_unit_test(unmapping_is_heard_of_whoever_does_it),
		cmocka_unit_test(dropping_is_heard_of_too),
		cmocka_unit_test(a_range_of_several_pins_is_one),
		cmocka_unit_test(a_file_is_reached_by_its_offsets),
		cmocka_unit_test(a_window_has_its_own_offsets_and_end),
		cmocka_unit_test(a_copy_in_progress_ends_in_the_old_pages),
	};

	return cmocka_run_group_tests(tests, pages_try_pins, NULL);
}
