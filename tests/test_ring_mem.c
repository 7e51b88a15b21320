/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_mem.c - the memory two processes share, seen by the one that is hostile. */
#include "tests/ring_fake.h"
#include "tests/ring_pool.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static struct shared_mem create(size_t size, bool reader_only)
{
	struct shared_mem m;

	assert_int_equal(shared_mem_create(&m, "test", size, reader_only), 0);
	return m;
}

static void seals_read_back(void **state)
{
	struct shared_mem rw = create(10, false), ro = create(10, true);

	(void)state;
	assert_int_equal(fcntl(rw.fd, F_GET_SEALS) & (SEALS_SIZE | F_SEAL_FUTURE_WRITE),
			 SEALS_SIZE);
	assert_int_equal(fcntl(ro.fd, F_GET_SEALS) & (SEALS_SIZE | F_SEAL_FUTURE_WRITE),
			 SEALS_SIZE | F_SEAL_FUTURE_WRITE);
	shared_mem_destroy(&rw);
	shared_mem_destroy(&ro);
}

static void memory_is_whole_zeroed_pages_that_can_be_written(void **state)
{
	struct shared_mem m = create(page_size() + 1, true);
	uint8_t *p = m.addr;

	(void)state;
	assert_int_equal(m.size, 2 * page_size());
	for (size_t i = 0; i < m.size; i++) {
		assert_int_equal(p[i], 0);
		p[i] = 1;
	}
	shared_mem_destroy(&m);
	assert_int_equal(m.fd, -1);
	assert_null(m.addr);
}

