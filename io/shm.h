/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.h - what the files of the shm backend share.
 *
 *   shm.c          the backend table, and copies between two mapped ends
 *   shm_private.c  the poller's half of copies that touch private memory
 *   shm_owner.c    owners of private memory and their worker threads
 *
 * Private memory is read and written by one worker thread per owner, through
 * /proc/PID/mem, and only between there and a bounce buffer of that same owner.
 * The poller copies between bounce buffers and mapped ends. So a worker that is
 * stuck in the kernel (a client can arrange that its own pages do not arrive)
 * holds up transfers that name its owner's memory, and nothing else.
 *
 *   poller: lane_post()          worker: run_lane()          poller: harvest()
 *   lane filled in, state JOB -> pread/pwrite             -> result in the lane
 *              R10/A10                  inbox push: R11/A11
 *
 * A transfer has one chunk on its way at a time, in one lane per private end.
 *
 * Where the other end is a file, the worker reads or writes that too: the lane is in
 * LANE_FILE then. A cancelled transfer is not ended before its lane left that state, so
 * a file is as fenced as with io_uring; and a lane that was left (LANE_LEFT) does not
 * enter it any more.
 */
#ifndef TENT_IO_SHM_H
#define TENT_IO_SHM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "engine/backend.h"
#include "engine/transfer_list.h"

#define SHM_QUEUES_MAX	64u	/* pollers of one engine */
#define SHM_LANES	4u	/* chunks that one owner and poller have on their way */
#define SHM_CHUNK	65536u	/* bytes of a bounce buffer, and of one system call */

/* Bounds, nanoseconds. A worker that has not come back after SHM_FENCE_NS does
 * not hold up the end of a cancelled transfer any longer. */
#define SHM_FENCE_NS	100000000ull
/* A lane reserved for a chunk whose source takes longer than this is lent on. */
#define SHM_LEND_NS	10000000ull
/* How long owner_close() waits for its worker before it leaves it behind: a chunk takes
 * microseconds. */
#define SHM_CLOSE_NS	10000000ull

enum lane_state {
	LANE_IDLE = 0,	/* the poller's */
	LANE_JOB,	/* offered to the worker; the poller may take it back */
	LANE_BUSY,	/* the worker is in its system calls */
	LANE_DONE,	/* in the inbox, or just harvested */
	LANE_FILE,	/* the worker is in system calls on lane.file */
	LANE_LEFT	/* it was BUSY when its transfer ended: no file is for it any more */
};

/* One chunk on its way between its owner's memory and a bounce buffer. */
struct lane {
	/* the poller's */
	struct transfer *transfer; /* NULL: free, or left behind in the worker */
	struct channel *channel;
	struct lane *partner;	/* the other end's lane of a copy between two owners */
	bool is_source;		/* it reads its owner's memory for transfer */
	bool in_worker;		/* offered and not harvested yet */
	uint64_t posted_ns;	/* when it was offered */
	uint64_t fence_ns;	/* cancelled: when to stop waiting for the worker */
	/* the poller's while IDLE, the worker's while BUSY */
	uint8_t *bounce;	/* SHM_CHUNK bytes */
	uint64_t address;	/* in the owner */
	uint32_t length;	/* bytes */
	uint32_t moved;		/* bytes, when it comes back; less than length: fault */
	const struct file *file; /* the other end, or NULL: the bounce buffer is */
	uint64_t file_offset;
	uint16_t fault;		/* with a file: enum tent_rule, 0 */
	struct lane *next_done;	/* R11/A11 */
	uint32_t state;		/* enum lane_state; R10/A10 */
};

/* What one poller and one owner share. The lists are the poller's. */
struct channel {
	struct private_owner *owner;
	struct shm_inbox *inbox;
	struct shm_queue *queue;
	struct lane lanes[SHM_LANES];
	struct transfer_list waiting[LEVELS]; /* for a lane of this channel */
	uint32_t nr_waiting;
	uint32_t picks;		/* one in SHM_PICKS takes the lowest level first */
	TAILQ_ENTRY(channel) starved; /* in queue->starved while nr_waiting > 0 */
};

/* Lanes on their way back to one poller. Outlives its queue while a worker that
 * is stuck may still come back to it. */
struct shm_inbox {
	struct lane *done;	/* a stack; R11/A11 */
	int event_fd;		/* our own duplicate, or -1 */
	uint32_t refs;		/* the queue, and each owner; R15/A15 */
};

struct shm_queue {
	struct backend_queue base;
	struct shm_inbox *inbox;
	uint32_t index;		/* of our channel in every owner */
	uint64_t stream_bytes;
	uint32_t nr_private;	/* transfers we hold */
	struct transfer_list ready;	/* their next step is a copy by the poller */
	struct transfer_list fencing;	/* cancelled, a worker has them; oldest first */
	struct transfer_list ended;	/* to be handed back by poll() */
	TAILQ_HEAD(, channel) starved;	/* channels with waiting transfers */
};

struct shm_instance {
	struct backend_instance base;
	uint64_t stream_bytes;
	uint32_t nr_queues;
	bool owners_seen;	/* from then on no queue may come */
	struct shm_inbox *inboxes[SHM_QUEUES_MAX];
	struct shm_queue *queues[SHM_QUEUES_MAX];
	pthread_mutex_t dying_lock;
	LIST_HEAD(, private_owner) dying; /* closed, not yet free of poller and worker */
};

struct private_owner {
	struct shm_instance *inst;
	int mem_fd;
	pthread_t thread;
	uint8_t *bounces;
	uint32_t nr_channels;
	uint32_t wake;		/* enum of shm_owner.c; futex word of the worker */
	uint32_t stopping;
	uint32_t life;		/* enum of shm_owner.c; who frees it */
	LIST_ENTRY(private_owner) dying;
	struct channel channels[];
};

/* Where the next n bytes of a transfer lie in it. An overlapping copy towards
 * higher addresses goes from the end, so that no chunk overwrites what a later
 * one reads: done counts bytes, not a prefix, in that case. */
static inline uint64_t chunk_offset(const struct transfer *t, uint64_t from,
				    uint64_t to, uint64_t n)
{
	bool backward = to > from && to - from < t->length;

	return backward ? t->length - t->done - n : t->done;
}

/* shm_private.c. Poller. */
enum post_result private_post(struct shm_queue *q, struct transfer *t);
struct transfer *private_poll(struct backend_queue *queue);
bool private_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);

/* shm_owner.c. Control, but for the close, which may come from several threads. On
 * failure mem_fd stays the caller's. */
int shm_owner_open(struct backend_instance *inst, int mem_fd,
		   struct private_owner **owner);
void shm_owner_close(struct private_owner *owner);
/* Frees what closed owners left behind and nobody can touch any more; with
 * all (the queues are closed) leaves the rest to their workers. */
void shm_owners_reap(struct shm_instance *inst, bool all);
void shm_inbox_put(struct shm_inbox *inbox);

/* shm_owner.c. Makes the inbox's eventfd readable. */
void shm_inbox_nudge(const struct shm_inbox *inbox);

/* shm_owner.c. Poller: offers a filled-in lane to its owner's worker. A system
 * call only when the worker sleeps. */
void shm_lane_post(struct lane *lane);

#endif /* TENT_IO_SHM_H */
