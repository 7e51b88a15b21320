/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - 64-bit key to 64-bit value, open addressing, no removal. */
#ifndef TENT_PERF_REPLAY_MAP_H
#define TENT_PERF_REPLAY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
	struct map_entry {
		uint64_t key, value;
		bool used;
	} *entries;
	size_t mask, nr;
};

/* room: keys it will hold; it grows beyond. Exits when there is no memory. */
void map_init(struct map *m, size_t room);
void map_free(struct map *m);

/* The value's place, or NULL. Valid until the next map_put(). */
uint64_t *map_get(const struct map *m, uint64_t key);

void map_put(struct map *m, uint64_t key, uint64_t value);

#endif /* TENT_PERF_REPLAY_MAP_H */
