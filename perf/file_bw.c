/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_bw.c - bytes a second between memory and a file, by tent and by the two loops
 * that a program would write itself: io_uring with registered files at the same depth,
 * and pread()/pwrite() one at a time. Same file, same memory, same run; one request per
 * operation, offsets in order, round and round.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "lib/backends.h"
#include "io/uring.h"
#include "perf/common/bench.h"
#include "perf/common/complain.h"
#include "perf/common/machine.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define TITLE "bytes a second between memory and a file, beside loops of io_uring and pread"
#define DEPTH_MAX 256u
#define BYTES_MAX (1u << 20)

enum subject { TENT, URING, CALLS, SUBJECTS };
enum { SIZES = 3, OPS = 2 };

static const char *const names[SUBJECTS] = { "tent", "io_uring loop", "pread/pwrite loop" };
static const char *const ops[OPS] = { "read", "write" };	/* enum tent_opcode */
static const uint32_t sizes[SIZES] = { 4096, 65536, BYTES_MAX };

static struct {
	uint64_t runs, ms, depth, size;
	bool buffered, json;
	const char *folder;
} options = { .runs = 3, .ms = 300, .depth = 16, .size = 256 << 20, .folder = "/var/tmp" };

static const struct arg args[] = {
	{ "runs", ARG_NUMBER, &options.runs, 1, 100, NULL, "the table has their median" },
	{ "ms", ARG_NUMBER, &options.ms, 10, 60000, NULL, "milliseconds per measurement" },
	{ "depth", ARG_NUMBER, &options.depth, 1, DEPTH_MAX, NULL, "requests under way" },
	{ "size", ARG_SIZE, &options.size, BYTES_MAX, 1ull << 40, NULL, "of the file" },
	{ "folder", ARG_TEXT, &options.folder, 0, 0, NULL, "where the file lies meanwhile" },
	{ "buffered", ARG_FLAG, &options.buffered, 0, 0, NULL,
	  "through the page cache instead of O_DIRECT" },
	ARG_JSON(&options.json),
	{ 0 },
};

struct cell {
	struct samples rates;		/* KiB a second, one per run */
	struct samples latency_ns;	/* of each operation, all runs */
};

struct bench {
	char path[256], name[272];
	int fd;
	bool direct, has_uring;
	struct engine *engine;
	struct tent_client *client;
	struct tent_ring *ring;
	tent_segment_id_t segment;
	uint8_t *memory;		/* depth places of BYTES_MAX */
	struct kring kring;
	/* the measurement under way */
	int op;
	uint32_t bytes, in_flight;
	uint64_t next;			/* offset in the file */
	uint64_t begun_ns[DEPTH_MAX];
	uint32_t done_now[DEPTH_MAX], nr_done; /* what CALLS did at once */
	uint64_t failed;
	struct cell cells[SUBJECTS][OPS][SIZES];
};

/* ---- setup --------------------------------------------------------------- */

static int fail(const char *what)
{
	fprintf(stderr, "file_bw: %s: %s\n", what, strerror(errno));
	return -1;
}

/* Written whole before anything is measured: no holes, and no first allocation. */
static int make_file(struct bench *b)
{
	snprintf(b->path, sizeof(b->path), "%s/tent-file-bw-XXXXXX", options.folder);
	b->fd = mkstemp(b->path);
	if (b->fd < 0)
		return fail(b->path);
	snprintf(b->name, sizeof(b->name), "file://%s", b->path);
	for (uint64_t at = 0; at < options.size; at += BYTES_MAX)
		if (pwrite(b->fd, b->memory, BYTES_MAX, (off_t)at) != BYTES_MAX)
			return fail("writing the file");
	if (fsync(b->fd) < 0)
		return fail("fsync");
	b->direct = !options.buffered && fcntl(b->fd, F_SETFL, O_DIRECT) == 0;
	return 0;
}

