/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_http.c - /metrics and /health. One thread of libmicrohttpd's serves them, and is a
 * client of the engine's like tentctl: it takes no lock that anything else of tentd's
 * takes. Who asks is anybody: connections are bounded, requests are small, no body is
 * read, and the engine is asked ten times a second at most.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tent/tentring.h>

#include "engine/thread.h"
#include "ring/client.h"
#include "ring/clock.h"
#include "tools/tentd_metrics.h"
#include "tools/tentd_mhd.h"

#define CONNECTIONS_KEPT 32u	/* one more, and the oldest goes */
#define CONNECTIONS_MAX (2u * CONNECTIONS_KEPT)
#define REQUEST_MAX ((size_t)16384)	/* bytes of one connection's memory */
#define SILENCE_S 10u
#define STACK_BYTES ((size_t)262144)
#define FRESH_NS 100000000ull	/* an answer is given again for so long */
#define NICER 10		/* than the rest of tentd: pollers and clients go first */
#define BACKLOG 64

struct metrics {
	struct mhd_api api;
	struct MHD_Daemon *daemon;
	int listener;
	/* the library's thread: */
	struct tent_client *client;	/* of the engine */
	char *text;			/* of /metrics; NULL: the engine did not answer */
	uint64_t asked_ns;
	int fds[CONNECTIONS_MAX + 1];	/* connections, oldest first */
	uint32_t nr_fds;
};

int mhd_load(struct mhd_api *api, const char *library, const char **missing)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	*missing = library;
	if (!handle)
		return -ENOENT;
#define MHD_RESOLVE(type, name, args)					\
	*missing = #name;						\
	*(void **)&api->name = dlsym(handle, #name);			\
	if (!api->name)							\
		return -ENOENT;
	MHD_SYMBOLS(MHD_RESOLVE)
#undef MHD_RESOLVE
	*missing = NULL;
	return 0;
}

/* ---- connections ------------------------------------------------------- */

static void connection_gone(struct metrics *m, int fd)
{
	for (uint32_t i = 0; i < m->nr_fds; i++) {
		if (m->fds[i] != fd)
			continue;
		m->nr_fds--;
		memmove(&m->fds[i], &m->fds[i + 1], (m->nr_fds - i) * sizeof(m->fds[0]));
		return;
	}
}

/* The library stops accepting when it has too many: those who only hold connections
 * make room for those who ask. It sees the end of one that was shut down, and closes. */
static void connection_changed(void *context, struct MHD_Connection *connection,
			       void **socket_context, int what)
{
	struct metrics *m = context;
	const int *fd = m->api.MHD_get_connection_info(connection, HTTP_INFO_CONNECTION_FD);

	(void)socket_context;
	if (!fd)
		return;
	if (what == HTTP_CONNECTION_CLOSED) {
		connection_gone(m, *fd);
		return;
	}
	if (m->nr_fds <= CONNECTIONS_MAX)
		m->fds[m->nr_fds++] = *fd;
	if (m->nr_fds > CONNECTIONS_KEPT)
		shutdown(m->fds[m->nr_fds - CONNECTIONS_KEPT - 1], SHUT_RDWR);
}

/* ---- answers ----------------------------------------------------------- */

static int answer(struct metrics *m, struct MHD_Connection *connection, unsigned int status,
		  const char *type, const char *text)
{
	struct MHD_Response *r = m->api.MHD_create_response_from_buffer(strlen(text),
						(void *)(uintptr_t)text, HTTP_RESPONSE_COPIED);
	int rc;

	if (!r)
		return HTTP_NO;
	m->api.MHD_add_response_header(r, "Content-Type", type);
	if (status == 405)
		m->api.MHD_add_response_header(r, "Allow", "GET, HEAD");
	rc = m->api.MHD_queue_response(connection, status, r);
	m->api.MHD_destroy_response(r);
	return rc;
}

static int answer_plain(struct metrics *m, struct MHD_Connection *connection,
			unsigned int status, const char *text)
{
	return answer(m, connection, status, "text/plain; charset=utf-8", text);
}

/* What the engine says now, or said a moment ago. NULL: it does not answer. */
static const char *current(struct metrics *m)
{
	uint64_t now = clock_monotonic_ns();
	char *json;

	if (m->text && now - m->asked_ns < FRESH_NS)
		return m->text;
	free(m->text);
	m->text = NULL;
	m->asked_ns = now;
	if (tent_client_query(m->client, TENT_QUERY_METRICS, &json) == 0) {
		m->text = metrics_text(json);
		free(json);
	}
	return m->text;
}

