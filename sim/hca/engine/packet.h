/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet.h - one InfiniBand transport packet, decoded. The engine makes and takes these;
 * wire/ turns them into RoCE v2 bytes and back. Integers are in host order.
 * InfiniBand Architecture Specification, volume 1, chapter 9.
 */
#ifndef TENT_SIM_HCA_PACKET_H
#define TENT_SIM_HCA_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#define HCA_PSN_MASK 0xffffffu
#define HCA_QPN_MASK 0xffffffu

/* BTH opcodes: transport in the top 3 bits, operation below. Table 38. */
enum hca_transport { HCA_RC = 0x00, HCA_UD = 0x60 };

enum hca_operation {
	HCA_SEND_FIRST = 0x00,
	HCA_SEND_MIDDLE = 0x01,
	HCA_SEND_LAST = 0x02,
	HCA_SEND_LAST_IMM = 0x03,
	HCA_SEND_ONLY = 0x04,
	HCA_SEND_ONLY_IMM = 0x05,
	HCA_WRITE_FIRST = 0x06,
	HCA_WRITE_MIDDLE = 0x07,
	HCA_WRITE_LAST = 0x08,
	HCA_WRITE_LAST_IMM = 0x09,
	HCA_WRITE_ONLY = 0x0a,
	HCA_WRITE_ONLY_IMM = 0x0b,
	HCA_READ_REQUEST = 0x0c,
	HCA_READ_RESPONSE_FIRST = 0x0d,
	HCA_READ_RESPONSE_MIDDLE = 0x0e,
	HCA_READ_RESPONSE_LAST = 0x0f,
	HCA_READ_RESPONSE_ONLY = 0x10,
	HCA_ACKNOWLEDGE = 0x11,
	HCA_ATOMIC_ACKNOWLEDGE = 0x12,
	HCA_COMPARE_SWAP = 0x13,
	HCA_FETCH_ADD = 0x14,
	HCA_SEND_LAST_INVALIDATE = 0x16,
	HCA_SEND_ONLY_INVALIDATE = 0x17,
};

/* Where a packet goes and comes from, as an address vector and a GRH say it. */
struct hca_route {
	uint8_t sgid[16], dgid[16];	/* RoCE: the IP addresses, IPv4 as ::ffff:a.b.c.d */
	uint16_t slid, dlid;		/* InfiniBand links only */
	uint8_t sl, tclass, hop_limit;
	uint8_t port;			/* ours, from 1 */
	uint8_t sgid_index;		/* of the sender's own table; sending only */
	bool has_grh;			/* always, on Ethernet */
	uint32_t flow_label;
	uint16_t udp_source_port;	/* 0: the wire chooses */
};

struct hca_packet {
	struct hca_route route;
	uint8_t opcode;			/* transport | operation */
	bool solicited, ack_request;
	uint16_t pkey;
	uint32_t dest_qpn, psn;
	/* extension headers: which are there follows from the opcode */
	uint64_t remote_address;	/* RETH, AtomicETH */
	uint32_t rkey;			/* RETH, AtomicETH, IETH */
	uint32_t dma_length;		/* RETH: bytes of the whole message */
	uint64_t swap_or_add, compare;	/* AtomicETH */
	uint64_t original;		/* AtomicAckETH */
	uint8_t syndrome;		/* AETH */
	uint32_t msn;			/* AETH */
	uint32_t qkey, source_qpn;	/* DETH */
	uint32_t immediate;		/* as the four bytes lie in the packet */
	const uint8_t *payload;		/* lent for the call only; without the pad */
	uint32_t length;		/* bytes of payload */
};

/* AETH syndromes, 9.7.5.1.2: class in bits 5 and 6. */
enum hca_aeth {
	HCA_AETH_ACK = 0x1f,		/* credit count not used */
	HCA_AETH_RNR_NAK = 0x20,	/* | timer, 5 bits */
	HCA_AETH_NAK_SEQUENCE = 0x60,
	HCA_AETH_NAK_INVALID_REQUEST = 0x61,
	HCA_AETH_NAK_REMOTE_ACCESS = 0x62,
	HCA_AETH_NAK_REMOTE_OPERATION = 0x63,
};

#endif /* TENT_SIM_HCA_PACKET_H */
