/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys.h - system calls that go past the interposed ones of front/: what we map and open for
 * ourselves is none of the program's business.
 */
#ifndef TENT_SIM_HCA_SYS_H
#define TENT_SIM_HCA_SYS_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* When constructors register what fork() does with locks. It takes those first that were
 * registered last: the process's own (front/card.c, of no priority), under which the inner
 * ones are taken, and then the one that is never held while waiting for another. */
enum { FORK_LAST_LOCK = 101, FORK_INNER_LOCK };

/* MAP_FAILED and errno, as mmap(). */
static inline void *sys_map_shared(size_t n, int prot, int flags, int fd, uint64_t offset)
{
	return (void *)syscall(SYS_mmap, NULL, n, prot, MAP_SHARED | flags, fd, offset);
}

static inline void sys_unmap(void *start, size_t n)
{
	syscall(SYS_munmap, start, n);
}

/* 0, or -1 and errno. */
static inline int sys_protect(void *start, size_t n, int prot)
{
	return (int)syscall(SYS_mprotect, start, n, prot);
}

/* A descriptor away from the low numbers, which programs count on, close and reuse. */
static inline int sys_move_up(int fd)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	int moved;

	getrlimit(RLIMIT_NOFILE, &limit);
	moved = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
			     limit.rlim_cur > 65536 ? 32768 : limit.rlim_cur / 2);
	if (moved < 0)
		return fd;
	syscall(SYS_close, fd);
	return moved;
}

#endif /* TENT_SIM_HCA_SYS_H */
