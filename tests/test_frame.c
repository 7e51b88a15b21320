/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c - frames between engines, cut anywhere and broken everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/frame.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

static json_t *sample(size_t filler)
{
	char *text = calloc(1, filler + 1);
	json_t *frame;

	memset(text, 'x', filler);
	frame = json_pack("{s:s,s:o,s:s}", "type", "hello", "epoch",
			  frame_hex(0xfedcba9876543210), "filler", text);
	free(text);
	return frame;
}

/* Feeds all of it in pieces of at most step; how many frames came, or the fault. */
static int feed(struct frame_reader *r, const uint8_t *bytes, size_t size, size_t step)
{
	int frames = 0;

	while (size) {
		size_t piece = step < size ? step : size, taken;
		json_t *frame = NULL;
		enum frame_result result = frame_read(r, bytes, piece, &taken, &frame);

		assert_true(taken <= piece);
		if (result < 0) {
			assert_null(frame);
			return result;
		}
		assert_true(!!frame == (result == FRAME_WHOLE));
		assert_true(result == FRAME_WHOLE || taken == piece);
		json_decref(frame);
		frames += result == FRAME_WHOLE;
		bytes += taken;
		size -= taken;
	}
	return frames;
}

static int feed_new(const uint8_t *bytes, size_t size, size_t step)
{
	struct frame_reader r;
	int result;

	frame_reader_init(&r, FRAME_MAX);
	result = feed(&r, bytes, size, step);
	frame_reader_free(&r);
	return result;
}

static void frames_arrive_whole_however_the_stream_is_cut(void **state)
{
	uint8_t stream[4000];
	size_t used = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		size_t size = 0;
		uint8_t *bytes = frame_bytes(sample((size_t)i * 150), &size);

		memcpy(stream + used, bytes, size);
		used += size;
		free(bytes);
	}
	for (size_t step = 1; step <= used; step++)
		assert_int_equal(feed_new(stream, used, step), 5);
}

static void what_was_written_is_read(void **state)
{
	struct frame_reader r;
	json_t *frame = NULL;
	uint64_t epoch;
	size_t size, taken;
	uint8_t *bytes = frame_bytes(sample(10), &size);

	(void)state;
	frame_reader_init(&r, FRAME_MAX);
	assert_int_equal(frame_read(&r, bytes, size, &taken, &frame), FRAME_WHOLE);
	assert_int_equal(taken, size);
	assert_string_equal(frame_text(frame, "type", 5), "hello");
	assert_true(frame_u64(frame, "epoch", &epoch));
	assert_true(epoch == 0xfedcba9876543210);
	json_decref(frame);
	frame_reader_free(&r);
	free(bytes);
}

static void a_byte_of_the_head_may_not_differ(void **state)
{
	size_t size;
	uint8_t *bytes = frame_bytes(sample(10), &size);

	(void)state;
	for (size_t at = 0; at < 8; at++) {
		for (int bit = 0; bit < 8; bit++) {
			int expected = at == 4 || at == 5 ? FRAME_OTHER_VERSION : FRAME_MAGIC;

			bytes[at] ^= (uint8_t)(1 << bit);
			assert_int_equal(feed_new(bytes, size, 1), expected);
			assert_int_equal(feed_new(bytes, size, size), expected);
			bytes[at] ^= (uint8_t)(1 << bit);
		}
	}
	free(bytes);
}

/* Who speaks HTTP or TLS to us is not waited for. */
static void a_stranger_is_known_by_its_first_byte(void **state)
{
	(void)state;
	assert_int_equal(feed_new((const uint8_t *)"G", 1, 1), FRAME_MAGIC);
	assert_int_equal(feed_new((const uint8_t *)"\x16\x03", 2, 1), FRAME_MAGIC);
	assert_int_equal(feed_new((const uint8_t *)"TEN", 3, 1), 0);
	assert_int_equal(feed_new((const uint8_t *)"TENt", 4, 1), FRAME_MAGIC);
}

static void a_length_beyond_the_limit_takes_no_memory(void **state)
{
	static const uint32_t lengths[] = {
		0, 1, FRAME_MAX + 1, 1u << 30, UINT32_MAX, 0x80000000u,
	};
	uint8_t head[FRAME_HEAD] = "TENT\1";

	(void)state;
	for (size_t i = 0; i < NR(lengths); i++) {
		struct frame_reader r;
		size_t taken;
		json_t *frame;

		memcpy(head + 8, &lengths[i], 4);
		frame_reader_init(&r, FRAME_MAX);
		assert_int_equal(frame_read(&r, head, sizeof(head), &taken, &frame),
				 FRAME_LENGTH);
		assert_null(r.text);
	}
}

static void a_long_announcement_holds_only_what_came(void **state)
{
	uint8_t bytes[FRAME_HEAD + 10] = "TENT\1\0\0\0\0\0\1\0{\"type\":\"";
	struct frame_reader r;
	size_t taken;
	json_t *frame;

	(void)state;
	frame_reader_init(&r, FRAME_MAX);	/* 65536 are announced */
	assert_int_equal(frame_read(&r, bytes, sizeof(bytes), &taken, &frame), FRAME_MORE);
	assert_true(r.room < 1024);
	frame_reader_free(&r);
}

