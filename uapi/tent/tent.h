/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tent.h - the Transfer Intent API, version 1.
 *
 * Every name here starts with tent_ or TENT_. Programs written for the older
 * TENT C API include <tent/transfer_engine.h>, which adds the old names.
 *
 * Conventions, unless a function says otherwise:
 *  - int functions return 0, or a negative enum tent_error; tent_last_error()
 *    then holds the details for the calling thread.
 *  - any call may fail with TENT_ERR_STALE_HANDLE (the engine was destroyed, or is
 *    from before a fork), TENT_ERR_ARGUMENTS (NULL where it is not allowed),
 *    TENT_ERR_ENGINE_LOST (the tentd is gone) or TENT_ERR_RUNTIME (no memory, or a
 *    system call that failed); an engine that never worked repeats why not. What
 *    functions say of errors comes on top.
 *  - any thread may call any function on any live handle.
 *  - pointers passed in are borrowed for the duration of the call.
 *  - after fork() every handle is stale in the child.
 *  - no function is async-signal-safe.
 *  - sizes, offsets and lengths are bytes; *_ns are nanoseconds of
 *    CLOCK_MONOTONIC.
 */
#ifndef TENT_TENT_H
#define TENT_TENT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tent's layouts are little-endian"
#endif

/* Layout asserts: C11 and C++11 on; C99 has no portable spelling. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define TENT_ASSERT(cond, text) static_assert(cond, text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define TENT_ASSERT(cond, text) _Static_assert(cond, text)
#else
#define TENT_ASSERT(cond, text) struct tent_assert_unused
#endif
#define TENT_ASSERT_FIELD(type, field, offset, bytes)			\
	TENT_ASSERT(offsetof(type, field) == (offset) &&		\
		    sizeof(((type *)0)->field) == (bytes),		\
		    #type "." #field " moved")

/* A 64-bit field that is 8-aligned on every ABI, i386 too. */
#define TENT_U64 __attribute__((aligned(8))) uint64_t

/* An 8-byte slot that holds a pointer. On 32-bit the high half is explicit and
 * must be zero; zero-initialising the struct does that. */
#if UINTPTR_MAX == UINT64_MAX
#define TENT_POINTER(type, name)					\
	__attribute__((aligned(8))) type name
#else
#define TENT_POINTER(type, name)					\
	__attribute__((aligned(8))) type name; uint32_t name##_high
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what is declared here is exported */
#endif

#define TENT_API_VERSION 0x00010000u /* major << 16 | minor */
#define TENT_REQUEST_SCHEMA_V1 1u

typedef uint64_t tent_batch_id_t;
typedef uint64_t tent_segment_id_t;
typedef void *tent_engine_t;

/* The segment of the engine itself: what this program registered. */
#define TENT_LOCAL_SEGMENT ((tent_segment_id_t)0)
/* tent_allocate_batch() returns this on failure; no batch ever has it. */
#define TENT_INVALID_BATCH ((tent_batch_id_t)0)

enum tent_opcode {
	TENT_OPCODE_READ = 0,	/* target -> source buffer */
	TENT_OPCODE_WRITE = 1	/* source buffer -> target */
};

enum tent_task_state {
	TENT_STATUS_WAITING = 0,
	TENT_STATUS_PENDING = 1,
	/* 2..6 are terminal: no byte of the request moves any more, unless its flags
	 * say TENT_CQE_F_TARGET_UNFENCED. */
	TENT_STATUS_INVALID = 2,
	TENT_STATUS_CANCELED = 3,
	TENT_STATUS_COMPLETED = 4,
	TENT_STATUS_TIMEOUT = 5,
	TENT_STATUS_FAILED = 6
};

/* RFC "intent_type". STAGING_INTERNAL is refused at every public door. */
enum tent_intent {
	TENT_INTENT_UNSPEC = 0,
	TENT_INTENT_FOREGROUND_GET = 1,
	TENT_INTENT_BACKGROUND_PREFETCH = 2,
	TENT_INTENT_MIGRATION = 3,
	TENT_INTENT_CHECKPOINT = 4,
	TENT_INTENT_WEIGHT_LOADING = 5,
	TENT_INTENT_STAGING_INTERNAL = 6
};

/* RFC "requested_priority": a request, never an authorization. */
enum tent_priority {
	TENT_PRIORITY_UNSPEC = 0,
	TENT_PRIORITY_HIGH = 1,
	TENT_PRIORITY_MEDIUM = 2,
	TENT_PRIORITY_LOW = 3
};

