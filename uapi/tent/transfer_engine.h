/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_engine.h - the TENT C API that existed before tent.h.
 *
 * Programs written for it compile against this header unchanged: same names,
 * numbers, layouts and functions. What both APIs share is declared in tent.h and
 * notify.h; here are the unprefixed names and the fixed-size request.
 * New programs should include <tent/tent.h> alone.
 *
 * Return values: the functions declared here return 0, or -1 for any error. The
 * shared functions return 0 or a negative enum tent_error, so "!= 0" and "< 0"
 * hold for both. tent_last_error() has the details of either.
 *
 * Where the older API was undefined or silent, this one is defined:
 *  - texts are always NUL-terminated; a buffer too small is an error;
 *  - ids are never used twice, so a stale one is always refused;
 *  - an opcode or a priority outside its enumeration refuses the submit;
 *  - a NULL argument is refused where it is not documented as allowed.
 */
#ifndef TENT_TRANSFER_ENGINE_H
#define TENT_TRANSFER_ENGINE_H

#include <tent/notify.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#ifndef LOCAL_SEGMENT_ID
#define LOCAL_SEGMENT_ID (0ull)
#endif

/* tent_request.opcode */
#define OPCODE_READ (0)		/* target -> source buffer */
#define OPCODE_WRITE (1)	/* source buffer -> target */

/* tent_status.status; 2 and above are terminal */
#define STATUS_WAITING (0)
#define STATUS_PENDING (1)
#define STATUS_INVALID (2)
#define STATUS_CANCELED (3)
#define STATUS_COMPLETED (4)
#define STATUS_TIMEOUT (5)
#define STATUS_FAILED (6)

/* tent_segment_info.type */
#define TYPE_MEMORY (0)
#define TYPE_FILE (1)

/* Who else may touch registered memory. */
#define PERM_LOCAL_READ_WRITE (0)
#define PERM_GLOBAL_READ_ONLY (1)
#define PERM_GLOBAL_READ_WRITE (2)

/* tent_request.transport_hint, tent_memory_options.transport_type */
#define TRANSPORT_UNSPEC (0)
#define TRANSPORT_RDMA (1)
#define TRANSPORT_MNNVL (2)
#define TRANSPORT_SHM (3)
#define TRANSPORT_NVLINK (4)
#define TRANSPORT_GDS (5)
#define TRANSPORT_IOURING (6)
#define TRANSPORT_TCP (7)
#define TRANSPORT_ASCEND_DIRECT (8)
#define TRANSPORT_SUNRISE_LINK (9)
#define TRANSPORT_TPU (10)
#define TRANSPORT_UB (11)
#define TRANSPORT_MPCOMM (12)

/*
 * One request of the older API. Its layout is frozen and differs between ABIs.
 * Zero-initialise it. It cannot leave the priority open: 0 is HIGH. What it
 * cannot say (intent, deadline, policy) takes the defaults of tent_request_v1.
 */
struct tent_request {
	int opcode;			/* OPCODE_* */
	void *source;			/* inside memory this program registered */
	tent_segment_id_t target_id;	/* from tent_open_segment(), or 0 */
	uint64_t target_offset;		/* as in struct tent_request_v1 */
	uint64_t length;		/* bytes; 0 completes at once */
	int priority;			/* 0 HIGH, 1 MEDIUM, 2 LOW */
	int transport_hint;		/* TRANSPORT_*; outside 0..12 counts as UNSPEC */
};
typedef struct tent_request tent_request_t;

/* Load of one network interface. */
struct tent_nic_load_stat {
	char device_name[64];		/* NUL-terminated */
	uint64_t inflight_bytes;	/* posted, not yet ended */
	double ewma_bandwidth_bps;	/* bytes per second, moving average */
};
typedef struct tent_nic_load_stat tent_nic_load_stat_t;

/*
 * Submits count requests to a batch, all or none. entries may not be NULL, not
 * even for count 0. Task ids continue over the submits of a batch.
 *
 * Refused as a whole (-1, nothing was submitted, the batch is as before): stale
 * handles, more than is left of the batch, an opcode or priority outside its
 * enumeration, a hint to a transport this build does not have. Anything about a
 * single request's addresses, segment or policy is accepted here, and that task
 * ends as STATUS_FAILED; tent_task_error() says why.
 */
int tent_submit(tent_engine_t engine, tent_batch_id_t batch_id,
		tent_request_t *entries, size_t count);

/* As tent_submit(), and notifies as tent_submit_requests_notif(). */
int tent_submit_notif(tent_engine_t engine, tent_batch_id_t batch_id,
		      tent_request_t *entries, size_t count, const char *name,
		      const char *message);

