/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c - one NOP at a time through io_uring, by enter or by SQPOLL. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/common/uring.h"
#include "ring/order.h"

#define URING_ENTRIES 64
#define URING_IDLE_MS 1000	/* the polling thread never sleeps in mid-run */

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static int map_rings(struct uring *u, const struct io_uring_params *p)
{
	uint8_t *at;

	u->rings_size = max_size(p->sq_off.array + p->sq_entries * sizeof(uint32_t),
				 p->cq_off.cqes + p->cq_entries * sizeof(*u->cqes));
	u->rings = mmap(NULL, u->rings_size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_SQ_RING);
	if (u->rings == MAP_FAILED)
		return -errno;
	at = u->rings;
	u->sq_tail = (uint32_t *)(at + p->sq_off.tail);
	u->sq_flags = (uint32_t *)(at + p->sq_off.flags);
	u->sq_array = (uint32_t *)(at + p->sq_off.array);
	u->sq_mask = *(uint32_t *)(at + p->sq_off.ring_mask);
	u->cq_head = (uint32_t *)(at + p->cq_off.head);
	u->cq_tail = (uint32_t *)(at + p->cq_off.tail);
	u->cq_mask = *(uint32_t *)(at + p->cq_off.ring_mask);
	u->cqes = (struct io_uring_cqe *)(at + p->cq_off.cqes);
	return 0;
}

static int map_sqes(struct uring *u, const struct io_uring_params *p)
{
	u->sqes_size = p->sq_entries * sizeof(*u->sqes);
	u->sqes = mmap(NULL, u->sqes_size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_SQES);
	return u->sqes == MAP_FAILED ? -errno : 0;
}

int uring_open(struct uring *u, int sqpoll_core)
{
	struct io_uring_params p = { 0 };
	int rc;

	*u = (struct uring) { .sqpoll = sqpoll_core >= 0, .rings = MAP_FAILED,
			      .sqes = MAP_FAILED };
	if (u->sqpoll) {
		p.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
		p.sq_thread_cpu = (uint32_t)sqpoll_core;
		p.sq_thread_idle = URING_IDLE_MS;
	}
	u->fd = (int)syscall(__NR_io_uring_setup, URING_ENTRIES, &p);
	if (u->fd < 0)
		return -errno;
	rc = p.features & IORING_FEAT_SINGLE_MMAP ? map_rings(u, &p) : -ENOSYS;
	if (!rc)
		rc = map_sqes(u, &p);
	if (rc)
		uring_close(u);
	else if (u->sqpoll)	/* its thread starts here and moves to its core */
		usleep(1000);
	return rc;
}

void uring_close(struct uring *u)
{
	if (u->sqes != MAP_FAILED)
		munmap(u->sqes, u->sqes_size);
	if (u->rings != MAP_FAILED)
		munmap(u->rings, u->rings_size);
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

static int enter(struct uring *u, unsigned int submit, unsigned int wait, unsigned int flags)
{
	return syscall(__NR_io_uring_enter, u->fd, submit, wait, flags, NULL, 0) < 0 ?
	       -errno : 0;
}

/* Tells the kernel of the entry. The full fence is io_uring's own protocol: its
 * polling thread sets NEED_WAKEUP and looks at the tail again. */
static int submit(struct uring *u)
{
	if (!u->sqpoll)
		return enter(u, 1, 1, IORING_ENTER_GETEVENTS);
	full_fence();
	if (load_relaxed(u->sq_flags) & IORING_SQ_NEED_WAKEUP)
		return enter(u, 0, 0, IORING_ENTER_SQ_WAKEUP);
	return 0;
}

int uring_nop(struct uring *u)
{
	uint32_t tail = *u->sq_tail, head = *u->cq_head;
	struct io_uring_sqe *sqe = &u->sqes[tail & u->sq_mask];
	int rc;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_NOP;
	u->sq_array[tail & u->sq_mask] = tail & u->sq_mask;
	store_release(u->sq_tail, tail + 1);	/* pairs with the kernel's load */
	rc = submit(u);
	if (rc)
		return rc;
	while (load_acquire(u->cq_tail) == head)	/* pairs with the kernel's store */
		;
	rc = u->cqes[head & u->cq_mask].res;
	store_release(u->cq_head, head + 1);
	return rc < 0 ? rc : 0;
}
