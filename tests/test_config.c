/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - every key: its default, good and bad values; and who wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tent.h>

#include "engine/config_table.h"
#include "tests/common/config_json.h"

/* What each key starts as, which values it takes (with the text they read back
 * as), and which it refuses; values in JSON. */
static struct config_report said;

static const struct key_case {
	const char *path, *initial;
	const char *good[6], *reads[6];
	const char *bad[8];
} cases[] = {
	{ "engine", "thread", { "\"caller\"", "\"unix:/run/t.sock\"" },
	  { "caller", "unix:/run/t.sock" },
	  { "\"\"", "\"unix:\"", "\"unix:relative\"", "\"Caller\"", "1", "null" } },
	{ "engine/mode", "thread", { "\"caller\"", "\"thread\"" }, { "caller", "thread" },
	  { "\"daemon\"", "\"\"", "\"thread|caller\"", "true", "[]" } },
	{ "engine/idle", "adaptive", { "\"busy\"", "\"adaptive\"" }, { "busy", "adaptive" },
	  { "\"sleep\"", "\"bus\"", "0" } },
	{ "engine/validation", "strict", { "\"compat\"", "\"strict\"" },
	  { "compat", "strict" }, { "\"lax\"", "false" } },
	{ "engine/pollers", "1", { "1", "64" }, { "1", "64" },
	  { "0", "65", "-1", "\"2\"", "1.0", "true", "null", "[1]" } },
	{ "engine/cores", "", { "[]", "[3]", "[-1]" }, { "", "3", "" },
	  { "[1024]", "[-2]", "3", "\"3\"", "[1.5]", "[\"1\"]", "{}" } },
	{ "engine/spin_us", "50", { "0", "1000000" }, { "0", "1000000" },
	  { "1000001", "-1", "\"50\"" } },
	{ "engine/request_timeout_ms", "10000", { "1", "86400000" }, { "1", "86400000" },
	  { "0", "86400001", "9223372036854775807" } },
	{ "engine/priorities", "true", { "false", "true" }, { "false", "true" },
	  { "0", "1", "\"true\"", "null" } },
	{ "engine/urgent_ms", "1000", { "0", "86400000" }, { "0", "86400000" },
	  { "-1", "86400001" } },
	{ "engine/loose_percent", "20", { "0", "90" }, { "0", "90" }, { "-1", "91" } },
	{ "engine/turn_slots", "128", { "1", "65536" }, { "1", "65536" }, { "0", "65537" } },
	{ "engine/turn_bytes", "65536", { "4096", "1073741824" }, { "4096", "1073741824" },
	  { "4095", "1073741825" } },
	{ "intent/default_priority", "medium", { "\"high\"", "\"low\"", "\"medium\"" },
	  { "high", "low", "medium" }, { "\"unspec\"", "\"HIGH\"", "1", "\"\"" } },
	{ "transports/rdma/priority_promotion_timeout_us", "10000", { "1", "60000000" },
	  { "1", "60000000" }, { "0", "60000001", "1e4" } },
	{ "limits/clients", "1024", { "1", "65536" }, { "1", "65536" }, { "0", "65537" } },
	{ "limits/clients_per_tenant", "256", { "1", "65536" }, { "1", "65536" },
	  { "0", "65537" } },
	{ "limits/rings_per_client", "64", { "1", "4096" }, { "1", "4096" },
	  { "0", "4097", "4294967297" } },
	{ "limits/regions_per_client", "65536", { "1", "1048576" }, { "1", "1048576" },
	  { "0", "1048577" } },
	{ "limits/allocated_bytes_per_client", "68719476736", { "4096", "281474976710656" },
	  { "4096", "281474976710656" }, { "4095", "281474976710657", "\"64 GiB\"" } },
	{ "rpc_server_hostname", "127.0.0.1",
	  { "\"node-1.example\"", "\"fe80::1%eth0\"", "\"[::1]\"", "\"\"" },
	  { "node-1.example", "fe80::1%eth0", "[::1]", "127.0.0.1" },
	  { "\"a/b\"", "\"a b\"", "\"\\u00e9\"", "1", "\"host:1\"", "\"127.1\"",
	    "\"0123456789012345678901234567890123456789012345678901234567890123\"" } },
	{ "rpc_server_port", "15000", { "1", "65535", "0" }, { "1", "65535", "15000" },
	  { "65536", "-1", "\"80\"" } },
	{ "local_segment_name", "", { "\"a\"", "\"12345\"", "\"kv_pool-1.x\"", "\"\"" },
	  { "a", "12345", "kv_pool-1.x", "" },
	  { "\"a b\"", "\"a/b\"", "12345", "\"\\n\"",
	    "\"0123456789012345678901234567890123456789012345678901234567890123\"" } },
	{ "metadata_type", "p2p", { "\"etcd\"", "\"redis\"", "\"p2p\"" },
	  { "etcd", "redis", "p2p" }, { "\"http\"", "\"\"", "1", "null" } },
	{ "metadata_servers", "", { "\"10.0.0.1:2379\"", "\"a,b\"", "\"\"" },
	  { "10.0.0.1:2379", "a,b", "" }, { "\"\\u0001\"", "[]", "1" } },
	{ "redis_db_index", "0", { "1", "65535" }, { "1", "65535" }, { "-1", "65536", "\"1\"" } },
	{ "metadata_ttl_s", "10", { "1", "86400" }, { "1", "86400" }, { "0", "86401" } },
	{ "peers/enable", "true", { "true", "false" }, { "true", "false" },
	  { "1", "\"true\"", "null" } },
	{ "peers/insecure", "false", { "true", "false" }, { "true", "false" },
	  { "1", "\"true\"", "null" } },
	{ "peers/secret_file", "", { "\"/etc/tent/secret\"", "\"\"" },
	  { "/etc/tent/secret", "" }, { "\"secret\"", "\"/\"", "3", "null" } },
	{ "peers/keepalive_ms", "1000", { "10", "60000" }, { "10", "60000" },
	  { "9", "60001", "-1", "\"1 s\"" } },
	{ "limits/peer_connections", "1024", { "1", "65536" }, { "1", "65536" },
	  { "0", "65537" } },
	{ "limits/far_segments_per_tenant", "4096", { "1", "65536" }, { "1", "65536" },
	  { "0", "65537" } },
	{ "limits/far_buffers_per_tenant", "1048576", { "1", "16777216" }, { "1", "16777216" },
	  { "0", "16777217" } },
	{ "max_failover_attempts", "3", { "0", "100" }, { "0", "100" }, { "-1", "101" } },
	{ "failover/error_threshold", "3", { "0", "1000000" }, { "0", "1000000" },
	  { "-1", "1000001" } },
	{ "failover/error_window_ms", "10000", { "1", "86400000" }, { "1", "86400000" },
	  { "0", "86400001" } },
	{ "failover/cooldown_ms", "30000", { "1", "86400000" }, { "1", "86400000" },
	  { "0", "86400001" } },
	{ "failover/cooldown_max_ms", "300000", { "1", "86400000" }, { "1", "86400000" },
	  { "0", "86400001" } },
	{ "transports/shm/enable", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"yes\"", "{}" } },
	{ "transports/shm/stream_bytes", "65536", { "0", "1099511627776" },
	  { "0", "1099511627776" }, { "-1", "1099511627777" } },
	{ "transports/file/enable", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"yes\"" } },
	{ "transports/file/io_uring", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"off\"" } },
	{ "transports/file/direct", "true", { "false", "true" }, { "false", "true" },
	  { "0", "null" } },
	{ "transports/file/depth", "64", { "1", "1024" }, { "1", "1024" }, { "0", "1025" } },
	{ "transports/file/chunk_bytes", "1048576", { "4096", "67108864" },
	  { "4096", "67108864" }, { "4095", "67108865" } },
	{ "transports/file/workers", "4", { "1", "64" }, { "1", "64" }, { "0", "65" } },
	{ "transports/file/sqpoll_ms", "0", { "60000", "0" }, { "60000", "0" },
	  { "60001", "-1" } },
	{ "transports/file/any_file_system", "false", { "true", "false" }, { "true", "false" },
	  { "1", "\"fuse\"" } },
	{ "transports/tcp/enable", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"yes\"" } },
	{ "transports/tcp/port", "0", { "65535", "0" }, { "65535", "0" }, { "65536", "-1" } },
	{ "transports/tcp/io_uring", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"off\"" } },
	{ "transports/tcp/depth", "64", { "1", "1024" }, { "1", "1024" }, { "0", "1025" } },
	{ "transports/tcp/chunk_bytes", "262144", { "4096", "4194304" },
	  { "4096", "4194304" }, { "4095", "4194305" } },
	{ "transports/tcp/zero_copy_bytes", "131072", { "0", "4194304" }, { "0", "4194304" },
	  { "-1", "4194305" } },
	{ "transports/tcp/crc32c", "false", { "true", "false" }, { "true", "false" },
	  { "1", "\"on\"" } },
	{ "transports/tcp/fence_ms", "2000", { "10", "60000" }, { "10", "60000" },
	  { "9", "60001" } },
	{ "transports/rdma/enable", "false", { "true", "false" }, { "true", "false" },
	  { "1", "\"true\"" } },
	{ "transports/rdma/devices", "", { "\"mlx5_0,mlx5_1\"", "\"\"" }, { "mlx5_0,mlx5_1", "" },
	  { "1", "[]", "\"\\t\"" } },
	{ "transports/rdma/devices_denied", "", { "\"mlx5_0\"", "\"\"" }, { "mlx5_0", "" },
	  { "1", "[]", "\"\\t\"" } },
	{ "transports/rdma/device/port", "0", { "0", "255" }, { "0", "255" },
	  { "-1", "256" } },
	{ "transports/rdma/device/gid_index", "-1", { "-1", "254" }, { "-1", "254" },
	  { "-2", "255" } },
	{ "transports/rdma/endpoint/max_qp_wr", "256", { "16", "8192" }, { "16", "8192" },
	  { "15", "8193" } },
	{ "transports/rdma/endpoint/service_level", "0", { "0", "15" }, { "0", "15" },
	  { "-1", "16" } },
	{ "transports/rdma/endpoint/traffic_class", "0", { "0", "255" }, { "0", "255" },
	  { "-1", "256" } },
	{ "transports/rdma/endpoint/pkey_index", "0", { "0", "65535" }, { "0", "65535" },
	  { "-1", "65536" } },
	{ "transports/rdma/endpoint/hop_limit", "64", { "1", "255" }, { "1", "255" },
	  { "0", "256" } },
	{ "transports/rdma/endpoint/send_timeout", "14", { "1", "31" }, { "1", "31" },
	  { "0", "32" } },
	{ "transports/rdma/endpoint/send_retry_count", "7", { "0", "7" }, { "0", "7" },
	  { "-1", "8" } },
	{ "transports/rdma/workers/block_size", "1048576", { "4096", "1073741824" }, { "4096", "1073741824" },
	  { "4095", "1073741825" } },
	{ "transports/rdma/fence_ms", "2000", { "10", "60000" }, { "10", "60000" },
	  { "9", "60001" } },
	{ "transports/nvlink/enable", "true", { "true", "false" }, { "true", "false" },
	  { "\"\"", "null" } },
	{ "transports/null/enable", "false", { "true", "false" }, { "true", "false" },
	  { "\"\"", "null" } },
	{ "transports/null/faults", "", { "\"fail=3\"", "\"\"" }, { "fail=3", "" },
	  { "\"\\u0001\"", "\"\\u20ac\"", "3" } },
	{ "daemon/socket", "/run/tent/tentd.sock", { "\"/tmp/s\"" }, { "/tmp/s" },
	  { "\"\"", "\"/\"", "\"relative\"", "5" } },
	{ "metrics/enabled", "true", { "false", "true" }, { "false", "true" },
	  { "1", "\"yes\"" } },
	{ "metrics/http_host", "127.0.0.1", { "\"0.0.0.0\"", "\"[::1]\"", "\"node-1\"" },
	  { "0.0.0.0", "[::1]", "node-1" }, { "\"\"", "\"a b\"", "\"127.1\"", "1" } },
	{ "metrics/http_port", "9100", { "0", "65535" }, { "0", "65535" },
	  { "65536", "-1", "\"80\"" } },
};
#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