enum tent_transport {
	TENT_TRANSPORT_UNSPEC = 0,
	TENT_TRANSPORT_RDMA = 1,
	TENT_TRANSPORT_MNNVL = 2,
	TENT_TRANSPORT_SHM = 3,
	TENT_TRANSPORT_NVLINK = 4,
	TENT_TRANSPORT_GDS = 5,
	TENT_TRANSPORT_IOURING = 6,
	TENT_TRANSPORT_TCP = 7,
	TENT_TRANSPORT_ASCEND_DIRECT = 8,
	TENT_TRANSPORT_SUNRISE_LINK = 9,
	TENT_TRANSPORT_TPU = 10,
	TENT_TRANSPORT_UB = 11,
	TENT_TRANSPORT_MPCOMM = 12,
	TENT_TRANSPORT_COUNT = 13
};

enum tent_permission {
	TENT_PERM_LOCAL_READ_WRITE = 0,	 /* others may not touch it */
	TENT_PERM_GLOBAL_READ_ONLY = 1,	 /* others may READ it */
	TENT_PERM_GLOBAL_READ_WRITE = 2	 /* others may READ and WRITE it */
};

enum tent_segment_type {
	TENT_SEGMENT_MEMORY = 0,
	TENT_SEGMENT_FILE = 1
};

/* Why a call or a request failed. Numbers are frozen. */
enum tent_error {
	TENT_OK = 0,
	TENT_ERR_ARGUMENTS = -1,	/* a call argument */
	TENT_ERR_SCHEMA = -2,		/* request schema not supported */
	TENT_ERR_LAYOUT = -3,		/* struct_size, stride, alignment, tail */
	TENT_ERR_ENUM = -4,		/* a value outside its enumeration */
	TENT_ERR_FLAGS = -5,		/* unknown flag or dirty reserved field */
	TENT_ERR_POLICY_UNKNOWN = -6,
	TENT_ERR_POLICY_DENIED = -7,	/* known, but not for this caller */
	TENT_ERR_DEADLINE = -8,		/* wrong clock or out of range */
	TENT_ERR_UNSUPPORTED = -9,	/* valid, but not in this build */
	TENT_ERR_ADDRESS = -10,		/* unregistered, range, permission */
	TENT_ERR_TRANSPORT = -11,	/* hint not available or not allowed */
	TENT_ERR_CAPACITY = -12,
	TENT_ERR_STALE_HANDLE = -13,
	TENT_ERR_PEER_UNREACHABLE = -14,
	TENT_ERR_ENGINE_LOST = -15,	/* outcome of what was in flight unknown */
	TENT_ERR_RUNTIME = -16,		/* failed after validation */
	TENT_ERR_CANCELED = -17,
	TENT_ERR_TIMEOUT = -18,
	TENT_ERR_OWNER_GONE = -19,	/* memory unregistered, or its owner died */
	TENT_ERR_PROTOCOL = -20,	/* the ring or control protocol was broken */
	TENT_ERR_CONFIG = -21
};

/* How an unknown intent or priority is taken. Which of them an engine obeys is its
 * configuration ("engine/validation"), never its client's choice. */
enum tent_validation {
	TENT_VALIDATION_STRICT = 0,	/* refused */
	TENT_VALIDATION_COMPAT = 1	/* UNSPEC in its place, recorded in the flags */
};

/* How a request ended, beside its status; in struct tent_error_info and in ring.h's
 * completions, which alone have the first two. */
#define TENT_CQE_F_REJECTED	    (1u << 0) /* the whole batch; nothing moved */
#define TENT_CQE_F_BATCH	    (1u << 1) /* stands for count requests */
#define TENT_CQE_F_INTENT_DOWNGRADED   (1u << 2) /* compat: unknown intent -> UNSPEC */
#define TENT_CQE_F_PRIORITY_DOWNGRADED (1u << 3) /* compat: unknown priority -> UNSPEC */
#define TENT_CQE_F_POLICY_DOWNGRADED   (1u << 4) /* compat: policy -> contract default */
#define TENT_CQE_F_TAIL_IGNORED	    (1u << 5) /* compat: bytes beyond 88 ignored */
#define TENT_CQE_F_DEADLINE_MISSED  (1u << 6) /* served, but after its deadline */
#define TENT_CQE_F_TARGET_UNFENCED  (1u << 7) /* the far end could not confirm it stopped */
#define TENT_CQE_F_FAILED_OVER	    (1u << 8) /* a transport failed it, and another got it */
/* With FAILED_OVER, of one request: enum tent_transport of the first one. */
#define TENT_CQE_FIRST_SHIFT 12
#define TENT_CQE_FIRST_TRANSPORT(flags) ((unsigned)(flags) >> TENT_CQE_FIRST_SHIFT & 0xf)
#define TENT_CQE_F_DOWNGRADES						\
	(TENT_CQE_F_INTENT_DOWNGRADED | TENT_CQE_F_PRIORITY_DOWNGRADED | \
	 TENT_CQE_F_POLICY_DOWNGRADED | TENT_CQE_F_TAIL_IGNORED)

