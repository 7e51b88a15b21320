/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cm.c - the connection manager of two hosts, joined by a wire that the test
 * holds in its hand: every command as librdmacm gives it, what comes back, what is sent;
 * and what a lost, a repeated or a stale message does.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/cm/core.h"

enum { MAX_WIRE = 64, LISTEN_PORT = 7174, A_QPN = 0x10005, B_QPN = 0x20006 };

/* ---- two hosts ------------------------------------------------------------------------- */

struct host {
	struct cm *cm;
	struct host *peer;
	uint8_t last_octet;		/* of 10.0.0.x */
	struct cm_file *file;
	bool readable;
};

struct packet {
	struct host *to;
	struct hca_packet p;
	uint8_t bytes[CM_MAD_BYTES];
};

static struct host hosts[2];
static struct host *const a = &hosts[0], *const b = &hosts[1];
static struct packet wire[MAX_WIRE];
static uint32_t nr_wire;
static uint64_t clock_ns;
static bool is_ib;

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

static void ip_of(const struct host *h, uint8_t ip[16])
{
	memcpy(ip, v4_prefix, 12);
	memcpy(ip + 12, (uint8_t[]){ 10, 0, 0, h->last_octet }, 4);
}

static void gid_of(const struct host *h, uint8_t gid[16])
{
	ip_of(h, gid);
	if (is_ib)
		memcpy(gid, (uint8_t[]){ 0xfe, 0x80, 0, 0 }, 4);
}

static void env_send(void *ctx, uint32_t device, const struct hca_packet *p)
{
	struct host *h = ctx;
	struct packet *w = &wire[nr_wire++];
	uint8_t own[16];

	assert_true(nr_wire <= MAX_WIRE);
	assert_int_equal(device, 0);
	assert_int_equal(p->length, CM_MAD_BYTES);
	gid_of(h, own);
	w->p = *p;
	memcpy(w->bytes, p->payload, CM_MAD_BYTES);
	w->to = memcmp(p->route.dgid, own, 16) ? h->peer : h;
}

static uint64_t env_now(void *ctx)
{
	(void)ctx;
	return clock_ns;
}

static bool env_port(void *ctx, struct cm_place at, struct cm_port *out)
{
	const struct host *h = ctx;

	if (at.device || at.port != 1)
		return false;
	*out = (struct cm_port){
		.node_guid = 0x1000 + h->last_octet,
		.is_ethernet = !is_ib,
		.lid = is_ib ? h->last_octet : 0,
		.path_mtu_bytes = 1024,
		.ibdev_index = 0,
	};
	return true;
}

static bool env_gid(void *ctx, struct cm_place at, uint32_t index, uint8_t gid[16])
{
	(void)at;
	if (index > 1)
		return false;
	memset(gid, 0, 16);
	if (index == (is_ib ? 0 : 1))
		gid_of(ctx, gid);
	return true;
}

static int env_place_of(void *ctx, const uint8_t ip[16], struct cm_place *out)
{
	uint8_t own[16];

	ip_of(ctx, own);
	if (ip[12] == 127)
		return -ENODEV;
	*out = (struct cm_place){ 0, 1 };
	return memcmp(ip, own, 16) ? -EADDRNOTAVAIL : 0;
}

static int env_source_for(void *ctx, const uint8_t to[16], uint8_t from[16])
{
	if (to[12] == 127)
		memcpy(from, to, 16);
	else
		ip_of(ctx, from);
	return to[12] == 10 || to[12] == 127 ? 0 : -ENETUNREACH;
}

static bool env_resolve_ib(void *ctx, struct cm_place from, const uint8_t ip[16],
			   uint8_t gid[16], uint16_t *lid)
{
	const struct host *h = ctx;

	(void)from;
	gid_of(ip[15] == h->last_octet ? h : h->peer, gid);
	*lid = ip[15];
	return true;
}

static void set_readable(struct cm_file *f)
{
	struct host *h = f->holder;

	assert_false(h->readable);
	h->readable = true;
}

static int setup(void **state)
{
	int i;

	(void)state;
	nr_wire = 0;
	clock_ns = 1000;
	for (i = 0; i < 2; i++) {
		struct cm_env env = {
			.ctx = &hosts[i], .send = env_send, .now_ns = env_now, .port = env_port,
			.gid = env_gid, .place_of = env_place_of,
			.source_for = env_source_for, .resolve_ib = env_resolve_ib,
		};

		hosts[i] = (struct host){ .peer = &hosts[!i], .last_octet = (uint8_t)(i + 1) };
		hosts[i].cm = cm_create(&env);
		hosts[i].file = cm_file_create(hosts[i].cm, &hosts[i], set_readable);
		hosts[i].file->cookie = 100u + (unsigned)i;
	}
	return 0;
}

static int setup_roce(void **state)
{
	is_ib = false;
	return setup(state);
}

