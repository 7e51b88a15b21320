/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_entry.c - what a caller's entry becomes in a slot. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "tests/ring_fake.h"

#define DIRTY 0xa5

struct target {
	struct tent_slot slot;
	char cell[TENT_CELL_SIZE];
};

static struct target *dirty_target(void)
{
	static struct target t;

	memset(&t, DIRTY, sizeof(t));
	return &t;
}

static struct tent_request_v1 plain_request(void)
{
	struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = 1, .opcode = TENT_OPCODE_WRITE,
		.source = (void *)0x1000, .target_id = 3, .target_offset = 0x2000,
		.length = 64, .intent_type = TENT_INTENT_CHECKPOINT,
		.requested_priority = TENT_PRIORITY_LOW, .deadline_ns = 99,
		.transport_hint = TENT_TRANSPORT_SHM, .flags = 5,
	};
	return r;
}

static uint64_t policy_word(const struct tent_slot *s)
{
	uint64_t word;

	memcpy(&word, &s->request.policy_name, sizeof(word));
	return word;
}

static void a_plain_entry_arrives_whole(void **state)
{
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	assert_memory_equal(&t->slot.request, &r, sizeof(r));
	assert_int_equal(t->slot.tail_offset, 0);
	assert_int_equal(t->slot.entry_stride, sizeof(r));
}

static void the_words_before_the_request_are_left_alone(void **state)
{
	static const uint8_t dirty[32] = {
		[0 ... 31] = DIRTY,
	};
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	for (uint32_t size = 0; size <= 96; size += 8) {
		r.struct_size = size;
		tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
		assert_memory_equal(&t->slot, dirty, sizeof(dirty));
	}
}

/* Every struct_size, valid or not: exactly so many bytes are the entry's. */
static void only_the_bytes_struct_size_covers_are_taken(void **state)
{
	struct tent_request_v1 r = plain_request();

	(void)state;
	for (uint32_t size = 0; size <= 88; size++) {
		struct target *t = dirty_target();
		uint32_t taken = size < 4 ? 4 : size;
		uint8_t *to = (uint8_t *)&t->slot.request;

		r.struct_size = size;
		tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
		assert_int_equal(t->slot.request.struct_size, size);
		for (uint32_t i = 4; i < 88; i++) {
			if (i >= 64 && i < 72)
				continue;	/* the policy's length, tested below */
			assert_int_equal(to[i], i < taken ? ((uint8_t *)&r)[i] : DIRTY);
		}
		assert_int_equal(t->slot.tail_offset, 0);
	}
}

/* The slot of a short entry keeps the last lap's bytes, but nothing in it claims
 * that they are the entry's. */
static void a_stale_slot_tail_is_not_claimed(void **state)
{
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	r.policy_name = "gold";
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	assert_int_equal(policy_word(&t->slot), 4);
	r.struct_size = 48;
	r.length = 7;
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	assert_int_equal(t->slot.request.struct_size, 48);
	assert_int_equal(t->slot.request.length, 7);
	assert_int_equal(policy_word(&t->slot), 0);
	assert_int_equal(t->slot.tail_offset, 0);
	assert_int_equal(t->slot.request.intent_type, TENT_INTENT_CHECKPOINT); /* stale */
}

/* The entry ends where a page does, and the next page may not be touched. */
static void an_entry_is_never_read_beyond_its_stride(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const uint32_t sizes[] = { 0, 4, 47, 48, 52, 72, 88, 96, 4096, UINT32_MAX };
	struct target *t = dirty_target();

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
	for (size_t stride = 0; stride <= page; stride += stride < 96 ? 1 : 80) {
		uint8_t *entry = p + page - stride;

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			memset(entry, 0, stride);
			memcpy(entry, &sizes[i], stride < 4 ? stride : 4);
			tent_entry_load(&t->slot, t->cell, entry, stride);
			assert_int_equal(t->slot.entry_stride, stride);
		}
	}
	munmap(p, 2 * page);
}

static void the_first_dirty_tail_byte_is_reported(void **state)
{
	static uint8_t entry[256] __attribute__((aligned(8)));
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	for (uint32_t at = 88; at < sizeof(entry); at++) {
		memset(entry, 0, sizeof(entry));
		r.struct_size = sizeof(entry);
		memcpy(entry, &r, sizeof(r));
		memset(entry + at, 1, sizeof(entry) - at);
		tent_entry_load(&t->slot, t->cell, entry, sizeof(entry));
		assert_int_equal(t->slot.tail_offset, at);
		/* no further than struct_size, and no further than the stride */
		r.struct_size = at;
		memcpy(entry, &r, sizeof(r));
		tent_entry_load(&t->slot, t->cell, entry, sizeof(entry));
		assert_int_equal(t->slot.tail_offset, 0);
		r.struct_size = sizeof(entry);
		memcpy(entry, &r, sizeof(r));
		tent_entry_load(&t->slot, t->cell, entry, at);
		assert_int_equal(t->slot.tail_offset, 0);
	}
}

