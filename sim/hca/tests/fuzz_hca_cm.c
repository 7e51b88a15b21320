/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_cm.c - commands of two hostile programs, messages of a hostile host and the
 * passing of time, in any order. Commands start as ones that make sense and messages as
 * ones that the manager sent, so that connections come about; then bytes are changed.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sim/hca/cm/core.h"
#include "sim/hca/tests/common/cm_env.h"

enum { NR_FILES = 2, NR_KEPT = 8 };

struct input {
	const uint8_t *bytes;
	size_t left;
};

static uint8_t kept[NR_KEPT][CM_MAD_BYTES];
static uint32_t nr_sent;
static uint64_t clock_ns;

static void env_send(void *ctx, uint32_t device, const struct hca_packet *p)
{
	(void)ctx;
	(void)device;
	memcpy(kept[nr_sent++ % NR_KEPT], p->payload, CM_MAD_BYTES);
}

static uint64_t env_now(void *ctx)
{
	(void)ctx;
	return clock_ns;
}

static void set_readable(struct cm_file *f)
{
	(void)f;
}

static uint32_t take(struct input *in, void *to, size_t n)
{
	n = n < in->left ? n : in->left;
	memcpy(to, in->bytes, n);
	in->bytes += n;
	in->left -= n;
	return (uint32_t)n;
}

static uint8_t take_byte(struct input *in)
{
	uint8_t b = 0;

	take(in, &b, 1);
	return b;
}

/* ---- commands --------------------------------------------------------------------- */

static struct sockaddr_in6 sane_address(uint8_t choice)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(choice >> 6),
		.sin_addr.s_addr = htonl(choice & 1 ? 0x0a000001 : choice & 2 ? 0x7f000001 : 0),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(choice >> 6),
	};

	memcpy(&v6.sin6_addr, cm_env_ip, choice & 1 ? 16 : 0);
	if (!(choice & 4))
		memcpy(&v6, &v4, sizeof(v4));
	return v6;
}

static const struct rdma_ucm_conn_param sane_parameters = {
	.valid = 1, .qp_num = 5, .responder_resources = 1, .initiator_depth = 1,
	.private_data_len = 4,
};

#define SANE(...) do { __VA_ARGS__; memcpy(c->in, &cmd, sizeof(cmd)); } while (0)

/* Commands whose fields are mostly an id are left to the id and to zeros. */
static void fill_sane(struct cm_call *c, uint32_t id, uint8_t choice)
{
	static const uint16_t port_spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_TCP };

	switch (c->command) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		SANE(struct rdma_ucm_create_id cmd = { .uid = 1, .ps = port_spaces[choice % 4],
						       .qp_type = IBV_QPT_RC });
		break;
	case RDMA_USER_CM_CMD_BIND_IP:
		SANE(struct rdma_ucm_bind_ip cmd = { .addr = sane_address(choice), .id = id });
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		SANE(struct rdma_ucm_resolve_ip cmd = { .dst_addr = sane_address(choice),
							.id = id });
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		SANE(struct rdma_ucm_connect cmd = { .conn_param = sane_parameters, .id = id });
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		SANE(struct rdma_ucm_accept cmd = { .uid = 1, .id = id });
		if (choice & 1)
			SANE(struct rdma_ucm_accept cmd = { .uid = 1, .id = id,
							    .conn_param = sane_parameters });
		break;
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		SANE(struct rdma_ucm_init_qp_attr cmd = { .id = id, .qp_state = choice % 8 });
		break;
	case RDMA_USER_CM_CMD_QUERY:
		SANE(struct rdma_ucm_query cmd = { .id = id, .option = choice % 4 });
		break;
	case RDMA_USER_CM_CMD_NOTIFY:
		SANE(struct rdma_ucm_notify cmd = { .id = id, .event = IBV_EVENT_COMM_EST });
		break;
	case RDMA_USER_CM_CMD_SET_OPTION:
		SANE(struct rdma_ucm_set_option cmd = { .id = id, .level = choice & 1,
							.optname = choice >> 1 & 3 });
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		SANE(struct rdma_ucm_destroy_id cmd = { .id = id });
		break;
	default:
		memcpy(c->in, &id, sizeof(id));
	}
}

