/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm.h - the connection manager in the holder: what it wants to know of the host.
 */
#ifndef TENT_SIM_HCA_HOST_CM_H
#define TENT_SIM_HCA_HOST_CM_H

#include "sim/hca/host/host.h"

struct host_cm;

int host_cm_open(struct host_cm **out, const struct host_table *t, struct host_memory *m,
		 struct wire *w);
int host_cm_fd(const struct host_cm *c);	/* readable: host_cm_run() has work */
void host_cm_run(struct host_cm *c);
void host_cm_packet(struct host_cm *c, uint32_t device, const struct hca_packet *p);
void host_cm_channel(struct host_cm *c, const int fds[2]);	/* takes them over */
void host_cm_removed(struct host_cm *c, uint32_t device);

#endif /* TENT_SIM_HCA_HOST_CM_H */
