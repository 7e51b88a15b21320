/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_frame.c - what peers say of their queue pairs and keys: what was written is
 * read again, and what a peer makes up is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dv/rdma_memory.h"

static const struct dv_endpoint endpoint = {
	.address = { .link = IBV_LINK_LAYER_INFINIBAND, .mtu = IBV_MTU_4096, .lid = 0xbeef,
		     .gid.raw = { 0xfe, 0x80, [15] = 0x77 } },
	.qpn = 0xabcdef, .psn = 0x123456, .reads = 16,
};

static void a_frame_is_read_as_it_was_written(void **state)
{
	json_t *frame = rdma_frame("call", 0x1234567890abcdefull, &endpoint, "why not");
	struct rdma_said s;

	(void)state;
	assert_true(rdma_frame_read(frame, &s));
	assert_string_equal(s.what, "call");
	assert_true(s.id == 0x1234567890abcdefull);
	assert_true(s.has_endpoint);
	assert_memory_equal(&s.endpoint.address, &endpoint.address, sizeof(endpoint.address));
	assert_int_equal(s.endpoint.qpn, endpoint.qpn);
	assert_int_equal(s.endpoint.psn, endpoint.psn);
	assert_int_equal(s.endpoint.reads, endpoint.reads);
	assert_string_equal(s.reason, "why not");
	json_decref(frame);
}

static void an_endpoint_may_be_absent(void **state)
{
	json_t *frame = rdma_frame("end", 1, NULL, NULL);
	struct rdma_said s;

	(void)state;
	assert_true(rdma_frame_read(frame, &s));
	assert_false(s.has_endpoint);
	assert_null(s.reason);
	json_decref(frame);
}

static void what_a_call_may_wish_for_may_be_absent(void **state)
{
	json_t *frame = rdma_frame("call", 1, &endpoint, NULL);
	struct rdma_said s;

	(void)state;
	assert_true(rdma_frame_read(frame, &s));
	assert_int_equal(s.rail, 0);
	assert_int_equal(s.service_level, RDMA_NOT_SAID);
	assert_int_equal(s.traffic_class, RDMA_NOT_SAID);
	json_object_set_new(frame, "rail", json_integer(3));
	json_object_set_new(frame, "service_level", json_integer(15));
	json_object_set_new(frame, "traffic_class", json_integer(255));
	assert_true(rdma_frame_read(frame, &s));
	assert_int_equal(s.rail, 3);
	assert_int_equal(s.service_level, 15);
	assert_int_equal(s.traffic_class, 255);
	json_decref(frame);
}

