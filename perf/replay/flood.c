/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.c - a checkpoint that never ends: all of its batches are in flight all
 * the time, so that the engine always has more to copy than it can.
 */
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/content.h"
#include "perf/replay/replay.h"

#define FLOOD_BATCH 64u			/* blocks */
#define FLOOD_ID (1ull << 63)		/* ids no trace has */

static uint32_t flood_blocks(const struct server *s)
{
	return (uint32_t)(s->o->flood / s->o->block);
}

static void start_batch(struct server *s, uint32_t first, uint32_t nr)
{
	struct job *j = job_new(FLOOD, nr, tent_monotonic_now_ns());

	for (uint32_t i = first; i < first + nr; i++)
		job_add(j, FLOOD_ID + i, s->flood + i * s->o->block,
			s->pool_base + s->o->pool + i * s->o->block, POOL_NONE);
	job_submit(s, j);
}

int flood_start(struct server *s)
{
	uint32_t blocks = flood_blocks(s);
	void *memory;

	if (tent_allocate_memory(s->engine, &memory, s->o->flood, "*") ||
	    tent_register_memory_with_perm(s->engine, memory, s->o->flood,
					   TENT_PERM_LOCAL_READ_WRITE))
		return complain("flood memory");
	s->flood = memory;
	for (uint32_t i = 0; i < blocks; i++)
		content_fill(s->flood + i * s->o->block, s->o->block, s->o->seed, FLOOD_ID + i);
	for (uint32_t i = 0; i < blocks; i += FLOOD_BATCH)
		start_batch(s, i, blocks - i < FLOOD_BATCH ? blocks - i : FLOOD_BATCH);
	return *s->stats->first_error ? -1 : 0;
}

/* Is anything but the flood left to do? */
static bool others_left(const struct server *s)
{
	if (s->next < s->trace->nr_requests || s->to_fill.nr)
		return true;
	for (const struct job *j = s->running.first; j; j = j->next)
		if (j->traffic != FLOOD)
			return true;
	return false;
}

void flood_again(struct server *s, struct job *j)
{
	if (j->failed || s->lost || !others_left(s)) {
		free(j);
		return;
	}
	j->scheduled_ns = tent_monotonic_now_ns();
	job_submit(s, j);
}

/* Reads one batch of the flood's area back over its source and checks it. */
static int verify_batch(struct server *s, uint32_t first, uint32_t nr)
{
	struct job *j = job_new(GET, nr, 0);
	tent_status_t status = { .status = TENT_STATUS_PENDING };

	for (uint32_t i = first; i < first + nr; i++) {
		uint8_t *buffer = s->flood + i * s->o->block;

		content_fill(buffer, s->o->block, ~s->o->seed, i);
		job_add(j, FLOOD_ID + i, buffer, s->pool_base + s->o->pool + i * s->o->block,
			POOL_NONE);
	}
	if (job_try_submit(s, j)) {
		free(j);
		return complain("flood: submit");
	}
	while (status.status <= TENT_STATUS_PENDING)
		if (tent_overall_status(s->engine, j->batch, &status))
			break;
	tent_free_batch(s->engine, j->batch);
	if (status.status == TENT_STATUS_COMPLETED) {
		s->stats->read_bytes += status.transferred_bytes;
		while (!job_verify_one(s, j))
			;
	} else {
		server_note_error(s, "reading the flood back ended with state %d", status.status);
	}
	free(j);
	return 0;
}

int flood_verify(struct server *s)
{
	uint32_t blocks = flood_blocks(s);

	for (uint32_t i = 0; i < blocks; i += FLOOD_BATCH)
		if (verify_batch(s, i, blocks - i < FLOOD_BATCH ? blocks - i : FLOOD_BATCH))
			return -1;
	return 0;
}
