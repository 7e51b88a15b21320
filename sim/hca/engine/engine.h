/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the card itself: keys, completion queues, receive queues, queue pairs, and
 * what their bytes mean. No system call, no clock, no lock, no allocation after an
 * object is made: time, packets and events come and go through struct hca_env.
 *
 * One struct hca is one device as one process sees it. The caller serialises all calls
 * on it. Functions return 0 or -errno; what the hardware tells by completions, QP states
 * and packets, this tells by those.
 *
 * Queue and completion formats: mlx5dv.h of rdma-core. Transport: IBA volume 1, chapter 9
 * to 11.
 */
#ifndef TENT_SIM_HCA_ENGINE_H
#define TENT_SIM_HCA_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/packet.h"
#include "sim/hca/mem/umem.h"

/* Of one message. At the smallest MTU that is a quarter of all PSNs, so that a PSN says
 * whether it is old or new. */
#define HCA_MAX_MESSAGE_BYTES (1u << 30)

struct hca;
struct hca_pd;
struct hca_mr;
struct hca_cq;
struct hca_srq;
struct hca_qp;

/* What a test or a person makes go wrong. Lies in memory shared with tent-sim ctl, so
 * each field is read once per use and any value is valid; zero is off. */
struct hca_faults {
	uint32_t syndrome;		/* MLX5_CQE_SYNDROME_* that ... */
	uint32_t syndrome_at;		/* ... the n-th WQE from now ends with; counts down */
	uint32_t lost_cqe_at;		/* the n-th CQE from now is not written; counts down */
	uint32_t cq_overrun_at;		/* the n-th CQE from now finds its CQ full */
	uint32_t late_cqe_ns;		/* completions become visible so much later */
	uint32_t nak_at;		/* the n-th request from now is answered by nak_syndrome */
	uint32_t nak_syndrome;		/* enum hca_aeth */
	uint32_t timeout_scale_percent;	/* of every transport timer; 0: 100 */
	uint32_t resv[8];
};

/* What tests read. One writer per process and device; tent-sim adds them up. */
struct hca_counters {
	uint64_t wqes, cqes, error_cqes;
	uint64_t packets_sent, packets_received, bytes_sent, bytes_received;
	uint64_t retries, timeouts, rnr_naks_sent, rnr_naks_received;
	uint64_t naks_sent, naks_received, duplicates, out_of_sequence;
	uint64_t doorbells, cq_arms;
};

/* What is on its way now. Likewise one writer; an entry that is read while it changes may be
 * of two moments. */
enum { HCA_GAUGES = 18 };

struct hca_in_flight {			/* of a QP; qpn 0: nobody's */
	uint32_t qpn;
	uint32_t bytes;			/* hca_qp_bytes_in_flight() */
	uint32_t first_psn, next_psn;	/* oldest without acknowledgement, next to send */
};

struct hca_gauges {
	uint64_t bytes_in_flight;	/* of all QPs */
	struct hca_in_flight qps[HCA_GAUGES]; /* those that had something first */
};

enum hca_event {			/* as IBV_EVENT_* */
	HCA_EVENT_CQ_ERROR,
	HCA_EVENT_QP_FATAL,
	HCA_EVENT_QP_REQUEST_ERROR,
	HCA_EVENT_QP_ACCESS_ERROR,
	HCA_EVENT_COMM_EST,
	HCA_EVENT_SQ_DRAINED,
	HCA_EVENT_LAST_WQE_REACHED,
	HCA_EVENT_SRQ_ERROR,
	HCA_EVENT_SRQ_LIMIT,
};

/* What the card needs of the world around it. Called with the caller's serialisation
 * held; none may call back into the engine. */
