/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/host/cm.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/cm/holder.h"
#include "sim/hca/host/parts.h"
#include "sim/hca/wire/codec.h"

#define NO_NETLINK_INDEX (~0u)

struct host_cm {
	const struct host_table *table;
	struct host_memory *memory;
	struct wire *wire;
	struct cm_holder *cm;
};

/* ---- sending and time -------------------------------------------------------- */

static void send_packet(void *ctx, uint32_t device, const struct hca_packet *p)
{
	struct host_cm *c = ctx;

	wire_send(c->wire, device, p);
}

static uint64_t now_ns(void *ctx)
{
	struct timespec t;

	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- ports and addresses ----------------------------------------------------- */

static const struct host_port *port_at(const struct host_cm *c, struct cm_place at)
{
	const struct host_device *d = &c->table->devices[at.device];

	if (at.device >= c->table->nr_devices || d->is_removed || at.port - 1 >= d->nr_ports)
		return NULL;
	return &d->ports[at.port - 1];
}

static bool describe_port(void *ctx, struct cm_place at, struct cm_port *out)
{
	struct host_cm *c = ctx;
	const struct host_port *p = port_at(c, at);

	if (!p)
		return false;
	*out = (struct cm_port){
		.node_guid = c->table->devices[at.device].node_guid,
		.is_ethernet = p->wire.is_ethernet,
		.lid = (uint16_t)p->wire.lid,
		.path_mtu_bytes = p->active_mtu_bytes,
		.ibdev_index = NO_NETLINK_INDEX,
		.timeout_scale_percent = c->memory->devices[at.device].engine.timeout_scale_percent,
	};
	return true;
}

static bool gid_at(void *ctx, struct cm_place at, uint32_t index, uint8_t gid[16])
{
	const struct host_port *p = port_at(ctx, at);

	if (!p || index >= WIRE_MAX_GIDS)
		return false;
	wire_gid_get(&p->wire.gids, index, gid);
	return true;
}

static bool is_address(const struct sockaddr *a, const uint8_t ip[16])
{
	if (!a)
		return false;
	if (a->sa_family == AF_INET6)
		return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, ip, 16);
	return a->sa_family == AF_INET && codec_is_ipv4(ip) &&
	       !memcmp(&((const struct sockaddr_in *)a)->sin_addr, ip + 12, 4);
}

/* All of 127.0.0.0/8 is. */
static bool is_local(const uint8_t ip[16])
{
	struct ifaddrs *all, *a;
	bool found = codec_is_ipv4(ip) && ip[12] == 127;

	if (found || getifaddrs(&all))
		return found;
	for (a = all; a && !found; a = a->ifa_next)
		found = is_address(a->ifa_addr, ip);
	freeifaddrs(all);
	return found;
}

static int place_of(void *ctx, const uint8_t ip[16], struct cm_place *out)
{
	struct host_cm *c = ctx;

	if (devices_have_address(c->table, ip, &out->device, &out->port))
		return 0;
	return is_local(ip) ? -ENODEV : -EADDRNOTAVAIL;
}

/* Asks the kernel's routes; no packet leaves. */
static int source_for(void *ctx, const uint8_t to[16], uint8_t from[16])
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
	socklen_t n = sizeof(a);

	(void)ctx;
	memcpy(&a.sin6_addr, to, 16);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, n) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		rc = -errno;
	else
		memcpy(from, &a.sin6_addr, 16);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* All of a subnet's GIDs and LIDs follow from the addresses, so nobody needs be asked. */
static bool resolve_ib(void *ctx, struct cm_place from, const uint8_t ip[16], uint8_t gid[16],
		       uint16_t *lid)
{
	const struct host_port *p = port_at(ctx, from);
	const uint8_t *own;

	if (!p || p->wire.is_ethernet || !codec_is_ipv4(ip))
		return false;
	own = p->wire.address;
	*lid = (uint16_t)((ip[14] << 8 | ip[15]) & WIRE_LID_MASK);
	if (own[12] != ip[12] || own[13] != ip[13] || (own[14] ^ ip[14]) & 0x80 || !*lid)
		return false;
	wire_gid_get(&p->wire.gids, 0, gid);
	wire_ib_guid(ip + 12, gid + 8);
	return true;
}

/* ---- the door ---------------------------------------------------------------- */

int host_cm_open(struct host_cm **out, const struct host_table *t, struct host_memory *m,
		 struct wire *w)
{
	struct host_cm *c = malloc(sizeof(*c));
	struct cm_env env = {
		.ctx = c, .send = send_packet, .now_ns = now_ns, .port = describe_port,
		.gid = gid_at, .place_of = place_of, .source_for = source_for,
		.resolve_ib = resolve_ib,
	};
	int rc;

	if (!c)
		return -ENOMEM;
	*c = (struct host_cm){ .table = t, .memory = m, .wire = w };
	rc = cm_holder_create(&c->cm, &env);
	if (rc) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

int host_cm_fd(const struct host_cm *c)
{
	return cm_holder_fd(c->cm);
}

void host_cm_run(struct host_cm *c)
{
	cm_holder_run(c->cm);
}

void host_cm_packet(struct host_cm *c, uint32_t device, const struct hca_packet *p)
{
	cm_holder_packet(c->cm, device, p);
}

void host_cm_channel(struct host_cm *c, const int fds[2])
{
	cm_holder_channel(c->cm, fds);
}

void host_cm_removed(struct host_cm *c, uint32_t device)
{
	cm_holder_removed(c->cm, device);
}
