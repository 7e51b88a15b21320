/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - what the files of the tcp backend share.
 *
 *   tcp.c         the backend table; peers, guests and queues come and go
 *   tcp_door.c    the thread that makes and ends connections: nobody waits for it
 *   tcp_visit.c   its half-made ones: who calls, who is called
 *   tcp_post.c    the poller, asking: transfers become frames, answers become ends
 *   tcp_serve.c   the poller, asked: requests of peers are judged and answered
 *   tcp_loan.c    those that want memory of GPUs, by way of buffers
 *   tcp_conn.c    the poller: bytes of a connection into frames and back; its end
 *   tcp_queue.c   the poller's turn
 *   tcp_uring.c   receives and sends by io_uring
 *   tcp_plain.c   the same by recvmsg() and sendmsg(), where that is not permitted
 *
 * An engine has a connection per poller, peer, tenant and level to those whose segments it
 * uses: what one tenant's requests do to theirs touches nobody else's. Requests travel from
 * who opened it. A transfer is a job; its bytes go out as frames of at most chunk_bytes,
 * several at a time, jobs taking turns. Each frame is answered by itself, in the order in
 * which they were sent, and a job ends when none of its frames is out: then no byte of it
 * moves any more, at either end. What a connection carried when it broke is ended when the
 * other engine says that it has let go of it, or, where none does in time, TARGET_UNFENCED.
 *
 * Who owns a connection: the door makes it, hands it to a poller, and gets it back when
 * the kernel has nothing of it any more.
 */
#ifndef TENT_IO_TCP_H
#define TENT_IO_TCP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/backend.h"
#include "engine/transfer_list.h"
#include "io/tcp_frame.h"
#include "io/tcp_note.h"
#include "io/uring.h"
#include "ring/order.h"

#define TCP_QUEUES_MAX	64u	/* pollers of one engine */
#define TCP_JOBS	256u	/* transfers that a line holds */
#define TCP_TENANTS	64u	/* that have lines to one peer at a time, of all pollers */
#define TCP_YIELDS	64u
#define TCP_AHEAD	8192u	/* bytes received with a head, and copied from there */
#define TCP_IOVS	64u	/* of one send */
#define TCP_PIECE	(256u << 10) /* bytes of one send or receive, at most: a turn is short */
#define TCP_ZEROS	65536u
#define TCP_CONNS_MAX	1024u	/* that came to us; half of them of one user, or one host */
#define TCP_GUEST_CONNS	(LEVELS * TCP_QUEUES_MAX)
#define TCP_HOLDOFF_NS	50000000ull /* between two calls of one that does not answer */

struct tcp_conn;
struct tcp_instance;
struct tcp_queue;

/* ---- one connection ---------------------------------------------------- */

/* A receive or a send on its way. */
struct tcp_op {
	struct tcp_conn *conn;
	struct tcp_frame *zero_copy; /* a send in place of this frame, or NULL */
	bool out;		/* with the kernel */
	bool canceled;		/* asked back */
	bool held;		/* io_uring had no entry for it */
	int32_t result;		/* bytes or -errno */
	struct msghdr msg;
	struct iovec iov[TCP_IOVS];
	TAILQ_ENTRY(tcp_op) link; /* plain: to be tried, or done */
	uint8_t place;		/* plain: in which of them */
};
TAILQ_HEAD(tcp_ops, tcp_op);

/* A frame that is sent; and, of ours, waits for its answer. */
struct tcp_frame {
	struct tcp_conn *conn;
	TAILQ_ENTRY(tcp_frame) link; /* free, or to be sent */
	struct tcp_head head;
	struct tcp_tail tail;
	const uint8_t *payload;	/* NULL: zeros, where there is a payload */
	uint32_t payload_length;
	uint32_t sent, summed;	/* bytes of all three; of the payload, in the checksum */
	uint16_t nr_kernel;	/* sends in place that the kernel may still read */
	bool queued;		/* to be sent */
	bool in_send;		/* the send that is out has something of it */
	bool in_use;
	/* ours */
	struct tcp_job *job;	/* NULL: its answer interests nobody */
	uint64_t at;		/* in the transfer */
	bool answered;
	uint32_t generation;	/* upper half of its id */
	uint64_t silent_ns;	/* nobody waits for its answer: how long it may take; 0: not */
	TAILQ_ENTRY(tcp_frame) silent; /* those, by silent_ns */
	/* theirs */
	struct region *region;	/* of payload; NULL: of none */
	bool goes;		/* the region is dropped */
	bool copies;		/* between region and loan, just now */
	struct loan *loan;	/* of payload, where region is a GPU's; or NULL */
	uint64_t lent_ns;
	TAILQ_ENTRY(tcp_frame) lent; /* those with a loan, by lent_ns */
};
TAILQ_HEAD(tcp_frames, tcp_frame);

