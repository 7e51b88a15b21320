/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_frame.c - any bytes as a stream of frames. Read whole and read in pieces they
 * give the same frames and the same fault, and a frame that was read can be sent on.
 *
 * Input: one byte of piece size, then the stream.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* Takes the reference. */
static void check_frame(json_t *frame)
{
	uint64_t value;
	uint32_t number;
	size_t size;
	uint8_t *bytes;

	need(frame_text(frame, "type", 32) != NULL);
	frame_u64(frame, "epoch", &value);
	frame_uint(frame, "version", 9, &number);
	bytes = frame_bytes(frame, &size);	/* escapes may make it too long */
	need(!bytes || size <= FRAME_HEAD + FRAME_MAX);
	free(bytes);
}

/* How many frames; *fault: how it ended. */
static int read_all(const uint8_t *data, size_t size, size_t piece, enum frame_result *fault)
{
	struct frame_reader r;
	int frames = 0;

	frame_reader_init(&r, FRAME_HELLO_MAX);
	*fault = FRAME_MORE;
	while (size && *fault >= 0) {
		size_t n = piece < size ? piece : size, taken;
		json_t *frame = NULL;

		*fault = frame_read(&r, data, n, &taken, &frame);
		need(taken <= n && (*fault < 0 || taken));
		need(r.room <= 2 * FRAME_HELLO_MAX);
		if (*fault == FRAME_WHOLE) {
			check_frame(frame);
			frames++;
		}
		data += taken;
		size -= taken;
	}
	frame_reader_free(&r);
	return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum frame_result whole, cut;
	int frames;

	if (!size)
		return 0;
	frames = read_all(data + 1, size - 1, size, &whole);
	need(read_all(data + 1, size - 1, (size_t)data[0] % 40 + 1, &cut) == frames);
	need(whole == cut);
	return 0;
}
