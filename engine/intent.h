/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intent.h - the one judge of requests. Pure functions over private copies;
 * intake and explain call the same ones.
 *
 * Order of checks at every door: layout and schema of all entries by index; all
 * entries by index, fields by offset, the slot's own reserved words last; addresses;
 * policy. The first failure is the answer.
 */
#ifndef TENT_ENGINE_INTENT_H
#define TENT_ENGINE_INTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tent/ring.h>

#include "engine/backend.h"
#include "engine/contract.h"
#include "engine/mem.h"
#include "engine/region_hints.h"

#define DEADLINE_HORIZON_NS (365ull * 24 * 3600 * 1000000000)

struct judge {
	const struct client_space *space;
	const struct handle_table *handles;	/* loaded once per batch */
	const struct contract *contract;	/* the same; NULL: nothing is configured */
	struct backend_queue *const *queues;	/* what plan may choose from */
	uint32_t nr_queues;
	uint64_t now_ns;	/* one "now" per batch; read when a deadline is there */
	uint16_t slot_flags;	/* of the batch */
	/* the rest may be zero when nothing will run, as for explain */
	bool one_level;		/* every priority goes into level 0 */
	uint32_t first_index;	/* of slots[0] in its batch */
	uint64_t seen_ticks;
	struct batch_state *batch;
	struct region_hints *hints;
	/* what judge_settle() makes once for many batches */
	const struct planner *planner; /* of queues; NULL: made when it is needed */
	const uint32_t *own_kinds; /* without a contract */
	/* what judge_load() keeps of the contract, and of the own segment's table */
	const uint32_t *kinds;	/* see KIND_AT() */
	uint8_t short_way;	/* enum short_way */
	const struct region_table *own;
	int own_shift;
	/* of these slots: short_way where sniff_slot() found nothing in any, else SHORT_NONE */
	uint8_t way;
};

/* Which plain requests there is a short way for. */
enum short_way {
	SHORT_NONE,
	SHORT_ALL,
	SHORT_SOME,	/* those whose kind says nothing else */
	SHORT_FAR	/* none to memory that is mapped here: by ways that were found only */
};

/* For a judge with space, queues, contract, one_level and hints. The others outlive it, and
 * are filled in; planner->paths is there already, or NULL. */
void judge_settle(struct judge *j, struct planner *planner, uint32_t kinds[KINDS]);

/* Goes by another contract from now on; NULL: by none. */
void judge_take_contract(struct judge *j, const struct contract *contract);

/* Before each batch, or piece of one, for a judge that was settled. */
static inline void judge_load(struct judge *j, const struct handle_table *handles,
			      const struct contract *contract)
{
	const struct region_table *own = segment_table(handles->segments[0]);

	j->handles = handles;
	if (unlikely(contract != j->contract))
		judge_take_contract(j, contract);
	if (likely(own == j->own))
		return;
	j->own = own;
	j->own_shift = j->hints ? hint_shift(j->hints, own) : 0;
}

/*
 * What can be told of slots while their copies pass through registers. A slot is plain
 * when all that the layout and field checks look at has a value that passes and needs
 * nothing done: a batch of plain slots takes the short way through the judge. Words are
 * gathered per slot and looked at per batch; a word holds four fields of 32 bits.
 */
typedef int32_t sniff_word __attribute__((vector_size(16), may_alias));
struct sniff {
	sniff_word zero;	/* must be zero: op..cq_head, notify; policy, hint, reserved0 */
	sniff_word size;	/* struct_size ^ 88, schema ^ 1, opcode, resv0 */
	sniff_word kind;	/* intent, priority, deadline */
	sniff_word above;	/* ... beyond what is allowed */
	sniff_word tail_or, tail_and; /* flags, tail_offset, entry_stride */
	sniff_word highest;	/* what is allowed in kind */
};

static inline void sniff_begin(struct sniff *f, uint16_t slot_flags)
{
	int32_t lowest = slot_flags & TENT_SLOT_F_LEGACY ? 2 : TENT_PRIORITY_LOW;

	*f = (struct sniff){
		.tail_and = { -1, -1, -1, -1 },
		.highest = { TENT_INTENT_STAGING_INTERNAL - 1, lowest, INT32_MAX, INT32_MAX },
	};
}

