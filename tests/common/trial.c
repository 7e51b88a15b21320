/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c - see trial.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/clock.h"
#include "ring/order.h"
#include "tests/common/engine_fix.h"
#include "tests/common/random.h"
#include "tests/common/soak.h"
#include "tests/common/trial.h"

#define COUNTED 100u
#define TRIES_MAX 10000u		/* for one that counts: on a busy machine many are over before */
#define CANCEL_DATA UINT64_MAX

/* What a place is filled with: bytes that no neighbour in time has. */
enum fill { FROM, TO, FROM_AFTER, TO_AFTER };

static uint8_t byte_of(const struct trial *p, enum fill fill)
{
	return (uint8_t)(p->number << 2 | fill);
}

static bool is_all(const uint8_t *p, uint64_t n, uint8_t byte)
{
	return *p == byte && !memcmp(p, p + 1, n - 1);
}

/* ---- memory ------------------------------------------------------------ */

static int memory_create(uint64_t size)
{
	int fd = memfd_create("trials", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

static uint8_t *map(int fd, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

void trials_open(struct trials *t, int theirs_fd)
{
	uint64_t size = TRIAL_PLACES * t->bytes;

	t->mine_fd = memory_create(size);
	t->theirs_fd = theirs_fd < 0 ? memory_create(size) : theirs_fd;
	t->mine = map(t->mine_fd, size);
	t->theirs = map(t->theirs_fd, size);
	t->targets = theirs_fd < 0 ? (uintptr_t)t->theirs : 0;
	t->chance = 20261130;
	t->nr = 0;
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		t->places[i] = (struct trial){ .place = i, .mine = t->mine + i * t->bytes,
					       .theirs = t->theirs + i * t->bytes };
}

void trials_close(struct trials *t)
{
	munmap(t->mine, TRIAL_PLACES * t->bytes);
	munmap(t->theirs, TRIAL_PLACES * t->bytes);
	close(t->mine_fd);
	close(t->theirs_fd);
}

void trials_attach(struct trials *t, struct tent_client *user)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++)
		assert_int_equal(tent_ring_open(user, 4, 4, &t->rings[i]), 0);
}

void trials_detach(struct trials *t)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++)
		tent_ring_close(t->rings[i]);
}

void trial_register(const struct trials *t, const struct trial *p, struct tent_client *c,
		    bool theirs, bool private)
{
	uint8_t *at = theirs ? p->theirs : p->mine;
	int fd = theirs ? t->theirs_fd : t->mine_fd;
	int rc = private ?
		 tent_client_register(c, at, t->bytes, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0) :
		 tent_client_register_fd(c, fd, p->place * t->bytes, at, t->bytes,
					 TENT_PERM_GLOBAL_READ_WRITE, NULL);

	if (rc)
		fail_msg("register: rule %u", engine_fix_rule());
}

/* ---- one trial --------------------------------------------------------- */

static void prepare(struct trials *t, struct trial *p, const struct cause *c)
{
	p->number = t->nr++;
	p->opcode = c->opcode ? c->opcode(p->number) :
		    p->number & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
	p->from = p->opcode == TENT_OPCODE_READ ? p->theirs : p->mine;
	p->to = p->opcode == TENT_OPCODE_READ ? p->mine : p->theirs;
	p->past = random_next(&t->chance) % (t->bytes / 4);
	p->struck = p->ended = p->unfenced = p->from_filled = p->to_filled = false;
	p->arrived = 0;
	memset(p->from, byte_of(p, FROM), t->bytes);
	memset(p->to, byte_of(p, TO), t->bytes);
}

static void begin(const struct trials *t, const struct trial *p, struct tent_ring *ring)
{
	struct tent_request_v1 r = engine_fix_request(p->opcode, p->mine, t->id,
		(void *)(uintptr_t)(t->targets + p->place * t->bytes), t->bytes);

	assert_int_equal(tent_ring_submit(ring, &r, 1, sizeof(r), p->number, 0), 0);
}

static bool is_under_way(const struct trial *p)
{
	return load_acquire(p->to + p->past) == byte_of(p, FROM);
}

/* Nobody reads it any more. */
static void fill_from(struct trials *t, struct trial *p)
{
	if (!p->from_filled)
		memset(p->from, byte_of(p, FROM_AFTER), t->bytes);
	p->from_filled = true;
}

/* Nobody writes it any more: what arrived has arrived. */
static void fill_to(struct trials *t, struct trial *p)
{
	uint64_t untouched = 0;

	if (p->to_filled)
		return;
	for (uint64_t i = 0; i < t->bytes; i++) {
		p->arrived += p->to[i] == byte_of(p, FROM);
		untouched += p->to[i] == byte_of(p, TO);
	}
	if (p->arrived + untouched != t->bytes)
		fail_msg("%s: trial %llu has bytes that its source did not have when it was taken",
			 t->backend, (unsigned long long)p->number);
	memset(p->to, byte_of(p, TO_AFTER), t->bytes);
	p->to_filled = true;
}

static bool is_by(const struct cause *c, uint16_t rule)
{
	for (uint32_t i = 0; i < TRIAL_RULES; i++)
		if (rule && c->rules[i] == rule)
			return true;
	return false;
}

