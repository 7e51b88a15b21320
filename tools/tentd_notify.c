/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_notify.c - the service manager's readiness protocol: one datagram to the
 * Unix socket named by NOTIFY_SOCKET. By hand, since libsystemd is a large
 * dependency for one sendto().
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tentd.h"

int tentd_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = path ? strlen(path) : 0;
	int fd, rc = 0;

	if (length == 0)
		return 0;
	if ((path[0] != '/' && path[0] != '@') || length >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, path, length);
	if (path[0] == '@')
		to.sun_path[0] = '\0';	/* an abstract name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}
