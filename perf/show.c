/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show.c - four things a reader of the promises wants to see happen, each against
 * a tentd of its own: a refusal, a downgrade, a death, and a path without system
 * calls. For `make demo`; what it prints is what happened, and it fails when that
 * is not what was promised.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "perf/common/complain.h"
#include "perf/common/content.h"
#include "perf/common/count_syscalls.h"
#include "perf/common/daemon.h"
#include "perf/common/machine.h"
#include "perf/common/scene.h"
#include "ring/client_ring.h"
#include "ring/clock.h"

/* ---- a refused batch --------------------------------------------------- */

static int print_refusal(int rc)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_last_error(&info);
	printf("  tent_submit_v1()  %d, TENT_ERR_ENUM is %d\n", rc, TENT_ERR_ENUM);
	printf("  first bad entry   index %u\n", info.index);
	printf("  field             %s\n", info.field);
	printf("  in words          %s\n", info.message);
	return rc == TENT_ERR_ENUM && info.index == 2 && !strcmp(info.field, "intent_type") ?
	       0 : scene_fail("that is not the refusal that was promised");
}

/* Four writes; the third asks for an intent that does not exist. */
static int refuse_one(tent_engine_t e, uint8_t *m)
{
	tent_batch_id_t batch = tent_allocate_batch(e, 4);
	tent_request_v1_t entries[4];
	size_t moved = 0;
	int rc;

	memset(m, 0xaa, 4 * SCENE_BLOCK);
	memset(m + 4 * SCENE_BLOCK, 0x55, 4 * SCENE_BLOCK);
	for (uint32_t i = 0; i < 4; i++) {
		entries[i] = scene_request(TENT_OPCODE_WRITE, m + i * SCENE_BLOCK,
					   TENT_LOCAL_SEGMENT,
					   (uint64_t)(uintptr_t)(m + (4 + i) * SCENE_BLOCK),
					   SCENE_BLOCK);
		entries[i].intent_type = i == 2 ? 77 : TENT_INTENT_CHECKPOINT;
	}
	rc = print_refusal(tent_submit_v1(e, batch, entries, 4));
	for (size_t i = 0; i < 4 * SCENE_BLOCK; i++)
		moved += m[4 * SCENE_BLOCK + i] != 0x55;
	printf("  bytes that moved  %zu of %u: the batch is refused whole\n", moved,
	       4 * SCENE_BLOCK);
	tent_free_batch(e, batch);
	return rc || moved ? -1 : 0;
}

static int show_refused(void)
{
	struct daemon d;
	tent_engine_t e;
	uint8_t *m;
	int rc = -1;

	if (daemon_start(&d, "\"engine\": { " DAEMON_PATIENT " }"))
		return -1;
	e = scene_attach(d.url, NULL);
	m = scene_memory(e, 8 * SCENE_BLOCK);
	if (m)
		rc = refuse_one(e, m);
	tent_destroy_engine(e);
	return daemon_stop(&d) ? -1 : rc;
}

/* ---- a downgrade ------------------------------------------------------- */

/* "name value, name value", the way one says it. */
static void print_members(const json_t *object)
{
	const char *name, *separator = "";
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);

		printf("%s%s %s", separator, name, text ? text :
		       json_is_string(value) ? json_string_value(value) : "?");
		free(text);
		separator = ", ";
	}
	putchar('\n');
}

/* Is the one downgrade that of the intent? */
static bool intent_was_downgraded(const json_t *entry)
{
	const json_t *list = json_object_get(entry, "downgrades");
	const char *rule = json_string_value(json_object_get(json_array_get(list, 0), "rule"));

	return json_array_size(list) == 1 && rule &&
	       !strcmp(rule, tent_rule_name(TENT_RULE_INTENT));
}

/* What is asked, made of it, and done, of the one entry. */
static int print_explain(const char *text)
{
	json_t *json = json_loads(text, 0, NULL), *value;
	json_t *entry = json_array_get(json_object_get(json, "entries"), 0);
	bool downgraded = intent_was_downgraded(entry);
	const char *name;
	size_t i;

	json_object_foreach(entry, name, value) {
		json_t *item;

		if (json_is_object(value)) {
			printf("    %-13s ", name);
			print_members(value);
		}
		json_array_foreach(value, i, item) {
			printf("    %-13s ", name);
			print_members(item);
		}
	}
	json_decref(json);
	return downgraded ? 0 : scene_fail("explain does not name the downgrade of the intent");
}

