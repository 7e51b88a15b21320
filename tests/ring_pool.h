/* SPDX-License-Identifier: Apache-2.0 */
/* ring_pool.h - the machine's pool of huge pages, for tests that need some: they
 * reserve them, and give them back. */
#ifndef TENT_TESTS_RING_POOL_H
#define TENT_TESTS_RING_POOL_H

#include "tests/ring_fake.h"

#define POOL "/proc/sys/vm/nr_hugepages"

static inline long huge_info(const char *key)
{
	char line[128], name[64];
	FILE *f = fopen("/proc/meminfo", "re");
	long value, found = -1;

	assert_non_null(f);
	while (found < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63[^:]: %ld", name, &value) == 2 && !strcmp(name, key))
			found = value;
	}
	fclose(f);
	return found;
}

static inline bool huge_pool_set(long pages)
{
	FILE *f = fopen(POOL, "we");
	bool ok;

	if (!f)
		return false;
	ok = fprintf(f, "%ld\n", pages) > 0;
	return fclose(f) == 0 && ok;
}

/* Makes free pages at least that many, and says how large the pool was before. */
static inline bool huge_pool_reserve(long pages, long *before)
{
	*before = huge_info("HugePages_Total");
	if (*before < 0 || !huge_pool_set(*before + pages))
		return false;
	if (huge_info("HugePages_Free") >= pages)
		return true;
	huge_pool_set(*before);
	return false;
}

#endif /* TENT_TESTS_RING_POOL_H */
