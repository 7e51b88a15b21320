/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - what a replay says: facts, the table per intent, the picture. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/common/daemon.h"
#include "perf/common/machine.h"
#include "perf/common/pingpong.h"
#include "perf/common/tcp_floor.h"
#include "perf/replay/replay.h"
#include "ring/clock.h"

#define MEMCPY_ARENA (32u << 20)	/* beyond the caches that matter */
#define PINGPONG_ROUNDS 20000
#define TCP_ROUNDS 1000

static const char *const names[TRAFFIC_COUNT] = {
	[GET] = "foreground_get", [PREFETCH] = "background_prefetch",
	[CHECKPOINT] = "checkpoint", [FLOOD] = "checkpoint_flood",
};

static double median(struct samples *s)
{
	return (double)samples_percentile(s, 0.5);
}

/* One block from cold memory to cold memory, by libc. */
static double measure_memcpy(size_t block)
{
	size_t blocks = MEMCPY_ARENA / block + 1;
	uint8_t *from = malloc(blocks * block), *to = malloc(blocks * block);
	struct samples ns;
	double result;

	samples_init(&ns, 3 * blocks);
	if (!from || !to)
		goto out;
	memset(from, 1, blocks * block);
	memset(to, 2, blocks * block);
	for (size_t i = 0; i < 3 * blocks; i++) {
		size_t at = i % blocks * block;
		uint64_t begin = clock_monotonic_ns();

		memcpy(to + at, from + at, block);
		__asm__ volatile("" : : "r"(to + at) : "memory");
		samples_add(&ns, clock_monotonic_ns() - begin);
	}
out:
	result = median(&ns);
	samples_free(&ns);
	free(from);
	free(to);
	return result;
}

static int measure_tcp(struct floors *f, const struct server *s)
{
	struct samples ns;
	int rc;

	samples_init(&ns, TCP_ROUNDS);
	rc = tcp_floor_run(&s->sites->net, s->o->block, TCP_ROUNDS, &ns);
	f->tcp_ns = median(&ns);
	samples_free(&ns);
	return rc;
}

int floors_measure(struct floors *f, const struct server *s)
{
	struct tick_clock clock;
	struct samples ticks;

	tick_clock_calibrate(&clock);
	samples_init(&ticks, PINGPONG_ROUNDS);
	*f = (struct floors) { 0 };
	if (machine_cores() > 1 &&
	    pingpong_run(machine_core(1), 1000, PINGPONG_ROUNDS, &ticks) == 0)
		f->pingpong_ns = (double)ticks_delta_to_ns(&clock,
						(uint64_t)median(&ticks));
	samples_free(&ticks);
	f->memcpy_ns = measure_memcpy(s->o->block);
	return s->o->transport != OVER_SHM ? measure_tcp(f, s) : 0;
}

static void fact_hosts(struct report *r, const struct options *o, const struct two_hosts *net)
{
	static const char secret[] = "the engines know each other by a secret (TLS 1.3 PSK)";

	report_fact(r, "mode", "two hosts: the store beside one tentd, the server beside another");
	if (!*net->why)
		report_fact(r, "hosts", "network namespaces, %s (store) and %s (server), joined "
			    "by a veth pair", net->address[HOST_STORE], net->address[HOST_SERVER]);
	else
		report_fact(r, "hosts", "both are this one at 127.0.0.1, with two engines: %s",
			    net->why);
	if (o->transport == OVER_TCP)
		report_fact(r, "transport", "tcp; %s", secret);
	else if (o->device)
		report_fact(r, "transport", "rdma on %s; %s", o->device, secret);
	else
		report_fact(r, "transport", "rdma on software ConnectX devices; %s; simulated: not "
			    "a latency", secret);
}

static void fact_setup(struct report *r, const struct server *s)
{
	const struct options *o = s->o;
	static const char *const modes[] = {
		[MODE_DAEMON] = "daemon: tentd, store and server are three processes",
		[MODE_THREAD] = "thread: the engine is a thread of the server, which owns the pool",
		[MODE_CALLER] = "caller: the server drives the engine itself and owns the pool",
	};

	if (o->transport != OVER_SHM)
		fact_hosts(r, o, &s->sites->net);
	else
		report_fact(r, "mode", "%s", modes[o->mode]);
	report_fact(r, "idle", "%s", o->engine ? "as that tentd is configured" :
		    o->idle ? "adaptive" : "busy");
	report_fact(r, "priorities", "%s", o->no_priorities ? "off" : "on");
	report_fact(r, "checkpoint_flood", o->checkpoint_flood ? "%llu MiB always in flight" :
		    "none", (unsigned long long)(o->flood >> 20));
}

