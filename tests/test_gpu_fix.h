/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_fix.h - what programs that test memory of GPUs have in common: one engine, on the
 * stand-in for the CUDA driver, and requests within its own segment. */
#ifndef TENT_TESTS_TEST_GPU_FIX_H
#define TENT_TESTS_TEST_GPU_FIX_H

#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/gpu_fix.h"
#include "tests/common/lib_fix.h"

#define HOST (24u << 20)
#define CHUNK (2ul << 20)

static const char *const quick[] = { "engine/request_timeout_ms=60000", NULL };

static inline int start(void **state, enum lib_mode mode)
{
	struct lib_fix *f = calloc(1, sizeof(*f));

	*state = f;
	lib_fix_start(f, mode, HOST, mode == LIB_DAEMON ? NULL : quick);
	return 0;
}

static inline int start_thread(void **state) { return start(state, LIB_THREAD); }
static inline int start_caller(void **state) { return start(state, LIB_CALLER); }
static inline int start_daemon(void **state) { return start(state, LIB_DAEMON); }

static inline int stop(void **state)
{
	lib_fix_stop(*state);
	free(*state);
	return 0;
}

/* ---- requests --------------------------------------------------------------- */

static inline tent_request_v1_t request(int opcode, uint64_t source, uint64_t target,
					uint64_t length)
{
	return (tent_request_v1_t){
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode, .source = (void *)(uintptr_t)source,
		.target_id = TENT_LOCAL_SEGMENT, .target_offset = target, .length = length,
	};
}

static inline tent_batch_id_t submit(struct lib_fix *f, const tent_request_v1_t *r)
{
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 1);

	assert_int_not_equal(batch, TENT_INVALID_BATCH);
	if (tent_submit_v1(f->engine, batch, r, 1))
		fail_msg("%s", lib_fix_error().message);
	return batch;
}

static inline void finish(struct lib_fix *f, tent_batch_id_t batch, int status, uint32_t rule)
{
	tent_error_info_t why = { .size = sizeof(why) };

	assert_int_equal(lib_fix_wait(f->engine, batch).status, status);
	if (rule) {
		assert_int_equal(tent_task_error(f->engine, batch, 0, &why), 0);
		assert_int_equal(why.rule, rule);
	}
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

static inline void move(struct lib_fix *f, int opcode, uint64_t source, uint64_t target,
			uint64_t length)
{
	tent_request_v1_t r = request(opcode, source, target, length);

	finish(f, submit(f, &r), TENT_STATUS_COMPLETED, 0);
}

static inline uint64_t allocate(struct lib_fix *f, const char *location, size_t size)
{
	void *p = NULL;

	if (tent_allocate_memory(f->engine, &p, size, location) ||
	    tent_register_memory(f->engine, p, size))
		fail_msg("%s", lib_fix_error().message);
	return (uintptr_t)p;
}

static inline void release(struct lib_fix *f, uint64_t address)
{
	assert_int_equal(tent_free_memory(f->engine, (void *)(uintptr_t)address), 0);
}

static inline int enlist(struct lib_fix *f, uint64_t address, size_t size, const char *location)
{
	tent_memory_options_t o = { .permission = TENT_PERM_GLOBAL_READ_WRITE };

	strcpy(o.location, location);
	return tent_register_memory_ex(f->engine, (void *)(uintptr_t)address, size, &o);
}

static inline void retire(struct lib_fix *f, uint64_t address, size_t size)
{
	assert_int_equal(tent_unregister_memory(f->engine, (void *)(uintptr_t)address, size), 0);
}

static inline void refused(int error, uint32_t rule, const char *says)
{
	tent_error_info_t why = lib_fix_error();

	assert_int_equal(why.error, error);
	assert_int_equal(why.rule, rule);
	if (!strstr(why.message, says))
		fail_msg("\"%s\" does not say \"%s\"", why.message, says);
}

#define WITH(test, how) cmocka_unit_test_setup_teardown(test, start_##how, stop)

#endif /* TENT_TESTS_TEST_GPU_FIX_H */