/* One member of a good frame is replaced, or taken out: not one is done without. */
static void a_frame_with_one_bad_member_is_refused(void **state)
{
	static const struct {
		const char *in, *name, *value;	/* in: "" or "endpoint"; value: NULL: none */
	} bad[] = {
		{ "", "what", NULL }, { "", "what", "1" },
		{ "", "id", NULL }, { "", "id", "7" }, { "", "id", "\"0x\"" },
		{ "", "id", "\"12\"" }, { "", "id", "\"0xG\"" },
		{ "", "id", "\"0x11112222333344445\"" },
		{ "", "endpoint", "1" }, { "", "endpoint", "{}" },
		{ "", "rail", "256" }, { "", "service_level", "16" },
		{ "", "traffic_class", "256" }, { "", "traffic_class", "\"96\"" },
		{ "endpoint", "infiniband", NULL }, { "endpoint", "infiniband", "1" },
		{ "endpoint", "mtu", NULL }, { "endpoint", "mtu", "-1" },
		{ "endpoint", "mtu", "256" }, { "endpoint", "mtu", "1.5" },
		{ "endpoint", "lid", NULL }, { "endpoint", "lid", "65536" },
		{ "endpoint", "gid", NULL }, { "endpoint", "gid", "\"fe80\"" },
		{ "endpoint", "gid", "\"FE800000000000000000000000000000\"" },
		{ "endpoint", "gid", "\"fe8000000000000000000000000000000\"" },
		{ "endpoint", "qpn", NULL }, { "endpoint", "qpn", "4294967296" },
		{ "endpoint", "psn", NULL }, { "endpoint", "psn", "\"1\"" },
		{ "endpoint", "reads", NULL }, { "endpoint", "reads", "256" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *frame = rdma_frame("answer", 1, &endpoint, NULL);
		json_t *in = *bad[i].in ? json_object_get(frame, bad[i].in) : frame;
		struct rdma_said s;

		if (bad[i].value)
			json_object_set_new(in, bad[i].name,
					    json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
		else
			json_object_del(in, bad[i].name);
		if (rdma_frame_read(frame, &s))
			fail_msg("%s %s", bad[i].name, bad[i].value ? bad[i].value : "absent");
		json_decref(frame);
	}
}

/* ---- rails ------------------------------------------------------------- */

static void memory_goes_by_the_rails_of_its_numa_node(void **state)
{
	struct rdma_instance inst = {
		.nr_rails = 3, .all_rails = 7,
		.rails = { { .node = 1 }, { .node = 0 }, { .node = 1 } },
	};

	(void)state;
	assert_int_equal(rdma_nearest(&inst, "cpu:0"), 2);
	assert_int_equal(rdma_nearest(&inst, "cpu:1"), 5);
	assert_int_equal(rdma_nearest(&inst, "cpu:2"), 7);
	assert_int_equal(rdma_nearest(&inst, "*"), 7);
}

/* ---- keys -------------------------------------------------------------- */

static void keys_are_read_as_they_were_written(void **state)
{
	struct dv_mr mr = { .remote = { .base = 0x1000, .end = 0x1000 + 0x5000,
					.piece_bytes = 0x2000, .nr = 3,
					.keys = { 1, 0xffffffff, 0x80000000 } } };
	struct rdma_near near = { .rails = 1, .mrs = { &mr } };
	const struct region r = { .wired = &near };
	char text[WIRED_KEYS_SIZE];
	struct dv_keys k;
	uint64_t span;

	(void)state;
	assert_true(rdma_region_keys(&r, text));
	assert_string_equal(text, "2000/00000001/ffffffff/80000000");
	assert_true(rdma_keys_read(text, 0x1000, 0x6000, &k));
	assert_int_equal(dv_keys_find(&k, 0x1000 + 0x3fff, 0x1000, &span), 0xffffffff);
	assert_int_equal(span, 1);
	assert_int_equal(dv_keys_find(&k, 0x1000 + 0x4000, 0x1000, &span), 0x80000000);
	assert_int_equal(span, 0x1000);
}

static void each_rail_has_keys_of_its_own_or_none(void **state)
{
	struct dv_mr first = { .remote = { .piece_bytes = 0x5000, .nr = 1, .keys = { 1 } } };
	struct dv_mr local = { .remote = { .piece_bytes = 0x5000 } };
	struct dv_mr last = { .remote = { .piece_bytes = 0x8000, .nr = 1, .keys = { 7 } } };
	struct rdma_near near = { .rails = 0xd, .mrs = { &first, NULL, &local, &last } };
	const struct region r = { .wired = &near };
	struct dv_keys k[RDMA_RAILS_MAX];
	char text[WIRED_KEYS_SIZE];

	(void)state;
	assert_true(rdma_region_keys(&r, text));
	assert_string_equal(text, "5000/00000001;;;8000/00000007");
	assert_int_equal(rdma_keys_count(text), 4);
	assert_true(rdma_keys_read(text, 0x1000, 0x6000, k));
	assert_int_equal(k[0].nr, 1);
	assert_int_equal(k[1].nr + k[2].nr, 0);
	assert_int_equal(k[3].keys[0], 7);
	assert_int_equal(rdma_keys_count("1;1;1;1;1;1;1;1;1"), 0);
	assert_int_equal(rdma_keys_count(""), 0);
	assert_false(rdma_keys_read(";", 0x1000, 0x6000, k));
}

/* The others are told of. */
static void rails_whose_keys_do_not_fit_are_left_out(void **state)
{
	struct dv_mr long_one = { .remote = { .piece_bytes = UINT64_MAX, .nr = DV_PIECES_MAX } };
	struct dv_mr *l = &long_one;
	struct rdma_near near = { .rails = 7, .mrs = { l, l, l } };
	const struct region r = { .wired = &near };
	char text[WIRED_KEYS_SIZE];

	(void)state;
	assert_true(rdma_region_keys(&r, text));
	assert_int_equal(strlen(text), 16 + 9 * DV_PIECES_MAX);
	assert_null(strchr(text, ';'));
}

static void keys_of_all_pieces_fit_their_text(void **state)
{
	struct dv_mr mr = { .remote = { .piece_bytes = UINT64_MAX, .nr = DV_PIECES_MAX } };
	struct rdma_near near = { .rails = 1, .mrs = { &mr } };
	const struct region r = { .wired = &near };
	char text[WIRED_KEYS_SIZE];

	(void)state;
	memset(mr.remote.keys, 0xff, sizeof(mr.remote.keys));
	assert_true(rdma_region_keys(&r, text));
	assert_int_equal(strlen(text), 16 + 9 * DV_PIECES_MAX);
}

/* Of a range of 0x5000 bytes. */
static void keys_that_do_not_cover_their_range_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "2000", "2000/", "/00000001", "0/00000001", "5000/0000001", "5000/000000001",
		"5000/0000000G", "5000/00000001/", "5000/00000001/00000002", "5000 00000001",
		"4fff/00000001", "2000/00000001/00000002", "10000000000000000/00000001",
		"1/00000001", "-1/00000001", "0x5000/00000001", "5000/00000001x",
	};
	char long_one[2 + 9 * (DV_PIECES_MAX + 2)] = "1";
	struct dv_keys k;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (rdma_keys_read(bad[i], 0x1000, 0x6000, &k))
			fail_msg("\"%s\"", bad[i]);
	for (uint32_t i = 0; i <= DV_PIECES_MAX; i++)
		strcat(long_one, "/00000001");
	assert_false(rdma_keys_read(long_one, 0x1000, 0x1000 + DV_PIECES_MAX + 1, &k));
	assert_true(rdma_keys_read("5000/00000001", 0x1000, 0x6000, &k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_read_as_it_was_written),
		cmocka_unit_test(an_endpoint_may_be_absent),
		cmocka_unit_test(what_a_call_may_wish_for_may_be_absent),
		cmocka_unit_test(a_frame_with_one_bad_member_is_refused),
		cmocka_unit_test(memory_goes_by_the_rails_of_its_numa_node),
		cmocka_unit_test(keys_are_read_as_they_were_written),
		cmocka_unit_test(each_rail_has_keys_of_its_own_or_none),
		cmocka_unit_test(rails_whose_keys_do_not_fit_are_left_out),
		cmocka_unit_test(keys_of_all_pieces_fit_their_text),
		cmocka_unit_test(keys_that_do_not_cover_their_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
