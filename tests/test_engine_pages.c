/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_pages.c - where the engine's private memory comes from, and what it says. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/ring.h>

#include "engine/pages.h"
#include "ring/mem.h"
#include "tests/ring_pool.h"

static int nr_given;

static void *give(size_t length, unsigned long flags)
{
	void *addr;

	assert_int_equal(flags, 1);
	assert_int_equal(length % huge_page_size(), 0);
	nr_given++;
	addr = aligned_alloc(4096, length);
	return memset(addr, 0, length);
}

static void take_back(void *addr)
{
	nr_given--;
	free(addr);
}

static void *give_none(size_t length, unsigned long flags)
{
	(void)length;
	(void)flags;
	return NULL;
}

static void huge_pages_come_from_the_table_and_go_back_to_it(void **state)
{
	const struct hugetlbfs_api api = { give, take_back };
	struct pages_totals before, after;
	struct pages_info info = { 0 };
	void *addr;

	(void)state;
	pages_totals_read(&before);
	addr = pages_alloc_with(&api, 5, &info);
	assert_non_null(addr);
	assert_int_equal(info.kind, TENT_PAGE_HUGE);
	assert_int_equal(info.size, huge_page_size());
	assert_int_equal(info.reason, 0);
	pages_totals_read(&after);
	assert_int_equal(after.huge_bytes - before.huge_bytes, info.size);
	pages_free(addr, &info);
	assert_int_equal(nr_given, 0);
	pages_totals_read(&after);
	assert_int_equal(after.huge_bytes, before.huge_bytes);
}

static void without_huge_pages_there_are_base_pages_and_a_reason(void **state)
{
	const struct hugetlbfs_api api = { give_none, take_back };
	struct pages_info info = { 0 };
	struct pages_totals totals;
	uint8_t *addr = pages_alloc_with(&api, 5000, &info);

	(void)state;
	assert_non_null(addr);
	assert_int_equal(info.kind, TENT_PAGE_BASE);
	assert_int_equal(info.reason, ENOMEM);
	assert_int_equal(info.size, 8192);
	for (size_t i = 0; i < info.size; i++)
		assert_int_equal(addr[i], 0);
	pages_totals_read(&totals);
	assert_int_equal(totals.reason, ENOMEM);
	pages_free(addr, &info);
}

static void small_memory_asks_for_no_huge_page(void **state)
{
	struct pages_info info;
	void *addr = pages_alloc(4096, &info);

	(void)state;
	assert_non_null(addr);
	assert_int_equal(info.kind, TENT_PAGE_BASE);
	assert_int_equal(info.reason, 0);
	pages_free(addr, &info);
	pages_free(NULL, &info);
}

static void without_free_huge_pages_large_memory_says_so(void **state)
{
	struct pages_info info;
	uint8_t *addr;

	(void)state;
	if (huge_info("HugePages_Free") > 0)
		skip_because("this machine has free huge pages: no fallback to see\n");
	addr = pages_alloc(huge_page_size() + 1, &info);
	assert_non_null(addr);
	assert_int_equal(info.kind, TENT_PAGE_BASE);
	assert_int_equal(info.reason, ENOMEM);
	assert_true(info.size > huge_page_size());
	addr[info.size - 1] = 1;
	pages_free(addr, &info);
}

/* The kernel's page size of the mapping at addr, bytes; 0: nothing is mapped there. */
static size_t page_size_at(const void *addr)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kb = 0;
	bool is_inside = false;
	char line[512];

	assert_non_null(f);
	while (!kb && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_inside = (uintptr_t)addr >= from && (uintptr_t)addr < to;
		else if (is_inside)
			sscanf(line, "KernelPageSize: %lu kB", &kb);
	}
	fclose(f);
	return kb * 1024;
}

static void with_huge_pages_reserved_libhugetlbfs_gives_them(void **state)
{
	struct hugetlbfs_api api;
	struct pages_info info;
	const char *missing;
	long before = 0;
	uint8_t *addr;

	(void)state;
	if (hugetlbfs_load(&api, "libhugetlbfs.so.0", &missing))
		skip_because("%s is not here: not tested\n", missing);
	if (!huge_pool_reserve(16, &before))
		skip_because("no huge pages could be reserved: not tested\n");
	addr = pages_alloc(huge_page_size() + 1, &info);
	huge_pool_set(before);
	assert_non_null(addr);
	assert_int_equal(info.kind, TENT_PAGE_HUGE);
	assert_int_equal(info.reason, 0);
	assert_null(info.missing);
	assert_int_equal(info.size, 2 * huge_page_size());
	assert_int_equal(page_size_at(addr), huge_page_size());
	for (size_t i = 0; i < info.size; i += 512)
		assert_int_equal(addr[i], 0);
	memset(addr, 1, info.size);
	pages_free(addr, &info);
	assert_int_equal(page_size_at(addr), 0);
}

static void sizes_that_overflow_are_refused(void **state)
{
	struct pages_info info;

	(void)state;
	assert_null(pages_alloc(SIZE_MAX, &info));
	assert_int_equal(info.reason, EOVERFLOW);
	assert_null(pages_alloc(SIZE_MAX - huge_page_size(), &info));
	assert_int_not_equal(info.reason, 0);
}

static void a_failed_load_names_what_was_missing(void **state)
{
	struct hugetlbfs_api api;
	const char *missing = NULL;

	(void)state;
	assert_int_equal(hugetlbfs_load(&api, "libnothing-of-the-kind.so", &missing), -ENOENT);
	assert_string_equal(missing, "libnothing-of-the-kind.so");
	assert_int_equal(hugetlbfs_load(&api, "libm.so.6", &missing), -ENOENT);
	assert_string_equal(missing, "get_huge_pages");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_pages_come_from_the_table_and_go_back_to_it),
		cmocka_unit_test(without_huge_pages_there_are_base_pages_and_a_reason),
		cmocka_unit_test(small_memory_asks_for_no_huge_page),
		cmocka_unit_test(without_free_huge_pages_large_memory_says_so),
		cmocka_unit_test(with_huge_pages_reserved_libhugetlbfs_gives_them),
		cmocka_unit_test(sizes_that_overflow_are_refused),
		cmocka_unit_test(a_failed_load_names_what_was_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
