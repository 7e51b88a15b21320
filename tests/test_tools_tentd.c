/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tools_tentd.c - tentd as a process: how it starts, says so, refuses, and
 * ends. What it does for clients is tested elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/tentd.h"

static int setup(void **state)
{
	static struct tentd t;

	tentd_prepare(&t);
	*state = &t;
	return 0;
}

static int teardown(void **state)
{
	tentd_cleanup(*state);
	return 0;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void expect_errors(struct tentd *t, const char *text)
{
	if (!strstr(program_errors(&t->program), text))
		fail_msg("expected \"%s\" in:\n%s", text, t->program.errors);
}

/* The exit status of a tentd that must not become ready; a wait alone would not end
 * if it did. */
static int refusal(struct tentd *t)
{
	assert_string_equal(tentd_message(t), "");
	return program_wait(&t->program);
}

static void expect_client_served(const struct tentd *t)
{
	struct tent_client *client;

	assert_int_equal(tent_client_attach(t->socket, NULL, &client), 0);
	assert_true(tent_client_engine_alive(client));
	tent_client_detach(client);
}

static void ends_cleanly_on(struct tentd *t, int signal_number)
{
	tentd_start_ready(t, NULL);
	assert_true(exists(t->socket));
	expect_client_served(t);
	kill(t->program.pid, signal_number);
	assert_string_equal(tentd_message(t), "STOPPING=1");
	assert_int_equal(program_wait(&t->program), 0);
	assert_false(exists(t->socket));
}

static void it_says_ready_and_ends_cleanly_on_each_signal(void **state)
{
	ends_cleanly_on(*state, SIGTERM);
	ends_cleanly_on(*state, SIGINT);
}

static void a_client_that_stays_attached_does_not_keep_it_from_ending(void **state)
{
	struct tentd *t = *state;
	struct tent_client *client;

	tentd_start_ready(t, NULL);
	assert_int_equal(tent_client_attach(t->socket, "stays", &client), 0);
	assert_int_equal(tentd_end(t, SIGTERM), 0);
	assert_false(tent_client_engine_alive(client));
	tent_client_detach(client);
}

static void a_second_tentd_is_refused_and_the_first_goes_on(void **state)
{
	struct tentd *t = *state;
	static struct tentd second;

	tentd_start_ready(t, NULL);
	tentd_prepare(&second);
	memcpy(second.socket, t->socket, sizeof(second.socket));
	tentd_start(&second, NULL);
	assert_int_equal(refusal(&second), 1);
	expect_errors(&second, t->socket);
	expect_errors(&second, "another tentd serves this socket");
	tentd_cleanup(&second);
	expect_client_served(t);
	assert_int_equal(tentd_end(t, SIGTERM), 0);
}

static void a_stale_socket_is_replaced(void **state)
{
	struct tentd *t = *state;

	tentd_start_ready(t, NULL);
	assert_int_equal(tentd_end(t, SIGKILL), 128 + SIGKILL);
	assert_true(exists(t->socket));
	tentd_start_ready(t, NULL);
	expect_client_served(t);
	assert_int_equal(tentd_end(t, SIGTERM), 0);
	assert_false(exists(t->socket));
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct tentd *t = *state;
	struct stat st;
	int fd = open(t->socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, "precious", 8), 8);
	close(fd);
	tentd_start(t, NULL);
	assert_int_equal(refusal(t), 1);
	expect_errors(t, t->socket);
	assert_int_equal(stat(t->socket, &st), 0);
	assert_int_equal(st.st_size, 8);
}

static void a_missing_folder_is_made_for_all_to_enter(void **state)
{
	struct tentd *t = *state;
	struct stat st;
	char folder[96];

	snprintf(folder, sizeof(folder), "%.64s/run", t->folder);
	snprintf(t->socket, sizeof(t->socket), "%.64s/run/s", t->folder);
	tentd_start_ready(t, NULL);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(stat(t->socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(tentd_end(t, SIGTERM), 0);
	rmdir(folder);

	snprintf(t->socket, sizeof(t->socket), "%.64s/no/such/s", t->folder);
	tentd_start(t, NULL);
	assert_int_equal(refusal(t), 1);
	expect_errors(t, "/no/such");
}

static void a_bad_configuration_is_refused_by_file_key_and_value(void **state)
{
	static const struct { const char *json, *says; } bad[] = {
		{ "{\"engine\":{\"pollers\":0}}", "engine/pollers is 0; allowed: an integer, 1..64" },
		{ "{\"engine\":{\"poller\":1}}", "\"engine/poller\" is not a known key" },
		{ "{\"policy\":{}}", "policy is an object; allowed: an array" },
		{ "{", "not valid JSON" },
		{ "{\"engine\":\"unix:/x\"}", "engine is unix:/x" },
		{ "{\"engine\":{\"mode\":\"caller\"}}", "engine is caller" },
		{ "{\"transports\":{\"shm\":{\"enable\":false}}}", "transports/shm/enable" },
	};
	struct tentd *t = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tentd_configure(t, bad[i].json);
		tentd_start(t, NULL);
		assert_int_equal(refusal(t), 78);
		expect_errors(t, bad[i].says);
		if (i < 4)
			expect_errors(t, t->config);
		assert_false(exists(t->socket));
	}
	unlink(t->config);
	tentd_start(t, NULL);
	assert_int_equal(refusal(t), 78);
	expect_errors(t, "No such file");
}

static void options_are_judged_like_the_file(void **state)
{
	static const char *const bad[][5] = {
		{ "78", "-o", "engine/pollers=x", NULL },
		{ "78", "-o", "nonsense=1", NULL },
		{ "78", "--mode", "lazy", NULL },
		{ "78", "-s", "relative", NULL },
		{ "2", "-o", "engine/pollers", NULL },
		{ "2", "--nonsense", NULL },
		{ "2", "surplus", NULL },
		{ "2", "-c", NULL },
	};
	struct tentd *t = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(program_run(&t->program, "tools/tentd", &bad[i][1]),
				 atoi(bad[i][0]));
		assert_int_equal(strlen(t->program.output), 0);
		assert_true(strlen(t->program.errors) > 0);
	}
}

