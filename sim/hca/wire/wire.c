/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/wire/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "sim/hca/wire/codec.h"
#include "sim/hca/wire/faults.h"
#include "sim/hca/wire/inbox.h"
#include "sim/hca/wire/outbox.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MAX_DEVICES 16
#define SOCKET_BUFFER_BYTES (16 << 20)
#define SEND_TIMEOUT_US 100000	/* a full interface: then the packet is lost */
#define FIRST_MULTICAST_LID 0xc000

struct wire {
	struct wire_config config;
	struct wire_device devices[MAX_DEVICES];
	struct dice dice[MAX_DEVICES];
	struct outbox *outbox;
	struct inbox *inbox;
	struct delay_queue delayed;
};

/* ---- the socket -------------------------------------------------------------- */

static void set(int fd, int level, int option, int value)
{
	setsockopt(fd, level, option, &value, sizeof(value));
}

static void set_buffer(int fd, int forced_option, int option)
{
	int bytes = SOCKET_BUFFER_BYTES;

	/* Without the privilege: as much as the host allows. */
	if (setsockopt(fd, SOL_SOCKET, forced_option, &bytes, sizeof(bytes)))
		set(fd, SOL_SOCKET, option, bytes);
}

int wire_prepare_socket(int fd)
{
	struct timeval timeout = { .tv_usec = SEND_TIMEOUT_US };
	int on = 1;

	if (setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)))
		return -errno;
	/* RoCE v2 is never fragmented; the ICRC covers the flag that says so. */
	set(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	set(fd, SOL_IPV6, IPV6_RECVTCLASS, 1);
	set(fd, SOL_IPV6, IPV6_RECVHOPLIMIT, 1);
	set(fd, SOL_IP, IP_RECVTOS, 1);
	set(fd, SOL_IP, IP_RECVTTL, 1);
	set(fd, SOL_UDP, UDP_GRO, 1);
	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return 0;
}

int wire_open(struct wire **out, const struct wire_config *c)
{
	struct wire *w;
	int rc;

	if (c->nr_devices > MAX_DEVICES)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->config = *c;
	memcpy(w->devices, c->devices, c->nr_devices * sizeof(*c->devices));
	w->config.devices = w->devices;
	for (uint32_t i = 0; i < c->nr_devices; i++)
		dice_init(&w->dice[i]);
	rc = outbox_open(&w->outbox, c->fd, c->use_gso);
	if (!rc)
		rc = inbox_open(&w->inbox, c->fd);
	if (rc) {
		wire_close(w);
		return rc;
	}
	*out = w;
	return 0;
}

void wire_close(struct wire *w)
{
	delay_free(&w->delayed);
	inbox_close(w->inbox);
	outbox_close(w->outbox);
	free(w);
}

/* ---- InfiniBand on IPv4 ------------------------------------------------------ */

void wire_ib_guid(const uint8_t ipv4[4], uint8_t guid[8])
{
	static const uint8_t prefix[4] = { 0x00, 0x02, 0xc9, 0x03 };

	memcpy(guid, prefix, 4);
	memcpy(guid + 4, ipv4, 4);
}

static uint16_t lid_of(const uint8_t address[16])
{
	return (uint16_t)((address[14] << 8 | address[15]) & WIRE_LID_MASK);
}

/* The address that carries a LID of the same subnet as address. */
static void address_of(const uint8_t address[16], uint16_t lid, uint8_t out[16])
{
	memcpy(out, address, 16);
	out[14] = (uint8_t)((address[14] & 0x80) | lid >> 8);
	out[15] = (uint8_t)lid;
}

static bool ib_way(const struct wire_port *port, const struct hca_route *r, struct outbox_way *way)
{
	if (!r->dlid || r->dlid >= FIRST_MULTICAST_LID || r->dlid & ~WIRE_LID_MASK)
		return false;
	memcpy(way->source, port->address, 16);
	address_of(port->address, r->dlid, way->dest);
	return codec_is_ipv4(way->source);
}

/* ---- sending ----------------------------------------------------------------- */