static const struct key_case *case_of(const char *path)
{
	for (size_t i = 0; i < NR_CASES; i++) {
		if (strcmp(cases[i].path, path) == 0)
			return &cases[i];
	}
	return NULL;
}

static void every_key_has_a_case_and_its_documented_default(void **state)
{
	const struct config_key *k;
	struct engine_config c;
	char text[256];
	unsigned int i;

	(void)state;
	engine_config_default(&c);
	for (i = 0; (k = config_key_at(i)); i++) {
		const struct key_case *test = case_of(k->path);

		assert_non_null(test);
		config_value_text(k, &c, text, sizeof(text));
		assert_string_equal(text, test->initial);
		assert_int_equal(c.sources[i], CONFIG_FROM_DEFAULT);
		assert_ptr_equal(config_key_find(k->path), k);
	}
	assert_int_equal(i, NR_CASES);
}

static void defaults_in_the_struct_have_the_engines_units(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(c.spin_ns, 50000);
	assert_int_equal(c.age_ns, 10000000);
	assert_int_equal(c.request_timeout_ns, 10000000000ull);
	assert_int_equal(c.memory_max, 64ull << 30);
	assert_int_equal(c.default_priority, TENT_PRIORITY_MEDIUM);
	assert_true(c.adaptive && c.shm_enable);
	assert_false(c.caller_mode || c.compat || c.no_priorities || c.null_enable ||
		     c.contain_sigbus);
	assert_int_equal(c.nr_pollers, 1);
	for (int i = 0; i < ENGINE_POLLERS_MAX; i++)
		assert_int_equal(c.cores[i], -1);
	assert_string_equal(c.attach_path, "");
	assert_int_equal(c.port, 15000);
}

