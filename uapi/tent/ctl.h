/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl.h - the control messages between a client and an engine.
 *
 * A SOCK_SEQPACKET Unix socket (tentd: /run/tent/tentd.sock; in-process: a
 * socketpair). The client sends one request at a time and waits for its reply;
 * the engine sends nothing unasked. Every message starts with its own size:
 * shorter than the struct is an error, longer is an error too until a minor
 * version says otherwise. Text fields are NUL-terminated inside their array.
 * File descriptors travel as SCM_RIGHTS on the message that names them.
 *
 * Nothing here is on the data path.
 */
#ifndef TENT_CTL_H
#define TENT_CTL_H

#include <tent/ring.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENT_CTL_NAME_SIZE 128u
#define TENT_CTL_BUFFERS_PER_REPLY 32u
#define TENT_CTL_MAX_SIZE 4096u
#define TENT_CTL_MAX_FDS 4

enum tent_ctl_type {
	TENT_CTL_HELLO = 1,	/* first message of a connection */
	TENT_CTL_RING_OPEN = 2,	/* reply carries 4 fds: client memfd, engine memfd,
				 * eventfd that wakes the engine, socket that gets 8
				 * bytes for TENT_WAKE_EVENTFD */
	TENT_CTL_RING_CLOSE = 3, /* replies once its last request ended */
	TENT_CTL_MEM_ALLOC = 4,	/* reply carries 1 fd: a sealed memfd */
	TENT_CTL_MEM_FREE = 5,
	TENT_CTL_MEM_REGISTER = 6,
	TENT_CTL_MEM_UNREGISTER = 7, /* replies once nothing can touch it */
	TENT_CTL_SEGMENT_OPEN = 8,
	TENT_CTL_SEGMENT_CLOSE = 9,
	TENT_CTL_SEGMENT_INFO = 10,
	TENT_CTL_QUERY = 11,	/* reply carries 1 fd: a memfd of JSON text */
	TENT_CTL_INBOX_OPEN = 12, /* reply carries 1 fd: the memfd of a struct tent_inbox */
	TENT_CTL_INBOX_TAKEN = 13, /* id: the position up to which its room is free again */
	TENT_CTL_REPLY = 0x8000	/* or'ed into the type of every reply */
};

struct tent_ctl_head {
	uint32_t size;		/* of the whole message, bytes */
	uint16_t type;		/* enum tent_ctl_type */
	uint16_t nr_fds;	/* attached descriptors */
	TENT_U64 cookie;	/* comes back in the reply */
};

/* Starts every reply; a failed one ends here. */
struct tent_ctl_status {
	int32_t error;		/* enum tent_error */
	uint32_t rule;		/* enum tent_rule, 0 on success */
	TENT_U64 value;		/* the refused value, where it is a number */
	char message[256];	/* one sentence; "" on success */
};

struct tent_ctl_hello {
	struct tent_ctl_head head;
	uint16_t abi_major, abi_minor;
	uint32_t features;	/* TENT_CTL_HELLO_* */
	char name[TENT_CTL_NAME_SIZE]; /* of the segment; "": the engine picks one */
};
#define TENT_CTL_HELLO_MEMBARRIER (1u << 0) /* registered for GLOBAL_EXPEDITED */
#define TENT_CTL_HELLO_OBSERVER (1u << 1)   /* owns no segment: tentctl */

struct tent_ctl_hello_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	uint16_t abi_major, abi_minor;
	uint32_t client_id;
	TENT_U64 epoch;		/* of the engine */
	uint32_t rings_max;
	uint32_t slots_max;
	char segment[TENT_CTL_NAME_SIZE]; /* full name: host:port or host:port/name */
};

struct tent_ctl_ring_open {
	struct tent_ctl_head head;
	uint32_t slot_count;	/* power of two; 0: default */
	uint32_t completion_count; /* power of two; 0: as slot_count */
};
struct tent_ctl_ring_open_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	uint32_t ring_id;
	uint32_t poller;	/* which poller serves it */
	TENT_U64 client_size, engine_size; /* of the memfds, bytes */
};

struct tent_ctl_id { /* RING_CLOSE, MEM_FREE, SEGMENT_CLOSE, INBOX_TAKEN */
	struct tent_ctl_head head;
	TENT_U64 id;
};
struct tent_ctl_plain_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
};

struct tent_ctl_mem_alloc {
	struct tent_ctl_head head;
	TENT_U64 length;
	char location[64];
};
struct tent_ctl_mem_alloc_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	TENT_U64 buffer_id;
	TENT_U64 length;	/* rounded up to pages */
	uint32_t page_kind;	/* enum tent_page_kind */
	int32_t page_reason;	/* errno that ruled huge pages out, or 0 */
};

enum tent_mem_kind {
	TENT_MEM_PRIVATE = 0,	/* copied through the client's address space */
	TENT_MEM_BUFFER = 1,	/* inside a MEM_ALLOC buffer: buffer_id, offset */
	TENT_MEM_FD = 2		/* inside the attached sealed memfd: offset */
};
struct tent_ctl_mem_register {
	struct tent_ctl_head head;
	TENT_U64 base;		/* address in the client, bytes */
	TENT_U64 length;
	TENT_U64 buffer_id;
	TENT_U64 offset;
	uint32_t kind;		/* enum tent_mem_kind */
	int32_t permission;	/* enum tent_permission */
	uint32_t internal;	/* non-zero: hidden from SEGMENT_INFO */
	uint32_t resv0;
	char location[64];
};
struct tent_ctl_mem_unregister {
	struct tent_ctl_head head;
	TENT_U64 base;
	TENT_U64 length;	/* 0: match by base */
};

