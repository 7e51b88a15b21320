/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - a client's life: connect, hello, is the engine alive, goodbye. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "ring/client.h"
#include "ring/wake.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int connect_path(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, rc;

	if (strnlen(path, sizeof(a.sun_path)) == sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno == EINTR)
			continue;
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* Whom are we talking to? A pidfd, so that a recycled pid is not taken for it. */
static void find_engine(struct tent_client *c)
{
	struct ucred cred = { .pid = 0 };
	socklen_t size = sizeof(cred);
	int pidfd;

	c->pidfd = -1;
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return;
	c->in_process = cred.pid == getpid();
	if (c->in_process)
		return;
	size = sizeof(pidfd);
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		c->pidfd = pidfd;
	else if (cred.pid > 0)
		c->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
}

static int hello(struct tent_client *c, const char *name, uint32_t features)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_hello *h = (void *)m.bytes;
	const struct tent_ctl_hello_reply *r = (const void *)m.bytes;
	int rc;

	h->abi_major = TENT_RING_ABI_MAJOR;
	h->abi_minor = TENT_RING_ABI_MINOR;
	h->features = features | (c->barrier ? TENT_CTL_HELLO_MEMBARRIER : 0);
	if (name && !*name)
		return client_fail_text(TENT_RULE_NAME_FORM,
					"name is empty; allowed: 1..63 of [A-Za-z0-9._-]");
	rc = client_copy_text(h->name, sizeof(h->name), name ? name : "", TENT_RULE_NAME_FORM);
	if (rc == 0)
		rc = client_call(c, &m, TENT_CTL_HELLO, sizeof(*h), sizeof(*r), 0);
	if (rc)
		return rc;
	if (r->abi_major != TENT_RING_ABI_MAJOR)
		return client_fail(TENT_RULE_CTL_VERSION, r->abi_major);
	c->id = r->client_id;
	c->epoch = r->epoch;
	memcpy(c->segment, r->segment, sizeof(c->segment));
	c->segment[sizeof(c->segment) - 1] = '\0';
	return 0;
}

static void client_free(struct tent_client *c)
{
	fd_close(&c->fd);
	fd_close(&c->pidfd);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->inbox.lock);
	free(c);
}

static int attach_features(int fd, const char *name, uint32_t features,
			   struct tent_client **client)
{
	struct tent_client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		fd_close(&fd);
		return client_fail_system("calloc of a client", -ENOMEM);
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->inbox.lock, NULL);
	c->inbox.mem.fd = -1;
	c->fd = fd;
	c->pid = getpid();
	c->barrier = wake_barrier_register() == 0;
	find_engine(c);
	rc = hello(c, name, features);
	if (rc) {
		client_free(c);
		return rc;
	}
	*client = c;
	return 0;
}

static int attach_path(const char *path, const char *name, uint32_t features,
		       struct tent_client **client)
{
	int fd;

	if (!path || !client)
		return client_fail_null(path ? "client" : "path");
	fd = connect_path(path);
	if (fd == -ENAMETOOLONG)
		return client_fail_text(TENT_RULE_ENGINE_LOST, "socket %s is %zu bytes long; "
					"allowed: at most %zu", path, strlen(path),
					sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	if (fd < 0) {
		errno = -fd;
		return client_fail_text(TENT_RULE_ENGINE_LOST, "nobody answers at %s: %m; "
					"allowed: the socket of a running tentd", path);
	}
	return attach_features(fd, name, features, client);
}

int tent_client_attach(const char *path, const char *name, struct tent_client **client)
{
	return attach_path(path, name, 0, client);
}

int tent_client_observe(const char *path, struct tent_client **client)
{
	return attach_path(path, NULL, TENT_CTL_HELLO_OBSERVER, client);
}

int client_observe_fd(int fd, struct tent_client **client)
{
	return attach_features(fd, NULL, TENT_CTL_HELLO_OBSERVER, client);
}

int tent_client_attach_fd(int fd, const char *name, struct tent_client **client)
{
	if (!client) {
		fd_close(&fd);
		return client_fail_null("client");
	}
	return attach_features(fd, name, 0, client);
}

/* Half-closes and waits for the engine's end of file: it comes when the engine has
 * ended our requests and let go of our memory, so the caller may free his. */
static void say_goodbye(struct tent_client *c)
{
	struct ctl_message m;
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN },
			       { .fd = c->pidfd, .events = POLLIN } };

	shutdown(c->fd, SHUT_WR);
	for (;;) {
		int rc;

		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (!p[0].revents)
			return;
		rc = ctl_recv(c->fd, &m, 0);
		if (rc && rc != -EBADMSG)
			return;
		ctl_close_fds(&m);
	}
}

/* A forked child has the descriptors and nothing else: the mappings were not
 * inherited, and the connection is its parent's. */
static void drop_lists(struct tent_client *c, bool child)
{
	while (c->rings) {
		struct ring_record *record = c->rings;

		c->rings = record->next;
		if (child) {
			record->client_mem.addr = record->engine_mem.addr = NULL;
			record->ring = NULL;
		}
		ring_record_release(record);
	}
	while (c->mappings) {
		struct client_mapping *m = c->mappings;

		c->mappings = m->next;
		if (!child)
			shared_mem_destroy(&m->mem);
		free(m);
	}
	if (!child)
		shared_mem_destroy(&c->inbox.mem);
}

void tent_client_detach(struct tent_client *c)
{
	bool child;

	if (!c)
		return;
	child = c->pid != getpid();
	if (!child)
		say_goodbye(c);
	drop_lists(c, child);
	client_free(c);
}

const char *tent_client_segment(const struct tent_client *c)
{
	return c->segment;
}

uint64_t tent_client_epoch(const struct tent_client *c)
{
	return c->epoch;
}

/* Without a pidfd (a kernel or a pid namespace that gives none) the closed socket is
 * what a death looks like. */
int tent_client_engine_alive(struct tent_client *c)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	if (c->in_process)
		return 1;
	if (c->pidfd < 0)
		p = (struct pollfd){ .fd = c->fd, .events = POLLRDHUP };
	return poll(&p, 1, 0) <= 0;
}
