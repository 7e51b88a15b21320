/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_ends.c - see rdma_ends.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/ctl.h>
#include <time.h>
#include <unistd.h>

#include "lib/backends.h"
#include "perf/common/complain.h"
#include "perf/common/daemon.h"
#include "perf/common/machine.h"
#include "perf/common/rdma_ends.h"

#define WORDS_MAX 64
#define RING_SLOTS 1024u

static struct {
	const struct rdma_bench *bench;
	char **argv;
} started;

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", started.bench->name, what);
	return -1;
}

/* ---- engines ----------------------------------------------------------- */

static uint64_t stride_of(const struct rdma_options *o)
{
	return (o->size + 63) & ~(uint64_t)63;
}

static uint64_t memory_of(const struct rdma_options *o)
{
	return stride_of(o) * o->depth * o->qps;
}

static uint32_t gid_index_of(const struct rdma_options *o)
{
	return o->gid_index == RDMA_GID_BEST ? DV_GID_ANY : (uint32_t)o->gid_index;
}

static void configure(struct engine_config *c, const struct rdma_options *o)
{
	engine_config_default(c);
	c->peers_enable = true;
	c->port_any = true;
	c->shm_enable = c->tcp_enable = false;
	c->rdma_enable = true;
	c->request_timeout_ns = 600000000000ull;	/* on a machine with other work, too */
	c->keepalive_ns = 60000000000ull;
	c->rdma.gid_index = gid_index_of(o);
	snprintf(c->rdma.allow, sizeof(c->rdma.allow), "%s", o->device ? o->device : "");
	if (o->listen || o->peer)
		c->peers_insecure = true;
	if (o->listen)
		snprintf(c->host, sizeof(c->host), "%s", o->listen);
	c->host_any = !o->listen;
}

static int open_engine(struct engine **e, const struct engine_config *c,
		       struct tent_client **client)
{
	char error[256] = "";
	int fd;

	if (engine_create(e, c, all_backends, error, sizeof(error)))
		return fail(error);
	fd = engine_attach_local(*e);
	return fd < 0 || tent_client_attach_fd(fd, NULL, client) ? complain_ring("attach") : 0;
}

