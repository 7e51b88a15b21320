/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_sigbus.c - memory whose owner took it away is survived, and told. */
#include "tests/ring_fake.h"
#include "tests/ring_pool.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "ring/sigbus.h"

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Pages of a file without the file's bytes: touching them is a SIGBUS. */
static uint8_t *map_void(size_t pages, int *fd)
{
	size_t size = pages * page_size();
	uint8_t *p;

	*fd = memfd_create("void", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(ftruncate(*fd, (off_t)size), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 0x5a, size);
	assert_int_equal(ftruncate(*fd, 0), 0);
	return p;
}

/* qemu-user reports the address of its own mapping where that is not the guest's. */
#define skip_where_faults_lie()							\
	do {									\
		if (sizeof(void *) == 4 && is_emulated())			\
			skip_because("fault addresses are the emulator's: not tested\n"); \
	} while (0)

static uint8_t read_byte(const uint8_t *p)
{
	return *(const volatile uint8_t *)p;
}

static void write_byte(uint8_t *p, uint8_t value)
{
	*(volatile uint8_t *)p = value;
}

static void a_fault_reads_zeroes_and_condemns_the_owner(void **state)
{
	size_t page = page_size();
	uint32_t condemned = 0, other = 0;
	int fd, other_fd;
	uint8_t *p, *q;

	(void)state;
	skip_where_faults_lie();
	p = map_void(4, &fd);
	q = map_void(1, &other_fd);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(sigbus_guard(p, 4 * page, page, &condemned), 0);
	assert_int_equal(sigbus_guard(q, page, page, &other), 0);
	errno = 77;
	assert_int_equal(read_byte(p + page + 5), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(condemned, 1);
	assert_int_equal(other, 0);
	write_byte(p + page + 5, 9);
	assert_int_equal(read_byte(p + page + 5), 9);
	condemned = 0;
	write_byte(p + 3 * page, 1);	/* the other pages fault on their own */
	assert_int_equal(condemned, 1);
	assert_int_equal(read_byte(p), 0);
	sigbus_unguard(p);
	sigbus_unguard(q);
	sigbus_uninstall();
	munmap(p, 4 * page);
	munmap(q, page);
	close(fd);
	close(other_fd);
}

/* The file grew again: what its owner writes now is not seen, the page is private. */
static void the_page_over_the_hole_is_private(void **state)
{
	uint32_t condemned = 0;
	uint8_t byte = 1, *p;
	int fd;

	(void)state;
	skip_where_faults_lie();
	p = map_void(1, &fd);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(sigbus_guard(p, page_size(), page_size(), &condemned), 0);
	assert_int_equal(read_byte(p), 0);
	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	assert_int_equal(read_byte(p), 0);
	write_byte(p, 2);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 1);
	sigbus_unguard(p);
	sigbus_uninstall();
	munmap(p, page_size());
	close(fd);
}

struct crowd {
	uint8_t *p;
	size_t pages;
};

static void *touch_all(void *arg)
{
	const struct crowd *c = arg;
	uintptr_t sum = 0;

	for (size_t i = 0; i < c->pages; i++)
		sum += read_byte(c->p + i * page_size());
	return (void *)sum;
}

/* The table is read by handlers while it changes. */
static void threads_may_fault_while_guards_come_and_go(void **state)
{
	struct crowd c = { .pages = 256 };
	uint32_t condemned = 0, others[64];
	pthread_t threads[4];
	void *sum;
	int fd;

	(void)state;
	skip_where_faults_lie();
	c.p = map_void(c.pages, &fd);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(sigbus_guard(c.p, c.pages * page_size(), page_size(), &condemned), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, touch_all, &c), 0);
	for (uintptr_t i = 0; i < 20000; i++) {
		void *addr = (void *)((i % 64 + 1) * page_size());

		assert_int_equal(sigbus_guard(addr, page_size(), page_size(), &others[i % 64]),
				 0);
		sigbus_unguard(addr);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &sum);
		assert_null(sum);
	}
	assert_int_equal(load_acquire(&condemned), 1);
	sigbus_unguard(c.p);
	sigbus_uninstall();
	munmap(c.p, c.pages * page_size());
	close(fd);
}

/* ---- what is not ours goes on to whoever had SIGBUS before ------------------------ */

static volatile sig_atomic_t before_calls;
static sigjmp_buf before_out;

static void before_handler(int sig)
{
	(void)sig;
	before_calls++;
	siglongjmp(before_out, 1);
}

static void before_action(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code > 0 || info->si_signo != sig)
		before_calls = 100;
	before_calls++;
}

static void a_fault_elsewhere_goes_to_the_handler_before(void **state)
{
	struct sigaction before = { .sa_handler = before_handler }, old;
	int fd;
	uint8_t *p = map_void(1, &fd);

	(void)state;
	before_calls = 0;
	sigaction(SIGBUS, &before, &old);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(sigbus_install(), -EALREADY);
	if (!sigsetjmp(before_out, 1))
		read_byte(p);
	assert_int_equal(before_calls, 1);
	sigbus_uninstall();
	if (!sigsetjmp(before_out, 1))	/* and it has it back */
		read_byte(p);
	assert_int_equal(before_calls, 2);
	sigaction(SIGBUS, &old, NULL);
	munmap(p, page_size());
	close(fd);
}

