/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_data.c - a tentd whose port for data is attacked by those who are let in:
 * places and descriptors are for everybody.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/data.h"
#include "tests/common/tentd.h"

#define SHARE 512u		/* of one user */
#define OF_ONE_LINK 192u
#define LINKS 4u
#define NOBODY 65534u

static struct tentd victim;
static struct tent_client *owner;
static struct segment_name name;	/* the owner's segment */

static int setup(void **state)
{
	struct rlimit l;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &l), 0);
	tentd_prepare(&victim);
	tentd_configure(&victim, "{\"peers\": {\"enable\": true, \"keepalive_ms\": 20000}}");
	tentd_start_ready(&victim, NULL);
	assert_int_equal(tent_client_attach(victim.socket, "kv", &owner), 0);
	engine_fix_memory(owner, 4096);
	assert_null(segment_name_read(tent_client_segment(owner), &name));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tent_client_detach(owner);
	assert_int_equal(tentd_end(&victim, SIGTERM), 0);
	tentd_cleanup(&victim);
	return 0;
}

/* One more connection; -1: it is turned away. */
static int come(const struct data_guest *g, uint64_t connection)
{
	struct tcp_hello h = data_hello(g, TCP_FOR_DATA, connection);
	int fd = data_call(g, &h);
	struct tcp_welcome w;

	if (recv(fd, &w, sizeof(w), MSG_WAITALL) == sizeof(w))
		return fd;
	close(fd);
	return -1;
}

/* As many as there are places for, with no regard for others. */
static uint32_t take_places(struct data_guest *guests, int *fds)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < LINKS; i++) {
		data_join(&guests[i], &name.engine, name.text);
		for (uint32_t k = 0; k <= OF_ONE_LINK; k++) {
			fds[nr] = come(&guests[i], k + 1);
			if (fds[nr] < 0)
				break;
			nr++;
		}
	}
	return nr;
}

/* Knows no segment, and comes in all the same. */
static int come_as_another_user(void)
{
	const struct engine_address *a = &name.engine;
	struct data_guest g = { .address = *a, .epoch = 0x9999 };
	json_t *hello;
	uint32_t port;

	if (setgid(NOBODY) || setuid(NOBODY))
		return 2;
	wire_dial(&g.link, a);
	wire_send(&g.link, wire_hello(g.epoch));
	hello = wire_expect(&g.link, "hello");
	if (!frame_uint(hello, "data_port", UINT16_MAX, &port) ||
	    !frame_u64(hello, "epoch", &g.their_epoch) ||
	    sscanf(frame_text(hello, "data_token", 32), "%16lx%16lx", &g.token[0],
		   &g.token[1]) != 2)
		return 3;
	g.address.port = (uint16_t)port;
	return come(&g, 1) >= 0 ? 0 : 1;
}

static void one_user_leaves_half_of_the_places_to_others(void **state)
{
	static struct data_guest guests[LINKS];
	static int fds[LINKS * OF_ONE_LINK + 1];
	uint32_t nr = take_places(guests, fds);
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(nr, SHARE);
	pid = fork();
	if (pid == 0)
		_exit(come_as_another_user());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	while (nr)
		close(fds[--nr]);
	for (uint32_t i = 0; i < LINKS; i++)
		wire_close(&guests[i].link);
}

/* ---- out of descriptors ------------------------------------------------ */

/* How often the thread that makes connections has gone to sleep. */
static unsigned long sleeps(void)
{
	char path[64], line[256], comm[32] = "";
	struct dirent *task;
	unsigned long n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)victim.program.pid);
	d = opendir(path);
	assert_non_null(d);
	while ((task = readdir(d))) {
		char file[400];
		FILE *f;

		snprintf(file, sizeof(file), "%s/%s/status", path, task->d_name);
		f = *task->d_name == '.' ? NULL : fopen(file, "re");
		while (f && fgets(line, sizeof(line), f)) {
			sscanf(line, "Name: %31s", comm);
			if (strcmp(comm, "tent-tcp") == 0)
				sscanf(line, "voluntary_ctxt_switches: %lu", &n);
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

static void out_of_descriptors_it_sleeps_and_goes_on_when_there_are_some(void **state)
{
	struct rlimit few = { 0, 0 }, old;
	struct data_guest g;
	struct tcp_welcome w;
	struct tcp_hello h;
	unsigned long before;
	int fd;

	(void)state;
	data_join(&g, &name.engine, name.text);
	assert_int_equal(prlimit(victim.program.pid, RLIMIT_NOFILE, NULL, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(prlimit(victim.program.pid, RLIMIT_NOFILE, &few, NULL), 0);
	h = data_hello(&g, TCP_FOR_DATA, 1);
	fd = data_call(&g, &h);
	before = sleeps();
	while (sleeps() < before + 10)
		poll(NULL, 0, 10);
	assert_int_equal(recv(fd, &w, sizeof(w), MSG_DONTWAIT), -1);
	assert_int_equal(prlimit(victim.program.pid, RLIMIT_NOFILE, &old, NULL), 0);
	data_receive(fd, &w, sizeof(w));
	close(fd);
	wire_close(&g.link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_user_leaves_half_of_the_places_to_others),
		cmocka_unit_test(out_of_descriptors_it_sleeps_and_goes_on_when_there_are_some),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
