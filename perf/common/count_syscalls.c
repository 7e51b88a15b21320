/* SPDX-License-Identifier: Apache-2.0 */
/* count_syscalls.c - a tracer that knows two marks. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/common/count_syscalls.h"

#define MARK 0x74656e74u	/* an argument that getppid() ignores */

void count_syscalls_mark(void)
{
	syscall(SYS_getppid, MARK);
}

static bool is_wait(uint64_t nr)
{
#ifdef SYS_poll
	if (nr == SYS_poll)
		return true;
#endif
	return nr == SYS_ppoll || nr == SYS_futex || nr == SYS_membarrier ||
	       nr == SYS_sched_yield;
}

static void look(pid_t child, struct syscall_count *c, int *marks)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr == SYS_getppid && (uint32_t)info.entry.args[0] == MARK) {
		++*marks;
		return;
	}
	if (*marks != 1)
		return;
	c->all++;
	if (is_wait(info.entry.nr))
		c->waits++;
	else if (c->first < 0)
		c->first = (long)info.entry.nr;
}

/* Lets the child run from stop to stop until it exits: its status, or -errno. */
static int trace(pid_t child, struct syscall_count *c)
{
	int status, pass = 0, marks = 0;

	while (ptrace(PTRACE_SYSCALL, child, 0, pass) == 0 && waitpid(child, &status, 0) == child) {
		if (WIFEXITED(status))
			return WEXITSTATUS(status) || marks != 2 ? -ECHILD : 0;
		if (WIFSIGNALED(status))
			return -ECHILD;
		pass = WSTOPSIG(status);
		if (pass != (SIGTRAP | 0x80))
			continue;
		look(child, c, &marks);
		pass = 0;
	}
	return -errno;
}

static int start(int (*body)(void *arg), void *arg)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return 127;
	raise(SIGSTOP);		/* the tracer sets its options */
	return body(arg);
}

int count_syscalls(int (*body)(void *arg), void *arg, struct syscall_count *c)
{
	pid_t child;
	int status;

	*c = (struct syscall_count) { .first = -1 };
	fflush(NULL);
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		_exit(start(body, arg));
	if (waitpid(child, &status, 0) != child)
		return -errno;
	if (!WIFSTOPPED(status))
		return -EPERM;	/* not allowed to be traced */
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return trace(child, c);
}
