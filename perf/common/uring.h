/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uring.h - just enough io_uring, by raw syscalls, to time a NOP: the number a
 * reader knows. No liburing, so that the comparison needs no package.
 */
#ifndef TENT_PERF_URING_H
#define TENT_PERF_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uring {
	int fd;
	bool sqpoll;
	uint32_t *sq_tail, *sq_flags, *sq_array, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	void *rings;
	size_t rings_size, sqes_size;
};

/* sqpoll_core: the kernel's polling thread runs there; -1: no SQPOLL, every NOP
 * is one io_uring_enter(). 0 or -errno (-ENOSYS, -EPERM: io_uring is off). */
int uring_open(struct uring *u, int sqpoll_core);
void uring_close(struct uring *u);

/* Submits one NOP and waits for its completion; spins in SQPOLL mode. 0 or
 * -errno. */
int uring_nop(struct uring *u);

#endif /* TENT_PERF_URING_H */
