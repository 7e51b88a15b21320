/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pingpong.h - the floor under every ring: one cache line each way between two
 * pinned threads that spin without a pause.
 */
#ifndef TENT_PERF_PINGPONG_H
#define TENT_PERF_PINGPONG_H

#include <stdint.h>

#include "perf/common/samples.h"

/*
 * Adds the time of each of about rounds round trips, in ticks, after warmup more
 * that are not counted; spread over 64 pairs of lines, because how long a line
 * travels depends on where its address lives in the last-level cache. The calling
 * thread runs where it is; the partner is pinned to core. 0 or -errno.
 */
int pingpong_run(int core, uint32_t warmup, uint32_t rounds, struct samples *ticks);

#endif /* TENT_PERF_PINGPONG_H */
