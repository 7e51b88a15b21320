/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp.h - RC queue pairs and their CQs: made and moved through their states by verbs, then
 * laid open for hand-built WQEs. One asks, and only sends; one serves, and only answers, so
 * nothing that it could be told to send ever leaves it.
 *
 * A QP belongs to one protection domain, and that to one tenant. What a peer's QP may touch
 * is what is registered in its own domain.
 */
#ifndef TENT_DV_QP_H
#define TENT_DV_QP_H

#include "dv/device.h"

/* Makes doorbell registers that one thread alone rings: those of its QPs. */
struct ibv_td *dv_td_open(const struct dv_device *d, char *why, size_t size);

struct dv_qp_options {
	struct ibv_td *td;	/* of the thread that posts; NULL: it serves */
	uint32_t depth;		/* WQEs of one basic block, about; 0: it serves */
	uint8_t sl;		/* service level, 0..15; of RoCE the priority, 0..7 */
	uint8_t tc;		/* traffic class: DSCP << 2 */
	uint8_t reads;		/* READs at once, at most; 0: what the device can */
	uint8_t timeout;	/* 4.096 us * 2^n without an acknowledgement, then again */
	uint8_t retries;	/* 0..7 */
	uint8_t hop_limit;	/* 0: 64 */
};

/* One end of a connection, as the other has to know it. */
struct dv_endpoint {
	struct dv_address address;
	uint32_t qpn;
	uint32_t psn;		/* of its first request */
	uint8_t reads;		/* it may have out; or it serves at once */
};

struct dv_qp {
	const struct dv_device *device;
	struct dv_qp_options o;
	struct ibv_pd *parent;	/* its protection domain and td, if it has one */
	struct ibv_qp *qp;
	struct ibv_cq *cq;	/* its own: an end of a QP rummages in its CQ */
	uint32_t psn;
	uint8_t reads;		/* agreed on, once it is connected */
	bool cq_overrun_ignored; /* nobody has to ring the CQ's doorbell */
	/* it asks: where its queues lie */
	struct mlx5dv_qp sq_raw;
	struct mlx5dv_cq cq_raw;
};

/* In state INIT. */
int dv_qp_open(struct dv_qp *q, const struct dv_device *d, struct ibv_pd *pd,
	       const struct dv_qp_options *o, char *why, size_t size);
/* What the other end has to be told. */
void dv_qp_endpoint(const struct dv_qp *q, struct dv_endpoint *e);
/* To RTR; and one that asks to RTS. It uses the smaller MTU and the fewer READs. */
int dv_qp_connect(struct dv_qp *q, const struct dv_endpoint *peer, char *why, size_t size);
/* To ERR: nothing new is sent or answered; what was posted is flushed, a CQE each. */
int dv_qp_fail(struct dv_qp *q);
/* When it returns the device touches no memory on its behalf, and writes no CQE. */
void dv_qp_close(struct dv_qp *q);

#endif /* TENT_DV_QP_H */
