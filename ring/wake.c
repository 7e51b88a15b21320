/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c - the system calls behind sleeping and waking, each in one place. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ring/order.h"
#include "ring/wake.h"

/* The kernel's struct for the futex syscall number this ABI has. */
#if defined(SYS_futex)
#define FUTEX_NUMBER SYS_futex
struct futex_time { long sec, nsec; };
#else
#define FUTEX_NUMBER SYS_futex_time64
struct futex_time { int64_t sec, nsec; };
#endif

int wake_barrier_register(void)
{
	long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);

	return rc < 0 ? -errno : 0;
}

bool wake_barrier(void)
{
	full_fence(); /* F5, F6: the sleeping side's own */
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

int wake_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	struct futex_time t = {
		.sec = (long)(timeout_ns / 1000000000u),
		.nsec = (long)(timeout_ns % 1000000000u),
	};

	if (syscall(FUTEX_NUMBER, word, FUTEX_WAIT, expected, &t, NULL, 0) == 0)
		return 0;
	return errno == EAGAIN ? 0 : -errno;
}

void wake_futex_wake(uint32_t *word)
{
	syscall(FUTEX_NUMBER, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* What is full is readable already, which is all a wake has to achieve. */
void wake_event_signal(int fd)
{
	static const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void wake_socket_signal(int fd)
{
	static const uint64_t one = 1;

	while (send(fd, &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

/* An eventfd gives its count, a socket all the tokens that fit into it. */
void wake_event_drain(int fd)
{
	uint64_t counts[WAKE_SOCKET_BYTES / sizeof(uint64_t)];
	struct iovec v = { counts, sizeof(counts) };
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (preadv2(fd, &v, 1, -1, RWF_NOWAIT) >= 0)
		return;
	/* Kernels before 5.9: two steps, and only the flag guards the moment between. */
	if ((errno == ENOSYS || errno == EOPNOTSUPP) && poll(&p, 1, 0) == 1)
		(void)!read(fd, counts, sizeof(counts));
}