/*
 * One request. 88 bytes and the same offsets on every ABI. Zero-initialise it:
 * zero is the default of every optional field. RFC "Proposed binary-safe C ABI".
 */
struct tent_request_v1 {
	uint32_t struct_size;		/* 48..stride, ends on a field boundary */
	uint32_t schema_version;	/* TENT_REQUEST_SCHEMA_V1 */
	int32_t opcode;			/* enum tent_opcode */
	uint32_t resv0;			/* must be zero */
	TENT_POINTER(void *, source);	/* inside memory this program registered */
	TENT_U64 target_id;		/* from tent_open_segment(), or 0 */
	TENT_U64 target_offset;		/* memory: an address inside one of the
					 * segment's buffers (buffers[i].base + k);
					 * file: a byte offset */
	TENT_U64 length;		/* bytes; 0 completes at once */
	/* optional from here: absent when struct_size ends before */
	int32_t intent_type;		/* enum tent_intent */
	int32_t requested_priority;	/* enum tent_priority */
	TENT_U64 deadline_ns;		/* 0, or absolute CLOCK_MONOTONIC */
	TENT_POINTER(const char *, policy_name); /* NULL, or 1..63 of [A-Za-z0-9._:/-] */
	int32_t transport_hint;		/* enum tent_transport */
	uint32_t reserved0;		/* must be zero */
	TENT_U64 flags;			/* must be zero */
};
typedef struct tent_request_v1 tent_request_v1_t;

#define TENT_REQUEST_V1_MIN_SIZE 48u
#define TENT_REQUEST_V1_SIZE 88u
#define TENT_REQUEST_MAX_STRIDE 4096u
#define TENT_POLICY_NAME_MAX 63u

TENT_ASSERT(sizeof(struct tent_request_v1) == 88, "tent_request_v1 is 88 bytes");
TENT_ASSERT_FIELD(struct tent_request_v1, struct_size, 0, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, schema_version, 4, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, opcode, 8, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, resv0, 12, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, source, 16, sizeof(void *));
TENT_ASSERT_FIELD(struct tent_request_v1, target_id, 24, 8);
TENT_ASSERT_FIELD(struct tent_request_v1, target_offset, 32, 8);
TENT_ASSERT_FIELD(struct tent_request_v1, length, 40, 8);
TENT_ASSERT_FIELD(struct tent_request_v1, intent_type, 48, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, requested_priority, 52, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, deadline_ns, 56, 8);
TENT_ASSERT_FIELD(struct tent_request_v1, policy_name, 64, sizeof(void *));
TENT_ASSERT_FIELD(struct tent_request_v1, transport_hint, 72, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, reserved0, 76, 4);
TENT_ASSERT_FIELD(struct tent_request_v1, flags, 80, 8);

/* What one entry asks for, every field there: see tent_normalize_request(). */
struct tent_normalized {
	uint32_t size;			/* set by the caller: sizeof this struct */
	int32_t opcode;			/* enum tent_opcode */
	int32_t intent_type;		/* enum tent_intent */
	int32_t requested_priority;	/* enum tent_priority */
	TENT_U64 deadline_ns;		/* 0, or absolute CLOCK_MONOTONIC */
	int32_t transport_hint;		/* enum tent_transport */
	uint32_t flags;			/* TENT_CQE_F_DOWNGRADES of what compat changed */
	char policy_name[64];		/* "" when there is none */
};
typedef struct tent_normalized tent_normalized_t;

