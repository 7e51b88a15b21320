/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_indirect.c - INDIRECT batches whose arrays lie where they hurt: over each
 * other, over the data, over the ring itself, out of the buffer, in memory that is
 * changed or taken away while the batch runs. tentd is real, and two honest processes
 * verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "ring/order.h"
#include "tests/common/foe.h"

/* count sound entries at the start of the buffer, each a small copy inside it. */
static void fill_entries(struct foe *f, uint32_t count)
{
	struct tent_slot *s = (void *)f->memory.addr;

	memset(s, 0, count * sizeof(*s));
	for (uint32_t i = 0; i < count; i++)
		s[i].request = (struct tent_request_v1){
			.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = 1,
			.opcode = (int)(i & 1), .source = f->memory.addr + FOE_MEMORY / 2,
			.target_offset = (uintptr_t)f->memory.addr + FOE_MEMORY * 3 / 4,
			.length = i % 4096,
		};
}

static void publish_indirect(struct foe *f, const struct tent_indirect *what)
{
	struct tent_slot *s = raw_slot(&f->ring, 0);

	s->op = TENT_OP_INDIRECT;
	s->cq_head = f->ring.cq_head;
	memcpy(&s->request, what, sizeof(*what));
	raw_publish(&f->ring, 1);
}

/* Its completion, or none when it ended the ring. */
static bool run_indirect(struct foe *f, const struct tent_indirect *what,
			 struct tent_completion *c)
{
	publish_indirect(f, what);
	return raw_wait(&f->ring, c);
}

/* ---- arrays that lie wrong ------------------------------------------------------------ */

static void need_refused(struct foe *f, uint64_t entries, uint64_t cells, uint64_t results,
			 uint32_t count)
{
	struct tent_indirect what = { .entries = entries, .cells = cells, .results = results,
				      .count = count };
	struct tent_completion c;

	need(run_indirect(f, &what, &c));
	need(c.flags & TENT_CQE_F_REJECTED);
	need(c.rule == TENT_RULE_INDIRECT_BUFFER || c.rule == TENT_RULE_INDIRECT_COUNT);
}

static int attack_ranges(struct arena *a, void *arg)
{
	uint64_t base, end;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	fill_entries(&f, 16);
	base = (uintptr_t)f.memory.addr;
	end = base + f.memory.length;
	need_refused(&f, base, 0, base + 65536, 0);
	need_refused(&f, base, 0, base + 65536, UINT32_MAX);
	need_refused(&f, base, 0, base + 65536, TENT_INDIRECT_MAX + 1);
	need_refused(&f, base, 0, base + 65536, TENT_INDIRECT_MAX);
	need_refused(&f, end - 16 * 128 + 8, 0, base, 16);
	need_refused(&f, base, 0, end - 16 * 16 + 8, 16);
	need_refused(&f, base, end - 16 * 64 + 8, base + 65536, 16);
	need_refused(&f, 0, 0, base, 16);
	need_refused(&f, base, 0, 0, 16);
	need_refused(&f, UINT64_MAX - 63, 0, base, 16);
	need_refused(&f, base, UINT64_MAX - 63, base + 65536, 16);
	need_refused(&f, base, 0, UINT64_MAX - 15, 16);
	need_refused(&f, base - 128, 0, base, 16);
	/* The honest store's buffer, by its address there. */
	if (a->board->base < base || a->board->base >= end)
		need_refused(&f, a->board->base, 0, base, 16);
	return 0;
}

static void arrays_outside_one_buffer_are_refused(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_ranges, NULL, 0), 0);
	arena_check(&arena);
}

/* Results over entries, entries over the data that the copies move, all at random
 * places of the buffer: whatever is read is judged, whatever is written is its own. */
static int attack_overlap(struct arena *a, void *arg)
{
	uint64_t random = 5, base;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	base = (uintptr_t)f.memory.addr;
	for (int i = 0; i < 120; i++) {
		struct tent_completion c;
		struct tent_indirect what = {
			.entries = base, .count = 1 + random_next(&random) % 4096,
			.cells = random_next(&random) % 2 ?
				 base + random_next(&random) % 65536 / 64 * 64 : 0,
			.results = base + random_next(&random) % (FOE_MEMORY - 65536) / 16 * 16,
		};

		fill_entries(&f, what.count);
		if (i % 3 == 0)
			what.results = base;
		if (!run_indirect(&f, &what, &c))
			foe_reopen(&f);
	}
	return 0;
}

static void arrays_that_overlap_hurt_their_owner_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_overlap, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- arrays that change ------------------------------------------------------------------ */

