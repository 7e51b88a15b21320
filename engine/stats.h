/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - the sums of struct poller_stats as one array of counters. */
#ifndef TENT_ENGINE_STATS_H
#define TENT_ENGINE_STATS_H

#include <stddef.h>

#include "engine/poller.h"

#define STATS_SUMS (offsetof(struct poller_stats, rings) / sizeof(uint64_t))

/* Copies the sums, which another thread keeps writing; rings and in_flight are the
 * caller's to fill. */
static inline void stats_copy(struct poller_stats *out, const struct poller_stats *from)
{
	const uint64_t *src = (const uint64_t *)from;
	uint64_t *dst = (uint64_t *)out;

	for (size_t i = 0; i < STATS_SUMS; i++)
		dst[i] = load_relaxed(&src[i]);
}

/* Adds the sums of s, not what is a state of now. */
static inline void stats_add(struct poller_stats *sum, const struct poller_stats *s)
{
	const uint64_t *src = (const uint64_t *)s;
	uint64_t *dst = (uint64_t *)sum;

	for (size_t i = 0; i < STATS_SUMS; i++)
		dst[i] += src[i];
}

#endif /* TENT_ENGINE_STATS_H */
