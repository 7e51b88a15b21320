/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_gauge.c - what a reader sees of the bytes that are on their way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "sim/hca/tests/common/pair.h"

enum { SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, MTU = 1024, FIRST_PSN = 0xfffff0 };

static struct pair *cut_pair(void)
{
	struct pair *p = pair_create(NULL, NULL);

	p->f->is_cut = true;
	return p;
}

static const struct hca_gauges *gauges(const struct pair *p)
{
	return &p->f->host[0].gauges;
}

static const struct hca_in_flight *entry_of(const struct pair *p, uint32_t qpn)
{
	for (int i = 0; i < HCA_GAUGES; i++)
		if (gauges(p)->qps[i].qpn == qpn)
			return &gauges(p)->qps[i];
	return NULL;
}

static void unacknowledged_bytes_are_shown_with_their_psns(void **state)
{
	struct pair *p = cut_pair();
	const struct hca_in_flight *e;

	(void)state;
	assert_null(entry_of(p, p->a->qpn));
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 18 * MTU + 1, 0, 0);
	e = entry_of(p, p->a->qpn);
	assert_non_null(e);
	assert_int_equal(e->bytes, 18 * MTU + 1);
	assert_int_equal(e->first_psn, FIRST_PSN);
	assert_int_equal(e->next_psn, (FIRST_PSN + 19) & HCA_PSN_MASK);
	assert_int_equal(gauges(p)->bytes_in_flight, 18 * MTU + 1);
	p->f->is_cut = false;
	pair_completion(p, p->a->send_cq);
	assert_null(entry_of(p, p->a->qpn));
	assert_int_equal(gauges(p)->bytes_in_flight, 0);
	pair_destroy(p);
}

static void small_messages_count_as_small(void **state)
{
	struct pair *p = cut_pair();

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, i, 0, 0);
	assert_int_equal(hca_qp_bytes_in_flight(p->a->qp), 10);
	assert_int_equal(gauges(p)->bytes_in_flight, 10);
	pair_destroy(p);
}

static void reads_count_what_was_asked_for(void **state)
{
	struct pair *p = cut_pair();

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 3 * MTU - 5, 0, 0);
	assert_int_equal(gauges(p)->bytes_in_flight, 3 * MTU - 5);
	assert_int_equal(entry_of(p, p->a->qpn)->next_psn, FIRST_PSN + 3);
	pair_destroy(p);
}

static bool one_is_acknowledged(void *ctx, int from, struct hca_packet *p)
{
	(void)ctx;
	return from || p->psn == FIRST_PSN;
}

static void acknowledged_packets_leave_one_by_one(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->f->filter = one_is_acknowledged;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 100, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 1000, 0, 0);
	fabric_run(p->f, 1000000);
	assert_int_equal(entry_of(p, p->a->qpn)->bytes, 1000);
	assert_int_equal(entry_of(p, p->a->qpn)->first_psn, FIRST_PSN + 1);
	pair_destroy(p);
}

static void failed_queue_has_nothing_on_its_way(void **state)
{
	struct pair *p = cut_pair();

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, MTU, 0, 0);
	hca_remove(p->f->host[0].hca);
	assert_null(entry_of(p, p->a->qpn));
	assert_int_equal(gauges(p)->bytes_in_flight, 0);
	pair_destroy(p);
}

static void reset_queue_has_nothing_on_its_way(void **state)
{
	struct hca_qp_values v = { .state = HCA_QP_RESET };
	struct pair *p = cut_pair();

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, MTU, 0, 0);
	assert_int_equal(hca_qp_modify(p->a->qp, &v, IBV_QP_STATE), 0);
	assert_null(entry_of(p, p->a->qpn));
	assert_int_equal(gauges(p)->bytes_in_flight, 0);
	pair_destroy(p);
}

static void more_queues_than_places_are_counted_all_the_same(void **state)
{
	struct pair *p = cut_pair();
	struct fabric_qp *qps[HCA_GAUGES + 1];
	struct fabric_qp_options o = { .transport = HCA_RC, .send_cq = p->a->send_cq,
				       .recv_cq = p->a->recv_cq };
	struct fabric_sge s = pair_piece(&p->near, 0, 7);
	struct fabric_wr w = { .opcode = MLX5_OPCODE_RDMA_WRITE, .sge = &s, .nr_sge = 1 };

	(void)state;
	for (int i = 0; i <= HCA_GAUGES; i++) {
		qps[i] = fabric_qp_create(&p->f->host[0], &o);
		fabric_connect_to(qps[i], 2, 0, 0, &fabric_usual);
		fabric_post(qps[i], &w);
	}
	assert_int_equal(gauges(p)->bytes_in_flight, 7 * (HCA_GAUGES + 1));
	assert_non_null(entry_of(p, qps[0]->qpn));
	assert_null(entry_of(p, qps[HCA_GAUGES]->qpn));
	fabric_qp_destroy(qps[0]);
	fabric_post(qps[HCA_GAUGES], &w);
	assert_int_equal(entry_of(p, qps[HCA_GAUGES]->qpn)->bytes, 14);
	for (int i = 1; i <= HCA_GAUGES; i++)
		fabric_qp_destroy(qps[i]);
	assert_int_equal(gauges(p)->bytes_in_flight, 0);
	pair_destroy(p);
}

static void datagrams_are_never_on_their_way(void **state)
{
	struct fabric *f = fabric_create(true);
	struct fabric_qp *qp = fabric_qp_create(&f->host[0],
						&(struct fabric_qp_options) { .transport = HCA_UD });
	struct fabric_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;

	(void)state;
	fabric_start_ud(qp, 7);
	fabric_post(qp, &(struct fabric_wr) { .opcode = MLX5_OPCODE_SEND, .qkey = 7,
					      .dest_qpn = 0x20002, .inline_data = "ping",
					      .inline_bytes = 4 });
	assert_int_equal(f->host[0].counters.packets_sent, 1);
	assert_int_equal(f->host[0].gauges.bytes_in_flight, 0);
	assert_int_equal(hca_qp_bytes_in_flight(qp->qp), 0);
	fabric_qp_destroy(qp);
	fabric_cq_destroy(send_cq);
	fabric_cq_destroy(recv_cq);
	fabric_destroy(f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(unacknowledged_bytes_are_shown_with_their_psns),
		cmocka_unit_test(small_messages_count_as_small),
		cmocka_unit_test(reads_count_what_was_asked_for),
		cmocka_unit_test(acknowledged_packets_leave_one_by_one),
		cmocka_unit_test(failed_queue_has_nothing_on_its_way),
		cmocka_unit_test(reset_queue_has_nothing_on_its_way),
		cmocka_unit_test(more_queues_than_places_are_counted_all_the_same),
		cmocka_unit_test(datagrams_are_never_on_their_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
