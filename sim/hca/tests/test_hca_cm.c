/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cm.c - connections of two hosts: every command as librdmacm gives it, what comes
 * back, what is sent.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/cm_fix.h"

static void test_connect_carries_everything(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(cm_fix_connect_to(a, client, "ask"), 0);
	cm_fix_pass_on(CM_REQ);
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(e.param.conn.private_data_len, 56);
	assert_memory_equal(e.param.conn.private_data, "ask\0", 4);
	assert_int_equal(e.param.conn.qp_num, A_QPN);
	assert_int_equal(e.param.conn.responder_resources, 5);	/* his depth is our resources */
	assert_int_equal(e.param.conn.initiator_depth, 3);
	assert_int_equal(e.param.conn.retry_count, 7);
	assert_int_equal(e.param.conn.rnr_retry_count, 6);
	assert_int_equal(e.ece.vendor_id, 0x15b3);
	assert_int_equal(e.ece.attr_mod, 0x77);
	assert_int_equal(cm_fix_accept_as(b, e.id, SERVER, "answer"), 0);
	cm_fix_pass_on(CM_REP);
	e = cm_fix_expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(e.param.conn.private_data_len, 196);
	assert_memory_equal(e.param.conn.private_data, "answer\0", 7);
	assert_int_equal(e.param.conn.qp_num, B_QPN);
	assert_int_equal(e.ece.vendor_id, 0x15b3);
	assert_int_equal(e.ece.attr_mod, 0x66);
	assert_int_equal(cm_fix_establish(a, client), 0);
	cm_fix_pass_on(CM_RTU);
	cm_fix_expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(cm_fix_nr_wire, 0);
}

static void test_qp_attributes_fit_together(void **state)
{
	struct ib_uverbs_qp_attr ar, as, br, bs;
	struct rdma_ucm_event_resp e;
	uint8_t gid[16];
	uint32_t client;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(cm_fix_qp_attributes(a, client, IBV_QPS_INIT, &ar), 0);
	assert_int_equal(ar.qp_attr_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS);
	assert_int_equal(ar.port_num, 1);
	cm_fix_connect_to(a, client, "");
	assert_int_equal(cm_fix_qp_attributes(a, client, IBV_QPS_RTR, &ar), -EINVAL);
	cm_fix_deliver_all();
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(cm_fix_qp_attributes(b, e.id, IBV_QPS_RTR, &br), 0);
	assert_int_equal(cm_fix_qp_attributes(b, e.id, IBV_QPS_RTS, &bs), 0);
	cm_fix_accept_as(b, e.id, SERVER, "");
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(cm_fix_qp_attributes(a, client, IBV_QPS_RTR, &ar), 0);
	assert_int_equal(cm_fix_qp_attributes(a, client, IBV_QPS_RTS, &as), 0);
	assert_int_equal(ar.rq_psn, bs.sq_psn);
	assert_int_equal(br.rq_psn, as.sq_psn);
	assert_int_equal(ar.dest_qp_num, B_QPN);
	assert_int_equal(br.dest_qp_num, A_QPN);
	assert_int_equal(ar.path_mtu, IBV_MTU_1024);
	assert_int_equal(br.path_mtu, IBV_MTU_1024);
	assert_int_equal(br.max_dest_rd_atomic, 5);
	assert_int_equal(bs.max_rd_atomic, 3);
	assert_int_equal(as.retry_cnt, 7);
	assert_int_equal(bs.rnr_retry, 6);
	assert_int_equal(as.timeout, cm_fix_is_ib ? 17 : 18);
	assert_int_equal(bs.timeout, as.timeout);
	assert_int_equal(ar.ah_attr.is_global, !cm_fix_is_ib);
	if (cm_fix_is_ib) {
		assert_int_equal(ar.ah_attr.dlid, 2);
		assert_int_equal(br.ah_attr.dlid, 1);
		return;
	}
	cm_fix_gid_of(b, gid);
	assert_memory_equal(ar.ah_attr.grh.dgid, gid, 16);
	assert_int_equal(ar.ah_attr.grh.sgid_index, 1);
	cm_fix_gid_of(a, gid);
	assert_memory_equal(br.ah_attr.grh.dgid, gid, 16);
	assert_int_equal(br.ah_attr.grh.sgid_index, 1);
}