static int open_tent(struct bench *b)
{
	struct engine_config config;
	char error[256] = "";
	void *memory;
	int fd;

	engine_config_default(&config);
	config.adaptive = false;
	config.cores[0] = machine_core(1);
	config.file.direct = !options.buffered;
	config.file.depth = (uint32_t)options.depth;
	if (engine_create(&b->engine, &config, all_backends, error, sizeof(error))) {
		fprintf(stderr, "file_bw: engine: %s\n", error);
		return -1;
	}
	fd = engine_attach_local(b->engine);
	if (fd < 0 || tent_client_attach_fd(fd, NULL, &b->client))
		return complain_ring("attach");
	if (tent_ring_open(b->client, 1024, 0, &b->ring))
		return complain_ring("ring");
	if (tent_client_alloc(b->client, options.depth * BYTES_MAX, "*", &memory) ||
	    tent_client_register(b->client, memory, options.depth * BYTES_MAX,
				 TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return complain_ring("memory");
	b->memory = memory;
	memset(memory, 0x5a, options.depth * BYTES_MAX);
	return 0;
}

static int open_all(struct bench *b, struct report *r)
{
	const struct kring_options o = { .entries = (uint32_t)options.depth, .files = 1,
					 .event_fd = -1 };
	char why[256];

	if (open_tent(b) || make_file(b))
		return -1;
	if (tent_client_open_segment(b->client, b->name, &b->segment))
		return complain_ring("segment");
	b->has_uring = kring_open(&b->kring, &o, why, sizeof(why)) == 0 &&
		       kring_set_file(&b->kring, 0, b->fd) == 0;
	if (!b->has_uring)
		report_fact(r, "not_measured", "io_uring loop: %s", why);
	return 0;
}

static void close_all(struct bench *b)
{
	if (b->has_uring)
		kring_close(&b->kring);
	if (b->client)
		tent_client_detach(b->client);
	if (b->engine)
		engine_destroy(b->engine);
	if (b->fd > 0) {
		close(b->fd);
		unlink(b->path);
	}
}

/* ---- one operation --------------------------------------------------------- */

static void begin_tent(struct bench *b, uint32_t place, uint8_t *memory)
{
	const struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = b->op, .source = memory, .target_id = b->segment,
		.target_offset = b->next, .length = b->bytes,
	};

	b->failed += tent_ring_submit(b->ring, &r, 1, sizeof(r), place, 0) != 0;
}

static void begin_uring(struct bench *b, uint32_t place, uint8_t *memory)
{
	struct io_uring_sqe *sqe = kring_entry(&b->kring);

	if (b->op == TENT_OPCODE_READ)
		io_uring_prep_read(sqe, 0, memory, b->bytes, b->next);
	else
		io_uring_prep_write(sqe, 0, memory, b->bytes, b->next);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = place;
}

static void do_call(struct bench *b, uint32_t place, uint8_t *memory)
{
	ssize_t n = b->op == TENT_OPCODE_READ ?
		    pread(b->fd, memory, b->bytes, (off_t)b->next) :
		    pwrite(b->fd, memory, b->bytes, (off_t)b->next);

	b->failed += n != (ssize_t)b->bytes;
	b->done_now[b->nr_done++] = place;
}

static void begin(struct bench *b, enum subject subject, uint32_t place)
{
	static void (*const begins[SUBJECTS])(struct bench *, uint32_t, uint8_t *) = {
		begin_tent, begin_uring, do_call,
	};

	b->begun_ns[place] = clock_monotonic_ns();
	begins[subject](b, place, b->memory + (size_t)place * BYTES_MAX);
	b->next = b->next + 2 * b->bytes > options.size ? 0 : b->next + b->bytes;
	b->in_flight++;
}

/* Places whose operation has ended, none or more. */
static uint32_t ended_tent(struct bench *b, uint32_t *places)
{
	struct tent_completion c[DEPTH_MAX];
	uint32_t n = (uint32_t)tent_ring_poll(b->ring, c, DEPTH_MAX);

	for (uint32_t i = 0; i < n; i++) {
		places[i] = (uint32_t)c[i].user_data;
		b->failed += c[i].status != TENT_STATUS_COMPLETED;
	}
	return n;
}

static uint32_t ended_uring(struct bench *b, uint32_t *places)
{
	struct io_uring_cqe *cqe;
	uint32_t n = 0;

	if (io_uring_sq_ready(&b->kring.ring))
		kring_submit(&b->kring);
	for (; (cqe = kring_peek(&b->kring)); n++) {
		places[n] = (uint32_t)cqe->user_data;
		b->failed += cqe->res != (int)b->bytes;
		kring_seen(&b->kring);
	}
	return n;
}

static uint32_t ended_calls(struct bench *b, uint32_t *places)
{
	uint32_t n = b->nr_done;

	memcpy(places, b->done_now, n * sizeof(*places));
	b->nr_done = 0;
	return n;
}

static uint32_t ended(struct bench *b, enum subject subject, uint32_t *places)
{
	static uint32_t (*const endings[SUBJECTS])(struct bench *, uint32_t *) = {
		ended_tent, ended_uring, ended_calls,
	};
	uint32_t n = endings[subject](b, places);

	b->in_flight -= n;
	return n;
}

/* ---- measuring ------------------------------------------------------------- */

/* Keeps depth operations under way for so long. Returns KiB a second. */
static uint64_t measure(struct bench *b, enum subject subject, uint64_t ns, struct samples *s)
{
	uint32_t depth = subject == CALLS ? 1 : (uint32_t)options.depth, places[DEPTH_MAX];
	uint64_t start = clock_monotonic_ns(), now = start, count = 0;

	b->next = 0;
	for (uint32_t i = 0; i < depth; i++)
		begin(b, subject, i);
	while (b->in_flight) {
		uint32_t n = ended(b, subject, places);

		now = n ? clock_monotonic_ns() : now;
		for (uint32_t i = 0; i < n; i++) {
			samples_add(s, now - b->begun_ns[places[i]]);
			if (now - start < ns)
				begin(b, subject, places[i]);
		}
		count += n;
	}
	return (uint64_t)((double)count * b->bytes / 1024 * 1e9 / (double)(now - start));
}

static void measure_cell(struct bench *b, enum subject subject, int op, int size)
{
	struct cell *c = &b->cells[subject][op][size];
	struct samples warmup;

	b->op = op;
	b->bytes = sizes[size];
	samples_init(&warmup, 1024);
	measure(b, subject, options.ms * 1000000 / 5, &warmup);
	samples_free(&warmup);
	samples_add(&c->rates, measure(b, subject, options.ms * 1000000, &c->latency_ns));
}

static bool is_measured(const struct bench *b, int subject)
{
	return subject != URING || b->has_uring;
}

/* ---- the table ------------------------------------------------------------- */

static double mib(struct cell *c)
{
	return (double)samples_percentile(&c->rates, 0.5) / 1024;
}

static void row(struct report *r, struct bench *b, int subject, int op, int size)
{
	struct cell *c = &b->cells[subject][op][size];

	report_cell_text(r, names[subject]);
	report_cell_text(r, ops[op]);
	report_cell(r, 0, sizes[size]);
	report_cell(r, 0, subject == CALLS ? 1 : (double)options.depth);
	report_cell(r, 0, (double)c->latency_ns.nr);
	report_cell(r, 1, mib(c));
	if (b->has_uring)
		report_cell(r, 3, mib(c) / mib(&b->cells[URING][op][size]));
	else
		report_cell_none(r);
	report_cell(r, 1, (double)samples_percentile(&c->latency_ns, 0.5) / 1000);
	report_cell(r, 1, (double)samples_percentile(&c->latency_ns, 0.99) / 1000);
	report_cell(r, 1, (double)samples_percentile(&c->latency_ns, 0.999) / 1000);
	report_cell(r, 1, (double)samples_max(&c->latency_ns) / 1000);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "depth", "n", "MiB/s", "to_io_uring", "p50_us", "p99_us",
		"p999_us", "max_us",
	};

	report_table_begin(r, "file_bw", columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < OPS; op++)
		for (int size = 0; size < SIZES; size++)
			for (int subject = 0; subject < SUBJECTS; subject++)
				if (is_measured(b, subject))
					row(r, b, subject, op, size);
	report_table_end(r);
}