void output_facts_before(struct report *r, const struct server *s, const struct floors *f)
{
	const struct options *o = s->o;
	const struct trace *t = s->trace;
	double seconds = (double)(t->requests[t->nr_requests - 1].arrival_us -
				  t->requests[0].arrival_us) / 1e6;

	machine_facts(r);
	report_fact(r, "trace", "%s, %zu requests, %zu blocks, %.0f s in %.1f s", o->trace,
		    t->nr_requests, t->nr_ids, seconds, seconds / (double)o->speed);
	report_fact(r, "arrivals", "%s", o->spread ?
		    "spread evenly between the trace's timestamps" :
		    "as recorded (the publisher rounded them: bursts)");
	fact_setup(r, s);
	report_number(r, "block_KiB", 0, (double)(o->block >> 10));
	report_number(r, "pool_MiB", 0, (double)(o->pool >> 20));
	report_number(r, "ttft_budget_ms", 0, (double)o->ttft_ms);
	report_number(r, "seed", 0, (double)o->seed);
	report_number(r, "pingpong_rtt_ns", 0, f->pingpong_ns);
	report_number(r, "memcpy_block_us", 1, f->memcpy_ns / 1e3);
	if (f->tcp_ns > 0)
		report_number(r, "tcp_block_us", 1, f->tcp_ns / 1e3);
}

static void fact_results(struct report *r, struct stats *s)
{
	double seconds = (double)(s->end_ns - s->begin_ns) / 1e9;
	uint64_t bytes = 0;

	for (int t = 0; t < TRAFFIC_COUNT; t++)
		bytes += s->traffic[t].bytes;
	report_number(r, "elapsed_s", 2, seconds);
	report_number(r, "moved_MiB", 1, (double)bytes / (1 << 20));
	report_number(r, "read_bytes", 0, (double)s->read_bytes);
	report_number(r, "verified_bytes", 0, (double)s->verified_bytes);
	report_number(r, "wrong_blocks", 0, (double)s->wrong_blocks);
	report_fact(r, "hit_rate", "%.1f %% of %llu blocks; %llu more were still being written",
		    100 * (double)s->hits / (double)s->blocks, (unsigned long long)s->blocks,
		    (unsigned long long)s->unwritten);
	report_fact(r, "prefetched_blocks", "%llu, of which %llu were asked for later",
		    (unsigned long long)s->prefetched, (unsigned long long)s->prefetch_used);
	report_number(r, "evictions", 0, (double)s->evictions);
	report_fact(r, "start_lateness_us", "p50 %.1f  p99 %.1f  max %.1f",
		    (double)samples_percentile(&s->lateness_ns, 0.5) / 1e3,
		    (double)samples_percentile(&s->lateness_ns, 0.99) / 1e3,
		    (double)samples_max(&s->lateness_ns) / 1e3);
}

static void fact_engines(struct report *r, const struct server *s)
{
	if (s->o->transport == OVER_SHM)
		return;
	report_fact(r, "store_engine", "%s", s->sites->facts[HOST_STORE]);
	report_fact(r, "server_engine", "%s", s->sites->facts[HOST_SERVER]);
	if (s->o->capture)
		report_fact(r, "captured_packets", "%s", s->sites->capture.said);
}

static void warn_results(struct report *r, const struct options *o, struct stats *s)
{
	uint64_t late = samples_percentile(&s->lateness_ns, 0.99);

	if (late > o->ttft_ms * 1000000 / 10)
		report_warn(r, "the server could not keep up: 1 %% of the requests started more "
			    "than %.1f ms late", (double)late / 1e6);
	if (s->skipped_writes)
		report_warn(r, "%llu blocks were not stored: every slot of the pool was in use",
			    (unsigned long long)s->skipped_writes);
	if (!s->read_bytes)
		report_warn(r, "no block was read, so nothing was verified");
	if (*s->first_error)
		report_warn(r, "%s", s->first_error);
}

static void row(struct report *r, const char *name, struct traffic_stats *t)
{
	report_cell_text(r, name);
	report_cell(r, 0, (double)t->batches);
	report_cell(r, 0, (double)t->requests);
	report_cell(r, 1, (double)t->bytes / (1 << 20));
	report_cell(r, 1, (double)samples_percentile(&t->latency_ns, 0.5) / 1e3);
	report_cell(r, 1, (double)samples_percentile(&t->latency_ns, 0.99) / 1e3);
	report_cell(r, 1, (double)samples_percentile(&t->latency_ns, 0.999) / 1e3);
	report_cell(r, 1, (double)samples_max(&t->latency_ns) / 1e3);
	if (t->met + t->missed) {
		report_cell(r, 0, (double)t->met);
		report_cell(r, 0, (double)t->missed);
	} else {
		report_cell_none(r);
		report_cell_none(r);
	}
	report_cell(r, 0, (double)t->failed);
}

