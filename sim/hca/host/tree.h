/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - the discovery tree: what libibverbs and others look for below /sys/class and
 * /sys/devices, as files below a folder of the holder's.
 */
#ifndef TENT_SIM_HCA_TREE_H
#define TENT_SIM_HCA_TREE_H

#include "sim/hca/host/host.h"

/* Makes the tree in an empty folder, or brings one that it made up to date with the table
 * (port states, GIDs; devices that are removed go). Files are readable for all users. The
 * holder deletes the folder and all that is in it. 0 or -errno. */
int tree_make(const char *folder, const struct host_table *t);

#endif /* TENT_SIM_HCA_TREE_H */
