/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract_config.c - policy, qos and authorization as text: what is taken, and that
 * what is not understood is refused with its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/config.h"

static struct config_report said;
static struct engine_config config;

static int apply(const char *json)
{
	engine_config_default(&config);
	return engine_config_apply_json(&config, json, &said);
}

static const struct contract_config *take(const char *json)
{
	if (apply(json))
		fail_msg("%s: %s", json, said.error);
	return &config.contracts;
}

/* ---- what is refused ---------------------------------------------------- */

struct bad {
	const char *json, *says;
};

static void expect_refused(const struct bad *bad, size_t nr)
{
	struct engine_config before;

	for (size_t i = 0; i < nr; i++) {
		engine_config_default(&before);
		assert_int_equal(apply(bad[i].json), TENT_ERR_CONFIG);
		if (!strstr(said.error, bad[i].says))
			fail_msg("%s: \"%s\", not \"%s\"", bad[i].json, said.error,
				 bad[i].says);
		assert_memory_equal(&before, &config, sizeof(before));
	}
}
#define EXPECT_REFUSED(list) expect_refused(list, sizeof(list) / sizeof(list[0]))

static void what_a_policy_does_not_know_is_refused_with_its_path(void **state)
{
	static const struct bad bad[] = {
		{ "{\"policy\":{}}", "policy is an object; allowed: an array" },
		{ "{\"policy\":[3]}", "policy[0] is a number; allowed: an object" },
		{ "{\"policy\":[{},{\"nmae\":\"a\"}]}", "policy[1]/nmae is not a known key; "
		  "allowed: name, segment_type" },
		{ "{\"policy\":[{\"name\":\"\"}]}", "policy[0]/name is no name" },
		{ "{\"policy\":[{\"name\":\"a b\"}]}", "policy[0]/name is no name" },
		{ "{\"policy\":[{\"name\":7}]}", "policy[0]/name is a number; allowed: a name" },
		{ "{\"policy\":[{\"segment_type\":\"disk\"}]}", "policy[0]/segment_type is "
		  "\"disk\"; allowed: \"memory\" or \"file\"" },
		{ "{\"policy\":[{\"same_machine\":1}]}", "policy[0]/same_machine is 1" },
		{ "{\"policy\":[{\"local_memory\":\"npu\"}]}", "policy[0]/local_memory is "
		  "\"npu\"" },
		{ "{\"policy\":[{\"remote_memory\":\"hip\"}]}", "policy[0]/remote_memory" },
		{ "{\"policy\":[{\"min_size\":-1}]}", "policy[0]/min_size is -1" },
		{ "{\"policy\":[{\"max_size\":\"4k\"}]}", "policy[0]/max_size is \"4k\"" },
		{ "{\"policy\":[{\"min_size\":2,\"max_size\":1}]}", "policy[0] has min_size "
		  "above max_size" },
		{ "{\"policy\":[{\"priority\":\"urgent\"}]}", "policy[0]/priority is \"urgent\"" },
		{ "{\"policy\":[{\"priority\":3}]}", "policy[0]/priority is 3" },
		{ "{\"policy\":[{\"intent_type\":\"not_an_intent\"}]}", "policy[0]/intent_type" },
		{ "{\"policy\":[{\"intent_type\":999}]}", "policy[0]/intent_type is 999" },
		{ "{\"policy\":[{\"intent_type\":true}]}", "policy[0]/intent_type is true" },
		{ "{\"policy\":[{\"intent_type\":9223372036854775807}]}", "policy[0]/intent_type" },
		{ "{\"policy\":[{\"devices\":[\"mlx5_0\"]}]}", "policy[0]/devices is "
		  "[\"mlx5_0\"]; allowed: no device" },
		{ "{\"policy\":[{\"devices\":\"mlx5_0\"}]}", "policy[0]/devices is a string" },
		{ "{\"policy\":[{\"transports\":[]}]}", "policy[0]/transports is []; allowed: at "
		  "least one" },
		{ "{\"policy\":[{\"transports\":[\"shm\",\"warp\"]}]}", "policy[0]/transports[1] "
		  "is \"warp\"" },
		{ "{\"policy\":[{\"transports\":[\"unspec\"]}]}", "policy[0]/transports[0]" },
		{ "{\"policy\":[{\"transports\":[\"shm\",\"shm\"]}]}", "each transport once" },
		{ "{\"policy\":[{\"service_level\":99}]}", "policy[0]/service_level is 99" },
		{ "{\"policy\":[{\"traffic_class\":9999}]}", "policy[0]/traffic_class is 9999" },
		{ "{\"policy\":[{\"qp_pool\":\"kv\"}]}", "policy[0]/qp_pool is \"kv\"; allowed: a "
		  "name in transports/rdma/endpoint/qp_pools" },
		{ "{\"policy\":[{\"qp_pool\":\"\"}]}", "policy[0]/qp_pool is no name" },
		{ "{\"policy\":[{\"qp_pool\":42}]}", "policy[0]/qp_pool is a number" },
	};

	(void)state;
	EXPECT_REFUSED(bad);
}

