/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - plain and streaming copies. A streaming store leaves the target out
 * of the cache and saves reading it first; it is weakly ordered, so each
 * streaming copy fences before it returns.
 */
#include "io/copy.h"

#include <stdint.h>
#include <string.h>

#include "ring/order.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Bytes moved per step of the loops below: two lines, both written whole, so a
 * write-combining buffer never leaves half full. */
#define STEP 128u

static void stream_steps_sse2(uint8_t *dst, const uint8_t *src, size_t steps)
{
	for (; steps > 0; steps--, dst += STEP, src += STEP) {
		__m128i v[STEP / sizeof(__m128i)];

		for (size_t i = 0; i < STEP / sizeof(v[0]); i++)
			v[i] = _mm_loadu_si128((const __m128i *)src + i);
		for (size_t i = 0; i < STEP / sizeof(v[0]); i++)
			_mm_stream_si128((__m128i *)dst + i, v[i]);
	}
}

__attribute__((target("avx2")))
static void stream_steps_avx2(uint8_t *dst, const uint8_t *src, size_t steps)
{
	for (; steps > 0; steps--, dst += STEP, src += STEP) {
		__m256i v[STEP / sizeof(__m256i)];

		for (size_t i = 0; i < STEP / sizeof(v[0]); i++)
			v[i] = _mm256_loadu_si256((const __m256i *)src + i);
		for (size_t i = 0; i < STEP / sizeof(v[0]); i++)
			_mm256_stream_si256((__m256i *)dst + i, v[i]);
	}
}

/* Plain up to a line boundary of dst, whole steps streamed, the rest plain. */
static void copy_stream(uint8_t *dst, const uint8_t *src, size_t n)
{
	size_t head = -(uintptr_t)dst & 63;
	size_t steps;

	if (head > n)
		head = n;
	memcpy(dst, src, head);
	dst += head;
	src += head;
	n -= head;
	steps = n / STEP;
	if (__builtin_cpu_supports("avx2"))
		stream_steps_avx2(dst, src, steps);
	else
		stream_steps_sse2(dst, src, steps);
	memcpy(dst + steps * STEP, src + steps * STEP, n % STEP);
	stream_fence();
}

const char *copy_stream_kind(void)
{
	return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
}

#else /* no streaming store that C can name portably: memcpy is the best copy */

static void copy_stream(uint8_t *dst, const uint8_t *src, size_t n)
{
	memcpy(dst, src, n);
	stream_fence();
}

const char *copy_stream_kind(void)
{
	return "plain";
}
#endif

/* Is the distance between the two starts smaller than n, in either direction? */
static bool ranges_overlap(const void *a, const void *b, size_t n)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return (x > y ? x - y : y - x) < n;
}

void copy_bytes(void *dst, const void *src, size_t n, bool stream)
{
	if (ranges_overlap(dst, src, n))
		memmove(dst, src, n);
	else if (stream)
		copy_stream(dst, src, n);
	else
		memcpy(dst, src, n);
}
