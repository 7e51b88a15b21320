/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_rtt.c - how long one round trip through a ring takes, and how close that
 * is to what the machine can do at all: a bare cache-line ping-pong. io_uring's
 * NOP, measured in the same run, is the number a reader knows.
 *
 * Each of the runs measures all of them one after another, so that a drift of the
 * machine hits all alike. Everything spins without a pause. One thread is pinned
 * to the first core; partner, engine or SQPOLL thread to the second.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "perf/common/bench.h"
#include "perf/common/complain.h"
#include "perf/common/machine.h"
#include "perf/common/pingpong.h"
#include "perf/common/samples.h"
#include "perf/common/uring.h"
#include "ring/clock.h"

#define TITLE "round trip times: cache line, ring, io_uring"
#define WARMUP 1000
#define REQUEST_BYTES 64

enum subject { PINGPONG, NOP, REQUEST, URING_ENTER, URING_SQPOLL, SUBJECTS };

static const char *const names[SUBJECTS] = {
	[PINGPONG] = "cache-line ping-pong", [NOP] = "ring NOP",
	[REQUEST] = "ring request, null backend", [URING_ENTER] = "io_uring NOP, enter",
	[URING_SQPOLL] = "io_uring NOP, SQPOLL",
};

static struct {
	uint64_t runs, rounds, slots;
	bool check, json;
} options = { .runs = 9, .rounds = 20000 };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 1000, NULL, "the table has their median" },
	{ "rounds", ARG_NUMBER, &options.rounds, 100, 10000000, NULL, "round trips per run" },
	{ "slots", ARG_NUMBER, &options.slots, 0, TENT_SLOTS_MAX, NULL,
	  "of the ring, a power of two; 0: the default" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless NOP <= ping-pong + max(25 %, 80 ns), and below SQPOLL; exit 2: "
	  "not compared, there is no SQPOLL here" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct measurement {
	struct samples all;		/* ns, of all runs */
	struct samples medians;		/* ns, one per run */
	struct samples run;		/* ticks, of the current run */
	int error;			/* -errno: not available here */
};

struct bench {
	struct measurement of[SUBJECTS];
	struct tick_clock clock;
	int core;			/* of the other side */
};

/* ---- rings ------------------------------------------------------------- */

struct rig {
	struct engine *engine;
	struct tent_client *client;
	struct tent_ring *ring;
	void *memory;
};

/* A thread engine with only the null backend, busy, alone on its core. */
static int rig_engine(struct rig *g, int core)
{
	static const struct backend *const backends[] = { &null_backend, NULL };
	struct engine_config config;
	char error[256] = "";

	engine_config_default(&config);
	config.adaptive = false;
	config.null_enable = true;
	config.cores[0] = core;
	if (engine_create(&g->engine, &config, backends, error, sizeof(error))) {
		fprintf(stderr, "engine: %s\n", error);
		return -EIO;
	}
	return 0;
}

static int rig_open(struct rig *g, int core)
{
	int fd, rc;

	*g = (struct rig) { 0 };
	machine_unpin();	/* the engine counts the cores of whoever starts it */
	rc = rig_engine(g, core);
	machine_pin(machine_core(0));
	if (rc)
		return rc;
	fd = engine_attach_local(g->engine);
	if (fd < 0)
		return fd;
	if (tent_client_attach_fd(fd, NULL, &g->client))
		return complain_ring("attach");
	if (tent_ring_open(g->client, (uint32_t)options.slots, 0, &g->ring))
		return complain_ring("ring");
	if (tent_client_alloc(g->client, 2 * 4096, "*", &g->memory) ||
	    tent_client_register(g->client, g->memory, 2 * 4096,
				 TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return complain_ring("memory");
	return 0;
}

static void rig_close(struct rig *g)
{
	if (g->ring)
		tent_ring_close(g->ring);
	tent_client_detach(g->client);
	if (g->engine)
		engine_destroy(g->engine);
}

/* A NOP's request area must be zero. It is since the first lap: the slot's second
 * line is not dirtied again, and need not travel. */
static void fill_nop(const struct rig *g, struct tent_slot *slot)
{
	static const struct tent_request_v1 zero;

	(void)g;
	if (memcmp(&slot->request, &zero, sizeof(zero)) || slot->tail_offset ||
	    slot->entry_stride) {
		memset(&slot->request, 0, sizeof(slot->request));
		slot->tail_offset = slot->entry_stride = 0;
	}
}

static void fill_request(const struct rig *g, struct tent_slot *slot)
{
	slot->request = (struct tent_request_v1) {
		.struct_size = sizeof(slot->request),
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE,
		.source = g->memory,
		.target_id = TENT_LOCAL_SEGMENT,
		.target_offset = (uint64_t)(uintptr_t)g->memory + 4096,
		.length = REQUEST_BYTES,
	};
	slot->tail_offset = slot->entry_stride = 0;
}

/* One entry out, its completion back: the whole round trip. */
static int round_trip(const struct rig *g, enum tent_slot_op op,
		      void (*fill)(const struct rig *, struct tent_slot *))
{
	struct tent_slot *slot = tent_ring_slot(g->ring, 0);
	struct tent_completion done;

	slot->user_data = 1;
	fill(g, slot);
	tent_ring_publish(g->ring, 1, op, 0);
	while (!tent_ring_poll(g->ring, &done, 1))
		;
	return done.status == TENT_STATUS_COMPLETED ? 0 : done.error ? done.error : -EIO;
}

static int measure_ring(const struct rig *g, enum tent_slot_op op, struct measurement *m,
			void (*fill)(const struct rig *, struct tent_slot *))
{
	for (uint64_t i = 0; i < WARMUP + options.rounds; i++) {
		uint64_t begin = ticks_now();
		int rc = round_trip(g, op, fill);

		if (rc) {
			fprintf(stderr, "round trip %llu ended with error %d\n",
				(unsigned long long)i, rc);
			return -EIO;
		}
		if (i >= WARMUP)
			samples_add(&m->run, ticks_now() - begin);
	}
	return 0;
}

static int measure_rings(struct bench *b)
{
	struct rig g;
	int rc = rig_open(&g, b->core);

	if (!rc)
		rc = measure_ring(&g, TENT_OP_NOP, &b->of[NOP], fill_nop);
	if (!rc)
		rc = measure_ring(&g, TENT_OP_REQUEST, &b->of[REQUEST], fill_request);
	rig_close(&g);
	return rc;
}

/* ---- io_uring ---------------------------------------------------------- */

static int measure_uring(struct measurement *m, int sqpoll_core)
{
	struct uring u;
	int rc = uring_open(&u, sqpoll_core);

	if (rc)
		return rc;
	for (uint64_t i = 0; !rc && i < WARMUP + options.rounds; i++) {
		uint64_t begin = ticks_now();

		rc = uring_nop(&u);
		if (i >= WARMUP)
			samples_add(&m->run, ticks_now() - begin);
	}
	uring_close(&u);
	if (rc)
		m->run.nr = 0;	/* part of a run is no run */
	return rc;
}

/* ---- runs -------------------------------------------------------------- */

static void keep_run(struct bench *b, struct measurement *m)
{
	for (size_t i = 0; i < m->run.nr; i++) {
		m->run.values[i] = ticks_delta_to_ns(&b->clock, m->run.values[i]);
		samples_add(&m->all, m->run.values[i]);
	}
	if (m->run.nr)
		samples_add(&m->medians, samples_percentile(&m->run, 0.5));
	m->run.nr = 0;
}

static int one_run(struct bench *b)
{
	int rc = pingpong_run(b->core, WARMUP, (uint32_t)options.rounds, &b->of[PINGPONG].run);

	if (!rc)
		rc = measure_rings(b);
	if (rc)
		return rc;
	b->of[URING_ENTER].error = measure_uring(&b->of[URING_ENTER], -1);
	b->of[URING_SQPOLL].error = measure_uring(&b->of[URING_SQPOLL], b->core);
	for (int i = 0; i < SUBJECTS; i++)
		keep_run(b, &b->of[i]);
	return 0;
}

static double median(struct bench *b, enum subject i)
{
	return (double)samples_percentile(&b->of[i].medians, 0.5);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "n", "p50_rtt_ns", "p99_rtt_ns", "p999_rtt_ns", "max_rtt_ns",
		"to_pingpong",
	};

	report_table_begin(r, "round_trip", columns, sizeof(columns) / sizeof(*columns));
	for (int i = 0; i < SUBJECTS; i++) {
		struct samples *all = &b->of[i].all;

		if (!all->nr)
			continue;
		report_cell_text(r, names[i]);
		report_cell(r, 0, (double)all->nr);
		report_cell(r, 0, median(b, (enum subject)i));
		report_cell(r, 0, (double)samples_percentile(all, 0.99));
		report_cell(r, 0, (double)samples_percentile(all, 0.999));
		report_cell(r, 0, (double)samples_max(all));
		report_cell(r, 2, median(b, (enum subject)i) / median(b, PINGPONG));
	}
	report_table_end(r);
}

static void print_missing(struct report *r, const struct bench *b)
{
	for (int i = 0; i < SUBJECTS; i++)
		if (b->of[i].error)
			report_fact(r, "not_measured", "%s: %s", names[i],
				    strerror(-b->of[i].error));
}

static bool near_pingpong(struct report *r, struct bench *b)
{
	double floor = median(b, PINGPONG), nop = median(b, NOP);
	double limit = floor + (floor / 4 > 80 ? floor / 4 : 80);
	bool near = nop <= limit;

	report_fact(r, "check_pingpong", "%s: NOP %.0f ns, limit %.0f ns (ping-pong + max(25 %%, "
		    "80 ns))", near ? "pass" : "FAIL", nop, limit);
	return near;
}

static bool beats_sqpoll(struct report *r, struct bench *b)
{
	double nop = median(b, NOP), sqpoll = median(b, URING_SQPOLL);

	report_fact(r, "check_io_uring", "%s: NOP %.0f ns, io_uring SQPOLL NOP %.0f ns",
		    nop < sqpoll ? "pass" : "FAIL", nop, sqpoll);
	return nop < sqpoll;
}

/* What --check makes of it: 0; 1, the ring is too slow; 2, it was not compared. */
static int verdict(struct report *r, struct bench *b)
{
	bool near = near_pingpong(r, b);

	if (b->of[URING_SQPOLL].all.nr)
		return (near & beats_sqpoll(r, b)) ? 0 : 1;
	report_fact(r, "check_io_uring", "not compared: io_uring SQPOLL was not measured");
	return near ? 2 : 1;
}

static void init(struct bench *b)
{
	tick_clock_calibrate(&b->clock);
	b->core = machine_core(1);
	for (int i = 0; i < SUBJECTS; i++) {
		samples_init(&b->of[i].all, options.runs * options.rounds);
		samples_init(&b->of[i].medians, options.runs);
		samples_init(&b->of[i].run, options.rounds);
	}
}

static void facts(struct report *r)
{
	machine_facts(r);
	report_fact(r, "pinned", "this thread to CPU %d, the other side to CPU %d",
		    machine_core(0), machine_core(1));
	report_fact(r, "method", "each round trip timed; p50: median of %llu runs' medians, the "
		    "rest over all samples; %d warm-up rounds per run",
		    (unsigned long long)options.runs, WARMUP);
	machine_warn(r, 2);
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;
	int rc;

	facts(r);
	init(b);
	machine_watch_begin(&watch);
	for (uint64_t i = 0; i < options.runs; i++) {
		machine_pin(machine_core(0));
		rc = one_run(b);
		machine_unpin();
		if (rc) {
			fprintf(stderr, "ring_rtt: run %llu failed\n",
				(unsigned long long)i + 1);
			return 2;
		}
	}
	machine_watch_end(&watch, r);
	print_missing(r, b);
	print_table(r, b);
	rc = verdict(r, b);
	return options.check ? rc : 0;
}

static int run(struct report *r)
{
	static struct bench b;

	return bench(r, &b);
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "ring_rtt", .title = TITLE, .args = args, .json = &options.json,
		.cores = 2, .run = run,
	};

	return bench_main(&program, argc, argv);
}
