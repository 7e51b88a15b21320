/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doorbell.c - the watched pages, and whether they are trapped or polled. The handler
 * reads the table without a lock, so an entry counts only while its start is set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/doorbell/pages.h"
#include "sim/hca/mem/fault.h"
#include "sim/hca/mem/sys.h"

const struct page_register page_registers[NR_REGISTERS] = {
	{ 0x020, DOORBELL_CQ_ARM },
	{ 0x800, DOORBELL_SEND }, { 0x900, DOORBELL_SEND },
	{ 0xa00, DOORBELL_SEND }, { 0xb00, DOORBELL_SEND },
};

struct doorbell_ops doorbell_ops;
static struct page pages[PAGES_MAX];
static uint32_t nr_pages;	/* entries ever used */
static bool is_polled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* those who change it, and scans */

/* ---- which way ------------------------------------------------------------------ */

#if defined(__x86_64__)
/* Where a sanitizer's runtime is loaded, these are there. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));

static int is_valgrinds(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	return strstr(info->dlpi_name, "/vgpreload_") != NULL;
}

static bool trapping_fits(void)
{
	return !__asan_init && !__tsan_init && !__msan_init &&
	       !dl_iterate_phdr(is_valgrinds, NULL);
}
#else
static bool trapping_fits(void)
{
	return false;
}
#endif

bool doorbell_default_is_polled(void)
{
	const char *wish = getenv("TENT_SIM_DOORBELL");

	if (wish && !strcmp(wish, "poll"))
		return true;
	if (wish && !strcmp(wish, "trap"))
		return false;
	return !trapping_fits();
}

static void fork_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void fork_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor(FORK_INNER_LOCK))) static void watch_forks(void)
{
	pthread_atfork(fork_lock, fork_unlock, fork_unlock);
}

void doorbell_init(const struct doorbell_ops *ops, bool polled)
{
	doorbell_ops = *ops;
	__atomic_store_n(&is_polled, polled, __ATOMIC_RELEASE);
	if (polled)
		return;
	trap_init();
	fault_set_claim(trap_claim);
	fault_install();
}

bool doorbell_is_polled(void)
{
	return __atomic_load_n(&is_polled, __ATOMIC_ACQUIRE);
}

/* ---- the table --------------------------------------------------------------------- */

bool page_find(uintptr_t address, struct page *out)
{
	uintptr_t start = address & ~(uintptr_t)(DOORBELL_PAGE_BYTES - 1);
	uint32_t nr = __atomic_load_n(&nr_pages, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		if (__atomic_load_n(&pages[i].start, __ATOMIC_ACQUIRE) == start) {
			*out = pages[i];
			return true;
		}
	}
	return false;
}

void pages_become_polled(void)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&is_polled, true, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < nr_pages; i++) {
		if (pages[i].start)
			sys_protect((void *)pages[i].start, DOORBELL_PAGE_BYTES,
				    PROT_READ | PROT_WRITE);
	}
	pthread_mutex_unlock(&lock);
}

static struct page *page_unused(void)
{
	for (uint32_t i = 0; i < nr_pages; i++) {
		if (!pages[i].start)
			return &pages[i];
	}
	return nr_pages < PAGES_MAX ? &pages[nr_pages] : NULL;
}

static int page_add(uintptr_t start, uint8_t *alias, void *cookie)
{
	struct page *p = page_unused();

	if (!p)
		return -ENOSPC;
	p->alias = alias;
	p->cookie = cookie;
	__atomic_store_n(&p->start, start, __ATOMIC_RELEASE);
	if (p == &pages[nr_pages])
		__atomic_store_n(&nr_pages, nr_pages + 1, __ATOMIC_RELEASE);
	if (!is_polled && sys_protect((void *)start, DOORBELL_PAGE_BYTES, PROT_READ)) {
		__atomic_store_n(&p->start, 0, __ATOMIC_RELEASE);
		return -errno;
	}
	return 0;
}

int doorbell_watch(void *mapping, int fd, uint64_t offset, void *cookie)
{
	void *alias = sys_map_shared(DOORBELL_PAGE_BYTES, PROT_READ | PROT_WRITE, 0, fd, offset);
	int rc;

	if (alias == MAP_FAILED)
		return -errno;
	pthread_mutex_lock(&lock);
	rc = page_add((uintptr_t)mapping, alias, cookie);
	pthread_mutex_unlock(&lock);
	if (rc)
		sys_unmap(alias, DOORBELL_PAGE_BYTES);
	return rc;
}

void doorbell_unwatch(const void *start, size_t length)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < nr_pages; i++) {
		if (pages[i].start && pages[i].start - (uintptr_t)start < length) {
			__atomic_store_n(&pages[i].start, 0, __ATOMIC_RELEASE);
			sys_unmap(pages[i].alias, DOORBELL_PAGE_BYTES);
		}
	}
	pthread_mutex_unlock(&lock);
}

/* ---- polling ------------------------------------------------------------------------ */

struct rung {
	void *cookie;
	enum doorbell_kind kind;
	uint8_t bytes[REGISTER_BYTES];
};

/* No doorbell is all zeros, as there is no queue 0: so zero can mean that nothing came
 * since the last look, and the same doorbell rung again is seen again. */
static unsigned page_take(const struct page *p, struct rung *out)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_REGISTERS; i++) {
		uint64_t *at = (uint64_t *)(p->alias + page_registers[i].offset);
		uint64_t value = __atomic_load_n(at, __ATOMIC_RELAXED);

		if (!value)
			continue;
		value = __atomic_exchange_n(at, 0, __ATOMIC_ACQ_REL);
		out[nr].cookie = p->cookie;
		out[nr].kind = page_registers[i].kind;
		memcpy(out[nr++].bytes, &value, sizeof(value));
	}
	return nr;
}

/* Rings without the lock, which may be wanted by whoever holds the locks that ring()
 * takes. */
static bool page_scan(uint32_t index)
{
	struct rung rung[NR_REGISTERS];
	unsigned nr = 0;

	pthread_mutex_lock(&lock);
	if (pages[index].start)
		nr = page_take(&pages[index], rung);
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < nr; i++)
		doorbell_ops.ring(rung[i].cookie, rung[i].kind, rung[i].bytes, true);
	return nr;
}

bool doorbell_scan(void)
{
	uint32_t nr = __atomic_load_n(&nr_pages, __ATOMIC_ACQUIRE);
	bool any = false;

	for (uint32_t i = 0; i < nr; i++)
		any |= page_scan(i);
	return any;
}
