/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_etcd.c - etcd's v3 JSON gateway as a directory. All names hang on one lease,
 * so one call keeps them alive, and all are gone a lifetime after the last one. Keys and
 * values travel as base64, 64-bit numbers as text; a member that is 0 is not there.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory_api.h"
#include "engine/directory_server.h"

#define ANSWER_MAX 65536u
#define NUMBER_SIZE 24
#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4 + 1)
#define HTTP_GOOD 200

struct server {
	struct server_list list;
	uint32_t ttl_s;
	void *easy;
	struct curl_list *headers;
	char lease[NUMBER_SIZE];	/* "": none */
	char *answer;			/* ANSWER_MAX + 1 bytes */
	size_t answered;
};

static struct curl_api api;	/* constant once the_once is over, like the next two */
static bool is_there;
static char what_lacks[160];
static pthread_once_t the_once = PTHREAD_ONCE_INIT;

static void load_once(void)
{
	is_there = curl_api_load(&api, CURL_LIBRARY, what_lacks, sizeof(what_lacks)) &&
		   api.curl_global_init(GLOBAL_DEFAULT) == CURL_GOOD;
}

static bool etcd_load(char why[WHY_SIZE])
{
	pthread_once(&the_once, load_once);
	if (!is_there)
		snprintf(why, WHY_SIZE, "%s (apt-get install libcurl4)", what_lacks);
	return is_there;
}

/* ---- base64 ------------------------------------------------------------ */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(const char *text, char *out)
{
	const unsigned char *in = (const unsigned char *)text;

	for (size_t left = strlen(text); left; ) {
		size_t n = left < 3 ? left : 3;
		unsigned int bits = in[0] << 16 | (n > 1 ? in[1] << 8 : 0) | (n > 2 ? in[2] : 0);

		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = n > 1 ? digits[bits >> 6 & 63] : '=';
		*out++ = n > 2 ? digits[bits & 63] : '=';
		in += n;
		left -= n;
	}
	*out = '\0';
}

/* A text without zero bytes in it. False: it is none, or too long. */
static bool decode(const char *in, char out[VALUE_SIZE])
{
	size_t used = 0, length = strlen(in);
	unsigned int bits = 0, nr = 0;

	for (size_t i = 0; i < length && in[i] != '='; i++) {
		const char *digit = strchr(digits, in[i]);

		if (!digit)
			return false;
		bits = bits << 6 | (unsigned int)(digit - digits);
		nr += 6;
		if (nr < 8)
			continue;
		nr -= 8;
		if (used + 1 >= VALUE_SIZE || !(bits >> nr & 0xff))
			return false;
		out[used++] = (char)(bits >> nr & 0xff);
	}
	out[used] = '\0';
	return true;
}

/* ---- calls ------------------------------------------------------------- */

static size_t take_bytes(const char *bytes, size_t size, size_t nr, void *context)
{
	struct server *s = context;
	size_t n = size * nr;

	if (n > ANSWER_MAX - s->answered)
		return 0;	/* which ends the call */
	memcpy(s->answer + s->answered, bytes, n);
	s->answered += n;
	s->answer[s->answered] = '\0';
	return n;
}

/* -EIO: this server does not answer; the next one may. */
static int fail(struct server *s, char why[WHY_SIZE], const char *reason)
{
	snprintf(why, WHY_SIZE, "etcd at %.100s: %.100s", server_list_name(&s->list), reason);
	server_list_next(&s->list);
	return -EIO;
}

static void set_call(struct server *s, const char *path, const char *body)
{
	const char *name = server_list_name(&s->list);
	char url[SERVER_SIZE + 64];

	snprintf(url, sizeof(url), "%s%s%s", strstr(name, "://") ? "" : "http://", name, path);
	s->answered = 0;
	s->answer[0] = '\0';
	api.curl_easy_setopt(s->easy, OPT_URL, url);
	api.curl_easy_setopt(s->easy, OPT_POSTFIELDS, body);
}

/* What the server says is wrong; else its status. */
static int fail_status(struct server *s, long status, char why[WHY_SIZE])
{
	json_t *root = json_loads(s->answer, 0, NULL);
	const char *text = json_string_value(json_object_get(root, "message"));
	char reason[100];
	int rc;

	snprintf(reason, sizeof(reason), "HTTP %ld%s%.80s", status, text ? ", " : "",
		 text ? text : "");
	rc = fail(s, why, reason);
	json_decref(root);
	return rc;
}