struct hca_env {
	void *ctx;
	/* Hands a packet to the wire. What cannot be sent is lost, as on any wire. */
	void (*send)(void *ctx, const struct hca_packet *p);
	uint64_t (*now_ns)(void *ctx);	/* monotonic */
	/* Optional. What a datagram may hold that leaves by this port now; without: 4096. */
	uint32_t (*port_mtu_bytes)(void *ctx, uint8_t port);
	/* An armed CQ has got what it was armed for. */
	void (*cq_event)(void *ctx, void *cq_cookie);
	/* cookie: of the object that the event names */
	void (*async_event)(void *ctx, enum hca_event event, void *cookie);
	/* Optional. One line of text per WQE, packet and CQE. */
	void (*trace)(void *ctx, const char *line);
};

struct hca_config {
	const struct hca_env *env;
	struct hca_faults *faults;	/* may be shared; not NULL */
	struct hca_counters *counters;	/* not NULL */
	struct hca_gauges *gauges;	/* zeroed, or NULL: nobody reads them */
	bool is_ethernet;
	uint32_t first_qpn, nr_qpns;	/* the QPNs this process may hand out */
	uint32_t max_rd_atomic;
	uint64_t max_mr_bytes;		/* 0: no limit */
};

int hca_create(struct hca **out, const struct hca_config *c);
/* Objects that still live go with it. */
void hca_destroy(struct hca *h);

/* ---- protection domains and memory ------------------------------------- */

int hca_pd_create(struct hca *h, struct hca_pd **out);
int hca_pd_destroy(struct hca_pd *pd);			/* -EBUSY while used */

enum hca_access {			/* as IBV_ACCESS_* */
	HCA_ACCESS_LOCAL_WRITE = 1,
	HCA_ACCESS_REMOTE_WRITE = 2,
	HCA_ACCESS_REMOTE_READ = 4,
	HCA_ACCESS_REMOTE_ATOMIC = 8,
	HCA_ACCESS_RELAXED_ORDERING = 1 << 20,
	HCA_ACCESS_REMOTE_INVALIDATE = 1 << 30, /* an mkey's en_rinval; no verb asks for it */
};

/* Takes the umem over; here as below, on success only. iova: the address that WQEs use for
 * its first byte. lkey and rkey are one number, never given out again before 2^24 others. */
int hca_mr_create(struct hca_pd *pd, struct umem *mem, uint64_t iova, uint64_t length,
		  uint32_t access, struct hca_mr **out, uint32_t *key);
void hca_mr_destroy(struct hca_mr *mr);
/* rereg: whichever is not NULL, or not -1, replaces. */
int hca_mr_change(struct hca_mr *mr, struct hca_pd *pd, int64_t access, struct umem *mem,
		  uint64_t iova, uint64_t length);

/* ---- completion queues -------------------------------------------------- */

struct hca_cq_attr {
	struct umem *buffer;		/* taken over; nr_cqes * cqe_bytes */
	uint64_t buffer_offset;
	struct umem *record;		/* taken over; be32 consumer index, be32 arm */
	uint64_t record_offset;
	uint32_t cqe_bytes;		/* 64 or 128 */
	uint32_t nr_cqes;		/* a power of two */
	bool ignore_overrun;
	void *cookie;
};

int hca_cq_create(struct hca *h, const struct hca_cq_attr *a, struct hca_cq **out,
		  uint32_t *cqn);
int hca_cq_destroy(struct hca_cq *cq);			/* -EBUSY while used */
/* A RESIZE CQE ends the old buffer, whose unread entries the program moves; the next CQE
 * goes to the new one. Takes the buffer over. -EBUSY: no room for that CQE. */
int hca_cq_resize(struct hca_cq *cq, struct umem *buffer, uint64_t buffer_offset,
		  uint32_t cqe_bytes, uint32_t nr_cqes);
/* The 8 bytes stored at 0x20 of a UAR page: be32 sn | cmd | ci, be32 cqn. */
void hca_cq_doorbell(struct hca *h, const uint8_t bytes[8]);

/* ---- receive queues ----------------------------------------------------- */

