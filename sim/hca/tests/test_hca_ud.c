/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_ud.c - datagrams: who gets them, and the 40 bytes before them.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/fabric.h"

enum { SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, QKEY = 0x11111111, GRH = 40 };

struct couple {
	struct fabric *f;
	struct fabric_qp *a, *b;
	struct fabric_region near, far;
};

static struct couple *couple_create(bool is_ethernet)
{
	struct couple *c = calloc(1, sizeof(*c));

	c->f = fabric_create(is_ethernet);
	c->a = fabric_qp_create(&c->f->host[0], &(struct fabric_qp_options) {
		.transport = HCA_UD, .uidx = 1 });
	c->b = fabric_qp_create(&c->f->host[1], &(struct fabric_qp_options) {
		.transport = HCA_UD, .uidx = 2 });
	c->near = fabric_region_create(&c->f->host[0], 1 << 14, 1);
	c->far = fabric_region_create(&c->f->host[1], 1 << 14, 1);
	memset(c->near.bytes, 'u', 1 << 14);
	fabric_start_ud(c->a, QKEY);
	fabric_start_ud(c->b, QKEY);
	return c;
}

static void couple_destroy(struct couple *c)
{
	struct fabric_cq *cq[] = { c->a->send_cq, c->a->recv_cq, c->b->send_cq, c->b->recv_cq };

	fabric_qp_destroy(c->a);
	fabric_qp_destroy(c->b);
	for (int i = 0; i < 4; i++)
		fabric_cq_destroy(cq[i]);
	fabric_region_destroy(&c->near);
	fabric_region_destroy(&c->far);
	fabric_destroy(c->f);
	free(c);
}

static void receive(struct couple *c, uint32_t bytes)
{
	struct fabric_sge s = { fabric_address(&c->far, 0), bytes, c->far.key };

	fabric_post_recv(c->b, &s, 1);
}

static void post(struct couple *c, uint8_t opcode, uint32_t bytes, uint32_t qkey, uint32_t qpn)
{
	struct fabric_sge s = { fabric_address(&c->near, 0), bytes, c->near.key };
	struct fabric_wr wr = {
		.opcode = opcode, .fm_ce_se = SIGNALED, .sge = &s, .nr_sge = bytes ? 1 : 0,
		.qkey = qkey, .dest_qpn = qpn, .immediate = 0x04030201,
	};

	wr.dgid[10] = wr.dgid[11] = 0xff;
	wr.dgid[15] = 2;
	fabric_post(c->a, &wr);
	fabric_run(c->f, 1000000);
}

static void check_datagram(uint8_t opcode, uint32_t bytes)
{
	struct couple *c = couple_create(true);
	struct fabric_cqe e;

	receive(c, GRH + bytes);
	post(c, opcode, bytes, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_REQ);
	assert_int_equal(e.wqe_opcode, opcode);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.opcode, opcode == MLX5_OPCODE_SEND ? MLX5_CQE_RESP_SEND
							      : MLX5_CQE_RESP_SEND_IMM);
	assert_int_equal(e.byte_count, GRH + bytes);
	assert_int_equal(e.immediate, opcode == MLX5_OPCODE_SEND ? 0 : 0x04030201);
	assert_int_equal(e.flags_rqpn & 0xffffff, c->a->qpn);
	assert_int_equal(e.flags_rqpn >> 28, 1);	/* a GRH is there */
	assert_int_equal(e.flags_rqpn >> 24 & 3, 2);	/* IPv4 */
	assert_int_equal(e.uidx, 2);
	assert_memory_equal(c->far.bytes + GRH, c->near.bytes, bytes);
	assert_int_equal(c->far.bytes[GRH + bytes], 0);
	couple_destroy(c);
}

static void datagram_of_any_size_arrives(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 24, 25, 64, 1000, 4096 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		check_datagram(MLX5_OPCODE_SEND, sizes[i]);
		check_datagram(MLX5_OPCODE_SEND_IMM, sizes[i]);
	}
}

