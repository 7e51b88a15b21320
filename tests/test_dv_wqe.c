/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_wqe.c - each shape of a WQE byte by byte, built in a slot that was dirty. What
 * libmlx5 makes of the same requests is compared in tests/dv_reference.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dv/wqe.h"

#define PI  0x89ab1234u		/* the card is told the lower half */
#define QPN 0xabcdefu

static const struct dv_piece piece = {
	.local = 0x0102030405060708, .remote = 0x1122334455667788,
	.lkey = 0x99aabbcc, .rkey = 0xddeeff01, .length = 0x12345,
};

union slot {
	uint8_t bytes[5 * DV_BB];
	struct dv_wqe_rdma rdma;
	struct dv_wqe_inline inl;
	struct dv_wqe_nop nop;
};

/* The golden bytes, and behind them what was there before. */
static void expect(const union slot *s, const uint8_t *golden, size_t size, uint8_t dirt)
{
	assert_memory_equal(s->bytes, golden, size);
	for (size_t i = size; i < sizeof(s->bytes); i++)
		assert_int_equal(s->bytes[i], dirt);
}

static void an_rdma_wqe_is_these_48_bytes(uint8_t opcode)
{
	const uint8_t golden[48] = {
		0x00, 0x12, 0x34, opcode,		/* modifier, 16 bits of pi, opcode */
		0xab, 0xcd, 0xef, 0x03,			/* QPN, 3 segments */
		0x00, 0x00, 0x00, 0x00,			/* signature, stream, no completion */
		0x00, 0x00, 0x00, 0x00,			/* no immediate */
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, /* remote address */
		0xdd, 0xee, 0xff, 0x01,			/* rkey */
		0x00, 0x00, 0x00, 0x00,			/* reserved */
		0x00, 0x01, 0x23, 0x45,			/* bytes */
		0x99, 0xaa, 0xbb, 0xcc,			/* lkey */
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* local address */
	};

	for (int dirt = 0; dirt < 256; dirt += 255) {
		union slot s;

		memset(&s, dirt, sizeof(s));
		dv_wqe_rdma(&s.rdma, opcode, PI, dv_qpn_ds(QPN, DV_RDMA_DS), &piece);
		expect(&s, golden, sizeof(golden), (uint8_t)dirt);
	}
}

static void a_write_is_three_segments(void **state)
{
	(void)state;
	an_rdma_wqe_is_these_48_bytes(0x08);
}

static void a_read_differs_by_its_opcode(void **state)
{
	(void)state;
	an_rdma_wqe_is_these_48_bytes(0x10);
}

static void a_nop_is_one_segment(void **state)
{
	static const uint8_t golden[16] = {
		0x00, 0x12, 0x34, 0x00, 0xab, 0xcd, 0xef, 0x01,
	};
	union slot s;

	(void)state;
	memset(&s, 0xa5, sizeof(s));
	dv_wqe_nop(&s.nop, PI, QPN);
	expect(&s, golden, sizeof(golden), 0xa5);
}

static void an_inline_write_carries_every_length_padded_with_zeroes(void **state)
{
	uint8_t data[DV_INLINE_MAX];

	(void)state;
	for (uint32_t i = 0; i < DV_INLINE_MAX; i++)
		data[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t n = 1; n <= DV_INLINE_MAX; n++) {
		uint8_t segments = (uint8_t)((36 + n + 15) / 16);
		uint8_t golden[256] = {
			0x00, 0x12, 0x34, 0x08,
			0xab, 0xcd, 0xef, segments,
			0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
			0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
			0xdd, 0xee, 0xff, 0x01, 0x00, 0x00, 0x00, 0x00,
			0x80, 0x00, 0x00, (uint8_t)n,	/* inline, bytes */
		};
		struct dv_piece p = piece;
		union slot s;

		p.length = n;
		memcpy(golden + 36, data, n);
		memset(&s, 0xa5, sizeof(s));
		dv_wqe_inline(&s.inl, PI, QPN, &p, data);
		expect(&s, golden, segments * 16u, 0xa5);
	}
}

static void blocks_of_an_inline_write_end_at_28_92_156_and_220_bytes(void **state)
{
	static const uint32_t ends[] = { 28, 92, 156, 220 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(dv_inline_bb(ends[i]), i + 1);
		assert_int_equal(dv_inline_ds(ends[i]), 4 * (i + 1));
		if (i < 3)
			assert_int_equal(dv_inline_bb(ends[i] + 1), i + 2);
	}
	assert_int_equal(dv_inline_bb(1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_is_three_segments),
		cmocka_unit_test(a_read_differs_by_its_opcode),
		cmocka_unit_test(a_nop_is_one_segment),
		cmocka_unit_test(an_inline_write_carries_every_length_padded_with_zeroes),
		cmocka_unit_test(blocks_of_an_inline_write_end_at_28_92_156_and_220_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
