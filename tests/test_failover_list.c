/* SPDX-License-Identifier: Apache-2.0 */
/* test_failover_list.c - whom a failed request may go on to: hints, policies, tenants. */
#include <stdio.h>

#include "engine/config.h"
#include "engine/contract.h"
#include "engine/failover.h"
#include "engine/round.h"
#include "tests/test_failover_fix.h"

static struct contract_set *set;

static void put_under(struct rig *r, const char *json)
{
	static struct engine_config config;
	static struct config_report said;
	const struct contract_world w = {
		.planner = &r->poller->planner, .default_priority = TENT_PRIORITY_MEDIUM,
	};
	int rc;

	engine_config_default(&config);
	if (engine_config_apply_json(&config, json, &said))
		fail_msg("%s", said.error);
	grace_discard(set);
	set = contract_set_create(&config.contracts, &w, &rc);
	assert_non_null(set);
	for (uint32_t i = 0; i < 2; i++)
		r->clients[i].space.contract = contract_of(set, 0, false);
}

static void stop_under(struct rig *r)
{
	rig_stop(r);
	grace_discard(set);
	set = NULL;
}

static void submit_named(struct rig *r, const char *policy)
{
	struct rig_ring *ring = &r->rings[0];
	size_t length = strlen(policy);

	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096)->request.policy_name =
		(void *)(uintptr_t)length;
	memcpy(rig_cell(ring, 0), policy, length);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
}

static struct tent_completion write_named(struct rig *r, const char *policy)
{
	submit_named(r, policy);
	return rig_finish(r, &r->rings[0]);
}

static void a_hint_pins_the_first_try_only(void **state)
{
	struct rig *r = START(3, { &null_backend, "" }, { &second, "fail=1" },
			      { &third, "" });
	struct tent_completion c = move(r, TENT_OPCODE_WRITE, SECOND);

	(void)state;
	expect_over(&c, SECOND, NULLS, 2);
	rig_stop(r);
}

static void the_order_is_the_policys(void **state)
{
	struct rig *r = START(3, { &null_backend, "" }, { &second, "fail=1" },
			      { &third, "fail=1" });
	struct tent_completion c;

	(void)state;
	put_under(r, "{\"policy\":[{\"name\":\"p\",\"transports\":[\"tpu\",\"ub\",\"mpcomm\"]}]}");
	c = write_one(r);
	expect_over(&c, THIRD, NULLS, 3);
	stop_under(r);
}

static void what_the_policy_does_not_list_is_not_used(void **state)
{
	struct rig *r = START(3, { &null_backend, "fail=1" }, { &second, "fail=1" },
			      { &third, "" });
	struct tent_completion c;

	(void)state;
	put_under(r, "{\"policy\":[{\"name\":\"p\",\"transports\":[\"mpcomm\",\"ub\"]}]}");
	c = write_one(r);
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_INJECTED, SECOND, 2);
	stop_under(r);
}

static void a_named_policys_list_holds_for_every_try(void **state)
{
	struct rig *r = START(3, { &null_backend, "" }, { &second, "fail=1" },
			      { &third, "lose=1" });
	struct tent_completion c;

	(void)state;
	put_under(r, "{\"policy\":[{\"name\":\"any\"},"
		     "{\"name\":\"two\",\"transports\":[\"tpu\",\"ub\"]}]}");
	c = write_named(r, "two");
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_INJECTED, SECOND, 2);
	assert_int_equal(TENT_CQE_FIRST_TRANSPORT(c.flags), THIRD);
	c = write_named(r, "any");
	assert_int_equal(c.transport, NULLS);
	stop_under(r);
}

static void what_a_tenant_may_not_use_it_does_not_get(void **state)
{
	struct rig *r = START(3, { &null_backend, "fail=1" }, { &second, "" },
			      { &third, "" });
	struct tent_completion c;

	(void)state;
	put_under(r, "{\"authorization\":{\"tenants\":[{\"name\":\"default\","
		     "\"transports\":[\"mpcomm\",\"tpu\"]}]}}");
	c = write_one(r);
	expect_over(&c, NULLS, THIRD, 2);
	stop_under(r);
}

static void what_was_taken_away_meanwhile_is_not_used(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_SYSTEM), "" }, { &null_backend, "" },
			      { &third, "" });
	struct tent_completion c;

	(void)state;
	script.pends = true;
	put_under(r, "{\"policy\":[{\"name\":\"p\",\"transports\":[\"ub\",\"mpcomm\",\"tpu\"]}]}");
	submit_named(r, "p");
	rig_settle(r);
	put_under(r, "{\"authorization\":{\"tenants\":[{\"name\":\"default\","
		     "\"transports\":[\"ub\",\"tpu\"]}]}}");
	script.gives_back = true;
	c = rig_finish(r, &r->rings[0]);
	expect_over(&c, SECOND, THIRD, 2);
	stop_under(r);
}

static void a_contract_whose_actions_leave_it_out_forbids_it(void **state)
{
	static const struct {
		const char *actions;
		bool goes_on;
	} rows[] = {
		{ "[]", false }, { "[\"delay\",\"reject\"]", false },
		{ "[\"fallback_transport\"]", true },
	};
	char json[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rig *r = START(3, { &null_backend, "fail=1" }, { &second, "" });
		struct tent_completion c;

		snprintf(json, sizeof(json), "{\"qos\":{\"version\":1,\"defaults\":{"
			 "\"allowed_degraded_actions\":%s}}}", rows[i].actions);
		put_under(r, json);
		c = write_one(r);
		assert_int_equal(c.status == TENT_STATUS_COMPLETED, rows[i].goes_on);
		stop_under(r);
	}
}

/* ---- explain --------------------------------------------------------------- */

/* Of what write_one() asks for, before it is asked. */
static uint32_t ways_of(struct rig *r, uint32_t attempts, uint8_t *ways)
{
	const struct contract *c = r->clients[0].space.contract;
	struct transfer t = {
		.local = &r->clients[0].regions[0], .remote = &r->clients[1].regions[0],
		.priority = TENT_PRIORITY_MEDIUM, .length = 4096, .transport = THIRD,
	};

	t.local_addr = t.local->base;
	t.remote_addr = t.remote->base;
	return failover_ways(&r->poller->planner, c, attempts, &t, ways);
}

static void it_goes_where_explain_says(void **state)
{
	(void)state;
	for (uint32_t attempts = 0; attempts <= 3; attempts++) {
		struct rig *r = START(attempts, { &null_backend, "fail=1" },
				      { &second, "fail=1" }, { &third, "fail=1" },
				      { &rig_copy_backend, "" });
		uint8_t ways[TRANSFER_WAYS];
		struct tent_completion c;

		put_under(r, "{\"policy\":[{\"name\":\"p\",\"transports\":"
			     "[\"tpu\",\"mpcomm\",\"ub\",\"shm\"]}]}");
		assert_int_equal(ways_of(r, attempts, ways), attempts);
		c = write_one(r);
		assert_int_equal(c.transport, attempts ? ways[attempts - 1] : THIRD);
		stop_under(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hint_pins_the_first_try_only),
		cmocka_unit_test(the_order_is_the_policys),
		cmocka_unit_test(what_the_policy_does_not_list_is_not_used),
		cmocka_unit_test(a_named_policys_list_holds_for_every_try),
		cmocka_unit_test(what_a_tenant_may_not_use_it_does_not_get),
		cmocka_unit_test(what_was_taken_away_meanwhile_is_not_used),
		cmocka_unit_test(it_goes_where_explain_says),
		cmocka_unit_test(a_contract_whose_actions_leave_it_out_forbids_it),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
