/* SPDX-License-Identifier: Apache-2.0 */
/* config_keys.c - the table of keys we implement. docs/tent.conf.5 explains each. */
#include <string.h>
#include <tent/tentring.h>

#include "engine/config_table.h"
#include "engine/segment_name.h"

#define GIB (1ull << 30)

#define TARGET(field)							\
	.offset = offsetof(struct engine_config, field),		\
	.size = sizeof(((struct engine_config *)0)->field)
#define UINT(field, low, high, unit)					\
	.type = CONFIG_UINT, TARGET(field), .min = (low), .max = (high), .scale = (unit)
#define CHOICE(field, words, first)					\
	.type = CONFIG_CHOICE, TARGET(field), .choices = (words), .min = (first)

static bool is_segment_name(const char *text)
{
	return !*text || name_is_plain(text);
}

static bool is_host(const char *text)
{
	struct engine_address a;

	return !*text || !host_read(text, strlen(text), &a);
}

static bool is_some_host(const char *text)
{
	return *text && is_host(text);
}

static bool is_absolute_path(const char *text)
{
	return text[0] == '/' && text[1] != '\0';
}

static bool is_absolute_path_or_none(const char *text)
{
	return !*text || is_absolute_path(text);
}

static bool is_printable(const char *text)
{
	for (; *text; text++) {
		if (*text < 0x20 || *text > 0x7e)
			return false;
	}
	return true;
}

