/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/host/parts.h"

#define ENDING_MS 3000	/* processes of a host before this one may take so long to die */
#define RETRY_MS 10

/* The slot is the top byte of the destination QPN, BTH's byte 5. The kernel runs this on
 * the UDP payload to find the socket, whose index is the order in which they were bound. */
static struct sock_filter steer_code[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 5),
	BPF_STMT(BPF_RET | BPF_A, 0),
};
/* On the socket of a free slot: takes nothing. */
static struct sock_filter refuse_code[] = {
	BPF_STMT(BPF_RET | BPF_K, 0),
};

static int set_program(int fd, int option, struct sock_filter *code, unsigned short n)
{
	struct sock_fprog program = { .len = n, .filter = code };

	return setsockopt(fd, SOL_SOCKET, option, &program, sizeof(program)) ? -errno : 0;
}

static int refuse(int fd)
{
	return set_program(fd, SO_ATTACH_FILTER, refuse_code, 1);
}

static int open_socket(bool is_shared)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), off = 0, on = is_shared, rc;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) &&
	    (!is_shared || !refuse(fd)) && !bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* A socket that is left of an earlier host would take a place among ours, and steering
 * goes by places. So nobody else may have the port. */
static int wait_until_alone(void)
{
	struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
	int fd = -EADDRINUSE;

	for (int i = 0; i < ENDING_MS / RETRY_MS && fd == -EADDRINUSE; i++) {
		if (i)
			nanosleep(&pause, NULL);
		fd = open_socket(false);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int ports_open(struct ports *p)
{
	int rc = wait_until_alone();

	for (int i = 0; i < HOST_NR_SLOTS; i++)
		p->fds[i] = -1;
	for (int i = 0; i < HOST_NR_SLOTS && !rc; i++) {
		p->fds[i] = open_socket(true);
		rc = p->fds[i] < 0 ? p->fds[i] : 0;
		p->freed_at[i] = ++p->clock;
	}
	if (!rc)
		rc = wire_prepare_socket(p->fds[0]);
	if (!rc)
		rc = set_program(p->fds[0], SO_ATTACH_REUSEPORT_CBPF, steer_code, 2);
	if (!rc && setsockopt(p->fds[0], SOL_SOCKET, SO_DETACH_FILTER, &rc, sizeof(rc)))
		rc = -errno;
	p->freed_at[0] = 0;
	if (rc)
		ports_close(p);
	return rc;
}

void ports_close(struct ports *p)
{
	for (int i = 0; i < HOST_NR_SLOTS; i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
}

/* What came for the last user, between his end and the filter. */
static void drain(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
		;
}

uint32_t ports_take(struct ports *p)
{
	uint32_t oldest = 0;
	int unused = 0;

	for (uint32_t i = 1; i < HOST_NR_SLOTS; i++)
		if (p->freed_at[i] && (!oldest || p->freed_at[i] < p->freed_at[oldest]))
			oldest = i;
	if (!oldest || wire_prepare_socket(p->fds[oldest]))
		return 0;
	drain(p->fds[oldest]);
	setsockopt(p->fds[oldest], SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
	p->freed_at[oldest] = 0;
	return oldest;
}

void ports_free(struct ports *p, uint32_t slot)
{
	refuse(p->fds[slot]);
	drain(p->fds[slot]);
	p->freed_at[slot] = ++p->clock;
}
