/* SPDX-License-Identifier: Apache-2.0 */
/* test_lib_file.c - file:// segments through the C API, in each kind of engine. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE (4u << 20)
#define HALF (SIZE / 2)

struct file_fix {
	struct lib_fix lib;
	char path[32], name[48];
	int fd;
	tent_segment_id_t id;
};

static int start(void **state, enum lib_mode mode)
{
	struct file_fix *f = calloc(1, sizeof(*f));

	*state = f;
	lib_fix_start(&f->lib, mode, SIZE, NULL);
	strcpy(f->path, "/var/tmp/tent-lib-XXXXXX");
	f->fd = mkstemp(f->path);
	snprintf(f->name, sizeof(f->name), "file://%s", f->path);
	if (tent_open_segment(f->lib.engine, &f->id, f->name))
		fail_msg("%s", lib_fix_error().message);
	return 0;
}

static int start_thread(void **state) { return start(state, LIB_THREAD); }
static int start_caller(void **state) { return start(state, LIB_CALLER); }
static int start_daemon(void **state) { return start(state, LIB_DAEMON); }

static int stop(void **state)
{
	struct file_fix *f = *state;

	lib_fix_stop(&f->lib);
	close(f->fd);
	unlink(f->path);
	free(f);
	return 0;
}

static tent_status_t run(struct file_fix *f, int op, size_t at, uint64_t offset, size_t n)
{
	tent_batch_id_t batch = tent_allocate_batch(f->lib.engine, 1);
	tent_request_v1_t r = lib_fix_request(&f->lib, op, at, 0, n);
	tent_status_t s;

	r.target_id = f->id;
	r.target_offset = offset;
	if (tent_submit_v1(f->lib.engine, batch, &r, 1))
		fail_msg("%s", lib_fix_error().message);
	s = lib_fix_wait(f->lib.engine, batch);
	assert_int_equal(tent_free_batch(f->lib.engine, batch), 0);
	return s;
}

static void requests_of_both_apis_move_bytes(void **state)
{
	struct file_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->lib.engine, 64);
	tent_request_t legacy[64];
	tent_status_t s;

	lib_fix_pattern(f->lib.memory, HALF, 5);
	s = run(f, TENT_OPCODE_WRITE, 0, 100, HALF);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	assert_int_equal(s.transferred_bytes, HALF);
	for (size_t i = 0; i < 64; i++)
		legacy[i] = (tent_request_t){
			.opcode = OPCODE_READ, .source = f->lib.memory + HALF + i * HALF / 64,
			.target_id = f->id, .target_offset = 100 + i * HALF / 64,
			.length = HALF / 64,
		};
	assert_int_equal(tent_submit(f->lib.engine, batch, legacy, 64), 0);
	s = lib_fix_wait(f->lib.engine, batch);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	assert_int_equal(s.transferred_bytes, HALF);
	assert_memory_equal(f->lib.memory, f->lib.memory + HALF, HALF);
	assert_int_equal(tent_free_batch(f->lib.engine, batch), 0);
}

static void what_is_behind_the_end_fails_its_task(void **state)
{
	struct file_fix *f = *state;
	tent_status_t s;

	assert_int_equal(ftruncate(f->fd, 1000), 0);
	s = run(f, TENT_OPCODE_READ, 0, 500, 1000);
	assert_int_equal(s.status, TENT_STATUS_FAILED);
	assert_int_equal(s.transferred_bytes, 0);
	assert_int_equal(run(f, TENT_OPCODE_READ, 0, 500, 500).status, TENT_STATUS_COMPLETED);
	assert_int_equal(run(f, TENT_OPCODE_READ, 0, 5000, 0).status, TENT_STATUS_COMPLETED);
}

static void its_handle_is_told_of_and_closes(void **state)
{
	struct file_fix *f = *state;
	tent_segment_info_t info;
	tent_segment_id_t again;

	assert_int_equal(ftruncate(f->fd, 12345), 0);
	assert_int_equal(tent_get_segment_info(f->lib.engine, f->id, &info), 0);
	assert_int_equal(info.type, TENT_SEGMENT_FILE);
	assert_int_equal(info.num_buffers, 1);
	assert_int_equal(info.buffers[0].length, 12345);
	tent_free_segment_info(&info);
	assert_int_equal(tent_connect_segment(f->lib.engine, f->id, 0), 0);
	assert_int_equal(tent_open_segment(f->lib.engine, &again, f->name), 0);
	assert_int_equal(again, f->id);
	assert_int_equal(tent_close_segment(f->lib.engine, f->id), 0);
	assert_int_not_equal(tent_get_segment_info(f->lib.engine, f->id, &info), 0);
}

static void paths_that_are_no_files_are_refused_in_a_sentence(void **state)
{
	static const struct { const char *name; uint32_t rule; const char *says; } rows[] = {
		{ "file:///nowhere/at/all", TENT_RULE_FILE_PATH, "No such file" },
		{ "file://relative", TENT_RULE_FILE_PATH, "absolute path" },
		{ "file://", TENT_RULE_FILE_PATH, "absolute path" },
		{ "file:///tmp", TENT_RULE_FILE_KIND, "no regular file" },
		{ "file:///dev/null", TENT_RULE_FILE_KIND, "no regular file" },
	};
	struct file_fix *f = *state;
	tent_segment_id_t id;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_not_equal(tent_open_segment(f->lib.engine, &id, rows[i].name), 0);
		assert_int_equal(lib_fix_error().rule, rows[i].rule);
		if (!strstr(lib_fix_error().message, rows[i].says))
			fail_msg("%s", lib_fix_error().message);
	}
}

static void a_path_may_be_long(void **state)
{
	struct file_fix *f = *state;
	char folder[300], path[600], name[700];
	tent_segment_id_t id;

	snprintf(folder, sizeof(folder), "%s.%0200d", f->path, 1);
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(path, sizeof(path), "%s/%0200d", folder, 2);
	close(open(path, O_CREAT | O_RDWR, 0600));
	snprintf(name, sizeof(name), "file://%s", path);
	assert_int_equal(tent_open_segment(f->lib.engine, &id, name), 0);
	assert_int_not_equal(id, f->id);
	f->id = id;
	assert_int_equal(run(f, TENT_OPCODE_WRITE, 0, 0, 777).status, TENT_STATUS_COMPLETED);
	assert_int_equal(truncate(path, 776), 0);
	unlink(path);
	rmdir(folder);
}

/* io_uring_setup() fails from now on, as in a container. */
static int forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* A child, whose filter nobody else should have. */
static int without_io_uring(int errors)
{
	void *state = NULL;
	struct file_fix *f;
	tent_segment_id_t id;
	bool good;

	dup2(errors, STDERR_FILENO);
	if (forbid_io_uring() || start(&state, LIB_THREAD))
		return 2;
	f = state;
	lib_fix_pattern(f->lib.memory, HALF, 9);
	good = run(f, TENT_OPCODE_WRITE, 0, 1, HALF).status == TENT_STATUS_COMPLETED &&
	       run(f, TENT_OPCODE_READ, HALF, 1, HALF).status == TENT_STATUS_COMPLETED &&
	       !memcmp(f->lib.memory, f->lib.memory + HALF, HALF) &&
	       tent_close_segment(f->lib.engine, f->id) == 0 &&
	       tent_open_segment(f->lib.engine, &id, f->name) == 0;
	stop(&state);
	return !good;
}

static void where_io_uring_is_forbidden_it_is_said_once_and_files_work(void **state)
{
	int pipe_fds[2], status;
	char said[1024] = "";
	const char *end;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0)
		_exit(without_io_uring(pipe_fds[1]));
	close(pipe_fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read(pipe_fds[0], said, sizeof(said) - 1) > 0);
	close(pipe_fds[0]);
	end = strstr(said, "io_uring is not permitted to this process");
	assert_non_null(end);
	assert_null(strstr(end + 1, "io_uring is not permitted"));
}

#define TEST(t)								\
	{ #t " (thread)", t, start_thread, stop, NULL },		\
	{ #t " (caller)", t, start_caller, stop, NULL },		\
	{ #t " (daemon)", t, start_daemon, stop, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_of_both_apis_move_bytes),
		TEST(what_is_behind_the_end_fails_its_task),
		TEST(its_handle_is_told_of_and_closes),
		TEST(paths_that_are_no_files_are_refused_in_a_sentence),
		TEST(a_path_may_be_long),
		cmocka_unit_test(where_io_uring_is_forbidden_it_is_said_once_and_files_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
