/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.c - stores of vector registers, read from an XSAVE area. A register lies there
 * in pieces: xmm, the upper half of ymm, the upper half of zmm; zmm16 to 31 in one.
 */
#include <string.h>

#include "sim/hca/doorbell/insn.h"

enum { MMX_OFFSET = 32, XMM_OFFSET = 160, HEADER_OFFSET = 512, LEGACY_BYTES = 512,
       HEADER_BYTES = 64 };

/* Bytes [at, at + n) of a component. One whose bit in XSTATE_BV is clear is all zeros,
 * whatever lies in its place. */
static bool component(const struct store_vectors *v, unsigned which, size_t at, void *to,
		      size_t n)
{
	bool is_legacy = which == STORE_X87 || which == STORE_SSE;
	size_t offset = (is_legacy ? 0 : v->offset[which]) + at;

	if (!v->area || (!is_legacy && !v->offset[which]) || offset + n > v->bytes)
		return false;
	memset(to, 0, n);
	if (v->bytes < LEGACY_BYTES + HEADER_BYTES || v->area[HEADER_OFFSET] >> which & 1)
		memcpy(to, v->area + offset, n);
	return true;
}

/* The low n bytes of a vector register. */
static bool vector(const struct store_vectors *v, unsigned number, uint8_t *to, size_t n)
{
	if (number >= 16)
		return component(v, STORE_HI16_ZMM, (number - 16) * 64, to, n);
	return component(v, STORE_SSE, XMM_OFFSET + number * 16, to, 16) &&
	       (n <= 16 || component(v, STORE_AVX, number * 16, to + 16, 16)) &&
	       (n <= 32 || component(v, STORE_ZMM_HI256, number * 32, to + 32, 32));
}

/* Of EVEX masks, which count elements; 0: such a store takes no mask. */
static unsigned element_bytes(const struct insn *i)
{
	if (i->map == 3)
		return i->size >= 16 ? (i->w ? 8 : 4) : 0;
	switch (i->opcode) {
	case 0x11:
	case 0x29:
		return i->size < 16 ? i->size : i->prefix == PREFIX_66 ? 8 : 4;
	case 0x7f:
		return i->prefix == PREFIX_F2 ? (i->w ? 2 : 1) : (i->w ? 8 : 4);
	default:
		return 0;
	}
}

static bool apply_opmask(const struct insn *i, const struct store_vectors *v,
			 struct store *out)
{
	unsigned element = element_bytes(i);
	uint8_t mask[8];

	if (!i->mask)
		return true;
	if (!element || !component(v, STORE_OPMASK, i->mask * 8u, mask, sizeof(mask)))
		return false;
	for (unsigned k = 0; k < i->size; k++) {
		unsigned e = k / element;

		if (!(mask[e / 8] >> e % 8 & 1))
			out->enabled &= ~(1ULL << k);
	}
	return true;
}

static bool apply_signs(const struct insn *i, const struct store_vectors *v,
			struct store *out)
{
	unsigned element = i->op->size == SIZE_W ? (i->w ? 8 : 4) : i->op->size;
	uint8_t mask[32];

	if (!vector(v, i->vvvv, mask, i->size))
		return false;
	for (unsigned k = 0; k < i->size; k++) {
		if (!(mask[k / element * element + element - 1] & 0x80))
			out->enabled &= ~(1ULL << k);
	}
	return true;
}

static bool store_element(const struct insn *i, const uint8_t *vector_bytes, struct store *out)
{
	unsigned whole = i->size < 16 ? 16 : i->vector_bytes;

	if (whole / i->size < (i->size < 16 ? 1 : 2))
		return false;
	memcpy(out->bytes, vector_bytes + i->immediate % (whole / i->size) * i->size, i->size);
	return true;
}

bool vectors_store(const struct insn *i, const struct store_vectors *v, struct store *out)
{
	uint8_t bytes[64];

	if (i->op->kind == KIND_MMX)
		return component(v, STORE_X87, MMX_OFFSET + (i->reg & 7) * 16u, out->bytes, i->size);
	if (!vector(v, i->reg, bytes, i->vector_bytes))
		return false;
	if (i->op->kind == KIND_ELEMENT) {
		if (!store_element(i, bytes, out))
			return false;
	} else {
		memcpy(out->bytes, bytes + (i->op->kind == KIND_HIGH ? 8 : 0), i->size);
	}
	return i->op->kind == KIND_MASKED ? apply_signs(i, v, out) : apply_opmask(i, v, out);
}
