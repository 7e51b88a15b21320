/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_golden.c - completions byte by byte, each written into a slot that was dirty.
 * The offsets are those of mlx5dv.h, spelled out once more by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

enum { SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, UIDX = 0xabcdef };

struct scene {
	struct fabric *f;
	struct fabric_host *host;
	struct fabric_cq *cq;
	struct fabric_srq *srq;
	struct fabric_qp *qp;
	struct fabric_region memory;
};

static struct scene scene_create(uint32_t cqe_bytes, bool has_srq)
{
	struct scene s = { .f = fabric_create(true) };

	s.host = &s.f->host[0];
	s.f->is_cut = true;
	s.f->now_ns = 0x0102030405060708;
	s.cq = fabric_cq_create(s.host, 4, cqe_bytes);
	s.srq = has_srq ? fabric_srq_create(s.host, 8) : NULL;
	s.qp = fabric_qp_create(s.host, &(struct fabric_qp_options) {
		.send_cq = s.cq, .recv_cq = s.cq, .srq = s.srq, .uidx = UIDX,
		.scatter_send = true, .scatter_recv = true });
	s.memory = fabric_region_create(s.host, 4096, 15 | HCA_ACCESS_REMOTE_INVALIDATE);
	fabric_connect_to(s.qp, 0x20305, 0, 0, &fabric_usual);
	memset(s.cq->buffer, 0xf5, 4 * cqe_bytes);
	return s;
}

static void scene_destroy(struct scene *s)
{
	fabric_qp_destroy(s->qp);
	fabric_cq_destroy(s->cq);
	if (s->srq)
		fabric_srq_destroy(s->srq);
	fabric_region_destroy(&s->memory);
	fabric_destroy(s->f);
}

static void inject(struct scene *s, struct hca_packet p)
{
	static const uint8_t bytes[4096] = "0123456789abcdefghijklmnopqrstuvwxyz"
					   "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	p.dest_qpn = s->qp->qpn;
	p.pkey = 0xffff;
	p.payload = bytes;
	p.route = fabric_route_of_peer(s->qp);
	hca_receive(s->host->hca, &p);
}

static void receive(struct scene *s)
{
	struct fabric_sge sge = { fabric_address(&s->memory, 0), 4096, s->memory.key };

	if (s->srq)
		fabric_srq_post(s->srq, &sge, 1);
	else
		fabric_post_recv(s->qp, &sge, 1);
}

static void post(struct scene *s, uint8_t opcode, uint32_t n)
{
	struct fabric_sge sge = { fabric_address(&s->memory, 0), n, s->memory.key };

	fabric_post(s->qp, &(struct fabric_wr) { .opcode = opcode, .fm_ce_se = SIGNALED,
						 .sge = &sge, .nr_sge = 1 });
}

static void acknowledge(struct scene *s, uint8_t syndrome)
{
	inject(s, (struct hca_packet) { .opcode = HCA_ACKNOWLEDGE, .syndrome = syndrome });
}

static void write_completion(void **state)
{
	static const uint8_t golden[64] = {
		[32] = 0x00, 0xab, 0xcd, 0xef,				/* uidx */
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,	/* timestamp */
		[56] = 0x08, 0x01, 0x00, 0x00,				/* RDMA_WRITE, QPN */
		[60] = 0x00, 0x00,					/* WQE index */
		[63] = 0x00,						/* REQ, owner 0 */
	};
	struct scene s = scene_create(64, false);

	(void)state;
	assert_int_equal(s.qp->qpn, 0x10000);
	post(&s, MLX5_OPCODE_RDMA_WRITE, 8);
	acknowledge(&s, HCA_AETH_ACK);
	assert_memory_equal(s.cq->buffer, golden, 64);
	assert_int_equal(s.cq->buffer[64], 0xf5);
	scene_destroy(&s);
}

static void read_completion_with_its_data(void **state)
{
	static const uint8_t golden[64] = {
		'0', '1', '2', '3', '4', '5', '6', '7', '8',
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[44] = 0x00, 0x00, 0x00, 0x09,				/* bytes */
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x10, 0x01, 0x00, 0x00,				/* RDMA_READ */
		[63] = 0x04,						/* 32-byte scatter */
	};
	struct scene s = scene_create(64, false);

	(void)state;
	post(&s, MLX5_OPCODE_RDMA_READ, 9);
	inject(&s, (struct hca_packet) { .opcode = HCA_READ_RESPONSE_ONLY, .length = 9,
					 .syndrome = HCA_AETH_ACK });
	assert_memory_equal(s.cq->buffer, golden, 64);
	scene_destroy(&s);
}

static void read_completion_with_up_to_64_bytes(void **state)
{
	static const uint8_t second_half[64] = {
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[44] = 0x00, 0x00, 0x00, 0x3d,
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x10, 0x01, 0x00, 0x00,
		[63] = 0x08,						/* 64-byte scatter */
	};
	struct scene s = scene_create(128, false);

	(void)state;
	post(&s, MLX5_OPCODE_RDMA_READ, 61);
	inject(&s, (struct hca_packet) { .opcode = HCA_READ_RESPONSE_ONLY, .length = 61,
					 .syndrome = HCA_AETH_ACK });
	assert_memory_equal(s.cq->buffer, "0123456789abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXY\xf5\xf5\xf5", 64);
	assert_memory_equal(s.cq->buffer + 64, second_half, 64);
	assert_int_equal(s.cq->buffer[128], 0xf5);
	scene_destroy(&s);
}

