/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - fork, lines up and down, end of file down. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/common/machine.h"
#include "perf/common/process.h"

/* To somebody who is dead: an error, no signal. */
static int say(int fd, const char *text)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "%s\n", text);

	return send(fd, line, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
}

/* False: the other end is closed, or the line too long. */
static bool hear(int fd, char *text, size_t size)
{
	size_t nr = 0;
	ssize_t n;

	while (nr < size) {
		n = read(fd, text + nr, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != 1)
			return false;
		if (text[nr] == '\n') {
			text[nr] = '\0';
			return true;
		}
		nr++;
	}
	return false;
}

int helper_say(struct helper *h, const char *text)
{
	return say(h->fd, text);
}

bool helper_next(struct helper *h, char *text, size_t size)
{
	return hear(h->fd, text, size);
}

void helper_wait(struct helper *h)
{
	char byte;

	while (read(h->fd, &byte, 1) < 0 && errno == EINTR)
		;
}

static int await_ready(struct process *p, const char *name)
{
	if (hear(p->fd, p->said, sizeof(p->said)))
		return 0;
	fprintf(stderr, "%s did not start\n", name);
	process_stop(p);
	return -1;
}

int process_ask(struct process *p, const char *text)
{
	return say(p->fd, text) == 0 && hear(p->fd, p->said, sizeof(p->said)) ? 0 : -1;
}

static int become(const char *name, struct helper h, pid_t parent,
		  int (*body)(struct helper *h, const void *arg), const void *arg)
{
	int rc;

	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)	/* it died before we asked to be told */
		return 1;
	machine_unpin();
	rc = body(&h, arg);
	fflush(NULL);
	return rc;
}

int process_start(struct process *p, const char *name,
		  int (*body)(struct helper *h, const void *arg), const void *arg)
{
	pid_t parent = getpid();
	int ends[2];

	*p = (struct process) { 0 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		perror("socketpair");
		return -1;
	}
	fflush(NULL);
	p->pid = fork();
	if (p->pid == 0) {
		close(ends[0]);
		_exit(become(name, (struct helper) { ends[1] }, parent, body, arg));
	}
	close(ends[1]);
	p->fd = ends[0];
	if (p->pid > 0)
		return await_ready(p, name);
	perror("fork");
	close(ends[0]);
	return -1;
}

/* Closing would not do: helpers that were started later hold our end too. */
int process_stop(struct process *p)
{
	int status = 0;

	if (p->pid <= 0)
		return 0;
	shutdown(p->fd, SHUT_WR);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(p->fd);
	p->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
