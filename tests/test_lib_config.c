/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_config.c - how settings reach an engine: by key, file and environment, per
 * thread, with an answer for each mistake.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/lib.h"
#include "tests/common/lib_fix.h"

static int clean(void **state)
{
	(void)state;
	unsetenv("TENT_ENGINE");
	unsetenv("MC_TENT_CONF");
	lib_settings_free();
	return 0;
}

static bool caller_mode(tent_engine_t engine)
{
	return lib_engine_find(engine)->drives;
}

/* Creates an engine that must not work; its last error. */
static tent_error_info_t refused(void)
{
	tent_engine_t engine = tent_create_engine();
	tent_error_info_t at_creation = lib_fix_error(), info;

	assert_non_null(engine);
	assert_int_equal(tent_available(engine), 0);
	info = lib_fix_error();
	assert_int_equal(info.error, at_creation.error);
	assert_string_equal(info.message, at_creation.message);
	assert_int_equal(tent_allocate_batch(engine, 1), TENT_INVALID_BATCH);
	assert_int_equal(tent_register_memory(engine, &info, sizeof(info)), info.error);
	tent_destroy_engine(engine);
	return info;
}

static bool works_in_caller_mode(void)
{
	tent_engine_t engine = tent_create_engine();
	bool caller;

	if (!tent_available(engine))
		fail_msg("%s", lib_fix_error().message);
	caller = caller_mode(engine);
	tent_destroy_engine(engine);
	return caller;
}

static void the_key_engine_chooses_and_the_environment_overrides_it(void **state)
{
	(void)state;
	assert_false(works_in_caller_mode());
	tent_set_config("engine", "caller");
	assert_true(works_in_caller_mode());
	setenv("TENT_ENGINE", "thread", 1);
	assert_false(works_in_caller_mode());
	setenv("TENT_ENGINE", "", 1);
	assert_true(works_in_caller_mode());
	tent_set_config("engine", "thread");
	assert_false(works_in_caller_mode());
}

static void any_other_engine_is_a_configuration_error(void **state)
{
	static const char *const words[] = { "none", "unix:", "unix:relative", "Thread", "0" };

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		setenv("TENT_ENGINE", words[i], 1);
		assert_int_equal(refused().error, TENT_ERR_CONFIG);
		assert_non_null(strstr(lib_fix_error().message, "engine"));
	}
}

static void a_daemon_that_is_not_there_is_named(void **state)
{
	tent_error_info_t info;

	(void)state;
	setenv("TENT_ENGINE", "unix:/nonexistent/tentd.sock", 1);
	info = refused();
	assert_int_equal(info.error, TENT_ERR_ENGINE_LOST);
	assert_non_null(strstr(info.message, "/nonexistent/tentd.sock"));
}

static void an_unknown_key_and_a_bad_value_are_named(void **state)
{
	(void)state;
	tent_set_config("engine/poolers", "2");
	assert_int_equal(refused().error, TENT_ERR_CONFIG);
	assert_non_null(strstr(lib_fix_error().message, "engine/poolers"));
	lib_settings_free();
	tent_set_config("engine/pollers", "many");
	assert_int_equal(refused().error, TENT_ERR_CONFIG);
	assert_non_null(strstr(lib_fix_error().message, "engine/pollers"));
}

static void the_last_value_of_a_key_counts(void **state)
{
	(void)state;
	tent_set_config("engine/pollers", "many");
	tent_set_config("engine", "caller");
	tent_set_config("engine/pollers", "1");
	assert_true(works_in_caller_mode());
}

static void null_settings_are_refused_and_change_nothing(void **state)
{
	(void)state;
	tent_set_config(NULL, "x");
	assert_string_equal(lib_fix_error().field, "key");
	tent_set_config("engine", NULL);
	assert_string_equal(lib_fix_error().field, "value");
	tent_load_config_from_file(NULL);
	assert_string_equal(lib_fix_error().field, "path");
	assert_false(works_in_caller_mode());
}

