/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - the engine's private memory, on huge pages when there are some. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <tent/ring.h>

#include "engine/pages.h"
#include "ring/mem.h"

#define HUGETLBFS_LIBRARY "libhugetlbfs.so.0"
#define GET_HUGE_DEFAULT 1ul	/* GHP_DEFAULT of hugetlbfs.h */

static struct {
	pthread_mutex_t lock;
	struct hugetlbfs_api api;
	const char *missing;
	bool tried, loaded;
	struct pages_totals totals;
} pages = { .lock = PTHREAD_MUTEX_INITIALIZER };

int hugetlbfs_load(struct hugetlbfs_api *api, const char *library, const char **missing)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	*missing = library;
	if (!handle)
		return -ENOENT;
#define HUGETLBFS_RESOLVE(type, name, args)				\
	*missing = #name;						\
	*(void **)&api->name = dlsym(handle, #name);			\
	if (!api->name)							\
		return -ENOENT;
	HUGETLBFS_SYMBOLS(HUGETLBFS_RESOLVE)
#undef HUGETLBFS_RESOLVE
	*missing = NULL;
	return 0;
}

/* Free pages of the default huge size. Asked first: libhugetlbfs complains on
 * standard error where there are none. */
static size_t huge_pages_free(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long nr = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "HugePages_Free: %lu", &nr) == 1)
			break;
	}
	if (f)
		fclose(f);
	return nr;
}

static const struct hugetlbfs_api *loaded_api(const char **missing)
{
	pthread_mutex_lock(&pages.lock);
	if (!pages.tried) {
		pages.tried = true;
		pages.loaded = hugetlbfs_load(&pages.api, HUGETLBFS_LIBRARY,
					      &pages.missing) == 0;
	}
	*missing = pages.missing;
	pthread_mutex_unlock(&pages.lock);
	return pages.loaded ? &pages.api : NULL;
}

static void count(const struct pages_info *info, bool taken)
{
	uint64_t bytes = taken ? info->size : -info->size;

	pthread_mutex_lock(&pages.lock);
	if (info->kind == TENT_PAGE_HUGE)
		pages.totals.huge_bytes += bytes;
	else
		pages.totals.base_bytes += bytes;
	if (taken && info->reason) {
		pages.totals.reason = info->reason;
		pages.totals.missing = info->missing;
	}
	pthread_mutex_unlock(&pages.lock);
}

static void *alloc_huge(const struct hugetlbfs_api *api, size_t size, struct pages_info *info)
{
	void *addr;

	info->size = page_round_up(size, huge_page_size());
	addr = info->size ? api->get_huge_pages(info->size, GET_HUGE_DEFAULT) : NULL;
	info->kind = addr ? TENT_PAGE_HUGE : TENT_PAGE_BASE;
	info->reason = addr ? 0 : ENOMEM;
	info->api = api;
	return addr;
}

static void *alloc_base(size_t size, struct pages_info *info)
{
	void *addr;

	info->size = page_round_up(size, (size_t)sysconf(_SC_PAGESIZE));
	addr = info->size ? mmap(NULL, info->size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
	if (addr != MAP_FAILED)
		return addr;
	info->reason = info->size ? errno : EOVERFLOW;
	return NULL;
}

void *pages_alloc_with(const struct hugetlbfs_api *api, size_t size, struct pages_info *info)
{
	void *addr = api ? alloc_huge(api, size, info) : NULL;

	if (!addr)
		addr = alloc_base(size, info);
	if (!addr)
		return NULL;
	madvise(addr, info->size, MADV_DONTFORK);
	count(info, true);
	return addr;
}

void *pages_alloc(size_t size, struct pages_info *info)
{
	const struct hugetlbfs_api *api = NULL;
	size_t huge = huge_page_size();

	*info = (struct pages_info){ .reason = 0 };
	if (size >= huge / 2 && size <= SIZE_MAX - huge) {
		if (huge_pages_free() >= page_round_up(size, huge) / huge)
			api = loaded_api(&info->missing);
		if (!api)
			info->reason = info->missing ? ENOENT : ENOMEM;
	}
	return pages_alloc_with(api, size, info);
}

void pages_free(void *addr, const struct pages_info *info)
{
	if (!addr)
		return;
	count(info, false);
	if (info->kind == TENT_PAGE_HUGE)
		info->api->free_huge_pages(addr);
	else
		munmap(addr, info->size);
}

void pages_totals_read(struct pages_totals *out)
{
	pthread_mutex_lock(&pages.lock);
	*out = pages.totals;
	pthread_mutex_unlock(&pages.lock);
}
