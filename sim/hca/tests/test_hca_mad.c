/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_mad.c - CM messages against bytes written down from the tables of IBA volume 1,
 * chapter 12: each field where the table has it, and nothing else set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/cm/mad.h"

enum { HEADER = 24 };			/* the tables count from behind the MAD header */

/* Some bytes of a message, the rest being zero. */
struct piece {
	uint32_t at, length;
	const char *bytes;
};

#define PIECE(at, bytes) { at, sizeof(bytes) - 1, bytes }

static void put_header(uint8_t *to, uint32_t attribute)
{
	memcpy(to, "\x01\x07\x02\x03\0\0\0\0\x11\x22\x33\x44\x55\x66\x77\x88\0", 17);
	to[17] = (uint8_t)attribute;
	memcpy(to + 20, "\xa1\xa2\xa3\xa4", 4);
}

static struct cm_mad message(uint32_t attribute)
{
	return (struct cm_mad){
		.attribute = attribute, .transaction = 0x1122334455667788, .modifier = 0xa1a2a3a4,
		.local_id = 0xc1c2c3c4,
	};
}

static void check(const struct cm_mad *m, const struct piece *pieces, size_t n)
{
	uint8_t expected[CM_MAD_BYTES] = { 0 }, packed[CM_MAD_BYTES];
	struct cm_mad back;

	put_header(expected, m->attribute);
	while (n--)
		memcpy(expected + HEADER + pieces[n].at, pieces[n].bytes, pieces[n].length);
	memset(packed, 0xee, sizeof(packed));
	cm_mad_pack(m, packed);
	assert_memory_equal(packed, expected, CM_MAD_BYTES);
	assert_true(cm_mad_unpack(&back, packed, CM_MAD_BYTES));
	assert_memory_equal(&back, m, sizeof(back));
}

#define CHECK(m, ...) do { \
	const struct piece pieces_[] = { __VA_ARGS__ }; \
	check(m, pieces_, sizeof(pieces_) / sizeof(pieces_[0])); \
} while (0)

#define GID_A "\xfe\x80\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01"
#define GID_B "\xfe\x80\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x02"

static void test_req(void **state)
{
	struct cm_mad m = message(CM_REQ);

	(void)state;
	m.vendor_id = 0x0015b3;
	m.service_id = 0x0000000001061c06;
	m.ca_guid = 0x0102030405060708;
	m.qkey = 0x80010000;
	m.qpn = 0x123456;
	m.responder_resources = 3;
	m.initiator_depth = 5;
	m.remote_response_timeout = 20;
	m.transport = 3;
	m.flow_control = 1;
	m.psn = 0xabcdef;
	m.local_response_timeout = 19;
	m.retry_count = 7;
	m.pkey = 0xffff;
	m.mtu = 5;
	m.rnr_retry_count = 6;
	m.max_cm_retries = 15;
	m.srq = 1;
	m.path.slid = 0x0102;
	m.path.dlid = 0x0304;
	memcpy(m.path.sgid, GID_A, 16);
	memcpy(m.path.dgid, GID_B, 16);
	m.path.flow_label = 0x12345;
	m.path.rate = 16;
	m.path.traffic_class = 0x21;
	m.path.hop_limit = 64;
	m.path.sl = 4;
	m.path.subnet_local = 1;
	m.path.ack_timeout = 18;
	memcpy(m.private_data, "hello", 5);
	m.private_data[91] = 0x99;
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4"), PIECE(5, "\x00\x15\xb3"),
	      PIECE(8, "\0\0\0\0\x01\x06\x1c\x06"), PIECE(16, "\x01\x02\x03\x04\x05\x06\x07\x08"),
	      PIECE(28, "\x80\x01\0\0"), PIECE(32, "\x12\x34\x56\x03"), PIECE(39, "\x05"),
	      PIECE(43, "\xa7\xab\xcd\xef\x9f"), PIECE(48, "\xff\xff\x56\xf8"),
	      PIECE(52, "\x01\x02\x03\x04" GID_A GID_B), PIECE(88, "\x12\x34\x50\x10"),
	      PIECE(92, "\x21\x40\x48\x90"), PIECE(140, "hello"), PIECE(231, "\x99"));
	assert_int_equal(cm_mad_private_bytes(CM_REQ), 92);
}

static void test_rep(void **state)
{
	struct cm_mad m = message(CM_REP);

	(void)state;
	m.remote_id = 0xd1d2d3d4;
	m.qkey = 0x01234567;
	m.qpn = 0x654321;
	m.vendor_id = 0xa0b0c0;
	m.psn = 0x010203;
	m.responder_resources = 4;
	m.initiator_depth = 2;
	m.target_ack_delay = 16;
	m.failover = 1;
	m.flow_control = 1;
	m.rnr_retry_count = 5;
	m.srq = 1;
	m.ca_guid = 0x0807060504030201;
	memcpy(m.private_data, "yes", 3);
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xd1\xd2\xd3\xd4\x01\x23\x45\x67\x65\x43\x21\xa0"),
	      PIECE(19, "\xb0\x01\x02\x03\xc0\x04\x02\x83\xb0"),
	      PIECE(28, "\x08\x07\x06\x05\x04\x03\x02\x01yes"));
	assert_int_equal(cm_mad_private_bytes(CM_REP), 196);
}