static int setup_ib(void **state)
{
	is_ib = true;
	return setup(state);
}

static int teardown(void **state)
{
	(void)state;
	cm_destroy(a->cm);
	cm_destroy(b->cm);
	return 0;
}

static void take_oldest(struct packet *out)
{
	*out = wire[0];
	memmove(&wire[0], &wire[1], --nr_wire * sizeof(wire[0]));
}

static void arrive(struct packet *w)
{
	w->p.route.port = 1;
	w->p.payload = w->bytes;
	cm_receive(w->to->cm, 0, &w->p);
}

static void deliver_all(void)
{
	struct packet w;

	while (nr_wire) {
		take_oldest(&w);
		arrive(&w);
	}
}

static uint32_t attribute_of(const struct packet *w)
{
	return (uint32_t)(w->bytes[16] << 8 | w->bytes[17]);
}

/* The oldest packet, which must be this message; it is lost unless the test delivers it. */
static struct packet expect_message(uint32_t attribute)
{
	struct packet w;

	assert_true(nr_wire > 0);
	take_oldest(&w);
	assert_int_equal(attribute_of(&w), attribute);
	return w;
}

static void pass_on(uint32_t attribute)
{
	struct packet w = expect_message(attribute);

	arrive(&w);
}

/* ---- commands ------------------------------------------------------------------------------ */

static struct cm_call result;

static int command_at(struct cm_file *f, uint32_t command, const void *in, uint32_t in_bytes,
		      uint32_t out_bytes)
{
	int rc;

	memset(&result, 0, sizeof(result));
	result.file = f;
	result.command = command;
	result.in_bytes = in_bytes;
	result.out_bytes = out_bytes;
	memcpy(result.in, in, in_bytes);
	rc = cm_command(&result);
	if (result.drained)
		((struct host *)f->holder)->readable = false;
	return rc;
}

#define COMMAND(h, name, in, out_bytes) \
	command_at((h)->file, RDMA_USER_CM_CMD_##name, &(in), sizeof(in), out_bytes)

static uint32_t create(struct host *h, uint64_t uid, uint16_t ps)
{
	struct rdma_ucm_create_id cmd = { .uid = uid, .response = 0x1234, .ps = ps };
	struct rdma_ucm_create_id_resp resp;

	assert_int_equal(COMMAND(h, CREATE_ID, cmd, sizeof(resp)), 0);
	assert_int_equal(result.response, 0x1234);
	assert_int_equal(result.reply_bytes, sizeof(resp));
	memcpy(&resp, result.reply, sizeof(resp));
	return resp.id;
}

static int destroy(struct host *h, uint32_t id)
{
	struct rdma_ucm_destroy_id cmd = { .id = id };
	struct rdma_ucm_destroy_id_resp resp;
	int rc = COMMAND(h, DESTROY_ID, cmd, sizeof(resp));

	memcpy(&resp, result.reply, sizeof(resp));
	return rc ? rc : (int)resp.events_reported;
}

static struct sockaddr_in6 address(uint32_t ip, uint16_t port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip),
	};
	struct sockaddr_in6 out = { .sin6_family = 0 };

	memcpy(&out, &v4, sizeof(v4));
	return out;
}

static int bind_to(struct host *h, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_bind_ip cmd = { .addr = address(ip, port), .id = id };

	return COMMAND(h, BIND_IP, cmd, 0);
}

static int listen_on(struct host *h, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen cmd = { .id = id, .backlog = backlog };

	return COMMAND(h, LISTEN, cmd, 0);
}

static int resolve(struct host *h, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_resolve_ip cmd = { .dst_addr = address(ip, port), .id = id };

	return COMMAND(h, RESOLVE_IP, cmd, 0);
}

static int resolve_route(struct host *h, uint32_t id)
{
	struct rdma_ucm_resolve_route cmd = { .id = id };

	return COMMAND(h, RESOLVE_ROUTE, cmd, 0);
}

static int get_event(struct host *h, struct rdma_ucm_event_resp *out)
{
	struct rdma_ucm_get_event cmd = { .response = 8 };
	int rc = COMMAND(h, GET_EVENT, cmd, sizeof(*out));

	memcpy(out, result.reply, sizeof(*out));
	return rc;
}

static struct rdma_ucm_event_resp expect_event(struct host *h, uint64_t uid, uint32_t event,
					       int status)
{
	struct rdma_ucm_event_resp e;

	assert_true(h->readable);
	assert_int_equal(get_event(h, &e), 0);
	assert_int_equal(e.event, event);
	assert_int_equal((int)e.status, status);
	assert_int_equal(e.uid, uid);
	return e;
}

static void expect_no_event(struct host *h)
{
	struct rdma_ucm_event_resp e;

	assert_false(h->readable);
	assert_int_equal(get_event(h, &e), -EAGAIN);
}

