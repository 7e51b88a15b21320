/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h - small words for code that runs once per request. */
#ifndef TENT_ENGINE_HOT_H
#define TENT_ENGINE_HOT_H

#include <stdint.h>

#include "ring/order.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

/* Counters have one writer; other threads read them whenever they like. On x86 one add
 * is a whole load and a whole store, which is all that takes; a compiler makes three
 * instructions of the portable spelling. */
static inline void stat_add(uint64_t *counter, uint64_t n)
{
#if defined(__x86_64__)
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
	store_relaxed(counter, *counter + n);
#endif
}

/* The same for a level that goes up and down. */
static inline void level_add(uint32_t *level, uint32_t n)
{
#if defined(__x86_64__)
	__asm__("addl %1, %0" : "+m"(*level) : "er"(n) : "cc");
#else
	store_relaxed(level, *level + n);
#endif
}

/* A stage time of struct tent_completion. */
static inline uint32_t ticks_since(uint64_t now, uint64_t seen)
{
	uint64_t delta = now - seen;

	return delta > UINT32_MAX ? UINT32_MAX : (uint32_t)delta;
}

#endif /* TENT_ENGINE_HOT_H */