static void a_plain_entry_in_a_wide_stride_is_not_scanned(void **state)
{
	static uint8_t entry[256] __attribute__((aligned(8)));
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	memset(entry, 0xff, sizeof(entry));
	memcpy(entry, &r, sizeof(r));
	tent_entry_load(&t->slot, t->cell, entry, sizeof(entry));
	assert_memory_equal(&t->slot.request, &r, sizeof(r));
	assert_int_equal(t->slot.tail_offset, 0);
	assert_int_equal(t->slot.entry_stride, sizeof(entry));
}

static uint64_t load_policy(struct target *t, const char *name, uint32_t struct_size)
{
	struct tent_request_v1 r = plain_request();

	r.struct_size = struct_size;
	r.policy_name = name;
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	return policy_word(&t->slot);
}

/* 72 takes the general way, 88 the plain one. */
static void a_policy_name_travels_as_its_length_and_text(void **state)
{
	static const uint32_t sizes[] = { 72, 88 };
	char name[80];

	(void)state;
	for (size_t s = 0; s < 2; s++) {
		for (size_t length = 1; length < sizeof(name); length++) {
			struct target *t = dirty_target();
			size_t sent = length < 64 ? length : 64; /* 64: refused later */

			memset(name, 'n', length);
			name[length] = '\0';
			assert_int_equal(load_policy(t, name, sizes[s]), sent);
			assert_memory_equal(t->cell, name, sent);
			if (sent < 64)
				assert_int_equal((uint8_t)t->cell[sent], DIRTY);
		}
	}
}

static void null_and_the_empty_name_differ(void **state)
{
	struct target *t = dirty_target();

	(void)state;
	assert_int_equal(load_policy(t, NULL, 88), 0);
	assert_int_equal(load_policy(t, NULL, 72), 0);
	assert_true(load_policy(t, "", 88) == UINT64_MAX);
	assert_true(load_policy(t, "", 72) == UINT64_MAX);
}

/* A pointer that struct_size does not cover may point anywhere. */
static void an_uncovered_policy_pointer_is_not_followed(void **state)
{
	struct target *t = dirty_target();

	(void)state;
	for (uint32_t size = 0; size < 72; size++)
		assert_int_equal(load_policy(t, (const char *)1, size), 0);
}

/* The text ends where a page does: at most its NUL is read. */
static void a_policy_name_is_read_no_further_than_its_nul(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	struct target *t = dirty_target();

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
	memset(p, 'n', page);
	assert_int_equal(load_policy(t, p + page - 64, 88), 64); /* no NUL at all */
	p[page - 1] = '\0';
	for (size_t length = 1; length < 63; length++)
		assert_int_equal(load_policy(t, p + page - 1 - length, 88), length);
	munmap(p, 2 * page);
}

#if UINTPTR_MAX == UINT32_MAX
/* The engine sees a pointer or a length that cannot be, and refuses it. */
static void a_dirty_high_half_is_not_hidden(void **state)
{
	struct tent_request_v1 r = plain_request();
	struct target *t = dirty_target();

	(void)state;
	r.source_high = 1;
	r.policy_name_high = 2;
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	assert_int_equal(t->slot.request.source_high, 1);
	assert_true(policy_word(&t->slot) == 2ull << 32);
	r.policy_name = "gold";
	tent_entry_load(&t->slot, t->cell, &r, sizeof(r));
	assert_true(policy_word(&t->slot) == (2ull << 32 | 4));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_entry_arrives_whole),
		cmocka_unit_test(the_words_before_the_request_are_left_alone),
		cmocka_unit_test(only_the_bytes_struct_size_covers_are_taken),
		cmocka_unit_test(a_stale_slot_tail_is_not_claimed),
		cmocka_unit_test(an_entry_is_never_read_beyond_its_stride),
		cmocka_unit_test(the_first_dirty_tail_byte_is_reported),
		cmocka_unit_test(a_plain_entry_in_a_wide_stride_is_not_scanned),
		cmocka_unit_test(a_policy_name_travels_as_its_length_and_text),
		cmocka_unit_test(null_and_the_empty_name_differ),
		cmocka_unit_test(an_uncovered_policy_pointer_is_not_followed),
		cmocka_unit_test(a_policy_name_is_read_no_further_than_its_nul),
#if UINTPTR_MAX == UINT32_MAX
		cmocka_unit_test(a_dirty_high_half_is_not_hidden),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