static void what_a_qos_contract_does_not_know_is_refused_with_its_path(void **state)
{
	static const struct bad bad[] = {
		{ "{\"qos\":[]}", "qos is an array; allowed: an object" },
		{ "{\"qos\":{}}", "qos has no version" },
		{ "{\"qos\":{\"version\":\"1\"}}", "qos/version is \"1\"" },
		{ "{\"qos\":{\"version\":2}}", "qos/version is 2; allowed: an integer, 1..1" },
		{ "{\"qos\":{\"version\":1,\"strict_mode\":true}}", "qos/strict_mode is not" },
		{ "{\"qos\":{\"version\":1,\"intent_defaults\":{}}}", "qos/intent_defaults is not" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"weight\":1}}}", "qos/defaults/weight" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"burst_bytes\":1}}}",
		  "qos/defaults/burst_bytes" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"min_bandwidth_gbps\":1}}}",
		  "qos/defaults/min_bandwidth_gbps" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"max_bandwidth_gbps\":1}}}",
		  "qos/defaults/max_bandwidth_gbps" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"deadline_profile\":1}}}",
		  "qos/defaults/deadline_profile" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"urgent\"}}}",
		  "qos/defaults/priority is \"urgent\"" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"unspec\"}}}",
		  "qos/defaults/priority" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"allowed_degraded_actions\":"
		  "[\"delay\",\"teleport\"]}}}", "allowed_degraded_actions[1] is \"teleport\"" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"max_inflight_requests\":\"64MiB\"}}}",
		  "max_inflight_requests is \"64MiB\"" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"max_inflight_bytes\":\"99999999 TiB\"}}}",
		  "max_inflight_bytes" },
		{ "{\"qos\":{\"version\":1,\"defaults\":{\"max_inflight_bytes\":\"4 miles\"}}}",
		  "max_inflight_bytes" },
		{ "{\"qos\":{\"version\":1,\"tenants\":[{\"defaults\":{}}]}}",
		  "qos/tenants[0] has no name" },
		{ "{\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"a\"},{\"name\":\" A \"}]}}",
		  "qos/tenants[1] has the name of an earlier one" },
		{ "{\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"a\",\"intents\":{\"get\":{}}}]}}",
		  "qos/tenants[0]/intents/get is not a known key" },
		{ "{\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"a\",\"intents\":{\"migration\":"
		  "{},\" Migration\":{}}}]}}", "is set twice" },
		{ "{\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"a\",\"intents\":{\"migration\":"
		  "{\"name\":\"x\"}}}]}}", "qos/tenants[0]/intents/migration/name" },
	};

	(void)state;
	EXPECT_REFUSED(bad);
}

