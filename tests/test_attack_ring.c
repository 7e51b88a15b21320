/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_ring.c - what a hostile process can do with the ring it was given:
 * wrong words, words that change under the engine's hands, half a batch, silence,
 * and every misuse of its memory. tentd is real, and two honest processes
 * verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdbool.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "ring/order.h"
#include "tests/common/foe.h"
#include "tests/common/soak.h"

/* ---- wrong words ---------------------------------------------------------- */

static void break_nr_zero(struct foe *f)
{
	foe_request(f, 0, 8);
	raw_seq(&f->ring, 0, f->ring.position + 1, 0);
}

static void break_nr_large(struct foe *f)
{
	foe_request(f, 0, 8);
	raw_seq(&f->ring, 0, f->ring.position + 1, FOE_SLOTS + 1);
}

static void break_nr_largest(struct foe *f)
{
	foe_request(f, 0, 8);
	raw_seq(&f->ring, 0, f->ring.position + 1, UINT32_MAX);
}

static void break_seq(struct foe *f)
{
	for (uint32_t i = 0; i < 3; i++)
		foe_request(f, i, 8);
	raw_seq(&f->ring, 2, f->ring.position + 4, 0);
	raw_seq(&f->ring, 1, f->ring.position + 2, 0);
	raw_seq(&f->ring, 0, f->ring.position + 1, 3);
}

static void break_head_ahead(struct foe *f)
{
	foe_request(f, 0, 8)->cq_head = f->ring.cq_head + 1;
	raw_publish(&f->ring, 1);
}

static void break_head_behind(struct foe *f)
{
	foe_request(f, 0, 8);
	raw_publish(&f->ring, 1);
	foe_complete(f, 1);
	foe_request(f, 0, 8);
	raw_publish(&f->ring, 1);
	foe_complete(f, 1);
	foe_request(f, 0, 8)->cq_head = 0;
	raw_publish(&f->ring, 1);
}

static void break_room(struct foe *f)
{
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		foe_request(f, i, 8);
	raw_publish(&f->ring, FOE_SLOTS);
	need(raw_wait_consumed(&f->ring));
	foe_request(f, 0, 8)->cq_head = 0;
	raw_publish(&f->ring, 1);
}

/* Reaped them all, but says that it reaped none. */
static void break_room_by_lying(struct foe *f)
{
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		foe_request(f, i, 8);
	raw_publish(&f->ring, FOE_SLOTS);
	foe_complete(f, FOE_SLOTS);
	foe_request(f, 0, 8)->cq_head = 0;
	raw_publish(&f->ring, 1);
}

static void break_op(struct foe *f)
{
	foe_request(f, 0, 8)->op = 200;
	raw_publish(&f->ring, 1);
}

static void break_flags(struct foe *f)
{
	foe_request(f, 0, 8)->flags = 0x8000;
	raw_publish(&f->ring, 1);
}

static void break_second_op(struct foe *f)
{
	foe_request(f, 0, 8);
	foe_request(f, 1, 8)->op = TENT_OP_NOP;
	raw_publish(&f->ring, 2);
}

static void break_second_flags(struct foe *f)
{
	foe_request(f, 0, 8);
	foe_request(f, 1, 8)->flags = TENT_SLOT_F_ONE_COMPLETION;
	raw_publish(&f->ring, 2);
}

static void break_second_head(struct foe *f)
{
	foe_request(f, 0, 8);
	foe_request(f, 1, 8)->cq_head = 7;
	raw_publish(&f->ring, 2);
}

static void break_second_nr(struct foe *f)
{
	foe_request(f, 0, 8);
	foe_request(f, 1, 8);
	raw_seq(&f->ring, 1, f->ring.position + 2, 9);
	raw_seq(&f->ring, 0, f->ring.position + 1, 2);
}

static const struct {
	const char *name;
	void (*act)(struct foe *f);
	uint32_t rule;
} broken_words[] = {
	{ "nr is 0", break_nr_zero, TENT_RULE_RING_NR },
	{ "nr is slots + 1", break_nr_large, TENT_RULE_RING_NR },
	{ "nr is 2^32 - 1", break_nr_largest, TENT_RULE_RING_NR },
	{ "a later slot's seq", break_seq, TENT_RULE_RING_SEQ },
	{ "cq_head ahead", break_head_ahead, TENT_RULE_RING_CQ_HEAD },
	{ "cq_head behind", break_head_behind, TENT_RULE_RING_CQ_HEAD },
	{ "more than there is room", break_room, TENT_RULE_RING_ROOM },
	{ "a lie about room", break_room_by_lying, TENT_RULE_RING_ROOM },
	{ "op", break_op, TENT_RULE_RING_FIRST },
	{ "flags", break_flags, TENT_RULE_RING_FIRST },
	{ "a later slot's op", break_second_op, TENT_RULE_RING_FIRST },
	{ "a later slot's flags", break_second_flags, TENT_RULE_RING_FIRST },
	{ "a later slot's cq_head", break_second_head, TENT_RULE_RING_FIRST },
	{ "a later slot's nr", break_second_nr, TENT_RULE_RING_FIRST },
};