static void good_values_are_taken_and_read_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_CASES; i++) {
		const struct config_key *k = config_key_find(cases[i].path);

		for (int v = 0; v < 6 && cases[i].good[v]; v++) {
			char json[512], text[256];
			struct engine_config c;

			engine_config_default(&c);
			nest(json, sizeof(json), k->path, cases[i].good[v]);
			assert_int_equal(engine_config_apply_json(&c, json, &said), 0);
			assert_string_equal(said.error, "");
			config_value_text(k, &c, text, sizeof(text));
			assert_string_equal(text, cases[i].reads[v]);
			assert_int_equal(c.sources[config_key_index(k)], CONFIG_FROM_JSON);
		}
	}
}

static void bad_values_are_refused_by_key_value_and_range(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_CASES; i++) {
		const struct config_key *k = config_key_find(cases[i].path);

		assert_non_null(cases[i].bad[0]);
		for (int v = 0; v < 8 && cases[i].bad[v]; v++) {
			char json[512], allowed[256];
			struct engine_config c, before;

			engine_config_default(&c);
			before = c;
			nest(json, sizeof(json), k->path, cases[i].bad[v]);
			assert_int_equal(engine_config_apply_json(&c, json, &said), TENT_ERR_CONFIG);
			config_allowed_text(k, allowed, sizeof(allowed));
			/* "engine": {} is the section, so every other text names the key */
			assert_non_null(strstr(said.error, k->path));
			assert_non_null(strstr(said.error, allowed));
			assert_memory_equal(&c, &before, sizeof(c));
		}
	}
}

