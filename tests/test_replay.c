/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay program's own parts: if its pool, its predictor, its contents or its
 * reading of a trace were wrong, "every block verified" would mean nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/common/args.h"
#include "perf/common/samples.h"
#include "perf/common/content.h"
#include "perf/replay/pool.h"
#include "perf/replay/trace.h"

#define BLOCK 4096

/* ---- trace ---- */

static char trace_error[512];

static int load(struct trace *t, const char *text, size_t size)
{
	char path[] = "/tmp/test-replay-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	close(fd);
	rc = trace_load(t, path, 0, trace_error, sizeof(trace_error));
	unlink(path);
	return rc;
}

static void a_trace_is_read_with_its_blocks(void **state)
{
	static const char text[] =
		"{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, "
		"\"hash_ids\": [0, 1, 18446744073709551615]}\n"
		"\n"
		"{\"hash_ids\":[],\"new_key\":[7],\"timestamp\":3000}";
	struct trace t;
	(void)state;

	assert_int_equal(load(&t, text, sizeof(text) - 1), 0);
	assert_int_equal(t.nr_requests, 2);
	assert_int_equal(t.nr_ids, 3);
	assert_int_equal(t.requests[0].nr, 3);
	assert_true(t.ids[2] == UINT64_MAX);
	assert_int_equal(t.requests[1].arrival_us, 3000000);
	assert_int_equal(t.requests[1].nr, 0);
	trace_free(&t);
}

static void a_malformed_line_is_refused_by_number(void **state)
{
	static const char good[] = "{\"timestamp\": 5, \"hash_ids\": [1]}\n";
	static const char *const lines[] = {
		"{\"timestamp\": 6}", "{\"hash_ids\": [1]}", "{\"timestamp\": -1, \"hash_ids\": [1]}",
		"{\"timestamp\": 6, \"hash_ids\": [1}", "{\"timestamp\": 6, \"hash_ids\": [1,]}",
		"{\"timestamp\": 6, \"hash_ids\": [1]} x", "{\"timestamp\": 6, \"hash_ids\": [1]",
		"{\"timestamp\": 6 \"hash_ids\": [1]}", "[1]", "{\"timestamp\": 4, \"hash_ids\": [1]}",
		"{\"timestamp\": 18446744073709551616, \"hash_ids\": [1]}",
		"{\"timestamp\": 18446744073709551615, \"hash_ids\": [1]}",
		"{\"timestamp\": 6, \"hash_ids\": [1], \"hash_ids\": [2]}", "{\"timesta",
		"{\"timestamp\\\": 6, \"hash_ids\": [1]}",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char text[256];
		struct trace t;

		snprintf(text, sizeof(text), "%s%s\n", good, lines[i]);
		if (load(&t, text, strlen(text)) == 0)
			fail_msg("accepted: %s", lines[i]);
		assert_non_null(strstr(trace_error, "line 2"));
		assert_null(t.requests);
	}
}

static void a_nul_byte_in_a_trace_is_refused(void **state)
{
	static const char text[] = "{\"timestamp\": 5, \"hash_ids\": [1]}\0 x\n";
	struct trace t;
	(void)state;

	assert_int_equal(load(&t, text, sizeof(text) - 1), -1);
}

static void spreading_keeps_the_order_and_stays_before_the_next_timestamp(void **state)
{
	char text[4096];
	size_t n = 0;
	struct trace t;
	(void)state;

	for (int i = 0; i < 30; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "{\"timestamp\": %d, \"hash_ids\": [1]}\n", i / 10 * 3000);
	assert_int_equal(load(&t, text, n), 0);
	trace_spread(&t, 7);
	for (uint64_t i = 0; i < 30; i++) {
		assert_in_range(t.requests[i].arrival_us, i / 10 * 3000000,
				(i / 10 + 1) * 3000000 - 1);
		if (i)
			assert_true(t.requests[i].arrival_us > t.requests[i - 1].arrival_us);
	}
	trace_free(&t);
}

/* ---- content ---- */