/* Takes the reference of body. 0 and an object, the caller's. */
static int call(struct server *s, const char *path, json_t *body, json_t **answer,
		char why[WHY_SIZE])
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	long status = 0;
	int rc;

	json_decref(body);
	if (!text)
		return fail(s, why, "out of memory");
	set_call(s, path, text);
	rc = api.curl_easy_perform(s->easy);
	free(text);
	if (rc != CURL_GOOD)
		return fail(s, why, api.curl_easy_strerror(rc));
	api.curl_easy_getinfo(s->easy, INFO_RESPONSE_CODE, &status);
	if (status != HTTP_GOOD)
		return fail_status(s, status, why);
	*answer = json_loads(s->answer, 0, NULL);
	if (json_is_object(*answer))
		return 0;
	json_decref(*answer);
	return fail(s, why, "its answer is no JSON object");
}

/* ---- the lease --------------------------------------------------------- */

static int grant(struct server *s, char why[WHY_SIZE])
{
	const char *id;
	json_t *answer;
	int rc;

	if (s->lease[0])
		return 0;
	rc = call(s, "/v3/lease/grant", json_pack("{s:I}", "TTL", (json_int_t)s->ttl_s), &answer,
		  why);
	if (rc)
		return rc;
	id = json_string_value(json_object_get(answer, "ID"));
	if (!id || strlen(id) >= sizeof(s->lease) || !*id)
		rc = fail(s, why, "it grants no lease");
	else
		strcpy(s->lease, id);
	json_decref(answer);
	return rc;
}

/* One that is over has no lifetime in the answer. */
static int etcd_refresh(struct server *s, char why[WHY_SIZE])
{
	const char *ttl;
	json_t *answer;
	int rc;

	if (!s->lease[0])
		return -ENOENT;
	rc = call(s, "/v3/lease/keepalive", json_pack("{s:s}", "ID", s->lease), &answer, why);
	if (rc)
		return rc;
	ttl = json_string_value(json_object_get(json_object_get(answer, "result"), "TTL"));
	if (!ttl || strcmp(ttl, "0") == 0) {
		s->lease[0] = '\0';
		rc = -ENOENT;
	}
	json_decref(answer);
	return rc;
}

/* ---- operations -------------------------------------------------------- */

/* {compare: [compare], success: [what], failure: [read]} */
static json_t *transaction(json_t *compare, json_t *what, const char *key64)
{
	return json_pack("{s:[o],s:[o],s:[{s:{s:s}}]}", "compare", compare, "success", what,
			 "failure", "requestRange", "key", key64);
}

/* The value of the first key in a range's answer. 1: there is one; 0: none; -1: it is no
 * text that we could have written. */
static int first_value(const json_t *range, char value[VALUE_SIZE])
{
	const json_t *kv = json_array_get(json_object_get(range, "kvs"), 0);
	const char *text = json_string_value(json_object_get(kv, "value"));

	if (!kv)
		return 0;
	return text && decode(text, value) ? 1 : -1;
}

/* The key is not there, or has the value that gives way. */
static json_t *put_compare(const char *key64, const char *old64)
{
	if (old64)
		return json_pack("{s:s,s:s,s:s,s:s}", "target", "VALUE", "result", "EQUAL",
				 "key", key64, "value", old64);
	return json_pack("{s:s,s:s,s:s,s:s}", "target", "CREATE", "result", "EQUAL",
			 "key", key64, "create_revision", "0");
}

static int put(struct server *s, const char *key64, const char *value, const char *old,
	       char held[VALUE_SIZE], char why[WHY_SIZE])
{
	char value64[BASE64_SIZE(VALUE_SIZE)], old64[BASE64_SIZE(VALUE_SIZE)];
	json_t *answer;
	int rc;

	encode(value, value64);
	encode(old ? old : "", old64);
	rc = call(s, "/v3/kv/txn", transaction(put_compare(key64, old ? old64 : NULL),
		  json_pack("{s:{s:s,s:s,s:s}}", "requestPut", "key", key64, "value", value64,
			    "lease", s->lease), key64), &answer, why);
	if (rc)
		return rc;
	if (!json_is_true(json_object_get(answer, "succeeded"))) {
		rc = -EEXIST;
		if (first_value(json_object_get(json_array_get(json_object_get(answer,
				"responses"), 0), "response_range"), held) <= 0)
			held[0] = '\0';
	}
	json_decref(answer);
	return rc;
}