static void test_rej(void **state)
{
	struct cm_mad m = message(CM_REJ);

	(void)state;
	m.remote_id = 0xd1d2d3d4;
	m.message = CM_MESSAGE_OTHER;
	m.ari_length = 8;
	m.reason = 0x011c;
	memcpy(m.ari, "12345678", 8);
	memcpy(m.private_data, "no", 2);
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xd1\xd2\xd3\xd4\x80\x10\x01\x1c" "12345678"),
	      PIECE(84, "no"));
	assert_int_equal(cm_mad_private_bytes(CM_REJ), 148);
}

static void test_mra(void **state)
{
	struct cm_mad m = message(CM_MRA);

	(void)state;
	m.remote_id = 0xd1d2d3d4;
	m.message = CM_MESSAGE_REP;
	m.service_timeout = 20;
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xd1\xd2\xd3\xd4\x40\xa0"));
	assert_int_equal(cm_mad_private_bytes(CM_MRA), 222);
}

static void test_short_ones(void **state)
{
	static const uint32_t attributes[] = { CM_RTU, CM_DREP, CM_DREQ };
	struct cm_mad m;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		m = message(attributes[i]);
		m.remote_id = 0xd1d2d3d4;
		memcpy(m.private_data, "ok", 2);
		CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xd1\xd2\xd3\xd4ok"));
		assert_int_equal(cm_mad_private_bytes(attributes[i]), 224);
	}
	m = message(CM_DREQ);
	m.remote_id = 0xd1d2d3d4;
	m.qpn = 0x123456;
	memcpy(m.private_data, "bye", 3);
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xd1\xd2\xd3\xd4\x12\x34\x56\0bye"));
	assert_int_equal(cm_mad_private_bytes(CM_DREQ), 220);
}

static void test_sidr(void **state)
{
	struct cm_mad m = message(CM_SIDR_REQ);

	(void)state;
	m.pkey = 0xffff;
	m.service_id = 0x0000000001111c06;
	memcpy(m.private_data, "who", 3);
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\xff\xff"), PIECE(8, "\0\0\0\0\x01\x11\x1c\x06who"));
	assert_int_equal(cm_mad_private_bytes(CM_SIDR_REQ), 216);

	m = message(CM_SIDR_REP);
	m.status = 2;
	m.ari_length = 3;
	m.qpn = 0x123456;
	m.service_id = 0x0000000001111c06;
	m.qkey = 0x01234567;
	memcpy(m.ari, "ari", 3);
	memcpy(m.private_data, "me", 2);
	CHECK(&m, PIECE(0, "\xc1\xc2\xc3\xc4\x02\x03"),
	      PIECE(8, "\x12\x34\x56\0\0\0\0\0\x01\x11\x1c\x06\x01\x23\x45\x67" "ari"),
	      PIECE(96, "me"));
	assert_int_equal(cm_mad_private_bytes(CM_SIDR_REP), 136);
}

static void test_ip_header(void **state)
{
	static const char golden[] = "\x00\x40\xbf\x01\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\x01"
				     "\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\x02";
	struct cm_ip_header h = {
		.version = 4, .source_port = 0xbf01,
		.source = { [12] = 10, [15] = 1 }, .destination = { [12] = 10, [15] = 2 },
	}, back;
	uint8_t bytes[CM_IP_HEADER_BYTES];

	(void)state;
	cm_ip_header_pack(&h, bytes);
	assert_memory_equal(bytes, golden, sizeof(bytes));
	memset(&back, 0, sizeof(back));
	assert_true(cm_ip_header_unpack(&back, bytes));
	assert_memory_equal(back.source, h.source, 16);
	assert_memory_equal(back.destination, h.destination, 16);
	assert_int_equal(back.version, 4);
	assert_int_equal(back.source_port, 0xbf01);
	bytes[1] = 0x50;
	assert_false(cm_ip_header_unpack(&back, bytes));
	bytes[1] = 0x60;
	bytes[0] = 0x10;
	assert_false(cm_ip_header_unpack(&back, bytes));
}

static void test_strangers_are_refused(void **state)
{
	struct cm_mad m = message(CM_RTU), back;
	uint8_t bytes[CM_MAD_BYTES];
	int i;

	(void)state;
	cm_mad_pack(&m, bytes);
	assert_false(cm_mad_unpack(&back, bytes, CM_MAD_BYTES - 1));
	for (i = 0; i < 4; i++) {
		bytes[i] ^= 0x40;
		assert_false(cm_mad_unpack(&back, bytes, CM_MAD_BYTES));
		bytes[i] ^= 0x40;
	}
	bytes[17] = CM_SIDR_REP + 1;		/* LAP: path migration is not offered */
	assert_false(cm_mad_unpack(&back, bytes, CM_MAD_BYTES));
	bytes[17] = CM_REQ - 1;
	assert_false(cm_mad_unpack(&back, bytes, CM_MAD_BYTES));
	bytes[16] = 1;
	bytes[17] = CM_REQ;
	assert_false(cm_mad_unpack(&back, bytes, CM_MAD_BYTES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_req),
		cmocka_unit_test(test_rep),
		cmocka_unit_test(test_rej),
		cmocka_unit_test(test_mra),
		cmocka_unit_test(test_short_ones),
		cmocka_unit_test(test_sidr),
		cmocka_unit_test(test_ip_header),
		cmocka_unit_test(test_strangers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
