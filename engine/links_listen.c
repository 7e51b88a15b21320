/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links_listen.c - where an engine listens for others. tentd: on this host only, unless
 * it has a secret or is told that it may be asked by anybody. A program: where the
 * existing engine would, and it warns. A port that was asked for is taken or is an error;
 * one that was left to us moves on, and says so.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/control.h"

#define PORT_LAST 16999u	/* of those that an engine may pick */
#define BACKLOG 4096	/* what the kernel allows unless told otherwise */

__attribute__((format(printf, 3, 4)))
static int fail(char *error, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, size, format, args);
	va_end(args);
	return TENT_ERR_CONFIG;
}

/* ---- which host -------------------------------------------------------- */

/* An address of that family which another host could call. */
static bool is_outward(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;

	return i->ifa_addr && i->ifa_addr->sa_family == family &&
	       !(i->ifa_flags & IFF_LOOPBACK) && (i->ifa_flags & IFF_UP) &&
	       (family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

static bool pick_of(const struct ifaddrs *list, int family, struct engine_address *a)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		const void *bytes = family == AF_INET ?
			(const void *)&((const struct sockaddr_in *)i->ifa_addr)->sin_addr :
			(const void *)&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;

		if (!is_outward(i, family))
			continue;
		inet_ntop(family, bytes, a->host, sizeof(a->host));
		a->kind = family == AF_INET ? HOST_IPV4 : HOST_IPV6;
		return true;
	}
	return false;
}

/* As the existing engine: the first IPv4 address, then the first IPv6 one. */
static void pick_host(struct engine_address *a)
{
	struct ifaddrs *list;

	if (getifaddrs(&list) < 0)
		return;
	if (!pick_of(list, AF_INET, a))
		pick_of(list, AF_INET6, a);
	freeifaddrs(list);
}

/* May wait for name servers: no thread of the engine runs yet. */
static int resolve(const struct engine_address *a, struct sockaddr_storage *to, socklen_t *size)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = a->kind == HOST_NAME ? AI_PASSIVE : AI_NUMERICHOST,
	};
	struct addrinfo *found;
	int rc = getaddrinfo(a->host, NULL, &hints, &found);

	if (rc)
		return rc;
	memcpy(to, found->ai_addr, found->ai_addrlen);
	*size = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	return a->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET :
	       IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* ---- which port -------------------------------------------------------- */

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET)
		((struct sockaddr_in *)a)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
}

/* A listening socket, or -errno. */
static int listen_at(const struct sockaddr_storage *a, socklen_t size)
{
	int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, rc;

	if (fd < 0)
		return -errno;
	/* An engine that restarts need not wait for what its last one left. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (a->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(fd, (const struct sockaddr *)a, size) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int take_port(struct engine *e, struct sockaddr_storage *a, socklen_t size)
{
	uint32_t port = e->config.port, last = e->config.port_any ? PORT_LAST : port;
	int fd;

	do {
		set_port(a, (uint16_t)port);
		fd = listen_at(a, size);
	} while (fd == -EADDRINUSE && port++ < last);
	if (fd < 0)
		return fd;
	if (port != e->config.port)
		links_notice(e, "port %u is in use: this engine listens at port %u\n",
			     e->config.port, port);
	e->config.port = e->address.port = (uint16_t)port;
	return fd;
}

int links_listen(struct engine *e, char *error, size_t size)
{
	struct engine_config *c = &e->config;
	struct sockaddr_storage a = { 0 };
	char name[ADDRESS_SIZE];
	socklen_t length;
	int rc;

	if (c->host_any && !c->daemon)
		pick_host(&e->address);
	rc = resolve(&e->address, &a, &length);
	if (rc)
		return fail(error, size, "rpc_server_hostname is %s: %s", e->address.host,
			    gai_strerror(rc));
	if (c->daemon && !is_loopback(&a) && !e->links.tls && !c->peers_insecure)
		return fail(error, size, "rpc_server_hostname is %s, which is not only this "
			    "host's; allowed: a loopback address, or peers/secret_file, or "
			    "peers/insecure", e->address.host);
	rc = take_port(e, &a, length);
	engine_address_print(&e->address, name);
	if (rc < 0)
		return fail(error, size, "rpc_server_port is %u: cannot listen at %s: %s",
			    c->port, name, strerror(-rc));
	e->links.fd = rc;
	snprintf(c->host, sizeof(c->host), "%s", e->address.host);
	if (e->links.tls)
		return 0;
	if (!socket_owner_works(e->links.owner_fd, e->links.fd))
		links_notice(e, "the kernel does not tell whose sockets are (inet_diag): engines "
			     "of this host are refused without a peers/secret_file\n");
	if (!is_loopback(&a))
		links_notice(e, "peers at %s are not checked: whoever reaches it can ask\n", name);
	return 0;
}