/* One of ours that still hangs on a lease that is over, or on none, is taken over. */
static int etcd_publish(struct server *s, const char *key, const char *value, const char *old,
			char held[VALUE_SIZE], char why[WHY_SIZE])
{
	char key64[BASE64_SIZE(KEY_SIZE)];
	int rc = grant(s, why);

	encode(key, key64);
	if (rc == 0)
		rc = put(s, key64, value, old, held, why);
	if (rc == -EEXIST && strcmp(held, value) == 0)
		rc = put(s, key64, value, value, held, why);
	return rc;
}

static int etcd_withdraw(struct server *s, const char *key, const char *value,
			 char why[WHY_SIZE])
{
	char key64[BASE64_SIZE(KEY_SIZE)], value64[BASE64_SIZE(VALUE_SIZE)];
	json_t *answer;
	int rc;

	encode(key, key64);
	encode(value, value64);
	rc = call(s, "/v3/kv/txn", transaction(put_compare(key64, value64),
		  json_pack("{s:{s:s}}", "requestDeleteRange", "key", key64), key64), &answer, why);
	if (rc == 0)
		json_decref(answer);
	return rc;
}

static int etcd_lookup(struct server *s, const char *key, char value[VALUE_SIZE],
		       char why[WHY_SIZE])
{
	char key64[BASE64_SIZE(KEY_SIZE)];
	json_t *answer;
	int rc, found;

	encode(key, key64);
	rc = call(s, "/v3/kv/range", json_pack("{s:s}", "key", key64), &answer, why);
	if (rc)
		return rc;
	found = first_value(answer, value);
	if (found < 0)
		value[0] = '\0';	/* is no entry */
	json_decref(answer);
	return found ? 0 : -ENOENT;
}

/* ---- life -------------------------------------------------------------- */

static bool prepare(struct server *s)
{
	s->answer = malloc(ANSWER_MAX + 1);
	s->easy = api.curl_easy_init();
	s->headers = api.curl_slist_append(NULL, "Content-Type: application/json");
	if (!s->answer || !s->easy || !s->headers)
		return false;
	api.curl_easy_setopt(s->easy, OPT_HTTPHEADER, s->headers);
	api.curl_easy_setopt(s->easy, OPT_WRITEFUNCTION, take_bytes);
	api.curl_easy_setopt(s->easy, OPT_WRITEDATA, s);
	api.curl_easy_setopt(s->easy, OPT_NOSIGNAL, 1l);
	api.curl_easy_setopt(s->easy, OPT_NOPROXY, "*");
	api.curl_easy_setopt(s->easy, OPT_PROTOCOLS, (long)(PROTO_HTTP | PROTO_HTTPS));
	api.curl_easy_setopt(s->easy, OPT_CONNECTTIMEOUT_MS, (long)SERVER_CONNECT_MS);
	api.curl_easy_setopt(s->easy, OPT_TIMEOUT_MS, (long)SERVER_OP_MS);
	return true;
}

static void etcd_close(struct server *s)
{
	if (s->easy)
		api.curl_easy_cleanup(s->easy);
	api.curl_slist_free_all(s->headers);
	free(s->answer);
	free(s);
}

static struct server *etcd_open(const struct server_settings *settings, char why[WHY_SIZE])
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s) {
		snprintf(why, WHY_SIZE, "no memory for a directory");
		return NULL;
	}
	s->ttl_s = settings->ttl_s;
	if (server_list_read(&s->list, settings->servers, why)) {
		if (prepare(s))
			return s;
		snprintf(why, WHY_SIZE, "libcurl does not start");
	}
	etcd_close(s);
	return NULL;
}

const struct server_kind etcd_kind = {
	.name = "etcd", .load = etcd_load, .open = etcd_open, .close = etcd_close,
	.publish = etcd_publish, .refresh = etcd_refresh, .withdraw = etcd_withdraw,
	.lookup = etcd_lookup,
};
