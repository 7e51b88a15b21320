/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/wire/inbox.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/hca/wire/wire.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define NR_MESSAGES 16
#define MESSAGE_BYTES 65536
#define CONTROL_BYTES 256	/* five small messages */

struct inbox {
	int fd;
	struct mmsghdr messages[NR_MESSAGES];
	struct iovec iov[NR_MESSAGES];
	struct sockaddr_in6 names[NR_MESSAGES];
	_Alignas(struct cmsghdr) uint8_t control[NR_MESSAGES][CONTROL_BYTES];
	uint8_t arena[NR_MESSAGES][MESSAGE_BYTES];
};

int inbox_open(struct inbox **out, int fd)
{
	struct inbox *in = malloc(sizeof(*in));

	if (!in)
		return -ENOMEM;
	memset(in, 0, offsetof(struct inbox, arena));
	in->fd = fd;
	for (int i = 0; i < NR_MESSAGES; i++) {
		in->iov[i] = (struct iovec){ in->arena[i], MESSAGE_BYTES };
		in->messages[i].msg_hdr.msg_name = &in->names[i];
		in->messages[i].msg_hdr.msg_iov = &in->iov[i];
		in->messages[i].msg_hdr.msg_iovlen = 1;
		in->messages[i].msg_hdr.msg_control = in->control[i];
	}
	*out = in;
	return 0;
}

void inbox_close(struct inbox *in)
{
	free(in);
}

int inbox_fill(struct inbox *in)
{
	int n;

	for (int i = 0; i < NR_MESSAGES; i++) {
		in->messages[i].msg_hdr.msg_namelen = sizeof(in->names[i]);
		in->messages[i].msg_hdr.msg_controllen = CONTROL_BYTES;
	}
	n = recvmmsg(in->fd, in->messages, NR_MESSAGES, MSG_DONTWAIT, NULL);
	return n > 0 ? n : 0;
}

/* int and, for IPv4's TOS alone, one byte. */
static int small_value(const struct cmsghdr *c)
{
	int v = 0;

	if (c->cmsg_len == CMSG_LEN(1))
		return *CMSG_DATA(c);
	if (c->cmsg_len >= CMSG_LEN(sizeof(v)))
		memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v;
}

static void take_control(const struct cmsghdr *c, struct inbox_datagram *d, bool *has_dest)
{
	if (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		/* struct in6_pktinfo begins with the address */
		memcpy(d->path.dest, CMSG_DATA(c), 16);
		*has_dest = true;
	} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		int bytes = small_value(c);

		d->segment_bytes = bytes > 0 ? (size_t)bytes : d->n;
	} else if ((c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS) ||
		   (c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS)) {
		d->tclass = (uint8_t)small_value(c);
	} else if ((c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) ||
		   (c->cmsg_level == SOL_IP && c->cmsg_type == IP_TTL)) {
		d->hop_limit = (uint8_t)small_value(c);
	}
}

bool inbox_get(struct inbox *in, int i, struct inbox_datagram *out)
{
	struct msghdr *m = &in->messages[i].msg_hdr;
	bool has_dest = false;

	*out = (struct inbox_datagram){
		.bytes = in->arena[i], .n = in->messages[i].msg_len,
		.segment_bytes = in->messages[i].msg_len,
	};
	if (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !out->n)
		return false;
	memcpy(out->path.source, &in->names[i].sin6_addr, 16);
	out->path.source_port = ntohs(in->names[i].sin6_port);
	out->path.dest_port = WIRE_UDP_PORT;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		take_control(c, out, &has_dest);
	return has_dest;
}
