/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/cm_fix.h"

enum { MAX_WIRE = 64 };

/* ---- two hosts ------------------------------------------------------------------------- */

struct cm_fix_host cm_fix_hosts[2];
static struct cm_fix_packet wire[MAX_WIRE];
uint32_t cm_fix_nr_wire;
uint64_t cm_fix_clock_ns;
bool cm_fix_is_ib;

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

static void ip_of(const struct cm_fix_host *h, uint8_t ip[16])
{
	memcpy(ip, v4_prefix, 12);
	memcpy(ip + 12, (uint8_t[]){ 10, 0, 0, h->last_octet }, 4);
}

void cm_fix_gid_of(const struct cm_fix_host *h, uint8_t gid[16])
{
	ip_of(h, gid);
	if (cm_fix_is_ib)
		memcpy(gid, (uint8_t[]){ 0xfe, 0x80, 0, 0 }, 4);
}

static void env_send(void *ctx, uint32_t device, const struct hca_packet *p)
{
	struct cm_fix_host *h = ctx;
	struct cm_fix_packet *w = &wire[cm_fix_nr_wire++];
	uint8_t own[16];

	assert_true(cm_fix_nr_wire <= MAX_WIRE);
	assert_int_equal(device, 0);
	assert_int_equal(p->length, CM_MAD_BYTES);
	cm_fix_gid_of(h, own);
	w->p = *p;
	memcpy(w->bytes, p->payload, CM_MAD_BYTES);
	w->to = memcmp(p->route.dgid, own, 16) ? h->peer : h;
}

static uint64_t env_now(void *ctx)
{
	(void)ctx;
	return cm_fix_clock_ns;
}

