/* SPDX-License-Identifier: Apache-2.0 */
/* soak.h - how long a test goes on with what is left to chance. */
#ifndef TENT_TESTS_SOAK_H
#define TENT_TESTS_SOAK_H

#include <stdint.h>
#include <stdlib.h>

/* n rounds; ten times as many in `make soak`. */
static inline uint32_t soak_rounds(uint32_t n)
{
	return getenv("TENT_SOAK") ? 10 * n : n;
}

#endif /* TENT_TESTS_SOAK_H */
