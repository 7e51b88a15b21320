/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_lat.c - how long one request to another engine takes over TCP, beside a bare round
 * trip of as many bytes between the same two cores, whose ends sleep in recv(), as
 * programs do, or spin in it, which is what a socket can do at best. tent is driven by
 * the thread that waits, as the bare loop is.
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

#define TITLE "round trip times of requests over TCP, beside those of bare sockets"
#define BYTES_MAX 65536u
#define WARMUP 200
#define LIMIT 1.3

enum subject { RAW, RAW_BLOCKING, WRITE, READ, SUBJECTS };
enum { SIZES = 3 };

static const char *const names[SUBJECTS] = {
	"socket, spinning", "socket, blocking", "tent WRITE", "tent READ",
};
static const uint32_t sizes[SIZES] = { 64, 4096, BYTES_MAX };

static struct {
	uint64_t runs, rounds;
	bool check, json, plain;
} options = { .runs = 5, .rounds = 5000 };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 1000, NULL, "the table has all of them" },
	{ "rounds", ARG_NUMBER, &options.rounds, 100, 10000000, NULL, "round trips per run" },
	{ "plain", ARG_FLAG, &options.plain, 0, 0, NULL, "tent here without io_uring" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless a WRITE of 64 bytes takes at most 1.3 of the blocking round trip" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct bench {
	struct other_host there;
	struct this_host here;
	struct samples cells[SUBJECTS][SIZES];	/* ns */
	uint8_t bytes[BYTES_MAX];
	uint64_t failed;
};

/* ---- one round trip ---------------------------------------------------- */

static void raw_round(struct bench *b, int fd, uint32_t bytes, int flags)
{
	uint32_t got = 0;

	for (uint32_t sent = 0; sent < bytes; ) {
		ssize_t n = send(fd, b->bytes + sent, bytes - sent, flags | MSG_NOSIGNAL);

		sent += n > 0 ? (uint32_t)n : 0;
		if (n < 0 && errno != EAGAIN) {
			b->failed++;
			return;
		}
	}
	while (got < bytes) {
		ssize_t n = recv(fd, b->bytes + got, bytes - got, flags);

		got += n > 0 ? (uint32_t)n : 0;
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			b->failed++;
			return;
		}
	}
}

static void tent_round(struct bench *b, int opcode, uint32_t bytes)
{
	struct tent_completion c;

	if (this_host_submit(&b->here, &b->there, opcode, 0, 0, bytes, 0)) {
		b->failed++;
		return;
	}
	while (!tent_ring_poll(b->here.ring, &c, 1))
		engine_drive(b->here.engine);
	b->failed += c.status != TENT_STATUS_COMPLETED;
}

static void round_trip(struct bench *b, enum subject subject, int fd, uint32_t bytes)
{
	switch (subject) {
	case RAW:
		raw_round(b, fd, bytes, MSG_DONTWAIT);
		break;
	case RAW_BLOCKING:
		raw_round(b, fd, bytes, 0);
		break;
	default:
		tent_round(b, subject == READ ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, bytes);
		break;
	}
}

static void measure(struct bench *b, enum subject subject, int size)
{
	struct samples *s = &b->cells[subject][size];
	int fd = subject > RAW_BLOCKING ? -1 :
		 other_host_connect(&b->there, subject == RAW ? PLAIN_ECHO : PLAIN_ECHO_BLOCKING,
				    sizes[size]);

	for (uint64_t i = 0; i < WARMUP + options.rounds && !b->failed; i++) {
		uint64_t began = clock_monotonic_ns();

		round_trip(b, subject, fd, sizes[size]);
		if (i >= WARMUP)
			samples_add(s, clock_monotonic_ns() - began);
	}
	if (fd >= 0)
		close(fd);
}

/* ---- the table --------------------------------------------------------- */

static double p50(struct bench *b, int subject, int size)
{
	return (double)samples_percentile(&b->cells[subject][size], 0.5);
}

static void row(struct report *r, struct bench *b, int subject, int size)
{
	struct samples *s = &b->cells[subject][size];

	report_cell_text(r, names[subject]);
	report_cell(r, 0, sizes[size]);
	report_cell(r, 0, (double)s->nr);
	report_cell(r, 2, p50(b, subject, size) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.99) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.999) / 1000);
	report_cell(r, 2, (double)samples_max(s) / 1000);
	report_cell(r, 3, p50(b, subject, size) / p50(b, RAW_BLOCKING, size));
	report_cell(r, 3, p50(b, subject, size) / p50(b, RAW, size));
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "bytes", "n", "p50_rtt_us", "p99_rtt_us", "p999_rtt_us", "max_rtt_us",
		"to_blocking", "to_spinning",
	};

	report_table_begin(r, "tcp_lat", columns, sizeof(columns) / sizeof(*columns));
	for (int size = 0; size < SIZES; size++)
		for (int subject = 0; subject < SUBJECTS; subject++)
			row(r, b, subject, size);
	report_table_end(r);
}

static int judge(struct report *r, struct bench *b)
{
	double ratio = p50(b, WRITE, 0) / p50(b, RAW_BLOCKING, 0);

	report_fact(r, "check_write", "%s: a WRITE of 64 bytes takes %.2f of the round trip of "
		    "blocking sockets, limit %.1f", ratio <= LIMIT ? "pass" : "FAIL", ratio, LIMIT);
	return ratio <= LIMIT ? 0 : 1;
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;

	for (int i = 0; i < SUBJECTS * SIZES; i++)
		samples_init(&b->cells[0][0] + i, options.runs * options.rounds);
	machine_facts(r);
	report_fact(r, "pinned", "this thread to CPU %d, the other process to CPU %d",
		    machine_core(0), machine_core(1));
	report_fact(r, "method", "READ brings the bytes, WRITE takes them and is confirmed; the "
		    "bare round trip has them both ways");
	machine_warn(r, 2);
	machine_pin(machine_core(0));
	machine_watch_begin(&watch);
	for (uint64_t i = 0; i < options.runs; i++)
		for (int size = 0; size < SIZES; size++)
			for (int subject = 0; subject < SUBJECTS; subject++)
				measure(b, (enum subject)subject, size);
	machine_watch_end(&watch, r);
	machine_unpin();
	if (b->failed) {
		fprintf(stderr, "tcp_lat: %llu round trips failed\n",
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

	if (other_host_start(&b.there, BYTES_MAX) == 0 &&
	    this_host_open(&b.here, &b.there, BYTES_MAX, !options.plain) == 0)
		rc = bench(r, &b);
	this_host_close(&b.here);
	process_stop(&b.there.process);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "tcp_lat", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return bench_main(&program, argc, argv);
}
