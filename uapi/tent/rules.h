/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - every rule a request, a ring or a control message can break.
 *
 * X(name, number, category, field, allowed): the number travels in completions
 * and control replies and is frozen; category is the enum tent_error it belongs
 * to; the sentence users read is "<field> is <value>; allowed: <allowed>".
 */
#ifndef TENT_RULES_H
#define TENT_RULES_H

#include <tent/tent.h>

#define TENT_RULES(X)							\
/* layout and schema, first over all entries */				\
X(STRUCT_SIZE,	1, LAYOUT, "struct_size", "48..4096, on a field boundary, at most the stride") \
X(SCHEMA,	2, SCHEMA, "schema_version", "1")			\
X(TAIL,		3, LAYOUT, "tail", "only zero bytes beyond offset 88 (strict mode)") \
/* fields by offset */							\
X(OPCODE,	10, ENUM, "opcode", "0 READ or 1 WRITE")		\
X(RESV0,	11, FLAGS, "resv0", "0")				\
X(INTENT,	12, ENUM, "intent_type", "0..5")			\
X(INTENT_STAGING, 13, ENUM, "intent_type", "0..5; 6 STAGING_INTERNAL is for the engine's own requests") \
X(PRIORITY,	14, ENUM, "requested_priority", "0 UNSPEC, 1 HIGH, 2 MEDIUM or 3 LOW") \
X(PRIORITY_LEGACY, 15, ENUM, "priority", "0 HIGH, 1 MEDIUM or 2 LOW")	\
X(DEADLINE_FAR,	16, DEADLINE, "deadline_ns", "0, or CLOCK_MONOTONIC up to 365 days ahead; this looks like another clock") \
X(DEADLINE_CLOCK, 17, DEADLINE, "deadline_ns", "0: this client's time namespace is not the engine's") \
X(POLICY_LENGTH, 18, LAYOUT, "policy_name", "NULL, or 1..63 bytes")	\
X(POLICY_CHARS,	19, LAYOUT, "policy_name", "only A-Z a-z 0-9 . _ : / -") \
X(TRANSPORT,	20, ENUM, "transport_hint", "0..12")			\
X(RESERVED0,	21, FLAGS, "reserved0", "0")				\
X(FLAGS,	22, FLAGS, "flags", "0")				\
X(SLOT_RESV,	23, FLAGS, "slot", "zero in every reserved word")	\
/* addresses */								\
X(SEGMENT,	30, STALE_HANDLE, "target_id", "0, or a handle from open_segment that is still open") \
X(SOURCE_RANGE,	31, ADDRESS, "source", "source + length must not wrap")	\
X(SOURCE_UNREGISTERED, 32, ADDRESS, "source", "inside one buffer this program registered") \
X(TARGET_RANGE,	33, ADDRESS, "target_offset", "target_offset + length must not wrap") \
X(TARGET_UNREGISTERED, 34, ADDRESS, "target_offset", "inside one registered buffer of the target segment") \
X(TARGET_PERMISSION, 35, ADDRESS, "target_offset", "a buffer whose permission allows this opcode") \
X(TARGET_PEER,	36, PEER_UNREACHABLE, "target_id", "a segment whose engine answers") \
/* policy and transport */						\
X(POLICY_UNKNOWN, 40, POLICY_UNKNOWN, "policy_name", "a configured policy") \
X(POLICY_DENIED, 41, POLICY_DENIED, "policy_name", "a policy this tenant may use") \
X(TRANSPORT_BUILD, 42, UNSUPPORTED, "transport_hint", "a transport of this build that this machine has") \
X(TRANSPORT_REACH, 43, TRANSPORT, "transport_hint", "an enabled transport that reaches both ends") \
X(NO_TRANSPORT,	44, TRANSPORT, "transport", "one enabled transport that reaches both ends") \
X(TRANSPORT_DENIED, 45, TRANSPORT, "transport_hint", "a transport that the policy lists and this tenant may use") \
X(NO_POLICY,	46, POLICY_DENIED, "policy_name", "a request that some policy of this tenant fits") \
X(PRIORITY_DENIED, 47, POLICY_DENIED, "requested_priority", "0 UNSPEC, or up to this tenant's cap") \
X(DEADLINE_EXPIRED, 48, DEADLINE, "deadline_ns", "0, or a time ahead: this tenant's contract refuses what is late") \
X(TENANT_DENIED, 49, POLICY_DENIED, "tenant", "a user whom the engine's authorization lists") \
/* call arguments and slots */						\
X(ARG_NULL,	50, ARGUMENTS, "pointer", "not NULL")			\
X(ARG_STRIDE,	51, LAYOUT, "entry_stride", "a multiple of 8, 48..4096") \
X(ARG_ALIGN,	52, LAYOUT, "entries", "8-byte aligned")		\
X(ARG_OVERFLOW,	53, ARGUMENTS, "count", "count x entry_stride must not overflow") \
X(ARG_SCHEMA,	54, SCHEMA, "schema_version", "1")			\
X(ARG_VALUE,	55, ARGUMENTS, "argument", "a value in its documented range") \
X(BATCH_FULL,	56, CAPACITY, "count", "what is left of the batch")	\
X(BATCH_STALE,	57, STALE_HANDLE, "batch_id", "a batch that was not freed") \
X(ENGINE_STALE,	58, STALE_HANDLE, "engine", "a live engine of this process") \
X(TASK_RANGE,	59, ARGUMENTS, "task_id", "below the number of tasks")	\
X(NOT_BUILT,	60, UNSUPPORTED, "call", "what this build offers")	\
X(INDIRECT_COUNT, 61, ARGUMENTS, "count", "1..2^20 entries")		\
X(INDIRECT_BUFFER, 62, ADDRESS, "indirect", "arrays inside one shareable buffer this client registered") \
X(INDIRECT_BUSY, 63, CAPACITY, "indirect", "one INDIRECT batch at a time in a ring") \
X(CANCEL_UNKNOWN, 64, ARGUMENTS, "user_data", "that of a request in flight") \
X(NOTIFY_NAME,	65, ARGUMENTS, "name", "up to 255 bytes, none of them zero")	\
X(NOTIFY_MESSAGE, 66, ARGUMENTS, "message", "up to 4095 bytes, none of them zero") \
X(NOTIFY_TEXT,	67, ADDRESS, "notify", "8-aligned, and with its text inside one shareable buffer this client registered") \
X(FILE_PATH,	68, ADDRESS, "segment", "file:// and the absolute path of a regular file that this program may open") \
/* control plane */							\
X(NOTIFY_TARGETS, 69, CAPACITY, "targets", "up to 64 segments in a batch with a notification") \
X(NAME_FORM,	70, ARGUMENTS, "name", "1..63 of [A-Za-z0-9._-]")	\
X(NAME_TAKEN,	71, ARGUMENTS, "name", "a name nobody holds")		\
X(NAME_OTHER_TENANT, 72, POLICY_DENIED, "name", "a name of this tenant") \
X(SEGMENT_UNKNOWN, 73, PEER_UNREACHABLE, "segment", "a segment of this engine, or of a peer that answers") \
X(SEGMENT_TENANT, 74, POLICY_DENIED, "segment", "a segment of this user, or of a tenant that shares with this one") \
X(MEM_RANGE,	75, ADDRESS, "address", "a non-empty range that does not wrap") \
X(MEM_PERMISSION, 76, ENUM, "permission", "0, 1 or 2")			\
X(MEM_NOT_SHAREABLE, 77, ADDRESS, "address", "memory the engine can share or copy") \
X(MEM_SEALS,	78, ADDRESS, "fd", "a memfd sealed against shrinking")	\
X(MEM_LIMIT,	79, CAPACITY, "memory", "within the engine's limits")	\
X(MEM_UNKNOWN,	80, ADDRESS, "address", "a registered range")		\
X(RING_SIZE,	81, ARGUMENTS, "slot_count", "a power of two, 1..65536") \
X(RING_LIMIT,	82, CAPACITY, "rings", "within the engine's limits")	\
X(CTL_MESSAGE,	83, PROTOCOL, "message", "a known message of the right size") \
X(CTL_VERSION,	84, SCHEMA, "abi_major", "1")				\
X(CTL_DENIED,	85, POLICY_DENIED, "uid", "the engine's own user or root") \
X(CLIENT_LIMIT,	86, CAPACITY, "clients", "within the engine's limits")	\
X(LOCATION,	87, ENUM, "location", "\"\", \"*\", \"cpu\", \"cpu:N\" or \"cuda:N\"") \
X(FILE_KIND,	88, ADDRESS, "file", "a regular file, not of a file system that another process serves") \
X(FILE_MODE,	89, ADDRESS, "file", "opened to read, or to read and write; without O_APPEND and O_PATH") \
/* a ring that broke its protocol: it ends */				\
X(RING_SEQ,	90, PROTOCOL, "seq", "position + 1 in every slot of the batch") \
X(RING_NR,	91, PROTOCOL, "nr", "1..slot_count")			\
X(RING_CQ_HEAD,	92, PROTOCOL, "cq_head", "between the last one and the published completions") \
X(RING_ROOM,	93, PROTOCOL, "nr", "unreaped + nr at most completion_count") \
X(RING_FIRST,	94, PROTOCOL, "slot", "nr, op, flags and cq_head zero after the first slot; a known op and flags in it") \
X(RING_MAPPING,	95, PROTOCOL, "mapping", "memory that stays in place")	\
X(RING_CLOSED,	96, CANCELED, "ring", "open")				\
/* how accepted requests fail */					\
X(SOURCE_GONE,	100, OWNER_GONE, "source", "registered until the request ended") \
X(TARGET_GONE,	101, OWNER_GONE, "target", "registered until the request ended; its owner unregistered it or died") \
X(CANCELED,	102, CANCELED, "request", "not canceled")		\
X(TIMEOUT,	103, TIMEOUT, "request", "an end within the request timeout") \
X(COPY_FAULT,	104, RUNTIME, "memory", "readable and writable by its owner") \
X(INJECTED,	105, RUNTIME, "request", "no injected fault")		\
X(ENGINE_STOPPED, 106, CANCELED, "engine", "running")			\
X(ENGINE_LOST,	107, ENGINE_LOST, "engine", "alive")			\
X(CONFIG,	108, CONFIG, "config", "a known key of the right type")	\
X(SYSTEM,	109, RUNTIME, "system call", "success")			\
X(FILE_END,	110, RUNTIME, "target_offset", "a range that the file has to its end; it is shorter, or was cut meanwhile") \
X(FILE_SPACE,	111, RUNTIME, "file", "room for it: within its file system, quota and largest size") \
X(FILE_IO,	112, RUNTIME, "file", "readable and writable without an input or output error") \
X(FILE_ACCESS,	113, RUNTIME, "file", "as readable and writable as when it was opened")	\
X(PEER_LOST,	114, PEER_UNREACHABLE, "target", "a segment whose engine answered until the request ended") \
X(INTEGRITY,	115, RUNTIME, "payload", "the bytes that were sent; their checksum differs") \
X(CARD,		116, RUNTIME, "network card", "a card that does what it was asked; it reported an error") \
X(NOTIFY_ROOM,	117, CAPACITY, "notification", "room beside those that its receiver has not taken, or that wait to be sent there") \
/* bounds of a tenant's contract: never to be had, or full and not to be waited for */	\
X(INFLIGHT_BYTES, 118, CAPACITY, "length", "what max_inflight_bytes of this tenant's contract leaves room for") \
X(INFLIGHT_REQUESTS, 119, CAPACITY, "request", "as many at once as max_inflight_requests of this tenant's contract allows") \
/* an accepted request again */						\
X(GPU,		120, RUNTIME, "GPU", "a GPU that does what it was asked, and memory of it that was not freed; its driver reported an error")

enum tent_rule {
	TENT_RULE_NONE = 0,
#define TENT_RULE_ENUM(name, number, category, field, allowed) TENT_RULE_##name = number,
	TENT_RULES(TENT_RULE_ENUM)
#undef TENT_RULE_ENUM
	TENT_RULE_COUNT = 128
};

#endif /* TENT_RULES_H */
