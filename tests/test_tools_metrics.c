/* SPDX-License-Identifier: Apache-2.0 */
/* test_tools_metrics.c - /metrics and /health of a real tentd, and who may spoil them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <glob.h>
#include <microhttpd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <tent/tentring.h>

#include "tests/common/http.h"
#include "tests/common/prometheus.h"
#include "tests/common/tentd.h"
#include "tools/tentd_mhd.h"

#define LENGTH 4096u

static struct tentd t;
static struct http_answer got;
static uint16_t port;

/* Where it says that it serves them. */
static uint16_t said_port(struct tentd *d)
{
	const char *at = strstr(program_errors(&d->program), "metrics at http://127.0.0.1:");

	if (!at)
		fail_msg("no metrics in:\n%s", d->program.errors);
	return (uint16_t)atoi(strstr(at, "127.0.0.1:") + strlen("127.0.0.1:"));
}

static int setup(void **state)
{
	static const char *const args[] = { "-o", "metrics/http_port=0", NULL };

	(void)state;
	tentd_prepare(&t);
	tentd_start_ready(&t, args);
	port = said_port(&t);
	return 0;
}

static int teardown(void **state)
{
	int rc = tentd_end(&t, SIGTERM);

	(void)state;
	tentd_cleanup(&t);
	return rc;
}

/* ---- a client that moves bytes ----------------------------------------- */

struct worker {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
};

static void worker_open(struct worker *w, const struct tentd *d, const char *name)
{
	void *memory;

	assert_int_equal(tent_client_attach(d->socket, name, &w->client), 0);
	assert_int_equal(tent_client_alloc(w->client, 2 * LENGTH, NULL, &memory), 0);
	assert_int_equal(tent_client_register(w->client, memory, 2 * LENGTH,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	assert_int_equal(tent_ring_open(w->client, 64, 64, &w->ring), 0);
	w->memory = memory;
}

/* One batch of nr requests; how many of them completed. */
static int worker_move(struct worker *w, int opcode, uint32_t nr, uint64_t length,
		       uint64_t deadline_ns)
{
	struct tent_request_v1 r[32];
	struct tent_completion done;
	int good = 0;

	for (uint32_t i = 0; i < nr; i++)
		r[i] = (struct tent_request_v1){
			.struct_size = sizeof(r[0]), .schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = opcode, .length = length, .source = w->memory,
			.target_offset = (uint64_t)(uintptr_t)w->memory + LENGTH,
			.deadline_ns = deadline_ns,
		};
	assert_int_equal(tent_ring_submit(w->ring, r, nr, sizeof(r[0]), 0, 0), 0);
	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(tent_ring_wait(w->ring, UINT64_MAX), 0);
		assert_int_equal(tent_ring_poll(w->ring, &done, 1), 1);
		good += done.status == TENT_STATUS_COMPLETED;
	}
	return good;
}

static void worker_close(struct worker *w)
{
	tent_client_detach(w->client);
}

/* ---- reading the answer ------------------------------------------------ */

/* The number of a sample, by its whole name with labels; -1: there is none. */
static long long value(const char *sample)
{
	size_t length = strlen(sample);

	for (const char *line = got.body; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, sample, length) == 0 && line[length] == ' ')
			return atoll(line + length + 1);
	}
	return -1;
}

/* Asks until the sample has grown to a value: what is told may be 0.1 s old. */
static long long await(const char *sample, long long wanted)
{
	long long now;

	do {
		http_ask(port, "GET", "/metrics", &got);
		assert_int_equal(got.status, 200);
		now = value(sample);
	} while (now < wanted);
	return now;
}

/* ---- properties -------------------------------------------------------- */

static void every_line_is_as_prometheus_wants_it(void **state)
{
	struct worker w;

	(void)state;
	http_ask(port, "GET", "/metrics", &got);
	assert_int_equal(got.status, 200);
	assert_non_null(strstr(got.text, "Content-Type: text/plain; version=0.0.4"));
	assert_true(prometheus_judge(got.body) > 40);
	worker_open(&w, &t, NULL);
	assert_int_equal(worker_move(&w, TENT_OPCODE_READ, 5, 512, 0), 5);
	assert_int_equal(worker_move(&w, TENT_OPCODE_WRITE, 3, LENGTH, 0), 3);
	await("tent_write_requests_total{transport=\"shm\"}", 3);
	prometheus_judge(got.body);
	worker_close(&w);
}