enum tcp_state {
	CONN_UP,
	CONN_CUT,	/* no use any more; the kernel has something of it */
	CONN_FENCING,	/* of ours: the kernel has nothing, the other side perhaps */
	CONN_OVER	/* the door's */
};

enum tcp_stage { IN_HEAD, IN_PAYLOAD, IN_TAIL };

struct tcp_conn {
	struct tcp_queue *queue;
	struct tcp_line *line;	/* we ask; or NULL */
	struct tcp_guest *guest; /* it asks; or NULL */
	int fd;
	uint64_t id;
	uint32_t depth;		/* frames */
	/* the poller's */
	TAILQ_ENTRY(tcp_conn) link;	/* of the queue */
	TAILQ_ENTRY(tcp_conn) ready_link, cut_link;
	enum tcp_state state;
	bool ready;		/* in the queue's ready */
	bool orderly;		/* the other side has closed it: it has let go */
	bool drained, ending;	/* plain: nothing is to be received now; nor ever after that */
	bool copied;		/* sends in place are copied anyhow */
	bool stalled;		/* no frame is free for an answer: nothing more is read */
	bool careful;		/* memory failed: one frame at a time, to learn whose */
	uint32_t nr_kernel;	/* frames with some */
	uint32_t nr_cancels;	/* io_uring: that ask for one of these */
	uint32_t nr_used;	/* frames in use */
	uint32_t nr_copies;	/* of them, that copy */
	bool starves;		/* in the queue's starving */
	TAILQ_ENTRY(tcp_conn) starve_link;
	uint64_t drop_ns;	/* since when a region waits for it; 0: none does */
	struct tcp_frame *frames; /* depth */
	struct tcp_frames free, to_send;
	struct tcp_op in, out;
	/* what comes */
	enum tcp_stage stage;
	struct tcp_head head;
	struct tcp_frame *frame; /* answered by it, or to answer it */
	uint8_t *payload;	/* where its rest goes; NULL: nowhere */
	uint32_t left;		/* bytes of it */
	uint32_t in_payload;	/* bytes of the receive that is out which belong to it */
	uint32_t crc;
	uint16_t status;	/* why it goes nowhere; theirs */
	struct region *region;	/* of payload; theirs */
	bool goes;		/* it is dropped */
	uint32_t ahead_at, ahead_end;
	uint8_t ahead[TCP_AHEAD];
	/* the door's */
	LIST_ENTRY(tcp_conn) of_guest, all;
	LIST_HEAD(, tcp_visit) awaited; /* visits that wait for its end */
	struct tcp_note note, retire;
	bool retiring;		/* retire is on its way */
	bool over;		/* it came back to be freed */
	bool fenced;		/* the answer */
};
TAILQ_HEAD(tcp_conns, tcp_conn);

/* ---- whom we ask ------------------------------------------------------- */

struct tcp_job {
	struct transfer *transfer;
	uint64_t issued;	/* bytes that frames were made for */
	uint32_t nr_out;	/* frames on their way */
	uint16_t rule;		/* how it will end; 0: not yet known */
	bool waits;		/* in its line's waiting */
	bool unfenced;
	bool called;		/* back, of a READ: what comes goes nowhere */
	uint64_t fence_ns;	/* called back: how long answers are waited for; 0: not */
	struct tcp_line *line;
	TAILQ_ENTRY(tcp_job) link;	/* waiting, or free */
	TAILQ_ENTRY(tcp_job) back;	/* called back, by fence_ns */
};
TAILQ_HEAD(tcp_jobs, tcp_job);

enum tcp_line_state { LINE_DOWN, LINE_CALLING, LINE_UP };

/* To one peer, from one poller, for one tenant, in one level. */
struct tcp_line {
	struct tcp_peer *peer;
	struct tcp_queue *queue;
	struct tcp_tenant *tenant;
	uint32_t level;
	/* the poller's */
	enum tcp_line_state state;
	uint64_t failed_ns;
	struct tcp_conn *conn;	/* UP */
	struct tcp_job *jobs;	/* TCP_JOBS */
	uint32_t nr_made;	/* the first of them, which were used before */
	struct tcp_jobs free, waiting;
	struct tcp_note call;
};

