/* SPDX-License-Identifier: Apache-2.0 */
/*
 * card.h - the objects behind engine.h, as its own files see them. A file's functions
 * carry the name of their object: hca_key_*, hca_cq_*, hca_recv_*, hca_requester_*,
 * hca_responder_*, hca_ud_*.
 */
#ifndef TENT_SIM_HCA_CARD_H
#define TENT_SIM_HCA_CARD_H

#include "sim/hca/engine/engine.h"
#include "sim/hca/engine/list.h"

enum {
	HCA_BLOCK = 64,			/* bytes of a send queue block */
	HCA_MAX_RECV_STRIDE = 1024,	/* a send WQE's six bits of size give 1008 */
	HCA_MAX_SEGMENTS = HCA_MAX_RECV_STRIDE / 16,
	HCA_MAX_QUEUE = 1 << 15,	/* counters of queues have 16 bits */
	HCA_MAX_PAYLOAD = 4096,
	HCA_GRH_BYTES = 40,
	HCA_MAX_READS = 64,		/* what max_rd_atomic may be at most */
	/* UDP has no link-level credits: so much may be unacknowledged, or asked for by
	 * READs, per QP. Socket buffers of a few hundred KiB hold it. */
	HCA_WINDOW_PACKETS = 64,
	HCA_READ_PACKETS = HCA_WINDOW_PACKETS / 2,
	HCA_ACK_EVERY = 16,		/* packets of a long message */
	/* Packets that one call sends for a QP before others have their turn. */
	HCA_BUDGET = 64,
};

/* What the card puts into the send record of a QP that leaves RESET and into a new CQ's arm
 * record, and no program does: what differs from it has been written. A real card writes
 * nothing there, as it sees each store into a register. */
#define HCA_UNWRITTEN 0xffffffffU

/* ---- memory -------------------------------------------------------------- */

struct hca_pd {
	struct list all;
	struct hca *hca;
	uint32_t users;
};

struct hca_mr {
	struct hca_mr *next;		/* of its bucket */
	struct hca_pd *pd;
	struct umem *mem;
	uint64_t iova, length;
	uint32_t access, key;
	bool is_invalid;		/* by a peer's SEND with invalidate */
};

struct hca_segment {
	uint64_t address;		/* or, inline: offset in the WQE's bytes */
	uint32_t length, lkey;
	bool is_inline;
};

struct hca_gather {
	uint64_t length;
	uint32_t nr;
	struct hca_segment segment[HCA_MAX_SEGMENTS];
	uint8_t bytes[HCA_MAX_RECV_STRIDE]; /* of the WQE, for its inline data */
};

/* ---- completion ----------------------------------------------------------- */

struct hca_cq {
	struct hca *hca;
	struct hca_cq_attr attr;
	uint32_t cqn, users;
	uint32_t pi;			/* free-running */
	uint32_t visible;		/* up to here the program can see; late_cqe_ns */
	uint32_t last_solicited;	/* index after the last solicited CQE */
	uint32_t arm_record;		/* as last seen, polled mode */
	bool is_armed, is_solicited_only, has_solicited, is_broken;
	struct hca_late {
		uint64_t due_ns;
		uint8_t op_own;
		bool is_solicited;
	} *late;			/* one per CQE */
};

/* ---- receive queues ------------------------------------------------------- */

struct hca_srq {
	struct hca *hca;
	struct hca_srq_attr attr;
	uint32_t srqn, users, limit;
	uint16_t head;			/* index of the next WQE */
	uint16_t consumed;		/* against the record's counter */
	bool is_broken;
};

/* A receive WQE that a message is filling. */
struct hca_recv {
	bool is_held;
	uint16_t index;
	struct hca_gather to;
};

/* ---- queue pairs ------------------------------------------------------------ */

struct hca_wqe {
	uint8_t opcode, fence;
	uint8_t syndrome;		/* not 0: malformed, ends with this */
	bool is_signalled, is_solicited;
	uint16_t index;			/* of its first block, free-running */
	uint16_t nr_blocks;
	uint32_t immediate;		/* as it lies in the WQE */
	uint64_t remote_address;
	uint32_t rkey;
	uint64_t swap_or_add, compare;
	uint32_t qkey, dest_qpn;	/* UD */
	struct hca_route route;
	struct hca_gather data;
};