static bool ethernet_way(const struct wire_port *port, const struct hca_route *r,
			 struct outbox_way *way)
{
	static const uint8_t nobody[16];

	if (!wire_gid_get(&port->gids, r->sgid_index, way->source))
		return false;
	memcpy(way->dest, r->dgid, 16);
	way->ifindex = port->ifindex;
	way->tclass = r->tclass;
	way->hop_limit = r->hop_limit;
	return memcmp(way->dest, nobody, 16) && way->dest[0] != 0xff &&
	       codec_is_ipv4(way->source) == codec_is_ipv4(way->dest);
}

static bool find_way(const struct wire_device *d, const struct wire_port *port,
		     const struct hca_route *r, struct outbox_way *way)
{
	*way = (struct outbox_way){ .counters = d->counters };
	return port->is_ethernet ? ethernet_way(port, r, way) : ib_way(port, r, way);
}

static void send_now(struct wire *w, const struct outbox_way *way, bool is_ib,
		     const struct hca_packet *p, size_t bytes)
{
	uint8_t slot = (uint8_t)(p->dest_qpn >> 16);

	codec_encode(p, is_ib, outbox_reserve(w->outbox, way, slot, bytes));
	outbox_seal(w->outbox);
}

static void send_later(struct wire *w, uint64_t due_ns, const struct outbox_way *way, bool is_ib,
		       const struct hca_packet *p, size_t bytes)
{
	struct delayed *d = delay_put(&w->delayed, due_ns, way, bytes);

	if (!d) {
		way->counters->queue_full++;
		return;
	}
	codec_encode(p, is_ib, d->datagram);
	way->counters->delayed++;
}

static uint64_t judge(struct wire *w, uint32_t device, const struct hca_packet *p, size_t bytes)
{
	struct wire_faults *f = w->devices[device].faults;
	uint64_t now_ns;

	if (!f && !w->delayed.nr)
		return FAULTS_NOW;
	now_ns = w->config.now_ns(w->config.ctx);
	if (delay_next_ns(&w->delayed) <= now_ns)
		wire_run(w);	/* they came before this one */
	return f ? faults_judge(f, &w->dice[device], codec_is_response(p->opcode), bytes, now_ns) :
		   FAULTS_NOW;
}

void wire_send(struct wire *w, uint32_t device, const struct hca_packet *p)
{
	const struct wire_device *d = &w->devices[device];
	const struct wire_port *port;
	size_t bytes = codec_bytes(p);
	struct outbox_way way;
	uint64_t due_ns;

	if (!bytes || p->route.port - 1u >= d->nr_ports ||
	    !find_way(d, port = d->ports[p->route.port - 1], &p->route, &way)) {
		d->counters->unsent++;
		return;
	}
	due_ns = judge(w, device, p, bytes);
	if (due_ns == FAULTS_LOST || !port->is_up)
		d->counters->dropped++;
	else if (due_ns == FAULTS_NOW)
		send_now(w, &way, !port->is_ethernet, p, bytes);
	else
		send_later(w, due_ns, &way, !port->is_ethernet, p, bytes);
}

void wire_flush(struct wire *w)
{
	outbox_flush(w->outbox);
}

uint64_t wire_next_ns(const struct wire *w)
{
	return delay_next_ns(&w->delayed);
}

uint64_t wire_last_ns(const struct wire *w)
{
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < w->config.nr_devices; i++)
		if (w->dice[i].last_due_ns > last_ns)
			last_ns = w->dice[i].last_due_ns;
	return last_ns;
}

void wire_run(struct wire *w)
{
	uint64_t now_ns = w->config.now_ns(w->config.ctx);
	struct delayed *d;

	while ((d = delay_take(&w->delayed, now_ns))) {
		/* byte 5: the top byte of the destination QPN */
		memcpy(outbox_reserve(w->outbox, &d->way, d->datagram[5], d->bytes), d->datagram,
		       d->bytes);
		outbox_seal(w->outbox);
		free(d);
	}
}

