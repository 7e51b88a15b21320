/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/hca/host/parts.h"
#include "sim/hca/wire/codec.h"

#define MAX_INTERFACES 64
/* GRH, UDP, BTH, the longest extension headers and the ICRC, as the kernel counts them to
 * find the largest payload that an interface carries. */
#define OVERHEAD_BYTES 96
#define MAX_MTU_BYTES 4096

/* An interface as a port needs it; addresses in the order of the GID table. */
struct interface {
	char name[16];
	uint32_t index, mtu_bytes;
	uint8_t mac[8];
	uint32_t nr;
	uint8_t addresses[WIRE_MAX_GIDS][16];
};

/* ---- what the host has ------------------------------------------------------- */

static void map_ipv4(uint8_t out[16], const void *ipv4)
{
	memset(out, 0, 10);
	out[10] = out[11] = 0xff;
	memcpy(out + 12, ipv4, 4);
}

/* IPv4, then global IPv6, then link-local: GID 0 is what people write down. */
enum { RANK_IPV4, RANK_GLOBAL, RANK_LINK_LOCAL, NR_RANKS, RANK_NONE };

static bool is_link_local(const uint8_t address[16])
{
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

static int read_address(const struct sockaddr *a, uint8_t out[16])
{
	if (a->sa_family == AF_INET) {
		map_ipv4(out, &((const struct sockaddr_in *)a)->sin_addr);
		return RANK_IPV4;
	}
	if (a->sa_family != AF_INET6)
		return RANK_NONE;
	memcpy(out, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	return is_link_local(out) ? RANK_LINK_LOCAL : RANK_GLOBAL;
}

static struct interface *interface_of(struct interface *list, uint32_t *nr, const char *name)
{
	for (uint32_t i = 0; i < *nr; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	if (*nr == MAX_INTERFACES)
		return NULL;
	list[*nr] = (struct interface){ .index = if_nametoindex(name) };
	snprintf(list[*nr].name, sizeof(list[*nr].name), "%s", name);
	return &list[(*nr)++];
}

static void take_entry(struct interface *list, uint32_t *nr, const struct ifaddrs *a, int rank)
{
	uint8_t address[16];
	struct interface *i;

	if (!a->ifa_addr || a->ifa_flags & IFF_LOOPBACK || !(a->ifa_flags & IFF_UP))
		return;
	if (a->ifa_addr->sa_family == AF_PACKET && !rank) {
		i = interface_of(list, nr, a->ifa_name);
		if (i)
			memcpy(i->mac, ((struct sockaddr_ll *)a->ifa_addr)->sll_addr, 6);
	} else if (read_address(a->ifa_addr, address) == rank) {
		i = interface_of(list, nr, a->ifa_name);
		if (i && i->nr < WIRE_MAX_GIDS)
			memcpy(i->addresses[i->nr++], address, 16);
	}
}

static int by_index(const void *a, const void *b)
{
	uint32_t x = ((const struct interface *)a)->index, y = ((const struct interface *)b)->index;

	return x < y ? -1 : x > y;
}

static uint32_t mtu_of(int socket, const char *name)
{
	struct ifreq r = { 0 };

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	return ioctl(socket, SIOCGIFMTU, &r) ? 0 : (uint32_t)r.ifr_mtu;
}

/* Only those that can carry a port: with an address that others reach, and on InfiniBand one
 * of IPv4. */
static uint32_t keep_usable(struct interface *list, uint32_t nr, bool is_ethernet)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < nr; i++)
		if (list[i].nr && (is_ethernet ? !is_link_local(list[i].addresses[0]) :
						 codec_is_ipv4(list[i].addresses[0])))
			list[kept++] = list[i];
	return kept;
}

static int list_interfaces(struct interface *list, uint32_t *nr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
	struct ifaddrs *all = NULL;

	*nr = 0;
	if (fd < 0 || getifaddrs(&all)) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (int rank = 0; rank < NR_RANKS; rank++)
		for (struct ifaddrs *a = all; a; a = a->ifa_next)
			take_entry(list, nr, a, rank);
	freeifaddrs(all);
	for (uint32_t i = 0; i < *nr; i++)
		list[i].mtu_bytes = mtu_of(fd, list[i].name);
	close(fd);
	qsort(list, *nr, sizeof(*list), by_index);
	return 0;
}

/* The n-th port where no interface is left: an address of the loopback interface. */
static struct interface loopback(uint32_t n)
{
	uint8_t ipv4[4] = { 127, 0, 0, (uint8_t)(n + 1) };
	struct interface i = {
		.name = "lo", .index = if_nametoindex("lo"), .mtu_bytes = 65536, .nr = 1,
		.mac = { 0x02, 0, 0, 0, 0, (uint8_t)(n + 1) },
	};

	map_ipv4(i.addresses[0], ipv4);
	return i;
}

/* Without it a host cannot talk to itself. */
static bool is_loopback_up(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo" };
	bool is_up = fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &r) && r.ifr_flags & IFF_UP;

	if (fd >= 0)
		close(fd);
	return is_up;
}

