/* SPDX-License-Identifier: Apache-2.0 */
/* count_syscalls.h - which system calls a piece of code makes, by ptrace. */
#ifndef TENT_PERF_COUNT_SYSCALLS_H
#define TENT_PERF_COUNT_SYSCALLS_H

#include <stdint.h>

/* Shared by who counts and whom it counts, who is stopped while it is written. */
struct syscall_count {
	uint64_t since_ns;	/* CLOCK_MONOTONIC, of who is counted: 0, it is not now */
	uint32_t waits;		/* poll, futex, membarrier, yield */
	uint32_t early;		/* of these, less than patience_ns after since_ns */
	uint32_t others;
	long first;		/* number of the first other, or -1 */
	uint32_t free, held_up;	/* of who is counted: pieces without any, and with waits */
};

/*
 * Runs body(arg, c) in a child whose first thread is traced, and counts the system
 * calls of that thread while c->since_ns is set: it says since when there is
 * something to wait for. 0 or -errno; -ECHILD where body does not return 0.
 */
int count_syscalls(int (*body)(void *arg, struct syscall_count *c), void *arg,
		   uint64_t patience_ns, struct syscall_count *c);

#endif /* TENT_PERF_COUNT_SYSCALLS_H */
