/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - the inference server of the replay: an open loop over the trace.
 *
 * A request is started when it is due, however busy the rest is, and its latency
 * counts from that moment. Bytes are made and checked one block at a time in
 * between, so that neither delays what is due or what has ended by more than the
 * time of one block.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perf/replay/replay.h"

#define SLEEP_SLACK_NS 200000	/* wake up this much before the next request */

uint8_t *buffer_take(struct server *s)
{
	return s->nr_free ? s->free_buffers[--s->nr_free] : NULL;
}

void buffer_give(struct server *s, uint8_t *buffer)
{
	s->free_buffers[s->nr_free++] = buffer;
}

void server_note_error(struct server *s, const char *format, ...)
{
	va_list args;

	if (*s->stats->first_error)
		return;
	va_start(args, format);
	vsnprintf(s->stats->first_error, sizeof(s->stats->first_error), format, args);
	va_end(args);
}

static uint64_t slot_address(const struct server *s, uint32_t slot)
{
	return s->pool_base + (uint64_t)slot * s->o->block;
}

/* Background work leaves a quarter of the buffers to the foreground. */
static bool background_may_take(const struct server *s, uint32_t nr)
{
	return s->nr_free >= s->nr_buffers / 4 + nr;
}

static void add_read(struct server *s, struct job *j, uint32_t slot)
{
	pool_pin(&s->pool, slot);
	job_add(j, s->pool.slots[slot].id, buffer_take(s), slot_address(s, slot), slot);
}

/* Sorts a request's blocks: stored ones into get, new ones into put. From the
 * last to the first, so that a prefix outlives what follows it in the LRU. */
static void sort_blocks(struct server *s, const uint64_t *ids, uint32_t nr, struct job *get,
			struct job *put)
{
	for (uint32_t i = nr; i-- > 0;) {
		uint32_t slot = pool_find(&s->pool, ids[i]);

		s->stats->blocks++;
		if (slot == POOL_NONE) {
			slot = pool_claim(&s->pool, ids[i]);
			if (slot == POOL_NONE)
				s->stats->skipped_writes++;
			else
				job_add(put, ids[i], NULL, slot_address(s, slot), slot);
		} else if (s->pool.slots[slot].state == POOL_WRITING) {
			s->stats->unwritten++;
		} else {
			s->stats->hits++;
			s->stats->prefetch_used += s->pool.slots[slot].prefetched;
			s->pool.slots[slot].prefetched = false;
			add_read(s, get, slot);
		}
	}
}

static uint32_t count_stored(const struct server *s, const uint64_t *ids, uint32_t nr,
			     uint32_t *last)
{
	uint32_t stored = 0;

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t slot = pool_find(&s->pool, ids[i]);

		if (slot == POOL_NONE)
			continue;
		*last = i;
		stored += s->pool.slots[slot].state == POOL_STORED;
	}
	return stored;
}

static bool is_among(uint64_t id, const uint64_t *ids, uint32_t nr)
{
	while (nr > 0)
		if (ids[--nr] == id)
			return true;
	return false;
}

/* What last followed the prefix that this request shares with earlier ones. */
static struct job *choose_prefetch(struct server *s, const uint64_t *ids, uint32_t nr,
				   uint32_t shared, uint64_t scheduled_ns)
{
	uint64_t next[64];
	uint32_t max = s->o->prefetch < 64 ? (uint32_t)s->o->prefetch : 64;
	struct job *j;

	max = successors_follow(&s->successors, ids[shared], next, max);
	if (!max || !background_may_take(s, max))
		return NULL;
	j = job_new(PREFETCH, max, scheduled_ns);
	for (uint32_t i = 0; i < max; i++) {
		uint32_t slot = pool_find(&s->pool, next[i]);

		if (slot == POOL_NONE || s->pool.slots[slot].state != POOL_STORED ||
		    is_among(next[i], ids, nr))
			continue;
		s->pool.slots[slot].prefetched = true;
		s->stats->prefetched++;
		add_read(s, j, slot);
	}
	return j;
}

static void add_or_free(struct job_list *l, struct job *j)
{
	if (j && j->nr)
		job_list_add(l, j);
	else
		free(j);
}

static uint64_t due_at(const struct server *s, size_t i)
{
	return s->start_ns + s->trace->requests[i].arrival_us * 1000 / s->o->speed;
}

