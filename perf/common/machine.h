/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what a measurement stands on: which cores, how fast the clock
 * ticks, and whether anything else disturbs it.
 */
#ifndef TENT_PERF_MACHINE_H
#define TENT_PERF_MACHINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "perf/common/report.h"

/* CPUs this process may really use: affinity, cut down to the cgroup quota. */
uint32_t machine_cores(void);

/* The i-th CPU to pin a spinner to: all physical cores first, then their
 * hyperthreads. -1 when there are not that many. */
int machine_core(uint32_t i);

/* Pins the calling thread; -1 leaves it alone. 0 or -errno. */
int machine_pin(int cpu);

/* Starts a thread on a CPU, where it stays; -1: anywhere. 0 or -errno. */
int machine_start_on(int cpu, pthread_t *thread, void *(*body)(void *arg), void *arg);

/* Undoes machine_pin(): threads and processes started from here may run where
 * this program might when it started. */
void machine_unpin(void);

/* CPU, kernel, virtualisation, pages, clock. */
void machine_facts(struct report *r);

/* Reasons not to trust a run that needs this many spinning threads. */
void machine_warn(struct report *r, uint32_t spinners);

/* What else ran on the machine between begin and end: warns above 5 % of one
 * CPU of foreign work, or 1 % stolen by the hypervisor. Children that were waited
 * for in between count as ours. */
struct machine_watch {
	uint64_t busy, steal, own, begin_ns;
};
void machine_watch_begin(struct machine_watch *w);
void machine_watch_end(const struct machine_watch *w, struct report *r);

/* Bytes of memory that can be had without swapping; 0: unknown. */
uint64_t machine_memory_available(void);

#endif /* TENT_PERF_MACHINE_H */