struct scribbler {
	struct foe *foe;
	uint32_t stop;
};

__attribute__((no_sanitize("thread")))
static void *scribble_main(void *arg)
{
	struct scribbler *s = arg;
	volatile uint64_t *words = (void *)s->foe->memory.addr;
	uint64_t random = 9;

	while (!load_acquire(&s->stop)) {
		uint32_t at = random_next(&random) % (FOE_MEMORY / 8);
		uint64_t old = words[at];

		words[at] = (uint64_t)random_next(&random) << (random_next(&random) % 48);
		spin_pause();
		words[at] = old;
	}
	return NULL;
}

static int attack_scribble(struct arena *a, void *arg)
{
	struct foe f;
	struct scribbler s = { .foe = &f };
	pthread_t thread;

	(void)arg;
	foe_open(&f, a);
	need(pthread_create(&thread, NULL, scribble_main, &s) == 0);
	for (int i = 0; i < 80; i++) {
		struct tent_completion c;
		struct tent_indirect what = {
			.entries = (uintptr_t)f.memory.addr, .count = 2048,
			.results = (uintptr_t)f.memory.addr + FOE_MEMORY * 3 / 8,
			.cells = i % 2 ? (uintptr_t)f.memory.addr + FOE_MEMORY / 4 : 0,
		};

		fill_entries(&f, what.count);
		if (!run_indirect(&f, &what, &c))
			foe_reopen(&f);
	}
	store_release(&s.stop, 1u);
	pthread_join(thread, NULL);
	return 0;
}

static void arrays_that_change_under_the_judge_hurt_their_owner_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_scribble, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- arrays that go away --------------------------------------------------------------- */

/* The buffer is unregistered, or freed, while its batch is judged or runs. */
static int attack_gone(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	for (int i = 0; i < 40; i++) {
		struct ctl_message m = { .nr_fds = 0 };
		struct tent_completion c;
		struct tent_indirect what = { .count = 6000 };

		foe_open(&f, a);
		fill_entries(&f, what.count);
		what.entries = (uintptr_t)f.memory.addr;
		what.results = what.entries;
		publish_indirect(&f, &what);
		for (int spin = 0; spin < i * 500; spin++)
			spin_pause();
		((struct tent_ctl_id *)m.bytes)->id = f.memory.id;
		if (i % 2)
			need(raw_unregister(&f.raw, f.memory.addr, f.memory.length) == 0);
		else
			need(raw_call(&f.raw, &m, TENT_CTL_MEM_FREE,
				      sizeof(struct tent_ctl_id)) == 0);
		memset(f.memory.addr, 0xee, FOE_MEMORY);	/* ours alone now */
		need(raw_wait(&f.ring, &c));
		for (uint32_t k = 0; k < FOE_MEMORY; k++)
			need(f.memory.addr[k] == 0xee);
		close(f.raw.sock);
		munmap(f.memory.addr, f.memory.length);
		close(f.memory.fd);
		raw_ring_forget(&f.ring);
	}
	return 0;
}

static void arrays_that_go_away_are_neither_read_nor_written_again(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_gone, NULL, 0), 0);
	arena_check(&arena);
}

/* The ring's own slots as arrays: tentd writes results over what it reads next. */
static int attack_ring_as_arrays(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	for (int i = 0; i < 50; i++) {
		uint64_t size = (f.ring.h.client_size + 4095) & ~4095ull;
		struct tent_completion c;
		struct tent_indirect what = { .entries = (uintptr_t)f.ring.client,
					      .results = (uintptr_t)f.ring.client,
					      .count = 1 + (uint32_t)i % 60 };

		if (raw_register(&f.raw, TENT_MEM_FD, f.ring.client, size, 0,
				 f.ring.client_fd, 0, TENT_PERM_GLOBAL_READ_WRITE))
			return 0; /* tentd may well refuse that */
		run_indirect(&f, &what, &c);
		need(raw_unregister(&f.raw, f.ring.client, size) == 0);
		foe_reopen(&f);
	}
	return 0;
}

static void a_ring_as_its_own_arrays_hurts_its_owner_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_ring_as_arrays, NULL, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_outside_one_buffer_are_refused),
		cmocka_unit_test(arrays_that_overlap_hurt_their_owner_only),
		cmocka_unit_test(arrays_that_change_under_the_judge_hurt_their_owner_only),
		cmocka_unit_test(arrays_that_go_away_are_neither_read_nor_written_again),
		cmocka_unit_test(a_ring_as_its_own_arrays_hurts_its_owner_only),
	};

	return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
