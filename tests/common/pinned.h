/* SPDX-License-Identifier: Apache-2.0 */
/* pinned.h - how much memory the kernel keeps in its place for this process. */
#ifndef TENT_TESTS_PINNED_H
#define TENT_TESTS_PINNED_H

#include <sched.h>
#include <stdio.h>

/* KiB; -1: the kernel does not say. */
static inline long pinned_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kib = -1;

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld kB", &kib);
	if (f)
		fclose(f);
	return kib;
}

/* A ring of the kernel's that was closed is given up a little later. */
static inline void await_nothing_pinned(void)
{
	while (pinned_kib() > 0)
		sched_yield();
}

#endif /* TENT_TESTS_PINNED_H */
