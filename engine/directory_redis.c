/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_redis.c - Redis as a directory. Each name is a key with a lifetime of its own,
 * so all of them are written again before it is over. What compares and writes is a
 * script, which Redis runs as one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory_api.h"
#include "engine/directory_server.h"
#include "engine/segment_name.h"

#define PORT 6379
#define WORDS_MAX 8

/* KEYS[1]; ARGV: value, lifetime in ms, a value that gives way. Nil, or what is there. */
static const char publish_script[] =
	"local held = redis.call('GET', KEYS[1]) "
	"if held and held ~= ARGV[1] and held ~= ARGV[3] then return held end "
	"redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return false";
static const char withdraw_script[] =
	"if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end "
	"return false";

struct server {
	struct server_list list;
	uint32_t db, ttl_s;
	struct redis_context *context;	/* NULL: not connected */
};

static struct hiredis_api api;	/* constant once the_once is over, like the next two */
static bool is_there;
static char what_lacks[160];
static pthread_once_t the_once = PTHREAD_ONCE_INIT;

static void load_once(void)
{
	is_there = hiredis_api_load(&api, HIREDIS_LIBRARY, what_lacks, sizeof(what_lacks));
}

static bool redis_load(char why[WHY_SIZE])
{
	pthread_once(&the_once, load_once);
	if (!is_there)
		snprintf(why, WHY_SIZE, "%s (apt-get install libhiredis0.14)", what_lacks);
	return is_there;
}

/* ---- connections ------------------------------------------------------- */

static struct timeval time_of(unsigned int ms)
{
	return (struct timeval){ .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };
}

static void hang_up(struct server *s)
{
	if (s->context)
		api.redisFree(s->context);
	s->context = NULL;
}

/* -EIO: this server does not answer; the next one may. */
static int fail(struct server *s, char why[WHY_SIZE], const char *reason)
{
	snprintf(why, WHY_SIZE, "Redis at %.100s: %.100s", server_list_name(&s->list), reason);
	hang_up(s);
	server_list_next(&s->list);
	return -EIO;
}

static struct redis_reply *say(struct server *s, int nr, const char *const *words)
{
	size_t lengths[WORDS_MAX];

	for (int i = 0; i < nr; i++)
		lengths[i] = strlen(words[i]);
	return api.redisCommandArgv(s->context, nr, (const char **)(uintptr_t)words, lengths);
}

static int select_db(struct server *s, char why[WHY_SIZE])
{
	char number[16];
	const char *const words[] = { "SELECT", number };
	struct redis_reply *r;
	int rc = 0;

	snprintf(number, sizeof(number), "%u", s->db);
	r = s->db ? say(s, 2, words) : NULL;
	if (s->db && (!r || r->type == REPLY_ERROR))
		rc = fail(s, why, r ? r->str : s->context->errstr);
	if (r)
		api.freeReplyObject(r);
	return rc;
}

/* "host:port", "host", or either behind "redis://". */
static bool read_address(const char *text, char host[HOST_SIZE], int *port)
{
	struct engine_address a;
	struct segment_name n;
	const char *from = strncmp(text, "redis://", 8) ? text : text + 8;
	bool whole = !segment_name_read(from, &n) && n.form == SEGMENT_ADDRESS && !*n.text;

	if (whole)
		a = n.engine;
	else if (host_read(from, strlen(from), &a))
		return false;
	snprintf(host, HOST_SIZE, "%s", a.host);
	*port = whole ? a.port : PORT;
	return true;
}

static int connect_server(struct server *s, char why[WHY_SIZE])
{
	char host[HOST_SIZE];
	int port;

	if (s->context)
		return 0;
	if (!read_address(server_list_name(&s->list), host, &port))
		return fail(s, why, "not a host and a port");
	s->context = api.redisConnectWithTimeout(host, port, time_of(SERVER_CONNECT_MS));
	if (!s->context || s->context->err)
		return fail(s, why, s->context ? s->context->errstr : "out of memory");
	api.redisSetTimeout(s->context, time_of(SERVER_OP_MS));
	return select_db(s, why);
}

