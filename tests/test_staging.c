/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stage.c - memory of GPUs, moved by transports that know memory of the host alone: tcp to
 * another engine, shm and files, by way of pinned buffers. On the stand-in for the CUDA driver,
 * where a touch by the CPU would end the program.
 */
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/staging.h"
#include "ring/order.h"
#include "tests/common/asleep.h"
#include "tests/common/gpu_fix.h"
#include "tests/common/lib_far.h"
#include "tests/common/tentd.h"

#define SIZE ((6u << 20) + 3)	/* bytes at each end; many pieces of no even length */
#define ODD 5u			/* an offset that is aligned to nothing */
#define MOVED (SIZE - 2 * ODD)
#define LONG_NS 60000000000ull
#define MANY 2u			/* times as many requests as there are buffers */

/* Whose memory the host's is, at the other end of a request. */
struct end {
	int transport;
	tent_segment_id_t id;
	uint64_t base;		/* what target_offset says of its first byte */
	uint8_t *bytes;		/* it; NULL: of the file */
};

struct staging_fix {
	struct lib_far far;
	tent_engine_t engine;
	struct end tcp, shm, file;
	char path[32];
	int fd;
	uint64_t gpu;		/* SIZE bytes of cuda:0, registered */
	uint8_t *pattern, *got;	/* nobody else's */
};

/* ---- setup ------------------------------------------------------------------ */

