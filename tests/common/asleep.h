/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asleep.h - waits until a thread has come to rest in the kernel, where a test needs it to
 * wait already for what comes next, and until a process stands still.
 */
#ifndef TENT_TESTS_ASLEEP_H
#define TENT_TESTS_ASLEEP_H

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Its letter in /proc, 0 for one that has ended. Its name, in parentheses, may hold some itself. */
static inline char thread_state(pid_t pid, pid_t tid)
{
	char path[64], stat[512] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	at = fgets(stat, sizeof(stat), f) ? strrchr(stat, ')') : NULL;
	fclose(f);
	return at && at[1] == ' ' ? at[2] : 0;
}

static inline bool is_asleep(pid_t pid, pid_t tid)
{
	return thread_state(pid, tid) == 'S';
}

static inline void await_sleep(pid_t pid, pid_t tid)
{
	while (!is_asleep(pid, tid))
		sched_yield();
}

/* How many threads of the process do not stand still. */
static inline unsigned moving(pid_t pid)
{
	char path[64];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			n += thread_state(pid, atoi(e->d_name)) != 'T';
	if (d)
		closedir(d);
	return n;
}

/* kill() only asks for it: the threads go on until each has heard of it. 0 or a kill()'s -1. */
static inline int stop_process(pid_t pid)
{
	int rc = kill(pid, SIGSTOP);

	while (rc == 0 && moving(pid))
		sched_yield();
	return rc;
}

#endif /* TENT_TESTS_ASLEEP_H */
