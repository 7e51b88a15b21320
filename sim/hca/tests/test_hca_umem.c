/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_umem.c - memory as the device sees it, from pin to release.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "sim/hca/mem/umem.h"

#define PAGE 4096u

static uint8_t *pages_map(size_t n)
{
	void *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static struct umem *pin(void *p, uint64_t length)
{
	struct umem *m;

	assert_int_equal(umem_pin(&m, (uintptr_t)p, length, true), 0);
	return m;
}

static void device_and_program_share_bytes(void **state)
{
	uint8_t *p = pages_map(3), got[100];
	struct umem *m = pin(p + 10, 2 * PAGE);

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
	struct umem *m = pin(w, PAGE);
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
	assert_int_equal(umem_store64(m, 0, 0x0102030405060708), 0);
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
	munmap(p + PAGE, PAGE);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE + 1, true), -EFAULT);
	assert_int_equal(mprotect(p, PAGE, PROT_READ), 0);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE, true), -EFAULT);
	assert_int_equal(umem_pin(&m, (uintptr_t)p, PAGE, false), 0);
	umem_release(m);
	munmap(p, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_and_program_share_bytes),
		cmocka_unit_test(words_are_read_written_and_changed_in_place),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
