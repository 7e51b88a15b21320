/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets to bytes and back. The golden bytes were put together field by field by a
 * Python script from the tables of IBA volume 1, chapter 9.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/wire/codec.h"

static const uint8_t immediate[4] = { 0xde, 0xad, 0xbe, 0xef };

static const struct golden {
	struct hca_packet packet;
	uint8_t bytes[48];
	size_t n;
} goldens[] = {
	{ { .opcode = HCA_RC | HCA_WRITE_ONLY_IMM, .solicited = true, .ack_request = true,
	    .pkey = 0xffff, .dest_qpn = 0x123456, .psn = 0xabcdef,
	    .remote_address = 0x1122334455667788, .rkey = 0x99aabbcc, .dma_length = 5,
	    .payload = (const uint8_t *)"hello", .length = 5 },
	  { 0x0b, 0xf0, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef,
	    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
	    0x00, 0x00, 0x00, 0x05, 0xde, 0xad, 0xbe, 0xef,
	    0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x00, 0x00, 0x00 }, 40 },
	{ { .opcode = HCA_RC | HCA_READ_REQUEST, .pkey = 0xffff, .dest_qpn = 0x010002, .psn = 1,
	    .remote_address = 0x7f0000001000, .rkey = 0x1234, .dma_length = 0x100000 },
	  { 0x0c, 0x40, 0xff, 0xff, 0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01,
	    0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x12, 0x34,
	    0x00, 0x10, 0x00, 0x00 }, 28 },
	{ { .opcode = HCA_RC | HCA_COMPARE_SWAP, .ack_request = true, .pkey = 0xffff,
	    .dest_qpn = 0x020003, .psn = 5, .remote_address = 0x7f0000001008, .rkey = 0x55,
	    .swap_or_add = 0x0102030405060708, .compare = 0x1112131415161718 },
	  { 0x13, 0x40, 0xff, 0xff, 0x00, 0x02, 0x00, 0x03, 0x80, 0x00, 0x00, 0x05,
	    0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x08, 0x00, 0x00, 0x00, 0x55,
	    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
	    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18 }, 40 },
	{ { .opcode = HCA_RC | HCA_ATOMIC_ACKNOWLEDGE, .pkey = 0xffff, .dest_qpn = 0x020003,
	    .psn = 5, .syndrome = HCA_AETH_ACK, .msn = 0x000102,
	    .original = 0x2122232425262728 },
	  { 0x12, 0x40, 0xff, 0xff, 0x00, 0x02, 0x00, 0x03, 0x00, 0x00, 0x00, 0x05,
	    0x1f, 0x00, 0x01, 0x02, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28 }, 24 },
	{ { .opcode = HCA_UD | HCA_SEND_ONLY_IMM, .pkey = 0xffff, .dest_qpn = 1, .psn = 7,
	    .qkey = 0x80010000, .source_qpn = 0x03abcd, .payload = (const uint8_t *)"ab",
	    .length = 2 },
	  { 0x65, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x07,
	    0x80, 0x01, 0x00, 0x00, 0x00, 0x03, 0xab, 0xcd, 0xde, 0xad, 0xbe, 0xef,
	    0x61, 0x62, 0x00, 0x00 }, 28 },
	{ { .opcode = HCA_RC | HCA_SEND_ONLY_INVALIDATE, .pkey = 0x8001, .dest_qpn = 3, .psn = 4,
	    .rkey = 0xcafe0001, .payload = (const uint8_t *)"four", .length = 4 },
	  { 0x17, 0x40, 0x80, 0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x04,
	    0xca, 0xfe, 0x00, 0x01, 0x66, 0x6f, 0x75, 0x72 }, 20 },
	{ { .opcode = HCA_RC | HCA_ACKNOWLEDGE, .pkey = 0xffff, .dest_qpn = 0x030001,
	    .psn = 0xffffff, .syndrome = HCA_AETH_NAK_REMOTE_ACCESS, .msn = 0xfffffe },
	  { 0x11, 0x40, 0xff, 0xff, 0x00, 0x03, 0x00, 0x01, 0x00, 0xff, 0xff, 0xff,
	    0x62, 0xff, 0xff, 0xfe }, 16 },
};