TENT_ASSERT(sizeof(struct tent_normalized) == 96, "tent_normalized is 96 bytes");
TENT_ASSERT_FIELD(struct tent_normalized, size, 0, 4);
TENT_ASSERT_FIELD(struct tent_normalized, opcode, 4, 4);
TENT_ASSERT_FIELD(struct tent_normalized, intent_type, 8, 4);
TENT_ASSERT_FIELD(struct tent_normalized, requested_priority, 12, 4);
TENT_ASSERT_FIELD(struct tent_normalized, deadline_ns, 16, 8);
TENT_ASSERT_FIELD(struct tent_normalized, transport_hint, 24, 4);
TENT_ASSERT_FIELD(struct tent_normalized, flags, 28, 4);
TENT_ASSERT_FIELD(struct tent_normalized, policy_name, 32, 64);

/* State of one task (one request of a batch), or of a whole batch. */
struct tent_status {
	int status;			/* enum tent_task_state */
	uint64_t transferred_bytes;
};
typedef struct tent_status tent_status_t;

struct tent_buffer_info {
	uint64_t base, length;		/* in the owner's address space, bytes */
	char location[64];		/* "cpu:0", "*", ...; NUL-terminated */
};

struct tent_segment_info {
	int type;			/* enum tent_segment_type */
	int num_buffers;
	struct tent_buffer_info *buffers; /* owned by the caller, see
					   * tent_free_segment_info() */
};
typedef struct tent_segment_info tent_segment_info_t;

struct tent_memory_options {
	char location[64];		/* "" or "*": any */
	int permission;			/* enum tent_permission */
	int transport_type;		/* enum tent_transport that will use it, UNSPEC: any;
					 * all that reach such memory may, whichever it is */
	char shm_path[256];		/* must be "" */
	size_t shm_offset;		/* must be 0 */
	int internal;			/* non-zero: hidden from segment info */
};
typedef struct tent_memory_options tent_memory_options_t;

/* What the calling thread's last failed tent_ call found. */
struct tent_error_info {
	uint32_t size;			/* set by the caller: sizeof this struct */
	int32_t error;			/* enum tent_error */
	uint32_t index;			/* first bad entry; 0 for a call argument */
	uint32_t rule;			/* enum tent_rule of rules.h */
	char field[32];			/* "intent_type"; "" when none */
	char message[256];		/* one sentence: the value, what was allowed */
	uint32_t flags;			/* of a task: TENT_CQE_F_*, see tent_task_error() */
};
typedef struct tent_error_info tent_error_info_t;

TENT_ASSERT(sizeof(struct tent_error_info) == 308, "tent_error_info is 308 bytes");
TENT_ASSERT_FIELD(struct tent_error_info, size, 0, 4);
TENT_ASSERT_FIELD(struct tent_error_info, error, 4, 4);
TENT_ASSERT_FIELD(struct tent_error_info, index, 8, 4);
TENT_ASSERT_FIELD(struct tent_error_info, rule, 12, 4);
TENT_ASSERT_FIELD(struct tent_error_info, field, 16, 32);
TENT_ASSERT_FIELD(struct tent_error_info, message, 48, 256);
TENT_ASSERT_FIELD(struct tent_error_info, flags, 304, 4);

/* ---- library ---------------------------------------------------------- */

/* TENT_API_VERSION of the loaded library. RFC "ABI discovery". */
uint32_t tent_get_api_version(void);

/*
 * Sizes of a request schema this library takes. Either output may be NULL.
 * TENT_ERR_SCHEMA for a schema it does not know; outputs are then untouched.
 */
int tent_get_request_schema_info(uint32_t schema_version, size_t *minimum_size,
				 size_t *known_size);

/* Now, in the clock of deadline_ns. */
uint64_t tent_monotonic_now_ns(void);

/*
 * now + budget_ns. TENT_ERR_DEADLINE when that overflows or lies more than 365
 * days ahead; *deadline_ns_out is then untouched. RFC "deadline_ns".
 */
int tent_deadline_after_ns(uint64_t budget_ns, uint64_t *deadline_ns_out);

/*
 * What one entry asks for: layout, schema and fields judged as every engine does, a
 * deadline against the clock of now. Addresses, policies and transports are not looked
 * at: those are an engine's, see tent_explain_requests(). mode: enum tent_validation.
 * out->size must be set to the whole struct; out is untouched after an error. Errors as
 * tent_submit_requests() has for the call's arguments and for what the entry says.
 */
int tent_normalize_request(const void *entry, size_t entry_stride, uint32_t schema_version,
			   int mode, struct tent_normalized *out);

