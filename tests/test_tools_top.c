/* SPDX-License-Identifier: Apache-2.0 */
/* test_tools_top.c - what clients do now, as tentctl top shows it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <tent/tentring.h>

#include "tests/common/tentd.h"

#define LENGTH 4096u

static struct tentd t;
static struct program top;

static int setup(void **state)
{
	(void)state;
	tentd_prepare(&t);
	tentd_start_ready(&t, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tentd_end(&t, SIGTERM);
	tentd_cleanup(&t);
	return 0;
}

/* tentctl -s SOCKET top a b c ...; ends with NULL. */
static void start(const char *const *words)
{
	const char *args[PROGRAM_ARGS_MAX + 1] = { "-s", t.socket, "top" };
	int nr = 3;

	while (*words && nr < PROGRAM_ARGS_MAX)
		args[nr++] = *words++;
	program_start(&top, "tools/tentctl", args, NULL, 0);
}
#define START(...) start((const char *const []){ __VA_ARGS__, NULL })

static int run(const char *const *words)
{
	start(words);
	return program_wait(&top);
}
#define RUN(...) run((const char *const []){ __VA_ARGS__, NULL })

static size_t lines_of(const char *text)
{
	size_t nr = 0;

	for (; (text = strchr(text, '\n')); text++)
		nr++;
	return nr;
}

/* The sum of a member over all pictures so far, of the totals or of one client. */
static int64_t sum_of(const char *segment, const char *name)
{
	const char *line = program_output(&top), *end;
	int64_t sum = 0;

	for (; (end = strchr(line, '\n')); line = end + 1) {
		json_t *picture = json_loadb(line, (size_t)(end - line), 0, NULL), *row;
		size_t i;

		assert_non_null(picture);
		if (!segment)
			sum += json_integer_value(json_object_get(picture, name));
		json_array_foreach(json_object_get(picture, "clients"), i, row)
			if (segment && strcmp(json_string_value(json_object_get(row, "segment")),
					      segment) == 0)
				sum += json_integer_value(json_object_get(row, name));
		json_decref(picture);
	}
	return sum;
}

/* Its first picture is there: what comes from now on is in a later one. */
static void await_picture(void)
{
	while (!strchr(program_output(&top), '\n'))
		usleep(1000);
}

struct worker {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
};

