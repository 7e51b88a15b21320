/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_handles.c - what handles promise: a stale one is refused wherever it comes
 * from, an engine may go with work in flight, and threads leave nothing behind.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/lib.h"
#include "tests/common/lib_fix.h"
#include "tests/common/soak.h"

#define SIZE (4u << 20)
#define HALF (SIZE / 2)

static const char *const hanging[] = {
	"transports/null/enable=true", "transports/shm/enable=false",
	"transports/null/faults=pending=1,hold", NULL
};

static int start(void **state, enum lib_mode mode, const char *const *options)
{
	struct lib_fix *f = calloc(1, sizeof(*f));

	*state = f;
	lib_fix_start(f, mode, SIZE, options);
	return 0;
}

static int start_thread(void **state) { return start(state, LIB_THREAD, NULL); }
static int start_caller(void **state) { return start(state, LIB_CALLER, NULL); }
static int start_daemon(void **state) { return start(state, LIB_DAEMON, NULL); }

static int stop(void **state)
{
	lib_fix_stop(*state);
	free(*state);
	return 0;
}

/* Every function that takes an engine, with a handle that is not one. */
static void assert_engine_is_stale(tent_engine_t e, tent_batch_id_t batch)
{
	tent_request_v1_t r = { .struct_size = 88, .schema_version = 1 };
	tent_request_t legacy = { .opcode = OPCODE_READ };
	tent_memory_options_t options = { .permission = PERM_GLOBAL_READ_WRITE };
	tent_nic_load_stat_t stats[1];
	tent_error_info_t info = { .size = sizeof(info) };
	tent_segment_info_t segment;
	tent_segment_id_t id;
	tent_notifi_info notes;
	tent_status_t s[1];
	char text[64], *json;
	void *p = text;
	size_t n = 1;
	uint16_t port;

	assert_int_equal(tent_available(e), 0);
	assert_int_equal(tent_segment_name(e, text, 64), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_rpc_server_addr_port(e, text, 64, &port), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_open_segment(e, &id, ""), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_close_segment(e, 0), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_connect_segment(e, 0, 0), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_get_segment_info(e, 0, &segment), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_allocate_memory(e, &p, 1, "*"), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_allocate_memory_ex(e, &p, 1, &options), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_free_memory(e, text), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_register_memory(e, text, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_register_memory_ex(e, text, 1, &options), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_unregister_memory(e, text, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_allocate_batch(e, 1), TENT_INVALID_BATCH);
	assert_int_equal(tent_free_batch(e, batch), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit_v1(e, batch, &r, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit_v1_notif(e, batch, &r, 1, "n", "m"), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_explain_requests(e, &r, 1, 88, 1, &json), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_status(e, batch, 0, s), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_status_list(e, batch, s, &n), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_overall_status(e, batch, s), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_error(e, batch, 0, &info), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_cancel_task(e, batch, 0), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_completion_fd(e), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit(e, batch, &legacy, 1), -1);
	assert_int_equal(tent_submit_notif(e, batch, &legacy, 1, "n", "m"), -1);
	assert_int_equal(tent_send_notifs(e, 0, "n", "m"), -1);
	assert_int_equal(tent_recv_notifs(e, &notes), -1);
	assert_int_equal(tent_get_nic_load_stats(e, stats, &n), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_STALE_HANDLE);
	tent_destroy_engine(e);
}

static void a_destroyed_engine_is_refused_everywhere(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 1);
	tent_engine_t old = f->engine;

	assert_engine_is_stale(NULL, batch);
	assert_engine_is_stale((void *)0x1234567, batch);
	assert_engine_is_stale((void *)&batch, batch);
	tent_destroy_engine(old);
	assert_engine_is_stale(old, batch);
	f->engine = tent_create_engine();
	assert_true(tent_available(f->engine));
	assert_ptr_not_equal(f->engine, old);
	assert_engine_is_stale(old, batch); /* the new one took its place */
}

static void assert_batch_is_stale(tent_engine_t e, tent_batch_id_t batch)
{
	tent_request_v1_t r = { .struct_size = 88, .schema_version = 1 };
	tent_error_info_t info = { .size = sizeof(info) };
	tent_status_t s[1];
	size_t n = 1;

	assert_int_equal(tent_free_batch(e, batch), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit_v1(e, batch, &r, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_status(e, batch, 0, s), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_status_list(e, batch, s, &n), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_overall_status(e, batch, s), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_task_error(e, batch, 0, &info), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_cancel_task(e, batch, 0), TENT_ERR_STALE_HANDLE);
	assert_int_equal(lib_fix_error().rule, TENT_RULE_BATCH_STALE);
}

static void a_freed_batch_is_refused_and_its_id_never_returns(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t first = tent_allocate_batch(f->engine, 3), id;

	assert_int_not_equal(first, TENT_INVALID_BATCH);
	assert_int_equal(tent_free_batch(f->engine, first), 0);
	assert_batch_is_stale(f->engine, first);
	assert_batch_is_stale(f->engine, 0);
	assert_batch_is_stale(f->engine, UINT64_MAX);
	for (int i = 0; i < 5000; i++) {
		id = tent_allocate_batch(f->engine, 3);
		assert_int_not_equal(id, TENT_INVALID_BATCH);
		assert_int_not_equal(id, first);
		assert_int_equal(tent_free_batch(f->engine, id), 0);
	}
	assert_batch_is_stale(f->engine, first);
}

static void a_batch_of_another_engine_is_stale(void **state)
{
	struct lib_fix *f = *state;
	tent_engine_t other = tent_create_engine();
	tent_batch_id_t batch = tent_allocate_batch(other, 1);

	assert_true(tent_available(other));
	assert_batch_is_stale(f->engine, batch);
	tent_destroy_engine(other);
	assert_batch_is_stale(f->engine, batch);
}

static void batch_sizes_outside_their_range_are_refused(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch;

	assert_int_equal(tent_allocate_batch(f->engine, 0), TENT_INVALID_BATCH);
	assert_int_equal(tent_allocate_batch(f->engine, (1u << 20) + 1), TENT_INVALID_BATCH);
	assert_int_equal(tent_allocate_batch(f->engine, SIZE_MAX), TENT_INVALID_BATCH);
	assert_string_equal(lib_fix_error().field, "batch_size");
	batch = tent_allocate_batch(f->engine, 1u << 20);
	assert_int_not_equal(batch, TENT_INVALID_BATCH);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

/* How many of the places that batches ever had are not free: as many batches as there
 * are places need that many new ones. */
static uint32_t places_in_use(tent_engine_t engine)
{
	uint32_t nr = lib_batch_count(), new;
	tent_batch_id_t *ids = calloc(nr, sizeof(*ids));

	assert_non_null(ids);
	for (uint32_t i = 0; i < nr; i++)
		ids[i] = tent_allocate_batch(engine, 1);
	new = lib_batch_count() - nr;
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(tent_free_batch(engine, ids[i]), 0);
	free(ids);
	return new;
}

static void a_batch_freed_in_flight_is_stale_at_once_and_its_work_ends(void **state)
{
	struct lib_fix *f = *state;
	tent_request_v1_t r[32];

	lib_fix_pattern(f->memory, HALF, 5);
	for (uint32_t round = soak_rounds(200); round > 0; round--) {
		tent_batch_id_t batch = tent_allocate_batch(f->engine, 32);

		for (size_t i = 0; i < 32; i++)
			r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i * 32768, HALF + i * 32768,
					       32768);
		assert_int_equal(tent_submit_v1(f->engine, batch, r, 32), 0);
		assert_int_equal(tent_free_batch(f->engine, batch), 0);
		assert_batch_is_stale(f->engine, batch);
	}
	/* The requests end, and with the last one of a batch its place is free again. Some like
	 * them end behind them. A small one would pass them, where nobody but who waits for it
	 * drives the poller; and to look for places makes more of them each time. */
	do {
		tent_batch_id_t batch = tent_allocate_batch(f->engine, 32);

		assert_int_equal(tent_submit_v1(f->engine, batch, r, 32), 0);
		lib_fix_wait(f->engine, batch);
		assert_int_equal(tent_free_batch(f->engine, batch), 0);
	} while (places_in_use(f->engine));
	assert_memory_equal(f->memory, f->memory + HALF, 32 * 32768);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* Batches that were freed in flight ended on their own; destroying their engine must
 * not free them again, or two new ones would share their tasks. */
static void batches_freed_before_their_engine_are_freed_once(void **state)
{
	enum { NR = 400 };
	struct lib_fix *f = *state;
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 65536);
	tent_batch_id_t ids[NR];
	uintptr_t tasks[NR];

	for (int i = 0; i < 100; i++) {
		ids[i] = tent_allocate_batch(f->engine, 32);
		assert_int_equal(tent_submit_v1(f->engine, ids[i], &r, 1), 0);
		assert_int_equal(tent_free_batch(f->engine, ids[i]), 0);
	}
	tent_destroy_engine(f->engine);
	f->engine = tent_create_engine();
	assert_true(tent_available(f->engine));
	for (int i = 0; i < NR; i++) {
		ids[i] = tent_allocate_batch(f->engine, 32);
		tasks[i] = (uintptr_t)lib_batch_find(lib_engine_find(f->engine), ids[i])->tasks;
	}
	qsort(tasks, NR, sizeof(tasks[0]), by_address);
	for (int i = 1; i < NR; i++)
		assert_int_not_equal(tasks[i], tasks[i - 1]);
	for (int i = 0; i < NR; i++)
		assert_int_equal(tent_free_batch(f->engine, ids[i]), 0);
}

static void an_engine_goes_with_work_in_flight_and_touches_nothing_after(void **state)
{
	struct lib_fix *f = *state;

	for (uint32_t round = soak_rounds(20); round > 0; round--) {
		tent_batch_id_t batch = tent_allocate_batch(f->engine, 64);
		uint8_t *heap = malloc(SIZE);
		tent_request_v1_t r[64];
		tent_engine_t old = f->engine;

		assert_int_equal(tent_register_memory(f->engine, heap, SIZE), 0);
		for (size_t i = 0; i < 64; i++) {
			r[i] = lib_fix_request(f, TENT_OPCODE_READ, 0, (i % 4) * 65536, 65536);
			r[i].source = heap + (i % 32) * 65536;
		}
		assert_int_equal(tent_submit_v1(f->engine, batch, r, 64), 0);
		tent_destroy_engine(f->engine); /* unmaps f->memory */
		memset(heap, 0xee, SIZE);
		assert_batch_is_stale((f->engine = tent_create_engine()), batch);
		assert_engine_is_stale(old, batch);
		for (size_t i = 0; i < SIZE; i++)
			assert_int_equal(heap[i], 0xee);
		free(heap); /* asan: and nothing reads it either */
		assert_true(tent_available(f->engine));
		assert_int_equal(tent_allocate_memory(f->engine, (void **)&f->memory, SIZE, "*"), 0);
		assert_int_equal(tent_register_memory(f->engine, f->memory, SIZE), 0);
	}
}

/* Submits until its engine is gone, which must end it. */
static void *submit_until_stale(void *arg)
{
	struct lib_fix *f = arg;
	tent_request_v1_t r[8];

	for (size_t i = 0; i < 8; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i * 64, HALF + i * 64, 64);
	for (;;) {
		tent_batch_id_t batch = tent_allocate_batch(f->engine, 8);
		tent_status_t s = { .status = TENT_STATUS_PENDING };

		if (!batch || tent_submit_v1(f->engine, batch, r, 8))
			return NULL;
		while (!tent_overall_status(f->engine, batch, &s) && s.status < TENT_STATUS_INVALID)
			sched_yield();
		if (s.status < TENT_STATUS_INVALID || tent_free_batch(f->engine, batch))
			return NULL;
	}
}

static void destroying_an_engine_ends_the_threads_inside_it(void **state)
{
	struct lib_fix *f = *state;

	for (int round = 0; round < 10; round++) {
		struct lib_fix shared = *f;
		pthread_t threads[4];

		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, submit_until_stale,
							&shared), 0);
		for (int i = 0; i < round * 20; i++)
			sched_yield();
		tent_destroy_engine(f->engine);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		f->engine = tent_create_engine();
		assert_true(tent_available(f->engine));
		assert_int_equal(tent_allocate_memory(f->engine, (void **)&f->memory, SIZE, "*"), 0);
		assert_int_equal(tent_register_memory(f->engine, f->memory, SIZE), 0);
	}
}

static void every_handle_is_stale_in_a_forked_child(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 2);
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 4096);
	pid_t child;
	int status;

	assert_int_equal(tent_submit_v1(f->engine, batch, &r, 1), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		alarm(600);
		_exit(tent_available(f->engine) != 0 ||
		      tent_submit_v1(f->engine, batch, &r, 1) != TENT_ERR_STALE_HANDLE ||
		      tent_free_batch(f->engine, batch) != TENT_ERR_STALE_HANDLE ||
		      tent_allocate_batch(f->engine, 1) != TENT_INVALID_BATCH ||
		      (tent_destroy_engine(f->engine), 0));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* The parent's engine did not notice. */
	assert_int_equal(tent_submit_v1(f->engine, batch, &r, 1), 0);
	assert_int_equal(lib_fix_wait(f->engine, batch).transferred_bytes, 8192);
	tent_free_batch(f->engine, batch);
}

