/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.h - the connection manager as the holder runs it: one for the host, behind queue
 * pair 1 of each port. One thread. The holder watches one descriptor, hands in the packets
 * that are for QP 1, and the sockets of new event channels.
 */
#ifndef TENT_SIM_HCA_CM_HOLDER_H
#define TENT_SIM_HCA_CM_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/packet.h"

struct cm_holder;

struct cm_place {
	uint32_t device;		/* from 0 */
	uint32_t port;			/* from 1 */
};

struct cm_port {
	uint64_t node_guid;		/* host order */
	bool is_ethernet;
	uint16_t lid;			/* InfiniBand links only */
	uint32_t path_mtu_bytes;	/* of the active MTU */
	uint32_t ibdev_index;		/* what RDMA netlink says; where it says nothing ~0 */
	uint32_t timeout_scale_percent;	/* of every timeout; 0: 100 */
};

/* What it needs of the holder. Called from within the functions below. IP addresses have
 * 16 bytes, IPv4 as ::ffff:a.b.c.d. */
struct cm_env {
	void *ctx;
	/* A UD packet of QP 1; route.port says of which port. */
	void (*send)(void *ctx, uint32_t device, const struct hca_packet *p);
	uint64_t (*now_ns)(void *ctx);	/* monotonic */
	/* False: no such port, or its device was removed. */
	bool (*port)(void *ctx, struct cm_place at, struct cm_port *out);
	/* Entry i of the port's GID table; false past the end. An empty place is all zero. */
	bool (*gid)(void *ctx, struct cm_place at, uint32_t index, uint8_t gid[16]);
	/* The port that owns this local address: -ENODEV if the address is local but of no
	 * device, -EADDRNOTAVAIL if it is not local. */
	int (*place_of)(void *ctx, const uint8_t ip[16], struct cm_place *out);
	/* The local address from which the host would reach this one: 0 or -errno. */
	int (*source_for)(void *ctx, const uint8_t to[16], uint8_t from[16]);
	/* InfiniBand: what a subnet manager would tell of the port that has this address;
	 * false: there is none. */
	bool (*resolve_ib)(void *ctx, struct cm_place from, const uint8_t ip[16],
			   uint8_t gid[16], uint16_t *lid);
};

int cm_holder_create(struct cm_holder **out, const struct cm_env *env);
void cm_holder_destroy(struct cm_holder *h);

/* Readable when cm_holder_run() has work: commands, closed channels, timers. */
int cm_holder_fd(const struct cm_holder *h);
void cm_holder_run(struct cm_holder *h);

/* The two sockets of a new channel, as cm_channel_open() made them; takes them over, also
 * when it fails. */
int cm_holder_channel(struct cm_holder *h, const int fds[2]);

/* A packet for QP 1 that the wire found sound. What is no CM message is ignored. */
void cm_holder_packet(struct cm_holder *h, uint32_t device, const struct hca_packet *p);

/* The device is gone: tells every id that uses it. */
void cm_holder_removed(struct cm_holder *h, uint32_t device);

#endif /* TENT_SIM_HCA_CM_HOLDER_H */
