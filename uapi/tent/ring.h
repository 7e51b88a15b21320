/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - the rings both sides map. Their functions are in <tent/tentring.h>.
 *
 * One pair per client thread. Two memfds, each written by one side only:
 *
 *   client memfd (client writes)        engine memfd (engine writes, client
 *   +--------------------------+        |              maps read-only)
 *   | tent_slot[slot_count]    |        +------------------------------+
 *   +--------------------------+        | tent_ring_header             |
 *   | cell[slot_count], 64 B   |        +------------------------------+
 *   +--------------------------+        | tent_engine_line             |
 *   | tent_client_line         |        +------------------------------+
 *   +--------------------------+        | tent_completion[...count]    |
 *                                       +------------------------------+
 * Offsets, strides and counts are read from the header, never assumed.
 *
 * Positions are u32 and run freely over 2^32. The entry for position p is entry
 * p % count and carries seq = p + 1 once it is published. Both rings start at
 * header.first_position (0 in production).
 *
 * Publishing a batch: fill slots 2..n, then slot 1, then store slot 1's
 * {seq, nr} as one u64 with release. The engine sees the whole batch or none.
 */
#ifndef TENT_RING_H
#define TENT_RING_H

#include <tent/rules.h>
#include <tent/tent.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENT_RING_MAGIC 0x31474e52544e4554ull /* "TENTRNG1" in memory order */
#define TENT_RING_ABI_MAJOR 1
#define TENT_RING_ABI_MINOR 1 /* 1: notifications */

#define TENT_SLOTS_DEFAULT 4096u
#define TENT_SLOTS_MAX 65536u
#define TENT_CELL_SIZE 64u
#define TENT_INDIRECT_MAX (1u << 20)

/* What a slot asks for. */
enum tent_slot_op {
	TENT_OP_REQUEST = 0,	/* request: one tent_request_v1 */
	TENT_OP_CANCEL = 1,	/* user_data of the request to cancel in request.source */
	TENT_OP_NOP = 2,	/* completes at once; request area must be zero */
	TENT_OP_INDIRECT = 3,	/* request area is a struct tent_indirect */
	TENT_OP_NOTIFY = 4	/* sends notify to the owner of request.target_id; of the
				 * request area nothing else */
};

/* Slot flags; in the first slot of a batch only. */
#define TENT_SLOT_F_ONE_COMPLETION (1u << 0) /* one completion for the batch */
#define TENT_SLOT_F_LEGACY	   (1u << 1) /* priority counts 0 HIGH..2 LOW; address
					      * and policy errors fail the one request */
#define TENT_SLOT_F_NOTIFY	   (1u << 2) /* of REQUEST and INDIRECT: once all of the batch
					      * completed, notify goes to its targets */
#define TENT_SLOT_F_ALL (TENT_SLOT_F_ONE_COMPLETION | TENT_SLOT_F_LEGACY | TENT_SLOT_F_NOTIFY)

/*
 * A submission slot. In slots 2..n of a batch nr, op, flags and cq_head are
 * zero. In request, policy_name holds the length of the text in the slot's own
 * cell: 0 means NULL, and an empty string travels as UINT64_MAX so that the
 * engine refuses it.
 */
struct tent_slot {
	__attribute__((aligned(8))) uint32_t seq;
	uint32_t nr;		/* entries of the batch; with seq one u64 */
	TENT_U64 user_data;	/* copied to the completion, never interpreted */
	uint8_t op;		/* enum tent_slot_op */
	uint8_t resv0;		/* must be zero */
	uint16_t flags;		/* TENT_SLOT_F_* */
	uint32_t cq_head;	/* completions the client has reaped so far */
	TENT_U64 notify;	/* address of a struct tent_notify, 8-aligned; zero where
				 * nobody is notified */
	struct tent_request_v1 request;
	uint32_t tail_offset;	/* first non-zero byte beyond 88 of the caller's
				 * entry, as an offset in it; 0: none */
	uint32_t entry_stride;	/* of the caller's array; 0: this is no copy */
};

