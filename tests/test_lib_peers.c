/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_peers.c - libtent and a segment of another engine, in each kind of engine that a
 * program may use: opened, warmed up, changed, lost, back, and gone for good; and a batch to it
 * that is longer than a ring.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/asleep.h"
#include "tests/common/lib_far.h"
#include "tests/common/soak.h"
#include "tests/common/tentd.h"

#define SECOND_NS 1000000000ull
#define LONG_NS (60 * SECOND_NS)
#define MANY (IS_SANITIZED ? 20000u : 100000u)	/* blocks, more than a ring has slots */
#define BLOCK 40u		/* bytes of one */

static const char *const busy[] = { LIB_FAR_PATIENT, "engine/request_timeout_ms=3600000", NULL };
/* Where one is to be lost. */
static const char *const quick[] = { LIB_FAR_PEERS, "peers/keepalive_ms=500", NULL };

static int buffers(const struct lib_far *f)
{
	tent_segment_info_t info;
	int rc = tent_get_segment_info(f->here.engine, f->id, &info), nr = info.num_buffers;

	if (rc)
		return rc;
	tent_free_segment_info(&info);
	return nr;
}

static void a_peer_that_answers_is_connected_and_tells_of_changes(enum lib_mode mode)
{
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, LONG_NS), 0);
	assert_int_equal(buffers(&f), 1);
	assert_int_equal(tent_client_register(f.owner, f.memory + LIB_FAR_SIZE, LIB_FAR_SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	while (buffers(&f) != 2)
		;
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, LONG_NS), 0);
	lib_far_close(&f);
}

/* Stopped, it is silent: nobody can tell it from a network that is away. */
static void a_lost_peer_is_waited_for_until_it_is_back(enum lib_mode mode)
{
	uint64_t began;
	struct lib_far f;

	lib_far_open(&f, mode, quick);
	stop_process(f.there.tentd->program.pid);
	while (tent_connect_segment(f.here.engine, f.id, 0) == 0)
		;
	began = tent_monotonic_now_ns();
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, SECOND_NS / 5),
			 TENT_ERR_PEER_UNREACHABLE);
	assert_true(tent_monotonic_now_ns() - began >= SECOND_NS / 5);
	assert_int_equal(buffers(&f), TENT_ERR_PEER_UNREACHABLE);
	kill(f.there.tentd->program.pid, SIGCONT);
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, LONG_NS), 0);
	while (buffers(&f) != 1)
		;	/* it may be silent again where it gets no CPU */
	lib_far_close(&f);
}

/* Its name finds the next owner, its handle nobody. */
static void an_owner_that_leaves_is_gone_for_good(enum lib_mode mode)
{
	tent_segment_id_t next;
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	tent_client_detach(f.owner);
	while (tent_connect_segment(f.here.engine, f.id, 0) == 0)
		;
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, LONG_NS), TENT_ERR_OWNER_GONE);
	lib_far_own(&f);
	assert_int_equal(tent_open_segment(f.here.engine, &next, tent_client_segment(f.owner)), 0);
	assert_int_not_equal(next, f.id);
	assert_int_equal(tent_connect_segment(f.here.engine, next, LONG_NS), 0);
	assert_int_equal(tent_connect_segment(f.here.engine, f.id, 0), TENT_ERR_OWNER_GONE);
	lib_far_close(&f);
}

static void a_peer_that_is_not_there_is_an_error(enum lib_mode mode)
{
	tent_segment_id_t id = 7;
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	assert_int_equal(tent_open_segment(f.here.engine, &id, "127.0.0.1:9/kv"),
			 TENT_ERR_PEER_UNREACHABLE);
	assert_int_equal(id, 7);
	lib_far_close(&f);
}

/* Each block to the place of another one, and back to its own. */
static void many_small_blocks_of_one_batch_arrive(enum lib_mode mode)
{
	tent_request_v1_t *r = calloc(MANY, sizeof(*r));
	void *mine, *theirs;
	tent_batch_id_t batch;
	struct lib_far f;

	lib_far_open(&f, mode, busy);
	assert_int_equal(tent_client_alloc(f.owner, MANY * BLOCK, NULL, &theirs), 0);
	assert_int_equal(tent_client_register(f.owner, theirs, MANY * BLOCK,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	assert_int_equal(tent_allocate_memory(f.here.engine, &mine, 2 * MANY * BLOCK, "*"), 0);
	assert_int_equal(tent_register_memory(f.here.engine, mine, 2 * MANY * BLOCK), 0);
	while (buffers(&f) != 2)
		;
	lib_fix_pattern(mine, MANY * BLOCK, 5);
	for (int opcode = TENT_OPCODE_WRITE; opcode >= TENT_OPCODE_READ; opcode--) {
		size_t half = opcode == TENT_OPCODE_READ ? MANY * BLOCK : 0;

		for (size_t i = 0; i < MANY; i++) {
			r[i] = lib_fix_request(&f.here, opcode, 0, 0, BLOCK);
			r[i].source = (uint8_t *)mine + half + i * BLOCK;
			r[i].target_id = f.id;
			r[i].target_offset = (uintptr_t)theirs + (MANY - 1 - i) * BLOCK;
		}
		batch = tent_allocate_batch(f.here.engine, MANY);
		assert_int_equal(tent_submit_v1(f.here.engine, batch, r, MANY), 0);
		assert_int_equal(lib_fix_wait(f.here.engine, batch).status, TENT_STATUS_COMPLETED);
		tent_free_batch(f.here.engine, batch);
	}
	for (size_t i = 0; i < MANY; i++)
		assert_memory_equal((uint8_t *)theirs + (MANY - 1 - i) * BLOCK,
				    (uint8_t *)mine + i * BLOCK, BLOCK);
	assert_memory_equal((uint8_t *)mine + MANY * BLOCK, mine, MANY * BLOCK);
	lib_far_close(&f);
	free(r);
}

#define TESTS(X)								\
	X(a_peer_that_answers_is_connected_and_tells_of_changes)		\
	X(a_lost_peer_is_waited_for_until_it_is_back)				\
	X(an_owner_that_leaves_is_gone_for_good)				\
	X(a_peer_that_is_not_there_is_an_error)					\
	X(many_small_blocks_of_one_batch_arrive)

TESTS(LIB_TESTS)

int main(void)
{
	const struct CMUnitTest tests[] = { TESTS(LIB_ROWS) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
