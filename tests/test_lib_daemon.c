/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_daemon.c - programs of libtent on a tentd: two of them meet in a segment,
 * the daemon dies or is stopped under them, and nothing hangs.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"
#include "tests/common/program.h"

#define SIZE (1u << 20)
#define HALF (SIZE / 2)

static const char *const hanging[] = {
	"transports/null/enable=true", "transports/shm/enable=false",
	"transports/null/faults=pending=1,hold", "engine/request_timeout_ms=86400000", NULL
};

/* Another program: owns a segment, tells its name, waits for the end of its stdin. */
static void own_a_segment(int out, int in, int permission)
{
	tent_engine_t engine = tent_create_engine();
	char name[128] = "", byte;
	void *memory;

	if (!tent_available(engine) ||
	    tent_allocate_memory(engine, &memory, SIZE, "*") ||
	    tent_register_memory_with_perm(engine, memory, SIZE, permission) ||
	    tent_segment_name(engine, name, sizeof(name)))
		_exit(1);
	lib_fix_pattern(memory, SIZE, 42);
	if (write(out, name, sizeof(name)) != sizeof(name))
		_exit(2);
	while (read(in, &byte, 1) > 0)
		;
	tent_destroy_engine(engine);
	_exit(0);
}

struct owner {
	pid_t pid;
	int in;
	char name[128];
};

static void owner_start(struct owner *o, int permission)
{
	int to[2], from[2];

	assert_int_equal(pipe(to) | pipe(from), 0);
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (!o->pid) {
		close(to[1]);
		close(from[0]);
		own_a_segment(from[1], to[0], permission);
	}
	close(to[0]);
	close(from[1]);
	o->in = to[1];
	assert_int_equal(read(from[0], o->name, sizeof(o->name)), sizeof(o->name));
	close(from[0]);
}

static void owner_stop(struct owner *o)
{
	int status;

	close(o->in);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
}

/* The owner is forked from a program with an engine: that one is stale in it, and it
 * makes its own. */
static void a_program_reads_another_programs_segment(void **state)
{
	struct lib_fix f;
	struct owner o;
	tent_segment_info_t info;
	tent_segment_id_t id = 0, again = 0;
	tent_request_v1_t r;
	tent_batch_id_t batch;
	uint8_t *expected = malloc(SIZE);

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, NULL);
	owner_start(&o, TENT_PERM_GLOBAL_READ_ONLY);
	assert_int_equal(tent_open_segment(f.engine, &id, o.name), 0);
	assert_int_not_equal(id, TENT_LOCAL_SEGMENT);
	assert_int_equal(tent_open_segment(f.engine, &again, o.name), 0);
	assert_int_equal(id, again);
	assert_int_equal(tent_connect_segment(f.engine, id, 1000000000), 0);
	assert_int_equal(tent_get_segment_info(f.engine, id, &info), 0);
	assert_int_equal(info.num_buffers, 1);
	assert_int_equal(info.buffers[0].length, SIZE);

	batch = tent_allocate_batch(f.engine, 2);
	r = lib_fix_request(&f, TENT_OPCODE_READ, 0, 0, SIZE);
	r.target_id = id;
	r.target_offset = info.buffers[0].base;
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), 0);
	assert_int_equal(lib_fix_wait(f.engine, batch).status, TENT_STATUS_COMPLETED);
	lib_fix_pattern(expected, SIZE, 42);
	assert_memory_equal(f.memory, expected, SIZE);

	r.opcode = TENT_OPCODE_WRITE; /* its owner allows only READ */
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), TENT_ERR_ADDRESS);
	assert_int_equal(tent_close_segment(f.engine, id), 0);
	r.opcode = TENT_OPCODE_READ;
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), TENT_ERR_STALE_HANDLE);
	tent_free_segment_info(&info);
	owner_stop(&o);
	lib_fix_stop(&f);
	free(expected);
}

