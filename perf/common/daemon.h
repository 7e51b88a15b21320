/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - a tentd of our own on a temporary socket, gone when we are. */
#ifndef TENT_PERF_DAEMON_H
#define TENT_PERF_DAEMON_H

#include <stddef.h>
#include <sys/types.h>

struct daemon {
	pid_t pid;
	char folder[96];	/* mkdtemp: config, socket, log */
	char socket[108];	/* as long as sockets may be */
	char url[116];		/* "unix:" + socket, for TENT_ENGINE */
};

/* A member of "engine" for programs that judge what happens, not how soon: on a machine
 * with other work a request may wait longer than those ten seconds that are usual. */
#define DAEMON_PATIENT "\"request_timeout_ms\": 600000"

/* Starts tentd. config: members of its JSON object ("\"engine\": {...}"), may be
 * ""; the socket is added.
 * Returns once the socket accepts. 0, or -1 after saying why on stderr with the
 * daemon's own words. */
int daemon_start(struct daemon *d, const char *config);
/* The same by tent-sim: on software ConnectX devices. sim: its options; NULL ends them. */
int daemon_start_on(struct daemon *d, const char *config, const char *const *sim);

/* SIGTERM, waits, removes the folder. The exit status, or 128 + signal. Safe on
 * a zeroed struct. */
int daemon_stop(struct daemon *d);

/* Any path relative to the folder everything was built in, there or not. */
int daemon_program_path(const char *name, char *path, size_t size);

#endif /* TENT_PERF_DAEMON_H */