struct tent_ctl_segment_open {
	struct tent_ctl_head head;
	/* file://...: request carries 1 fd, the regular file, opened by the client to read,
	 * or to read and write; the rest of the name is for people */
	char name[TENT_CTL_NAME_SIZE];
};
struct tent_ctl_segment_open_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	TENT_U64 segment_id;	/* 0: the client's own */
	TENT_U64 epoch;		/* of the segment's owner */
	int32_t type;		/* enum tent_segment_type */
	uint32_t resv0;
};
struct tent_ctl_segment_info {
	struct tent_ctl_head head;
	TENT_U64 segment_id;
	uint32_t first;		/* index of the first buffer wanted */
	uint32_t resv0;
};
struct tent_ctl_buffer {
	TENT_U64 base, length;
	char location[64];
};
struct tent_ctl_segment_info_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	int32_t type;
	uint32_t total;		/* buffers of the segment */
	uint32_t count;		/* in this reply */
	uint32_t resv0;
	struct tent_ctl_buffer buffers[TENT_CTL_BUFFERS_PER_REPLY];
};

/*
 * The notifications that a client was sent. The engine writes, the client maps read-only.
 * Positions count bytes and only grow; the record for position p lies at data[p % data_size],
 * 8-aligned and in one piece, and may be read once arrived is beyond it. Its room is the
 * engine's again with INBOX_TAKEN.
 */
#define TENT_INBOX_DATA_SIZE 524288u
#define TENT_INBOX_SKIP UINT32_MAX /* a name_length: the next record is at data[0] */
struct tent_inbox {
	TENT_U64 arrived;	/* position after the newest record */
	TENT_U64 refused;	/* how many found no room */
	uint32_t resv[28];
	/* data follows: a struct tent_notify with its text each */
};
struct tent_ctl_inbox_open_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	TENT_U64 taken;		/* position of the oldest record */
	uint32_t data_size;	/* a power of two */
	uint32_t resv0;
};

enum tent_query {
	TENT_QUERY_CLIENTS = 1,	/* needs the engine's own uid, or root */
	TENT_QUERY_SEGMENTS = 2, /* as above */
	TENT_QUERY_STATS = 3,	/* as above */
	TENT_QUERY_EXPLAIN = 4,	/* request carries 1 fd: memfd of count slots, then cells */
	TENT_QUERY_PEERS = 5,	/* as STATS */
	TENT_QUERY_METRICS = 6,	/* as STATS */
	TENT_QUERY_RELOAD = 7,	/* as STATS; has tentd read its configuration again */
	TENT_QUERY_NICS = 8	/* as STATS */
};
struct tent_ctl_query {
	struct tent_ctl_head head;
	uint32_t what;		/* enum tent_query */
	uint32_t count;		/* EXPLAIN: entries, up to TENT_EXPLAIN_MAX */
};
#define TENT_EXPLAIN_MAX 16384u /* a tenth of a second of the engine's control thread */

struct tent_ctl_query_reply {
	struct tent_ctl_head head;
	struct tent_ctl_status status;
	TENT_U64 length;	/* of the text, bytes */
};

TENT_ASSERT(sizeof(struct tent_ctl_head) == 16, "head");
TENT_ASSERT_FIELD(struct tent_ctl_head, cookie, 8, 8);
TENT_ASSERT(sizeof(struct tent_ctl_status) == 272, "status");
TENT_ASSERT_FIELD(struct tent_ctl_status, message, 16, 256);
TENT_ASSERT(sizeof(struct tent_ctl_hello) == 152, "hello");
TENT_ASSERT_FIELD(struct tent_ctl_hello, name, 24, 128);
TENT_ASSERT(sizeof(struct tent_ctl_hello_reply) == 440, "hello reply");
TENT_ASSERT_FIELD(struct tent_ctl_hello_reply, epoch, 296, 8);
TENT_ASSERT(sizeof(struct tent_ctl_ring_open) == 24, "ring open");
TENT_ASSERT(sizeof(struct tent_ctl_ring_open_reply) == 312, "ring open reply");
TENT_ASSERT(sizeof(struct tent_ctl_id) == 24, "id");
TENT_ASSERT(sizeof(struct tent_ctl_plain_reply) == 288, "plain reply");
TENT_ASSERT(sizeof(struct tent_ctl_mem_alloc) == 88, "mem alloc");
TENT_ASSERT(sizeof(struct tent_ctl_mem_alloc_reply) == 312, "mem alloc reply");
TENT_ASSERT(sizeof(struct tent_ctl_mem_register) == 128, "mem register");
TENT_ASSERT_FIELD(struct tent_ctl_mem_register, location, 64, 64);
TENT_ASSERT(sizeof(struct tent_ctl_mem_unregister) == 32, "mem unregister");
TENT_ASSERT(sizeof(struct tent_ctl_segment_open) == 144, "segment open");
TENT_ASSERT(sizeof(struct tent_ctl_segment_open_reply) == 312, "segment open reply");
TENT_ASSERT(sizeof(struct tent_ctl_segment_info) == 32, "segment info");
TENT_ASSERT(sizeof(struct tent_ctl_buffer) == 80, "buffer");
TENT_ASSERT(sizeof(struct tent_ctl_segment_info_reply) == 2864, "segment info reply");
TENT_ASSERT(sizeof(struct tent_inbox) == 128, "its own 128 bytes");
TENT_ASSERT_FIELD(struct tent_inbox, refused, 8, 8);
TENT_ASSERT(sizeof(struct tent_ctl_inbox_open_reply) == 304, "inbox open reply");
TENT_ASSERT(sizeof(struct tent_ctl_query) == 24, "query");
TENT_ASSERT(sizeof(struct tent_ctl_query_reply) == 296, "query reply");

#ifdef __cplusplus
}
#endif

#endif /* TENT_CTL_H */