/* The request area of an INDIRECT slot. Entries are struct tent_slot with seq,
 * nr, op, flags and cq_head zero; cells are 64 bytes each, or 0 for none. All
 * three arrays lie in one shareable registered buffer of this client. */
struct tent_indirect {
	TENT_U64 entries;	/* address of struct tent_slot[count] */
	TENT_U64 cells;		/* address of char[count][64], or 0 */
	TENT_U64 results;	/* address of struct tent_result[count] */
	uint32_t count;		/* 1..TENT_INDIRECT_MAX */
	uint32_t resv0;		/* must be zero */
	TENT_U64 resv1[7];	/* must be zero */
};

#define TENT_NOTIFY_NAME_MAX 255u	/* bytes */
#define TENT_NOTIFY_MESSAGE_MAX 4095u
#define TENT_NOTIFY_TARGETS_MAX 64u	/* segments that the requests of a batch may have */

/* A notification. Its name follows, then its message, without a zero byte in them. All of
 * it lies in one shareable registered buffer of this client, whose it is again once the
 * batch is judged. */
struct tent_notify {
	uint32_t name_length;	/* bytes, 0..TENT_NOTIFY_NAME_MAX */
	uint32_t message_length; /* bytes, 0..TENT_NOTIFY_MESSAGE_MAX */
};

/* How one entry of an INDIRECT batch ended; complete before its completion. */
struct tent_result {
	TENT_U64 bytes;
	int32_t error;		/* enum tent_error */
	uint8_t status;		/* enum tent_task_state, terminal */
	uint8_t transport;	/* enum tent_transport */
	uint16_t rule;		/* enum tent_rule */
};

/*
 * A completion. The first 8 bytes are stored last, as one u64 with release.
 * Stage times: seen is in ticks (header.tick_*); the later stages are ticks
 * after seen, UINT32_MAX when more.
 */
struct tent_completion {
	__attribute__((aligned(8))) uint32_t seq;
	uint16_t flags;		/* TENT_CQE_F_* of tent.h */
	uint8_t status;		/* enum tent_task_state, terminal */
	uint8_t transport;	/* enum tent_transport that moved it */
	TENT_U64 user_data;	/* of the slot; rejection, batch: of slot 1 */
	TENT_U64 bytes;		/* moved; in a rejection: the refused value */
	int32_t error;		/* enum tent_error */
	uint32_t index;		/* in its batch; rejection, batch: first bad one */
	uint32_t count;		/* requests it stands for */
	uint32_t credits;	/* room it gives back */
	TENT_U64 seen_ticks;	/* engine took the slot */
	uint32_t posted_ticks;	/* handed to the transport; of several, to the last */
	uint32_t device_ticks;	/* the transport finished */
	uint32_t published_ticks;
	uint16_t rule;		/* enum tent_rule; 0 on success, but with FAILED_OVER why the
				 * first transport failed it */
	uint8_t rail;		/* which path of the transport; 0: it has one */
	uint8_t attempts;	/* how often a transport was given it; 0: it never was */
};

/* First line of the engine memfd; constant for the life of the ring. */
struct tent_ring_header {
	TENT_U64 magic;
	uint16_t abi_major, abi_minor;
	uint32_t features;	/* TENT_RING_F_* */
	uint32_t header_size;
	uint32_t first_position;
	uint32_t slot_count;	/* power of two */
	uint32_t slot_stride;	/* power of two, >= 128 */
	uint32_t completion_count; /* power of two */
	uint32_t completion_stride; /* power of two, >= 64 */
	TENT_U64 client_size;	/* bytes of the client memfd */
	TENT_U64 slots_offset;	/* in the client memfd */
	TENT_U64 cells_offset;	/* in the client memfd */
	TENT_U64 client_line_offset; /* in the client memfd */
	TENT_U64 engine_size;	/* bytes of the engine memfd */
	TENT_U64 engine_line_offset; /* in the engine memfd */
	TENT_U64 completions_offset; /* in the engine memfd */
	TENT_U64 epoch;		/* of the engine; changes when it restarts */
	TENT_U64 tick_origin;	/* ns = ns_origin + */
	TENT_U64 ns_origin;	/*   ((ticks - tick_origin) * tick_mult >> 32) */
	TENT_U64 tick_mult;
	uint32_t page_kind;	/* enum tent_page_kind */
	int32_t page_reason;	/* errno that ruled huge pages out, or 0 */
};