static int open_memory(struct tent_client *c, uint64_t size, uint8_t **memory)
{
	void *p;

	if (tent_client_alloc(c, size, "*", &p) ||
	    tent_client_register(c, p, size, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return complain_ring("memory");
	memset(p, 0x5a, size);
	*memory = p;
	return 0;
}

/* ---- there ------------------------------------------------------------- */

struct there {
	struct engine *engine;
	struct tent_client *client;
	uint8_t *memory;
};

static int there_open(struct there *t, const struct rdma_options *o)
{
	struct engine_config config;

	configure(&config, o);
	return open_engine(&t->engine, &config, &t->client) ||
	       open_memory(t->client, memory_of(o), &t->memory) ? -1 : 0;
}

static void there_close(struct there *t)
{
	tent_client_detach(t->client);
	engine_destroy(t->engine);
}

static int open_verbs_end(struct verbs_end *v, const struct rdma_options *o, uint32_t depth)
{
	const struct dv_choice c = {
		.allow = o->device ? o->device : "", .deny = "", .gid_index = gid_index_of(o),
	};

	return verbs_open(v, &c, memory_of(o), depth);
}

/* What it is asked: an end of verbs, to be connected to one of ours. */
static int serve_verbs(struct helper *h, struct verbs_end *v, const struct rdma_options *o,
		       const char *text)
{
	char answer[VERBS_TEXT];

	if (open_verbs_end(v, o, 0) || verbs_connect(v, text))
		return -1;
	verbs_text(v, answer);
	return helper_say(h, answer);
}

static int there_main(struct helper *h, const void *arg)
{
	const struct rdma_options *o = arg;
	struct verbs_end v = { 0 };
	struct there t = { 0 };
	char text[160];

	if (there_open(&t, o))
		return 1;
	snprintf(text, sizeof(text), "%s %" PRIx64, tent_client_segment(t.client),
		 (uint64_t)(uintptr_t)t.memory);
	helper_say(h, text);
	while (helper_next(h, text, sizeof(text)))
		if (serve_verbs(h, &v, o, text))
			return 1;
	verbs_close(&v);
	there_close(&t);
	return 0;
}

/* For others, until somebody interrupts it. */
static int listen_for_others(const struct rdma_options *o)
{
	struct there t = { 0 };
	sigset_t ends;
	int signal;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	if (there_open(&t, o))
		return 2;
	printf("# on another host: %s --peer %s, with the same --size, --depth and --qps\n",
	       started.bench->name, tent_client_segment(t.client));
	fflush(stdout);
	sigwait(&ends, &signal);
	there_close(&t);
	return 0;
}

/* ---- here -------------------------------------------------------------- */

static int find_memory(struct rdma_ends *e)
{
	tent_segment_info_t info = { 0 };

	if (tent_client_segment_info(e->client, e->segment, &info))
		return complain_ring("segment");
	for (int i = 0; i < info.num_buffers; i++)
		if (info.buffers[i].length >= memory_of(e->o))
			e->target = info.buffers[i].base;
	tent_free_segment_info(&info);
	return e->target ? 0 : fail("the peer has less memory: other --size, --depth or --qps");
}

static int open_here(struct rdma_ends *e, const char *segment)
{
	const struct rdma_options *o = e->o;
	struct engine_config config;

	configure(&config, o);
	config.caller_mode = o->qps == 1;
	config.nr_pollers = (uint32_t)o->qps;
	config.adaptive = false;
	config.rdma.depth = o->depth * 4 < 256 ? 256 : (uint32_t)o->depth * 4;
	if (open_engine(&e->engine, &config, &e->client) ||
	    open_memory(e->client, memory_of(o), &e->memory))
		return -1;
	for (uint32_t i = 0; i < o->qps; i++)
		if (tent_ring_open(e->client, RING_SLOTS, 0, &e->rings[i]))
			return complain_ring("ring");
	if (tent_client_open_segment(e->client, segment, &e->segment))
		return complain_ring(segment);
	return find_memory(e);
}

static int open_verbs(struct rdma_ends *e)
{
	const struct rdma_options *o = e->o;
	char text[VERBS_TEXT];

	if (open_verbs_end(&e->verbs, o, (uint32_t)o->depth))
		return -1;
	verbs_text(&e->verbs, text);
	if (process_ask(&e->process, text) || verbs_connect(&e->verbs, e->process.said))
		return fail("the other end of verbs");
	e->has_verbs = true;
	return 0;
}

/* depth places for each of qps. */
static int ends_open(struct rdma_ends *e, const struct rdma_options *o)
{
	char segment[128];

	e->o = o;
	e->stride = stride_of(o);
	if (o->peer)
		return open_here(e, o->peer);
	if (process_start(&e->process, "rdma-there", there_main, o))
		return -1;
	sscanf(e->process.said, "%127s", segment);
	return open_here(e, segment) || (o->qps == 1 && open_verbs(e)) ? -1 : 0;
}

static void ends_close(struct rdma_ends *e)
{
	verbs_close(&e->verbs);
	if (e->client)
		tent_client_detach(e->client);
	if (e->engine)
		engine_destroy(e->engine);
	process_stop(&e->process);
}

static void facts_of(struct report *r, struct rdma_ends *e)
{
	char *text = NULL;
	json_t *json = NULL;
	const char *facts = NULL;

	if (tent_client_query(e->client, TENT_QUERY_STATS, &text) == 0) {
		json = json_loads(text, 0, NULL);
		facts = json_string_value(json_object_get(
			json_object_get(json, "transport_facts"), "rdma"));
	}
	report_fact(r, "engine", "%s", facts ? facts : "says nothing");
	if (!e->o->device)
		report_fact(r, "simulated", "software ConnectX devices of this machine: not a "
			    "latency, not a rate; what may be compared are the rows");
	json_decref(json);
	free(text);
}

/* ---- rows -------------------------------------------------------------- */

static const char *const ops[RDMA_OPS] = { "read", "write" };

void rdma_row_begin(struct report *r, int subject, int op, uint32_t size)
{
	static const char *const subjects[RDMA_SUBJECTS] = { "verbs", "tent" };

	report_cell_text(r, subjects[subject]);
	report_cell_text(r, ops[op]);
	report_cell(r, 0, size);
}

void rdma_row_end(struct report *r, const struct rdma_ends *e, double to_verbs)
{
	if (e->has_verbs)
		report_cell(r, 3, to_verbs);
	else
		report_cell_none(r);
}

int rdma_check(struct report *r, const struct rdma_ends *e, int op, bool pass,
	       const char *format, ...)
{
	char name[32], text[200];
	va_list args;

	snprintf(name, sizeof(name), "check_%s", ops[op]);
	if (!e->has_verbs) {
		report_fact(r, name, "not compared: libmlx5 has one queue pair to a process of "
			    "this host");
		return 2;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_fact(r, name, "%s: %s", pass ? "pass" : "FAIL", text);
	return !pass;
}

/* ---- requests ---------------------------------------------------------- */

int rdma_submit(struct rdma_ends *e, uint32_t ring, int opcode, const uint64_t *places,
		uint32_t nr, uint32_t size)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t at = places[i] * e->stride;
		const struct tent_request_v1 q = {
			.struct_size = sizeof(q), .schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = opcode, .source = e->memory + at, .target_id = e->segment,
			.target_offset = e->target + at, .length = size,
		};

		if (tent_ring_submit(e->rings[ring], &q, 1, sizeof(q), places[i], 0))
			return complain_ring("submit");
	}
	return 0;
}

static int fail_request(const struct tent_completion *c)
{
	fprintf(stderr, "%s: a request ended with status %d, error %d\n", started.bench->name,
		c->status, c->error);
	return -1;
}

int rdma_poll_ends(struct rdma_ends *e, uint32_t ring, uint64_t *places, int nr)
{
	struct tent_completion c[64];
	int n;

	if (e->o->qps == 1)
		engine_drive(e->engine);
	n = (int)tent_ring_poll(e->rings[ring], c, nr < 64 ? (uint32_t)nr : 64);
	for (int i = 0; i < n; i++) {
		if (c[i].status != TENT_STATUS_COMPLETED)
			return fail_request(&c[i]);
		places[i] = c[i].user_data;
	}
	return n;
}

uint64_t rdma_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- start ------------------------------------------------------------- */

/* Becomes tent-sim, which becomes this again. */
static int go_on_simulated(const struct rdma_options *o)
{
	char tool[320], name[64], self[320], rails[16];
	char *words[WORDS_MAX] = {
		tool, (char *)(uintptr_t)"--devices", rails, (char *)(uintptr_t)"--link",
		(char *)(uintptr_t)(o->link ? "ib" : "roce"), (char *)(uintptr_t)"--fault",
		(char *)(uintptr_t)"timeouts=400%", self,
	};
	int nr = 8;

	snprintf(rails, sizeof(rails), "%d", (int)o->rails);
	snprintf(name, sizeof(name), "perf/%s", started.bench->name);
	if (!daemon_program_path("tent-sim", tool, sizeof(tool)) ||
	    !daemon_program_path(name, self, sizeof(self)))
		return 2;
	for (int i = 1; started.argv[i] && nr < WORDS_MAX - 1; i++)
		words[nr++] = started.argv[i];
	execv(tool, words);
	fprintf(stderr, "%s: %s: %s; name a device of this machine (-d), or make sim\n",
		started.bench->name, tool, strerror(errno));
	return 2;
}

static int check_options(void)
{
	const struct rdma_options *o = started.bench->options;

	if (memory_of(o) > 1u << 30) {
		fail("--size times --depth times --qps is more than 1 GiB");
		return 2;
	}
	return o->device || getenv("TENT_SIM_TREE") ? 0 : go_on_simulated(o);
}

static int measure(struct report *r, struct rdma_ends *e)
{
	const struct rdma_bench *b = started.bench;
	struct machine_watch watch;
	int rc;

	machine_facts(r);
	b->prepare(b, r);
	machine_warn(r, 2);
	machine_watch_begin(&watch);
	rc = b->measure(b, e);
	machine_watch_end(&watch, r);
	facts_of(r, e);
	if (rc)
		return 2;
	b->print(b, r, e);
	return b->options->check ? b->judge(b, r, e) : 0;
}

static int run(struct report *r)
{
	const struct rdma_options *o = started.bench->options;
	static struct rdma_ends e;
	int rc;

	if (o->listen)
		return listen_for_others(o);
	rc = ends_open(&e, o) ? 2 : measure(r, &e);
	ends_close(&e);
	return rc;
}

int rdma_bench_main(const struct rdma_bench *b, int argc, char **argv)
{
	const struct bench_program program = {
		.name = b->name, .title = b->title, .args = b->args, .json = &b->options->json,
		.cores = 1, .check = check_options, .run = run,
	};

	started.bench = b;
	started.argv = argv;
	return bench_main(&program, argc, argv);
}
