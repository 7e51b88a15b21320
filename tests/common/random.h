/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - numbers that are the same in every run: a test that fails fails again. */
#ifndef TENT_TESTS_RANDOM_H
#define TENT_TESTS_RANDOM_H

#include <stdint.h>

static inline uint32_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

#endif /* TENT_TESTS_RANDOM_H */