/* ---- receiving --------------------------------------------------------------- */

/* Which port of a device has this address; 0: none. */
static uint8_t port_of(const struct wire_device *d, const uint8_t address[16])
{
	for (uint32_t i = 0; i < d->nr_ports; i++) {
		const struct wire_port *p = d->ports[i];

		if (!p->is_ethernet && !memcmp(p->address, address, 16))
			return (uint8_t)(i + 1);
		if (p->is_ethernet && wire_gid_find(&p->gids, address) >= 0)
			return (uint8_t)(i + 1);
	}
	return 0;
}

static void ib_route(const struct wire_port *port, const struct icrc_path *path,
		     struct hca_route *r)
{
	r->slid = lid_of(path->source);
	r->dlid = lid_of(path->dest);
	if (!r->has_grh)
		return;
	wire_gid_get(&port->gids, 0, r->dgid);
	memcpy(r->sgid, r->dgid, 8);	/* of the same subnet */
	wire_ib_guid(path->source + 12, r->sgid + 8);
}

/* Who sent it, as the card's completion will say. */
static void fill_route(const struct wire_port *port, const struct inbox_datagram *in,
		       struct hca_route *r)
{
	r->tclass = in->tclass;
	r->hop_limit = in->hop_limit;
	r->udp_source_port = in->path.source_port;
	if (!port->is_ethernet) {
		ib_route(port, &in->path, r);
		return;
	}
	memcpy(r->sgid, in->path.source, 16);
	memcpy(r->dgid, in->path.dest, 16);
}

static bool is_sound(const struct inbox_datagram *in, uint16_t index, const uint8_t *bytes,
		     size_t n)
{
	uint32_t icrc;

	memcpy(&icrc, bytes + n, ICRC_BYTES);
	return icrc_check(&in->path, index, bytes, n, le32toh(icrc));
}

struct receiver {
	struct wire *w;
	wire_packet_fn *fn;
	void *ctx;
};

/* The index-th segment of what came: n bytes with the ICRC. */
static void take_segment(const struct receiver *rx, uint32_t device, uint8_t port_number,
			 const struct inbox_datagram *in, uint16_t index, const uint8_t *bytes,
			 size_t n)
{
	const struct wire_device *d = &rx->w->devices[device];
	const struct wire_port *port = d->ports[port_number - 1];
	struct hca_packet p = { .route.port = port_number };
	bool is_ib;

	d->counters->received++;
	if (n < CODEC_BTH_BYTES + ICRC_BYTES || codec_decode(&p, bytes, n - ICRC_BYTES)) {
		d->counters->malformed++;
		return;
	}
	if (!is_sound(in, index, bytes, n - ICRC_BYTES)) {
		d->counters->bad_icrc++;
		return;
	}
	is_ib = bytes[4] & CODEC_IB_LINK;
	if (!port->is_up || is_ib == !!port->is_ethernet) {
		d->counters->dropped++;
		return;
	}
	fill_route(port, in, &p.route);
	rx->fn(rx->ctx, device, &p);
}

static void take_datagram(const struct receiver *rx, const struct inbox_datagram *in)
{
	uint8_t port = 0;
	uint32_t device;
	uint16_t index = 0;

	for (device = 0; device < rx->w->config.nr_devices; device++) {
		port = port_of(&rx->w->devices[device], in->path.dest);
		if (port)
			break;
	}
	if (!port)
		return;
	for (size_t at = 0; at < in->n; at += in->segment_bytes, index++)
		take_segment(rx, device, port, in, index, in->bytes + at,
			     in->n - at < in->segment_bytes ? in->n - at : in->segment_bytes);
}

int wire_receive(struct wire *w, wire_packet_fn *fn, void *ctx)
{
	struct receiver rx = { w, fn, ctx };
	struct inbox_datagram in;
	int nr = inbox_fill(w->inbox);

	for (int i = 0; i < nr; i++) {
		if (inbox_get(w->inbox, i, &in))
			take_datagram(&rx, &in);
	}
	return nr;
}