static long long total(const char *name)
{
	const char *const words[] = { "-s", t.socket, "--json", "stats", NULL };
	static struct program ctl;
	json_t *root;
	long long number;

	assert_int_equal(program_run(&ctl, "tools/tentctl", words), 0);
	root = json_loads(ctl.output, 0, NULL);
	assert_int_equal(json_unpack(root, "{s:{s:I}}", "totals", name, &number), 0);
	json_decref(root);
	return number;
}

static void numbers_are_those_of_what_was_done_and_of_tentctl(void **state)
{
	static const struct { const char *name, *sample; } same[] = {
		{ "batches", "tent_batches_total" }, { "requests", "tent_requests_total" },
		{ "completed", "tent_completed_total" }, { "failed", "tent_failed_total" },
		{ "deadlines_met", "tent_deadlines_met_total" },
		{ "deadlines_missed", "tent_deadlines_missed_total" },
		{ "deadlines_infeasible", "tent_deadline_infeasible_total" },
	};
	struct worker w;
	long long reads, writes, bytes, loads, sizes, slow;

	(void)state;
	await("tent_requests_total", 8);	/* the test before */
	reads = value("tent_read_requests_total{transport=\"shm\"}");
	writes = value("tent_write_requests_total{transport=\"shm\"}");
	bytes = value("tent_write_bytes_total{transport=\"shm\"}");
	loads = value("tent_deadline_mlu_permille_count");
	sizes = value("tent_write_size_bytes_bucket{transport=\"shm\",le=\"1024\"}");
	slow = value("tent_write_size_bytes_bucket{transport=\"shm\",le=\"4096\"}");
	worker_open(&w, &t, NULL);
	assert_int_equal(worker_move(&w, TENT_OPCODE_WRITE, 1, 100, 0), 1);
	assert_int_equal(worker_move(&w, TENT_OPCODE_WRITE, 30, 2000, 0), 30);
	assert_int_equal(worker_move(&w, TENT_OPCODE_READ, 20, 100,
				     tent_monotonic_now_ns() + 3600000000000ull), 20);
	assert_int_equal(worker_move(&w, TENT_OPCODE_READ, 2, 100, 1), 2);
	assert_int_equal(await("tent_read_requests_total{transport=\"shm\"}", reads + 22),
			 reads + 22);
	assert_int_equal(value("tent_write_requests_total{transport=\"shm\"}"), writes + 31);
	assert_int_equal(value("tent_write_bytes_total{transport=\"shm\"}"), bytes + 60100);
	assert_int_equal(value("tent_read_failures_total{transport=\"shm\"}"), 0);
	assert_int_equal(value("tent_deadline_mlu_permille_count"), loads + 20);
	assert_int_equal(value("tent_write_size_bytes_bucket{transport=\"shm\",le=\"1024\"}"),
			 sizes + 1);
	assert_int_equal(value("tent_write_size_bytes_bucket{transport=\"shm\",le=\"4096\"}"),
			 slow + 31);
	assert_int_equal(value("tent_write_latency_us_count{transport=\"shm\"}"), writes + 31);
	assert_int_equal(value("tent_stage_queue_wait_us_count"), reads + writes + 53);
	assert_int_equal(value("tent_transport_attempts_total{transport=\"shm\",operation=\"read\"}"),
			 reads + 22);
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		assert_int_equal(await(same[i].sample, total(same[i].name)),
				 total(same[i].name));
	worker_close(&w);
}

static void nothing_that_a_client_chose_is_in_it(void **state)
{
	struct worker w;

	(void)state;
	worker_open(&w, &t, "very-private-name");
	await("tent_clients", 1);
	assert_null(strstr(got.body, "very-private-name"));
	assert_null(strstr(got.body, "uid"));
	worker_close(&w);
}