static struct rdma_ucm_conn_param parameters(uint32_t qpn, const char *text)
{
	struct rdma_ucm_conn_param p = {
		.qp_num = qpn, .valid = 1, .responder_resources = 3, .initiator_depth = 5,
		.retry_count = 7, .rnr_retry_count = 6,
		.private_data_len = (uint8_t)strlen(text),
	};

	memcpy(p.private_data, text, strlen(text));
	return p;
}

static int connect_to(struct host *h, uint32_t id, const char *text)
{
	struct rdma_ucm_connect cmd = {
		.conn_param = parameters(A_QPN, text), .id = id,
		.ece = { .vendor_id = 0x15b3, .attr_mod = 0x77 },
	};

	return COMMAND(h, CONNECT, cmd, 0);
}

static int accept_as(struct host *h, uint32_t id, uint64_t uid, const char *text)
{
	struct rdma_ucm_accept cmd = {
		.uid = uid, .conn_param = parameters(B_QPN, text), .id = id,
		.ece = { .vendor_id = 0x15b3, .attr_mod = 0x66 },
	};

	return COMMAND(h, ACCEPT, cmd, 0);
}

static int establish(struct host *h, uint32_t id)
{
	struct rdma_ucm_accept cmd = { .id = id };

	return COMMAND(h, ACCEPT, cmd, 0);
}

static int disconnect(struct host *h, uint32_t id)
{
	struct rdma_ucm_disconnect cmd = { .id = id };

	return COMMAND(h, DISCONNECT, cmd, 0);
}

static int reject(struct host *h, uint32_t id, const char *text)
{
	struct rdma_ucm_reject cmd = { .id = id, .private_data_len = (uint8_t)strlen(text) };

	memcpy(cmd.private_data, text, strlen(text));
	return COMMAND(h, REJECT, cmd, 0);
}

static int qp_attributes(struct host *h, uint32_t id, uint32_t qp_state,
			 struct ib_uverbs_qp_attr *out)
{
	struct rdma_ucm_init_qp_attr cmd = { .id = id, .qp_state = qp_state };
	int rc = COMMAND(h, INIT_QP_ATTR, cmd, sizeof(*out));

	memcpy(out, result.reply, sizeof(*out));
	return rc;
}

/* ---- what many tests begin with ---------------------------------------------------------------- */

enum { LISTENER = 0x11, CLIENT = 0x22, SERVER = 0x33 };	/* uids */

static uint32_t listener_on_b(uint16_t ps)
{
	uint32_t id = create(b, LISTENER, ps);

	assert_int_equal(bind_to(b, id, INADDR_ANY, LISTEN_PORT), 0);
	assert_int_equal(listen_on(b, id, 4), 0);
	return id;
}

