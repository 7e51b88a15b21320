/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spsc.h - the rate any submission ring is measured against: copying 128-byte
 * slots from one thread to another through a ring with a tail index, and nothing
 * else: no judging, no transfer, no completion.
 */
#ifndef TENT_PERF_SPSC_H
#define TENT_PERF_SPSC_H

#include <stdint.h>

/*
 * Slots a second. slots: of the ring, a power of two; batch: slots per store of
 * the tail. The calling thread produces; the consumer is pinned to core and
 * copies each slot out. 0: no thread or memory.
 */
double spsc_rate(int core, uint32_t slots, uint32_t batch, uint64_t count);

#endif /* TENT_PERF_SPSC_H */
