/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h - what the files of the rdma backend share.
 *
 *   rdma.c         the backend table; queues come and go
 *   rdma_memory.c  control: protection domains of tenants, memory and its keys
 *   rdma_call.c    control: connections that we ask by are made, and end
 *   rdma_serve.c   control: those that peers ask by
 *   rdma_frame.c   control: what the two sides tell each other, by frames of their link
 *   rdma_post.c    the poller: transfers become WQEs, completions become ends
 *   rdma_queue.c   the poller's turn
 *
 * An engine has a connection, a QP at either end, per poller, peer and tenant to those whose
 * segments it uses. A transfer is a job; its bytes go out as WQEs of at most chunk_bytes,
 * jobs taking turns. RC completes in order, so what of a job is done is its beginning, and
 * what was not done when a connection broke is done again on the next. A job that ends
 * otherwise ends once its connection's QP is destroyed here and its peer has said that it
 * has destroyed the other; or, where nobody says so in time, with TARGET_UNFENCED.
 *
 * Who owns a connection: control makes it and hands it to its poller; one that broke goes
 * back, is destroyed, comes once more to have its jobs ended, and back to be freed.
 */
#ifndef TENT_IO_RDMA_H
#define TENT_IO_RDMA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dv/mr.h"
#include "dv/qp.h"
#include "dv/run.h"
#include "engine/backend.h"
#include "engine/transfer_list.h"
#include "ring/order.h"

#define RDMA_QUEUES_MAX	64u	/* pollers of one engine */
#define RDMA_JOBS	256u	/* transfers that a line holds */
#define RDMA_TRIES	3u	/* connections that one transfer may see break */
#define RDMA_SERVED_MAX	4096u	/* QPs that serve; */
#define RDMA_GUEST_MAX	256u	/* of these one peer's */
#define RDMA_CALL_NS	5000000000ull /* for a peer to answer a call */
#define RDMA_HOLDOFF_NS	500000000ull /* a peer that did not is not called again before */

struct rdma_instance;
struct rdma_queue;

/* ---- between pollers and control --------------------------------------- */

enum rdma_kind {
	NOTE_CALL,	/* line -> control: it needs a connection */
	NOTE_FAILED,	/* control -> line: there is none */
	NOTE_CONN,	/* control -> poller: here is one */
	NOTE_BROKEN,	/* poller -> control: it broke */
	NOTE_DOUBT,	/* control -> poller: the card says that its queues broke */
	NOTE_FENCED,	/* control -> poller: it is destroyed; conn->fenced: at both ends */
	NOTE_OVER,	/* poller -> control: free it */
	NOTE_LEAVE	/* control -> poller: the peer is no more; and back: left */
};

struct rdma_note {
	struct rdma_note *next;	/* R16/A16 */
	enum rdma_kind kind;
	void *about;
};

/* ---- tenants and memory: control --------------------------------------- */

struct rdma_tenant {
	LIST_ENTRY(rdma_tenant) all;
	uint32_t uid;
	struct ibv_pd *pd;
};

/* Of a region of this host. */
struct rdma_near {
	struct rdma_tenant *tenant;
	struct dv_mr *mr;
};

/* Of a region of another engine. */
struct rdma_far {
	struct rdma_route *route;
	struct dv_keys keys;
};

/* ---- whom we ask ------------------------------------------------------- */

/* One transfer, the poller's. It ends when none of its WQEs is out and it is not struck. */
struct rdma_job {
	struct transfer *transfer;
	struct rdma_line *line;
	uint64_t issued;	/* bytes that WQEs were built for */
	uint32_t nr_out;	/* of these not completed */
	uint16_t rule;		/* how it will end; 0: not yet known */
	uint8_t tries;		/* connections that broke with something of it */
	bool waits;		/* in its line's waiting */
	bool struck;		/* in its connection's struck */
	bool unfenced;
	uint64_t fence_ns;	/* called back: how long completions are waited for; 0: not */
	TAILQ_ENTRY(rdma_job) link;	/* free, waiting or struck */
	TAILQ_ENTRY(rdma_job) back;	/* called back, by fence_ns */
};
TAILQ_HEAD(rdma_jobs, rdma_job);