/* ---- what the devices are ---------------------------------------------------- */

static uint64_t guid_number(const uint8_t guid[8])
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | guid[i];
	return v;
}

/* EUI-64 of a MAC address. */
static uint64_t guid_of_mac(const uint8_t mac[6])
{
	uint8_t guid[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };

	return guid_number(guid);
}

static uint32_t payload_of(uint32_t mtu_bytes)
{
	uint32_t bytes = MAX_MTU_BYTES;

	while (bytes > 256 && bytes + OVERHEAD_BYTES > mtu_bytes)
		bytes /= 2;
	return bytes;
}

static void fill_ib(struct host_port *p, const struct interface *i)
{
	static const uint8_t prefix[8] = { 0xfe, 0x80 };
	const uint8_t *ip = i->addresses[0];
	uint8_t gid[16];

	memcpy(p->wire.address, ip, 16);
	p->wire.lid = (uint32_t)(ip[14] << 8 | ip[15]) & WIRE_LID_MASK;
	memcpy(gid, prefix, 8);
	wire_ib_guid(ip + 12, gid + 8);
	wire_gid_set(&p->wire.gids, 0, gid);
}

static void fill_port(struct host_port *p, const struct interface *i, bool is_ethernet)
{
	*p = (struct host_port){
		.wire = { .is_ethernet = is_ethernet, .is_up = 1, .ifindex = i->index },
		.state = HOST_PORT_ACTIVE, .max_mtu_bytes = MAX_MTU_BYTES,
		.active_mtu_bytes = payload_of(i->mtu_bytes),
	};
	memcpy(p->ifname, i->name, sizeof(p->ifname));
	memcpy(p->mac, i->mac, 6);
	if (!is_ethernet) {
		fill_ib(p, i);
		return;
	}
	for (uint32_t k = 0; k < i->nr; k++)
		wire_gid_set(&p->wire.gids, k, i->addresses[k]);
}

static void fill_device(struct host_device *d, uint32_t n, const struct interface *list,
			uint32_t nr, const struct holder_config *c)
{
	bool is_ethernet = c->link != HOLDER_LINK_IB;
	uint8_t gid[16];

	*d = (struct host_device){ .nr_ports = c->nr_ports };
	snprintf(d->name, sizeof(d->name), "mlx5_%u", n);
	snprintf(d->node, sizeof(d->node), "uverbs%u", n);
	for (uint32_t i = 0; i < c->nr_ports; i++) {
		uint32_t k = n * c->nr_ports + i;
		struct interface lo = loopback(k);

		fill_port(&d->ports[i], k < nr ? &list[k] : &lo, is_ethernet);
	}
	wire_gid_get(&d->ports[0].wire.gids, 0, gid);
	d->node_guid = is_ethernet ? guid_of_mac(d->ports[0].mac) :
				     guid_number(gid + 8);
}

static int check_lids(const struct host_table *t, char *text)
{
	for (uint32_t d = 0; d < t->nr_devices; d++) {
		for (uint32_t i = 0; i < t->devices[d].nr_ports; i++) {
			const struct host_port *p = &t->devices[d].ports[i];

			if (p->wire.is_ethernet || p->wire.lid)
				continue;
			snprintf(text, HOST_TEXT_BYTES,
				 "%s's IPv4 address gives no LID: its low 15 bits are 0", p->ifname);
			return -EADDRNOTAVAIL;
		}
	}
	return 0;
}