static void open_tcp(struct staging_fix *f)
{
	tent_segment_info_t info;
	void *memory;
	int nr = 1;

	assert_int_equal(tent_client_alloc(f->far.owner, SIZE, NULL, &memory), 0);
	assert_int_equal(tent_client_register(f->far.owner, memory, SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	assert_int_equal(tent_connect_segment(f->engine, f->far.id, LONG_NS), 0);
	while (nr != 2) {
		assert_int_equal(tent_get_segment_info(f->engine, f->far.id, &info), 0);
		nr = info.num_buffers;
		tent_free_segment_info(&info);
	}
	f->tcp = (struct end){ TENT_TRANSPORT_TCP, f->far.id, (uintptr_t)memory, memory };
}

static void open_file(struct staging_fix *f)
{
	char name[48];

	strcpy(f->path, "/var/tmp/tent-stg-XXXXXX");
	f->fd = mkstemp(f->path);
	assert_int_equal(ftruncate(f->fd, SIZE), 0);
	snprintf(name, sizeof(name), "file://%s", f->path);
	f->file.transport = TENT_TRANSPORT_IOURING;
	assert_int_equal(tent_open_segment(f->engine, &f->file.id, name), 0);
}

static void *allocate(struct staging_fix *f, const char *location)
{
	void *p = NULL;

	if (tent_allocate_memory(f->engine, &p, SIZE, location) ||
	    tent_register_memory(f->engine, p, SIZE))
		fail_msg("%s", lib_fix_error().message);
	return p;
}

static int start(void **state, enum lib_mode mode, const char *const *options)
{
	struct staging_fix *f = calloc(1, sizeof(*f));

	*state = f;
	lib_far_open(&f->far, mode, options);
	f->engine = f->far.here.engine;
	open_tcp(f);
	open_file(f);
	f->shm.transport = TENT_TRANSPORT_SHM;
	f->shm.bytes = allocate(f, "*");
	f->shm.base = (uintptr_t)f->shm.bytes;
	f->pattern = malloc(SIZE);
	f->got = malloc(SIZE);
	lib_fix_pattern(f->pattern, SIZE, 7);
	return 0;
}

static const char *const hasty[] = { LIB_FAR_PATIENT, "engine/request_timeout_ms=300",
				     "transports/tcp/fence_ms=300", NULL };

static int start_hasty(void **state) { return start(state, LIB_THREAD, hasty); }

/* With memory of a GPU. */
static int start_in(void **state, enum lib_mode mode)
{
	struct staging_fix *f;

	start(state, mode, NULL);
	f = *state;
	f->gpu = (uintptr_t)allocate(f, "cuda:0");
	return 0;
}

static int start_thread(void **state) { return start_in(state, LIB_THREAD); }
static int start_caller(void **state) { return start_in(state, LIB_CALLER); }
static int start_without(void **state) { return start(state, LIB_THREAD, NULL); }

static int stop(void **state)
{
	struct staging_fix *f = *state;

	lib_far_close(&f->far);
	close(f->fd);
	unlink(f->path);
	free(f->pattern);
	free(f->got);
	free(f);
	return 0;
}

/* ---- requests --------------------------------------------------------------- */

static tent_request_v1_t request(const struct end *e, int opcode, uint64_t source, uint64_t at,
				 uint64_t length)
{
	return (tent_request_v1_t){
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode, .source = (void *)(uintptr_t)source, .target_id = e->id,
		.target_offset = e->base + at, .length = length, .transport_hint = e->transport,
	};
}

static tent_batch_id_t submit(struct staging_fix *f, const tent_request_v1_t *r, size_t nr)
{
	tent_batch_id_t batch = tent_allocate_batch(f->engine, nr);

	assert_int_not_equal(batch, TENT_INVALID_BATCH);
	if (tent_submit_v1(f->engine, batch, r, nr))
		fail_msg("%s", lib_fix_error().message);
	return batch;
}

static tent_error_info_t finish(struct staging_fix *f, tent_batch_id_t batch, int status)
{
	tent_error_info_t why = { .size = sizeof(why) };

	assert_int_equal(lib_fix_wait(f->engine, batch).status, status);
	assert_int_equal(tent_task_error(f->engine, batch, 0, &why), 0);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
	return why;
}

static void move(struct staging_fix *f, const tent_request_v1_t *r)
{
	tent_error_info_t why = finish(f, submit(f, r, 1), TENT_STATUS_COMPLETED);

	assert_int_equal(why.error, 0);
	assert_int_equal(why.flags, 0);
}

static void put(struct staging_fix *f, const struct end *e, const uint8_t *bytes)
{
	if (e->bytes)
		memcpy(e->bytes, bytes, SIZE);
	else
		assert_int_equal(pwrite(f->fd, bytes, SIZE, 0), SIZE);
}

static const uint8_t *get(struct staging_fix *f, const struct end *e)
{
	if (e->bytes)
		return e->bytes;
	assert_int_equal(pread(f->fd, f->got, SIZE, 0), SIZE);
	return f->got;
}

static json_t *plan_of(struct staging_fix *f, const tent_request_v1_t *r)
{
	json_t *root, *plan;
	char *text;

	if (tent_explain_requests(f->engine, r, 1, sizeof(*r), 1, &text))
		fail_msg("%s", lib_fix_error().message);
	root = json_loads(text, 0, NULL);
	plan = json_incref(json_object_get(json_array_get(json_object_get(root, "entries"), 0),
					   "plan"));
	assert_non_null(plan);
	json_decref(root);
	free(text);
	return plan;
}

/* ---- bytes ------------------------------------------------------------------ */

/* All of them arrive, and none beside them. */
static void bytes_go_out(struct staging_fix *f, const struct end *e)
{
	tent_request_v1_t r = request(e, TENT_OPCODE_WRITE, f->gpu + 2 * ODD, ODD, MOVED);
	uint8_t *zeros = calloc(1, SIZE);

	gpu_fix_put(0, f->gpu, f->pattern, SIZE);
	put(f, e, zeros);
	move(f, &r);
	assert_memory_equal(get(f, e), zeros, ODD);
	assert_memory_equal(get(f, e) + ODD, f->pattern + 2 * ODD, MOVED);
	assert_memory_equal(get(f, e) + ODD + MOVED, zeros, ODD);
	free(zeros);
}

static void bytes_come_in(struct staging_fix *f, const struct end *e)
{
	tent_request_v1_t r = request(e, TENT_OPCODE_READ, f->gpu + 2 * ODD, ODD, MOVED);
	uint8_t *gpu = calloc(1, SIZE);

	gpu_fix_put(0, f->gpu, gpu, SIZE);
	put(f, e, f->pattern);
	move(f, &r);
	gpu_fix_get(0, gpu, f->gpu, SIZE);
	assert_memory_equal(gpu + 2 * ODD, f->pattern + ODD, MOVED);
	for (uint32_t i = 0; i < 2 * ODD; i++)
		assert_int_equal(gpu[i], 0);
	free(gpu);
}

static void the_same_bytes_arrive_by_tcp(void **state)
{
	struct staging_fix *f = *state;

	bytes_go_out(f, &f->tcp);
	bytes_come_in(f, &f->tcp);
}

static void the_same_bytes_arrive_by_shm(void **state)
{
	struct staging_fix *f = *state;

	bytes_go_out(f, &f->shm);
	bytes_come_in(f, &f->shm);
}

static void the_same_bytes_arrive_in_a_file(void **state)
{
	struct staging_fix *f = *state;

	bytes_go_out(f, &f->file);
	bytes_come_in(f, &f->file);
}

/* The GPU's memory is the target. */
static void the_other_end_may_be_the_gpu(void **state)
{
	struct staging_fix *f = *state;
	struct end gpu = { .transport = TENT_TRANSPORT_SHM, .base = f->gpu };
	tent_request_v1_t w = request(&gpu, TENT_OPCODE_WRITE, f->shm.base + ODD, 0, MOVED);
	tent_request_v1_t r = request(&gpu, TENT_OPCODE_READ, f->shm.base, 0, MOVED);

	put(f, &f->shm, f->pattern);
	move(f, &w);
	move(f, &r);
	assert_memory_equal(f->shm.bytes, f->pattern + ODD, MOVED);
}

/* ---- plans ------------------------------------------------------------------ */

static void explain_says_that_it_is_staged_and_why(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	json_t *plan = plan_of(f, &r), *other;
	const char *staged = json_string_value(json_object_get(plan, "staged"));
	size_t i;

	assert_string_equal(json_string_value(json_object_get(plan, "transport")), "tcp");
	assert_string_equal(json_string_value(json_object_get(plan, "local")), "gpu");
	assert_non_null(staged);
	assert_non_null(strstr(staged, "tcp reaches no memory of GPU 0: by 16 pinned buffers"));
	json_array_foreach(json_object_get(plan, "others"), i, other)
		assert_string_not_equal(json_string_value(json_object_get(other, "transport")),
					"tcp");
	json_decref(plan);
}

/* Unless it is asked for: the GPU reaches pinned memory by itself. */
static void what_is_reached_directly_is_not_staged(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r = request(&f->shm, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	json_t *plan;

	r.transport_hint = TENT_TRANSPORT_UNSPEC;
	plan = plan_of(f, &r);
	assert_string_equal(json_string_value(json_object_get(plan, "transport")), "nvlink");
	assert_null(json_object_get(plan, "staged"));
	json_decref(plan);
}

/* Without buffers nothing is staged; the next memory of a GPU asks for them again. */
static void buffers_that_cannot_be_pinned_are_asked_for_again(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r;

	gpu_fail(gpu_fix_control, CALL_cuMemHostRegister_v2, 0, UINT32_MAX, CU_OUT_OF_MEMORY);
	f->gpu = (uintptr_t)allocate(f, "cuda:0");
	r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, 100);
	assert_int_not_equal(tent_submit_v1(f->engine, tent_allocate_batch(f->engine, 1), &r, 1), 0);
	assert_int_equal(lib_fix_error().rule, TENT_RULE_TRANSPORT_REACH);
	gpu_fail(gpu_fix_control, CALL_cuMemHostRegister_v2, 0, 0, 0);
	allocate(f, "cuda:1");
	bytes_go_out(f, &f->tcp);
}

/* ---- ends ------------------------------------------------------------------- */

static uint64_t copies(void)
{
	return gpu_calls(gpu_fix_control, CALL_cuMemcpyDtoHAsync_v2);
}

/* Requests of one piece each, to places behind each other. */
static void requests_without_a_buffer_wait_for_one(void **state)
{
	struct staging_fix *f = *state;
	const uint32_t nr = MANY * STAGING_BUFFERS, each = SIZE / nr < STAGING_PIECE_MIN ?
			    SIZE / nr : STAGING_PIECE_MIN;
	uint64_t before = copies();
	tent_request_v1_t r[MANY * STAGING_BUFFERS];
	tent_batch_id_t batch;

	gpu_fix_put(0, f->gpu, f->pattern, SIZE);
	for (uint32_t i = 0; i < nr; i++)
		r[i] = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu + i * each, i * each, each);
	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, r, nr);
	while (copies() < before + STAGING_BUFFERS)
		sched_yield();
	gpu_fix_let_turn(1000);
	assert_int_equal(copies(), before + STAGING_BUFFERS);
	gpu_release(gpu_fix_control, 0);
	finish(f, batch, TENT_STATUS_COMPLETED);
	assert_memory_equal(f->tcp.bytes, f->pattern, nr * each);
}

