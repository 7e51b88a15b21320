/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_killed.c - three clients of one tentd: a store, a survivor that reads and
 * verifies the store's blocks all the time, and a victim. The victim writes to the
 * store and is read by the survivor when SIGKILL hits it. Every request must end,
 * those that touched the victim's memory with that reason, and the survivor must
 * not notice anything else.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tent/ctl.h>
#include <tent/tentring.h>

#include "perf/common/complain.h"
#include "perf/common/content.h"
#include "perf/common/daemon.h"
#include "perf/common/process.h"
#include "perf/common/samples.h"
#include "perf/common/scene.h"

#define MIB (1ull << 20)
#define STORE_BLOCKS 1024u		/* that the survivor verifies */
#define READ_BATCH 16u			/* blocks */
#define BIG (512 * 1024ull)		/* a request on the victim's memory, bytes */
#define BIG_BATCH 256u
#define SEED 7
#define PHASE_NS 1000000000ull		/* before and after the death */

/* A segment's bytes as the helper tells them: name and address. */
struct place {
	char name[96];
	uint64_t base;
	tent_segment_id_t id;
};

static int tell(struct helper *h, tent_engine_t e, const void *base)
{
	char name[96], line[128];

	if (tent_segment_name(e, name, sizeof(name)))
		return complain("tent_segment_name");
	snprintf(line, sizeof(line), "%s %llu", name, (unsigned long long)(uintptr_t)base);
	return helper_say(h, line);
}

static int find(tent_engine_t e, const char *said, struct place *p)
{
	unsigned long long base;

	if (sscanf(said, "%95s %llu", p->name, &base) != 2)
		return scene_fail("a helper said something odd");
	p->base = base;
	return tent_open_segment(e, &p->id, p->name) ? complain("tent_open_segment") : 0;
}

/* The store: blocks to read, then room for the victim to write to. */
static int store_main(struct helper *h, const void *arg)
{
	tent_engine_t e = scene_attach(arg, "store");
	uint8_t *m = scene_memory(e, STORE_BLOCKS * SCENE_BLOCK + BIG_BATCH * BIG);

	if (!m)
		return 1;
	for (uint32_t i = 0; i < STORE_BLOCKS; i++)
		content_fill(m + i * SCENE_BLOCK, SCENE_BLOCK, SEED, i);
	if (tell(h, e, m))
		return 1;
	helper_wait(h);
	tent_destroy_engine(e);
	return 0;
}

struct victim_args {
	const char *url, *store_said;
};

static int submit_big(tent_engine_t e, tent_batch_id_t *batch, int opcode, uint8_t *mine,
		      tent_segment_id_t target, uint64_t base)
{
	static tent_request_v1_t entries[BIG_BATCH];

	for (uint32_t i = 0; i < BIG_BATCH; i++) {
		entries[i] = scene_request(opcode, mine + i * BIG, target, base + i * BIG, BIG);
		entries[i].intent_type = TENT_INTENT_CHECKPOINT;
		entries[i].requested_priority = TENT_PRIORITY_LOW;
	}
	*batch = tent_allocate_batch(e, BIG_BATCH);
	return tent_submit_v1(e, *batch, entries, BIG_BATCH) ? complain("submit") : 0;
}

/* Waits without taking a core from the others. */
static int doze(tent_engine_t e, tent_batch_id_t batch)
{
	static const struct timespec step = { .tv_nsec = 1000000 };
	tent_status_t status;

	while (!tent_overall_status(e, batch, &status)) {
		if (status.status > TENT_STATUS_PENDING)
			return status.status;
		nanosleep(&step, NULL);
	}
	return -1;
}

/* Writes its memory to the store, two batches at a time, until it is killed. */
static int victim_main(struct helper *h, const void *arg)
{
	const struct victim_args *a = arg;
	tent_engine_t e = scene_attach(a->url, "victim");
	uint8_t *m = scene_memory(e, BIG_BATCH * BIG);
	tent_batch_id_t batches[2];
	struct place store;

	if (!m || find(e, a->store_said, &store))
		return 1;
	for (uint32_t i = 0; i < BIG_BATCH; i++)
		content_fill(m + i * BIG, BIG, SEED, i);
	for (uint32_t i = 0;; i++) {
		if (i >= 2 && doze(e, batches[i % 2]) != TENT_STATUS_COMPLETED)
			return 1;
		if (submit_big(e, &batches[i % 2], TENT_OPCODE_WRITE, m, store.id,
			       store.base + STORE_BLOCKS * SCENE_BLOCK))
			return 1;
		if (i == 1 && tell(h, e, m))
			return 1;
	}
}

