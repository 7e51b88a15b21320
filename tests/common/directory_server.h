/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_server.h - an etcd or a Redis of a test's own, as Debian has it, at a port
 * that was free. Whatever goes wrong in starting it ends the test program.
 */
#ifndef TENT_TESTS_DIRECTORY_SERVER_H
#define TENT_TESTS_DIRECTORY_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct directory_server {
	const char *type;	/* "etcd" or "redis" */
	uint16_t port, other_port;
	char address[32];	/* 127.0.0.1:port */
	char folder[32];
	pid_t pid;
};

/* A port of this host that nobody has; somebody may take it. */
uint16_t free_port(void);

/* Returns when it answers. */
void directory_server_start(struct directory_server *s, const char *type);
/* Kills it; etcd keeps what it knows, Redis does not. */
void directory_server_kill(struct directory_server *s);
/* Again, at the same port. */
void directory_server_restart(struct directory_server *s);
void directory_server_stop(struct directory_server *s);

/* Writes a key behind everybody's back. */
void directory_server_put(const struct directory_server *s, const char *key, const char *value);

#endif /* TENT_TESTS_DIRECTORY_SERVER_H */