/* The breakers store the word themselves; raw_publish() would wake. */
static int attack_words(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	for (size_t i = 0; i < sizeof(broken_words) / sizeof(broken_words[0]); i++) {
		uint32_t rule;

		broken_words[i].act(&f);
		foe_wake(&f);
		rule = raw_wait_end(&f.ring);
		if (rule != broken_words[i].rule) {
			fprintf(stderr, "%s: the ring ended with rule %u, not %u\n",
				broken_words[i].name, rule, broken_words[i].rule);
			return 1;
		}
		foe_reopen(&f);
	}
	foe_request(&f, 0, 8); /* the connection itself is none the worse */
	raw_publish(&f.ring, 1);
	foe_complete(&f, 1);
	return 0;
}

static void every_wrong_ring_word_ends_that_ring_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_words, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- words that change ----------------------------------------------------- */

#define FLIP_BATCH 4u

/* at is a byte of a slot, or of its cell from 128 on. Only slots of the batch that lies
 * open are flipped, and never while they are filled: what stays must be what was. */
struct flipper {
	struct foe *foe;
	uint32_t at;
	pthread_mutex_t lock;
	bool open, stop;
};

static uint8_t *cell_at(const struct raw_ring *ring, uint32_t position)
{
	return ring->client + ring->h.cells_offset + position % FOE_SLOTS * TENT_CELL_SIZE;
}

static volatile uint8_t *flip_byte(const struct flipper *p, uint32_t position)
{
	const struct raw_ring *ring = &p->foe->ring;

	if (p->at >= 128)
		return cell_at(ring, position) + p->at - 128;
	return ring->client + ring->h.slots_offset + position % FOE_SLOTS * 128 + p->at;
}

