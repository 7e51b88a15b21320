/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_driver.c - what perf/cost.sh counts: both ends of a ring driven from one
 * thread (caller mode) with the null backend, so that every instruction between
 * submit and completion runs here, in the same order each time.
 *
 *   cost_driver one|four|full|far|metered|policy|policy4|api|legacy|pending|control BATCH
 *
 * Each run first submits one bad request per rule and sees it refused, and compares
 * the ring's pages before and after a batch; then come ROUNDS rounds between
 * cost_begin() and cost_end(), where callgrind starts and stops counting.
 * "far" lays the regions out so that the engine's hints cannot tell them apart: nearly
 * every lookup searches. "metered" is "one" in an engine that counts for metrics, as tentd
 * does. "policy" and "policy4" are "one" and "four" under two policies and a contract.
 * "api" goes through libtent: submits a batch without any intent, asks for it and for each
 * task; in "legacy" it is the same by the older API, and in "pending" the backend is busy
 * every other time, so that they end while they are asked for. "control" does what the path
 * must not do, to prove that the counters see it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tent/tent.h>
#include <tent/tentring.h>
#include <tent/transfer_engine.h>
#include <unistd.h>

#include "engine/engine.h"
#include "ring/client_ring.h"
#include "ring/clock.h"
#include "ring/order.h"

#define REGIONS 64
#define REGION_BYTES 4096u
#define FAR_BYTES (1u << 20)
#define BATCH_MAX 64
#define ROUNDS 256
#define LINE 64
#define DEADLINE_NS 3600000000000ull

struct world {
	struct engine *engine;
	struct tent_client *client, *peer;
	struct tent_ring *ring, *peer_ring;
	uint8_t *source, *target;	/* REGIONS regions, a gap after each */
	uint8_t *closed;		/* the peer's, LOCAL_READ_WRITE */
	tent_segment_id_t peer_id;
	struct tent_request_v1 batch[BATCH_MAX];
	uint32_t turns;			/* calls of engine_drive() */
};

static void die(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	fprintf(stderr, "cost_driver: %s: %s\n", what, info.message);
	exit(1);
}

