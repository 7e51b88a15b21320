/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_directory.c - names of segments in a real etcd and a real Redis: published,
 * resolved, taken back, forgotten; and what is when the server or an engine dies.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/directory_server.h"
#include "tests/common/tentd.h"
#include "tests/common/wire.h"

static struct directory_server server;
static struct engine_fix one, two;

static void tune(struct engine_config *c)
{
	wire_set(c, "rpc_server_hostname", "127.0.0.1");
	wire_set(c, "metadata_type", server.type);
	wire_set(c, "metadata_servers", server.address);
	wire_set(c, "metadata_ttl_s", "9");
}

static int setup(const char *type)
{
	directory_server_start(&server, type);
	engine_fix_start(&one, tune);
	engine_fix_start(&two, tune);
	return 0;
}

static int setup_etcd(void **state)
{
	(void)state;
	return setup("etcd");
}

static int setup_redis(void **state)
{
	(void)state;
	return setup("redis");
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&two);
	engine_fix_stop(&one);
	directory_server_stop(&server);
	return 0;
}

/* ---- what an engine says ----------------------------------------------- */

static json_t *directory_at(const char *path)
{
	struct tent_client *o;
	json_t *root, *directory;
	char *text;

	assert_int_equal(tent_client_observe(path, &o), 0);
	assert_int_equal(tent_client_query(o, TENT_QUERY_PEERS, &text), 0);
	tent_client_detach(o);
	root = json_loads(text, 0, NULL);
	free(text);
	directory = json_incref(json_object_get(root, "directory"));
	json_decref(root);
	assert_non_null(directory);
	return directory;
}

static int64_t number_at(const char *path, const char *name)
{
	json_t *directory = directory_at(path);
	int64_t number = json_integer_value(json_object_get(directory, name));

	json_decref(directory);
	return number;
}

static void await_at(const char *path, int64_t published, int64_t waiting)
{
	while (number_at(path, "published") != published ||
	       number_at(path, "waiting") != waiting)
		usleep(2000);
}

/* Waits until its fault has the text in it, or with "" is none. */
static void await_fault(const char *path, const char *text)
{
	bool is;

	do {
		json_t *directory = directory_at(path);
		const char *fault = json_string_value(json_object_get(directory, "fault"));

		is = *text ? strstr(fault, text) != NULL : !*fault;
		json_decref(directory);
		usleep(2000);
	} while (!is);
}

static const char *message(void)
{
	static struct tent_error_info info;

	info.size = sizeof(info);
	tent_client_error(&info);
	return info.message;
}

static void expect_missing(struct tent_client *c, const char *name, const char *why)
{
	tent_segment_id_t id;

	assert_int_equal(tent_client_open_segment(c, name, &id), TENT_ERR_PEER_UNREACHABLE);
	if (!strstr(message(), name) || !strstr(message(), why))
		fail_msg("\"%s\" is not about \"%s\": %s", message(), name, why);
}

static int64_t bytes_of(struct tent_client *c, const char *name)
{
	tent_segment_info_t info = { 0 };
	tent_segment_id_t id;
	int64_t bytes;

	if (tent_client_open_segment(c, name, &id))
		fail_msg("%s", message());
	assert_int_equal(tent_client_segment_info(c, id, &info), 0);
	bytes = info.num_buffers ? (int64_t)info.buffers[0].length : 0;
	free(info.buffers);
	return bytes;
}

/* ---- properties -------------------------------------------------------- */

static void a_name_is_opened_at_another_engine_and_goes_with_its_owner(void **state)
{
	struct tent_client *owner = engine_fix_attach(&one, "pool-1"), *user;

	(void)state;
	engine_fix_memory(owner, 12288);
	user = engine_fix_attach(&two, NULL);
	await_at(one.path, 1, 0);
	assert_int_equal(bytes_of(user, "pool-1"), 12288);
	tent_client_detach(owner);
	await_at(one.path, 0, 0);
	expect_missing(user, "pool-1", "the directory does not have it");
	tent_client_detach(user);
}