/* A WQE on its way: what must be known until its last PSN is acknowledged. */
struct hca_sent {
	uint16_t index, nr_blocks;
	uint8_t opcode;
	uint8_t syndrome;		/* not 0: ends with this once it is the oldest */
	bool is_signalled, is_fence, wants_response;
	uint32_t first_psn, nr_psns;	/* a READ has the PSNs of its responses */
	uint32_t length;
};

struct hca_requester {
	uint16_t ci, pi;		/* blocks, free-running: next to begin, posted */
	struct hca_sent *sent;		/* ring of nr_sq_blocks */
	uint32_t head, tail;		/* free-running: oldest, next free */
	uint32_t at, packet;		/* next to send: entry, and PSN within it */
	uint32_t una;			/* oldest PSN that has no acknowledgement */
	uint32_t high;			/* the PSN after all that were ever sent */
	uint32_t next_psn;		/* of the next WQE */
	uint32_t reads[HCA_MAX_READS];	/* PSN after each READ or atomic on its way */
	uint32_t first_read, nr_reads;	/* ring */
	uint32_t since_ack_request;	/* packets */
	uint32_t tries_left, rnr_tries_left;
	uint64_t deadline_ns;		/* of the oldest PSN; UINT64_MAX: none */
	uint64_t rnr_until_ns;		/* 0: not waiting */
	bool gap_asked;			/* for responses that got lost */
	bool is_stuck;			/* on a WQE that ends in error; its turn will come */
	uint32_t sending_entry, answer_entry; /* what the two below hold */
	bool has_sending, has_answer;
	struct hca_wqe sending, answer;
};

/* An answer that takes packets: for READ and atomics. */
struct hca_answer {
	uint32_t psn, nr_psns;
	uint32_t sent;			/* packets */
	uint64_t address;
	uint32_t rkey, length, msn;
	bool is_atomic;
	bool is_again;			/* of a request that had been answered before */
	uint64_t original;
};

struct hca_responder {
	uint32_t epsn, msn;
	uint8_t message;		/* operation that FIRST began, or HCA_NO_MESSAGE */
	uint64_t write_address;
	uint32_t write_rkey, write_left, message_bytes;
	bool nak_sent;			/* for the PSN expected now */
	/* The acknowledgement that goes out once the answers before it have. */
	bool is_due;
	uint8_t due_aeth;
	uint32_t due_psn;
	bool is_ending;			/* it is the last: the QP fails with it, */
	bool has_event;			/* which nothing but an event would tell */
	enum hca_event event;
	struct hca_recv recv;
	struct hca_answer cache[HCA_MAX_READS]; /* what a duplicate is answered from */
	uint32_t nr_cached;		/* free-running */
	struct hca_answer queue[HCA_MAX_READS]; /* not all sent yet */
	uint32_t queue_head, queue_tail; /* free-running */
	uint64_t round;			/* as of hca: when it was seen that */
	uint32_t nr_owed;		/* so many requests had not got all of their answer */
};

enum { HCA_NO_MESSAGE = 0xff };

struct hca_qp {
	struct list all, active;
	struct hca *hca;
	struct hca_qp_attr attr;
	struct hca_qp_values values;
	uint32_t qpn;
	uint16_t rq_consumed;
	bool has_rung;			/* or seems to have, since RESET: its send record counts */
	bool wants_run;			/* stopped by its budget only */
	bool has_established, is_drained;
	bool lost_cqe;			/* its CQ is in error, so it will be */
	uint64_t flush_poll_ns, flush_wait_ns; /* in ERR nobody rings for receives */
	uint64_t bytes_in_flight;	/* as last told */
	struct hca_requester req;
	struct hca_responder resp;
};

struct hca_table {
	void **slot;
	uint32_t nr, used, next;
};

struct hca {
	struct hca_env env;
	struct hca_config config;
	struct list pds, qps, active;
	struct hca_mr **buckets;
	uint32_t nr_buckets, nr_mrs, next_key;
	struct hca_table cqs, srqs;
	struct hca_qp **qp_table;
	uint32_t next_qp;
	uint64_t round;			/* hca_timers(); all between two of them came at once */
	uint32_t nr_late;		/* CQEs that wait for late_cqe_ns */
	bool has_rung;			/* a send doorbell, since records were last polled */
	uint64_t bytes_in_flight;	/* of all QPs */
	const struct hca_qp *gauged[HCA_GAUGES]; /* whose each place is */
	uint8_t payload[HCA_MAX_PAYLOAD];	/* of the packet being made */
};

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & HCA_PSN_MASK;
}