static uint32_t client_on_a(uint16_t ps)
{
	uint32_t id = create(a, CLIENT, ps);

	assert_int_equal(resolve(a, id, 0x0a000002, LISTEN_PORT), 0);
	expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(resolve_route(a, id), 0);
	expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static void connect_both(uint32_t *client, uint32_t *server)
{
	struct rdma_ucm_event_resp e;

	listener_on_b(RDMA_PS_TCP);
	*client = client_on_a(RDMA_PS_TCP);
	assert_int_equal(connect_to(a, *client, "ask"), 0);
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	*server = e.id;
	assert_int_equal(accept_as(b, *server, SERVER, "answer"), 0);
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(establish(a, *client), 0);
	deliver_all();
	expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	expect_no_event(a);
	expect_no_event(b);
}

/* ---- tests ----------------------------------------------------------------------------------------- */

static void test_connect_carries_everything(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	assert_int_equal(connect_to(a, client, "ask"), 0);
	pass_on(CM_REQ);
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(e.param.conn.private_data_len, 56);
	assert_memory_equal(e.param.conn.private_data, "ask\0", 4);
	assert_int_equal(e.param.conn.qp_num, A_QPN);
	assert_int_equal(e.param.conn.responder_resources, 5);	/* his depth is our resources */
	assert_int_equal(e.param.conn.initiator_depth, 3);
	assert_int_equal(e.param.conn.retry_count, 7);
	assert_int_equal(e.param.conn.rnr_retry_count, 6);
	assert_int_equal(e.ece.vendor_id, 0x15b3);
	assert_int_equal(e.ece.attr_mod, 0x77);
	assert_int_equal(accept_as(b, e.id, SERVER, "answer"), 0);
	pass_on(CM_REP);
	e = expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(e.param.conn.private_data_len, 196);
	assert_memory_equal(e.param.conn.private_data, "answer\0", 7);
	assert_int_equal(e.param.conn.qp_num, B_QPN);
	assert_int_equal(e.ece.vendor_id, 0x15b3);
	assert_int_equal(e.ece.attr_mod, 0x66);
	assert_int_equal(establish(a, client), 0);
	pass_on(CM_RTU);
	expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(nr_wire, 0);
}

static void test_qp_attributes_fit_together(void **state)
{
	struct ib_uverbs_qp_attr ar, as, br, bs;
	struct rdma_ucm_event_resp e;
	uint8_t gid[16];
	uint32_t client;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	assert_int_equal(qp_attributes(a, client, IBV_QPS_INIT, &ar), 0);
	assert_int_equal(ar.qp_attr_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS);
	assert_int_equal(ar.port_num, 1);
	connect_to(a, client, "");
	assert_int_equal(qp_attributes(a, client, IBV_QPS_RTR, &ar), -EINVAL);
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(qp_attributes(b, e.id, IBV_QPS_RTR, &br), 0);
	assert_int_equal(qp_attributes(b, e.id, IBV_QPS_RTS, &bs), 0);
	accept_as(b, e.id, SERVER, "");
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(qp_attributes(a, client, IBV_QPS_RTR, &ar), 0);
	assert_int_equal(qp_attributes(a, client, IBV_QPS_RTS, &as), 0);
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
	assert_int_equal(as.timeout, is_ib ? 17 : 18);
	assert_int_equal(bs.timeout, as.timeout);
	assert_int_equal(ar.ah_attr.is_global, !is_ib);
	if (is_ib) {
		assert_int_equal(ar.ah_attr.dlid, 2);
		assert_int_equal(br.ah_attr.dlid, 1);
		return;
	}
	gid_of(b, gid);
	assert_memory_equal(ar.ah_attr.grh.dgid, gid, 16);
	assert_int_equal(ar.ah_attr.grh.sgid_index, 1);
	gid_of(a, gid);
	assert_memory_equal(br.ah_attr.grh.dgid, gid, 16);
	assert_int_equal(br.ah_attr.grh.sgid_index, 1);
}

static void test_query_route_tells_both_sides(void **state)
{
	struct rdma_ucm_query_route_resp r;
	struct sockaddr_in6 expected = address(0x0a000002, LISTEN_PORT);
	uint32_t client, server;
	struct rdma_ucm_query cmd;

	(void)state;
	connect_both(&client, &server);
	cmd = (struct rdma_ucm_query){ .id = client };
	assert_int_equal(COMMAND(a, QUERY_ROUTE, cmd, sizeof(r)), 0);
	memcpy(&r, result.reply, sizeof(r));
	assert_int_equal(be64toh(r.node_guid), 0x1001);
	assert_int_equal(r.port_num, 1);
	assert_int_equal(r.num_paths, 1);
	assert_memory_equal(&r.dst_addr, &expected, sizeof(struct sockaddr_in));
	cmd.id = server;
	assert_int_equal(COMMAND(b, QUERY_ROUTE, cmd, sizeof(r)), 0);
	memcpy(&r, result.reply, sizeof(r));
	assert_int_equal(be64toh(r.node_guid), 0x1002);
	assert_memory_equal(&r.src_addr, &expected, sizeof(struct sockaddr_in));
	assert_int_equal(r.ib_route[0].mtu, IBV_MTU_1024);
}

static uint32_t query(struct host *h, uint32_t id, uint32_t option, void *out, uint32_t bytes)
{
	struct rdma_ucm_query cmd = { .id = id, .option = option };

	assert_int_equal(COMMAND(h, QUERY, cmd, bytes), 0);
	memcpy(out, result.reply, result.reply_bytes);
	return result.reply_bytes;
}

/* What librdmacm would ask for if AF_IB were on, and other programs do ask for. */
static void test_query_by_option(void **state)
{
	struct rdma_ucm_query_addr_resp addr;
	struct sockaddr_in6 expected = address(0x0a000002, LISTEN_PORT);
	uint8_t gid[16], path[8 + 72];
	uint32_t client = create(a, CLIENT, RDMA_PS_TCP), one = 1;

	(void)state;
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_PATH, path, sizeof(path)), 8);
	client = client_on_a(RDMA_PS_TCP);
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_ADDR, &addr, sizeof(addr)),
			 sizeof(addr));
	assert_int_equal(addr.dst_size, sizeof(struct sockaddr_in));
	assert_memory_equal(&addr.dst_addr, &expected, sizeof(struct sockaddr_in));
	assert_int_equal(be64toh(addr.node_guid), 0x1001);
	query(a, client, RDMA_USER_CM_QUERY_GID, &addr, sizeof(addr));
	assert_int_equal(addr.dst_addr.ss_family, 27);
	gid_of(b, gid);
	assert_memory_equal((uint8_t *)&addr.dst_addr + 8, gid, 16);
	assert_int_equal(query(a, client, RDMA_USER_CM_QUERY_PATH, path, sizeof(path)), 80);
	assert_memory_equal(path, &one, sizeof(one));
	assert_memory_equal(path + 16 + 8, gid, 16);	/* behind counts and flags: dgid */
	assert_int_equal(path[16 + 54], 2 << 6 | IBV_MTU_1024);
}

