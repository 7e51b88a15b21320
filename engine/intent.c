/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intent.c - judges requests on private copies of their slots.
 *
 * Each check exists once, as a function that returns the fault it finds. A batch whose
 * slots are all plain (sniff_slot() knows) takes the short way: its fields need no
 * checks, and where hints know both ends, no search either. As soon as anything is
 * wrong anywhere, judge_in_order() goes over the same copies again in the order of
 * checks, and what it finds first is the answer.
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

/* A batch on its way through the judge. The loop over plain entries keeps one whose
 * address nobody takes, so that it lives in registers. */
struct bench {
	const struct judge *j;
	uint64_t seen_ticks;
	struct batch_state *batch;
	struct region_hints *hints; /* or NULL */
	const struct region_table *own, *target;
	/* address >> shift names a hint by its offset in bytes */
	int own_shift, target_shift;
	uint64_t target_id;	/* whose table target has */
	uint32_t priorities;	/* how many numbers a priority may have */
	bool foreign;		/* the target is somebody else's segment */
	bool some_ended;	/* a transfer came out ended */
	uint16_t effective[4];	/* what a priority's number stands for: EFFECTIVE() */
	const struct planner *planner;
};

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

/* ---- addresses --------------------------------------------------------- */

#define HINT_BYTES (sizeof(struct region_hint) * REGION_HINTS)
#define HINT_BITS 5	/* log2 of a hint's size */
_Static_assert((HINT_BYTES & (HINT_BYTES - 1)) == 0 &&
	       sizeof(struct region_hint) == 1 << HINT_BITS, "hint_of() masks");

#define GAPS 15		/* looked at, whatever the size of the table */

/* The median distance between neighbours' bases, of those that are looked at. */
static uint64_t median_gap(const struct region_table *t)
{
	uint32_t n = t->nr - 1 < GAPS ? t->nr - 1 : GAPS;
	uint64_t gaps[GAPS];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (uint32_t)((uint64_t)i * (t->nr - 1) / n), k = i;
		uint64_t gap = t->entries[at + 1].base - t->entries[at].base;

		for (; k > 0 && gaps[k - 1] > gap; k--)
			gaps[k] = gaps[k - 1];
		gaps[k] = gap;
	}
	return gaps[n / 2];
}

/* Neighbours get hints of their own, and a region's parts few: address >> *shift goes
 * up by about a hint from one region to the next. */
static __attribute__((noinline)) int hint_spread(const struct region_table *t,
						 const struct region_table **last, int *shift)
{
	uint64_t step = t->nr > 1 ? median_gap(t) :
			t->nr ? t->entries[0].end - t->entries[0].base : 0;
	int bits = 63 - __builtin_clzll(step | 1 << HINT_BITS);

	*last = t;
	*shift = bits - HINT_BITS;
	return *shift;
}

static inline int source_shift(struct region_hints *h, const struct region_table *t)
{
	return likely(h->source_table == t) ? h->source_shift :
	       hint_spread(t, &h->source_table, &h->source_shift);
}

static inline int target_shift(struct region_hints *h, const struct region_table *t)
{
	return likely(h->target_table == t) ? h->target_shift :
	       hint_spread(t, &h->target_table, &h->target_shift);
}

/* hints: those of the sources, or of the targets. */
static inline __attribute__((always_inline)) struct region_hint *
hint_of(struct region_hint *hints, uint64_t addr, int shift)
{
	uint64_t at = (addr >> shift) & (HINT_BYTES - sizeof(struct region_hint));

	return (struct region_hint *)((uint8_t *)hints + at);
}

/* Does the hint know the range [addr, addr + last]? None knows an empty range, which
 * may lie between two windows: its last is UINT64_MAX. */
static inline __attribute__((always_inline)) bool
hint_holds(const struct region_hint *hint, const struct region_table *t, uint64_t addr,
	   uint64_t last)
{
	return likely(hint->table == t) && likely(last < hint->size) &&
	       likely(addr - hint->base < hint->size - last);
}

/* The window of entry at: as much of it as one can be sure of without the others. */
static void hint_set(struct region_hint *hint, const struct region_table *t, uint32_t at)
{
	const struct region_entry *e = &t->entries[at];
	uint64_t end = at + 1 < t->nr && e[1].base < e->end ? e[1].base : e->end;

	*hint = (struct region_hint){ t, e->region, e->base, end - e->base };
}

/* The region of a range that does not wrap, or NULL. Leaves a hint when the region is
 * mapped and may be read and written (open: whatever its permission). hint may be NULL. */
