/* SPDX-License-Identifier: Apache-2.0 */
/* tap.c - see tap.h. Whatever goes wrong here is the test's own fault. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/common/tap.h"

#define ROCE_PORT 4791		/* of UDP */

int tap_open(const char *interface)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex(interface) };
	int tap = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (tap >= 0 && at.sll_ifindex && bind(tap, (struct sockaddr *)&at, sizeof(at)) == 0)
		return tap;
	perror(interface);
	abort();
}

static bool is_roce(const uint8_t *packet, ssize_t size)
{
	const size_t header = (size_t)(packet[0] & 0xf) * 4;
	struct udphdr udp;

	if (size < (ssize_t)(header + sizeof(udp)) || packet[9] != IPPROTO_UDP)
		return false;
	memcpy(&udp, packet + header, sizeof(udp));
	return udp.dest == htons(ROCE_PORT);
}

/* What does not fit into the socket is lost, and no class of a request's many packets. */
void tap_classes(int tap, bool seen[256])
{
	uint8_t packet[128];
	ssize_t n;

	memset(seen, 0, 256 * sizeof(seen[0]));
	while ((n = recv(tap, packet, sizeof(packet), 0)) >= (ssize_t)sizeof(struct iphdr))
		if (is_roce(packet, n))
			seen[packet[1]] = true;
}
