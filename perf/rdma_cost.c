/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_cost.c - what perf/cost.sh counts from slot to completion by RDMA, with WQE and CQE:
 * a ring of an engine that this thread drives (caller mode), and an engine of its own in the
 * same process that has the memory they go to.
 *
 *   rdma_cost rdma|rdma4|rdmafull|rdmainline BATCH
 *
 * As cost_driver's vectors: two clients of 64 regions each, two policies and a contract; one
 * intent, four, or all fields; WRITEs of 256 bytes, or of 64 inside their WQEs. The card is
 * waited for outside of the engine: a turn is one that has something to do.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>
#include <time.h>

#include "dv/backend.h"
#include "engine/engine.h"
#include "ring/clock.h"
#include "ring/order.h"

#define REGIONS 64u
#define REGION_BYTES 4096u
#define BATCH_MAX 64u
#define ROUNDS 64		/* counted, and as many before: a software device takes its time */
#define ARRIVAL_STEPS 100	/* of 100 us, until a turn may be needed to send */

struct side {
	struct engine *engine;
	struct tent_client *client;
	uint8_t *memory;	/* REGIONS regions, a gap after each */
};

struct world {
	struct side near, idle, far;	/* idle: the near engine's second client */
	struct tent_ring *ring;
	tent_segment_id_t target;
	struct tent_request_v1 batch[BATCH_MAX];
	uint32_t nr, length;
	uint32_t turns;		/* calls of engine_drive() */
	uint64_t mark;		/* what the last bytes of a round are */
};

static void need(bool ok, const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	if (ok)
		return;
	tent_client_error(&info);
	fprintf(stderr, "rdma_cost: %s: %s\n", what, info.message);
	exit(1);
}

/* ---- where counting begins and ends ----------------------------------------- */

static __attribute__((noinline)) void cost_begin(void)
{
	__asm__ volatile("# differs from cost_end, or the compiler folds them" ::: "memory");
}

static __attribute__((noinline)) void cost_end(void)
{
	__asm__ volatile("" ::: "memory");
}

/* ---- engines ------------------------------------------------------------------ */

static const char settings[] =
	"{\"peers\":{\"enable\":true},\"engine\":{\"request_timeout_ms\":600000},\"transports\":"
	"{\"shm\":{\"enable\":false},\"tcp\":{\"enable\":false},\"rdma\":{\"enable\":true}},"
	"\"policy\":[{\"name\":\"files\",\"segment_type\":\"file\"},"
	"{\"name\":\"memory\",\"segment_type\":\"memory\",\"transports\":[\"rdma\"]}],"
	"\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"medium\"},\"tenants\":"
	"[{\"name\":\"default\",\"intents\":{\"foreground_get\":{\"priority\":\"high\"}}}]}}";

static uint8_t *region_of(uint8_t *memory, uint32_t i)
{
	return memory + i % REGIONS * 2 * REGION_BYTES;
}

static void make_engine(struct engine **e, bool caller)
{
	static const struct backend *const backends[] = { &rdma_backend, NULL };
	static struct config_report report;
	struct engine_config config;
	char error[256] = "";

	engine_config_default(&config);
	need(!engine_config_apply_json(&config, settings, &report), "settings");
	config.caller_mode = caller;
	config.port_any = true;
	config.keepalive_ns = 60000000000ull;	/* valgrind takes its time */
	if (engine_create(e, &config, backends, error, sizeof(error)))
		need(false, error);
}

static void make_client(struct side *s, struct engine *e, const char *name)
{
	int fd = engine_attach_local(e);
	void *memory;

	s->engine = e;
	need(fd >= 0 && !tent_client_attach_fd(fd, name, &s->client), "attach");
	need(!tent_client_alloc(s->client, 2 * REGIONS * REGION_BYTES, "*", &memory), "alloc");
	s->memory = memory;
	for (uint32_t i = 0; i < REGIONS; i++)
		need(!tent_client_register(s->client, region_of(memory, i), REGION_BYTES,
					   TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), "register");
}

static void make_world(struct world *w)
{
	struct engine *near, *far;

	make_engine(&near, true);
	make_engine(&far, true);
	make_client(&w->near, near, "one");
	make_client(&w->idle, near, "two");
	make_client(&w->far, far, "store");
	need(!tent_ring_open(w->near.client, 0, 0, &w->ring), "ring");
	need(!tent_client_open_segment(w->near.client, tent_client_segment(w->far.client),
				       &w->target), "segment");
}

