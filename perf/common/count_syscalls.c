/* SPDX-License-Identifier: Apache-2.0 */
/* count_syscalls.c - a tracer that knows when to count. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/common/count_syscalls.h"
#include "ring/clock.h"

static bool is_wait(uint64_t nr)
{
#ifdef SYS_poll
	if (nr == SYS_poll)
		return true;
#endif
	return nr == SYS_ppoll || nr == SYS_futex || nr == SYS_membarrier ||
	       nr == SYS_sched_yield;
}

/* The child stands still: now is no earlier than its call. */
static void look(pid_t child, uint64_t patience_ns, struct syscall_count *c)
{
	struct __ptrace_syscall_info info;

	if (!c->since_ns || ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (is_wait(info.entry.nr)) {
		c->waits++;
		c->early += clock_monotonic_ns() - c->since_ns < patience_ns;
	} else {
		c->others++;
		if (c->first < 0)
			c->first = (long)info.entry.nr;
	}
}

/* Lets the child run from stop to stop until it exits: 0 or -errno. */
static int trace(pid_t child, uint64_t patience_ns, struct syscall_count *c)
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
		look(child, patience_ns, c);
		pass = 0;
	}
	return -errno;
}

static int run_traced(int (*body)(void *arg, struct syscall_count *c), void *arg,
		      struct syscall_count *c)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return 127;
	raise(SIGSTOP);		/* the tracer sets its options */
	return body(arg, c);
}

static int count(int (*body)(void *arg, struct syscall_count *c), void *arg,
		 uint64_t patience_ns, struct syscall_count *c)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		_exit(run_traced(body, arg, c));
	if (waitpid(child, &status, 0) != child)
		return -errno;
	if (!WIFSTOPPED(status))
		return -EPERM;	/* not allowed to be traced */
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return trace(child, patience_ns, c);
}

int count_syscalls(int (*body)(void *arg, struct syscall_count *c), void *arg,
		   uint64_t patience_ns, struct syscall_count *c)
{
	struct syscall_count *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int rc;

	*c = (struct syscall_count) { .first = -1 };
	if (shared == MAP_FAILED)
		return -errno;
	*shared = *c;
	rc = count(body, arg, patience_ns, shared);
	*c = *shared;
	munmap(shared, sizeof(*shared));
	return rc;
}