/* What the whole engine counts. */
struct totals {
	uint64_t unfinished;		/* requests that ended without completing */
	uint64_t in_flight;
};

static uint64_t number(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static int read_totals(const char *path, struct totals *t)
{
	struct tent_client *client = NULL;
	json_t *json, *totals;
	char *text = NULL;
	int rc = -1;

	if (tent_client_observe(path, &client) ||
	    tent_client_query(client, TENT_QUERY_STATS, &text))
		complain_ring("stats");
	json = text ? json_loads(text, 0, NULL) : NULL;
	totals = json_object_get(json, "totals");
	if (totals) {
		t->unfinished = number(totals, "failed") + number(totals, "canceled") +
				number(totals, "timed_out");
		t->in_flight = number(totals, "in_flight");
		rc = 0;
	}
	json_decref(json);
	free(text);
	tent_client_detach(client);
	return rc;
}

struct survivor {
	tent_engine_t engine;
	const char *socket;
	uint8_t *staging;		/* READ_BATCH blocks */
	uint8_t *big;			/* BIG_BATCH requests */
	struct place store, victim;
	uint64_t next;			/* block of the store to read */
	uint64_t verified, wrong;
	uint64_t unfinished;		/* requests of its own that did not complete */
	struct samples latency_ns;
};

/* Reads blocks of the store that are spread over it, and checks every byte. */
static int read_some(struct survivor *s)
{
	tent_request_v1_t entries[READ_BATCH];
	uint64_t ids[READ_BATCH], begin = tent_monotonic_now_ns();
	tent_batch_id_t batch = tent_allocate_batch(s->engine, READ_BATCH);

	for (uint32_t i = 0; i < READ_BATCH; i++) {
		ids[i] = s->next++ * 389 % STORE_BLOCKS;
		entries[i] = scene_request(TENT_OPCODE_READ, s->staging + i * SCENE_BLOCK,
					   s->store.id, s->store.base + ids[i] * SCENE_BLOCK,
					   SCENE_BLOCK);
		entries[i].intent_type = TENT_INTENT_FOREGROUND_GET;
		entries[i].requested_priority = TENT_PRIORITY_HIGH;
	}
	if (tent_submit_v1(s->engine, batch, entries, READ_BATCH))
		return complain("submit");
	if (scene_await(s->engine, batch) != TENT_STATUS_COMPLETED)
		return scene_fail("a read of the store failed");
	samples_add(&s->latency_ns, tent_monotonic_now_ns() - begin);
	for (uint32_t i = 0; i < READ_BATCH; i++)
		if (content_check(s->staging + i * SCENE_BLOCK, SCENE_BLOCK, SEED, ids[i]) !=
		    SCENE_BLOCK)
			s->wrong++;
	s->verified += READ_BATCH;
	tent_free_batch(s->engine, batch);
	return 0;
}

static int read_for(struct survivor *s, uint64_t ns)
{
	uint64_t end = tent_monotonic_now_ns() + ns;

	while (tent_monotonic_now_ns() < end)
		if (read_some(s))
			return -1;
	return 0;
}

/* How the big batch's requests ended; what completed is verified. */
static int print_ends(struct survivor *s, tent_batch_id_t batch)
{
	struct tent_error_info info = { .size = sizeof(info) }, first = { 0 };
	uint32_t whole = 0, gone = 0, other = 0;

	for (uint32_t i = 0; i < BIG_BATCH; i++) {
		tent_status_t status;

		if (tent_task_status(s->engine, batch, i, &status))
			return complain("tent_task_status");
		if (status.status == TENT_STATUS_COMPLETED) {
			whole++;
			s->wrong += content_check(s->big + i * BIG, BIG, SEED, i) != BIG;
			continue;
		}
		tent_task_error(s->engine, batch, i, &info);
		if (!first.error)
			first = info;
		*(info.error == TENT_ERR_OWNER_GONE ? &gone : &other) += 1;
	}
	s->unfinished = gone + other;
	printf("  reads of its memory        %u of %u had completed (verified); %u ended with "
	       "error %d, TENT_ERR_OWNER_GONE:\n", whole, BIG_BATCH, gone, TENT_ERR_OWNER_GONE);
	printf("                             %s\n", first.message);
	return gone && !other ? 0 : scene_fail("not the end that was promised");
}

static int kill_it(struct survivor *s, struct process *victim)
{
	tent_batch_id_t batch;
	tent_status_t status = { 0 };
	uint64_t begin;

	if (submit_big(s->engine, &batch, TENT_OPCODE_READ, s->big, s->victim.id,
		       s->victim.base))
		return -1;
	begin = tent_monotonic_now_ns();
	kill(victim->pid, SIGKILL);
	while (status.status <= TENT_STATUS_PENDING)
		if (read_some(s) || tent_overall_status(s->engine, batch, &status))
			return complain("while it died");
	printf("  SIGKILL                    its last request ended %.1f ms later\n",
	       (double)(tent_monotonic_now_ns() - begin) / 1e6);
	return print_ends(s, batch);
}

static void print_survivor(struct survivor *s, const char *when)
{
	printf("  %-26s %llu blocks of the store verified, %llu wrong; batches of "
	       "16: p50 %.0f us, max %.1f ms\n", when, (unsigned long long)s->verified,
	       (unsigned long long)s->wrong,
	       (double)samples_percentile(&s->latency_ns, 0.5) / 1e3,
	       (double)samples_max(&s->latency_ns) / 1e6);
	s->verified = 0;
	s->latency_ns.nr = 0;
}

/* The victim cannot say how its own requests ended; the engine counted them. */
static int print_own(struct survivor *s, const struct totals *before)
{
	struct totals after;
	uint64_t own;

	if (read_totals(s->socket, &after))
		return -1;
	own = after.unfinished - before->unfinished - s->unfinished;
	printf("  its own writes             %llu were ended by the engine; %llu are in flight\n",
	       (unsigned long long)own, (unsigned long long)after.in_flight);
	return own && !after.in_flight ? 0 : scene_fail("not all of its requests ended");
}

/* Its name must be free and its segment gone. */
static int reopen(struct survivor *s)
{
	struct tent_error_info info = { .size = sizeof(info) };
	tent_segment_id_t id;
	tent_engine_t e = s->engine;

	tent_close_segment(e, s->victim.id);
	if (tent_open_segment(e, &id, s->victim.name) == 0)
		return scene_fail("the victim's segment can still be opened");
	tent_last_error(&info);
	printf("  its segment                %s\n", info.message);
	return 0;
}

static int survive(struct survivor *s, struct process *victim)
{
	struct totals before;

	if (read_for(s, PHASE_NS) || read_totals(s->socket, &before))
		return -1;
	print_survivor(s, "the survivor, before");
	if (kill_it(s, victim))
		return -1;
	print_survivor(s, "meanwhile");
	if (read_for(s, PHASE_NS))
		return -1;
	print_survivor(s, "after");
	if (s->wrong || print_own(s, &before))
		return -1;
	return reopen(s);
}

static int run_survivor(const struct daemon *d, struct process *store, struct process *victim)
{
	struct survivor s = { .engine = scene_attach(d->url, "survivor"), .socket = d->socket };
	uint8_t *m = scene_memory(s.engine, READ_BATCH * SCENE_BLOCK + BIG_BATCH * BIG);
	int rc = -1;

	samples_init(&s.latency_ns, 1 << 16);
	s.staging = m;
	s.big = m ? m + READ_BATCH * SCENE_BLOCK : NULL;
	if (m && !find(s.engine, store->said, &s.store) &&
	    !find(s.engine, victim->said, &s.victim))
		rc = survive(&s, victim);
	samples_free(&s.latency_ns);
	tent_destroy_engine(s.engine);
	return rc;
}

int show_killed(void)
{
	struct process store = { 0 }, victim = { 0 };
	struct victim_args args;
	struct daemon d;
	int rc = -1;

	if (daemon_start(&d, "\"engine\": { " DAEMON_PATIENT " }"))
		return -1;
	args = (struct victim_args) { .url = d.url, .store_said = store.said };
	if (process_start(&store, "show-store", store_main, d.url) == 0 &&
	    process_start(&victim, "show-victim", victim_main, &args) == 0)
		rc = run_survivor(&d, &store, &victim);
	if (rc && victim.pid > 0)
		kill(victim.pid, SIGKILL);	/* it never ends by itself */
	if (process_stop(&victim) != 128 + SIGKILL)
		rc = scene_fail("the victim ended before it was killed");
	if (process_stop(&store))
		rc = scene_fail("the store failed");
	return daemon_stop(&d) ? scene_fail("tentd did not end cleanly") : rc;
}