static struct region *lookup_find(const struct region_table *t, uint64_t addr,
				  uint64_t length, struct region_hint *hint, bool open)
{
	struct region *found, *holder;
	uint32_t at;

	found = region_find_at(t, addr, length, &at);
	if (!found || !hint)
		return found;
	holder = t->entries[at].region;
	if (holder->addr && (open || holder->permission == TENT_PERM_GLOBAL_READ_WRITE))
		hint_set(hint, t, at);
	return found;
}

static struct region *find_source(const struct bench *b, uint64_t addr, uint64_t length)
{
	struct region_hint *hint = b->hints ? hint_of(b->hints->source, addr, b->own_shift) : NULL;

	return lookup_find(b->own, addr, length, hint, true);
}

static struct region *find_target(const struct bench *b, uint64_t addr, uint64_t length)
{
	struct region_hint *hint = b->hints ? hint_of(b->hints->target, addr, b->target_shift) : NULL;

	return lookup_find(b->target, addr, length, hint, !b->foreign);
}

/* False: no open segment has this handle. */
static inline __attribute__((always_inline)) bool bench_target(struct bench *b, uint64_t id)
{
	const struct handle_table *h = b->j->handles;
	const struct segment *segment = id < h->nr ? h->segments[id] : NULL;

	if (!segment)
		return false;
	b->target = segment_table(segment);
	b->target_shift = b->hints ? target_shift(b->hints, b->target) : 0;
	b->target_id = id;
	b->foreign = segment != h->segments[0];
	return true;
}

/* Do hints know both ends? Then all of address_fault() passes. */
static inline __attribute__((always_inline)) bool
hints_know(struct bench *b, const struct tent_request_v1 *r, const struct region_hint **local,
	   const struct region_hint **remote)
{
	uint64_t source = word_at(&r->source), target = r->target_offset, last = r->length - 1;

	if (unlikely(r->target_id != b->target_id) && !bench_target(b, r->target_id))
		return false;
	*local = hint_of(b->hints->source, source, b->own_shift);
	if (!hint_holds(*local, b->own, source, last))
		return false;
	*remote = hint_of(b->hints->target, target, b->target_shift);
	return hint_holds(*remote, b->target, target, last);
}

static bool is_permitted(const struct region *r, int32_t opcode)
{
	return r->permission == TENT_PERM_GLOBAL_READ_WRITE ||
	       (r->permission == TENT_PERM_GLOBAL_READ_ONLY && opcode == TENT_OPCODE_READ);
}

static __attribute__((noinline)) struct fault address_fault(struct bench *b, const struct tent_slot *s,
				  struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	uint64_t source = word_at(&r->source), target = r->target_offset, length = r->length;

	if (r->target_id != b->target_id && !bench_target(b, r->target_id))
		return FAULT(SEGMENT, r->target_id);
	if (source + length < source)
		return FAULT(SOURCE_RANGE, source);
	t->local = find_source(b, source, length);
	if (!t->local)
		return FAULT(SOURCE_UNREGISTERED, source);
	if (target + length < target)
		return FAULT(TARGET_RANGE, target);
	t->remote = find_target(b, target, length);
	if (!t->remote)
		return FAULT(TARGET_UNREGISTERED, target);
	if (b->foreign && !is_permitted(t->remote, r->opcode))
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
	rule = plan_transfer(b->planner, w->hint, t);
	return (struct fault){ rule, w->hint };
}

/* Failures that a legacy batch lets the one request have. A transport that this build
 * lacks is not among them: the older library refused the submit for it, too. */
static bool is_soft(uint16_t rule)
{
	return rule >= TENT_RULE_SEGMENT && rule != TENT_RULE_TRANSPORT_BUILD;
}

/* ---- the judge --------------------------------------------------------- */

/* A priority and the level it is scheduled in, as they lie in struct transfer. */
#define EFFECTIVE(priority) ((uint64_t)((priority) | ((priority) - 1) << 8))

/* Four of them, by number: UNSPEC first. */
static uint64_t effective_of(const struct judge *j)
{
	uint64_t all = EFFECTIVE(j->space->default_priority) |
		       EFFECTIVE(TENT_PRIORITY_HIGH) << 16 |
		       EFFECTIVE(TENT_PRIORITY_MEDIUM) << 32 |
		       EFFECTIVE(TENT_PRIORITY_LOW) << 48;

	return j->one_level ? all & 0x00ff00ff00ff00ffull : all;
}