#define NR_GOLDENS (sizeof(goldens) / sizeof(goldens[0]))

/* As the packet lies in goldens, but for what an initializer cannot say. */
static struct hca_packet golden_packet(const struct golden *g)
{
	struct hca_packet p = g->packet;

	if (p.opcode == HCA_WRITE_ONLY_IMM || p.opcode == (HCA_UD | HCA_SEND_ONLY_IMM))
		memcpy(&p.immediate, immediate, 4);
	return p;
}

static void golden_packets_become_their_bytes(void **state)
{
	uint8_t room[CODEC_MAX_BYTES];

	(void)state;
	for (size_t i = 0; i < NR_GOLDENS; i++) {
		struct hca_packet p = golden_packet(&goldens[i]);

		memset(room, 0xa5, sizeof(room));	/* what the last packet left */
		assert_int_equal(codec_bytes(&p), goldens[i].n);
		codec_encode(&p, false, room);
		assert_memory_equal(room, goldens[i].bytes, goldens[i].n);
		assert_int_equal(room[goldens[i].n], 0xa5);
	}
}

static void assert_same(const struct hca_packet *a, const struct hca_packet *b)
{
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->remote_address, b->remote_address);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->dma_length, b->dma_length);
	assert_int_equal(a->swap_or_add, b->swap_or_add);
	assert_int_equal(a->compare, b->compare);
	assert_int_equal(a->original, b->original);
	assert_int_equal(a->syndrome, b->syndrome);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->source_qpn, b->source_qpn);
	assert_int_equal(a->immediate, b->immediate);
	assert_int_equal(a->length, b->length);
	if (a->length)
		assert_memory_equal(a->payload, b->payload, a->length);
}

static void golden_bytes_become_their_packets(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_GOLDENS; i++) {
		struct hca_packet p = { 0 }, expected = golden_packet(&goldens[i]);

		assert_int_equal(codec_decode(&p, goldens[i].bytes, goldens[i].n), 0);
		assert_same(&p, &expected);
		assert_true(p.route.has_grh);
	}
}

/* A copy that is exactly so long, for asan. */
static int decode_copy(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	struct hca_packet p = { 0 };
	int rc;

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	rc = codec_decode(&p, copy, n);
	free(copy);
	return rc;
}

static void a_packet_that_is_cut_in_its_headers_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_GOLDENS; i++) {
		size_t headers = goldens[i].n - ((goldens[i].packet.length + 3) & ~3u);

		for (size_t n = 0; n < goldens[i].n; n++)
			if (n < headers || n % 4)
				assert_int_equal(decode_copy(goldens[i].bytes, n), -EBADMSG);
	}
}

static void a_payload_where_none_may_be_is_refused(void **state)
{
	uint8_t room[64] = { 0 };
	struct hca_packet p;

	(void)state;
	for (size_t i = 0; i < NR_GOLDENS; i++) {
		if (goldens[i].packet.length)
			continue;
		memcpy(room, goldens[i].bytes, goldens[i].n);
		assert_int_equal(decode_copy(room, goldens[i].n + 4), -EBADMSG);
		p = golden_packet(&goldens[i]);
		p.payload = room;
		p.length = 1;
		assert_int_equal(codec_bytes(&p), 0);
	}
}

static void a_pad_longer_than_what_is_there_is_refused(void **state)
{
	uint8_t room[64];

	(void)state;
	memcpy(room, goldens[0].bytes, goldens[0].n);
	assert_int_equal(decode_copy(room, 36), 0);	/* one byte and a pad of 3 */
	assert_int_equal(decode_copy(room, 32), -EBADMSG);
}

