/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - an RDMA device of mlx5: found by name, opened, asked what it can do, and the
 * address by which peers reach its port.
 *
 * Functions of device, mr and qp make system calls and may block: control thread. They
 * return 0 or -errno, and then one sentence in why (size bytes) that names the device.
 */
#ifndef TENT_DV_DEVICE_H
#define TENT_DV_DEVICE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DV_NAME_SIZE 64		/* IBV_SYSFS_NAME_MAX */
#define DV_DEVICES_MAX 16u
#define DV_GID_ANY UINT32_MAX

/* Which devices, and which port of them, by configuration. */
struct dv_choice {
	const char *allow;	/* names with commas; "": all of mlx5 */
	const char *deny;	/* the same; "": none */
	uint8_t port;		/* 0: the first that is active */
	uint32_t gid_index;	/* DV_GID_ANY: the best of the port */
	uint16_t pkey_index;	/* InfiniBand */
	bool may_be_down;	/* no port that peers can reach yet is no reason to refuse */
};

/* How a port is reached; a peer is told of it. */
struct dv_address {
	uint8_t link;		/* IBV_LINK_LAYER_ETHERNET or _INFINIBAND */
	uint8_t mtu;		/* enum ibv_mtu, active */
	uint16_t lid;		/* InfiniBand, else 0 */
	union ibv_gid gid;
};

struct dv_device {
	struct ibv_context *context;
	char name[DV_NAME_SIZE];
	struct dv_choice choice; /* the port and indices as asked for; no names */
	/* constant */
	uint64_t max_mr_bytes;	/* of one registration */
	uint32_t max_qp, max_depth, max_cqe;
	uint8_t max_reads;	/* outstanding, that we may have */
	uint8_t max_served;	/* the same, that peers may have with us */
	/* as last probed */
	uint8_t port;
	uint32_t gid_index;
	struct dv_address address;
};

/* The allowed devices, by name and in that order, none of them opened: how many, or
 * -ENODEV when there is none. */
int dv_device_names(const struct dv_choice *c, char names[DV_DEVICES_MAX][DV_NAME_SIZE],
		    char *why, size_t size);

/* 1: as may_be_down allows, and why says which port is not active; see dv_device_probe(). */
int dv_device_open(struct dv_device *d, const char *name, const struct dv_choice *c, char *why,
		   size_t size);
void dv_device_close(struct dv_device *d);

/* The NUMA node that it is attached to; -1: that is not known. */
int dv_device_node(const char *name);

/* Looks at the port again. 1: peers have to be told another address. 0: the same.
 * -errno: it has none now, and the old one stays. */
int dv_device_probe(struct dv_device *d, char *why, size_t size);

enum dv_event {
	DV_EVENT_NONE,		/* nothing more to read */
	DV_EVENT_OTHER,		/* of a QP that serves, or of none */
	DV_EVENT_QUEUE,		/* a QP or CQ broke; its user may wait for CQEs in vain */
	DV_EVENT_PORT,		/* the port or its addresses changed: probe */
	DV_EVENT_GONE		/* the device is no more */
};
/* The next of what context->async_fd announces; never waits. QUEUE: *queue is which, to be
 * compared alone, for it may be no more. */
enum dv_event dv_device_event(struct dv_device *d, const void **queue);

struct ibv_pd *dv_pd_open(const struct dv_device *d, char *why, size_t size);

/* "RoCE" or "InfiniBand". */
const char *dv_link_name(uint8_t link);
/* What keeps a QP from leading from one to the other, as a sentence's end; NULL: nothing. */
const char *dv_address_fault(const struct dv_address *from, const struct dv_address *to);
/* For people, and for explain: the GID, or the LID in front of it. */
void dv_address_text(const struct dv_address *a, char *text, size_t size);

#endif /* TENT_DV_DEVICE_H */