static void a_name_of_ones_own_engine_is_not_asked_for(void **state)
{
	struct tent_client *owner = engine_fix_attach(&one, "near"), *user;
	int64_t before = number_at(one.path, "lookups");

	(void)state;
	user = engine_fix_attach(&one, NULL);
	assert_int_equal(bytes_of(user, "near"), 0);
	assert_int_equal(number_at(one.path, "lookups"), before);
	tent_client_detach(user);
	tent_client_detach(owner);
	await_at(one.path, 0, 0);
}

static void an_engine_without_a_name_picks_one(void **state)
{
	struct engine_fix third;
	struct tent_client *own;

	(void)state;
	engine_fix_start(&third, tune);
	own = engine_fix_local(&third);
	await_at(third.path, 1, 0);
	tent_client_detach(own);
	await_at(third.path, 0, 0);
	engine_fix_stop(&third);
}

static void named(struct engine_config *c)
{
	tune(c);
	wire_set(c, "local_segment_name", "prefill-0");
}

static void local_segment_name_is_what_others_open(void **state)
{
	struct engine_fix third;
	struct tent_client *own, *user = engine_fix_attach(&two, NULL), *self;

	(void)state;
	engine_fix_start(&third, named);
	own = engine_fix_local(&third);
	engine_fix_memory(own, 8192);
	await_at(third.path, 1, 0);
	assert_int_equal(bytes_of(user, "prefill-0"), 8192);
	self = engine_fix_attach(&third, NULL);
	assert_int_equal(bytes_of(self, "prefill-0"), 8192);	/* by way of the directory */
	tent_client_detach(self);
	tent_client_detach(own);
	tent_client_detach(user);
	engine_fix_stop(&third);
}

static void an_engine_that_stops_takes_its_names_back(void **state)
{
	struct engine_fix third;
	struct tent_client *owner, *user = engine_fix_attach(&two, NULL);

	(void)state;
	engine_fix_start(&third, tune);
	owner = engine_fix_attach(&third, "short");
	await_at(third.path, 1, 0);
	bytes_of(user, "short");
	engine_destroy(third.engine);
	expect_missing(user, "short", "the directory does not have it");
	tent_client_detach(owner);
	assert_int_equal(rmdir(third.folder), 0);
	tent_client_detach(user);
}

static void a_name_that_another_engine_has_is_left_to_it(void **state)
{
	struct tent_client *first = engine_fix_attach(&one, "dup"), *second;
	char says[160];

	(void)state;
	await_at(one.path, 1, 0);
	second = engine_fix_attach(&two, "dup");
	await_at(two.path, 0, 1);
	snprintf(says, sizeof(says), "dup is taken by %s", tent_client_segment(first));
	await_fault(two.path, says);
	tent_client_detach(first);
	await_at(two.path, 1, 0);	/* it is free now */
	await_fault(two.path, "");
	tent_client_detach(second);
	await_at(two.path, 0, 0);
}

/* A tentd whose client has a name; args hold the lifetime. */
static void start_tentd(struct tentd *d, const char *ttl, uint16_t port)
{
	char type[48], servers[64], lifetime[32], where[32];
	const char *const args[] = { "-o", type, "-o", servers, "-o", lifetime, "-o", where,
				     "-o", "metrics/enabled=false", NULL };

	snprintf(type, sizeof(type), "metadata_type=%s", server.type);
	snprintf(servers, sizeof(servers), "metadata_servers=%s", server.address);
	snprintf(lifetime, sizeof(lifetime), "metadata_ttl_s=%s", ttl);
	snprintf(where, sizeof(where), "rpc_server_port=%u", port);
	tentd_start_ready(d, args);
}