void judge_settle(struct judge *j, struct planner *planner)
{
	planner_init(planner, j->queues, j->nr_queues);
	j->planner = planner;
	j->effective = effective_of(j);
	j->has_short_way = j->hints && planner->mapped;
}

static inline __attribute__((always_inline)) void
bench_init(struct bench *b, const struct judge *j, uint64_t effective,
	   struct region_hints *hints, const struct planner *planner)
{
	bool legacy = j->slot_flags & TENT_SLOT_F_LEGACY;

	effective >>= legacy ? 16 : 0;	/* the legacy numbering begins with HIGH */
	memcpy(b->effective, &effective, sizeof(effective));
	b->priorities = legacy ? 3 : 4;
	b->j = j;
	b->seen_ticks = j->seen_ticks;
	b->batch = j->batch;
	b->hints = hints;
	b->own = segment_table(j->handles->segments[0]);
	b->own_shift = hints ? source_shift(hints, b->own) : 0;
	/* Its own segment to begin with: a mark for "none yet" would be a number that a
	 * client may name, and would then find whatever table was there before. */
	b->target = b->own;
	b->target_shift = b->own_shift;
	b->target_id = 0;
	b->foreign = false;
	b->some_ended = false;
	b->planner = planner;
}

/* For a judge that may be settled or not; own is its planner when it has none. */
static void bench_open(struct bench *b, const struct judge *j, struct planner *own)
{
	const struct planner *planner = j->planner;

	if (!planner) {
		planner_init(own, j->queues, j->nr_queues);
		planner = own;
	}
	bench_init(b, j, j->effective ? j->effective : effective_of(j), j->hints, planner);
}

/* opcode, intent, priority, level in one store. */
static inline void put_kind(struct transfer *t, uint32_t opcode, uint32_t intent,
			    uint32_t effective)
{
	uint32_t word = opcode | intent << 8 | effective << 16;

	memcpy(&t->opcode, &word, sizeof(word));
}
_Static_assert(offsetof(struct transfer, intent) == offsetof(struct transfer, opcode) + 1 &&
	       offsetof(struct transfer, priority) == offsetof(struct transfer, opcode) + 2 &&
	       offsetof(struct transfer, level) == offsetof(struct transfer, opcode) + 3,
	       "put_kind() writes these four");

/* flags, status, transport: the same. */
static inline void put_end(struct transfer *t, uint16_t flags, uint8_t transport)
{
	uint32_t word = flags | TENT_STATUS_WAITING << 16 | (uint32_t)transport << 24;

	memcpy(&t->flags, &word, sizeof(word));
}
_Static_assert(offsetof(struct transfer, status) == offsetof(struct transfer, flags) + 2 &&
	       offsetof(struct transfer, transport) == offsetof(struct transfer, flags) + 3,
	       "put_end() writes these three");

/* All of a transfer but its ends and its queue. */
static inline __attribute__((always_inline)) void
fill(const struct bench *b, const struct tent_slot *s, const struct wanted *w,
     uint32_t index, struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;

	t->local_addr = word_at(&r->source);
	t->remote_addr = r->target_offset;
	t->length = r->length;
	t->deadline_ns = w->deadline_ns;
	put_kind(t, (uint32_t)r->opcode, (uint32_t)w->intent, b->effective[w->priority]);
	put_end(t, w->downgrades, b->planner->transport); /* if planner->mapped moves it */
	t->user_data = s->user_data;
	t->done = 0;
	t->error = TENT_OK;
	t->index = index;
	t->seen_ticks = b->seen_ticks;
	t->posted_ticks = 0;
	t->rule = TENT_RULE_NONE;
	t->rail = 0;
	t->attempts = 0;
	t->batch = b->batch;
}

/* What backends may never see: it has no regions and no queue. */
static __attribute__((noinline)) bool soften(struct bench *b, struct transfer *t,
					     uint16_t rule)
{
	if (!(b->j->slot_flags & TENT_SLOT_F_LEGACY) || !is_soft(rule))
		return false;
	t->local = t->remote = NULL;
	t->queue = NULL;
	transfer_end_by(t, rule);
	b->some_ended = true;
	return true;
}

/* Both ends, by hints or by a search. The rule that one of them breaks, or 0. */
static inline uint16_t find_ends(struct bench *b, const struct tent_slot *s,
				 struct transfer *t)
{
	const struct region_hint *local, *remote;

	if (unlikely(!b->hints) || !hints_know(b, &s->request, &local, &remote))
		return address_fault(b, s, t).rule;
	t->local = local->region;
	t->remote = remote->region;
	return 0;
}

