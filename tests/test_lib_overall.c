/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_overall.c - how a batch as a whole stands costs the same whatever it holds: no
 * task is looked at. Their array is made untouchable meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/lib.h"
#include "tests/common/lib_fix.h"

#define SIZE 65536u
#define HALF (SIZE / 2)
#define NR 10000u
#define PART 500u	/* at a time: a ring has room for it */
#define BYTES 32u

static const char *const held[] = {
	"transports/null/enable=true", "transports/null/faults=pending=1,hold", NULL
};

/* All of their array but its first page, which has other things on it, and its last. */
static void guard_tasks(const struct lib_fix *f, tent_batch_id_t batch, int protection)
{
	struct lib_batch *b = lib_batch_find(lib_engine_find(f->engine), batch);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)b->tasks->task + page - 1) & ~(page - 1);
	uintptr_t to = (uintptr_t)&b->tasks->task[b->capacity] & ~(page - 1);

	assert_true(to >= from + 8 * page);
	assert_int_equal(mprotect((void *)from, to - from, protection), 0);
}

/* The last of them by the null transport, which keeps it; the others by shm. */
static tent_batch_id_t submit_all(struct lib_fix *f, bool is_last_held)
{
	tent_batch_id_t batch = tent_allocate_batch(f->engine, NR);
	tent_request_v1_t r[PART];

	for (uint32_t i = 0; i < PART; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, BYTES);
	for (uint32_t at = 0; at < NR; at += PART) {
		if (is_last_held && at == NR - PART)
			r[PART - 1].transport_hint = TENT_TRANSPORT_MPCOMM;
		assert_int_equal(tent_submit_v1(f->engine, batch, r, PART), 0);
	}
	return batch;
}

static void expect_overall(struct lib_fix *f, tent_batch_id_t batch, int status, uint64_t bytes)
{
	tent_status_t s = { 0 };

	while (s.transferred_bytes != bytes)
		assert_int_equal(tent_overall_status(f->engine, batch, &s), 0);
	guard_tasks(f, batch, PROT_NONE);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(tent_overall_status(f->engine, batch, &s), 0);
		assert_int_equal(s.status, status);
		assert_int_equal(s.transferred_bytes, bytes);
	}
	guard_tasks(f, batch, PROT_READ | PROT_WRITE);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

static void no_task_is_looked_at(enum lib_mode mode)
{
	struct lib_fix f;

	lib_fix_start(&f, mode, SIZE, held);
	expect_overall(&f, submit_all(&f, false), TENT_STATUS_COMPLETED, NR * BYTES);
	expect_overall(&f, submit_all(&f, true), TENT_STATUS_PENDING, (NR - 1) * BYTES);
	lib_fix_stop(&f);
}

static void no_task_is_looked_at_with_a_thread(void **state)
{
	(void)state;
	no_task_is_looked_at(LIB_THREAD);
}

static void no_task_is_looked_at_by_a_caller(void **state)
{
	(void)state;
	no_task_is_looked_at(LIB_CALLER);
}

static void no_task_is_looked_at_of_a_daemon(void **state)
{
	(void)state;
	no_task_is_looked_at(LIB_DAEMON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_task_is_looked_at_with_a_thread),
		cmocka_unit_test(no_task_is_looked_at_by_a_caller),
		cmocka_unit_test(no_task_is_looked_at_of_a_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
