/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - fork, one line up, end of file down. */
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

int helper_ready(struct helper *h, const char *text)
{
	size_t length = strlen(text);

	if (write(h->fd, text, length) != (ssize_t)length || write(h->fd, "\n", 1) != 1)
		return -1;
	return 0;
}

void helper_wait(struct helper *h)
{
	char byte;

	while (read(h->fd, &byte, 1) < 0 && errno == EINTR)
		;
}

static int await_ready(struct process *p, const char *name)
{
	size_t nr = 0;

	while (nr < sizeof(p->said) - 1 && read(p->fd, p->said + nr, 1) == 1) {
		if (p->said[nr] == '\n') {
			p->said[nr] = '\0';
			return 0;
		}
		nr++;
	}
	fprintf(stderr, "%s did not start\n", name);
	process_stop(p);
	return -1;
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
