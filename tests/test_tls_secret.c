/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls_secret.c - the file with the secret that engines share. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/tls.h"
#include "tests/common/secret.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

static void expect_refused(const char *why)
{
	uint8_t secret[TLS_SECRET_MAX];
	char error[512] = "";

	assert_int_equal(tls_secret_read(secret_path, secret, error, sizeof(error)), 0);
	if (!strstr(error, why) || !strstr(error, secret_path) || !strstr(error, "allowed: "))
		fail_msg("\"%s\" does not say %s", error, why);
}

static void a_file_that_others_can_use_is_refused(void **state)
{
	static const mode_t modes[] = { 0604, 0602, 0640, 0620, 0601, 0610, 0777 };
	uint8_t secret[TLS_SECRET_MAX];
	char error[512];

	(void)state;
	for (size_t i = 0; i < NR(modes); i++) {
		secret_write(SECRET, modes[i]);
		expect_refused("others can use it");
	}
	for (mode_t mode = 0400; mode <= 0600; mode += 0200) {
		secret_write(SECRET, mode);
		assert_int_equal(tls_secret_read(secret_path, secret, error, sizeof(error)), 32);
		unlink(secret_path);
	}
}

static void a_file_of_another_user_is_refused(void **state)
{
	(void)state;
	secret_write(SECRET, 0600);
	assert_int_equal(chown(secret_path, 65534, 65534), 0);	/* tests run as root */
	expect_refused("the file of user 65534");
	unlink(secret_path);
}

static void what_is_no_regular_file_is_refused_without_waiting(void **state)
{
	(void)state;
	unlink(secret_path);
	expect_refused("No such file");
	assert_int_equal(mkfifo(secret_path, 0600), 0);
	expect_refused("no regular file");
	unlink(secret_path);
	assert_int_equal(mkdir(secret_path, 0700), 0);
	expect_refused("no regular file");
	rmdir(secret_path);
}

static void a_secret_has_32_to_256_printable_characters(void **state)
{
	char text[300] = "", error[512];
	uint8_t secret[TLS_SECRET_MAX];

	(void)state;
	memset(text, 'x', 258);
	for (size_t length = 256; length <= 258; length++) {
		text[length] = '\0';
		secret_write(text, 0600);
		if (length > 256)
			expect_refused("more than 256");
		else
			assert_int_equal(tls_secret_read(secret_path, secret, error, sizeof(error)),
					 length);
		text[length] = 'x';
	}
	text[256] = '\n';
	text[257] = '\0';
	secret_write(text, 0600);
	assert_int_equal(tls_secret_read(secret_path, secret, error, sizeof(error)), 256);
	text[31] = '\0';
	secret_write(text, 0600);
	expect_refused("31 characters");
	secret_write("", 0600);
	expect_refused("0 characters");
	secret_write("\n", 0600);
	expect_refused("0 characters");
}

static void a_secret_is_one_line_and_no_message_shows_it(void **state)
{
	static const char *const wrong[] = {
		SECRET " ", SECRET "\n\n", SECRET "\r\n", SECRET "\t", SECRET "\x7f", SECRET "\xc3\xa4",
	};
	uint8_t secret[TLS_SECRET_MAX];
	char error[512];

	(void)state;
	for (size_t i = 0; i < NR(wrong); i++) {
		secret_write(wrong[i], 0600);
		expect_refused("character 33 ");
		tls_secret_read(secret_path, secret, error, sizeof(error));
		assert_null(strstr(error, SECRET));
	}
	secret_write(SECRET "\n", 0600);
	assert_int_equal(tls_secret_read(secret_path, secret, error, sizeof(error)), 32);
	assert_memory_equal(secret, SECRET, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_others_can_use_is_refused),
		cmocka_unit_test(a_file_of_another_user_is_refused),
		cmocka_unit_test(what_is_no_regular_file_is_refused_without_waiting),
		cmocka_unit_test(a_secret_has_32_to_256_printable_characters),
		cmocka_unit_test(a_secret_is_one_line_and_no_message_shows_it),
	};

	return cmocka_run_group_tests(tests, secret_setup, secret_teardown);
}
