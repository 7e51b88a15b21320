/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/wire/outbox.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "sim/hca/wire/codec.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define ARENA_BYTES (1u << 20)
#define MAX_SENDS 64
#define MAX_SEGMENTS 64		/* UDP_MAX_SEGMENTS of older kernels */
#define MAX_SEND_BYTES 65000u	/* with headers below 2^16 */
#define CONTROL_BYTES                                                         \
	(CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t)) + \
	 2 * CMSG_SPACE(sizeof(int)))

/* One sendmsg: segments of equal size, but that the last may be shorter. */
struct send {
	struct outbox_way way;
	uint32_t start, bytes, segment_bytes, nr_segments;
	uint8_t slot;
	bool is_closed;
};

struct outbox {
	int fd;
	bool use_gso;
	struct icrc_path path;
	uint32_t reserved;		/* bytes, behind the last send's */
	uint32_t nr;
	struct send sends[MAX_SENDS];
	struct mmsghdr messages[MAX_SENDS];
	struct iovec iov[MAX_SENDS];
	struct sockaddr_in6 names[MAX_SENDS];
	_Alignas(struct cmsghdr) uint8_t control[MAX_SENDS][CONTROL_BYTES];
	uint8_t arena[ARENA_BYTES];
};

int outbox_open(struct outbox **out, int fd, bool use_gso)
{
	struct outbox *o = malloc(sizeof(*o));

	if (!o)
		return -ENOMEM;
	memset(o, 0, offsetof(struct outbox, arena));
	o->fd = fd;
	o->use_gso = use_gso;
	*out = o;
	return 0;
}

void outbox_close(struct outbox *o)
{
	free(o);
}

/* ---- gathering --------------------------------------------------------------- */

static bool is_same_way(const struct outbox_way *a, const struct outbox_way *b)
{
	return !memcmp(a->source, b->source, 16) && !memcmp(a->dest, b->dest, 16) &&
	       a->tclass == b->tclass && a->hop_limit == b->hop_limit && a->counters == b->counters;
}

/* A large datagram is steered by its first segment: all are for one process. */
static bool fits(const struct outbox *o, const struct send *s, const struct outbox_way *way,
		 uint8_t slot, uint32_t bytes)
{
	return o->use_gso && !s->is_closed && s->slot == slot && bytes <= s->segment_bytes &&
	       s->nr_segments < MAX_SEGMENTS && s->bytes + bytes <= MAX_SEND_BYTES &&
	       is_same_way(&s->way, way);
}

static uint32_t arena_end(const struct outbox *o)
{
	return o->nr ? o->sends[o->nr - 1].start + o->sends[o->nr - 1].bytes : 0;
}

uint8_t *outbox_reserve(struct outbox *o, const struct outbox_way *way, uint8_t slot, size_t n)
{
	uint32_t bytes = (uint32_t)n + ICRC_BYTES;

	if (arena_end(o) + bytes > ARENA_BYTES)
		outbox_flush(o);
	if (!o->nr || !fits(o, &o->sends[o->nr - 1], way, slot, bytes)) {
		if (o->nr == MAX_SENDS)
			outbox_flush(o);
		o->sends[o->nr] = (struct send){
			.way = *way, .start = arena_end(o), .segment_bytes = bytes, .slot = slot,
		};
		o->nr++;
	}
	o->reserved = bytes;
	return o->arena + arena_end(o);
}

void outbox_seal(struct outbox *o)
{
	struct send *s = &o->sends[o->nr - 1];
	uint8_t *datagram = o->arena + arena_end(o);
	size_t n = o->reserved - ICRC_BYTES;
	uint32_t icrc;

	memcpy(o->path.source, s->way.source, 16);
	memcpy(o->path.dest, s->way.dest, 16);
	o->path.source_port = o->path.dest_port = WIRE_UDP_PORT;
	/* The kernel gives the i-th segment of a large datagram the IPv4 identification i. */
	icrc = htole32(icrc_compute(&o->path, (uint16_t)s->nr_segments, datagram, n));
	memcpy(datagram + n, &icrc, ICRC_BYTES);
	s->bytes += o->reserved;
	s->nr_segments++;
	s->is_closed = o->reserved < s->segment_bytes;
}

/* ---- sending ----------------------------------------------------------------- */

static void add_control(struct msghdr *m, int level, int type, const void *data, size_t n)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), data, n);
	m->msg_controllen += CMSG_SPACE(n);
}

static void add_traffic_control(struct msghdr *m, const struct outbox_way *way)
{
	bool is_ipv4 = codec_is_ipv4(way->dest);
	int tclass = way->tclass, hop_limit = way->hop_limit;

	if (tclass)
		add_control(m, is_ipv4 ? SOL_IP : SOL_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
			    &tclass, sizeof(tclass));
	if (hop_limit)
		add_control(m, is_ipv4 ? SOL_IP : SOL_IPV6, is_ipv4 ? IP_TTL : IPV6_HOPLIMIT,
			    &hop_limit, sizeof(hop_limit));
}

static void fill_message(struct outbox *o, uint32_t i)
{
	const struct send *s = &o->sends[i];
	struct msghdr *m = &o->messages[i].msg_hdr;
	struct in6_pktinfo from = { 0 };
	uint16_t segment_bytes = (uint16_t)s->segment_bytes;

	o->iov[i] = (struct iovec){ o->arena + s->start, s->bytes };
	o->names[i] = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT),
	};
	memcpy(&o->names[i].sin6_addr, s->way.dest, 16);
	memcpy(&from.ipi6_addr, s->way.source, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&from.ipi6_addr))
		from.ipi6_ifindex = o->names[i].sin6_scope_id = s->way.ifindex;
	*m = (struct msghdr){
		.msg_name = &o->names[i], .msg_namelen = sizeof(o->names[i]),
		.msg_iov = &o->iov[i], .msg_iovlen = 1, .msg_control = o->control[i],
	};
	add_control(m, SOL_IPV6, IPV6_PKTINFO, &from, sizeof(from));
	if (s->nr_segments > 1)
		add_control(m, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof(segment_bytes));
	add_traffic_control(m, &s->way);
}

static void count(const struct send *s, bool was_sent)
{
	if (was_sent)
		s->way.counters->sent += s->nr_segments;
	else
		s->way.counters->unsent += s->nr_segments;
}

void outbox_flush(struct outbox *o)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < o->nr; i++)
		fill_message(o, i);
	while (done < o->nr) {
		int n = sendmmsg(o->fd, o->messages + done, o->nr - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* An error is that of the first; those behind it may go elsewhere. */
		if (n <= 0)
			count(&o->sends[done++], false);
		for (; n > 0; n--)
			count(&o->sends[done++], true);
	}
	o->nr = 0;
}
