/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_directory_odd.c - directories as they should not be: servers that say nothing or
 * nonsense, libraries that are missing, configurations that cannot work.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <curl/curl.h>
#include <glob.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/directory_api.h"
#include "engine/directory_entry.h"
#include "lib/backends.h"
#include "ring/order.h"
#include "tests/common/tentd.h"
#include "tests/common/wire.h"

/* ---- a server that we play --------------------------------------------- */

static struct {
	int fd;
	const char *answer;	/* to whatever was asked; NULL: none */
	size_t size;
	pthread_t thread;
	char address[64];
} fake;

static const char *type;	/* what the engine takes it for */

static void answer(int fd)
{
	char asked[4096];

	while (recv(fd, asked, sizeof(asked), 0) > 0)
		if (fake.answer && send(fd, fake.answer, fake.size, MSG_NOSIGNAL) < 0)
			break;
	close(fd);
}

/* One connection after the other; the engine has one. */
static void *fake_main(void *arg)
{
	int fd;

	while ((fd = accept4(fake.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		answer(fd);
	return arg;
}

static void fake_start(const char *text, size_t size)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(a);

	fake.answer = text;
	fake.size = size;
	fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake.fd, (struct sockaddr *)&a, length), 0);
	assert_int_equal(listen(fake.fd, 16), 0);
	getsockname(fake.fd, (struct sockaddr *)&a, &length);
	snprintf(fake.address, sizeof(fake.address), "127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, NULL), 0);
}

static void fake_stop(void)
{
	shutdown(fake.fd, SHUT_RDWR);
	pthread_join(fake.thread, NULL);
	close(fake.fd);
}

static void tune(struct engine_config *c)
{
	wire_set(c, "rpc_server_hostname", "127.0.0.1");
	wire_set(c, "metadata_type", type);
	wire_set(c, "metadata_servers", fake.address);
}

static const char *refusal(const struct engine_fix *f, const char *name)
{
	static struct tent_error_info info;
	struct tent_client *c = engine_fix_attach(f, NULL);
	tent_segment_id_t id;

	assert_int_equal(tent_client_open_segment(c, name, &id), TENT_ERR_PEER_UNREACHABLE);
	info.size = sizeof(info);
	tent_client_error(&info);
	tent_client_detach(c);
	return info.message;
}

/* What a client is told when the server says that. */
static void expect(const char *kind, const char *text, size_t size, const char *says)
{
	struct engine_fix f;
	const char *message;

	type = kind;
	fake_start(text, size);
	engine_fix_start(&f, tune);
	message = refusal(&f, "name");
	if (!strstr(message, says))
		fail_msg("\"%s\" lacks \"%s\"", message, says);
	engine_fix_stop(&f);
	fake_stop();
}
#define EXPECT(kind, text, says) expect(kind, text, sizeof(text) - 1, says)

static void expect_http(const char *body, const char *says)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
			 strlen(body), body);

	expect("etcd", text, (size_t)n, says);
}

static void nonsense_of_an_etcd_is_said_or_is_no_address(void **state)
{
	static char large[200000];
	int head;

	(void)state;
	expect_http("hello", "its answer is no JSON object");
	expect_http("[]", "its answer is no JSON object");
	expect_http("{}", "the directory does not have it");
	expect_http("{\"kvs\":{}}", "the directory does not have it");
	expect_http("{\"kvs\":[null]}", "the directory has no address");
	expect_http("{\"kvs\":[{\"value\":\"!\"}]}", "the directory has no address");
	expect_http("{\"kvs\":[{\"value\":1}]}", "the directory has no address");
	expect_http("{\"kvs\":[{\"value\":\"AAAA\"}]}", "the directory has no address");
	EXPECT("etcd", "HTTP/1.1 503 No\r\nContent-Length: 23\r\n\r\n{\"message\":\"no leader\"}",
	       "HTTP 503, no leader");
	EXPECT("etcd", "HTTP/1.1 302 Go\r\nLocation: file:///etc/passwd\r\n"
	       "Content-Length: 0\r\n\r\n", "HTTP 302");
	EXPECT("etcd", "\1\2\3\r\n\r\n", "etcd at ");
	head = snprintf(large, sizeof(large), "HTTP/1.1 200 OK\r\nContent-Length: 199000\r\n\r\n");
	memset(large + head, ' ', sizeof(large) - (size_t)head);
	expect("etcd", large, sizeof(large), "etcd at ");
}