/* False: too few buffers are free; it stays due. */
static bool start_request(struct server *s, uint64_t now)
{
	const struct trace_request *q = &s->trace->requests[s->next];
	const uint64_t *ids = s->trace->ids + q->first;
	uint64_t due = due_at(s, s->next);
	struct job *get, *put;
	uint32_t shared = UINT32_MAX;
	uint32_t stored = count_stored(s, ids, q->nr, &shared);

	if (stored > s->nr_free)
		return false;
	samples_add(&s->stats->lateness_ns, now - due);
	get = job_new(GET, q->nr, due);
	get->deadline_ns = due + s->o->ttft_ms * 1000000;
	put = job_new(CHECKPOINT, q->nr, due);
	sort_blocks(s, ids, q->nr, get, put);
	if (get->nr)
		job_submit(s, get);
	else
		free(get);
	if (shared != UINT32_MAX)
		add_or_free(&s->to_prefetch, choose_prefetch(s, ids, q->nr, shared, due));
	add_or_free(&s->to_fill, put);
	successors_learn(&s->successors, ids, q->nr);
	s->next++;
	return true;
}

static bool start_due(struct server *s)
{
	uint64_t now = tent_monotonic_now_ns();
	bool any = false;

	while (s->next < s->trace->nr_requests && due_at(s, s->next) <= now && !s->lost) {
		if (!start_request(s, now))
			break;
		any = true;
		now = tent_monotonic_now_ns();
	}
	while (s->to_prefetch.nr && !s->lost)	/* after every GET that is due */
		job_submit(s, job_list_take(&s->to_prefetch));
	return any;
}

static void record(struct server *s, const struct job *j, uint64_t now)
{
	struct traffic_stats *t = &s->stats->traffic[j->traffic];

	t->batches++;
	t->requests += j->nr;
	if (j->failed) {
		t->failed += j->nr;
		return;
	}
	t->bytes += j->nr * s->o->block;
	samples_add(&t->latency_ns, now - j->scheduled_ns);
	if (j->deadline_ns)
		*(now <= j->deadline_ns ? &t->met : &t->missed) += 1;
}

static void release(struct server *s, struct job *j)
{
	for (uint32_t i = 0; i < j->nr; i++)
		if (j->blocks[i].buffer)
			buffer_give(s, j->blocks[i].buffer);
	free(j);
}

void server_job_ended(struct server *s, struct job *j)
{
	record(s, j, tent_monotonic_now_ns());
	tent_free_batch(s->engine, j->batch);
	if (j->traffic == FLOOD) {
		flood_again(s, j);
		return;
	}
	for (uint32_t i = 0; i < j->nr; i++) {
		if (j->traffic != CHECKPOINT)
			pool_unpin(&s->pool, j->blocks[i].slot);
		else if (j->failed)
			pool_abandon(&s->pool, j->blocks[i].slot);
		else
			pool_stored(&s->pool, j->blocks[i].slot);
	}
	if (j->traffic == CHECKPOINT || j->failed)
		release(s, j);
	else
		job_list_add(&s->to_verify, j);
}

/* One block's worth of making bytes. False: nothing to do, or no buffer. */
static bool fill_some(struct server *s)
{
	struct job *j = s->to_fill.first;

	if (!j)
		return false;
	if (!background_may_take(s, 1))
		return false;
	j->blocks[j->done].buffer = buffer_take(s);
	if (job_fill_one(s, j))
		job_submit(s, job_list_take(&s->to_fill));
	return true;
}

static bool verify_some(struct server *s)
{
	struct job *j = s->to_verify.first;

	if (!j)
		return false;
	if (job_verify_one(s, j))
		release(s, job_list_take(&s->to_verify));
	return true;
}

static bool requests_left(const struct server *s)
{
	return s->next < s->trace->nr_requests || s->to_fill.nr || s->to_verify.nr;
}

