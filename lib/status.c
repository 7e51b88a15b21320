/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - batches, and what a program can learn about their tasks.
 *
 * Polling takes no lock when there is nothing to learn. Otherwise whoever gets the
 * ring's lock takes the completions over; the others read what is there. A value is
 * believed only if the batch's id is still the same after it was read.
 */
#include <stdio.h>
#include <string.h>

#include "engine/words.h"
#include "lib/lib.h"
#include "ring/client.h"
#include "ring/rules.h"

tent_batch_id_t tent_allocate_batch(tent_engine_t engine, size_t batch_size)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_batch *b = NULL;
	struct lib_ring *r;
	uint64_t id = TENT_INVALID_BATCH;

	if (!e)
		return TENT_INVALID_BATCH;
	if (!batch_size || batch_size > LIB_BATCH_MAX) {
		lib_fail_text(TENT_ERR_ARGUMENTS, TENT_RULE_ARG_VALUE, "batch_size",
			      "batch_size is %zu; allowed: 1..%u", batch_size, LIB_BATCH_MAX);
		return TENT_INVALID_BATCH;
	}
	r = lib_ring_mine(e);
	if (!r)
		return TENT_INVALID_BATCH;
	lib_lock(&r->lock); /* an engine that is being destroyed closed its rings */
	if (!r->tent || !lib_engine_is(e, (uintptr_t)engine)) {	/* or is another by now */
		lib_fail(TENT_RULE_ENGINE_LOST, 0);
	} else {
		b = lib_batch_new((uintptr_t)engine, r, (uint32_t)batch_size);
		if (!b)
			lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "malloc",
				      "no memory for a batch of %zu", batch_size);
	}
	if (b)
		id = load_relaxed(&b->id);
	lib_unlock(&r->lock);
	return id;
}

int tent_free_batch(tent_engine_t engine, tent_batch_id_t batch_id)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_batch *b = e ? lib_batch_find(e, batch_id) : NULL;
	struct lib_ring *r = b ? lib_ring_lock_batch(e, b, batch_id, NULL) : NULL;

	if (!r)
		return lib_last_error()->error;
	if (b->pending) {
		b->orphan = true; /* reclaimed with its last task */
		store_release(&b->id, 0ull); /* L2 */
	} else {
		lib_batch_reclaim(b);
	}
	lib_unlock(&r->lock);
	return 0;
}

/* Brings a batch up to date, unless another thread is doing just that. */
static void poll_batch(struct lib_engine *e, struct lib_batch *b)
{
	struct lib_ring *r = load_acquire(&b->ring); /* L1 */

	if (!load_acquire(&b->pending) && !load_relaxed(&r->wants_fd)) /* L4 */
		return;
	lib_drive(e);
	if (!lib_trylock(&r->lock))
		return;
	if (r->tent && load_acquire(&r->engine) == e) { /* L6 */
		if (!lib_ring_reap(r, b))
			lib_ring_check(r);
		lib_ring_rearm(r, b);
	}
	lib_unlock(&r->lock);
}

struct task_view {
	uint64_t word, bytes;
};

/* False when there is no task i (yet). */
static bool read_task(const struct lib_batch *b, size_t i, struct task_view *v)
{
	const struct lib_tasks *tasks = load_acquire(&b->tasks); /* L2 */

	if (i >= load_acquire(&b->nr_tasks) || i >= tasks->capacity) /* L3 */
		return false;
	v->word = load_acquire(&tasks->task[i].end); /* L3 */
	v->bytes = 0;
	if (lib_word_status(v->word) >= TENT_STATUS_INVALID)
		v->bytes = load_acquire(&tasks->task[i].bytes); /* L3 */
	return true;
}

/* One task of one batch, brought up to date. 0 or a category. */
static int look(tent_engine_t engine, tent_batch_id_t id, size_t task_id, struct task_view *v)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_batch *b = e ? lib_batch_find(e, id) : NULL;
	bool there;

	*v = (struct task_view){ 0 };
	if (!b)
		return lib_last_error()->error;
	poll_batch(e, b);
	there = read_task(b, task_id, v);
	if (!lib_batch_is(b, id))
		return lib_fail_stale(id);
	return there ? 0 : lib_fail_range(task_id, load_acquire(&b->nr_tasks)); /* L3 */
}

int tent_task_status(tent_engine_t engine, tent_batch_id_t batch_id, size_t task_id,
		     tent_status_t *status)
{
	struct task_view v;
	int rc;

	if (!status)
		return lib_fail_null("status");
	rc = look(engine, batch_id, task_id, &v);
	if (rc)
		return rc;
	status->status = lib_word_status(v.word);
	status->transferred_bytes = v.bytes;
	return 0;
}

