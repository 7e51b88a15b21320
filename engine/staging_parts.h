/* SPDX-License-Identifier: Apache-2.0 */
/* staging_parts.h - what staging is made of, for its two files. */
#ifndef TENT_ENGINE_STAGING_PARTS_H
#define TENT_ENGINE_STAGING_PARTS_H

#include <sys/queue.h>

#include "engine/pages.h"
#include "engine/staging.h"
#include "engine/transfer_list.h"

#define STAGING_JOBS 256u		/* requests that it holds */

/* A request, in pieces. */
struct staging_job {
	struct transfer *transfer;
	struct staging_queue *queue;
	uint64_t issued;	/* bytes that pieces were made for */
	uint32_t nr_out;	/* pieces on their way */
	uint16_t rule;		/* how it will end; 0: not yet known */
	bool waits;		/* in its stage's waiting */
	bool unfenced;
	TAILQ_ENTRY(staging_job) link; /* waiting, or free */
};
TAILQ_HEAD(staging_jobs, staging_job);

/* A buffer, and what it is for: first one way is gone with it, then the other. */
struct staging_piece {
	struct transfer t;	/* of the way it is on: a backend's, or in again */
	struct region region;	/* the buffer, as backends are shown it */
	struct staging_job *job;	/* NULL: it is free */
	uint64_t offset;	/* in the request */
	bool is_second;		/* the way it is on is its last one */
	bool waits;		/* in again */
	TAILQ_ENTRY(staging_piece) link; /* free, or again */
};
TAILQ_HEAD(staging_pieces, staging_piece);

/* Stands beside host, which moves what is in the buffers. */
struct staging_queue {
	struct backend_queue base;
	struct backend_instance inst; /* changes: the buffers are there, R19/A19 */
	struct backend ops;
	struct backend_queue *host;
	struct staging *staging;
};

/* Buffers that lie behind each other, to who serves peers. */
struct staging_loan {
	struct transfer t;	/* its copy */
	struct region region;	/* the buffers, as the device queue is shown them */
	struct loan loan;
	uint32_t taken;		/* bit i: buffer i */
	TAILQ_ENTRY(staging_loan) link; /* in again */
};
TAILQ_HEAD(staging_loans, staging_loan);

/* Its buffers are not those of requests: two engines that write to each other would wait
 * for each other with what both wait for. */
struct staging_lender {
	struct lender base;
	struct backend_queue *borrower;
	struct staging_loan *loans;	/* STAGING_LOANS, each begins with its own buffer */
	uint32_t taken;			/* bit i: buffer i */
	uint32_t nr_copies;
	struct staging_loans again;	/* copies that are new or found no room */
};

/* In the place of a queue's backend: what poll() hands back is looked through for pieces. */
struct staging_tap {
	struct backend ops;
	const struct backend *own;
	struct staging *staging;
};

struct staging {
	struct backend_queue *device;	/* copies between GPUs and the buffers */
	struct backend_instance *gpus;	/* its, which outlives it */
	struct staging_queue queues[STAGING_QUEUES_MAX];
	struct staging_tap taps[STAGING_QUEUES_MAX + 1];
	uint32_t nr_queues, nr_taps;
	/* the buffers; the control thread makes them, R19/A19 */
	struct staging_piece *pieces;	/* STAGING_BUFFERS; loans are behind them */
	struct region pool;
	struct pages_info pages;
	struct staging_lender lender;
	/* the poller's */
	uint32_t nr_jobs;
	uint32_t picks;
	struct staging_jobs free_jobs, waiting[LEVELS];
	struct staging_pieces free, again;	/* again: found no room, or is not through */
	struct transfer_list ended;
	struct staging_job jobs[STAGING_JOBS];
};

/* staging_loan.c. Control. */
void staging_lender_init(struct staging *s, struct backend_queue *borrower);
/* Behind the pool's other buffers. */
void staging_lender_fill(struct staging *s);
/* Poller. True: it was one of its copies. */
bool staging_loan_over(struct staging *s, struct transfer *t);
/* Those that are new or found no room, once each. */
void staging_loans_again(struct staging *s);

/* staging.c. Poller. */
enum post_result staging_post(struct backend_queue *queue, struct transfer *t, uint64_t budget);
bool staging_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule);
struct transfer *staging_tap_poll(struct backend_queue *queue);

#endif /* TENT_ENGINE_STAGING_PARTS_H */
