/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/hca/host/protocol.h"

int host_put(int socket, const void *message, size_t n, const int *fds, int nr, int flags)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(HOST_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)message, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t done;

	if (nr) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		*c = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN((size_t)nr * sizeof(int)),
		};
		memcpy(CMSG_DATA(c), fds, (size_t)nr * sizeof(int));
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE((size_t)nr * sizeof(int));
	}
	do {
		done = sendmsg(socket, &m, flags | MSG_NOSIGNAL);
	} while (done < 0 && errno == EINTR);
	if (done >= 0)
		return 0;
	return errno == ECONNRESET ? -EPIPE : -errno;
}

static void close_all(int fds[HOST_MAX_FDS])
{
	for (int i = 0; i < HOST_MAX_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* Every fd that came is ours to close, wanted or not. */
static void take_fds(struct msghdr *m, int fds[HOST_MAX_FDS])
{
	int nr = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && nr < HOST_MAX_FDS; i++)
			memcpy(&fds[nr++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

int host_take(int socket, void *message, size_t n, int fds[HOST_MAX_FDS], int flags)
{
	/* No room for more fds than can be told apart: the kernel drops the others. */
	_Alignas(struct cmsghdr) uint8_t control[CMSG_LEN(HOST_MAX_FDS * sizeof(int))];
	struct iovec iov = { message, n };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t done;

	for (int i = 0; i < HOST_MAX_FDS; i++)
		fds[i] = -1;
	do {
		done = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	} while (done < 0 && errno == EINTR);
	if (done < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	take_fds(&m, fds);
	if ((size_t)done == n && !(m.msg_flags & MSG_CTRUNC))
		return 0;
	close_all(fds);
	return done ? -EBADMSG : -EPIPE;
}

int host_connect(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(HOST_SOCKET_NAME);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	memcpy(a.sun_path + 1, HOST_SOCKET_NAME, n);
	do {
		rc = connect(fd, (struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
	} while (rc && errno == EINTR);
	if (!rc)
		return fd;
	rc = errno == ECONNREFUSED ? -ENOENT : -errno;
	close(fd);
	return rc;
}
