/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umem.c - copies straight through the program's mapping for as long as it is the one that
 * was pinned, and through the pin (pin.h) after that. It never goes back: what lies in the
 * mapping then may be something else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "sim/hca/mem/fault.h"
#include "sim/hca/mem/guard.h"
#include "sim/hca/mem/peer.h"
#include "sim/hca/mem/pin.h"
#include "sim/hca/mem/sys.h"
#include "sim/hca/mem/umem.h"
#include "sim/hca/mem/umem_list.h"
#include "sim/hca/mem/watch.h"
#include "sim/hca/mem/window.h"

struct umem {
	struct umem *next, **link;	/* in the list of all */
	uint8_t *base;
	uint64_t length;
	void *mapping;			/* our own, of umem_pin_fd(); or NULL */
	size_t mapping_bytes;
	/* U1: an access raises users, then loads is_suspended and is_gone; umem_suspend() sets
	 * is_suspended, then waits for users to fall. All sequentially consistent. */
	uint32_t users;
	bool is_gone;			/* base is no longer what was pinned */
	/* One per PIN_BYTES_MAX; 0: none, and when base has gone nothing is left. */
	uint32_t nr_pins;
	int pins[];
};

static struct umem *all;
static bool is_suspended;
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

/* ---- pinning ------------------------------------------------------------------ */

static void unpin(struct umem *m)
{
	while (m->nr_pins)
		pin_remove(m->pins[--m->nr_pins]);
}

static int pin_all(struct umem *m)
{
	for (uint64_t at = 0; at < m->length; at += PIN_BYTES_MAX) {
		uint64_t left = m->length - at;
		int pin = pin_add((uintptr_t)m->base + at,
				  left < PIN_BYTES_MAX ? left : PIN_BYTES_MAX);

		if (pin < 0) {
			unpin(m);
			return pin;
		}
		m->pins[m->nr_pins++] = pin;
	}
	return 0;
}

/* What io_uring does not pin: all memory, where there is no io_uring, and what nobody
 * stores into through this mapping. */
static int pin_or_probe(struct umem *m, bool for_writing)
{
	int rc = pin_all(m);

	if (rc == -ENOMEM || (rc == -EFAULT && for_writing))
		return rc;
	return rc ? guard_probe((uintptr_t)m->base, m->length, for_writing) : 0;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&all_lock);
	pin_fork_prepare();
}

static void fork_parent(void)
{
	pin_fork_parent();
	pthread_mutex_unlock(&all_lock);
}

/* The threads that were using them are not here. */
static void fork_child(void)
{
	for (struct umem *m = all; m; m = m->next) {
		m->is_gone = true;
		m->users = 0;
		m->nr_pins = 0;
	}
	pin_fork_child();
	watch_fork_child();
	pthread_mutex_unlock(&all_lock);
}

__attribute__((constructor(FORK_INNER_LOCK))) static void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

#define PROGRAM_END (1ull << 48) /* no program has memory above, unless it asks for that */

static int umem_create(struct umem **out, uint64_t address, uint64_t length)
{
	uint64_t nr_pins = (length - 1) / PIN_BYTES_MAX + 1;
	struct umem *m;

	if (!length || address + length < address || length > SIZE_MAX / 2)
		return -EINVAL;
	if (address + length > PROGRAM_END)
		return -EFAULT;	/* before there is a book of so many pins */
	fault_install();
	m = calloc(1, sizeof(*m) + nr_pins * sizeof(m->pins[0]));
	if (!m)
		return -ENOMEM;
	m->base = (uint8_t *)(uintptr_t)address;
	m->length = length;
	*out = m;
	return 0;
}

static int umem_finish(struct umem **out, struct umem *m, int rc)
{
	if (rc) {
		free(m);
		return rc;
	}
	list_add(m);
	if (!m->mapping)
		watch_range((uintptr_t)m->base, m->length);
	*out = m;
	return 0;
}

int umem_pin(struct umem **out, uint64_t address, uint64_t length, bool for_writing)
{
	struct umem *m;
	int rc = umem_create(&m, address, length);

	return rc ? rc : umem_finish(out, m, pin_or_probe(m, for_writing));
}

/* Our own mapping keeps the pages; a file that is cut short is gone for a device too. */
int umem_pin_fd(struct umem **out, int fd, uint64_t offset, uint64_t length, bool for_writing)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), head;
	int rc = window_enter(fd, &offset, length);
	struct umem *m;
	void *mapping;

	if (rc || !length || length > SIZE_MAX / 2 || offset > INT64_MAX)
		return -EINVAL;
	head = offset % page;
	mapping = sys_map_shared(head + length, PROT_READ | (for_writing ? PROT_WRITE : 0), 0,
				 fd, offset - head);
	if (mapping == MAP_FAILED)
		return -errno;
	rc = umem_create(&m, (uintptr_t)mapping + head, length);
	if (!rc) {
		m->mapping = mapping;
		m->mapping_bytes = head + length;
		rc = umem_finish(out, m, guard_probe((uintptr_t)m->base, length, for_writing));
	}
	if (rc)
		sys_unmap(mapping, head + length);
	return rc;
}

int umem_pin_peer(struct umem **out, uint64_t address, uint64_t length, bool for_writing)
{
	uint64_t offset;
	int fd = peer_find(address, length, &offset);

	return fd < 0 ? fd : umem_pin_fd(out, fd, offset, length, for_writing);
}

