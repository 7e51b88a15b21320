/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cm_names.c - addresses, ports, routes and services as the connection manager finds
 * and tells them, and what it refuses.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/cm_fix.h"

static void test_query_route_tells_both_sides(void **state)
{
	struct rdma_ucm_query_route_resp r;
	struct sockaddr_in6 expected = cm_fix_address(0x0a000002, LISTEN_PORT);
	uint32_t client, server;
	struct rdma_ucm_query cmd;

	(void)state;
	cm_fix_connect_both(&client, &server);
	cmd = (struct rdma_ucm_query){ .id = client };
	assert_int_equal(COMMAND(a, QUERY_ROUTE, cmd, sizeof(r)), 0);
	memcpy(&r, cm_fix_result.reply, sizeof(r));
	assert_int_equal(be64toh(r.node_guid), 0x1001);
	assert_int_equal(r.port_num, 1);
	assert_int_equal(r.num_paths, 1);
	assert_memory_equal(&r.dst_addr, &expected, sizeof(struct sockaddr_in));
	cmd.id = server;
	assert_int_equal(COMMAND(b, QUERY_ROUTE, cmd, sizeof(r)), 0);
	memcpy(&r, cm_fix_result.reply, sizeof(r));
	assert_int_equal(be64toh(r.node_guid), 0x1002);
	assert_memory_equal(&r.src_addr, &expected, sizeof(struct sockaddr_in));
	assert_int_equal(r.ib_route[0].mtu, IBV_MTU_1024);
}

static uint32_t query(struct cm_fix_host *h, uint32_t id, uint32_t option, void *out,
		      uint32_t bytes)
{
	struct rdma_ucm_query cmd = { .id = id, .option = option };

	assert_int_equal(COMMAND(h, QUERY, cmd, bytes), 0);
	memcpy(out, cm_fix_result.reply, cm_fix_result.reply_bytes);
	return cm_fix_result.reply_bytes;
}

/* What librdmacm would ask for if AF_IB were on, and other programs do ask for. */
static void test_query_by_option(void **state)
{
	struct rdma_ucm_query_addr_resp addr;
	struct sockaddr_in6 expected = cm_fix_address(0x0a000002, LISTEN_PORT);
	uint8_t gid[16], path[8 + 72];
	uint32_t client = cm_fix_create(a, CLIENT, RDMA_PS_TCP), one = 1;

	(void)state;
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_PATH, path, sizeof(path)), 8);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_ADDR, &addr, sizeof(addr)),
			 sizeof(addr));
	assert_int_equal(addr.dst_size, sizeof(struct sockaddr_in));
	assert_memory_equal(&addr.dst_addr, &expected, sizeof(struct sockaddr_in));
	assert_int_equal(be64toh(addr.node_guid), 0x1001);
	query(a, client, RDMA_USER_CM_QUERY_GID, &addr, sizeof(addr));
	assert_int_equal(addr.dst_addr.ss_family, 27);
	cm_fix_gid_of(b, gid);
	assert_memory_equal((uint8_t *)&addr.dst_addr + 8, gid, 16);
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_PATH, path, sizeof(path)), 80);
	assert_memory_equal(path, &one, sizeof(one));
	assert_memory_equal(path + 16 + 8, gid, 16);	/* behind counts and flags: dgid */
	assert_int_equal(path[16 + 54], 2 << 6 | IBV_MTU_1024);
}

static int set_path(struct cm_fix_host *h, uint32_t id, const struct ib_path_rec_data *path)
{
	struct rdma_ucm_set_option cmd = {
		.id = id, .level = RDMA_OPTION_IB, .optname = RDMA_OPTION_IB_PATH,
	};

	memset(&cm_fix_result, 0, sizeof(cm_fix_result));
	cm_fix_result.file = h->file;
	cm_fix_result.command = RDMA_USER_CM_CMD_SET_OPTION;
	cm_fix_result.in_bytes = sizeof(cmd);
	cm_fix_result.option_bytes = sizeof(*path);
	memcpy(cm_fix_result.in, &cmd, sizeof(cmd));
	memcpy(cm_fix_result.option, path, sizeof(*path));
	return cm_command(&cm_fix_result);
}

