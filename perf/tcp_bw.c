/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_bw.c - bytes a second to and from the memory of another engine over TCP, beside a
 * plain stream: one end in send(), the other in recv(), between the same two cores.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf/common/bench.h"
#include "perf/common/machine.h"
#include "perf/common/other_host.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define TITLE "bytes a second over TCP, beside a plain stream"
#define BYTES_MAX (1u << 20)
#define DEPTH_MAX 64u
#define LIMIT 0.8

enum subject { STREAM, TENT, SUBJECTS };
enum { SIZES = 2, OPS = 2 };

static const char *const names[SUBJECTS] = { "send/recv stream", "tent" };
static const char *const ops[OPS] = { "read", "write" };	/* enum tent_opcode */
static const uint32_t sizes[SIZES] = { 65536, BYTES_MAX };

static struct {
	uint64_t runs, ms, depth;
	bool check, json, plain;
} options = { .runs = 3, .ms = 300, .depth = 16 };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 100, NULL, "the table has their median" },
	{ "ms", ARG_NUMBER, &options.ms, 10, 60000, NULL, "milliseconds per measurement" },
	{ "depth", ARG_NUMBER, &options.depth, 1, DEPTH_MAX, NULL, "requests under way" },
	{ "plain", ARG_FLAG, &options.plain, 0, 0, NULL, "tent here without io_uring" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless requests of 1 MiB move at least 0.8 of the plain stream" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct bench {
	struct other_host there;
	struct this_host here;
	struct samples rates[SUBJECTS][OPS][SIZES];	/* KiB a second, one per run */
	uint64_t failed;
};

static uint64_t rate(uint64_t bytes, uint64_t ns)
{
	return (uint64_t)((double)bytes / 1024 * 1e9 / (double)ns);
}

/* ---- one measurement --------------------------------------------------- */

static uint64_t measure_stream(struct bench *b, int op, uint32_t bytes, uint64_t ns)
{
	int fd = other_host_connect(&b->there, op == TENT_OPCODE_READ ? PLAIN_SOURCE : PLAIN_SINK,
				    bytes);
	uint64_t start = clock_monotonic_ns(), now = start, moved = 0, at = 0;
	const uint64_t size = options.depth * BYTES_MAX;	/* as tent's requests go */

	while (fd >= 0 && now - start < ns) {
		ssize_t n = op == TENT_OPCODE_READ ?
			    recv(fd, b->here.memory + at, bytes, 0) :
			    send(fd, b->here.memory + at, bytes, MSG_NOSIGNAL);

		at = at + 2 * (uint64_t)bytes > size ? 0 : at + bytes;
		if (n <= 0) {
			b->failed++;
			break;
		}
		moved += (uint64_t)n;
		now = clock_monotonic_ns();
	}
	if (fd >= 0)
		close(fd);
	return rate(moved, now - start + 1);
}

static void begin(struct bench *b, int op, uint32_t bytes, uint64_t place)
{
	b->failed += this_host_submit(&b->here, &b->there, op, place * BYTES_MAX,
				      place * BYTES_MAX, bytes, place) != 0;
}

static uint64_t measure_tent(struct bench *b, int op, uint32_t bytes, uint64_t ns)
{
	uint64_t start = clock_monotonic_ns(), now = start, moved = 0, in_flight = 0;
	struct tent_completion c[DEPTH_MAX];

	for (; in_flight < options.depth; in_flight++)
		begin(b, op, bytes, in_flight);
	while (in_flight && !b->failed) {
		uint32_t n = (uint32_t)tent_ring_poll(b->here.ring, c, DEPTH_MAX);

		now = n ? clock_monotonic_ns() : now;
		for (uint32_t i = 0; i < n; i++) {
			b->failed += c[i].status != TENT_STATUS_COMPLETED;
			moved += bytes;
			in_flight--;
			if (now - start >= ns)
				continue;
			begin(b, op, bytes, c[i].user_data);
			in_flight++;
		}
		engine_drive(b->here.engine);
	}
	return rate(moved, now - start + 1);
}

static void measure_cell(struct bench *b, int op, int size)
{
	uint64_t ns = options.ms * 1000000;

	measure_stream(b, op, sizes[size], ns / 5);
	samples_add(&b->rates[STREAM][op][size], measure_stream(b, op, sizes[size], ns));
	measure_tent(b, op, sizes[size], ns / 5);
	samples_add(&b->rates[TENT][op][size], measure_tent(b, op, sizes[size], ns));
}

/* ---- the table --------------------------------------------------------- */

static double mib(struct bench *b, int subject, int op, int size)
{
	return (double)samples_percentile(&b->rates[subject][op][size], 0.5) / 1024;
}

static void row(struct report *r, struct bench *b, int subject, int op, int size)
{
	report_cell_text(r, names[subject]);
	report_cell_text(r, ops[op]);
	report_cell(r, 0, sizes[size]);
	report_cell(r, 0, subject == TENT ? (double)options.depth : 1);
	report_cell(r, 1, mib(b, subject, op, size));
	report_cell(r, 3, mib(b, subject, op, size) / mib(b, STREAM, op, size));
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "depth", "MiB/s", "to_stream",
	};

	report_table_begin(r, "tcp_bw", columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < OPS; op++)
		for (int size = 0; size < SIZES; size++)
			for (int subject = 0; subject < SUBJECTS; subject++)
				row(r, b, subject, op, size);
	report_table_end(r);
}

static int judge(struct report *r, struct bench *b)
{
	int rc = 0;

	for (int op = 0; op < OPS; op++) {
		double ratio = mib(b, TENT, op, SIZES - 1) / mib(b, STREAM, op, SIZES - 1);
		char name[32];

		snprintf(name, sizeof(name), "check_%s", ops[op]);
		report_fact(r, name, "%s: 1 MiB at a time moves %.2f of the plain stream, "
			    "limit %.1f", ratio >= LIMIT ? "pass" : "FAIL", ratio, LIMIT);
		rc |= ratio < LIMIT;
	}
	return rc;
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;

	for (int i = 0; i < SUBJECTS * OPS * SIZES; i++)
		samples_init(&b->rates[0][0][0] + i, options.runs);
	machine_facts(r);
	report_fact(r, "pinned", "this thread to CPU %d, the other process to CPU %d",
		    machine_core(0), machine_core(1));
	report_fact(r, "method", "rates: median of %llu runs; requests are of bytes each, the "
		    "stream's calls too", (unsigned long long)options.runs);
	machine_warn(r, 2);
	machine_pin(machine_core(0));
	machine_watch_begin(&watch);
	for (uint64_t i = 0; i < options.runs; i++)
		for (int op = 0; op < OPS; op++)
			for (int size = 0; size < SIZES; size++)
				measure_cell(b, op, size);
	machine_watch_end(&watch, r);
	machine_unpin();
	if (b->failed) {
		fprintf(stderr, "tcp_bw: %llu requests or calls failed\n",
			(unsigned long long)b->failed);
		return 2;
	}
	print_table(r, b);
	return options.check ? judge(r, b) : 0;
}

static int run(struct report *r)
{
	static struct bench b;
	int rc = 2;

	if (other_host_start(&b.there, options.depth * BYTES_MAX) == 0 &&
	    this_host_open(&b.here, &b.there, options.depth * BYTES_MAX, !options.plain) == 0)
		rc = bench(r, &b);
	this_host_close(&b.here);
	process_stop(&b.there.process);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "tcp_bw", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return bench_main(&program, argc, argv);
}
