/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cm_lost.c - what a lost, a repeated or a stale message of the connection manager
 * does, and peers that never answer or leave.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/cm_fix.h"

static void test_lost_messages_are_sent_again(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client, server;
	uint64_t due;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, client, "");
	cm_fix_expect_message(CM_REQ);
	due = cm_timers(a->cm);
	assert_int_equal(cm_fix_nr_wire, 0);
	cm_fix_clock_ns = due;
	cm_timers(a->cm);
	cm_fix_pass_on(CM_REQ);
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	server = e.id;
	cm_fix_accept_as(b, server, SERVER, "");
	cm_fix_expect_message(CM_REP);
	cm_fix_clock_ns = cm_timers(b->cm);
	cm_timers(b->cm);
	cm_fix_pass_on(CM_REP);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	cm_fix_establish(a, client);
	cm_fix_expect_message(CM_RTU);
	cm_fix_clock_ns = cm_timers(b->cm);
	cm_timers(b->cm);
	cm_fix_pass_on(CM_REP);
	cm_fix_pass_on(CM_RTU);
	cm_fix_expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	cm_fix_disconnect(a, client);
	cm_fix_expect_message(CM_DREQ);
	cm_fix_clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	cm_fix_pass_on(CM_DREQ);
	cm_fix_expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
	cm_fix_disconnect(b, server);
	cm_fix_expect_message(CM_DREP);
	cm_fix_clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	cm_fix_pass_on(CM_DREQ);		/* TIMEWAIT may be over: answered all the same */
	cm_fix_pass_on(CM_DREP);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
}

static void test_repeated_request_makes_one_id(void **state)
{
	uint32_t client;
	struct cm_fix_packet w;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, client, "");
	w = cm_fix_expect_message(CM_REQ);
	cm_fix_arrive(&w);
	cm_fix_arrive(&w);
	cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_expect_no_event(b);
	cm_fix_pass_on(CM_MRA);
	/* The program takes longer than a try; after MRA nothing is sent until it was to end. */
	cm_fix_clock_ns += 5000000000ull;
	cm_timers(a->cm);
	assert_int_equal(cm_fix_nr_wire, 0);
}

static void test_silence_ends_in_unreachable(void **state)
{
	uint32_t client;
	int i;

	(void)state;
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, client, "");
	for (i = 0; i < 15; i++) {
		cm_fix_expect_message(CM_REQ);
		cm_fix_clock_ns = cm_timers(a->cm);
		cm_timers(a->cm);
	}
	cm_fix_expect_message(CM_REQ);
	cm_fix_expect_no_event(a);
	cm_fix_clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	assert_int_equal(cm_fix_nr_wire, 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void test_backlog_is_kept(void **state)
{
	uint32_t clients[6], i;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);		/* 4 may wait */
	for (i = 0; i < 6; i++) {
		clients[i] = cm_fix_client_on_a(RDMA_PS_TCP);
		cm_fix_connect_to(a, clients[i], "");
		cm_fix_deliver_all();
	}
	for (i = 0; i < 4; i++)
		cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_expect_no_event(b);
	cm_fix_clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	cm_fix_deliver_all();	/* the last two ask again, the others get MRA */
	cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_expect_no_event(b);
}

static void test_destroyed_listener_refuses_what_waits(void **state)
{
	uint32_t listener, client;

	(void)state;
	listener = cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, client, "");
	cm_fix_deliver_all();
	assert_int_equal(cm_fix_destroy(b, listener), 0);
	assert_true(cm_fix_result.drained);
	cm_fix_expect_no_event(b);
	cm_fix_pass_on(CM_REJ);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
	assert_null(b->cm->ids);
}

static void test_client_that_leaves_tells_the_server(void **state)
{
	uint32_t client, server;

	(void)state;
	server = cm_fix_ask(&client, "");
	cm_fix_destroy(a, client);
	cm_fix_pass_on(CM_REJ);
	cm_fix_expect_no_event(b);			/* the program has not named the id yet */
	assert_int_equal(cm_fix_accept_as(b, server, SERVER, ""), -EINVAL);
}

static void test_reborn_qp_ends_the_old_connection(void **state)
{
	uint32_t client, server, again;

	(void)state;
	cm_fix_connect_both(&client, &server);
	cm_connection_free(a->cm, a->cm->connections);	/* as if host A had died */
	again = cm_fix_client_on_a(RDMA_PS_TCP);
	cm_fix_connect_to(a, again, "");
	cm_fix_pass_on(CM_REQ);
	cm_fix_pass_on(CM_REJ);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_STALE_CONNECTION);
	cm_fix_pass_on(CM_DREQ);
	cm_fix_pass_on(CM_DREP);
	cm_fix_expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROCE(test_lost_messages_are_sent_again),
		ROCE(test_repeated_request_makes_one_id),
		ROCE(test_silence_ends_in_unreachable),
		ROCE(test_backlog_is_kept),
		ROCE(test_destroyed_listener_refuses_what_waits),
		ROCE(test_client_that_leaves_tells_the_server),
		ROCE(test_reborn_qp_ends_the_old_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
