/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.h - the process that is the host: owns the devices, the UDP sockets and the
 * slots, and answers packets to QP 1. One per network namespace, started by tent-sim; it
 * ends some time after its last client.
 */
#ifndef TENT_SIM_HCA_HOLDER_H
#define TENT_SIM_HCA_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* What a host is made of. Zero: whatever there is, or else the default. */
struct holder_config {
	uint32_t nr_devices;		/* 1 to HOST_MAX_DEVICES; 1 */
	uint32_t nr_ports;		/* of each device, 1 to HOST_MAX_PORTS; 1 */
	uint32_t link;			/* enum holder_link; Ethernet */
	uint32_t gso;			/* enum holder_gso; on */
};

enum holder_link { HOLDER_LINK_ANY, HOLDER_LINK_ROCE, HOLDER_LINK_IB };
enum holder_gso { HOLDER_GSO_ANY, HOLDER_GSO_ON, HOLDER_GSO_OFF };

/* Runs the holder of this network namespace until its last client has gone. Writes one
 * zero-terminated line to report_fd: why it cannot, or nothing once clients may come. 0, or
 * -errno if it could not begin: -EADDRINUSE, and no line, when there is one. */
int holder_run(const struct holder_config *c, int report_fd);

#endif /* TENT_SIM_HCA_HOLDER_H */
