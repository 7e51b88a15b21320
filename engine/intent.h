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
#include <tent/ring.h>

#include "engine/backend.h"
#include "engine/mem.h"

#define DEADLINE_HORIZON_NS (365ull * 24 * 3600 * 1000000000)

/*
 * Where in a region table an address of the same neighbourhood was found last. A
 * guess is checked against the table in use before it counts, so a stale one costs
 * time and nothing else, and one array may serve any number of tables.
 */
#define REGION_GUESSES 256
struct region_guesses {
	uint16_t source[REGION_GUESSES];
	uint16_t target[REGION_GUESSES];
};

struct judge {
	const struct client_space *space;
	const struct handle_table *handles;	/* loaded once per batch */
	struct backend_queue *const *queues;	/* what plan may choose from */
	uint32_t nr_queues;
	uint64_t now_ns;	/* one "now" per batch; read when a deadline is there */
	uint16_t slot_flags;	/* of the batch */
	/* the rest may be zero when nothing will run, as for explain */
	bool one_level;		/* every priority goes into level 0 */
	uint8_t state;		/* enum transfer_state that transfers come out in */
	uint32_t first_index;	/* of slots[0] in its batch */
	uint64_t seen_ticks;
	struct batch_state *batch;
	struct region_guesses *guesses;
};

/* Why a batch was refused. */
struct refusal {
	uint16_t rule;		/* enum tent_rule; 0: accepted */
	uint32_t index;
	int64_t value;
};

/*
 * Judges slots[0..count) and normalises each into transfers[i]: effective intent,
 * priority, downgrade flags, regions, queue. cells: count x 64 bytes, only read
 * where a slot has a policy name. False: *why is set and transfers are garbage.
 *
 * With TENT_SLOT_F_LEGACY an address or policy failure does not refuse the batch:
 * that transfer comes out ended (status FAILED, rule set). One of zero length comes
 * out ended too, as COMPLETED.
 */
bool judge_batch(const struct judge *j, const struct tent_slot *slots,
		 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		 struct transfer **transfers, struct refusal *why);

/* The answer of judge_batch() found the plain way, check by check over all entries.
 * judge_batch() asks it which failure is the first. True when there is none. */
bool judge_in_order(const struct judge *j, const struct tent_slot *slots,
		    const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		    struct refusal *why);

/* For a batch that is judged in pieces: does a refusal by rule come before one by
 * other, wherever in the batch they were found? */
bool refusal_precedes(uint16_t rule, uint16_t other);

#endif /* TENT_ENGINE_INTENT_H */