static const char *status_name(int status)
{
	static const char *const names[] = {
		"WAITING", "PENDING", "INVALID", "CANCELED", "COMPLETED", "TIMEOUT", "FAILED",
	};

	return (unsigned)status < sizeof(names) / sizeof(*names) ? names[status] : "?";
}

/* Which transports had it, where more than one did: what follows is about the first one
 * when the last one completed it, else about the last one. */
static void describe_way(char *text, size_t size, uint64_t word)
{
	uint16_t flags = lib_word_flags(word);
	const char *last = word_name(WORD_TRANSPORT, lib_word_transport(word));
	const char *first = word_name(WORD_TRANSPORT, TENT_CQE_FIRST_TRANSPORT(flags));

	*text = '\0';
	if (!(flags & TENT_CQE_F_FAILED_OVER) || !first || !last)
		return;
	snprintf(text, size, lib_word_error(word) ? " by %s, after %s had failed" :
		 " by %s; %s had failed", last, first);
}

static void describe_task(struct tent_error_info *info, size_t task_id, uint64_t word)
{
	uint16_t rule = lib_word_rule(word);
	char way[64];

	memset(info, 0, sizeof(*info));
	info->error = lib_word_error(word);
	info->index = (uint32_t)task_id;
	info->rule = rule;
	info->flags = lib_word_flags(word);
	if (!rule)
		return;
	describe_way(way, sizeof(way), word);
	snprintf(info->field, sizeof(info->field), "%s", tent_rule_field(rule));
	snprintf(info->message, sizeof(info->message), "task %zu ended as %s%s: %s; needed: %s",
		 task_id, status_name(lib_word_status(word)), way, tent_rule_field(rule),
		 rule_allowed(rule));
}

int tent_task_error(tent_engine_t engine, tent_batch_id_t batch_id, size_t task_id,
		    struct tent_error_info *info)
{
	struct tent_error_info found;
	struct task_view v;
	int rc;

	if (!info)
		return lib_fail_null("info");
	if (info->size < offsetof(struct tent_error_info, field))
		return lib_fail_field(TENT_RULE_ARG_VALUE, "info.size", info->size);
	rc = look(engine, batch_id, task_id, &v);
	if (rc)
		return rc;
	describe_task(&found, task_id, v.word);
	error_info_copy(info, &found);
	return 0;
}

/* A batch brought up to date; NULL with the error stored. */
static struct lib_batch *look_batch(tent_engine_t engine, tent_batch_id_t id)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_batch *b = e ? lib_batch_find(e, id) : NULL;

	if (b)
		poll_batch(e, b);
	return b;
}

int tent_task_status_list(tent_engine_t engine, tent_batch_id_t batch_id,
			  tent_status_t *statuses, size_t *count)
{
	struct lib_batch *b;
	struct task_view v;
	size_t nr, i;

	if (!statuses || !count)
		return lib_fail_null(statuses ? "count" : "statuses");
	b = look_batch(engine, batch_id);
	if (!b)
		return lib_last_error()->error;
	nr = load_acquire(&b->nr_tasks); /* L3 */
	for (i = 0; i < nr && nr <= *count && read_task(b, i, &v); i++) {
		statuses[i].status = lib_word_status(v.word);
		statuses[i].transferred_bytes = v.bytes;
	}
	if (!lib_batch_is(b, batch_id))
		return lib_fail_stale(batch_id);
	i = *count;
	*count = nr;
	return nr <= i ? 0 : lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_ARG_VALUE, "count",
					   "count is %zu; allowed: at least %zu, the number of "
					   "tasks", i, nr);
}

int tent_overall_status(tent_engine_t engine, tent_batch_id_t batch_id, tent_status_t *status)
{
	struct lib_batch *b;
	uint32_t pending, worst;
	uint64_t bytes;

	if (!status)
		return lib_fail_null("status");
	b = look_batch(engine, batch_id);
	if (!b)
		return lib_last_error()->error;
	pending = load_acquire(&b->pending); /* L4: before what it announces */
	worst = load_acquire(&b->worst);
	bytes = load_acquire(&b->bytes);
	if (!lib_batch_is(b, batch_id))
		return lib_fail_stale(batch_id);
	status->status = pending ? TENT_STATUS_PENDING : lib_severity_status(worst);
	status->transferred_bytes = bytes;
	return 0;
}
