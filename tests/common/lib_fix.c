/* SPDX-License-Identifier: Apache-2.0 */
/* lib_fix.c - see lib_fix.h. */
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#include "tests/common/lib_fix.h"
#include "tests/common/tentd.h"

#define OPTIONS_MAX 16
/* Nothing is late, however slow the machine is. */
#define TIMEOUT_KEY "engine/request_timeout_ms"
#define HOUR_MS "3600000"

void lib_fix_path(const char *name, char *path, size_t size)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	assert_true(length > 0);
	program[length] = 0;
	snprintf(path, size, "%s/../%s", dirname(program), name);
}

void lib_fix_tentd(struct lib_fix *f, const char *const *options)
{
	const char *args[2 * OPTIONS_MAX + 1] = { "-o", TIMEOUT_KEY "=" HOUR_MS };
	int n = 2;

	for (; options && *options && n < 2 * OPTIONS_MAX; options++) {
		args[n++] = "-o";
		args[n++] = *options;
	}
	args[n] = NULL;
	f->tentd = calloc(1, sizeof(*f->tentd));
	assert_non_null(f->tentd);
	tentd_prepare(f->tentd);
	tentd_start_ready(f->tentd, args);
	snprintf(f->word, sizeof(f->word), "unix:%s", f->tentd->socket);
}

void lib_fix_kill(struct lib_fix *f, int signal_number)
{
	int status;

	if (!f->tentd)
		return;
	status = tentd_end(f->tentd, signal_number);
	if (status != (signal_number == SIGTERM ? 0 : 128 + signal_number))
		fail_msg("tentd ended with %d: %s", status, f->tentd->program.errors);
	tentd_cleanup(f->tentd);
	free(f->tentd);
	f->tentd = NULL;
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
		tent_set_config(TIMEOUT_KEY, HOUR_MS);
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
