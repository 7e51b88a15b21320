/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - replays a KV-cache trace through tent's rings and says how long the
 * transfers took. See replay.h for the parts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "perf/common/bench.h"
#include "perf/common/machine.h"
#include "perf/replay/replay.h"

#define TITLE "a KV-cache trace through shared-memory rings, every byte verified"
#define NOT_SHOWN 77	/* exit status: it could not be here */
#define TRACE "perf/traces/conversation_trace.jsonl"

static struct options options = {
	.trace = TRACE, .block = 64 << 10, .pool = 4ull << 30, .staging = 256 << 20,
	.flood = 32 << 20, .speed = 20, .ttft_ms = 200, .prefetch = 8, .seed = 1, .idle = 1,
	.server_core = -1, .engine_core = -1,
};

static const struct arg args[] = {
	{ "trace", ARG_TEXT, &options.trace, 0, 0, NULL, "file in the Mooncake format" },
	{ "requests", ARG_NUMBER, &options.requests, 0, 1000000000, NULL,
	  "of the trace; 0: all" },
	{ "speed", ARG_NUMBER, &options.speed, 1, 1000000, NULL,
	  "trace seconds per second" },
	{ "spread", ARG_FLAG, &options.spread, 0, 0, NULL,
	  "arrivals evenly between the trace's 3 s timestamps" },
	{ "mode", ARG_CHOICE, &options.mode, 0, 0, "daemon|thread|caller",
	  "where the engine runs" },
	{ "transport", ARG_CHOICE, &options.transport, 0, 0, "shm|tcp|rdma",
	  "but shm: store and server on two hosts, a tentd on each" },
	{ "device", ARG_TEXT, &options.device, 0, 0, NULL,
	  "with --transport rdma: mlx5 device of this machine, instead of software ones" },
	{ "capture", ARG_TEXT, &options.capture, 0, 0, NULL,
	  "with --transport rdma, on software devices: pcap file of all packets" },
	{ "engine", ARG_TEXT, &options.engine, 0, 0, NULL,
	  "unix:PATH of a running tentd, instead of one of our own" },
	{ "idle", ARG_CHOICE, &options.idle, 0, 0, "busy|adaptive",
	  "what our own engine does without work" },
	{ "block", ARG_SIZE, &options.block, 4096, 16 << 20, NULL,
	  "size of a KV block, a multiple of 4K" },
	{ "pool", ARG_SIZE, &options.pool, 1 << 20, 1ull << 40, NULL, "the store's LRU pool" },
	{ "staging", ARG_SIZE, &options.staging, 1 << 20, 1ull << 36, NULL,
	  "the server's buffers" },
	{ "ttft", ARG_NUMBER, &options.ttft_ms, 1, 3600000, NULL,
	  "milliseconds to a request's deadline" },
	{ "prefetch", ARG_NUMBER, &options.prefetch, 0, 64, NULL,
	  "blocks per request, at most" },
	{ "checkpoint-flood", ARG_FLAG, &options.checkpoint_flood, 0, 0, NULL,
	  "keep checkpoint writes in flight all the time" },
	{ "flood", ARG_SIZE, &options.flood, 1 << 20, 1ull << 32, NULL,
	  "bytes the flood keeps in flight" },
	{ "no-priorities", ARG_FLAG, &options.no_priorities, 0, 0, NULL,
	  "one queue for all, in our own engine" },
	{ "seed", ARG_NUMBER, &options.seed, 0, UINT32_MAX, NULL, "of block contents and jitter" },
	{ "kills", ARG_NUMBER, &options.kills, 0, 100000, NULL,
	  "times that one of the two tentd is killed, by chance; between two hosts" },
	{ "out", ARG_TEXT, &options.out, 0, 0, NULL,
	  "folder for the distributions and the picture" },
	ARG_JSON(&options.json),
	{ 0 },
};

static int refuse(const char *text)
{
	fprintf(stderr, "replay: %s\n", text);
	return 2;
}

/* A card's memory is locked, the store's by its engine, the server's by its own. A software
 * device locks by io_uring, of which the kernel counts what all of a user's processes have. */
static int check_locked(const struct options *o)
{
	uint64_t there = store_size(o), here = o->staging + (o->checkpoint_flood ? o->flood : 0);
	uint64_t bytes = options_simulate(o) ? there + here : there > here ? there : here;
	void *p;
	bool ok;

	if (o->transport != OVER_RDMA)
		return 0;
	p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ok = p != MAP_FAILED && mlock2(p, bytes, MLOCK_ONFAULT) == 0;
	if (p != MAP_FAILED)
		munmap(p, bytes);
	if (ok)
		return 0;
	fprintf(stderr, "replay: --transport rdma locks %llu MiB, which RLIMIT_MEMLOCK "
		"(ulimit -l) does not permit\n",
		(unsigned long long)(bytes >> 20));
	return NOT_SHOWN;
}