static void names_of_an_engine_that_was_killed_are_forgotten(void **state)
{
	static struct tentd d;
	struct tent_client *owner, *user = engine_fix_attach(&two, NULL);
	tent_segment_id_t id;

	(void)state;
	tentd_prepare(&d);
	start_tentd(&d, "1", free_port());
	assert_int_equal(tent_client_attach(d.socket, "mortal", &owner), 0);
	while (tent_client_open_segment(user, "mortal", &id))	/* a second is soon over */
		usleep(2000);
	tentd_end(&d, SIGKILL);
	do
		assert_int_equal(tent_client_open_segment(user, "mortal", &id), TENT_ERR_PEER_UNREACHABLE);
	while (!strstr(message(), "the directory does not have it"));
	tentd_cleanup(&d);
	tent_client_detach(owner);
	tent_client_detach(user);
}

static void an_engine_that_starts_again_has_its_names_at_once(void **state)
{
	static struct tentd d;
	struct tent_client *owner, *user = engine_fix_attach(&two, NULL);
	uint16_t port = free_port();

	(void)state;
	tentd_prepare(&d);
	for (int life = 0; life < 3; life++) {
		start_tentd(&d, "3600", port);
		assert_int_equal(tent_client_attach(d.socket, "reborn", &owner), 0);
		await_at(d.socket, 1, 0);
		bytes_of(user, "reborn");
		tentd_end(&d, life < 2 ? SIGKILL : SIGTERM);
		tent_client_detach(owner);
	}
	expect_missing(user, "reborn", "the directory does not have it");
	tentd_cleanup(&d);
	tent_client_detach(user);
}

static void a_name_that_comes_and_goes_is_there_at_the_end(void **state)
{
	struct tent_client *owner, *user = engine_fix_attach(&two, NULL);

	(void)state;
	for (int i = 0; i < 300; i++) {
		owner = engine_fix_attach(&one, "restless");
		tent_client_detach(owner);
	}
	owner = engine_fix_attach(&one, "restless");
	await_at(one.path, 1, 0);
	engine_fix_memory(owner, 4096);
	assert_int_equal(bytes_of(user, "restless"), 4096);
	tent_client_detach(owner);
	await_at(one.path, 0, 0);
	expect_missing(user, "restless", "the directory does not have it");
	tent_client_detach(user);
}

static void brief(struct engine_config *c)
{
	tune(c);
	wire_set(c, "metadata_ttl_s", "2");
}

/* On a machine that has no time for us a name may be away for a moment. */
static void names_outlive_their_lifetime_as_long_as_their_engine_lives(void **state)
{
	struct tent_client *owner, *user = engine_fix_attach(&two, NULL);
	struct engine_fix third;
	tent_segment_id_t id;

	(void)state;
	engine_fix_start(&third, brief);
	owner = engine_fix_attach(&third, "long");
	await_at(third.path, 1, 0);
	sleep(5);	/* its lifetime, twice, at any rate */
	while (tent_client_open_segment(user, "long", &id))
		usleep(2000);
	tent_client_detach(owner);
	engine_fix_stop(&third);
	tent_client_detach(user);
}

static void a_server_that_dies_is_named_and_one_that_comes_back_is_told_again(void **state)
{
	struct tent_client *owner = engine_fix_attach(&one, "lasting"), *user, *late;

	(void)state;
	engine_fix_memory(owner, 4096);
	user = engine_fix_attach(&two, NULL);
	await_at(one.path, 1, 0);
	directory_server_kill(&server);
	await_fault(one.path, server.address);
	expect_missing(user, "lasting", server.address);
	expect_missing(user, "lasting", server.type[0] == 'e' ? "connect" : "refused");
	late = engine_fix_attach(&one, "late");		/* nobody waits for the server */
	directory_server_restart(&server);
	await_at(one.path, 2, 0);
	await_fault(one.path, "");
	await_fault(two.path, "");
	assert_int_equal(bytes_of(user, "lasting"), 4096);
	bytes_of(user, "late");
	tent_client_detach(late);
	tent_client_detach(owner);
	await_at(one.path, 0, 0);
	expect_missing(user, "lasting", "the directory does not have it");
	tent_client_detach(user);
}