void umem_release(struct umem *m)
{
	list_remove(m);
	unpin(m);
	if (!m->mapping)
		watch_end((uintptr_t)m->base, m->length);
	else
		sys_unmap(m->mapping, m->mapping_bytes);
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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* One whose access was interrupted by a signal handler that unmaps would wait for itself:
 * nobody is waited for longer than any copy takes. */
#define USERS_WAIT_NS 1000000000ull

static void wait_for_users(const struct umem *m)
{
	uint64_t start = now_ns();

	while (__atomic_load_n(&m->users, __ATOMIC_SEQ_CST) &&		/* U1 */
	       !guard_is_active() && now_ns() - start < USERS_WAIT_NS)
		sched_yield();
}

void umem_suspend(void)
{
	pthread_mutex_lock(&all_lock);
	__atomic_store_n(&is_suspended, true, __ATOMIC_SEQ_CST);	/* U1 */
	for (struct umem *m = all; m; m = m->next)
		wait_for_users(m);
}

void umem_resume(void)
{
	__atomic_store_n(&is_suspended, false, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&all_lock);
}

void umem_pages_went(uint64_t start, uint64_t length)
{
	for (struct umem *m = all; m; m = m->next) {
		if (overlaps(m, start, length))
			__atomic_store_n(&m->is_gone, true, __ATOMIC_SEQ_CST);
	}
}

bool umem_any_overlaps(uint64_t start, uint64_t length)
{
	bool any = false;

	pthread_mutex_lock(&all_lock);
	for (struct umem *m = all; m && !any; m = m->next)
		any = overlaps(m, start, length);
	pthread_mutex_unlock(&all_lock);
	return any;
}

void umem_range_goes(const void *start, uint64_t length)
{
	if (!umem_any_overlaps((uintptr_t)start, length))
		return;
	umem_suspend();
	umem_pages_went((uintptr_t)start, length);
	umem_resume();
}

/* ---- accesses ---------------------------------------------------------------- */

static int leave(struct umem *m, int rc)
{
	__atomic_fetch_sub(&m->users, 1, __ATOMIC_SEQ_CST);
	return rc;
}

static bool enter(struct umem *m)
{
	for (;;) {
		__atomic_fetch_add(&m->users, 1, __ATOMIC_SEQ_CST);	/* U1 */
		if (!__atomic_load_n(&is_suspended, __ATOMIC_SEQ_CST))
			return !__atomic_load_n(&m->is_gone, __ATOMIC_SEQ_CST);
		leave(m, 0);
		sched_yield();
	}
}

#define DIRECT(m, access) leave(m, enter(m) ? (access) : -EFAULT)

/* After a direct access has failed. Moves n bytes, which may lie in two pins or more. */
static int through_pins(struct umem *m, uint64_t offset, void *to, const void *from, uint64_t n)
{
	int rc = m->nr_pins ? 0 : -EFAULT;

	/* Whoever took the page away without telling us may put another there. */
	if (!rc)
		__atomic_store_n(&m->is_gone, true, __ATOMIC_SEQ_CST);
	while (n && !rc) {
		int pin = m->pins[offset / PIN_BYTES_MAX];
		uint64_t left = PIN_BYTES_MAX - offset % PIN_BYTES_MAX, k = n < left ? n : left;
		uint64_t address = (uintptr_t)m->base + offset;

		rc = to ? pin_read(pin, address, to, k) : pin_write(pin, address, from, k);
		to = to ? (uint8_t *)to + k : NULL;
		from = from ? (const uint8_t *)from + k : NULL;
		offset += k;
		n -= k;
	}
	return rc;
}

int umem_read(struct umem *m, uint64_t offset, void *to, uint64_t n)
{
	int rc = DIRECT(m, guard_copy(to, m->base + offset, n));

	return rc ? through_pins(m, offset, to, NULL, n) : 0;
}

int umem_write(struct umem *m, uint64_t offset, const void *from, uint64_t n)
{
	int rc = DIRECT(m, guard_copy(m->base + offset, from, n));

	return rc ? through_pins(m, offset, NULL, from, n) : 0;
}

int umem_load32(struct umem *m, uint64_t offset, uint32_t *value)
{
	int rc = DIRECT(m, guard_load32((const uint32_t *)(m->base + offset), value));

	return rc ? through_pins(m, offset, value, NULL, sizeof(*value)) : 0;
}

int umem_store8(struct umem *m, uint64_t offset, uint8_t value)
{
	int rc = DIRECT(m, guard_store8(m->base + offset, value));

	return rc ? through_pins(m, offset, NULL, &value, sizeof(value)) : 0;
}

/* Atomic only among devices, as nothing is left that a CPU could do it with. */
static int change_through_pins(struct umem *m, uint64_t offset, bool compares,
			       uint64_t compare, uint64_t operand, uint64_t *before)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t after;
	int rc;

	pthread_mutex_lock(&lock);
	rc = through_pins(m, offset, before, NULL, sizeof(*before));
	after = compares ? operand : *before + operand;
	if (!rc && (!compares || *before == compare))
		rc = through_pins(m, offset, NULL, &after, sizeof(after));
	pthread_mutex_unlock(&lock);
	return rc;
}

int umem_fetch_add64(struct umem *m, uint64_t offset, uint64_t add, uint64_t *before)
{
	int rc = DIRECT(m, guard_fetch_add64((uint64_t *)(m->base + offset), add, before));

	return rc ? change_through_pins(m, offset, false, 0, add, before) : 0;
}

int umem_compare_swap64(struct umem *m, uint64_t offset, uint64_t compare, uint64_t swap,
			uint64_t *before)
{
	int rc = DIRECT(m, guard_compare_swap64((uint64_t *)(m->base + offset), compare, swap,
						before));

	return rc ? change_through_pins(m, offset, true, compare, swap, before) : 0;
}
