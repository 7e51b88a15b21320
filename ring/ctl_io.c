/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_io.c - sends and receives one control message. Whatever arrives in pieces,
 * too long, or with other descriptors than it says is refused here, and no
 * descriptor of a refused message stays open.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ring/ctl_io.h"

union fd_control {
	char bytes[CMSG_SPACE(sizeof(int) * TENT_CTL_MAX_FDS)];
	struct cmsghdr align;
};

static void attach_fds(struct msghdr *h, union fd_control *control,
		       const struct ctl_message *m)
{
	size_t size = sizeof(int) * (size_t)m->nr_fds;
	struct cmsghdr *c;

	memset(control, 0, sizeof(*control));
	h->msg_control = control->bytes;
	h->msg_controllen = CMSG_SPACE(size);
	c = CMSG_FIRSTHDR(h);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(c), m->fds, size);
}

int ctl_send(int sock, struct ctl_message *m, int flags)
{
	struct iovec v = { m->bytes, m->head.size };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	union fd_control control;
	ssize_t n;

	if (m->head.size < sizeof(m->head) || m->head.size > sizeof(m->bytes) ||
	    m->nr_fds < 0 || m->nr_fds > TENT_CTL_MAX_FDS)
		return -EINVAL;
	m->head.nr_fds = (uint16_t)m->nr_fds;
	if (m->nr_fds)
		attach_fds(&h, &control, m);
	do {
		n = sendmsg(sock, &h, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == m->head.size ? 0 : -EMSGSIZE;
}

static void take_fds(struct msghdr *h, struct ctl_message *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (n > (size_t)(TENT_CTL_MAX_FDS - m->nr_fds))
			n = (size_t)(TENT_CTL_MAX_FDS - m->nr_fds);
		memcpy(m->fds + m->nr_fds, CMSG_DATA(c), n * sizeof(int));
		m->nr_fds += (int)n;
	}
}

/* An empty message reads like the end of the file, and is treated so. */
static int judge_message(const struct ctl_message *m, size_t size, int msg_flags)
{
	if (size == 0)
		return -EPIPE;
	if (msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EBADMSG;
	if (size < sizeof(m->head) || m->head.size != size)
		return -EBADMSG;
	return m->head.nr_fds == m->nr_fds ? 0 : -EBADMSG;
}

int ctl_recv(int sock, struct ctl_message *m, int flags)
{
	struct iovec v = { m->bytes, sizeof(m->bytes) };
	union fd_control control;
	struct msghdr h = {
		.msg_iov = &v, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;
	int rc;

	m->nr_fds = 0;
	do {
		n = recvmsg(sock, &h, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	memset(m->bytes + n, 0, sizeof(m->bytes) - (size_t)n);
	take_fds(&h, m);
	rc = judge_message(m, (size_t)n, h.msg_flags);
	if (rc < 0)
		ctl_close_fds(m);
	return rc;
}

void ctl_close_fds(struct ctl_message *m)
{
	for (int i = 0; i < m->nr_fds; i++) {
		if (m->fds[i] >= 0)
			close(m->fds[i]);
	}
	m->nr_fds = 0;
}
