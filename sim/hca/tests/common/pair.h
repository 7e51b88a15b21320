/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.h - two connected queue pairs on two cards, and memory to move between.
 */
#ifndef TENT_SIM_HCA_PAIR_H
#define TENT_SIM_HCA_PAIR_H

#include "sim/hca/tests/common/fabric.h"

#define SECOND_NS 1000000000ULL

enum { PAIR_SPACE = 1 << 20, PAIR_UIDX_A = 0xa, PAIR_UIDX_B = 0xb };

struct pair {
	struct fabric *f;
	struct fabric_qp *a, *b;
	struct fabric_region near, far;	/* of a's host, full of bytes; of b's, zeroed */
};

/* Both may be NULL: what is usual. */
struct pair *pair_create(const struct fabric_path *path, const struct fabric_qp_options *o);
void pair_destroy(struct pair *p);

struct fabric_sge pair_piece(const struct fabric_region *r, uint64_t offset, uint32_t n);
/* Lets both run until all is quiet, then polls; opcode MLX5_CQE_INVALID: nothing came. */
struct fabric_cqe pair_completion(struct pair *p, struct fabric_cq *cq);
/* From near + from; what is remote is far + to. An empty one has no segment. */
uint16_t pair_post(struct pair *p, uint8_t opcode, uint8_t fm_ce_se, uint32_t bytes,
		   uint64_t from, uint64_t to);
/* b waits for a message of so many bytes at far + offset. */
void pair_receive(struct pair *p, uint64_t offset, uint32_t bytes);

#endif /* TENT_SIM_HCA_PAIR_H */
