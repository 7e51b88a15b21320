/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit.c - from the caller's array to the engine's verdict.
 *
 * Here only the call's own arguments are judged; what an entry says is the engine's
 * to judge. Tasks exist from the verdict on: a refused submit leaves the batch as it
 * was.
 */
#include <string.h>
#include <tent/transfer_engine.h>

#include "lib/lib.h"
#include "ring/entry.h"
#include "ring/rules.h"

struct submit {
	struct lib_engine *engine;
	struct lib_batch *batch;
	struct lib_ring *ring;
	const struct lib_source *src;
	struct lib_indirect *memory;	/* for a batch larger than the ring, else NULL */
	struct lib_texts *texts;	/* of its notification, or NULL */
	uint32_t base;			/* task id of the first entry */
	uint32_t count;
};

int lib_fail_array(uint32_t rule, int64_t value)
{
	if (rule == TENT_RULE_ARG_NULL)
		return lib_fail_null("entries");
	return rule ? lib_fail(rule, value) : 0;
}

int lib_check_entries(const void *entries, size_t count, size_t stride, uint32_t schema)
{
	int64_t value = 0;

	if (entries && schema != TENT_REQUEST_SCHEMA_V1)
		return lib_fail(TENT_RULE_ARG_SCHEMA, schema);
	return lib_fail_array(entries_fault(entries, count, stride, &value), value);
}

/* The older request says what tent_request_v1 says with other numbers: the slot's
 * LEGACY flag tells the engine that priority counts from 0 HIGH. */
static void load_legacy(struct tent_slot *slot, const struct tent_request *from)
{
	bool known = from->transport_hint >= 0 && from->transport_hint < TENT_TRANSPORT_COUNT;

	slot->request = (struct tent_request_v1){
		.struct_size = TENT_REQUEST_V1_SIZE,
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = from->opcode,
		.source = from->source,
		.target_id = from->target_id,
		.target_offset = from->target_offset,
		.length = from->length,
		.requested_priority = from->priority,
		.transport_hint = known ? from->transport_hint : TENT_TRANSPORT_UNSPEC,
	};
	slot->tail_offset = 0;
	slot->entry_stride = 0;
}

static void load(const struct lib_source *src, uint32_t i, struct tent_slot *slot, char *cell)
{
	const uint8_t *entry = (const uint8_t *)src->entries + i * src->stride;

	if (src->legacy)
		load_legacy(slot, (const struct tent_request *)entry);
	else
		tent_entry_load(slot, cell, entry, src->stride);
}

/* The policy name of a refused entry, for the sentence; NULL when it has none. */
static const char *policy_of(const struct lib_source *src, uint32_t i, char *cell)
{
	struct tent_slot slot = { .seq = 0 };

	memset(cell, 0, TENT_CELL_SIZE + 1);
	load(src, i, &slot, cell);
	return cell[0] ? cell : NULL;
}

static int refused(const struct submit *s)
{
	uint32_t index = s->ring->verdict.index;
	char cell[TENT_CELL_SIZE + 1];
	const char *policy = index < s->count ? policy_of(s->src, index, cell) : NULL;

	return lib_fail_entry(s->ring->verdict.rule, index, s->ring->verdict.value, policy);
}

static int fail_ended(uint32_t rule)
{
	if (rule == TENT_RULE_ENGINE_LOST)
		return lib_fail_text(TENT_ERR_ENGINE_LOST, rule, "engine",
				     "the engine process is gone; what was in flight has an "
				     "unknown outcome");
	return lib_fail_text(tent_rule_error(rule), rule, tent_rule_field(rule),
			     "the engine ended the ring (%s); needed: %s", tent_rule_name(rule),
			     rule_allowed(rule));
}

/* Publishes what was filled and waits for the verdict. 0, a stored category, or the
 * rule that ended the ring. */
static int publish(const struct submit *s, uint32_t nr, enum tent_slot_op op, uint32_t *ended)
{
	uint16_t flags = s->src->legacy ? TENT_SLOT_F_LEGACY : 0;
	uint32_t position;

	if (s->texts) {
		flags |= TENT_SLOT_F_NOTIFY;
		tent_ring_slot(s->ring->tent, 0)->notify = (uintptr_t)s->texts->memory;
	}
	s->ring->verdict.rejected = false;
	position = tent_ring_publish(s->ring->tent, nr, op, flags);
	*ended = lib_ring_await(s->ring, position);
	if (s->ring->verdict.rejected)
		return refused(s);
	return *ended ? fail_ended(*ended) : 0;
}

static int submit_direct(const struct submit *s, uint32_t *ended)
{
	struct tent_ring *tent = s->ring->tent;

	*ended = lib_ring_make_room(s->ring, s->count);
	if (*ended)
		return fail_ended(*ended);
	for (uint32_t i = 0; i < s->count; i++) {
		struct tent_slot *slot = tent_ring_slot(tent, i);

		load(s->src, i, slot, tent_ring_cell(tent, i));
		slot->user_data = lib_user_data(s->batch, s->base + i);
	}
	return publish(s, s->count, TENT_OP_REQUEST, ended);
}

static int submit_indirect(struct submit *s, uint32_t *ended)
{
	struct lib_indirect *m = s->memory;
	int rc;

	*ended = lib_ring_await_indirect(s->ring);
	if (!*ended)
		*ended = lib_ring_make_room(s->ring, 1);
	if (*ended)
		return fail_ended(*ended);
	for (uint32_t i = 0; i < s->count; i++)
		lib_indirect_slot(m, i)->user_data = lib_user_data(s->batch, s->base + i);
	m->batch = s->batch;
	m->base = s->base;
	m->count = s->count;
	lib_indirect_describe(m, tent_ring_slot(s->ring->tent, 0));
	s->ring->indirect = m;
	s->memory = NULL; /* the ring's, until its completion */
	rc = publish(s, 1, TENT_OP_INDIRECT, ended);
	if (rc && !*ended) {
		s->ring->indirect = NULL;
		s->memory = m;
	}
	return rc;
}

