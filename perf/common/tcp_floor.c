/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_floor.c - see tcp_floor.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/common/process.h"
#include "perf/common/tcp_floor.h"
#include "ring/clock.h"

#define QUESTION 64u	/* bytes */

struct floor {
	const struct two_hosts *hosts;
	size_t block;
};

static int fail(const char *what)
{
	fprintf(stderr, "tcp floor: %s: %s\n", what, strerror(errno));
	return -1;
}

static struct sockaddr_in address_of(const struct two_hosts *h, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, h->address[0], &a.sin_addr);
	return a;
}

static int tell_port(struct helper *h, int fd)
{
	struct sockaddr_in a;
	socklen_t size = sizeof(a);
	char text[16];

	if (getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		return fail("getsockname");
	snprintf(text, sizeof(text), "%u", ntohs(a.sin_port));
	return helper_say(h, text);
}

static void answer(int fd, uint8_t *bytes, size_t block)
{
	int yes = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	while (recv(fd, bytes, QUESTION, MSG_WAITALL) == QUESTION &&
	       send(fd, bytes, block, MSG_NOSIGNAL) == (ssize_t)block)
		;
}

static int answer_main(struct helper *h, const void *arg)
{
	const struct floor *f = arg;
	uint8_t *bytes = calloc(1, f->block + QUESTION);
	struct sockaddr_in a = address_of(f->hosts, 0);
	int listener, fd;

	two_hosts_enter(f->hosts, 0);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!bytes || listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(listener, 1) < 0)
		return fail("listen") ? 1 : 0;
	if (tell_port(h, listener))
		return 1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		answer(fd, bytes, f->block);
	return fd < 0;
}

static int ask(int fd, uint8_t *bytes, size_t block, uint32_t rounds, struct samples *ns)
{
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t begin = clock_monotonic_ns();

		if (send(fd, bytes, QUESTION, MSG_NOSIGNAL) != QUESTION ||
		    recv(fd, bytes, block, MSG_WAITALL) != (ssize_t)block)
			return fail("block");
		samples_add(ns, clock_monotonic_ns() - begin);
	}
	return 0;
}

static int call_and_ask(const struct floor *f, int port, uint32_t rounds, struct samples *ns)
{
	uint8_t *bytes = calloc(1, f->block + QUESTION);
	struct sockaddr_in a = address_of(f->hosts, port);
	int fd, yes = 1, rc = -1;

	two_hosts_enter(f->hosts, 1);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	two_hosts_enter(f->hosts, -1);
	if (!bytes || fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		fail("connect");
	} else {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		rc = ask(fd, bytes, f->block, rounds, ns);
	}
	free(bytes);
	if (fd >= 0)
		close(fd);
	return rc;
}

int tcp_floor_run(const struct two_hosts *h, size_t block, uint32_t rounds,
		  struct samples *ns)
{
	struct floor f = { .hosts = h, .block = block };
	struct process there;
	int rc;

	if (process_start(&there, "tcp-floor", answer_main, &f))
		return -1;
	rc = call_and_ask(&f, atoi(there.said), rounds, ns);
	if (rc)		/* it may wait for a call still */
		kill(there.pid, SIGKILL);
	return process_stop(&there) || rc ? -1 : 0;
}
