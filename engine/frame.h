/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - the frames that engines send each other, to bytes and from bytes. Pure:
 * knows no socket. docs/peers.md has the contract.
 *
 *   off size
 *    0   4   "TENT"
 *    4   2   version of the protocol, 1
 *    6   2   zero
 *    8   4   length of the JSON text that follows, bytes, 2..FRAME_MAX
 *   12       a JSON object with a text "type"
 *
 * Little-endian. The first 8 bytes are the same in every version, so that a peer of
 * another one can be told. 64-bit numbers are texts, "0x1f": JSON readers round them.
 */
#ifndef TENT_ENGINE_FRAME_H
#define TENT_ENGINE_FRAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION 1u
#define FRAME_HEAD 12u
#define FRAME_FIRST_BYTE 'T'
#define FRAME_MAX 65536u	/* of JSON text */
#define FRAME_HELLO_MAX 1024u	/* the same, before a peer has said who it is */

/* What is wrong with a stream of frames: it is of no use any more. */
enum frame_result {
	FRAME_MORE = 0,		/* all bytes are taken, and more are needed */
	FRAME_WHOLE = 1,	/* a frame is complete */
	FRAME_MAGIC = -1, FRAME_OTHER_VERSION = -2, FRAME_LENGTH = -3, FRAME_JSON = -4,
	FRAME_MEMORY = -5
};

struct frame_reader {
	uint32_t limit;		/* longest JSON text taken; may change between frames */
	uint32_t have;		/* bytes of the frame so far, head included */
	uint32_t length;	/* of its text; known once the head is there */
	uint32_t room;		/* bytes allocated at text */
	uint8_t head[FRAME_HEAD];
	char *text;
};

void frame_reader_init(struct frame_reader *r, uint32_t limit);
void frame_reader_free(struct frame_reader *r);

/* Takes bytes up to the end of one frame; *taken: how many of size. FRAME_WHOLE: *frame
 * is a new reference. Memory grows with what has come, not with what was announced. */
enum frame_result frame_read(struct frame_reader *r, const uint8_t *bytes, size_t size,
			     size_t *taken, json_t **frame);

/* What a negative result means, in words. */
const char *frame_fault(enum frame_result result);

/* The bytes of a frame, to be freed; takes the reference. NULL: no memory, no object, or
 * longer than FRAME_MAX. */
uint8_t *frame_bytes(json_t *frame, size_t *size);

/* ---- members of a frame; other members are ignored ---- */

/* A text of at most max printable ASCII characters, or NULL. */
const char *frame_text(const json_t *frame, const char *name, size_t max);
/* "0x" and 1..16 of [0-9a-f], no needless zero. */
bool frame_u64(const json_t *frame, const char *name, uint64_t *value);
/* A JSON integer 0..max. */
bool frame_uint(const json_t *frame, const char *name, uint32_t max, uint32_t *value);
/* "0x..." */
json_t *frame_hex(uint64_t value);

#endif /* TENT_ENGINE_FRAME_H */
