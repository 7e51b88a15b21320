/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_abi.c - every field and number of the published layouts, written down a second
 * time. A header that moves one does not compile here; headers.sh compiles this file
 * with -m32 and as C++ too. If a line of this file has to change, the ABI has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <tent/ctl.h>
#include <tent/tentring.h>

/* Offset and size in bytes; an 8-byte pointer slot is two fields on 32-bit. */
#define FIELDS(BEGIN, FIELD, POINTER)						\
	BEGIN(tent_request_v1, 88)						\
	FIELD(tent_request_v1, struct_size, 0, 4)				\
	FIELD(tent_request_v1, schema_version, 4, 4)				\
	FIELD(tent_request_v1, opcode, 8, 4)					\
	FIELD(tent_request_v1, resv0, 12, 4)					\
	POINTER(tent_request_v1, source, 16)					\
	FIELD(tent_request_v1, target_id, 24, 8)				\
	FIELD(tent_request_v1, target_offset, 32, 8)				\
	FIELD(tent_request_v1, length, 40, 8)					\
	FIELD(tent_request_v1, intent_type, 48, 4)				\
	FIELD(tent_request_v1, requested_priority, 52, 4)			\
	FIELD(tent_request_v1, deadline_ns, 56, 8)				\
	POINTER(tent_request_v1, policy_name, 64)				\
	FIELD(tent_request_v1, transport_hint, 72, 4)				\
	FIELD(tent_request_v1, reserved0, 76, 4)				\
	FIELD(tent_request_v1, flags, 80, 8)					\
	BEGIN(tent_buffer_info, 80)						\
	FIELD(tent_buffer_info, base, 0, 8)					\
	FIELD(tent_buffer_info, length, 8, 8)					\
	FIELD(tent_buffer_info, location, 16, 64)				\
	BEGIN(tent_error_info, 308)						\
	FIELD(tent_error_info, size, 0, 4)					\
	FIELD(tent_error_info, error, 4, 4)					\
	FIELD(tent_error_info, index, 8, 4)					\
	FIELD(tent_error_info, rule, 12, 4)					\
	FIELD(tent_error_info, field, 16, 32)					\
	FIELD(tent_error_info, message, 48, 256)				\
	FIELD(tent_error_info, flags, 304, 4)					\
	BEGIN(tent_normalized, 96)						\
	FIELD(tent_normalized, size, 0, 4)					\
	FIELD(tent_normalized, opcode, 4, 4)					\
	FIELD(tent_normalized, intent_type, 8, 4)				\
	FIELD(tent_normalized, requested_priority, 12, 4)			\
	FIELD(tent_normalized, deadline_ns, 16, 8)				\
	FIELD(tent_normalized, transport_hint, 24, 4)				\
	FIELD(tent_normalized, flags, 28, 4)					\
	FIELD(tent_normalized, policy_name, 32, 64)				\
	BEGIN(tent_slot, 128)							\
	FIELD(tent_slot, seq, 0, 4)						\
	FIELD(tent_slot, nr, 4, 4)						\
	FIELD(tent_slot, user_data, 8, 8)					\
	FIELD(tent_slot, op, 16, 1)						\
	FIELD(tent_slot, resv0, 17, 1)						\
	FIELD(tent_slot, flags, 18, 2)						\
	FIELD(tent_slot, cq_head, 20, 4)					\
	FIELD(tent_slot, notify, 24, 8)						\
	FIELD(tent_slot, request, 32, 88)					\
	FIELD(tent_slot, tail_offset, 120, 4)					\
	FIELD(tent_slot, entry_stride, 124, 4)					\
	BEGIN(tent_indirect, 88)						\
	FIELD(tent_indirect, entries, 0, 8)					\
	FIELD(tent_indirect, cells, 8, 8)					\
	FIELD(tent_indirect, results, 16, 8)					\
	FIELD(tent_indirect, count, 24, 4)					\
	FIELD(tent_indirect, resv0, 28, 4)					\
	FIELD(tent_indirect, resv1, 32, 56)					\
	BEGIN(tent_notify, 8)							\
	FIELD(tent_notify, name_length, 0, 4)					\
	FIELD(tent_notify, message_length, 4, 4)				\
	BEGIN(tent_result, 16)							\
	FIELD(tent_result, bytes, 0, 8)						\
	FIELD(tent_result, error, 8, 4)						\
	FIELD(tent_result, status, 12, 1)					\
	FIELD(tent_result, transport, 13, 1)					\
	FIELD(tent_result, rule, 14, 2)						\
	BEGIN(tent_completion, 64)						\
	FIELD(tent_completion, seq, 0, 4)					\
	FIELD(tent_completion, flags, 4, 2)					\
	FIELD(tent_completion, status, 6, 1)					\
	FIELD(tent_completion, transport, 7, 1)					\
	FIELD(tent_completion, user_data, 8, 8)					\
	FIELD(tent_completion, bytes, 16, 8)					\
	FIELD(tent_completion, error, 24, 4)					\
	FIELD(tent_completion, index, 28, 4)					\
	FIELD(tent_completion, count, 32, 4)					\
	FIELD(tent_completion, credits, 36, 4)					\
	FIELD(tent_completion, seen_ticks, 40, 8)				\
	FIELD(tent_completion, posted_ticks, 48, 4)				\
	FIELD(tent_completion, device_ticks, 52, 4)				\
	FIELD(tent_completion, published_ticks, 56, 4)				\
	FIELD(tent_completion, rule, 60, 2)					\
	FIELD(tent_completion, rail, 62, 1)					\
	FIELD(tent_completion, attempts, 63, 1)					\
	BEGIN(tent_ring_header, 136)						\
	FIELD(tent_ring_header, magic, 0, 8)					\
	FIELD(tent_ring_header, abi_major, 8, 2)				\
	FIELD(tent_ring_header, abi_minor, 10, 2)				\
	FIELD(tent_ring_header, features, 12, 4)				\
	FIELD(tent_ring_header, header_size, 16, 4)				\
	FIELD(tent_ring_header, first_position, 20, 4)				\
	FIELD(tent_ring_header, slot_count, 24, 4)				\
	FIELD(tent_ring_header, slot_stride, 28, 4)				\
	FIELD(tent_ring_header, completion_count, 32, 4)			\
	FIELD(tent_ring_header, completion_stride, 36, 4)			\
	FIELD(tent_ring_header, client_size, 40, 8)				\
	FIELD(tent_ring_header, slots_offset, 48, 8)				\
	FIELD(tent_ring_header, cells_offset, 56, 8)				\
	FIELD(tent_ring_header, client_line_offset, 64, 8)			\
	FIELD(tent_ring_header, engine_size, 72, 8)				\
	FIELD(tent_ring_header, engine_line_offset, 80, 8)			\
	FIELD(tent_ring_header, completions_offset, 88, 8)			\
	FIELD(tent_ring_header, epoch, 96, 8)					\
	FIELD(tent_ring_header, tick_origin, 104, 8)				\
	FIELD(tent_ring_header, ns_origin, 112, 8)				\
	FIELD(tent_ring_header, tick_mult, 120, 8)				\
	FIELD(tent_ring_header, page_kind, 128, 4)				\
	FIELD(tent_ring_header, page_reason, 132, 4)				\
	BEGIN(tent_engine_line, 128)						\
	FIELD(tent_engine_line, consumed, 0, 4)					\
	FIELD(tent_engine_line, last_rejected, 4, 4)				\
	FIELD(tent_engine_line, rejected, 8, 4)					\
	FIELD(tent_engine_line, flags, 12, 4)					\
	FIELD(tent_engine_line, wake_seq, 16, 4)				\
	FIELD(tent_engine_line, end_rule, 20, 4)				\
	FIELD(tent_engine_line, resv, 24, 104)					\
	BEGIN(tent_client_line, 128)						\
	FIELD(tent_client_line, cq_head, 0, 4)					\
	FIELD(tent_client_line, want_wake, 4, 4)				\
	FIELD(tent_client_line, resv, 8, 120)					\
	BEGIN(tent_ctl_head, 16)						\
	FIELD(tent_ctl_head, size, 0, 4)					\
	FIELD(tent_ctl_head, type, 4, 2)					\
	FIELD(tent_ctl_head, nr_fds, 6, 2)					\
	FIELD(tent_ctl_head, cookie, 8, 8)					\
	BEGIN(tent_ctl_status, 272)						\
	FIELD(tent_ctl_status, error, 0, 4)					\
	FIELD(tent_ctl_status, rule, 4, 4)					\
	FIELD(tent_ctl_status, value, 8, 8)					\
	FIELD(tent_ctl_status, message, 16, 256)				\
	BEGIN(tent_ctl_hello, 152)						\
	FIELD(tent_ctl_hello, head, 0, 16)					\
	FIELD(tent_ctl_hello, abi_major, 16, 2)					\
	FIELD(tent_ctl_hello, abi_minor, 18, 2)					\
	FIELD(tent_ctl_hello, features, 20, 4)					\
	FIELD(tent_ctl_hello, name, 24, 128)					\
	BEGIN(tent_ctl_hello_reply, 440)					\
	FIELD(tent_ctl_hello_reply, head, 0, 16)				\
	FIELD(tent_ctl_hello_reply, status, 16, 272)				\
	FIELD(tent_ctl_hello_reply, abi_major, 288, 2)				\
	FIELD(tent_ctl_hello_reply, abi_minor, 290, 2)				\
	FIELD(tent_ctl_hello_reply, client_id, 292, 4)				\
	FIELD(tent_ctl_hello_reply, epoch, 296, 8)				\
	FIELD(tent_ctl_hello_reply, rings_max, 304, 4)				\
	FIELD(tent_ctl_hello_reply, slots_max, 308, 4)				\
	FIELD(tent_ctl_hello_reply, segment, 312, 128)				\
	BEGIN(tent_ctl_ring_open, 24)						\
	FIELD(tent_ctl_ring_open, head, 0, 16)					\
	FIELD(tent_ctl_ring_open, slot_count, 16, 4)				\
	FIELD(tent_ctl_ring_open, completion_count, 20, 4)			\
	BEGIN(tent_ctl_ring_open_reply, 312)					\
	FIELD(tent_ctl_ring_open_reply, head, 0, 16)				\
	FIELD(tent_ctl_ring_open_reply, status, 16, 272)			\
	FIELD(tent_ctl_ring_open_reply, ring_id, 288, 4)			\
	FIELD(tent_ctl_ring_open_reply, poller, 292, 4)				\
	FIELD(tent_ctl_ring_open_reply, client_size, 296, 8)			\
	FIELD(tent_ctl_ring_open_reply, engine_size, 304, 8)			\
	BEGIN(tent_ctl_id, 24)							\
	FIELD(tent_ctl_id, head, 0, 16)						\
	FIELD(tent_ctl_id, id, 16, 8)						\
	BEGIN(tent_ctl_plain_reply, 288)					\
	FIELD(tent_ctl_plain_reply, head, 0, 16)				\
	FIELD(tent_ctl_plain_reply, status, 16, 272)				\
	BEGIN(tent_ctl_mem_alloc, 88)						\
	FIELD(tent_ctl_mem_alloc, head, 0, 16)					\
	FIELD(tent_ctl_mem_alloc, length, 16, 8)				\
	FIELD(tent_ctl_mem_alloc, location, 24, 64)				\
	BEGIN(tent_ctl_mem_alloc_reply, 312)					\
	FIELD(tent_ctl_mem_alloc_reply, head, 0, 16)				\
	FIELD(tent_ctl_mem_alloc_reply, status, 16, 272)			\
	FIELD(tent_ctl_mem_alloc_reply, buffer_id, 288, 8)			\
	FIELD(tent_ctl_mem_alloc_reply, length, 296, 8)				\
	FIELD(tent_ctl_mem_alloc_reply, page_kind, 304, 4)			\
	FIELD(tent_ctl_mem_alloc_reply, page_reason, 308, 4)			\
	BEGIN(tent_ctl_mem_register, 128)					\
	FIELD(tent_ctl_mem_register, head, 0, 16)				\
	FIELD(tent_ctl_mem_register, base, 16, 8)				\
	FIELD(tent_ctl_mem_register, length, 24, 8)				\
	FIELD(tent_ctl_mem_register, buffer_id, 32, 8)				\
	FIELD(tent_ctl_mem_register, offset, 40, 8)				\
	FIELD(tent_ctl_mem_register, kind, 48, 4)				\
	FIELD(tent_ctl_mem_register, permission, 52, 4)				\
	FIELD(tent_ctl_mem_register, internal, 56, 4)				\
	FIELD(tent_ctl_mem_register, resv0, 60, 4)				\
	FIELD(tent_ctl_mem_register, location, 64, 64)				\
	BEGIN(tent_ctl_mem_unregister, 32)					\
	FIELD(tent_ctl_mem_unregister, head, 0, 16)				\
	FIELD(tent_ctl_mem_unregister, base, 16, 8)				\
	FIELD(tent_ctl_mem_unregister, length, 24, 8)				\
	BEGIN(tent_ctl_segment_open, 144)					\
	FIELD(tent_ctl_segment_open, head, 0, 16)				\
	FIELD(tent_ctl_segment_open, name, 16, 128)				\
	BEGIN(tent_ctl_segment_open_reply, 312)					\
	FIELD(tent_ctl_segment_open_reply, head, 0, 16)				\
	FIELD(tent_ctl_segment_open_reply, status, 16, 272)			\
	FIELD(tent_ctl_segment_open_reply, segment_id, 288, 8)			\
	FIELD(tent_ctl_segment_open_reply, epoch, 296, 8)			\
	FIELD(tent_ctl_segment_open_reply, type, 304, 4)			\
	FIELD(tent_ctl_segment_open_reply, resv0, 308, 4)			\
	BEGIN(tent_ctl_segment_info, 32)					\
	FIELD(tent_ctl_segment_info, head, 0, 16)				\
	FIELD(tent_ctl_segment_info, segment_id, 16, 8)				\
	FIELD(tent_ctl_segment_info, first, 24, 4)				\
	FIELD(tent_ctl_segment_info, resv0, 28, 4)				\
	BEGIN(tent_ctl_buffer, 80)						\
	FIELD(tent_ctl_buffer, base, 0, 8)					\
	FIELD(tent_ctl_buffer, length, 8, 8)					\
	FIELD(tent_ctl_buffer, location, 16, 64)				\
	BEGIN(tent_ctl_segment_info_reply, 2864)				\
	FIELD(tent_ctl_segment_info_reply, head, 0, 16)				\
	FIELD(tent_ctl_segment_info_reply, status, 16, 272)			\
	FIELD(tent_ctl_segment_info_reply, type, 288, 4)			\
	FIELD(tent_ctl_segment_info_reply, total, 292, 4)			\
	FIELD(tent_ctl_segment_info_reply, count, 296, 4)			\
	FIELD(tent_ctl_segment_info_reply, resv0, 300, 4)			\
	FIELD(tent_ctl_segment_info_reply, buffers, 304, 2560)			\
	BEGIN(tent_ctl_query, 24)						\
	FIELD(tent_ctl_query, head, 0, 16)					\
	FIELD(tent_ctl_query, what, 16, 4)					\
	FIELD(tent_ctl_query, count, 20, 4)					\
	BEGIN(tent_inbox, 128)							\
	FIELD(tent_inbox, arrived, 0, 8)					\
	FIELD(tent_inbox, refused, 8, 8)					\
	FIELD(tent_inbox, resv, 16, 112)					\
	BEGIN(tent_ctl_inbox_open_reply, 304)					\
	FIELD(tent_ctl_inbox_open_reply, head, 0, 16)				\
	FIELD(tent_ctl_inbox_open_reply, status, 16, 272)			\
	FIELD(tent_ctl_inbox_open_reply, taken, 288, 8)				\
	FIELD(tent_ctl_inbox_open_reply, data_size, 296, 4)			\
	FIELD(tent_ctl_inbox_open_reply, resv0, 300, 4)				\
	BEGIN(tent_ctl_query_reply, 296)					\
	FIELD(tent_ctl_query_reply, head, 0, 16)				\
	FIELD(tent_ctl_query_reply, status, 16, 272)				\
	FIELD(tent_ctl_query_reply, length, 288, 8)

