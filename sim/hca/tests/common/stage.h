/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - one card with a connected queue pair, and a peer that the test plays packet by
 * packet. PSNs are given from where each side began, and wrap on the way.
 */
#ifndef TENT_SIM_HCA_STAGE_H
#define TENT_SIM_HCA_STAGE_H

#include "sim/hca/tests/common/fabric.h"

enum {
	STAGE_PEER_QPN = 0x20005, STAGE_MTU = 1024,
	STAGE_RQ_PSN = 0xfffffe,	/* the peer's first */
	STAGE_SQ_PSN = 0xfffffd,	/* ours */
};

struct stage {
	struct fabric *f;
	struct fabric_host *host;
	struct fabric_qp *qp;
	struct fabric_region memory;
	uint32_t seen;			/* packets of the log that were looked at */
	uint8_t payload[4096];
};

/* path may be NULL: the usual. */
struct stage *stage_create(const struct fabric_path *path);
struct stage *stage_create_ib(void);	/* on an InfiniBand link */
void stage_destroy(struct stage *s);
/* The card receives it; from the peer, unless it has a route. Its PSN counts from the peer's first; that of an answer from ours. */
void stage_inject(struct stage *s, struct hca_packet p);
/* Of n bytes of a message of `whole`, to the start of the memory, asking for an answer. */
struct hca_packet stage_write_packet(struct stage *s, uint8_t opcode, uint32_t psn, uint32_t n,
				     uint32_t whole);
struct hca_packet stage_read_packet(struct stage *s, uint32_t psn, uint32_t offset, uint32_t n);
const struct hca_packet *stage_next_sent(struct stage *s);
void stage_expect_silence(struct stage *s);
/* What the card sends next: an answer, with a PSN from the peer's first; or a request of its
 * own, with one from its first. */
void stage_expect_answer(struct stage *s, uint8_t opcode, int32_t psn, uint8_t syndrome);
const struct hca_packet *stage_expect_request(struct stage *s, uint8_t opcode, uint32_t psn);
void stage_expect_state(struct stage *s, enum hca_qp_state state);

#endif /* TENT_SIM_HCA_STAGE_H */
