/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - the table a transport fills in, and the transfer it is handed.
 *
 * A new backend starts as a copy of engine/null.c. Threads: "control" is the
 * engine's control thread and may block; "poller" is a busy-polling thread and
 * must not block, allocate, log or make a syscall on the path.
 */
#ifndef TENT_ENGINE_BACKEND_H
#define TENT_ENGINE_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <tent/ring.h>
#include <tent/tentring.h>

#include "engine/heap.h"
#include "engine/mem.h"

#define LEVELS 3	/* of priority, 0 first */

struct ring_state;
struct batch_state;
struct backend;
struct backend_queue;
struct backend_instance;

/* Who holds a transfer. The poller alone reads and writes it. */
enum transfer_state {
	TRANSFER_FREE = 0,
	TRANSFER_PARKED,	/* judged; its batch is not accepted yet */
	TRANSFER_QUEUED,	/* in its level of the scheduler */
	TRANSFER_RISEN,		/* with what rose to a level */
	TRANSFER_DUE,		/* in its level, by its deadline: see due.h */
	TRANSFER_EARLY,		/* the same, in a heap */
	TRANSFER_HELD,		/* its tenant has enough in flight: see bounds.h */
	TRANSFER_POSTED,	/* the backend's */
	TRANSFER_CANCELING	/* the backend's, and asked back */
};

#define TRANSFER_WAYS 4		/* beside the first: what reaches any memory, and more */
#define TRANSFER_HAS_REST 0x80u	/* in intent */
#define TRANSFER_HAS_POOL 0x40u	/* the same */

/*
 * One accepted request. The poller's until post() answers POST_PENDING, then the
 * backend's until poll() or cancel() hands it back. The second line has the order of
 * struct tent_completion where they share fields, so that one is copied to the other
 * in few moves.
 */
struct transfer {
	struct transfer *next;		/* in the list of whoever owns it */
	struct transfer *prev;		/* the scheduler's */
	struct ring_state *ring;
	struct backend_queue *queue;	/* chosen by plan */
	/* what to move; local is the caller's side */
	struct region *local, *remote;
	uint64_t local_addr;		/* address in local's owner */
	uint64_t remote_addr;		/* address in remote's owner */
	/* 64: what was asked, and how it ended: written by whoever ends it */
	uint8_t opcode;			/* enum tent_opcode */
	uint8_t intent;			/* enum tent_intent, effective; TRANSFER_HAS_* */
	uint8_t priority;		/* enum tent_priority, effective, never UNSPEC */
	uint8_t level;			/* where the scheduler holds it now */
	uint16_t flags;			/* TENT_CQE_F_* */
	uint8_t status;			/* enum tent_task_state */
	uint8_t transport;		/* enum tent_transport */
	uint64_t user_data;
	uint64_t done;			/* bytes moved so far, on this way */
	int32_t error;			/* enum tent_error, 0 */
	uint32_t index;			/* in its batch */
	uint64_t seen_ticks;		/* see struct tent_completion */
	uint32_t posted_ticks;		/* the same */
	uint16_t rule;			/* enum tent_rule, 0 */
	uint8_t rail;
	uint8_t attempts;		/* 1: the way it is on has it, or had */
	uint64_t length;		/* bytes */
	uint64_t deadline_ns;		/* CLOCK_MONOTONIC, 0: none */
	/* 128 */
	struct batch_state *batch;	/* when its end is not a completion of its own */
	uint64_t queued_ticks;		/* when it entered its level, for ageing */
	void *backend_data;		/* the owning backend's */
	uint8_t state;			/* enum transfer_state; the poller's */
	/* for failover.c */
	uint8_t why;			/* enum tent_rule that the first way ended with */
	uint8_t hops;			/* ways that failed; with the flag FAILED_OVER, as why */
	uint8_t rest[TRANSFER_WAYS];	/* enum tent_transport: ways that are left, in order;
					 * only with TRANSFER_HAS_REST in intent */
	uint8_t pool;			/* of its policy: place in qp_pools + 1; only with
					 * TRANSFER_HAS_POOL in intent */
	/* for due.c, while it is EARLY */
	struct heap_link place;
	uint64_t order;			/* in which they came */
};
_Static_assert(sizeof(struct transfer) == 192, "whole lines, so that three hold one");

/* Flags of a transfer that no completion shows. */
#define TRANSFER_F_BOUND (1u << 9)	/* to be held against its tenant's bounds */
#define TRANSFER_F_COUNTED (1u << 10)	/* these count it, see bounds.h */
#define TRANSFER_F_PROBE (1u << 11)	/* it tries a way that was paused */

