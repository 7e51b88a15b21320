/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - every measured value is kept, so percentiles are exact. */
#ifndef TENT_PERF_SAMPLES_H
#define TENT_PERF_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct samples {
	uint64_t *values;
	size_t nr, room;
	bool sorted;
};

/* Room for nr values, touched, so that adding them costs no page fault. Exits
 * the program when there is no memory. */
void samples_init(struct samples *s, size_t nr);
void samples_free(struct samples *s);

/* Beyond the room the array doubles; where that would disturb the measurement,
 * samples_init() is given enough. */
void samples_grow(struct samples *s);

static inline void samples_add(struct samples *s, uint64_t value)
{
	if (s->nr == s->room)
		samples_grow(s);
	s->values[s->nr++] = value;
	s->sorted = false;
}

/* Nearest rank: the smallest value that at least share (0..1) of all values do
 * not exceed. 0 when there are none. Sorts the values. */
uint64_t samples_percentile(struct samples *s, double share);
uint64_t samples_max(struct samples *s);

#endif /* TENT_PERF_SAMPLES_H */
