/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit_rate.c - how many requests a second go from a program through a ring to
 * copied bytes and back as completions, and how long one batch takes alone.
 *
 * Beside it, in the same run, the rate of copying 128-byte slots through a ring
 * with a tail index: what is left of that after judging, copying and completing
 * each request is the ratio. Neighbouring requests are strided, so that nothing
 * could merge them.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "io/backends.h"
#include "perf/common/bench.h"
#include "perf/common/complain.h"
#include "perf/common/daemon.h"
#include "perf/common/machine.h"
#include "perf/common/samples.h"
#include "perf/common/spsc.h"
#include "ring/clock.h"
#include "ring/order.h"

#define TITLE "requests a second by mode, size and batch, beside a bare ring"
#define ENTRIES 1024u		/* distinct requests, used round and round */
#define POLL_MAX 64
#define BATCH_MAX 128
#define BACK_OFF_NS 2000
#define CHECK_RATIO 0.25
/* Of the engine and the bare ring: the machine drifts by more than is judged. */
#define PAIRS 15

enum mode { THREAD, CALLER, DAEMON, THREAD_NULL, MODES };
enum { SIZES = 2, BATCHES = 3 };

static const char *const mode_names[MODES] = {
	"thread", "caller", "daemon",
	"thread, null backend",		/* all of the path but the copy */
};
static const uint32_t sizes[SIZES] = { 64, 4096 };
static const uint32_t batches[BATCHES] = { 1, 16, 128 };

