/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intent.h - the one judge of requests. Pure functions over private copies;
 * intake and explain call the same ones.
 *
 * Order of checks at every door: layout and schema of all entries by index; all
 * entries by index, fields by offset; addresses; policy. The first failure is
 * the answer.
 */
#ifndef TENT_ENGINE_INTENT_H
#define TENT_ENGINE_INTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/ring.h>

#include "engine/backend.h"
#include "engine/mem.h"

struct judge {
	const struct client_space *space;
	const struct handle_table *handles;	/* loaded once per batch */
	struct backend_queue *const *queues;	/* what plan may choose from */
	uint32_t nr_queues;
	uint64_t now_ns;	/* one "now" per batch; read when a deadline is there */
	uint16_t slot_flags;	/* of the batch */
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
 * that transfer comes out ended (status FAILED, rule set).
 */
bool judge_batch(const struct judge *j, const struct tent_slot *slots,
		 const char (*cells)[TENT_CELL_SIZE], uint32_t count,
		 struct transfer **transfers, struct refusal *why);

#endif /* TENT_ENGINE_INTENT_H */