static void give_command(struct cm_file *f, struct input *in)
{
	static struct cm_call c;
	uint8_t choice, patches;

	memset(&c, 0, sizeof(c));
	c.file = f;
	c.command = take_byte(in) % 25;
	choice = take_byte(in);
	c.in_bytes = CM_MAX_COMMAND_BYTES;
	c.out_bytes = 0xffff;
	c.cookie = choice % 3;
	fill_sane(&c, choice >> 3 & 7, take_byte(in));
	if (c.command == RDMA_USER_CM_CMD_SET_OPTION)
		c.option_bytes = take(in, c.option, take_byte(in));
	if (!(choice & 1)) {
		cm_command(&c);
		return;
	}
	c.in_bytes = take_byte(in) & 1 ? take_byte(in) : c.in_bytes;
	c.out_bytes = take_byte(in) & 1 ? take_byte(in) : c.out_bytes;
	for (patches = take_byte(in) % 8; patches; patches--)
		c.in[(take_byte(in) | take_byte(in) << 8) % CM_MAX_COMMAND_BYTES] = take_byte(in);
	cm_command(&c);
}

/* ---- messages ----------------------------------------------------------------------- */

static void give_message(struct cm *cm, struct input *in)
{
	uint8_t bytes[CM_MAD_BYTES], which = take_byte(in), patches, b;
	struct hca_packet p = {
		.route = { .port = 1, .has_grh = true },
		.opcode = HCA_UD | HCA_SEND_ONLY, .dest_qpn = CM_QP1, .qkey = CM_QP1_QKEY,
		.payload = bytes, .length = CM_MAD_BYTES,
	};
	int i;

	memcpy(p.route.dgid, cm_env_ip, 16);
	memcpy(p.route.sgid, cm_env_ip, 16);
	memcpy(bytes, kept[(nr_sent - 1 - which % NR_KEPT) % NR_KEPT], sizeof(bytes));
	if (which & 0x80)
		for (patches = take_byte(in) % 8; patches; patches--)
			bytes[take_byte(in)] = take_byte(in);
	for (i = 24; which & 0x40 && i < 28; i++) {	/* who is local, and who is remote */
		b = bytes[i];
		bytes[i] = bytes[i + 4];
		bytes[i + 4] = b;
	}
	if (which & 0x20)
		bytes[17] = CM_REQ + take_byte(in) % 10;
	cm_receive(cm, 0, &p);
}

/* ---- the run ------------------------------------------------------------------------- */

/* Who listens, and who is about to connect: ids 0 to 3, so that few steps lead far. */
static void begin(struct cm_file *server, struct cm_file *client)
{
	static const uint32_t port_spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP };
	static const uint32_t qp_types[] = { IBV_QPT_RC, IBV_QPT_UD };
	union cm_address any = { .v4 = { .sin_family = AF_INET, .sin_port = htons(1) } };
	union cm_address own = any, none = { .any = { .sa_family = 0 } };
	struct cm_id *id;
	int i;

	own.v4.sin_addr.s_addr = htonl(0x0a000001);
	for (i = 0; i < 2; i++) {
		id = cm_id_create(server, 1, port_spaces[i], qp_types[i]);
		cm_bind(id, &any);
		cm_listen(id, 4);
	}
	for (i = 0; i < 2; i++) {
		id = cm_id_create(client, 2, port_spaces[i], qp_types[i]);
		cm_resolve_address(id, &none, &own);
		cm_resolve_route(id);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cm_env env = cm_env_of_one_port(env_send, env_now);
	struct input in = { data, size };
	struct cm_file *files[NR_FILES];
	struct cm *cm = cm_create(&env);
	uint8_t what;
	int i;

	if (!cm)
		return 0;
	cm->random = 1;			/* the same run for the same input */
	clock_ns = 0;
	nr_sent = 0;
	memset(kept, 0, sizeof(kept));
	for (i = 0; i < NR_FILES; i++) {
		files[i] = cm_file_create(cm, NULL, set_readable);
		files[i]->cookie = (uint64_t)i + 1;
	}
	if (take_byte(&in) & 1)
		begin(files[0], files[1]);
	while (in.left) {
		what = take_byte(&in);
		if (what & 1)
			give_command(files[what >> 1 & 1], &in);
		else if (what & 2)
			give_message(cm, &in);
		else
			clock_ns += 1ull << (what >> 2);
		cm_timers(cm);
	}
	cm_destroy(cm);
	return 0;
}
