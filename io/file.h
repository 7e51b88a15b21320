/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - what the files of the file backend share.
 *
 *   file.c          the backend table; files, and queues made when the first one opens
 *   file_queue.c    the poller's half: transfers become operations, results become ends
 *   file_uring.c    operations by io_uring
 *   file_pins.c     memory that these find pinned
 *   file_workers.c  operations by threads, where io_uring is not permitted
 *
 * Private memory is shm's: the worker of its owner copies between it and the file, a
 * chunk at a time, and shm's queue of the same poller hands the transfer back.
 *
 * A transfer is a job. Its bytes go out as operations of at most chunk_bytes, several at
 * a time, jobs taking turns; an operation that came back short goes out again for the
 * rest. Nothing but its own result ends an operation, and a job ends when none of its
 * operations is out: so no byte of it moves after its end, whatever asked for it.
 */
#ifndef TENT_IO_FILE_H
#define TENT_IO_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "engine/backend.h"
#include "engine/transfer_list.h"
#include "io/uring.h"
#include "ring/order.h"

#define FILE_QUEUES_MAX	64u	/* pollers of one engine */
#define FILE_PLACES	1024u	/* files registered with io_uring; others go by descriptor */
#define FILE_JOBS	4u	/* jobs that a queue holds, times its depth */
#define FILE_PICKS	8u	/* one in so many goes to the lowest level first */
#define FILE_RETRIES	100u	/* of one operation that the kernel sends back as not begun */
#define FILE_CHUNK_MAX	(64u << 20)
#define FILE_PINS	128u	/* pieces of memory that a queue keeps pinned */
#define FILE_PIN_WAYS	4u	/* places that a piece may have */
#define FILE_PIN_BYTES	(2u << 20) /* of a piece */
#define FILE_PIN_AFTER	4u	/* operations that named it */

enum op_state {
	OP_IDLE = 0,		/* the poller's */
	OP_OFFERED,		/* to the workers; the poller may take it back */
	OP_TAKEN		/* a worker is in its system call */
};

/* A piece of memory and its place in the kernel's table. */
struct file_pin {
	const struct region *region; /* NULL: none */
	uint64_t piece;		/* from piece * FILE_PIN_BYTES of it on */
	uint64_t last;		/* when it was named: nr_named of the queue */
	uint32_t named;		/* how often, before it was pinned */
	uint32_t nr_out;	/* operations that the kernel has by it */
	bool pinned, refused;
};

/* One read or write on its way. */
struct file_op {
	/* the poller's */
	struct file_job *job;	/* NULL: free */
	uint8_t *memory;
	uint64_t offset;	/* in the file */
	uint32_t length;	/* bytes still to move */
	uint16_t retries;
	bool direct;
	bool direct_failed;	/* the file system took it back: buffered from now on */
	bool is_read;
	struct file *file;
	struct file_pin *pin;	/* memory is there; NULL: it is not */
	/* the poller's while IDLE, a worker's while TAKEN */
	int32_t result;		/* bytes or -errno */
	uint32_t state;		/* enum op_state; R10/A10 */
	struct file_op *next;	/* free ones; those that workers brought back: R11/A11 */
};

struct file_job {
	struct transfer *transfer;
	uint64_t issued;	/* bytes that operations were made for */
	uint32_t nr_out;	/* operations on their way */
	uint16_t rule;		/* how it will end; 0: not yet known */
	bool direct;		/* all of it is aligned */
	bool waits;		/* it is in waiting[level] */
	uint8_t level;
	TAILQ_ENTRY(file_job) link; /* waiting for operations, or free */
};
TAILQ_HEAD(file_jobs, file_job);

struct file_queue;

/* Who carries operations out. A test has one of its own, for faults. */
struct file_io {
	const char *name;
	/* Control. 0 or -errno with why. */
	int (*open)(struct file_queue *q, char *why, size_t size);
	void (*close)(struct file_queue *q);
	/* Poller. Takes op over. There is room for every operation of the queue. */
	void (*start)(struct file_queue *q, struct file_op *op);
	/* Poller. Sets off what was started. */
	void (*flush)(struct file_queue *q);
	/* Poller. One that came back, result set; or NULL. */
	struct file_op *(*reap)(struct file_queue *q);
	/* Poller. It is not wanted any more: a hint; reap() still brings it back. */
	void (*cancel)(struct file_queue *q, struct file_op *op);
};

extern const struct file_io file_io_uring, file_io_workers;

struct file_workers;

struct file_queue {
	struct backend_queue base;
	const struct file_io *io; /* NULL: no file was opened yet */
	uint32_t index;		/* of the poller, as shm counts them too */
	int event_fd;
	struct file_settings o;
	/* the poller's */
	struct file_op *ops, *free_ops;
	struct file_job *jobs;
	struct file_jobs free_jobs, waiting[LEVELS];
	struct transfer_list ended;
	uint32_t nr_jobs;	/* we hold */
	uint32_t window;	/* operations of one job */
	uint32_t picks;
	/* counted by the poller, read by any thread */
	struct file_counts {
		uint64_t ops, direct, pinned, short_ops, retries;
	} counts;
	/* io_uring */
	struct kring kring;
	uint32_t inline_left;	/* bytes the kernel may still copy within the next enter */
	uint32_t nr_held;	/* operations that found no entry free */
	bool may_pin;		/* in this turn still */
	uint64_t nr_named;	/* pieces that were named */
	struct file_pin pins[FILE_PINS];
	/* threads */
	struct file_workers *workers;
	struct file_op *taken_back, *done; /* done: a stack; R11/A11 */
};

struct file_instance {
	struct backend_instance base;
	struct file_settings o;
	const struct file_io *io;
	char why[256];		/* it is not io_uring: why */
	uint32_t nr_queues;
	struct file_queue *queues[FILE_QUEUES_MAX];
	bool used[FILE_PLACES];
};

/* The rule behind a result that is no progress: 0 or -errno. Any thread. */
uint16_t file_rule(int32_t result, bool is_read);

/* file_queue.c. Poller. */
enum post_result file_post(struct backend_queue *queue, struct transfer *t, uint64_t budget);
struct transfer *file_poll(struct backend_queue *queue);
bool file_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);
/* Control: memory for operations and jobs, and its end. */
int file_queue_init(struct file_queue *q);
void file_queue_free(struct file_queue *q);

/* file_pins.c. Poller. The place of the memory that a direct operation names, for it until
 * it is back; or NULL. */
struct file_pin *file_pin_take(struct file_queue *q, const struct file_op *op);
bool file_drop(struct backend_queue *queue, const struct region *r);

/* file.c: the first file opens; io NULL: as the settings say. Control. 0 or -errno. */
int file_start(struct file_instance *inst, const struct file_io *io);

static inline void file_count(uint64_t *counter)
{
	store_relaxed(counter, *counter + 1);
}

#endif /* TENT_IO_FILE_H */