/* What one option's range cannot say. */
static int check_options(const struct options *o)
{
	uint64_t available = machine_memory_available();

	if (o->block % 4096)
		return refuse("--block must be a multiple of 4K");
	if (o->pool / o->block < 64 || o->staging / o->block < 64)
		return refuse("--pool and --staging must hold at least 64 blocks");
	if (o->pool / o->block >= POOL_NONE)
		return refuse("--pool holds too many blocks");
	if (o->flood < o->block)
		return refuse("--flood must hold at least one block");
	if (o->engine && (o->no_priorities || o->mode != MODE_DAEMON))
		return refuse("--engine is a running tentd: it has its own mode and priorities");
	if (o->transport != OVER_SHM && (o->engine || o->mode != MODE_DAEMON))
		return refuse("--transport tcp and rdma start two tentd: no --engine, no --mode");
	if (o->device && o->transport != OVER_RDMA)
		return refuse("--device needs --transport rdma");
	if (o->capture && !options_simulate(o))
		return refuse("--capture needs --transport rdma, without --device");
	if (o->kills && (o->transport == OVER_SHM || o->checkpoint_flood))
		return refuse("--kills needs --transport tcp or rdma, without --checkpoint-flood");
	if (o->engine && strncmp(o->engine, "unix:", 5))
		return refuse("--engine must be unix:PATH");
	if (available && store_size(o) + o->staging + o->flood > available) {
		fprintf(stderr, "replay: --pool, --staging and --flood need %llu MiB; %llu MiB "
			"are available\n",
			(unsigned long long)((store_size(o) + o->staging + o->flood) >> 20),
			(unsigned long long)(available >> 20));
		return 2;
	}
	if (o->out && mkdir(o->out, 0777) && errno != EEXIST) {
		fprintf(stderr, "replay: %s: %s\n", o->out, strerror(errno));
		return 2;
	}
	return 0;
}

/* Software devices have threads of their own, which need a core now and then. */
static void choose_cores(struct options *o)
{
	if (machine_cores() < 2 || o->mode == MODE_CALLER || options_simulate(o))
		return;
	o->server_core = machine_core(0);
	o->engine_core = machine_core(1);
}

/* Every request completed that no kill ended, and every byte that was read (some were) is
 * the right one. */
static bool all_well(const struct server *s)
{
	const struct stats *stats = s->stats;
	uint64_t failed = stats->wrong_blocks;

	for (int t = 0; t < TRAFFIC_COUNT; t++)
		failed += stats->traffic[t].failed;
	return failed == stats->killed_requests && s->kills.done == s->o->kills &&
	       !*stats->first_error && stats->read_bytes > 0 &&
	       stats->verified_bytes == stats->read_bytes;
}

static uint32_t spinners(const struct options *o)
{
	return o->transport != OVER_SHM ? 3 : o->mode == MODE_CALLER ? 1 : 2;
}

/* A packet of RDMA carries 4 KiB where the cable lets it. */
static void open_hosts(struct two_hosts *h)
{
	if (options.device)
		two_hosts_here(h, "the device is this host's");
	else if (options.transport != OVER_SHM)
		two_hosts_open(h, options.transport == OVER_RDMA ? 9000 : 1500);
}

static int replay(struct report *r, const struct trace *trace)
{
	static struct stats stats;
	static struct sites sites;
	struct server server = {
		.o = &options, .trace = trace, .stats = &stats, .sites = &sites,
	};
	struct machine_watch watch;
	struct floors floors;
	int rc;

	machine_warn(r, spinners(&options));
	open_hosts(&sites.net);
	machine_pin(options.server_core);
	rc = floors_measure(&floors, &server);
	machine_unpin();
	if (rc)
		return 1;
	output_facts_before(r, &server, &floors);
	machine_watch_begin(&watch);
	rc = sites_run(&server);
	if (options.transport != OVER_SHM)
		two_hosts_close(&sites.net);
	if (rc)
		return 1;
	if (!options.engine)	/* that tentd's work is not foreign */
		machine_watch_end(&watch, r);
	output_results(r, &server);
	rc = output_picture(r, &options, &stats, &floors);
	return all_well(&server) && !rc ? 0 : 1;
}

int main(int argc, char **argv)
{
	int rc = args_parse(argc, argv, TITLE, args);
	char error[512];
	struct report r;
	struct trace trace;

	if (rc >= 0)
		return rc;
	rc = check_options(&options);
	if (rc == 0)
		rc = check_locked(&options);
	if (rc)
		return rc;
	if (trace_load(&trace, options.trace, options.requests, error, sizeof(error)))
		return refuse(error);
	if (options.spread)
		trace_spread(&trace, options.seed);
	choose_cores(&options);
	report_begin(&r, options.json, "replay");
	rc = replay(&r, &trace);
	report_end(&r);
	trace_free(&trace);
	return rc;
}