int devices_find(struct host_table *t, const struct holder_config *c, char *text)
{
	struct interface *list = calloc(MAX_INTERFACES, sizeof(*list));
	uint32_t nr;
	int rc;

	if (!list)
		return -ENOMEM;
	if (!is_loopback_up()) {
		free(list);
		snprintf(text, HOST_TEXT_BYTES, "the loopback interface is down here: run "
			 "\"ip link set lo up\" first");
		return -ENETDOWN;
	}
	rc = list_interfaces(list, &nr);
	if (!rc) {
		nr = keep_usable(list, nr, c->link != HOLDER_LINK_IB);
		for (uint32_t i = 0; i < c->nr_devices; i++)
			fill_device(&t->devices[i], i, list, nr, c);
		t->nr_devices = c->nr_devices;
		t->use_gso = c->gso != HOLDER_GSO_OFF;
		rc = check_lids(t, text);
	}
	free(list);
	return rc;
}

/* ---- changes ----------------------------------------------------------------- */

static bool interface_has(const struct interface *i, const uint8_t address[16])
{
	for (uint32_t k = 0; k < i->nr; k++)
		if (!memcmp(i->addresses[k], address, 16))
			return true;
	return false;
}

static bool port_has(const struct wire_port *p, const uint8_t ip[16])
{
	if (!p->is_ethernet)
		return !memcmp(p->address, ip, 16);
	return wire_gid_find(&p->gids, ip) >= 0;
}

static bool drop_old_gids(struct host_port *p, const struct interface *i, uint32_t kept_gids)
{
	static const uint8_t none[16];
	bool has_changed = false;
	uint8_t gid[16];

	for (uint32_t k = 0; k < WIRE_MAX_GIDS; k++) {
		if (!wire_gid_get(&p->wire.gids, k, gid) || kept_gids >> k & 1 ||
		    interface_has(i, gid))
			continue;
		wire_gid_set(&p->wire.gids, k, none);
		has_changed = true;
	}
	return has_changed;
}

static bool add_new_gids(struct host_port *p, const struct interface *i)
{
	bool has_changed = false;
	uint8_t gid[16];
	uint32_t place;

	for (uint32_t k = 0; k < i->nr; k++) {
		if (port_has(&p->wire, i->addresses[k]))
			continue;
		for (place = 0; wire_gid_get(&p->wire.gids, place, gid); place++)
			;
		if (place == WIRE_MAX_GIDS)
			break;
		wire_gid_set(&p->wire.gids, place, i->addresses[k]);
		has_changed = true;
	}
	return has_changed;
}

bool devices_follow(struct host_port *p, uint32_t kept_gids, bool *is_up, bool *has_new_gids)
{
	struct interface *list = calloc(MAX_INTERFACES, sizeof(*list)), *found = NULL;
	uint32_t nr;

	*is_up = *has_new_gids = false;
	if (!list || list_interfaces(list, &nr)) {
		free(list);
		return false;
	}
	for (uint32_t i = 0; i < nr; i++)
		if (list[i].index == p->wire.ifindex)
			found = &list[i];
	/* One that is down is not in the list; its addresses may come back with it. */
	*is_up = found;
	if (found && p->wire.is_ethernet) {
		*has_new_gids = drop_old_gids(p, found, kept_gids);
		*has_new_gids |= add_new_gids(p, found);
	}
	free(list);
	return true;
}

int devices_watch(void)
{
	struct sockaddr_nl a = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), rc;

	if (fd < 0 || !bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd < 0 ? -errno : fd;
	rc = -errno;
	close(fd);
	return rc;
}

void devices_watched(int fd)
{
	char byte;

	/* What they say is looked up anew; ENOBUFS only means that there was much. */
	while (recv(fd, &byte, 1, 0) >= 0 || errno == ENOBUFS)
		;
}

bool devices_have_address(const struct host_table *t, const uint8_t ip[16], uint32_t *device,
			  uint32_t *port)
{
	for (uint32_t d = 0; d < t->nr_devices; d++)
		for (uint32_t i = 0; i < t->devices[d].nr_ports; i++)
			if (!t->devices[d].is_removed &&
			    port_has(&t->devices[d].ports[i].wire, ip)) {
				*device = d;
				*port = i + 1;
				return true;
			}
	return false;
}