static int set(struct engine_config *c, const char *key, const char *value)
{
	return engine_config_apply_key(c, key, value, &said);
}

static void text_values_are_read_by_the_keys_type(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(set(&c, "transports/shm/enable", "0"), 0);
	assert_false(c.shm_enable);
	assert_int_equal(set(&c, "transports/shm/enable", "TRUE"), 0);
	assert_true(c.shm_enable);
	assert_int_equal(set(&c, "engine/priorities", "False"), 0);
	assert_true(c.no_priorities);
	assert_int_equal(set(&c, "local_segment_name", "12345"), 0);
	assert_string_equal(c.segment_name, "12345");
	assert_int_equal(set(&c, "local_segment_name", "true"), 0);
	assert_string_equal(c.segment_name, "true");
	assert_int_equal(set(&c, "engine/pollers", "+4"), 0);
	assert_int_equal(c.nr_pollers, 4);
	assert_int_equal(set(&c, "engine/cores", "2,-1,7"), 0);
	assert_int_equal(c.cores[0], 2);
	assert_int_equal(c.cores[1], -1);
	assert_int_equal(c.cores[2], 7);
	assert_int_equal(c.cores[3], -1);
	assert_int_equal(set(&c, "engine", "unix:/x/y"), 0);
	assert_string_equal(c.attach_path, "/x/y");
	assert_int_equal(set(&c, "engine", "caller"), 0);
	assert_string_equal(c.attach_path, "");
	assert_true(c.caller_mode);
	assert_int_equal(c.sources[config_key_index(config_key_find("engine"))],
			 CONFIG_FROM_KEY);
}