static inline uint8_t transfer_intent(const struct transfer *t)
{
	return t->intent & (uint8_t)~(TRANSFER_HAS_REST | TRANSFER_HAS_POOL);
}

static inline void transfer_set_pool(struct transfer *t, uint8_t pool)
{
	t->pool = pool;
	t->intent |= TRANSFER_HAS_POOL;
}

static inline uint8_t *transfer_local(const struct transfer *t)
{
	return t->local->addr + (t->local_addr - t->local->base);
}

static inline uint8_t *transfer_remote(const struct transfer *t)
{
	return t->remote->addr + (t->remote_addr - t->remote->base);
}

/* Writes how a transfer ended. */
static inline void transfer_end(struct transfer *t, enum tent_task_state status,
				int32_t error, uint16_t rule)
{
	t->status = (uint8_t)status;
	t->error = error;
	t->rule = rule;
}

/* The same for one that a rule ends: CANCELED, TIMEOUT or FAILED, as its category says. */
static inline void transfer_end_by(struct transfer *t, uint16_t rule)
{
	int error = tent_rule_error(rule);

	transfer_end(t, error == TENT_ERR_CANCELED ? TENT_STATUS_CANCELED :
		     error == TENT_ERR_TIMEOUT ? TENT_STATUS_TIMEOUT : TENT_STATUS_FAILED,
		     error, rule);
}

enum post_result {
	POST_DONE,	/* COMPLETED, and says so */
	POST_FAILED,	/* ended otherwise; status, error and rule are set */
	POST_MORE,	/* moved up to the budget; post it again in a later turn */
	POST_PENDING,	/* the backend owns it now; poll() hands it back ended */
	POST_BUSY	/* no room in the queue; untouched, post it again later */
};

/* What post() answers when it ends one with a rule. */
static inline enum post_result post_fail(struct transfer *t, uint16_t rule)
{
	transfer_end_by(t, rule);
	return POST_FAILED;
}

#define QP_POOLS_MAX 32u

/* Queue pairs that a policy may ask for, by a name of the configuration. */
struct qp_pool {
	char name[64];
	int8_t service_level;	/* -1: that of all others */
	int16_t traffic_class;	/* the same */
};

struct backend_options {
	const char *faults;	/* null: injected faults, see engine/null.c; else "" */
	uint64_t stream_bytes;	/* copies of at least this many bytes stream */
	struct file_settings {	/* file */
		uint32_t depth;		/* operations that a queue has in the kernel */
		uint32_t chunk_bytes;	/* of one operation, at most */
		uint32_t workers;	/* threads of a queue, where there is no io_uring */
		uint32_t sqpoll_ms;	/* a kernel thread submits, sleeps after this; 0: none */
		bool direct;		/* O_DIRECT where everything is aligned */
		bool io_uring;		/* where it is permitted */
	} file;
	struct tcp_settings {	/* tcp */
		uint32_t depth;		/* pieces that a connection has on their way */
		uint32_t chunk_bytes;	/* of one piece, at most */
		uint64_t zero_copy_bytes; /* pieces of so many are sent in place; 0: none */
		uint64_t fence_ns;	/* until a request that was called back has ended */
		uint16_t port;		/* where peers bring their data; 0: any */
		bool crc32c;		/* of every piece */
		bool io_uring;		/* where it is permitted */
	} tcp;
	struct rdma_settings {	/* rdma */
		char allow[256], deny[256]; /* devices, by name and with commas between */
		uint32_t port;		/* of the device; 0: the first that is active */
		uint32_t gid_index;	/* of the port; UINT32_MAX: the best */
		uint32_t depth;		/* requests that a QP has out */
		uint32_t chunk_bytes;	/* of one request, at most */
		uint64_t fence_ns;	/* until a request that was called back has ended */
		uint16_t timeout, retries; /* of a QP, see dv/qp.h */
		uint16_t service_level, traffic_class, pkey_index, hop_limit;
	} rdma;
	const struct qp_pool *qp_pools;	/* rdma: nr_qp_pools; they outlive the backend */
	uint32_t nr_qp_pools;
};

/* What carries frames for a backend, see wired_ops. They take the reference. False: there
 * is no such link any more. Control. */
struct wired_link {
	void *context;
	bool (*to_far)(void *context, const struct far_end *f, json_t *frame);
	bool (*to_guest)(void *context, const struct guest *g, json_t *frame);
};

