/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - batches and the state of their tasks.
 *
 * One table for the process. A batch's id is its place and how often that place was
 * used before; a place whose count runs out is never used again, so no id ever comes
 * back. Structs and task arrays are pooled for good: a thread that polls a batch which
 * another thread frees reads live memory and then finds the id changed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/lib.h"

#define INDEX_BITS 24
#define CHUNK_BITS 10
#define CHUNK_SIZE (1u << CHUNK_BITS)
#define GENERATION_MAX ((1ull << (64 - INDEX_BITS)) - 1)

#define CLASS_MIN 8u			/* tasks in the smallest array */
#define NR_CLASSES 18			/* 8 .. 2^20 */
#define TRIM_SIZE (1u << 20)		/* bytes from which an idle array's pages go back */

static struct lib_batch *chunks[1u << (INDEX_BITS - CHUNK_BITS)];
static uint32_t nr_batches;			/* places in use; L2 */
static struct lib_batch *free_first, *free_last; /* pool lock; oldest id first */
static struct lib_tasks *free_tasks[NR_CLASSES]; /* pool lock */

struct lib_batch *lib_batch_at(uint32_t index)
{
	if (index >= load_acquire(&nr_batches)) /* L2 */
		return NULL;
	return &chunks[index >> CHUNK_BITS][index & (CHUNK_SIZE - 1)];
}

uint32_t lib_batch_count(void)
{
	return load_acquire(&nr_batches); /* L2 */
}

uint32_t lib_severity(int status)
{
	switch (status) {
	case TENT_STATUS_COMPLETED:
		return 0;
	case TENT_STATUS_INVALID:
		return 1;
	case TENT_STATUS_CANCELED:
		return 2;
	case TENT_STATUS_TIMEOUT:
		return 3;
	default:
		return 4;
	}
}

int lib_severity_status(uint32_t severity)
{
	static const uint8_t statuses[] = {
		TENT_STATUS_COMPLETED, TENT_STATUS_INVALID, TENT_STATUS_CANCELED,
		TENT_STATUS_TIMEOUT, TENT_STATUS_FAILED,
	};

	return severity < sizeof(statuses) ? statuses[severity] : TENT_STATUS_FAILED;
}

static uint32_t class_of(uint32_t capacity)
{
	uint32_t class = 0;

	while (CLASS_MIN << class < capacity)
		class++;
	return class;
}

static struct lib_tasks *tasks_get(uint32_t capacity)
{
	uint32_t class = class_of(capacity), size = CLASS_MIN << class;
	struct lib_tasks *t = free_tasks[class];

	if (t) {
		free_tasks[class] = t->next;
		return t;
	}
	t = malloc(sizeof(*t) + (size_t)size * sizeof(struct lib_task));
	if (!t)
		return NULL;
	/* Set once and never again: late readers bound their index by it. */
	t->capacity = size;
	t->class = class;
	return t;
}

/* Gives the whole pages of a large array back to the system, but keeps the range. */
static void tasks_trim(struct lib_tasks *t)
{
	uintptr_t page, first, end;

	if ((size_t)t->capacity * sizeof(struct lib_task) < TRIM_SIZE)
		return;
	page = (uintptr_t)sysconf(_SC_PAGESIZE);
	first = ((uintptr_t)t->task + page - 1) & ~(page - 1);
	end = (uintptr_t)&t->task[t->capacity] & ~(page - 1);
	madvise((void *)first, end - first, MADV_DONTNEED);
}

static void tasks_put(struct lib_tasks *t)
{
	tasks_trim(t);
	t->next = free_tasks[t->class];
	free_tasks[t->class] = t;
}

/* A place that no batch had yet, or NULL. */
static struct lib_batch *place_new(void)
{
	uint32_t index = nr_batches;
	struct lib_batch **chunk = &chunks[index >> CHUNK_BITS];

	if (index == 1u << INDEX_BITS)
		return NULL;
	if (!*chunk)
		*chunk = calloc(CHUNK_SIZE, sizeof(**chunk));
	if (!*chunk)
		return NULL;
	(*chunk)[index & (CHUNK_SIZE - 1)].index = index;
	store_release(&nr_batches, index + 1); /* L2 */
	return lib_batch_at(index);
}

