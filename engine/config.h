/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - every setting of an engine and where it was read; config_keys.c has the
 * defaults. */
#ifndef TENT_ENGINE_CONFIG_H
#define TENT_ENGINE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"
#include "engine/config_contract.h"

#define ENGINE_POLLERS_MAX 64
#define CONFIG_KEYS_MAX 128
#define SOCKET_PATH_SIZE 108	/* of sockaddr_un.sun_path, NUL included */

enum config_metadata { METADATA_P2P, METADATA_ETCD, METADATA_REDIS };

/* Where a value was read. */
enum config_source {
	CONFIG_FROM_DEFAULT = 0,
	CONFIG_FROM_KEY = 1,		/* engine_config_apply_key() */
	CONFIG_FROM_JSON = 2,		/* a file, or JSON text */
	CONFIG_FROM_ENVIRONMENT = 3	/* MC_TENT_CONF */
};

struct engine_config {
	/* engine */
	bool caller_mode;		/* engine/mode is "caller" */
	bool adaptive;			/* engine/idle is "adaptive" */
	bool compat;			/* engine/validation is "compat" */
	uint32_t nr_pollers;		/* engine/pollers */
	int cores[ENGINE_POLLERS_MAX];	/* engine/cores; -1: not pinned */
	uint64_t spin_ns;		/* engine/spin_us */
	uint64_t age_ns;		/* rdma/priority_promotion_timeout_us */
	uint64_t request_timeout_ns;	/* engine/request_timeout_ms */
	bool no_priorities;		/* engine/priorities is false */
	uint64_t urgent_ns;		/* engine/urgent_ms */
	uint32_t loose_percent;		/* engine/loose_percent */
	int default_priority;		/* intent/default_priority */
	uint32_t turn_slots;		/* engine/turn_slots */
	uint64_t turn_bytes;		/* engine/turn_bytes */
	/* failover */
	uint32_t failover_attempts;	/* max_failover_attempts */
	uint32_t path_errors;		/* failover/error_threshold; 0: nothing is paused */
	uint64_t path_window_ns;	/* failover/error_window_ms */
	uint64_t path_pause_ns;		/* failover/cooldown_ms */
	uint64_t path_pause_max_ns;	/* failover/cooldown_max_ms */
	/* limits */
	uint32_t rings_max;		/* limits/rings_per_client */
	uint32_t clients_max;		/* limits/clients */
	uint32_t clients_per_tenant_max; /* limits/clients_per_tenant */
	uint64_t memory_max;		/* limits/allocated_bytes_per_client */
	uint32_t regions_max;		/* limits/regions_per_client */
	/* identity */
	char host[64];			/* rpc_server_hostname */
	uint16_t port;			/* rpc_server_port */
	bool host_any, port_any;	/* left to the engine */
	char segment_name[64];		/* local_segment_name */
	/* directory */
	int metadata_type;		/* metadata_type: enum config_metadata */
	char metadata_servers[256];	/* metadata_servers */
	uint32_t redis_db;		/* redis_db_index */
	uint32_t metadata_ttl_s;	/* metadata_ttl_s */
	/* peers */
	bool peers_enable;		/* peers/enable */
	bool peers_insecure;		/* peers/insecure */
	char secret_file[256];		/* peers/secret_file; "": none */
	uint64_t keepalive_ns;		/* peers/keepalive_ms */
	uint32_t links_max;		/* limits/peer_connections */
	uint32_t far_max;		/* limits/far_segments_per_tenant */
	uint32_t far_buffers_max;	/* limits/far_buffers_per_tenant */
	/* transports */
	bool shm_enable;		/* transports/shm/enable */
	bool null_enable;		/* transports/null/enable: for tests and costs */
	char null_faults[128];		/* transports/null/faults */
	uint64_t stream_bytes;		/* transports/shm/stream_bytes */
	bool file_enable;		/* transports/file/enable */
	bool any_file_system;		/* transports/file/any_file_system */
	struct file_settings file;	/* transports/file/... */
	bool tcp_enable;		/* transports/tcp/enable */
	struct tcp_settings tcp;	/* transports/tcp/... */
	bool nvlink_enable;		/* transports/nvlink/enable */
	bool rdma_enable;		/* transports/rdma/enable */
	struct rdma_settings rdma;	/* transports/rdma/... */
	/* which engine: "engine" = "thread" | "caller" | "unix:/path" */
	char attach_path[SOCKET_PATH_SIZE]; /* of a running tentd, or "": an engine of our own */
	/* daemon */
	char socket_path[SOCKET_PATH_SIZE]; /* daemon/socket */
	bool metrics_enable;		/* metrics/enabled */
	char metrics_host[64];		/* metrics/http_host */
	uint16_t metrics_port;		/* metrics/http_port; 0: any */
	bool contain_sigbus;		/* set by tentd: survive clients that punch holes */
	bool metered;			/* set by tentd: somebody serves what pollers meter */
	bool daemon;			/* set by tentd: loopback only, unless told otherwise */
	/* what tenants may have: policy, qos, authorization */
	struct contract_config contracts;
	uint8_t sources[CONFIG_KEYS_MAX]; /* enum config_source, by config_key_at() index */
};

void engine_config_default(struct engine_config *c);

/* Was the key set, or is this its default? */
bool engine_config_is_set(const struct engine_config *c, const char *key);

/* What applying something has to say; overwritten by each call. */
struct config_report {
	char error[1024];	/* one sentence, or "" */
	char warnings[16384];	/* one line each; what does not fit is a last line "..." */
};

/* Applies JSON text. 0, or TENT_ERR_CONFIG with one sentence that names the key
 * (its JSON path), the value and what is allowed; *c is then unchanged. Keys of
 * the existing engine that we do not implement are known by name: each adds one
 * line to the warnings. */
int engine_config_apply_json(struct engine_config *c, const char *json,
			     struct config_report *report);

/* Applies one key ("transports/shm/enable") given as text, as tent_set_config:
 * the key's type decides how the text is read, so "12345" can name a segment and
 * "1" can switch something on. Lists are comma-separated. */
int engine_config_apply_key(struct engine_config *c, const char *key,
			    const char *value, struct config_report *report);

/* Applies a JSON file; errors name the file. */
int engine_config_apply_file(struct engine_config *c, const char *path,
			     struct config_report *report);

/* Applies MC_TENT_CONF (the path of an existing file, else inline JSON) and names
 * the MC_* variables that are set. As in the existing engine MC_TENT_CONF replaces
 * everything; only keys set by engine_config_apply_key() that identify the program
 * survive it: engine, local_segment_name, rpc_server_hostname, rpc_server_port. */
int engine_config_apply_environment(struct engine_config *c,
				    struct config_report *report);

#endif /* TENT_ENGINE_CONFIG_H */
