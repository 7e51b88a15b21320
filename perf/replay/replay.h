/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.h - the parts of the replay program.
 *
 *   main.c     options; reports
 *   sites.c    starts the engines, the store and the server, where they belong
 *   store.c    the process that owns the KV pool
 *   server.c   the open loop: what is due, what has ended, what is left to do
 *   jobs.c     one batch in flight, from its requests to its verified bytes
 *   flood.c    the checkpoint that never ends, to disturb the others
 *   kills.c    engines that are killed, and what must hold then
 *   output.c   floors, facts, table, picture
 *   progress.c the bar on a terminal
 *   trace.c pool.c map.c   as their headers say
 */
#ifndef TENT_PERF_REPLAY_REPLAY_H
#define TENT_PERF_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/tent.h>

#include "perf/common/capture.h"
#include "perf/common/complain.h"
#include "perf/common/daemon.h"
#include "perf/common/process.h"
#include "perf/common/report.h"
#include "perf/common/samples.h"
#include "perf/common/two_hosts.h"
#include "perf/replay/pool.h"
#include "perf/replay/trace.h"

enum replay_mode { MODE_DAEMON = 0, MODE_THREAD, MODE_CALLER };
enum replay_transport { OVER_SHM = 0, OVER_TCP, OVER_RDMA }; /* but shm: two hosts */

struct options {
	const char *trace;
	const char *engine;	/* unix:PATH of a running tentd, or NULL: our own */
	const char *out;	/* folder for data and picture, or NULL */
	const char *capture;	/* simulated: pcap file of all packets, or NULL */
	const char *device;	/* OVER_RDMA: of this machine, or NULL: software devices */
	uint64_t requests;	/* 0: all */
	uint64_t block, pool, staging, flood; /* bytes */
	uint64_t speed;		/* trace seconds per second */
	uint64_t ttft_ms;
	uint64_t prefetch;	/* blocks per request, at most */
	uint64_t seed;
	uint64_t kills;		/* of engines, on two hosts */
	int mode;		/* enum replay_mode */
	int transport;		/* enum replay_transport */
	int idle;		/* 0 busy, 1 adaptive: of an engine we start */
	bool checkpoint_flood, no_priorities, spread, json;
	int server_core, engine_core;	/* -1: not pinned */
};

static inline bool options_simulate(const struct options *o)
{
	return o->transport == OVER_RDMA && !o->device;
}

/* What is measured apart. */
enum traffic { GET = 0, PREFETCH, CHECKPOINT, FLOOD, TRAFFIC_COUNT };

struct traffic_stats {
	struct samples latency_ns;	/* per batch, from the scheduled time */
	uint64_t batches, requests, bytes;
	uint64_t met, missed;		/* deadlines */
	uint64_t failed;		/* requests that did not complete */
};

struct stats {
	struct traffic_stats traffic[TRAFFIC_COUNT];
	struct samples lateness_ns;	/* start of a request after its scheduled time */
	uint64_t read_bytes;		/* as the engine says, of batches that completed */
	uint64_t verified_bytes;	/* compared, and right */
	uint64_t wrong_blocks;
	uint64_t killed_requests;	/* did not complete, as an engine was killed */
	uint64_t blocks, hits, unwritten, skipped_writes;
	uint64_t prefetched, prefetch_used, evictions;
	uint64_t begin_ns, end_ns;
	char first_error[512];		/* "" while all is well */
};

struct server;

/* ---- sites.c ----------------------------------------------------------- */

/* Two hosts, and what runs there. */
struct sites {
	struct two_hosts net;
	char secret[96];	/* path */
	struct process capture;
	struct daemon daemons[2];	/* HOST_STORE's, HOST_SERVER's */
	struct process store;
	char segment[128];	/* the store's */
	char facts[2][512];	/* at the end: what the engines say of their transport */
};
enum { HOST_STORE, HOST_SERVER };

/* Starts what the options ask for, replays, and ends it. 0; -1 after saying why on
 * stderr. */
int sites_run(struct server *s);
/* A tentd on that host. 0; -1 after saying why on stderr. */
int sites_start_engine(struct sites *t, const struct options *o, int host);
/* The server gets an engine, and opens the store's segment. The same. */
int sites_attach(struct server *s, const char *url, const char *segment);
int sites_find_pool(struct server *s, const char *segment);

/* ---- store.c ----------------------------------------------------------- */

/* Bytes the store allocates: the pool, then the flood's area. */
uint64_t store_size(const struct options *o);

/* Allocates, touches and registers the pool in this program's own segment.
 * NULL after saying why on stderr. */
void *store_open_pool(tent_engine_t engine, const struct options *o);

/* Starts the store process (before this process has an engine); p->said is the
 * full name of its segment. As process_start(). It can be asked:
 *   check     are the blocks of the ledger in the pool? "right N wrong N"
 *   move URL  its engine is dead: an empty pool by another; the segment's name */
struct ledger;
int store_start(struct process *p, const struct options *o, const char *engine_url,
		const struct ledger *ledger);

/* ---- jobs.c ------------------------------------------------------------ */

struct job_block {
	uint64_t id;		/* what its bytes must be */
	uint8_t *buffer;	/* in the staging area */
	uint64_t target;	/* address in the pool */
	uint32_t slot;		/* of the pool; POOL_NONE: the flood's area */
};