static struct lib_batch *place_get(void)
{
	struct lib_batch *b = free_first;

	if (!b)
		return place_new();
	free_first = b->next_free;
	if (!free_first)
		free_last = NULL;
	return b;
}

static void place_put(struct lib_batch *b)
{
	if (b->generation == GENERATION_MAX)
		return;
	b->next_free = NULL;
	if (free_last)
		free_last->next_free = b;
	else
		free_first = b;
	free_last = b;
}

static void batch_set(struct lib_batch *b, uint64_t engine, struct lib_ring *ring,
		      struct lib_tasks *tasks, uint32_t capacity)
{
	/* Readers with an old id may look: every field is stored whole, after the id
	 * went stale. L2 */
	store_release(&b->engine, engine);
	store_release(&b->ring, ring);
	store_release(&b->tasks, tasks);
	store_release(&b->capacity, capacity);
	store_release(&b->nr_tasks, 0u);
	store_release(&b->pending, 0u);
	store_release(&b->worst, 0u);
	store_release(&b->bytes, 0ull);
	b->orphan = false;
	b->generation++;
	store_release(&b->id, b->generation << INDEX_BITS | b->index); /* L2 */
}

struct lib_batch *lib_batch_new(uint64_t engine, struct lib_ring *ring, uint32_t capacity)
{
	struct lib_tasks *tasks;
	struct lib_batch *b = NULL;

	lib_pool_lock();
	tasks = tasks_get(capacity);
	if (tasks)
		b = place_get();
	if (tasks && !b)
		tasks_put(tasks);
	if (b)
		batch_set(b, engine, ring, tasks, capacity);
	lib_pool_unlock();
	return b;
}

struct lib_batch *lib_batch_find(struct lib_engine *e, uint64_t id)
{
	struct lib_batch *b = id ? lib_batch_at((uint32_t)(id & ((1u << INDEX_BITS) - 1))) : NULL;

	if (b && lib_batch_is(b, id) && /* L2 */
	    load_acquire(&b->engine) == load_relaxed(&e->handle))
		return b;
	lib_fail_stale(id);
	return NULL;
}

void lib_batch_reclaim(struct lib_batch *b)
{
	store_release(&b->id, 0ull); /* L2: stale before anything else changes */
	store_release(&b->engine, 0ull); /* nobody's: lib_batch_drop() passes it by */
	store_release(&b->pending, 0u); /* L4: dropped, it may still have some; its tasks are
					 * the next batch's, and lib_ring_lost() would end them */
	b->orphan = false;
	lib_ring_told(b->ring, b);
	lib_pool_lock();
	tasks_put(b->tasks);
	place_put(b);
	lib_pool_unlock();
}

bool lib_task_finish(struct lib_batch *b, uint32_t task, uint64_t word, uint64_t bytes)
{
	struct lib_task *t;
	uint32_t severity = lib_severity(lib_word_status(word));

	if (task >= b->tasks->capacity || !b->pending)
		return false;
	t = &b->tasks->task[task];
	if (lib_word_status(load_relaxed(&t->end)) >= TENT_STATUS_INVALID)
		return false;
	store_release(&t->bytes, bytes); /* L3 */
	store_release(&t->end, word); /* L3 */
	if (!severity)
		store_release(&b->bytes, b->bytes + bytes);
	if (severity > b->worst)
		store_release(&b->worst, severity);
	store_release(&b->pending, b->pending - 1); /* L4 */
	if (!b->pending && b->orphan)
		lib_batch_reclaim(b);
	return true;
}

void lib_batch_drop(struct lib_batch *b, uint64_t engine)
{
	struct lib_ring *r = load_acquire(&b->ring); /* L1 */

	if (!r || load_acquire(&b->engine) != engine) /* L2 */
		return;
	lib_lock(&r->lock); /* a late tent_free_batch() holds it too */
	if (load_acquire(&b->engine) == engine) /* L2 */
		lib_batch_reclaim(b);
	lib_unlock(&r->lock);
}

void lib_batch_forget_all(void)
{
	free_first = free_last = NULL;
	memset(free_tasks, 0, sizeof(free_tasks));
	for (uint32_t i = 0; i < nr_batches; i++)
		store_release(&lib_batch_at(i)->id, 0ull); /* L2 */
}