static void bad_text_values_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "transports/shm/enable", "yes" }, { "transports/shm/enable", "" },
		{ "transports/shm/enable", "10" }, { "engine/pollers", "" },
		{ "engine/pollers", "1.5" }, { "engine/pollers", "4 " },
		{ "engine/pollers", "0x4" }, { "engine/pollers", "-" },
		{ "engine/pollers", "-1" }, { "engine/pollers", "18446744073709551617" },
		{ "engine/cores", "1,1" }, { "engine/cores", "1," }, { "engine/cores", ",1" },
		{ "engine/cores", "1 2" }, { "engine/cores", "[1]" },
		{ "engine/cores", "18446744073709551615" },
		{ "local_segment_name", "\xff" }, { "rpc_server_hostname", "a\n" },
		{ "engine", "unix:" }, { "intent/default_priority", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct engine_config c, before;

		engine_config_default(&c);
		before = c;
		assert_int_equal(set(&c, bad[i][0], bad[i][1]), TENT_ERR_CONFIG);
		assert_non_null(strstr(said.error, bad[i][0]));
		assert_memory_equal(&c, &before, sizeof(c));
		for (const char *at = said.error; *at; at++)
			assert_in_range(*at, 0x20, 0x7e);
	}
}

static void unknown_keys_are_errors_that_guess_what_was_meant(void **state)
{
	static const struct { const char *json, *says; } bad[] = {
		{ "{\"engine\":{\"poller\":2}}", "\"engine/poller\" is not a known key; did you "
		  "mean \"engine/pollers\"?" },
		{ "{\"pollers\":2}", "did you mean \"engine/pollers\"?" },
		{ "{\"zzzzzzzzzz\":2}", "\"zzzzzzzzzz\" is not a known key" },
		{ "{\"\":2}", "\"\" is not a known key" },
		{ "{\"transports\":{\"rdma\":{\"num_lane\":1}}}",
		  "\"transports/rdma/num_lane\" is not a known key" },
		{ "{\"transports\":{\"warp\":{\"enable\":true}}}", "\"transports/warp\"" },
		{ "{\"transports\":{\"tpu\":{\"\":true}}}", "\"transports/tpu/\"" },
		{ "{\"engine/pollers\":2}", "\"engine/pollers\" is not a known key; write it "
		  "nested" },
		{ "{\"transports\":3}", "transports is 3; allowed: an object" },
		{ "{\"limits\":null}", "limits is null; allowed: an object" },
		{ "[]", "the configuration is []; allowed: a JSON object" },
		{ "[1]", "the configuration is [1]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct engine_config c;

		engine_config_default(&c);
		assert_int_equal(engine_config_apply_json(&c, bad[i].json, &said), TENT_ERR_CONFIG);
		if (!strstr(said.error, bad[i].says))
			fail_msg("%s: %s", bad[i].json, said.error);
	}
}

static void sections_that_grant_or_limit_are_no_keys_to_be_set_alone(void **state)
{
	static const char *const names[] = { "policy", "qos", "authorization" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		char key[64];
		struct engine_config c;

		engine_config_default(&c);
		assert_int_equal(set(&c, names[i], "{}"), TENT_ERR_CONFIG);
		assert_non_null(strstr(said.error, names[i]));
		snprintf(key, sizeof(key), "%s/version", names[i]);
		assert_int_equal(set(&c, key, "1"), TENT_ERR_CONFIG);
		assert_non_null(strstr(said.error, "in JSON"));
	}
}

static void a_key_is_set_once_per_text(void **state)
{
	static const char *const twice[] = {
		"{\"engine\":{\"pollers\":1,\"pollers\":2}}",
		"{\"engine\":{},\"engine\":{}}",
		("{\"rdma\":{\"priority_promotion_timeout_us\":1},"
		 "\"transports\":{\"rdma\":{\"priority_promotion_timeout_us\":1}}}"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
		struct engine_config c;

		engine_config_default(&c);
		assert_int_equal(engine_config_apply_json(&c, twice[i], &said), TENT_ERR_CONFIG);
		assert_true(strstr(said.error, "duplicate") || strstr(said.error, "twice"));
	}
}

static void rdma_keys_have_a_short_spelling(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(engine_config_apply_json(&c, "{\"rdma\":"
			 "{\"priority_promotion_timeout_us\":7}}", &said), 0);
	assert_int_equal(c.age_ns, 7000);
	assert_int_equal(set(&c, "rdma/priority_promotion_timeout_us", "8"), 0);
	assert_int_equal(c.age_ns, 8000);
}

static void cores_and_pollers_must_agree(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(engine_config_apply_json(&c, "{\"engine\":{\"cores\":[1,2]}}", &said),
			 TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "engine/cores"));
	assert_int_equal(engine_config_apply_json(&c, "{\"engine\":{\"cores\":[1,2],"
			 "\"pollers\":2}}", &said), 0);
	assert_int_equal(c.cores[1], 2);
	assert_int_equal(engine_config_apply_json(&c, "{\"engine\":{\"mode\":\"caller\"}}", &said),
			 TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "engine/pollers"));
	assert_int_equal(engine_config_apply_json(&c, "{\"engine\":{\"cores\":[4,4]}}", &said),
			 TENT_ERR_CONFIG);
}