#define ASSERT_SIZE(type, bytes)						\
	TENT_ASSERT(sizeof(struct type) == (bytes), #type " changed its size");
#define ASSERT_FIELD(type, field, offset, bytes)				\
	TENT_ASSERT_FIELD(struct type, field, offset, bytes);
#define ASSERT_POINTER(type, field, offset)					\
	TENT_ASSERT_FIELD(struct type, field, offset, sizeof(void *));
FIELDS(ASSERT_SIZE, ASSERT_FIELD, ASSERT_POINTER)

/* Not shared with anybody: they follow the C ABI of the program. */
#if UINTPTR_MAX == UINT64_MAX
TENT_ASSERT_FIELD(struct tent_status, status, 0, 4);
TENT_ASSERT_FIELD(struct tent_status, transferred_bytes, 8, 8);
TENT_ASSERT_FIELD(struct tent_segment_info, type, 0, 4);
TENT_ASSERT_FIELD(struct tent_segment_info, num_buffers, 4, 4);
TENT_ASSERT_FIELD(struct tent_segment_info, buffers, 8, 8);
TENT_ASSERT_FIELD(struct tent_memory_options, location, 0, 64);
TENT_ASSERT_FIELD(struct tent_memory_options, permission, 64, 4);
TENT_ASSERT_FIELD(struct tent_memory_options, transport_type, 68, 4);
TENT_ASSERT_FIELD(struct tent_memory_options, shm_path, 72, 256);
TENT_ASSERT_FIELD(struct tent_memory_options, shm_offset, 328, 8);
TENT_ASSERT_FIELD(struct tent_memory_options, internal, 336, 4);
#endif

/* ---- numbers ------------------------------------------------------------------- */

#define VALUE(name, value) TENT_ASSERT((name) == (value), #name " changed");
#define RULE(name, number) VALUE(TENT_RULE_##name, number)

VALUE(TENT_OPCODE_READ, 0)
VALUE(TENT_OPCODE_WRITE, 1)
VALUE(TENT_STATUS_WAITING, 0)
VALUE(TENT_STATUS_PENDING, 1)
VALUE(TENT_STATUS_INVALID, 2)
VALUE(TENT_STATUS_CANCELED, 3)
VALUE(TENT_STATUS_COMPLETED, 4)
VALUE(TENT_STATUS_TIMEOUT, 5)
VALUE(TENT_STATUS_FAILED, 6)
VALUE(TENT_INTENT_UNSPEC, 0)
VALUE(TENT_INTENT_FOREGROUND_GET, 1)
VALUE(TENT_INTENT_BACKGROUND_PREFETCH, 2)
VALUE(TENT_INTENT_MIGRATION, 3)
VALUE(TENT_INTENT_CHECKPOINT, 4)
VALUE(TENT_INTENT_WEIGHT_LOADING, 5)
VALUE(TENT_INTENT_STAGING_INTERNAL, 6)
VALUE(TENT_PRIORITY_UNSPEC, 0)
VALUE(TENT_PRIORITY_HIGH, 1)
VALUE(TENT_PRIORITY_MEDIUM, 2)
VALUE(TENT_PRIORITY_LOW, 3)
VALUE(TENT_TRANSPORT_UNSPEC, 0)
VALUE(TENT_TRANSPORT_RDMA, 1)
VALUE(TENT_TRANSPORT_MNNVL, 2)
VALUE(TENT_TRANSPORT_SHM, 3)
VALUE(TENT_TRANSPORT_NVLINK, 4)
VALUE(TENT_TRANSPORT_GDS, 5)
VALUE(TENT_TRANSPORT_IOURING, 6)
VALUE(TENT_TRANSPORT_TCP, 7)
VALUE(TENT_TRANSPORT_ASCEND_DIRECT, 8)
VALUE(TENT_TRANSPORT_SUNRISE_LINK, 9)
VALUE(TENT_TRANSPORT_TPU, 10)
VALUE(TENT_TRANSPORT_UB, 11)
VALUE(TENT_TRANSPORT_MPCOMM, 12)
VALUE(TENT_TRANSPORT_COUNT, 13)
VALUE(TENT_PERM_LOCAL_READ_WRITE, 0)
VALUE(TENT_PERM_GLOBAL_READ_ONLY, 1)
VALUE(TENT_PERM_GLOBAL_READ_WRITE, 2)
VALUE(TENT_SEGMENT_MEMORY, 0)
VALUE(TENT_SEGMENT_FILE, 1)
VALUE(TENT_VALIDATION_STRICT, 0)
VALUE(TENT_VALIDATION_COMPAT, 1)
VALUE(TENT_ERR_ARGUMENTS, -1)
VALUE(TENT_ERR_SCHEMA, -2)
VALUE(TENT_ERR_LAYOUT, -3)
VALUE(TENT_ERR_ENUM, -4)
VALUE(TENT_ERR_FLAGS, -5)
VALUE(TENT_ERR_POLICY_UNKNOWN, -6)
VALUE(TENT_ERR_POLICY_DENIED, -7)
VALUE(TENT_ERR_DEADLINE, -8)
VALUE(TENT_ERR_UNSUPPORTED, -9)
VALUE(TENT_ERR_ADDRESS, -10)
VALUE(TENT_ERR_TRANSPORT, -11)
VALUE(TENT_ERR_CAPACITY, -12)
VALUE(TENT_ERR_STALE_HANDLE, -13)
VALUE(TENT_ERR_PEER_UNREACHABLE, -14)
VALUE(TENT_ERR_ENGINE_LOST, -15)
VALUE(TENT_ERR_RUNTIME, -16)
VALUE(TENT_ERR_CANCELED, -17)
VALUE(TENT_ERR_TIMEOUT, -18)
VALUE(TENT_ERR_OWNER_GONE, -19)
VALUE(TENT_ERR_PROTOCOL, -20)
VALUE(TENT_ERR_CONFIG, -21)
VALUE(TENT_OP_REQUEST, 0)
VALUE(TENT_OP_CANCEL, 1)
VALUE(TENT_OP_NOP, 2)
VALUE(TENT_OP_INDIRECT, 3)
VALUE(TENT_OP_NOTIFY, 4)
VALUE(TENT_PAGE_BASE, 0)
VALUE(TENT_PAGE_HUGE, 1)
VALUE(TENT_CTL_HELLO, 1)
VALUE(TENT_CTL_RING_OPEN, 2)
VALUE(TENT_CTL_RING_CLOSE, 3)
VALUE(TENT_CTL_MEM_ALLOC, 4)
VALUE(TENT_CTL_MEM_FREE, 5)
VALUE(TENT_CTL_MEM_REGISTER, 6)
VALUE(TENT_CTL_MEM_UNREGISTER, 7)
VALUE(TENT_CTL_SEGMENT_OPEN, 8)
VALUE(TENT_CTL_SEGMENT_CLOSE, 9)
VALUE(TENT_CTL_SEGMENT_INFO, 10)
VALUE(TENT_CTL_QUERY, 11)
VALUE(TENT_CTL_INBOX_OPEN, 12)
VALUE(TENT_CTL_INBOX_TAKEN, 13)
VALUE(TENT_INBOX_DATA_SIZE, 524288) VALUE(TENT_INBOX_SKIP, UINT32_MAX)
VALUE(TENT_CTL_REPLY, 0x8000)
VALUE(TENT_MEM_PRIVATE, 0)
VALUE(TENT_MEM_BUFFER, 1)
VALUE(TENT_MEM_FD, 2)
VALUE(TENT_QUERY_CLIENTS, 1)
VALUE(TENT_QUERY_SEGMENTS, 2)
VALUE(TENT_QUERY_STATS, 3)
VALUE(TENT_QUERY_PEERS, 5)
VALUE(TENT_QUERY_EXPLAIN, 4)
VALUE(TENT_QUERY_RELOAD, 7) VALUE(TENT_QUERY_NICS, 8)

VALUE(TENT_SLOT_F_ONE_COMPLETION, 1)
VALUE(TENT_SLOT_F_LEGACY, 2)
VALUE(TENT_SLOT_F_NOTIFY, 4)
VALUE(TENT_NOTIFY_NAME_MAX, 255) VALUE(TENT_NOTIFY_MESSAGE_MAX, 4095)
VALUE(TENT_NOTIFY_TARGETS_MAX, 64)
VALUE(TENT_CQE_F_REJECTED, 1)
VALUE(TENT_CQE_F_BATCH, 2)
VALUE(TENT_CQE_F_INTENT_DOWNGRADED, 4)
VALUE(TENT_CQE_F_PRIORITY_DOWNGRADED, 8)
VALUE(TENT_CQE_F_POLICY_DOWNGRADED, 16)
VALUE(TENT_CQE_F_TAIL_IGNORED, 32)
VALUE(TENT_CQE_F_DEADLINE_MISSED, 64)
VALUE(TENT_CQE_F_TARGET_UNFENCED, 128)
VALUE(TENT_CQE_F_FAILED_OVER, 256)
VALUE(TENT_CQE_FIRST_SHIFT, 12)
VALUE(TENT_RING_F_ADAPTIVE, 1)
VALUE(TENT_RING_F_CLIENT_FENCE, 2)
VALUE(TENT_ENGINE_NEED_WAKE, 1)
VALUE(TENT_ENGINE_SPIN_YIELD, 2)
VALUE(TENT_ENGINE_ENDED, 4)
VALUE(TENT_WAKE_FUTEX, 1)
VALUE(TENT_WAKE_EVENTFD, 2)
VALUE(TENT_CTL_HELLO_MEMBARRIER, 1)
VALUE(TENT_CTL_HELLO_OBSERVER, 2)

VALUE(TENT_REQUEST_SCHEMA_V1, 1)
VALUE(TENT_REQUEST_V1_MIN_SIZE, 48)
VALUE(TENT_REQUEST_V1_SIZE, 88)
VALUE(TENT_REQUEST_MAX_STRIDE, 4096)
VALUE(TENT_POLICY_NAME_MAX, 63)
VALUE(TENT_RING_ABI_MAJOR, 1)
VALUE(TENT_SLOTS_DEFAULT, 4096)
VALUE(TENT_SLOTS_MAX, 65536)
VALUE(TENT_CELL_SIZE, 64)
VALUE(TENT_INDIRECT_MAX, 1048576)
VALUE(TENT_CTL_NAME_SIZE, 128)
VALUE(TENT_EXPLAIN_MAX, 16384)
VALUE(TENT_CTL_BUFFERS_PER_REPLY, 32)
VALUE(TENT_CTL_MAX_SIZE, 4096)
VALUE(TENT_CTL_MAX_FDS, 4)
VALUE(TENT_API_VERSION, 0x00010000)

RULE(STRUCT_SIZE, 1)
RULE(SCHEMA, 2)
RULE(TAIL, 3)
RULE(OPCODE, 10)
RULE(RESV0, 11)
RULE(INTENT, 12)
RULE(INTENT_STAGING, 13)
RULE(PRIORITY, 14)
RULE(PRIORITY_LEGACY, 15)
RULE(DEADLINE_FAR, 16)
RULE(DEADLINE_CLOCK, 17)
RULE(POLICY_LENGTH, 18)
RULE(POLICY_CHARS, 19)
RULE(TRANSPORT, 20)
RULE(RESERVED0, 21)
RULE(FLAGS, 22)
RULE(SLOT_RESV, 23)
RULE(SEGMENT, 30)
RULE(SOURCE_RANGE, 31)
RULE(SOURCE_UNREGISTERED, 32)
RULE(TARGET_RANGE, 33)
RULE(TARGET_UNREGISTERED, 34)
RULE(TARGET_PERMISSION, 35)
RULE(TARGET_PEER, 36)
RULE(POLICY_UNKNOWN, 40)
RULE(POLICY_DENIED, 41)
RULE(TRANSPORT_BUILD, 42)
RULE(TRANSPORT_REACH, 43)
RULE(NO_TRANSPORT, 44)
RULE(TRANSPORT_DENIED, 45)
RULE(NO_POLICY, 46)
RULE(PRIORITY_DENIED, 47)
RULE(DEADLINE_EXPIRED, 48)
RULE(TENANT_DENIED, 49)
RULE(ARG_NULL, 50)
RULE(ARG_STRIDE, 51)
RULE(ARG_ALIGN, 52)
RULE(ARG_OVERFLOW, 53)
RULE(ARG_SCHEMA, 54)
RULE(ARG_VALUE, 55)
RULE(BATCH_FULL, 56)
RULE(BATCH_STALE, 57)
RULE(ENGINE_STALE, 58)
RULE(TASK_RANGE, 59)
RULE(NOT_BUILT, 60)
RULE(INDIRECT_COUNT, 61)
RULE(INDIRECT_BUFFER, 62)
RULE(INDIRECT_BUSY, 63)
RULE(CANCEL_UNKNOWN, 64)
RULE(NOTIFY_NAME, 65)
RULE(NOTIFY_MESSAGE, 66)
RULE(NOTIFY_TEXT, 67)
RULE(FILE_PATH, 68)
RULE(NOTIFY_TARGETS, 69)
RULE(NAME_FORM, 70)
RULE(NAME_TAKEN, 71)
RULE(NAME_OTHER_TENANT, 72)
RULE(SEGMENT_UNKNOWN, 73)
RULE(SEGMENT_TENANT, 74)
RULE(MEM_RANGE, 75)
RULE(MEM_PERMISSION, 76)
RULE(MEM_NOT_SHAREABLE, 77)
RULE(MEM_SEALS, 78)
RULE(MEM_LIMIT, 79)
RULE(MEM_UNKNOWN, 80)
RULE(RING_SIZE, 81)
RULE(RING_LIMIT, 82)
RULE(CTL_MESSAGE, 83)
RULE(CTL_VERSION, 84)
RULE(CTL_DENIED, 85)
RULE(CLIENT_LIMIT, 86)
RULE(LOCATION, 87)
RULE(FILE_KIND, 88)
RULE(FILE_MODE, 89)
RULE(RING_SEQ, 90)
RULE(RING_NR, 91)
RULE(RING_CQ_HEAD, 92)
RULE(RING_ROOM, 93)
RULE(RING_FIRST, 94)
RULE(RING_MAPPING, 95)
RULE(RING_CLOSED, 96)
RULE(SOURCE_GONE, 100)
RULE(TARGET_GONE, 101)
RULE(CANCELED, 102)
RULE(TIMEOUT, 103)
RULE(COPY_FAULT, 104)
RULE(INJECTED, 105)
RULE(ENGINE_STOPPED, 106)
RULE(ENGINE_LOST, 107)
RULE(CONFIG, 108)
RULE(SYSTEM, 109)
RULE(FILE_END, 110)
RULE(FILE_SPACE, 111)
RULE(FILE_IO, 112)
RULE(FILE_ACCESS, 113)
RULE(PEER_LOST, 114)
RULE(INTEGRITY, 115)
RULE(CARD, 116)
RULE(NOTIFY_ROOM, 117)
RULE(INFLIGHT_BYTES, 118)
RULE(INFLIGHT_REQUESTS, 119)
RULE(GPU, 120)

/* ---- what an assert cannot say --------------------------------------------------- */

struct field {
	const char *type, *name;	/* name NULL: the struct itself */
	size_t offset, size;
};

#define ROW_SIZE(type, bytes) { #type, NULL, 0, bytes },
#define ROW_FIELD(type, field, offset, bytes) { #type, #field, offset, bytes },
#define ROW_POINTER(type, field, offset) { #type, #field, offset, 8 },
static const struct field fields[] = {
	FIELDS(ROW_SIZE, ROW_FIELD, ROW_POINTER)
};
#define NR_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* The fields of a shared struct tile it: a hole would be bytes nobody judges, and a
 * field that is not listed above would be one. */
static void no_shared_struct_has_a_hole_or_an_unlisted_field(void **state)
{
	size_t end = 0, size = 0;

	(void)state;
	for (size_t i = 0; i < NR_FIELDS; i++) {
		const struct field *f = &fields[i];

		if (!f->name) {
			assert_int_equal(end, size);
			end = 0;
			size = f->size;
		} else {
			if (f->offset != end)
				print_error("hole before %s.%s\n", f->type, f->name);
			assert_int_equal(f->offset, end);
			end += f->size;
		}
	}
	assert_int_equal(end, size);
}

static void every_64_bit_field_is_aligned(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_FIELDS; i++)
		if (fields[i].name && fields[i].size == 8)
			assert_int_equal(fields[i].offset % 8, 0);
}

static void every_control_message_fits_into_one_packet(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR_FIELDS; i++)
		if (!fields[i].name && !strncmp(fields[i].type, "tent_ctl_", 9))
			assert_true(fields[i].size <= TENT_CTL_MAX_SIZE);
}

/* Adding a rule means adding a line here. */
static void no_rule_is_missing_from_this_file(void **state)
{
	static const int known[] = {
#define KNOWN(name, number, category, field, allowed) number,
		TENT_RULES(KNOWN)
#undef KNOWN
	};
	const size_t nr = sizeof(known) / sizeof(known[0]);

	(void)state;
	assert_int_equal(nr, 102);
	for (size_t i = 1; i < nr; i++)
		assert_true(known[i - 1] < known[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_shared_struct_has_a_hole_or_an_unlisted_field),
		cmocka_unit_test(every_64_bit_field_is_aligned),
		cmocka_unit_test(every_control_message_fits_into_one_packet),
		cmocka_unit_test(no_rule_is_missing_from_this_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
