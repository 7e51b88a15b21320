/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.c - IP addresses and ports of ids: bind, resolve, listen, and who listens.
 */
#include <errno.h>
#include <string.h>

#include "sim/hca/cm/core.h"

/* As /proc/sys/net/ipv4/ip_local_port_range comes. */
enum { FIRST_EPHEMERAL_PORT = 32768, LAST_EPHEMERAL_PORT = 60999 };

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

uint32_t cm_address_bytes(const union cm_address *a)
{
	switch (a->any.sa_family) {
	case AF_INET:
		return sizeof(a->v4);
	case AF_INET6:
		return sizeof(a->v6);
	default:
		return 0;
	}
}

uint16_t cm_address_port(const union cm_address *a)
{
	return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

static void set_port(union cm_address *a, uint16_t port)
{
	if (a->any.sa_family == AF_INET)
		a->v4.sin_port = htons(port);
	else
		a->v6.sin6_port = htons(port);
}

void cm_address_ip(const union cm_address *a, uint8_t ip[16])
{
	if (a->any.sa_family == AF_INET6) {
		memcpy(ip, &a->v6.sin6_addr, 16);
		return;
	}
	memcpy(ip, v4_prefix, sizeof(v4_prefix));
	memcpy(ip + 12, &a->v4.sin_addr, 4);
}

void cm_address_set(union cm_address *a, const uint8_t ip[16], uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (!memcmp(ip, v4_prefix, sizeof(v4_prefix))) {
		a->any.sa_family = AF_INET;
		memcpy(&a->v4.sin_addr, ip + 12, 4);
	} else {
		a->any.sa_family = AF_INET6;
		memcpy(&a->v6.sin6_addr, ip, 16);
	}
	set_port(a, port);
}

static bool is_zero(const union cm_address *a)
{
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

bool cm_address_is_loopback(const union cm_address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static bool same_ip(const union cm_address *a, const union cm_address *b)
{
	uint8_t ip_a[16], ip_b[16];

	cm_address_ip(a, ip_a);
	cm_address_ip(b, ip_b);
	return !memcmp(ip_a, ip_b, 16);
}

/* ---- ports --------------------------------------------------------------------- */

/* Whether the address is a wildcard that takes in addresses of this family. A loopback
 * address that no device has is one too, as for the kernel. */
static bool any_takes(const struct cm_id *id, uint16_t family)
{
	if (id->has_device || (!is_zero(&id->source) && !cm_address_is_loopback(&id->source)))
		return false;
	return id->source.any.sa_family == family ||
	       (id->source.any.sa_family == AF_INET6 && !id->v6_only);
}

static bool addresses_overlap(const struct cm_id *a, const struct cm_id *b)
{
	return any_takes(a, b->source.any.sa_family) || any_takes(b, a->source.any.sa_family) ||
	       same_ip(&a->source, &b->source);
}

/* Two may share a port if both allow it and the other does not listen. */
static bool port_conflicts(const struct cm_id *id, const struct cm_id *other)
{
	if (other == id || other->state == CM_ID_IDLE || other->port_space != id->port_space ||
	    cm_address_port(&other->source) != cm_address_port(&id->source))
		return false;
	if (id->reuse_address && other->reuse_address && other->state != CM_ID_LISTEN)
		return false;
	return addresses_overlap(id, other);
}

static int check_port(const struct cm_id *id)
{
	const struct cm_id *other;

	for (other = id->file->cm->ids; other; other = other->next)
		if (port_conflicts(id, other))
			return -EADDRINUSE;
	return 0;
}

static bool port_is_free(const struct cm_id *id, uint16_t port)
{
	const struct cm_id *other;

	for (other = id->file->cm->ids; other; other = other->next)
		if (other != id && other->state != CM_ID_IDLE &&
		    other->port_space == id->port_space && cm_address_port(&other->source) == port)
			return false;
	return true;
}

static int choose_port(struct cm_id *id)
{
	uint32_t count = LAST_EPHEMERAL_PORT - FIRST_EPHEMERAL_PORT + 1;
	uint32_t first = cm_random(id->file->cm) % count, i;

	for (i = 0; i < count; i++) {
		uint16_t port = (uint16_t)(FIRST_EPHEMERAL_PORT + (first + i) % count);

		if (port_is_free(id, port)) {
			set_port(&id->source, port);
			return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

/* ---- bind, listen ---------------------------------------------------------------- */

static int take_device(struct cm_id *id)
{
	struct cm_env *env = &id->file->cm->env;
	uint8_t ip[16];
	int rc;

	cm_address_ip(&id->source, ip);
	rc = env->place_of(env->ctx, ip, &id->path.place);
	id->has_device = !rc;
	return rc;
}

static int bind_source(struct cm_id *id)
{
	int rc = is_zero(&id->source) ? 0 : take_device(id);

	if (rc == -ENODEV && cm_address_is_loopback(&id->source))
		rc = 0;
	if (!rc)
		rc = cm_address_port(&id->source) ? check_port(id) : choose_port(id);
	return rc;
}

/* AF_IB too is refused: librdmacm then asks for everything by IP addresses. */
int cm_bind(struct cm_id *id, const union cm_address *a)
{
	int rc;

	if (!cm_address_bytes(a))
		return -EAFNOSUPPORT;
	if (id->state != CM_ID_IDLE)
		return -EINVAL;
	if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr) &&
	    !a->v6.sin6_scope_id)
		return -EINVAL;
	id->source = *a;
	rc = bind_source(id);
	if (rc) {
		memset(&id->source, 0, sizeof(id->source));
		id->has_device = false;
		return rc;
	}
	id->state = CM_ID_BOUND;
	return 0;
}

int cm_listen(struct cm_id *id, uint32_t backlog)
{
	union cm_address any = { .v4 = { .sin_family = AF_INET } };
	int rc;

	if (id->state == CM_ID_IDLE) {
		rc = cm_bind(id, &any);
		if (rc)
			return rc;
	}
	if (id->state != CM_ID_BOUND)
		return -EINVAL;
	if (id->reuse_address) {
		id->reuse_address = false;
		rc = check_port(id);
		if (rc) {
			id->reuse_address = true;
			return rc;
		}
	}
	id->backlog = backlog;
	id->state = CM_ID_LISTEN;
	return 0;
}

uint64_t cm_service_id(const struct cm_id *id, const union cm_address *a)
{
	return (uint64_t)id->port_space << 16 | cm_address_port(a);
}

static bool listens_for(const struct cm_id *id, struct cm_place at, uint64_t service_id,
			const union cm_address *to)
{
	if (id->state != CM_ID_LISTEN || cm_service_id(id, &id->source) != service_id)
		return false;
	if (id->has_device && (id->path.place.device != at.device || id->path.place.port != at.port))
		return false;
	return any_takes(id, to->any.sa_family) || same_ip(&id->source, to);
}

struct cm_id *cm_find_listener(struct cm *cm, struct cm_place at, uint64_t service_id,
			       const struct cm_ip_header *h)
{
	union cm_address to = { .v6 = { .sin6_family = AF_INET6 } };
	struct cm_id *id;

	if (h->version == 4) {
		to.any.sa_family = AF_INET;
		memcpy(&to.v4.sin_addr, h->destination + 12, 4);
	} else {
		memcpy(&to.v6.sin6_addr, h->destination, 16);
	}
	for (id = cm->ids; id; id = id->next)
		if (listens_for(id, at, service_id, &to))
			return id;
	return NULL;
}

/* ---- resolve ------------------------------------------------------------------------ */

/* The destination 0.0.0.0 or :: is this host. */
static void replace_zero_destination(struct cm_id *id)
{
	static const uint8_t v4_loopback[16] = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 };
	static const uint8_t v6_loopback[16] = { [15] = 1 };
	bool is_v4 = id->destination.any.sa_family == AF_INET;

	if (is_zero(&id->destination))
		cm_address_set(&id->destination, is_v4 ? v4_loopback : v6_loopback,
			       cm_address_port(&id->destination));
}

/* This host by a loopback address that no device has: any device will do. */
static int take_any_device(struct cm_id *id)
{
	struct cm_env *env = &id->file->cm->env;
	struct cm_place first = { .device = 0, .port = 1 };
	struct cm_port port;

	if (!env->port(env->ctx, first, &port))
		return -ENODEV;
	id->path.place = first;
	id->has_device = true;
	return 0;
}

static int find_source(struct cm_id *id)
{
	struct cm_env *env = &id->file->cm->env;
	uint8_t to[16], from[16];
	int rc;

	if (id->has_device)
		return 0;
	cm_address_ip(&id->destination, to);
	rc = env->source_for(env->ctx, to, from);
	if (rc)
		return rc;
	cm_address_set(&id->source, from, cm_address_port(&id->source));
	rc = take_device(id);
	if (rc == -ENODEV && cm_address_is_loopback(&id->destination))
		rc = take_any_device(id);
	return rc;
}

/* On failure the id is as it was bound: the program may try another destination. */
static int resolve(struct cm_id *id)
{
	union cm_address source = id->source;
	bool has_device = id->has_device;
	int rc;

	replace_zero_destination(id);
	rc = find_source(id);
	if (!rc)
		rc = cm_path_resolve(id);
	if (rc) {
		id->source = source;
		id->has_device = has_device;
	}
	return rc;
}

int cm_resolve_address(struct cm_id *id, const union cm_address *source,
		       const union cm_address *destination)
{
	union cm_address any = { .any = { .sa_family = destination->any.sa_family } };
	int rc;

	if (!cm_address_bytes(destination))
		return -EAFNOSUPPORT;
	if (id->state == CM_ID_IDLE) {
		rc = cm_bind(id, source->any.sa_family ? source : &any);
		if (rc)
			return rc;
	}
	if (id->state != CM_ID_BOUND || id->source.any.sa_family != destination->any.sa_family)
		return -EINVAL;
	id->destination = *destination;
	rc = resolve(id);
	if (!rc)
		id->state = CM_ID_ADDRESS_RESOLVED;
	cm_event_post(id, rc ? CM_EVENT_ADDR_ERROR : CM_EVENT_ADDR_RESOLVED, rc);
	return 0;
}

int cm_resolve_route(struct cm_id *id)
{
	if (id->state != CM_ID_ADDRESS_RESOLVED)
		return -EINVAL;
	id->state = CM_ID_ROUTE_RESOLVED;
	id->nr_paths = 1;
	cm_event_post(id, CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
