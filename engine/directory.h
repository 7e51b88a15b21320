/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory.h - a server that knows which engine has the segment of a name, so that it
 * can be opened by its name alone. Off by default: then names are addresses (p2p).
 *
 *   directory.c         the control thread's half: names of ours, clients that ask
 *   directory_worker.c  a thread that talks to the server; nobody else waits for it
 *   directory_entry.c   what a name is published as
 *   directory_etcd.c    etcd's JSON gateway, by libcurl
 *   directory_redis.c   Redis, by hiredis
 *   directory_list.c    what all servers' code shares: the list of servers
 *
 * What the server says is hostile: it is an address to try, and who answers there proves
 * itself as for any other. What we publish lives as long as we say so every third of its
 * lifetime; an engine that died is forgotten after that.
 */
#ifndef TENT_ENGINE_DIRECTORY_H
#define TENT_ENGINE_DIRECTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct client;
struct directory;
struct engine;

/* Before the control thread, and after links_open(). 0 and e->directory, which stays NULL
 * without one; or a negative enum tent_error with a sentence. */
int directory_open(struct engine *e, char *error, size_t size);
/* No control thread runs any more: takes back what was published, for some seconds at
 * most, and posts what was asked and not answered. May be repeated. */
void directory_close(struct engine *e);

/* A segment of ours got a name, or lost it. */
void directory_publish(struct engine *e, const char *text);
void directory_withdraw(struct engine *e, const char *text);

/* Answers the client's SEGMENT_OPEN once the server has said where that is. */
void directory_ask(struct engine *e, struct client *c, const char *text);
/* The client ends: it waits no more. */
void directory_forget(struct client *c);

/* For TENT_QUERY_PEERS. */
json_t *directory_json(const struct engine *e);

#endif /* TENT_ENGINE_DIRECTORY_H */