/* 0 and the reply, the caller's to free. A connection that the server closed while nobody
 * needed it is opened again, once. */
static int ask(struct server *s, int nr, const char *const *words, struct redis_reply **reply,
	       char why[WHY_SIZE])
{
	bool was_open = s->context;
	int rc = connect_server(s, why);

	if (rc)
		return rc;
	*reply = say(s, nr, words);
	if (!*reply && was_open) {
		hang_up(s);
		rc = connect_server(s, why);
		if (rc)
			return rc;
		*reply = say(s, nr, words);
	}
	if (!*reply)
		return fail(s, why, s->context->errstr);
	if ((*reply)->type != REPLY_ERROR)
		return 0;
	rc = fail(s, why, (*reply)->str);
	api.freeReplyObject(*reply);
	return rc;
}

/* ---- operations -------------------------------------------------------- */

/* True: a text that fits. */
static bool take_text(const struct redis_reply *r, char text[VALUE_SIZE])
{
	if (r->type != REPLY_STRING || r->len >= VALUE_SIZE || strlen(r->str) != r->len)
		return false;
	memcpy(text, r->str, r->len + 1);
	return true;
}

static int redis_publish(struct server *s, const char *key, const char *value, const char *old,
			 char held[VALUE_SIZE], char why[WHY_SIZE])
{
	char ttl_ms[24];
	const char *const words[] = { "EVAL", publish_script, "1", key, value, ttl_ms,
				      old ? old : value };
	struct redis_reply *r;
	int rc;

	snprintf(ttl_ms, sizeof(ttl_ms), "%llu", s->ttl_s * 1000ull);
	rc = ask(s, 7, words, &r, why);
	if (rc)
		return rc;
	if (r->type != REPLY_NIL) {
		rc = -EEXIST;
		if (!take_text(r, held))
			held[0] = '\0';
	}
	api.freeReplyObject(r);
	return rc;
}

static int redis_refresh(struct server *s, char why[WHY_SIZE])
{
	(void)s, (void)why;
	return -ENOENT;		/* each key has its own lifetime */
}

static int redis_withdraw(struct server *s, const char *key, const char *value,
			  char why[WHY_SIZE])
{
	const char *const words[] = { "EVAL", withdraw_script, "1", key, value };
	struct redis_reply *r;
	int rc = ask(s, 5, words, &r, why);

	if (rc == 0)
		api.freeReplyObject(r);
	return rc;
}

static int redis_lookup(struct server *s, const char *key, char value[VALUE_SIZE],
			char why[WHY_SIZE])
{
	const char *const words[] = { "GET", key };
	struct redis_reply *r;
	int rc = ask(s, 2, words, &r, why);

	if (rc)
		return rc;
	if (r->type == REPLY_NIL)
		rc = -ENOENT;
	else if (!take_text(r, value))
		value[0] = '\0';	/* is no entry */
	api.freeReplyObject(r);
	return rc;
}

/* ---- life -------------------------------------------------------------- */

static struct server *redis_open(const struct server_settings *settings, char why[WHY_SIZE])
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s) {
		snprintf(why, WHY_SIZE, "no memory for a directory");
		return NULL;
	}
	s->db = settings->redis_db;
	s->ttl_s = settings->ttl_s;
	if (server_list_read(&s->list, settings->servers, why))
		return s;
	free(s);
	return NULL;
}

static void redis_close(struct server *s)
{
	hang_up(s);
	free(s);
}

const struct server_kind redis_kind = {
	.name = "redis", .load = redis_load, .open = redis_open, .close = redis_close,
	.publish = redis_publish, .refresh = redis_refresh, .withdraw = redis_withdraw,
	.lookup = redis_lookup,
};
