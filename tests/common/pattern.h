/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - bytes by which a test tells places and rounds apart. */
#ifndef TENT_TESTS_PATTERN_H
#define TENT_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A page at a time: to a sanitizer a copy is a call, whatever its length. */
static inline void pattern_fill(uint8_t *p, size_t n, uint32_t seed)
{
	uint32_t page[1024];

	for (size_t at = 0; at < n; at += sizeof(page)) {
		for (size_t i = 0; i < 1024; i++)
			page[i] = seed = seed * 1664525 + 1013904223;
		memcpy(p + at, page, n - at < sizeof(page) ? n - at : sizeof(page));
	}
}

#endif /* TENT_TESTS_PATTERN_H */
