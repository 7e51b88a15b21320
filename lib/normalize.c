/* SPDX-License-Identifier: Apache-2.0 */
/* normalize.c - what an entry asks for, by the engine's own checks and without one. */
#include <string.h>

#include "engine/intent.h"
#include "lib/lib.h"
#include "ring/clock.h"

static int check_call(const void *entry, size_t stride, uint32_t schema, int mode,
		      const struct tent_normalized *out)
{
	int rc = lib_check_entries(entry, 1, stride, schema);

	if (rc)
		return rc;
	if (mode != TENT_VALIDATION_STRICT && mode != TENT_VALIDATION_COMPAT)
		return lib_fail_field(TENT_RULE_ARG_VALUE, "mode", mode);
	if (!out)
		return lib_fail_null("out");
	if (out->size < sizeof(*out))
		return lib_fail_field(TENT_RULE_ARG_VALUE, "out.size", out->size);
	return 0;
}

int tent_normalize_request(const void *entry, size_t entry_stride, uint32_t schema_version,
			   int mode, struct tent_normalized *out)
{
	/* one byte more than a cell: the sentence of a refusal quotes the text */
	char cell[TENT_CELL_SIZE + 1] = "";
	struct tent_slot slot = { .seq = 0 };
	struct refusal why;
	struct asked a;
	int rc = check_call(entry, entry_stride, schema_version, mode, out);

	if (rc)
		return rc;
	tent_entry_load(&slot, cell, entry, entry_stride);
	if (!judge_fields(&slot, cell, mode == TENT_VALIDATION_COMPAT, clock_monotonic_ns(), &a,
			  &why))
		return lib_fail_entry(why.rule, 0, why.value, cell[0] ? cell : NULL);
	*out = (struct tent_normalized){
		.size = sizeof(*out), .opcode = a.opcode, .intent_type = a.intent,
		.requested_priority = a.priority, .deadline_ns = a.deadline_ns,
		.transport_hint = a.hint, .flags = a.downgrades,
	};
	memcpy(out->policy_name, cell, a.policy_length);
	return 0;
}
