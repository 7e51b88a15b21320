/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_umem_limits.c - pinned memory where it is short, where io_uring is forbidden, and
 * in the child of a fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/tests/common/pages.h"

/* ThreadSanitizer lets no child of a process with threads make one, as a pin does. */
static void need_threads_in_children(void)
{
#if defined(__SANITIZE_THREAD__)
	skip();
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	skip();
#endif
#endif
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* As another user: root is above the limit. The ring counts too, so some room is left. */
static int pin_beyond_limit(void)
{
	struct rlimit limit = { 64 << 10, 64 << 10 };
	uint8_t *p = pages_map(64);
	struct umem *m, *n;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setuid(54321))
		return 10;
	if (umem_pin(&m, (uintptr_t)p, 8 * PAGE, true))
		return 1;
	if (umem_pin(&n, (uintptr_t)p, 64 * PAGE, true) != -ENOMEM)
		return 2;
	umem_release(m);
	return umem_pin(&m, (uintptr_t)p, 8 * PAGE, true) ? 3 : 0;
}

static void the_limit_of_locked_memory_counts(void **state)
{
	pid_t pid;

	(void)state;
	need_threads_in_children();
	pages_need_pins();
	if (getuid())
		skip();
	pid = fork();
	if (!pid)
		_exit(pin_beyond_limit());
	assert_int_equal(status_of(pid), 0);
}

static int refuse_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int pin_without_io_uring(void)
{
	uint8_t *p = pages_map(1), *q = pages_map(1), got;
	struct umem *m, *n;

	if (refuse_io_uring())
		return 10;
	if (umem_pin(&m, (uintptr_t)p, PAGE, true) || umem_pin(&n, (uintptr_t)q, PAGE, true))
		return 1;
	p[0] = 5;
	if (umem_read(m, 0, &got, 1) || got != 5)
		return 2;
	/* Nothing of it is left, but what comes there is not touched. */
	umem_range_goes(p, PAGE);
	if (umem_write(m, 0, "x", 1) != -EFAULT || p[0] != 5 || umem_write(n, 0, "x", 1))
		return 3;
	munmap(q, PAGE);
	if (umem_read(n, 0, &got, 1) != -EFAULT)
		return 4;
	umem_release(m);
	umem_release(n);
	return 0;
}

static void without_io_uring_it_works_until_pages_go(void **state)
{
	int ends[2];
	char said[1000];
	ssize_t n;
	pid_t pid;

	(void)state;
	need_threads_in_children();
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		dup2(ends[1], 2);
		_exit(pin_without_io_uring());
	}
	close(ends[1]);
	assert_int_equal(status_of(pid), 0);
	n = read(ends[0], said, sizeof(said) - 1);
	assert_true(n > 0);
	said[n] = 0;
	assert_non_null(strstr(said, "tent-hca: no io_uring"));
	assert_ptr_equal(strchr(said, '\n'), said + n - 1);	/* once */
	close(ends[0]);
}

static int use_in_child(struct umem *m, uint8_t *p)
{
	uint8_t got[4];
	struct umem *own;

	if (umem_read(m, 0, got, 1) != -EFAULT || umem_write(m, 0, got, 1) != -EFAULT)
		return 1;
	umem_range_goes(p, PAGE);
	umem_release(m);
	memcpy(p, "mine", 4);
	if (umem_pin(&own, (uintptr_t)p, PAGE, true))
		return 2;
	if (pages_pins_hold)
		munmap(p, PAGE);
	if (umem_read(own, 0, got, 4) || memcmp(got, "mine", 4))
		return 3;
	umem_release(own);
	return 0;
}

static void a_child_has_none_but_may_pin_its_own(void **state)
{
	uint8_t *p = pages_map(1), got[4];
	struct umem *m = pages_pin(p, PAGE);
	pid_t pid;

	(void)state;
	need_threads_in_children();
	memcpy(p, "ours", 4);
	pid = fork();
	if (!pid)
		_exit(use_in_child(m, p));
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(umem_read(m, 0, got, 4), 0);
	assert_memory_equal(got, "ours", 4);
	/* Copy on write must not have parted the device from the program. */
	memcpy(p, "next", 4);
	munmap(p, PAGE);
	if (pages_pins_hold) {
		assert_int_equal(umem_read(m, 0, got, 4), 0);
		assert_memory_equal(got, "next", 4);
	}
	umem_release(m);
}

static void many_pins_need_more_than_one_table(void **state)
{
	enum { NR = 20000 };
	struct umem **m = calloc(NR, sizeof(*m));
	uint8_t *p = pages_map(1), got;
	int nr = 0, rc = 0;

	(void)state;
	assert_non_null(m);
	while (nr < NR && !rc) {
		rc = umem_pin(&m[nr], (uintptr_t)p, 1, true);
		nr += !rc;
	}
	p[0] = 77;
	munmap(p, PAGE);
	if (pages_pins_hold) {
		assert_int_equal(umem_read(m[nr - 1], 0, &got, 1), 0);
		assert_int_equal(got, 77);
	}
	while (nr)
		umem_release(m[--nr]);
	free(m);
	if (rc == -ENOMEM)
		skip();		/* the limit of locked memory is too low */
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_of_locked_memory_counts),
		cmocka_unit_test(without_io_uring_it_works_until_pages_go),
		cmocka_unit_test(a_child_has_none_but_may_pin_its_own),
		cmocka_unit_test(many_pins_need_more_than_one_table),
	};

	return cmocka_run_group_tests(tests, pages_try_pins, NULL);
}