static void an_unknown_opcode_or_version_is_refused(void **state)
{
	uint8_t room[64] = { 0 };
	struct hca_packet p = { 0 };
	int known = 0;

	(void)state;
	for (int opcode = 0; opcode < 256; opcode++) {
		p.opcode = (uint8_t)opcode;
		known += codec_bytes(&p) != 0;
	}
	assert_int_equal(known, 25);
	room[0] = 0x15;		/* RESYNC, of reliable datagrams only */
	assert_int_equal(decode_copy(room, 64), -EBADMSG);
	room[0] = HCA_SEND_ONLY;
	assert_int_equal(decode_copy(room, 64), 0);
	room[1] = 1;		/* transport version */
	assert_int_equal(decode_copy(room, 64), -EBADMSG);
}

static void payloads_of_every_length_and_opcode_come_back(void **state)
{
	uint8_t payload[CODEC_MAX_PAYLOAD_BYTES], room[CODEC_MAX_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + 7);
	for (int opcode = 0; opcode < 256; opcode++)
		for (uint32_t n = 0; n <= 4096; n += n < 8 ? 1 : 511) {
			struct hca_packet p = { .opcode = (uint8_t)opcode, .payload = payload,
						.length = n }, q = { 0 };
			size_t bytes = codec_bytes(&p);

			if (!bytes)
				continue;
			codec_encode(&p, false, room);
			assert_int_equal(codec_decode(&q, room, bytes), 0);
			assert_same(&p, &q);
		}
}

static void the_longest_payload_is_4096_bytes(void **state)
{
	struct hca_packet p = { .opcode = HCA_SEND_ONLY, .length = 4097 };
	uint8_t *bytes = calloc(1, CODEC_MAX_BYTES + 4);

	(void)state;
	assert_int_equal(codec_bytes(&p), 0);
	bytes[0] = HCA_SEND_ONLY;
	assert_int_equal(codec_decode(&p, bytes, CODEC_BTH_BYTES + 4096), 0);
	assert_int_equal(codec_decode(&p, bytes, CODEC_BTH_BYTES + 4100), -EBADMSG);
	assert_int_equal(codec_decode(&p, bytes, CODEC_MAX_BYTES + 4), -EBADMSG);
	free(bytes);
}

static void an_infiniband_link_keeps_grh_and_service_level(void **state)
{
	struct hca_packet p = { .opcode = HCA_SEND_ONLY, .route.sl = 13 }, q = { 0 };
	uint8_t room[CODEC_MAX_BYTES];

	(void)state;
	codec_encode(&p, true, room);
	assert_int_equal(room[4] & CODEC_IB_LINK, CODEC_IB_LINK);
	assert_int_equal(codec_decode(&q, room, codec_bytes(&p)), 0);
	assert_int_equal(q.route.sl, 13);
	assert_false(q.route.has_grh);
	p.route.has_grh = true;
	codec_encode(&p, true, room);
	assert_int_equal(codec_decode(&q, room, codec_bytes(&p)), 0);
	assert_true(q.route.has_grh);
	codec_encode(&p, false, room);
	assert_int_equal(room[4], 0);
}

static void responses_are_told_from_requests(void **state)
{
	(void)state;
	assert_true(codec_is_response(HCA_READ_RESPONSE_FIRST));
	assert_true(codec_is_response(HCA_ACKNOWLEDGE));
	assert_true(codec_is_response(HCA_ATOMIC_ACKNOWLEDGE));
	assert_false(codec_is_response(HCA_READ_REQUEST));
	assert_false(codec_is_response(HCA_COMPARE_SWAP));
	assert_false(codec_is_response(HCA_UD | HCA_SEND_ONLY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_packets_become_their_bytes),
		cmocka_unit_test(golden_bytes_become_their_packets),
		cmocka_unit_test(a_packet_that_is_cut_in_its_headers_is_refused),
		cmocka_unit_test(a_payload_where_none_may_be_is_refused),
		cmocka_unit_test(a_pad_longer_than_what_is_there_is_refused),
		cmocka_unit_test(an_unknown_opcode_or_version_is_refused),
		cmocka_unit_test(payloads_of_every_length_and_opcode_come_back),
		cmocka_unit_test(the_longest_payload_is_4096_bytes),
		cmocka_unit_test(an_infiniband_link_keeps_grh_and_service_level),
		cmocka_unit_test(responses_are_told_from_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