/* What the manual does not name nobody can rely on. */
static void every_family_is_in_the_manual(void **state)
{
	static char manual[65536];
	FILE *f = fopen("docs/tentd.8", "re");

	(void)state;
	if (!f)
		fail_msg("docs/tentd.8 is missing; run tests from the top of the source tree");
	manual[fread(manual, 1, sizeof(manual) - 1, f)] = '\0';
	fclose(f);
	http_ask(port, "GET", "/metrics", &got);
	for (const char *at = got.body; (at = strstr(at, "# TYPE ")); at++) {
		char name[96];

		assert_int_equal(sscanf(at, "# TYPE %95s", name), 1);
		if (!strstr(manual, name))
			fail_msg("docs/tentd.8 lacks %s", name);
	}
}

static void health_says_ok(void **state)
{
	(void)state;
	http_ask(port, "GET", "/health", &got);
	assert_int_equal(got.status, 200);
	assert_string_equal(got.body, "OK");
}

static void what_is_not_served_is_said(void **state)
{
	static const char *const paths[] = { "/", "/metrics/", "/metrics/../health", "/%00", "*" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		http_ask(port, "GET", paths[i], &got);
		assert_int_equal(got.status, 404);
	}
	http_ask(port, "POST", "/metrics", &got);
	assert_int_equal(got.status, 405);
	assert_non_null(strstr(got.text, "Allow: GET, HEAD"));
	http_ask(port, "HEAD", "/metrics", &got);
	assert_int_equal(got.status, 200);
	assert_string_equal(got.body, "");
	http_ask(port, "GET", "/metrics?a=b", &got);
	assert_int_equal(got.status, 200);
}

/* ---- those who mean no good -------------------------------------------- */

/* It is answered, and clients are served. */
static void expect_served(void)
{
	struct worker w;

	http_ask(port, "GET", "/health", &got);
	assert_int_equal(got.status, 200);
	worker_open(&w, &t, NULL);
	assert_int_equal(worker_move(&w, TENT_OPCODE_WRITE, 1, 64, 0), 1);
	worker_close(&w);
}

static void connections_that_say_nothing_keep_nobody_out(void **state)
{
	static const char half[] = "GET /metrics HTTP/1.1\r\nHost: ";
	int fds[300];

	(void)state;
	for (int i = 0; i < 300; i++) {
		fds[i] = http_dial(port);
		if (i % 2)
			http_send(fds[i], half, sizeof(half) - 1);
		if (i % 50 == 49)
			expect_served();
	}
	expect_served();
	for (int i = 0; i < 300; i++)
		close(fds[i]);
	expect_served();
}

static void requests_without_an_end_are_refused(void **state)
{
	static char flood[1 << 20];
	static const char *const heads[] = {
		"GET /metrics HTTP/1.1\r\nX: ", "GET /",
		"POST /metrics HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
	};

	(void)state;
	memset(flood, 'a', sizeof(flood));
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		int fd = http_dial(port);

		http_send(fd, heads[i], strlen(heads[i]));
		http_send(fd, flood, sizeof(flood));
		shutdown(fd, SHUT_WR);
		http_read(fd, &got);
		assert_true(got.status == 0 || got.status >= 400);
		expect_served();
	}
}

static void bytes_that_are_no_request_hurt_nobody(void **state)
{
	unsigned int seed = 1;

	(void)state;
	for (int i = 0; i < 200; i++) {
		char bytes[600];
		int fd = http_dial(port);

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)rand_r(&seed);
		if (i % 3 == 0)
			memcpy(bytes, "GET /metrics HTTP/1.1\r\n", 23);
		http_send(fd, bytes, sizeof(bytes));
		close(fd);
		if (i % 20 == 19)
			expect_served();
	}
}

static void who_asks_all_the_time_gets_the_same_answer_for_a_tenth_of_a_second(void **state)
{
	uint64_t began = tent_monotonic_now_ns(), took_ms;
	long long before = -1;
	uint64_t answers = 0;

	(void)state;
	for (int i = 0; i < 500; i++) {
		long long now;

		http_ask(port, "GET", "/metrics", &got);
		now = value("tent_uptime_milliseconds");
		answers += now != before;
		before = now;
	}
	took_ms = (tent_monotonic_now_ns() - began) / 1000000;
	assert_true(answers <= took_ms / 100 + 2);
}