static struct {
	uint64_t runs, ms, slots;
	bool one_completion, check, json;
} options = { .runs = 3, .ms = 150 };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 100, NULL, "the table has their median" },
	{ "ms", ARG_NUMBER, &options.ms, 10, 60000, NULL, "milliseconds per measurement" },
	{ "slots", ARG_NUMBER, &options.slots, 0, TENT_SLOTS_MAX, NULL,
	  "of the ring, a power of two; 0: the default" },
	{ "one-completion", ARG_FLAG, &options.one_completion, 0, 0, NULL,
	  "ask for one completion per batch" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless thread, null, x 128 >= 0.25 of the bare ring and caller p50 < thread's / 2; "
	  "null: a 64-byte copy moves two more lines of user memory between the cores, which "
	  "the bare ring does not" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct cell {
	struct samples rates;		/* requests a second, one per run */
	struct samples latency_ns;	/* of batches that were alone, all runs */
};

struct bench {
	struct cell cells[MODES][SIZES][BATCHES];
	struct samples raw[BATCHES];	/* slots a second, one per run */
	struct samples pair_ppm;	/* one's rate by the other's, each pair by itself */
};

struct rig {
	enum mode mode;
	struct engine *engine;
	struct daemon daemon;
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	struct tent_request_v1 *entries;
	uint32_t next;			/* entry */
	uint64_t in_flight, done, failed; /* requests */
};

/* ---- setup ------------------------------------------------------------- */

static int open_engine(struct rig *g)
{
	static const struct backend *const null_only[] = { &null_backend, NULL };
	static const struct backend *const shm_only[] = { &shm_backend, NULL };
	struct engine_config config;
	char error[256] = "";
	int fd;

	engine_config_default(&config);
	config.adaptive = false;
	config.caller_mode = g->mode == CALLER;
	config.cores[0] = machine_core(1);
	config.null_enable = g->mode == THREAD_NULL;
	if (engine_create(&g->engine, &config, g->mode == THREAD_NULL ? null_only : shm_only,
			  error, sizeof(error))) {
		fprintf(stderr, "engine: %s\n", error);
		return -1;
	}
	fd = engine_attach_local(g->engine);
	if (fd < 0)
		return fprintf(stderr, "engine: attach: %s\n", strerror(-fd)), -1;
	return tent_client_attach_fd(fd, NULL, &g->client) ? complain_ring("attach") : 0;
}

static int open_daemon(struct rig *g)
{
	char config[256];

	snprintf(config, sizeof(config), "\"engine\": { \"idle\": \"busy\", \"cores\": [%d] }",
		 machine_core(1));
	if (daemon_start(&g->daemon, config))
		return -1;
	return tent_client_attach(g->daemon.socket, NULL, &g->client) ? complain_ring("attach") : 0;
}

static int open_rig(struct rig *g, enum mode mode)
{
	size_t bytes = (size_t)ENTRIES * 4 * sizes[SIZES - 1];
	void *memory;

	*g = (struct rig) { .mode = mode };
	if (mode == DAEMON ? open_daemon(g) : open_engine(g))
		return -1;
	if (tent_ring_open(g->client, (uint32_t)options.slots, 0, &g->ring))
		return complain_ring("ring");
	if (tent_client_alloc(g->client, bytes, "*", &memory) ||
	    tent_client_register(g->client, memory, bytes, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return complain_ring("memory");
	g->memory = memory;
	memset(g->memory, 0x5a, bytes);
	g->entries = calloc(ENTRIES, sizeof(*g->entries));
	return g->entries ? 0 : -1;
}

static int close_rig(struct rig *g)
{
	if (g->ring)
		tent_ring_close(g->ring);
	tent_client_detach(g->client);
	if (g->engine)
		engine_destroy(g->engine);
	free(g->entries);
	return daemon_stop(&g->daemon);
}

/* Sources in the lower half, targets in the upper; a gap after each. */
static void build_entries(struct rig *g, uint32_t size)
{
	uint8_t *targets = g->memory + (size_t)ENTRIES * 2 * size;

	for (uint32_t i = 0; i < ENTRIES; i++)
		g->entries[i] = (struct tent_request_v1) {
			.struct_size = sizeof(g->entries[i]),
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = TENT_OPCODE_WRITE,
			.source = g->memory + (size_t)i * 2 * size,
			.target_id = TENT_LOCAL_SEGMENT,
			.target_offset = (uint64_t)(uintptr_t)(targets + (size_t)i * 2 * size),
			.length = size,
		};
	g->next = 0;
}

/* ---- the path ---------------------------------------------------------- */

static bool submit(struct rig *g, uint32_t batch)
{
	if (tent_ring_submit(g->ring, &g->entries[g->next], batch, sizeof(*g->entries), 0,
			     options.one_completion ? TENT_SLOT_F_ONE_COMPLETION : 0))
		return false;
	g->next = (g->next + batch) % ENTRIES;
	g->in_flight += batch;
	return true;
}

static uint32_t reap(struct rig *g)
{
	struct tent_completion done[POLL_MAX];
	uint32_t nr, requests = 0;

	if (g->mode == CALLER)
		engine_drive(g->engine);
	nr = tent_ring_poll(g->ring, done, POLL_MAX);
	for (uint32_t i = 0; i < nr; i++) {
		requests += done[i].count;
		g->failed += done[i].status != TENT_STATUS_COMPLETED;
	}
	g->done += requests;
	g->in_flight -= requests;
	return nr;
}

static void drain(struct rig *g)
{
	while (g->in_flight)
		reap(g);
}

/* A consumer that has caught up looks again a little later. Following the producer
 * from line to line makes both cores wait for each other's: it halves the rate. */
static void back_off(void)
{
	uint64_t begin = clock_monotonic_ns();

	while (clock_monotonic_ns() - begin < BACK_OFF_NS)
		spin_pause();
}

/* Fills the ring while there is room, then reaps. */
static void keep_full(struct rig *g, uint32_t batch)
{
	if (tent_ring_room(g->ring) >= batch) {
		submit(g, batch);
		if (g->mode == CALLER)
			reap(g);
	} else if (reap(g) < POLL_MAX && g->mode != CALLER) {
		back_off();
	}
}

/* Requests a second with the ring kept full. */
static double measure_rate(struct rig *g, uint32_t batch, uint64_t ns)
{
	uint64_t begin = clock_monotonic_ns(), now = begin, first = g->done;

	while (now - begin < ns) {
		for (int i = 0; i < 256; i++)
			keep_full(g, batch);
		now = clock_monotonic_ns();
	}
	return (double)(g->done - first) * 1e9 / (double)(now - begin);
}

/* Batches one at a time. */
static void measure_latency(struct rig *g, uint32_t batch, uint64_t ns, struct samples *s)
{
	uint64_t end = clock_monotonic_ns() + ns, begin, now;

	do {
		begin = clock_monotonic_ns();
		submit(g, batch);
		drain(g);
		now = clock_monotonic_ns();
		samples_add(s, now - begin);
	} while (now < end);
}

static void measure_cell(struct rig *g, struct cell *c, uint32_t size, uint32_t batch)
{
	struct samples warmup;

	build_entries(g, size);
	measure_rate(g, batch, options.ms * 1000000 / 5);	/* warm-up */
	samples_add(&c->rates, (uint64_t)measure_rate(g, batch, options.ms * 1000000));
	drain(g);
	samples_init(&warmup, 1024);
	measure_latency(g, batch, options.ms * 1000000 / 10, &warmup);
	samples_free(&warmup);
	measure_latency(g, batch, options.ms * 1000000 / 2, &c->latency_ns);
}

/* ---- runs -------------------------------------------------------------- */

/* Without a copy all sizes are the same. */
static int sizes_of(enum mode mode)
{
	return mode == THREAD_NULL ? 1 : SIZES;
}

static int measure_mode(struct bench *b, enum mode mode)
{
	struct rig g;
	int rc;

	machine_unpin();	/* an engine counts the cores of whoever starts it */
	rc = open_rig(&g, mode);
	machine_pin(machine_core(0));
	for (int s = 0; !rc && s < sizes_of(mode); s++)
		for (int n = 0; n < BATCHES; n++)
			measure_cell(&g, &b->cells[mode][s][n], sizes[s], batches[n]);
	if (g.failed) {
		fprintf(stderr, "%llu requests failed in %s mode\n",
			(unsigned long long)g.failed, mode_names[mode]);
		rc = -1;
	}
	machine_unpin();
	return close_rig(&g) ? -1 : rc;
}

/* Slots a second; 0: it failed. */
static double measure_raw(uint32_t batch)
{
	uint32_t slots = options.slots ? (uint32_t)options.slots : TENT_SLOTS_DEFAULT;
	double rate;

	machine_pin(machine_core(0));
	rate = spsc_rate(machine_core(1), slots, batch,
			 10000 * options.ms);	/* tens of millions a second */
	machine_unpin();
	return rate;
}

/* What is judged: the engine and right after it the bare ring. */
static int one_pair(struct bench *b)
{
	struct rig g;
	double rate = 0, raw;
	int rc;

	rc = open_rig(&g, THREAD_NULL);
	machine_pin(machine_core(0));
	if (!rc) {
		build_entries(&g, sizes[0]);
		measure_rate(&g, BATCH_MAX, options.ms * 1000000 / 15);	/* warm-up */
		rate = measure_rate(&g, BATCH_MAX, options.ms * 1000000 / 3);
		drain(&g);
	}
	machine_unpin();
	rc |= close_rig(&g);
	if (rc || (raw = measure_raw(BATCH_MAX)) == 0)
		return -1;
	samples_add(&b->pair_ppm, (uint64_t)(rate / raw * 1e6));
	return 0;
}

static int one_run(struct bench *b)
{
	for (int n = 0; n < BATCHES; n++) {
		double rate = measure_raw(batches[n]);

		if (rate == 0)
			return -1;
		samples_add(&b->raw[n], (uint64_t)rate);
	}
	for (int mode = 0; mode < MODES; mode++)
		if (measure_mode(b, (enum mode)mode))
			return -1;
	return 0;
}

static double median(struct samples *s)
{
	return (double)samples_percentile(s, 0.5);
}

static void row(struct report *r, struct bench *b, int mode, int s, int n)
{
	struct cell *c = &b->cells[mode][s][n];

	report_cell_text(r, mode_names[mode]);
	report_cell(r, 0, sizes[s]);
	report_cell(r, 0, batches[n]);
	report_cell(r, 3, median(&c->rates) / 1e6);
	report_cell(r, 3, median(&b->raw[n]) / 1e6);
	report_cell(r, 3, median(&c->rates) / median(&b->raw[n]));
	report_cell(r, 0, (double)c->latency_ns.nr);
	report_cell(r, 0, median(&c->latency_ns));
	report_cell(r, 0, (double)samples_percentile(&c->latency_ns, 0.99));
	report_cell(r, 0, (double)samples_percentile(&c->latency_ns, 0.999));
	report_cell(r, 0, (double)samples_max(&c->latency_ns));
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"mode", "bytes", "batch", "Mrequests/s", "Mslots_raw/s", "ratio", "n_batches",
		"p50_batch_ns", "p99_batch_ns", "p999_batch_ns", "max_batch_ns",
	};

	report_table_begin(r, "submit_rate", columns, sizeof(columns) / sizeof(*columns));
	for (int mode = 0; mode < MODES; mode++)
		for (int s = 0; s < sizes_of((enum mode)mode); s++)
			for (int n = 0; n < BATCHES; n++)
				row(r, b, mode, s, n);
	report_table_end(r);
}

static int verdict(struct report *r, struct bench *b)
{
	double ratio = median(&b->pair_ppm) / 1e6;
	double shm = median(&b->cells[THREAD][0][2].rates) / median(&b->raw[2]);
	double caller = median(&b->cells[CALLER][0][0].latency_ns);
	double thread = median(&b->cells[THREAD][0][0].latency_ns);
	bool fast = ratio >= CHECK_RATIO, near = caller * 2 < thread;

	report_fact(r, "check_rate", "%s: thread, null backend, x 128 is %.3f of the bare ring, "
		    "median of %d pairs from %.3f to %.3f; at least %.2f", fast ? "pass" : "FAIL",
		    ratio, PAIRS, (double)samples_percentile(&b->pair_ppm, 0) / 1e6,
		    (double)samples_max(&b->pair_ppm) / 1e6, CHECK_RATIO);
	report_fact(r, "with_64B_copied", "%.3f of the bare ring, not judged: the copy moves two "
		    "more lines between the cores", shm);
	report_fact(r, "check_caller", "%s: caller 64 B x 1 p50 %.0f ns, thread %.0f ns; below "
		    "half", near ? "pass" : "FAIL", caller, thread);
	return fast && near ? 0 : 1;
}

static void init(struct bench *b)
{
	samples_init(&b->pair_ppm, PAIRS);
	for (int n = 0; n < BATCHES; n++)
		samples_init(&b->raw[n], options.runs);
	for (int i = 0; i < MODES * SIZES * BATCHES; i++) {
		struct cell *c = &b->cells[0][0][0] + i;

		samples_init(&c->rates, options.runs);
		samples_init(&c->latency_ns, options.ms * options.runs * 1000);
	}
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;

	machine_facts(r);
	report_fact(r, "pinned", "this thread to CPU %d, engine or consumer to CPU %d",
		    machine_core(0), machine_core(1));
	report_fact(r, "completions", "%s", options.one_completion ? "one per batch" :
		    "one per request");
	report_fact(r, "method", "rates: median of %llu runs with the ring kept full; latency: "
		    "one batch at a time", (unsigned long long)options.runs);
	machine_warn(r, 2);
	init(b);
	machine_watch_begin(&watch);
	for (uint64_t i = 0; i < options.runs; i++)
		if (one_run(b))
			return 2;
	for (int i = 0; i < PAIRS; i++)
		if (one_pair(b))
			return 2;
	machine_watch_end(&watch, r);
	print_table(r, b);
	return verdict(r, b);
}

static int check_options(void)
{
	if (!options.slots || options.slots >= BATCH_MAX)
		return 0;
	fprintf(stderr, "submit_rate: --slots must hold a batch of %d\n", BATCH_MAX);
	return 2;
}

static int run(struct report *r)
{
	static struct bench b;
	int rc = bench(r, &b);

	return rc == 1 && !options.check ? 0 : rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "submit_rate", .title = TITLE, .args = args, .json = &options.json,
		.cores = 2, .check = check_options, .run = run,
	};

	return bench_main(&program, argc, argv);
}
