/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_frame.h - what travels on data connections. docs/peers.md has the contract.
 * Little-endian, like the hosts that we run on.
 */
#ifndef TENT_IO_TCP_FRAME_H
#define TENT_IO_TCP_FRAME_H

#include <stdint.h>

#define TCP_MAGIC 0x444e4554u		/* "TEND" */
#define TCP_HELLO_MAGIC 0x41544144544e4554ull	/* "TENTDATA" */
#define TCP_VERSION 1u
#define TCP_CHUNK_MAX (4u << 20)	/* bytes of one frame's payload */

enum tcp_purpose { TCP_FOR_DATA = 1, TCP_FOR_FENCE = 2 };

/* Who calls; its first bytes. */
struct tcp_hello {
	uint64_t magic;
	uint16_t version;
	uint16_t purpose;	/* enum tcp_purpose */
	uint16_t level;		/* of priority: 0, 1, 2 */
	uint16_t resv0;		/* must be zero */
	uint64_t caller_epoch, called_epoch;
	uint64_t token[2];	/* from the hello of the link */
	uint64_t connection;	/* its name; or that of the one to be fenced */
	uint64_t resv1;		/* must be zero */
};
_Static_assert(sizeof(struct tcp_hello) == 64, "hello of a data connection");

/* The answer. To a fence: that connection is closed, and what came by it has arrived. */
struct tcp_welcome {
	uint64_t magic;
	uint16_t version;
	uint16_t resv0;		/* must be zero */
	uint32_t depth;		/* frames that wait for their answer, at most */
	uint64_t connection;
	uint64_t resv1;		/* must be zero */
};
_Static_assert(sizeof(struct tcp_welcome) == 32, "answer to it");

enum tcp_type {
	TCP_READ = 1,	/* caller: length bytes of address are wanted */
	TCP_WRITE = 2,	/* caller: length bytes for address follow */
	TCP_DATA = 3,	/* called: of a READ; length bytes follow, none with a status */
	TCP_DONE = 4	/* called: of a WRITE */
};

#define TCP_F_CRC (1u << 0)	/* the tail has a checksum; of a READ: it shall have one */
#define TCP_F_ALL TCP_F_CRC

struct tcp_head {
	uint32_t magic;
	uint8_t version;
	uint8_t type;		/* enum tcp_type */
	uint16_t status;	/* enum tent_rule of an answer, 0: done */
	uint64_t id;		/* the caller's; the answer has the same */
	uint64_t address;	/* in the owner of the segment; of an answer 0 */
	uint32_t handle;	/* of the segment; of an answer 0 */
	uint32_t length;
	uint32_t flags;		/* TCP_F_* */
	uint32_t resv[3];	/* must be zero */
};
_Static_assert(sizeof(struct tcp_head) == 48, "head of a frame");

/* Behind a payload. */
struct tcp_tail {
	uint32_t crc32c;	/* with TCP_F_CRC, else 0 */
	uint16_t status;	/* enum tent_rule: the payload is none, memory went away; or 0 */
	uint16_t resv;		/* must be zero */
};
_Static_assert(sizeof(struct tcp_tail) == 8, "tail of a frame");

#endif /* TENT_IO_TCP_FRAME_H */