static void check_config_starts_nothing(void **state)
{
	static const char *const check[] = { "--check-config", NULL };
	struct tentd *t = *state;

	tentd_configure(t, "{\"engine\":{\"idle\":\"busy\"}}");
	tentd_start(t, check);
	assert_int_equal(refusal(t), 0);
	assert_non_null(strstr(t->program.output, "good"));
	assert_false(exists(t->socket));
	tentd_configure(t, "{\"engine\":{\"idle\":\"bus\"}}");
	tentd_start(t, check);
	assert_int_equal(refusal(t), 78);
}

static void options_go_before_the_file(void **state)
{
	static const char *const args[] = { "-o", "engine/turn_slots=1", "--mode", "adaptive",
					    NULL };
	struct tentd *t = *state;
	char json[256];

	snprintf(json, sizeof(json), "{\"daemon\":{\"socket\":\"%s.other\"},"
		 "\"engine\":{\"idle\":\"busy\"},\"log_level\":\"info\"}", t->socket);
	tentd_configure(t, json);
	tentd_start_ready(t, args);		/* with --socket */
	expect_client_served(t);
	expect_errors(t, "warning: log_level is not used");
	assert_int_equal(tentd_end(t, SIGTERM), 0);
}

static void the_environment_does_not_configure_it(void **state)
{
	struct tentd *t = *state;

	setenv("MC_TENT_CONF", "{\"nonsense\":1}", 1);
	setenv("TENT_ENGINE", "unix:/nowhere", 1);
	tentd_start_ready(t, NULL);
	unsetenv("MC_TENT_CONF");
	unsetenv("TENT_ENGINE");
	assert_int_equal(tentd_end(t, SIGTERM), 0);
}

static void an_abstract_notify_socket_works_and_a_dead_one_does_not_matter(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct tentd *t = *state;

	close(t->notify);
	t->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(t->notify_path, sizeof(t->notify_path), "@tent-test-%d", getpid());
	memcpy(a.sun_path + 1, t->notify_path + 1, strlen(t->notify_path) - 1);
	assert_int_equal(bind(t->notify, (struct sockaddr *)&a, (socklen_t)
			 (offsetof(struct sockaddr_un, sun_path) + strlen(t->notify_path))), 0);
	tentd_start_ready(t, NULL);
	close(t->notify);
	t->notify = -1;
	assert_int_equal(tentd_end(t, SIGTERM), 0);
	expect_errors(t, "cannot tell the service manager STOPPING=1");
}

static void unusable_cores_are_warned_about(void **state)
{
	static const char *const args[] = { "-o", "engine/cores=1023", NULL };
	struct tentd *t = *state;

	tentd_start_ready(t, args);
	expect_errors(t, "warning: engine/cores: CPU 1023 is not usable by tentd");
	expect_client_served(t);
	assert_int_equal(tentd_end(t, SIGTERM), 0);
}

static void help_and_version_need_nothing(void **state)
{
	static const char *const help[] = { "--help", NULL }, *const version[] = { "-V", NULL };
	struct tentd *t = *state;

	assert_int_equal(program_run(&t->program, "tools/tentd", help), 0);
	assert_non_null(strstr(t->program.output, "usage: tentd"));
	assert_int_equal(program_run(&t->program, "tools/tentd", version), 0);
	assert_int_equal(strncmp(t->program.output, "tentd ", 6), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_says_ready_and_ends_cleanly_on_each_signal),
		TEST(a_client_that_stays_attached_does_not_keep_it_from_ending),
		TEST(a_second_tentd_is_refused_and_the_first_goes_on),
		TEST(a_stale_socket_is_replaced),
		TEST(a_file_that_is_no_socket_is_left_alone),
		TEST(a_missing_folder_is_made_for_all_to_enter),
		TEST(a_bad_configuration_is_refused_by_file_key_and_value),
		TEST(options_are_judged_like_the_file),
		TEST(check_config_starts_nothing),
		TEST(options_go_before_the_file),
		TEST(the_environment_does_not_configure_it),
		TEST(an_abstract_notify_socket_works_and_a_dead_one_does_not_matter),
		TEST(unusable_cores_are_warned_about),
		TEST(help_and_version_need_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