static int serve(void *context, struct MHD_Connection *connection, const char *url,
		 const char *method, const char *version, const char *upload,
		 size_t *upload_size, void **request)
{
	bool is_metrics = strcmp(url, "/metrics") == 0, is_health = strcmp(url, "/health") == 0;
	struct metrics *m = context;
	const char *text;

	(void)version, (void)upload, (void)upload_size, (void)request;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return answer_plain(m, connection, 405, "only GET and HEAD are served\n");
	if (!is_metrics && !is_health)
		return answer_plain(m, connection, 404, "there are /metrics and /health\n");
	text = current(m);
	if (!text)
		return answer_plain(m, connection, 503, "the engine does not answer\n");
	return is_health ? answer_plain(m, connection, 200, "OK") :
	       answer(m, connection, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

/* ---- life -------------------------------------------------------------- */

static int listen_at(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* May wait for name servers: the engine runs, and needs nothing of this thread. */
static int open_listener(const struct engine_config *c, char *error, size_t size)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	const char *from = c->metrics_host + (c->metrics_host[0] == '[');
	char host[sizeof(c->metrics_host)], port[8];
	struct addrinfo *found;
	int rc;

	snprintf(host, sizeof(host), "%.*s", (int)strcspn(from, "]"), from);
	snprintf(port, sizeof(port), "%u", c->metrics_port);
	rc = getaddrinfo(host, port, &hints, &found);
	if (rc) {
		snprintf(error, size, "metrics/http_host is %s: %s", c->metrics_host,
			 gai_strerror(rc));
		return -EINVAL;
	}
	rc = listen_at(found);
	freeaddrinfo(found);
	if (rc < 0)
		snprintf(error, size, "metrics/http_port is %u: cannot listen at %s: %s",
			 c->metrics_port, c->metrics_host, strerror(-rc));
	return rc;
}

/* A thread that is nice itself: the one that the library starts inherits that, and who
 * called us stays as he was. */
static void *start_daemon(void *arg)
{
	struct metrics *m = arg;
	id_t tid = (id_t)syscall(SYS_gettid);

	setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + NICER);
	m->daemon = m->api.MHD_start_daemon(HTTP_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL,
		serve, m,
		HTTP_OPTION_LISTEN_SOCKET, m->listener,
		HTTP_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		HTTP_OPTION_CONNECTION_TIMEOUT, SILENCE_S,
		HTTP_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MAX,
		HTTP_OPTION_THREAD_STACK_SIZE, STACK_BYTES,
		HTTP_OPTION_NOTIFY_CONNECTION, (http_notify *)connection_changed, (void *)m,
		HTTP_OPTION_END);
	return NULL;
}

static int attach(struct metrics *m, struct engine *e, char *error, size_t size)
{
	struct tent_error_info info = { .size = sizeof(info) };
	int fd = engine_attach_local(e);

	if (fd >= 0 && client_observe_fd(fd, &m->client) == 0)
		return 0;
	if (fd >= 0)
		tent_client_error(&info);
	snprintf(error, size, "no connection to the engine: %s",
		 fd < 0 ? strerror(-fd) : info.message);
	return -EIO;
}

static int start(struct metrics *m, struct engine *e, const struct engine_config *c,
		 char *error, size_t size)
{
	const char *missing;
	pthread_t starter;
	int rc = mhd_load(&m->api, MHD_LIBRARY, &missing);

	if (rc < 0) {
		snprintf(error, size, "%s cannot be loaded (apt-get install libmicrohttpd12)",
			 missing);
		return rc;
	}
	m->listener = open_listener(c, error, size);
	if (m->listener < 0)
		return m->listener;
	rc = attach(m, e, error, size);
	if (rc < 0)
		return rc;
	rc = thread_start(&starter, NULL, start_daemon, m);
	if (rc == 0)
		pthread_join(starter, NULL);
	if (m->daemon)
		return 0;
	snprintf(error, size, "libmicrohttpd does not start");
	return rc ? rc : -ENOMEM;
}

int metrics_start(struct metrics **out, struct engine *e, const struct engine_config *c,
		  char *error, size_t size)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int rc;

	*out = NULL;
	if (!m) {
		snprintf(error, size, "out of memory");
		return -ENOMEM;
	}
	m->listener = -1;
	rc = start(m, e, c, error, size);
	if (rc == 0)
		*out = m;
	else
		metrics_stop(m);
	return rc;
}

void metrics_address(const struct metrics *m, char text[METRICS_ADDRESS_SIZE])
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(a);
	char host[64] = "?", port[8] = "?";
	bool brackets;

	getsockname(m->listener, (struct sockaddr *)&a, &length);
	getnameinfo((struct sockaddr *)&a, length, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	brackets = strchr(host, ':');
	snprintf(text, METRICS_ADDRESS_SIZE, "http://%s%s%s:%s/metrics", brackets ? "[" : "",
		 host, brackets ? "]" : "", port);
}

void metrics_stop(struct metrics *m)
{
	if (!m)
		return;
	if (m->daemon)
		m->api.MHD_stop_daemon(m->daemon);	/* closes the listener, and all others */
	else if (m->listener >= 0)
		close(m->listener);
	tent_client_detach(m->client);
	free(m->text);
	free(m);
}
