/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.h - makes wake_barrier() reach every core, for tests that rest on it alone. */
#ifndef TENT_TESTS_BARRIER_H
#define TENT_TESTS_BARRIER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* CPU_SET; whoever includes more defines it first */
#endif

#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/wake.h"

/* Runs another program, if only for a moment, on one core. */
static inline void run_elsewhere(int core)
{
	pid_t child = fork();
	cpu_set_t set;

	if (child == 0) {
		CPU_ZERO(&set);
		CPU_SET(core, &set);
		_exit(sched_setaffinity(0, sizeof(set), &set) != 0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

/* Registers this process, and clears what the cores remember of the time before: see
 * ring/order.h. False where there is no membarrier. */
static inline bool barrier_reaches_all_cores(void)
{
	cpu_set_t cores;

	if (wake_barrier_register() < 0 || !wake_barrier() ||
	    sched_getaffinity(0, sizeof(cores), &cores) < 0)
		return false;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &cores))
			run_elsewhere(core);
	return true;
}

#endif /* TENT_TESTS_BARRIER_H */
