/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_in.h - reads memory that another process may be writing, once.
 */
#ifndef TENT_RING_COPY_IN_H
#define TENT_RING_COPY_IN_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t copy_word __attribute__((vector_size(16), may_alias));

/*
 * Copies size bytes (a multiple of 16, both sides 16-aligned) out of shared
 * memory. The loads are volatile: the compiler may neither repeat nor split one,
 * so what is judged afterwards is what was copied.
 */
static inline __attribute__((always_inline)) void
tent_copy_in(void *to, const void *from, size_t size)
{
	const volatile copy_word *src = from;
	copy_word *dst = to;

	/* One register for the source: gcc folds no sum into a volatile access. */
	__asm__("" : "+r"(src));
#pragma GCC unroll 8 /* -O2 alone does not; a slot is eight */
	for (size_t i = 0; i < size / sizeof(copy_word); i++)
		dst[i] = src[i];
}

#endif /* TENT_RING_COPY_IN_H */
