/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_files.c - hostile files: descriptors of what is none, flags that change
 * behind the engine's back, and deaths in the middle of writing; with io_uring and with
 * threads. Whatever comes, no descriptor is left and no byte moves afterwards.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "tests/common/engine_fix.h"

#define SIZE (2u << 20)

static char path[48];

static int make_file(void)
{
	int fd;

	strcpy(path, "/var/tmp/tent-foe-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	return fd;
}

/* ---- descriptors ------------------------------------------------------------ */

static uint32_t offer(struct raw *r, const char *name, int fd, int nr)
{
	struct ctl_message m = { .nr_fds = nr, .fds = { fd, fd, fd, fd } };
	struct tent_ctl_segment_open *q = (void *)m.bytes;

	snprintf(q->name, sizeof(q->name), "%s", name);
	raw_call(r, &m, TENT_CTL_SEGMENT_OPEN, sizeof(*q));
	ctl_close_fds(&m);
	return r->status.rule;
}

static int hostile(struct engine_fix *f)
{
	int pair[2], pipes[2], fds[14], n = 0;
	static const uint32_t rules[14] = {
		TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND,
		TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND,
		TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND, TENT_RULE_FILE_KIND,
		TENT_RULE_FILE_MODE, TENT_RULE_FILE_MODE, TENT_RULE_FILE_MODE,
		TENT_RULE_FILE_MODE, TENT_RULE_FILE_KIND,
	};
	struct raw r;

	need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipes) == 0);
	fds[n++] = open("/tmp", O_RDONLY);
	fds[n++] = pair[0];
	fds[n++] = pipes[0];
	fds[n++] = open("/dev/null", O_RDWR);
	fds[n++] = eventfd(0, 0);
	fds[n++] = epoll_create1(0);
	fds[n++] = open("/proc/self/mem", O_RDWR);
	fds[n++] = open("/proc/self/oom_score_adj", O_RDWR);
	fds[n++] = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
	fds[n++] = open(path, O_PATH);
	fds[n++] = open(path, O_WRONLY);
	fds[n++] = open(path, O_RDWR | O_APPEND);
	fds[n++] = open("/tmp", O_PATH);
	fds[n++] = open("/tmp", O_RDONLY);
	raw_attach(&r, f->path, NULL);
	for (int i = 0; i < n; i++) {
		need(fds[i] >= 0 || i == 8);
		if (fds[i] >= 0)
			need(offer(&r, "file:///tmp/x", fds[i], 1) == rules[i]);
	}
	need(offer(&r, "file:///tmp/x", -1, 0) == TENT_RULE_CTL_MESSAGE);
	need(offer(&r, "file:///tmp/x", fds[0], 2) == TENT_RULE_CTL_MESSAGE);
	need(offer(&r, "", fds[0], 1) == TENT_RULE_CTL_MESSAGE);
	need(offer(&r, "nobody", fds[0], 1) == TENT_RULE_CTL_MESSAGE);
	close(r.sock);
	return 0;
}

static void descriptors_of_no_file_are_refused_by_name(void **state)
{
	int fds = engine_fix_quiet(&fix, 0);
	int fd = make_file();

	(void)state;
	assert_int_equal(engine_fix_child(&fix, 0, hostile), 0);
	close(fd);
	unlink(path);
	while (engine_fix_quiet(&fix, 0) > fds)
		sched_yield();
}

/* Flags of the shared description change after it was taken; and the file shrinks. */
static int fickle(struct engine_fix *f)
{
	struct tent_completion end;
	int fd = open(path, O_RDWR);
	struct raw r;
	struct ctl_message m = { .nr_fds = 1, .fds = { fd } };
	struct tent_ctl_segment_open *q = (void *)m.bytes;
	struct raw_memory memory;
	struct raw_ring raw_ring;
	uint64_t id;

	raw_attach(&r, f->path, NULL);
	raw_buffer(&r, 1 << 20, &memory);
	need(raw_ring_open(&r, 64, &raw_ring) == 0);
	snprintf(q->name, sizeof(q->name), "file:///x\377\n\033[2J");
	need(raw_call(&r, &m, TENT_CTL_SEGMENT_OPEN, sizeof(*q)) == 0);
	id = ((const struct tent_ctl_segment_open_reply *)m.bytes)->segment_id;
	for (uint64_t i = 0; i < 200; i++) {
		static const int flags[] = { O_APPEND, O_NONBLOCK, O_DIRECT, 0 };

		need(fcntl(fd, F_SETFL, flags[i % 4]) == 0);
		need(ftruncate(fd, (off_t)(i * 1000)) == 0);
		memset(memory.addr, (int)i, 5000);
		raw_request(&raw_ring, 0, TENT_OPCODE_WRITE, memory.addr, id, 3 + i, 5000);
		raw_publish(&raw_ring, 1);
		need(raw_wait(&raw_ring, &end));
		need(end.status == TENT_STATUS_COMPLETED && end.bytes == 5000);
		need(fcntl(fd, F_SETFL, 0) == 0);
		need(pread(fd, memory.addr + 8192, 5000, (off_t)(3 + i)) == 5000);
		need(!memcmp(memory.addr, memory.addr + 8192, 5000));
	}
	return 0;	/* and dies with it open */
}