/* A path from elsewhere, as ibacm finds them, resolves the route. */
static void test_path_by_option(void **state)
{
	struct ib_path_rec_data path;
	uint8_t reply[8 + sizeof(path)];
	uint32_t first = cm_fix_client_on_a(RDMA_PS_TCP);
	uint32_t id = cm_fix_create(a, CLIENT, RDMA_PS_TCP);

	(void)state;
	query(a, first, RDMA_USER_CM_QUERY_PATH, reply, sizeof(reply));
	memcpy(&path, reply + 8, sizeof(path));
	((uint8_t *)path.path_rec)[54] = IBV_MTU_512;
	cm_fix_resolve(a, id, 0x0a000002, LISTEN_PORT);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	path.flags ^= IB_PATH_PRIMARY;
	assert_int_equal(set_path(a, id, &path), -EINVAL);
	path.flags ^= IB_PATH_PRIMARY;
	assert_int_equal(set_path(a, id, &path), 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(set_path(a, id, &path), -EINVAL);
	query(a, id, RDMA_USER_CM_QUERY_PATH, reply, sizeof(reply));
	assert_int_equal(reply[16 + 54], 2 << 6 | IBV_MTU_512);
}

static int notify(struct cm_fix_host *h, uint32_t id, uint32_t event)
{
	struct rdma_ucm_notify cmd = { .id = id, .event = event };

	return COMMAND(h, NOTIFY, cmd, 0);
}

/* Data came before the RTU did: the program tells, and is told that it is connected. */
static void test_notify_stands_in_for_a_lost_rtu(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_TCP);
	client = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(notify(a, client, IBV_EVENT_COMM_EST), -EINVAL);
	cm_fix_connect_to(a, client, "");
	cm_fix_deliver_all();
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_accept_as(b, e.id, SERVER, "");
	cm_fix_deliver_all();
	assert_int_equal(notify(b, e.id, IBV_EVENT_PATH_MIG), -EINVAL);
	assert_int_equal(notify(b, e.id, IBV_EVENT_COMM_EST), 0);
	cm_fix_expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(notify(b, e.id, IBV_EVENT_COMM_EST), -EISCONN);
}

static void test_ports(void **state)
{
	uint32_t one = cm_fix_create(a, 1, RDMA_PS_TCP), two = cm_fix_create(a, 2, RDMA_PS_TCP);
	uint32_t udp = cm_fix_create(a, 3, RDMA_PS_UDP), reuse = 1;
	struct rdma_ucm_set_option option = {
		.id = two, .level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_REUSEADDR,
	};

	(void)state;
	assert_int_equal(cm_fix_bind_to(a, one, 0x0a000009, 5), -EADDRNOTAVAIL);
	assert_int_equal(cm_fix_bind_to(a, one, 0x0a000001, 5), 0);
	assert_int_equal(cm_fix_bind_to(a, one, 0x0a000001, 6), -EINVAL);
	assert_int_equal(cm_fix_bind_to(a, two, INADDR_ANY, 5), -EADDRINUSE);
	assert_int_equal(cm_fix_bind_to(a, udp, INADDR_ANY, 5), 0);
	assert_int_equal(COMMAND(a, SET_OPTION, option, 0), -EINVAL);
	memset(&cm_fix_result, 0, sizeof(cm_fix_result));
	cm_fix_result.file = a->file;
	cm_fix_result.command = RDMA_USER_CM_CMD_SET_OPTION;
	cm_fix_result.in_bytes = sizeof(option);
	cm_fix_result.option_bytes = sizeof(reuse);
	memcpy(cm_fix_result.in, &option, sizeof(option));
	memcpy(cm_fix_result.option, &reuse, sizeof(reuse));
	assert_int_equal(cm_command(&cm_fix_result), 0);
	/* one does not allow it */
	assert_int_equal(cm_fix_bind_to(a, two, INADDR_ANY, 5), -EADDRINUSE);
	assert_int_equal(cm_fix_bind_to(a, two, INADDR_ANY, 0), 0);
	assert_int_equal(cm_fix_listen_on(a, two, 0), 0);
	assert_int_equal(cm_fix_listen_on(a, two, 0), -EINVAL);
}

/* A loopback address that no device has is a wildcard when bound, and any device when
 * it is connected to. */
