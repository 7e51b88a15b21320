/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_fix.h - an engine inside the test, at a socket of its own, and clients of it:
 * in this process, in this process through the socket, and in forked ones.
 */
#ifndef TENT_TESTS_ENGINE_FIX_H
#define TENT_TESTS_ENGINE_FIX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "tests/common/raw.h"

struct engine_fix {
	struct engine *engine;
	struct engine_config config;
	char folder[32];
	char path[64];
	int fds;	/* open in this process before the engine was made */
	int threads;
};

/* tune may change the defaults; NULL: none. Backends are shm and null. */
void engine_fix_start(struct engine_fix *f, void (*tune)(struct engine_config *c));
/* Also checks that no descriptor and no thread is left. */
void engine_fix_stop(struct engine_fix *f);

/* The engine that a group of tests shares, and cmocka's setup (of the defaults) and
 * teardown of it. */
extern struct engine_fix fix;
int engine_fix_setup(void **state);
int engine_fix_teardown(void **state);

int engine_fix_count_fds(void);
int engine_fix_count_threads(void);
/* Mappings of this process whose name holds the text. */
int engine_fix_count_maps(const char *text);
/* Waits until count() is expected; only for what must come. */
void engine_fix_settle(int (*count)(void), int expected);

/* A client through the socket, or a local one. Fails the test. */
struct tent_client *engine_fix_attach(const struct engine_fix *f, const char *name);
struct tent_client *engine_fix_local(const struct engine_fix *f);
/* size bytes of allocated memory, registered for everybody of the tenant. */
uint8_t *engine_fix_memory(struct tent_client *c, size_t size);
struct tent_ring *engine_fix_ring(struct tent_client *c);
/* One request and its completion. In caller mode f drives; else NULL will do. */
struct tent_completion engine_fix_move(struct tent_ring *ring, int opcode, const void *source,
				       uint64_t segment, const void *target, uint64_t length);
struct tent_completion engine_fix_wait(struct tent_ring *ring);
struct tent_request_v1 engine_fix_request(int opcode, const void *source, uint64_t segment,
					  const void *target, uint64_t length);
void engine_fix_submit(struct tent_ring *ring, const struct tent_request_v1 *r);

/* Rule of the calling thread's last failure. */
uint32_t engine_fix_rule(void);

/* Runs body in a child of that user (0: as is) and returns its status, or 128 + signal.
 * body ends with its return value and uses need(), not cmocka. */
int engine_fix_child(struct engine_fix *f, unsigned uid, int (*body)(struct engine_fix *f));
pid_t engine_fix_spawn(struct engine_fix *f, unsigned uid, int (*body)(struct engine_fix *f));
int engine_fix_reap(pid_t pid);

/* How many clients the engine tells of. */
int engine_fix_clients(const struct engine_fix *f);
/* Waits until only nr clients are left; the descriptors that are open then. */
int engine_fix_quiet(const struct engine_fix *f, int nr);

#endif /* TENT_TESTS_ENGINE_FIX_H */
