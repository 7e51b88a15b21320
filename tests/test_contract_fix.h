/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract_fix.h - an engine under a configuration, and what a name gets there. */
#ifndef TENT_TEST_CONTRACT_FIX_H
#define TENT_TEST_CONTRACT_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/config.h"
#include "tests/common/engine_fix.h"

static struct config_report said;

static inline void apply(struct engine_config *c, const char *json)
{
	if (engine_config_apply_json(c, json, &said))
		fail_msg("%s", said.error);
}

/* The first takes "gold", the second does not let users have it. */
static const char *const sets[] = {
	"{\"policy\":[{\"name\":\"gold\"},{\"name\":\"x\"}],\"authorization\":{\"tenants\":["
	"{\"name\":\"default\"}]}}",
	"{\"policy\":[{\"name\":\"x\"},{\"name\":\"gold\"}],\"authorization\":{\"tenants\":["
	"{\"name\":\"default\",\"policies\":[\"x\"]}]}}",
};

static inline void under_sets_0(struct engine_config *c)
{
	apply(c, sets[0]);
}

/* The flags, or minus the rule, that a HIGH request by that name ends with. */
static inline int move_named(struct engine_fix *f, const char *name)
{
	struct tent_client *c = engine_fix_attach(f, NULL);
	struct tent_ring *ring = engine_fix_ring(c);
	uint8_t *m = engine_fix_memory(c, 8192);
	struct tent_request_v1 r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	struct tent_completion done;

	r.requested_priority = TENT_PRIORITY_HIGH;
	r.policy_name = name;
	engine_fix_submit(ring, &r);
	done = engine_fix_wait(ring);
	tent_ring_close(ring);
	tent_client_detach(c);
	return done.rule ? -(int)done.rule : done.flags;
}

#endif /* TENT_TEST_CONTRACT_FIX_H */
