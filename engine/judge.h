/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - what intent.c and intent_fields.c share; everyone else sees intent.h. */
#ifndef TENT_ENGINE_JUDGE_H
#define TENT_ENGINE_JUDGE_H

#include <string.h>

#include "engine/hot.h"
#include "engine/intent.h"
#include "engine/plan.h"

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
	size_t targets;		/* where among them those for the target begin */
	const struct region_table *own, *target;
	/* address >> shift names a hint by its offset in bytes */
	int own_shift, target_shift;
	uint64_t target_id;	/* whose table target has */
	uint32_t priorities;	/* how many numbers a priority may have */
	bool foreign;		/* the target is somebody else's segment */
	bool some_odd;		/* see BATCH_ACCEPTED_ODD */
	const uint32_t *kinds;	/* see KIND_AT(), priorities as these slots count them */
	const struct planner *planner;
	bool by_ways;		/* what was chosen for far memory before may be taken again, */
	uint32_t changes;	/* by this planner_changes() */
	uint64_t first_way;	/* region_way.kind of the first of kinds */
};

static inline bool is_compat(const struct bench *b)
{
	const struct contract *c = b->j->contract;

	return c ? c->compat : b->j->space->compat;
}

/* Slots hold pointers of any width in 8 bytes, the high half included. */
static inline uint64_t word_at(const void *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* The layout that most have: there is nothing for the next one to find. */
static inline bool has_known_layout(const struct tent_slot *s)
{
	return s->request.struct_size == TENT_REQUEST_V1_SIZE && !s->tail_offset &&
	       s->request.schema_version == TENT_REQUEST_SCHEMA_V1 &&
	       (!s->entry_stride || s->entry_stride >= TENT_REQUEST_V1_SIZE);
}

/* First over all entries of a batch: size, schema, tail. */
struct fault layout_fault(const struct bench *b, const struct tent_slot *s);

/* Then over all of them: fields by offset, the slot's own reserved words last. Fills w,
 * also where it downgrades. cell: the text of a policy name. */
struct fault fields_fault(const struct bench *b, const struct tent_slot *s,
			  const char *cell, struct wanted *w);

/* Last, where there is a contract: may it be moved as it is asked, and by whom? t has its
 * ends; gets its queue, and the flags of what it was denied. */
struct fault contract_fault(struct bench *b, const struct wanted *w, const char *cell,
			    uint64_t length, struct transfer *t);
/* Would all between the same ends whose word is at this place of the contract's kinds go
 * where t goes, if they name no policy? */
bool contract_lasts(const struct contract *c, uint32_t place, const struct transfer *t);

#endif /* TENT_ENGINE_JUDGE_H */
