/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_fix.h - two engines, and a client of one that uses memory of a client of the
 * other. */
#ifndef TENT_TEST_TCP_FIX_H
#define TENT_TEST_TCP_FIX_H

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/pattern.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define SIZE ((uint64_t)4 << 20)
#define PARTS 8

static struct engine_fix one, two;

/* user, of one, uses theirs, of owner, of two. */
struct pair {
	struct tent_client *owner, *user;
	struct tent_ring *ring;
	uint8_t *mine, *theirs;		/* SIZE bytes each */
	tent_segment_id_t id;
};

static inline bool is_all(const uint8_t *p, size_t n, uint8_t byte)
{
	return n == 0 || (*p == byte && !memcmp(p, p + 1, n - 1));
}

static inline bool is_zero(const uint8_t *p, size_t n)
{
	return is_all(p, n, 0);
}

static inline uint8_t *memory_of(struct tent_client *c, int permission)
{
	void *p;

	assert_int_equal(tent_client_alloc(c, SIZE, "*", &p), 0);
	assert_int_equal(tent_client_register(c, p, SIZE, permission, NULL, 0), 0);
	return p;
}

static inline void pair_open_from(struct pair *p, struct engine_fix *here, struct engine_fix *there,
			   int permission)
{
	p->owner = engine_fix_attach(there, NULL);
	p->theirs = memory_of(p->owner, permission);
	p->user = engine_fix_attach(here, NULL);
	p->mine = memory_of(p->user, TENT_PERM_LOCAL_READ_WRITE);
	assert_int_equal(tent_ring_open(p->user, 512, 512, &p->ring), 0);
	p->id = far_open_it(p->user, tent_client_segment(p->owner));
}

static inline void pair_open(struct pair *p, int permission)
{
	pair_open_from(p, &one, &two, permission);
}

static inline void pair_close(struct pair *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->user);
	if (p->owner)
		tent_client_detach(p->owner);
}

static inline void pair_submit(struct pair *p, int opcode, uint64_t at, uint64_t target, uint64_t n)
{
	struct tent_request_v1 r = engine_fix_request(opcode, p->mine + at, p->id,
						      p->theirs + target, n);

	engine_fix_submit(p->ring, &r);
}

/* All of it as PARTS requests: two that write the same bytes at once are a race of the
 * program's. */
static inline void pair_submit_parts(struct pair *p, int opcode)
{
	for (uint64_t i = 0; i < PARTS; i++)
		pair_submit(p, opcode, i * SIZE / PARTS, i * SIZE / PARTS, SIZE / PARTS);
}

static inline struct tent_completion pair_move(struct pair *p, int opcode, uint64_t at, uint64_t target,
					uint64_t n)
{
	pair_submit(p, opcode, at, target, n);
	return engine_fix_wait(p->ring);
}

static inline void completed(struct tent_completion done, uint64_t bytes)
{
	if (done.status != TENT_STATUS_COMPLETED)
		fail_msg("status %u, error %d, rule %u after %llu bytes", done.status, done.error,
			 done.rule, (unsigned long long)done.bytes);
	assert_int_equal(done.bytes, bytes);
}

static inline void refused(struct tent_completion done, int error)
{
	assert_int_not_equal(done.status, TENT_STATUS_COMPLETED);
	assert_int_equal(done.error, error);
}

/* Done, or ended by one of these. */
static inline void ended(struct tent_completion done, int error, int other)
{
	if (done.status != TENT_STATUS_COMPLETED && -done.error != error && -done.error != other)
		fail_msg("error %d, rule %u", done.error, done.rule);
}

static inline void tune_uring(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
	wire_set(c, "transports/tcp/fence_ms", "60000");	/* the machine may be slow */
}

static inline void tune_epoll(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "transports/tcp/io_uring", "false");
}

static inline void tune_checksums(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "transports/tcp/crc32c", "true");
	wire_set(c, "transports/tcp/zero_copy_bytes", "0");
}

/* One level: a request that rises goes by another connection, to another poller, and
 * what orders that one's writes after this one's, a socket, tsan does not see. */
static inline void tune_pollers(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "engine/priorities", "false");
	wire_set(c, "engine/pollers", "3");
}

static inline int start(void (*tune)(struct engine_config *c))
{
	engine_fix_start(&one, tune);
	engine_fix_start(&two, tune);
	return 0;
}

static inline int with_uring(void **state)
{
	(void)state;
	return start(tune_uring);
}

static inline int with_epoll(void **state)
{
	(void)state;
	return start(tune_epoll);
}

static inline int with_pollers(void **state)
{
	(void)state;
	return start(tune_pollers);
}

static inline int with_checksums(void **state)
{
	(void)state;
	return start(tune_checksums);
}

static inline void tune_caller(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "engine/mode", "caller");
}

static inline void tune_caller_epoll(struct engine_config *c)
{
	tune_epoll(c);
	wire_set(c, "engine/mode", "caller");
}

/* Nobody drives the owner's engine: its control thread serves peers. */
static inline int with_caller(void **state)
{
	(void)state;
	engine_fix_start(&one, tune_uring);
	engine_fix_start(&two, tune_caller);
	return 0;
}

static inline int with_caller_epoll(void **state)
{
	(void)state;
	engine_fix_start(&one, tune_epoll);
	engine_fix_start(&two, tune_caller_epoll);
	return 0;
}

static inline int without(void **state)
{
	(void)state;
	engine_fix_stop(&two);
	engine_fix_stop(&one);
	return 0;
}

#endif /* TENT_TEST_TCP_FIX_H */
