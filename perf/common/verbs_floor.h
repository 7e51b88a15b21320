/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_floor.h - what a program without tent does: RDMA by ibv_post_send() and
 * ibv_poll_cq() of libibverbs and libmlx5, on the device and between the processes that tent
 * is measured on. One end asks, the other only serves.
 */
#ifndef TENT_PERF_VERBS_FLOOR_H
#define TENT_PERF_VERBS_FLOOR_H

#include "dv/qp.h"

#define VERBS_TEXT 128u		/* an end, for the other one, in a line */

struct verbs_end {
	struct dv_device device;
	struct ibv_pd *pd;
	struct ibv_td *td;	/* it asks */
	struct ibv_mr *mr;
	struct dv_qp qp;
	uint8_t *memory;
	uint64_t remote;	/* address there; it asks */
	uint32_t rkey;
};

/* With size bytes of memory, on the first of these devices that can be opened; depth 0: it
 * serves. 0; -1 after saying why on stderr. */
int verbs_open(struct verbs_end *v, const struct dv_choice *c, uint64_t size, uint32_t depth);
void verbs_close(struct verbs_end *v);

void verbs_text(const struct verbs_end *v, char text[VERBS_TEXT]);
/* To the end that says so of itself. As verbs_open(). */
int verbs_connect(struct verbs_end *v, const char *text);

/* A list of nr requests of size bytes each, at these places times stride; opcode as in
 * enum tent_opcode. Each is signalled. 0 or an errno. */
int verbs_post(struct verbs_end *v, int opcode, uint32_t size, const uint64_t *places,
	       uint32_t nr, uint64_t stride);
/* The places of up to nr that have ended; -1: one of them in failure. */
int verbs_poll(struct verbs_end *v, uint64_t *places, int nr);

#endif /* TENT_PERF_VERBS_FLOOR_H */
