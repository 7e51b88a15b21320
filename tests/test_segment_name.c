/* SPDX-License-Identifier: Apache-2.0 */
/* test_segment_name.c - every form of a segment's name, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/segment_name.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

static const struct good {
	const char *name;
	enum segment_form form;
	enum host_kind kind;
	const char *host;
	uint16_t port;
	const char *text, *printed;	/* printed NULL: as it came */
} good[] = {
	{ "", SEGMENT_OWN, HOST_NONE, "", 0, "", NULL },
	{ "kv", SEGMENT_TEXT, HOST_NONE, "", 0, "kv", NULL },
	{ "~7", SEGMENT_TEXT, HOST_NONE, "", 0, "~7", NULL },
	{ "10.0.0.5:15000", SEGMENT_ADDRESS, HOST_IPV4, "10.0.0.5", 15000, "", NULL },
	{ "10.0.0.5:1/kv", SEGMENT_ADDRESS, HOST_IPV4, "10.0.0.5", 1, "kv", NULL },
	{ "10.0.0.5:65535/~7", SEGMENT_ADDRESS, HOST_IPV4, "10.0.0.5", 65535, "~7", NULL },
	{ "[::1]:15000", SEGMENT_ADDRESS, HOST_IPV6, "::1", 15000, "", NULL },
	{ "[2001:DB8:0:0:0:0:0:1]:9/a", SEGMENT_ADDRESS, HOST_IPV6, "2001:db8::1", 9, "a",
	  "[2001:db8::1]:9/a" },
	{ "fe80::1%eth0:15000", SEGMENT_ADDRESS, HOST_IPV6, "fe80::1%eth0", 15000, "", NULL },
	{ "[fe80::1%eth0]:15000", SEGMENT_ADDRESS, HOST_IPV6, "fe80::1%eth0", 15000, "",
	  "fe80::1%eth0:15000" },
	{ "FE80::1%2:80/x", SEGMENT_ADDRESS, HOST_IPV6, "fe80::1%2", 80, "x",
	  "fe80::1%2:80/x" },
	{ "node-7.rack_2.example:15000", SEGMENT_ADDRESS, HOST_NAME,
	  "node-7.rack_2.example", 15000, "", NULL },
	{ "LocalHost:15000/kv", SEGMENT_ADDRESS, HOST_NAME, "localhost", 15000, "kv",
	  "localhost:15000/kv" },
	{ "7up:1", SEGMENT_ADDRESS, HOST_NAME, "7up", 1, "", NULL },
	{ "file:///data/kv", SEGMENT_FILE, HOST_NONE, "", 0, "/data/kv", NULL },
};

static void every_form_is_read(void **state)
{
	struct segment_name n;

	(void)state;
	for (size_t i = 0; i < NR(good); i++) {
		const char *fault = segment_name_read(good[i].name, &n);

		if (fault)
			fail_msg("%s: %s", good[i].name, fault);
		assert_int_equal(n.form, good[i].form);
		assert_int_equal(n.engine.kind, good[i].kind);
		assert_string_equal(n.engine.host, good[i].host);
		assert_int_equal(n.engine.port, good[i].port);
		assert_string_equal(n.text, good[i].text);
	}
}

static void what_is_printed_is_read_back_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR(good); i++) {
		struct segment_name n, again;
		char full[TENT_CTL_NAME_SIZE];

		if (good[i].form != SEGMENT_ADDRESS)
			continue;
		assert_null(segment_name_read(good[i].name, &n));
		assert_true(segment_name_print(&n.engine, n.text, full, sizeof(full)));
		assert_string_equal(full, good[i].printed ? good[i].printed : good[i].name);
		assert_null(segment_name_read(full, &again));
		assert_true(engine_address_equal(&n.engine, &again.engine));
		assert_string_equal(n.text, again.text);
	}
}

static void two_spellings_of_one_address_are_equal(void **state)
{
	static const char *const pairs[][2] = {
		{ "[::1]:5", "[0:0:0:0:0:0:0:1]:5" }, { "a.b:5", "A.B:5" },
		{ "[fe80::1%lo]:5", "FE80:0::1%lo:5" }, { "[::FFFF:1.2.3.4]:5", "[::ffff:102:304]:5" },
	};
	static const char *const differ[][2] = {
		{ "[::1]:5", "[::1]:6" }, { "[fe80::1%a]:5", "[fe80::1%b]:5" },
		{ "[fe80::1]:5", "[fe80::1%b]:5" }, { "1.2.3.4:5", "[::ffff:1.2.3.4]:5" },
	};
	struct segment_name a, b;

	(void)state;
	for (size_t i = 0; i < NR(pairs); i++) {
		assert_null(segment_name_read(pairs[i][0], &a));
		assert_null(segment_name_read(pairs[i][1], &b));
		assert_true(engine_address_equal(&a.engine, &b.engine));
	}
	for (size_t i = 0; i < NR(differ); i++) {
		assert_null(segment_name_read(differ[i][0], &a));
		assert_null(segment_name_read(differ[i][1], &b));
		assert_false(engine_address_equal(&a.engine, &b.engine));
	}
}