static uint16_t sum16(const uint8_t *p, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* What libibverbs looks at to find out which IP it was. */
static void ipv4_header_ends_the_40_bytes(void **state)
{
	struct couple *c = couple_create(true);
	const uint8_t *ip = c->far.bytes + 20;

	(void)state;
	memset(c->far.bytes, 0xee, GRH);
	receive(c, 200);
	post(c, MLX5_OPCODE_SEND, 7, QKEY, c->b->qpn);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 3);		/* traffic class */
	assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 8 + 4);
	assert_int_equal(ip[8], 64);
	assert_int_equal(ip[9], 17);
	assert_int_equal(sum16(ip, 20), 0xffff);
	assert_memory_equal(ip + 12, "\0\0\0\1\0\0\0\2", 8);
	assert_int_not_equal(c->far.bytes[0] >> 4, 6);
	couple_destroy(c);
}

static void inject(struct couple *c, struct hca_packet p)
{
	p.pkey = 0xffff;
	p.dest_qpn = c->b->qpn;
	p.qkey = QKEY;
	p.source_qpn = 0x123456;
	p.payload = c->near.bytes;
	hca_receive(c->f->host[1].hca, &p);
}

static void ipv6_header_fills_the_40_bytes(void **state)
{
	struct couple *c = couple_create(true);
	struct hca_packet p = { .opcode = HCA_UD | HCA_SEND_ONLY, .length = 8 };
	struct fabric_cqe e;

	(void)state;
	p.route.has_grh = true;
	p.route.tclass = 0x21;
	p.route.flow_label = 0x54321;
	p.route.hop_limit = 63;
	memset(p.route.sgid, 0xfd, 16);
	memset(p.route.dgid, 0xfe, 16);
	receive(c, 200);
	inject(c, p);
	assert_memory_equal(c->far.bytes, "\x62\x15\x43\x21\x00\x28\x11\x3f", 8);
	assert_memory_equal(c->far.bytes + 8, p.route.sgid, 16);
	assert_memory_equal(c->far.bytes + 24, p.route.dgid, 16);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.flags_rqpn, 0x11123456);
	couple_destroy(c);
}

static void infiniband_has_a_grh_or_none(void **state)
{
	struct couple *c = couple_create(false);
	struct hca_packet p = { .opcode = HCA_UD | HCA_SEND_ONLY, .length = 8 };
	struct fabric_cqe e;

	(void)state;
	p.route.slid = 0x1234;
	p.route.sl = 5;
	receive(c, 200);
	receive(c, 200);
	memset(c->far.bytes, 0xee, 200);
	inject(c, p);
	assert_int_equal(c->far.bytes[39], 0xee);
	assert_memory_equal(c->far.bytes + GRH, "uuuuuuuu", 8);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.flags_rqpn, 0x05123456);
	assert_int_equal(e.slid, 0x1234);
	p.route.has_grh = true;
	inject(c, p);
	assert_int_equal(c->far.bytes[6], 0x1b);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.flags_rqpn, 0x15123456);
	couple_destroy(c);
}