static void worker_open(struct worker *w, const char *name)
{
	void *memory;

	assert_int_equal(tent_client_attach(t.socket, name, &w->client), 0);
	assert_int_equal(tent_client_alloc(w->client, 2 * LENGTH, NULL, &memory), 0);
	assert_int_equal(tent_client_register(w->client, memory, 2 * LENGTH,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	assert_int_equal(tent_ring_open(w->client, 8, 8, &w->ring), 0);
	w->memory = memory;
}

static void worker_move(struct worker *w, uint64_t deadline_ns)
{
	struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE, .length = LENGTH, .source = w->memory,
		.target_offset = (uint64_t)(uintptr_t)w->memory + LENGTH,
		.deadline_ns = deadline_ns,
	};
	struct tent_completion done;

	assert_int_equal(tent_ring_submit(w->ring, &r, 1, sizeof(r), 0, 0), 0);
	assert_int_equal(tent_ring_wait(w->ring, UINT64_MAX), 0);
	assert_int_equal(tent_ring_poll(w->ring, &done, 1), 1);
	assert_int_equal(done.status, TENT_STATUS_COMPLETED);
}

/* ---- properties -------------------------------------------------------- */

static void it_shows_as_many_pictures_as_asked_for(void **state)
{
	(void)state;
	assert_int_equal(RUN("--count", "3", "--interval", "0.01", "--json"), 0);
	assert_int_equal(lines_of(top.output), 3);
	assert_int_equal(sum_of(NULL, "requests_per_s"), 0);
	assert_string_equal(top.errors, "");
}

static void a_picture_counts_what_was_done_since_the_last_one(void **state)
{
	uint64_t began, took_s;
	int64_t bytes;
	struct worker w;

	(void)state;
	worker_open(&w, "busy");
	worker_move(&w, 1);	/* missed, before the first picture */
	began = tent_monotonic_now_ns();
	START("--interval", "0.02", "--json");
	await_picture();
	for (int i = 0; i < 5; i++)
		worker_move(&w, tent_monotonic_now_ns() + 3600000000000ull);
	worker_move(&w, 1);
	worker_move(&w, 1);
	while (sum_of(NULL, "met") < 5 || sum_of(NULL, "missed") < 2)
		usleep(1000);
	kill(top.pid, SIGTERM);
	program_wait(&top);
	took_s = (tent_monotonic_now_ns() - began) / 1000000000 + 1;
	assert_int_equal(sum_of(NULL, "met"), 5);
	assert_int_equal(sum_of(NULL, "missed"), 2);
	assert_int_equal(sum_of(tent_client_segment(w.client), "met"), 5);
	/* What it would be, had it been done evenly all the time; or more. */
	bytes = sum_of(NULL, "bytes_per_s");
	assert_true(bytes * (int64_t)took_s >= 7 * (int64_t)LENGTH);
	/* Each of at most 7 pictures rounds a half away, or to it. */
	assert_true(labs(sum_of(NULL, "requests_per_s") * LENGTH - bytes) <= 4 * (int64_t)LENGTH);
	tent_client_detach(w.client);
}

/* Whose row is the first of the last picture? */
static bool is_first(const char *name)
{
	char *end = strrchr(program_output(&top), '\n'), *line;
	const char *segment;
	json_t *picture;
	bool is;

	*end = '\0';
	line = strrchr(top.output, '\n');
	picture = json_loads(line ? line + 1 : top.output, 0, NULL);
	segment = json_string_value(json_object_get(json_array_get(
			json_object_get(picture, "clients"), 0), "segment"));
	is = segment && strstr(segment, name);
	json_decref(picture);
	return is;
}

static void the_busiest_client_stands_first(void **state)
{
	struct worker idle[2], busy;

	(void)state;
	worker_open(&idle[0], "idle-a");
	worker_open(&busy, "busy");
	worker_open(&idle[1], "idle-b");
	START("--interval", "0.05", "--json");
	await_picture();
	assert_false(is_first("/busy"));
	do
		worker_move(&busy, 0);
	while (!is_first("/busy"));
	kill(top.pid, SIGTERM);
	program_wait(&top);
	tent_client_detach(idle[0].client);
	tent_client_detach(busy.client);
	tent_client_detach(idle[1].client);
}

static void it_writes_plain_lines_where_nobody_watches(void **state)
{
	struct worker w;

	(void)state;
	worker_open(&w, "plain");
	assert_int_equal(RUN("--count", "2", "--interval", "0.01"), 0);
	assert_non_null(strstr(top.output, "requests_per_s"));
	assert_non_null(strstr(top.output, "/plain"));
	for (const char *at = top.output; *at; at++)
		assert_true(*at == '\n' || (*at >= 0x20 && *at <= 0x7e));
	tent_client_detach(w.client);
}

static void a_terminal_gets_a_picture_that_replaces_the_last_one(void **state)
{
	char command[4096], path[4096];
	size_t n;
	FILE *f;
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	(void)state;
	assert_true(length > 0);
	path[length] = '\0';
	snprintf(command, sizeof(command), "script -qec '%.*s/tools/tentctl -s %.90s top "
		 "--count 1 --interval 0.01' /dev/null < /dev/null",
		 (int)(strstr(path, "/tests/test_tools_top") - path), path, t.socket);
	f = popen(command, "re");
	assert_non_null(f);
	n = fread(command, 1, sizeof(command) - 1, f);
	command[n] = '\0';
	assert_int_equal(pclose(f), 0);
	assert_non_null(strstr(command, "\033[H\033[2J"));
	assert_non_null(strstr(command, "requests_per_s"));
}

static void a_tentd_that_ends_is_said(void **state)
{
	(void)state;
	START("--interval", "0.01", "--json");
	await_picture();
	assert_int_equal(tentd_end(&t, SIGTERM), 0);
	assert_int_equal(program_wait(&top), 3);
	assert_non_null(strstr(top.errors, "is tentd running?"));
	tentd_start_ready(&t, NULL);
}

static void a_bad_command_line_is_status_2(void **state)
{
	static const char *const bad[][2] = {
		{ "--interval", "0" }, { "--interval", "-1" }, { "--interval", "x" },
		{ "--interval", "nan" }, { "--interval", "86401" }, { "--count", "0" },
		{ "--count", "-1" }, { "--count", "1x" }, { "--nonsense", "1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(RUN(bad[i][0], bad[i][1]), 2);
	assert_int_equal(RUN("surplus"), 2);
	assert_non_null(strstr(top.errors, "surplus"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_shows_as_many_pictures_as_asked_for),
		cmocka_unit_test(a_picture_counts_what_was_done_since_the_last_one),
		cmocka_unit_test(the_busiest_client_stands_first),
		cmocka_unit_test(it_writes_plain_lines_where_nobody_watches),
		cmocka_unit_test(a_terminal_gets_a_picture_that_replaces_the_last_one),
		cmocka_unit_test(a_tentd_that_ends_is_said),
		cmocka_unit_test(a_bad_command_line_is_status_2),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
