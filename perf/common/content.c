/* SPDX-License-Identifier: Apache-2.0 */
/* content.c - words that count up from a mixed start, eight at a time. */
#include <stdbool.h>

#include "perf/common/content.h"

#define LANES 8			/* words per step; one step is a cache line */

typedef uint64_t lanes __attribute__((vector_size(LANES * 8), aligned(8), may_alias));

/* splitmix64's finaliser: any two ids start far apart. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The step is odd and differs per block: no word comes twice, and two blocks
 * that share a word differ in the next. */
static uint64_t first_line(uint64_t seed, uint64_t id, lanes *line)
{
	uint64_t start = mix(id + 0x9e3779b97f4a7c15ull * (seed + 1));
	uint64_t step = mix(start ^ seed) | 1;

	for (int i = 0; i < LANES; i++)
		(*line)[i] = start + (uint64_t)i * step;
	return step;
}

void content_fill(void *block, size_t size, uint64_t seed, uint64_t id)
{
	lanes line, *to = block;
	uint64_t step = first_line(seed, id, &line);

	for (size_t i = 0; i < size / sizeof(line); i++) {
		to[i] = line;
		line += LANES * step;
	}
}

static size_t first_wrong(const void *block, size_t size, uint64_t start, uint64_t step)
{
	const uint64_t *words = block;

	for (size_t i = 0; i < size / 8; i++)
		if (words[i] != start + i * step)
			return i * 8;
	return size;
}

size_t content_check(const void *block, size_t size, uint64_t seed, uint64_t id)
{
	lanes line, wrong = { 0 };
	uint64_t step = first_line(seed, id, &line), start = line[0], any = 0;
	const lanes *from = block;

	for (size_t i = 0; i < size / sizeof(line); i++) {
		wrong |= from[i] ^ line;
		line += LANES * step;
	}
	for (int i = 0; i < LANES; i++)
		any |= wrong[i];
	return any ? first_wrong(block, size, start, step) : size;
}