static void a_name_that_goes_while_the_server_is_away_is_taken_back_later(void **state)
{
	struct tent_client *owner = engine_fix_attach(&one, "gone"), *user;

	(void)state;
	user = engine_fix_attach(&two, NULL);
	await_at(one.path, 1, 0);
	directory_server_kill(&server);
	tent_client_detach(owner);
	await_at(one.path, 0, 1);
	directory_server_restart(&server);
	await_at(one.path, 0, 0);
	await_fault(two.path, "");
	expect_missing(user, "gone", "the directory does not have it");
	tent_client_detach(user);
}

static void what_the_server_says_is_an_address_or_nothing(void **state)
{
	static const char *const values[] = {
		"", "{", "[]", "null", "{}", "{\"segment\":5}", "{\"segment\":\"\"}",
		"{\"segment\":\"plain\"}", "{\"segment\":\"file:///etc/passwd\"}",
		"{\"segment\":\"127.0.0.1:0/x\"}", "{\"segment\":\"127.0.0.1:1/a/b\"}",
		"{\"segment\":\"127.0.0.1:1/x\",\"segment\":\"127.0.0.1:2/x\"}",
		"{\"rpc_server_addr\":\"nonsense\"}",
	};
	struct tent_client *user = engine_fix_attach(&two, NULL);
	static char large[2000];

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		directory_server_put(&server, "mooncake/tent/odd", values[i]);
		expect_missing(user, "odd", "the directory has no address for it");
	}
	snprintf(large, sizeof(large), "{\"segment\":\"127.0.0.1:1/x\",\"fill\":\"%01500d\"}", 0);
	directory_server_put(&server, "mooncake/tent/odd", large);
	expect_missing(user, "odd", "the directory has no address for it");
	tent_client_detach(user);
}

/* As the existing engine does: no text behind its address. */
static void an_engine_that_publishes_only_its_address_is_found(void **state)
{
	struct engine_fix third;
	struct tent_client *own, *user = engine_fix_attach(&two, NULL);
	char value[256];

	(void)state;
	engine_fix_start(&third, tune);
	own = engine_fix_local(&third);
	engine_fix_memory(own, 4096);
	snprintf(value, sizeof(value), "{\"rpc_server_addr\":\"%s\"}", tent_client_segment(own));
	directory_server_put(&server, "mooncake/tent/plain", value);
	assert_int_equal(bytes_of(user, "plain"), 4096);
	tent_client_detach(own);
	engine_fix_stop(&third);
	tent_client_detach(user);
}

#define TESTS									\
	cmocka_unit_test(a_name_is_opened_at_another_engine_and_goes_with_its_owner), \
	cmocka_unit_test(a_name_of_ones_own_engine_is_not_asked_for),		\
	cmocka_unit_test(an_engine_without_a_name_picks_one),			\
	cmocka_unit_test(local_segment_name_is_what_others_open),		\
	cmocka_unit_test(an_engine_that_stops_takes_its_names_back),		\
	cmocka_unit_test(a_name_that_another_engine_has_is_left_to_it),		\
	cmocka_unit_test(names_of_an_engine_that_was_killed_are_forgotten),	\
	cmocka_unit_test(an_engine_that_starts_again_has_its_names_at_once),	\
	cmocka_unit_test(a_name_that_comes_and_goes_is_there_at_the_end),	\
	cmocka_unit_test(names_outlive_their_lifetime_as_long_as_their_engine_lives), \
	cmocka_unit_test(a_server_that_dies_is_named_and_one_that_comes_back_is_told_again), \
	cmocka_unit_test(a_name_that_goes_while_the_server_is_away_is_taken_back_later), \
	cmocka_unit_test(what_the_server_says_is_an_address_or_nothing),	\
	cmocka_unit_test(an_engine_that_publishes_only_its_address_is_found)

int main(void)
{
	const struct CMUnitTest etcd[] = { TESTS }, redis[] = { TESTS };
	int failed = cmocka_run_group_tests(redis, setup_redis, teardown);

	return failed + cmocka_run_group_tests(etcd, setup_etcd, teardown);
}