static void one_request_has_a_few_buffers_and_no_more(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	uint64_t before = copies();
	tent_batch_id_t batch;

	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, &r, 1);
	while (copies() < before + STAGING_WINDOW)
		sched_yield();
	gpu_fix_let_turn(1000);
	assert_int_equal(copies(), before + STAGING_WINDOW);
	gpu_release(gpu_fix_control, 0);
	finish(f, batch, TENT_STATUS_COMPLETED);
}

/* Called back while its copies are on their way: it ends with them, and nothing of it is
 * sent after that. */
static void what_is_canceled_ends_with_its_copies_and_is_not_sent(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	uint64_t before = copies();
	tent_status_t status;
	tent_batch_id_t batch;
	uint8_t *zeros = calloc(1, SIZE);

	gpu_fix_put(0, f->gpu, f->pattern, SIZE);
	put(f, &f->tcp, zeros);
	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, &r, 1);
	while (copies() < before + STAGING_WINDOW)
		sched_yield();
	assert_int_equal(tent_cancel_task(f->engine, batch, 0), 0);
	gpu_fix_let_turn(1000);
	assert_int_equal(tent_task_status(f->engine, batch, 0, &status), 0);
	assert_true(status.status < TENT_STATUS_INVALID);
	gpu_release(gpu_fix_control, 0);
	finish(f, batch, TENT_STATUS_CANCELED);
	assert_memory_equal(f->tcp.bytes, zeros, SIZE);
	assert_int_equal(copies(), before + STAGING_WINDOW);
	free(zeros);
}

