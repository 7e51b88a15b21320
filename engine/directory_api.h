/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_api.h - what we use of libcurl and hiredis. They are found by name, and only
 * where the configuration names such a directory. Types and numbers are of their ABIs;
 * tests/test_directory.c holds them against their headers.
 */
#ifndef TENT_ENGINE_DIRECTORY_API_H
#define TENT_ENGINE_DIRECTORY_API_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>

#define CURL_LIBRARY "libcurl.so.4"
#define HIREDIS_LIBRARY "libhiredis.so.0.14"

/* ---- libcurl: names without CURL ---- */

struct curl_list;	/* curl_slist */

#define CURL_FUNCTIONS(X)							\
	X(int, curl_global_init, (long flags))					\
	X(void *, curl_easy_init, (void))					\
	X(void, curl_easy_cleanup, (void *easy))				\
	X(int, curl_easy_setopt, (void *easy, int option, ...))			\
	X(int, curl_easy_perform, (void *easy))					\
	X(int, curl_easy_getinfo, (void *easy, int info, ...))			\
	X(const char *, curl_easy_strerror, (int code))				\
	X(struct curl_list *, curl_slist_append, (struct curl_list *list, const char *text)) \
	X(void, curl_slist_free_all, (struct curl_list *list))

enum {
	OPT_WRITEDATA = 10001, OPT_URL = 10002, OPT_POSTFIELDS = 10015,
	OPT_HTTPHEADER = 10023, OPT_NOPROXY = 10177, OPT_WRITEFUNCTION = 20011,
	OPT_NOSIGNAL = 99, OPT_TIMEOUT_MS = 155, OPT_CONNECTTIMEOUT_MS = 156,
	OPT_PROTOCOLS = 181,
	INFO_RESPONSE_CODE = 0x200002,
	PROTO_HTTP = 1, PROTO_HTTPS = 2,
	GLOBAL_DEFAULT = 3,
	CURL_GOOD = 0		/* CURLE_OK */
};

/* ---- hiredis: their names with a dash ---- */

enum {
	REPLY_STRING = 1, REPLY_INTEGER = 3, REPLY_NIL = 4, REPLY_STATUS = 5, REPLY_ERROR = 6
};

struct redis_reply {	/* redisReply, its beginning */
	int type;
	long long integer;
	size_t len;
	char *str;
};

struct redis_context {	/* redisContext, its beginning */
	int err;
	char errstr[128];
};

#define HIREDIS_FUNCTIONS(X)							\
	X(struct redis_context *, redisConnectWithTimeout,			\
	  (const char *host, int port, struct timeval timeout))			\
	X(int, redisSetTimeout, (struct redis_context *c, struct timeval timeout)) \
	X(struct redis_reply *, redisCommandArgv,				\
	  (struct redis_context *c, int nr, const char **words, const size_t *lengths)) \
	X(void, freeReplyObject, (void *reply))					\
	X(void, redisFree, (struct redis_context *c))

#define API_POINTER(result, name, args) result (*name) args;
struct curl_api {
	CURL_FUNCTIONS(API_POINTER)
};
struct hiredis_api {
	HIREDIS_FUNCTIONS(API_POINTER)
};
#undef API_POINTER

/* Fills a table. False: the sentence of what is missing is in missing. */
bool curl_api_load(struct curl_api *api, const char *library, char *missing, size_t size);
bool hiredis_api_load(struct hiredis_api *api, const char *library, char *missing,
		      size_t size);

#endif /* TENT_ENGINE_DIRECTORY_API_H */
