/* SPDX-License-Identifier: Apache-2.0 */
/* tentd.h - a tentd of a test's own: real, in a temporary folder, known to be ready. */
#ifndef TENT_TESTS_TENTD_H
#define TENT_TESTS_TENTD_H

#include "tests/common/program.h"

struct tentd {
	struct program program;
	char folder[64];
	char socket[96];	/* in the folder */
	char config[96];	/* path of its configuration, in the folder */
	const char *const *sim;	/* options of a tent-sim to run it under; NULL: none */
	int notify;		/* plays the service manager */
	char notify_path[96];
};

/* A folder and a notification socket; nothing runs yet. */
void tentd_prepare(struct tentd *t);

/* Writes the configuration file: the whole JSON text. */
void tentd_configure(struct tentd *t, const char *json);

/* Starts tentd with its socket and, if one was written, its configuration; args
 * follow, NULL for none. */
void tentd_start(struct tentd *t, const char *const *args);

/* The next message to the service manager, or "" once tentd has ended without one. */
const char *tentd_message(struct tentd *t);

/* Starts, and waits until it says that it is ready; aborts the test if it ends. */
void tentd_start_ready(struct tentd *t, const char *const *args);

/* Sends a signal and returns the exit status. */
int tentd_end(struct tentd *t, int signal_number);

/* Kills what still runs and removes the folder. */
void tentd_cleanup(struct tentd *t);

#endif /* TENT_TESTS_TENTD_H */