static void nonsense_of_a_redis_is_said_or_is_no_address(void **state)
{
	static char large[3000];

	(void)state;
	EXPECT("redis", "-ERR go away\r\n", "ERR go away");
	EXPECT("redis", "hello\r\n", "Protocol error");
	EXPECT("redis", "+PONG\r\n", "the directory has no address");
	EXPECT("redis", ":5\r\n", "the directory has no address");
	EXPECT("redis", "*0\r\n", "the directory has no address");
	EXPECT("redis", "$5\r\nhello\r\n", "the directory has no address");
	EXPECT("redis", "$3\r\n{\0}\r\n", "the directory has no address");
	EXPECT("redis", "$-1\r\n", "the directory does not have it");
	snprintf(large, sizeof(large), "$2000\r\n%02000d\r\n", 0);
	expect("redis", large, strlen(large), "the directory has no address");
}

/* ---- a server that says nothing ---------------------------------------- */

static struct engine_fix silent;
static uint32_t opened;		/* by the thread that waits; no pair */

static void *waits(void *arg)
{
	refusal(&silent, "name");
	store_relaxed(&opened, 1u);
	return arg;
}

/* How often others were served while one waited. */
static int served_meanwhile(void)
{
	pthread_t thread;
	int served = 0;

	store_relaxed(&opened, 0u);
	assert_int_equal(pthread_create(&thread, NULL, waits, NULL), 0);
	while (!load_relaxed(&opened)) {
		struct tent_client *c = engine_fix_attach(&silent, "busy");

		engine_fix_memory(c, 4096);
		tent_client_detach(c);
		served += !load_relaxed(&opened);
	}
	pthread_join(thread, NULL);
	return served;
}

/* An engine that holds them up serves one at most, however often it is tried. */
static void others_do_not_wait(const char *kind)
{
	type = kind;
	fake_start(NULL, 0);
	engine_fix_start(&silent, tune);
	while (served_meanwhile() < 2)
		;
	if (!strstr(refusal(&silent, "name"), fake.address))
		fail_msg("the server's address is not named");
	engine_fix_stop(&silent);
	fake_stop();
}

static void nobody_but_who_asked_waits_for_a_silent_server(void **state)
{
	(void)state;
	others_do_not_wait("etcd");
	others_do_not_wait("redis");
}

static void who_leaves_while_he_waits_is_let_go(void **state)
{
	struct raw r[8];

	(void)state;
	type = "redis";
	fake_start(NULL, 0);
	engine_fix_start(&silent, tune);
	for (int i = 0; i < 8; i++) {
		struct ctl_message m = { .head = { .size = sizeof(struct tent_ctl_segment_open),
						   .type = TENT_CTL_SEGMENT_OPEN, .cookie = 99 } };

		raw_attach(&r[i], silent.path, NULL);
		strcpy(((struct tent_ctl_segment_open *)m.bytes)->name, "name");
		assert_int_equal(ctl_send(r[i].sock, &m, 0), 0);
		if (i % 2)
			close(r[i].sock);
	}
	engine_fix_quiet(&silent, 4);
	engine_destroy(silent.engine);		/* the others still wait */
	for (int i = 0; i < 8; i += 2)
		close(r[i].sock);
	assert_int_equal(rmdir(silent.folder), 0);
	fake_stop();
}