#define TENT_RING_F_ADAPTIVE	 (1u << 0) /* engine may sleep: look at NEED_WAKE */
#define TENT_RING_F_CLIENT_FENCE (1u << 1) /* no membarrier: fence before looking */

enum tent_page_kind { TENT_PAGE_BASE = 0, TENT_PAGE_HUGE = 1 };

/* Written by the engine, on its own 128 bytes. */
struct tent_engine_line {
	uint32_t consumed;	/* position after the last judged batch */
	uint32_t last_rejected;	/* position of the last rejected batch */
	uint32_t rejected;	/* how many were rejected, mod 2^32 */
	uint32_t flags;		/* TENT_ENGINE_* */
	uint32_t wake_seq;	/* futex word: the client waits on it */
	uint32_t end_rule;	/* enum tent_rule that ended the ring, or 0 */
	uint32_t resv[26];
};

#define TENT_ENGINE_NEED_WAKE  (1u << 0) /* engine sleeps: write the eventfd */
#define TENT_ENGINE_SPIN_YIELD (1u << 1) /* more spinners than cores: yield */
#define TENT_ENGINE_ENDED      (1u << 2) /* the ring is over, see end_rule */

/* Written by the client, on its own 128 bytes. */
struct tent_client_line {
	uint32_t cq_head;	/* completions reaped, for observers */
	uint32_t want_wake;	/* TENT_WAKE_*: how to be told of a publication */
	uint32_t resv[30];
};

#define TENT_WAKE_FUTEX	  (1u << 0) /* wake_seq + 1, then FUTEX_WAKE on it */
#define TENT_WAKE_EVENTFD (1u << 1) /* 8 bytes into the ring's completion socket */

TENT_ASSERT(sizeof(struct tent_slot) == 128, "a slot is two cache lines");
TENT_ASSERT_FIELD(struct tent_slot, seq, 0, 4);
TENT_ASSERT_FIELD(struct tent_slot, nr, 4, 4);
TENT_ASSERT_FIELD(struct tent_slot, user_data, 8, 8);
TENT_ASSERT_FIELD(struct tent_slot, op, 16, 1);
TENT_ASSERT_FIELD(struct tent_slot, resv0, 17, 1);
TENT_ASSERT_FIELD(struct tent_slot, flags, 18, 2);
TENT_ASSERT_FIELD(struct tent_slot, cq_head, 20, 4);
TENT_ASSERT_FIELD(struct tent_slot, notify, 24, 8);
TENT_ASSERT_FIELD(struct tent_slot, request, 32, 88);
TENT_ASSERT_FIELD(struct tent_slot, tail_offset, 120, 4);
TENT_ASSERT_FIELD(struct tent_slot, entry_stride, 124, 4);
TENT_ASSERT(sizeof(struct tent_indirect) == sizeof(struct tent_request_v1),
	    "an indirect takes a request's place");