static void test_loopback_without_a_device(void **state)
{
	uint32_t listener = cm_fix_create(a, LISTENER, RDMA_PS_TCP);
	uint32_t other = cm_fix_create(a, 5, RDMA_PS_TCP);
	uint32_t id = cm_fix_create(a, CLIENT, RDMA_PS_TCP);
	struct ib_uverbs_qp_attr attr;
	uint8_t gid[16];

	(void)state;
	assert_int_equal(cm_fix_bind_to(a, listener, 0x7f000001, 9), 0);
	assert_int_equal(cm_fix_bind_to(a, other, INADDR_ANY, 9), -EADDRINUSE);
	assert_int_equal(cm_fix_qp_attributes(a, listener, IBV_QPS_INIT, &attr), -EINVAL);
	cm_fix_listen_on(a, listener, 1);
	cm_fix_resolve(a, id, 0x7f000001, 9);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	cm_fix_resolve_route(a, id);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	cm_fix_connect_to(a, id, "");
	cm_fix_deliver_all();
	id = cm_fix_expect_event(a, LISTENER, CM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(cm_fix_qp_attributes(a, id, IBV_QPS_RTR, &attr), 0);
	cm_fix_gid_of(a, gid);
	if (!cm_fix_is_ib)
		assert_memory_equal(attr.ah_attr.grh.dgid, gid, 16);
}

static void test_af_ib_is_off(void **state)
{
	struct rdma_ucm_bind cmd = { .id = cm_fix_create(a, 1, RDMA_PS_IB), .addr_size = 48 };

	(void)state;
	cmd.addr.ss_family = 27;
	assert_int_equal(COMMAND(a, BIND, cmd, 0), -EAFNOSUPPORT);
	cmd.addr_size = 47;
	assert_int_equal(COMMAND(a, BIND, cmd, 0), -EINVAL);
}

static void test_unreachable_address_is_an_event(void **state)
{
	uint32_t id = cm_fix_create(a, CLIENT, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cm_fix_resolve(a, id, 0xc0a80001, 1), 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_ERROR, -ENETUNREACH);
	assert_int_equal(cm_fix_resolve_route(a, id), -EINVAL);
	assert_int_equal(cm_fix_resolve(a, id, 0x0a000002, 1), 0);	/* another try is allowed */
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cm_fix_connect_to(a, id, ""), -EINVAL);	/* the route is missing */
}

static void test_refusals(void **state)
{
	struct rdma_ucm_create_id bad = { .ps = 0x777 };
	struct rdma_ucm_query q = { .id = 77, .option = 9 };
	struct rdma_ucm_join_ip_mcast join = { .addr = cm_fix_address(0xe0000001, 0) };
	uint32_t id = cm_fix_create(a, 1, RDMA_PS_TCP);
	struct ib_uverbs_qp_attr attr;
	char long_text[58];

	(void)state;
	memset(long_text, 'x', sizeof(long_text));
	long_text[57] = 0;
	assert_int_equal(COMMAND(a, CREATE_ID, bad, 4), -EINVAL);
	assert_int_equal(COMMAND(a, CREATE_ID, bad, 3), -ENOSPC);
	assert_int_equal(COMMAND(a, QUERY, q, 400), -ENOENT);
	q.id = id;
	assert_int_equal(COMMAND(a, QUERY, q, 400), -ENOSYS);
	assert_int_equal(cm_fix_destroy(a, 12345), -ENOENT);
	assert_int_equal(cm_fix_destroy(a, UINT32_MAX), -ENOENT);
	assert_int_equal(cm_fix_establish(a, id), -EINVAL);
	assert_int_equal(cm_fix_disconnect(a, id), -EINVAL);
	assert_int_equal(cm_fix_reject(a, id, ""), -EINVAL);
	assert_int_equal(cm_fix_qp_attributes(a, id, IBV_QPS_INIT, &attr), -EINVAL);
	assert_int_equal(COMMAND(a, JOIN_IP_MCAST, join, 4), -EINVAL);
	assert_int_equal(COMMAND(a, LEAVE_MCAST, q, 4), -ENOENT);
	assert_int_equal(cm_fix_command_at(a->file, RDMA_USER_CM_CMD_GET_OPTION, &q, 8, 8),
			 -ENOSYS);
	assert_int_equal(cm_fix_command_at(a->file, 99, &q, 8, 8), -EINVAL);
	assert_int_equal(cm_fix_command_at(a->file, RDMA_USER_CM_CMD_LISTEN, &q, 4, 0), -EINVAL);
	id = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(cm_fix_connect_to(a, id, long_text), -EINVAL);
	assert_int_equal(cm_fix_connect_to(a, id, long_text + 1), 0);
}

