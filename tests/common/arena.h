/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - where attacks happen: a real tentd, and an honest store and reader in
 * processes of their own, which verify every byte they move for as long as the
 * arena stands.
 */
#ifndef TENT_TESTS_ARENA_H
#define TENT_TESTS_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/common/tentd.h"

/* Written by the honest reader, read by the test; both map it. */
struct honest_board {
	uint32_t ready;		/* store and reader count up */
	uint32_t wrong;		/* a byte, a status or a call that was not as it must be */
	char what[160];		/* the first of them */
	uint64_t rounds;	/* blocks written, read back and found right */
	char segment[128];	/* the store's full name */
	uint64_t base;		/* of the store's buffer, in the store */
};

struct arena {
	struct tentd tentd;
	pid_t store, reader;
	struct honest_board *board;
	int base_fds, base_clients, base_threads; /* with the honest ones only */
};

/* args: more arguments for tentd, NULL-terminated, or NULL. */
void arena_start(struct arena *a, const char *const *args);

/*
 * After an attack: tentd is alive, has no more descriptors, clients and threads than
 * before it, and the honest pair has since verified another 50 blocks. Fails the
 * test otherwise.
 */
void arena_check(struct arena *a);

/* arena_check(), then the end: tentd exits cleanly on SIGTERM. */
void arena_stop(struct arena *a);

/* The arena that a group of tests shares, and cmocka's setup (of a tentd as it is by
 * default) and teardown of it. */
extern struct arena arena;
int arena_setup(void **state);
int arena_teardown(void **state);

/* Blocks until the honest reader has verified nr more blocks. */
void arena_honest_rounds(struct arena *a, uint64_t nr);
/* The same for attackers, which stay in their attack meanwhile. */
void arena_witness(struct arena *a, uint64_t nr);

/* Runs attack(a, arg) in a forked process of user uid (0: as is) and waits for it;
 * its return value, or 128 + signal. */
int arena_attack(struct arena *a, int (*attack)(struct arena *a, void *arg), void *arg,
		 unsigned uid);
/* The same without waiting. */
pid_t arena_spawn(struct arena *a, int (*attack)(struct arena *a, void *arg), void *arg,
		  unsigned uid);
int arena_wait(pid_t pid);

/* Of tentd, now. */
int arena_fds(const struct arena *a);
int arena_clients(const struct arena *a);

/* Seconds that a fuzzer may take: TENT_FUZZ_SECONDS, or the default. */
unsigned arena_seconds(unsigned by_default);

#endif /* TENT_TESTS_ARENA_H */
