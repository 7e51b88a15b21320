/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_mhd.h - the few calls of libmicrohttpd that tentd makes, loaded by name: a
 * tentd without it runs all the same. Numbers and types are the library's ABI;
 * tests/test_tools_metrics.c compares them with its header.
 */
#ifndef TENT_TOOLS_TENTD_MHD_H
#define TENT_TOOLS_TENTD_MHD_H

#include <stddef.h>
#include <stdint.h>

#define MHD_LIBRARY "libmicrohttpd.so.12"

struct MHD_Daemon;
struct MHD_Connection;
struct MHD_Response;

enum {
	HTTP_USE_AUTO_INTERNAL_THREAD = 65536 | 8,
	HTTP_OPTION_END = 0,
	HTTP_OPTION_CONNECTION_MEMORY_LIMIT = 1,	/* size_t */
	HTTP_OPTION_CONNECTION_LIMIT = 2,		/* unsigned int */
	HTTP_OPTION_CONNECTION_TIMEOUT = 3,		/* unsigned int, seconds */
	HTTP_OPTION_LISTEN_SOCKET = 12,			/* int; the library closes it */
	HTTP_OPTION_THREAD_STACK_SIZE = 19,		/* size_t */
	HTTP_OPTION_NOTIFY_CONNECTION = 27,		/* http_notify, void * */
	HTTP_CONNECTION_STARTED = 0,
	HTTP_CONNECTION_CLOSED = 1,
	HTTP_INFO_CONNECTION_FD = 6,
	HTTP_RESPONSE_COPIED = 2,
	HTTP_NO = 0,
	HTTP_YES = 1
};

/* Called at the head of a request, and again for its body. */
typedef int http_handler(void *context, struct MHD_Connection *connection, const char *url,
			 const char *method, const char *version, const char *upload,
			 size_t *upload_size, void **request);
typedef void http_notify(void *context, struct MHD_Connection *connection,
			 void **socket_context, int what);

#define MHD_SYMBOLS(X)								\
	X(struct MHD_Daemon *, MHD_start_daemon,				\
	  (unsigned int flags, uint16_t port, void *accept, void *accept_context, \
	   http_handler *handler, void *context, ...))				\
	X(void, MHD_stop_daemon, (struct MHD_Daemon *))				\
	X(struct MHD_Response *, MHD_create_response_from_buffer,		\
	  (size_t size, void *bytes, int mode))					\
	X(int, MHD_add_response_header,						\
	  (struct MHD_Response *, const char *name, const char *value))		\
	X(int, MHD_queue_response, (struct MHD_Connection *, unsigned int status, \
				    struct MHD_Response *))			\
	X(void, MHD_destroy_response, (struct MHD_Response *))			\
	X(const void *, MHD_get_connection_info, (struct MHD_Connection *, int type, ...))

struct mhd_api {
#define MHD_MEMBER(type, name, args) type (*name) args;
	MHD_SYMBOLS(MHD_MEMBER)
#undef MHD_MEMBER
};

/* 0, or -ENOENT with *missing naming the library or the symbol that was not there. */
int mhd_load(struct mhd_api *api, const char *library, const char **missing);

#endif /* TENT_TOOLS_TENTD_MHD_H */
