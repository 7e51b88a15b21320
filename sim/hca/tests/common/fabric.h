/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - two cards, a wire in memory between them, and a clock that only tests move.
 * What a program does through libmlx5 (queues, records, doorbells), a test does through
 * this, with builders and parsers of its own. Anything that cannot be is abort().
 */
#ifndef TENT_SIM_HCA_FABRIC_H
#define TENT_SIM_HCA_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/engine.h"

enum {
	FABRIC_HOSTS = 2,
	FABRIC_IN_FLIGHT = 1024,	/* packets; more are lost */
	FABRIC_LOG = 256,		/* packets that the log keeps */
	FABRIC_EVENTS = 64,
	FABRIC_MAX_SGE = 60,
};

struct fabric_packet {
	struct hca_packet packet;	/* its payload points to bytes */
	uint8_t *bytes;			/* allocated when first needed */
	uint64_t due_ns, order;
	int to;				/* host; -1: slot is free */
};

struct fabric_event {
	enum hca_event event;
	void *cookie;
};

struct fabric;

struct fabric_host {
	struct fabric *fabric;
	int index;
	struct hca_env env;
	struct hca_faults faults;
	struct hca_counters counters;
	struct hca_gauges gauges;
	struct hca *hca;
	struct hca_pd *pd;
	struct fabric_event events[FABRIC_EVENTS];
	uint32_t nr_events, cq_events;
	uint32_t port_mtu_bytes;
	void *last_cq;
};

struct fabric {
	uint64_t now_ns, order;
	uint32_t random;
	bool is_ethernet;
	struct fabric_host host[FABRIC_HOSTS];
	struct fabric_packet *flying;	/* FABRIC_IN_FLIGHT of them */
	uint32_t nr_flying;
	/* The wire's character; rates in thousandths. */
	uint32_t loss, duplication, reordering;
	uint64_t delay_ns;
	/* May change a packet; false: it is lost. Optional. */
	bool (*filter)(void *ctx, int from, struct hca_packet *p);
	void *filter_ctx;
	bool is_cut;			/* packets go to the log only */
	struct fabric_packet *log;	/* of what hosts sent, FABRIC_LOG of them */
	uint32_t nr_logged;
	char trace[256];		/* the last line */
	uint32_t nr_traced;
};

/* Host 0 hands out QPNs from 0x10000, host 1 from 0x20000. */
struct fabric *fabric_create(bool is_ethernet);
void fabric_destroy(struct fabric *f);
/* Lets time pass until all is quiet or so much has gone by. */
void fabric_run(struct fabric *f, uint64_t ns);
/* The newest packet of the log that host `from` sent, or the n-th before it. */
const struct hca_packet *fabric_sent(const struct fabric *f, uint32_t before);
bool fabric_has_event(const struct fabric_host *h, enum hca_event event);
uint32_t fabric_random(struct fabric *f);

/* ---- objects of a host ------------------------------------------------------------- */

struct fabric_region {
	uint8_t *bytes;
	uint64_t length;
	struct hca_mr *mr;
	uint32_t key;
};

/* Its addresses are those of its bytes. */
struct fabric_region fabric_region_create(struct fabric_host *h, uint64_t length, uint32_t access);
void fabric_region_destroy(struct fabric_region *r);
uint64_t fabric_address(const struct fabric_region *r, uint64_t offset);

struct fabric_cq {
	struct fabric_host *host;
	struct hca_cq *cq;
	uint8_t *buffer, *record;
	uint32_t cqn, nr, cqe_bytes, ci;
};

struct fabric_cqe {
	uint8_t bytes[128];		/* the last 64 of them, unless it is a long one */
	uint8_t opcode, syndrome, vendor, wqe_opcode, op_own;
	uint16_t wqe_counter, slid;
	uint32_t byte_count, immediate, qpn, uidx, flags_rqpn;
	const uint8_t *data;		/* that came with it, or NULL */
};

