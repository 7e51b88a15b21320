/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_server.h - what the worker wants of a kind of server. All of it is called on
 * the worker's thread only and may wait, for SERVER_OP_MS at most. A call that fails says
 * why in a sentence, which names the server.
 */
#ifndef TENT_ENGINE_DIRECTORY_SERVER_H
#define TENT_ENGINE_DIRECTORY_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_PREFIX "mooncake/tent/"
#define KEY_SIZE 96u
#define VALUE_SIZE 1024u	/* of what we publish, and what we take */
#define WHY_SIZE 240u
#define SERVER_CONNECT_MS 1000
#define SERVER_OP_MS 2000
#define SERVERS_MAX 8u
#define SERVER_SIZE 256u

struct server;

struct server_settings {
	const char *servers;	/* as configured */
	uint32_t redis_db;
	uint32_t ttl_s;
};

struct server_kind {
	const char *name;
	/* Finds its library; may wait for the disk. */
	bool (*load)(char why[WHY_SIZE]);
	/* NULL: the list of servers is none, or there is no memory. Connects to nothing. */
	struct server *(*open)(const struct server_settings *s, char why[WHY_SIZE]);
	void (*close)(struct server *s);

	/* 0: the key has the value, until the lifetime is over. -EEXIST: somebody else's is
	 * there, and in held; it gives way only if it is old (or old is NULL). -EIO. */
	int (*publish)(struct server *s, const char *key, const char *value, const char *old,
		       char held[VALUE_SIZE], char why[WHY_SIZE]);
	/* A third of the lifetime is over. 0: all that is published lives on; -ENOENT: it has
	 * to be published again; -EIO. */
	int (*refresh)(struct server *s, char why[WHY_SIZE]);
	/* 0: the key does not have the value any more. -EIO. */
	int (*withdraw)(struct server *s, const char *key, const char *value,
			char why[WHY_SIZE]);
	/* 0 and the value; -ENOENT: there is no such key; -EIO. */
	int (*lookup)(struct server *s, const char *key, char value[VALUE_SIZE],
		      char why[WHY_SIZE]);
};

extern const struct server_kind etcd_kind, redis_kind;

/* directory_list.c: the servers of a configuration, separated by commas or semicolons;
 * the one in use is asked until it does not answer. */
struct server_list {
	char names[SERVERS_MAX][SERVER_SIZE];
	uint32_t nr, at;
};

/* False: it is empty, too long, or one of them has characters that no name has. */
bool server_list_read(struct server_list *l, const char *text, char why[WHY_SIZE]);
const char *server_list_name(const struct server_list *l);
/* The one in use does not answer. */
void server_list_next(struct server_list *l);

#endif /* TENT_ENGINE_DIRECTORY_SERVER_H */
