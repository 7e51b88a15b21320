/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_pages.c - pages that are not there: huge ones that nobody can replace,
 * private ones that were unmapped, that fault to a userfaultfd, or that never arrive.
 * tentd is real, and two honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
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
#include <tent/rules.h>

#include "ring/order.h"
#include "tests/common/foe.h"
#include "tests/common/stuck_page.h"

#define HUGE	(2u << 20)

static int setup(void **state)
{
	(void)state;
	arena_start(&arena, (const char *const[]){ "-o", "engine/pollers=2", NULL });
	return 0;
}

static void need_fault(struct tent_completion c)
{
	need(c.status == TENT_STATUS_FAILED);
	need(c.error == TENT_ERR_RUNTIME);
	need(c.rule == TENT_RULE_COPY_FAULT);
}

/* ---- holes in huge pages: SIGBUS --------------------------------------------------- */

#define POOL "/proc/sys/vm/nr_hugepages"

/* How many huge pages the machine has reserved; -1 where it can have none. */
static long huge_pages(void)
{
	FILE *f = fopen(POOL, "re");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void huge_pages_reserve(long n)
{
	FILE *f = fopen(POOL, "we");

	if (f) {
		fprintf(f, "%ld", n);
		fclose(f);
	}
}

/* Takes every huge page that is left, one by one: a mapping that cannot be filled
 * would kill us. */
static void hog_huge_pages(void)
{
	while (mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0) !=
	       MAP_FAILED)
		;
}

/* Takes the page back and leaves no other one in the pool; unless somebody else on
 * this machine gives one back meanwhile, hence callers repeat it. */
static void punch_huge(int fd, off_t at)
{
	need(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, HUGE) == 0);
	hog_huge_pages();
	sched_yield();
}

/* The registered page goes away and there is no other one: tentd's copy faults. */
static int attack_huge_memory(struct arena *a, void *arg)
{
	int fd = foe_memfd(MFD_HUGETLB, 2 * HUGE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	struct foe f;
	uint8_t *p;

	(void)arg;
	foe_open(&f, a);
	p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(p != MAP_FAILED);
	need(raw_register(&f.raw, TENT_MEM_FD, p, 2 * HUGE, 0, fd, 0,
			  TENT_PERM_GLOBAL_READ_WRITE) == 0);
	need(foe_copy(&f, TENT_OPCODE_WRITE, p + HUGE, 4096).status == TENT_STATUS_COMPLETED);
	/* The first copies may end before their owner is condemned. */
	while (!raw_end_rule(&f.ring)) {
		punch_huge(fd, HUGE);
		foe_copy(&f, TENT_OPCODE_WRITE, p + HUGE, 65536);
	}
	need(raw_end_rule(&f.ring) == TENT_RULE_RING_MAPPING);
	return 0;
}

/* The same with the slots of the ring. */
static int attack_huge_ring(struct arena *a, void *arg)
{
	struct raw_ring ring;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	need(raw_ring_open(&f.raw, 16384, &ring) == 0);
	need(ring.h.page_kind == TENT_PAGE_HUGE);
	while (!raw_end_rule(&ring))
		punch_huge(ring.client_fd, 0);
	need(raw_end_rule(&ring) == TENT_RULE_RING_MAPPING);
	return 0;
}

/* Reserves huge pages for one attack and gives them back. */
static void with_huge_pages(int (*attack)(struct arena *, void *))
{
	long before = huge_pages();
	int rc;

	huge_pages_reserve(before + 8);
	if (before < 0 || huge_pages() < before + 8) {
		huge_pages_reserve(before);
		print_message("this machine reserves no huge pages: not run\n");
		skip();
	}
	rc = arena_attack(&arena, attack, NULL, 0);
	huge_pages_reserve(before);
	assert_int_equal(rc, 0);
	arena_check(&arena);
}

static void a_huge_page_taken_from_registered_memory_ends_its_owner_only(void **state)
{
	(void)state;
	with_huge_pages(attack_huge_memory);
}

static void a_huge_page_taken_from_a_ring_ends_its_owner_only(void **state)
{
	(void)state;
	with_huge_pages(attack_huge_ring);
}

/* ---- private memory ------------------------------------------------------------------ */

static bool is_mapped(const void *at)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char byte;
	bool mapped = pread(fd, &byte, 1, (off_t)(uintptr_t)at) == 1;

	close(fd);
	return mapped;
}

