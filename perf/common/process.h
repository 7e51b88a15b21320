/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - a helper process that says when it is ready, then answers and lives until
 * it is told to end, or its parent dies.
 */
#ifndef TENT_PERF_PROCESS_H
#define TENT_PERF_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The life of a helper, in its own process. */
struct helper {
	int fd;			/* of a socketpair with the parent */
};

/* Tells the parent one line of text (no newline in it): that it is ready, then answers to
 * process_ask(). 0 or -1. */
int helper_say(struct helper *h, const char *text);
/* The next line of the parent; false: it wants the helper to end. */
bool helper_next(struct helper *h, char *text, size_t size);
/* For those who are never asked: returns when the parent wants it to end. */
void helper_wait(struct helper *h);

struct process {
	pid_t pid;
	int fd;
	char said[128];		/* what helper_say() got last */
};

/* Forks: the child runs body(helper, arg) and exits with what it returns. To be
 * called before this process has threads. Waits for helper_say(). 0, or -1 after
 * saying why on stderr. */
int process_start(struct process *p, const char *name,
		  int (*body)(struct helper *h, const void *arg), const void *arg);

/* Tells it one line and waits for its answer. 0, or -1: it has ended. */
int process_ask(struct process *p, const char *text);

/* Asks it to end and waits: its exit status, or 128 + the signal. Safe on a zeroed
 * struct. */
int process_stop(struct process *p);

#endif /* TENT_PERF_PROCESS_H */
