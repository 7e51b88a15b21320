/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "dv/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- which ------------------------------------------------------------- */

/* Is name one of those that stand in list, with commas between? */
static bool is_listed(const char *list, const char *name)
{
	size_t size = strlen(name);

	while (*list) {
		size_t length = strcspn(list, ",");

		if (length == size && memcmp(list, name, size) == 0)
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

static bool is_allowed(const struct dv_choice *c, const char *name)
{
	return (!*c->allow || is_listed(c->allow, name)) && !is_listed(c->deny, name);
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(a, b);
}

static int no_device(const struct dv_choice *c, int nr_found, char *why, size_t size)
{
	if (!nr_found)
		snprintf(why, size, "there is no mlx5 device here");
	else
		snprintf(why, size, "of %d mlx5 devices none is allowed: the allowed are \"%s\", "
			 "the denied \"%s\"", nr_found, *c->allow ? c->allow : "*", c->deny);
	return -ENODEV;
}

int dv_device_names(const struct dv_choice *c, char names[DV_DEVICES_MAX][DV_NAME_SIZE],
		    char *why, size_t size)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int nr = 0, nr_found = 0;

	if (!list) {
		if (errno == ENOSYS)
			snprintf(why, size, "there is no mlx5 device here: the kernel has no RDMA");
		else
			snprintf(why, size, "the devices cannot be listed: %s", strerror(errno));
		return -ENODEV;
	}
	for (struct ibv_device **at = list; *at; at++) {
		const char *name = ibv_get_device_name(*at);

		if (!mlx5dv_is_supported(*at))
			continue;
		nr_found++;
		if (nr < (int)DV_DEVICES_MAX && is_allowed(c, name))
			snprintf(names[nr++], DV_NAME_SIZE, "%s", name);
	}
	ibv_free_device_list(list);
	qsort(names, (size_t)nr, DV_NAME_SIZE, by_name);
	return nr ? nr : no_device(c, nr_found, why, size);
}

/* ---- addresses --------------------------------------------------------- */

const char *dv_link_name(uint8_t link)
{
	return link == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "RoCE";
}

/* Packets of RoCE v2 have the IP header that their GIDs have room for. */
static bool is_ipv4(const struct dv_address *a)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)a->gid.raw);
}

const char *dv_address_fault(const struct dv_address *from, const struct dv_address *to)
{
	if (from->link != to->link)
		return "is on another link layer";
	if (to->link == IBV_LINK_LAYER_ETHERNET && is_ipv4(from) != is_ipv4(to))
		return is_ipv4(to) ? "has an address of IPv4, and this port one of IPv6" :
				     "has an address of IPv6, and this port one of IPv4";
	return to->link == IBV_LINK_LAYER_INFINIBAND && !to->lid ? "has no LID" : NULL;
}

void dv_address_text(const struct dv_address *a, char *text, size_t size)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, a->gid.raw, gid, sizeof(gid));
	if (a->link == IBV_LINK_LAYER_INFINIBAND)
		snprintf(text, size, "LID %u, GID %s", a->lid, gid);
	else
		snprintf(text, size, "GID %s", gid);
}