/*
 * Details of this thread's last failure. info->size must be set; only that many
 * bytes are written. 0, or TENT_ERR_ARGUMENTS (info NULL or smaller than 16).
 * A successful call does not clear it.
 */
int tent_last_error(struct tent_error_info *info);

/* ---- engine ----------------------------------------------------------- */

/*
 * Sets one configuration key of the engines this thread creates from now on; both texts
 * are copied, and what is wrong with them is said by the engine created next.
 * '/' nests ("transports/shm/enable"). The key "engine" chooses the engine:
 * "thread" (default), "caller", or "unix:/path" for a running tentd; the
 * environment variable TENT_ENGINE has precedence. NULL is refused.
 */
void tent_set_config(const char *key, const char *value);

/* Reads a JSON file under the keys set so far. Errors are reported by
 * tent_available() on the engine created next. */
void tent_load_config_from_file(const char *path);

/*
 * Starts or attaches to an engine. Never NULL: tent_available() says whether it
 * works and tent_last_error() why not: TENT_ERR_CONFIG, TENT_ERR_CAPACITY (1023 engines
 * at a time, or tentd's limits), TENT_ERR_ENGINE_LOST (no tentd there),
 * TENT_ERR_POLICY_DENIED (another user's name). The caller owns the handle: pair with
 * tent_destroy_engine().
 */
tent_engine_t tent_create_engine(void);

/*
 * Ends every request, then frees the engine. When it returns nothing touches
 * the program's memory any more. NULL and stale handles are ignored.
 */
void tent_destroy_engine(tent_engine_t engine);

/* 1 when the engine works, else 0 and tent_last_error() says why not. */
int tent_available(tent_engine_t engine);

/* The name others open this program's segment by. buf gets a NUL-terminated
 * text; TENT_ERR_CAPACITY when buf_len is too small. */
int tent_segment_name(tent_engine_t engine, char *buf, size_t buf_len);

/* Address and port of the engine's control plane: how the segment's name begins.
 * addr_buf as buf of tent_segment_name(). */
int tent_rpc_server_addr_port(tent_engine_t engine, char *addr_buf,
			      size_t buf_len, uint16_t *port);

/* ---- segments --------------------------------------------------------- */

/* Sets *handle, which tent_close_segment() ends. "" or the own name opens
 * TENT_LOCAL_SEGMENT. The same name gives the same handle. TENT_ERR_PEER_UNREACHABLE:
 * no such segment. TENT_ERR_POLICY_DENIED: it belongs to another tenant.
 * TENT_ERR_UNSUPPORTED: a file. TENT_ERR_CAPACITY: too many are open. */
int tent_open_segment(tent_engine_t engine, tent_segment_id_t *handle,
		      const char *segment_name);

/* Closes it for every opener in this program; requests in flight go on. 0 for
 * TENT_LOCAL_SEGMENT. TENT_ERR_STALE_HANDLE: it is not open. */
int tent_close_segment(tent_engine_t engine, tent_segment_id_t handle);

/* Warm-up: waits up to timeout_ns until the segment can be reached; 0 only looks.
 * TENT_ERR_PEER_UNREACHABLE: its engine does not answer. TENT_ERR_STALE_HANDLE: it is not
 * open. TENT_ERR_OWNER_GONE: its owner died. */
int tent_connect_segment(tent_engine_t engine, tent_segment_id_t handle,
			 uint64_t timeout_ns);

/* A snapshot, whose buffers are the caller's: pair with tent_free_segment_info(), which
 * ignores NULL and what it freed before. Errors as tent_connect_segment(). */
int tent_get_segment_info(tent_engine_t engine, tent_segment_id_t handle,
			  tent_segment_info_t *info);
void tent_free_segment_info(tent_segment_info_t *info);

/* ---- memory ----------------------------------------------------------- */

/*
 * size bytes of shareable memory at *addr, page-aligned and zeroed, not yet registered.
 * It is the caller's until tent_free_memory(), which also unregisters what lies inside
 * and waits as tent_unregister_memory() does. location: "*", "cpu" or "cpu:N".
 * TENT_ERR_ENUM: location, or an option that is no number of its enumeration.
 * TENT_ERR_ADDRESS: size 0, or to free what was not allocated. TENT_ERR_CAPACITY: over
 * the engine's limits. TENT_ERR_UNSUPPORTED: a transport_type that such memory is not for.
 */
int tent_allocate_memory(tent_engine_t engine, void **addr, size_t size,
			 const char *location);
