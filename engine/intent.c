/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intent.c - judges requests on private copies of their slots.
 *
 * Each check exists once, as a function that returns the fault it finds. An entry
 * takes the short way, one combined test, when every optional field has its plain
 * value; otherwise it takes the checks. As soon as anything is wrong anywhere,
 * judge_in_order() goes over the same copies again in the order of checks, and what
 * it finds first is the answer.
 */
#include <string.h>

#include "engine/hot.h"
#include "engine/intent.h"
#include "engine/plan.h"

#define TAIL_BEGINS TENT_REQUEST_V1_SIZE
#define FIELD_END(field)							\
	(offsetof(struct tent_request_v1, field) +				\
	 sizeof(((struct tent_request_v1 *)0)->field))
/* A pointer's slot is 8 bytes on every ABI. */
#define POINTER_END(field) (offsetof(struct tent_request_v1, field) + 8)

struct fault {
	uint16_t rule;		/* 0: none */
	int64_t value;
};
#define NO_FAULT ((struct fault){ 0, 0 })
#define FAULT(name, v) ((struct fault){ TENT_RULE_##name, (int64_t)(v) })

/* What an entry asks for: defaults filled in, then made effective. */
struct wanted {
	int32_t intent, priority, hint;
	uint32_t reserved0;
	uint64_t deadline_ns, policy_length, flags;
	uint16_t downgrades;	/* TENT_CQE_F_* */
};

/* One side's way into its region table. */
struct lookup {
	const struct region_table *table;
	uint64_t origin;	/* base of the first region */
	uint32_t shift;		/* distance >> shift is a guess's number */
	uint16_t *guesses;
};

/* A batch on its way through the judge. */
struct bench {
	const struct judge *j;
	struct lookup source, target;
	uint64_t target_id;	/* whose table target has; NO_TARGET: none yet */
	uint32_t priorities;	/* how many numbers a priority may have */
	uint32_t effective;	/* four bytes: number -> enum tent_priority */
	uint32_t level_mask;
	bool foreign;		/* the target is somebody else's segment */
};
#define NO_TARGET UINT64_MAX

