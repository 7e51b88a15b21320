/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariant CRC against answers that this code did not give: one packet was captured
 * from a ConnectX-4 Lx, the other values come from zlib's crc32 over headers that a
 * Python script wrote.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/wire/codec.h"
#include "sim/hca/wire/icrc.h"

static struct icrc_path path_of(const char *source, const char *dest, uint16_t source_port)
{
	struct icrc_path p = { .source_port = source_port, .dest_port = 4791 };

	assert_int_equal(inet_pton(AF_INET6, source, p.source), 1);
	assert_int_equal(inet_pton(AF_INET6, dest, p.dest), 1);
	return p;
}

/* RDMA WRITE ONLY with immediate, "hello", padded: as in test_hca_codec.c. */
static const uint8_t small[40] = {
	0x0b, 0xf0, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef, 0x11, 0x22,
	0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0x00, 0x00, 0x00, 0x05,
	0xde, 0xad, 0xbe, 0xef, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x00, 0x00, 0x00,
};

/* RDMA WRITE MIDDLE with 4096 bytes. */
static uint8_t large[12 + 4096];

static int fill_large(void **state)
{
	static const uint8_t bth[12] = { 0x07, 0x40, 0xff, 0xff, 0, 1, 0, 2, 0, 0, 0, 9 };

	(void)state;
	memcpy(large, bth, sizeof(bth));
	for (int i = 0; i < 4096; i++)
		large[12 + i] = (uint8_t)(i * 7 + 3);
	return 0;
}

static void it_is_that_of_a_card(void **state)
{
	/* A congestion notification; the four bytes 82 fd 00 2a followed it. */
	static const uint8_t cnp[28] = { 0x81, 0, 0xff, 0xff, 0x40, 0, 0x01, 0x18 };
	struct icrc_path p = path_of("::ffff:10.0.17.1", "::ffff:10.0.18.1", 0);

	(void)state;
	assert_int_equal(icrc_compute(&p, 0x718c, cnp, sizeof(cnp)), 0x2a00fd82);
}

static void it_is_that_of_zlib(void **state)
{
	struct icrc_path v4 = path_of("::ffff:10.77.0.1", "::ffff:10.77.0.2", 4791);
	struct icrc_path v6 = path_of("fd77::1", "fd77::2", 4791);
	struct icrc_path big = path_of("::ffff:192.168.0.7", "::ffff:192.168.0.9", 4791);

	(void)state;
	assert_int_equal(icrc_compute(&v4, 0, small, sizeof(small)), 0xb3371b34);
	assert_int_equal(icrc_compute(&v4, 5, small, sizeof(small)), 0x7a38dcd9);
	assert_int_equal(icrc_compute(&v6, 0, small, sizeof(small)), 0xb5ec8ed5);
	assert_int_equal(icrc_compute(&big, 0, large, sizeof(large)), 0x5f8bc079);
	assert_int_equal(icrc_compute(&big, 1, large, sizeof(large)), 0x4b0cf268);
	assert_int_equal(icrc_compute(&big, 63, large, sizeof(large)), 0xfa50a134);
}

static void bytes_that_routers_change_do_not_count(void **state)
{
	struct icrc_path p = path_of("::ffff:10.77.0.1", "::ffff:10.77.0.2", 4791);
	uint8_t marked[sizeof(small)];

	(void)state;
	memcpy(marked, small, sizeof(small));
	marked[4] = 0xc0;	/* FECN and BECN */
	assert_int_equal(icrc_compute(&p, 0, marked, sizeof(marked)), 0xb3371b34);
}

static void tables_and_carry_less_multiplication_agree(void **state)
{
	uint8_t *bytes = malloc(5000 + 16);

	(void)state;
	assert_non_null(bytes);
	for (int i = 0; i < 5016; i++)
		bytes[i] = (uint8_t)(i * i * 31 + i);
	for (size_t n = 0; n < 5000; n += n < 300 ? 1 : 37)
		for (size_t at = 0; at < 16; at += 5)
			assert_int_equal(icrc_update((uint32_t)n * 77777u, bytes + at, n),
					 icrc_update_by_table((uint32_t)n * 77777u, bytes + at, n));
	free(bytes);
}

static void a_flipped_bit_is_noticed_wherever_it_is(void **state)
{
	struct icrc_path p = path_of("::ffff:192.168.0.7", "::ffff:192.168.0.9", 4791);

	(void)state;
	for (size_t bit = 0; bit < sizeof(large) * 8; bit += bit < 160 ? 1 : 101) {
		if (bit / 8 == 4)
			continue;
		large[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(icrc_check(&p, 0, large, sizeof(large), 0x5f8bc079));
		large[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (int bit = 0; bit < 32; bit++)
		assert_false(icrc_check(&p, 0, large, sizeof(large), 0x5f8bc079 ^ 1u << bit));
}

static void any_identification_of_a_large_send_is_taken(void **state)
{
	struct icrc_path p = path_of("::ffff:192.168.0.7", "::ffff:192.168.0.9", 4791);

	(void)state;
	for (uint16_t id = 0; id < 64; id++) {
		uint32_t icrc = icrc_compute(&p, id, large, sizeof(large));

		assert_true(icrc_check(&p, id, large, sizeof(large), icrc));
		assert_true(icrc_check(&p, 0, large, sizeof(large), icrc));
		assert_true(icrc_check(&p, 63, large, sizeof(large), icrc));
		icrc = icrc_compute(&p, id, small, sizeof(small));
		assert_true(icrc_check(&p, 17, small, sizeof(small), icrc));
	}
	assert_false(icrc_check(&p, 0, large, sizeof(large),
				icrc_compute(&p, 64, large, sizeof(large))));
}

static void another_address_or_port_is_another_icrc(void **state)
{
	struct icrc_path p = path_of("fd77::1", "fd77::2", 4791);
	uint32_t icrc = icrc_compute(&p, 0, small, sizeof(small));

	(void)state;
	assert_true(icrc_check(&p, 0, small, sizeof(small), icrc));
	p.source_port++;
	assert_false(icrc_check(&p, 0, small, sizeof(small), icrc));
	p.source_port--;
	p.dest[15] ^= 1;
	assert_false(icrc_check(&p, 0, small, sizeof(small), icrc));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_that_of_a_card),
		cmocka_unit_test(it_is_that_of_zlib),
		cmocka_unit_test(bytes_that_routers_change_do_not_count),
		cmocka_unit_test(tables_and_carry_less_multiplication_agree),
		cmocka_unit_test(a_flipped_bit_is_noticed_wherever_it_is),
		cmocka_unit_test(any_identification_of_a_large_send_is_taken),
		cmocka_unit_test(another_address_or_port_is_another_icrc),
	};

	return cmocka_run_group_tests(tests, fill_large, NULL);
}
