/* SPDX-License-Identifier: Apache-2.0 */
/* mem.h - memfds that two processes share: made, sealed, mapped, checked. */
#ifndef TENT_RING_MEM_H
#define TENT_RING_MEM_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <tent/ring.h>

/* What older C libraries do not name. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) /* its size is a promise */

struct shared_mem {
	int fd;			/* -1 when closed */
	size_t size;		/* bytes, whole pages of its kind */
	void *addr;		/* this process's mapping, NULL when unmapped */
	uint32_t page_kind;	/* enum tent_page_kind */
	int32_t page_reason;	/* errno that ruled huge pages out, or 0 */
};

/* Huge pages are tried when size is at least half of one. 0 or -errno. The
 * memory is zeroed, mapped read-write and sealed SHRINK | GROW | SEAL; with
 * reader_only also FUTURE_WRITE: nobody can map it writable after us. */
int shared_mem_create(struct shared_mem *m, const char *name, size_t size,
		      bool reader_only);

/* Maps the first size bytes of a foreign memfd, rounded up to its pages. -EPERM when
 * required_seals (F_SEAL_*) do not read back, -EINVAL when it is no memfd or smaller
 * than that. On success m owns fd, on failure it stays the caller's. */
int shared_mem_map(struct shared_mem *m, int fd, size_t size, bool writable,
		   int required_seals);

/* Unmaps and closes what is open. Safe on a zeroed struct with fd -1. */
void shared_mem_destroy(struct shared_mem *m);

size_t huge_page_size(void); /* default huge page size, bytes */

/* Bytes rounded up to whole pages; 0 when that overflows. */
static inline size_t page_round_up(size_t size, size_t page)
{
	size_t sum;

	return __builtin_add_overflow(size, page - 1, &sum) ? 0 : sum & ~(page - 1);
}

/* Reads size bytes of a foreign memfd; a mapping of it could fault under us. 0, -errno,
 * -ENODATA when it has fewer. */
int memfd_read(int fd, void *to, size_t size, off_t offset);

/* Closes what is open and forgets it. */
void fd_close(int *fd);

/* Can a ring have so many slots, or completions? */
static inline bool is_ring_size(uint32_t count)
{
	return count && count <= TENT_SLOTS_MAX && !(count & (count - 1));
}

#endif /* TENT_RING_MEM_H */
