/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_upstream.c - what configuration files of the existing engine contain and
 * we do not implement. A key named here gets one warning that says what happens
 * instead; any other unknown key is an error, so that a typing mistake is found.
 */
#include <string.h>

#include "engine/config_table.h"

#define NO_RDMA "transports/rdma has no such choice: all devices that are allowed, QPs as needed"
#define TCP "transports/tcp moves bytes between engines; it calls again by itself"
#define NO_GPU "memory of GPUs moves by copies of the driver: transports/nvlink/enable"
#define FILES "transports/file moves bytes of file:// segments, by io_uring where it may"
#define NO_VENDOR "this build has no such transport; memory of this host moves by shm"
#define NO_METRICS "a program serves no metrics by HTTP; tentd does, with metrics/*"
#define METRICS_FIXED "tentd serves Prometheus text when it is asked, on one thread"
#define NO_TOPOLOGY "transports/rdma/devices and devices_denied say which devices may be used"
#define FAILOVER "the poller fails over, polled for or not; max_failover_attempts 0: it does not"
#define NO_QUEUE "the engine always queues by priority, with limits/* and engine/* as bounds"
#define SHM_MEMFD "shared memory is always an anonymous sealed memfd"
#define SHM_STREAM "transports/shm/stream_bytes says which copies bypass the cache"