/* How far a lies past b, in [-2^23, 2^23). */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline struct hca_sent *hca_sent_at(const struct hca_qp *qp, uint32_t i)
{
	return &qp->req.sent[i & (qp->attr.nr_sq_blocks - 1)];
}

static inline uint64_t hca_now(struct hca *h)
{
	return h->env.now_ns(h->env.ctx);
}

static inline uint32_t hca_mtu(const struct hca_qp *qp)
{
	return qp->values.path_mtu_bytes;
}

/* PSNs that so many bytes take; an empty message takes one. */
static inline uint32_t hca_nr_packets(uint32_t bytes, uint32_t mtu)
{
	return bytes ? (uint32_t)(((uint64_t)bytes + mtu - 1) / mtu) : 1;
}

/* ---- device.c ---- */
int hca_table_add(struct hca_table *t, void *object, uint32_t *number);
void *hca_table_get(const struct hca_table *t, uint32_t number);
void hca_table_remove(struct hca_table *t, uint32_t number);
struct hca_qp *hca_qp_find(struct hca *h, uint32_t qpn);
void hca_event(struct hca *h, enum hca_event event, void *cookie);
void hca_send(struct hca *h, const struct hca_packet *p);
/* Counts a fault's field down; true when it has just reached the end. */
bool hca_fault_due(uint32_t *field);
uint64_t hca_scaled_ns(const struct hca *h, uint64_t ns);

/* ---- keys.c: offsets within gathers; 0 or -EACCES ---- */
int hca_key_find(struct hca *h, const struct hca_pd *pd, uint32_t key, uint64_t address,
		 uint64_t length, uint32_t access, struct hca_mr **mr, uint64_t *offset);
int hca_gather_check(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		     uint32_t access);
int hca_gather_read(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		    uint64_t offset, void *to, uint32_t n);
int hca_gather_write(struct hca *h, const struct hca_pd *pd, const struct hca_gather *g,
		     uint64_t offset, const void *from, uint32_t n);
bool hca_key_invalidate(struct hca *h, const struct hca_pd *pd, uint32_t key);
void hca_keys_free(struct hca *h);

/* ---- cq.c ---- */
/* inline_bytes: that many bytes of data travel in the CQE. False: the CQ is in error. */
bool hca_cq_post(struct hca_cq *cq, uint8_t cqe[64], const void *data, uint32_t inline_bytes,
		 bool is_solicited);
/* Makes late CQEs visible; when the next one is due. */
uint64_t hca_cq_timers(struct hca_cq *cq, uint64_t now_ns);
bool hca_cq_poll_record(struct hca_cq *cq);
void hca_cq_free(struct hca_cq *cq);

/* ---- cqe.c: what a completion says ---- */
struct hca_done {
	struct hca_qp *qp;
	uint16_t wqe_index;
	uint8_t opcode;			/* of the WQE; receiving: MLX5_CQE_RESP_* */
	uint32_t bytes;
	uint32_t immediate;		/* as the program reads it from memory */
	uint32_t source_qpn;
	const struct hca_route *route;	/* of the packet; responder */
	bool is_solicited;
	const void *data;		/* not NULL: bytes of it go into the CQE */
};
void hca_complete_send(const struct hca_done *d);
void hca_complete_recv(const struct hca_done *d);
void hca_complete_error(const struct hca_done *d, bool is_send, uint8_t syndrome);
bool hca_route_is_ipv4(const struct hca *h, const struct hca_route *r);
/* Whether so many bytes fit into a CQE of this queue. */
bool hca_fits_cqe(const struct hca_cq *cq, uint32_t bytes);

/* ---- recv.c ---- */
/* Takes the next receive WQE. 0, -ENOENT: none is posted, -EIO: the queue is broken. */
int hca_recv_take(struct hca_qp *qp, struct hca_recv *r);
/* Into the receive WQE that the QP holds, from offset. 0 or -EACCES. */
int hca_recv_write(struct hca_qp *qp, uint64_t offset, const void *from, uint32_t n);
void hca_recv_flush(struct hca_qp *qp);
void hca_srq_free(struct hca_srq *srq);