static void fact_kills(struct report *r, struct server *server)
{
	struct kills *k = &server->kills;

	if (!server->o->kills)
		return;
	report_fact(r, "kills", "%llu: %llu of the store's engine, %llu of the server's; %llu "
		    "with requests under way", (unsigned long long)k->done,
		    (unsigned long long)k->of[HOST_STORE], (unsigned long long)k->of[HOST_SERVER],
		    (unsigned long long)k->in_flight);
	report_fact(r, "killed_requests", "%llu ended by a kill; the last one p50 %.1f ms, max "
		    "%.1f ms after it", (unsigned long long)server->stats->killed_requests,
		    (double)samples_percentile(&k->end_ns, 0.5) / 1e6,
		    (double)samples_max(&k->end_ns) / 1e6);
	report_fact(r, "checked_blocks", "%llu that were said to be written, in the store after "
		    "each kill and at the end", (unsigned long long)k->checked);
}

void output_results(struct report *r, struct server *server)
{
	const struct options *o = server->o;
	struct stats *s = server->stats;
	static const char *const columns[] = {
		"intent", "batches", "requests", "MiB", "p50_us", "p99_us", "p999_us", "max_us",
		"deadline_met", "missed", "failed",
	};

	fact_results(r, s);
	fact_engines(r, server);
	fact_kills(r, server);
	warn_results(r, o, s);
	report_table_begin(r, "latency", columns, sizeof(columns) / sizeof(*columns));
	for (int t = 0; t < TRAFFIC_COUNT; t++)
		if (s->traffic[t].batches)
			row(r, names[t], &s->traffic[t]);
	report_table_end(r);
}

/* One line per batch: its latency, and the share of batches that took at least
 * as long. */
static int write_distribution(const char *folder, const char *name, struct samples *s)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.dat", folder, name);
	f = fopen(path, "we");
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	samples_max(s);		/* sorts */
	fprintf(f, "# latency_us  share_of_batches_that_took_at_least_that\n");
	for (size_t i = 0; i < s->nr; i++)
		fprintf(f, "%.3f %.9f\n", (double)s->values[i] / 1e3,
			(double)(s->nr - i) / (double)s->nr);
	return fclose(f);
}

/* perf/replay.gp: beside the sources, seen from the program or from here. */
static bool find_script(char *path, size_t size)
{
	static const char *const tries[] = { "../perf/replay.gp", "../../perf/replay.gp" };

	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++)
		if (daemon_program_path(tries[i], path, size) && access(path, R_OK) == 0)
			return true;
	snprintf(path, size, "perf/replay.gp");
	return access(path, R_OK) == 0;
}

static int run_gnuplot(const char *script, const char *set)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("gnuplot", "gnuplot", "-e", set, script, (char *)NULL);
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *where(const struct options *o)
{
	if (o->transport == OVER_SHM)
		return "through shared-memory rings";
	if (o->transport == OVER_TCP)
		return "between two hosts by TCP";
	return o->device ? "between two engines by RDMA" :
			   "between two hosts by simulated RDMA";
}

/* 0: drawn, or there is no gnuplot here. */
static int draw(struct report *r, const struct options *o, const struct floors *f)
{
	char script[512], set[1024];
	int rc;

	if (!find_script(script, sizeof(script))) {
		report_fact(r, "picture", "FAILED: perf/replay.gp is not beside the program");
		return -1;
	}
	snprintf(set, sizeof(set), "folder='%s'; pingpong_us=%.4f; memcpy_us=%.3f; "
		 "tcp_us=%.3f; block_kib=%llu; ttft_us=%llu; where='%s'", o->out,
		 f->pingpong_ns / 1e3, f->memcpy_ns / 1e3, f->tcp_ns / 1e3,
		 (unsigned long long)(o->block >> 10), (unsigned long long)o->ttft_ms * 1000,
		 where(o));
	rc = run_gnuplot(script, set);
	if (rc == 127)
		report_fact(r, "picture", "not drawn: gnuplot is not installed");
	else if (rc)
		report_fact(r, "picture", "FAILED: gnuplot ended with status %d", rc);
	else
		report_fact(r, "picture", "%s/replay.png and .svg", o->out);
	return rc == 127 ? 0 : rc;
}

int output_picture(struct report *r, const struct options *o, struct stats *s,
		    const struct floors *f)
{
	if (!o->out)
		return 0;
	for (int t = 0; t < TRAFFIC_COUNT; t++)
		if (s->traffic[t].latency_ns.nr &&
		    write_distribution(o->out, names[t], &s->traffic[t].latency_ns))
			return -1;
	return draw(r, o, f);
}
