/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - one batch of transfers at a time, and every byte of it checked. */
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/content.h"
#include "perf/replay/replay.h"

static const struct {
	int opcode, intent, priority;
} asks[TRAFFIC_COUNT] = {
	[GET] = { TENT_OPCODE_READ, TENT_INTENT_FOREGROUND_GET, TENT_PRIORITY_HIGH },
	[PREFETCH] = { TENT_OPCODE_READ, TENT_INTENT_BACKGROUND_PREFETCH,
		       TENT_PRIORITY_MEDIUM },
	[CHECKPOINT] = { TENT_OPCODE_WRITE, TENT_INTENT_CHECKPOINT, TENT_PRIORITY_LOW },
	[FLOOD] = { TENT_OPCODE_WRITE, TENT_INTENT_CHECKPOINT, TENT_PRIORITY_LOW },
};

void job_list_init(struct job_list *l)
{
	*l = (struct job_list) { .last = &l->first };
}

void job_list_add(struct job_list *l, struct job *j)
{
	j->next = NULL;
	*l->last = j;
	l->last = &j->next;
	l->nr++;
}

static struct job *take_at(struct job_list *l, struct job **at)
{
	struct job *j = *at;

	*at = j->next;
	if (!j->next)
		l->last = at;
	l->nr--;
	return j;
}

struct job *job_list_take(struct job_list *l)
{
	return l->first ? take_at(l, &l->first) : NULL;
}

struct job *job_new(enum traffic traffic, uint32_t room, uint64_t scheduled_ns)
{
	struct job *j = calloc(1, sizeof(*j) + room * sizeof(*j->blocks));

	if (!j) {
		fprintf(stderr, "out of memory for a batch of %u blocks\n", room);
		exit(1);
	}
	j->traffic = traffic;
	j->scheduled_ns = scheduled_ns;
	return j;
}

void job_add(struct job *j, uint64_t id, uint8_t *buffer, uint64_t target, uint32_t slot)
{
	j->blocks[j->nr++] = (struct job_block) {
		.id = id, .buffer = buffer, .target = target, .slot = slot,
	};
}

static void build(const struct server *s, const struct job *j, tent_request_v1_t *entries)
{
	for (uint32_t i = 0; i < j->nr; i++)
		entries[i] = (tent_request_v1_t) {
			.struct_size = sizeof(tent_request_v1_t),
			.schema_version = TENT_REQUEST_SCHEMA_V1,
			.opcode = asks[j->traffic].opcode,
			.source = j->blocks[i].buffer,
			.target_id = s->target,
			.target_offset = j->blocks[i].target,
			.length = s->o->block,
			.intent_type = asks[j->traffic].intent,
			.requested_priority = asks[j->traffic].priority,
			.deadline_ns = j->deadline_ns,
		};
}

static void note_last_error(struct server *s, const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_last_error(&info);
	server_note_error(s, "%s: entry %u: %s", what, info.index, info.message);
}

int job_try_submit(struct server *s, struct job *j)
{
	j->done = 0;
	j->failed = false;
	build(s, j, s->entries);
	j->batch = tent_allocate_batch(s->engine, j->nr);
	if (j->batch == TENT_INVALID_BATCH)
		return TENT_ERR_CAPACITY;
	return tent_submit_v1(s->engine, j->batch, s->entries, j->nr);
}

/* It failed: is it because an engine was killed? */
static bool blame_kill(struct server *s, const struct job *j)
{
	if (!kills_explain(s))
		return false;
	s->stats->killed_requests += j->nr;
	return true;
}

void job_submit(struct server *s, struct job *j)
{
	int rc = job_try_submit(s, j);

	if (rc == 0) {
		job_list_add(&s->running, j);
		return;
	}
	if (!blame_kill(s, j)) {
		note_last_error(s, "submit");
		s->lost |= rc == TENT_ERR_ENGINE_LOST;
	}
	j->failed = true;
	server_job_ended(s, j);
}

static void note_task_error(struct server *s, struct job *j, int status)
{
	struct tent_error_info info = { .size = sizeof(info) };
	tent_status_t task;

	for (uint32_t i = 0; i < j->nr; i++) {
		if (tent_task_status(s->engine, j->batch, i, &task) ||
		    task.status == TENT_STATUS_COMPLETED)
			continue;
		tent_task_error(s->engine, j->batch, i, &info);
		server_note_error(s, "task %u of %u ended with state %d: %s", i, j->nr,
				  task.status, info.message);
		return;
	}
	server_note_error(s, "batch ended with state %d", status);
}

/* True when the batch has ended. */
static bool ended(struct server *s, struct job *j)
{
	tent_status_t status;

	if (tent_overall_status(s->engine, j->batch, &status)) {
		j->failed = true;
		if (!blame_kill(s, j)) {
			note_last_error(s, "status");
			s->lost = true;
		}
		return true;
	}
	if (status.status == TENT_STATUS_WAITING || status.status == TENT_STATUS_PENDING)
		return false;
	if (status.status != TENT_STATUS_COMPLETED) {
		if (!blame_kill(s, j))
			note_task_error(s, j, status.status);
		j->failed = true;
	} else if (asks[j->traffic].opcode == TENT_OPCODE_READ) {
		s->stats->read_bytes += status.transferred_bytes;
	}
	return true;
}

bool jobs_poll(struct server *s)
{
	struct job **at = &s->running.first;
	bool any = false;

	while (*at) {
		struct job *j = *at;

		if (!ended(s, j)) {
			at = &j->next;
			continue;
		}
		take_at(&s->running, at);
		server_job_ended(s, j);
		any = true;
	}
	return any;
}

bool job_fill_one(struct server *s, struct job *j)
{
	struct job_block *b = &j->blocks[j->done];

	content_fill(b->buffer, s->o->block, s->o->seed, b->id);
	return ++j->done == j->nr;
}

bool job_verify_one(struct server *s, struct job *j)
{
	const struct job_block *b = &j->blocks[j->done];
	size_t right = content_check(b->buffer, s->o->block, s->o->seed, b->id);

	if (right == s->o->block) {
		s->stats->verified_bytes += right;
	} else {
		s->stats->wrong_blocks++;
		server_note_error(s, "block %llu in slot %u is wrong from byte %zu on",
				  (unsigned long long)b->id, b->slot, right);
	}
	return ++j->done == j->nr;
}