/* *count in: capacity, out: number of interfaces that the engine drives itself; an
 * engine without any answers 0. -1 and CAPACITY if they are more: none is written.
 * tentd tells its own user and root; everybody else is denied, and *count becomes 0. */
int tent_get_nic_load_stats(tent_engine_t engine, tent_nic_load_stat_t *stats,
			    size_t *count);

/*
 * The layouts that existing binaries were compiled with: LP64, and i386, where
 * 64-bit integers are 4-aligned inside structs.
 */
#if defined(__LP64__)
#define TENT_LEGACY_FIELD(type, field, lp64, i386, bytes)		\
	TENT_ASSERT_FIELD(struct type, field, lp64, bytes)
#define TENT_LEGACY_SIZE(type, lp64, i386)				\
	TENT_ASSERT(sizeof(struct type) == (lp64), #type " has another size")
#elif defined(__i386__)
#define TENT_LEGACY_FIELD(type, field, lp64, i386, bytes)		\
	TENT_ASSERT_FIELD(struct type, field, i386, bytes)
#define TENT_LEGACY_SIZE(type, lp64, i386)				\
	TENT_ASSERT(sizeof(struct type) == (i386), #type " has another size")
#else
#define TENT_LEGACY_FIELD(type, field, lp64, i386, bytes) struct tent_assert_unused
#define TENT_LEGACY_SIZE(type, lp64, i386) struct tent_assert_unused
#endif

TENT_LEGACY_SIZE(tent_request, 48, 40);
TENT_LEGACY_FIELD(tent_request, opcode, 0, 0, 4);
TENT_LEGACY_FIELD(tent_request, source, 8, 4, sizeof(void *));
TENT_LEGACY_FIELD(tent_request, target_id, 16, 8, 8);
TENT_LEGACY_FIELD(tent_request, target_offset, 24, 16, 8);
TENT_LEGACY_FIELD(tent_request, length, 32, 24, 8);
TENT_LEGACY_FIELD(tent_request, priority, 40, 32, 4);
TENT_LEGACY_FIELD(tent_request, transport_hint, 44, 36, 4);
TENT_LEGACY_SIZE(tent_status, 16, 12);
TENT_LEGACY_FIELD(tent_status, status, 0, 0, 4);
TENT_LEGACY_FIELD(tent_status, transferred_bytes, 8, 4, 8);
TENT_LEGACY_SIZE(tent_buffer_info, 80, 80);
TENT_LEGACY_FIELD(tent_buffer_info, base, 0, 0, 8);
TENT_LEGACY_FIELD(tent_buffer_info, length, 8, 8, 8);
TENT_LEGACY_FIELD(tent_buffer_info, location, 16, 16, 64);
TENT_LEGACY_SIZE(tent_segment_info, 16, 12);
TENT_LEGACY_FIELD(tent_segment_info, type, 0, 0, 4);
TENT_LEGACY_FIELD(tent_segment_info, num_buffers, 4, 4, 4);
TENT_LEGACY_FIELD(tent_segment_info, buffers, 8, 8, sizeof(void *));
TENT_LEGACY_SIZE(tent_notifi_record, 4360, 4360);
TENT_LEGACY_FIELD(tent_notifi_record, handle, 0, 0, 8);
TENT_LEGACY_FIELD(tent_notifi_record, name, 8, 8, 256);
TENT_LEGACY_FIELD(tent_notifi_record, msg, 264, 264, 4096);
TENT_LEGACY_SIZE(tent_notifi_info, 16, 8);
TENT_LEGACY_FIELD(tent_notifi_info, num_records, 0, 0, 4);
TENT_LEGACY_FIELD(tent_notifi_info, records, 8, 4, sizeof(void *));
TENT_LEGACY_SIZE(tent_memory_options, 344, 336);
TENT_LEGACY_FIELD(tent_memory_options, location, 0, 0, 64);
TENT_LEGACY_FIELD(tent_memory_options, permission, 64, 64, 4);
TENT_LEGACY_FIELD(tent_memory_options, transport_type, 68, 68, 4);
TENT_LEGACY_FIELD(tent_memory_options, shm_path, 72, 72, 256);
TENT_LEGACY_FIELD(tent_memory_options, shm_offset, 328, 328, sizeof(size_t));
TENT_LEGACY_FIELD(tent_memory_options, internal, 336, 332, 4);
TENT_LEGACY_SIZE(tent_nic_load_stat, 80, 80);
TENT_LEGACY_FIELD(tent_nic_load_stat, device_name, 0, 0, 64);
TENT_LEGACY_FIELD(tent_nic_load_stat, inflight_bytes, 64, 64, 8);
TENT_LEGACY_FIELD(tent_nic_load_stat, ewma_bandwidth_bps, 72, 72, 8);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* TENT_TRANSFER_ENGINE_H */