static bool is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* Routed addresses before those of the link alone. */
static int rank(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

/* What keeps the entry from being used, as a sentence's end; NULL: nothing. */
static const char *gid_fault(const struct ibv_gid_entry *e)
{
	if (is_empty(&e->gid))
		return "is empty";
	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return "is not of RoCE v2";
	return e->ndev_ifindex ? NULL : "has no network interface";
}

static int query_gid(const struct dv_device *d, uint8_t port, uint32_t index,
		     struct ibv_gid_entry *e)
{
	int rc = ibv_query_gid_ex(d->context, port, index, e, 0);

	return rc == ENODATA || rc == EINVAL ? -ENODATA : -rc;
}

/* The one that was asked for. */
static int check_gid(const struct dv_device *d, uint8_t port, struct ibv_gid_entry *e, char *why,
		     size_t size)
{
	uint32_t index = d->choice.gid_index;
	int rc = query_gid(d, port, index, e);
	const char *fault = rc < 0 ? "is empty" : gid_fault(e);

	if (!fault)
		return 0;
	snprintf(why, size, "%s port %u: GID %u %s", d->name, port, index, fault);
	return -EADDRNOTAVAIL;
}

static int choose_gid(const struct dv_device *d, uint8_t port, int nr_gids,
		      struct ibv_gid_entry *best, char *why, size_t size)
{
	const char *fault = "is there at all";
	int best_rank = 0;

	if (d->choice.gid_index != DV_GID_ANY)
		return check_gid(d, port, best, why, size);
	for (int i = 0; i < nr_gids; i++) {
		struct ibv_gid_entry e;

		if (query_gid(d, port, (uint32_t)i, &e) < 0 || is_empty(&e.gid))
			continue;
		if (gid_fault(&e)) {
			fault = e.ndev_ifindex ? "is of RoCE v2" : "has a network interface";
		} else if (rank(&e.gid) > best_rank) {
			best_rank = rank(&e.gid);
			*best = e;
		}
	}
	if (best_rank)
		return 0;
	snprintf(why, size, "%s port %u: no GID %s", d->name, port, fault);
	return -EADDRNOTAVAIL;
}

static int probe_roce(struct dv_device *d, uint8_t port, const struct ibv_port_attr *p,
		      struct dv_address *a, uint32_t *gid_index, char *why, size_t size)
{
	struct ibv_gid_entry e;
	int rc = choose_gid(d, port, p->gid_tbl_len, &e, why, size);

	if (rc < 0)
		return rc;
	a->gid = e.gid;
	*gid_index = e.gid_index;
	return 0;
}

static int probe_infiniband(struct dv_device *d, uint8_t port, const struct ibv_port_attr *p,
			    struct dv_address *a, uint32_t *gid_index, char *why, size_t size)
{
	*gid_index = d->choice.gid_index == DV_GID_ANY ? 0 : d->choice.gid_index;
	a->lid = p->lid;
	if (ibv_query_gid(d->context, port, (int)*gid_index, &a->gid) != 0) {
		snprintf(why, size, "%s port %u: GID %u cannot be read: %s", d->name, port,
			 *gid_index, strerror(errno));
		return -EADDRNOTAVAIL;
	}
	if (a->lid)
		return 0;
	snprintf(why, size, "%s port %u: the subnet manager gave it no LID", d->name, port);
	return -EADDRNOTAVAIL;
}

/* ---- ports ------------------------------------------------------------- */

static int query_port(const struct dv_device *d, uint8_t port, struct ibv_port_attr *p,
		      char *why, size_t size)
{
	int rc = ibv_query_port(d->context, port, p);

	if (rc) {
		snprintf(why, size, "%s port %u cannot be asked: %s", d->name, port, strerror(rc));
		return -rc;
	}
	if (p->state == IBV_PORT_ACTIVE)
		return 0;
	snprintf(why, size, "%s port %u is %s, not active", d->name, port,
		 ibv_port_state_str(p->state));
	return -ENETDOWN;
}

static int probe_port(struct dv_device *d, uint8_t port, char *why, size_t size)
{
	struct ibv_port_attr p;
	struct dv_address a;
	uint32_t gid_index;
	int rc = query_port(d, port, &p, why, size);

	if (rc < 0)
		return rc;
	memset(&a, 0, sizeof(a));	/* it is compared whole */
	a.link = p.link_layer;
	a.mtu = (uint8_t)p.active_mtu;
	rc = (a.link == IBV_LINK_LAYER_INFINIBAND ? probe_infiniband : probe_roce)
		(d, port, &p, &a, &gid_index, why, size);
	if (rc < 0)
		return rc;
	rc = d->port != port || d->gid_index != gid_index ||
	     memcmp(&a, &d->address, sizeof(a)) != 0;
	d->port = port;
	d->gid_index = gid_index;
	d->address = a;
	return rc;
}

int dv_device_probe(struct dv_device *d, char *why, size_t size)
{
	if (d->port)
		return probe_port(d, d->port, why, size);
	return probe_port(d, d->choice.port ? d->choice.port : 1, why, size);
}

/* The port that was asked for, or the first that peers can reach. */
static int find_port(struct dv_device *d, uint8_t nr_ports, char *why, size_t size)
{
	uint8_t first = d->choice.port ? d->choice.port : 1;
	uint8_t last = d->choice.port ? d->choice.port : nr_ports;
	int rc = -ENODEV;

	if (first > nr_ports) {
		snprintf(why, size, "%s has no port %u; allowed: 1 to %u", d->name, first,
			 nr_ports);
		return -ENODEV;
	}
	for (uint8_t port = first; port <= last; port++) {
		rc = probe_port(d, port, why, size);
		if (rc >= 0)
			return 0;
	}
	return rc;
}

/* ---- where ------------------------------------------------------------- */

int dv_device_node(const char *name)
{
	char path[DV_NAME_SIZE + 64], text[16] = "";
	int fd, node = -1;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) > 0)
		node = atoi(text);
	close(fd);
	return node;
}

/* ---- opening ----------------------------------------------------------- */

