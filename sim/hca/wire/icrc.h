/* SPDX-License-Identifier: Apache-2.0 */
/*
 * icrc.h - the invariant CRC of RoCE v2: CRC-32 of Ethernet over everything that no router
 * changes. IBA volume 1, 7.8.1; annex A17 for what stands in place of the rest: eight bytes of
 * ones for the LRH, ones for TOS or traffic class, flow label, TTL or hop limit, the two
 * checksums and BTH's fifth byte.
 */
#ifndef TENT_SIM_HCA_ICRC_H
#define TENT_SIM_HCA_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICRC_BYTES 4

/* Who sends to whom: IPv4 as ::ffff:a.b.c.d, and then both are. */
struct icrc_path {
	uint8_t source[16], dest[16];
	uint16_t source_port, dest_port;
};

/* The four bytes, as a number whose lowest byte is sent first. datagram: BTH and what
 * follows, without the ICRC itself; at least 12 bytes. ip_id: IPv4's identification. */
uint32_t icrc_compute(const struct icrc_path *path, uint16_t ip_id, const uint8_t *datagram,
		      size_t n);

/* Whether icrc is right for hint or for any other ip_id below 64: a receiver does not
 * learn the identification, and a sender that lets the kernel cut one large datagram up
 * numbers the pieces so. */
bool icrc_check(const struct icrc_path *path, uint16_t hint, const uint8_t *datagram, size_t n,
		uint32_t icrc);

/* CRC-32 without the inversions at its ends, and by tables alone: for tests. */
uint32_t icrc_update(uint32_t state, const uint8_t *data, size_t n);
uint32_t icrc_update_by_table(uint32_t state, const uint8_t *data, size_t n);

#endif /* TENT_SIM_HCA_ICRC_H */
