/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - a packet's transport headers, payload and pad, to bytes and back. IBA volume
 * 1, chapter 9. Without the ICRC, and without what lies below UDP.
 */
#ifndef TENT_SIM_HCA_CODEC_H
#define TENT_SIM_HCA_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/hca/engine/packet.h"

#define CODEC_BTH_BYTES 12
#define CODEC_MAX_HEADER_BYTES (CODEC_BTH_BYTES + 28)	/* AtomicETH is the longest */
#define CODEC_MAX_PAYLOAD_BYTES 4096
#define CODEC_MAX_BYTES (CODEC_MAX_HEADER_BYTES + CODEC_MAX_PAYLOAD_BYTES)

/* BTH's fifth byte is FECN, BECN and six reserved bits that the ICRC does not cover. An
 * InfiniBand link keeps there what RoCE v2 has no place for, so that cards of one link
 * type do not hear those of the other. All zero on Ethernet. */
#define CODEC_IB_LINK 0x01u
#define CODEC_IB_GRH 0x02u
#define CODEC_IB_SL_SHIFT 2		/* four bits */

/* How many bytes it takes, a multiple of 4; 0 for an opcode that there is not, or a
 * payload that is too long or may not be there. */
size_t codec_bytes(const struct hca_packet *p);
/* For a packet whose codec_bytes() are not 0, and room for so many. */
void codec_encode(const struct hca_packet *p, bool is_ib, uint8_t *to);

/* 0, or -EBADMSG. Leaves p->route's addresses alone; p->payload points into from. */
int codec_decode(struct hca_packet *p, const uint8_t *from, size_t n);

/* A request, or what answers one. */
bool codec_is_response(uint8_t opcode);

bool codec_is_ipv4(const uint8_t address[16]);	/* ::ffff:a.b.c.d */

#endif /* TENT_SIM_HCA_CODEC_H */
