/* SPDX-License-Identifier: Apache-2.0 */
/* count_syscalls.h - how many system calls a piece of code makes, by ptrace. */
#ifndef TENT_PERF_COUNT_SYSCALLS_H
#define TENT_PERF_COUNT_SYSCALLS_H

/* Brackets the piece of code; a system call that nobody else makes so. */
void count_syscalls_mark(void);

struct syscall_count {
	int all;
	int waits;	/* poll, futex, membarrier, yield: no answer for long */
	long first;	/* number of the first that is no wait, or -1 */
};

/*
 * Runs body(arg) in a child whose first thread is traced, and counts the system
 * calls of that thread between the first and the second mark. The child's exit
 * status must be 0. 0 or -errno.
 */
int count_syscalls(int (*body)(void *arg), void *arg, struct syscall_count *c);

#endif /* TENT_PERF_COUNT_SYSCALLS_H */
