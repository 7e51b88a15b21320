/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - affinity and cgroup quota: a container sees all cores and may use few. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/spin.h"

#define CPUS_MAX 8192
#define CGROUP_ROOT "/sys/fs/cgroup"

static uint32_t affinity_cores(void)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	int n = 0;

	if (set && sched_getaffinity(0, size, set) == 0)
		n = CPU_COUNT_S(size, set);
	if (set)
		CPU_FREE(set);
	return n > 0 ? (uint32_t)n : 1;
}

/* "<quota> <period>" in microseconds, "max <period>" without a quota. A quota of less
 * than one core cannot keep even one spinning. */
static uint32_t quota_cores(const char *dir)
{
	unsigned long long quota, period;
	uint32_t cores = UINT32_MAX;
	char path[4096];
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/cpu.max", dir) >= (int)sizeof(path))
		return cores;
	f = fopen(path, "re");
	if (!f)
		return cores;
	if (fscanf(f, "%llu %llu", &quota, &period) == 2 && period &&
	    quota / period < UINT32_MAX)
		cores = (uint32_t)(quota / period);
	fclose(f);
	return cores ? cores : 1;
}

/* The v2 line of /proc/self/cgroup is "0::/path". */
static const char *v2_path(const char *text)
{
	while (text && strncmp(text, "0::/", 4)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + 3 : NULL;
}

uint32_t spin_cgroup_cores(const char *root, const char *self_cgroup)
{
	const char *path = v2_path(self_cgroup);
	uint32_t least = UINT32_MAX, cores;
	char dir[2048];
	char *end;
	int length;

	if (!path)
		return UINT32_MAX;
	length = snprintf(dir, sizeof(dir), "%s%.*s", root, (int)strcspn(path, "\n"), path);
	if (length < 0 || length >= (int)sizeof(dir))
		return UINT32_MAX;
	do {	/* this group, then every one above it */
		cores = quota_cores(dir);
		least = cores < least ? cores : least;
		end = strrchr(dir, '/');
		if (end)
			*end = '\0';
	} while (end && strlen(dir) >= strlen(root));
	return least;
}

static uint32_t own_cgroup_cores(void)
{
	char text[8192];
	FILE *f = fopen("/proc/self/cgroup", "re");
	size_t n;

	if (!f)
		return UINT32_MAX;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	return spin_cgroup_cores(CGROUP_ROOT, text);
}

uint32_t spin_usable_cores(void)
{
	uint32_t cores = affinity_cores(), quota = own_cgroup_cores();

	return quota < cores ? quota : cores;
}