static void what_its_owner_does_to_the_descriptor_later_changes_nothing(void **state)
{
	int fds = engine_fix_quiet(&fix, 0);
	int fd = make_file();

	(void)state;
	assert_int_equal(engine_fix_child(&fix, 0, fickle), 0);
	close(fd);
	unlink(path);
	while (engine_fix_quiet(&fix, 0) > fds)
		sched_yield();
}

/* ---- deaths ------------------------------------------------------------------ */

/* Dies with 32 large writes under way. */
static int die_writing(struct engine_fix *f)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { open(path, O_RDWR) } };
	struct tent_ctl_segment_open *q = (void *)m.bytes;
	struct raw_memory memory;
	struct raw_ring ring;
	struct raw r;
	uint64_t id;

	raw_attach(&r, f->path, NULL);
	raw_buffer(&r, SIZE, &memory);
	need(raw_ring_open(&r, 64, &ring) == 0);
	snprintf(q->name, sizeof(q->name), "file://%s", path);
	need(raw_call(&r, &m, TENT_CTL_SEGMENT_OPEN, sizeof(*q)) == 0);
	id = ((const struct tent_ctl_segment_open_reply *)m.bytes)->segment_id;
	for (uint32_t i = 0; i < 32; i++)
		raw_request(&ring, i, TENT_OPCODE_WRITE, memory.addr, id, i * SIZE, SIZE);
	raw_publish(&ring, 32);
	need(raw_wait_consumed(&ring));
	return 0;
}

static void who_dies_writes_nothing_afterwards(void **state)
{
	int fds = engine_fix_quiet(&fix, 0);
	struct stat before, after;
	int fd = make_file();

	(void)state;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(engine_fix_child(&fix, 0, die_writing), 0);
		engine_fix_quiet(&fix, 0);
		assert_int_equal(fstat(fd, &before), 0);
		usleep(2000);	/* for what may come too late: there is no sign of nothing */
		assert_int_equal(fstat(fd, &after), 0);
		assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
		assert_int_equal(before.st_size, after.st_size);
	}
	close(fd);
	unlink(path);
	while (engine_fix_quiet(&fix, 0) > fds)
		sched_yield();
}

/* ---- the groups ---------------------------------------------------------------- */

static void threads(struct engine_config *c)
{
	c->file.io_uring = false;
}

/* The first file makes the queues, whose descriptors stay. */
static int setup(void (*tune)(struct engine_config *c))
{
	struct tent_client *c;
	int fd = make_file();
	tent_segment_id_t id;
	char name[64];

	engine_fix_start(&fix, tune);
	snprintf(name, sizeof(name), "file://%s", path);
	c = engine_fix_attach(&fix, NULL);
	assert_int_equal(tent_client_open_segment(c, name, &id), 0);
	tent_client_detach(c);
	close(fd);
	unlink(path);
	return 0;
}

static int setup_uring(void **state)
{
	(void)state;
	return setup(NULL);
}

static int setup_threads(void **state)
{
	(void)state;
	return setup(threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_of_no_file_are_refused_by_name),
		cmocka_unit_test(what_its_owner_does_to_the_descriptor_later_changes_nothing),
		cmocka_unit_test(who_dies_writes_nothing_afterwards),
	};

	return cmocka_run_group_tests(tests, setup_uring, engine_fix_teardown) ||
	       cmocka_run_group_tests(tests, setup_threads, engine_fix_teardown);
}