static void every_changed_bit_of_a_block_is_noticed(void **state)
{
	_Alignas(64) static uint8_t block[BLOCK];
	(void)state;

	content_fill(block, BLOCK, 1, 42);
	assert_int_equal(content_check(block, BLOCK, 1, 42), BLOCK);
	for (size_t bit = 0; bit < BLOCK * 8; bit++) {
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(content_check(block, BLOCK, 1, 42), bit / 64 * 8);
		block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void no_two_blocks_share_a_line_and_seeds_differ(void **state)
{
	_Alignas(64) static uint8_t a[BLOCK], b[BLOCK];
	(void)state;

	content_fill(a, BLOCK, 1, 0);
	for (uint64_t id = 1; id < 500; id++) {
		content_fill(b, BLOCK, 1, id);
		for (size_t i = 0; i < BLOCK; i += 64)
			assert_memory_not_equal(a + i, b + i, 64);
	}
	assert_int_equal(content_check(a, BLOCK, 2, 0), 0);
}

static void a_block_that_is_displaced_by_a_word_is_wrong(void **state)
{
	_Alignas(64) static uint8_t a[BLOCK];
	(void)state;

	content_fill(a, BLOCK, 1, 9);
	memmove(a, a + 8, BLOCK - 8);
	assert_int_equal(content_check(a, BLOCK, 1, 9), 0);
	memset(a, 0, BLOCK);
	assert_int_equal(content_check(a, BLOCK, 1, 9), 0);
}

/* ---- pool ---- */

static void the_least_recently_used_block_is_evicted(void **state)
{
	struct pool p;
	(void)state;

	pool_init(&p, 3);
	for (uint64_t id = 10; id < 13; id++)
		pool_stored(&p, pool_claim(&p, id));
	pool_pin(&p, pool_find(&p, 10));	/* now 11 is the oldest */
	pool_unpin(&p, pool_find(&p, 10));
	pool_stored(&p, pool_claim(&p, 13));
	assert_int_equal(pool_find(&p, 11), POOL_NONE);
	assert_int_not_equal(pool_find(&p, 10), POOL_NONE);
	assert_int_not_equal(pool_find(&p, 12), POOL_NONE);
	assert_int_equal(p.evictions, 1);
	pool_free(&p);
}

static void a_pinned_slot_is_never_reused(void **state)
{
	struct pool p;
	uint32_t slot;
	(void)state;

	pool_init(&p, 2);
	slot = pool_claim(&p, 1);
	pool_stored(&p, slot);
	pool_pin(&p, slot);
	for (uint64_t id = 2; id < 20; id++) {
		uint32_t other = pool_claim(&p, id);

		assert_int_not_equal(other, slot);
		assert_int_equal(pool_claim(&p, 100), POOL_NONE);
		pool_stored(&p, other);
	}
	assert_int_equal(pool_find(&p, 1), slot);
	pool_unpin(&p, slot);
	assert_int_equal(pool_claim(&p, 100), slot);
	assert_int_equal(pool_find(&p, 1), POOL_NONE);
	pool_free(&p);
}

static void a_block_whose_write_failed_is_not_found(void **state)
{
	struct pool p;
	uint32_t slot;
	(void)state;

	pool_init(&p, 4);
	slot = pool_claim(&p, 5);
	assert_int_equal(p.slots[slot].state, POOL_WRITING);
	assert_int_equal(pool_find(&p, 5), slot);
	pool_abandon(&p, slot);
	assert_int_equal(pool_find(&p, 5), POOL_NONE);
	assert_int_equal(pool_claim(&p, 6), slot);	/* the first to be used again */
	pool_free(&p);
}

/* Against the plainest LRU there is, with 20,000 random uses. */
static void the_pool_agrees_with_a_naive_lru(void **state)
{
	enum { SLOTS = 37, IDS = 90 };
	uint64_t used[IDS] = { 0 }, random = 12345;
	struct pool p;
	(void)state;

	pool_init(&p, SLOTS);
	for (uint64_t now = 1; now <= 20000; now++) {
		uint32_t held = 0, oldest = IDS, slot;
		uint64_t id;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		id = (random >> 33) % IDS;
		for (uint32_t i = 0; i < IDS; i++) {
			held += used[i] != 0;
			if (used[i] && (oldest == IDS || used[i] < used[oldest]))
				oldest = i;
		}
		slot = pool_find(&p, id);
		assert_int_equal(slot != POOL_NONE, used[id] != 0);
		if (slot != POOL_NONE) {
			pool_pin(&p, slot);
			pool_unpin(&p, slot);
		} else {
			if (held == SLOTS)
				used[oldest] = 0;
			pool_stored(&p, pool_claim(&p, id));
		}
		used[id] = now;
	}
	pool_free(&p);
}

/* ---- successors ---- */

static void the_last_successor_of_a_prefix_wins(void **state)
{
	static const uint64_t first[] = { 1, 2, 3, 4 }, second[] = { 1, 2, 9 };
	struct successors s;
	uint64_t out[8];
	(void)state;

	successors_init(&s, 1);
	assert_int_equal(successors_follow(&s, 2, out, 8), 0);
	successors_learn(&s, first, 4);
	assert_int_equal(successors_follow(&s, 1, out, 8), 3);
	assert_true(out[0] == 2 && out[2] == 4);
	successors_learn(&s, second, 3);
	assert_int_equal(successors_follow(&s, 2, out, 8), 1);
	assert_true(out[0] == 9);
	assert_int_equal(successors_follow(&s, 1, out, 1), 1);
	successors_free(&s);
}

static void a_circle_of_successors_ends(void **state)
{
	static const uint64_t ids[] = { 1, 2, 3, 1 };
	struct successors s;
	uint64_t out[64];
	(void)state;

	successors_init(&s, 4);
	successors_learn(&s, ids, 4);
	assert_int_equal(successors_follow(&s, 1, out, 64), 3);
	successors_free(&s);
}

/* ---- samples and options ---- */

static void percentiles_are_exact_by_nearest_rank(void **state)
{
	struct samples s;
	(void)state;

	samples_init(&s, 1);
	assert_int_equal(samples_percentile(&s, 0.5), 0);
	for (uint64_t v = 1000; v > 0; v--)
		samples_add(&s, v);
	assert_int_equal(samples_percentile(&s, 0), 1);
	assert_int_equal(samples_percentile(&s, 0.5), 500);
	assert_int_equal(samples_percentile(&s, 0.99), 990);
	assert_int_equal(samples_percentile(&s, 0.999), 999);
	assert_int_equal(samples_max(&s), 1000);
	samples_add(&s, 5000);
	assert_int_equal(samples_max(&s), 5000);
	samples_free(&s);
}

static void sizes_take_suffixes_and_refuse_the_rest(void **state)
{
	uint64_t size;
	(void)state;

	assert_int_equal(args_parse_size("64K", &size), 0);
	assert_int_equal(size, 65536);
	assert_int_equal(args_parse_size("4GiB", &size), 0);
	assert_true(size == 4ull << 30);
	assert_int_equal(args_parse_size("7", &size), 0);
	assert_true(args_parse_size("-1", &size) && args_parse_size("", &size) &&
		    args_parse_size("1Q", &size) && args_parse_size("1KK", &size) &&
		    args_parse_size("18446744073709551615K", &size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trace_is_read_with_its_blocks),
		cmocka_unit_test(a_malformed_line_is_refused_by_number),
		cmocka_unit_test(a_nul_byte_in_a_trace_is_refused),
		cmocka_unit_test(spreading_keeps_the_order_and_stays_before_the_next_timestamp),
		cmocka_unit_test(every_changed_bit_of_a_block_is_noticed),
		cmocka_unit_test(no_two_blocks_share_a_line_and_seeds_differ),
		cmocka_unit_test(a_block_that_is_displaced_by_a_word_is_wrong),
		cmocka_unit_test(the_least_recently_used_block_is_evicted),
		cmocka_unit_test(a_pinned_slot_is_never_reused),
		cmocka_unit_test(a_block_whose_write_failed_is_not_found),
		cmocka_unit_test(the_pool_agrees_with_a_naive_lru),
		cmocka_unit_test(the_last_successor_of_a_prefix_wins),
		cmocka_unit_test(a_circle_of_successors_ends),
		cmocka_unit_test(percentiles_are_exact_by_nearest_rank),
		cmocka_unit_test(sizes_take_suffixes_and_refuse_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