static int set_path(struct host *h, uint32_t id, const struct ib_path_rec_data *path)
{
	struct rdma_ucm_set_option cmd = {
		.id = id, .level = RDMA_OPTION_IB, .optname = RDMA_OPTION_IB_PATH,
	};

	memset(&result, 0, sizeof(result));
	result.file = h->file;
	result.command = RDMA_USER_CM_CMD_SET_OPTION;
	result.in_bytes = sizeof(cmd);
	result.option_bytes = sizeof(*path);
	memcpy(result.in, &cmd, sizeof(cmd));
	memcpy(result.option, path, sizeof(*path));
	return cm_command(&result);
}

/* A path from elsewhere, as ibacm finds them, resolves the route. */
static void test_path_by_option(void **state)
{
	struct ib_path_rec_data path;
	uint8_t reply[8 + sizeof(path)];
	uint32_t first = client_on_a(RDMA_PS_TCP), id = create(a, CLIENT, RDMA_PS_TCP);

	(void)state;
	query(a, first, RDMA_USER_CM_QUERY_PATH, reply, sizeof(reply));
	memcpy(&path, reply + 8, sizeof(path));
	((uint8_t *)path.path_rec)[54] = IBV_MTU_512;
	resolve(a, id, 0x0a000002, LISTEN_PORT);
	expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	path.flags ^= IB_PATH_PRIMARY;
	assert_int_equal(set_path(a, id, &path), -EINVAL);
	path.flags ^= IB_PATH_PRIMARY;
	assert_int_equal(set_path(a, id, &path), 0);
	expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(set_path(a, id, &path), -EINVAL);
	query(a, id, RDMA_USER_CM_QUERY_PATH, reply, sizeof(reply));
	assert_int_equal(reply[16 + 54], 2 << 6 | IBV_MTU_512);
}

static int notify(struct host *h, uint32_t id, uint32_t event)
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
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	assert_int_equal(notify(a, client, IBV_EVENT_COMM_EST), -EINVAL);
	connect_to(a, client, "");
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	accept_as(b, e.id, SERVER, "");
	deliver_all();
	assert_int_equal(notify(b, e.id, IBV_EVENT_PATH_MIG), -EINVAL);
	assert_int_equal(notify(b, e.id, IBV_EVENT_COMM_EST), 0);
	expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(notify(b, e.id, IBV_EVENT_COMM_EST), -EISCONN);
}