static bool env_port(void *ctx, struct cm_place at, struct cm_port *out)
{
	const struct cm_fix_host *h = ctx;

	if (at.device || at.port != 1)
		return false;
	*out = (struct cm_port){
		.node_guid = 0x1000 + h->last_octet,
		.is_ethernet = !cm_fix_is_ib,
		.lid = cm_fix_is_ib ? h->last_octet : 0,
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
	if (index == (cm_fix_is_ib ? 0 : 1))
		cm_fix_gid_of(ctx, gid);
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
	const struct cm_fix_host *h = ctx;

	(void)from;
	cm_fix_gid_of(ip[15] == h->last_octet ? h : h->peer, gid);
	*lid = ip[15];
	return true;
}

void cm_fix_set_readable(struct cm_file *f)
{
	struct cm_fix_host *h = f->holder;

	assert_false(h->readable);
	h->readable = true;
}

static int setup(void **state)
{
	int i;

	(void)state;
	cm_fix_nr_wire = 0;
	cm_fix_clock_ns = 1000;
	for (i = 0; i < 2; i++) {
		struct cm_env env = {
			.ctx = &cm_fix_hosts[i], .send = env_send, .now_ns = env_now,
			.port = env_port, .gid = env_gid, .place_of = env_place_of,
			.source_for = env_source_for, .resolve_ib = env_resolve_ib,
		};

		cm_fix_hosts[i] = (struct cm_fix_host){
			.peer = &cm_fix_hosts[!i], .last_octet = (uint8_t)(i + 1),
		};
		cm_fix_hosts[i].cm = cm_create(&env);
		cm_fix_hosts[i].file = cm_file_create(cm_fix_hosts[i].cm, &cm_fix_hosts[i],
						      cm_fix_set_readable);
		cm_fix_hosts[i].file->cookie = 100u + (unsigned)i;
	}
	return 0;
}

int cm_fix_setup_roce(void **state)
{
	cm_fix_is_ib = false;
	return setup(state);
}

int cm_fix_setup_ib(void **state)
{
	cm_fix_is_ib = true;
	return setup(state);
}

int cm_fix_teardown(void **state)
{
	(void)state;
	cm_destroy(a->cm);
	cm_destroy(b->cm);
	return 0;
}

static void take_oldest(struct cm_fix_packet *out)
{
	*out = wire[0];
	memmove(&wire[0], &wire[1], --cm_fix_nr_wire * sizeof(wire[0]));
}

void cm_fix_arrive(struct cm_fix_packet *w)
{
	w->p.route.port = 1;
	w->p.payload = w->bytes;
	cm_receive(w->to->cm, 0, &w->p);
}

void cm_fix_deliver_all(void)
{
	struct cm_fix_packet w;

	while (cm_fix_nr_wire) {
		take_oldest(&w);
		cm_fix_arrive(&w);
	}
}

static uint32_t attribute_of(const struct cm_fix_packet *w)
{
	return (uint32_t)(w->bytes[16] << 8 | w->bytes[17]);
}

/* The oldest packet, which must be this message; it is lost unless the test delivers it. */
struct cm_fix_packet cm_fix_expect_message(uint32_t attribute)
{
	struct cm_fix_packet w;

	assert_true(cm_fix_nr_wire > 0);
	take_oldest(&w);
	assert_int_equal(attribute_of(&w), attribute);
	return w;
}

void cm_fix_pass_on(uint32_t attribute)
{
	struct cm_fix_packet w = cm_fix_expect_message(attribute);

	cm_fix_arrive(&w);
}

/* ---- commands ------------------------------------------------------------------------------ */

struct cm_call cm_fix_result;

int cm_fix_command_at(struct cm_file *f, uint32_t command, const void *in, uint32_t in_bytes,
		      uint32_t out_bytes)
{
	int rc;

	memset(&cm_fix_result, 0, sizeof(cm_fix_result));
	cm_fix_result.file = f;
	cm_fix_result.command = command;
	cm_fix_result.in_bytes = in_bytes;
	cm_fix_result.out_bytes = out_bytes;
	memcpy(cm_fix_result.in, in, in_bytes);
	rc = cm_command(&cm_fix_result);
	if (cm_fix_result.drained)
		((struct cm_fix_host *)f->holder)->readable = false;
	return rc;
}

uint32_t cm_fix_create(struct cm_fix_host *h, uint64_t uid, uint16_t ps)
{
	struct rdma_ucm_create_id cmd = { .uid = uid, .response = 0x1234, .ps = ps };
	struct rdma_ucm_create_id_resp resp;

	assert_int_equal(COMMAND(h, CREATE_ID, cmd, sizeof(resp)), 0);
	assert_int_equal(cm_fix_result.response, 0x1234);
	assert_int_equal(cm_fix_result.reply_bytes, sizeof(resp));
	memcpy(&resp, cm_fix_result.reply, sizeof(resp));
	return resp.id;
}

int cm_fix_destroy(struct cm_fix_host *h, uint32_t id)
{
	struct rdma_ucm_destroy_id cmd = { .id = id };
	struct rdma_ucm_destroy_id_resp resp;
	int rc = COMMAND(h, DESTROY_ID, cmd, sizeof(resp));

	memcpy(&resp, cm_fix_result.reply, sizeof(resp));
	return rc ? rc : (int)resp.events_reported;
}

struct sockaddr_in6 cm_fix_address(uint32_t ip, uint16_t port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip),
	};
	struct sockaddr_in6 out = { .sin6_family = 0 };

	memcpy(&out, &v4, sizeof(v4));
	return out;
}

int cm_fix_bind_to(struct cm_fix_host *h, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_bind_ip cmd = { .addr = cm_fix_address(ip, port), .id = id };

	return COMMAND(h, BIND_IP, cmd, 0);
}

int cm_fix_listen_on(struct cm_fix_host *h, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen cmd = { .id = id, .backlog = backlog };

	return COMMAND(h, LISTEN, cmd, 0);
}

int cm_fix_resolve(struct cm_fix_host *h, uint32_t id, uint32_t ip, uint16_t port)
{
	struct rdma_ucm_resolve_ip cmd = { .dst_addr = cm_fix_address(ip, port), .id = id };

	return COMMAND(h, RESOLVE_IP, cmd, 0);
}

int cm_fix_resolve_route(struct cm_fix_host *h, uint32_t id)
{
	struct rdma_ucm_resolve_route cmd = { .id = id };

	return COMMAND(h, RESOLVE_ROUTE, cmd, 0);
}

static int get_event(struct cm_fix_host *h, struct rdma_ucm_event_resp *out)
{
	struct rdma_ucm_get_event cmd = { .response = 8 };
	int rc = COMMAND(h, GET_EVENT, cmd, sizeof(*out));

	memcpy(out, cm_fix_result.reply, sizeof(*out));
	return rc;
}

