/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - see program.h. Whatever goes wrong here is the test's own fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/program.h"

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

void program_path(char path[4096], const char *name)
{
	ssize_t length = readlink("/proc/self/exe", path, 4000);

	check(length > 0, "readlink");
	path[length] = '\0';
	for (int up = 0; up < 2; up++) {	/* the test's name, and tests/ */
		char *slash = strrchr(path, '/');

		check(slash != NULL, path);
		*slash = '\0';
	}
	snprintf(path + strlen(path), 4096 - strlen(path), "/%s", name);
	check(access(path, X_OK) == 0, path);
}

static void become(const struct program *p, char *path, const char *const *args,
		   const char *env, uid_t uid)
{
	char *argv[PROGRAM_ARGS_MAX + 2] = { path };
	int file = open(path, O_PATH | O_CLOEXEC);	/* uid may not get there, as into /root */
	sigset_t none;

	for (int i = 0; args[i] && i < PROGRAM_ARGS_MAX; i++)
		argv[i + 1] = (char *)args[i];
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (env)
		putenv((char *)env);
	if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		_exit(126);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(p->out, 1) < 0 || dup2(p->err, 2) < 0)
		_exit(126);
	fexecve(file, argv, environ);
	_exit(127);
}

void program_start(struct program *p, const char *name, const char *const *args,
		   const char *env, uid_t uid)
{
	char path[4096];

	program_path(path, name);
	p->status = -1;
	p->out = memfd_create("stdout", MFD_CLOEXEC);
	p->err = memfd_create("stderr", MFD_CLOEXEC);
	check(p->out >= 0 && p->err >= 0, "memfd_create");
	p->pid = fork();
	check(p->pid >= 0, "fork");
	if (p->pid == 0)
		become(p, path, args, env, uid);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	check(p->pidfd >= 0, "pidfd_open");
}

static void read_text(int fd, char *text, size_t size)
{
	ssize_t length = pread(fd, text, size - 1, 0);

	check(length >= 0, "pread");
	text[length] = '\0';
}

int program_wait(struct program *p)
{
	int status;

	if (p->status >= 0)
		return p->status;
	while (waitpid(p->pid, &status, 0) < 0)
		check(errno == EINTR, "waitpid");
	p->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	read_text(p->out, p->output, sizeof(p->output));
	read_text(p->err, p->errors, sizeof(p->errors));
	close(p->out);
	close(p->err);
	close(p->pidfd);
	return p->status;
}

int program_run(struct program *p, const char *path, const char *const *args)
{
	program_start(p, path, args, NULL, 0);
	return program_wait(p);
}

const char *program_errors(struct program *p)
{
	if (p->status < 0)
		read_text(p->err, p->errors, sizeof(p->errors));
	return p->errors;
}

const char *program_output(struct program *p)
{
	if (p->status < 0)
		read_text(p->out, p->output, sizeof(p->output));
	return p->output;
}

int program_ended(const struct program *p)
{
	struct pollfd end = { .fd = p->pidfd, .events = POLLIN };

	return p->status >= 0 || poll(&end, 1, 0) == 1;
}
