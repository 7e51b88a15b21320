/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - all links of an engine: who may come, who stays, who is silent too long. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/peers.h"
#include "engine/wired.h"

#define ACCEPTS_PER_TURN 64	/* a flood fills the queue before honest ones */
#define PATROL_NS 50000000ull	/* half of what the control thread sleeps at most */
#define HELLO_LEAST 16u

/* ---- accepting --------------------------------------------------------- */

static uint32_t hello_max(const struct engine *e)
{
	uint32_t quarter = e->config.links_max / 4;

	return quarter > HELLO_LEAST ? quarter : HELLO_LEAST;
}

/* Of those that have not said who they are, the one that takes longest. */
static void end_oldest_stranger(struct engine *e)
{
	struct link *oldest = NULL;

	for (struct link *l = e->links.list; l; l = l->next)
		if (l->state == LINK_HELLO && !l->peer)
			oldest = l;
	if (oldest)
		link_end(e, oldest, "others came, and it had not said who it is");
}

static void print_from(const struct sockaddr_storage *a, char text[ADDRESS_SIZE])
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	struct engine_address from = { .kind = HOST_IPV4 };
	size_t used;

	if (a->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, from.host, sizeof(from.host));
		from.port = ntohs(v4->sin_port);
	} else {
		from.kind = HOST_IPV6;
		inet_ntop(AF_INET6, &v6->sin6_addr, from.host, sizeof(from.host));
		used = strlen(from.host);
		if (v6->sin6_scope_id)
			snprintf(from.host + used, sizeof(from.host) - used, "%%%u",
				 v6->sin6_scope_id);
		from.port = ntohs(v6->sin6_port);
	}
	engine_address_print(&from, text);
}

static void accept_link(struct engine *e, int fd, const struct sockaddr_storage *a)
{
	char from[ADDRESS_SIZE];
	int yes = 1;

	if (e->links.nr_hello >= hello_max(e))
		end_oldest_stranger(e);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	print_from(a, from);
	if (link_create(e, fd, from, NULL))
		e->links.accepted++;
}

/* False: nothing more to accept now. */
static bool accept_one(struct engine *e)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	int fd = accept4(e->links.fd, (struct sockaddr *)&a, &size,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		accept_link(e, fd, &a);
		return true;
	}
	if (errno == EAGAIN)
		return false;
	/* Errors of the one connection come out here too. Of the others there are none
	 * but a lack of memory or descriptors: they are asked again a little later. */
	e->links.paused = errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			  errno == ENOMEM;
	return !e->links.paused;
}

static void listener_ready(struct engine *e, struct event_source *s)
{
	for (int i = 0; i < ACCEPTS_PER_TURN && accept_one(e); i++)
		;
	if (!e->links.paused)
		control_rearm(e, s);
}

/* ---- silence ----------------------------------------------------------- */

static void patrol_link(struct engine *e, struct link *l, uint64_t now)
{
	uint64_t silent = now - l->heard_ns, keepalive = e->config.keepalive_ns;

	if (l->state != LINK_UP) {
		if (now - l->opened_ns >= LINK_HELLO_NS)
			link_end(e, l, "it did not say in time who it is");
	} else if (silent >= LINK_DEAD_AFTER * keepalive) {
		link_abort(e, l, "it is silent");
	} else if (silent >= keepalive && (!l->asked_ns || now - l->asked_ns >= keepalive)) {
		l->asked_ns = now;
		link_send(e, l, json_pack("{s:s}", "type", "ping"));
	}
}

static void bury(struct links *all)
{
	while (all->dead) {
		struct link *l = all->dead;

		all->dead = l->next;
		tls_session_free(l->tls);
		free(l);
	}
}

void links_patrol(struct engine *e)
{
	uint64_t now = clock_monotonic_ns();
	struct link *next;

	bury(&e->links);
	if (now < e->links.next_patrol_ns)
		return;
	e->links.next_patrol_ns = now + PATROL_NS;
	if (e->links.paused) {
		e->links.paused = false;
		control_rearm(e, &e->links.source);
	}
	for (struct link *l = e->links.list; l; l = next) {
		next = l->next;
		patrol_link(e, l, now);
	}
	peers_patrol(e, now);
}

bool links_need_patrol(const struct engine *e)
{
	return e->links.list || e->links.dead || e->links.paused || peers_need_patrol(e);
}

/* ---- life -------------------------------------------------------------- */

void links_notice(struct engine *e, const char *format, ...)
{
	size_t used = strlen(e->links.notices);
	va_list args;

	va_start(args, format);
	vsnprintf(e->links.notices + used, sizeof(e->links.notices) - used, format, args);
	va_end(args);
}

/* Somebody counts on it. */
static bool is_asked_for(const struct engine_config *c)
{
	return engine_config_is_set(c, "peers/enable") || *c->secret_file || !c->port_any ||
	       c->metadata_type != METADATA_P2P;
}

int links_open(struct engine *e, char *error, size_t size)
{
	const char *secret_file = e->config.secret_file;
	int rc;

	if (!e->config.peers_enable)
		return 0;
	e->links.owner_fd = socket_owner_open();
	rc = *secret_file ? tls_open(&e->links.tls, secret_file, error, size) : 0;
	if (rc == 0)
		rc = links_listen(e, error, size);
	if (rc == 0 || is_asked_for(&e->config))
		return rc;
	links_notice(e, "no engine of another host reaches this one: %s\n", error);
	return 0;
}

int links_start(struct engine *e)
{
	int rc;

	if (e->links.fd < 0)
		return 0;
	rc = wired_start(e);
	return rc < 0 ? rc : control_watch(e, &e->links.source, e->links.fd, listener_ready);
}

void links_stop(struct engine *e)
{
	e->links.paused = false;
	control_unwatch(e, &e->links.source);
	for (struct link *l = e->links.list, *next; l; l = next) {
		next = l->next;
		if (!l->peer)
			link_end(e, l, NULL);
	}
}

void links_end(struct engine *e)
{
	while (e->links.list)
		link_end(e, e->links.list, NULL);
}

void links_close(struct engine *e)
{
	bury(&e->links);
	if (e->links.fd >= 0)
		close(e->links.fd);
	e->links.fd = -1;
	if (e->links.owner_fd >= 0)
		close(e->links.owner_fd);
	tls_close(e->links.tls);
	e->links.tls = NULL;
}
