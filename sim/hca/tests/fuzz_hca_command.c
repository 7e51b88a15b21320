/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile commands: whatever bytes a program puts into an ioctl, the device answers with
 * an error or does what they say, and nothing else. Pointers are made to point at the
 * input, so that what is behind them is hostile too.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "sim/hca/tests/common/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A command: its number, then lengths of its four parts, then their bytes. */
struct head {
	uint8_t number, is_extended, in_bytes, out_bytes, hw_in_bytes, hw_out_bytes;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Addresses in the input are small numbers; they become places in the program's memory,
 * some of them past its end. */
static void aim(struct program *p, uint8_t *bytes, size_t n)
{
	for (size_t at = 0; at + 8 <= n; at += 8) {
		uint64_t word;

		memcpy(&word, bytes + at, sizeof(word));
		if (word >> 56 != 0x7f)
			continue;
		word = (uintptr_t)p->memory + (word & 0x7ffff);
		memcpy(bytes + at, &word, sizeof(word));
	}
}

static size_t run_write(struct program *p, const uint8_t *data, size_t size)
{
	uint8_t in[256], hw_in[256], out[256], hw_out[256];
	struct head h;
	size_t in_bytes, hw_bytes;

	memcpy(&h, data, sizeof(h));
	data += sizeof(h);
	size -= sizeof(h);
	in_bytes = least(h.in_bytes, size);
	memcpy(in, data, in_bytes);
	hw_bytes = least(h.hw_in_bytes, size - in_bytes);
	memcpy(hw_in, data + in_bytes, hw_bytes);
	aim(p, in, in_bytes);
	aim(p, hw_in, hw_bytes);
	program_write(p, &(struct program_write){
		h.number | (h.is_extended & 1 ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0),
		in, in_bytes, out, h.out_bytes, hw_in, hw_bytes, hw_out, h.hw_out_bytes });
	return sizeof(h) + in_bytes + hw_bytes;
}

/* A whole ioctl buffer. */
static size_t run_raw(struct program *p, const uint8_t *data, size_t size)
{
	size_t n = least(size, sizeof(p->call));

	memset(&p->call, 0, sizeof(p->call));
	memcpy(&p->call, data, n);
	aim(p, (uint8_t *)&p->call, sizeof(p->call));
	p->call.hdr.reserved1 = p->call.hdr.reserved2 = 0;
	p->call.hdr.driver_id = RDMA_DRIVER_MLX5;
	if (p->call.hdr.num_attrs <= PROGRAM_MAX_ATTRS)
		p->call.hdr.length = (uint16_t)(sizeof(p->call.hdr) +
			p->call.hdr.num_attrs * sizeof(p->call.attrs[0]));
	program_ioctl(p);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program *p = program_create();
	uint32_t page;

	program_get_context(p);
	program_alloc_pd(p);
	program_alloc_uar(p, &page);
	program_create_cq(p, 7, program_create_channel(p), 1);
	while (size > sizeof(struct head)) {
		size_t n = data[0] == 0xff ? run_raw(p, data + 1, size - 1) + 1 :
					     run_write(p, data, size);

		data += n;
		size -= n;
	}
	program_destroy(p);
	return 0;
}