static void the_limit_holds_to_the_byte(void **state)
{
	size_t size, longest = 0;
	uint8_t *bytes;

	(void)state;
	for (size_t filler = FRAME_MAX - 200; filler < FRAME_MAX; filler++) {
		bytes = frame_bytes(sample(filler), &size);
		if (!bytes)
			break;
		longest = size;
		assert_int_equal(feed_new(bytes, size, 4096), 1);
		free(bytes);
	}
	assert_int_equal(longest, FRAME_HEAD + FRAME_MAX);
	bytes = frame_bytes(sample(0), &size);
	for (int less = 0; less < 2; less++) {
		struct frame_reader r;

		frame_reader_init(&r, (uint32_t)(size - FRAME_HEAD) - (uint32_t)less);
		assert_int_equal(feed(&r, bytes, size, size), less ? FRAME_LENGTH : 1);
		frame_reader_free(&r);
	}
	free(bytes);
}

static void texts_that_are_no_object_with_a_type_are_refused(void **state)
{
	static const char *const texts[] = {
		"{}", "[]", "17", "null", "\"type\"", "{\"type\":1}", "{\"type\":null}",
		"{\"type\":\"a\"", "{\"type\":\"a\"}}", "{\"type\":\"a\",\"type\":\"a\"}",
		"{\"type\":\"a\\u0000\"}", "{\"type\":\"a\\n\"}", "{\"type\":\"\xff\"}",
		"{\"type\":\"\xc3\xa9\"}", "{type:\"a\"}", "\0\0", "  ",
		"{\"type\":\"0123456789012345678901234567890123\"}",
	};

	(void)state;
	for (size_t i = 0; i < NR(texts); i++) {
		uint8_t bytes[128] = "TENT\1";
		size_t length = strlen(texts[i]) ? strlen(texts[i]) : 2;

		bytes[8] = (uint8_t)length;
		memcpy(bytes + FRAME_HEAD, texts[i], length);
		if (feed_new(bytes, FRAME_HEAD + length, 7) != FRAME_JSON)
			fail_msg("%s is taken for a frame", texts[i]);
	}
}

static void deep_nesting_is_refused_without_a_crash(void **state)
{
	uint8_t *bytes = calloc(1, FRAME_HEAD + FRAME_MAX);
	uint32_t length = FRAME_MAX;

	(void)state;
	memcpy(bytes, "TENT\1", 5);
	memcpy(bytes + 8, &length, 4);
	memset(bytes + FRAME_HEAD, '[', FRAME_MAX);
	assert_int_equal(feed_new(bytes, FRAME_HEAD + FRAME_MAX, 1000), FRAME_JSON);
	free(bytes);
}

static void numbers_have_one_spelling(void **state)
{
	static const struct { const char *text; bool good; uint64_t value; } hexes[] = {
		{ "0x0", true, 0 }, { "0x1", true, 1 }, { "0xffffffffffffffff", true, UINT64_MAX },
		{ "0x8000000000000000", true, 1ull << 63 }, { "0x", false, 0 }, { "", false, 0 },
		{ "0x00", false, 0 }, { "0x01", false, 0 }, { "0X1", false, 0 },
		{ "0xA", false, 0 }, { "1", false, 0 }, { "-0x1", false, 0 }, { "0x-1", false, 0 },
		{ "0x1 ", false, 0 }, { " 0x1", false, 0 }, { "0x1ffffffffffffffff", false, 0 },
		{ "0xg", false, 0 },
	};
	static const struct { json_int_t number; bool good; } numbers[] = {
		{ 0, true }, { 9, true }, { 10, false }, { -1, false }, { INT64_MAX, false },
		{ INT64_MIN, false }, { 1ll << 32, false },
	};
	json_t *frame = json_object();

	(void)state;
	for (size_t i = 0; i < NR(hexes); i++) {
		uint64_t value = 7;

		json_object_set_new(frame, "n", json_string(hexes[i].text));
		assert_int_equal(frame_u64(frame, "n", &value), hexes[i].good);
		assert_true(value == (hexes[i].good ? hexes[i].value : 7));
	}
	for (size_t i = 0; i < NR(numbers); i++) {
		uint32_t value = 7;

		json_object_set_new(frame, "n", json_integer(numbers[i].number));
		assert_int_equal(frame_uint(frame, "n", 9, &value), numbers[i].good);
		assert_int_equal(value, numbers[i].good ? numbers[i].number : 7);
	}
	json_object_set_new(frame, "n", json_real(1.0));
	assert_false(frame_uint(frame, "n", 9, &(uint32_t){ 0 }));
	assert_false(frame_u64(frame, "n", &(uint64_t){ 0 }));
	assert_false(frame_uint(frame, "missing", 9, &(uint32_t){ 0 }));
	assert_null(frame_text(frame, "n", 9));
	json_decref(frame);
}

static void every_fault_has_a_sentence(void **state)
{
	(void)state;
	for (int i = FRAME_MEMORY; i <= FRAME_WHOLE; i++)
		assert_true(strlen(frame_fault((enum frame_result)i)) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_arrive_whole_however_the_stream_is_cut),
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(a_byte_of_the_head_may_not_differ),
		cmocka_unit_test(a_stranger_is_known_by_its_first_byte),
		cmocka_unit_test(a_length_beyond_the_limit_takes_no_memory),
		cmocka_unit_test(a_long_announcement_holds_only_what_came),
		cmocka_unit_test(the_limit_holds_to_the_byte),
		cmocka_unit_test(texts_that_are_no_object_with_a_type_are_refused),
		cmocka_unit_test(deep_nesting_is_refused_without_a_crash),
		cmocka_unit_test(numbers_have_one_spelling),
		cmocka_unit_test(every_fault_has_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