static void free_world(struct world *w)
{
	tent_ring_close(w->ring);
	tent_client_detach(w->near.client);
	tent_client_detach(w->idle.client);
	tent_client_detach(w->far.client);
	engine_destroy(w->near.engine);
	engine_destroy(w->far.engine);
}

/* Requests are scattered over the regions, so that no two could merge. */
static void fill_batch(struct world *w, const char *vector)
{
	bool full = !strcmp(vector, "rdmafull"), four = !strcmp(vector, "rdma4");

	w->length = strcmp(vector, "rdmainline") ? 256 : 64;
	for (uint32_t i = 0; i < BATCH_MAX; i++) {
		w->batch[i] = (struct tent_request_v1) {
			.struct_size = TENT_REQUEST_V1_SIZE,
			.schema_version = TENT_REQUEST_SCHEMA_V1, .opcode = TENT_OPCODE_WRITE,
			.source = region_of(w->near.memory, i * 11), .target_id = w->target,
			.target_offset = (uintptr_t)region_of(w->far.memory, i * 29),
			.length = w->length,
			.intent_type = four ? 1 + (int)i % 4 : TENT_INTENT_FOREGROUND_GET,
		};
		if (!full)
			continue;
		w->batch[i].requested_priority = TENT_PRIORITY_HIGH;
		w->batch[i].deadline_ns = clock_monotonic_ns() + 3600000000000ull;
		w->batch[i].transport_hint = TENT_TRANSPORT_RDMA;
	}
}

/* ---- one round ----------------------------------------------------------------- */

/* Each request ends with the mark of its round. */
static uint64_t *end_of(struct world *w, uint8_t *start)
{
	return (uint64_t *)(void *)(start + w->length - sizeof(uint64_t));
}

static bool has_arrived(struct world *w)
{
	for (uint32_t i = 0; i < w->nr; i++)
		if (load_relaxed(end_of(w, region_of(w->far.memory, i * 29))) != w->mark)
			return false;
	return true;
}

/* Then its CQE is there, too, or nothing was sent yet. */
static void wait_for_card(struct world *w)
{
	static const struct timespec step = { .tv_nsec = 100000 };

	for (int i = 0; i < ARRIVAL_STEPS && !has_arrived(w); i++)
		nanosleep(&step, NULL);
	for (int i = 0; i < ARRIVAL_STEPS / 10; i++)
		nanosleep(&step, NULL);
}

static void round_trip(struct world *w)
{
	struct tent_completion done[BATCH_MAX];
	uint32_t ended = 0;

	w->mark++;
	for (uint32_t i = 0; i < w->nr; i++)
		*end_of(w, region_of(w->near.memory, i * 11)) = w->mark;
	need(!tent_ring_submit(w->ring, w->batch, w->nr, sizeof(w->batch[0]), 0, 0), "submit");
	for (uint32_t turn = 0; ended < w->nr; turn++) {
		uint32_t got;

		need(turn < 1000, "no completion");
		if (turn)
			wait_for_card(w);
		engine_drive(w->near.engine);
		w->turns++;
		got = (uint32_t)tent_ring_poll(w->ring, done, BATCH_MAX);
		for (uint32_t i = 0; i < got; i++)
			need(done[i].status == TENT_STATUS_COMPLETED, "a request failed");
		ended += got;
	}
	need(has_arrived(w), "what was completed is not there");
}

int main(int argc, char **argv)
{
	static struct world w;

	w.nr = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	if (w.nr < 1 || w.nr > BATCH_MAX) {
		fprintf(stderr, "usage: rdma_cost rdma|rdma4|rdmafull|rdmainline 1..%u\n",
			BATCH_MAX);
		return 2;
	}
	make_world(&w);
	fill_batch(&w, argv[1]);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		if (i == ROUNDS) {
			w.turns = 0;
			cost_begin();	/* the first half was the warm-up */
		}
		round_trip(&w);
	}
	cost_end();
	printf("calls engine_drive %u\n", w.turns);
	free_world(&w);
	return 0;
}