static void atomic_completion(void **state)
{
	static const uint8_t golden[64] = {
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,	/* as the host has it */
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[44] = 0x00, 0x00, 0x00, 0x08,
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x12, 0x01, 0x00, 0x00,				/* ATOMIC_FA */
		[63] = 0x04,
	};
	struct scene s = scene_create(64, false);

	(void)state;
	post(&s, MLX5_OPCODE_ATOMIC_FA, 8);
	inject(&s, (struct hca_packet) { .opcode = HCA_ATOMIC_ACKNOWLEDGE,
					 .original = 0x1122334455667788 });
	assert_memory_equal(s.cq->buffer, golden, 64);
	scene_destroy(&s);
}

static void receive_completion(void **state)
{
	static const uint8_t golden[64] = {
		[24] = 0x12, 0x02, 0x03, 0x05,			/* GRH, IPv4, peer's QPN */
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[36] = 0xde, 0xad, 0xbe, 0xef,			/* immediate */
		[44] = 0x00, 0x00, 0x00, 0x28,
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x00, 0x01, 0x00, 0x00,
		[60] = 0x00, 0x00,
		[63] = 0x30,					/* RESP_SEND_IMM */
	};
	struct scene s = scene_create(64, false);
	uint32_t immediate;

	(void)state;
	memcpy(&immediate, "\xde\xad\xbe\xef", 4);
	receive(&s);
	inject(&s, (struct hca_packet) { .opcode = HCA_SEND_ONLY_IMM, .length = 40,
					 .immediate = immediate });
	assert_memory_equal(s.cq->buffer, golden, 64);
	scene_destroy(&s);
}

static void receive_completion_of_a_shared_queue(void **state)
{
	static const uint8_t golden[64] = {
		'0', '1', '2', '3', '4', '5', '6', '7',
		[24] = 0x12, 0x02, 0x03, 0x05,
		[32] = 0x00, 0xab, 0xcd, 0xef,			/* the QP's, not the queue's */
		[44] = 0x00, 0x00, 0x00, 0x08,
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x00, 0x01, 0x00, 0x00,
		[60] = 0x00, 0x01,				/* the second WQE */
		[63] = 0x24,					/* RESP_SEND, data */
	};
	struct scene s = scene_create(64, true);

	(void)state;
	receive(&s);
	receive(&s);
	inject(&s, (struct hca_packet) { .opcode = HCA_SEND_ONLY, .length = 8 });
	inject(&s, (struct hca_packet) { .opcode = HCA_SEND_ONLY, .length = 8, .psn = 1 });
	assert_memory_equal(s.cq->buffer + 64, golden, 64);
	scene_destroy(&s);
}

static void receive_completion_with_invalidate(void **state)
{
	static const uint8_t golden[64] = {
		[24] = 0x12, 0x02, 0x03, 0x05,
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[36] = 0x00, 0x18, 0x00, 0x00,			/* the key */
		[48] = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		[56] = 0x00, 0x01, 0x00, 0x00,
		[63] = 0x40,					/* RESP_SEND_INV */
	};
	struct scene s = scene_create(64, false);

	(void)state;
	assert_int_equal(s.memory.key, 0x180000);
	receive(&s);
	inject(&s, (struct hca_packet) { .opcode = HCA_SEND_ONLY_INVALIDATE,
					 .rkey = s.memory.key });
	assert_memory_equal(s.cq->buffer, golden, 64);
	scene_destroy(&s);
}

static void send_error(void **state)
{
	static const uint8_t golden[64] = {
		[32] = 0x00, 0xab, 0xcd, 0xef,
		[54] = 0x13, 0x13,				/* vendor's, syndrome */
		[56] = 0x08, 0x01, 0x00, 0x00,
		[60] = 0x00, 0x00,
		[63] = 0xd0,					/* REQ_ERR */
	};
	struct scene s = scene_create(64, false);

	(void)state;
	post(&s, MLX5_OPCODE_RDMA_WRITE, 8);
	acknowledge(&s, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_memory_equal(s.cq->buffer, golden, 64);
	scene_destroy(&s);
}

static void receive_error(void **state)
{
	static const uint8_t golden[128] = {
		[96] = 0x00, 0xab, 0xcd, 0xef,
		[118] = 0x01, 0x01,				/* length */
		[120] = 0x00, 0x01, 0x00, 0x00,
		[124] = 0x00, 0x00,
		[127] = 0xe0,					/* RESP_ERR */
	};
	struct scene s = scene_create(128, false);

	(void)state;
	fabric_post_recv(s.qp, NULL, 0);
	inject(&s, (struct hca_packet) { .opcode = HCA_SEND_ONLY, .length = 8 });
	assert_memory_equal(s.cq->buffer + 64, golden + 64, 64);
	scene_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_completion),
		cmocka_unit_test(read_completion_with_its_data),
		cmocka_unit_test(read_completion_with_up_to_64_bytes),
		cmocka_unit_test(atomic_completion),
		cmocka_unit_test(receive_completion),
		cmocka_unit_test(receive_completion_of_a_shared_queue),
		cmocka_unit_test(receive_completion_with_invalidate),
		cmocka_unit_test(send_error),
		cmocka_unit_test(receive_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
