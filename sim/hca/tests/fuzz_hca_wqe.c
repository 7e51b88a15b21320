/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_wqe.c - any bytes in a send queue, a receive queue and their records. The input
 * is the program: the card must complete, refuse or end it, and stay sound.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The parts without which every WQE would end at its first check. */
static void make_plausible(struct pair *p, uint8_t *wqe, uint16_t index, uint8_t mode)
{
	uint32_t head = htobe32((uint32_t)index << 8 | wqe[3]);
	uint32_t qpn_ds = htobe32(p->a->qpn << 8 | (wqe[7] & 0x3f));
	uint64_t near = htobe64(fabric_address(&p->near, 0) + wqe[40]);
	uint64_t far = htobe64(fabric_address(&p->far, 0) + wqe[17]);
	uint32_t near_key = htobe32(p->near.key), far_key = htobe32(p->far.key);

	if (mode & 1)
		memcpy(wqe, &head, 4);
	if (mode & 2)
		memcpy(wqe + 4, &qpn_ds, 4);
	if (mode & 4) {
		memcpy(wqe + 16, &far, 8);
		memcpy(wqe + 24, &far_key, 4);
	}
	if (mode & 8) {
		memcpy(wqe + 36, &near_key, 4);
		memcpy(wqe + 40, &near, 8);
	}
}

static void fill_receives(struct pair *p, const uint8_t *data, size_t size)
{
	size_t n = p->b->nr_recvs * p->b->stride;
	uint32_t key = htobe32(p->far.key);

	memcpy(p->b->buffer + p->b->rq_offset, data, size < n ? size : n);
	for (uint32_t i = 0; i < p->b->nr_recvs; i += 2)
		memcpy(p->b->buffer + p->b->rq_offset + i * p->b->stride + 4, &key, 4);
	p->b->record[3] = 64;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric_qp_options o = { 0 };
	struct pair *p;
	uint8_t mode;

	if (size < 2)
		return 0;
	mode = data[0];
	if (mode & 0x80)
		o.scatter_send = o.scatter_recv = true;
	p = pair_create(NULL, &o);
	fill_receives(p, data, size);
	data++;
	size--;
	for (uint32_t block = 0; block < 64 && block * 64 < size; block++) {
		uint8_t wqe[64] = { 0 };
		size_t left = size - block * 64;

		memcpy(wqe, data + block * 64, left < 64 ? left : 64);
		make_plausible(p, wqe, p->a->sq_pi, mode);
		fabric_write_raw(p->a, wqe, 64);
		if (wqe[63] & 1 || mode & 0x40)
			fabric_ring(p->a);
		/* The program may change what it has posted. */
		if (wqe[62] & 1)
			p->a->buffer[block * 64 + (wqe[61] & 63)] ^= wqe[60];
		fabric_run(p->f, 2000);
	}
	if (mode & 0x20)
		memcpy(p->a->record + 4, data, size < 4 ? size : 4);
	fabric_ring(p->a);
	fabric_run(p->f, SECOND_NS / 50);
	pair_destroy(p);
	return 0;
}