struct rdma_ucm_event_resp cm_fix_expect_event(struct cm_fix_host *h, uint64_t uid, uint32_t event,
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

void cm_fix_expect_no_event(struct cm_fix_host *h)
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

int cm_fix_connect_to(struct cm_fix_host *h, uint32_t id, const char *text)
{
	struct rdma_ucm_connect cmd = {
		.conn_param = parameters(A_QPN, text), .id = id,
		.ece = { .vendor_id = 0x15b3, .attr_mod = 0x77 },
	};

	return COMMAND(h, CONNECT, cmd, 0);
}

int cm_fix_accept_as(struct cm_fix_host *h, uint32_t id, uint64_t uid, const char *text)
{
	struct rdma_ucm_accept cmd = {
		.uid = uid, .conn_param = parameters(B_QPN, text), .id = id,
		.ece = { .vendor_id = 0x15b3, .attr_mod = 0x66 },
	};

	return COMMAND(h, ACCEPT, cmd, 0);
}

int cm_fix_establish(struct cm_fix_host *h, uint32_t id)
{
	struct rdma_ucm_accept cmd = { .id = id };

	return COMMAND(h, ACCEPT, cmd, 0);
}

int cm_fix_disconnect(struct cm_fix_host *h, uint32_t id)
{
	struct rdma_ucm_disconnect cmd = { .id = id };

	return COMMAND(h, DISCONNECT, cmd, 0);
}

int cm_fix_reject(struct cm_fix_host *h, uint32_t id, const char *text)
{
	struct rdma_ucm_reject cmd = { .id = id, .private_data_len = (uint8_t)strlen(text) };

	memcpy(cmd.private_data, text, strlen(text));
	return COMMAND(h, REJECT, cmd, 0);
}

int cm_fix_qp_attributes(struct cm_fix_host *h, uint32_t id, uint32_t qp_state,
			 struct ib_uverbs_qp_attr *out)
{
	struct rdma_ucm_init_qp_attr cmd = { .id = id, .qp_state = qp_state };
	int rc = COMMAND(h, INIT_QP_ATTR, cmd, sizeof(*out));

	memcpy(out, cm_fix_result.reply, sizeof(*out));
	return rc;
}

/* ---- what many tests begin with --------------------------------------------------------- */

uint32_t cm_fix_listener_on_b(uint16_t ps)
{
	uint32_t id = cm_fix_create(b, LISTENER, ps);

	assert_int_equal(cm_fix_bind_to(b, id, INADDR_ANY, LISTEN_PORT), 0);
	assert_int_equal(cm_fix_listen_on(b, id, 4), 0);
	return id;
}

uint32_t cm_fix_client_on_a(uint16_t ps)
{
	uint32_t id = cm_fix_create(a, CLIENT, ps);

	assert_int_equal(cm_fix_resolve(a, id, 0x0a000002, LISTEN_PORT), 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cm_fix_resolve_route(a, id), 0);
	cm_fix_expect_event(a, CLIENT, CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

uint32_t cm_fix_ask(uint32_t *client, const char *private_data)
{
	cm_fix_listener_on_b(RDMA_PS_TCP);
	*client = cm_fix_client_on_a(RDMA_PS_TCP);
	assert_int_equal(cm_fix_connect_to(a, *client, private_data), 0);
	cm_fix_deliver_all();
	return cm_fix_expect_event(b, LISTENER, CM_EVENT_CONNECT_REQUEST, 0).id;
}

void cm_fix_connect_both(uint32_t *client, uint32_t *server)
{
	*server = cm_fix_ask(client, "ask");
	assert_int_equal(cm_fix_accept_as(b, *server, SERVER, "answer"), 0);
	cm_fix_deliver_all();
	cm_fix_expect_event(a, CLIENT, CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(cm_fix_establish(a, *client), 0);
	cm_fix_deliver_all();
	cm_fix_expect_event(b, SERVER, CM_EVENT_ESTABLISHED, 0);
	cm_fix_expect_no_event(a);
	cm_fix_expect_no_event(b);
}