static void set_pending(const struct submit *s)
{
	struct lib_batch *b = s->batch;

	for (uint32_t i = 0; i < s->count; i++)
		store_release(&b->tasks->task[s->base + i].end, /* L3 */
			      lib_task_word(TENT_STATUS_PENDING, 0, 0, 0, 0));
	store_release(&b->pending, b->pending + s->count); /* L4 */
}

static int check_left(const struct lib_batch *b, size_t count)
{
	uint32_t left = load_acquire(&b->capacity) - load_acquire(&b->nr_tasks); /* L3 */

	if (count <= left)
		return 0;
	return lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_BATCH_FULL, "count",
			     "count is %zu; allowed: %u, what is left of the batch", count, left);
}

/* Under the ring's lock. */
static int submit_locked(struct submit *s)
{
	struct lib_batch *b = s->batch;
	uint32_t ended = 0;
	int rc;

	if (check_left(b, s->src->count))
		return TENT_ERR_CAPACITY;
	if (s->texts && lib_check_notifies(s->ring))
		return TENT_ERR_UNSUPPORTED;
	s->base = b->nr_tasks;
	set_pending(s);
	rc = s->memory ? submit_indirect(s, &ended) : submit_direct(s, &ended);
	if (rc) /* nothing was judged, so none of count has ended */
		store_release(&b->pending, b->pending - s->count); /* L4 */
	else
		store_release(&b->nr_tasks, s->base + s->count); /* L3 */
	if (ended)
		lib_ring_lost(s->ring, ended);
	lib_ring_rearm(s->ring, NULL);
	return rc;
}

/* Fills INDIRECT memory before any lock is taken: it is the long part. */
static int fill_memory(struct submit *s)
{
	struct lib_indirect *m = lib_indirect_get(s->engine, s->count);

	if (!m)
		return lib_last_error()->error;
	m->has_cells = false;
	for (uint32_t i = 0; i < s->count; i++) {
		struct tent_slot *slot = lib_indirect_slot(m, i);

		memset(slot, 0, offsetof(struct tent_slot, request));
		load(s->src, i, slot, lib_indirect_cell(m, i));
		m->has_cells |= slot->request.policy_name != NULL;
	}
	s->memory = m;
	return 0;
}

/* Until the ring that the batch is on works: one that broke is replaced by mine. */
static int submit(struct submit *s, tent_batch_id_t id)
{
	for (;;) {
		struct lib_ring *mine = lib_ring_mine(s->engine);
		bool works;
		int rc = 0;

		if (!mine)
			return lib_last_error()->error;
		if (s->count > load_relaxed(&s->engine->direct_max) && !s->memory)
			rc = fill_memory(s);
		if (rc)
			return rc;
		s->ring = lib_ring_lock_batch(s->engine, s->batch, id, mine);
		if (!s->ring)
			return lib_last_error()->error;
		works = s->ring->tent;
		if (works)
			rc = submit_locked(s);
		lib_unlock(&s->ring->lock);
		if (works)
			return rc;
	}
}

int lib_submit(struct lib_engine *e, tent_batch_id_t batch_id, const struct lib_source *src)
{
	struct submit s = { .engine = e, .src = src };
	int rc;

	s.batch = lib_batch_find(e, batch_id);
	if (!s.batch)
		return lib_last_error()->error;
	rc = check_left(s.batch, src->count);
	if (rc || !src->count)
		return rc;
	s.count = (uint32_t)src->count;
	if (src->name) {
		s.texts = lib_texts_get(e, src->name, src->message);
		if (!s.texts)
			return lib_last_error()->error;
	}
	rc = submit(&s, batch_id);
	lib_texts_put(e, s.texts);
	if (s.memory)
		lib_indirect_put(e, s.memory);
	return rc;
}

int tent_submit_requests(tent_engine_t engine, tent_batch_id_t batch_id, const void *entries,
			 size_t count, size_t entry_stride, uint32_t schema_version)
{
	const struct lib_source src = { entries, count, entry_stride, false, NULL, NULL };
	struct lib_engine *e = lib_engine_find(engine);
	int rc;

	if (!e)
		return lib_last_error()->error;
	rc = lib_check_entries(entries, count, entry_stride, schema_version);
	return rc ? rc : lib_submit(e, batch_id, &src);
}

int tent_submit_requests_notif(tent_engine_t engine, tent_batch_id_t batch_id,
			       const void *entries, size_t count, size_t entry_stride,
			       uint32_t schema_version, const char *name, const char *message)
{
	const struct lib_source src = { entries, count, entry_stride, false, name, message };
	struct lib_engine *e = lib_engine_find(engine);
	int rc;

	if (!e)
		return lib_last_error()->error;
	rc = lib_check_entries(entries, count, entry_stride, schema_version);
	if (!rc)
		rc = lib_check_texts(name, message);
	return rc ? rc : lib_submit(e, batch_id, &src);
}

int tent_explain_requests(tent_engine_t engine, const void *entries, size_t count,
			  size_t entry_stride, uint32_t schema_version, char **json)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc;

	if (!e)
		return lib_last_error()->error;
	rc = json ? lib_check_entries(entries, count, entry_stride, schema_version) :
	     lib_fail_null("json");
	if (!rc && tent_client_explain(e->client, entries, count, entry_stride, json))
		rc = lib_fail_client();
	lib_engine_leave(e);
	return rc;
}
