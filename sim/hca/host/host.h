/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - what makes processes of one network namespace one host: a holder process that
 * owns the devices, and this, a process's connection to it. The holder gives a slot (the
 * top byte of its QPNs), the UDP socket that its packets come to, the table of devices,
 * and a memory of faults and counters. It frees the slot when the connection closes,
 * however the process ends.
 */
#ifndef TENT_SIM_HCA_HOST_H
#define TENT_SIM_HCA_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/engine.h"
#include "sim/hca/wire/wire.h"

#define HOST_SOCKET_NAME "tent-hca"	/* abstract */
#define HOST_MAX_DEVICES 8
#define HOST_MAX_PORTS WIRE_MAX_PORTS
#define HOST_NR_SLOTS 256		/* slot 0 is the holder's own: QP 0 and 1 */
#define HOST_SLOT_SHIFT 16		/* QPN = slot << 16 | index */

/* ---- the table of devices: the holder writes, all others only read ----------- */

enum host_port_state {			/* as IBV_PORT_* */
	HOST_PORT_DOWN = 1,
	HOST_PORT_ACTIVE = 4,
};

struct host_port {
	struct wire_port wire;		/* Ethernet or InfiniBand, GIDs, LID */
	uint32_t state;			/* enum host_port_state */
	uint32_t max_mtu_bytes, active_mtu_bytes; /* of a packet's payload, 256 to 4096 */
	char ifname[16];		/* what carries it */
	uint32_t hides_interface;	/* its GIDs do not tell */
	uint8_t mac[8];			/* 6 used */
};

struct host_device {
	char name[16];			/* "mlx5_0" */
	char node[16];			/* "uverbs0" */
	uint64_t node_guid;		/* host order; port n's is the same, plus n - 1 on Ethernet */
	uint32_t nr_ports;
	uint32_t is_removed;
	struct host_port ports[HOST_MAX_PORTS];
};

struct host_user {			/* of a slot */
	uint32_t pid, uid;		/* pid 0: the slot is free */
};

struct host_table {
	uint32_t nr_devices;
	uint32_t use_gso;
	char tree[64];			/* DIR of tree.h */
	struct host_device devices[HOST_MAX_DEVICES];
	struct host_user users[HOST_NR_SLOTS];
};

/* ---- faults and counters: everyone writes, so nobody trusts ------------------ */

struct host_faults {			/* of the commands; zero is off */
	uint32_t no_permission;		/* opening the node is EACCES */
	uint32_t reg_mr_fails;		/* so many registrations from now are ENOMEM;
					 * UINT32_MAX: all */
	uint64_t max_mr_bytes;		/* what the device reports and keeps to */
	uint32_t create_qp_fails;	/* as reg_mr_fails, of queue pairs */
	uint32_t no_dma_buf;		/* it registers none: EOPNOTSUPP */
	uint32_t peer_memory;		/* it registers memory of GPUs by its address */
	uint32_t resv[9];
};

struct host_slot_counters {
	struct hca_counters engine;
	struct wire_counters wire;
	struct hca_gauges gauges;
	uint8_t resv[512 - sizeof(struct hca_counters) - sizeof(struct wire_counters) -
		     sizeof(struct hca_gauges)];
};

struct host_memory_device {
	struct hca_faults engine;
	struct wire_faults wire;
	struct host_faults front;
	uint8_t resv[4096 - sizeof(struct hca_faults) - sizeof(struct wire_faults) -
		     sizeof(struct host_faults)];
	struct host_slot_counters slots[HOST_NR_SLOTS]; /* the slot's process writes */
};

struct host_memory {
	struct host_memory_device devices[HOST_MAX_DEVICES];
};

/* ---- joining ----------------------------------------------------------------- */

struct host;

/* -ENOENT: no holder in this network namespace; -EUSERS: no slot is free; -EPROTO: the
 * holder is of another version. */
int host_join(struct host **out);
/* Also what the child of a fork calls for its parent's: closes only this copy. */
void host_leave(struct host *h);

uint32_t host_slot(const struct host *h);
int host_udp_fd(const struct host *h);	/* for struct wire_config; h keeps it */
const struct host_table *host_table(const struct host *h);
struct host_memory *host_memory(const struct host *h);

/* A GID as it is now, whole. False: no such device, port or index, or an empty place. */
bool host_gid(const struct host_table *t, uint32_t device, uint32_t port, uint32_t index,
	      uint8_t gid[16]);

/* What wire_open() wants to know: fills devices[HOST_MAX_DEVICES], returns how many. */
uint32_t host_wire_devices(const struct host *h, struct wire_device *devices);

/* ---- what the holder has to say ---------------------------------------------- */

struct host_event {
	uint32_t device, port;
	uint32_t ibv_event;		/* IBV_EVENT_*; DEVICE_FATAL: the device was removed */
};

int host_fd(const struct host *h);	/* readable: host_read() has something */
/* 0, -EAGAIN, or -EPIPE: the holder is gone. Does not wait. */
int host_read(struct host *h, struct host_event *out);
/* Hands the holder its ends of a cm_channel; they stay open here too. 0 or -errno. */
int host_give_channel(struct host *h, const int holder_fds[2]);

#endif /* TENT_SIM_HCA_HOST_H */
