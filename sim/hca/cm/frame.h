/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - what a channel's second socket carries: one request, one answer, each one
 * packet. On the first, the one that the program has, the holder lays a byte when events
 * begin to wait; the process takes it when it is told that none waits any more.
 *
 * After a fork both processes have the first. The child hands the holder a second one of
 * its own, on its parent's: as a packet of CM_FRAME_JOIN_BYTES, which has no answer.
 */
#ifndef TENT_SIM_HCA_CM_FRAME_H
#define TENT_SIM_HCA_CM_FRAME_H

#include <stdint.h>

#define CM_FRAME_COMMAND_BYTES 512u
#define CM_FRAME_OPTION_BYTES 1024u
#define CM_FRAME_REPLY_BYTES 512u
#define CM_FRAME_JOIN_BYTES 1u

struct cm_request {
	uint32_t command;		/* RDMA_USER_CM_CMD_* */
	uint16_t in_bytes, out_bytes;	/* as the program said */
	uint64_t cookie;		/* SO_COOKIE of the program's descriptor */
	uint64_t old_cookie;		/* MIGRATE_ID: of the other channel's */
	uint32_t option_bytes;
	uint32_t resv;
	uint8_t in[CM_FRAME_COMMAND_BYTES]; /* zero behind in_bytes */
	uint8_t option[CM_FRAME_OPTION_BYTES]; /* sent as far as option_bytes */
};

#define CM_ANSWER_DRAINED	(1U << 0) /* take the byte from the channel */
#define CM_ANSWER_OLD_DRAINED	(1U << 1) /* and from the one that the id came from */

struct cm_answer {
	int32_t result;			/* 0 or -errno */
	uint32_t flags;			/* CM_ANSWER_* */
	uint64_t response;		/* the program's address for the reply */
	uint32_t reply_bytes;
	uint32_t resv;
	uint8_t reply[CM_FRAME_REPLY_BYTES];
};

#endif /* TENT_SIM_HCA_CM_FRAME_H */
