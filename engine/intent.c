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
#include "engine/judge.h"

/* ---- addresses --------------------------------------------------------- */

static struct region *find_source(const struct bench *b, uint64_t addr, uint64_t length)
{
	struct region_hint *hint = b->hints ?
				   hint_of(b->hints, HINTS_SOURCE, addr, b->own_shift) : NULL;

	return hint_search(b->own, addr, length, hint, true);
}

static struct region *find_target(const struct bench *b, uint64_t addr, uint64_t length)
{
	struct region_hint *hint = b->hints ?
				   hint_of(b->hints, b->targets, addr, b->target_shift) : NULL;

	return hint_search(b->target, addr, length, hint, false);
}

/* False: no open segment has this handle. */
static inline __attribute__((always_inline)) bool bench_target(struct bench *b, uint64_t id)
{
	const struct handle_table *h = b->j->handles;
	const struct segment *segment = id < h->nr ? h->segments[id] : NULL;

	if (!segment)
		return false;
	b->target = segment_table(segment);
	b->target_shift = b->hints ? hint_shift(b->hints, b->target) : 0;
	b->targets = segment->is_far ? HINTS_FAR : HINTS_TARGET;
	b->target_id = id;
	b->foreign = segment != h->segments[0];
	return true;
}

/* Nothing of the target holds the address: its engine may be away. */
static uint16_t missing_rule(const struct bench *b)
{
	const struct segment *s = b->j->handles->segments[b->target_id];

	return load_relaxed(&s->lost) ? TENT_RULE_TARGET_PEER : TENT_RULE_TARGET_UNREGISTERED;
}

/* Do hints, for targets these, know both ends? Then all of address_fault() passes. */
static inline __attribute__((always_inline)) bool
hints_know(struct bench *b, const struct tent_request_v1 *r, size_t targets,
	   const struct region_hint **local, const struct region_hint **remote)
{
	uint64_t source = word_at(&r->source), target = r->target_offset, last = r->length - 1;

	*local = hint_of(b->hints, HINTS_SOURCE, source, b->own_shift);
	if (!hint_holds(*local, b->own, source, last))
		return false;
	*remote = hint_of(b->hints, targets, target, b->target_shift);
	return hint_holds(*remote, b->target, target, last);
}

static inline __attribute__((always_inline)) bool bench_is_at(struct bench *b, uint64_t target_id)
{
	return likely(target_id == b->target_id) || bench_target(b, target_id);
}

static bool is_permitted(const struct region *r, int32_t opcode)
{
	return r->permission == TENT_PERM_GLOBAL_READ_WRITE ||
	       (r->permission == TENT_PERM_GLOBAL_READ_ONLY && opcode == TENT_OPCODE_READ);
}

static __attribute__((noinline)) struct fault
address_fault(struct bench *b, const struct tent_slot *s, struct transfer *t)
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
		return (struct fault){ missing_rule(b), (int64_t)target };
	if (b->foreign && !is_permitted(t->remote, r->opcode))
		return FAULT(TARGET_PERMISSION, target);
	return NO_FAULT;
}

/* ---- policy ------------------------------------------------------------ */