static void need(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

/* ---- the common vector: 2 clients, 64 regions each -------------------------- */

/* Regions come in pairs. Where pairs are as close as their halves, all are evenly
 * spaced; "far" pairs lie a power of two apart, which is a whole turn of the hints. */
static size_t pair_bytes = 4 * REGION_BYTES;

static uint8_t *region_of(uint8_t *memory, uint32_t i)
{
	i %= REGIONS;
	return memory + i / 2 * pair_bytes + i % 2 * 2 * REGION_BYTES;
}

static uint8_t *make_regions(struct tent_client *c)
{
	void *memory;

	need(!tent_client_alloc(c, REGIONS / 2 * pair_bytes, "*", &memory), "alloc");
	for (uint32_t i = 0; i < REGIONS; i++)
		need(!tent_client_register(c, region_of(memory, i), REGION_BYTES,
					   TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), "register");
	return memory;
}

static void make_client(struct world *w, struct tent_client **c, struct tent_ring **ring,
			const char *name)
{
	int fd = engine_attach_local(w->engine);

	need(fd >= 0 && !tent_client_attach_fd(fd, name, c), "attach");
	need(!tent_ring_open(*c, 0, 0, ring), "ring open");
}

/* The null transport stands in for the one of that number. */
static const char contracts[] =
	"{\"policy\":[{\"name\":\"files\",\"segment_type\":\"file\"},"
	"{\"name\":\"memory\",\"segment_type\":\"memory\",\"transports\":[\"mpcomm\"]}],"
	"\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"medium\"},\"tenants\":"
	"[{\"name\":\"default\",\"intents\":{\"foreground_get\":{\"priority\":\"high\"}}}]}}";

static void configure(struct engine_config *c, const char *vector)
{
	static struct config_report report;

	engine_config_default(c);
	c->caller_mode = true;
	c->null_enable = true;
	c->shm_enable = false;
	c->metered = !strcmp(vector, "metered");
	c->urgent_ns = 2 * DEADLINE_NS;	/* whatever a count takes, they are ahead and near */
	if (!strncmp(vector, "policy", strlen("policy")))
		need(!engine_config_apply_json(c, contracts, &report), "contracts");
}

static void make_world(struct world *w, const char *vector)
{
	static const struct backend *const backends[] = { &null_backend, NULL };
	struct engine_config config;
	char error[256] = "";

	if (!strcmp(vector, "far"))
		pair_bytes = FAR_BYTES;
	configure(&config, vector);
	if (engine_create(&w->engine, &config, backends, error, sizeof(error)))
		need(false, error);
	make_client(w, &w->client, &w->ring, "one");
	make_client(w, &w->peer, &w->peer_ring, "two");
	w->source = make_regions(w->client);
	w->target = make_regions(w->peer);
	w->closed = region_of(w->target, REGIONS - 1) + REGION_BYTES;
	need(!tent_client_register(w->peer, w->closed, REGION_BYTES,
				   TENT_PERM_LOCAL_READ_WRITE, NULL, 0), "register");
	need(!tent_client_open_segment(w->client, tent_client_segment(w->peer), &w->peer_id),
	     "open segment");
}

static void free_world(struct world *w)
{
	tent_ring_close(w->ring);
	tent_ring_close(w->peer_ring);
	tent_client_detach(w->client);
	tent_client_detach(w->peer);
	engine_destroy(w->engine);
}

/* Requests are scattered over the regions, so that no two could merge. */
static void fill_batch(struct world *w, const char *vector)
{
	bool full = !strcmp(vector, "full");
	bool four = !strcmp(vector, "four") || !strcmp(vector, "policy4");

	for (uint32_t i = 0; i < BATCH_MAX; i++) {
		w->batch[i] = (struct tent_request_v1) {
			.struct_size = TENT_REQUEST_V1_SIZE,
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = i % 2 ? TENT_OPCODE_WRITE : TENT_OPCODE_READ,
			.source = region_of(w->source, i * 11),
			.target_id = w->peer_id,
			.target_offset = (uintptr_t)region_of(w->target, i * 29),
			.length = 64,
			.intent_type = four ? 1 + (int)i % 4 : TENT_INTENT_FOREGROUND_GET,
		};
		if (!full)
			continue;
		w->batch[i].requested_priority = TENT_PRIORITY_HIGH;
		w->batch[i].deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
		w->batch[i].transport_hint = null_backend.transport;
	}
}

/* ---- one round -------------------------------------------------------------- */

static void submit(struct world *w, const void *entries, uint32_t nr, size_t stride)
{
	need(!tent_ring_submit(w->ring, entries, nr, stride, 0, 0), "submit");
}

/* Drives the engine until nr credits are back; returns the last completion. */
static struct tent_completion finish(struct world *w, uint32_t nr)
{
	struct tent_completion done[BATCH_MAX];
	uint32_t credits = 0, got = 0;

	for (uint32_t turn = 0; credits < nr; turn++) {
		need(turn < 10000000, "no completion"); /* the control thread may be driving */
		engine_drive(w->engine);
		w->turns++;
		got = tent_ring_poll(w->ring, done, BATCH_MAX);
		for (uint32_t i = 0; i < got; i++)
			credits += done[i].credits;
	}
	return done[got - 1];
}

static void round_trip(struct world *w, uint32_t nr)
{
	struct tent_completion last;

	submit(w, w->batch, nr, sizeof(w->batch[0]));
	last = finish(w, nr);
	need(last.status == TENT_STATUS_COMPLETED && last.index == nr - 1, "a request failed");
}

/* ---- lines: the ring's pages before and after -------------------------------- */

static uint32_t lines_changed(const uint8_t *before, const uint8_t *after, size_t size)
{
	uint32_t nr = 0;

	for (size_t at = 0; at < size; at += LINE)
		nr += memcmp(before + at, after + at, LINE) != 0;
	return nr;
}

/* Slots hold garbage first: a line that gets the bytes it already had counts too. */
static void count_lines(struct world *w, uint32_t nr)
{
	const struct tent_ring_header *h = tent_ring_header(w->ring);
	const uint8_t *client_mem = w->ring->slots - h->slots_offset;
	const uint8_t *engine_mem = w->ring->completions - h->completions_offset;
	uint8_t *before = malloc(h->client_size + h->engine_size);
	uint32_t produced, completed, reaped;

	need(before != NULL, "no memory");
	for (uint32_t i = 0; i < nr; i++) {
		memset(tent_ring_slot(w->ring, i), 0xa5, h->slot_stride);
		memset(tent_ring_cell(w->ring, i), 0xa5, TENT_CELL_SIZE);
	}
	memcpy(before, client_mem, h->client_size);
	submit(w, w->batch, nr, sizeof(w->batch[0]));
	produced = lines_changed(before, client_mem, h->client_size);

	memcpy(before, client_mem, h->client_size);
	memcpy(before + h->client_size, engine_mem, h->engine_size);
	finish(w, nr);
	reaped = lines_changed(before, client_mem, h->client_size);
	completed = lines_changed(before + h->client_size, engine_mem, h->engine_size);
	printf("lines %.3f %.3f %.3f\n", (double)produced / nr, (double)completed / nr,
	       (double)reaped / nr);
	free(before);
}

/* ---- one bad request per rule ------------------------------------------------ */

struct spoiled {
	uint32_t rule;
	uint32_t offset, size;	/* of the field */
	uint64_t value;
};
#define SPOIL(rule, field, value)						\
	{ TENT_RULE_##rule, offsetof(struct tent_request_v1, field),		\
	  sizeof(((struct tent_request_v1 *)0)->field), (uint64_t)(value) }

static void expect_refusal(struct world *w, uint32_t rule, uint32_t index, uint32_t nr)
{
	struct tent_completion c = finish(w, nr);

	if (c.rule == rule && c.index == index && (c.flags & TENT_CQE_F_REJECTED) &&
	    c.error == tent_rule_error(rule))
		return;
	fprintf(stderr, "cost_driver: %s: got rule %s, index %u, flags %#x, error %d\n",
		tent_rule_name(rule), tent_rule_name(c.rule), c.index, c.flags, c.error);
	exit(1);
}

/* The bad entry is the second of three. */
static uint32_t refuse_fields(struct world *w)
{
	static const char long_name[] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	const struct spoiled list[] = {
		SPOIL(STRUCT_SIZE, struct_size, 50), SPOIL(SCHEMA, schema_version, 2),
		SPOIL(OPCODE, opcode, 2), SPOIL(RESV0, resv0, 1), SPOIL(INTENT, intent_type, 7),
		SPOIL(INTENT_STAGING, intent_type, TENT_INTENT_STAGING_INTERNAL),
		SPOIL(PRIORITY, requested_priority, 4),
		SPOIL(DEADLINE_FAR, deadline_ns, INT64_MAX),
		SPOIL(POLICY_LENGTH, policy_name, (uintptr_t)long_name),
		SPOIL(POLICY_CHARS, policy_name, (uintptr_t)"a b"),
		SPOIL(POLICY_UNKNOWN, policy_name, (uintptr_t)"kv-decode"),
		SPOIL(TRANSPORT, transport_hint, TENT_TRANSPORT_COUNT),
		SPOIL(RESERVED0, reserved0, 1), SPOIL(FLAGS, flags, 1),
		SPOIL(SEGMENT, target_id, 999), SPOIL(SOURCE_RANGE, source, UINT64_MAX - 7),
		SPOIL(SOURCE_UNREGISTERED, source, (uintptr_t)w->source + REGION_BYTES),
		SPOIL(TARGET_RANGE, target_offset, UINT64_MAX - 7),
		SPOIL(TARGET_UNREGISTERED, target_offset, (uintptr_t)w->target + REGION_BYTES),
		SPOIL(TARGET_PERMISSION, target_offset, (uintptr_t)w->closed),
		SPOIL(TRANSPORT_BUILD, transport_hint, TENT_TRANSPORT_RDMA),
	};
	const uint32_t nr = sizeof(list) / sizeof(list[0]);

	for (uint32_t i = 0; i < nr; i++) {
		struct tent_request_v1 bad[3] = { w->batch[0], w->batch[1], w->batch[2] };

		memcpy((uint8_t *)&bad[1] + list[i].offset, &list[i].value, list[i].size);
		submit(w, bad, 3, sizeof(bad[0]));
		expect_refusal(w, list[i].rule, 1, 3);
	}
	return nr;
}

static uint32_t refuse_tail(struct world *w)
{
	struct {
		struct tent_request_v1 request;
		uint64_t tail;
	} bad[2] = { { w->batch[0], 0 }, { w->batch[1], 1ull << 63 } };

	bad[0].request.struct_size = bad[1].request.struct_size = sizeof(bad[0]);
	submit(w, bad, 2, sizeof(bad[0]));
	expect_refusal(w, TENT_RULE_TAIL, 1, 2);
	return 1;
}

/* What only someone who writes slots by hand can get wrong. */
static struct tent_slot *bare_slot(struct world *w)
{
	struct tent_slot *slot = tent_ring_slot(w->ring, 0);

	memset(slot, 0, sizeof(*slot));
	return slot;
}

static uint32_t refuse_slots(struct world *w)
{
	struct tent_indirect *indirect;
	struct tent_slot *slot = bare_slot(w);

	tent_entry_load(slot, tent_ring_cell(w->ring, 0), &w->batch[0], sizeof(w->batch[0]));
	slot->request.requested_priority = 3;
	tent_ring_publish(w->ring, 1, TENT_OP_REQUEST, TENT_SLOT_F_LEGACY);
	expect_refusal(w, TENT_RULE_PRIORITY_LEGACY, 0, 1);

	slot = bare_slot(w);
	slot->request.length = 1;
	tent_ring_publish(w->ring, 1, TENT_OP_NOP, 0);
	expect_refusal(w, TENT_RULE_SLOT_RESV, 0, 1);

	bare_slot(w);
	tent_ring_publish(w->ring, 1, TENT_OP_INDIRECT, 0);
	expect_refusal(w, TENT_RULE_INDIRECT_COUNT, 0, 1);

	indirect = (struct tent_indirect *)&bare_slot(w)->request;
	indirect->entries = (uintptr_t)w->source;
	indirect->results = (uintptr_t)w->source + REGION_BYTES;
	indirect->count = 2;
	tent_ring_publish(w->ring, 1, TENT_OP_INDIRECT, 0);
	expect_refusal(w, TENT_RULE_INDIRECT_BUFFER, 0, 1);
	return 4;
}

/* ---- what is counted --------------------------------------------------------- */

static __attribute__((noinline)) void cost_begin(void)
{
	__asm__ volatile("# differs from cost_end, or the compiler folds them" ::: "memory");
}

static __attribute__((noinline)) void cost_end(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Everything the path must not do, once per round. */
static __attribute__((noinline)) void cost_control(uint64_t *word)
{
	void *memory = malloc(100);

	__asm__ volatile("" :: "r"(memory) : "memory");
	free(memory);
	syscall(SYS_getppid);
	fetch_add(word, 1);
	full_fence();
}

static void count_rounds(struct world *w, const char *vector, uint32_t nr)
{
	uint64_t word = 0;

	for (int i = 0; i < 2 * ROUNDS; i++) {
		if (i == ROUNDS) {
			w->turns = 0;
			cost_begin(); /* the first half was the warm-up */
		}
		if (!strcmp(vector, "control"))
			cost_control(&word);
		else
			round_trip(w, nr);
	}
	cost_end();
	printf("calls engine_drive %u\n", w->turns);
}

static int run_vector(const char *vector, uint32_t nr)
{
	static struct world w;
	uint32_t refused;

	make_world(&w, vector);
	fill_batch(&w, vector);
	refused = refuse_fields(&w);
	refused += refuse_tail(&w) + refuse_slots(&w);
	printf("refused %u\n", refused);
	count_lines(&w, nr);
	count_rounds(&w, vector, nr);
	free_world(&w);
	return 0;
}

/* ---- the C API --------------------------------------------------------------- */

struct api {
	tent_engine_t engine;
	tent_request_v1_t batch[BATCH_MAX];
	tent_request_t older[BATCH_MAX];	/* the same ones */
	bool legacy;
	uint32_t submits, overall, task;	/* calls */
};

static void need_api(bool ok, const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	if (ok)
		return;
	tent_last_error(&info);
	fprintf(stderr, "cost_driver: %s: %s\n", what, info.message);
	exit(1);
}

/* Of the priority that v1 has where it names none. */
static void make_older(struct api *a)
{
	for (uint32_t i = 0; i < BATCH_MAX; i++)
		a->older[i] = (tent_request_t) {
			.opcode = a->batch[i].opcode, .source = a->batch[i].source,
			.target_id = a->batch[i].target_id,
			.target_offset = a->batch[i].target_offset,
			.length = a->batch[i].length, .priority = TENT_PRIORITY_MEDIUM - 1,
		};
}

static void make_api(struct api *a, bool pending)
{
	char config[160];
	void *memory;

	snprintf(config, sizeof(config), "{ \"transports\": { \"shm\": { \"enable\": false }, "
		 "\"null\": { \"enable\": true, \"faults\": \"%s\" } } }",
		 pending ? "busy=2" : "");
	setenv("TENT_ENGINE", "caller", 1);
	setenv("MC_TENT_CONF", config, 1);
	a->engine = tent_create_engine();
	need_api(tent_available(a->engine), "engine");
	need_api(!tent_allocate_memory(a->engine, &memory, REGIONS * REGION_BYTES, "*") &&
		 !tent_register_memory(a->engine, memory, REGIONS * REGION_BYTES), "memory");
	for (uint32_t i = 0; i < BATCH_MAX; i++)
		a->batch[i] = (tent_request_v1_t) {
			.struct_size = TENT_REQUEST_V1_SIZE,
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = TENT_OPCODE_WRITE,
			.source = (uint8_t *)memory + i * 11 % REGIONS * REGION_BYTES,
			.target_id = TENT_LOCAL_SEGMENT,
			.target_offset = (uintptr_t)memory + i * 29 % REGIONS * REGION_BYTES + 64,
			.length = 64,
		};
	make_older(a);
}

static int api_submit(const struct api *a, tent_batch_id_t batch, uint32_t nr)
{
	return a->legacy ? tent_submit(a->engine, batch, (tent_request_t *)a->older, nr) :
			   tent_submit_v1(a->engine, batch, a->batch, nr);
}

/* That of the whole batch and that of a task take turns at being the first look, which
 * in "pending" is the one that reaps. */
static void api_round(struct api *a, uint32_t nr, bool tasks_first)
{
	tent_batch_id_t batch = tent_allocate_batch(a->engine, nr);
	tent_status_t status = { .status = TENT_STATUS_PENDING };

	need_api(!api_submit(a, batch, nr), "submit");
	a->submits++;
	while (!tasks_first && status.status < TENT_STATUS_INVALID) {
		need_api(!tent_overall_status(a->engine, batch, &status), "status");
		a->overall++;
	}
	for (uint32_t i = 0; i < nr; i += status.status >= TENT_STATUS_INVALID) {
		need_api(!tent_task_status(a->engine, batch, i, &status), "task status");
		need_api(status.status <= TENT_STATUS_COMPLETED, "a task failed");
		a->task++;
	}
	need_api(!tent_free_batch(a->engine, batch), "free batch");
}

static int run_api(const char *vector, uint32_t nr)
{
	static struct api a;

	make_api(&a, !strcmp(vector, "pending"));
	a.legacy = !strcmp(vector, "legacy");
	for (int i = 0; i < 2 * ROUNDS; i++) {
		if (i == ROUNDS) {
			a.submits = a.overall = a.task = 0;
			cost_begin();
		}
		api_round(&a, nr, i % 2);
	}
	cost_end();
	printf("calls %s %u\ncalls tent_overall_status %u\ncalls tent_task_status %u\n",
	       a.legacy ? "tent_submit" : "tent_submit_requests", a.submits, a.overall, a.task);
	tent_destroy_engine(a.engine);
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t nr = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;

	if (nr < 1 || nr > BATCH_MAX) {
		fprintf(stderr, "usage: cost_driver VECTOR 1..%d; vectors: one four full far "
			"metered policy policy4 api legacy pending control\n", BATCH_MAX);
		return 2;
	}
	if (!strcmp(argv[1], "api") || !strcmp(argv[1], "legacy") || !strcmp(argv[1], "pending"))
		return run_api(argv[1], nr);
	return run_vector(argv[1], nr);
}
