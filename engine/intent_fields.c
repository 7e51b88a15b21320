/* SPDX-License-Identifier: Apache-2.0 */
/* intent_fields.c - the checks of what an entry says about itself. */
#include "engine/judge.h"

#define TAIL_BEGINS TENT_REQUEST_V1_SIZE
#define FIELD_END(field)							\
	(offsetof(struct tent_request_v1, field) +				\
	 sizeof(((struct tent_request_v1 *)0)->field))
/* A pointer's slot is 8 bytes on every ABI. */
#define POINTER_END(field) (offsetof(struct tent_request_v1, field) + 8)

/* ---- layout and schema ------------------------------------------------- */

static bool is_field_boundary(uint32_t size)
{
	if (likely(size == TENT_REQUEST_V1_SIZE))
		return true;
	switch (size) {
	case FIELD_END(length):
	case FIELD_END(intent_type):
	case FIELD_END(requested_priority):
	case FIELD_END(deadline_ns):
	case POINTER_END(policy_name):
	case FIELD_END(transport_hint):
	case FIELD_END(reserved0):
	case FIELD_END(flags):
		return true;
	default:
		return size > TAIL_BEGINS && size <= TENT_REQUEST_MAX_STRIDE && size % 4 == 0;
	}
}

/* A tail word that an earlier user of the slot left names a place beyond this entry. */
static bool has_tail(const struct tent_slot *s)
{
	return unlikely(s->tail_offset) && s->tail_offset < s->request.struct_size;
}

struct fault layout_fault(const struct bench *b, const struct tent_slot *s)
{
	uint32_t size = s->request.struct_size;

	if (!is_field_boundary(size) || (s->entry_stride && size > s->entry_stride))
		return FAULT(STRUCT_SIZE, size);
	if (s->request.schema_version != TENT_REQUEST_SCHEMA_V1)
		return FAULT(SCHEMA, s->request.schema_version);
	if (has_tail(s) && !is_compat(b))
		return FAULT(TAIL, s->tail_offset);
	return NO_FAULT;
}

/* ---- fields ------------------------------------------------------------ */

/* Fields at or beyond struct_size have their defaults, whatever the slot holds. */
static void take_defaults(const struct tent_slot *s, struct wanted *w)
{
	const struct tent_request_v1 *r = &s->request;
	uint32_t size = r->struct_size;

	*w = (struct wanted){
		.intent = r->intent_type, .priority = r->requested_priority,
		.hint = r->transport_hint, .reserved0 = r->reserved0,
		.deadline_ns = r->deadline_ns, .flags = r->flags,
		.policy_length = word_at(&r->policy_name),
		.downgrades = has_tail(s) ? TENT_CQE_F_TAIL_IGNORED : 0,
	};
	if (likely(size >= FIELD_END(flags)))
		return;
	w->flags = 0;
	if (size < FIELD_END(reserved0))
		w->reserved0 = 0;
	if (size < FIELD_END(transport_hint))
		w->hint = 0;
	if (size < POINTER_END(policy_name))
		w->policy_length = 0;
	if (size < FIELD_END(deadline_ns))
		w->deadline_ns = 0;
	if (size < FIELD_END(requested_priority))
		w->priority = 0;
	if (size < FIELD_END(intent_type))
		w->intent = 0;
}

static struct fault intent_fault(const struct bench *b, struct wanted *w)
{
	if (w->intent == TENT_INTENT_STAGING_INTERNAL)
		return FAULT(INTENT_STAGING, w->intent);
	if (w->intent >= 0 && w->intent < TENT_INTENT_STAGING_INTERNAL)
		return NO_FAULT;
	if (!is_compat(b))
		return FAULT(INTENT, w->intent);
	w->intent = TENT_INTENT_UNSPEC;
	w->downgrades |= TENT_CQE_F_INTENT_DOWNGRADED;
	return NO_FAULT;
}

/* The legacy numbering has no "unspecified" to fall back to. */
static struct fault priority_fault(const struct bench *b, struct wanted *w)
{
	if ((uint32_t)w->priority < b->priorities)
		return NO_FAULT;
	if (b->j->slot_flags & TENT_SLOT_F_LEGACY)
		return FAULT(PRIORITY_LEGACY, w->priority);
	if (!is_compat(b))
		return FAULT(PRIORITY, w->priority);
	w->priority = TENT_PRIORITY_UNSPEC;
	w->downgrades |= TENT_CQE_F_PRIORITY_DOWNGRADED;
	return NO_FAULT;
}

/* One that has passed is kept: it is served, and counted as missed. */
static struct fault deadline_fault(const struct bench *b, const struct wanted *w)
{
	if (!w->deadline_ns)
		return NO_FAULT;
	if (b->j->space->deadlines_refused)
		return FAULT(DEADLINE_CLOCK, w->deadline_ns);
	if (w->deadline_ns > b->j->now_ns &&
	    w->deadline_ns - b->j->now_ns > DEADLINE_HORIZON_NS)
		return FAULT(DEADLINE_FAR, w->deadline_ns);
	return NO_FAULT;
}

static bool is_name_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == ':' || c == '/' || c == '-';
}

static struct fault policy_text_fault(const struct wanted *w, const char *cell)
{
	if (w->policy_length > TENT_POLICY_NAME_MAX)
		return FAULT(POLICY_LENGTH, w->policy_length);
	for (uint64_t i = 0; i < w->policy_length; i++)
		if (!is_name_char(cell[i]))
			return FAULT(POLICY_CHARS, (uint8_t)cell[i]);
	return NO_FAULT;
}

struct fault fields_fault(const struct bench *b, const struct tent_slot *s,
			  const char *cell, struct wanted *w)
{
	struct fault f;

	take_defaults(s, w);
	if ((uint32_t)s->request.opcode > TENT_OPCODE_WRITE)
		return FAULT(OPCODE, s->request.opcode);
	if (s->request.resv0)
		return FAULT(RESV0, s->request.resv0);
	if ((f = intent_fault(b, w)).rule || (f = priority_fault(b, w)).rule ||
	    (f = deadline_fault(b, w)).rule || (f = policy_text_fault(w, cell)).rule)
		return f;
	if ((uint32_t)w->hint >= TENT_TRANSPORT_COUNT)
		return FAULT(TRANSPORT, w->hint);
	if (w->reserved0)
		return FAULT(RESERVED0, w->reserved0);
	if (w->flags)
		return FAULT(FLAGS, w->flags);
	if (s->resv0 || s->notify)
		return FAULT(SLOT_RESV, s->resv0 ? s->resv0 : s->notify);
	return NO_FAULT;
}

/* ---- without an engine -------------------------------------------------- */

bool judge_fields(const struct tent_slot *slot, const char *cell, bool compat,
		  uint64_t now_ns, struct asked *a, struct refusal *why)
{
	const struct client_space space = { .compat = compat };
	const struct judge judge = { .space = &space, .now_ns = now_ns };
	const struct bench bench = { .j = &judge, .priorities = TENT_PRIORITY_LOW + 1 };
	struct wanted w;
	struct fault f = layout_fault(&bench, slot);

	if (!f.rule)
		f = fields_fault(&bench, slot, cell, &w);
	if (f.rule) {
		*why = (struct refusal){ .rule = f.rule, .value = f.value };
		return false;
	}
	*a = (struct asked){
		.opcode = slot->request.opcode, .intent = w.intent, .priority = w.priority,
		.hint = w.hint, .deadline_ns = w.deadline_ns,
		.policy_length = (uint32_t)w.policy_length, .downgrades = w.downgrades,
	};
	return true;
}
