/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_packet.c - any packets at a connected card, that has work of its own under way.
 * Whatever comes, the card stays sound: it never touches memory that no key opens, and its
 * timers run dry.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a packet takes of the input; payload lengths come from it too. */
struct seed {
	uint8_t opcode, to, psn, key;
	uint8_t address, syndrome, flags, length;
	uint16_t dma_length;
	uint16_t post;
} __attribute__((packed));

static void inject(struct pair *p, const struct seed *s, const uint8_t *payload)
{
	struct fabric_qp *to = s->to & 1 ? p->a : p->b;
	const struct fabric_region *r = s->to & 1 ? &p->near : &p->far;
	uint32_t base = s->to & 2 ? fabric_usual.psn : fabric_usual.psn + 100;
	struct hca_packet packet = {
		.route = fabric_route_of_peer(to),
		.opcode = s->opcode,
		.solicited = s->flags & 1,
		.ack_request = s->flags & 2,
		.pkey = 0xffff,
		.dest_qpn = to->qpn,
		.psn = (base + (uint32_t)(int8_t)s->psn) & HCA_PSN_MASK,
		.rkey = r->key + (s->key & 0xf0),
		.dma_length = (uint32_t)s->dma_length << (s->key & 15),
		.remote_address =
			fabric_address(r, 0) + (uint64_t)(int64_t)(int8_t)s->address * 8192,
		.syndrome = s->syndrome,
		.payload = payload,
		/* Mostly the sizes that mean something. */
		.length = s->length < 128   ? s->length
			  : s->length < 250 ? 1024
					    : s->length * 16,
	};

	hca_receive(to->host->hca, &packet);
}

static void work(struct pair *p, uint16_t post)
{
	static const uint8_t opcodes[] = {
		MLX5_OPCODE_SEND, MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ,
		MLX5_OPCODE_ATOMIC_FA,
	};
	uint8_t opcode = opcodes[post & 3];

	if (post & 4)
		pair_receive(p, 0, post >> 4);
	if (post & 8 && p->a->sq_pi < 60)
		pair_post(p, opcode, MLX5_WQE_CTRL_CQ_UPDATE,
			  opcode == MLX5_OPCODE_ATOMIC_FA ? 8 : post, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t payload[4096];
	struct pair *p = pair_create(NULL, NULL);
	struct seed s;

	p->f->is_cut = size & 1;
	for (size_t at = 0; at + sizeof(s) <= size && at < 64 * sizeof(s); at += sizeof(s)) {
		memcpy(&s, data + at, sizeof(s));
		work(p, s.post);
		inject(p, &s, payload);
		fabric_run(p->f, 1000);
	}
	fabric_run(p->f, SECOND_NS / 50);
	pair_destroy(p);
	return 0;
}
