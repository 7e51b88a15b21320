/* SPDX-License-Identifier: Apache-2.0 */
/*
 * indirect.c - batches that are larger than the ring: their entries lie in memory that
 * the engine shares, and one slot names them.
 *
 * The memory is registered with the engine, which takes a control call, so it is kept
 * for the next large batch until the engine is destroyed.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

#define ENTRY_SIZE (sizeof(struct tent_slot) + sizeof(struct tent_result) + TENT_CELL_SIZE)
#define CAPACITY_MIN 8192u

static struct tent_result *results_of(const struct lib_indirect *m)
{
	return (struct tent_result *)(m->memory + (size_t)m->capacity * sizeof(struct tent_slot));
}

struct tent_slot *lib_indirect_slot(const struct lib_indirect *m, uint32_t i)
{
	return (struct tent_slot *)m->memory + i;
}

char *lib_indirect_cell(const struct lib_indirect *m, uint32_t i)
{
	return (char *)(results_of(m) + m->capacity) + (size_t)i * TENT_CELL_SIZE;
}

/* The smallest that fits. */
static struct lib_indirect *spare_take(struct lib_engine *e, uint32_t count)
{
	struct lib_indirect **best = NULL, *m;

	lib_pool_lock();
	for (struct lib_indirect **at = &e->spare; *at; at = &(*at)->next)
		if ((*at)->capacity >= count && (!best || (*at)->capacity < (*best)->capacity))
			best = at;
	m = best ? *best : NULL;
	if (m)
		*best = m->next;
	lib_pool_unlock();
	return m;
}

static int memory_new(struct lib_engine *e, struct lib_indirect *m)
{
	size_t size = (size_t)m->capacity * ENTRY_SIZE;
	void *memory;

	if (tent_client_alloc(e->client, size, "*", &memory))
		return lib_fail_client();
	if (tent_client_register(e->client, memory, size, TENT_PERM_LOCAL_READ_WRITE, NULL, 1)) {
		lib_fail_client();
		tent_client_free(e->client, memory);
		return lib_last_error()->error;
	}
	m->memory = memory;
	return 0;
}

struct lib_indirect *lib_indirect_get(struct lib_engine *e, uint32_t count)
{
	struct lib_indirect *m = spare_take(e, count);

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m) {
		lib_fail_memory();
		return NULL;
	}
	for (m->capacity = CAPACITY_MIN; m->capacity < count; m->capacity *= 2)
		;
	if (!memory_new(e, m))
		return m;
	free(m);
	return NULL;
}

void lib_indirect_put(struct lib_engine *e, struct lib_indirect *m)
{
	lib_pool_lock();
	m->next = e->spare;
	e->spare = m;
	lib_pool_unlock();
}

void lib_indirect_forget(struct lib_engine *e)
{
	while (e->spare) {
		struct lib_indirect *m = e->spare;

		e->spare = m->next;
		free(m);
	}
}

void lib_indirect_describe(struct lib_indirect *m, struct tent_slot *slot)
{
	struct tent_indirect area = {
		.entries = (uintptr_t)m->memory,
		.cells = m->has_cells ? (uintptr_t)lib_indirect_cell(m, 0) : 0,
		.results = (uintptr_t)results_of(m),
		.count = m->count,
	};

	/* Whatever an engine leaves unwritten reads as "not terminal". */
	memset(results_of(m), 0, (size_t)m->count * sizeof(struct tent_result));
	memcpy(&slot->request, &area, sizeof(area));
	slot->tail_offset = 0;
	slot->entry_stride = 0;
	slot->user_data = LIB_DATA_INDIRECT;
}

void lib_indirect_finish(struct lib_ring *r, const struct tent_completion *c,
			 const struct lib_batch *polled)
{
	struct lib_indirect *m = r->indirect;
	const struct tent_result *result;
	uint16_t flags = c->flags & ~TENT_CQE_F_BATCH; /* of all of them: results have none */

	if (!m)
		return;
	r->indirect = NULL;
	if (m->batch != polled)
		lib_ring_tell_later(r, m->batch);
	result = results_of(m);
	for (uint32_t i = 0; i < m->count; i++) {
		uint64_t word = lib_task_word(result[i].status, result[i].transport,
					      result[i].rule, result[i].error, flags);

		if (result[i].status < TENT_STATUS_INVALID || result[i].status > TENT_STATUS_FAILED)
			word = lib_task_word(TENT_STATUS_FAILED, 0, c->rule, c->error, flags);
		lib_task_finish(m->batch, m->base + i, word, result[i].bytes);
	}
	lib_indirect_put(r->engine, m);
}