static void the_next_server_is_asked_where_one_does_not_answer(void **state)
{
	static const char none[] = "$-1\r\n";
	struct engine_fix f;
	char second[sizeof(fake.address) - 16];

	(void)state;
	type = "redis";
	fake_start(none, sizeof(none) - 1);
	snprintf(second, sizeof(second), "%.40s", fake.address);
	snprintf(fake.address, sizeof(fake.address), "127.0.0.1:1,%s", second);
	engine_fix_start(&f, tune);
	while (!strstr(refusal(&f, "name"), "the directory does not have it"))
		usleep(10000);
	engine_fix_stop(&f);
	fake_stop();
}

/* ---- what cannot work -------------------------------------------------- */

static void expect_no_engine(const char *kind, const char *servers, const char *peers,
			     int error, const char *says)
{
	struct engine_config c;
	struct engine *e;
	char text[512];

	engine_config_default(&c);
	wire_set(&c, "rpc_server_hostname", "127.0.0.1");
	wire_set(&c, "metadata_type", kind);
	wire_set(&c, "metadata_servers", servers);
	if (peers)
		wire_set(&c, "peers/enable", peers);
	assert_int_equal(engine_create(&e, &c, all_backends, text, sizeof(text)), error);
	if (!strstr(text, says))
		fail_msg("\"%s\" lacks \"%s\"", text, says);
}

static void configurations_that_cannot_work_are_refused(void **state)
{
	(void)state;
	expect_no_engine("etcd", "", NULL, TENT_ERR_CONFIG,
			 "metadata_type is etcd: metadata_servers is empty");
	expect_no_engine("redis", " ,;", NULL, TENT_ERR_CONFIG, "metadata_servers is empty");
	expect_no_engine("redis", "a,b,c,d,e,f,g,h,i", NULL, TENT_ERR_CONFIG,
			 "metadata_servers has more than 8 servers");
	expect_no_engine("redis", "a", "false", TENT_ERR_CONFIG, "peers/enable is false");
}

/* In a mount namespace where the library is empty; its exit status. */
static int without(const char *kind, const char *library, const char *package)
{
	char option[48], says[64];
	const char *const args[] = { "-o", option, "-o", "metadata_servers=127.0.0.1:1",
				     "-o", "rpc_server_port=0", NULL };
	static struct tentd d;

	snprintf(option, sizeof(option), "metadata_type=%s", kind);
	snprintf(says, sizeof(says), "(apt-get install %s)", package);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("/dev/null", library, NULL, MS_BIND, NULL))
		return 1;
	tentd_prepare(&d);
	tentd_start(&d, args);
	if (*tentd_message(&d) || program_wait(&d.program) != 1 ||
	    !strstr(d.program.errors, option + strlen("metadata_type=")) ||
	    !strstr(d.program.errors, says))
		return 2;
	tentd_cleanup(&d);
	return 0;
}

static void a_library_that_is_missing_is_named_with_its_package(void **state)
{
	static const char *const cases[][3] = {
		{ "etcd", "/usr/lib/*/" CURL_LIBRARY, "libcurl4" },
		{ "redis", "/usr/lib/*/" HIREDIS_LIBRARY, "libhiredis0.14" },
	};

	(void)state;
	if (geteuid() != 0)
		skip();		/* it takes root to hide a library */
	for (int i = 0; i < 2; i++) {
		glob_t found;
		int status;
		pid_t pid;

		assert_int_equal(glob(cases[i][1], 0, NULL, &found), 0);
		pid = fork();
		if (pid == 0)
			_exit(without(cases[i][0], found.gl_pathv[0], cases[i][2]));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		globfree(&found);
	}
}