static void what_is_no_name_is_refused_with_a_reason(void **state)
{
	static const char *const bad[] = {
		"host", "host/kv", ":", ":15000", "host:", "host:0", "host:65536", "host:99999",
		"host:015", "host:+5", "host:-5", "host: 5", "host:5 ", "host:5a", "host:5/",
		"host:5/a/b", "host:5//", "a b:5", "a/b:5", "-a:5", "a-:5", "a..b:5", ".a:5",
		"a.:5", "a.-b:5", "a@b:5", "127.1:5", "10:5", "1.2.3.4.5:5", "1.2.3.256:5",
		"::1:5", "fe80::1:5", "1:2:3:4:5:6:7:8:9", "[::1:5", "[]:5", "[::1]5", "[::1]",
		"[::1]:", "[::g]:5", "[1.2.3.4]:5", "[host]:5", "::1]:5", "[[::1]]:5",
		"fe80::1%:5", "fe80::1%a b:5", "fe80::1%0123456789abcdef:5", "%eth0:5", "[%a]:5",
		"[fe80::1%]:5", "[fe80::1%a%b]:5", "1.2.3.4%eth0:5",
		"file://", "file:///", "file://host/path", "file:path",
	};
	struct segment_name n;

	(void)state;
	for (size_t i = 1; i < NR(bad); i++)
		if (!segment_name_read(bad[i], &n))
			fail_msg("%s is taken for a name", bad[i]);
	assert_null(segment_name_read(bad[0], &n));	/* a text of this engine */
	assert_int_equal(n.form, SEGMENT_TEXT);
}

static void hosts_of_any_length_stay_inside_their_field(void **state)
{
	struct segment_name n;
	char name[400];

	(void)state;
	for (size_t length = 1; length < 300; length++) {
		const char *fault;

		memset(name, 'h', length);
		strcpy(name + length, ":7");
		fault = segment_name_read(name, &n);
		assert_true(!fault == (length < HOST_SIZE));
		if (!fault)
			assert_int_equal(strlen(n.engine.host), length);
	}
}

static void the_longest_address_prints(void **state)
{
	char text[ADDRESS_SIZE], full[ADDRESS_SIZE + 3];
	struct segment_name n;

	(void)state;
	assert_null(segment_name_read("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
				      "%0123456789abcde]:65535", &n));
	engine_address_print(&n.engine, text);
	assert_string_equal(text, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%0123456789abcde:65535");
	assert_true(segment_name_print(&n.engine, "a", full, strlen(text) + 3));
	assert_false(segment_name_print(&n.engine, "a", full, strlen(text) + 2));
}

/* Any text: no crash, and what is taken prints to something that reads back. */
static void random_texts_are_taken_or_refused(void **state)
{
	static const char letters[] = "0123:[]%/.-abf:file";
	uint32_t seed = 7;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		char name[24], full[TENT_CTL_NAME_SIZE];
		struct segment_name n, again;
		size_t length = 0;

		for (; length < sizeof(name) - 1; length++) {
			seed = seed * 1664525 + 1013904223;
			if (seed >> 28 == 0)
				break;
			name[length] = letters[(seed >> 16) % (sizeof(letters) - 1)];
		}
		name[length] = '\0';
		if (segment_name_read(name, &n) || n.form != SEGMENT_ADDRESS)
			continue;
		assert_true(segment_name_print(&n.engine, n.text, full, sizeof(full)));
		assert_null(segment_name_read(full, &again));
		assert_true(engine_address_equal(&n.engine, &again.engine));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_is_read),
		cmocka_unit_test(what_is_printed_is_read_back_the_same),
		cmocka_unit_test(two_spellings_of_one_address_are_equal),
		cmocka_unit_test(what_is_no_name_is_refused_with_a_reason),
		cmocka_unit_test(hosts_of_any_length_stay_inside_their_field),
		cmocka_unit_test(the_longest_address_prints),
		cmocka_unit_test(random_texts_are_taken_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