static void *flip_main(void *arg)
{
	struct flipper *p = arg;
	uint64_t random = 1;
	bool stop = false;

	while (!stop) {
		pthread_mutex_lock(&p->lock);
		stop = p->stop;
		if (p->open) {
			volatile uint8_t *byte = flip_byte(p, random_next(&random) % FLIP_BATCH);
			uint8_t old = *byte;

			*byte = (uint8_t)random_next(&random);
			spin_pause();
			*byte = old;
		}
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static void flip_let(struct flipper *p, bool open)
{
	pthread_mutex_lock(&p->lock);
	p->open = open;
	pthread_mutex_unlock(&p->lock);
	if (open)
		sched_yield();	/* on one core flips are seen only so */
}

/* Fills the batch at position 0 of a new ring; with names, as long as they may be, of
 * which the engine knows none. */
static void fill_batch(struct foe *f, bool named)
{
	for (uint32_t i = 0; i < FLIP_BATCH; i++) {
		struct tent_slot *s = foe_request(f, i, 4096);

		if (!named)
			continue;
		s->request.policy_name = (const char *)(uintptr_t)TENT_POLICY_NAME_MAX;
		memset(cell_at(&f->ring, i), 'x', TENT_POLICY_NAME_MAX);
	}
}

/* Whether the completion is what an engine that saw no flip would say. */
static bool is_as_filled(const struct tent_completion *c, bool named)
{
	if (named)
		return c->rule == TENT_RULE_POLICY_UNKNOWN && c->index == 0 &&
		       c->user_data == 0 && c->credits == FLIP_BATCH;
	return c->status == TENT_STATUS_COMPLETED && c->bytes == 4096 &&
	       c->user_data == c->index && c->flags == 0;
}

/* Publishes a batch under flips until all credits are back or the ring ends. Whether
 * its outcome was another than that of the batch as it was filled. */
static bool publish_flipped(struct foe *f, struct flipper *p, bool named)
{
	bool is_word = p->at < 8;	/* raw_publish() itself stores it */
	uint32_t credits = 0;
	struct tent_completion c;
	bool changed = false;

	fill_batch(f, named);
	if (!is_word)
		flip_let(p, true);
	raw_publish(&f->ring, FLIP_BATCH);
	if (is_word)
		flip_let(p, true);
	while (credits < FLIP_BATCH && raw_wait(&f->ring, &c)) {
		changed |= !is_as_filled(&c, named);
		credits += c.credits;
	}
	flip_let(p, false);
	return changed || raw_end_rule(&f->ring);
}

/* How many of the batches that were published while byte at was flipped show it. */
static uint32_t flip_with(struct foe *f, uint32_t at, uint32_t rounds)
{
	struct flipper p = { .foe = f, .at = at, .lock = PTHREAD_MUTEX_INITIALIZER };
	uint32_t changed = 0;
	pthread_t thread;

	need(pthread_create(&thread, NULL, flip_main, &p) == 0);
	for (uint32_t i = 0; i < rounds; i++) {
		changed += publish_flipped(f, &p, at >= 128 || i % 2);
		foe_reopen(f);
	}
	pthread_mutex_lock(&p.lock);
	p.stop = true;
	pthread_mutex_unlock(&p.lock);
	pthread_join(thread, NULL);
	return changed;
}

/* Every byte, again and again until some flips were seen. */
static int attack_flips(struct arena *a, void *arg)
{
	uint32_t in_slots = 0, in_cells = 0, rounds = soak_rounds(8);
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	do
		for (uint32_t at = 0; at < 128; at++)
			in_slots += flip_with(&f, at, rounds);
	while (!in_slots);
	do
		for (uint32_t at = 128; at < 128 + TENT_CELL_SIZE; at++)
			in_cells += flip_with(&f, at, rounds);
	while (!in_cells);
	printf("flips changed the outcome of %u batches in their slots, of %u in their cells\n",
	       in_slots, in_cells);
	fflush(stdout);
	return 0;
}

static void flipping_every_byte_of_a_slot_during_the_copy_hurts_nobody_else(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_flips, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- half a batch, and silence ------------------------------------------------ */

static int attack_half_batch(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	for (uint32_t i = 0; i < 8; i++)
		foe_request(&f, i, 4096);
	for (uint32_t i = 7; i > 0; i--)
		raw_seq(&f.ring, i, f.ring.position + i + 1, 0);
	foe_wake(&f);
	arena_witness(a, 50);
	need(load_acquire(&f.ring.engine_line->consumed) == 0);
	need(raw_end_rule(&f.ring) == 0);
	_exit(0); /* without the first slot, and without a farewell */
}

static void a_batch_without_its_first_slot_is_never_seen(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_half_batch, NULL, 0), 0);
	arena_check(&arena);
}

static int attack_then_pause(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	for (uint32_t i = 0; i < FOE_SLOTS; i++)
		foe_request(&f, i, FOE_MEMORY / 2);
	raw_publish(&f.ring, FOE_SLOTS);
	raise(SIGSTOP);
	return 1;
}

static void a_stopped_client_holds_nobody_up_and_then_dies(void **state)
{
	pid_t pid = arena_spawn(&arena, attack_then_pause, NULL, 0);
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	arena_honest_rounds(&arena, 200);
	kill(pid, SIGKILL);
	assert_int_equal(arena_wait(pid), 128 + SIGKILL);
	arena_check(&arena);
}

/* ---- the memory of the ring --------------------------------------------------- */

/* Neither memfd can be resized or unsealed, and the engine's not written at all. */
static int attack_seals(struct arena *a, void *arg)
{
	struct foe f;
	uint8_t byte = 1;

	(void)arg;
	foe_open(&f, a);
	need(ftruncate(f.ring.client_fd, 0) < 0);
	need(ftruncate(f.ring.client_fd, 1 << 30) < 0);
	need(ftruncate(f.ring.engine_fd, 0) < 0);
	need(fcntl(f.ring.client_fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
	need(pwrite(f.ring.engine_fd, &byte, 1, 0) < 0);
	need(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f.ring.engine_fd, 0) ==
	     MAP_FAILED);
	need(mprotect(f.ring.engine, 4096, PROT_READ | PROT_WRITE) < 0);
	need(fallocate(f.ring.engine_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		       4096) < 0);
	return 0;
}

static void ring_memory_can_be_neither_resized_nor_forged(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_seals, NULL, 0), 0);
	arena_check(&arena);
}

/* Holes between any two batches; what tentd reads there is zero, or the next word. */
static int attack_holes(struct arena *a, void *arg)
{
	struct foe f;
	uint64_t random = 7;

	(void)arg;
	foe_open(&f, a);
	for (int i = 0; i < 2000; i++) {
		struct tent_completion c;
		off_t page = random_next(&random) % ((f.ring.h.client_size + 4095) / 4096);

		if (raw_end_rule(&f.ring))
			foe_reopen(&f);
		foe_request(&f, 0, 4096);
		raw_publish(&f.ring, 1);
		need(fallocate(f.ring.client_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       page * 4096, 4096) == 0);
		/* A batch that fell into the hole was never published: say it again. */
		while (!raw_reap(&f.ring, &c) && !raw_end_rule(&f.ring)) {
			f.ring.position--;
			foe_request(&f, 0, 4096);
			raw_publish(&f.ring, 1);
		}
	}
	return 0;
}

static void holes_punched_into_ring_memory_hurt_nobody_else(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_holes, NULL, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_ring_word_ends_that_ring_only),
		cmocka_unit_test(flipping_every_byte_of_a_slot_during_the_copy_hurts_nobody_else),
		cmocka_unit_test(a_batch_without_its_first_slot_is_never_seen),
		cmocka_unit_test(a_stopped_client_holds_nobody_up_and_then_dies),
		cmocka_unit_test(ring_memory_can_be_neither_resized_nor_forged),
		cmocka_unit_test(holes_punched_into_ring_memory_hurt_nobody_else),
	};

	return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