static void what_waits_for_a_buffer_ends_at_once(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t large = request(&f->shm, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	tent_request_v1_t small = request(&f->file, TENT_OPCODE_WRITE, f->gpu, 0, 100);
	const uint32_t nr = STAGING_BUFFERS / STAGING_WINDOW;
	tent_batch_id_t held[STAGING_BUFFERS / STAGING_WINDOW], batch;
	uint64_t before = copies();

	gpu_hold(gpu_fix_control, 0);
	for (uint32_t i = 0; i < nr; i++)
		held[i] = submit(f, &large, 1);
	while (copies() < before + STAGING_BUFFERS)
		sched_yield();
	batch = submit(f, &small, 1);
	assert_int_equal(tent_cancel_task(f->engine, batch, 0), 0);
	finish(f, batch, TENT_STATUS_CANCELED);
	gpu_release(gpu_fix_control, 0);
	for (uint32_t i = 0; i < nr; i++)
		finish(f, held[i], TENT_STATUS_COMPLETED);
}

struct leaving {
	struct staging_fix *fix;
	uint32_t is_over;
};

static void *leave(void *context)
{
	struct leaving *l = context;
	void *memory = (void *)(uintptr_t)l->fix->gpu;

	assert_int_equal(tent_unregister_memory(l->fix->engine, memory, SIZE), 0);
	store_release(&l->is_over, 1u); /* no pair: the test's own */
	return NULL;
}

static void memory_is_not_unregistered_while_copies_are_on_their_way(void **state)
{
	struct staging_fix *f = *state;
	struct leaving l = { .fix = f };
	tent_request_v1_t r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	uint64_t before = copies();
	tent_batch_id_t batch;
	pthread_t thread;

	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, &r, 1);
	while (copies() < before + STAGING_WINDOW)
		sched_yield();
	assert_int_equal(pthread_create(&thread, NULL, leave, &l), 0);
	gpu_fix_let_turn(1000);
	assert_int_equal(load_acquire(&l.is_over), 0); /* no pair */
	gpu_release(gpu_fix_control, 0);
	pthread_join(thread, NULL);
	lib_fix_wait(f->engine, batch);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

/* What the peer has of it is asked back from it, and where it does not answer, its end says
 * that nobody can tell. */
static void a_peer_that_is_silent_ends_it_in_time_and_unfenced(void **state)
{
	struct staging_fix *f = *state;
	tent_error_info_t why;
	tent_batch_id_t batch;
	tent_request_v1_t r;
	int status;

	f->gpu = (uintptr_t)allocate(f, "cuda:0");
	r = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, 100);
	do {	/* the connection is there once one was in time */
		batch = submit(f, &r, 1);
		status = lib_fix_wait(f->engine, batch).status;
		assert_int_equal(tent_free_batch(f->engine, batch), 0);
	} while (status != TENT_STATUS_COMPLETED);
	stop_process(f->far.there.tentd->program.pid);
	r.length = MOVED;
	why = finish(f, submit(f, &r, 1), TENT_STATUS_TIMEOUT);
	assert_int_equal(why.rule, TENT_RULE_TIMEOUT);
	assert_true(why.flags & TENT_CQE_F_TARGET_UNFENCED);
	kill(f->far.there.tentd->program.pid, SIGCONT);
}