static void count(struct trials *t, struct trial *p, const struct cause *c,
		  const struct tent_completion *done)
{
	/* A request that is judged late may name what is gone already. */
	uint64_t moved = done->flags & TENT_CQE_F_REJECTED ? 0 : done->bytes;

	p->unfenced = done->flags & TENT_CQE_F_TARGET_UNFENCED;
	if (done->status == TENT_STATUS_COMPLETED)
		assert_true(p->arrived == t->bytes && moved == t->bytes);
	assert_in_range(moved, t->exact && !p->unfenced ? p->arrived : 0, p->arrived);
	if (p->unfenced)
		t->unfenced++;
	else if (p->arrived == t->bytes)
		t->over++;
	else if (p->arrived && is_by(c, done->rule))
		t->counted++;
	else
		t->others++;
}

static void end(struct trials *t, struct trial *p)
{
	fill_to(t, p);
	fill_from(t, p);
	p->until_ns = clock_monotonic_ns() + 2 * t->bound_ns;
	p->ended = true;
}

static bool reap(struct trials *t, struct trial *p, const struct cause *c,
		 struct tent_ring *ring)
{
	bool is_last = tent_ring_end_rule(ring) != 0;	/* nothing comes after what is there */
	struct tent_completion done;

	while (tent_ring_poll(ring, &done, 1)) {
		if (done.user_data != p->number)
			continue;	/* of a cancel */
		end(t, p);
		count(t, p, c, &done);
		return true;
	}
	if (!is_last)
		return false;
	end(t, p);
	assert_int_equal(p->arrived, 0);	/* it was never judged */
	t->others++;
	return true;
}

/* Both ends have nothing but what was put there after the end was told. */
static void compare(struct trials *t, struct trial *p)
{
	while (clock_monotonic_ns() < p->until_ns) {
		uint64_t left = p->until_ns - clock_monotonic_ns();
		struct timespec pause = { .tv_nsec = left < 1000000 ? (long)left : 1000000 };

		nanosleep(&pause, NULL);
	}
	if (!is_all(p->from, t->bytes, byte_of(p, FROM_AFTER)))
		fail_msg("%s: the source of trial %llu changed after its end", t->backend,
			 (unsigned long long)p->number);
	if (!p->unfenced && !is_all(p->to, t->bytes, byte_of(p, TO_AFTER)))
		fail_msg("%s: bytes of trial %llu arrived after its end", t->backend,
			 (unsigned long long)p->number);
	p->until_ns = 0;
}

uint8_t *trial_cancel(struct trials *t, struct trial *p)
{
	struct tent_ring *ring = t->rings[p->number % TRIAL_FLIGHT];
	struct tent_slot *slot = tent_ring_slot(ring, 0);

	memset(slot, 0, sizeof(*slot));
	slot->user_data = CANCEL_DATA;
	memcpy((char *)&slot->request + offsetof(struct tent_request_v1, source), &p->number,
	       sizeof(p->number));
	tent_ring_publish(ring, 1, TENT_OP_CANCEL, 0);
	return NULL;
}

/* ---- many -------------------------------------------------------------- */

/* Those whose turn it is were compared for long enough, or are waited for. The first is
 * not over before the last is ready. */
static void begin_flight(struct trials *t, const struct cause *c)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++) {
		struct trial *p = t->flight[i] = &t->places[t->nr % TRIAL_PLACES];

		if (p->until_ns)
			compare(t, p);
		prepare(t, p, c);
	}
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++)
		begin(t, t->flight[i], t->rings[i]);
}

static void strike(struct trials *t, struct trial *p, const struct cause *c)
{
	uint8_t *taken = c->strike(t, p);

	p->struck = true;
	if (taken == p->from)
		fill_from(t, p);
	else if (taken == p->to)
		fill_to(t, p);
}

/* All that are under way. */
static void strike_some(struct trials *t, const struct cause *c)
{
	for (uint32_t i = 0; c->strike && i < TRIAL_FLIGHT; i++) {
		struct trial *p = t->flight[i];

		if (!p->ended && !p->struck && is_under_way(p))
			strike(t, p, c);
	}
}

/* The first is under way, or was. */
static void strike_first(struct trials *t, const struct cause *c)
{
	bool rough = t->lose && t->nr / TRIAL_FLIGHT % TRIAL_ROUGH == 0;

	if (rough)
		t->lose(true);
	strike_some(t, c);
	if (c->strike_all)
		c->strike_all(t);
	if (rough)
		t->lose(false);
}

static void fly(struct trials *t, const struct cause *c)
{
	struct trial *first;
	bool begun = false;

	begin_flight(t, c);
	first = t->flight[random_next(&t->chance) % TRIAL_FLIGHT];
	for (uint32_t left = TRIAL_FLIGHT; left; sched_yield()) {
		for (uint32_t i = 0; i < TRIAL_FLIGHT; i++)
			if (!t->flight[i]->ended)
				left -= reap(t, t->flight[i], c, t->rings[i]);
		if (!begun && (first->ended || is_under_way(first))) {
			begun = true;
			strike_first(t, c);
		} else {
			strike_some(t, c);
		}
	}
}

void trials_run(struct trials *t, const struct cause *c)
{
	uint32_t wanted = soak_rounds(COUNTED);
	uint64_t first = t->nr;

	t->counted = t->over = t->unfenced = t->others = 0;
	while (t->counted < wanted) {
		assert_in_range(t->nr - first, 0, (uint64_t)wanted * TRIES_MAX);
		fly(t, c);
		if (c->restore)
			c->restore(t);
	}
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		if (t->places[i].until_ns)
			compare(t, &t->places[i]);
	print_message("%s, %s: %u trials ended with bytes under way, both ends compared for "
		      "%llu ms; beside them %u were over before, %u ended otherwise, %u said "
		      "that they are not fenced\n", t->backend, c->name, t->counted,
		      (unsigned long long)(2 * t->bound_ns / 1000000), t->over, t->others,
		      t->unfenced);
}