static void test_disconnect_from_either_side(void **state)
{
	uint32_t client, server;

	(void)state;
	connect_both(&client, &server);
	assert_int_equal(disconnect(a, client), 0);
	pass_on(CM_DREQ);
	expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(disconnect(b, server), 0);
	pass_on(CM_DREP);
	expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	clock_ns += 10000000000ull;
	cm_timers(a->cm);
	cm_timers(b->cm);
	expect_event(a, CLIENT, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_event(b, SERVER, CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_int_equal(destroy(a, client), 5);
	assert_int_equal(destroy(b, server), 3);
}

static void test_both_disconnect_at_once(void **state)
{
	uint32_t client, server;

	(void)state;
	connect_both(&client, &server);
	disconnect(a, client);
	disconnect(b, server);
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
}

static void test_closed_channel_disconnects_its_peers(void **state)
{
	uint32_t client, server;

	(void)state;
	connect_both(&client, &server);
	cm_file_close(b->file);
	pass_on(CM_DREQ);
	expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(destroy(a, client), 4);
	pass_on(CM_DREP);
	clock_ns += 10000000000ull;
	assert_int_equal(cm_timers(a->cm), UINT64_MAX);
	assert_int_equal(cm_timers(b->cm), UINT64_MAX);
	assert_null(a->cm->connections);
	assert_null(b->cm->connections);
}

static void test_reject_carries_private_data(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(reject(b, e.id, "no"), 0);
	assert_int_equal(reject(b, e.id, "no"), -EINVAL);
	deliver_all();
	e = expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
	assert_int_equal(e.param.conn.private_data_len, 148);
	assert_memory_equal(e.param.conn.private_data, "no\0", 3);
}

static void test_nobody_listens(void **state)
{
	uint32_t client;

	(void)state;
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_INVALID_SERVICE_ID);
}

static void test_lost_messages_are_sent_again(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client, server;
	uint64_t due;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	expect_message(CM_REQ);
	due = cm_timers(a->cm);
	assert_int_equal(nr_wire, 0);
	clock_ns = due;
	cm_timers(a->cm);
	pass_on(CM_REQ);
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	server = e.id;
	accept_as(b, server, SERVER, "");
	expect_message(CM_REP);
	clock_ns = cm_timers(b->cm);
	cm_timers(b->cm);
	pass_on(CM_REP);
	expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	establish(a, client);
	expect_message(CM_RTU);
	clock_ns = cm_timers(b->cm);
	cm_timers(b->cm);
	pass_on(CM_REP);
	pass_on(CM_RTU);
	expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	disconnect(a, client);
	expect_message(CM_DREQ);
	clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	pass_on(CM_DREQ);
	expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
	disconnect(b, server);
	expect_message(CM_DREP);
	clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	pass_on(CM_DREQ);		/* TIMEWAIT may be over: answered all the same */
	pass_on(CM_DREP);
	expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
}

static void test_repeated_request_makes_one_id(void **state)
{
	uint32_t client;
	struct packet w;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	w = expect_message(CM_REQ);
	arrive(&w);
	arrive(&w);
	expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(b);
	pass_on(CM_MRA);
	/* The program takes longer than a try; after MRA nothing is sent until it was to end. */
	clock_ns += 5000000000ull;
	cm_timers(a->cm);
	assert_int_equal(nr_wire, 0);
}

static void test_silence_ends_in_unreachable(void **state)
{
	uint32_t client;
	int i;

	(void)state;
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	for (i = 0; i < 15; i++) {
		expect_message(CM_REQ);
		clock_ns = cm_timers(a->cm);
		cm_timers(a->cm);
	}
	expect_message(CM_REQ);
	expect_no_event(a);
	clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	assert_int_equal(nr_wire, 0);
	expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void test_backlog_is_kept(void **state)
{
	uint32_t clients[6], i;

	(void)state;
	listener_on_b(RDMA_PS_TCP);		/* 4 may wait */
	for (i = 0; i < 6; i++) {
		clients[i] = client_on_a(RDMA_PS_TCP);
		connect_to(a, clients[i], "");
		deliver_all();
	}
	for (i = 0; i < 4; i++)
		expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(b);
	clock_ns = cm_timers(a->cm);
	cm_timers(a->cm);
	deliver_all();				/* the last two ask again, the others get MRA */
	expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(b);
}

static void test_destroyed_listener_refuses_what_waits(void **state)
{
	uint32_t listener, client;

	(void)state;
	listener = listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	deliver_all();
	assert_int_equal(destroy(b, listener), 0);
	assert_true(result.drained);
	expect_no_event(b);
	pass_on(CM_REJ);
	expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
	assert_null(b->cm->ids);
}

static void test_client_that_leaves_tells_the_server(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client;

	(void)state;
	listener_on_b(RDMA_PS_TCP);
	client = client_on_a(RDMA_PS_TCP);
	connect_to(a, client, "");
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	destroy(a, client);
	pass_on(CM_REJ);
	expect_no_event(b);			/* the program has not named the id yet */
	assert_int_equal(accept_as(b, e.id, SERVER, ""), -EINVAL);
}

static void test_reborn_qp_ends_the_old_connection(void **state)
{
	uint32_t client, server, again;

	(void)state;
	connect_both(&client, &server);
	cm_connection_free(a->cm, a->cm->connections);	/* as if host A had died */
	again = client_on_a(RDMA_PS_TCP);
	connect_to(a, again, "");
	pass_on(CM_REQ);
	pass_on(CM_REJ);
	expect_event(a, CLIENT, CM_EVENT_REJECTED, CM_REJECT_STALE_CONNECTION);
	pass_on(CM_DREQ);
	pass_on(CM_DREP);
	expect_event(b, SERVER, CM_EVENT_DISCONNECTED, 0);
}

static void test_ports(void **state)
{
	uint32_t one = create(a, 1, RDMA_PS_TCP), two = create(a, 2, RDMA_PS_TCP);
	uint32_t udp = create(a, 3, RDMA_PS_UDP), reuse = 1;
	struct rdma_ucm_set_option option = {
		.id = two, .level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_REUSEADDR,
	};

	(void)state;
	assert_int_equal(bind_to(a, one, 0x0a000009, 5), -EADDRNOTAVAIL);
	assert_int_equal(bind_to(a, one, 0x0a000001, 5), 0);
	assert_int_equal(bind_to(a, one, 0x0a000001, 6), -EINVAL);
	assert_int_equal(bind_to(a, two, INADDR_ANY, 5), -EADDRINUSE);
	assert_int_equal(bind_to(a, udp, INADDR_ANY, 5), 0);
	assert_int_equal(COMMAND(a, SET_OPTION, option, 0), -EINVAL);
	memset(&result, 0, sizeof(result));
	result.file = a->file;
	result.command = RDMA_USER_CM_CMD_SET_OPTION;
	result.in_bytes = sizeof(option);
	result.option_bytes = sizeof(reuse);
	memcpy(result.in, &option, sizeof(option));
	memcpy(result.option, &reuse, sizeof(reuse));
	assert_int_equal(cm_command(&result), 0);
	assert_int_equal(bind_to(a, two, INADDR_ANY, 5), -EADDRINUSE); /* one does not allow it */
	assert_int_equal(bind_to(a, two, INADDR_ANY, 0), 0);
	assert_int_equal(listen_on(a, two, 0), 0);
	assert_int_equal(listen_on(a, two, 0), -EINVAL);
}

/* A loopback address that no device has is a wildcard when bound, and any device when
 * it is connected to. */
static void test_loopback_without_a_device(void **state)
{
	uint32_t listener = create(a, LISTENER, RDMA_PS_TCP), other = create(a, 5, RDMA_PS_TCP);
	uint32_t id = create(a, CLIENT, RDMA_PS_TCP);
	struct ib_uverbs_qp_attr attr;
	uint8_t gid[16];

	(void)state;
	assert_int_equal(bind_to(a, listener, 0x7f000001, 9), 0);
	assert_int_equal(bind_to(a, other, INADDR_ANY, 9), -EADDRINUSE);
	assert_int_equal(qp_attributes(a, listener, IBV_QPS_INIT, &attr), -EINVAL);
	listen_on(a, listener, 1);
	resolve(a, id, 0x7f000001, 9);
	expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	resolve_route(a, id);
	expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	connect_to(a, id, "");
	deliver_all();
	id = expect_event(a, LISTENER, CM_EVENT_CONNECT_REQUEST, 0).id;
	assert_int_equal(qp_attributes(a, id, IBV_QPS_RTR, &attr), 0);
	gid_of(a, gid);
	if (!is_ib)
		assert_memory_equal(attr.ah_attr.grh.dgid, gid, 16);
}

static void test_af_ib_is_off(void **state)
{
	struct rdma_ucm_bind cmd = { .id = create(a, 1, RDMA_PS_IB), .addr_size = 48 };

	(void)state;
	cmd.addr.ss_family = 27;
	assert_int_equal(COMMAND(a, BIND, cmd, 0), -EAFNOSUPPORT);
	cmd.addr_size = 47;
	assert_int_equal(COMMAND(a, BIND, cmd, 0), -EINVAL);
}

static void test_unreachable_address_is_an_event(void **state)
{
	uint32_t id = create(a, CLIENT, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve(a, id, 0xc0a80001, 1), 0);
	expect_event(a, CLIENT, CM_EVENT_ADDR_ERROR, -ENETUNREACH);
	assert_int_equal(resolve_route(a, id), -EINVAL);
	assert_int_equal(resolve(a, id, 0x0a000002, 1), 0);	/* another try is allowed */
	expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(connect_to(a, id, ""), -EINVAL);	/* the route is missing */
}

static void test_refusals(void **state)
{
	struct rdma_ucm_create_id bad = { .ps = 0x777 };
	struct rdma_ucm_query q = { .id = 77, .option = 9 };
	struct rdma_ucm_join_ip_mcast join = { .addr = address(0xe0000001, 0) };
	uint32_t id = create(a, 1, RDMA_PS_TCP);
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
	assert_int_equal(destroy(a, 12345), -ENOENT);
	assert_int_equal(destroy(a, UINT32_MAX), -ENOENT);
	assert_int_equal(establish(a, id), -EINVAL);
	assert_int_equal(disconnect(a, id), -EINVAL);
	assert_int_equal(reject(a, id, ""), -EINVAL);
	assert_int_equal(qp_attributes(a, id, IBV_QPS_INIT, &attr), -EINVAL);
	assert_int_equal(COMMAND(a, JOIN_IP_MCAST, join, 4), -EINVAL);
	assert_int_equal(COMMAND(a, LEAVE_MCAST, q, 4), -ENOENT);
	assert_int_equal(command_at(a->file, RDMA_USER_CM_CMD_GET_OPTION, &q, 8, 8), -ENOSYS);
	assert_int_equal(command_at(a->file, 99, &q, 8, 8), -EINVAL);
	assert_int_equal(command_at(a->file, RDMA_USER_CM_CMD_LISTEN, &q, 4, 0), -EINVAL);
	id = client_on_a(RDMA_PS_TCP);
	assert_int_equal(connect_to(a, id, long_text), -EINVAL);
	assert_int_equal(connect_to(a, id, long_text + 1), 0);
}

static void test_migrate_takes_events_along(void **state)
{
	struct cm_file *other = cm_file_create(a->cm, b, set_readable);
	uint32_t id = create(a, CLIENT, RDMA_PS_TCP);
	struct rdma_ucm_migrate_id cmd = { .id = id };

	(void)state;
	other->cookie = 7;
	resolve(a, id, 0x0a000002, 1);
	memset(&result, 0, sizeof(result));
	result.file = other;
	result.command = RDMA_USER_CM_CMD_MIGRATE_ID;
	result.cookie = a->file->cookie;
	result.in_bytes = sizeof(cmd);
	result.out_bytes = 4;
	memcpy(result.in, &cmd, sizeof(cmd));
	assert_int_equal(cm_command(&result), 0);
	assert_true(result.old_drained);
	a->readable = false;
	expect_no_event(a);
	assert_int_equal(destroy(a, id), -EINVAL);
	assert_true(b->readable);
	cm_file_close(other);
	assert_null(a->cm->ids);
}

static void test_sidr_finds_the_qp(void **state)
{
	struct rdma_ucm_event_resp e;
	struct ib_uverbs_qp_attr attr;
	uint32_t client;
	struct packet w;

	(void)state;
	listener_on_b(RDMA_PS_UDP);
	client = client_on_a(RDMA_PS_UDP);
	assert_int_equal(qp_attributes(a, client, IBV_QPS_INIT, &attr), 0);
	assert_int_equal(attr.qkey, CM_UDP_QKEY);
	assert_int_equal(connect_to(a, client, "ask"), 0);
	w = expect_message(CM_SIDR_REQ);
	arrive(&w);
	arrive(&w);
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	expect_no_event(b);
	assert_int_equal(e.param.ud.private_data_len, 180);
	assert_memory_equal(e.param.ud.private_data, "ask\0", 4);
	assert_int_equal(accept_as(b, e.id, SERVER, "answer"), 0);
	expect_message(CM_SIDR_REP);
	arrive(&w);				/* the answer was lost: it is given again */
	pass_on(CM_SIDR_REP);
	e = expect_event(a, CLIENT, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(e.param.ud.qp_num, B_QPN);
	assert_int_equal(e.param.ud.qkey, CM_UDP_QKEY);
	assert_int_equal(e.param.ud.ah_attr.is_global, !is_ib);
	assert_int_equal(e.param.ud.private_data_len, 136);
	assert_memory_equal(e.param.ud.private_data, "answer\0", 7);
	assert_int_equal(disconnect(a, client), 0);
	assert_int_equal(nr_wire, 0);
}

static void test_sidr_refused(void **state)
{
	struct rdma_ucm_event_resp e;
	uint32_t client = client_on_a(RDMA_PS_UDP), listener;

	(void)state;
	connect_to(a, client, "");
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	listener = listener_on_b(RDMA_PS_UDP);
	client = client_on_a(RDMA_PS_UDP);
	connect_to(a, client, "");
	deliver_all();
	e = expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(destroy(b, e.id), 0);
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_UNREACHABLE, CM_SIDR_REJECTED);
	assert_int_equal(destroy(b, listener), 1);
}

static void test_removed_device_is_told(void **state)
{
	(void)state;
	client_on_a(RDMA_PS_TCP);
	cm_device_removed(a->cm, 0);
	expect_event(a, CLIENT, CM_EVENT_DEVICE_REMOVAL, 0);
}

static void test_host_talks_to_itself(void **state)
{
	uint32_t listener = create(a, LISTENER, RDMA_PS_TCP), id = create(a, CLIENT, RDMA_PS_TCP);
	struct rdma_ucm_event_resp e;

	(void)state;
	bind_to(a, listener, 0x0a000001, 9);
	listen_on(a, listener, 1);
	resolve(a, id, 0x0a000001, 9);
	expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	resolve_route(a, id);
	expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	connect_to(a, id, "");
	deliver_all();
	e = expect_event(a, LISTENER, CM_EVENT_CONNECT_REQUEST, 0);
	accept_as(a, e.id, SERVER, "");
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	establish(a, id);
	deliver_all();
	expect_event(a, SERVER, CM_EVENT_ESTABLISHED, 0);
	disconnect(a, e.id);
	deliver_all();
	expect_event(a, CLIENT, CM_EVENT_DISCONNECTED, 0);
}

#define ROCE(f)	cmocka_unit_test_setup_teardown(f, setup_roce, teardown)
#define IB(f)	{ #f " (InfiniBand)", f, setup_ib, teardown, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROCE(test_connect_carries_everything),
		IB(test_connect_carries_everything),
		ROCE(test_qp_attributes_fit_together),
		IB(test_qp_attributes_fit_together),
		ROCE(test_query_route_tells_both_sides),
		ROCE(test_query_by_option),
		IB(test_query_by_option),
		ROCE(test_path_by_option),
		ROCE(test_notify_stands_in_for_a_lost_rtu),
		ROCE(test_disconnect_from_either_side),
		ROCE(test_both_disconnect_at_once),
		ROCE(test_closed_channel_disconnects_its_peers),
		ROCE(test_reject_carries_private_data),
		ROCE(test_nobody_listens),
		ROCE(test_lost_messages_are_sent_again),
		ROCE(test_repeated_request_makes_one_id),
		ROCE(test_silence_ends_in_unreachable),
		ROCE(test_backlog_is_kept),
		ROCE(test_destroyed_listener_refuses_what_waits),
		ROCE(test_client_that_leaves_tells_the_server),
		ROCE(test_reborn_qp_ends_the_old_connection),
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
		ROCE(test_removed_device_is_told),
		ROCE(test_host_talks_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
