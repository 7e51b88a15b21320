/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - the discovery tree: what programs find under /sys and /dev when a ConnectX is
 * there, as plain files below one directory. The preloaded library sends paths there:
 *
 *   DIR/sys/class/infiniband/mlx5_N		-> the PCI function's folder
 *   DIR/sys/class/infiniband_verbs/uverbsN	-> the same
 *   DIR/sys/class/misc/rdma_cm
 *   DIR/sys/bus/pci/devices/7357:0N:00.0	-> DIR/sys/devices/pci7357:00/...
 *   DIR/dev/infiniband/{uverbsN,rdma_cm}	empty; their mode says who may open them
 */
#ifndef TENT_SIM_HCA_TREE_H
#define TENT_SIM_HCA_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define TREE_MAX_DEVICES 16
#define TREE_MAX_PORTS	 2
#define TREE_GIDS	 16	/* length of every port's GID table */

/* What the library tells of the nodes by fstat(). */
#define TREE_UVERBS_MAJOR 231
#define TREE_UVERBS_MINOR 192	/* of uverbs0 */
#define TREE_RDMA_CM_MAJOR 10
#define TREE_RDMA_CM_MINOR 58

/* Environment of programs that shall see the tree: its directory. */
#define TREE_ENV "TENT_SIM_TREE"

struct tree_gid {
	uint8_t raw[16];		/* all zero: no entry */
	bool is_roce_v2;
	char interface[16];		/* network device; empty on InfiniBand */
};

struct tree_port {
	bool is_ethernet;
	bool is_up;
	uint16_t lid;			/* InfiniBand */
	struct tree_gid gids[TREE_GIDS];
};

struct tree_device {
	unsigned index;			/* N of mlx5_N and uverbsN */
	uint64_t node_guid;		/* host order */
	unsigned nr_ports;
	struct tree_port ports[TREE_MAX_PORTS];
};

/* Makes all of it; dir must not exist. 0 or -errno, and then nothing is left. */
int tree_make(const char *dir, const struct tree_device *devices, unsigned nr);

/* Writes what can change while programs run: GIDs, port state, LID. Each file is replaced
 * whole, so that a reader never sees half of one. */
int tree_update_ports(const char *dir, const struct tree_device *device);

/* Removes one that tree_make() made. */
int tree_remove(const char *dir);

#endif /* TENT_SIM_HCA_TREE_H */