/* ---- tentd ------------------------------------------------------------- */

static void its_own_look_takes_no_clients_place(void **state)
{
	static const char *const args[] = { "-o", "metrics/http_port=0", "-o", "limits/clients=1",
					    NULL };
	uint16_t outer = port;
	struct worker w;
	static struct tentd d;
	struct tent_client *second;

	(void)state;
	tentd_prepare(&d);
	tentd_start_ready(&d, args);
	port = said_port(&d);
	worker_open(&w, &d, NULL);
	assert_int_not_equal(tent_client_attach(d.socket, NULL, &second), 0);
	await("tent_clients", 1);
	assert_int_equal(value("tent_clients"), 1);
	worker_close(&w);
	assert_int_equal(tentd_end(&d, SIGTERM), 0);
	tentd_cleanup(&d);
	port = outer;
}

static int held_port(uint16_t *held)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(*held),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		listen(fd, 1);
	getsockname(fd, (struct sockaddr *)&a, &size);
	*held = ntohs(a.sin_port);
	return fd;
}

static void a_port_in_use_is_an_error_where_it_was_asked_for(void **state)
{
	static struct tentd d;
	uint16_t taken = 0, usual = 9100;
	char option[64], says[96];
	const char *const args[] = { "-o", option, NULL };
	int fd = held_port(&taken), other;

	(void)state;
	tentd_prepare(&d);
	snprintf(option, sizeof(option), "metrics/http_port=%u", taken);
	snprintf(says, sizeof(says), "metrics/http_port is %u: cannot listen at 127.0.0.1", taken);
	tentd_start(&d, args);
	assert_string_equal(tentd_message(&d), "");
	assert_int_equal(program_wait(&d.program), 1);
	assert_non_null(strstr(d.program.errors, says));
	close(fd);

	other = held_port(&usual);	/* by us, or somebody else has it */
	tentd_start_ready(&d, NULL);
	assert_non_null(strstr(program_errors(&d.program), "warning: metrics are not served: "
			       "metrics/http_port is 9100: cannot listen"));
	assert_int_equal(tentd_end(&d, SIGTERM), 0);
	close(other);
	tentd_cleanup(&d);
}

static void switched_off_nothing_is_served(void **state)
{
	static const char *const args[] = { "-o", "metrics/enabled=false", NULL };
	static struct tentd d;

	(void)state;
	tentd_prepare(&d);
	tentd_start_ready(&d, args);
	assert_null(strstr(program_errors(&d.program), "metrics"));
	assert_int_equal(tentd_end(&d, SIGTERM), 0);
	tentd_cleanup(&d);
}

/* In a mount namespace where the library is empty; its exit status. */
static int without_library(const char *library)
{
	static const char *const asked[] = { "-o", "metrics/http_port=0", NULL };
	static const char says[] = MHD_LIBRARY " cannot be loaded (apt-get install "
				   "libmicrohttpd12)";
	static struct tentd d;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("/dev/null", library, NULL, MS_BIND, NULL))
		return 1;
	tentd_prepare(&d);
	tentd_start_ready(&d, NULL);
	if (!strstr(program_errors(&d.program), "warning: metrics are not served: ") ||
	    !strstr(d.program.errors, says) || tentd_end(&d, SIGTERM))
		return 2;
	tentd_start(&d, asked);
	if (*tentd_message(&d) || program_wait(&d.program) != 1 ||
	    !strstr(d.program.errors, says))
		return 3;
	tentd_cleanup(&d);
	return 0;
}

static void without_the_library_it_runs_and_says_what_to_install(void **state)
{
	glob_t found;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();		/* it takes root to hide a library */
	assert_int_equal(glob("/usr/lib/*/" MHD_LIBRARY, 0, NULL, &found), 0);
	pid = fork();
	if (pid == 0)
		_exit(without_library(found.gl_pathv[0]));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	globfree(&found);
}