static int child_makes_its_own_engine(struct lib_fix *f)
{
	struct lib_fix own = *f;
	tent_request_v1_t r;
	tent_batch_id_t batch;

	own.engine = tent_create_engine();
	if (!tent_available(own.engine) || own.engine == f->engine ||
	    tent_allocate_memory(own.engine, (void **)&own.memory, SIZE, "*") ||
	    tent_register_memory(own.engine, own.memory, SIZE))
		return 1;
	batch = tent_allocate_batch(own.engine, 1);
	lib_fix_pattern(own.memory, 4096, 4);
	r = lib_fix_request(&own, TENT_OPCODE_WRITE, 0, HALF, 4096);
	if (tent_submit_v1(own.engine, batch, &r, 1) ||
	    lib_fix_wait(own.engine, batch).status != TENT_STATUS_COMPLETED ||
	    memcmp(own.memory, own.memory + HALF, 4096))
		return 2;
	tent_destroy_engine(own.engine);
	return tent_available(f->engine) ? 3 : 0;
}

/* tsan cannot run threads in a child of a process that has some. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

static void a_forked_child_can_have_an_engine_of_its_own(void **state)
{
	pid_t child;
	int status;

	if (UNDER_TSAN && ((struct lib_fix *)*state)->mode != LIB_DAEMON)
		skip();
	child = fork();

	assert_true(child >= 0);
	if (!child) {
		alarm(600);
		_exit(child_makes_its_own_engine(*state));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(tent_available(((struct lib_fix *)*state)->engine), 1);
}

static void *use_once(void *arg)
{
	struct lib_fix *f = arg;
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 64);
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 1);

	if (tent_submit_v1(f->engine, batch, &r, 1) ||
	    lib_fix_wait(f->engine, batch).status != TENT_STATUS_COMPLETED)
		return NULL;
	tent_free_batch(f->engine, batch);
	return f;
}

static struct lib_engine *engine_of(struct lib_fix *f)
{
	return lib_engine_find(f->engine);
}

static void two_hundred_threads_one_after_the_other_share_a_ring(void **state)
{
	struct lib_fix *f = *state;
	uint32_t rings;

	assert_non_null(use_once(f));
	rings = engine_of(f)->nr_rings;
	assert_int_equal(rings, 1);
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, use_once, f), 0);
		pthread_join(thread, &result);
		assert_ptr_equal(result, f);
	}
	assert_int_equal(engine_of(f)->nr_rings, rings + 1);
}

struct crowd {
	struct lib_fix *f;
	pthread_barrier_t *barrier;
};

static void *use_in_a_crowd(void *arg)
{
	struct crowd *c = arg;
	void *result = use_once(c->f);

	pthread_barrier_wait(c->barrier); /* all have a seat at this moment */
	return use_once(c->f) ? result : NULL;
}