TENT_ASSERT_FIELD(struct tent_indirect, entries, 0, 8);
TENT_ASSERT_FIELD(struct tent_indirect, cells, 8, 8);
TENT_ASSERT_FIELD(struct tent_indirect, results, 16, 8);
TENT_ASSERT_FIELD(struct tent_indirect, count, 24, 4);
TENT_ASSERT_FIELD(struct tent_indirect, resv0, 28, 4);
TENT_ASSERT_FIELD(struct tent_indirect, resv1, 32, 56);
TENT_ASSERT(sizeof(struct tent_notify) == 8, "its text follows");
TENT_ASSERT_FIELD(struct tent_notify, name_length, 0, 4);
TENT_ASSERT_FIELD(struct tent_notify, message_length, 4, 4);
TENT_ASSERT(sizeof(struct tent_result) == 16, "four results a line");
TENT_ASSERT_FIELD(struct tent_result, bytes, 0, 8);
TENT_ASSERT_FIELD(struct tent_result, error, 8, 4);
TENT_ASSERT_FIELD(struct tent_result, status, 12, 1);
TENT_ASSERT_FIELD(struct tent_result, transport, 13, 1);
TENT_ASSERT_FIELD(struct tent_result, rule, 14, 2);
TENT_ASSERT(sizeof(struct tent_completion) == 64, "a completion is a line");
TENT_ASSERT_FIELD(struct tent_completion, seq, 0, 4);
TENT_ASSERT_FIELD(struct tent_completion, flags, 4, 2);
TENT_ASSERT_FIELD(struct tent_completion, status, 6, 1);
TENT_ASSERT_FIELD(struct tent_completion, transport, 7, 1);
TENT_ASSERT_FIELD(struct tent_completion, user_data, 8, 8);
TENT_ASSERT_FIELD(struct tent_completion, bytes, 16, 8);
TENT_ASSERT_FIELD(struct tent_completion, error, 24, 4);
TENT_ASSERT_FIELD(struct tent_completion, index, 28, 4);
TENT_ASSERT_FIELD(struct tent_completion, count, 32, 4);
TENT_ASSERT_FIELD(struct tent_completion, credits, 36, 4);
TENT_ASSERT_FIELD(struct tent_completion, seen_ticks, 40, 8);
TENT_ASSERT_FIELD(struct tent_completion, posted_ticks, 48, 4);
TENT_ASSERT_FIELD(struct tent_completion, device_ticks, 52, 4);
TENT_ASSERT_FIELD(struct tent_completion, published_ticks, 56, 4);
TENT_ASSERT_FIELD(struct tent_completion, rule, 60, 2);
TENT_ASSERT_FIELD(struct tent_completion, rail, 62, 1);
TENT_ASSERT_FIELD(struct tent_completion, attempts, 63, 1);
TENT_ASSERT(sizeof(struct tent_ring_header) == 136, "header");
TENT_ASSERT_FIELD(struct tent_ring_header, magic, 0, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, abi_major, 8, 2);
TENT_ASSERT_FIELD(struct tent_ring_header, abi_minor, 10, 2);
TENT_ASSERT_FIELD(struct tent_ring_header, features, 12, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, header_size, 16, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, first_position, 20, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, slot_count, 24, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, slot_stride, 28, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, completion_count, 32, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, completion_stride, 36, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, client_size, 40, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, slots_offset, 48, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, cells_offset, 56, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, client_line_offset, 64, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, engine_size, 72, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, engine_line_offset, 80, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, completions_offset, 88, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, epoch, 96, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, tick_origin, 104, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, ns_origin, 112, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, tick_mult, 120, 8);
TENT_ASSERT_FIELD(struct tent_ring_header, page_kind, 128, 4);
TENT_ASSERT_FIELD(struct tent_ring_header, page_reason, 132, 4);
TENT_ASSERT(sizeof(struct tent_engine_line) == 128, "its own 128 bytes");
TENT_ASSERT_FIELD(struct tent_engine_line, consumed, 0, 4);
TENT_ASSERT_FIELD(struct tent_engine_line, last_rejected, 4, 4);
TENT_ASSERT_FIELD(struct tent_engine_line, rejected, 8, 4);
TENT_ASSERT_FIELD(struct tent_engine_line, flags, 12, 4);
TENT_ASSERT_FIELD(struct tent_engine_line, wake_seq, 16, 4);
TENT_ASSERT_FIELD(struct tent_engine_line, end_rule, 20, 4);
TENT_ASSERT(sizeof(struct tent_client_line) == 128, "its own 128 bytes");
TENT_ASSERT_FIELD(struct tent_client_line, cq_head, 0, 4);
TENT_ASSERT_FIELD(struct tent_client_line, want_wake, 4, 4);

#ifdef __cplusplus
}
#endif

#endif /* TENT_RING_H */