/* Slots hold pointers of any width in 8 bytes, the high half included. */
static inline uint64_t word_at(const void *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* ---- layout and schema ------------------------------------------------- */

static bool is_field_boundary(uint32_t size)
{
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
	return s->tail_offset && s->tail_offset < s->request.struct_size;
}

static struct fault layout_fault(const struct bench *b, const struct tent_slot *s)
{
	uint32_t size = s->request.struct_size;

	if (!is_field_boundary(size) || (s->entry_stride && size > s->entry_stride))
		return FAULT(STRUCT_SIZE, size);
	if (s->request.schema_version != TENT_REQUEST_SCHEMA_V1)
		return FAULT(SCHEMA, s->request.schema_version);
	if (has_tail(s) && !b->j->space->compat)
		return FAULT(TAIL, s->tail_offset);
	return NO_FAULT;
}

/* ---- fields ------------------------------------------------------------ */

/* Fields at or beyond struct_size have their defaults, whatever the slot holds. */
static void take_defaults(const struct tent_slot *s, struct wanted *w)
{
	const struct tent_request_v1 *r = &s->request;
	uint32_t size = r->struct_size;

	*w = (struct wanted){ 0 };
	if (size >= FIELD_END(intent_type))
		w->intent = r->intent_type;
	if (size >= FIELD_END(requested_priority))
		w->priority = r->requested_priority;
	if (size >= FIELD_END(deadline_ns))
		w->deadline_ns = r->deadline_ns;
	if (size >= POINTER_END(policy_name))
		w->policy_length = word_at(&r->policy_name);
	if (size >= FIELD_END(transport_hint))
		w->hint = r->transport_hint;
	if (size >= FIELD_END(reserved0))
		w->reserved0 = r->reserved0;
	if (size >= FIELD_END(flags))
		w->flags = r->flags;
	if (has_tail(s))
		w->downgrades = TENT_CQE_F_TAIL_IGNORED;
}

static struct fault intent_fault(const struct bench *b, struct wanted *w)
{
	if (w->intent == TENT_INTENT_STAGING_INTERNAL)
		return FAULT(INTENT_STAGING, w->intent);
	if (w->intent >= 0 && w->intent < TENT_INTENT_STAGING_INTERNAL)
		return NO_FAULT;
	if (!b->j->space->compat)
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
	if (!b->j->space->compat)
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

static struct fault fields_fault(const struct bench *b, const struct tent_slot *s,
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
	if (s->resv0 || s->resv1)
		return FAULT(SLOT_RESV, s->resv0 ? s->resv0 : s->resv1);
	return NO_FAULT;
}

/*
 * The short way: every field that layout_fault() and fields_fault() look at has a
 * value that passes and needs nothing done. One test over the OR of what must be
 * zero; the ranges are apart because their neighbours in a word are signed.
 */
static inline bool is_plain(const struct bench *b, const struct tent_slot *s)
{
	const struct tent_request_v1 *r = &s->request;
	uint64_t dirt = word_at(&r->struct_size) ^
			(TENT_REQUEST_V1_SIZE | (uint64_t)TENT_REQUEST_SCHEMA_V1 << 32);

	dirt |= word_at(&r->opcode) & ~(uint64_t)TENT_OPCODE_WRITE; /* and resv0 */
	dirt |= r->deadline_ns | word_at(&r->policy_name);
	dirt |= word_at(&r->transport_hint);	/* and reserved0 */
	dirt |= r->flags | s->resv1 | s->resv0 | s->tail_offset;
	return !dirt && (uint32_t)r->intent_type < TENT_INTENT_STAGING_INTERNAL &&
	       (uint32_t)r->requested_priority < b->priorities &&
	       s->entry_stride - 1 >= TENT_REQUEST_V1_SIZE - 1; /* 0, or at least the size */
}

/* ---- addresses --------------------------------------------------------- */

static void lookup_init(struct lookup *l, const struct region_table *t, uint16_t *guesses)
{
	uint64_t span = t->nr ? t->entries[t->nr - 1].base - t->entries[0].base : 0;
	uint32_t bits = span ? 64 - (uint32_t)__builtin_clzll(span) : 0;

	l->table = t;
	l->origin = t->nr ? t->entries[0].base : 0;
	l->shift = bits > 8 ? bits - 8 : 0;
	l->guesses = guesses;
}
_Static_assert(REGION_GUESSES == 1 << 8, "a guess's number has 8 bits");

static __attribute__((noinline)) struct region *
lookup_search(const struct lookup *l, uint64_t addr, uint64_t end, uint16_t *guess)
{
	uint32_t at;
	struct region *found = region_find_at(l->table, addr, end - addr, &at);

	*guess = (uint16_t)at;
	return found;
}

/* What region_find() finds. The guessed entry is its answer when addr lies between
 * the entry's base and the next one's, and the entry reaches end. */
static inline struct region *lookup_find(const struct lookup *l, uint64_t addr, uint64_t end)
{
	uint16_t *guess = &l->guesses[(uint8_t)((addr - l->origin) >> l->shift)];
	const struct region_entry *e = &l->table->entries[*guess];
	uint32_t next = *guess + 1u;

	if (likely(next < l->table->nr) ? addr < e[1].base : next == l->table->nr)
		if (likely(addr >= e->base && end <= e->end))
			return e->region;
	return lookup_search(l, addr, end, guess);
}

/* False: no open segment has this handle. */
static __attribute__((noinline)) bool bench_target(struct bench *b, uint64_t id)
{
	const struct handle_table *h = b->j->handles;
	const struct segment *segment = id < h->nr ? h->segments[id] : NULL;

	if (!segment)
		return false;
	lookup_init(&b->target, segment_table(segment), b->target.guesses);
	b->target_id = id;
	b->foreign = segment != h->segments[0];
	return true;
}

static bool is_permitted(const struct region *r, int32_t opcode)
{
	return r->permission == TENT_PERM_GLOBAL_READ_WRITE ||
	       (r->permission == TENT_PERM_GLOBAL_READ_ONLY && opcode == TENT_OPCODE_READ);
}

static inline struct fault address_fault(struct bench *b, const struct tent_slot *s,
					 struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	uint64_t source = word_at(&r->source), target = r->target_offset;
	uint64_t source_end, target_end;

	if (unlikely(r->target_id != b->target_id) && !bench_target(b, r->target_id))
		return FAULT(SEGMENT, r->target_id);
	if (unlikely(__builtin_add_overflow(source, r->length, &source_end)))
		return FAULT(SOURCE_RANGE, source);
	t->local = lookup_find(&b->source, source, source_end);
	if (unlikely(!t->local))
		return FAULT(SOURCE_UNREGISTERED, source);
	if (unlikely(__builtin_add_overflow(target, r->length, &target_end)))
		return FAULT(TARGET_RANGE, target);
	t->remote = lookup_find(&b->target, target, target_end);
	if (unlikely(!t->remote))
		return FAULT(TARGET_UNREGISTERED, target);
	if (b->foreign && unlikely(!is_permitted(t->remote, r->opcode)))
		return FAULT(TARGET_PERMISSION, target);
	return NO_FAULT;
}

/* ---- policy ------------------------------------------------------------ */

/* No policy can be configured yet, so no name is known. */
static inline struct fault policy_fault(const struct bench *b, const struct wanted *w,
					struct transfer *t)
{
	uint16_t rule;

	if (unlikely(w->policy_length)) {
		if (!b->j->space->compat)
			return FAULT(POLICY_UNKNOWN, w->policy_length);
		t->flags |= TENT_CQE_F_POLICY_DOWNGRADED;
	}
	rule = plan_transfer(b->j->queues, b->j->nr_queues, w->hint, t);
	return (struct fault){ rule, w->hint };
}

/* Failures that a legacy batch lets the one request have. A transport that this build
 * lacks is not among them: the older library refused the submit for it, too. */
static bool is_soft(uint16_t rule)
{
	return rule >= TENT_RULE_SEGMENT && rule != TENT_RULE_TRANSPORT_BUILD;
}

/* ---- the judge --------------------------------------------------------- */

static void bench_init(struct bench *b, const struct judge *j, struct region_guesses *g)
{
	bool legacy = j->slot_flags & TENT_SLOT_F_LEGACY;
	uint32_t fallback = j->space->default_priority;

	b->j = j;
	b->priorities = legacy ? 3 : 4;
	b->effective = TENT_PRIORITY_HIGH | TENT_PRIORITY_MEDIUM << 8 | TENT_PRIORITY_LOW << 16;
	if (!legacy)
		b->effective = b->effective << 8 | fallback;
	b->level_mask = j->one_level ? 0 : 3;
	lookup_init(&b->source, segment_table(j->handles->segments[0]), g->source);
	b->target.guesses = g->target;
	b->target_id = NO_TARGET;
}

static inline void fill(const struct bench *b, const struct tent_slot *s,
			const struct wanted *w, uint32_t index, struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	uint8_t priority = (uint8_t)(b->effective >> (8 * (uint32_t)w->priority));

	t->local_addr = word_at(&r->source);
	t->remote_addr = r->target_offset;
	t->length = r->length;
	t->done = 0;
	t->error = 0;
	t->rule = 0;
	t->flags = w->downgrades;
	t->status = TENT_STATUS_WAITING;
	t->transport = 0;
	t->rail = 0;
	t->attempts = 0;
	t->opcode = (uint8_t)r->opcode;
	t->intent = (uint8_t)w->intent;
	t->priority = priority;
	t->level = (uint8_t)((priority - 1u) & b->level_mask);
	t->user_data = s->user_data;
	t->deadline_ns = w->deadline_ns;
	t->seen_ticks = b->j->seen_ticks;
	t->queued_ticks = b->j->seen_ticks;
	t->index = b->j->first_index + index;
	t->batch = b->j->batch;
	t->state = b->j->state;
}

/* What backends may never see: it has no regions and no queue. */
static __attribute__((noinline)) bool soften(const struct bench *b, struct transfer *t,
					     uint16_t rule)
{
	if (!(b->j->slot_flags & TENT_SLOT_F_LEGACY) || !is_soft(rule))
		return false;
	t->local = t->remote = NULL;
	t->queue = NULL;
	transfer_end_by(t, rule);
	return true;
}

/* False: the batch is refused, for this entry's fault or for one that comes first. */
static inline bool judge_one(struct bench *b, const struct tent_slot *s, const char *cell,
			     uint32_t index, struct transfer *t)
{
	struct wanted w;
	struct fault f;

	if (likely(is_plain(b, s)))
		w = (struct wanted){ .intent = s->request.intent_type,
				     .priority = s->request.requested_priority };
	else if (layout_fault(b, s).rule || fields_fault(b, s, cell, &w).rule)
		return false;
	fill(b, s, &w, index, t);
	f = address_fault(b, s, t);
	if (likely(!f.rule))
		f = policy_fault(b, &w, t);
	if (unlikely(f.rule))
		return soften(b, t, f.rule);
	if (unlikely(!t->length))
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	return true;
}

bool judge_batch(const struct judge *j, const struct tent_slot *slots,
		 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		 struct transfer **transfers, struct refusal *why)
{
	struct region_guesses none;
	struct bench b;

	if (unlikely(!j->guesses))
		none = (struct region_guesses){ 0 };
	bench_init(&b, j, j->guesses ? j->guesses : &none);
	for (uint32_t i = 0; i < count; i++)
		if (unlikely(!judge_one(&b, &slots[i], cells[i], i, transfers[i]))) {
			/* What one pass refuses the other must never let through. */
			if (judge_in_order(j, slots, cells, count, why))
				*why = (struct refusal){ TENT_RULE_SYSTEM, i, 0 };
			return false;
		}
	why->rule = 0;
	return true;
}

enum stage { STAGE_LAYOUT, STAGE_FIELDS, STAGE_ADDRESS, STAGE_POLICY, STAGES };

static struct fault stage_fault(struct bench *b, enum stage stage, const struct tent_slot *s,
				const char *cell)
{
	struct transfer scratch = { 0 };
	struct wanted w;
	struct fault f;

	if (stage == STAGE_LAYOUT)
		return layout_fault(b, s);
	f = fields_fault(b, s, cell, &w);
	if (stage == STAGE_FIELDS)
		return f;
	f = address_fault(b, s, &scratch);
	if (stage == STAGE_POLICY && !f.rule)
		f = policy_fault(b, &w, &scratch);
	if ((b->j->slot_flags & TENT_SLOT_F_LEGACY) && is_soft(f.rule))
		return NO_FAULT;
	return f;
}

bool judge_in_order(const struct judge *j, const struct tent_slot *slots,
		    const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		    struct refusal *why)
{
	struct region_guesses none = { 0 };
	struct bench b;

	bench_init(&b, j, &none);
	for (int stage = STAGE_LAYOUT; stage < STAGES; stage++)
		for (uint32_t i = 0; i < count; i++) {
			struct fault f = stage_fault(&b, stage, &slots[i], cells[i]);

			if (f.rule) {
				*why = (struct refusal){ f.rule, i, f.value };
				return false;
			}
		}
	why->rule = 0;
	return true;
}

static enum stage stage_of(uint16_t rule)
{
	if (rule < TENT_RULE_OPCODE)
		return STAGE_LAYOUT;
	if (rule < TENT_RULE_SEGMENT)
		return STAGE_FIELDS;
	return rule < TENT_RULE_POLICY_UNKNOWN ? STAGE_ADDRESS : STAGE_POLICY;
}

bool refusal_precedes(uint16_t rule, uint16_t other)
{
	return !other || stage_of(rule) < stage_of(other);
}
