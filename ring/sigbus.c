/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigbus.c - the handler and its table. The handler runs on any thread at any
 * instruction, so it only loads atomics, calls mmap and stores one word.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ring/order.h"
#include "ring/sigbus.h"

/* end is 0 while the entry is unused or being changed. Loaded before and after the
 * rest, it tells the handler whether the rest belongs together. */
struct sigbus_range {
	uintptr_t start;
	uintptr_t end;		/* R9/A9 */
	size_t page_size;
	uint32_t *condemned;
};

static struct sigbus_range ranges[SIGBUS_RANGES_MAX];
static uint32_t nr_ranges;	/* entries ever used; R9/A9 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* writers */
static struct sigaction previous;
static bool installed;

static bool range_read(const struct sigbus_range *from, struct sigbus_range *r)
{
	r->end = load_acquire(&from->end);		/* A9, pairs with R9 in range_write() */
	r->start = load_acquire(&from->start);
	r->page_size = load_acquire(&from->page_size);
	r->condemned = load_acquire(&from->condemned);
	return r->end && load_acquire(&from->end) == r->end;
}

static bool range_find(uintptr_t addr, struct sigbus_range *r)
{
	uint32_t nr = load_acquire(&nr_ranges); /* A9 */

	for (uint32_t i = 0; i < nr; i++) {
		if (range_read(&ranges[i], r) && addr >= r->start && addr < r->end)
			return true;
	}
	return false;
}

#ifdef SYS_mmap2
#define MMAP_NUMBER SYS_mmap2
#else
#define MMAP_NUMBER SYS_mmap
#endif

/* Zeroed private pages over the hole: the access that faulted is run again. The bare
 * system call, since mmap() is not promised to be safe in a handler. */
static bool contain(uintptr_t addr)
{
	struct sigbus_range r;
	uintptr_t page;

	if (!range_find(addr, &r))
		return false;
	page = addr & ~(uintptr_t)(r.page_size - 1);
	if ((uintptr_t)syscall(MMAP_NUMBER, page, r.page_size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L) != page)
		return false;
	store_relaxed(r.condemned, 1);
	return true;
}

/* A fault that nobody handles comes again as soon as we return, and then kills at
 * the very instruction; a signal somebody sent has to be sent again. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	bool fault = info->si_code > 0;

	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, info, context);
	} else if (previous.sa_handler == SIG_DFL ||
		   (previous.sa_handler == SIG_IGN && fault)) {
		signal(sig, SIG_DFL);
		if (!fault)
			raise(sig);
	} else if (previous.sa_handler != SIG_IGN) {
		previous.sa_handler(sig);
	}
}

static void handle(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code <= 0 || !contain((uintptr_t)info->si_addr))
		pass_on(sig, info, context);
	errno = saved;
}

int sigbus_install(void)
{
	struct sigaction a = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };
	int rc = 0;

	sigemptyset(&a.sa_mask);
	pthread_mutex_lock(&lock);
	if (installed)
		rc = -EALREADY;
	else if (sigaction(SIGBUS, &a, &previous) < 0)
		rc = -errno;
	else
		installed = true;
	pthread_mutex_unlock(&lock);
	return rc;
}

void sigbus_uninstall(void)
{
	pthread_mutex_lock(&lock);
	if (installed)
		sigaction(SIGBUS, &previous, NULL);
	installed = false;
	pthread_mutex_unlock(&lock);
}

static struct sigbus_range *range_unused(void)
{
	for (uint32_t i = 0; i < nr_ranges; i++) {
		if (!ranges[i].end)
			return &ranges[i];
	}
	return nr_ranges < SIGBUS_RANGES_MAX ? &ranges[nr_ranges] : NULL;
}

static void range_write(struct sigbus_range *r, uintptr_t start, size_t size,
			size_t page_size, uint32_t *condemned)
{
	/* R9, pairs with A9 in range_read() and range_find(). */
	store_release(&r->start, start);
	store_release(&r->page_size, page_size);
	store_release(&r->condemned, condemned);
	store_release(&r->end, start + size);
	if (r == &ranges[nr_ranges])
		store_release(&nr_ranges, nr_ranges + 1);
}

int sigbus_guard(void *addr, size_t size, size_t page_size, uint32_t *condemned)
{
	uintptr_t start = (uintptr_t)addr;
	struct sigbus_range *r;

	if (!size || !page_size || page_size & (page_size - 1) ||
	    (start | size) & (page_size - 1))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	r = range_unused();
	if (r)
		range_write(r, start, size, page_size, condemned);
	pthread_mutex_unlock(&lock);
	return r ? 0 : -ENOSPC;
}

int sigbus_guard_mem(const struct shared_mem *m, uint32_t *condemned)
{
	struct statfs fs;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (m->page_kind == TENT_PAGE_HUGE) {
		if (fstatfs(m->fd, &fs) < 0)
			return -errno;
		page = (size_t)fs.f_bsize;
	}
	return sigbus_guard(m->addr, m->size, page, condemned);
}

void sigbus_unguard(const void *addr)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < nr_ranges; i++) {
		if (ranges[i].end && ranges[i].start == (uintptr_t)addr) {
			store_release(&ranges[i].end, 0); /* R9 */
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}