/* Whose lines are his until another one needs them while no job of his is in them. The
 * poller's. */
struct tcp_tenant {
	uint32_t uid;
	uint32_t nr_jobs;
	bool used;
	uint32_t yields;	/* others wait: so often he is denied, jobs or not */
	struct tcp_line lines[LEVELS];
};

struct tcp_peer {
	struct far_end end;	/* a copy */
	LIST_ENTRY(tcp_peer) all; /* the door's, and nr_conns and left */
	uint32_t nr_conns;
	uint32_t left;		/* queues that have to leave it still */
	struct tcp_note comes;
	struct tcp_note leave[TCP_QUEUES_MAX];
	bool leaves[TCP_QUEUES_MAX];	/* the poller's of each queue */
	uint32_t next_yield[TCP_QUEUES_MAX]; /* the same */
	uint32_t nr_queues;
	uint32_t nr_tenants;	/* for each queue */
	size_t size;		/* bytes, of the mapping that it and all its jobs are */
	struct tcp_tenant tenants[];
};

/* ---- who asks us ------------------------------------------------------- */

struct tcp_guest {
	struct guest *guest;
	LIST_ENTRY(tcp_guest) all;	/* the door's, and the rest */
	LIST_HEAD(, tcp_conn) conns;
	uint32_t nr_conns;
	bool ended;
	struct tcp_note comes, ends;
};

/* ---- the poller's ------------------------------------------------------ */

/* Who receives and sends. */
struct tcp_io {
	const char *name;
	/* Control. 0 or -errno with why. */
	int (*open)(struct tcp_queue *q, char *why, size_t size);
	void (*close)(struct tcp_queue *q);
	int (*wait_fd)(const struct tcp_queue *q);
	/* Poller. A connection comes; goes. 0 or -errno. */
	int (*join)(struct tcp_queue *q, struct tcp_conn *c);
	void (*leave)(struct tcp_queue *q, struct tcp_conn *c);
	/* Takes the operation over. */
	void (*start)(struct tcp_queue *q, struct tcp_op *op);
	/* It is not wanted any more: reap() brings it back soon. */
	void (*cancel)(struct tcp_queue *q, struct tcp_op *op);
	/* Sets off what was started. */
	void (*flush)(struct tcp_queue *q);
	/* One that came back, result set; or NULL. */
	struct tcp_op *(*reap)(struct tcp_queue *q);
	/* Waits a little for one to come back: without a poller. */
	void (*wait)(struct tcp_queue *q);
};
extern const struct tcp_io tcp_io_uring, tcp_io_plain;

struct tcp_queue {
	struct backend_queue base;
	const struct tcp_io *io; /* NULL: no peers */
	struct tcp_instance *inst;
	uint32_t index;
	int event_fd;
	struct tcp_settings o;
	struct tcp_note *inbox;	/* R16/A16; any thread pushes */
	/* the poller's */
	struct tcp_conns conns, ready, cut;
	struct tcp_jobs called_back;
	struct tcp_frames detached;	/* by silent_ns */
	struct tcp_frames lent;		/* by lent_ns */
	struct tcp_conns starving;	/* that wait for a loan */
	struct transfer_list ended;
	uint32_t nr_jobs;
	uint32_t nr_conns;
	int64_t turn_left;	/* bytes that this turn may still begin to move */
	uint8_t *scratch;	/* TCP_ZEROS bytes that nobody reads */
	/* counted by the poller, read by any thread */
	struct tcp_counts {
		uint64_t frames, answers, sends, receives, zero_copies, cuts, unfenced;
	} counts;
	/* io_uring */
	struct kring kring;
	bool zero_copy;
	uint32_t nr_held;
	/* plain */
	int epoll_fd;
	uint64_t looked, came;	/* ticks: at the epoll; when something came last */
	struct tcp_ops tries, done;
	/* the door's */
	uint32_t nr_given;	/* connections */
};

struct tcp_door;

struct tcp_instance {
	struct backend_instance base;
	struct tcp_settings o;
	const struct tcp_io *io;
	char why[256];		/* it is not io_uring: why */
	uint32_t nr_queues;
	struct tcp_queue *queues[TCP_QUEUES_MAX];
	struct tcp_door *door;	/* NULL: no peers */
};