static void test_migrate_takes_events_along(void **state)
{
	struct cm_file *other = cm_file_create(a->cm, b, cm_fix_set_readable);
	uint32_t id = cm_fix_create(a, CLIENT, RDMA_PS_TCP);
	struct rdma_ucm_migrate_id cmd = { .id = id };

	(void)state;
	other->cookie = 7;
	cm_fix_resolve(a, id, 0x0a000002, 1);
	memset(&cm_fix_result, 0, sizeof(cm_fix_result));
	cm_fix_result.file = other;
	cm_fix_result.command = RDMA_USER_CM_CMD_MIGRATE_ID;
	cm_fix_result.cookie = a->file->cookie;
	cm_fix_result.in_bytes = sizeof(cmd);
	cm_fix_result.out_bytes = 4;
	memcpy(cm_fix_result.in, &cmd, sizeof(cmd));
	assert_int_equal(cm_command(&cm_fix_result), 0);
	assert_true(cm_fix_result.old_drained);
	a->readable = false;
	cm_fix_expect_no_event(a);
	assert_int_equal(cm_fix_destroy(a, id), -EINVAL);
	assert_true(b->readable);
	cm_file_close(other);
	assert_null(a->cm->ids);
}

static void test_sidr_finds_the_qp(void **state)
{
	struct rdma_ucm_event_resp e;
	struct ib_uverbs_qp_attr attr;
	uint32_t client;
	struct cm_fix_packet w;

	(void)state;
	cm_fix_listener_on_b(RDMA_PS_UDP);
	client = cm_fix_client_on_a(RDMA_PS_UDP);
	assert_int_equal(cm_fix_qp_attributes(a, client, IBV_QPS_INIT, &attr), 0);
	assert_int_equal(attr.qkey, CM_UDP_QKEY);
	assert_int_equal(cm_fix_connect_to(a, client, "ask"), 0);
	w = cm_fix_expect_message(CM_SIDR_REQ);
	cm_fix_arrive(&w);
	cm_fix_arrive(&w);
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	cm_fix_expect_no_event(b);
	assert_int_equal(e.param.ud.private_data_len, 180);
	assert_memory_equal(e.param.ud.private_data, "ask\0", 4);
	assert_int_equal(cm_fix_accept_as(b, e.id, SERVER, "answer"), 0);
	cm_fix_expect_message(CM_SIDR_REP);
	cm_fix_arrive(&w);				/* the answer was lost: it is given again */
	cm_fix_pass_on(CM_SIDR_REP);
	e = cm_fix_expect_event(a, CLIENT, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(e.param.ud.qp_num, B_QPN);
	assert_int_equal(e.param.ud.qkey, CM_UDP_QKEY);
	assert_int_equal(e.param.ud.ah_attr.is_global, !cm_fix_is_ib);
	assert_int_equal(e.param.ud.private_data_len, 136);
	assert_memory_equal(e.param.ud.private_data, "answer\0", 7);
	assert_int_equal(cm_fix_disconnect(a, client), 0);
	assert_int_equal(cm_fix_nr_wire, 0);
}

static void test_sidr_refused(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client = cm_fix_client_on_a(RDMA_PS_UDP), listener;

	(void)state;
	cm_fix_connect_to(a, client, "");
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	listener = cm_fix_listener_on_b(RDMA_PS_UDP);
	client = cm_fix_client_on_a(RDMA_PS_UDP);
	cm_fix_connect_to(a, client, "");
	cm_fix_deliver_all();
	e = cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(cm_fix_destroy(b, e.id), 0);
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, CM_SIDR_REJECTED);
	assert_int_equal(cm_fix_destroy(b, listener), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROCE(test_query_route_tells_both_sides),
		ROCE(test_query_by_option),
		IB(test_query_by_option),
		ROCE(test_path_by_option),
		ROCE(test_notify_stands_in_for_a_lost_rtu),
		ROCE(test_ports),
		ROCE(test_loopback_without_a_device),
		IB(test_loopback_without_a_device),
		ROCE(test_af_ib_is_off),
		ROCE(test_unreachable_address_is_an_event),
		ROCE(test_refusals),
		ROCE(test_migrate_takes_events_along),
		ROCE(test_sidr_finds_the_qp),
		IB(test_sidr_finds_the_qp),
		ROCE(test_sidr_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
