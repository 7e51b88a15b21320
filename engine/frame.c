/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - frames between engines. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/frame.h"

#define ROOM_FIRST 512u

struct frame_head {
	uint8_t magic[4];
	uint16_t version, resv0;
	uint32_t length;
};
_Static_assert(sizeof(struct frame_head) == FRAME_HEAD, "head of a frame");

static const uint8_t magic[4] = { 'T', 'E', 'N', 'T' };

void frame_reader_init(struct frame_reader *r, uint32_t limit)
{
	*r = (struct frame_reader){ .limit = limit };
}

void frame_reader_free(struct frame_reader *r)
{
	free(r->text);
	r->text = NULL;
	r->room = 0;
}

/* As soon as a byte of it is wrong, so that a stranger is not listened to. */
static enum frame_result judge_magic(const struct frame_reader *r)
{
	size_t n = r->have < sizeof(magic) ? r->have : sizeof(magic);

	return memcmp(r->head, magic, n) ? FRAME_MAGIC : FRAME_MORE;
}

static enum frame_result judge_head(struct frame_reader *r)
{
	struct frame_head h;

	memcpy(&h, r->head, sizeof(h));
	if (le16toh(h.version) != FRAME_VERSION)
		return FRAME_OTHER_VERSION;
	r->length = le32toh(h.length);
	if (h.resv0)
		return FRAME_MAGIC;
	return r->length < 2 || r->length > r->limit ? FRAME_LENGTH : FRAME_MORE;
}

static size_t take_head(struct frame_reader *r, const uint8_t *bytes, size_t size,
			enum frame_result *result)
{
	size_t n = FRAME_HEAD - r->have;

	n = n < size ? n : size;
	memcpy(r->head + r->have, bytes, n);
	r->have += (uint32_t)n;
	*result = judge_magic(r);
	if (*result == FRAME_MORE && r->have == FRAME_HEAD)
		*result = judge_head(r);
	return n;
}

static bool make_room(struct frame_reader *r, uint32_t used)
{
	uint32_t room = r->room ? r->room : ROOM_FIRST;
	char *text;

	while (room < used)
		room *= 2;
	if (room == r->room)
		return true;
	text = realloc(r->text, room);
	if (!text)
		return false;
	r->text = text;
	r->room = room;
	return true;
}

static size_t take_text(struct frame_reader *r, const uint8_t *bytes, size_t size,
			enum frame_result *result)
{
	uint32_t used = r->have - FRAME_HEAD;
	size_t n = r->length - used;

	n = n < size ? n : size;
	if (!make_room(r, used + (uint32_t)n)) {
		*result = FRAME_MEMORY;
		return 0;
	}
	memcpy(r->text + used, bytes, n);
	r->have += (uint32_t)n;
	*result = used + n == r->length ? FRAME_WHOLE : FRAME_MORE;
	return n;
}

/* The text is there: a frame, or what it is not. Ready for the next one. */
static enum frame_result parse(struct frame_reader *r, json_t **frame)
{
	json_t *value = json_loadb(r->text, r->length, JSON_REJECT_DUPLICATES, NULL);

	frame_reader_free(r);
	r->have = 0;
	if (json_is_object(value) && frame_text(value, "type", 32)) {
		*frame = value;
		return FRAME_WHOLE;
	}
	json_decref(value);
	return FRAME_JSON;
}

enum frame_result frame_read(struct frame_reader *r, const uint8_t *bytes, size_t size,
			     size_t *taken, json_t **frame)
{
	enum frame_result result = FRAME_MORE;

	*taken = 0;
	if (size && r->have < FRAME_HEAD)
		*taken = take_head(r, bytes, size, &result);
	if (result == FRAME_MORE && r->have >= FRAME_HEAD && *taken < size)
		*taken += take_text(r, bytes + *taken, size - *taken, &result);
	return result == FRAME_WHOLE ? parse(r, frame) : result;
}

const char *frame_fault(enum frame_result result)
{
	switch (result) {
	case FRAME_MAGIC:
		return "what came is no frame of this protocol";
	case FRAME_OTHER_VERSION:
		return "the frame is of another version; allowed: 1";
	case FRAME_LENGTH:
		return "the frame is longer than allowed, or empty";
	case FRAME_JSON:
		return "the frame holds no JSON object with a type";
	case FRAME_MEMORY:
		return "there is no memory for the frame";
	default:
		return "the frame is in order";
	}
}

uint8_t *frame_bytes(json_t *frame, size_t *size)
{
	char *text = json_is_object(frame) ? json_dumps(frame, JSON_COMPACT) : NULL;
	size_t length = text ? strlen(text) : 0;
	struct frame_head h = { .version = htole16(FRAME_VERSION),
				.length = htole32((uint32_t)length) };
	uint8_t *bytes = NULL;

	json_decref(frame);
	if (length && length <= FRAME_MAX)
		bytes = malloc(FRAME_HEAD + length);
	if (bytes) {
		memcpy(h.magic, magic, sizeof(magic));
		memcpy(bytes, &h, FRAME_HEAD);
		memcpy(bytes + FRAME_HEAD, text, length);
		*size = FRAME_HEAD + length;
	}
	free(text);
	return bytes;
}

/* ---- members ----------------------------------------------------------- */

const char *frame_text(const json_t *frame, const char *name, size_t max)
{
	const char *text = json_string_value(json_object_get(frame, name));

	if (!text || strlen(text) > max)
		return NULL;
	for (const char *at = text; *at; at++)
		if (*at < 0x20 || *at > 0x7e)
			return NULL;
	return text;
}

bool frame_u64(const json_t *frame, const char *name, uint64_t *value)
{
	const char *text = frame_text(frame, name, 18);
	size_t length = text ? strlen(text) : 0;

	if (length < 3 || text[0] != '0' || text[1] != 'x' || (text[2] == '0' && length > 3) ||
	    strspn(text + 2, "0123456789abcdef") != length - 2)
		return false;
	*value = strtoull(text + 2, NULL, 16);
	return true;
}

bool frame_uint(const json_t *frame, const char *name, uint32_t max, uint32_t *value)
{
	const json_t *number = json_object_get(frame, name);
	json_int_t n = json_integer_value(number);

	if (!json_is_integer(number) || n < 0 || n > (json_int_t)max)
		return false;
	*value = (uint32_t)n;
	return true;
}

json_t *frame_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}