static void assert_one_end_each(tent_engine_t engine, tent_batch_id_t batch, size_t nr)
{
	tent_error_info_t info = { .size = sizeof(info) };
	tent_status_t s, again;

	for (size_t i = 0; i < nr; i++) {
		do {
			assert_int_equal(tent_task_status(engine, batch, i, &s), 0);
		} while (s.status < TENT_STATUS_INVALID);
		assert_int_equal(tent_task_error(engine, batch, i, &info), 0);
		assert_int_equal(info.error != 0, s.status != TENT_STATUS_COMPLETED);
	}
	for (size_t i = 0; i < nr; i++) { /* and it stays so */
		assert_int_equal(tent_task_status(engine, batch, i, &s), 0);
		assert_int_equal(tent_task_status(engine, batch, i, &again), 0);
		assert_int_equal(s.status, again.status);
	}
}

static void a_killed_tentd_ends_every_task_as_engine_lost(void **state)
{
	struct lib_fix f;
	tent_batch_id_t small, large;
	tent_error_info_t info = { .size = sizeof(info) };
	tent_request_v1_t *r = calloc(5000, sizeof(*r));
	tent_status_t s;

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, hanging);
	for (size_t i = 0; i < 5000; i++)
		r[i] = lib_fix_request(&f, TENT_OPCODE_WRITE, i, HALF + i, 64);
	small = tent_allocate_batch(f.engine, 100);
	large = tent_allocate_batch(f.engine, 5000);
	assert_int_equal(tent_submit_v1(f.engine, small, r, 100), 0);
	assert_int_equal(tent_submit_v1(f.engine, large, r, 5000), 0);
	assert_int_equal(tent_overall_status(f.engine, small, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_PENDING);

	lib_fix_kill(&f, SIGKILL);
	assert_one_end_each(f.engine, small, 100);
	assert_one_end_each(f.engine, large, 5000);
	assert_int_equal(tent_overall_status(f.engine, small, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_FAILED);
	assert_int_equal(tent_task_error(f.engine, large, 4999, &info), 0);
	assert_int_equal(info.error, TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_available(f.engine), 0);
	assert_int_equal(lib_fix_error().error, TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_submit_v1(f.engine, small, r, 0), 0);
	assert_int_equal(tent_free_batch(f.engine, small), 0);
	assert_int_equal(tent_free_batch(f.engine, large), 0);
	small = tent_allocate_batch(f.engine, 1);
	assert_true(small == TENT_INVALID_BATCH ||
		    tent_submit_v1(f.engine, small, r, 1) == TENT_ERR_ENGINE_LOST);
	assert_int_equal(lib_fix_error().error, TENT_ERR_ENGINE_LOST);
	lib_fix_stop(&f);
	free(r);
}

static void a_stopped_tentd_ends_every_task(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;
	tent_request_v1_t r[10];

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, hanging);
	for (size_t i = 0; i < 10; i++)
		r[i] = lib_fix_request(&f, TENT_OPCODE_WRITE, i, HALF + i, 64);
	batch = tent_allocate_batch(f.engine, 10);
	assert_int_equal(tent_submit_v1(f.engine, batch, r, 10), 0);
	lib_fix_kill(&f, SIGTERM);
	assert_one_end_each(f.engine, batch, 10);
	assert_int_equal(tent_available(f.engine), 0);
	lib_fix_stop(&f);
}

/* Submits and polls until the engine is lost; every accepted task must end. */
static void *submit_until_lost(void *arg)
{
	struct lib_fix *f = arg;
	tent_request_v1_t r[8];

	for (size_t i = 0; i < 8; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i * 64, HALF + i * 64, 64);
	for (;;) {
		tent_batch_id_t batch = tent_allocate_batch(f->engine, 8);
		tent_status_t s = { .status = TENT_STATUS_PENDING };
		int rc = batch ? tent_submit_v1(f->engine, batch, r, 8) : -1;

		if (rc)
			return (void *)(intptr_t)lib_fix_error().error;
		while (s.status < TENT_STATUS_INVALID) {
			if (tent_overall_status(f->engine, batch, &s))
				return NULL;
			sched_yield();
		}
		if (tent_free_batch(f->engine, batch))
			return NULL;
	}
}