static void test_disconnect_from_either_side(void **state)
{
	uint32_t client, server;

	(void)state;
	cm_fix_connect_both(&client, &server);
	assert_int_equal(cm_fix_disconnect(a, client), 0);
	cm_fix_pass_on(CM_DREQ);
	cm_fix_expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(cm_fix_disconnect(b, server), 0);
	cm_fix_pass_on(CM_DREP);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	cm_fix_clock_ns += 10000000000ull;
	cm_timers(a->cm);
	cm_timers(b->cm);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_fix_expect_event(b, SERVER, CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_int_equal(cm_fix_destroy(a, client), 5);
	assert_int_equal(cm_fix_destroy(b, server), 3);
}

static void test_both_disconnect_at_once(void **state)
{
	uint32_t client, server;

	(void)state;
	cm_fix_connect_both(&client, &server);
	cm_fix_disconnect(a, client);
	cm_fix_disconnect(b, server);
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	cm_fix_expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
}

static void test_closed_channel_disconnects_its_peers(void **state)
{
	uint32_t client, server;

	(void)state;
	cm_fix_connect_both(&client, &server);
	cm_file_close(b->file);
	cm_fix_pass_on(CM_DREQ);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(cm_fix_destroy(a, client), 4);
	cm_fix_pass_on(CM_DREP);
	cm_fix_clock_ns += 10000000000ull;
	assert_int_equal(cm_timers(a->cm), UINT64_MAX);
	assert_int_equal(cm_timers(b->cm), UINT64_MAX);
	assert_null(a->cm->connections);
	assert_null(b->cm->connections);
}

static void test_reject_carries_private_data(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client, server;

	(void)state;
	server = cm_fix_ask(&client, "");
	assert_int_equal(cm_fix_reject(b, server, "no"), 0);
	assert_int_equal(cm_fix_reject(b, server, "no"), -EINVAL);
	cm_fix_deliver_all();
	e = cm_fix_expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
	assert_int_equal(e.param.conn.private_data_len, 148);
	assert_memory_equal(e.param.conn.private_data, "no\0", 3);
}

static void test_nobody_listens(void **state)
{
	uint32_t client;

	(void)state;
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, client, "");
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_INVALID_SERVICE_ID);
}

static void test_removed_device_is_told(void **state)
{
	(void)state;
	cm_fix_client_on_a(RDMA_PS_TCP);
	cm_device_removed(a->cm, 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DEVICE_REMOVAL, 0);
}

static void test_host_talks_to_itself(void **state)
{
	uint32_t listener = cm_fix_create(a, LISTENER, RDMA_PS_TCP);
	uint32_t id = cm_fix_create(a, CLIENT, RDMA_PS_TCP);
	struct rdma_ucm_event_resp e;

	(void)state;
	cm_fix_bind_to(a, listener, 0x0a000001, 9);
	cm_fix_listen_on(a, listener, 1);
	cm_fix_resolve(a, id, 0x0a000001, 9);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	cm_fix_resolve_route(a, id);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	cm_fix_connect_to(a, id, "");
	cm_fix_deliver_all();
	e = cm_fix_expect_event(a, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_accept_as(a, e.id, SERVER, "");
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	cm_fix_establish(a, id);
	cm_fix_deliver_all();
	cm_fix_expect_event(a, SERVER, CM_EVENT_ESTABLISHED, 0);
	cm_fix_disconnect(a, e.id);
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROCE(test_connect_carries_everything),
		IB(test_connect_carries_everything),
		ROCE(test_qp_attributes_fit_together),
		IB(test_qp_attributes_fit_together),
		ROCE(test_disconnect_from_either_side),
		ROCE(test_both_disconnect_at_once),
		ROCE(test_closed_channel_disconnects_its_peers),
		ROCE(test_reject_carries_private_data),
		ROCE(test_nobody_listens),
		ROCE(test_removed_device_is_told),
		ROCE(test_host_talks_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
