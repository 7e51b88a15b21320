/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_staging_far.c - memory of GPUs in a program, and another engine that reads and writes it
 * by tcp. On the stand-in for the CUDA driver, where a touch by the CPU would end the program.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/staging.h"
#include "ring/order.h"
#include "tests/common/asleep.h"
#include "tests/common/engine_fix.h"
#include "tests/common/gpu_fix.h"
#include "tests/common/lib_far.h"
#include "tests/common/tentd.h"

#define SIZE ((9u << 20) + 3)	/* bytes at each end */
#define ODD 5u			/* an offset that is aligned to nothing */
#define EACH 4096u
#define MANY (2u * STAGING_LOANS)

struct far_fix {
	struct lib_far far;
	uint64_t gpu;		/* SIZE bytes of cuda:0, the program's */
	tent_segment_id_t id;	/* the program's segment, to the other engine's client */
	uint8_t *memory;	/* 2 * SIZE bytes, that client's */
	struct tent_ring *ring;	/* the same */
};

/* ---- setup ------------------------------------------------------------------ */

static void own(struct far_fix *f)
{
	char name[128];
	void *p;

	assert_int_equal(tent_segment_name(f->far.here.engine, name, sizeof(name)), 0);
	assert_int_equal(tent_client_open_segment(f->far.owner, name, &f->id), 0);
	assert_int_equal(tent_client_alloc(f->far.owner, 2 * SIZE, NULL, &p), 0);
	assert_int_equal(tent_client_register(f->far.owner, p, 2 * SIZE,
					      TENT_PERM_LOCAL_READ_WRITE, NULL, 0), 0);
	f->memory = p;
	f->ring = engine_fix_ring(f->far.owner);
	lib_fix_pattern(f->memory, SIZE, 3);
}

static int start(void **state, const char *const *options)
{
	struct far_fix *f = calloc(1, sizeof(*f));
	void *p = NULL;

	*state = f;
	lib_far_open(&f->far, LIB_THREAD, options);
	if (tent_allocate_memory(f->far.here.engine, &p, SIZE, "cuda:0") ||
	    tent_register_memory(f->far.here.engine, p, SIZE))
		fail_msg("%s", lib_fix_error().message);
	f->gpu = (uintptr_t)p;
	own(f);
	return 0;
}

/* Nobody holds a buffer for too long, however slow the machine is. */
#define PATIENT LIB_FAR_PATIENT, "transports/tcp/fence_ms=60000"
static const char *const patient[] = { PATIENT, NULL };
static const char *const large[] = { PATIENT, "transports/tcp/chunk_bytes=4194304",
				     "transports/tcp/crc32c=true", NULL };
static const char *const hasty[] = { LIB_FAR_PATIENT, "transports/tcp/fence_ms=500", NULL };

static int start_usual(void **state) { return start(state, patient); }
static int start_large(void **state) { return start(state, large); }
static int start_hasty(void **state) { return start(state, hasty); }

static int stop(void **state)
{
	struct far_fix *f = *state;

	tent_ring_close(f->ring);
	lib_far_close(&f->far);
	free(f);
	return 0;
}

/* ---- requests --------------------------------------------------------------- */

static void submit(struct far_fix *f, int opcode, uint64_t from, uint64_t at, uint64_t n)
{
	struct tent_request_v1 r = engine_fix_request(opcode, f->memory + from, f->id,
						      (void *)(uintptr_t)(f->gpu + at), n);

	engine_fix_submit(f->ring, &r);
}

static void finish(struct far_fix *f, int status, uint32_t rule)
{
	struct tent_completion c = engine_fix_wait(f->ring);

	assert_int_equal(c.status, status);
	assert_int_equal(c.rule, rule);
}

static void move(struct far_fix *f, int opcode, uint64_t from, uint64_t at, uint64_t n)
{
	submit(f, opcode, from, at, n);
	finish(f, TENT_STATUS_COMPLETED, 0);
}