static void threads_in_the_middle_of_submits_learn_that_tentd_died(void **state)
{
	(void)state;
	for (int round = 0; round < 5; round++) {
		struct lib_fix f;
		pthread_t threads[3];

		lib_fix_start(&f, LIB_DAEMON, SIZE, NULL);
		for (int i = 0; i < 3; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, submit_until_lost, &f),
					 0);
		for (int i = 0; i < round * 50; i++)
			sched_yield();
		lib_fix_kill(&f, SIGKILL);
		for (int i = 0; i < 3; i++) {
			void *error;

			pthread_join(threads[i], &error);
			assert_int_equal((intptr_t)error, TENT_ERR_ENGINE_LOST);
		}
		lib_fix_stop(&f);
	}
}

/* Waits on the fd, then polls every batch, until all have ended. No timeout: a lost
 * wake-up is a hang, and the test runner's. */
static void wait_by_fd(tent_engine_t engine, int fd, const tent_batch_id_t *batches, int nr)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	tent_status_t s;
	int ended;

	do {
		ended = 0;
		assert_int_equal(poll(&p, 1, -1), 1);
		for (int i = 0; i < nr; i++) {
			assert_int_equal(tent_overall_status(engine, batches[i], &s), 0);
			ended += s.status >= TENT_STATUS_INVALID;
		}
	} while (ended < nr);
}

static void completions_wake_by_fd(enum lib_mode mode)
{
	struct lib_fix f;
	tent_batch_id_t batches[8];
	tent_request_v1_t r;
	int fd;

	lib_fix_start(&f, mode, SIZE, NULL);
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, HALF, 4096);
	fd = tent_completion_fd(f.engine);
	assert_true(fd >= 0);
	assert_int_equal(tent_completion_fd(f.engine), fd);
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < 8; i++) {
			batches[i] = tent_allocate_batch(f.engine, 1);
			assert_int_equal(tent_submit_v1(f.engine, batches[i], &r, 1), 0);
		}
		wait_by_fd(f.engine, fd, batches, 8);
		for (int i = 0; i < 8; i++)
			assert_int_equal(tent_free_batch(f.engine, batches[i]), 0);
	}
	lib_fix_stop(&f);
}

static void a_completion_fd_wakes_for_every_batch(void **state)
{
	(void)state;
	completions_wake_by_fd(LIB_THREAD);
	completions_wake_by_fd(LIB_DAEMON);
}

static void an_idle_completion_fd_falls_silent(void **state)
{
	struct lib_fix f;
	struct pollfd p = { .events = POLLIN };
	tent_batch_id_t batch;
	tent_request_v1_t r;
	tent_status_t s;
	int looks = 0;

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, NULL);
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, HALF, 4096);
	p.fd = tent_completion_fd(f.engine);
	batch = tent_allocate_batch(f.engine, 1);
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), 0);
	wait_by_fd(f.engine, p.fd, &batch, 1);
	/* A late wake-up or two may still come; then looking empties it. */
	while (poll(&p, 1, 0) == 1) {
		assert_int_equal(tent_overall_status(f.engine, batch, &s), 0);
		assert_true(++looks < 10);
	}
	lib_fix_stop(&f);
}

static void *look_until_it_ended(void *arg)
{
	tent_batch_id_t batch = ((tent_batch_id_t *)arg)[1];
	tent_engine_t engine = (tent_engine_t)(uintptr_t)((tent_batch_id_t *)arg)[0];

	lib_fix_wait(engine, batch);
	return NULL;
}

/* What another thread took over, or a look at another batch, is news until its own look. */
static void a_completion_fd_waits_for_a_look_at_every_batch(void **state)
{
	static const char *const holding[] = {
		"transports/shm/enable=false", "transports/null/enable=true",
		"transports/null/faults=pending=1,hold", "engine/request_timeout_ms=86400000", NULL
	};
	struct lib_fix f;
	struct pollfd p = { .events = POLLIN };
	tent_batch_id_t canceled, other, arg[2];
	tent_request_v1_t r;
	tent_status_t s;
	pthread_t thread;

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, holding);
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, HALF, 4096);
	p.fd = tent_completion_fd(f.engine);
	canceled = tent_allocate_batch(f.engine, 1);
	other = tent_allocate_batch(f.engine, 1);
	assert_int_equal(tent_submit_v1(f.engine, canceled, &r, 1), 0);
	assert_int_equal(tent_submit_v1(f.engine, other, &r, 1), 0);
	assert_int_equal(tent_cancel_task(f.engine, canceled, 0), 0);
	arg[0] = (uintptr_t)f.engine;
	arg[1] = canceled;
	assert_int_equal(pthread_create(&thread, NULL, look_until_it_ended, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tent_overall_status(f.engine, other, &s), 0);
		assert_int_equal(poll(&p, 1, 0), 1);
	}
	assert_int_equal(tent_overall_status(f.engine, canceled, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_CANCELED);
	do {	/* the wake-up may still be on its way */
		assert_int_equal(tent_overall_status(f.engine, canceled, &s), 0);
		assert_int_equal(tent_overall_status(f.engine, other, &s), 0);
	} while (poll(&p, 1, 0) == 1);
	lib_fix_stop(&f);
}