/* Fields are fine; now the rest. False: the batch is refused. */
static inline __attribute__((always_inline)) bool
judge_ends(struct bench *b, const struct tent_slot *s, const struct wanted *w,
	   uint32_t index, struct transfer *t)
{
	uint16_t rule;

	fill(b, s, w, index, t);
	rule = find_ends(b, s, t);
	if (!rule)
		rule = policy_fault(b, w, t).rule;
	if (unlikely(rule))
		return soften(b, t, rule);
	if (unlikely(!t->length)) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		b->some_ended = true;
	}
	return true;
}

/* A plain one whose ends no hint knows. */
static __attribute__((noinline)) bool judge_searched(struct bench *b,
						     const struct tent_slot *s,
						     uint32_t index, struct transfer *t)
{
	const struct wanted w = {
		.intent = s->request.intent_type, .priority = s->request.requested_priority,
	};

	return judge_ends(b, s, &w, index, t);
}

/* The long way. False: the batch is refused, for this entry's fault or for one that
 * comes first. */
static __attribute__((noinline)) bool judge_general(struct bench *b, const struct tent_slot *s,
						    const char *cell, uint32_t index,
						    struct transfer *t)
{
	struct wanted w;

	if (layout_fault(b, s).rule || fields_fault(b, s, cell, &w).rule)
		return false;
	return judge_ends(b, s, &w, index, t);
}

/* The short way. False: a hint is missing; the long way finds out more, and leaves
 * hints for the next time. */
static inline __attribute__((always_inline)) bool
judge_plain(struct bench *b, const struct tent_slot *s, uint32_t index, struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	const struct wanted w = {
		.intent = r->intent_type, .priority = r->requested_priority,
	};
	const struct region_hint *local, *remote;

	if (!hints_know(b, r, &local, &remote))
		return false;
	fill(b, s, &w, index, t);
	t->local = local->region;
	t->remote = remote->region;
	t->queue = b->planner->mapped;	/* and transport, see fill() */
	return true;
}

/* As many entries as go the short way, from the first on. */
static inline __attribute__((always_inline)) uint32_t
judge_run(struct bench *b, const struct tent_slot *s, uint32_t count, uint32_t index,
	  struct transfer **transfers)
{
	const struct tent_slot *first = s, *end = s + count;

	for (; s < end; s++, transfers++, index++)
		if (unlikely(!judge_plain(b, s, index, *transfers)))
			break;
	return (uint32_t)(s - first);
}

/* Entries from i on. Where it stopped: at a fault, or at count. */
static __attribute__((noinline)) uint32_t
judge_rest(const struct judge *j, const struct tent_slot *slots,
	   const char (*cells)[TENT_CELL_SIZE], uint32_t i, uint32_t count,
	   struct transfer **transfers, bool *some_ended)
{
	struct planner own;
	struct bench b;

	bench_open(&b, j, &own);
	if (!j->is_plain)
		while (i < count && judge_general(&b, &slots[i], cells[i],
						  j->first_index + i, transfers[i]))
			i++;
	else
		while (i < count && judge_searched(&b, &slots[i], j->first_index + i,
						   transfers[i]))
			i++;
	*some_ended = b.some_ended;
	return i;
}

bool judge_batch(const struct judge *j, const struct tent_slot *slots,
		 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		 struct transfer **transfers, struct refusal *why)
{
	struct region_hints *hints = j->hints;
	struct bench plain;
	uint32_t i = 0;

	why->rule = 0;
	why->some_ended = false;
	if (likely(j->is_plain && hints)) {
		bench_init(&plain, j, j->effective, hints, j->planner);
		i = judge_run(&plain, slots, count, j->first_index, transfers);
		if (likely(i == count))
			return true;
	}
	i = judge_rest(j, slots, cells, i, count, transfers, &why->some_ended);
	if (i == count)
		return true;
	/* What one pass refuses the other must never let through. */
	if (judge_in_order(j, slots, cells, count, why))
		*why = (struct refusal){ .rule = TENT_RULE_SYSTEM, .index = i };
	return false;
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
	struct planner own;
	struct bench b;

	bench_open(&b, j, &own);
	for (int stage = STAGE_LAYOUT; stage < STAGES; stage++)
		for (uint32_t i = 0; i < count; i++) {
			struct fault f = stage_fault(&b, stage, &slots[i], cells[i]);

			if (f.rule) {
				*why = (struct refusal){ .rule = f.rule, .index = i,
							 .value = f.value };
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
