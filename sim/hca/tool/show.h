/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show.h - a host's devices, faults and counters on stdout.
 */
#ifndef TENT_SIM_HCA_SHOW_H
#define TENT_SIM_HCA_SHOW_H

#include "sim/hca/host/host.h"

/* device: HOST_ALL_DEVICES for all */
void show_text(const struct host_table *t, const struct host_memory *m, uint32_t device);
void show_json(const struct host_table *t, const struct host_memory *m, uint32_t device);

#endif /* TENT_SIM_HCA_SHOW_H */