struct fabric_cq *fabric_cq_create(struct fabric_host *h, uint32_t nr, uint32_t cqe_bytes);
void fabric_cq_destroy(struct fabric_cq *cq);
void fabric_cq_arm(struct fabric_cq *cq, bool is_solicited_only);
/* False: nothing there. */
bool fabric_poll(struct fabric_cq *cq, struct fabric_cqe *out);

struct fabric_srq {
	struct hca_srq *srq;
	uint8_t *buffer, *record;
	uint32_t srqn, nr, stride;
	uint16_t head, tail, counter;
};

struct fabric_srq *fabric_srq_create(struct fabric_host *h, uint32_t nr);
void fabric_srq_destroy(struct fabric_srq *s);
/* As libmlx5 does when it has polled a completion. */
void fabric_srq_free_wqe(struct fabric_srq *s, uint16_t index);

struct fabric_sge {
	uint64_t address;
	uint32_t length, key;
};

void fabric_srq_post(struct fabric_srq *s, const struct fabric_sge *sge, uint32_t nr);

struct fabric_qp {
	struct fabric_host *host;
	struct hca_qp *qp;
	struct fabric_cq *send_cq, *recv_cq;
	uint8_t *buffer, *record;
	uint32_t qpn, nr_blocks, nr_recvs, stride, rq_offset;
	uint16_t sq_pi, rq_pi;
};

struct fabric_qp_options {
	enum hca_transport transport;
	struct fabric_cq *send_cq, *recv_cq;	/* NULL: made, 64 bytes, 256 entries */
	struct fabric_srq *srq;
	bool signal_all, scatter_send, scatter_recv;
	uint32_t uidx, nr_blocks, nr_recvs;	/* 0: 64 of each */
};

struct fabric_qp *fabric_qp_create(struct fabric_host *h, const struct fabric_qp_options *o);
void fabric_qp_destroy(struct fabric_qp *qp);

/* How a connection is made; NULL for the usual: MTU 1024, timeout 14, retries 7. */
struct fabric_path {
	uint32_t mtu, access, psn;	/* psn: of the first QP's sending; the other adds 100 */
	uint8_t max_reads, timeout, retries, rnr_retries, rnr_timer;
};
extern const struct fabric_path fabric_usual;
void fabric_connect(struct fabric_qp *a, struct fabric_qp *b, const struct fabric_path *p);
/* One of them only, to a peer that the test plays. */
void fabric_connect_to(struct fabric_qp *a, uint32_t qpn, uint32_t rq_psn, uint32_t sq_psn,
		       const struct fabric_path *p);
/* The addresses that a packet of its peer comes with. */
struct hca_route fabric_route_of_peer(const struct fabric_qp *qp);
void fabric_start_ud(struct fabric_qp *qp, uint32_t qkey);
enum hca_qp_state fabric_state(const struct fabric_qp *qp);

/* ---- work ------------------------------------------------------------------------------- */

struct fabric_wr {
	uint8_t opcode, fm_ce_se;	/* MLX5_OPCODE_*, MLX5_WQE_CTRL_* */
	uint32_t immediate;		/* as the WQE has it in memory */
	uint64_t remote_address, swap_or_add, compare;
	uint32_t rkey;
	const struct fabric_sge *sge;
	uint32_t nr_sge;
	const void *inline_data;
	uint32_t inline_bytes;
	uint32_t qkey, dest_qpn;	/* UD: a long address vector */
	uint8_t dgid[16];
};

/* Writes the WQE and the record, not the register. The index of its first block. */
uint16_t fabric_write_wqe(struct fabric_qp *qp, const struct fabric_wr *wr);
void fabric_ring(struct fabric_qp *qp);
uint16_t fabric_post(struct fabric_qp *qp, const struct fabric_wr *wr);
void fabric_post_recv(struct fabric_qp *qp, const struct fabric_sge *sge, uint32_t nr);
/* Any bytes as a WQE. */
uint16_t fabric_write_raw(struct fabric_qp *qp, const void *bytes, uint32_t n);

#endif /* TENT_SIM_HCA_FABRIC_H */