static void one_run(struct bench *b)
{
	for (int op = 0; op < OPS; op++)
		for (int size = 0; size < SIZES; size++)
			for (int subject = 0; subject < SUBJECTS; subject++)
				if (is_measured(b, subject))
					measure_cell(b, (enum subject)subject, op, size);
}

static void init(struct bench *b)
{
	for (int i = 0; i < SUBJECTS * OPS * SIZES; i++) {
		struct cell *c = &b->cells[0][0][0] + i;

		samples_init(&c->rates, options.runs);
		samples_init(&c->latency_ns, 65536);
	}
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;

	init(b);
	machine_facts(r);
	report_fact(r, "pinned", "this thread to CPU %d, engine to CPU %d", machine_core(0),
		    machine_core(1));
	if (open_all(b, r))
		return 2;
	report_fact(r, "file", "%s, %llu bytes, %s", options.folder,
		    (unsigned long long)options.size, b->direct ? "O_DIRECT" : "buffered");
	report_fact(r, "method", "rates: median of %llu runs; latency: from submitting one "
		    "operation to seeing its end, with depth of them under way",
		    (unsigned long long)options.runs);
	machine_warn(r, 2);
	machine_pin(machine_core(0));
	machine_watch_begin(&watch);
	for (uint64_t i = 0; i < options.runs; i++)
		one_run(b);
	machine_watch_end(&watch, r);
	machine_unpin();
	print_table(r, b);
	if (!b->failed)
		return 0;
	fprintf(stderr, "file_bw: %llu operations failed\n", (unsigned long long)b->failed);
	return 2;
}

static int run(struct report *r)
{
	static struct bench b;
	int rc = bench(r, &b);

	close_all(&b);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "file_bw", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return bench_main(&program, argc, argv);
}