/* The nice value is the 19th field; the name before it may hold anything. */
static int threads_with_nice(pid_t pid, long nice)
{
	char path[64], line[512];
	struct dirent *entry;
	int nr = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		long value = -100;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid, entry->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(line, sizeof(line), f))
			sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
			       "%*u %*u %*u %*d %*d %*d %ld", &value);
		fclose(f);
		nr += value == nice;
	}
	closedir(tasks);
	return nr;
}

static void its_thread_gives_way_to_all_others(void **state)
{
	int ours = getpriority(PRIO_PROCESS, 0);	/* as tentd's others */

	(void)state;
	if (ours == 19)
		skip();		/* nobody can be nicer */
	assert_int_equal(threads_with_nice(t.program.pid, ours + 10 < 19 ? ours + 10 : 19), 1);
}

static void the_library_is_what_we_take_it_for(void **state)
{
	struct mhd_api api;
	const char *missing;

	(void)state;
	assert_int_equal(mhd_load(&api, MHD_LIBRARY, &missing), 0);
	assert_null(missing);
	assert_int_equal(mhd_load(&api, "libc.so.6", &missing), -2);
	assert_string_equal(missing, "MHD_start_daemon");
	assert_int_equal(mhd_load(&api, "libno-such.so.1", &missing), -2);
	assert_string_equal(missing, "libno-such.so.1");
#define SAME(ours, theirs) assert_int_equal(HTTP_##ours, theirs)
	SAME(USE_AUTO_INTERNAL_THREAD, MHD_USE_AUTO_INTERNAL_THREAD);
	SAME(OPTION_END, MHD_OPTION_END);
	SAME(OPTION_CONNECTION_MEMORY_LIMIT, MHD_OPTION_CONNECTION_MEMORY_LIMIT);
	SAME(OPTION_CONNECTION_LIMIT, MHD_OPTION_CONNECTION_LIMIT);
	SAME(OPTION_CONNECTION_TIMEOUT, MHD_OPTION_CONNECTION_TIMEOUT);
	SAME(OPTION_LISTEN_SOCKET, MHD_OPTION_LISTEN_SOCKET);
	SAME(OPTION_THREAD_STACK_SIZE, MHD_OPTION_THREAD_STACK_SIZE);
	SAME(OPTION_NOTIFY_CONNECTION, MHD_OPTION_NOTIFY_CONNECTION);
	SAME(CONNECTION_STARTED, MHD_CONNECTION_NOTIFY_STARTED);
	SAME(CONNECTION_CLOSED, MHD_CONNECTION_NOTIFY_CLOSED);
	SAME(INFO_CONNECTION_FD, MHD_CONNECTION_INFO_CONNECTION_FD);
	SAME(RESPONSE_COPIED, MHD_RESPMEM_MUST_COPY);
	SAME(NO, MHD_NO);
	SAME(YES, MHD_YES);
	assert_int_equal(offsetof(union MHD_ConnectionInfo, connect_fd), 0);
	assert_int_equal(sizeof(enum MHD_Result), sizeof(int));
	assert_int_equal(sizeof(enum MHD_ResponseMemoryMode), sizeof(int));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_is_what_we_take_it_for),
		cmocka_unit_test(every_line_is_as_prometheus_wants_it),
		cmocka_unit_test(numbers_are_those_of_what_was_done_and_of_tentctl),
		cmocka_unit_test(nothing_that_a_client_chose_is_in_it),
		cmocka_unit_test(every_family_is_in_the_manual),
		cmocka_unit_test(health_says_ok),
		cmocka_unit_test(what_is_not_served_is_said),
		cmocka_unit_test(connections_that_say_nothing_keep_nobody_out),
		cmocka_unit_test(requests_without_an_end_are_refused),
		cmocka_unit_test(bytes_that_are_no_request_hurt_nobody),
		cmocka_unit_test(who_asks_all_the_time_gets_the_same_answer_for_a_tenth_of_a_second),
		cmocka_unit_test(its_own_look_takes_no_clients_place),
		cmocka_unit_test(a_port_in_use_is_an_error_where_it_was_asked_for),
		cmocka_unit_test(switched_off_nothing_is_served),
		cmocka_unit_test(without_the_library_it_runs_and_says_what_to_install),
		cmocka_unit_test(its_thread_gives_way_to_all_others),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