static void what_authorization_does_not_know_is_refused_with_its_path(void **state)
{
	static const struct bad bad[] = {
		{ "{\"authorization\":[]}", "authorization is an array; allowed: an object" },
		{ "{\"authorization\":{\"users\":[]}}", "authorization/users is not a known key" },
		{ "{\"authorization\":{\"tenants\":{}}}", "authorization/tenants is an object" },
		{ "{\"authorization\":{\"tenants\":[{\"uids\":[1]}]}}",
		  "authorization/tenants[0] has no name" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"uids\":[-1]}]}}",
		  "authorization/tenants[0]/uids[0] is -1" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"uids\":[4294967295]}]}}",
		  "authorization/tenants[0]/uids[0]" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"uids\":[7]},{\"name\":\"b\","
		  "\"uids\":[7]}]}}", "authorization/tenants[1]/uids[0] is 7; allowed: each user" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\"},{\"name\":\"A\"}]}}",
		  "authorization/tenants[1] has the name of an earlier one" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"policies\":[\"gold\"]}]}}",
		  "authorization/tenants[0]/policies[0] names no policy" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"transports\":[\"warp\"]}]}}",
		  "authorization/tenants[0]/transports[0] is \"warp\"" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"qp_pools\":[\"kv\"]}]}}",
		  "authorization/tenants[0]/qp_pools[0] is \"kv\"" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"priority_cap\":1}]}}",
		  "authorization/tenants[0]/priority_cap is 1" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"on_denied\":\"allow\"}]}}",
		  "on_denied is \"allow\"; allowed: \"reject\" or \"downgrade\"" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"on_expired\":\"drop\"}]}}",
		  "on_expired is \"drop\"; allowed: \"serve\" or \"refuse\"" },
		{ "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"validation\":\"lax\"}]}}",
		  "validation is \"lax\"" },
		{ "{\"authorization\":{\"in_process\":\"a\"}}",
		  "authorization/in_process names no tenant" },
	};

	(void)state;
	EXPECT_REFUSED(bad);
}

static void too_many_entries_are_refused(void **state)
{
	char json[16384] = "{\"policy\":[";

	(void)state;
	for (int i = 0; i < POLICIES_MAX; i++)
		strcat(json, "{},");
	strcat(json, "{}]}");
	assert_int_equal(apply(json), TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "policy is too long; allowed: up to 64 entries"));
}

static void names_of_policies_and_tenants_are_not_in_messages(void **state)
{
	static const char *const texts[] = {
		"{\"policy\":[{\"name\":\"secret plan\"}]}",
		"{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"policies\":[\"secret\"]}]}}",
		"{\"authorization\":{\"in_process\":\"secret\"}}",
		("{\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"secret\"},"
		 "{\"name\":\"secret\"}]}}"),
		"{\"authorization\":{\"tenants\":[{\"name\":\"secret\"},{\"name\":\"secret\"}]}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(apply(texts[i]), TENT_ERR_CONFIG);
		assert_null(strstr(said.error, "secret"));
	}
}

/* ---- what is taken ------------------------------------------------------ */

static void every_filter_of_a_policy_is_kept(void **state)
{
	const struct policy *p = take(
		"{\"policy\":[{\"name\":\"kv\",\"segment_type\":\"memory\",\"same_machine\":true,"
		"\"local_memory\":\"cpu\",\"remote_memory\":\"cuda\",\"min_size\":1,"
		"\"max_size\":4096,\"priority\":\"HIGH\",\"intent_type\":\"Foreground_Get\","
		"\"transports\":[\"tcp\",\"shm\"],\"service_level\":3,\"traffic_class\":96,"
		"\"qp_pool\":\"kv\",\"devices\":[]}],"
		"\"rdma\":{\"endpoint\":{\"qp_pools\":[{\"name\":\"any\",\"num_qp\":1},"
		"{\"name\":\"kv\",\"num_qp\":2,\"service_level\":1}]}}}")->policies;

	(void)state;
	assert_string_equal(p->name, "kv");
	assert_int_equal(p->segment, POLICY_MEMORY_SEGMENT);
	assert_int_equal(p->machine, POLICY_SAME_MACHINE);
	assert_int_equal(p->local, POLICY_CPU);
	assert_int_equal(p->remote, POLICY_CUDA);
	assert_int_equal(p->min_size, 1);
	assert_int_equal(p->max_size, 4096);
	assert_int_equal(p->priority, TENT_PRIORITY_HIGH);
	assert_int_equal(p->intent, TENT_INTENT_FOREGROUND_GET);
	assert_int_equal(p->nr_transports, 2);
	assert_int_equal(p->transports[0], TENT_TRANSPORT_TCP);
	assert_int_equal(p->transports[1], TENT_TRANSPORT_SHM);
	assert_int_equal(p->service_level, 3);
	assert_int_equal(p->traffic_class, 96);
	assert_int_equal(p->pool, 2);
}

