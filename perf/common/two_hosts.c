/* SPDX-License-Identifier: Apache-2.0 */
/* two_hosts.c - see two_hosts.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/common/two_hosts.h"

static int here(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

void two_hosts_enter(const struct two_hosts *h, int host)
{
	if (h->host[0] < 0)
		return;
	if (setns(host < 0 ? h->home : h->host[host], CLONE_NEWNET)) {
		perror("setns");
		exit(1);
	}
}

__attribute__((format(printf, 2, 3)))
static bool run(struct two_hosts *h, const char *format, ...)
{
	char command[128], whole[192];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(whole, sizeof(whole), "%s 2> /dev/null", command);
	if (system(whole) == 0)
		return true;
	snprintf(h->why, sizeof(h->why), "\"%s\" failed (package iproute2)", command);
	return false;
}

/* A namespace of its own for each, and back. */
static bool make_namespaces(struct two_hosts *h)
{
	h->home = here();
	for (int i = 0; i < 2 && h->home >= 0; i++) {
		if (unshare(CLONE_NEWNET) == 0)
			h->host[i] = here();
		if (h->host[i] < 0)
			break;
	}
	if (h->host[1] >= 0)
		return true;
	snprintf(h->why, sizeof(h->why), "network namespaces: %s", strerror(errno));
	return false;
}

static bool join(struct two_hosts *h, unsigned int mtu)
{
	two_hosts_enter(h, 0);
	if (!run(h, "ip link add " TWO_HOSTS_PORT " type veth peer name " TWO_HOSTS_PORT
		 " netns /proc/%d/fd/%d", (int)getpid(), h->host[1]))
		return false;
	for (int i = 0; i < 2; i++) {
		snprintf(h->address[i], sizeof(h->address[i]), "10.77.1.%d", i + 1);
		two_hosts_enter(h, i);
		if (!run(h, "ip link set lo up") ||
		    !run(h, "ip addr add %s/24 dev " TWO_HOSTS_PORT, h->address[i]) ||
		    !run(h, "ip link set " TWO_HOSTS_PORT " mtu %u up", mtu))
			return false;
	}
	return true;
}

void two_hosts_close(struct two_hosts *h)
{
	two_hosts_enter(h, -1);
	for (int i = 0; i < 2; i++) {
		if (h->host[i] >= 0)
			close(h->host[i]);
		h->host[i] = -1;
		strcpy(h->address[i], "127.0.0.1");
	}
	if (h->home >= 0)
		close(h->home);
	h->home = -1;
}

void two_hosts_here(struct two_hosts *h, const char *why)
{
	*h = (struct two_hosts) { .home = -1, .host = { -1, -1 } };
	snprintf(h->why, sizeof(h->why), "%s", why);
	two_hosts_close(h);
}

void two_hosts_open(struct two_hosts *h, unsigned int mtu)
{
	*h = (struct two_hosts) { .home = -1, .host = { -1, -1 } };
	if (!make_namespaces(h) || !join(h, mtu))
		two_hosts_close(h);
	else
		two_hosts_enter(h, -1);
}