static int downgrade_one(tent_engine_t e, uint8_t *m)
{
	tent_batch_id_t batch = tent_allocate_batch(e, 1);
	tent_request_v1_t entry = scene_request(TENT_OPCODE_WRITE, m, TENT_LOCAL_SEGMENT,
					  (uint64_t)(uintptr_t)(m + SCENE_BLOCK), SCENE_BLOCK);
	char *json;
	int rc;

	entry.intent_type = 77;
	content_fill(m, SCENE_BLOCK, 1, 1);
	if (tent_explain_requests(e, &entry, 1, sizeof(entry), TENT_REQUEST_SCHEMA_V1, &json))
		return complain("tent_explain_requests");
	printf("  tent_explain_requests() of intent_type 77, in compat:\n");
	rc = print_explain(json);
	free(json);
	if (tent_submit_v1(e, batch, &entry, 1))
		return complain("tent_submit_v1");
	rc |= scene_await(e, batch) != TENT_STATUS_COMPLETED;
	rc |= content_check(m + SCENE_BLOCK, SCENE_BLOCK, 1, 1) != SCENE_BLOCK;
	tent_free_batch(e, batch);
	printf("  and submitted     %s\n", rc ? "it did not arrive" :
	       "completed, 64 KiB verified");
	return rc ? -1 : 0;
}

/* The same request, through the ring: its completion carries the flag. */
static int completion_flag(const char *path)
{
	struct tent_client *client = NULL;
	struct tent_ring *ring = NULL;
	struct tent_completion done = { 0 };
	struct tent_request_v1 entry;
	void *m;
	int rc = -1;

	if (tent_client_attach(path, NULL, &client) || tent_ring_open(client, 0, 0, &ring) ||
	    tent_client_alloc(client, SCENE_BLOCK, NULL, &m) ||
	    tent_client_register(client, m, SCENE_BLOCK, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0)) {
		complain_ring("attach");
		goto out;
	}
	entry = scene_request(TENT_OPCODE_WRITE, m, TENT_LOCAL_SEGMENT,
			(uint64_t)(uintptr_t)m + SCENE_BLOCK / 2, 64);
	entry.intent_type = 77;
	if (tent_ring_submit(ring, &entry, 1, sizeof(entry), 0, 0) ||
	    tent_ring_wait(ring, 5000000000ull) || !tent_ring_poll(ring, &done, 1)) {
		complain_ring("submit");
		goto out;
	}
	rc = done.flags & TENT_CQE_F_INTENT_DOWNGRADED ? 0 : -1;
	printf("  completion flags  0x%x: TENT_CQE_F_INTENT_DOWNGRADED is %s\n", done.flags,
	       rc ? "missing" : "set");
out:
	tent_ring_close(ring);
	tent_client_detach(client);
	return rc;
}

static int show_downgraded(void)
{
	struct daemon d;
	tent_engine_t e;
	uint8_t *m;
	int rc = -1;

	if (daemon_start(&d, "\"engine\": { " DAEMON_PATIENT ", \"validation\": \"compat\" }"))
		return -1;
	e = scene_attach(d.url, NULL);
	m = scene_memory(e, 2 * SCENE_BLOCK);
	if (m)
		rc = downgrade_one(e, m);
	tent_destroy_engine(e);
	if (!rc)
		rc = completion_flag(d.socket);
	return daemon_stop(&d) ? -1 : rc;
}

/* ---- no system calls --------------------------------------------------- */

#define MIB (1u << 20)
#define COUNT_BATCHES 2000u
#define COUNT_BATCH 32u
#define COUNT_HELD_UP_MAX (9 * COUNT_BATCHES) /* that waited, beside them */
#define COUNT_WARM 100u
#define SHOW_NOT_COUNTED 77	/* exit status */

static int count_round(tent_engine_t e, tent_request_v1_t *entries)
{
	tent_batch_id_t batch = tent_allocate_batch(e, COUNT_BATCH);

	if (tent_submit_v1(e, batch, entries, COUNT_BATCH))
		return complain("tent_submit_v1");
	if (scene_await(e, batch) != TENT_STATUS_COMPLETED)
		return scene_fail("a batch did not complete");
	tent_free_batch(e, batch);
	return 0;
}

/* Until so many batches made no system call, or one made one that it may not make. */
static int count_rounds(tent_engine_t e, tent_request_v1_t *entries, struct syscall_count *c)
{
	int rc = 0;

	while (!rc && !c->early && !c->others && c->free < COUNT_BATCHES &&
	       c->held_up < COUNT_HELD_UP_MAX) {
		uint32_t waits = c->waits;

		c->since_ns = clock_monotonic_ns();
		rc = count_round(e, entries);
		c->free += c->waits == waits;
		c->held_up += c->waits != waits;
	}
	c->since_ns = 0;
	return rc;
}

