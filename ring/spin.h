/* SPDX-License-Identifier: Apache-2.0 */
/* spin.h - how many cores this process really has to spin on. */
#ifndef TENT_RING_SPIN_H
#define TENT_RING_SPIN_H

#include <stdint.h>

/*
 * Cores this process may keep busy: its CPU affinity, cut by the quota of its
 * cgroup and of every cgroup above it (cgroup v2 cpu.max), at least 1. Where more
 * threads than this spin, spinning must yield (TENT_ENGINE_SPIN_YIELD).
 */
uint32_t spin_usable_cores(void);

/* The cgroup part alone, for a tree mounted at root and the text of
 * /proc/self/cgroup; UINT32_MAX when there is no quota. */
uint32_t spin_cgroup_cores(const char *root, const char *self_cgroup);

#endif /* TENT_RING_SPIN_H */