static int attack_private_holes(struct arena *a, void *arg)
{
	static const uint64_t wild[] = { 0, 4096, 1ull << 46, (1ull << 47) - 4096, 1ull << 47,
					 1ull << 63, 0xffffffff81000000ull,
					 UINT64_MAX - 8191 };
	struct foe f;
	uint8_t *p;

	(void)arg;
	foe_open(&f, a);
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(p != MAP_FAILED);
	need(raw_register(&f.raw, TENT_MEM_PRIVATE, p, 65536, 0, -1, 0, 2) == 0);
	need(foe_copy(&f, TENT_OPCODE_WRITE, p, 65536).status == TENT_STATUS_COMPLETED);
	munmap(p + 8192, 4096);
	need_fault(foe_copy(&f, TENT_OPCODE_WRITE, p, 65536));
	need_fault(foe_copy(&f, TENT_OPCODE_READ, p, 65536));
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		const void *at = (const void *)(uintptr_t)wild[i];

		if (raw_register(&f.raw, TENT_MEM_PRIVATE, at, 4096, 0, -1, 0, 2))
			continue;	/* refused is as well */
		if (is_mapped(at))
			continue;	/* a sanitizer's shadow may be anywhere */
		need_fault(foe_copy(&f, TENT_OPCODE_READ, at, 4096));
		need_fault(foe_copy(&f, TENT_OPCODE_WRITE, at, 4096));
	}
	return 0;
}

static void private_memory_that_is_not_there_fails_its_own_requests(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_private_holes, NULL, 0), 0);
	arena_check(&arena);
}

static int attack_userfault(struct arena *a, void *arg)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	uint8_t *p = mmap(NULL, FOE_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct uffdio_register r = { .range = { (uintptr_t)p, FOE_MEMORY },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct foe f;

	(void)arg;
	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	need(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
	foe_open(&f, a);
	need(raw_register(&f.raw, TENT_MEM_PRIVATE, p, FOE_MEMORY, 0, -1, 0, 2) == 0);
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		raw_request(&f.ring, i, i & 1, f.memory.addr, 0, (uintptr_t)p + i * 4096, 4096);
	raw_publish(&f.ring, FOE_SLOTS);
	arena_witness(a, 100);
	return 0;
}

static void userfaultfd_pages_in_private_memory_hold_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_userfault, NULL, 0), 0);
	arena_check(&arena);
}

/* The client's own view of shared memory faults; tentd's does not. */
static int attack_userfault_shared(struct arena *a, void *arg)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct foe f;
	struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	uint64_t page;

	(void)arg;
	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	foe_open(&f, a);
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		raw_request(&f.ring, i, 1, f.memory.addr, 0,
			    (uintptr_t)f.memory.addr + FOE_MEMORY / 2, FOE_MEMORY / 2);
	raw_publish(&f.ring, FOE_SLOTS);
	r.range = (struct uffdio_range){ (uintptr_t)f.memory.addr, f.memory.length };
	need(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
	need(fallocate(f.memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		       (off_t)r.range.len) == 0);
	page = f.ring.h.page_kind == TENT_PAGE_HUGE ? HUGE : 4096;
	r.range = (struct uffdio_range){ (uintptr_t)f.ring.client,
					 (f.ring.h.client_size + page - 1) & ~(page - 1) };
	need(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
	need(fallocate(f.ring.client_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		       (off_t)r.range.len) == 0);
	arena_witness(a, 100);
	return 0;
}

static void userfaultfd_pages_in_shared_memory_hold_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_userfault_shared, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- pages that never arrive ----------------------------------------------------------- */

static struct stuck_board *stuck;

/* Reads and writes on a page that sticks, as many as the ring takes; then waits. */
static void attack_stuck(void *page, void *arg)
{
	struct foe f;

	foe_open(&f, arg);
	need(raw_register(&f.raw, TENT_MEM_PRIVATE, page, 4096, 0, -1, 0, 2) == 0);
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		raw_request(&f.ring, i, i & 1, f.memory.addr, 0, (uintptr_t)page, 4096);
	raw_publish(&f.ring, FOE_SLOTS);
	for (;;)
		pause();
}

/* The worker sits in the page, first of a live client, then of a dead one. */
static void a_page_that_never_arrives_holds_up_its_owner_only(void **state)
{
	pid_t server;

	(void)state;
	stuck = mmap(NULL, sizeof(*stuck), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	server = stuck_page_start(stuck, attack_stuck, &arena);
	if (server < 0) {
		print_message("this machine has no /dev/fuse: not run\n");
		skip();
	}
	while (!load_acquire(&stuck->reads))
		sched_yield();
	arena_honest_rounds(&arena, 200);
	kill(stuck->attacker, SIGKILL);
	while (arena_clients(&arena) != arena.base_clients)
		sched_yield();
	arena_honest_rounds(&arena, 200);
	kill(server, SIGKILL);	/* the page fails, the worker comes back */
	arena_wait(server);
	munmap(stuck, sizeof(*stuck));
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_huge_page_taken_from_registered_memory_ends_its_owner_only),
		cmocka_unit_test(a_huge_page_taken_from_a_ring_ends_its_owner_only),
		cmocka_unit_test(private_memory_that_is_not_there_fails_its_own_requests),
		cmocka_unit_test(userfaultfd_pages_in_private_memory_hold_nobody_up),
		cmocka_unit_test(userfaultfd_pages_in_shared_memory_hold_nobody_up),
		cmocka_unit_test(a_page_that_never_arrives_holds_up_its_owner_only),
	};

	return cmocka_run_group_tests(tests, setup, arena_teardown);
}