/*
 * A backend whose connections between engines are set up by frames of their links, which
 * carry its name as their type. Control, all of it. Texts and frames of peers are anything.
 */
struct wired_ops {
	/* Frames go from now on. A descriptor that becomes readable when ready() has
	 * something to do. 0 or -errno; -ENODEV: it has nothing to serve with. */
	int (*start)(struct backend_instance *inst, const struct wired_link *w, int *fd);
	void (*ready)(struct backend_instance *inst);

	/* Memory of this host, of a tenant: it gets region->wired, or is not reached by this
	 * backend. What takes as long as it has pages is for pin, on any thread, one at a time
	 * of a region; settle, control again, says whether it is reached now. */
	void (*region_open)(struct backend_instance *inst, struct region *r, uint32_t uid);
	void (*region_pin)(struct region *r);
	bool (*region_settle)(struct backend_instance *inst, struct region *r);
	/* Its end, on any thread: no poller knows it any more; when it returns, no peer
	 * touches it. */
	void (*region_close)(struct backend_instance *inst, struct region *r);
	/* What an engine that uses it has to know, at most WIRED_KEYS_SIZE with its end.
	 * False: it may not use it this way. */
	bool (*region_keys)(const struct region *r, char *text);
	/* Memory of another engine, which said so of it. Its end: no poller knows it. */
	void (*far_region_open)(struct backend_instance *inst, struct region *r,
				const char *keys);
	void (*far_region_close)(struct backend_instance *inst, struct region *r);

	/* An engine whose segments are used here: it gets far->wired; its end: no region
	 * points to it. What it says. */
	void (*far_open)(struct backend_instance *inst, struct far_end *f);
	void (*far_close)(struct backend_instance *inst, struct far_end *f);
	void (*far_frame)(struct backend_instance *inst, struct far_end *f,
			  const json_t *frame);
	/* An engine that uses ours says something for this tenant, whom it speaks for; its
	 * end: nothing of it reaches memory of ours any more when it returns. */
	void (*guest_frame)(struct backend_instance *inst, const struct guest *g, uint32_t uid,
			    const json_t *frame);
	void (*guest_close)(struct backend_instance *inst, const struct guest *g);
};
#define WIRED_KEYS_SIZE 1024u

/* What one network interface has to do. */
struct nic_load {
	char name[64];
	uint64_t out_bytes;	/* handed to it and not ended */
	double bandwidth;	/* bytes a second that it was handed of late */
};

/* A backend that moves memory of GPUs. Control, all of it; may block. */
struct device_ops {
	/* Is the range of r memory of a GPU of this process? 1: it gets r->device. 0: not.
	 * -errno: it cannot be used, and why says what is wrong with it. */
	int (*region_open)(struct backend_instance *inst, struct region *r, char *why,
			   size_t size);
	/* Its end: no poller knows it any more. */
	void (*region_close)(struct backend_instance *inst, struct region *r);
	/* Memory of the host with an addr, as soon as there is some of a GPU: it gets
	 * r->pinned, or is not reached by this backend. Its end. */
	void (*host_open)(struct backend_instance *inst, struct region *r);
	void (*host_close)(struct backend_instance *inst, struct region *r);
};

struct backend {
	const char *name;	/* "shm": the config key transports/<name>/enable */
	uint8_t transport;	/* enum tent_transport it answers for */

	/* Required. Control; may block. 0 or -errno. */
	int (*open)(struct backend_instance **inst, const struct backend_options *o);
	void (*close)(struct backend_instance *inst);

	/* Required. Control; may block. One queue per poller. event_fd: write it (8
	 * bytes) from a thread of your own when poll() has something to hand back. */
	int (*queue_open)(struct backend_instance *inst, int event_fd,
			  struct backend_queue **queue);
	/* Control, once the poller has stopped and owns no transfer. */
	void (*queue_close)(struct backend_queue *queue);

	/* Required. Any thread; pure. Can it move between these two? The answer for memory of
	 * another engine stands until inst->changes is another number. */
	bool (*reaches)(const struct backend_instance *inst,
			const struct region *local, const struct region *remote);

	/* Optional. reaches() is true whenever both regions are mapped here (addr): the
	 * planner then does not ask. */
	bool reaches_mapped;

	/* Required. Poller. Moves at most budget bytes itself. */
	enum post_result (*post)(struct backend_queue *queue, struct transfer *t,
				 uint64_t budget);