struct hca_srq_attr {
	struct hca_pd *pd;
	struct umem *buffer;
	uint64_t buffer_offset;
	struct umem *record;
	uint64_t record_offset;
	uint32_t nr_wqes, stride_bytes;	/* powers of two */
	void *cookie;
};

int hca_srq_create(struct hca *h, const struct hca_srq_attr *a, struct hca_srq **out,
		   uint32_t *srqn);
int hca_srq_set_limit(struct hca_srq *srq, uint32_t limit);
uint32_t hca_srq_limit(const struct hca_srq *srq);
int hca_srq_destroy(struct hca_srq *srq);

/* ---- queue pairs -------------------------------------------------------- */

enum hca_qp_state {			/* as IBV_QPS_* */
	HCA_QP_RESET, HCA_QP_INIT, HCA_QP_RTR, HCA_QP_RTS, HCA_QP_SQD, HCA_QP_SQE, HCA_QP_ERR
};

struct hca_qp_attr {
	enum hca_transport transport;
	struct hca_pd *pd;
	struct hca_cq *send_cq, *recv_cq;
	struct hca_srq *srq;		/* or NULL */
	struct umem *buffer;		/* both queues lie in it */
	uint64_t sq_offset, rq_offset;	/* bytes */
	uint32_t nr_sq_blocks;		/* of 64 bytes; a power of two, or 0 */
	uint32_t nr_rq_wqes, rq_stride_bytes;
	struct umem *record;		/* be32 receive counter, be32 send counter */
	uint64_t record_offset;
	uint32_t uidx;			/* what v1 CQEs carry */
	bool signal_all;
	bool scatter_send, scatter_recv; /* small data may come in the CQE */
	void *cookie;
};

/* As struct ibv_qp_attr; bits of mask are IBV_QP_*. */
struct hca_qp_values {
	enum hca_qp_state state, current_state;
	uint32_t path_mtu_bytes;
	uint32_t qkey, rq_psn, sq_psn, dest_qpn;
	uint32_t access;		/* enum hca_access, what peers may do */
	uint16_t pkey_index;
	uint8_t port, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
	uint8_t timeout, retry_count, rnr_retry;
	bool sqd_event;
	struct hca_route route;		/* dgid, dlid, sgid, sl, tclass, hop limit, GRH */
};

int hca_qp_create(struct hca *h, const struct hca_qp_attr *a, struct hca_qp **out,
		  uint32_t *qpn);
/* -EINVAL for a transition, or a mask, that the specification does not have. */
int hca_qp_modify(struct hca_qp *qp, const struct hca_qp_values *v, uint32_t mask);
void hca_qp_query(const struct hca_qp *qp, struct hca_qp_values *out);
int hca_qp_destroy(struct hca_qp *qp);
/* Of WRITEs and SENDs: sent and not acknowledged; of READs and atomics: asked for and not
 * here. What is going to be sent again is not on its way. Datagrams never are. */
uint64_t hca_qp_bytes_in_flight(const struct hca_qp *qp);

/* ---- what drives it ------------------------------------------------------- */

/* A send doorbell was rung for a QP: takes what its record says is there. An unknown QPN
 * is ignored, as hardware does. */
void hca_send_doorbell(struct hca *h, uint32_t qpn);
/* Polled mode: looks at the records of all QPs that have rung once, and at the arm words
 * of CQs. After a send doorbell also at those of QPs that have not: theirs may have been
 * overwritten, in the same register, before it was seen. True: there was work. */
bool hca_poll_records(struct hca *h);
/* A packet that the wire found sound. */
void hca_receive(struct hca *h, const struct hca_packet *p);
/* To be called when all packets that lay there have been received. Runs what is due; when to
 * call again, UINT64_MAX for never. */
uint64_t hca_timers(struct hca *h);
/* The device is going: every QP to ERR, its WQEs flushed. */
void hca_remove(struct hca *h);

#endif /* TENT_SIM_HCA_ENGINE_H */
