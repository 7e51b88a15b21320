/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_uring.c - kernel rings: tables, counts of system calls, and the sentence that
 * says why there is none. A seccomp filter plays the container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/uring.h"

static const struct kring_options plain = { .entries = 8, .files = 4, .buffers = 4,
					    .event_fd = -1 };

static void open_ring(struct kring *k, const struct kring_options *o)
{
	char why[256] = "";

	if (kring_open(k, o, why, sizeof(why)))
		fail_msg("%s", why);
}

struct end { uint64_t user_data; int res; };

static struct end wait_one(struct kring *k)
{
	struct io_uring_cqe *cqe;
	struct end end;

	while (!(cqe = kring_peek(k)))
		;
	end = (struct end){ cqe->user_data, cqe->res };
	kring_seen(k);
	return end;
}

static void one_enter_submits_all_that_was_prepared(void **state)
{
	struct kring k;

	(void)state;
	open_ring(&k, &plain);
	for (uint64_t i = 0; i < 8; i++) {
		struct io_uring_sqe *sqe = kring_entry(&k);

		assert_non_null(sqe);
		io_uring_prep_nop(sqe);
		sqe->user_data = i;
	}
	assert_null(kring_entry(&k));
	assert_int_equal(k.enters, 0);
	kring_submit(&k);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(wait_one(&k).user_data, i);
	assert_null(kring_peek(&k));
	assert_int_equal(k.enters, 1);
	assert_int_equal(k.submitted, 8);
	kring_close(&k);
}

static void registered_files_and_buffers_are_read_into(void **state)
{
	int fd = memfd_create("file", MFD_CLOEXEC), pipe_fds[2];
	static uint8_t buffer[8192];
	struct io_uring_sqe *sqe;
	struct end end;
	struct kring k;

	(void)state;
	assert_int_equal(pwrite(fd, "0123456789", 10, 4096), 10);
	open_ring(&k, &plain);
	assert_true(k.has_files && k.has_buffers);
	assert_int_equal(kring_set_file(&k, 3, fd), 0);
	assert_int_equal(kring_set_buffer(&k, 2, buffer, sizeof(buffer)), 0);
	close(fd);	/* the table holds it */
	sqe = kring_entry(&k);
	io_uring_prep_read_fixed(sqe, 3, buffer + 100, 8, 4097, 2);
	sqe->flags |= IOSQE_FIXED_FILE;
	kring_submit(&k);
	assert_int_equal(wait_one(&k).res, 8);
	assert_memory_equal(buffer + 100, "12345678", 8);

	assert_int_equal(kring_set_file(&k, 3, -1), 0);
	sqe = kring_entry(&k);
	io_uring_prep_read(sqe, 3, buffer, 8, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	kring_submit(&k);
	assert_int_equal(wait_one(&k).res, -EBADF);

	assert_int_equal(kring_set_buffer(&k, 2, NULL, 0), 0);
	assert_int_equal(pipe(pipe_fds), 0);
	sqe = kring_entry(&k);
	io_uring_prep_read_fixed(sqe, pipe_fds[0], buffer, 8, 0, 2);
	kring_submit(&k);
	end = wait_one(&k);
	assert_int_equal(end.res, -EFAULT);
	assert_int_equal(kring_set_file(&k, 4, pipe_fds[0]), -EINVAL);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	kring_close(&k);
}

static void a_completion_writes_the_eventfd(void **state)
{
	struct kring_options o = plain;
	uint64_t count = 0;
	struct kring k;

	(void)state;
	o.event_fd = eventfd(0, EFD_CLOEXEC);
	open_ring(&k, &o);
	io_uring_prep_nop(kring_entry(&k));
	kring_submit(&k);
	assert_int_equal(read(o.event_fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	wait_one(&k);
	kring_close(&k);
	close(o.event_fd);
}

static void a_polling_thread_needs_no_enter_while_it_is_awake(void **state)
{
	struct kring_options o = plain;
	struct kring k;

	(void)state;
	o.sqpoll_ms = 60000;
	open_ring(&k, &o);
	for (uint64_t i = 0; i < 100; i++) {
		io_uring_prep_nop(kring_entry(&k));
		kring_submit(&k);
		wait_one(&k);
	}
	assert_true(k.enters <= 1);	/* it begins asleep on some kernels */
	kring_close(&k);
}

static void an_operation_that_is_missing_is_named(void **state)
{
	static const uint8_t ops[] = { IORING_OP_READ, 250, 0 };
	static const uint8_t known[] = { IORING_OP_READ, IORING_OP_WRITE, 0 };
	char why[256] = "";

	(void)state;
	assert_int_equal(kring_probe(known, why, sizeof(why)), 0);
	assert_string_equal(why, "");
	assert_int_equal(kring_probe(ops, why, sizeof(why)), -EOPNOTSUPP);
	assert_string_equal(why, "io_uring of this kernel lacks operation 250");
}

/* io_uring_setup() fails with this errno from now on. */
static int forbid(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void refused_as(int error, const char *sentence)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		char why[256] = "";

		if (forbid(error))
			_exit(2);
		_exit(kring_probe(NULL, why, sizeof(why)) != -error || !strstr(why, sentence));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_container_that_forbids_it_is_told_of(void **state)
{
	(void)state;
	refused_as(EPERM, "a seccomp filter or a security module refuses it");
	refused_as(ENOSYS, "not in this kernel, or a seccomp filter hides it");
	refused_as(ENOMEM, "RLIMIT_MEMLOCK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_enter_submits_all_that_was_prepared),
		cmocka_unit_test(registered_files_and_buffers_are_read_into),
		cmocka_unit_test(a_completion_writes_the_eventfd),
		cmocka_unit_test(a_polling_thread_needs_no_enter_while_it_is_awake),
		cmocka_unit_test(an_operation_that_is_missing_is_named),
		cmocka_unit_test(a_container_that_forbids_it_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