struct rdma_conn {
	struct rdma_line *line;
	uint64_t id;		/* in all frames about it */
	/* the poller's, between NOTE_CONN and NOTE_BROKEN; struck until NOTE_OVER */
	TAILQ_ENTRY(rdma_conn) link;	/* of its queue */
	struct dv_sq sq;
	struct dv_cq cq;
	void *book;		/* sq's */
	struct rdma_jobs struck; /* it broke with something of them */
	bool had_work;		/* it broke with something out */
	char fault[160];	/* of its completions, or "" */
	bool fenced;		/* nothing of it moves any more, here and there */
	/* control's */
	LIST_ENTRY(rdma_conn) all;
	struct dv_qp qp;
	bool calls;		/* its peer has not answered yet */
	bool ends;		/* its peer has not said yet that it has let go */
	uint64_t until_ns;	/* calls, ends: how long that is waited for */
	bool doubted;
	struct rdma_note note, doubt;
};
TAILQ_HEAD(rdma_conns, rdma_conn);

enum rdma_line_state { LINE_DOWN, LINE_CALLING, LINE_UP, LINE_FENCING };

/* From one poller to one peer, for one tenant. The poller's, but what is constant. */
struct rdma_line {
	struct rdma_route *route;
	struct rdma_queue *queue;
	enum rdma_line_state state;
	struct rdma_conn *conn;	/* UP */
	struct rdma_jobs free, waiting;
	struct rdma_job *jobs;	/* RDMA_JOBS */
	struct rdma_note call;
};

/* To one peer, for one tenant. */
struct rdma_route {
	LIST_ENTRY(rdma_route) all;	/* of the peer's */
	struct rdma_peer *peer;
	struct rdma_tenant *tenant;
	uint64_t failed_ns;	/* control's: when it was called in vain; 0: it was not */
	uint32_t is_down;	/* the same, for any thread: requests go another way */
	uint32_t nr_lines;
	struct rdma_line lines[]; /* of each queue */
};

struct rdma_peer {
	LIST_ENTRY(rdma_peer) all;	/* control's, and the rest */
	struct far_end *end;	/* NULL: it is no more */
	char name[80];		/* "host:port" that it listens at */
	char address[64];	/* of its port, once that was said; or "" */
	LIST_HEAD(, rdma_route) routes; /* pollers' too, once it leaves */
	uint32_t nr_conns;
	uint32_t left;		/* queues that have to leave it still */
	struct rdma_note leave[RDMA_QUEUES_MAX];
	bool leaves[RDMA_QUEUES_MAX]; /* the poller's of each queue */
};

/* ---- who asks us: control ---------------------------------------------- */

struct rdma_served {
	LIST_ENTRY(rdma_served) all;
	const struct guest *guest;
	uint64_t id;		/* the asker's */
	struct dv_qp qp;
};

/* ---- the poller's ------------------------------------------------------ */

struct rdma_queue {
	struct backend_queue base;
	struct rdma_instance *inst;
	uint32_t index;
	int event_fd;
	struct ibv_td *td;	/* control's */
	struct dv_uar uar;
	bool has_uar;		/* a connection came with one */
	struct rdma_note *inbox; /* R16/A16 */
	struct rdma_conns conns;
	struct rdma_jobs called_back;
	struct transfer_list ended;
	uint32_t nr_jobs;
	/* counted by the poller, read by any thread */
	struct rdma_counts {
		uint64_t writes, reads, bytes, breaks, unfenced;
	} counts;
};

struct rdma_instance {
	struct backend_instance base;
	struct rdma_settings o;
	char why[512];		/* there is no device: why; or the last fault of it */
	bool has_device;
	uint32_t gone;		/* any thread: the device was taken away */
	uint32_t nr_queues;
	struct rdma_queue *queues[RDMA_QUEUES_MAX];
	struct rdma_note *inbox; /* R16/A16 */
	/* control's */
	struct wired_link wire;
	struct dv_device device;
	int epoll_fd, event_fd, timer_fd;
	bool ticking;
	uint64_t last_id;
	uint32_t nr_served, nr_calls;
	LIST_HEAD(, rdma_tenant) tenants;
	LIST_HEAD(, rdma_peer) peers;
	LIST_HEAD(, rdma_conn) conns;
	LIST_HEAD(, rdma_served) served;
};