static void one_bad_value_keeps_all_the_good_ones_out(void **state)
{
	struct engine_config c, before;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(set(&c, "engine/spin_us", "9"), 0);
	before = c;
	assert_int_equal(engine_config_apply_json(&c,
		"{\"engine\":{\"idle\":\"busy\",\"spin_us\":1},\"rpc_server_port\":1,"
		"\"transports\":{\"shm\":{\"enable\":\"no\"}}}", &said),
		TENT_ERR_CONFIG);
	assert_string_equal(said.error,
		"transports/shm/enable is \"no\"; allowed: true or false");
	assert_memory_equal(&c, &before, sizeof(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_has_a_case_and_its_documented_default),
		cmocka_unit_test(defaults_in_the_struct_have_the_engines_units),
		cmocka_unit_test(good_values_are_taken_and_read_back),
		cmocka_unit_test(bad_values_are_refused_by_key_value_and_range),
		cmocka_unit_test(text_values_are_read_by_the_keys_type),
		cmocka_unit_test(bad_text_values_are_refused),
		cmocka_unit_test(unknown_keys_are_errors_that_guess_what_was_meant),
		cmocka_unit_test(sections_that_grant_or_limit_are_no_keys_to_be_set_alone),
		cmocka_unit_test(a_key_is_set_once_per_text),
		cmocka_unit_test(rdma_keys_have_a_short_spelling),
		cmocka_unit_test(cores_and_pollers_must_agree),
		cmocka_unit_test(one_bad_value_keeps_all_the_good_ones_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
