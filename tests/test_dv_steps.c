/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_steps.c - what a post and a poll store where a card looks, counted and in which
 * order, on the code that ships: instruction by instruction. Elsewhere than on x86-64, and
 * under tsan, whose calls are counted too, there is nothing to see.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/dv_queue.h"
#include "tests/common/steps.h"

#define BLOCKS 512u
#define UNTOUCHED 0x5b	/* what no store of ours stores whole */

struct watch {
	struct dv_queue q;
	uint32_t n;		/* WRITEs to post, or to reap */
	uint32_t inline_bytes;	/* of each, 0: by reference */
	uint8_t sq[BLOCKS * DV_BB]; /* when the record was stored */
	/* what was seen, and at which instruction last */
	uint32_t records, record_at, record;
	uint32_t registers, register_at, register_bytes;
	uint32_t half;		/* offset of the first store to a register */
	uint32_t fences_before, fences_after; /* sfence, the register's first store between */
	uint32_t cq_doorbells;
};

static void watch_open(struct watch *w, uint32_t n, uint32_t half_bytes, int dirt)
{
	*w = (struct watch) { .n = n };
	dv_queue_open(&w->q, BLOCKS, 64, half_bytes);
	memset(w->q.memory->sq, dirt, sizeof(w->q.memory->sq));
	memset(w->q.memory->uar, UNTOUCHED, sizeof(w->q.memory->uar));
	memset(w->q.memory->dbrec, UNTOUCHED, sizeof(w->q.memory->dbrec));
	memset(w->q.memory->cq_uar, UNTOUCHED, sizeof(w->q.memory->cq_uar));
	memset(w->q.memory->cq_dbrec, UNTOUCHED, sizeof(w->q.memory->cq_dbrec));
}

/* How many of these bytes were stored since the last look. */
static uint32_t touched(void *memory, size_t size, uint32_t *first)
{
	uint8_t *at = memory;
	uint32_t n = 0;

	for (size_t i = 0; i < size; i += 8) {
		static const uint8_t clean[8] = { UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED,
						  UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED };

		if (!memcmp(at + i, clean, 8))
			continue;
		if (n == 0)
			*first = (uint32_t)i;
		n += 8;
		memcpy(at + i, clean, 8);
	}
	return n;
}

static void seen(void *arg, const struct steps *s)
{
	struct watch *w = arg;
	struct dv_queue_memory *m = w->q.memory;
	uint32_t record = be32toh(m->dbrec[MLX5_SND_DBR]), at, bytes;

	if (touched(m->dbrec, sizeof(m->dbrec), &at)) {
		w->records++;
		w->record = record;
		w->record_at = s->instructions;
		memcpy(w->sq, m->sq, sizeof(w->sq));
	}
	bytes = touched(w->q.uar.reg, 512, &at);
	if (bytes) {
		if (!w->registers++) {
			w->fences_before = s->store_fences;
			w->half = at;
		}
		w->register_bytes += bytes;
		w->register_at = s->instructions;
	}
	w->fences_after = s->store_fences - w->fences_before;
	w->cq_doorbells += touched(m->cq_dbrec, sizeof(m->cq_dbrec), &at) +
			   touched(m->cq_uar + 0x20, 8, &at);
}

static const uint8_t bytes[DV_INLINE_MAX] = { 1 };

static void post(void *arg)
{
	const struct dv_piece p = { 0x0102030405060708, 0x1112131415161718, 0x21222324,
				    0x31323334, 0x41424344 };
	struct watch *w = arg;

	for (uint32_t i = 0; i < w->n; i++)
		dv_sq_write(&w->q.sq, &p, w);
	dv_sq_ring(&w->q.sq);
}

static void post_inline(void *arg)
{
	struct watch *w = arg;
	const struct dv_piece p = { .remote = 0x1112131415161718, .rkey = 0x31323334,
				    .length = w->inline_bytes };

	dv_sq_write_inline(&w->q.sq, &p, bytes, w);
	dv_sq_ring(&w->q.sq);
}

static void nothing_forbidden_ran(const struct steps *s)
{
	assert_int_equal(s->fences, 0);
	assert_int_equal(s->locked, 0);
	assert_int_equal(s->syscalls, 0);
	assert_int_equal(s->heap_calls, 0);
}

/* ---- posts ----------------------------------------------------------------- */

static const uint32_t sizes[] = { 1, 2, 64, 65, 200 };
#define FOR_EACH_SIZE(n) \
	for (const uint32_t *n = sizes; n < sizes + sizeof(sizes) / sizeof(*sizes); n++)

static void a_post_is_one_record_then_one_register_write(void **state)
{
	static struct watch w;
	struct steps s;

	(void)state;
	FOR_EACH_SIZE(n) {
		watch_open(&w, *n, 256, 0);
		steps_run(post, seen, &w, &s);
		assert_int_equal(w.records, 1);
		assert_int_equal(w.record, *n);
		assert_int_equal(w.registers, *n == 1 ? 8 : 1);
		assert_int_equal(w.register_bytes, *n == 1 ? 64 : 8);
		assert_int_equal(w.half, 0);
		assert_true(w.record_at < w.register_at);
		assert_int_equal(w.cq_doorbells, 0);
		nothing_forbidden_ran(&s);
		dv_queue_close(&w.q);
	}
}

