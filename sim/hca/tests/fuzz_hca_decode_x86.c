/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_decode_x86.c - any bytes as an instruction, on any registers. What is decoded
 * has a sane size and moves on by its own length; what is not changes nothing; and bytes
 * behind the instruction do not matter.
 *
 * Input: flags, how much of an XSAVE area there is, registers, then code.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/hca/doorbell/decode.h"

#define AREA_BYTES 2688

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool can_load;

static bool load(void *to, uint64_t address, uint32_t n)
{
	if (n > STORE_BYTES_MAX)
		abort();
	memset(to, (int)(address & 0xff), n);
	return can_load;
}

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* An area of exactly that size, so that a sanitizer sees a read beyond it. */
static uint8_t *area_make(struct store_vectors *v, uint8_t amount)
{
	static const uint32_t offsets[STORE_NR_COMPONENTS] = {
		[STORE_AVX] = 576, [STORE_OPMASK] = 1088, [STORE_ZMM_HI256] = 1152,
		[STORE_HI16_ZMM] = 1664,
	};
	uint8_t *area;

	v->bytes = amount * (size_t)AREA_BYTES / 255;
	area = malloc(v->bytes + 1);
	need(area);
	memset(area, 0xff, v->bytes);
	v->area = v->bytes ? area : NULL;
	memcpy(v->offset, offsets, sizeof(offsets));
	return area;
}

static void check(const struct store_cpu *before, const struct store_cpu *after,
		  const struct store *s, size_t n)
{
	uint64_t length = after->rip - before->rip;

	need(s->size <= STORE_BYTES_MAX);
	need(!s->size || !(s->enabled & ~(UINT64_MAX >> (64 - s->size))));
	need(length <= n && length <= STORE_CODE_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_cpu before, cpu;
	struct store s, again;
	uint8_t *area, *code;
	size_t n;
	int rc;

	memset(&before, 0, sizeof(before));
	if (size < 2 + sizeof(before.gpr))
		return 0;
	can_load = data[0] & 1;
	before.rflags = data[0] & 2 ? 1 << 10 : 0;
	memcpy(before.gpr, data + 2, sizeof(before.gpr));
	before.rip = before.gpr[0];
	area = area_make(&before.vectors, data[1]);
	n = size - 2 - sizeof(before.gpr);
	code = malloc(n + 1);
	need(code);
	memcpy(code, data + 2 + sizeof(before.gpr), n);
	cpu = before;
	rc = store_decode(&cpu, code, n, load, &s);
	if (rc) {
		need(!memcmp(&cpu, &before, sizeof(cpu)));
	} else {
		uint64_t length = cpu.rip - before.rip;

		check(&before, &cpu, &s, n);
		cpu = before;
		if (length)
			need(!store_decode(&cpu, code, length, load, &again) &&
			     !memcmp(&s, &again, sizeof(s)));
	}
	free(area);
	free(code);
	return 0;
}
