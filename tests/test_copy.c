/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copy.c - copy_bytes() against a byte-by-byte model, with poison on both
 * sides of the target: every small size, every alignment, every overlap.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/copy.h"
#include "ring/order.h"

#define ROOM	(1u << 18)
#define PAD	128u

struct fix {
	uint8_t *from, *to, *model; /* ROOM bytes each, 64-aligned */
};

static int setup(void **state)
{
	static struct fix f;
	uint32_t seed = 12345;

	f.from = aligned_alloc(64, ROOM);
	f.to = aligned_alloc(64, ROOM);
	f.model = aligned_alloc(64, ROOM);
	for (size_t i = 0; i < ROOM; i++) {
		seed = seed * 1664525 + 1013904223;
		f.from[i] = (uint8_t)(seed >> 24);
	}
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	free(f->from);
	free(f->to);
	free(f->model);
	return 0;
}

/* Copies n bytes to an offset and compares PAD bytes on either side as well. */
static void check_copy(const struct fix *f, size_t to, size_t from, size_t n, bool stream)
{
	size_t size = PAD + to + n + PAD;

	memset(f->to, 0xa5, size);
	copy_bytes(f->to + PAD + to, f->from + from, n, stream);
	for (size_t i = 0; i < PAD + to; i++)
		if (f->to[i] != 0xa5)
			fail_msg("byte %zd before the target was touched", PAD + to - i);
	for (size_t i = PAD + to + n; i < size; i++)
		if (f->to[i] != 0xa5)
			fail_msg("byte %zu after the target was touched", i - PAD - to - n);
	assert_memory_equal(f->to + PAD + to, f->from + from, n);
}

static void every_small_size_arrives_at_every_alignment(void **state)
{
	static const size_t sources[] = { 0, 1, 7, 8, 15, 16, 31, 33, 63 };

	for (size_t n = 0; n <= 300; n++)
		for (size_t to = 0; to < 64; to += n < 140 ? 1 : 7)
			for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
				check_copy(*state, to, sources[s], n, false);
				check_copy(*state, to, sources[s], n, true);
			}
}

static void sizes_around_steps_and_pages_arrive_whole(void **state)
{
	static const size_t sizes[] = { 511, 512, 513, 639, 640, 641, 4095, 4096, 4097,
					65535, 65536, 65537, 131071, 131072, 131073 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t to = 0; to < 64; to += 9)
			for (size_t from = 0; from < 64; from += 21) {
				check_copy(*state, to, from, sizes[i], false);
				check_copy(*state, to, from, sizes[i], true);
			}
}

/* The model: move through a second buffer. */
static void check_overlap(const struct fix *f, size_t to, size_t from, size_t n, bool stream)
{
	size_t size = 3 * 1024;

	memcpy(f->to, f->from, size);
	memcpy(f->model, f->from, size);
	memcpy(f->model + to, f->from + from, n);
	copy_bytes(f->to + to, f->to + from, n, stream);
	assert_memory_equal(f->to, f->model, size);
}

static void overlapping_ranges_move_as_by_memmove(void **state)
{
	for (size_t n = 0; n <= 300; n += n < 70 ? 1 : 23)
		for (size_t distance = 0; distance <= n + 1; distance += n < 70 ? 1 : 5) {
			check_overlap(*state, 512 + distance, 512, n, true);
			check_overlap(*state, 512, 512 + distance, n, true);
			check_overlap(*state, 512 + distance, 512, n, false);
		}
}

static void ranges_that_touch_are_not_mixed_up(void **state)
{
	check_overlap(*state, 512 + 640, 512, 640, true);
	check_overlap(*state, 512, 512 + 640, 640, true);
	check_overlap(*state, 512 + 639, 512, 640, true);
	check_overlap(*state, 512, 512 + 639, 640, true);
}

/* ---- order -------------------------------------------------------------- */

#define ROUNDS	3000u
#define WORDS	1024u

struct litmus {
	uint32_t published, seen;
	uint64_t *words;
};

static void *stream_and_publish(void *arg)
{
	struct litmus *l = arg;
	uint64_t *source = malloc(WORDS * sizeof(*source));

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < WORDS; i++)
			source[i] = round;
		copy_bytes(l->words, source, WORDS * sizeof(*source), true);
		store_release(&l->published, round);
		while (load_acquire(&l->seen) != round)
			sched_yield();
	}
	free(source);
	return NULL;
}

static void a_flag_stored_after_a_streaming_copy_covers_its_bytes(void **state)
{
	struct litmus l = { .words = aligned_alloc(64, WORDS * sizeof(uint64_t)) };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, stream_and_publish, &l), 0);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		while (load_acquire(&l.published) != round)
			sched_yield();
		for (uint32_t i = 0; i < WORDS; i++)
			assert_int_equal(l.words[i], round);
		store_release(&l.seen, round);
	}
	pthread_join(thread, NULL);
	free(l.words);
}

static void streaming_uses_vectors_on_x86(void **state)
{
	(void)state;
#if defined(__x86_64__)
	assert_string_not_equal(copy_stream_kind(), "plain");
#else
	assert_string_equal(copy_stream_kind(), "plain");
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_small_size_arrives_at_every_alignment),
		cmocka_unit_test(sizes_around_steps_and_pages_arrive_whole),
		cmocka_unit_test(overlapping_ranges_move_as_by_memmove),
		cmocka_unit_test(ranges_that_touch_are_not_mixed_up),
		cmocka_unit_test(a_flag_stored_after_a_streaming_copy_covers_its_bytes),
		cmocka_unit_test(streaming_uses_vectors_on_x86),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
