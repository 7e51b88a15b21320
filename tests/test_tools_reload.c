/* SPDX-License-Identifier: Apache-2.0 */
/* test_tools_reload.c - a running tentd that is given another configuration. */
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
#include <tent/tentring.h>

#include "tests/common/tentd.h"

#define GOLD "{\"policy\":[{\"name\":\"gold\"}]}"

static struct tentd tentd;
static struct program ctl;
static struct tent_client *client;
static uint8_t *memory;

/* A tentd without contracts, and a client that is there all the time. */
static int setup(void **state)
{
	void *m;

	(void)state;
	tentd_prepare(&tentd);
	tentd_configure(&tentd, "{}");
	tentd_start_ready(&tentd, NULL);
	if (tent_client_attach(tentd.socket, NULL, &client) ||
	    tent_client_alloc(client, 4096, NULL, &m) ||
	    tent_client_register(client, m, 4096, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return -1;
	memory = m;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tent_client_detach(client);
	if (tentd.program.status < 0)
		assert_int_equal(tentd_end(&tentd, SIGTERM), 0);
	tentd_cleanup(&tentd);
	return 0;
}

/* Would a request by the name of "gold" be taken? */
static bool gold_is_known(void)
{
	const struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.source = memory, .target_offset = (uintptr_t)memory + 2048, .length = 64,
		.policy_name = "gold",
	};
	bool known;
	char *json;

	assert_int_equal(tent_client_explain(client, &r, 1, sizeof(r), &json), 0);
	known = strstr(json, "\"accepted\":true");
	assert_true(known || strstr(json, "POLICY_UNKNOWN"));
	free(json);
	return known;
}

static int tentctl_reload(void)
{
	return program_run(&ctl, "tools/tentctl", (const char *const []){
		"-s", tentd.socket, "reload", "--json", NULL });
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void clients_that_are_there_go_by_what_was_read(void **state)
{
	(void)state;
	assert_false(gold_is_known());
	tentd_configure(&tentd, GOLD);
	assert_int_equal(tentctl_reload(), 0);
	assert_non_null(strstr(ctl.output, "\"policies\":1"));
	assert_true(gold_is_known());
	tentd_configure(&tentd, "{}");
	assert_int_equal(tentctl_reload(), 0);
	assert_false(gold_is_known());
}

static void sighup_reads_again_and_tells_the_service_manager(void **state)
{
	(void)state;
	tentd_configure(&tentd, GOLD);
	kill(tentd.program.pid, SIGHUP);
	assert_non_null(strstr(tentd_message(&tentd), "RELOADING=1\nMONOTONIC_USEC="));
	assert_string_equal(tentd_message(&tentd), "READY=1");
	assert_true(gold_is_known());
}

static void a_bad_configuration_changes_nothing_and_is_told(void **state)
{
	(void)state;
	tentd_configure(&tentd, GOLD);
	assert_int_equal(tentctl_reload(), 0);
	tentd_configure(&tentd, "{\"policy\":[{\"nmae\":\"gold\"}]}");
	assert_int_equal(tentctl_reload(), 1);
	assert_non_null(strstr(ctl.errors, "policy[0]/nmae is not a known key"));
	assert_int_equal(count(program_errors(&tentd.program), "policy[0]/nmae"), 1);
	assert_true(gold_is_known());
	unlink(tentd.config);
	assert_int_equal(tentctl_reload(), 1);
	assert_non_null(strstr(ctl.errors, "No such file"));
	assert_true(gold_is_known());
}

static void what_only_a_new_start_changes_is_named(void **state)
{
	(void)state;
	tentd_configure(&tentd, "{\"engine\":{\"spin_us\":51}}");
	assert_int_equal(tentctl_reload(), 0);
	assert_non_null(strstr(ctl.output, "\"at_next_start\":[\"engine/spin_us\"]"));
	assert_non_null(strstr(program_errors(&tentd.program), "engine/spin_us has changed"));
}

static void many_wishes_are_all_answered(void **state)
{
	enum { ASKERS = 8 };
	static struct program askers[ASKERS];

	(void)state;
	tentd_configure(&tentd, GOLD);
	for (int i = 0; i < ASKERS; i++)
		program_start(&askers[i], "tools/tentctl", (const char *const []){
			"-s", tentd.socket, "reload", NULL }, NULL, 0);
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(program_wait(&askers[i]), 0);
	assert_true(gold_is_known());
}

static void only_tentds_user_and_root_may_ask(void **state)
{
	(void)state;
	if (getuid())
		skip();		/* becomes another user */
	program_start(&ctl, "tools/tentctl", (const char *const []){
		"-s", tentd.socket, "reload", NULL }, NULL, 65533);
	assert_int_equal(program_wait(&ctl), 1);
	assert_non_null(strstr(ctl.errors, "root"));
}

static void without_a_file_there_is_nothing_to_read_again(void **state)
{
	static struct tentd bare;

	(void)state;
	tentd_prepare(&bare);
	tentd_start_ready(&bare, NULL);
	assert_int_equal(program_run(&ctl, "tools/tentctl", (const char *const []){
		"-s", bare.socket, "reload", NULL }), 1);
	assert_non_null(strstr(ctl.errors, "without a file"));
	assert_int_equal(tentd_end(&bare, SIGTERM), 0);
	tentd_cleanup(&bare);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clients_that_are_there_go_by_what_was_read),
		TEST(sighup_reads_again_and_tells_the_service_manager),
		TEST(a_bad_configuration_changes_nothing_and_is_told),
		TEST(what_only_a_new_start_changes_is_named),
		TEST(many_wishes_are_all_answered),
		TEST(only_tentds_user_and_root_may_ask),
		TEST(without_a_file_there_is_nothing_to_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