static void the_libraries_are_what_we_take_them_for(void **state)
{
	struct curl_api curl;
	struct hiredis_api hiredis;
	char missing[160];

	(void)state;
	assert_true(curl_api_load(&curl, CURL_LIBRARY, missing, sizeof(missing)));
	assert_true(hiredis_api_load(&hiredis, HIREDIS_LIBRARY, missing, sizeof(missing)));
	assert_false(curl_api_load(&curl, "libc.so.6", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "curl_global_init"));
	assert_false(hiredis_api_load(&hiredis, "libno-such.so.1", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "libno-such.so.1"));
#define SAME(ours, theirs) assert_int_equal(ours, theirs)
	SAME(OPT_WRITEDATA, CURLOPT_WRITEDATA);
	SAME(OPT_URL, CURLOPT_URL);
	SAME(OPT_POSTFIELDS, CURLOPT_POSTFIELDS);
	SAME(OPT_HTTPHEADER, CURLOPT_HTTPHEADER);
	SAME(OPT_NOPROXY, CURLOPT_NOPROXY);
	SAME(OPT_WRITEFUNCTION, CURLOPT_WRITEFUNCTION);
	SAME(OPT_NOSIGNAL, CURLOPT_NOSIGNAL);
	SAME(OPT_TIMEOUT_MS, CURLOPT_TIMEOUT_MS);
	SAME(OPT_CONNECTTIMEOUT_MS, CURLOPT_CONNECTTIMEOUT_MS);
	SAME(OPT_PROTOCOLS, 181);	/* its name is marked deprecated, and a warning */
	SAME(INFO_RESPONSE_CODE, CURLINFO_RESPONSE_CODE);
	SAME(PROTO_HTTP, CURLPROTO_HTTP);
	SAME(PROTO_HTTPS, CURLPROTO_HTTPS);
	SAME(GLOBAL_DEFAULT, CURL_GLOBAL_DEFAULT);
	SAME(CURL_GOOD, CURLE_OK);
	SAME(REPLY_STRING, REDIS_REPLY_STRING);
	SAME(REPLY_INTEGER, REDIS_REPLY_INTEGER);
	SAME(REPLY_NIL, REDIS_REPLY_NIL);
	SAME(REPLY_STATUS, REDIS_REPLY_STATUS);
	SAME(REPLY_ERROR, REDIS_REPLY_ERROR);
#define PLACE(ours, theirs, field)						\
	SAME(offsetof(struct ours, field), offsetof(theirs, field))
	PLACE(redis_reply, redisReply, type);
	PLACE(redis_reply, redisReply, integer);
	PLACE(redis_reply, redisReply, len);
	PLACE(redis_reply, redisReply, str);
	PLACE(redis_context, redisContext, err);
	PLACE(redis_context, redisContext, errstr);
	SAME(sizeof(((struct redis_context *)0)->errstr), sizeof(((redisContext *)0)->errstr));
}

/* ---- entries ----------------------------------------------------------- */

static void an_entry_leads_back_to_its_segment(void **state)
{
	static const char *const engines[] = { "10.0.0.5:15000", "[2001:db8::1]:1", "node-1:65535",
					       "fe80::1%eth0:15000" };
	char value[VALUE_SIZE], segment[TENT_CTL_NAME_SIZE], full[160];

	(void)state;
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		struct segment_name n;

		assert_null(segment_name_read(engines[i], &n));
		assert_true(entry_write("kv", &n.engine, "", 7, value));
		assert_true(entry_segment(value, segment));
		assert_string_equal(segment, engines[i]);
		assert_true(entry_write("kv", &n.engine, "kv", UINT64_MAX, value));
		assert_true(entry_segment(value, segment));
		snprintf(full, sizeof(full), "%s/kv", engines[i]);
		assert_string_equal(segment, full);
		assert_non_null(strstr(value, "\"epoch\":\"0xffffffffffffffff\""));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_libraries_are_what_we_take_them_for),
		cmocka_unit_test(an_entry_leads_back_to_its_segment),
		cmocka_unit_test(configurations_that_cannot_work_are_refused),
		cmocka_unit_test(a_library_that_is_missing_is_named_with_its_package),
		cmocka_unit_test(nonsense_of_an_etcd_is_said_or_is_no_address),
		cmocka_unit_test(nonsense_of_a_redis_is_said_or_is_no_address),
		cmocka_unit_test(nobody_but_who_asked_waits_for_a_silent_server),
		cmocka_unit_test(who_leaves_while_he_waits_is_let_go),
		cmocka_unit_test(the_next_server_is_asked_where_one_does_not_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
