/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma.h - what the files of the rdma backend share.
 *
 *   rdma.c         the backend table; queues come and go
 *   rdma_rail.c    control: the devices
 *   rdma_memory.c  control: protection domains of tenants, memory and its keys
 *   rdma_call.c    control: connections that we ask by are made, and end
 *   rdma_route.c   control: the peers that they lead to
 *   rdma_serve.c   control: those that peers ask by
 *   rdma_frame.c   control: what the two sides tell each other, by frames of their link
 *   rdma_post.c    the poller: transfers become jobs, jobs end
 *   rdma_issue.c   the poller: jobs become WQEs, by the lane that has least to do
 *   rdma_line.c    the poller: connections come, break, and what was lost with them
 *   rdma_queue.c   the poller's turn
 *   rdma_load.c    what rails have to do, for those who ask
 *   rdma_explain.c control: how and why, for people
 *
 * Every device of ours is a rail, numbered by name, and leads to the peer's rail of the same
 * number, where it has one. An engine has a connection, a QP at either end, per rail, poller,
 * peer, tenant and QP pool to those whose segments it uses: its lanes, which together are the
 * line of that poller, peer, tenant and pool. A transfer is a job.
 * What is longer than chunk_bytes goes out in pieces, jobs taking turns, each piece by the
 * lane that has the fewest bytes out; what is shorter goes whole. Pieces that were out when a
 * connection broke go out again, by any lane, once it is known that they are not under way
 * any more: its QP is destroyed here and its peer has said that it has destroyed the other.
 * Where nobody says so in time their jobs end, with TARGET_UNFENCED.
 *
 * Who owns a connection: control makes it and hands it to its poller; one that broke goes
 * back, is destroyed, comes once more to have its pieces go out again, and back to be freed.
 */
#ifndef TENT_DV_RDMA_H
#define TENT_DV_RDMA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dv/mr.h"
#include "dv/qp.h"
#include "dv/rdma_frame.h"
#include "dv/run.h"
#include "engine/backend.h"
#include "engine/hot.h"
#include "engine/transfer_list.h"
#include "ring/order.h"

#define RDMA_QUEUES_MAX	64u	/* pollers of one engine */
#define RDMA_RAILS_MAX	8u	/* devices of one engine */
#define RDMA_JOBS	256u	/* transfers that a line holds */
#define RDMA_TRIES	3u	/* connections that one transfer may see break */
#define RDMA_SERVED_MAX	4096u	/* QPs that serve; */
#define RDMA_GUEST_MAX	256u	/* of these one peer's */
#define RDMA_CALL_NS	5000000000ull /* for a peer to answer a call */
#define RDMA_PAUSE_NS	500000000ull /* a pair of rails that failed is not used before; */
#define RDMA_PAUSE_MAX_NS 16000000000ull /* doubled by each time that did not help */
#define RDMA_WINDOW	4u	/* pieces that a lane has out of those that go by any */

struct rdma_instance;
struct rdma_lane;
struct rdma_line;
struct rdma_queue;

/* ---- between pollers and control --------------------------------------- */

