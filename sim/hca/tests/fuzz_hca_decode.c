/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_decode.c - any bytes as a RoCE v2 datagram, and as a setting of tent-sim ctl.
 * What is taken for a packet says the same when it is written again. asan sees to it that
 * nothing is read too far: the datagram is exactly as long as it is said to be.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/hca/host/parts.h"
#include "sim/hca/wire/codec.h"
#include "sim/hca/wire/icrc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_packet(const uint8_t *data, size_t size)
{
	uint8_t again[CODEC_MAX_BYTES];
	struct hca_packet p = { 0 }, q = { 0 };

	if (codec_decode(&p, data, size))
		return;
	if (codec_bytes(&p) != size)
		abort();
	codec_encode(&p, data[4] & CODEC_IB_LINK, again);
	if (codec_decode(&q, again, size) || q.length != p.length || q.opcode != p.opcode ||
	    q.psn != p.psn || q.dest_qpn != p.dest_qpn || q.rkey != p.rkey ||
	    q.route.has_grh != p.route.has_grh || q.route.sl != p.route.sl)
		abort();
}

static void try_icrc(const uint8_t *data, size_t size)
{
	struct icrc_path path = { 0 };

	if (size < CODEC_BTH_BYTES)
		return;
	memcpy(path.source, data, 12);
	memcpy(path.dest, data, 12);
	if (!icrc_check(&path, 0, data, size, icrc_compute(&path, 0, data, size)))
		abort();
}

static void try_setting(const uint8_t *data, size_t size)
{
	char setting[HOST_TEXT_BYTES], text[HOST_TEXT_BYTES];
	struct knob_setting s;

	if (size >= sizeof(setting))
		return;
	memcpy(setting, data, size);
	setting[size] = '\0';
	if (!knob_parse(setting, &s, text) && (!s.knob || s.port > HOST_MAX_PORTS ||
					       s.index >= WIRE_MAX_GIDS))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	try_packet(copy, size);
	try_icrc(copy, size);
	try_setting(copy, size);
	free(copy);
	return 0;
}