/* One batch. Lives from job_new() to job_free(); a GET or PREFETCH goes submit,
 * end, verify; a CHECKPOINT goes fill, submit, end. */
struct job {
	struct job *next;
	enum traffic traffic;
	tent_batch_id_t batch;
	uint64_t scheduled_ns, deadline_ns;
	uint32_t nr, done;	/* blocks; how many are filled or verified */
	bool failed;
	struct job_block blocks[];
};

struct job_list {
	struct job *first, **last;
	uint32_t nr;
};
void job_list_init(struct job_list *l);
void job_list_add(struct job_list *l, struct job *j);
struct job *job_list_take(struct job_list *l);

struct job *job_new(enum traffic traffic, uint32_t room, uint64_t scheduled_ns);
void job_add(struct job *j, uint64_t id, uint8_t *buffer, uint64_t target, uint32_t slot);

/* Submits it as one batch and moves it to the running ones. On failure it is
 * ended as failed. */
void job_submit(struct server *s, struct job *j);

/* Just submits; 0 or a negative enum tent_error. */
int job_try_submit(struct server *s, struct job *j);

/* Looks at every running batch; those that ended leave the list. True: one did. */
bool jobs_poll(struct server *s);

/* Fills, or verifies, the next block of a job. True: that was its last. */
bool job_fill_one(struct server *s, struct job *j);
bool job_verify_one(struct server *s, struct job *j);

/* ---- kills.c ----------------------------------------------------------- */

/* Memory that server, store and killer share. */
struct ledger {
	uint64_t struck_ns;	/* when the last kill was */
	struct ledger_slot {
		uint64_t id;
		bool stored;	/* it was said to be */
	} slots[];
};

struct kills {
	struct ledger *shared;
	uint64_t chance;
	pid_t killer;		/* it will strike, or has; 0: nobody */
	int victim;		/* HOST_STORE, HOST_SERVER */
	uint64_t killed_before;	/* requests */
	uint64_t done, of[2], in_flight; /* kills; of each; with requests under way */
	uint64_t checked;	/* blocks, by the store */
	struct samples end_ns;	/* from the kill to the end of the last request */
};

/* Before the store is started. 0; -1 after saying why on stderr. */
int kills_open(struct server *s);
void kills_begin_due(struct server *s);
/* A request failed: is the victim why? */
bool kills_explain(const struct server *s);
bool kills_struck(const struct server *s);
/* Waits for all ends, checks the store, and replaces the engine. As kills_open(). */
int kills_recover(struct server *s);
/* Checks the store for the last time. The same. */
int kills_close(struct server *s);

/* ---- server.c ---------------------------------------------------------- */

struct server {
	const struct options *o;
	struct sites *sites;	/* two hosts */
	const struct trace *trace;
	tent_engine_t engine;
	tent_segment_id_t target;
	uint64_t pool_base;	/* address of the pool in its owner */
	struct pool pool;
	struct successors successors;
	uint8_t *staging;
	uint8_t **free_buffers;
	uint32_t nr_free, nr_buffers;
	tent_request_v1_t *entries; /* scratch for one batch */
	uint64_t start_ns;	/* the scheduled time of arrival 0 */
	size_t next;		/* request of the trace */
	struct job_list running;	/* submitted */
	struct job_list to_prefetch;	/* chosen, not yet submitted */
	struct job_list to_fill;	/* checkpoints whose bytes are being made */
	struct job_list to_verify;	/* reads whose bytes are being checked */
	uint8_t *flood;		/* the flood's source */
	bool lost;		/* the engine does not answer any more */
	struct kills kills;
	struct stats *stats;
};

/* Opens the store's segment and replays. 0; -1 after saying why on stderr. */
int server_run(struct server *s);

/* Its staging memory in its engine. The same. */
int server_open_memory(struct server *s);
/* Nothing is running: verifies what was read, gives up what was not submitted yet. */
void server_finish_jobs(struct server *s);

/* A staging buffer back, or one taken; NULL when none is free. */
uint8_t *buffer_take(struct server *s);
void buffer_give(struct server *s, uint8_t *buffer);

/* What ended, with which consequences for the pool. */
void server_job_ended(struct server *s, struct job *j);

void server_note_error(struct server *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- flood.c ----------------------------------------------------------- */

/* Fills the flood's source and starts all of its batches. */
int flood_start(struct server *s);
/* A batch of it ended: again, while requests are left. */
void flood_again(struct server *s, struct job *j);
/* Reads the flood's area back and verifies it. */
int flood_verify(struct server *s);

/* ---- output.c ---------------------------------------------------------- */

struct floors {
	double pingpong_ns, memcpy_ns;	/* medians; memcpy of one block */
	double tcp_ns;			/* one block over bare sockets; two hosts */
};
/* 0; -1 after saying why on stderr. */
int floors_measure(struct floors *f, const struct server *s);

void output_facts_before(struct report *r, const struct server *s, const struct floors *f);
void output_results(struct report *r, struct server *s);

/* Writes the distributions and draws them; prints where they are. 0, also without
 * gnuplot; else it failed, and said why. */
int output_picture(struct report *r, const struct options *o, struct stats *stats,
		    const struct floors *f);

/* ---- progress.c -------------------------------------------------------- */

/* On a terminal's stderr; at most ten times a second. */
void progress_show(const struct server *s);
void progress_clear(void);

#endif /* TENT_PERF_REPLAY_REPLAY_H */