/* Without a contract no name is known, and every transport may be used. */
static inline struct fault policy_fault(struct bench *b, const struct wanted *w,
					const char *cell, uint64_t length, struct transfer *t)
{
	uint16_t rule;

	if (unlikely(b->j->contract))
		return contract_fault(b, w, cell, length, t);
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

/* Where nothing is configured the intent makes no difference. */
static void make_kinds(const struct judge *j, uint32_t kinds[KINDS])
{
	for (uint32_t i = 0; i < KINDS; i++) {
		uint32_t asked = i % PRIORITIES;
		uint32_t priority = asked ? asked : j->space->default_priority;

		kinds[i] = priority << 16 | (j->one_level ? 0 : (priority - 1) << 24);
	}
}

void judge_settle(struct judge *j, struct planner *planner, uint32_t kinds[KINDS])
{
	planner_init(planner, j->queues, j->nr_queues, planner->paths);
	j->planner = planner;
	make_kinds(j, kinds);
	j->own_kinds = kinds;
	judge_take_contract(j, j->contract);
}

void judge_take_contract(struct judge *j, const struct contract *contract)
{
	j->contract = contract;
	j->kinds = contract ? contract->kinds : j->own_kinds;
	if (!j->hints)
		j->short_way = SHORT_NONE;
	else if (!j->planner->mapped)
		j->short_way = SHORT_FAR;
	else
		j->short_way = !contract || contract->all_short ? SHORT_ALL : SHORT_SOME;
}

static inline __attribute__((always_inline)) void
bench_init(struct bench *b, const struct judge *j, const uint32_t *kinds,
	   const struct planner *planner, const struct region_table *own, int own_shift)
{
	uint32_t legacy = (j->slot_flags & TENT_SLOT_F_LEGACY) != 0;

	kinds += legacy;	/* its numbering begins with HIGH */
	__asm__("" : "+r"(kinds));	/* one sum, not one per request */
	b->kinds = kinds;
	b->priorities = 4 - legacy;
	b->j = j;
	b->seen_ticks = j->seen_ticks;
	b->batch = j->batch;
	b->hints = j->hints;
	b->targets = HINTS_TARGET;
	b->own = own;
	b->own_shift = own_shift;
	/* Its own segment to begin with: a mark for "none yet" would be a number that a
	 * client may name, and would then find whatever table was there before. */
	b->target = b->own;
	b->target_shift = b->own_shift;
	b->target_id = 0;
	b->foreign = false;
	b->some_odd = false;
	b->planner = planner;
}

/* What a judge needs that was not settled. */
struct unsettled {
	struct planner planner;
	uint32_t kinds[KINDS];
};

/* For a judge that may be settled or not. */
static void bench_open(struct bench *b, const struct judge *j, struct unsettled *u)
{
	const struct region_table *own = segment_table(j->handles->segments[0]);
	int shift = j->hints ? hint_shift(j->hints, own) : 0;

	if (j->planner) {
		bench_init(b, j, j->kinds, j->planner, own, shift);
		return;
	}
	planner_init(&u->planner, j->queues, j->nr_queues, NULL);
	make_kinds(j, u->kinds);
	bench_init(b, j, j->contract ? j->contract->kinds : u->kinds, &u->planner, own, shift);
}

/* opcode, intent, priority, level in one store. kind has the last two in place, and
 * nothing else. */
static inline void put_kind(struct transfer *t, uint32_t opcode, uint32_t intent, uint32_t kind)
{
	uint32_t word = opcode | intent << 8 | kind;

	memcpy(&t->opcode, &word, sizeof(word));
}
_Static_assert(offsetof(struct transfer, intent) == offsetof(struct transfer, opcode) + 1 &&
	       offsetof(struct transfer, priority) == offsetof(struct transfer, opcode) + 2 &&
	       offsetof(struct transfer, level) == offsetof(struct transfer, opcode) + 3,
	       "put_kind() writes these four");

/* flags, status, transport: the same. end has the transport in place. */
static inline void put_end(struct transfer *t, uint16_t flags, uint32_t end)
{
	uint32_t word = flags | TENT_STATUS_WAITING << 16 | end;

	memcpy(&t->flags, &word, sizeof(word));
}
_Static_assert(offsetof(struct transfer, status) == offsetof(struct transfer, flags) + 2 &&
	       offsetof(struct transfer, transport) == offsetof(struct transfer, flags) + 3,
	       "put_end() writes these three");

/* All of a transfer but its ends and its queue. kind: of KIND_MASK. */
static inline __attribute__((always_inline)) void
fill(const struct bench *b, const struct tent_slot *s, const struct wanted *w,
     uint32_t kind, uint32_t index, struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;

	t->local_addr = word_at(&r->source);
	t->remote_addr = r->target_offset;
	t->length = r->length;
	t->deadline_ns = w->deadline_ns;
	put_kind(t, (uint32_t)r->opcode, (uint32_t)w->intent, kind);
	put_end(t, w->downgrades, b->planner->end); /* if planner->mapped moves it */
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
	b->some_odd = true;
	return true;
}

/* Both ends, by hints or by a search. The rule that one of them breaks, or 0. */
static inline __attribute__((always_inline)) uint16_t
find_ends(struct bench *b, const struct tent_slot *s,
				 struct transfer *t)
{
	const struct region_hint *local, *remote;

	if (unlikely(!b->hints) || !bench_is_at(b, s->request.target_id) ||
	    (!hints_know(b, &s->request, HINTS_TARGET, &local, &remote) &&
	     (b->targets != HINTS_FAR ||
	      !hints_know(b, &s->request, HINTS_FAR, &local, &remote))))
		return address_fault(b, s, t).rule;
	t->local = local->region;
	t->remote = remote->region;
	return 0;
}

/* Fields are fine; now the rest. False: the batch is refused. */
static inline __attribute__((always_inline)) bool
judge_ends(struct bench *b, const struct tent_slot *s, const struct wanted *w,
	   const char *cell, uint32_t index, struct transfer *t)
{
	uint32_t kind = b->kinds[KIND_AT(w->intent, w->priority)];
	uint16_t rule;

	fill(b, s, w, kind & KIND_MASK, index, t);
	rule = find_ends(b, s, t);
	if (!rule)
		rule = policy_fault(b, w, cell, t->length, t).rule;
	if (unlikely(rule))
		return soften(b, t, rule);
	if (unlikely(!t->length)) {
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		b->some_odd = true;
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

	return judge_ends(b, s, &w, NULL, index, t);
}

/* The long way. False: the batch is refused, for this entry's fault or for one that
 * comes first. */
static __attribute__((noinline)) bool judge_general(struct bench *b, const struct tent_slot *s,
						    const char *cell, uint32_t index,
						    struct transfer *t)
{
	struct wanted w;

	if ((unlikely(!has_known_layout(s)) && layout_fault(b, s).rule) ||
	    fields_fault(b, s, cell, &w).rule)
		return false;
	return judge_ends(b, s, &w, cell, index, t);
}

/* The short way. False: a hint is missing, or some kinds have to go the long way and this
 * is one; that finds out more, and leaves hints for the next time. */
static inline __attribute__((always_inline)) bool
judge_plain(struct bench *b, const struct tent_slot *s, bool some, uint32_t index,
	    struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	const struct wanted w = {
		.intent = r->intent_type, .priority = r->requested_priority,
	};
	uint32_t kind = b->kinds[KIND_AT(w.intent, w.priority)];
	const struct region_hint *local, *remote;

	if ((some && unlikely(kind & ~KIND_MASK)) || !bench_is_at(b, r->target_id) ||
	    !hints_know(b, r, HINTS_TARGET, &local, &remote))
		return false;
	fill(b, s, &w, kind, index, t);
	t->local = local->region;
	t->remote = remote->region;
	t->queue = b->planner->mapped;	/* and transport, see fill() */
	return true;
}

/* As many entries as go the short way, from the first on. some: not all kinds do. */
static inline __attribute__((always_inline)) uint32_t
judge_run(struct bench *b, const struct tent_slot *s, bool some, uint32_t count,
	  uint32_t index, struct transfer **transfers)
{
	const struct tent_slot *first = s, *end = s + count;

	for (; s < end; s++, transfers++, index++)
		if (unlikely(!judge_plain(b, s, some, index, *transfers)))
			break;
	return (uint32_t)(s - first);
}

static __attribute__((noinline)) uint32_t
judge_some(const struct judge *j, const struct tent_slot *slots, uint32_t count,
	   struct transfer **transfers)
{
	struct bench b;

	bench_init(&b, j, j->kinds, j->planner, j->own, j->own_shift);
	return judge_run(&b, slots, true, count, j->first_index, transfers);
}

/* ---- plain ones to memory of other engines ------------------------------ */

/* What was chosen before may be taken again, while it stands. */
static void bench_take_ways(struct bench *b)
{
	const struct contract *c = b->j->contract;

	b->by_ways = !planner_avoids(b->planner);
	b->changes = planner_changes(b->planner);
	b->first_way = (c ? c->serial << 8 : 0) + 4 - b->priorities;
}

static inline uint64_t way_kind(const struct bench *b, const struct tent_request_v1 *r)
{
	return b->first_way + KIND_AT(r->intent_type, r->requested_priority);
}

/* By the way that was chosen for one like it. False: nothing is known. */
static inline __attribute__((always_inline)) bool
judge_far(struct bench *b, const struct tent_slot *s, uint32_t index, struct transfer *t)
{
	const struct tent_request_v1 *r = &s->request;
	const struct wanted w = {
		.intent = r->intent_type, .priority = r->requested_priority,
	};
	const struct region_hint *local, *remote;
	const struct region_way *way;

	if (!bench_is_at(b, r->target_id) || b->targets != HINTS_FAR ||
	    !hints_know(b, r, HINTS_FAR, &local, &remote))
		return false;
	way = way_find(b->hints, local->region, remote->region, way_kind(b, r), b->changes);
	if (!way)
		return false;
	fill(b, s, &w, b->kinds[KIND_AT(w.intent, w.priority)] & KIND_MASK, index, t);
	t->local = local->region;
	t->remote = remote->region;
	t->queue = way->queue;
	t->transport = way->queue->ops->transport;
	if (unlikely(way->pool))
		transfer_set_pool(t, way->pool);
	return true;
}

/* As judge_run(), from entry i on; where it stopped. */
static __attribute__((noinline)) uint32_t
judge_far_run(const struct judge *j, const struct tent_slot *slots, uint32_t i, uint32_t count,
	      struct transfer **transfers)
{
	struct bench b;

	bench_init(&b, j, j->kinds, j->planner, j->own, j->own_shift);
	bench_take_ways(&b);
	while (b.by_ways && i < count && judge_far(&b, &slots[i], j->first_index + i, transfers[i]))
		i++;
	return i;
}

/* What was found out for this one may be taken for others like it. */
static void keep_way(struct bench *b, const struct tent_slot *s, const struct transfer *t)
{
	const struct contract *c = b->j->contract;
	uint64_t kind = way_kind(b, &s->request);
	uint8_t place = kind & 0xff;

	if (!b->by_ways || !t->queue || !t->remote->far)
		return;
	if (c && !contract_lasts(c, place, t))
		return;
	way_keep(b->hints, &(struct region_way){
		.local = t->local, .remote = t->remote, .kind = kind, .queue = t->queue,
		.changes = b->changes, .pool = t->intent & TRANSFER_HAS_POOL ? t->pool : 0,
	});
}

static bool judge_either(struct bench *b, const struct tent_slot *s, uint32_t index,
			 struct transfer *t)
{
	if ((b->by_ways && judge_far(b, s, index, t)) ||
	    (b->j->way != SHORT_FAR && judge_plain(b, s, true, index, t)))
		return true;
	if (!judge_searched(b, s, index, t))
		return false;
	keep_way(b, s, t);
	return true;
}

/* Entries from i on. Where it stopped: at a fault, or at count. */
static __attribute__((noinline)) uint32_t
judge_rest(const struct judge *j, const struct tent_slot *slots,
	   const char (*cells)[TENT_CELL_SIZE], uint32_t i, uint32_t count,
	   struct transfer **transfers, bool *some_odd)
{
	struct unsettled own;
	uint64_t deadlines = 0;
	struct bench b;

	bench_open(&b, j, &own);
	if (j->way)
		bench_take_ways(&b);
	if (!j->way)
		while (i < count && judge_general(&b, &slots[i], cells[i],
						  j->first_index + i, transfers[i]))
			deadlines |= transfers[i++]->deadline_ns;
	else
		while (i < count && judge_either(&b, &slots[i], j->first_index + i,
						 transfers[i]))
			i++;
	*some_odd = b.some_odd || deadlines;
	return i;
}

#define JUDGE_TRIES 4

enum verdict judge_batch(const struct judge *j, const struct tent_slot *slots,
			 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
			 struct transfer **transfers, struct refusal *why)
{
	bool some_odd = false;
	struct bench plain;
	uint32_t i = 0;

	if (likely(j->way == SHORT_ALL)) {
		bench_init(&plain, j, j->kinds, j->planner, j->own, j->own_shift);
		i = judge_run(&plain, slots, false, count, j->first_index, transfers);
		if (likely(i == count))
			return BATCH_ACCEPTED;
	} else if (j->way == SHORT_SOME) {
		i = judge_some(j, slots, count, transfers);
		if (likely(i == count))
			return BATCH_ACCEPTED;
	}
	if (j->way && (i = judge_far_run(j, slots, i, count, transfers)) == count)
		return BATCH_ACCEPTED;
	/* A registration may land between the pass that refuses and the one that looks for
	 * the first failure: then there is none, and the batch is judged anew. Bounded, as
	 * a client may register without end, and as the passes must not differ otherwise. */
	for (int tries = 0; tries < JUDGE_TRIES; tries++) {
		i = judge_rest(j, slots, cells, i, count, transfers, &some_odd);
		if (i == count)
			return some_odd ? BATCH_ACCEPTED_ODD : BATCH_ACCEPTED;
		if (!judge_in_order(j, slots, cells, count, why))
			return BATCH_REFUSED;
		i = 0;
	}
	*why = (struct refusal){ .rule = TENT_RULE_SYSTEM };
	return BATCH_REFUSED;
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
		f = policy_fault(b, &w, cell, s->request.length, &scratch);
	if ((b->j->slot_flags & TENT_SLOT_F_LEGACY) && is_soft(f.rule))
		return NO_FAULT;
	return f;
}

bool judge_in_order(const struct judge *j, const struct tent_slot *slots,
		    const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		    struct refusal *why)
{
	struct unsettled own;
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
