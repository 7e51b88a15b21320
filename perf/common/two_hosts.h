/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_hosts.h - two hosts joined by a cable: network namespaces with a veth pair between
 * them, which last as long as somebody is on them. Where they are not permitted both are
 * this host, at its loopback address.
 */
#ifndef TENT_PERF_TWO_HOSTS_H
#define TENT_PERF_TWO_HOSTS_H

#include <stdint.h>

#define TWO_HOSTS_PORT "tent0"	/* the cable's end on each of them */

struct two_hosts {
	int home, host[2];	/* namespaces; -1: there is only this host */
	char address[2][16];	/* IPv4 */
	char why[160];		/* there is only this host: why; else "" */
};

/* mtu: of the cable. To be called before this process has threads. What goes wrong ends in
 * why. */
void two_hosts_open(struct two_hosts *h, unsigned int mtu);
/* There is only this host, because. */
void two_hosts_here(struct two_hosts *h, const char *why);
void two_hosts_close(struct two_hosts *h);

/* This thread goes to host 0 or 1, or with -1 home; what it starts there stays there.
 * Does nothing where there is only this host. */
void two_hosts_enter(const struct two_hosts *h, int host);

#endif /* TENT_PERF_TWO_HOSTS_H */