static void sleep_until_due(const struct server *s)
{
	uint64_t wake = due_at(s, s->next) - SLEEP_SLACK_NS;
	struct timespec t = { .tv_sec = (time_t)(wake / 1000000000),
			      .tv_nsec = (long)(wake % 1000000000) };

	if (wake > tent_monotonic_now_ns())
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* A claim that was never submitted. */
static void give_up(struct server *s, struct job *j)
{
	for (uint32_t i = 0; i < j->nr; i++) {
		if (j->traffic == CHECKPOINT)
			pool_abandon(&s->pool, j->blocks[i].slot);
		else
			pool_unpin(&s->pool, j->blocks[i].slot);
	}
	release(s, j);
}

void server_finish_jobs(struct server *s)
{
	while (verify_some(s))
		;
	while (s->to_fill.nr)
		give_up(s, job_list_take(&s->to_fill));
	while (s->to_prefetch.nr)
		give_up(s, job_list_take(&s->to_prefetch));
}

static void loop(struct server *s)
{
	while (!s->lost && (requests_left(s) || s->running.nr || s->kills.killer)) {
		bool busy = jobs_poll(s);

		if (kills_struck(s) && kills_recover(s)) {
			s->lost = true;
			server_note_error(s, "the replay could not go on after a kill");
			break;
		}
		kills_begin_due(s);

		if (start_due(s))
			busy = true;
		/* Making bytes first: a checkpoint's latency runs. But when buffers
		 * are short, checking gives some back. */
		if (fill_some(s) || verify_some(s))
			busy = true;
		progress_show(s);
		if (!busy && !s->running.nr && s->next < s->trace->nr_requests)
			sleep_until_due(s);
	}
}

static uint32_t longest_request(const struct trace *t)
{
	uint32_t most = 1;

	for (size_t i = 0; i < t->nr_requests; i++)
		if (t->requests[i].nr > most)
			most = t->requests[i].nr;
	return most;
}

int server_open_memory(struct server *s)
{
	void *memory;

	if (tent_allocate_memory(s->engine, &memory, s->o->staging, "*") ||
	    tent_register_memory_with_perm(s->engine, memory, s->o->staging,
					   TENT_PERM_LOCAL_READ_WRITE))
		return complain("staging memory");
	s->staging = memory;
	s->nr_free = 0;
	for (uint32_t i = s->nr_buffers; i-- > 0;) {
		for (uint64_t at = 0; at < s->o->block; at += 4096)
			*(volatile uint8_t *)(s->staging + i * s->o->block + at) = 0;
		buffer_give(s, s->staging + i * s->o->block);
	}
	return 0;
}

static int prepare_buffers(struct server *s)
{
	uint32_t longest = longest_request(s->trace);

	s->nr_buffers = (uint32_t)(s->o->staging / s->o->block);
	if (s->nr_buffers / 2 < longest) {
		fprintf(stderr, "--staging holds %u blocks; the longest request has %u and "
			"needs twice that\n", s->nr_buffers, longest);
		return -1;
	}
	s->free_buffers = calloc(s->nr_buffers, sizeof(*s->free_buffers));
	s->entries = calloc(longest > 64 ? longest : 64, sizeof(*s->entries));
	if (!s->free_buffers || !s->entries)
		return fprintf(stderr, "out of memory\n"), -1;
	return server_open_memory(s);
}

static void init_stats(struct server *s)
{
	for (int t = 0; t < TRAFFIC_COUNT; t++)
		samples_init(&s->stats->traffic[t].latency_ns, s->trace->nr_requests + 1024);
	samples_init(&s->stats->lateness_ns, s->trace->nr_requests);
}

int server_run(struct server *s)
{
	init_stats(s);
	job_list_init(&s->running);
	job_list_init(&s->to_prefetch);
	job_list_init(&s->to_fill);
	job_list_init(&s->to_verify);
	pool_init(&s->pool, (uint32_t)(s->o->pool / s->o->block));
	successors_init(&s->successors, s->trace->nr_ids);
	if (prepare_buffers(s) || (s->o->checkpoint_flood && flood_start(s)))
		return -1;
	s->stats->begin_ns = tent_monotonic_now_ns();
	s->start_ns = s->stats->begin_ns + 1000000 - due_at(s, 0);
	loop(s);
	s->stats->end_ns = tent_monotonic_now_ns();
	progress_clear();
	if (s->o->checkpoint_flood && !s->lost && flood_verify(s))
		return -1;
	if (!s->lost && kills_close(s))
		return -1;
	s->stats->evictions = s->pool.evictions;
	pool_free(&s->pool);
	successors_free(&s->successors);
	free(s->free_buffers);
	free(s->entries);
	return 0;
}