static void more_threads_than_rings_share_them(void **state)
{
	enum { THREADS = LIB_RINGS_MAX + 16 };
	struct lib_fix *f = *state;
	pthread_barrier_t barrier;
	struct crowd c = { f, &barrier };
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_in_a_crowd, &c), 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_ptr_equal(result, f);
	}
	pthread_barrier_destroy(&barrier);
	assert_true(engine_of(f)->nr_rings <= LIB_RINGS_MAX);
	for (uint32_t i = 0; i < engine_of(f)->nr_rings; i++)
		assert_int_equal(engine_of(f)->rings[i]->users, 0);
}

static void *allocate_and_submit(void *arg)
{
	struct lib_fix *f = arg;
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 64);
	tent_batch_id_t *batch = malloc(sizeof(*batch));

	*batch = tent_allocate_batch(f->engine, 2);
	if (tent_submit_v1(f->engine, *batch, &r, 1))
		*batch = 0;
	return batch;
}

static void a_batch_outlives_the_thread_that_submitted_it(void **state)
{
	struct lib_fix *f = *state;
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 64);

	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		void *batch;

		assert_int_equal(pthread_create(&thread, NULL, allocate_and_submit, f), 0);
		pthread_join(thread, &batch);
		assert_int_not_equal(*(tent_batch_id_t *)batch, 0);
		assert_int_equal(tent_submit_v1(f->engine, *(tent_batch_id_t *)batch, &r, 1), 0);
		assert_int_equal(lib_fix_wait(f->engine, *(tent_batch_id_t *)batch)
				 .transferred_bytes, 128);
		assert_int_equal(tent_free_batch(f->engine, *(tent_batch_id_t *)batch), 0);
		free(batch);
	}
}

