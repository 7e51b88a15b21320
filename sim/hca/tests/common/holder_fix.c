/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/tests/common/holder_fix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/tests/common/netns.h"

const struct holder_config holder_fix_config = { .nr_devices = 2, .nr_ports = 2 };
pid_t holder_fix_pid;
struct host *holder_fix_lease;

const char *holder_fix_start(const struct holder_config *c)
{
	static char text[HOST_TEXT_BYTES];
	int report[2];

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	holder_fix_pid = fork();
	if (!holder_fix_pid)
		_exit(holder_run(c, report[1]) ? 1 : 0);
	close(report[1]);
	memset(text, 0, sizeof(text));
	if (read(report[0], text, sizeof(text) - 1) < 1)
		strcpy(text, "(nothing)");
	close(report[0]);
	return text;
}

int holder_fix_status(void)
{
	int status;

	assert_int_equal(waitpid(holder_fix_pid, &status, 0), holder_fix_pid);
	return status;
}

int holder_fix_setup(void **state)
{
	(void)state;
	assert_string_equal(holder_fix_start(&holder_fix_config), "");
	return host_open(&holder_fix_lease, HOST_ATTACH, NULL, NULL);
}

int holder_fix_teardown(void **state)
{
	(void)state;
	if (holder_fix_lease)
		host_leave(holder_fix_lease);
	holder_fix_lease = NULL;
	return holder_fix_status() ? -1 : 0;
}

struct host *holder_fix_join(void)
{
	struct host *h;

	assert_int_equal(host_join(&h), 0);
	return h;
}

int holder_fix_event(struct host *h, struct host_event *e)
{
	struct pollfd p = { .fd = host_fd(h), .events = POLLIN };

	return poll(&p, 1, -1) == 1 ? host_read(h, e) : -errno;
}

int holder_fix_enter(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return netns_enter();
}