static void wrong_qkey_and_missing_receive_lose_it(void **state)
{
	struct couple *c = couple_create(true);
	struct fabric_cqe e;

	(void)state;
	post(c, MLX5_OPCODE_SEND, 8, QKEY, c->b->qpn);
	receive(c, 200);
	post(c, MLX5_OPCODE_SEND, 8, QKEY + 1, c->b->qpn);
	post(c, MLX5_OPCODE_SEND, 8, QKEY, c->b->qpn + 1);
	assert_false(fabric_poll(c->b->recv_cq, &e));
	for (int i = 0; i < 3; i++) {
		assert_true(fabric_poll(c->a->send_cq, &e));
		assert_int_equal(e.opcode, MLX5_CQE_REQ);
	}
	post(c, MLX5_OPCODE_SEND, 8, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	couple_destroy(c);
}

static void privileged_qkey_means_the_queue_pairs_own(void **state)
{
	struct couple *c = couple_create(true);
	struct fabric_cqe e;

	(void)state;
	receive(c, 200);
	post(c, MLX5_OPCODE_SEND, 8, 0x80000000, c->b->qpn);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	couple_destroy(c);
}

static void datagram_that_fits_no_receive_fails_the_receiver(void **state)
{
	struct couple *c = couple_create(true);
	struct fabric_cqe e;

	(void)state;
	receive(c, GRH + 7);
	post(c, MLX5_OPCODE_SEND, 8, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_RESP_ERR);
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	assert_int_equal(fabric_state(c->b), HCA_QP_ERR);
	couple_destroy(c);
}

static void send_error_stops_sending_only(void **state)
{
	struct couple *c = couple_create(true);
	struct hca_packet p = { .opcode = HCA_UD | HCA_SEND_ONLY, .length = 8 };
	struct fabric_cqe e;

	(void)state;
	post(c, MLX5_OPCODE_SEND, 4097, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	assert_int_equal(fabric_state(c->a), HCA_QP_SQE);
	post(c, MLX5_OPCODE_SEND, 8, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	fabric_post(c->b, &(struct fabric_wr) { .opcode = MLX5_OPCODE_RDMA_WRITE,
						.inline_data = "x", .inline_bytes = 1 });
	assert_true(fabric_poll(c->b->send_cq, &e));
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	assert_int_equal(fabric_state(c->b), HCA_QP_SQE);
	receive(c, 200);
	inject(c, p);
	assert_true(fabric_poll(c->b->recv_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_RESP_SEND);
	couple_destroy(c);
}

static void port_that_carries_less_now_refuses_what_it_carried(void **state)
{
	struct couple *c = couple_create(true);
	struct fabric_cqe e;

	(void)state;
	post(c, MLX5_OPCODE_SEND, 1025, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_REQ);
	c->f->host[0].port_mtu_bytes = 1024;
	post(c, MLX5_OPCODE_SEND, 1024, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_REQ);
	post(c, MLX5_OPCODE_SEND, 1025, QKEY, c->b->qpn);
	assert_true(fabric_poll(c->a->send_cq, &e));
	assert_int_equal(e.opcode, MLX5_CQE_REQ_ERR);
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	assert_int_equal(fabric_state(c->a), HCA_QP_SQE);
	couple_destroy(c);
}

static void address_vector_says_where_it_goes(void **state)
{
	struct couple *c = couple_create(true);
	uint8_t wqe[64] = { [3] = MLX5_OPCODE_SEND, [7] = 4 };
	uint8_t *av = wqe + 16;
	const struct hca_packet *p;
	uint32_t qpn = htobe32(c->a->qpn << 8 | 4);

	(void)state;
	memcpy(wqe + 4, &qpn, 4);
	memcpy(av, "\x11\x11\x11\x11" "\0\0\0\0" "\x80\x02\x00\x05", 12);
	av[12] = 0x06;				/* rate 0, priority 3 */
	memcpy(av + 14, "\xc0\x01", 2);		/* UDP source port */
	av[26] = 0x21;				/* traffic class */
	av[27] = 63;				/* hop limit */
	memcpy(av + 28, "\x40\x75\x43\x21", 4);	/* GRH, GID index 7, flow label 0x54321 */
	memset(av + 32, 0xab, 16);
	fabric_write_raw(c->a, wqe, 64);
	fabric_ring(c->a);
	p = fabric_sent(c->f, 0);
	assert_non_null(p);
	assert_int_equal(p->dest_qpn, 0x020005);
	assert_int_equal(p->qkey, QKEY);
	assert_int_equal(p->source_qpn, c->a->qpn);
	assert_int_equal(p->route.sl, 3);
	assert_int_equal(p->route.udp_source_port, 0xc001);
	assert_int_equal(p->route.sgid_index, 7);
	assert_int_equal(p->route.flow_label, 0x54321);
	assert_int_equal(p->route.tclass, 0x21);
	assert_int_equal(p->route.hop_limit, 63);
	assert_memory_equal(p->route.dgid, av + 32, 16);
	couple_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagram_of_any_size_arrives),
		cmocka_unit_test(ipv4_header_ends_the_40_bytes),
		cmocka_unit_test(ipv6_header_fills_the_40_bytes),
		cmocka_unit_test(infiniband_has_a_grh_or_none),
		cmocka_unit_test(wrong_qkey_and_missing_receive_lose_it),
		cmocka_unit_test(privileged_qkey_means_the_queue_pairs_own),
		cmocka_unit_test(datagram_that_fits_no_receive_fails_the_receiver),
		cmocka_unit_test(send_error_stops_sending_only),
		cmocka_unit_test(port_that_carries_less_now_refuses_what_it_carried),
		cmocka_unit_test(address_vector_says_where_it_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