static void a_completion_fd_shows_that_tentd_died(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;
	tent_request_v1_t r;
	int fd;

	(void)state;
	lib_fix_start(&f, LIB_DAEMON, SIZE, hanging);
	r = lib_fix_request(&f, TENT_OPCODE_WRITE, 0, HALF, 4096);
	fd = tent_completion_fd(f.engine);
	batch = tent_allocate_batch(f.engine, 1);
	assert_int_equal(tent_submit_v1(f.engine, batch, &r, 1), 0);
	lib_fix_kill(&f, SIGKILL);
	wait_by_fd(f.engine, fd, &batch, 1);
	lib_fix_stop(&f);
}

static void caller_mode_has_no_completion_fd_and_says_why(void **state)
{
	struct lib_fix f;

	(void)state;
	lib_fix_start(&f, LIB_CALLER, 0, NULL);
	assert_int_equal(tent_completion_fd(f.engine), TENT_ERR_UNSUPPORTED);
	assert_non_null(strstr(lib_fix_error().message, "poll the status functions"));
	lib_fix_stop(&f);
}

static int run(const char *name, const char *argument)
{
	char path[4096];
	int status;
	pid_t pid;

	lib_fix_path(name, path, sizeof(path));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		execl(path, path, argument, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void the_readmes_programs_run(void **state)
{
	struct lib_fix f = { .tentd = NULL };

	(void)state;
	unsetenv("TENT_ENGINE");
	assert_int_equal(run("tests/examples/v1_api", NULL), 0);
	setenv("TENT_ENGINE", "caller", 1);
	assert_int_equal(run("tests/examples/v1_api", NULL), 0);
	lib_fix_tentd(&f, NULL);
	setenv("TENT_ENGINE", f.word, 1); /* the same program, the daemon's engine */
	assert_int_equal(run("tests/examples/v1_api", NULL), 0);
	unsetenv("TENT_ENGINE");
	assert_int_equal(run("tests/examples/ring_only", f.word + strlen("unix:")), 0);
	lib_fix_kill(&f, SIGTERM);
}

/* What a newcomer who forgot to start tentd sees. */
static void the_readmes_programs_say_what_went_wrong(void **state)
{
	static const char *const nobody[] = { "/nonexistent", NULL }, *const none[] = { NULL };
	static struct program p;

	(void)state;
	assert_int_equal(program_run(&p, "tests/examples/ring_only", nobody), 1);
	assert_non_null(strstr(p.errors, "nobody answers at /nonexistent: No such file"));
	program_start(&p, "tests/examples/v1_api", none, "TENT_ENGINE=unix:/nonexistent", 0);
	assert_int_equal(program_wait(&p), 1);
	assert_non_null(strstr(p.errors, "nobody answers at /nonexistent: No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_reads_another_programs_segment),
		cmocka_unit_test(a_killed_tentd_ends_every_task_as_engine_lost),
		cmocka_unit_test(a_stopped_tentd_ends_every_task),
		cmocka_unit_test(threads_in_the_middle_of_submits_learn_that_tentd_died),
		cmocka_unit_test(a_completion_fd_wakes_for_every_batch),
		cmocka_unit_test(an_idle_completion_fd_falls_silent),
		cmocka_unit_test(a_completion_fd_waits_for_a_look_at_every_batch),
		cmocka_unit_test(a_completion_fd_shows_that_tentd_died),
		cmocka_unit_test(caller_mode_has_no_completion_fd_and_says_why),
		cmocka_unit_test(the_readmes_programs_run),
		cmocka_unit_test(the_readmes_programs_say_what_went_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