static int counted_run(void *arg, struct syscall_count *c)
{
	tent_request_v1_t entries[COUNT_BATCH];
	tent_engine_t e = scene_attach(arg, NULL);
	uint8_t *m = scene_memory(e, 2 * MIB);
	int rc = 0;

	if (!m)
		return 1;
	for (uint32_t i = 0; i < COUNT_BATCH; i++)
		entries[i] = scene_request(i % 2 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE,
				     m + i * 8192, TENT_LOCAL_SEGMENT,
				     (uint64_t)(uintptr_t)(m + MIB + i * 8192), 4096);
	for (uint32_t i = 0; !rc && i < COUNT_WARM; i++)
		rc = count_round(e, entries); /* the ring is opened, pages are there */
	if (!rc)
		rc = count_rounds(e, entries, c);
	tent_destroy_engine(e);
	return rc ? 1 : 0;
}

/*
 * Where others keep the engine off its core, a client that had no answer for
 * RING_SPIN_NS sleeps. Such a batch says nothing about the path and does not count.
 * One that slept sooner, or made any other call, does.
 */
static int judge_count(const struct syscall_count *c)
{
	if (c->others)
		printf(" and %u others, number %ld among them: FAIL\n", c->others, c->first);
	else if (c->early)
		printf(", %u before the engine was silent for %u us: FAIL\n", c->early,
		       RING_SPIN_NS / 1000);
	else if (c->free < COUNT_BATCHES)
		printf(", in %u batches of %u: FAIL\n", c->held_up, c->held_up + c->free);
	else if (c->held_up)
		printf(": %u batches more had no answer for %u us\n", c->held_up,
		       RING_SPIN_NS / 1000);
	else
		putchar('\n');
	return c->others || c->early || c->free < COUNT_BATCHES ? -1 : 0;
}

/* 0; -1: more than is allowed; SHOW_NOT_COUNTED: nobody may trace here, or those who
 * spin have to yield to each other. */
static int count_and_print(const char *what, const char *engine, uint32_t spinners)
{
	struct syscall_count c;
	int rc;

	if (machine_cores() < spinners) {
		printf("  %-41s NOT COUNTED: it takes %u cores\n", what, spinners);
		return SHOW_NOT_COUNTED;
	}
	rc = count_syscalls(counted_run, (void *)(uintptr_t)engine, RING_SPIN_NS, &c);
	if (rc) {
		printf("  %-41s NOT COUNTED: %s\n", what, strerror(-rc));
		return rc == -EPERM ? SHOW_NOT_COUNTED : -1;
	}
	printf("  %-41s 0 in %u requests", what, c.free * COUNT_BATCH);
	if (c.waits)
		printf(", %u waits", c.waits);
	return judge_count(&c);
}

static int show_syscalls(void)
{
	int client, caller;
	struct daemon d;

	if (daemon_start(&d, "\"engine\": { " DAEMON_PATIENT ", \"idle\": \"busy\" }"))
		return -1;
	client = count_and_print("system calls, client of a busy tentd", d.url, 2);
	if (daemon_stop(&d))
		return -1;
	setenv("MC_TENT_CONF", "{ \"engine\": { \"idle\": \"busy\" }, "
	       "\"peers\": { \"enable\": false } }", 1);
	caller = count_and_print("system calls, client and engine, caller", "caller", 1);
	return client < 0 || caller < 0 ? -1 : client ? client : caller;
}

/* show_killed() is in perf/common/scene_killed.c. */
static const struct scene {
	const char *name, *what;
	int (*run)(void);
} scenes[] = {
	{ "refused", "a batch with one bad entry", show_refused },
	{ "downgraded", "an unknown intent in compat mode, explained", show_downgraded },
	{ "syscalls", "system calls of a client", show_syscalls },
	{ "killed", "a client that dies in mid-run", show_killed },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(scenes) / sizeof(*scenes); i++)
		if (!strcmp(argv[1], scenes[i].name)) {
			int rc = scenes[i].run();

			return rc < 0 ? 1 : rc;
		}
	fprintf(stderr, "usage: show SCENE, each with a tentd of its own:\n");
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		fprintf(stderr, "  %-12s %s\n", scenes[i].name, scenes[i].what);
	return 2;
}
