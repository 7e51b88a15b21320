/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbour.c - what a client feels of another one whose huge batches keep the engine
 * busy without end: the latency of its own batches, alone and beside that neighbour.
 *
 * One thread is both clients, so that two cores are enough: it fills the neighbour's
 * ring up between two batches of its own, never within one. Quiet and disturbed runs
 * take turns, so that a drift of the machine hits both alike.
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
#include "perf/common/machine.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define TITLE "a client's latency beside a neighbour whose huge batches never end"
#define WARMUP 200
#define NEIGHBOUR_SLOTS 16384u
#define NEIGHBOUR_BATCH 4096u
#define NEIGHBOUR_BYTES 4096u
#define POLL_MAX 64
#define CHECK_RATIO 2.0

/* The client's own batches; the neighbour's are of medium priority. At the same one it
 * is the neighbour's equal and has half of the engine, which is a doubling by itself. */
static const struct shape {
	uint32_t nr, bytes;
	int priority;
	bool judged;
} shapes[] = {
	{ 1, 64, TENT_PRIORITY_MEDIUM, false }, { 1, 64, TENT_PRIORITY_HIGH, false },
	{ 16, 4096, TENT_PRIORITY_MEDIUM, false }, { 16, 4096, TENT_PRIORITY_HIGH, false },
	{ 16, 65536, TENT_PRIORITY_MEDIUM, false }, { 16, 65536, TENT_PRIORITY_HIGH, true },
};
#define SHAPES (sizeof(shapes) / sizeof(*shapes))
#define BATCH_MAX 16u
#define AREA ((size_t)BATCH_MAX * 65536)