/* ---- wqe.c ---- */
/* Reads the WQE at index; what is wrong with it, w->syndrome tells. */
void hca_wqe_read(const struct hca_qp *qp, uint16_t index, uint16_t pi, struct hca_wqe *w);
const char *hca_wqe_name(uint8_t opcode);
bool hca_wqe_is_atomic(uint8_t opcode);
/* A READ, or an atomic: done when its response is there. */
bool hca_wqe_wants_response(uint8_t opcode);
/* The syndrome that a WQE shall end with, a person's or its own; 0: none. */
uint8_t hca_wqe_verdict(struct hca *h, const struct hca_wqe *w);

/* ---- qp.c and qp_states.c ---- */
struct hca_packet hca_packet_to_peer(const struct hca_qp *qp, uint8_t operation, uint32_t psn);
/* Not a legal change: what the table of the specification does not have. */
bool hca_qp_change_is_legal(enum hca_transport t, enum hca_qp_state from,
			    enum hca_qp_state to, uint32_t mask);
/* To ERR: both queues are flushed. Harmless when it is there already. */
void hca_qp_fail(struct hca_qp *qp);
/* Ends each call that may have completed something. */
void hca_qp_settle(struct hca_qp *qp);
void hca_qp_free(struct hca_qp *qp);
/* Takes what the send record says; false: nothing new. */
bool hca_qp_load_record(struct hca_qp *qp);
/* Whether the program has written the send record since RESET. */
bool hca_qp_has_posted(const struct hca_qp *qp);
/* Runs what is due; when to come again. */
uint64_t hca_qp_timer(struct hca_qp *qp, uint64_t now_ns);

/* ---- requester.c, completion of its side in acks.c ---- */
void hca_requester_start(struct hca_qp *qp);	/* RTR to RTS: sq_psn is known */
void hca_requester_run(struct hca_qp *qp);
void hca_requester_flush(struct hca_qp *qp);
void hca_requester_receive(struct hca_qp *qp, const struct hca_packet *p);
void hca_requester_timer(struct hca_qp *qp, uint64_t now_ns);
/* Next to send is what is not acknowledged. */
void hca_requester_rewind(struct hca_qp *qp);
/* Completes what is done. data, if not NULL, goes into the CQE of the oldest. */
void hca_requester_retire(struct hca_qp *qp, const void *data);
struct hca_wqe *hca_requester_wqe(struct hca_qp *qp, uint32_t entry, bool is_answer);
uint32_t hca_requester_position(const struct hca_qp *qp);

/* ---- responder.c, answers.c ---- */
void hca_responder_receive(struct hca_qp *qp, const struct hca_packet *p);
void hca_answers_run(struct hca_qp *qp);
bool hca_answers_have_room(const struct hca_qp *qp);
/* New requests that the peer sent while it could not have all of their answer. */
uint32_t hca_answers_owed(struct hca_qp *qp);
void hca_answer_add(struct hca_qp *qp, const struct hca_answer *a);
void hca_answer_again(struct hca_qp *qp, const struct hca_packet *p);
/* An acknowledgement that takes its turn behind the answers. */
void hca_respond(struct hca_qp *qp, uint8_t aeth, uint32_t psn);
/* The same, and the end of the QP. */
void hca_respond_last(struct hca_qp *qp, uint8_t aeth, uint32_t psn);

/* ---- ud.c ---- */
void hca_ud_run(struct hca_qp *qp);
void hca_ud_receive(struct hca_qp *qp, const struct hca_packet *p);

/* ---- gauge.c ---- */
void hca_gauge_update(struct hca_qp *qp);
void hca_gauge_forget(struct hca_qp *qp);

/* ---- trace.c: nothing when nobody listens ---- */
void hca_trace_wqe(const struct hca_qp *qp, const struct hca_wqe *w);
void hca_trace_packet(const struct hca *h, const struct hca_packet *p, bool is_sent);
void hca_trace_cqe(const struct hca_cq *cq, uint32_t index, const uint8_t cqe[64]);

#endif /* TENT_SIM_HCA_CARD_H */
