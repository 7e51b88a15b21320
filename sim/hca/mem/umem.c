/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umem.c - copies straight through the program's mapping for as long as it is the one that
 * was pinned.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/hca/mem/fault.h"
#include "sim/hca/mem/guard.h"
#include "sim/hca/mem/umem.h"

struct umem {
	struct umem *next, **link;	/* in the list of all */
	uint8_t *base;
	uint64_t length;
	void *mapping;			/* our own, of umem_pin_fd(); or NULL */
	size_t mapping_bytes;
	/* U1: an access raises users, then loads is_gone; umem_range_goes() sets is_gone,
	 * then waits for users to fall. All sequentially consistent. */
	uint32_t users;
	bool is_gone;			/* base is no longer what was pinned */
};

static struct umem *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static void list_add(struct umem *m)
{
	pthread_mutex_lock(&all_lock);
	m->next = all;
	m->link = &all;
	if (all)
		all->link = &m->next;
	all = m;
	pthread_mutex_unlock(&all_lock);
}

static void list_remove(struct umem *m)
{
	pthread_mutex_lock(&all_lock);
	*m->link = m->next;
	if (m->next)
		m->next->link = m->link;
	pthread_mutex_unlock(&all_lock);
}

int umem_pin(struct umem **out, uint64_t address, uint64_t length, bool for_writing)
{
	struct umem *m;
	int rc;

	if (!length || address + length < address || length > SIZE_MAX / 2)
		return -EINVAL;
	fault_install();
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->base = (uint8_t *)(uintptr_t)address;
	m->length = length;
	rc = guard_probe(address, length, for_writing);
	if (rc) {
		free(m);
		return rc;
	}
	list_add(m);
	*out = m;
	return 0;
}

int umem_pin_fd(struct umem **out, int fd, uint64_t offset, uint64_t length, bool for_writing)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), head = offset % page;
	void *mapping;
	int rc;

	if (!length || length > SIZE_MAX / 2 || offset > INT64_MAX)
		return -EINVAL;
	mapping = mmap(NULL, head + length, PROT_READ | (for_writing ? PROT_WRITE : 0),
		       MAP_SHARED, fd, (off_t)(offset - head));
	if (mapping == MAP_FAILED)
		return -errno;
	rc = umem_pin(out, (uintptr_t)mapping + head, length, for_writing);
	if (rc) {
		munmap(mapping, head + length);
		return rc;
	}
	(*out)->mapping = mapping;
	(*out)->mapping_bytes = head + length;
	return 0;
}

void umem_release(struct umem *m)
{
	list_remove(m);
	if (m->mapping)
		munmap(m->mapping, m->mapping_bytes);
	free(m);
}

uint64_t umem_length(const struct umem *m)
{
	return m->length;
}

static bool overlaps(const struct umem *m, uintptr_t start, uint64_t length)
{
	uintptr_t base = (uintptr_t)m->base;

	return base < start + length && start < base + m->length;
}

void umem_range_goes(const void *start, uint64_t length)
{
	pthread_mutex_lock(&all_lock);
	for (struct umem *m = all; m; m = m->next) {
		if (!overlaps(m, (uintptr_t)start, length))
			continue;
		__atomic_store_n(&m->is_gone, true, __ATOMIC_SEQ_CST);	/* U1 */
		/* A signal handler that unmaps what its own thread is copying. */
		while (!guard_is_active() && __atomic_load_n(&m->users, __ATOMIC_SEQ_CST))
			sched_yield();
	}
	pthread_mutex_unlock(&all_lock);
}

/* ---- accesses ---------------------------------------------------------------- */

static bool enter(struct umem *m)
{
	__atomic_fetch_add(&m->users, 1, __ATOMIC_SEQ_CST);		/* U1 */
	return !__atomic_load_n(&m->is_gone, __ATOMIC_SEQ_CST);
}

static int leave(struct umem *m, int rc)
{
	__atomic_fetch_sub(&m->users, 1, __ATOMIC_SEQ_CST);
	return rc;
}

#define DIRECT(m, access) leave(m, enter(m) ? (access) : -EFAULT)

int umem_read(struct umem *m, uint64_t offset, void *to, uint64_t n)
{
	return DIRECT(m, guard_copy(to, m->base + offset, n));
}

int umem_write(struct umem *m, uint64_t offset, const void *from, uint64_t n)
{
	return DIRECT(m, guard_copy(m->base + offset, from, n));
}

int umem_load32(struct umem *m, uint64_t offset, uint32_t *value)
{
	return DIRECT(m, guard_load32((const uint32_t *)(m->base + offset), value));
}

int umem_store8(struct umem *m, uint64_t offset, uint8_t value)
{
	return DIRECT(m, guard_store8(m->base + offset, value));
}

int umem_store64(struct umem *m, uint64_t offset, uint64_t value)
{
	return DIRECT(m, guard_store64((uint64_t *)(m->base + offset), value));
}

int umem_fetch_add64(struct umem *m, uint64_t offset, uint64_t add, uint64_t *before)
{
	return DIRECT(m, guard_fetch_add64((uint64_t *)(m->base + offset), add, before));
}

int umem_compare_swap64(struct umem *m, uint64_t offset, uint64_t compare, uint64_t swap,
			uint64_t *before)
{
	return DIRECT(m, guard_compare_swap64((uint64_t *)(m->base + offset), compare, swap,
					      before));
}
