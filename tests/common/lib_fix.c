/* SPDX-License-Identifier: Apache-2.0 */
/* lib_fix.c - see lib_fix.h. */
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define OPTIONS_MAX 16

void lib_fix_path(const char *name, char *path, size_t size)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	assert_true(length > 0);
	program[length] = 0;
	snprintf(path, size, "%s/../%s", dirname(program), name);
}

/* tentd says "ready" on stderr when clients can come. */
static void await_ready(int log)
{
	char text[4096];
	size_t used = 0;

	for (;;) {
		ssize_t n = read(log, text + used, sizeof(text) - 1 - used);

		if (n <= 0)
			fail_msg("tentd did not start: %s", text);
		used += (size_t)n;
		text[used] = 0;
		if (strstr(text, "ready"))
			return;
	}
}

static void exec_tentd(const struct lib_fix *f, const char *const *options)
{
	char path[PATH_MAX];
	char *argv[4 + 2 * OPTIONS_MAX];
	int n = 0;

	lib_fix_path("tools/tentd", path, sizeof(path));
	argv[n++] = path;
	argv[n++] = (char *)"-s";
	argv[n++] = (char *)f->word + strlen("unix:");
	for (; options && *options; options++) {
		argv[n++] = (char *)"-o";
		argv[n++] = (char *)*options;
	}
	argv[n] = NULL;
	execv(path, argv);
	perror(path);
	_exit(127);
}

void lib_fix_tentd(struct lib_fix *f, const char *const *options)
{
	int fds[2];

	strcpy(f->folder, "/tmp/tent-test-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->word, sizeof(f->word), "unix:%s/tentd.sock", f->folder);
	assert_int_equal(pipe(fds), 0);
	f->tentd = fork();
	assert_true(f->tentd >= 0);
	if (!f->tentd) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		exec_tentd(f, options);
	}
	close(fds[1]);
	f->log = fds[0];
	await_ready(f->log);
}

void lib_fix_kill(struct lib_fix *f, int signal_number)
{
	char socket[108];
	int status;

	if (!f->tentd)
		return;
	assert_int_equal(kill(f->tentd, signal_number), 0);
	assert_int_equal(waitpid(f->tentd, &status, 0), f->tentd);
	if (signal_number == SIGTERM)
		assert_int_equal(status, 0);
	f->tentd = 0;
	close(f->log);
	snprintf(socket, sizeof(socket), "%s/tentd.sock", f->folder);
	unlink(socket);
	rmdir(f->folder);
}

static void set_options(const char *const *options)
{
	for (; options && *options; options++) {
		char key[128];
		const char *value = strchr(*options, '=');

		assert_non_null(value);
		snprintf(key, sizeof(key), "%.*s", (int)(value - *options), *options);
		tent_set_config(key, value + 1);
	}
}

static void check(int rc)
{
	if (rc)
		fail_msg("error %d: %s", rc, lib_fix_error().message);
}

void lib_fix_start(struct lib_fix *f, enum lib_mode mode, size_t size,
		   const char *const *options)
{
	void *memory = NULL;

	memset(f, 0, sizeof(*f));
	f->mode = mode;
	if (mode == LIB_DAEMON) {
		lib_fix_tentd(f, options);
	} else {
		strcpy(f->word, mode == LIB_CALLER ? "caller" : "thread");
		set_options(options);
	}
	setenv("TENT_ENGINE", f->word, 1);
	f->engine = tent_create_engine();
	if (!tent_available(f->engine))
		fail_msg("no engine: %s", lib_fix_error().message);
	if (!size)
		return;
	check(tent_allocate_memory(f->engine, &memory, size, "*"));
	check(tent_register_memory(f->engine, memory, size));
	f->memory = memory;
	f->size = size;
}

void lib_fix_stop(struct lib_fix *f)
{
	tent_destroy_engine(f->engine);
	lib_fix_kill(f, SIGTERM);
	unsetenv("TENT_ENGINE");
}

struct tent_request_v1 lib_fix_request(const struct lib_fix *f, int opcode, size_t source,
				       size_t target, size_t length)
{
	return (struct tent_request_v1){
		.struct_size = TENT_REQUEST_V1_SIZE,
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode,
		.source = f->memory + source,
		.target_id = TENT_LOCAL_SEGMENT,
		.target_offset = (uintptr_t)(f->memory + target),
		.length = length,
	};
}

tent_status_t lib_fix_wait(tent_engine_t engine, tent_batch_id_t batch)
{
	tent_status_t status;

	do {
		check(tent_overall_status(engine, batch, &status));
		sched_yield();
	} while (status.status < TENT_STATUS_INVALID);
	return status;
}

tent_error_info_t lib_fix_error(void)
{
	tent_error_info_t info = { .size = sizeof(info) };

	assert_int_equal(tent_last_error(&info), 0);
	return info;
}

void lib_fix_pattern(uint8_t *to, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		to[i] = (uint8_t)(seed >> 24);
	}
}