static const struct config_key keys[] = {
	{ .path = "engine", .type = CONFIG_ENGINE, TARGET(attach_path),
	  .initial = "thread",
	  .meaning = "an engine thread of our own, the caller's own core, or a running tentd" },
	{ .path = "engine/mode", CHOICE(caller_mode, "thread|caller", 0),
	  .initial = "thread",
	  .meaning = "who drives the poller of an engine of our own" },
	{ .path = "engine/idle", CHOICE(adaptive, "busy|adaptive", 0),
	  .initial = "adaptive",
	  .meaning = "whether an idle poller may sleep" },
	{ .path = "engine/validation", CHOICE(compat, "strict|compat", 0),
	  .initial = "strict",
	  .meaning = "refuse unknown intents and priorities, or downgrade and say so" },
	{ .path = "engine/pollers", UINT(nr_pollers, 1, ENGINE_POLLERS_MAX, 1),
	  .initial = "1", .meaning = "number of polling threads" },
	{ .path = "engine/cores", .type = CONFIG_CORES, TARGET(cores),
	  .initial = "", .meaning = "CPU of each poller, in order; -1: not pinned" },
	{ .path = "engine/spin_us", UINT(spin_ns, 0, 1000000, 1000),
	  .initial = "50", .meaning = "idle time before an adaptive poller sleeps" },
	{ .path = "engine/request_timeout_ms",
	  UINT(request_timeout_ns, 1, 86400000, 1000000),
	  .initial = "10000", .meaning = "a request ends with TIMEOUT after this" },
	{ .path = "engine/priorities", .type = CONFIG_BOOL_NOT, TARGET(no_priorities),
	  .initial = "true", .meaning = "false: one queue for all levels" },
	{ .path = "engine/urgent_ms", UINT(urgent_ns, 0, 86400000, 1000000),
	  .initial = "1000", .meaning = "deadlines so near go in their order; 0: none do" },
	{ .path = "engine/loose_percent", UINT(loose_percent, 0, 90, 1),
	  .initial = "20", .meaning = "of a level, left to what has no such deadline" },
	{ .path = "engine/turn_slots", UINT(turn_slots, 1, 65536, 1),
	  .initial = "128", .meaning = "slots taken per ring and turn" },
	{ .path = "engine/turn_bytes", UINT(turn_bytes, 4096, GIB, 1),
	  .initial = "65536", .meaning = "bytes moved per turn before rings are looked at" },
	{ .path = "intent/default_priority",
	  CHOICE(default_priority, "high|medium|low", TENT_PRIORITY_HIGH),
	  .initial = "medium", .meaning = "what requested_priority UNSPEC stands for" },
	{ .path = "transports/rdma/priority_promotion_timeout_us",
	  UINT(age_ns, 1, 60000000, 1000),
	  .initial = "10000", .meaning = "a waiting request rises one level after this" },
	{ .path = "max_failover_attempts", UINT(failover_attempts, 0, 100, 1),
	  .initial = "3", .meaning = "further transports that a failed request is given to" },
	{ .path = "failover/error_threshold", UINT(path_errors, 0, 1000000, 1),
	  .initial = "3", .meaning = "failures that pause a transport to an engine; 0: none do" },
	{ .path = "failover/error_window_ms", UINT(path_window_ns, 1, 86400000, 1000000),
	  .initial = "10000", .meaning = "within this time" },
	{ .path = "failover/cooldown_ms", UINT(path_pause_ns, 1, 86400000, 1000000),
	  .initial = "30000", .meaning = "until it is tried again" },
	{ .path = "failover/cooldown_max_ms", UINT(path_pause_max_ns, 1, 86400000, 1000000),
	  .initial = "300000", .meaning = "to which that doubles while it fails" },
	{ .path = "limits/clients", UINT(clients_max, 1, 65536, 1),
	  .initial = "1024", .meaning = "clients attached at once" },
	{ .path = "limits/clients_per_tenant", UINT(clients_per_tenant_max, 1, 65536, 1),
	  .initial = "256", .meaning = "clients of one user attached at once" },
	{ .path = "limits/rings_per_client", UINT(rings_max, 1, 4096, 1),
	  .initial = "64", .meaning = "rings one client may hold" },
	{ .path = "limits/regions_per_client", UINT(regions_max, 1, 1u << 20, 1),
	  .initial = "65536", .meaning = "ranges one client may register" },
	{ .path = "limits/allocated_bytes_per_client", UINT(memory_max, 4096, 1ull << 48, 1),
	  .initial = "68719476736", .meaning = "memory one client may have allocated for it" },
	{ .path = "rpc_server_hostname", .type = CONFIG_TEXT, TARGET(host),
	  .valid = is_host, .allowed = "\"\", a host name, an IPv4 or an IPv6 address",
	  .initial = "127.0.0.1", .meaning = "the host in segment names; \"\": the default" },
	{ .path = "rpc_server_port", UINT(port, 0, 65535, 1),
	  .initial = "15000", .meaning = "the port in segment names; 0: the engine picks" },
	{ .path = "local_segment_name", .type = CONFIG_TEXT, TARGET(segment_name),
	  .valid = is_segment_name, .allowed = "\"\", or 1..63 of [A-Za-z0-9._-]",
	  .initial = "", .meaning = "the segment this program owns; \"\": the engine picks" },
	{ .path = "metadata_type", CHOICE(metadata_type, "p2p|etcd|redis", METADATA_P2P),
	  .initial = "p2p", .meaning = "a server that knows which engine has which segment" },
	{ .path = "metadata_servers", .type = CONFIG_TEXT, TARGET(metadata_servers),
	  .valid = is_printable, .allowed = "up to 255 printable characters",
	  .initial = "", .meaning = "host:port of that server, or several, with commas" },
	{ .path = "redis_db_index", UINT(redis_db, 0, 65535, 1),
	  .initial = "0", .meaning = "the database of a Redis that is asked" },
	{ .path = "metadata_ttl_s", UINT(metadata_ttl_s, 1, 86400, 1),
	  .initial = "10", .meaning = "names of an engine that died are gone after this" },
	{ .path = "peers/enable", .type = CONFIG_BOOL, TARGET(peers_enable),
	  .initial = "true", .meaning = "listen for engines on other hosts, and call them" },
	{ .path = "peers/insecure", .type = CONFIG_BOOL, TARGET(peers_insecure),
	  .initial = "false", .meaning = "let tentd listen beyond this host" },
	{ .path = "peers/secret_file", .type = CONFIG_TEXT, TARGET(secret_file),
	  .valid = is_absolute_path_or_none,
	  .allowed = "\"\", or an absolute path of up to 255 bytes",
	  .initial = "", .meaning = "peers prove that they know what it holds, by TLS" },
	{ .path = "peers/keepalive_ms", UINT(keepalive_ns, 10, 60000, 1000000),
	  .initial = "1000", .meaning = "a peer silent for three of these is dead" },
	{ .path = "limits/peer_connections", UINT(links_max, 1, 65536, 1),
	  .initial = "1024", .meaning = "connections of peers at once" },
	{ .path = "limits/far_segments_per_tenant", UINT(far_max, 1, 65536, 1),
	  .initial = "4096", .meaning = "segments of other engines that one user has open" },
	{ .path = "limits/far_buffers_per_tenant", UINT(far_buffers_max, 1, 1u << 24, 1),
	  .initial = "1048576", .meaning = "buffers that those have registered" },
	{ .path = "transports/shm/enable", .type = CONFIG_BOOL, TARGET(shm_enable),
	  .initial = "true", .meaning = "memory of processes on this host" },
	{ .path = "transports/shm/stream_bytes", UINT(stream_bytes, 0, 1ull << 40, 1),
	  .initial = "65536", .meaning = "copies of at least this size bypass the cache" },
	{ .path = "transports/file/enable", .type = CONFIG_BOOL, TARGET(file_enable),
	  .initial = "true", .meaning = "file:// segments: memory to and from regular files" },
	{ .path = "transports/file/io_uring", .type = CONFIG_BOOL, TARGET(file.io_uring),
	  .initial = "true", .meaning = "false, or where it is not permitted: threads instead" },
	{ .path = "transports/file/direct", .type = CONFIG_BOOL, TARGET(file.direct),
	  .initial = "true", .meaning = "O_DIRECT where offset, length and memory are aligned" },
	{ .path = "transports/file/depth", UINT(file.depth, 1, 1024, 1),
	  .initial = "64", .meaning = "operations that a poller has on their way" },
	{ .path = "transports/file/chunk_bytes", UINT(file.chunk_bytes, 4096, 1u << 26, 1),
	  .initial = "1048576", .meaning = "bytes of one operation, at most" },
	{ .path = "transports/file/workers", UINT(file.workers, 1, 64, 1),
	  .initial = "4", .meaning = "threads of a poller that does without io_uring" },
	{ .path = "transports/file/sqpoll_ms", UINT(file.sqpoll_ms, 0, 60000, 1),
	  .initial = "0", .meaning = "a kernel thread submits, and sleeps after this; 0: none" },
	{ .path = "transports/file/any_file_system", .type = CONFIG_BOOL,
	  TARGET(any_file_system), .initial = "false",
	  .meaning = "tentd takes files of FUSE, network and other file systems too" },
	{ .path = "transports/tcp/enable", .type = CONFIG_BOOL, TARGET(tcp_enable),
	  .initial = "true", .meaning = "memory of engines on other hosts, with peers/enable" },
	{ .path = "transports/tcp/port", UINT(tcp.port, 0, 65535, 1),
	  .initial = "0", .meaning = "where peers bring data; 0: any port" },
	{ .path = "transports/tcp/io_uring", .type = CONFIG_BOOL, TARGET(tcp.io_uring),
	  .initial = "true", .meaning = "false, or where it is not permitted: epoll instead" },
	{ .path = "transports/tcp/depth", UINT(tcp.depth, 1, 1024, 1),
	  .initial = "64", .meaning = "pieces that a connection has on their way" },
	{ .path = "transports/tcp/chunk_bytes", UINT(tcp.chunk_bytes, 4096, 1u << 22, 1),
	  .initial = "262144", .meaning = "bytes of one piece, at most" },
	{ .path = "transports/tcp/zero_copy_bytes", UINT(tcp.zero_copy_bytes, 0, 1u << 22, 1),
	  .initial = "131072", .meaning = "pieces of so many are sent in place; 0: none" },
	{ .path = "transports/tcp/crc32c", .type = CONFIG_BOOL, TARGET(tcp.crc32c),
	  .initial = "false", .meaning = "a checksum over every piece, checked where it arrives" },
	{ .path = "transports/tcp/fence_ms", UINT(tcp.fence_ns, 10, 60000, 1000000),
	  .initial = "2000", .meaning = "until a request that was called back has ended" },
	{ .path = "transports/rdma/enable", .type = CONFIG_BOOL, TARGET(rdma_enable),
	  .initial = "false",
	  .meaning = "memory of engines on other hosts, by mlx5, with peers/enable" },
	{ .path = "transports/rdma/devices", .type = CONFIG_TEXT, TARGET(rdma.allow),
	  .valid = is_printable, .allowed = "up to 255 printable characters",
	  .initial = "", .meaning = "mlx5 devices that may be opened, with commas; \"\": all" },
	{ .path = "transports/rdma/devices_denied", .type = CONFIG_TEXT, TARGET(rdma.deny),
	  .valid = is_printable, .allowed = "up to 255 printable characters",
	  .initial = "", .meaning = "those that may not, whatever devices says" },
	{ .path = "transports/rdma/device/port", UINT(rdma.port, 0, 255, 1),
	  .initial = "0", .meaning = "port of the device; 0: the first that is active" },
	{ .path = "transports/rdma/device/gid_index", .type = CONFIG_INDEX,
	  TARGET(rdma.gid_index), .max = 254,
	  .initial = "-1", .meaning = "which of the port's GIDs; -1: the best for peers" },
	{ .path = "transports/rdma/endpoint/max_qp_wr", UINT(rdma.depth, 16, 8192, 1),
	  .initial = "256", .meaning = "requests that a queue pair has on their way" },
	{ .path = "transports/rdma/endpoint/service_level", UINT(rdma.service_level, 0, 15, 1),
	  .initial = "0", .meaning = "SL; of RoCE the priority" },
	{ .path = "transports/rdma/endpoint/traffic_class", UINT(rdma.traffic_class, 0, 255, 1),
	  .initial = "0", .meaning = "DSCP times four, in the GRH" },
	{ .path = "transports/rdma/endpoint/pkey_index", UINT(rdma.pkey_index, 0, 65535, 1),
	  .initial = "0", .meaning = "of the port's partition keys, on InfiniBand" },
	{ .path = "transports/rdma/endpoint/hop_limit", UINT(rdma.hop_limit, 1, 255, 1),
	  .initial = "64", .meaning = "routers that a packet passes, at most" },
	{ .path = "transports/rdma/endpoint/send_timeout", UINT(rdma.timeout, 1, 31, 1),
	  .initial = "14", .meaning = "a packet is sent again after 4.096 us times 2^this" },
	{ .path = "transports/rdma/endpoint/send_retry_count", UINT(rdma.retries, 0, 7, 1),
	  .initial = "7", .meaning = "and so often before the connection has failed" },
	{ .path = "transports/rdma/workers/block_size",
	  UINT(rdma.chunk_bytes, 4096, 1u << 30, 1),
	  .initial = "1048576", .meaning = "bytes of one RDMA request, at most" },
	{ .path = "transports/rdma/fence_ms", UINT(rdma.fence_ns, 10, 60000, 1000000),
	  .initial = "2000", .meaning = "until a request that was called back has ended" },
	{ .path = "transports/nvlink/enable", .type = CONFIG_BOOL, TARGET(nvlink_enable),
	  .initial = "true", .meaning = "memory of GPUs of this program, by copies of the driver" },
	{ .path = "transports/null/enable", .type = CONFIG_BOOL, TARGET(null_enable),
	  .initial = "false", .meaning = "completes without moving: for tests and costs" },
	{ .path = "transports/null/faults", .type = CONFIG_TEXT, TARGET(null_faults),
	  .valid = is_printable, .allowed = "up to 127 printable characters",
	  .initial = "", .meaning = "faults the null transport injects" },
	{ .path = "daemon/socket", .type = CONFIG_TEXT, TARGET(socket_path),
	  .valid = is_absolute_path, .allowed = "an absolute path of up to 107 bytes",
	  .initial = TENTD_SOCKET_DEFAULT, .meaning = "where tentd listens" },
	{ .path = "metrics/enabled", .type = CONFIG_BOOL, TARGET(metrics_enable),
	  .initial = "true", .meaning = "tentd serves metrics by HTTP" },
	{ .path = "metrics/http_host", .type = CONFIG_TEXT, TARGET(metrics_host),
	  .valid = is_some_host, .allowed = "a host name, an IPv4 or an IPv6 address",
	  .initial = "127.0.0.1", .meaning = "where tentd serves metrics" },
	{ .path = "metrics/http_port", UINT(metrics_port, 0, 65535, 1),
	  .initial = "9100", .meaning = "at which port; 0: any that is free" },
};
#define NR_KEYS (sizeof(keys) / sizeof(keys[0]))
_Static_assert(SOCKET_PATH_SIZE == 108, "what daemon/socket allows");
_Static_assert(NR_KEYS <= CONFIG_KEYS_MAX, "engine_config.sources holds every key");

