/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - names and segments: control calls, one engine round trip each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/uring.h"
#include "lib/lib.h"

static int put_text(char *buf, size_t buf_len, const char *text, size_t length)
{
	if (!buf)
		return lib_fail_null("buf");
	if (length >= buf_len)
		return lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_ARG_VALUE, "buf_len",
				     "buf_len is %zu; allowed: at least %zu", buf_len, length + 1);
	memcpy(buf, text, length);
	buf[length] = 0;
	return 0;
}

int tent_segment_name(tent_engine_t engine, char *buf, size_t buf_len)
{
	struct lib_engine *e = lib_engine_enter(engine);
	const char *name;
	int rc;

	if (!e)
		return lib_last_error()->error;
	name = tent_client_segment(e->client);
	rc = put_text(buf, buf_len, name, strlen(name));
	lib_engine_leave(e);
	return rc;
}

/* "host:port", "[v6]:port", either with "/name" behind it. Returns the length of the
 * host, and its port. */
static size_t split_name(const char *name, uint16_t *port)
{
	size_t length = strcspn(name, "/");

	while (length && name[length - 1] != ':')
		length--;
	*port = (uint16_t)strtoul(name + length, NULL, 10);
	return length ? length - 1 : 0;
}

int tent_rpc_server_addr_port(tent_engine_t engine, char *addr_buf, size_t buf_len,
			      uint16_t *port)
{
	struct lib_engine *e = lib_engine_enter(engine);
	const char *name;
	uint16_t found;
	size_t length;
	int rc;

	if (!e)
		return lib_last_error()->error;
	name = tent_client_segment(e->client);
	length = split_name(name, &found);
	rc = port ? put_text(addr_buf, buf_len, name, length) : lib_fail_null("port");
	if (!rc)
		*port = found;
	lib_engine_leave(e);
	return rc;
}

/* tentd warns of this when it starts; an engine of the program's own when it matters. */
static void warn_of_threads(const struct lib_engine *e, const char *name)
{
	char why[256], line[320];

	if (!e->local || strncmp(name, "file://", 7) != 0 ||
	    kring_probe(NULL, why, sizeof(why)) == 0)
		return;
	snprintf(line, sizeof(line), "warning: %s; threads read and write files instead", why);
	lib_warn(line);
}

static int open_segment(struct lib_engine *e, tent_segment_id_t *handle, const char *name)
{
	if (!*name || !strcmp(name, tent_client_segment(e->client))) {
		*handle = TENT_LOCAL_SEGMENT;
		return 0;
	}
	if (tent_client_open_segment(e->client, name, handle))
		return lib_fail_client();
	warn_of_threads(e, name);
	return 0;
}

int tent_open_segment(tent_engine_t engine, tent_segment_id_t *handle, const char *segment_name)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc;

	if (!e)
		return lib_last_error()->error;
	if (!handle || !segment_name)
		rc = lib_fail_null(handle ? "segment_name" : "handle");
	else
		rc = open_segment(e, handle, segment_name);
	lib_engine_leave(e);
	return rc;
}

int tent_close_segment(tent_engine_t engine, tent_segment_id_t handle)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc = 0;

	if (!e)
		return lib_last_error()->error;
	if (handle != TENT_LOCAL_SEGMENT && tent_client_close_segment(e->client, handle))
		rc = lib_fail_client();
	lib_engine_leave(e);
	return rc;
}

int tent_get_segment_info(tent_engine_t engine, tent_segment_id_t handle,
			  tent_segment_info_t *info)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc = 0;

	if (!e)
		return lib_last_error()->error;
	if (!info)
		rc = lib_fail_null("info");
	else if (tent_client_segment_info(e->client, handle, info))
		rc = lib_fail_client();
	lib_engine_leave(e);
	return rc;
}

void tent_free_segment_info(tent_segment_info_t *info)
{
	if (!info)
		return;
	free(info->buffers);
	info->buffers = NULL;
	info->num_buffers = 0;
}

/* It was resolved when it was opened, and its engine is called again by itself when it
 * does not answer: what is left is to wait until it does. */
int tent_connect_segment(tent_engine_t engine, tent_segment_id_t handle, uint64_t timeout_ns)
{
	const struct timespec moment = { 0, 2000000 };
	uint64_t began = tent_monotonic_now_ns();
	tent_segment_info_t info;
	int rc;

	while ((rc = tent_get_segment_info(engine, handle, &info)) == TENT_ERR_PEER_UNREACHABLE &&
	       tent_monotonic_now_ns() - began < timeout_ns)
		nanosleep(&moment, NULL);
	if (!rc)
		tent_free_segment_info(&info);
	return rc;
}