/* Those of one queue: nr_tenants. */
static inline struct tcp_tenant *tcp_tenants(struct tcp_peer *p, const struct tcp_queue *q)
{
	return &p->tenants[q->index * p->nr_tenants];
}

static inline void tcp_count(uint64_t *counter, uint64_t n)
{
	store_relaxed(counter, *counter + n);
}

static inline uint32_t tcp_frame_size(const struct tcp_frame *f)
{
	return (uint32_t)sizeof(f->head) +
	       (f->payload_length ? f->payload_length + (uint32_t)sizeof(f->tail) : 0);
}

/* tcp.c. No line of it has a job. */
void tcp_peer_free(struct tcp_peer *p);

/* tcp_queue.c. Any thread. */
void tcp_queue_send(struct tcp_queue *q, struct tcp_note *n);
/* Poller. */
struct transfer *tcp_poll(struct backend_queue *queue);
/* Control, no poller runs: ends all connections, and what the kernel has of them. */
void tcp_queue_drain(struct tcp_queue *q);

/* Something may be sent, received, issued. */
void tcp_conn_wake(struct tcp_conn *c);

/* tcp_conn.c. Poller. */
/* It came from the door: its first receive. */
void tcp_conn_begin(struct tcp_conn *c);
/* One of its operations came back. */
void tcp_conn_result(struct tcp_conn *c, struct tcp_op *op);
/* The kernel let go of a frame that it sent in place. */
void tcp_conn_noticed(struct tcp_frame *f, bool copied);
/* A free frame, taken; or NULL. */
struct tcp_frame *tcp_frame_take(struct tcp_conn *c);
/* Given back, unless somebody still needs it. */
void tcp_frame_put(struct tcp_frame *f);
/* To be sent. */
void tcp_frame_send(struct tcp_frame *f);
/* It is not sent, and was not begun. */
void tcp_frame_unsend(struct tcp_frame *f);
/* Sends what there is, receives what may come. */
void tcp_conn_run(struct tcp_conn *c);
/* The end of it: at once, or when the kernel has let go. */
void tcp_conn_cut(struct tcp_conn *c);
/* Asks an operation back. */
void tcp_conn_call(struct tcp_conn *c, struct tcp_op *op);
/* Those that are cut, as far as the kernel has let go of them. True: some are left. */
bool tcp_conns_settle(struct tcp_queue *q);
/* To the door. */
void tcp_conn_give(struct tcp_conn *c, enum tcp_kind kind);
/* The receive that is out puts bytes where the payload goes. */
static inline bool tcp_conn_fills(const struct tcp_conn *c)
{
	return c->in.out && c->in_payload && c->payload;
}

/* tcp_post.c. Poller. */
enum post_result tcp_post(struct backend_queue *queue, struct transfer *t, uint64_t budget);
bool tcp_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);
/* A head came. 1: it answers a frame of ours; -1: it does not. */
int tcp_answer_head(struct tcp_conn *c);
/* All of it came; status: of the tail, or of the checksum. */
void tcp_answer_end(struct tcp_conn *c, uint16_t status);
/* After a receive: nobody may wait for what it went to any more. */
void tcp_answer_check(struct tcp_conn *c);
void tcp_line_up(struct tcp_conn *c);
void tcp_line_failed(struct tcp_line *l);
/* Frames of waiting jobs. */
void tcp_line_issue(struct tcp_line *l);
/* The connection is cut, and nothing is with the kernel: true, the other side may still
 * have something of it. */
bool tcp_line_lost(struct tcp_conn *c);
/* It has let go; or nobody can tell. */
void tcp_line_fenced(struct tcp_conn *c);
void tcp_job_frame_over(struct tcp_job *job);
void tcp_peer_leave(struct tcp_queue *q, struct tcp_peer *p);
/* Answers that do not come, though nobody waits for them: a connection that stays silent
 * is good for nobody else either. */
void tcp_silence_check(struct tcp_queue *q);
void tcp_frame_heard(struct tcp_frame *f);
/* Who was called back and has waited long enough. */
void tcp_back_check(struct tcp_queue *q);

/* tcp_door.c. Any thread. */
void tcp_door_send(struct tcp_instance *inst, struct tcp_note *n);

#endif /* TENT_IO_TCP_H */