static const struct config_foreign foreign[] = {
	{ "rpc_server_threads", NULL, "one control thread serves all control messages" },
	{ "log_level", NULL, "the library logs nothing; every call reports its own error" },
	{ "verbose", "false", "the library logs nothing; every call reports its own error" },
	{ "merge_requests", "false", "every request is moved as it was submitted" },
	{ "enable_auto_failover_on_poll", "true", FAILOVER },
	{ "enable_progress_worker", "true", "the poller makes progress, polled for or not" },
	{ "enable_runtime_queue", NULL, NO_QUEUE },
	{ "runtime_queue/max_outstanding_owners", NULL, NO_QUEUE },
	{ "runtime_queue/max_outstanding_bytes", NULL, NO_QUEUE },
	{ "runtime_queue/staging_owner_reserve", "0", "nothing is staged" },
	{ "runtime_queue/staging_byte_reserve", "0", "nothing is staged" },
	{ "runtime_queue/deadline_aware", NULL,
	  "deadlines go in their order, see engine/urgent_ms; expired requests are served" },
	{ "runtime_queue/mlu_local_threshold", NULL,
	  "deadlines are counted; no request is dropped for one" },
	{ "runtime_queue/promotion_slack_ns", NULL,
	  "engine/urgent_ms says which deadlines go before other requests" },
	{ "runtime_queue/max_dispatch_owners", NULL, NO_QUEUE },
	{ "runtime_queue/max_dispatch_bytes", NULL, NO_QUEUE },
	{ "runtime_queue/progress_fallback_interval_us", NULL,
	  "the poller makes progress, polled for or not" },
	{ "use_legacy_transport_selection", NULL,
	  "the first enabled transport that reaches both ends is used" },
	{ "staging", NULL, "nothing is staged" },

	{ "transports/force_tcp", "false", TCP },
	{ "transports/tcp/max_retry_count", NULL, TCP },
	{ "transports/tcp/retry_base_delay_ms", NULL, TCP },
	{ "transports/tcp/retry_max_delay_ms", NULL, TCP },
	{ "transports/tcp/max_concurrent_tasks", NULL, TCP },
	{ "transports/hp_tcp/enable", "false", TCP },
	{ "transports/hp_tcp/*", NULL, TCP },
	{ "transports/shm/cxl_mount_path", "", SHM_MEMFD },
	{ "transports/shm/async_memcpy_threshold", NULL, SHM_STREAM },
	{ "transports/io_uring/enable", "true", FILES },
	{ "transports/io_uring/*", NULL, FILES },
	{ "transports/gds/enable", "false", FILES },
	{ "transports/gds/*", NULL, FILES },
	{ "transports/mnnvl/enable", "false", NO_GPU },
	{ "transports/mnnvl/*", NULL, NO_GPU },
	{ "transports/ascend/enable", "false", NO_VENDOR },
	{ "transports/ascend/*", NULL, NO_VENDOR },
	{ "transports/ascend_direct/enable", "false", NO_VENDOR },
	{ "transports/ascend_direct/*", NULL, NO_VENDOR },
	{ "transports/sunrise_link/enable", "false", NO_VENDOR },
	{ "transports/sunrise_link/*", NULL, NO_VENDOR },
	{ "transports/tpu/enable", "false", NO_VENDOR },
	{ "transports/tpu/*", NULL, NO_VENDOR },
	{ "transports/ub/enable", "false", NO_VENDOR },
	{ "transports/ub/*", NULL, NO_VENDOR },
	{ "transports/mpcomm/enable", "false", NO_VENDOR },
	{ "transports/mpcomm/*", NULL, NO_VENDOR },

	{ "transports/rdma/num_lanes", NULL, NO_RDMA },
	{ "transports/rdma/bind_address", NULL, NO_RDMA },
	{ "transports/rdma/shared_quota_shm_path", NULL, NO_RDMA },
	{ "transports/rdma/max_timeout_ns", NULL,
	  "engine/request_timeout_ms bounds every request" },
	{ "transports/rdma/priority_promotion_per_entry", "true",
	  "every waiting request rises by its own age" },
	{ "transports/rdma/deadline_bw_arbitration", "false",
	  "deadlines go in their order, whatever the sizes of requests" },
	{ "transports/rdma/disable_gpu_direct_rdma", "true", NO_RDMA },
	{ "transports/rdma/pci_relaxed_ordering", NULL, NO_RDMA },
	{ "transports/rdma/log_slice_affinity", "false", NO_RDMA },
	{ "transports/rdma/strict_local_numa", NULL, NO_RDMA },
	{ "transports/rdma/numa_penalties", NULL, NO_RDMA },
	{ "transports/rdma/enable_smart_scheduling", NULL, NO_RDMA },
	{ "transports/rdma/enable_priority_filtering", NULL, NO_RDMA },
	{ "transports/rdma/local_rotation_interval_us", NULL, NO_RDMA },
	{ "transports/rdma/slot_rotation_interval_ms", NULL, NO_RDMA },
	{ "transports/rdma/score_jitter_range", NULL, NO_RDMA },
	{ "transports/rdma/score_epsilon", NULL, NO_RDMA },
	{ "transports/rdma/rail_error_threshold", NULL, NO_RDMA },
	{ "transports/rdma/rail_error_window_secs", NULL, NO_RDMA },
	{ "transports/rdma/rail_cooldown_secs", NULL, NO_RDMA },
	{ "transports/rdma/gdr_error_threshold", NULL, NO_RDMA },
	{ "transports/rdma/gdr_error_window_secs", NULL, NO_RDMA },
	{ "transports/rdma/gdr_cooldown_secs", NULL, NO_RDMA },
	{ "transports/rdma/default_bandwidth_gbps", NULL, NO_RDMA },
	{ "transports/rdma/min_bandwidth_gbps", NULL, NO_RDMA },
	{ "transports/rdma/max_bandwidth_gbps", NULL, NO_RDMA },
	{ "transports/rdma/bandwidth_learning_rate", NULL, NO_RDMA },
	{ "transports/rdma/ewma_min_bandwidth_multiplier", NULL, NO_RDMA },
	{ "transports/rdma/ewma_max_bandwidth_multiplier", NULL, NO_RDMA },
	{ "transports/rdma/device/num_cq_list", NULL, NO_RDMA },
	{ "transports/rdma/device/num_comp_channels", NULL, NO_RDMA },
	{ "transports/rdma/device/max_cqe", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/store_cap", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/endpoint_store_cap", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/qp_mul_factor", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/max_sge", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/max_inline", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/max_inline_bytes", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/path_mtu", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/flow_label", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/src_path_bits", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/static_rate", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/rq_psn", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/sq_psn", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/max_rd_atomic", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/max_dest_rd_atomic", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/min_rnr_timer", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/send_retry", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/send_rnr", NULL, NO_RDMA },
	{ "transports/rdma/endpoint/send_rnr_count", NULL, NO_RDMA },
	{ "transports/rdma/workers/num_workers", NULL, NO_RDMA },
	{ "transports/rdma/workers/max_retry_count", NULL, NO_RDMA },
	{ "transports/rdma/workers/grace_period_ns", NULL, NO_RDMA },
	{ "transports/rdma/workers/rail_topo_path", "", NO_RDMA },

	{ "topology/rdma_whitelist", NULL, NO_TOPOLOGY },
	{ "topology/rdma_blacklist", NULL, NO_TOPOLOGY },
	{ "topology/priority_matrix", NULL, NO_TOPOLOGY },
	{ "topology/custom_json_path", "", NO_TOPOLOGY },
	{ "metrics/http_server_threads", "1", METRICS_FIXED },
	{ "metrics/report_interval_seconds", NULL, METRICS_FIXED },
	{ "metrics/enable_prometheus", "true", METRICS_FIXED },
	{ "metrics/enable_json", "false", METRICS_FIXED },
	{ "metrics/latency_buckets", NULL, "the buckets are those of the existing engine" },
	{ "metrics/size_buckets", NULL, "the buckets are those of the existing engine" },
};
#define NR_FOREIGN (sizeof(foreign) / sizeof(foreign[0]))

/* Variables that set a key of ours. */
static const struct config_alias aliases[] = {
	{ "MC_IB_PORT", "transports/rdma/device/port" },
	{ "MC_GID_INDEX", "transports/rdma/device/gid_index" },
	{ "MC_MAX_WR", "transports/rdma/endpoint/max_qp_wr" },
	{ "MC_PKEY_INDEX", "transports/rdma/endpoint/pkey_index" },
	{ "MC_IB_TC", "transports/rdma/endpoint/traffic_class" },
	{ "MC_IB_SL", "transports/rdma/endpoint/service_level" },
	{ "MC_SLICE_SIZE", "transports/rdma/workers/block_size" },
	{ "MC_TE_FILTERS", "transports/rdma/devices" },
	{ "MC_TE_FILTERS_EXCLUDE", "transports/rdma/devices_denied" },
};

/* Those that we do not implement. NCCL_IB_GID_INDEX is missing on purpose: NCCL's users set
 * it for NCCL. */
static const struct config_foreign variables[] = {
	{ "MC_FORCE_TCP", NULL, TCP },
	{ "MC_MNNVL_EGM", NULL, NO_GPU },
	{ "MC_RDMA_BIND_ADDRESS", NULL, NO_RDMA },
	{ "MC_NUM_CQ_PER_CTX", NULL, NO_RDMA },
	{ "MC_NUM_COMP_CHANNELS_PER_CTX", NULL, NO_RDMA },
	{ "MC_MAX_CQE_PER_CTX", NULL, NO_RDMA },
	{ "MC_MAX_EP_PER_CTX", NULL, NO_RDMA },
	{ "MC_NUM_QP_PER_EP", NULL, NO_RDMA },
	{ "MC_MAX_SGE", NULL, NO_RDMA },
	{ "MC_MAX_INLINE", NULL, NO_RDMA },
	{ "MC_MTU", NULL, NO_RDMA },
	{ "MC_IB_PCI_RELAXED_ORDERING", NULL, NO_RDMA },
	{ "MC_WORKERS_PER_CTX", NULL, NO_RDMA },
	{ "MC_RETRY_CNT", NULL, NO_RDMA },
	{ "MC_DISABLE_GPU_DIRECT_RDMA", NULL, NO_RDMA },
	{ "MC_LOG_RDMA_SLICE_AFFINITY", NULL, NO_RDMA },
	{ "MC_STRICT_LOCAL_NUMA", NULL, NO_RDMA },
	{ "MC_CUSTOM_TOPO_JSON", NULL, NO_TOPOLOGY },
	{ "MC_TENT_RPC_THREADS", NULL, "one control thread serves all control messages" },
	{ "TENT_METRICS_ENABLED", NULL, NO_METRICS },
	{ "TENT_METRICS_HTTP_PORT", NULL, NO_METRICS },
	{ "TENT_METRICS_HTTP_HOST", NULL, NO_METRICS },
	{ "TENT_METRICS_HTTP_SERVER_THREADS", NULL, NO_METRICS },
	{ "TENT_METRICS_REPORT_INTERVAL", NULL, NO_METRICS },
};
#define NR_VARIABLES (sizeof(variables) / sizeof(variables[0]))

const struct config_foreign *config_foreign_at(unsigned int i)
{
	return i < NR_FOREIGN ? &foreign[i] : NULL;
}

const struct config_foreign *config_variable_at(unsigned int i)
{
	return i < NR_VARIABLES ? &variables[i] : NULL;
}

const struct config_alias *config_alias_at(unsigned int i)
{
	return i < sizeof(aliases) / sizeof(aliases[0]) ? &aliases[i] : NULL;
}

/* Does the name in the table stand for path? One that ends in an asterisk stands for all
 * that lies below it. */
static bool stands_for(const char *name, const char *path)
{
	size_t len = strlen(name);

	if (len > 0 && name[len - 1] == '*')
		return strncmp(name, path, len - 1) == 0 && path[len - 1] != '\0';
	return strcmp(name, path) == 0;
}

const struct config_foreign *config_foreign_find(const char *path)
{
	for (unsigned int i = 0; i < NR_FOREIGN; i++) {
		if (stands_for(config_path_as(foreign[i].path, path), path))
			return &foreign[i];
	}
	return NULL;
}

static bool lies_below(const char *section, const char *path)
{
	size_t len = strlen(section);

	return strncmp(section, path, len) == 0 && path[len] == '/';
}

bool config_is_section(const char *path)
{
	const struct config_key *k;

	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		if (lies_below(path, k->path))
			return true;
	}
	for (unsigned int i = 0; i < NR_FOREIGN; i++) {
		if (lies_below(path, config_path_as(foreign[i].path, path)))
			return true;
	}
	return false;
}

bool config_is_contract(const char *path)
{
	static const char *const sections[] = { "policy", "qos", "authorization" };

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (strcmp(sections[i], path) == 0 || lies_below(sections[i], path))
			return true;
	}
	return strcmp(config_path_as("transports/rdma/endpoint/qp_pools", path), path) == 0;
}
