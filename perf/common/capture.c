/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - see capture.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perf/common/capture.h"

#define ROCE_PORT 4791
#define SNAP 65535u		/* bytes of a packet that are kept */
#define BUFFER (256 << 20)	/* while we have no core */

/* The head of the file, and of each packet in it. */
struct pcap_file {
	uint32_t magic;
	uint16_t major, minor;
	uint32_t zone, accuracy, snap, link;
};
struct pcap_packet {
	uint32_t s, us, kept, length;
};

struct capture {
	const struct two_hosts *hosts;
	const char *path;
	FILE *file;
	int fd;
	unsigned long long packets;
};

static int fail(const char *what)
{
	fprintf(stderr, "capture: %s: %s\n", what, strerror(errno));
	return -1;
}

static bool is_roce(const uint8_t *frame, size_t n)
{
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;

	if (n < sizeof(eth) + sizeof(ip) + sizeof(udp))
		return false;
	memcpy(&eth, frame, sizeof(eth));
	memcpy(&ip, frame + sizeof(eth), sizeof(ip));
	if (eth.h_proto != htons(ETH_P_IP) || ip.protocol != IPPROTO_UDP || ip.ihl != 5)
		return false;
	memcpy(&udp, frame + sizeof(eth) + sizeof(ip), sizeof(udp));
	return udp.dest == htons(ROCE_PORT);
}

static int open_socket(struct capture *c)
{
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int size = BUFFER;

	two_hosts_enter(c->hosts, 1);
	a.sll_ifindex = (int)if_nametoindex(TWO_HOSTS_PORT);
	c->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || setsockopt(c->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0 ||
	    bind(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return fail("packet socket");
	return 0;
}

static int open_file(struct capture *c)
{
	const struct pcap_file head = { 0xa1b2c3d4, 2, 4, 0, 0, SNAP, 1 };	/* Ethernet */

	c->file = fopen(c->path, "we");
	if (!c->file || fwrite(&head, sizeof(head), 1, c->file) != 1)
		return fail(c->path);
	return 0;
}

static void keep(struct capture *c, const uint8_t *frame, size_t n)
{
	struct pcap_packet head = { .kept = (uint32_t)n, .length = (uint32_t)n };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	head.s = (uint32_t)now.tv_sec;
	head.us = (uint32_t)(now.tv_nsec / 1000);
	fwrite(&head, sizeof(head), 1, c->file);
	fwrite(frame, n, 1, c->file);
	c->packets++;
}

/* All that has come. */
static void drain(struct capture *c)
{
	static uint8_t frame[SNAP];
	ssize_t n;

	while ((n = recv(c->fd, frame, sizeof(frame), MSG_DONTWAIT)) > 0)
		if (is_roce(frame, (size_t)n))
			keep(c, frame, (size_t)n);
}

static int close_all(struct capture *c, struct helper *h)
{
	struct tpacket_stats stats = { 0 };
	socklen_t size = sizeof(stats);
	char text[64];
	bool lost;

	drain(c);
	lost = getsockopt(c->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) < 0 ||
	       stats.tp_drops;
	close(c->fd);
	if (lost)
		fprintf(stderr, "capture: %u packets were lost\n", stats.tp_drops);
	if (ferror(c->file) | fclose(c->file))
		return fail(c->path);
	snprintf(text, sizeof(text), "%llu", c->packets);
	return helper_say(h, text) || lost;
}

static int capture_main(struct helper *h, const void *arg)
{
	struct capture c = *(const struct capture *)arg;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = h->fd, .events = POLLIN } };

	if (open_socket(&c) || open_file(&c) || helper_say(h, "ready"))
		return 1;
	p[0].fd = c.fd;
	while (!p[1].revents) {
		if (poll(p, 2, -1) > 0)
			drain(&c);
	}
	return close_all(&c, h) != 0;
}

int capture_start(struct process *p, const struct two_hosts *h, const char *path)
{
	const struct capture c = { .hosts = h, .path = path };

	return process_start(p, "capture", capture_main, &c);
}

int capture_stop(struct process *p)
{
	int rc = 0;

	if (p->pid <= 0)
		return 0;
	rc = process_ask(p, "end");
	return process_stop(p) || rc ? -1 : 0;
}
