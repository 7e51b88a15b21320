/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.h - two hosts joined by a cable: network namespaces of this process with a veth
 * pair between them. What a thread starts while it is on one of them runs there. Gone with
 * the process. Needs root, ip(8), tc(8) and iptables(8).
 */
#ifndef TENT_TESTS_HOSTS_H
#define TENT_TESTS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

/* On each host the cable is at HOSTS_PORT, with these addresses; %d: 1 and 2. */
#define HOSTS_PORT "t0"
#define HOSTS_IPV4 "10.77.0.%d"
#define HOSTS_IPV6 "fd77::%d"
#define HOSTS_LINK_LOCAL "fe80::77:%d"
#define HOSTS_SECOND_PORT "t1"	/* with a second cable, and no more than IPv4 */
#define HOSTS_SECOND_IPV4 "10.78.0.%d"
#define HOSTS_NAME "tent-host-%d"	/* in /etc/hosts, as this process sees it */

struct hosts {
	int home, host[2];	/* namespaces */
};

/* False: not permitted here. */
bool hosts_open(struct hosts *h);
void hosts_close(struct hosts *h);
/* Lays a second cable. */
void hosts_add_cable(struct hosts *h);
/* This thread goes to host 0 or 1, or with -1 home. */
void hosts_enter(const struct hosts *h, int host);
/* Pulls the cable out, or puts it in again; addresses stay. */
void hosts_cut(const struct hosts *h);
void hosts_heal(const struct hosts *h);
/* What either host sends from now on goes at that rate, behind a queue of 50 ms. */
void hosts_throttle(const struct hosts *h, uint32_t mbit_s);
/* Host 1 loses all that comes and goes, without a word; or does no more. */
void hosts_lose(const struct hosts *h, bool all);
/* What comes over the cable for that port of UDP is lost, on both hosts; or is no more. */
void hosts_lose_udp(const struct hosts *h, uint16_t port, bool all);

#endif /* TENT_TESTS_HOSTS_H */
