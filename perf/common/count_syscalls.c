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

struct count {
	int marks, calls;
	long first;
};

void count_syscalls_mark(void)
{
	syscall(SYS_getppid, MARK);
}

static void look(pid_t child, struct count *c)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr == SYS_getppid && (uint32_t)info.entry.args[0] == MARK) {
		c->marks++;
	} else if (c->marks == 1) {
		if (!c->calls++)
			c->first = (long)info.entry.nr;
	}
}

/* Lets the child run from stop to stop until it exits: its status, or -errno. */
static int trace(pid_t child, struct count *c)
{
	int status, pass = 0;

	while (ptrace(PTRACE_SYSCALL, child, 0, pass) == 0 && waitpid(child, &status, 0) == child) {
		if (WIFEXITED(status))
			return WEXITSTATUS(status) ? -ECHILD : 0;
		if (WIFSIGNALED(status))
			return -ECHILD;
		pass = WSTOPSIG(status);
		if (pass != (SIGTRAP | 0x80))
			continue;
		look(child, c);
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

int count_syscalls(int (*body)(void *arg), void *arg, long *first)
{
	struct count c = { .first = -1 };
	int status, rc;
	pid_t child;

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
	rc = trace(child, &c);
	*first = c.first;
	if (rc)
		return rc;
	return c.marks == 2 ? c.calls : -ECHILD;
}