const struct config_key *config_key_at(unsigned int i)
{
	return i < NR_KEYS ? &keys[i] : NULL;
}

unsigned int config_key_index(const struct config_key *k)
{
	return (unsigned int)(k - keys);
}

const char *config_path_as(const char *own, const char *path)
{
	bool is_short = strncmp(path, "rdma", 4) == 0 && (path[4] == '/' || !path[4]);

	return is_short && strncmp(own, "transports/rdma/", 16) == 0 ?
	       own + strlen("transports/") : own;
}

const struct config_key *config_key_find(const char *path)
{
	for (unsigned int i = 0; i < NR_KEYS; i++) {
		if (strcmp(config_path_as(keys[i].path, path), path) == 0)
			return &keys[i];
	}
	return NULL;
}

/* Levenshtein distance; texts of 64 characters and more are far from anything. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[64], nb = (unsigned int)strlen(b);

	if (nb >= 64)
		return 64;
	for (unsigned int j = 0; j <= nb; j++)
		row[j] = j;
	for (unsigned int i = 1; a[i - 1]; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= nb; j++) {
			unsigned int best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[nb];
}

const struct config_key *config_key_guess(const char *path)
{
	const struct config_key *guess = NULL;
	unsigned int nearest = 4;	/* further away is no likeness */

	for (unsigned int i = 0; i < NR_KEYS; i++) {
		const char *leaf = strrchr(keys[i].path, '/');
		unsigned int d = distance(path, keys[i].path);

		if (leaf && strcmp(leaf + 1, path) == 0)
			return &keys[i];
		if (d < nearest) {
			nearest = d;
			guess = &keys[i];
		}
	}
	return guess;
}