enum rdma_kind {
	NOTE_CALL,	/* lane -> control: it needs a connection */
	NOTE_FAILED,	/* control -> lane: there is none */
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

struct rdma_rail {
	uint8_t index;
	char name[DV_NAME_SIZE];
	bool is_open, is_gone;	/* it was taken out */
	int node;		/* of NUMA, -1: not known */
	struct dv_device device; /* while open */
	char why[256];		/* it is not, or cannot be reached: why */
	char fault[256];	/* the last one, or "" */
	char mixed[112];	/* the last peer with a smaller MTU, or "" */
};

struct rdma_tenant {
	LIST_ENTRY(rdma_tenant) all;
	uint32_t uid;
	struct ibv_pd *pds[RDMA_RAILS_MAX];	/* NULL: that rail is not open */
};

/* Of a region of this host. Masks have a bit for each of our rails. */
struct rdma_near {
	struct rdma_tenant *tenant;
	uint32_t rails;		/* that have keys of it */
	uint32_t nearest;	/* that are of its NUMA node; all, where there is no telling */
	struct dv_mr *mrs[RDMA_RAILS_MAX];
	/* of whoever pins it */
	struct rdma_instance *inst;
	uint32_t wanted;	/* rails that were open then, reached or not */
	char why[256];		/* one of them did not take it: why; or "" */
	bool flushes;		/* of a GPU that has to be told of what it got; constant */
	uint32_t by_dma_buf;	/* of a GPU's: rails that have it so; the others by its address */
	char no_dma_buf[256];	/* why one of them has not, or "" */
};

/* Of a region of another engine. */
struct rdma_far {
	struct rdma_route *route;
	uint32_t rails;		/* ours, whose pairs have keys of it */
	struct dv_keys keys[];	/* of each rail there, as far as it tells of them */
};

/* ---- whom we ask ------------------------------------------------------- */

/* One transfer, the poller's. It ends when none of its pieces is out or struck. */
struct rdma_job {
	struct transfer *transfer;
	struct rdma_line *line;	/* constant */
	uint64_t issued;	/* bytes that pieces were made of */
	uint64_t struck_by;	/* the last connection that broke with a piece of it: its id */
	uint32_t nr_out;	/* pieces that are not completed; 0 in the end */
	uint32_t serial;	/* how often this place was used */
	uint32_t rails;		/* that it may go by */
	union {
		struct {
			uint32_t nr_struck; /* pieces a broken connection has; 0 in the end */
			uint16_t rule;	/* how it will end; 0: not yet known */
			uint8_t tries;	/* connections that broke with something of it */
			bool unfenced : 1;
			bool waits : 1;	/* in its line's waiting */
			bool flushes : 1; /* near's: its end is looked at */
		};
		uint64_t odd;	/* all of these; 0: nothing has happened to it */
	};
	uint64_t fence_ns;	/* called back: how long completions are waited for; 0: not */
	union {
		SLIST_ENTRY(rdma_job) spare;
		TAILQ_ENTRY(rdma_job) link; /* waiting */
	};
	TAILQ_ENTRY(rdma_job) back;	/* called back, by fence_ns */
};
TAILQ_HEAD(rdma_jobs, rdma_job);
SLIST_HEAD(rdma_spares, rdma_job);

/* A piece that was out when its connection broke; of a job that has ended when the serials
 * differ. */
struct rdma_again {
	struct rdma_job *job;
	uint64_t offset;	/* in its transfer */
	uint32_t length;
	uint32_t serial;
};

struct rdma_counts {
	uint64_t writes, reads, bytes, breaks;
};

struct rdma_conn {
	struct rdma_lane *lane;
	uint64_t id;		/* in all frames about it */
	/* the poller's, between NOTE_CONN and NOTE_BROKEN; again until NOTE_OVER */
	TAILQ_ENTRY(rdma_conn) link;	/* of its queue; of its line's broken */
	struct dv_sq sq;
	struct dv_cq cq;
	uint64_t out_bytes;
	uint64_t chunk_bytes;	/* its line's */
	uint8_t rail;		/* its lane's */
	struct rdma_queue *queue; /* its line's */
	struct rdma_counts *counts; /* of its queue and rail */
	void *book;		/* sq's */
	struct rdma_again *again; /* as many as sq has blocks */
	uint32_t nr_again, at_again;
	bool of_request;	/* one request is to blame, not the way */
	char fault[160];	/* of its completions, or "" */
	bool fenced;		/* nothing of it moves any more, here and there */
	/* control's */
	LIST_ENTRY(rdma_conn) all;
	struct dv_qp qp;
	bool calls;		/* its peer has not answered yet */
	bool ends;		/* its peer has not said yet that it has let go */
	struct dv_address address; /* of the peer's port, once that was said; or link is 0 */
	uint64_t up_ns;		/* when it was handed over */
	uint64_t until_ns;	/* calls, ends: how long that is waited for */
	bool doubted;
	struct rdma_note note, doubt;
};
TAILQ_HEAD(rdma_conns, rdma_conn);

enum rdma_lane_state { LANE_DOWN, LANE_CALLING, LANE_UP, LANE_FENCING };

/* The part of a line that goes by one of our rails. */
struct rdma_lane {
	struct rdma_line *line;
	uint8_t rail;
	enum rdma_lane_state state;
	struct rdma_conn *conn;	/* UP */
	struct rdma_note call;
};

/* From one poller to one peer, for one tenant. The poller's, but what is constant. */
struct rdma_line {
	struct rdma_route *route;
	struct rdma_queue *queue;
	const struct qp_pool *pool; /* or NULL */
	uint64_t chunk_bytes;	/* of a piece, at most */
	uint32_t nr_lanes;
	uint32_t all, up;	/* masks of its lanes */
	struct rdma_conn *only;	/* the one lane's, while nothing waits: see rdma_line_settle() */
	uint32_t turn;		/* of lanes that have equally much to do */
	bool busy;		/* in its queue's lines */
	TAILQ_ENTRY(rdma_line) link;
	struct rdma_spares spares;
	struct rdma_jobs waiting[2]; /* WRITEs, READs: what these wait for others do not need */
	struct rdma_conns broken; /* whose pieces go out again */
	struct rdma_job *jobs;	/* RDMA_JOBS */
	struct rdma_lane lanes[RDMA_RAILS_MAX];
};
TAILQ_HEAD(rdma_lines, rdma_line);

/* To one peer, for one tenant. */
struct rdma_route {
	LIST_ENTRY(rdma_route) all;	/* of the peer's */
	struct rdma_peer *peer;
	struct rdma_tenant *tenant;
	struct rdma_pause {
		uint64_t until_ns;	/* 0: it is not paused */
		uint64_t length_ns;	/* of the next one */
	} pauses[RDMA_RAILS_MAX];	/* control's, of each rail of ours and its pair */
	/* the same as masks, for any thread: left while another may be used; not used at all */
	uint32_t paused, refused;
	uint32_t nr_lines;
	struct rdma_line lines[]; /* of each queue; then of each of a pool, and the next one */
};

struct rdma_peer {
	LIST_ENTRY(rdma_peer) all;	/* control's, and the rest */
	struct far_end *end;	/* NULL: it is no more */
	char name[80];		/* "host:port" that it listens at */
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
	struct rdma_note *inbox; /* R16/A16 */
	struct rdma_conns conns;
	struct rdma_lines lines; /* with jobs that wait, or pieces that go out again */
	struct rdma_jobs called_back;
	struct transfer_list ended;
	uint32_t nr_jobs;
	uint64_t unfenced;	/* counted by the poller, read by any thread; the rest too */
	struct rdma_track {
		struct rdma_counts counts;
		struct ibv_td *td;	/* control's */
		struct dv_uar uar;
		bool has_uar;		/* a connection came with one */
	} tracks[RDMA_RAILS_MAX]; /* of each rail */
};

struct rdma_instance {
	struct backend_instance base;
	struct rdma_settings o;
	const struct qp_pool *pools;
	char why[512];		/* there is no device: why; or the last fault */
	uint32_t nr_rails, nr_open, nr_pools;
	uint32_t all_rails;	/* the mask of them */
	uint32_t usable;	/* any thread: mask of those that are open, and peers can reach */
	struct rdma_rail rails[RDMA_RAILS_MAX];	/* control's */
	uint32_t nr_queues;
	struct rdma_queue *queues[RDMA_QUEUES_MAX];
	struct rdma_note *inbox; /* R16/A16 */
	/* control's */
	struct wired_link wire;
	int epoll_fd, event_fd, timer_fd;
	uint64_t tick_ns;	/* of the timer, 0: it is off */
	struct rdma_loads *loads; /* see rdma_load.h */
	uint64_t pinning_bytes;	/* of all rails, that are to be pinned */
	uint64_t pinned_bytes;	/* the part that is; any thread adds to it */
	uint64_t last_id;
	uint32_t nr_pinning, nr_served, nr_calls;
	LIST_HEAD(, rdma_tenant) tenants;
	LIST_HEAD(, rdma_peer) peers;
	LIST_HEAD(, rdma_conn) conns;
	LIST_HEAD(, rdma_served) served;
};

/* Control: rdma_reaches() may answer otherwise now. */
static inline void rdma_changed(struct rdma_instance *inst)
{
	/* R19, pairs with A19 in planner_changes() */
	store_release(&inst->base.changes, inst->base.changes + 1);
}

/* rdma_queue.c. Any thread: hands a note over. */
void rdma_note_push(struct rdma_note **inbox, struct rdma_note *n);
/* Takes all, oldest first. */
struct rdma_note *rdma_note_take(struct rdma_note **inbox);
void rdma_queue_send(struct rdma_queue *q, struct rdma_note *n);
/* Poller. */
void rdma_control_send(struct rdma_instance *inst, struct rdma_note *n, enum rdma_kind kind,
		       void *about);

/* rdma_rail.c. Control. All that are allowed; opens those that can be. False: there is none;
 * inst->why says why. */
bool rdma_rails_find(struct rdma_instance *inst);
void rdma_rails_close(struct rdma_instance *inst);
/* What their devices announce. */
void rdma_rails_listen(struct rdma_instance *inst);
/* The last fault: at which of our ports, and what. */
__attribute__((format(printf, 3, 4)))
void rdma_rail_fault(struct rdma_instance *inst, struct rdma_rail *r, const char *format, ...);

/* rdma_call.c. Control. */
void rdma_far_frame(struct backend_instance *base, struct far_end *f, const json_t *frame);
void rdma_take_note(struct rdma_instance *inst, struct rdma_note *n);
/* The card says so of a QP or a CQ. */
void rdma_queue_broke(struct rdma_instance *inst, const void *queue);
/* Deadlines. True: some are left. */
bool rdma_call_patrol(struct rdma_instance *inst, uint64_t now);
/* No poller runs: frees all connections and peers. */
void rdma_call_close(struct rdma_instance *inst);

/* rdma_route.c. Control. */
void rdma_far_open(struct backend_instance *base, struct far_end *f);
void rdma_far_close(struct backend_instance *base, struct far_end *f);
void rdma_far_region_open(struct backend_instance *base, struct region *r, const char *keys);
void rdma_far_region_close(struct backend_instance *base, struct region *r);
void rdma_peer_free(struct rdma_peer *p);
void rdma_peer_free_if_over(struct rdma_peer *p);
/* A rail and its pair failed; they worked for so long before. Or they could not be connected. */
void rdma_route_pause(struct rdma_route *r, uint8_t rail, uint64_t worked_ns);
void rdma_route_refuse(struct rdma_route *r, uint8_t rail);
/* Its port is there again. */
void rdma_route_resume(struct rdma_instance *inst, uint8_t rail);
/* True: some are paused still. */
bool rdma_route_patrol(struct rdma_instance *inst, uint64_t now);

/* rdma_serve.c. Control. */
void rdma_guest_frame(struct backend_instance *base, const struct guest *g, uint32_t uid,
		      const json_t *frame);
void rdma_guest_close(struct backend_instance *base, const struct guest *g);

#endif /* TENT_DV_RDMA_H */