int tent_allocate_memory_ex(tent_engine_t engine, void **addr, size_t size,
			    tent_memory_options_t *opts);
int tent_free_memory(tent_engine_t engine, void *addr);

/*
 * Lets requests name [addr, addr + size), size in bytes and not 0. The memory stays the
 * caller's, and must stay mapped until it is unregistered. The same range again counts
 * up. permission: enum tent_permission, TENT_PERM_GLOBAL_READ_WRITE where there is none.
 * The batch forms take count addresses and sizes and register all or none.
 * TENT_ERR_ADDRESS: an empty or wrapping range, memory the engine can neither share nor
 * copy, or a range that is registered with other memory behind it. TENT_ERR_ENUM: a bad
 * permission, one other than the range has, or as for tent_allocate_memory().
 * TENT_ERR_CAPACITY: over the engine's limits. TENT_ERR_UNSUPPORTED: as there.
 */
int tent_register_memory(tent_engine_t engine, void *addr, size_t size);
int tent_register_memory_with_perm(tent_engine_t engine, void *addr,
				   size_t size, int permission);
int tent_register_memory_ex(tent_engine_t engine, void *addr, size_t size,
			    tent_memory_options_t *opts);
int tent_register_memory_batch(tent_engine_t engine, void **addrs,
			       size_t *sizes, size_t count, int permission);
int tent_register_memory_batch_ex(tent_engine_t engine, void **addrs,
				  size_t *sizes, size_t count,
				  tent_memory_options_t *opts);

/* Returns when nothing can touch the memory any more, but for a WRITE into it that ended
 * with TENT_CQE_F_TARGET_UNFENCED; requests that name it end with TENT_ERR_OWNER_GONE.
 * size in bytes; 0, or sizes NULL, matches by address. Unknown: 0. The batch form goes
 * on after an error and returns the first. */
int tent_unregister_memory(tent_engine_t engine, void *addr, size_t size);
int tent_unregister_memory_batch(tent_engine_t engine, void **addrs,
				 size_t *sizes, size_t count);

/* ---- batches ---------------------------------------------------------- */

/* A batch for up to batch_size requests over its life (1..2^20), or
 * TENT_INVALID_BATCH with the error in tent_last_error(): TENT_ERR_ARGUMENTS for another
 * size, TENT_ERR_CAPACITY when the engine's limits leave this thread no ring. The caller
 * owns it: pair with tent_free_batch(). */
tent_batch_id_t tent_allocate_batch(tent_engine_t engine, size_t batch_size);

/* Frees it once its last request has ended, without waiting for that; the id is stale
 * at once. TENT_ERR_STALE_HANDLE: no such batch. */
int tent_free_batch(tent_engine_t engine, tent_batch_id_t batch_id);

/*
 * Submits count requests, all or none. entries: 8-aligned array, entry i at
 * entries + i * entry_stride; stride a multiple of 8, 48..4096 bytes. Strings are
 * copied. Task ids continue over the submits of a batch. After an error nothing
 * was submitted, except after TENT_ERR_ENGINE_LOST (unknown).
 *
 * Blocks for the engine's verdict, a ring round trip. While the thread's ring is full of
 * requests in flight it first waits for them, so up to engine/request_timeout_ms; other
 * threads that submit to the same batch wait with it.
 *
 * Errors by what is wrong, in this order: SCHEMA; the call's other arguments (ARGUMENTS,
 * LAYOUT); the batch (STALE_HANDLE) or what is left of it (CAPACITY); then the entries,
 * with index and field in tent_last_error(): LAYOUT, SCHEMA; ENUM, FLAGS, DEADLINE,
 * LAYOUT; their target_id (STALE_HANDLE) and ADDRESS; POLICY_UNKNOWN, POLICY_DENIED,
 * UNSUPPORTED and TRANSPORT. CANCELED: the engine is being destroyed. PROTOCOL: somebody
 * wrote into the ring.
 */
int tent_submit_requests(tent_engine_t engine, tent_batch_id_t batch_id,
			 const void *entries, size_t count, size_t entry_stride,
			 uint32_t schema_version);

