/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.c - eight bytes at a time, by the CPU's instruction or by eight tables. */
#include <string.h>

#include "io/crc32c.h"

#define POLYNOMIAL 0x82f63b78u	/* reversed */

static uint32_t tables[8][256];

__attribute__((constructor))
static void make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
		tables[0][i] = crc;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			tables[t][i] = tables[t - 1][i] >> 8 ^
				       tables[0][tables[t - 1][i] & 0xff];
}

static uint64_t word_of(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static uint32_t plain(uint32_t crc, const uint8_t *at, size_t size)
{
	for (; size >= 8; size -= 8, at += 8) {
		uint64_t word = word_of(at) ^ crc;

		crc = 0;
		for (int t = 0; t < 8; t++)
			crc ^= tables[7 - t][word >> 8 * t & 0xff];
	}
	for (; size; size--)
		crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
static uint32_t fast(uint32_t crc, const uint8_t *at, size_t size)
{
	uint64_t wide = crc;

	for (; size >= 8; size -= 8, at += 8)
		wide = __builtin_ia32_crc32di(wide, word_of(at));
	crc = (uint32_t)wide;
	for (; size; size--)
		crc = __builtin_ia32_crc32qi(crc, *at++);
	return crc;
}
#endif

uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size)
{
	return ~plain(~crc, bytes, size);
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~fast(~crc, bytes, size);
#endif
	return ~plain(~crc, bytes, size);
}
