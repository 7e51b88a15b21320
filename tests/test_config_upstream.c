/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config_upstream.c - configurations of the existing engine, its environment
 * variables, and text that is no honest configuration at all.
 */
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

static struct config_report said;

static int apply(struct engine_config *c, const char *json)
{
	return engine_config_apply_json(c, json, &said);
}

static int environment(struct engine_config *c)
{
	return engine_config_apply_environment(c, &said);
}

static unsigned int lines(const char *text)
{
	unsigned int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* The table's name, or for "x/ *" (no blank) one that it stands for. */
static void concrete(char *path, size_t size, const struct config_foreign *f)
{
	size_t len = strlen(f->path);

	snprintf(path, size, "%s", f->path);
	if (path[len - 1] == '*')
		snprintf(path + len - 1, size - len + 1, "some_option");
}

static void every_upstream_key_gives_one_warning_that_names_it(void **state)
{
	const struct config_foreign *f;

	(void)state;
	for (unsigned int i = 0; (f = config_foreign_at(i)); i++) {
		struct engine_config c, before;
		char path[128], json[512];

		concrete(path, sizeof(path), f);
		nest(json, sizeof(json), path, "\"anything\"");
		engine_config_default(&c);
		before = c;
		assert_int_equal(apply(&c, json), 0);
		assert_int_equal(lines(said.warnings), 1);
		assert_int_equal(strncmp(said.warnings, path, strlen(path)), 0);
		assert_non_null(strstr(said.warnings, f->instead));
		assert_memory_equal(&c, &before, sizeof(c));

		assert_int_equal(engine_config_apply_key(&c, path, "anything", &said), 0);
		assert_int_equal(lines(said.warnings), 1);
		assert_int_equal(strncmp(said.warnings, path, strlen(path)), 0);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void a_value_that_asks_for_what_we_do_anyway_is_silent(void **state)
{
	const struct config_foreign *f;
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	for (unsigned int i = 0; (f = config_foreign_at(i)); i++) {
		if (!f->silent)
			continue;
		assert_int_equal(engine_config_apply_key(&c, f->path, f->silent, &said), 0);
		assert_string_equal(said.warnings, "");
	}
	assert_int_equal(apply(&c, "{\"metadata_type\":\"p2p\",\"metadata_servers\":\"\","
			       "\"merge_requests\":false,\"max_failover_attempts\":0,"
			       "\"transports\":{\"rdma\":{\"enable\":false}}}"), 0);
	assert_string_equal(said.warnings, "");
	assert_int_equal(apply(&c, "{\"merge_requests\":true}"), 0);
	assert_int_equal(lines(said.warnings), 1);
}

/* The names as users of the existing engine know them, typed here a second time:
 * dropping one from the table fails this. */
static void the_known_keys_of_the_existing_engine_are_all_there(void **state)
{
	static const char *const paths[] = {
		"metadata_type", "metadata_servers", "local_segment_name",
		"rpc_server_hostname", "rpc_server_port", "rpc_server_threads", "log_level",
		"verbose", "merge_requests", "max_failover_attempts",
		"enable_auto_failover_on_poll", "enable_progress_worker",
		"enable_runtime_queue", "runtime_queue/max_outstanding_owners",
		"runtime_queue/max_outstanding_bytes", "runtime_queue/staging_owner_reserve",
		"runtime_queue/staging_byte_reserve", "runtime_queue/deadline_aware",
		"runtime_queue/mlu_local_threshold", "runtime_queue/promotion_slack_ns",
		"runtime_queue/max_dispatch_owners", "runtime_queue/max_dispatch_bytes",
		"runtime_queue/progress_fallback_interval_us",
		"use_legacy_transport_selection", "transports/tcp/enable",
		"transports/shm/enable", "transports/rdma/enable",
		"transports/io_uring/enable", "transports/nvlink/enable",
		"transports/mnnvl/enable", "transports/gds/enable",
		"transports/tcp/max_retry_count", "transports/tcp/retry_base_delay_ms",
		"transports/tcp/retry_max_delay_ms", "transports/tcp/max_concurrent_tasks",
		"transports/rdma/num_lanes", "rdma/device/num_comp_channels",
		"rdma/device/port", "rdma/device/gid_index", "rdma/device/max_cqe",
		"rdma/endpoint/store_cap", "rdma/endpoint/max_sge",
		"rdma/endpoint/max_qp_wr", "rdma/endpoint/max_inline",
		"rdma/endpoint/path_mtu", "rdma/endpoint/pkey_index",
		"rdma/endpoint/hop_limit", "rdma/endpoint/flow_label",
		"rdma/endpoint/traffic_class", "rdma/endpoint/service_level",
		"rdma/endpoint/max_dest_rd_atomic", "rdma/endpoint/min_rnr_timer",
		"rdma/endpoint/send_timeout", "rdma/endpoint/send_retry",
		"rdma/endpoint/send_rnr",
		"rdma/workers/max_retry_count", "rdma/workers/block_size",
		"rdma/workers/grace_period_ns", "rdma/workers/rail_topo_path",
		"rdma/max_timeout_ns", "rdma/priority_promotion_timeout_us",
		"rdma/priority_promotion_per_entry", "rdma/deadline_bw_arbitration",
		"rdma/disable_gpu_direct_rdma", "rdma/rail_error_threshold",
		"rdma/rail_error_window_secs", "rdma/rail_cooldown_secs",
		"rdma/default_bandwidth_gbps", "rdma/min_bandwidth_gbps",
		"rdma/max_bandwidth_gbps", "rdma/bandwidth_learning_rate",
		"topology/rdma_whitelist", "topology/rdma_blacklist",
		"topology/priority_matrix", "topology/custom_json_path", "metrics/enabled",
		"metrics/http_host", "metrics/http_port", "metrics/http_server_threads",
		"metrics/report_interval_seconds",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!config_key_find(paths[i]) == !config_foreign_find(paths[i]))
			fail_msg("%s is in no table, or in both", paths[i]);
	}
}

static void a_whole_upstream_configuration_is_accepted(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(apply(&c,
		"{\"local_segment_name\":\"10.0.0.5:12345\",\"metadata_type\":\"etcd\","
		"\"metadata_servers\":\"10.0.0.1:2379\",\"rpc_server_hostname\":\"10.0.0.5\","
		"\"rpc_server_port\":0,\"log_level\":\"warning\","
		"\"topology\":{\"rdma_whitelist\":[\"mlx5_0\"],\"priority_matrix\":{\"a\":{}}},"
		"\"metrics\":{\"enabled\":true,\"latency_buckets\":[0.1,1e0]},"
		"\"transports\":{\"rdma\":{\"device\":{\"gid_index\":-1},"
		"\"endpoint\":{\"qp_pools\":[{\"name\":\"kv\",\"num_qp\":2}]}},"
		"\"shm\":{\"enable\":true},\"hp_tcp\":{\"chunk_size\":65536}}}"), 0);
	assert_int_equal(lines(said.warnings), 6);
	assert_int_equal(c.metadata_type, METADATA_ETCD);
	assert_string_equal(c.metadata_servers, "10.0.0.1:2379");
	assert_string_equal(c.host, "10.0.0.5");
	assert_int_equal(c.port, 15000);
	assert_string_equal(c.segment_name, "");
	assert_non_null(strstr(said.warnings, "local_segment_name is not used: "));
}

static void warnings_that_do_not_fit_leave_a_mark(void **state)
{
	enum { KEYS = 1000 };
	size_t used, before = 0;
	struct engine_config c;
	char json[KEYS * 16];

	(void)state;
	for (int nr = 1; nr < KEYS; nr++) {
		used = (size_t)sprintf(json, "{\"transports\":{\"tpu\":{\"k0\":0");
		for (int i = 1; i < nr; i++)
			used += (size_t)sprintf(json + used, ",\"k%d\":0", i);
		strcpy(json + used, "}}}");
		engine_config_default(&c);
		memset(&said, 'x', sizeof(said));
		assert_int_equal(apply(&c, json), 0);
		used = strnlen(said.warnings, sizeof(said.warnings));
		assert_true(used < sizeof(said.warnings));
		if (strstr(said.warnings, "\n...\n"))
			break;
		assert_true(used > before);
		before = used;
	}
	assert_string_equal(said.warnings + used - 5, "\n...\n");
	assert_true(before > sizeof(said.warnings) - 200);
}

static void hostile_text_is_refused_and_changes_nothing(void **state)
{
	static const char *const texts[] = {
		"", " ", "{", "}", "{\"engine\"", "{\"engine\":}", "{} {}", "{}x", "\xef\xbb\xbf{}",
		"{\"engine\":{\"pollers\":99999999999999999999999}}",
		"{\"engine\":{\"pollers\":-99999999999999999999999}}",
		"{\"engine\":{\"pollers\":1e999}}", "{\"engine\":{\"pollers\":NaN}}",
		"{\"engine\":{\"pollers\":00}}", "{\"engine\":{\"pollers\":+1}}",
		"{\"local_segment_name\":\"\\u0000\"}", "{\"local_segment_name\":\"a\\u0000b\"}",
		"{\"lo\\u0000\":1}", "{\"local_segment_name\":\"\xff\"}",
		"{\"local_segment_name\":\"\xc0\x80\"}", "{\"\xff\":1}",
		"{\"local_segment_name\":\"\\ud800\"}", "{\"local_segment_name\":\"a\nb\"}",
		"{'engine':1}", "{\"engine\":{\"pollers\":1,}}", "// comment\n{}",
		"{\"\x1b[31m\":1}", "{\"\\u001b[31m\":1}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct engine_config c, before;

		engine_config_default(&c);
		before = c;
		assert_int_equal(apply(&c, texts[i]), TENT_ERR_CONFIG);
		assert_true(strlen(said.error) > 0);
		for (const char *at = said.error; *at; at++)
			assert_in_range(*at, 0x20, 0x7e);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void repeat(char *to, const char *what, size_t times)
{
	size_t len = strlen(what);

	for (size_t i = 0; i < times; i++)
		memcpy(to + i * len, what, len);
	to[times * len] = '\0';
}

static void deep_nesting_and_endless_names_are_refused(void **state)
{
	enum { TIMES = 100000 };
	char *text = malloc(TIMES * 16 + 64);
	struct engine_config c;

	(void)state;
	assert_non_null(text);
	engine_config_default(&c);
	repeat(text, "[", TIMES);
	assert_int_equal(apply(&c, text), TENT_ERR_CONFIG);
	repeat(text, "{\"engine\":", TIMES);
	assert_int_equal(apply(&c, text), TENT_ERR_CONFIG);
	assert_int_equal(apply(&c, "{\"engine\":{\"engine\":{\"engine\":{}}}}"),
			 TENT_ERR_CONFIG);

	/* valid JSON of a depth the parser takes, below a known key */
	strcpy(text, "{\"engine\":{\"pollers\":");
	repeat(text + strlen(text), "[", 2000);
	repeat(text + strlen(text), "]", 2000);
	strcat(text, "}}");
	assert_int_equal(apply(&c, text), TENT_ERR_CONFIG);
	assert_int_equal(strncmp(said.error, "engine/pollers is [[", 20), 0);
	assert_true(strlen(said.error) < 300);

	strcpy(text, "{\"");
	repeat(text + 2, "n", TIMES);
	strcat(text, "\":1}");
	assert_int_equal(apply(&c, text), TENT_ERR_CONFIG);
	assert_true(strlen(said.error) < 300);
	strcpy(text, "{\"transports\":{\"tpu\":{\"");
	repeat(text + strlen(text), "n", TIMES);
	strcat(text, "\":1}}}");
	assert_int_equal(apply(&c, text), 0);
	assert_int_equal(lines(said.warnings), 1);
	free(text);
}

static void write_file(char path[32], const char *text, size_t length)
{
	int fd;

	strcpy(path, "/tmp/tent-config-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), (ssize_t)length);
	close(fd);
}

static void file_errors_name_the_file(void **state)
{
	static char large[(1 << 20) + 1];
	struct engine_config c;
	char path[32];

	(void)state;
	engine_config_default(&c);
	assert_int_equal(engine_config_apply_file(&c, "/nonexistent/tent.json", &said), TENT_ERR_CONFIG);
	assert_string_equal(said.error, "/nonexistent/tent.json: cannot read: No such file or "
			    "directory");
	assert_int_equal(engine_config_apply_file(&c, "/tmp", &said),
			 TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "/tmp: cannot read"));

	write_file(path, "{\"engine\":{\"pollers\":0}}", 24);
	assert_int_equal(engine_config_apply_file(&c, path, &said),
			 TENT_ERR_CONFIG);
	assert_int_equal(strncmp(said.error, path, strlen(path)), 0);
	assert_non_null(strstr(said.error, ": engine/pollers is 0; allowed: an integer, 1..64"));
	unlink(path);

	write_file(path, "{}\0{}", 5);	/* what follows the NUL must not be lost */
	assert_int_equal(engine_config_apply_file(&c, path, &said),
			 TENT_ERR_CONFIG);
	unlink(path);

	memset(large, ' ', sizeof(large));
	memcpy(large, "{}", 2);
	write_file(path, large, sizeof(large));
	assert_int_equal(engine_config_apply_file(&c, path, &said),
			 TENT_ERR_CONFIG);
	unlink(path);
	write_file(path, large, sizeof(large) - 1);
	assert_int_equal(engine_config_apply_file(&c, path, &said), 0);
	unlink(path);
}

static void mc_tent_conf_replaces_all_but_explicit_identity(void **state)
{
	struct engine_config c;

	(void)state;
	engine_config_default(&c);
	assert_int_equal(engine_config_apply_key(&c, "rpc_server_port", "7", &said), 0);
	assert_int_equal(engine_config_apply_key(&c, "engine/spin_us", "9", &said), 0);
	assert_int_equal(engine_config_apply_key(&c, "engine", "unix:/s", &said), 0);
	assert_int_equal(apply(&c, "{\"rpc_server_hostname\":\"from-file\"}"), 0);
	c.contain_sigbus = true;
	setenv("MC_TENT_CONF", "{\"engine\":{\"pollers\":3},\"rpc_server_port\":8,"
	       "\"local_segment_name\":\"s\"}", 1);
	assert_int_equal(environment(&c), 0);
	unsetenv("MC_TENT_CONF");
	assert_int_equal(c.nr_pollers, 3);
	assert_int_equal(c.port, 7);			/* explicit: survives */
	assert_string_equal(c.attach_path, "/s");	/* explicit: survives */
	assert_int_equal(c.spin_ns, 50000);		/* explicit, but no identity */
	assert_string_equal(c.host, "127.0.0.1");	/* from a file: replaced */
	assert_string_equal(c.segment_name, "s");
	assert_true(c.contain_sigbus);
	assert_int_equal(c.sources[config_key_index(config_key_find("engine/pollers"))],
			 CONFIG_FROM_ENVIRONMENT);
}

static void mc_tent_conf_is_a_file_if_it_exists_else_json(void **state)
{
	struct engine_config c, before;
	char path[32];

	(void)state;
	engine_config_default(&c);
	write_file(path, "{\"engine\":{\"pollers\":2}}", 24);
	setenv("MC_TENT_CONF", path, 1);
	assert_int_equal(environment(&c), 0);
	assert_int_equal(c.nr_pollers, 2);
	unlink(path);

	before = c;
	assert_int_equal(environment(&c), TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "MC_TENT_CONF"));
	assert_non_null(strstr(said.error, "no such file"));
	assert_memory_equal(&c, &before, sizeof(c));

	setenv("MC_TENT_CONF", "{\"engine\":{\"pollers\":0}}", 1);
	assert_int_equal(environment(&c), TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "engine/pollers is 0"));
	assert_memory_equal(&c, &before, sizeof(c));

	setenv("MC_TENT_CONF", "", 1);
	assert_int_equal(environment(&c), 0);
	assert_memory_equal(&c, &before, sizeof(c));
	unsetenv("MC_TENT_CONF");
	assert_int_equal(environment(&c), 0);
	assert_memory_equal(&c, &before, sizeof(c));
}

static void every_other_variable_of_the_existing_engine_gives_one_warning(void **state)
{
	static const char *const names[] = {
		"RDMA_BIND_ADDRESS", "NUM_CQ_PER_CTX", "NUM_COMP_CHANNELS_PER_CTX",
		"MAX_CQE_PER_CTX", "MAX_EP_PER_CTX", "NUM_QP_PER_EP", "MAX_SGE", "MAX_INLINE",
		"MTU", "IB_PCI_RELAXED_ORDERING", "WORKERS_PER_CTX", "RETRY_CNT",
		"DISABLE_GPU_DIRECT_RDMA", "LOG_RDMA_SLICE_AFFINITY", "CUSTOM_TOPO_JSON",
		"TENT_RPC_THREADS",
	};
	const struct config_foreign *v;
	unsigned int i;

	(void)state;
	for (i = 0; (v = config_variable_at(i)); i++)
		unsetenv(v->path);
	for (i = 0; (v = config_variable_at(i)); i++) {
		struct engine_config c;

		engine_config_default(&c);
		setenv(v->path, "1", 1);
		assert_int_equal(environment(&c), 0);
		assert_int_equal(lines(said.warnings), 1);
		assert_int_equal(strncmp(said.warnings, v->path, strlen(v->path)), 0);
		unsetenv(v->path);
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct engine_config c;
		char name[64];

		engine_config_default(&c);
		snprintf(name, sizeof(name), "MC_%s", names[i]);
		setenv(name, "1", 1);
		assert_int_equal(environment(&c), 0);
		assert_int_equal(lines(said.warnings), 1);
		unsetenv(name);
	}
}

static void variables_that_have_a_key_set_it_above_all_else(void **state)
{
	static const struct { const char *variable, *path, *value; } rows[] = {
		{ "MC_IB_PORT", "transports/rdma/device/port", "2" },
		{ "MC_GID_INDEX", "transports/rdma/device/gid_index", "3" },
		{ "MC_MAX_WR", "transports/rdma/endpoint/max_qp_wr", "128" },
		{ "MC_PKEY_INDEX", "transports/rdma/endpoint/pkey_index", "3" },
		{ "MC_IB_TC", "transports/rdma/endpoint/traffic_class", "104" },
		{ "MC_IB_SL", "transports/rdma/endpoint/service_level", "4" },
		{ "MC_SLICE_SIZE", "transports/rdma/workers/block_size", "65536" },
		{ "MC_TE_FILTERS", "transports/rdma/devices", "mlx5_0,mlx5_1" },
		{ "MC_TE_FILTERS_EXCLUDE", "transports/rdma/devices_denied", "mlx5_2" },
	};
	struct engine_config c;
	char text[256];

	(void)state;
	setenv("MC_TENT_CONF", "{\"transports\":{\"rdma\":{\"endpoint\":{"
	       "\"service_level\":1}}}}", 1);
	engine_config_default(&c);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		setenv(rows[i].variable, rows[i].value, 1);
	assert_int_equal(environment(&c), 0);
	assert_string_equal(said.warnings, "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		config_value_text(config_key_find(rows[i].path), &c, text, sizeof(text));
		assert_string_equal(text, rows[i].value);
		unsetenv(rows[i].variable);
	}
	unsetenv("MC_TENT_CONF");
}

static void a_bad_value_in_such_a_variable_names_the_variable(void **state)
{
	struct engine_config c, before;

	(void)state;
	engine_config_default(&c);
	before = c;
	setenv("MC_IB_SL", "16", 1);
	assert_int_equal(environment(&c), TENT_ERR_CONFIG);
	assert_non_null(strstr(said.error, "MC_IB_SL: "));
	assert_non_null(strstr(said.error, "0..15"));
	assert_memory_equal(&c, &before, sizeof(c));
	setenv("MC_IB_SL", "", 1);
	assert_int_equal(environment(&c), 0);
	unsetenv("MC_IB_SL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_upstream_key_gives_one_warning_that_names_it),
		cmocka_unit_test(a_value_that_asks_for_what_we_do_anyway_is_silent),
		cmocka_unit_test(the_known_keys_of_the_existing_engine_are_all_there),
		cmocka_unit_test(a_whole_upstream_configuration_is_accepted),
		cmocka_unit_test(warnings_that_do_not_fit_leave_a_mark),
		cmocka_unit_test(hostile_text_is_refused_and_changes_nothing),
		cmocka_unit_test(deep_nesting_and_endless_names_are_refused),
		cmocka_unit_test(file_errors_name_the_file),
		cmocka_unit_test(mc_tent_conf_replaces_all_but_explicit_identity),
		cmocka_unit_test(mc_tent_conf_is_a_file_if_it_exists_else_json),
		cmocka_unit_test(variables_that_have_a_key_set_it_above_all_else),
		cmocka_unit_test(a_bad_value_in_such_a_variable_names_the_variable),
		cmocka_unit_test(every_other_variable_of_the_existing_engine_gives_one_warning),
	};

	unsetenv("MC_TENT_CONF");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