/* libibverbs tries other ways before it gives up, so errno is not that of the node. */
static int cannot_open(const struct ibv_device *device, char *why, size_t size)
{
	char node[DV_NAME_SIZE + 32];
	int fd, error = EIO;

	snprintf(node, sizeof(node), "/dev/infiniband/%s", device->dev_name);
	fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		error = errno;
	else
		close(fd);
	if (error == EACCES || error == EPERM)
		snprintf(why, size, "%s: no permission to open %s", device->name, node);
	else
		snprintf(why, size, "%s cannot be opened by way of %s: %s", device->name, node,
			 strerror(error));
	return -error;
}

static int open_context(struct dv_device *d, const char *name, char *why, size_t size)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at = list;
	int rc = 0;

	while (at && *at && strcmp(ibv_get_device_name(*at), name) != 0)
		at++;
	if (!at || !*at) {
		snprintf(why, size, "there is no device %s", name);
		rc = -ENODEV;
	} else {
		d->context = ibv_open_device(*at);
		if (!d->context)
			rc = cannot_open(*at, why, size);
	}
	if (list)
		ibv_free_device_list(list);
	return rc;
}

static uint8_t at_most_255(int value)
{
	return (uint8_t)(value < 0 ? 0 : value > UINT8_MAX ? UINT8_MAX : value);
}

static int query_limits(struct dv_device *d, uint8_t *nr_ports, char *why, size_t size)
{
	struct ibv_device_attr a;
	int rc = ibv_query_device(d->context, &a);

	if (rc) {
		snprintf(why, size, "%s cannot be asked what it can do: %s", d->name,
			 strerror(rc));
		return -rc;
	}
	d->max_mr_bytes = a.max_mr_size;
	d->max_qp = (uint32_t)a.max_qp;
	d->max_depth = (uint32_t)a.max_qp_wr;
	d->max_cqe = (uint32_t)a.max_cqe;
	d->max_reads = at_most_255(a.max_qp_init_rd_atom);
	d->max_served = at_most_255(a.max_qp_rd_atom);
	*nr_ports = a.phys_port_cnt;
	return 0;
}

/* 0, 1 or -errno, as dv_device_open(). */
static int find_port_now_or_later(struct dv_device *d, uint8_t nr_ports,
				  const struct dv_choice *c, char *why, size_t size)
{
	int rc = find_port(d, nr_ports, why, size);

	return c->may_be_down && (rc == -ENETDOWN || rc == -EADDRNOTAVAIL) ? 1 : rc;
}

int dv_device_open(struct dv_device *d, const char *name, const struct dv_choice *c, char *why,
		   size_t size)
{
	uint8_t nr_ports;
	int rc, error;

	*d = (struct dv_device){ .choice = { .port = c->port, .gid_index = c->gid_index,
					     .pkey_index = c->pkey_index } };
	snprintf(d->name, sizeof(d->name), "%s", name);
	rc = open_context(d, name, why, size);
	if (rc < 0)
		return rc;
	rc = query_limits(d, &nr_ports, why, size);
	if (rc == 0)
		rc = find_port_now_or_later(d, nr_ports, c, why, size);
	if (rc >= 0 && fcntl(d->context->async_fd, F_SETFL, O_NONBLOCK) < 0) {
		error = errno;
		snprintf(why, size, "%s: its events cannot be read without waiting: %s", d->name,
			 strerror(error));
		rc = -error;
	}
	if (rc < 0)
		dv_device_close(d);
	return rc;
}

void dv_device_close(struct dv_device *d)
{
	if (d->context)
		ibv_close_device(d->context);
	d->context = NULL;
}

struct ibv_pd *dv_pd_open(const struct dv_device *d, char *why, size_t size)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->context);

	if (!pd)
		snprintf(why, size, "%s: no protection domain: %s", d->name, strerror(errno));
	return pd;
}

/* ---- events ------------------------------------------------------------ */

enum dv_event dv_device_event(struct dv_device *d, const void **queue)
{
	struct ibv_async_event e;
	enum dv_event what = DV_EVENT_OTHER;

	if (ibv_get_async_event(d->context, &e) != 0)
		return DV_EVENT_NONE;
	switch (e.event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		what = DV_EVENT_GONE;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		what = DV_EVENT_PORT;
		break;
	case IBV_EVENT_CQ_ERR:
		what = DV_EVENT_QUEUE;
		*queue = e.element.cq;
		break;
	case IBV_EVENT_QP_FATAL:
		what = DV_EVENT_QUEUE;
		*queue = e.element.qp;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&e);
	return what;
}
