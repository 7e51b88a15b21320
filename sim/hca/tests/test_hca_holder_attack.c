/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A holder and clients that mean it no good.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/tests/common/holder_fix.h"

static void nobody_else_can_write_the_table_or_shrink_memory(void **state)
{
	int fds[HOST_MAX_FDS], s = host_connect();
	struct host_request r = { .type = HOST_ATTACH, .version = HOST_VERSION };
	struct host_answer a;

	(void)state;
	assert_true(s >= 0);
	assert_int_equal(host_put(s, &r, sizeof(r), NULL, 0, 0), 0);
	assert_int_equal(host_take(s, &a, sizeof(a), fds, 0), 0);
	assert_int_equal(a.error, 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0),
			 MAP_FAILED);
	assert_int_equal(pwrite(fds[0], "x", 1, 0), -1);
	assert_int_equal(ftruncate(fds[0], 0), -1);
	assert_int_equal(ftruncate(fds[1], 0), -1);
	assert_int_equal(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
			 -1);
	close(fds[0]);
	close(fds[1]);
	close(s);
}

static void rubbish_ends_only_its_own_connection(void **state)
{
	static uint8_t rubbish[70000];
	struct host_event e;
	struct host *h = holder_fix_join();
	int s;

	(void)state;
	for (size_t i = 0; i < sizeof(rubbish); i++)
		rubbish[i] = (uint8_t)(i * 13);
	for (size_t n = 0; n < sizeof(rubbish); n = n * 2 + 1) {
		s = host_connect();
		assert_true(s >= 0);
		send(s, rubbish, n, MSG_NOSIGNAL);
		close(s);
	}
	s = host_connect();
	/* right size, wrong everything; with files that nobody asked for */
	for (int i = 0; i < 20; i++)
		host_put(s, rubbish, sizeof(struct host_request), (int[]){ s, 0, 1 }, 3,
			 MSG_DONTWAIT);
	close(s);
	assert_int_equal(host_set(holder_fix_lease, 0, "link=down", NULL), 0);
	assert_int_equal(holder_fix_event(h, &e), 0);
	host_leave(h);
}

static void one_who_never_reads_holds_nobody_up(void **state)
{
	struct host *deaf = holder_fix_join(), *h = holder_fix_join();
	struct host_event e;

	(void)state;
	for (int i = 0; i < 600; i++) {
		assert_int_equal(host_set(holder_fix_lease, 0, i % 2 ? "1/link=up" : "1/link=down", NULL), 0);
		assert_int_equal(holder_fix_event(h, &e), 0);
		assert_int_equal(e.ibv_event, i % 2 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	}
	host_leave(deaf);
	host_leave(h);
}

static void one_who_asks_and_does_not_read_is_put_out(void **state)
{
	struct host_request r = { .type = 99, .version = HOST_VERSION };
	int s = host_connect(), rc = 0;

	(void)state;
	while (!rc)
		rc = host_put(s, &r, sizeof(r), NULL, 0, 0);
	assert_int_equal(rc, -EPIPE);
	close(s);
}

static void connections_are_bounded(void **state)
{
	int fds[600], nr;

	(void)state;
	for (nr = 0; nr < 600; nr++) {
		fds[nr] = host_connect();
		if (fds[nr] < 0)
			break;
	}
	while (nr)
		close(fds[--nr]);
	host_leave(holder_fix_join());
}

static void another_version_is_told_so(void **state)
{
	struct host_request r = { .type = HOST_JOIN, .version = HOST_VERSION + 1 };
	int fds[HOST_MAX_FDS], s = host_connect();
	struct host_answer a;

	(void)state;
	assert_int_equal(host_put(s, &r, sizeof(r), NULL, 0, 0), 0);
	assert_int_equal(host_take(s, &a, sizeof(a), fds, 0), 0);
	assert_int_equal(a.error, -EPROTO);
	assert_int_equal(fds[0], -1);
	close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, holder_fix_setup, holder_fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_else_can_write_the_table_or_shrink_memory),
		TEST(rubbish_ends_only_its_own_connection),
		TEST(one_who_never_reads_holds_nobody_up),
		TEST(one_who_asks_and_does_not_read_is_put_out),
		TEST(connections_are_bounded),
		TEST(another_version_is_told_so),
	};

	return cmocka_run_group_tests(tests, holder_fix_enter, NULL);
}
