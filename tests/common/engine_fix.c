/* SPDX-License-Identifier: Apache-2.0 */
/* engine_fix.c - see engine_fix.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "lib/backends.h"
#include "tests/common/engine_fix.h"

#define HOUR_NS 3600000000000ull

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

int engine_fix_count_fds(void)
{
	return count_entries("/proc/self/fd");
}

int engine_fix_count_threads(void)
{
	return count_entries("/proc/self/task");
}

int engine_fix_count_maps(const char *text)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

/* A test that fails leaves behind what engine_fix_stop() would wait for without end. So its
 * program ends with it. */
__attribute__((constructor))
static void end_with_the_first_failure(void)
{
	setenv("CMOCKA_TEST_ABORT", "1", 0);
}

void engine_fix_settle(int (*count)(void), int expected)
{
	while (count() > expected)	/* those of earlier tests may leave meanwhile */
		sched_yield();
}

static void *tell_tid(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	return NULL;
}

/* A sanitizer starts a thread of its own beside the first that we make. A thread that was
 * joined is in /proc a moment longer. */
static void settle_threads(void)
{
	pthread_t thread;
	char path[64];
	int tid = 0;

	assert_int_equal(pthread_create(&thread, NULL, tell_tid, &tid), 0);
	pthread_join(thread, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	while (access(path, F_OK) == 0)
		sched_yield();
}

void engine_fix_start(struct engine_fix *f, void (*tune)(struct engine_config *c))
{
	char error[256] = "";

	settle_threads();
	*f = (struct engine_fix){ .fds = engine_fix_count_fds(),
				  .threads = engine_fix_count_threads() };
	engine_config_default(&f->config);
	f->config.request_timeout_ns = HOUR_NS;	/* nothing is late, however slow the machine is */
	if (tune)
		tune(&f->config);
	strcpy(f->folder, "/tmp/tent-engine-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	assert_int_equal(chmod(f->folder, 0755), 0);
	snprintf(f->path, sizeof(f->path), "%s/s", f->folder);
	if (engine_create(&f->engine, &f->config, all_backends, error, sizeof(error)))
		fail_msg("engine_create: %s", error);
	assert_int_equal(engine_listen(f->engine, f->path), 0);
}

void engine_fix_stop(struct engine_fix *f)
{
	engine_destroy(f->engine);
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(rmdir(f->folder), 0);
	engine_fix_settle(engine_fix_count_fds, f->fds);
	engine_fix_settle(engine_fix_count_threads, f->threads);
}

struct engine_fix fix;

int engine_fix_setup(void **state)
{
	(void)state;
	engine_fix_start(&fix, NULL);
	return 0;
}

int engine_fix_teardown(void **state)
{
	(void)state;
	engine_fix_stop(&fix);
	return 0;
}

static void complain(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	fail_msg("%s: %s", what, info.message);
}

uint32_t engine_fix_rule(void)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	return info.rule;
}

struct tent_client *engine_fix_attach(const struct engine_fix *f, const char *name)
{
	struct tent_client *c = NULL;

	if (tent_client_attach(f->path, name, &c))
		complain("attach");
	return c;
}

struct tent_client *engine_fix_local(const struct engine_fix *f)
{
	struct tent_client *c = NULL;

	if (tent_client_attach_fd(engine_attach_local(f->engine), NULL, &c))
		complain("local attach");
	return c;
}

uint8_t *engine_fix_memory(struct tent_client *c, size_t size)
{
	void *addr = NULL;

	if (tent_client_alloc(c, size, NULL, &addr) ||
	    tent_client_register(c, addr, size, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		complain("memory");
	return addr;
}

struct tent_ring *engine_fix_ring(struct tent_client *c)
{
	struct tent_ring *ring = NULL;

	if (tent_ring_open(c, 64, 64, &ring))
		complain("ring");
	return ring;
}

struct tent_request_v1 engine_fix_request(int opcode, const void *source, uint64_t segment,
					  const void *target, uint64_t length)
{
	return (struct tent_request_v1){
		.struct_size = sizeof(struct tent_request_v1),
		.schema_version = TENT_REQUEST_SCHEMA_V1, .opcode = opcode,
		.source = (void *)(uintptr_t)source, .target_id = segment,
		.target_offset = (uintptr_t)target, .length = length,
	};
}

void engine_fix_submit(struct tent_ring *ring, const struct tent_request_v1 *r)
{
	if (tent_ring_submit(ring, r, 1, sizeof(*r), 0, 0))
		complain("submit");
}

struct tent_completion engine_fix_wait(struct tent_ring *ring)
{
	struct tent_completion c = { 0 };

	while (!tent_ring_poll(ring, &c, 1))
		assert_int_equal(tent_ring_wait(ring, UINT64_MAX), 0);
	return c;
}

struct tent_completion engine_fix_move(struct tent_ring *ring, int opcode, const void *source,
				       uint64_t segment, const void *target, uint64_t length)
{
	struct tent_request_v1 r = engine_fix_request(opcode, source, segment, target, length);

	engine_fix_submit(ring, &r);
	return engine_fix_wait(ring);
}

pid_t engine_fix_spawn(struct engine_fix *f, unsigned uid, int (*body)(struct engine_fix *f))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	if (uid)
		need(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(body(f));
}

int engine_fix_reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int engine_fix_child(struct engine_fix *f, unsigned uid, int (*body)(struct engine_fix *f))
{
	return engine_fix_reap(engine_fix_spawn(f, uid, body));
}

int engine_fix_clients(const struct engine_fix *f)
{
	struct tent_client *c;
	json_t *root;
	char *text = NULL;
	int n;

	if (tent_client_observe(f->path, &c) || tent_client_query(c, TENT_QUERY_CLIENTS, &text))
		complain("clients");
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	n = (int)json_array_size(json_object_get(root, "clients"));
	json_decref(root);
	free(text);
	tent_client_detach(c);
	return n;
}

int engine_fix_quiet(const struct engine_fix *f, int nr)
{
	while (engine_fix_clients(f) > nr)
		sched_yield();
	return engine_fix_count_fds();
}
