/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - reads counters that another thread keeps writing. */
#ifndef TENT_ENGINE_STATS_H
#define TENT_ENGINE_STATS_H

#include <stddef.h>

#include "engine/poller.h"

/* Copies the sums; rings and in_flight are the caller's to fill. */
static inline void stats_copy(struct poller_stats *out, const struct poller_stats *from)
{
	const uint64_t *src = (const uint64_t *)from;
	uint64_t *dst = (uint64_t *)out;

	for (size_t i = 0; i < offsetof(struct poller_stats, rings) / sizeof(*dst); i++)
		dst[i] = load_relaxed(&src[i]);
}

#endif /* TENT_ENGINE_STATS_H */
