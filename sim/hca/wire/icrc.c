/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/wire/icrc.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include "sim/hca/wire/codec.h"

#define POLY 0xedb88320u	/* bit 31 is x^0 */
#define NR_IDS 64

/* table[k][b]: what byte b leaves behind when k more bytes have passed. */
static uint32_t table[8][256];
static uint32_t (*update)(uint32_t state, const uint8_t *data, size_t n);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t load32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t by_table(uint32_t state, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8) {
		uint32_t a = state ^ load32(p), b = load32(p + 4);

		state = table[7][a & 0xff] ^ table[6][a >> 8 & 0xff] ^ table[5][a >> 16 & 0xff] ^
			table[4][a >> 24] ^ table[3][b & 0xff] ^ table[2][b >> 8 & 0xff] ^
			table[1][b >> 16 & 0xff] ^ table[0][b >> 24];
	}
	for (; n; n--)
		state = state >> 8 ^ table[0][(state ^ *p++) & 0xff];
	return state;
}

#ifdef __x86_64__
#include <immintrin.h>

/* Folding, after Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction" (Intel, 2009): 128 bits are moved on by a distance when their
 * halves are multiplied by x^(distance + 32) and x^(distance - 32) modulo the polynomial. */
#define FOLD_512 _mm_set_epi64x(0x1c6e41596, 0x154442bd4)
#define FOLD_128 _mm_set_epi64x(0x0ccaa009e, 0x1751997d0)

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i x, __m128i by,
								    __m128i next)
{
	return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00),
						 _mm_clmulepi64_si128(x, by, 0x11)));
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t by_clmul(uint32_t state,
								  const uint8_t *p, size_t n)
{
	__m128i x[4];
	uint8_t rest[16];

	if (n < 64)
		return by_table(state, p, n);
	for (int i = 0; i < 4; i++)
		x[i] = _mm_loadu_si128((const __m128i *)p + i);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)state));
	for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
		for (int i = 0; i < 4; i++)
			x[i] = fold(x[i], FOLD_512, _mm_loadu_si128((const __m128i *)p + i));
	for (int i = 1; i < 4; i++)
		x[0] = fold(x[0], FOLD_128, x[i]);
	for (; n >= 16; p += 16, n -= 16)
		x[0] = fold(x[0], FOLD_128, _mm_loadu_si128((const __m128i *)p));
	_mm_storeu_si128((__m128i *)rest, x[0]);
	return by_table(by_table(0, rest, sizeof(rest)), p, n);
}
#endif

static void setup(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t c = b;

		for (int i = 0; i < 8; i++)
			c = c >> 1 ^ (c & 1 ? POLY : 0);
		table[0][b] = c;
	}
	for (int k = 1; k < 8; k++)
		for (int b = 0; b < 256; b++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
	update = by_table;
#ifdef __x86_64__
	if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
		update = by_clmul;
#endif
}

uint32_t icrc_update(uint32_t state, const uint8_t *data, size_t n)
{
	pthread_once(&once, setup);
	return update(state, data, n);
}

uint32_t icrc_update_by_table(uint32_t state, const uint8_t *data, size_t n)
{
	pthread_once(&once, setup);
	return by_table(state, data, n);
}

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		if (a >> 31)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? POLY : 0);
	}
	return product;
}

/* What n bytes of zeros make of a state: state * x^(8n). */
static uint32_t pass_zeros(uint32_t state, size_t n)
{
	for (uint32_t x = 1u << (31 - 8); n; n >>= 1, x = multiply(x, x))
		if (n & 1)
			state = multiply(x, state);
	return state;
}

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static size_t put_ipv4(uint8_t *h, const struct icrc_path *path, uint16_t ip_id, size_t udp)
{
	h[0] = 0x45;
	h[1] = 0xff;
	put16(h + 2, 20 + udp);
	put16(h + 4, ip_id);
	put16(h + 6, 0x4000);		/* do not fragment */
	h[8] = 0xff;
	h[9] = IPPROTO_UDP;
	put16(h + 10, 0xffff);
	memcpy(h + 12, path->source + 12, 4);
	memcpy(h + 16, path->dest + 12, 4);
	return 20;
}

static size_t put_ipv6(uint8_t *h, const struct icrc_path *path, size_t udp)
{
	memset(h, 0xff, 4);
	h[0] = 0x6f;
	put16(h + 4, udp);
	h[6] = IPPROTO_UDP;
	h[7] = 0xff;
	memcpy(h + 8, path->source, 16);
	memcpy(h + 24, path->dest, 16);
	return 40;
}

/* The state after all that comes before the datagram's 13th byte. */
static uint32_t headers(const struct icrc_path *path, uint16_t ip_id, const uint8_t *datagram,
			size_t n)
{
	uint8_t h[8 + 40 + 8 + CODEC_BTH_BYTES];
	size_t udp = 8 + n + ICRC_BYTES, at = 8;

	memset(h, 0xff, 8);
	at += codec_is_ipv4(path->dest) ? put_ipv4(h + at, path, ip_id, udp) :
					  put_ipv6(h + at, path, udp);
	put16(h + at, path->source_port);
	put16(h + at + 2, path->dest_port);
	put16(h + at + 4, udp);
	put16(h + at + 6, 0xffff);
	memcpy(h + at + 8, datagram, CODEC_BTH_BYTES);
	h[at + 8 + 4] = 0xff;
	return icrc_update(0xffffffff, h, at + 8 + CODEC_BTH_BYTES);
}

uint32_t icrc_compute(const struct icrc_path *path, uint16_t ip_id, const uint8_t *datagram,
		      size_t n)
{
	return ~icrc_update(headers(path, ip_id, datagram, n), datagram + CODEC_BTH_BYTES,
			    n - CODEC_BTH_BYTES);
}

bool icrc_check(const struct icrc_path *path, uint16_t hint, const uint8_t *datagram, size_t n,
		uint32_t icrc)
{
	uint32_t wrong = icrc_compute(path, hint, datagram, n) ^ icrc;
	uint32_t start = headers(path, hint, datagram, n);

	if (!wrong)
		return true;
	if (!codec_is_ipv4(path->dest))
		return false;
	/* CRCs are linear: another start changes the end by what the rest, all zero, makes of
	 * the change. So the payload need not be read again. */
	for (uint16_t id = 0; id < NR_IDS; id++)
		if (pass_zeros(start ^ headers(path, id, datagram, n), n - CODEC_BTH_BYTES) == wrong)
			return true;
	return false;
}