static struct {
	uint64_t runs, rounds;
	bool check, json;
} options = { .runs = 3, .rounds = 2000 };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 1000, NULL, "of each kind, by turns" },
	{ "rounds", ARG_NUMBER, &options.rounds, 10, 1000000, NULL, "batches per run" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless the neighbour less than doubles the p99.9 of 16 x 64 KiB of high "
	  "priority; a smaller batch waits for the turn of the engine that it meets, which may "
	  "be longer than itself" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct client {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	uint32_t in_flight;	/* requests */
};

struct bench {
	struct engine *engine;
	struct client own, neighbour;
	struct tent_request_v1 *huge;		/* the neighbour's batch */
	struct samples run;			/* ns, of the current run */
	struct samples p50[SHAPES][2];		/* ns, one per run; quiet, disturbed */
	struct samples p999[SHAPES][2];
	uint64_t huge_batches;
	bool failed;
};

/* ---- setup ------------------------------------------------------------- */

static int open_client(struct bench *b, struct client *c, const char *name, uint32_t slots,
		       size_t bytes)
{
	int fd = engine_attach_local(b->engine);
	void *memory;

	if (fd < 0)
		return fprintf(stderr, "engine: attach: %s\n", strerror(-fd)), -1;
	if (tent_client_attach_fd(fd, name, &c->client))
		return complain_ring("attach");
	if (tent_ring_open(c->client, slots, 0, &c->ring) ||
	    tent_client_alloc(c->client, bytes, "*", &memory) ||
	    tent_client_register(c->client, memory, bytes, TENT_PERM_LOCAL_READ_WRITE, NULL, 0))
		return complain_ring(name);
	memset(memory, 1, bytes);
	c->memory = memory;
	return 0;
}

static void fill(struct tent_request_v1 *entries, const struct client *c, uint32_t nr,
		 uint32_t bytes, int priority)
{
	for (uint32_t i = 0; i < nr; i++)
		entries[i] = (struct tent_request_v1) {
			.struct_size = sizeof(*entries),
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = TENT_OPCODE_WRITE,
			.source = c->memory + (size_t)i * bytes,
			.target_id = TENT_LOCAL_SEGMENT,
			.target_offset = (uint64_t)(uintptr_t)c->memory + (size_t)(nr + i) * bytes,
			.length = bytes,
			.requested_priority = priority,
		};
}

/* A thread engine, busy, alone on its core. */
static int open_bench(struct bench *b)
{
	static const struct backend *const backends[] = { &shm_backend, NULL };
	const size_t huge_bytes = (size_t)2 * NEIGHBOUR_BATCH * NEIGHBOUR_BYTES;
	struct engine_config config;
	char error[256] = "";

	engine_config_default(&config);
	config.adaptive = false;
	config.cores[0] = machine_core(1);
	if (engine_create(&b->engine, &config, backends, error, sizeof(error)))
		return fprintf(stderr, "engine: %s\n", error), -1;
	if (open_client(b, &b->own, "own", 0, 2 * AREA) ||
	    open_client(b, &b->neighbour, "neighbour", NEIGHBOUR_SLOTS, huge_bytes))
		return -1;
	b->huge = calloc(NEIGHBOUR_BATCH, sizeof(*b->huge));
	if (!b->huge)
		return fprintf(stderr, "out of memory\n"), -1;
	fill(b->huge, &b->neighbour, NEIGHBOUR_BATCH, NEIGHBOUR_BYTES, TENT_PRIORITY_MEDIUM);
	return 0;
}

static void close_client(struct client *c)
{
	if (c->ring)
		tent_ring_close(c->ring);
	tent_client_detach(c->client);
}

static void close_bench(struct bench *b)
{
	close_client(&b->own);
	close_client(&b->neighbour);
	if (b->engine)
		engine_destroy(b->engine);
	free(b->huge);
}

/* ---- the two clients --------------------------------------------------- */

static void reap(struct bench *b, struct client *c)
{
	struct tent_completion done[POLL_MAX];
	uint32_t nr = tent_ring_poll(c->ring, done, POLL_MAX);

	for (uint32_t i = 0; i < nr; i++) {
		b->failed |= done[i].status != TENT_STATUS_COMPLETED;
		c->in_flight -= done[i].credits;
	}
}

static void submit(struct bench *b, struct client *c, const struct tent_request_v1 *entries,
		   uint32_t nr, uint16_t flags)
{
	if (tent_ring_submit(c->ring, entries, nr, sizeof(*entries), 0, flags))
		b->failed = true;
	else
		c->in_flight += nr;
}

/* As many huge batches as its ring holds. */
static void disturb(struct bench *b)
{
	reap(b, &b->neighbour);
	while (!b->failed && tent_ring_room(b->neighbour.ring) >= NEIGHBOUR_BATCH) {
		submit(b, &b->neighbour, b->huge, NEIGHBOUR_BATCH, TENT_SLOT_F_ONE_COMPLETION);
		b->huge_batches++;
	}
}

static uint64_t one_batch(struct bench *b, const struct tent_request_v1 *entries, uint32_t nr)
{
	uint64_t begin = clock_monotonic_ns();

	submit(b, &b->own, entries, nr, 0);
	while (b->own.in_flight && !b->failed)
		reap(b, &b->own);
	return clock_monotonic_ns() - begin;
}

static int one_run(struct bench *b, const struct shape *shape, bool disturbed)
{
	struct tent_request_v1 entries[BATCH_MAX];

	fill(entries, &b->own, shape->nr, shape->bytes, shape->priority);
	for (uint64_t i = 0; i < WARMUP + options.rounds && !b->failed; i++) {
		uint64_t took;

		if (disturbed)
			disturb(b);
		took = one_batch(b, entries, shape->nr);
		if (i >= WARMUP)
			samples_add(&b->run, took);
	}
	while (b->neighbour.in_flight && !b->failed)
		reap(b, &b->neighbour);
	return b->failed ? fprintf(stderr, "neighbour: a request failed\n"), -1 : 0;
}

/* ---- results ----------------------------------------------------------- */

/* Of the runs the one that others on the machine disturbed least. */
static double lowest_us(struct samples *s)
{
	return (double)samples_percentile(s, 0) / 1e3;
}

static double ratio(struct bench *b, size_t i)
{
	return lowest_us(&b->p999[i][1]) / lowest_us(&b->p999[i][0]);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"priority", "requests", "bytes", "p50_quiet_us", "p50_beside_us", "p999_quiet_us",
		"p999_beside_us", "p999_ratio",
	};

	report_table_begin(r, "neighbour", columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < SHAPES; i++) {
		report_cell_text(r, shapes[i].priority == TENT_PRIORITY_HIGH ? "higher" : "same");
		report_cell(r, 0, shapes[i].nr);
		report_cell(r, 0, shapes[i].bytes);
		report_cell(r, 2, lowest_us(&b->p50[i][0]));
		report_cell(r, 2, lowest_us(&b->p50[i][1]));
		report_cell(r, 2, lowest_us(&b->p999[i][0]));
		report_cell(r, 2, lowest_us(&b->p999[i][1]));
		report_cell(r, 2, ratio(b, i));
	}
	report_table_end(r);
}

