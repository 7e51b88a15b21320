/* SPDX-License-Identifier: Apache-2.0 */
/* soak.h - how long a test goes on with what is left to chance. */
#ifndef TENT_TESTS_SOAK_H
#define TENT_TESTS_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

static inline bool is_soak(void)
{
	return getenv("TENT_SOAK") != NULL;
}

/* n rounds; ten times as many in `make soak`. A sanitizer judges what is done and not how often,
 * and a round takes many times as long under it: a quarter of them, but one at least. */
static inline uint32_t soak_rounds(uint32_t n)
{
	if (is_soak())
		return 10 * n;
	return IS_SANITIZED ? (n + 3) / 4 : n;
}

#endif /* TENT_TESTS_SOAK_H */