static inline void rdma_count(uint64_t *counter, uint64_t n)
{
	store_relaxed(counter, *counter + n);
}

/* rdma_queue.c. Any thread: hands a note over. */
void rdma_note_push(struct rdma_note **inbox, struct rdma_note *n);
/* Takes all, oldest first. */
struct rdma_note *rdma_note_take(struct rdma_note **inbox);
void rdma_queue_send(struct rdma_queue *q, struct rdma_note *n);
/* Poller. */
void rdma_control_send(struct rdma_instance *inst, struct rdma_note *n, enum rdma_kind kind,
		       void *about);
struct transfer *rdma_poll(struct backend_queue *queue);

/* rdma_post.c. Poller. */
enum post_result rdma_post(struct backend_queue *queue, struct transfer *t, uint64_t budget);
bool rdma_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);
/* WQEs of waiting jobs; what was completed. True: some. */
void rdma_conn_issue(struct rdma_conn *c);
bool rdma_conn_reap(struct rdma_conn *c);
/* Nothing is built or read any more; to control. why: what is known beside CQEs; or "". */
void rdma_conn_break(struct rdma_conn *c, const char *why);
/* What it completed counts; then it breaks, if it has not yet. */
void rdma_conn_doubt(struct rdma_conn *c);
void rdma_line_up(struct rdma_conn *c);
void rdma_line_failed(struct rdma_line *l);
/* It is destroyed: its jobs end, or go on by another one. */
void rdma_line_fenced(struct rdma_conn *c);
void rdma_peer_leave(struct rdma_queue *q, struct rdma_peer *p);
/* Who was called back and has waited long enough. */
void rdma_back_check(struct rdma_queue *q);

/* rdma_memory.c. Control. NULL: there is none, inst->why says why. */
struct rdma_tenant *rdma_tenant_find(struct rdma_instance *inst, uint32_t uid);
void rdma_region_open(struct backend_instance *base, struct region *r, uint32_t uid);
void rdma_region_close(struct backend_instance *base, struct region *r);
bool rdma_region_keys(const struct region *r, char *text);
/* False: it is no such text, or not of this range. */
bool rdma_keys_read(const char *text, uint64_t base, uint64_t end, struct dv_keys *k);

/* rdma_call.c. Control. */
void rdma_far_open(struct backend_instance *base, struct far_end *f);
void rdma_far_close(struct backend_instance *base, struct far_end *f);
void rdma_far_region_open(struct backend_instance *base, struct region *r, const char *keys);
void rdma_far_region_close(struct backend_instance *base, struct region *r);
void rdma_far_frame(struct backend_instance *base, struct far_end *f, const json_t *frame);
void rdma_take_note(struct rdma_instance *inst, struct rdma_note *n);
/* The card says so of a QP or a CQ. */
void rdma_queue_broke(struct rdma_instance *inst, const void *queue);
/* Deadlines. True: some are left. */
bool rdma_call_patrol(struct rdma_instance *inst, uint64_t now);
/* No poller runs: frees all connections and peers. */
void rdma_call_close(struct rdma_instance *inst);

/* rdma_serve.c. Control. */
void rdma_guest_frame(struct backend_instance *base, const struct guest *g, uint32_t uid,
		      const json_t *frame);
void rdma_guest_close(struct backend_instance *base, const struct guest *g);

/* rdma_frame.c. What is said of a connection; endpoint or reason may be NULL. */
json_t *rdma_frame(const char *what, uint64_t id, const struct dv_endpoint *e,
		   const char *reason);
/* What a peer says: judged, but for whether it makes sense now. */
struct rdma_said {
	const char *what;
	uint64_t id;
	uint32_t uid;
	bool has_endpoint;
	struct dv_endpoint endpoint;
	const char *reason;
};
/* False: it is no such frame. */
bool rdma_frame_read(const json_t *frame, struct rdma_said *s);

#endif /* TENT_IO_RDMA_H */