static uint64_t copies_in(void)
{
	return gpu_calls(gpu_fix_control, CALL_cuMemcpyHtoDAsync_v2);
}

/* ---- bytes ------------------------------------------------------------------ */

/* All of them, and none beside them. */
static void what_a_peer_writes_is_in_the_gpu_and_comes_back(void **state)
{
	struct far_fix *f = *state;
	const uint64_t n = SIZE - 2 * ODD;
	uint8_t *got = calloc(1, SIZE);

	gpu_fix_put(0, f->gpu, got, SIZE);
	move(f, TENT_OPCODE_WRITE, 2 * ODD, ODD, n);
	gpu_fix_get(0, got, f->gpu, SIZE);
	assert_memory_equal(got + ODD, f->memory + 2 * ODD, n);
	for (uint32_t i = 0; i < ODD; i++)
		assert_int_equal(got[i] | got[SIZE - 1 - i], 0);
	move(f, TENT_OPCODE_READ, SIZE + 1, ODD, n);
	assert_memory_equal(f->memory + SIZE + 1, f->memory + 2 * ODD, n);
	free(got);
}

static void requests_of_peers_wait_for_buffers_in_turn(void **state)
{
	struct far_fix *f = *state;
	uint64_t before = copies_in();
	uint8_t *got = malloc(MANY * EACH);

	gpu_hold(gpu_fix_control, 0);
	for (uint32_t i = 0; i < MANY; i++)
		submit(f, TENT_OPCODE_WRITE, i * EACH, i * EACH, EACH);
	while (copies_in() < before + STAGING_LOANS)
		sched_yield();
	gpu_fix_let_turn(1000);
	assert_int_equal(copies_in(), before + STAGING_LOANS);
	gpu_release(gpu_fix_control, 0);
	for (uint32_t i = 0; i < MANY; i++)
		finish(f, TENT_STATUS_COMPLETED, 0);
	gpu_fix_get(0, got, f->gpu, MANY * EACH);
	assert_memory_equal(got, f->memory, MANY * EACH);
	free(got);
}

/* ---- ends ------------------------------------------------------------------- */

static void a_write_is_not_answered_before_it_is_in_the_gpu(void **state)
{
	struct far_fix *f = *state;
	uint64_t before = copies_in();
	struct tent_completion c;
	uint8_t got[EACH];

	gpu_hold(gpu_fix_control, 0);
	submit(f, TENT_OPCODE_WRITE, 0, 0, EACH);
	while (copies_in() == before)
		sched_yield();
	gpu_fix_let_turn(1000);
	assert_int_equal(tent_ring_poll(f->ring, &c, 1), 0);
	gpu_release(gpu_fix_control, 0);
	finish(f, TENT_STATUS_COMPLETED, 0);
	gpu_fix_get(0, got, f->gpu, EACH);
	assert_memory_equal(got, f->memory, EACH);
}

struct leaving {
	struct far_fix *fix;
	uint32_t is_over;
};

static void *leave(void *context)
{
	struct leaving *l = context;
	void *memory = (void *)(uintptr_t)l->fix->gpu;

	assert_int_equal(tent_unregister_memory(l->fix->far.here.engine, memory, SIZE), 0);
	store_release(&l->is_over, 1u); /* no pair: the test's own */
	return NULL;
}

static void memory_is_not_unregistered_while_a_peers_bytes_are_copied(void **state)
{
	struct far_fix *f = *state;
	struct leaving l = { .fix = f };
	uint64_t before = copies_in();
	pthread_t thread;

	gpu_hold(gpu_fix_control, 0);
	submit(f, TENT_OPCODE_WRITE, 0, 0, EACH);
	while (copies_in() == before)
		sched_yield();
	assert_int_equal(pthread_create(&thread, NULL, leave, &l), 0);
	gpu_fix_let_turn(1000);
	assert_int_equal(load_acquire(&l.is_over), 0); /* no pair */
	gpu_release(gpu_fix_control, 0);
	pthread_join(thread, NULL);
	engine_fix_wait(f->ring);
}

