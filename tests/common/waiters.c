/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.c - see waiters.h. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/raw.h"
#include "tests/common/waiters.h"

#define ENTRIES 15000u	/* of one poll(), where the limit on descriptors allows it */

static void wait_for_ever(int fd, int other_fd)
{
	struct pollfd *entries = calloc(ENTRIES, sizeof(*entries));
	struct rlimit l;
	nfds_t n;

	need(entries && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	need(getrlimit(RLIMIT_NOFILE, &l) == 0);
	l.rlim_cur = l.rlim_max;
	need(setrlimit(RLIMIT_NOFILE, &l) == 0);
	n = l.rlim_cur < ENTRIES ? l.rlim_cur : ENTRIES;
	for (nfds_t i = 0; i < n; i++)
		entries[i] = (struct pollfd){ .fd = i % 2 ? other_fd : fd, .events = POLLMSG };
	poll(entries, n, -1);
	_exit(1);
}

/* It sleeps nowhere else. */
static bool is_in_poll(pid_t child)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	f = fopen(path, "re");
	need(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state != 'Z');
	fclose(f);
	return state == 'S';
}

void waiters_start(struct waiters *w, int fd, int other_fd)
{
	for (int i = 0; i < WAITERS; i++) {
		w->children[i] = fork();
		if (w->children[i] == 0)
			wait_for_ever(fd, other_fd);
	}
	for (int i = 0; i < WAITERS; i++)
		while (!is_in_poll(w->children[i]))
			sched_yield();
}

void waiters_end(const struct waiters *w)
{
	for (int i = 0; i < WAITERS; i++) {
		kill(w->children[i], SIGKILL);
		waitpid(w->children[i], NULL, 0);
	}
}
