/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_random.c - random slots in a ring and random messages on a socket, from
 * fixed seeds; for TENT_FUZZ_SECONDS each where that is set. tentd is real, and two
 * honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/foe.h"
#include "tests/common/soak.h"

static int setup(void **state)
{
	(void)state;
	arena_start(&arena, (const char *const[]){
		"-o", "limits/allocated_bytes_per_client=16777216", NULL });
	return 0;
}

/* ---- slots -------------------------------------------------------------------- */

static void random_bytes(uint64_t *random, void *to, size_t n)
{
	uint8_t *p = to;

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)random_next(random);
}

/* Sound, with a few fields replaced by other plausible or wild ones. */
static void random_slot(struct foe *f, uint32_t i, uint64_t *random)
{
	static const uint64_t wild[] = { 0, 1, 8, 4096, FOE_MEMORY, 1ull << 32, 1ull << 47,
					 1ull << 63, UINT64_MAX, UINT64_MAX - 7 };
	struct tent_slot *s = foe_request(f, i, random_next(random) % 65536);
	uint64_t value = wild[random_next(random) % 10];

	switch (random_next(random) % 12) {
	case 0: random_bytes(random, (uint8_t *)s + 8, 120); break;
	case 1: random_bytes(random, &s->request, sizeof(s->request)); break;
	case 2: s->request.length = value; break;
	case 3: s->request.target_offset = value; break;
	case 4: s->request.source = (void *)(uintptr_t)value; break;
	case 5: s->request.target_id = value; break;
	case 6: s->op = (uint8_t)(random_next(random) % 5); break;
	case 7: s->flags = (uint16_t)(random_next(random) % 5); break;
	case 8: s->request.policy_name = (const char *)(uintptr_t)value; break;
	case 9: s->request.struct_size = random_next(random) % 128; break;
	case 10: s->request.deadline_ns = value; break;
	}
}

/* One in sixteen has a wrong word in a later slot. */
static void random_batch(struct foe *f, uint64_t *random)
{
	uint32_t nr = 1 + random_next(random) % 8, bad = random_next(random) % (16 * nr);

	for (uint32_t i = 0; i < nr; i++)
		random_slot(f, i, random);
	random_bytes(random, f->ring.client + f->ring.h.cells_offset, 64);
	for (uint32_t i = nr; i-- > 0;)
		if (i && i == bad)
			raw_seq(&f->ring, i, random_next(random), random_next(random));
		else
			raw_seq(&f->ring, i, f->ring.position + i + 1, i ? 0 : nr);
	f->ring.position += nr;
	foe_wake(f);
}

static int attack_slots(struct arena *a, void *arg)
{
	time_t until = time(NULL) + (time_t)arena_seconds(0);
	uint32_t rounds = soak_rounds(4000);
	uint64_t random = (uintptr_t)arg;
	struct foe f;

	foe_open(&f, a);
	for (uint32_t i = 0; i < rounds || time(NULL) < until; i++) {
		struct tent_completion c;

		random_batch(&f, &random);
		/* Wait until it is judged: consumed moves, or the ring ends. */
		raw_wait_consumed(&f.ring);
		while (raw_reap(&f.ring, &c))
			;
		if (raw_end_rule(&f.ring))
			foe_reopen(&f);
	}
	return 0;
}

static void random_slots_hurt_nobody_else(void **state)
{
	(void)state;
	for (uintptr_t seed = 1; seed <= 2; seed++)
		assert_int_equal(arena_attack(&arena, attack_slots, (void *)seed, 0), 0);
	arena_check(&arena);
}

/* ---- messages ----------------------------------------------------------------- */

/* A message of a known type with the right or a wrong size and any content. */
static uint32_t random_message(struct ctl_message *m, uint64_t *random)
{
	uint32_t i = random_next(random) % RAW_MESSAGES, size = raw_messages[i].size;
	uint8_t *p = m->bytes;
	bool sparse = random_next(random) % 2;

	memset(p, 0, sizeof(m->bytes));
	for (uint32_t k = sizeof(m->head); k < size; k++)
		if (!sparse || random_next(random) % 16 == 0)
			p[k] = (uint8_t)random_next(random);
	m->head.size = random_next(random) % 16 ? size : random_next(random);
	m->head.type = random_next(random) % 32 ? raw_messages[i].type :
						 (uint16_t)random_next(random);
	m->head.cookie = random_next(random);
	return random_next(random) % 16 ? size : random_next(random) % sizeof(m->bytes);
}

static int attack_messages(struct arena *a, void *arg)
{
	time_t until = time(NULL) + (time_t)arena_seconds(0);
	uint32_t rounds = soak_rounds(4000);
	uint64_t random = (uintptr_t)arg;
	struct raw r = { .sock = -1 };

	for (uint32_t i = 0; i < rounds || time(NULL) < until; i++) {
		struct ctl_message m;
		uint32_t size = random_message(&m, &random);

		if (r.sock < 0) {
			r.sock = raw_socket(a->tentd.socket);
			need(r.sock >= 0);
			if (random_next(&random) % 4)
				need(raw_hello(&r, NULL, 0) == 0);
		}
		m.nr_fds = 0;
		if (size && send(r.sock, m.bytes, size, MSG_NOSIGNAL) == (ssize_t)size &&
		    ctl_recv(r.sock, &m, 0) == 0) {
			ctl_close_fds(&m);
			continue;
		}
		close(r.sock);
		r.sock = -1;
	}
	return 0;
}

static void random_messages_hurt_nobody_else(void **state)
{
	(void)state;
	for (uintptr_t seed = 1; seed <= 2; seed++)
		assert_int_equal(arena_attack(&arena, attack_messages, (void *)seed, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_slots_hurt_nobody_else),
		cmocka_unit_test(random_messages_hurt_nobody_else),
	};

	return cmocka_run_group_tests(tests, setup, arena_teardown);
}