static void what_the_other_end_refuses_fails_and_the_next_one_does_not(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t r = request(&f->file, TENT_OPCODE_READ, f->gpu, SIZE - 100, MOVED);
	tent_error_info_t why = finish(f, submit(f, &r, 1), TENT_STATUS_FAILED);

	assert_int_equal(why.rule, TENT_RULE_FILE_END);
	bytes_come_in(f, &f->file);
}

/* Last: GPU 0 stays lost. */
static void a_lost_gpu_ends_what_is_staged_and_nothing_else(void **state)
{
	struct staging_fix *f = *state;
	tent_request_v1_t out = request(&f->tcp, TENT_OPCODE_WRITE, f->gpu, 0, MOVED);
	tent_request_v1_t in = request(&f->tcp, TENT_OPCODE_READ, f->gpu, 0, MOVED);
	tent_request_v1_t host = request(&f->tcp, TENT_OPCODE_WRITE, f->shm.base, 0, MOVED);
	void *other = allocate(f, "cuda:1");

	gpu_set(&gpu_fix_control->gpus[0].copy_fails, CU_ECC_UNCORRECTABLE);
	assert_int_equal(finish(f, submit(f, &out, 1), TENT_STATUS_FAILED).rule, TENT_RULE_GPU);
	assert_int_equal(finish(f, submit(f, &in, 1), TENT_STATUS_FAILED).rule, TENT_RULE_GPU);
	move(f, &host);
	host.source = other;
	move(f, &host);
}

#define WITH(test, how) cmocka_unit_test_setup_teardown(test, start_##how, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(buffers_that_cannot_be_pinned_are_asked_for_again, without),
		WITH(the_same_bytes_arrive_by_tcp, thread),
		WITH(the_same_bytes_arrive_by_tcp, caller),
		WITH(the_same_bytes_arrive_by_shm, thread),
		WITH(the_same_bytes_arrive_by_shm, caller),
		WITH(the_same_bytes_arrive_in_a_file, thread),
		WITH(the_same_bytes_arrive_in_a_file, caller),
		WITH(the_other_end_may_be_the_gpu, thread),
		WITH(explain_says_that_it_is_staged_and_why, thread),
		WITH(what_is_reached_directly_is_not_staged, thread),
		WITH(requests_without_a_buffer_wait_for_one, thread),
		WITH(one_request_has_a_few_buffers_and_no_more, thread),
		WITH(what_is_canceled_ends_with_its_copies_and_is_not_sent, thread),
		WITH(what_waits_for_a_buffer_ends_at_once, thread),
		WITH(memory_is_not_unregistered_while_copies_are_on_their_way, thread),
		WITH(a_peer_that_is_silent_ends_it_in_time_and_unfenced, hasty),
		WITH(what_the_other_end_refuses_fails_and_the_next_one_does_not, thread),
		WITH(a_lost_gpu_ends_what_is_staged_and_nothing_else, thread),
	};
	int rc;

	(void)argc;
	if (!gpu_fix_main(argv, &rc))
		return rc;
	gpu_fix_load();
	return cmocka_run_group_tests_name("staged", tests, NULL, NULL);
}
