/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/tests/common/netns.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int netns_enter(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd, rc = 0;

	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET))
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r.ifr_flags = IFF_UP;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}