/*
 * As above, and when all of count completed, the owner of each segment that they name gets
 * the notification (name, message) once; a file's is this program. Nobody gets it when one
 * of them did not complete. It comes after all their data, and without a poll. name: up to
 * 255 bytes, message: up to 4095, else ARGUMENTS. More than 64 segments: CAPACITY.
 *
 * It is sent once and never again, so it is lost when its receiver has no room for it, when
 * its engine does not answer at that moment, and when the target is closed or the engine
 * destroyed before it was sent: the tasks read COMPLETED then, too. Who has to know sends
 * it with tent_send_notifs() of <tent/notify.h>. UNSUPPORTED: a tentd of before notifications.
 */
int tent_submit_requests_notif(tent_engine_t engine, tent_batch_id_t batch_id,
			       const void *entries, size_t count,
			       size_t entry_stride, uint32_t schema_version,
			       const char *name, const char *message);

/*
 * What the engine would do with these requests, as JSON: requested intent,
 * effective policy, downgrades, plan. Nothing is submitted. *json is malloc'ed;
 * the caller frees it. An invalid entry is explained too, with its error. Up to
 * 16,384 entries a call, else TENT_ERR_CAPACITY; its other arguments fail as those of
 * tent_submit_requests(). Blocks for a round trip of the control plane.
 */
int tent_explain_requests(tent_engine_t engine, const void *entries,
			  size_t count, size_t entry_stride,
			  uint32_t schema_version, char **json);

/* How far one task is; task_id: 0 for the first request of the batch's first submit, and
 * so on. Never blocks; takes over what completed meanwhile. transferred_bytes is 0 until
 * the task has ended. TENT_ERR_STALE_HANDLE: no such batch. TENT_ERR_ARGUMENTS: no such
 * task. After an error *status is as before. */
int tent_task_status(tent_engine_t engine, tent_batch_id_t batch_id,
		     size_t task_id, tent_status_t *status);

/* All of them at once, by task id. *count in: capacity of statuses, out: number of
 * tasks. TENT_ERR_CAPACITY if it does not fit; *count is then set. TENT_ERR_STALE_HANDLE
 * as above. */
int tent_task_status_list(tent_engine_t engine, tent_batch_id_t batch_id,
			  tent_status_t *statuses, size_t *count);

/* PENDING while any task runs; else COMPLETED, or the worst of INVALID <
 * CANCELED < TIMEOUT < FAILED. Bytes: sum over completed tasks.
 * TENT_ERR_STALE_HANDLE as above. */
int tent_overall_status(tent_engine_t engine, tent_batch_id_t batch_id,
			tent_status_t *status);

/*
 * Why a task failed, and its flags however it ended: TENT_CQE_F_* without REJECTED and
 * BATCH; for a task of a submit that was larger than a ring, those of all its requests
 * together. With FAILED_OVER: why the last transport failed it; or where that one
 * completed it, and error is 0, why the first one did not. A size of info without flags
 * leaves them out. 0 when the task exists; info as in tent_last_error(), and the errors of
 * tent_task_status().
 */
int tent_task_error(tent_engine_t engine, tent_batch_id_t batch_id,
		    size_t task_id, struct tent_error_info *info);

/* Asks to end a task early. 0: it is, or will be, terminal; poll for which. Blocks as a
 * submit of one request does; errors of tent_task_status(). */
int tent_cancel_task(tent_engine_t engine, tent_batch_id_t batch_id,
		     size_t task_id);

/* A descriptor for poll() and epoll, readable when the calling thread's requests may
 * have completed, or when tentd is gone; owned by the engine. Poll the status of
 * every batch after each wake-up, which also empties it. A batch in which several
 * threads have requests in flight wakes the thread that submitted to it first.
 * Negative enum tent_error on failure. TENT_ERR_UNSUPPORTED: caller mode has none.
 * TENT_ERR_CAPACITY: the thread shares its ring with another. */
int tent_completion_fd(tent_engine_t engine);

static inline int tent_submit_v1(tent_engine_t engine, tent_batch_id_t batch_id,
				 const tent_request_v1_t *entries, size_t count)
{
	return tent_submit_requests(engine, batch_id, entries, count,
				    sizeof(tent_request_v1_t),
				    TENT_REQUEST_SCHEMA_V1);
}

static inline int tent_submit_v1_notif(tent_engine_t engine,
				       tent_batch_id_t batch_id,
				       const tent_request_v1_t *entries,
				       size_t count, const char *name,
				       const char *message)
{
	return tent_submit_requests_notif(engine, batch_id, entries, count,
					  sizeof(tent_request_v1_t),
					  TENT_REQUEST_SCHEMA_V1, name, message);
}

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* TENT_TENT_H */
