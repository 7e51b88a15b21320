/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - runs one of our programs as a child and keeps what it prints. */
#ifndef TENT_TESTS_PROGRAM_H
#define TENT_TESTS_PROGRAM_H

#include <sys/types.h>

#define PROGRAM_ARGS_MAX 24

struct program {
	pid_t pid;
	int pidfd;
	int out, err;		/* unlinked files that it writes */
	int status;		/* exit status, 128 + signal; -1 while it runs */
	char output[65536];	/* what it printed on stdout, after program_wait() */
	char errors[65536];	/* on stderr */
};

/* $build/name, where $build/tests/ holds the running test; aborts if it is not there. */
void program_path(char path[4096], const char *name);

/* Starts $build/path ("tools/tentd"), where $build/tests/ holds the running test.
 * args ends with NULL. env: "NAME=value" or NULL. uid: to become, or 0. */
void program_start(struct program *p, const char *path, const char *const *args,
		   const char *env, uid_t uid);

/* Waits for its end and returns the exit status. */
int program_wait(struct program *p);

/* program_start() and program_wait(). */
int program_run(struct program *p, const char *path, const char *const *args);

/* What it has printed on stderr so far, or on stdout. */
const char *program_errors(struct program *p);
const char *program_output(struct program *p);

/* Has it ended? Waits for nothing. */
int program_ended(const struct program *p);

#endif /* TENT_TESTS_PROGRAM_H */
