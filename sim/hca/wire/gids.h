/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gids.h - the GID table of a port. One process writes it, all others may read it meanwhile;
 * none of them waits, and none sees a half of one address and a half of another.
 */
#ifndef TENT_SIM_HCA_GIDS_H
#define TENT_SIM_HCA_GIDS_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_MAX_GIDS 16

/* Two copies: readers are at one while the other is written. A writer that dies between
 * leaves the one that is whole. */
struct wire_gids {
	uint32_t generation;		/* its last bit: which copy is read */
	uint32_t nr;			/* places that ever were used; <= WIRE_MAX_GIDS */
	uint64_t copies[2][WIRE_MAX_GIDS][2]; /* bytes as they lie in a packet */
};

/* An all-zero GID empties the place. */
void wire_gid_set(struct wire_gids *t, uint32_t index, const uint8_t gid[16]);
/* False: the place is empty, and gid all zero; or there is no such place. */
bool wire_gid_get(const struct wire_gids *t, uint32_t index, uint8_t gid[16]);
/* The first place that has this GID, or -1. */
int wire_gid_find(const struct wire_gids *t, const uint8_t gid[16]);

#endif /* TENT_SIM_HCA_GIDS_H */