static int verdict(struct report *r, struct bench *b)
{
	int rc = 0;

	for (size_t i = 0; i < SHAPES; i++) {
		bool good = ratio(b, i) < CHECK_RATIO;

		if (!shapes[i].judged)
			continue;
		report_fact(r, "check_neighbour", "%s: p99.9 of %u x %u KiB, higher priority, is "
			    "%.2f of the quiet one; less than %.0f", good ? "pass" : "FAIL",
			    shapes[i].nr, shapes[i].bytes >> 10, ratio(b, i), CHECK_RATIO);
		rc |= !good;
	}
	return options.check ? rc : 0;
}

static int measure_shape(struct bench *b, size_t i)
{
	for (int disturbed = 0; disturbed < 2; disturbed++) {
		b->run.nr = 0;
		if (one_run(b, &shapes[i], disturbed))
			return -1;
		samples_add(&b->p50[i][disturbed], samples_percentile(&b->run, 0.5));
		samples_add(&b->p999[i][disturbed], samples_percentile(&b->run, 0.999));
	}
	return 0;
}

static int measure(struct bench *b)
{
	for (uint64_t run = 0; run < options.runs; run++)
		for (size_t i = 0; i < SHAPES; i++)
			if (measure_shape(b, i))
				return -1;
	return 0;
}

static void init(struct bench *b)
{
	samples_init(&b->run, options.rounds);
	for (size_t i = 0; i < 2 * SHAPES; i++) {
		samples_init(&b->p50[0][0] + i, options.runs);
		samples_init(&b->p999[0][0] + i, options.runs);
	}
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;
	int rc;

	machine_facts(r);
	report_fact(r, "pinned", "both clients' thread to CPU %d, the engine to CPU %d",
		    machine_core(0), machine_core(1));
	report_fact(r, "neighbour", "batches of %u x %u bytes, up to %u in flight",
		    NEIGHBOUR_BATCH, NEIGHBOUR_BYTES, NEIGHBOUR_SLOTS / NEIGHBOUR_BATCH);
	report_fact(r, "method", "percentiles of %llu batches; of %llu runs the lowest: others on "
		    "the machine only add", (unsigned long long)options.rounds,
		    (unsigned long long)options.runs);
	machine_warn(r, 2);
	init(b);
	machine_watch_begin(&watch);
	rc = open_bench(b);	/* the engine counts the cores of whoever starts it */
	machine_pin(machine_core(0));
	if (!rc)
		rc = measure(b);
	machine_unpin();
	close_bench(b);
	if (rc)
		return 2;
	machine_watch_end(&watch, r);
	report_number(r, "huge_batches", 0, (double)b->huge_batches);
	print_table(r, b);
	return verdict(r, b);
}

static int run(struct report *r)
{
	static struct bench b;

	return bench(r, &b);
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "neighbour", .title = TITLE, .args = args, .json = &options.json,
		.cores = 2, .run = run,
	};

	return bench_main(&program, argc, argv);
}
