/* SPDX-License-Identifier: Apache-2.0 */
/* test_tools_tentctl.c - what people and machines are told about a real tentd. */
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

static struct tentd daemon_under_test;
static struct program ctl;
static struct tent_client *client;	/* the one that the tables show */

static int setup_daemon(void **state)
{
	(void)state;
	tentd_prepare(&daemon_under_test);
	tentd_start_ready(&daemon_under_test, NULL);
	return tent_client_attach(daemon_under_test.socket, "pool-7", &client);
}

static int teardown_daemon(void **state)
{
	int rc;

	(void)state;
	tent_client_detach(client);
	rc = tentd_end(&daemon_under_test, SIGTERM);
	tentd_cleanup(&daemon_under_test);
	return rc;
}

/* tentctl -s SOCKET a b c ...; ends with NULL. */
static int tentctl(const char *const *words)
{
	const char *args[PROGRAM_ARGS_MAX + 1] = { "-s", daemon_under_test.socket };
	int nr = 2;

	while (*words && nr < PROGRAM_ARGS_MAX)
		args[nr++] = *words++;
	return program_run(&ctl, "tools/tentctl", args);
}
#define TENTCTL(...) tentctl((const char *const []){ __VA_ARGS__, NULL })

static json_t *output_json(void)
{
	json_error_t error;
	json_t *root = json_loads(ctl.output, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fail_msg("no JSON: %s in %s", error.text, ctl.output);
	return root;
}

/* Does any string anywhere in value contain text? */
static bool mentions(const json_t *value, const char *text)
{
	const char *name;
	json_t *member;
	size_t i;

	if (json_is_string(value))
		return strstr(json_string_value(value), text) != NULL;
	json_array_foreach(value, i, member) {
		if (mentions(member, text))
			return true;
	}
	json_object_foreach((json_t *)value, name, member) {
		if (mentions(member, text))
			return true;
	}
	return false;
}

static void json_is_one_line_that_names_the_client(void **state)
{
	static const char *const words[] = { "clients", "segments" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		json_t *root;

		assert_int_equal(TENTCTL("--json", words[i]), 0);
		root = output_json();
		assert_true(mentions(root, "pool-7"));
		json_decref(root);
		assert_ptr_equal(strchr(ctl.output, '\n'), ctl.output + strlen(ctl.output) - 1);
		assert_string_equal(ctl.errors, "");
	}
	assert_int_equal(TENTCTL("stats", "--json"), 0);
	json_decref(output_json());
}

struct cell {
	size_t begin, end;	/* in its line */
};

/* Cells are separated by two blanks or more. */
static size_t split(const char *line, struct cell *cells, size_t max)
{
	size_t nr = 0, at = 0;

	while (line[at] && line[at] != '\n' && nr < max) {
		while (line[at] == ' ')
			at++;
		cells[nr].begin = at;
		while (line[at] && line[at] != '\n' && strncmp(line + at, "  ", 2) != 0)
			at++;
		cells[nr++].end = at;
	}
	return nr;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : "";
}

static void tables_are_aligned_and_name_the_client(void **state)
{
	struct cell heading[32], row[32];
	const char *line;
	size_t nr;

	(void)state;
	assert_int_equal(TENTCTL("segments"), 0);
	line = strstr(ctl.output, "segments:\n");
	assert_non_null(line);
	line = next_line(line);
	nr = split(line, heading, 32);
	assert_true(nr > 3);
	line = next_line(line);
	assert_non_null(strstr(line, "/pool-7"));
	assert_int_equal(split(line, row, 32), nr);
	for (size_t i = 0; i < nr; i++)		/* text begins, numbers end below it */
		assert_true(row[i].begin == heading[i].begin || row[i].end == heading[i].end);
	for (const char *at = ctl.output; *at; at++)
		assert_true(*at == '\n' || (*at >= 0x20 && *at <= 0x7e));
	assert_null(strchr(ctl.output, '{'));
}

static void a_table_too_wide_for_people_stands_on_its_side(void **state)
{
	(void)state;
	assert_int_equal(TENTCTL("clients"), 0);
	assert_non_null(strstr(ctl.output, "/pool-7"));
	for (const char *line = ctl.output; *line; line = next_line(line))
		assert_true(strcspn(line, "\n") <= 120);
	assert_int_equal(TENTCTL("stats"), 0);
	assert_non_null(strstr(ctl.output, "totals.requests"));
}

static long long total(const char *name)
{
	long long value;
	json_t *root;

	assert_int_equal(TENTCTL("--json", "stats"), 0);
	root = output_json();
	assert_int_equal(json_unpack(root, "{s:{s:I}}", "totals", name, &value), 0);
	json_decref(root);
	return value;
}

static void stats_count_what_was_done(void **state)
{
	struct tent_request_v1 request = {
		.struct_size = sizeof(request), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE, .length = 4096,
	};
	long long requests = total("requests"), bytes = total("written_bytes");
	struct tent_completion done;
	struct tent_ring *ring;
	void *memory;

	(void)state;
	assert_int_equal(tent_client_alloc(client, 8192, NULL, &memory), 0);
	assert_int_equal(tent_client_register(client, memory, 8192,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	request.source = memory;
	request.target_offset = (uint64_t)(uintptr_t)memory + 4096;
	assert_int_equal(tent_ring_open(client, 8, 8, &ring), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(tent_ring_submit(ring, &request, 1, sizeof(request), 1, 0), 0);
		assert_int_equal(tent_ring_wait(ring, UINT64_MAX), 0);
		assert_int_equal(tent_ring_poll(ring, &done, 1), 1);
		assert_int_equal(done.status, TENT_STATUS_COMPLETED);
	}
	assert_int_equal(total("requests") - requests, 5);
	assert_int_equal(total("written_bytes") - bytes, 5 * 4096);
	tent_ring_close(ring);
	assert_int_equal(total("requests") - requests, 5);
	assert_int_equal(tent_client_free(client, memory), 0);
}

static void explain_says_what_would_happen(void **state)
{
	json_t *root;

	(void)state;
	assert_int_equal(TENTCTL("--json", "explain", "--intent", "foreground_get",
				 "--priority", "high", "--length", "65536"), 0);
	root = output_json();
	assert_true(mentions(root, "shm"));
	assert_true(mentions(root, "foreground_get"));
	assert_true(mentions(root, "high"));
	json_decref(root);
	assert_int_equal(TENTCTL("explain", "--length", "0"), 0);
	assert_int_equal(TENTCTL("explain", "--opcode", "write", "--deadline-us", "1000"), 0);
}

static void explain_says_why_a_request_would_be_refused(void **state)
{
	(void)state;
	assert_int_equal(TENTCTL("explain", "--intent", "77", "--json"), 1);
	assert_non_null(strstr(ctl.output, "intent_type is 77; allowed:"));
	assert_int_equal(TENTCTL("explain", "--policy", "gold", "--json"), 1);
	assert_non_null(strstr(ctl.output, "policy_name is \\\"gold\\\"; allowed:"));
	assert_int_equal(TENTCTL("explain", "--policy", "not good", "--json"), 1);
	assert_non_null(strstr(ctl.output, "policy_name has the byte 0x20; allowed:"));
	assert_int_equal(TENTCTL("explain", "--transport", "rdma", "--json"), 1);
	assert_non_null(strstr(ctl.output, "transport_hint"));
	assert_int_equal(TENTCTL("explain", "--intent", "77"), 1);
}

static void who_asks_is_none_of_the_clients(void **state)
{
	json_t *clients, *stats;

	(void)state;
	assert_int_equal(TENTCTL("clients", "--json"), 0);
	clients = output_json();
	assert_int_equal(TENTCTL("stats", "--json"), 0);
	stats = output_json();
	assert_int_equal(json_array_size(json_object_get(clients, "clients")),
			 json_integer_value(json_object_get(json_object_get(stats, "usage"),
							    "clients")));
	json_decref(clients);
	json_decref(stats);
}

static void a_socket_too_long_is_said_with_what_fits(void **state)
{
	char path[200];
	const char *const words[] = { "-s", path, "stats", NULL };

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(program_run(&ctl, "tools/tentctl", words), 3);
	assert_non_null(strstr(ctl.errors, "is 199 bytes long; allowed: at most 107"));
}

static void nobody_at_the_socket_is_said_with_its_path_and_a_cure(void **state)
{
	static const char *const words[] = { "-s", "/tmp/tent-no-such-socket", "stats", NULL };

	(void)state;
	assert_int_equal(program_run(&ctl, "tools/tentctl", words), 3);
	assert_non_null(strstr(ctl.errors, "/tmp/tent-no-such-socket"));
	assert_non_null(strstr(ctl.errors, "No such file or directory"));
	assert_non_null(strstr(ctl.errors, "systemctl start tentd"));
	assert_string_equal(ctl.output, "");
}

static void other_users_are_refused(void **state)
{
	const char *const words[] = { "-s", daemon_under_test.socket, "clients", NULL };

	(void)state;
	if (geteuid() != 0)
		skip();		/* it takes root to become another user */
	program_start(&ctl, "tools/tentctl", words, NULL, 65534);
	assert_int_equal(program_wait(&ctl), 1);
	assert_non_null(strstr(ctl.errors, "the engine's own user or root"));
	assert_string_equal(ctl.output, "");
}

static void a_bad_command_line_is_status_2(void **state)
{
	(void)state;
	assert_int_equal(TENTCTL("nonsense"), 2);
	assert_non_null(strstr(ctl.errors, "nonsense"));
	assert_int_equal(TENTCTL("clients", "surplus"), 2);
	assert_int_equal(TENTCTL("--nonsense"), 2);
	assert_int_equal(TENTCTL("explain", "--intent", "telepathy"), 2);
	assert_non_null(strstr(ctl.errors, "telepathy"));
	assert_int_equal(TENTCTL("explain", "--length", "-1"), 2);
	assert_int_equal(TENTCTL("explain", "surplus"), 2);
	assert_int_equal(TENTCTL("config"), 2);
	assert_int_equal(TENTCTL("config", "check"), 2);
	assert_int_equal(tentctl((const char *const []){ NULL }), 2);
}

static void configurations_are_checked_without_a_tentd(void **state)
{
	struct tentd *t = &daemon_under_test;
	json_t *root;

	(void)state;
	tentd_configure(t, "{\"engine\":{\"pollers\":2},\"log_level\":\"info\"}");
	assert_int_equal(TENTCTL("config", "check", t->config), 0);
	assert_non_null(strstr(ctl.output, "engine/pollers"));
	assert_non_null(strstr(ctl.output, "log_level is not used"));
	assert_int_equal(TENTCTL("config", "check", t->config, "--json"), 0);
	root = output_json();
	assert_true(json_is_true(json_object_get(root, "good")));
	assert_int_equal(json_array_size(json_object_get(root, "warnings")), 1);
	assert_int_equal(json_array_size(json_object_get(root, "set")), 1);
	json_decref(root);

	tentd_configure(t, "{\"engine\":{\"pollers\":\"2\"}}");
	assert_int_equal(TENTCTL("config", "check", t->config), 1);
	assert_non_null(strstr(ctl.errors, t->config));
	assert_non_null(strstr(ctl.errors, "engine/pollers is \"2\"; allowed: an integer, 1..64"));
	assert_int_equal(TENTCTL("--json", "config", "check", t->config), 1);
	root = output_json();
	assert_true(json_is_false(json_object_get(root, "good")));
	json_decref(root);
	assert_int_equal(TENTCTL("config", "check", "/nonexistent"), 1);
}

static char manual[65536];

static void expect_documented(const json_t *value, const char *command)
{
	const char *name;
	json_t *member;
	char text[128];
	size_t i;

	json_array_foreach(value, i, member)
		expect_documented(member, command);
	json_object_foreach((json_t *)value, name, member) {
		snprintf(text, sizeof(text), " %s", name);
		if (!strstr(manual, text))
			fail_msg("docs/tentctl.1 lacks \"%s\" of %s", name, command);
		if (strcmp(command, "explain") != 0)
			expect_documented(member, command);
	}
}

static void every_name_in_an_answer_is_in_the_manual(void **state)
{
	static const char *const commands[] = { "clients", "segments", "stats", "nics",
						"explain" };
	FILE *f = fopen("docs/tentctl.1", "re");
	struct tent_ring *ring;

	(void)state;
	if (!f)
		fail_msg("docs/tentctl.1 is missing; run tests from the top of the source tree");
	manual[fread(manual, 1, sizeof(manual) - 1, f)] = '\0';
	fclose(f);
	assert_int_equal(tent_ring_open(client, 8, 8, &ring), 0);
	for (int i = 0; i < 5; i++) {
		json_t *root;

		assert_int_equal(TENTCTL("--json", commands[i]), 0);
		root = output_json();
		expect_documented(root, commands[i]);
		json_decref(root);
	}
	tent_ring_close(ring);
}

static void every_key_is_listed(void **state)
{
	json_t *root;

	(void)state;
	assert_int_equal(TENTCTL("config", "keys", "--json"), 0);
	root = output_json();
	assert_true(json_array_size(root) > 20);
	assert_true(mentions(root, "daemon/socket"));
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_is_one_line_that_names_the_client),
		cmocka_unit_test(tables_are_aligned_and_name_the_client),
		cmocka_unit_test(a_table_too_wide_for_people_stands_on_its_side),
		cmocka_unit_test(stats_count_what_was_done),
		cmocka_unit_test(explain_says_what_would_happen),
		cmocka_unit_test(explain_says_why_a_request_would_be_refused),
		cmocka_unit_test(who_asks_is_none_of_the_clients),
		cmocka_unit_test(a_socket_too_long_is_said_with_what_fits),
		cmocka_unit_test(nobody_at_the_socket_is_said_with_its_path_and_a_cure),
		cmocka_unit_test(other_users_are_refused),
		cmocka_unit_test(a_bad_command_line_is_status_2),
		cmocka_unit_test(configurations_are_checked_without_a_tentd),
		cmocka_unit_test(every_name_in_an_answer_is_in_the_manual),
		cmocka_unit_test(every_key_is_listed),
	};

	return cmocka_run_group_tests(tests, setup_daemon, teardown_daemon);
}