/* s: the private copy, 16-aligned; is_first: op, flags and cq_head mean something in it. */
static inline __attribute__((always_inline)) void
sniff_slot(struct sniff *f, const struct tent_slot *s, bool is_first)
{
	static const sniff_word plain_size = {
		TENT_REQUEST_V1_SIZE, TENT_REQUEST_SCHEMA_V1, 0, 0 };
	static const sniff_word resv = { 0xff00, 0, -1, -1 };
	const sniff_word *word = (const sniff_word *)s;

	if (is_first)
		f->zero |= word[1] & resv;
	else
		f->zero |= word[1];
	f->zero |= word[6];
	f->size |= word[2] ^ plain_size;
	f->kind |= word[5];
	f->above |= word[5] > f->highest;
	f->tail_or |= word[7];
	f->tail_and &= word[7];
}
TENT_ASSERT_FIELD(struct tent_slot, request, 32, 88);

/* Strides that are not all the same are not plain: one could hide behind another. */
static inline bool sniff_is_plain(const struct sniff *f)
{
	static const sniff_word not_opcode = { -1, -1, ~TENT_OPCODE_WRITE, -1 };
	static const sniff_word not_kind = { ~7, ~3, -1, -1 };
	static const sniff_word not_stride = { -1, -1, -1, 0 };
	sniff_word dirt = f->zero | (f->size & not_opcode) | (f->kind & not_kind) | f->above |
			  (f->tail_or & not_stride) | (f->tail_or ^ f->tail_and);
	uint32_t stride = (uint32_t)f->tail_or[3];
	uint64_t half[2];

	memcpy(half, &dirt, sizeof(half));
	return !(half[0] | half[1]) && (!stride || stride >= TENT_REQUEST_V1_SIZE);
}

/* Why a batch was refused. */
struct refusal {
	uint16_t rule;		/* enum tent_rule; 0: accepted */
	uint32_t index;
	int64_t value;
};

enum verdict {
	BATCH_REFUSED = 0,
	BATCH_ACCEPTED = 1,	/* every transfer waits to be moved */
	BATCH_ACCEPTED_ODD = 2	/* some have ended, or have deadlines or TRANSFER_F_BOUND */
};

/*
 * Judges slots[0..count) and normalises each into transfers[i]: effective intent,
 * priority, downgrade flags, regions, queue; all but state and queued_ticks. cells:
 * count x 64 bytes, only read where a slot has a policy name. When it is refused *why is
 * set and transfers are garbage; else *why is not touched.
 *
 * With TENT_SLOT_F_LEGACY an address or policy failure does not refuse the batch:
 * that transfer comes out ended (status FAILED, rule set). One of zero length comes
 * out ended too, as COMPLETED.
 */
enum verdict judge_batch(const struct judge *j, const struct tent_slot *slots,
			 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
			 struct transfer **transfers, struct refusal *why);

/* The answer of judge_batch() found the plain way, check by check over all entries.
 * judge_batch() asks it which failure is the first. True when there is none. */
bool judge_in_order(const struct judge *j, const struct tent_slot *slots,
		    const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		    struct refusal *why);

/* What an entry asks for, before anything is made of it. */
struct asked {
	int32_t opcode, intent, priority, hint;
	uint64_t deadline_ns;
	uint32_t policy_length;	/* of the text in its cell */
	uint16_t downgrades;	/* TENT_CQE_F_* */
};

/* One entry by the checks that need no engine: layout, schema, fields. False: *why says
 * what is wrong, and *a is not touched. */
bool judge_fields(const struct tent_slot *slot, const char *cell, bool compat,
		  uint64_t now_ns, struct asked *a, struct refusal *why);

/* For a batch that is judged in pieces: does a refusal by rule come before one by
 * other, wherever in the batch they were found? */
bool refusal_precedes(uint16_t rule, uint16_t other);

#endif /* TENT_ENGINE_INTENT_H */