static void nobody_can_resize_or_unseal(void **state)
{
	struct shared_mem m = create(page_size(), false);

	(void)state;
	assert_int_equal(ftruncate(m.fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(m.fd, (off_t)(2 * page_size())), -1);
	assert_int_equal(fcntl(m.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	shared_mem_destroy(&m);
}

/* Every way to write what only the engine may write. */
static void the_reader_of_reader_only_memory_cannot_write_it(void **state)
{
	struct shared_mem m = create(page_size(), true), reader;
	int fd = dup(m.fd);
	void *p;

	(void)state;
	assert_ptr_equal(mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
			 MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   (off_t)m.size), -1);
	assert_int_equal(shared_mem_map(&reader, fd, m.size, true, 0), -EPERM);
	assert_int_equal(shared_mem_map(&reader, fd, m.size, false,
					SEALS_SIZE | F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(mprotect(reader.addr, reader.size, PROT_READ | PROT_WRITE), -1);
	p = mremap(reader.addr, reader.size, reader.size, 0);
	assert_ptr_equal(p, reader.addr);
	*(uint32_t *)m.addr = 77;
	assert_int_equal(*(uint32_t *)reader.addr, 77);
	shared_mem_destroy(&reader);
	shared_mem_destroy(&m);
}

static int unsealed(size_t size, int seals)
{
	int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void a_foreign_fd_is_refused_unless_every_seal_reads_back(void **state)
{
	static const int seals[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL };
	struct shared_mem m;
	int fd;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		fd = unsealed(page_size(), SEALS_SIZE & ~seals[i]);
		assert_int_equal(shared_mem_map(&m, fd, page_size(), true, SEALS_SIZE), -EPERM);
		assert_int_equal(m.fd, -1);
		assert_int_equal(close(fd), 0);	/* still the caller's */
	}
	fd = unsealed(page_size(), SEALS_SIZE);
	assert_int_equal(shared_mem_map(&m, fd, page_size(), true, SEALS_SIZE), 0);
	shared_mem_destroy(&m);
	assert_int_equal(close(fd), -1);	/* it was taken */
}

static void a_foreign_fd_is_refused_when_it_is_too_small(void **state)
{
	int fd = unsealed(page_size(), SEALS_SIZE);
	struct shared_mem m;

	(void)state;
	assert_int_equal(shared_mem_map(&m, fd, page_size() + 1, true, SEALS_SIZE), -EINVAL);
	assert_int_equal(shared_mem_map(&m, fd, SIZE_MAX, true, SEALS_SIZE), -EINVAL);
	assert_int_equal(shared_mem_map(&m, fd, 0, true, SEALS_SIZE), -EINVAL);
	close(fd);
}

static void a_foreign_fd_is_refused_when_it_is_no_memfd(void **state)
{
	int pipes[2], fds[3];
	struct shared_mem m;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	fds[0] = pipes[0];
	fds[1] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	fds[2] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < 3; i++)
		assert_true(shared_mem_map(&m, fds[i], 4096, false, SEALS_SIZE) < 0);
	assert_int_equal(shared_mem_map(&m, -1, 4096, false, SEALS_SIZE), -EINVAL);
	for (size_t i = 0; i < 3; i++)
		close(fds[i]);
	close(pipes[1]);
}

static void impossible_sizes_fail_and_leave_nothing_open(void **state)
{
	int before = count_fds();
	struct shared_mem m;

	(void)state;
	assert_int_equal(shared_mem_create(&m, "test", 0, false), -EINVAL);
	assert_true(shared_mem_create(&m, "test", SIZE_MAX, false) < 0);
	assert_true(shared_mem_create(&m, "test", SIZE_MAX / 2, false) < 0);
	assert_int_equal(m.fd, -1);
	assert_null(m.addr);
	assert_int_equal(count_fds(), before);
}

static void its_fds_do_not_survive_exec(void **state)
{
	struct shared_mem m = create(1, false);

	(void)state;
	assert_int_equal(fcntl(m.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	shared_mem_destroy(&m);
}

static void a_forked_child_does_not_have_it_mapped(void **state)
{
	struct shared_mem m;
	int status;
	pid_t pid;

	(void)state;
	if (is_emulated())
		skip_because("madvise does nothing in an emulator: not tested\n");
	m = create(1, false);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)	/* ENOMEM: no such page */
		_exit(msync(m.addr, m.size, MS_ASYNC) == 0 || errno != ENOMEM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	shared_mem_destroy(&m);
}

/* ---- huge pages -------------------------------------------------------------- */

static void small_memory_does_not_ask_for_huge_pages(void **state)
{
	struct shared_mem m = create(huge_page_size() / 2 - 1, false);

	(void)state;
	assert_int_equal(m.page_kind, TENT_PAGE_BASE);
	assert_int_equal(m.page_reason, 0);
	shared_mem_destroy(&m);
}

static void without_huge_pages_the_reason_can_be_read_back(void **state)
{
	struct shared_mem m;

	(void)state;
	if (huge_info("HugePages_Free") > 0)
		skip_because("this machine has free huge pages: no fallback to see\n");
	m = create(huge_page_size(), true);
	assert_int_equal(m.page_kind, TENT_PAGE_BASE);
	assert_true(m.page_reason > 0);
	memset(m.addr, 1, m.size);
	shared_mem_destroy(&m);
}

static void with_huge_pages_reserved_they_are_used(void **state)
{
	struct shared_mem m, reader;
	long before = 0;

	(void)state;
	if (is_emulated())
		skip_because("an emulator maps no huge pages: not tested\n");
	if (!huge_pool_reserve(16, &before))
		skip_because("no huge pages could be reserved: not tested\n");
	m = create(huge_page_size() + 1, true);
	huge_pool_set(before);
	assert_int_equal(m.page_kind, TENT_PAGE_HUGE);
	assert_int_equal(m.page_reason, 0);
	assert_int_equal(m.size, 2 * huge_page_size());
	memset(m.addr, 1, m.size);
	assert_int_equal(shared_mem_map(&reader, dup(m.fd), m.size - 5, false,
					SEALS_SIZE | F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(reader.page_kind, TENT_PAGE_HUGE);
	assert_int_equal(reader.size, m.size);	/* whole pages of its kind */
	assert_int_equal(((uint8_t *)reader.addr)[m.size - 1], 1);
	shared_mem_destroy(&reader);
	shared_mem_destroy(&m);
}

/* A pool that is too small must say so at creation: touching the memory later would
 * be a SIGBUS. */
static void a_short_pool_falls_back_instead_of_faulting(void **state)
{
	struct shared_mem m;
	long before = 0;

	(void)state;
	if (!huge_pool_reserve(2, &before))
		skip_because("no huge pages could be reserved: not tested\n");
	m = create(((size_t)huge_info("HugePages_Free") + 8) * huge_page_size(), false);
	huge_pool_set(before);
	assert_int_equal(m.page_kind, TENT_PAGE_BASE);
	assert_true(m.page_reason > 0);
	memset(m.addr, 1, m.size);
	shared_mem_destroy(&m);
}

static void a_ring_says_which_pages_it_has_and_why(void **state)
{
	const struct tent_ring_header *h;
	struct pair p;

	(void)state;
	pair_open(&p, fake_geometry(TENT_SLOTS_MAX, TENT_SLOTS_MAX, 0, 0));
	h = tent_ring_header(p.ring);
	assert_int_equal(h->page_kind, p.host->client_mem.page_kind);
	assert_int_equal(h->page_reason, p.host->client_mem.page_reason);
	assert_true(h->page_kind == TENT_PAGE_HUGE || h->page_reason > 0);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seals_read_back),
		cmocka_unit_test(memory_is_whole_zeroed_pages_that_can_be_written),
		cmocka_unit_test(nobody_can_resize_or_unseal),
		cmocka_unit_test(the_reader_of_reader_only_memory_cannot_write_it),
		cmocka_unit_test(a_foreign_fd_is_refused_unless_every_seal_reads_back),
		cmocka_unit_test(a_foreign_fd_is_refused_when_it_is_too_small),
		cmocka_unit_test(a_foreign_fd_is_refused_when_it_is_no_memfd),
		cmocka_unit_test(impossible_sizes_fail_and_leave_nothing_open),
		cmocka_unit_test(its_fds_do_not_survive_exec),
		cmocka_unit_test(a_forked_child_does_not_have_it_mapped),
		cmocka_unit_test(small_memory_does_not_ask_for_huge_pages),
		cmocka_unit_test(without_huge_pages_the_reason_can_be_read_back),
		cmocka_unit_test(with_huge_pages_reserved_they_are_used),
		cmocka_unit_test(a_short_pool_falls_back_instead_of_faulting),
		cmocka_unit_test(a_ring_says_which_pages_it_has_and_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