	/* Optional. Control; may block. Takes over copies of a client's private memory
	 * through mem_fd (/proc/PID/mem, then the backend's to close). Without it
	 * private memory is refused at registration. owner_close, on any thread but a
	 * poller's, returns once no worker touches the memory any more; regions of it
	 * are dropped before. */
	int (*owner_open)(struct backend_instance *inst, int mem_fd,
			  struct private_owner **owner);
	void (*owner_close)(struct private_owner *owner);

	/* Optional. Control; may block. A file that requests will name, and its end: no
	 * poller names it any more, and its descriptors are open still. Without it there
	 * are no file segments. 0 or -errno. */
	int (*file_open)(struct backend_instance *inst, struct file *f);
	void (*file_close)(struct backend_instance *inst, struct file *f);

	/* Optional, together: it moves bytes between engines. Control. peers_open: others
	 * may come from now on, to the address that the engine listens at; *port is where.
	 * 0 or -errno. */
	int (*peers_open)(struct backend_instance *inst, const void *address,
			  uint32_t address_size, uint16_t *port);
	/* An engine that uses segments of ours; its end: it is let in no more, and what it
	 * has here ends soon. 0 or -errno. */
	int (*guest_open)(struct backend_instance *inst, struct guest *g);
	void (*guest_close)(struct backend_instance *inst, struct guest *g);
	/* An engine whose segments are used here; its end: no region points to it. */
	int (*far_open)(struct backend_instance *inst, struct far_end *f);
	void (*far_close)(struct backend_instance *inst, struct far_end *f);
	/* Optional; required with peers_open. Poller, while the region is dropped, every turn.
	 * Ends what peers asked for of it, and what else the backend has of it beside
	 * transfers. True: nothing of that touches it any more. */
	bool (*drop)(struct backend_queue *queue, const struct region *r);
	/* Optional. Poller. A copy between a loan of the queue's and memory of a GPU is over:
	 * rule is 0, or what it failed with. */
	void (*loan_copied)(struct backend_queue *queue, struct loan *loan, uint16_t rule);
	/* Optional. Instead of peers_open, guest_ and far_: its links set it up. */
	const struct wired_ops *wired;
	/* Optional. */
	const struct device_ops *device;
	/* Optional. It knows memory of the host alone, and moves that of GPUs by way of it; it
	 * is the one that stands for it then. Both are engine/staging.h. */
	bool is_staged, is_stage;
	/* Optional. Any thread; pure. This machine has nothing that it could move. */
	bool (*is_absent)(const struct backend_instance *inst);
	/* Optional. Control. A descriptor that becomes readable when poll() has something
	 * to do, beside event_fd; or -1. */
	int (*wait_fd)(const struct backend_queue *queue);

	/* Optional, together: it drives network interfaces. Poller: tells control what of the
	 * queue's is out. Control, once all queues have: at most max loads; how many. */
	void (*load_tell)(struct backend_queue *queue);
	uint32_t (*loads)(struct backend_instance *inst, struct nic_load *loads, uint32_t max);

	/* Optional. Control. For explain. How it would move this, which it reaches: members of
	 * the plan. Why it does not reach both ends: a sentence. */
	void (*describe)(const struct backend_instance *inst, const struct transfer *t,
			 json_t *plan);
	void (*why_not)(const struct backend_instance *inst, const struct region *local,
			const struct region *remote, char *text, size_t size);

	/* Optional. Control. How it does its work, and how much, in one line for people. */
	void (*facts)(const struct backend_instance *inst, char *text, size_t size);

	/* Optional. Poller, every turn while it holds transfers or serves, now and then when
	 * not. A list (by next) of ended transfers. */
	struct transfer *(*poll)(struct backend_queue *queue);

	/* Optional, with poll. Poller. Ends a pending transfer with this rule. True:
	 * it is ended and the poller's again. False: poll() will hand it back. */
	bool (*cancel)(struct backend_queue *queue, struct transfer *t, uint16_t rule);
};

/* First member of every backend's own queue and instance struct. */
struct backend_queue {
	const struct backend *ops;
	struct backend_instance *inst;
	bool serves;		/* the poller's: poll() has work without a transfer, too */
	bool moved;		/* the poller's: poll() did some, whatever it handed back */
	uint32_t watched;	/* the backend's: what it waits for, no descriptor announces */
	uint32_t called;	/* any thread sets it: the same, once; poll() clears it */
	struct lender *lender;	/* constant; NULL: nobody here has memory of GPUs */
};
struct backend_instance {
	const struct backend *ops;
	uint32_t changes;	/* counts what made reaches() answer otherwise than before */
};

extern const struct backend null_backend;

#endif /* TENT_ENGINE_BACKEND_H */
