/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - packets of the engine to RoCE v2 datagrams on a UDP socket and back, and what
 * goes wrong between. One struct wire serves all devices of a process through the one
 * socket that the holder gave it. The caller serialises all calls on it.
 *
 * InfiniBand links travel in the same encapsulation: a LID is the low 15 bits of an IPv4
 * address, the other bits are those of the sender's own address. What IPv4 has no place
 * for lies in BTH's reserved bits, see codec.h.
 */
#ifndef TENT_SIM_HCA_WIRE_H
#define TENT_SIM_HCA_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/packet.h"
#include "sim/hca/wire/gids.h"

#define WIRE_UDP_PORT 4791
#define WIRE_LID_MASK 0x7fffu
#define WIRE_MAX_PORTS 2

/* A port as the wire sees it. May lie in memory that the holder changes meanwhile: each
 * field is read once per use. */
struct wire_port {
	uint32_t is_ethernet;
	uint32_t is_up;
	uint32_t ifindex;		/* 0: whichever the route says */
	uint32_t lid;			/* InfiniBand; 0 on Ethernet */
	struct wire_gids gids;
	uint8_t address[16];		/* InfiniBand: the IPv4 address that carries it */
};

/* Lies in memory shared with tent-sim ctl: any value is valid, zero is off. Counts go
 * down once per packet, whichever process sends it. Only what a device sends is hurt;
 * a link that is down takes in nothing either. */
struct wire_faults {
	uint32_t bandwidth_mbps;	/* 10^6 bits a second, of the device as a whole */
	uint32_t latency_ns;
	uint32_t jitter_ns;		/* up to so much more; keeps the order */
	uint32_t loss_ppm;
	uint32_t loss_count;
	uint32_t reorder_ppm;		/* such a packet is overtaken for reorder_ns */
	uint32_t reorder_ns;		/* 0: 100 us */
	uint32_t drop_request_ppm, drop_request_count;
	uint32_t drop_response_ppm, drop_response_count;
	uint32_t delay_request_ppm, delay_request_count;
	uint32_t delay_response_ppm, delay_response_count;
	uint32_t delay_ns;		/* of the four above; 0: 1 ms */
	uint32_t seed;			/* of the dice; 0: another one each time */
	uint32_t resv;
	uint64_t link_free_ns;		/* when the slow link has sent what it has */
};

struct wire_counters {
	uint64_t sent, received;	/* packets that the kernel took, and gave */
	uint64_t dropped, delayed;	/* by a fault, on purpose */
	uint64_t malformed, bad_icrc;	/* received */
	uint64_t unsent;		/* the kernel refused, or no such address */
	uint64_t queue_full;		/* delayed packets beyond what is kept */
};

struct wire_device {
	const struct wire_port *ports[WIRE_MAX_PORTS]; /* port n is ports[n - 1] */
	uint32_t nr_ports;
	struct wire_faults *faults;	/* NULL: none */
	struct wire_counters *counters;	/* not NULL */
};

struct wire_config {
	int fd;				/* UDP, [::]:4791, prepared; lent */
	const struct wire_device *devices; /* copied; what they point at is lent */
	uint32_t nr_devices;
	bool use_gso;			/* sends may leave as one large datagram */
	uint64_t (*now_ns)(void *ctx);	/* monotonic, the same for all of the host */
	void *ctx;
};

struct wire;

/* A port GUID of an InfiniBand link says what address carries it, so that a GID is
 * enough to reply to. */
void wire_ib_guid(const uint8_t ipv4[4], uint8_t guid[8]);

/* Sets a socket up for wire_open(). With privilege it gets larger buffers, so the holder
 * does it. 0 or -errno. */
int wire_prepare_socket(int fd);

int wire_open(struct wire **out, const struct wire_config *c);
void wire_close(struct wire *w);

/* Takes a packet of a device; the payload is copied. route.sgid_index chooses the source
 * address, sgid is ignored. What cannot be sent is counted and lost. It may wait for
 * wire_flush(). */
void wire_send(struct wire *w, uint32_t device, const struct hca_packet *p);
void wire_flush(struct wire *w);

/* Gives sound packets that have come to fn, each with the device whose address it came to;
 * returns how many datagrams were taken, 0 when there is none. Bounded: call again. fn may
 * call wire_send(), not wire_receive(). */
typedef void wire_packet_fn(void *ctx, uint32_t device, const struct hca_packet *p);
int wire_receive(struct wire *w, wire_packet_fn *fn, void *ctx);

/* Delayed packets: when wire_run() is due (UINT64_MAX: never), and to send what is. */
uint64_t wire_next_ns(const struct wire *w);
/* When the last of those that keep their order is; in the past: none waits. */
uint64_t wire_last_ns(const struct wire *w);
void wire_run(struct wire *w);

#endif /* TENT_SIM_HCA_WIRE_H */
