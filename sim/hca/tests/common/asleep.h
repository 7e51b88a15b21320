/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asleep.h - waits until a thread has come to rest in the kernel, where a test needs it to
 * wait already for what comes next.
 */
#ifndef TENT_HCA_TESTS_ASLEEP_H
#define TENT_HCA_TESTS_ASLEEP_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* False also for one that has ended. Its name, in parentheses, may hold some itself. */
static inline bool is_asleep(pid_t pid, pid_t tid)
{
	char path[64], stat[512] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	at = fgets(stat, sizeof(stat), f) ? strrchr(stat, ')') : NULL;
	fclose(f);
	return at && strncmp(at, ") S", 3) == 0;
}

static inline void await_sleep(pid_t pid, pid_t tid)
{
	while (!is_asleep(pid, tid))
		sched_yield();
}

#endif /* TENT_HCA_TESTS_ASLEEP_H */