static void priorities_and_intents_of_policies_may_be_numbers(void **state)
{
	const struct policy *p = take(
		"{\"policy\":[{\"priority\":0,\"intent_type\":4},{\"priority\":\"2\","
		"\"intent_type\":\"intent_unspec\"},{}]}")->policies;

	(void)state;
	assert_int_equal(p[0].priority, TENT_PRIORITY_HIGH);
	assert_int_equal(p[0].intent, TENT_INTENT_CHECKPOINT);
	assert_int_equal(p[1].priority, TENT_PRIORITY_LOW);
	assert_int_equal(p[1].intent, TENT_INTENT_UNSPEC);
	assert_int_equal(p[2].priority, TENT_PRIORITY_UNSPEC);
	assert_int_equal(p[2].intent, -1);
	assert_string_equal(p[2].name, "unnamed");
}

static void bytes_have_units(void **state)
{
	static const struct { const char *text; uint64_t bytes; } rows[] = {
		{ "7", 7 }, { "\"7\"", 7 }, { "\"7b\"", 7 }, { "\"7 kb\"", 7168 },
		{ "\"7KiB\"", 7168 }, { "\"1 MB\"", 1 << 20 }, { "\"4 GiB\"", 1ull << 32 },
		{ "\"1tib\"", 1ull << 40 }, { "0", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char json[128];

		snprintf(json, sizeof(json), "{\"qos\":{\"version\":1,\"defaults\":"
			 "{\"max_inflight_bytes\":%s}}}", rows[i].text);
		assert_true(take(json)->qos_defaults.max_inflight_bytes == rows[i].bytes);
	}
}

static void tenants_of_authorization_name_policies_wherever_these_stand(void **state)
{
	const struct contract_config *c = take(
		"{\"authorization\":{\"in_process\":\"B\",\"tenants\":[{\"name\":\"a\",\"uids\":"
		"[5,6],\"policies\":[\"kv\"],\"transports\":[],\"priority_cap\":\"low\"},"
		"{\"name\":\" B \",\"on_expired\":\"refuse\"}]},"
		"\"policy\":[{\"name\":\"bulk\"},{\"name\":\"kv\",\"segment_type\":\"file\"},"
		"{\"name\":\"kv\"}]}");

	(void)state;
	assert_int_equal(c->nr_tenants, 2);
	assert_int_equal(c->tenants[0].policies, 6);
	assert_int_equal(c->tenants[0].transports, 0);
	assert_int_equal(c->tenants[0].priority_cap, TENT_PRIORITY_LOW);
	assert_true(c->tenants[1].policies == UINT64_MAX);
	assert_string_equal(c->tenants[1].name, "b");
	assert_true(c->tenants[1].refuse_expired);
	assert_int_equal(c->in_process, 1);
	assert_int_equal(c->nr_uids, 2);
}

static void a_text_with_one_of_the_sections_replaces_all_three(void **state)
{
	(void)state;
	take("{\"policy\":[{\"name\":\"a\"}],\"qos\":{\"version\":1},\"authorization\":{}}");
	assert_int_equal(engine_config_apply_json(&config, "{\"policy\":[{\"name\":\"b\"}]}",
						  &said), 0);
	assert_string_equal(config.contracts.policies[0].name, "b");
	assert_false(config.contracts.has_qos);
	assert_false(config.contracts.has_authorization);
	assert_int_equal(engine_config_apply_json(&config, "{\"engine\":{}}", &said), 0);
	assert_true(config.contracts.has_policy);
}

static void an_empty_policy_array_is_none(void **state)
{
	(void)state;
	assert_false(take("{\"policy\":[]}")->has_policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_policy_does_not_know_is_refused_with_its_path),
		cmocka_unit_test(what_a_qos_contract_does_not_know_is_refused_with_its_path),
		cmocka_unit_test(what_authorization_does_not_know_is_refused_with_its_path),
		cmocka_unit_test(too_many_entries_are_refused),
		cmocka_unit_test(names_of_policies_and_tenants_are_not_in_messages),
		cmocka_unit_test(every_filter_of_a_policy_is_kept),
		cmocka_unit_test(priorities_and_intents_of_policies_may_be_numbers),
		cmocka_unit_test(bytes_have_units),
		cmocka_unit_test(tenants_of_authorization_name_policies_wherever_these_stand),
		cmocka_unit_test(a_text_with_one_of_the_sections_replaces_all_three),
		cmocka_unit_test(an_empty_policy_array_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
