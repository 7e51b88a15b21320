/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/tool/tool.h"

#define PATIENCE_MS 15000	/* for another's holder to begin, or to end */
#define PAUSE_MS 5

/* The sockets of all slots and of many clients. */
static void raise_file_limit(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static void close_from(int first)
{
	if (close_range((unsigned)first, ~0u, 0))
		for (int fd = first; fd < 1024; fd++)
			close(fd);
}

/* Nothing of the caller's stays with it: no descriptor, folder, terminal or signal mask. */
static void become_daemon(int *report_fd)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	*report_fd = dup2(*report_fd, 3);
	close_from(4);
	if (chdir("/"))
		_exit(1);
	umask(022);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, "tent-sim-host");
	raise_file_limit();
}

static void begin_holder(const struct holder_config *c, int report_fd)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid)
		_exit(pid < 0);
	become_daemon(&report_fd);
	_exit(holder_run(c, report_fd) ? 1 : 0);
}

/* What the holder has to say, until it is ready or has ended. */
static void hear(int fd, char text[HOST_TEXT_BYTES])
{
	size_t at = 0;
	ssize_t n;

	do {
		n = read(fd, text + at, HOST_TEXT_BYTES - 1 - at);
		at += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && !memchr(text, '\0', at)) || (n < 0 && errno == EINTR));
	text[at] = '\0';
}

/* 0: there is one now, perhaps another's; else it has said why not. */
static int start_holder(const struct holder_config *c)
{
	char text[HOST_TEXT_BYTES];
	int report[2];
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		return tool_fail(1, "pipe: %m");
	pid = fork();
	if (pid < 0)
		return tool_fail(1, "fork: %m");
	if (!pid)
		begin_holder(c, report[1]);
	close(report[1]);
	waitpid(pid, NULL, 0);
	hear(report[0], text);
	close(report[0]);
	return *text ? tool_fail(1, "the host cannot begin: %s", text) : 0;
}

int tool_attach(struct host **out, const struct holder_config *c)
{
	struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	char text[HOST_TEXT_BYTES] = "";
	int rc = 0;

	for (int i = 0; i < PATIENCE_MS / PAUSE_MS; i++) {
		rc = host_open(out, HOST_ATTACH, c, text);
		if (rc == -ENOENT && start_holder(c))
			return 1;
		if (rc != -ENOENT && rc != -ERESTART)
			break;
		if (i)
			nanosleep(&pause, NULL);
	}
	if (!rc)
		return 0;
	return tool_fail(1, "%s", *text ? text : strerror(-rc));
}