/* It has all buffers when it dies; who comes after it finds them free. */
static void a_peer_that_dies_keeps_no_buffers(void **state)
{
	struct far_fix *f = *state;
	uint64_t before = copies_in();

	gpu_hold(gpu_fix_control, 0);
	for (uint32_t i = 0; i < MANY; i++)
		submit(f, TENT_OPCODE_WRITE, i * EACH, i * EACH, EACH);
	while (copies_in() < before + STAGING_LOANS)
		sched_yield();
	lib_fix_kill(&f->far.there, SIGKILL);
	tent_ring_close(f->ring);
	tent_client_detach(f->far.owner);
	gpu_release(gpu_fix_control, 0);
	lib_fix_tentd(&f->far.there, patient);
	lib_far_own(&f->far);
	own(f);
	move(f, TENT_OPCODE_WRITE, 0, 0, SIZE);
	move(f, TENT_OPCODE_READ, SIZE, 0, SIZE);
	assert_memory_equal(f->memory + SIZE, f->memory, SIZE);
}

/* It wants more than sockets hold, and stands still. The other one may be slow, too, and then
 * asks again. */
static void a_peer_that_does_not_read_keeps_no_buffers_from_others(void **state)
{
	struct far_fix *f = *state, other = { .far.here = f->far.here };
	uint64_t before = gpu_calls(gpu_fix_control, CALL_cuMemcpyDtoHAsync_v2);
	int status;

	lib_fix_tentd(&other.far.there, hasty);
	lib_far_own(&other.far);
	own(&other);
	other.gpu = f->gpu;
	for (uint32_t i = 0; i < 8; i++)
		submit(f, TENT_OPCODE_READ, 0, 0, SIZE);
	while (gpu_calls(gpu_fix_control, CALL_cuMemcpyDtoHAsync_v2) == before)
		sched_yield();
	stop_process(f->far.there.tentd->program.pid);
	do {
		submit(&other, TENT_OPCODE_WRITE, 0, 0, SIZE);
		status = engine_fix_wait(other.ring).status;
	} while (status != TENT_STATUS_COMPLETED);
	kill(f->far.there.tentd->program.pid, SIGCONT);
	for (uint32_t i = 0; i < 8; i++)
		engine_fix_wait(f->ring);
	tent_ring_close(other.ring);
	tent_client_detach(other.far.owner);
	lib_fix_kill(&other.far.there, SIGTERM);
}

/* Last: GPU 0 stays lost. */
static void a_lost_gpu_is_told_to_peers(void **state)
{
	struct far_fix *f = *state;

	gpu_set(&gpu_fix_control->gpus[0].copy_fails, CU_ECC_UNCORRECTABLE);
	submit(f, TENT_OPCODE_WRITE, 0, 0, SIZE);
	finish(f, TENT_STATUS_FAILED, TENT_RULE_GPU);
	submit(f, TENT_OPCODE_READ, 0, 0, SIZE);
	finish(f, TENT_STATUS_FAILED, TENT_RULE_GPU);
}

#define WITH(test, how) cmocka_unit_test_setup_teardown(test, start_##how, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(what_a_peer_writes_is_in_the_gpu_and_comes_back, usual),
		WITH(what_a_peer_writes_is_in_the_gpu_and_comes_back, large),
		WITH(requests_of_peers_wait_for_buffers_in_turn, usual),
		WITH(a_write_is_not_answered_before_it_is_in_the_gpu, usual),
		WITH(memory_is_not_unregistered_while_a_peers_bytes_are_copied, usual),
		WITH(a_peer_that_dies_keeps_no_buffers, usual),
		WITH(a_peer_that_does_not_read_keeps_no_buffers_from_others, hasty),
		WITH(a_lost_gpu_is_told_to_peers, usual),
	};
	int rc;

	(void)argc;
	if (!gpu_fix_main(argv, &rc))
		return rc;
	gpu_fix_load();
	return cmocka_run_group_tests_name("staged for peers", tests, NULL, NULL);
}