static void a_fence_lies_before_the_register_and_one_behind_a_doorbell(void **state)
{
	static struct watch w;
	struct steps s;

	(void)state;
	FOR_EACH_SIZE(n) {
		watch_open(&w, *n, 256, 0);
		steps_run(post, seen, &w, &s);
		assert_int_equal(w.fences_before, 1);
		assert_int_equal(w.fences_after, *n > 1); /* whole lines leave by themselves */
		dv_queue_close(&w.q);
		watch_open(&w, *n, 0, 0);
		steps_run(post, seen, &w, &s);
		assert_int_equal(w.fences_before, 1);
		assert_int_equal(w.fences_after, 0);	/* nothing is combined there */
		assert_int_equal(w.register_bytes, 8);
		dv_queue_close(&w.q);
	}
}

/* Each byte counts that differs from what was there, for one of two kinds of dirt. */
static void wqes_are_whole_before_the_record_and_48_bytes_each(void **state)
{
	static struct watch a, b;
	struct steps s;

	(void)state;
	FOR_EACH_SIZE(n) {
		uint32_t written = 0;

		watch_open(&a, *n, 256, 0x00);
		steps_run(post, seen, &a, &s);
		watch_open(&b, *n, 256, 0xff);
		steps_run(post, seen, &b, &s);
		assert_memory_equal(a.sq, a.q.memory->sq, sizeof(a.sq));
		for (uint32_t i = 0; i < sizeof(a.sq); i++)
			written += a.sq[i] != 0x00 || b.sq[i] != 0xff;
		assert_int_equal(written, 48 * *n);
		dv_queue_close(&a.q);
		dv_queue_close(&b.q);
	}
}

static void a_post_of_n_asks_for_n_by_64_completions_rounded_up(void **state)
{
	static struct watch w;
	struct steps s;

	(void)state;
	FOR_EACH_SIZE(n) {
		uint32_t signalled = 0;

		watch_open(&w, *n, 256, 0);
		steps_run(post, seen, &w, &s);
		for (uint32_t i = 0; i < BLOCKS; i++)
			signalled += dv_queue_is_signalled(&w.q, i);
		assert_int_equal(signalled, (*n + 63) / 64);
		dv_queue_close(&w.q);
	}
}

static void an_inline_wqe_is_one_burst_of_its_blocks(void **state)
{
	static struct watch w;
	struct steps s;

	(void)state;
	for (uint32_t nr_bb = 1; nr_bb <= 4; nr_bb++) {
		watch_open(&w, 1, 256, 0);
		w.inline_bytes = nr_bb * 64 - 36;
		steps_run(post_inline, seen, &w, &s);
		assert_int_equal(w.records, 1);
		assert_int_equal(w.record, nr_bb);
		assert_int_equal(w.register_bytes, nr_bb * 64);
		assert_int_equal(w.fences_before, 1);
		assert_int_equal(w.fences_after, 0);
		nothing_forbidden_ran(&s);
		dv_queue_close(&w.q);
	}
}

/* ---- polls ------------------------------------------------------------------ */

static void reap(void *arg)
{
	struct watch *w = arg;
	struct dv_run run;
	struct dv_op op;

	while (dv_run_next(&w->q.cq, &w->q.sq, &run))
		while (dv_run_op(&w->q.sq, &run, &op))
			;
}

/* Whatever the card reads or writes stays as it was, doorbells included. */
static void a_poll_stores_nothing_that_a_card_sees(void **state)
{
	static struct dv_queue_memory before;
	static struct watch w;
	struct steps s;

	(void)state;
	FOR_EACH_SIZE(n) {
		watch_open(&w, *n, 256, 0);
		post(&w);
		for (uint32_t i = 0; i < *n; i++)
			if (dv_queue_is_signalled(&w.q, i))
				dv_queue_complete(&w.q, (uint16_t)i);
		before = *w.q.memory;
		steps_run(reap, seen, &w, &s);
		/* seen() has wiped what the post had rung */
		memcpy(before.uar, w.q.memory->uar, sizeof(before.uar));
		memcpy(before.dbrec, w.q.memory->dbrec, sizeof(before.dbrec));
		assert_memory_equal(&before, w.q.memory, sizeof(before));
		assert_int_equal(w.cq_doorbells, 0);
		assert_int_equal(s.store_fences, 0);
		nothing_forbidden_ran(&s);
		dv_queue_close(&w.q);
	}
}

/* ---- the counter -------------------------------------------------------------- */

static void offend(void *arg)
{
	static uint64_t word;
	struct watch *w = arg;
	void *memory = malloc(100);

	__asm__ volatile("" :: "r"(memory) : "memory");
	free(memory);
#ifdef STEPS_COUNT
	__asm__ volatile("lock addq $1, %0; xchgq %%rax, %0; mfence; sfence; lfence"
			 : "+m"(word) :: "rax", "memory");
#else
	(void)word;
#endif
	dv_cq_tell(&w->q.cq);
	getppid();
}

static void the_counter_sees_what_it_has_to_find(void **state)
{
	static struct watch w;
	struct steps s;

	(void)state;
	watch_open(&w, 1, 256, 0);
	steps_run(offend, seen, &w, &s);
	assert_int_equal(s.store_fences, 1);
	assert_int_equal(s.fences, 2);
	assert_true(s.locked >= 2);
	assert_true(s.syscalls >= 1);
	assert_true(s.heap_calls >= 2);
	assert_int_equal(w.cq_doorbells, 8);
	dv_queue_close(&w.q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_post_is_one_record_then_one_register_write),
		cmocka_unit_test(a_fence_lies_before_the_register_and_one_behind_a_doorbell),
		cmocka_unit_test(wqes_are_whole_before_the_record_and_48_bytes_each),
		cmocka_unit_test(a_post_of_n_asks_for_n_by_64_completions_rounded_up),
		cmocka_unit_test(an_inline_wqe_is_one_burst_of_its_blocks),
		cmocka_unit_test(a_poll_stores_nothing_that_a_card_sees),
		cmocka_unit_test(the_counter_sees_what_it_has_to_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