static void requests_that_hang_end_with_the_engine(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;
	tent_request_v1_t r;
	tent_status_t s;

	(void)state;
	lib_fix_start(&f, LIB_THREAD, SIZE, hanging);
	batch = tent_allocate_batch(f.engine, 1);
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, HALF, 64);
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), 0);
	assert_int_equal(tent_overall_status(f.engine, batch, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_PENDING);
	lib_fix_stop(&f);
	assert_engine_is_stale(f.engine, batch);
}

#define TEST(name, start) cmocka_unit_test_setup_teardown(name, start, stop)
#define TESTS(start)							\
	TEST(a_destroyed_engine_is_refused_everywhere, start),		\
	TEST(a_freed_batch_is_refused_and_its_id_never_returns, start),	\
	TEST(a_batch_of_another_engine_is_stale, start),		\
	TEST(batch_sizes_outside_their_range_are_refused, start),	\
	TEST(a_batch_freed_in_flight_is_stale_at_once_and_its_work_ends, start), \
	TEST(batches_freed_before_their_engine_are_freed_once, start),	\
	TEST(an_engine_goes_with_work_in_flight_and_touches_nothing_after, start), \
	TEST(destroying_an_engine_ends_the_threads_inside_it, start),	\
	TEST(every_handle_is_stale_in_a_forked_child, start),		\
	TEST(a_forked_child_can_have_an_engine_of_its_own, start),	\
	TEST(two_hundred_threads_one_after_the_other_share_a_ring, start), \
	TEST(more_threads_than_rings_share_them, start),		\
	TEST(a_batch_outlives_the_thread_that_submitted_it, start)

int main(void)
{
	const struct CMUnitTest in_thread[] = { TESTS(start_thread) };
	const struct CMUnitTest in_caller[] = { TESTS(start_caller) };
	const struct CMUnitTest in_daemon[] = { TESTS(start_daemon) };
	const struct CMUnitTest last[] = {
		cmocka_unit_test(requests_that_hang_end_with_the_engine),
	};

	return cmocka_run_group_tests_name("thread mode", in_thread, NULL, NULL) |
	       cmocka_run_group_tests_name("caller mode", in_caller, NULL, NULL) |
	       cmocka_run_group_tests_name("daemon mode", in_daemon, NULL, NULL) |
	       cmocka_run_group_tests_name("hanging requests", last, NULL, NULL);
}
