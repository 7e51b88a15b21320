/* SPDX-License-Identifier: Apache-2.0 */
/* test_crc32c.c - the checksum of payloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/crc32c.h"
#include "tests/common/random.h"

/* RFC 3720, B.4, and the check value of the catalogues. */
static void published_vectors_hold(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
	for (uint8_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i;
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
	assert_int_equal(crc32c(0, bytes, 0), 0);
}

static void it_is_the_same_without_the_cpus_help(void **state)
{
	uint64_t chance = 1;
	uint8_t bytes[300];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_next(&chance);
	for (size_t at = 0; at < 16; at++)
		for (size_t n = 0; n + at <= sizeof(bytes); n++)
			assert_int_equal(crc32c(7, bytes + at, n), crc32c_plain(7, bytes + at, n));
}

static void it_goes_on_where_it_stopped(void **state)
{
	uint64_t chance = 2;
	uint8_t bytes[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_next(&chance);
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
				 crc32c(0, bytes, sizeof(bytes)));
}

static void every_bit_counts(void **state)
{
	uint8_t bytes[64] = { 0 };
	uint32_t whole = crc32c(0, bytes, sizeof(bytes));

	(void)state;
	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(crc32c(0, bytes, sizeof(bytes)), whole);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_hold),
		cmocka_unit_test(it_is_the_same_without_the_cpus_help),
		cmocka_unit_test(it_goes_on_where_it_stopped),
		cmocka_unit_test(every_bit_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