static void a_sent_signal_goes_to_the_handler_before(void **state)
{
	struct sigaction before = { .sa_sigaction = before_action, .sa_flags = SA_SIGINFO };
	struct sigaction old;

	(void)state;
	before_calls = 0;
	sigaction(SIGBUS, &before, &old);
	assert_int_equal(sigbus_install(), 0);
	raise(SIGBUS);
	assert_int_equal(before_calls, 1);
	sigbus_uninstall();
	sigaction(SIGBUS, &old, NULL);
}

/* How a child ends that does this with the default action underneath. */
static int fate_of(void (*what)(uint8_t *), void (*disposition)(int), uint8_t *p)
{
	const struct rlimit no_core = { 0, 0 };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGBUS, disposition);
		if (sigbus_install() < 0)
			_exit(1);
		what(p);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void fault(uint8_t *p)
{
	read_byte(p);
}

static void send_one(uint8_t *p)
{
	(void)p;
	raise(SIGBUS);
}

static void without_a_handler_before_it_kills_as_ever(void **state)
{
	int fd, status;
	uint8_t *p = map_void(1, &fd);

	(void)state;
	status = fate_of(fault, SIG_DFL, p);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = fate_of(fault, SIG_IGN, p);	/* a fault cannot be ignored */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = fate_of(send_one, SIG_DFL, p);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = fate_of(send_one, SIG_IGN, p);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	munmap(p, page_size());
	close(fd);
}

static void guarded_no_more(uint8_t *p)
{
	static uint32_t condemned;

	sigbus_guard(p, page_size(), page_size(), &condemned);
	sigbus_unguard(p);
	read_byte(p);
}

static void an_ended_guard_contains_nothing(void **state)
{
	int fd, status;
	uint8_t *p = map_void(1, &fd);

	(void)state;
	status = fate_of(guarded_no_more, SIG_DFL, p);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	munmap(p, page_size());
	close(fd);
}

/* ---- the table ------------------------------------------------------------------ */

static void a_guard_needs_whole_pages(void **state)
{
	uint32_t condemned;
	char *p = (char *)(16 * page_size());

	(void)state;
	assert_int_equal(sigbus_guard(p, 0, page_size(), &condemned), -EINVAL);
	assert_int_equal(sigbus_guard(p + 1, page_size(), page_size(), &condemned), -EINVAL);
	assert_int_equal(sigbus_guard(p, page_size() + 1, page_size(), &condemned), -EINVAL);
	assert_int_equal(sigbus_guard(p, page_size(), 0, &condemned), -EINVAL);
	assert_int_equal(sigbus_guard(p, 6144, 3072, &condemned), -EINVAL);
	sigbus_unguard(p);	/* unknown: nothing happens */
}

static void a_full_table_refuses_and_forgets_nothing(void **state)
{
	uint32_t condemned;
	uintptr_t page = page_size();

	(void)state;
	for (uintptr_t i = 1; i <= SIGBUS_RANGES_MAX; i++)
		assert_int_equal(sigbus_guard((void *)(i * page), page, page, &condemned), 0);
	assert_int_equal(sigbus_guard((void *)page, page, page, &condemned), -ENOSPC);
	sigbus_unguard((void *)(5 * page));
	assert_int_equal(sigbus_guard((void *)(5 * page), page, page, &condemned), 0);
	assert_int_equal(sigbus_guard((void *)page, page, page, &condemned), -ENOSPC);
	for (uintptr_t i = 1; i <= SIGBUS_RANGES_MAX; i++)
		sigbus_unguard((void *)(i * page));
}

/* The real case: a sealed huge page that its owner punched out, and no other left. */
static void a_punched_huge_page_is_contained(void **state)
{
	struct shared_mem m;
	uint32_t condemned = 0;
	long before = 0;

	(void)state;
	if (huge_info("HugePages_Total") || !huge_pool_reserve(2, &before))
		skip_because("the pool of huge pages is not ours to size: not tested\n");
	assert_int_equal(shared_mem_create(&m, "huge", 2 * huge_page_size(), false), 0);
	huge_pool_set(before);
	if (m.page_kind != TENT_PAGE_HUGE) {
		shared_mem_destroy(&m);
		skip_because("somebody else took the huge pages: not tested\n");
	}
	memset(m.addr, 0x5a, m.size);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(sigbus_guard_mem(&m, &condemned), 0);
	assert_int_equal(fallocate(m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   (off_t)huge_page_size()), 0);
	assert_int_equal(read_byte((uint8_t *)m.addr + 12345), 0);
	assert_int_equal(condemned, 1);
	assert_int_equal(read_byte((uint8_t *)m.addr + huge_page_size()), 0x5a);
	sigbus_unguard(m.addr);
	sigbus_uninstall();
	shared_mem_destroy(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_reads_zeroes_and_condemns_the_owner),
		cmocka_unit_test(the_page_over_the_hole_is_private),
		cmocka_unit_test(threads_may_fault_while_guards_come_and_go),
		cmocka_unit_test(a_fault_elsewhere_goes_to_the_handler_before),
		cmocka_unit_test(a_sent_signal_goes_to_the_handler_before),
		cmocka_unit_test(without_a_handler_before_it_kills_as_ever),
		cmocka_unit_test(an_ended_guard_contains_nothing),
		cmocka_unit_test(a_guard_needs_whole_pages),
		cmocka_unit_test(a_full_table_refuses_and_forgets_nothing),
		cmocka_unit_test(a_punched_huge_page_is_contained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
