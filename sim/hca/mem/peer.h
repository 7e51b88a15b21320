/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - memory of other devices at addresses of the program, which no CPU touches. What
 * lies there is said by the mapping itself, where sim/cuda has put it: it is one of a file
 * without bytes, and its offset in that names another file of this process and a place in it.
 */
#ifndef TENT_SIM_HCA_PEER_H
#define TENT_SIM_HCA_PEER_H

#include <stdint.h>

/* The descriptor behind [address, address + length) and *offset in its file; -EFAULT: it is
 * no such memory, or not all of one. The descriptor is not the caller's to close. */
int peer_find(uint64_t address, uint64_t length, uint64_t *offset);

#endif /* TENT_SIM_HCA_PEER_H */