static void write_file(char *path, const char *text)
{
	int fd;

	strcpy(path, "/tmp/tent-config-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void a_file_is_read_under_the_keys(void **state)
{
	char path[64];

	(void)state;
	write_file(path, "{\"engine\": {\"mode\": \"caller\"}}");
	tent_load_config_from_file(path);
	assert_true(works_in_caller_mode());
	tent_set_config("engine/mode", "thread");
	assert_false(works_in_caller_mode());
	unlink(path);
	assert_int_equal(refused().error, TENT_ERR_CONFIG);
	assert_non_null(strstr(lib_fix_error().message, path));
}

static void mc_tent_conf_replaces_file_and_keys(void **state)
{
	char name[128];
	tent_engine_t engine;
	uint16_t port;

	(void)state;
	tent_set_config("engine/mode", "caller");
	tent_set_config("rpc_server_port", "15777");
	setenv("MC_TENT_CONF", "{\"engine\": {\"idle\": \"adaptive\"}}", 1);
	engine = tent_create_engine();
	assert_int_equal(tent_available(engine), 1);
	assert_false(caller_mode(engine));
	assert_int_equal(tent_rpc_server_addr_port(engine, name, sizeof(name), &port), 0);
	assert_int_equal(port, 15777); /* says who we are: it survives */
	tent_destroy_engine(engine);
	setenv("MC_TENT_CONF", "{\"engine\": ", 1);
	assert_int_equal(refused().error, TENT_ERR_CONFIG);
}

static void *is_caller_here(void *arg)
{
	*(bool *)arg = works_in_caller_mode();
	tent_set_config("engine", "nonsense"); /* freed with the thread */
	return NULL;
}

static void settings_belong_to_their_thread(void **state)
{
	pthread_t thread;
	bool caller = true;

	(void)state;
	tent_set_config("engine", "caller");
	assert_int_equal(pthread_create(&thread, NULL, is_caller_here, &caller), 0);
	pthread_join(thread, NULL);
	assert_false(caller);
	assert_true(works_in_caller_mode());
}

/* What fn prints on a descriptor. */
static void capture(int fd, void (*fn)(void), char *text, size_t size)
{
	int saved = dup(fd), fds[2];
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	dup2(fds[1], fd);
	close(fds[1]);
	fn();
	fflush(NULL);
	dup2(saved, fd);
	close(saved);
	n = read(fds[0], text, size - 1);
	text[n > 0 ? n : 0] = 0;
	close(fds[0]);
}

static void create_twice(void)
{
	works_in_caller_mode();
	works_in_caller_mode();
}

static void a_key_we_do_not_implement_is_warned_of_once_on_stderr(void **state)
{
	char text[8192], *first;

	(void)state;
	tent_set_config("transports/tcp/max_retry_count", "5");
	capture(STDERR_FILENO, create_twice, text, sizeof(text));
	first = strstr(text, "transports/tcp/max_retry_count");
	assert_non_null(first);
	assert_null(strstr(first + 1, "transports/tcp/max_retry_count"));
	capture(STDERR_FILENO, create_twice, text, sizeof(text));
	assert_string_equal(text, "");
	tent_set_config("metrics/enabled", "true");
	capture(STDERR_FILENO, create_twice, text, sizeof(text));
	assert_non_null(strstr(text, "metrics/enabled is not used: a program serves no metrics"));
	tent_set_config("transports/tcp/retry_max_delay_ms", "5");
	capture(STDOUT_FILENO, create_twice, text, sizeof(text));
	assert_string_equal(text, "");
}

static void many_engines_live_beside_each_other(void **state)
{
	tent_engine_t engines[8];

	(void)state;
	for (int i = 0; i < 8; i++) {
		tent_set_config("engine", i % 2 ? "caller" : "thread");
		engines[i] = tent_create_engine();
		if (!tent_available(engines[i]))
			fail_msg("%s", lib_fix_error().message);
		for (int k = 0; k < i; k++)
			assert_ptr_not_equal(engines[i], engines[k]);
	}
	for (int i = 0; i < 8; i++)
		tent_destroy_engine(engines[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clean, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_key_engine_chooses_and_the_environment_overrides_it),
		TEST(any_other_engine_is_a_configuration_error),
		TEST(a_daemon_that_is_not_there_is_named),
		TEST(an_unknown_key_and_a_bad_value_are_named),
		TEST(the_last_value_of_a_key_counts),
		TEST(null_settings_are_refused_and_change_nothing),
		TEST(a_file_is_read_under_the_keys),
		TEST(mc_tent_conf_replaces_file_and_keys),
		TEST(settings_belong_to_their_thread),
		TEST(a_key_we_do_not_implement_is_warned_of_once_on_stderr),
		TEST(many_engines_live_beside_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
