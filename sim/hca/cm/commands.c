/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.c - the write() ABI of /dev/infiniband/rdma_cm, rdma_user_cm.h: each command
 * checked and answered as the kernel's ucma does.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "sim/hca/cm/core.h"

enum { MAX_BACKLOG = 1024 };

/* ---- ids -------------------------------------------------------------------------- */

static int qp_type_of(const struct rdma_ucm_create_id *cmd, uint32_t *qp_type)
{
	switch (cmd->ps) {
	case RDMA_PS_TCP:
		*qp_type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*qp_type = IBV_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*qp_type = cmd->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

static int create_id(struct cm_call *c)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd;
	uint32_t qp_type;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	rc = qp_type_of(&cmd, &qp_type);
	if (rc)
		return rc;
	id = cm_id_create(c->file, cmd.uid, cmd.ps, qp_type);
	if (!id)
		return -ENOMEM;
	resp.id = id->handle;
	cm_reply(c, &resp, sizeof(resp));
	return 0;
}

static int destroy_id(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = id->events_reported };

	cm_id_destroy(id);
	cm_reply(c, &resp, sizeof(resp));
	return 0;
}

static struct cm_file *file_of_cookie(struct cm *cm, uint64_t cookie)
{
	struct cm_file *f = cm->files;

	while (f && f->cookie != cookie)
		f = f->next;
	return f;
}

static int migrate_id(struct cm_call *c)
{
	struct cm_file *old = file_of_cookie(c->file->cm, c->cookie);
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id cmd;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (!old)
		return -EINVAL;
	rc = cm_id_find(old, cmd.id, &id);
	if (rc)
		return rc;
	if (old != c->file) {
		cm_event_move(id, c->file);
		c->old_drained = cm_event_drained(old);
	}
	resp.events_reported = id->events_reported;
	cm_reply(c, &resp, sizeof(resp));
	return 0;
}

/* ---- addresses and routes ------------------------------------------------------------- */

static int bind_ip(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_bind_ip cmd;
	union cm_address a;

	memcpy(&cmd, c->in, sizeof(cmd));
	memcpy(&a, &cmd.addr, sizeof(a));
	return cm_bind(id, &a);
}

/* What a sockaddr of the command must have as its size; 0: no family that exists. */
static uint32_t kernel_address_bytes(const struct __kernel_sockaddr_storage *from)
{
	union cm_address a;

	memcpy(&a, from, sizeof(a));
	return a.any.sa_family == CM_AF_IB ? CM_IB_ADDRESS_BYTES
					       : cm_address_bytes(&a);
}

static int bind_any(struct cm_call *c)
{
	struct rdma_ucm_bind cmd;
	union cm_address a;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	memcpy(&a, &cmd.addr, sizeof(a));
	if (cmd.reserved || !cmd.addr_size || cmd.addr_size != kernel_address_bytes(&cmd.addr))
		return -EINVAL;
	rc = cm_id_find(c->file, cmd.id, &id);
	return rc ? rc : cm_bind(id, &a);
}

static int resolve_ip(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_resolve_ip cmd;
	union cm_address from, to;

	memcpy(&cmd, c->in, sizeof(cmd));
	memcpy(&from, &cmd.src_addr, sizeof(from));
	memcpy(&to, &cmd.dst_addr, sizeof(to));
	return cm_resolve_address(id, &from, &to);
}

static int resolve_addr(struct cm_call *c)
{
	struct rdma_ucm_resolve_addr cmd;
	union cm_address from, to;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	memcpy(&from, &cmd.src_addr, sizeof(from));
	memcpy(&to, &cmd.dst_addr, sizeof(to));
	if (cmd.reserved || !cmd.dst_size || cmd.dst_size != kernel_address_bytes(&cmd.dst_addr) ||
	    (cmd.src_size && cmd.src_size != kernel_address_bytes(&cmd.src_addr)))
		return -EINVAL;
	rc = cm_id_find(c->file, cmd.id, &id);
	return rc ? rc : cm_resolve_address(id, &from, &to);
}

static int resolve_route(struct cm_call *c, struct cm_id *id)
{
	(void)c;
	return cm_resolve_route(id);
}

/* ---- connections ------------------------------------------------------------------------------ */

static int connect_id(struct cm_call *c)
{
	struct rdma_ucm_connect cmd;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (!cmd.conn_param.valid)
		return -EINVAL;
	rc = cm_id_find(c->file, cmd.id, &id);
	return rc ? rc : cm_connect(id, &cmd.conn_param, &cmd.ece);
}

static int listen_id(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_listen cmd;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (!cmd.backlog || cmd.backlog > MAX_BACKLOG)
		cmd.backlog = MAX_BACKLOG;
	return cm_listen(id, cmd.backlog);
}

static int accept_id(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_accept cmd;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (!cmd.conn_param.valid)
		return cm_establish(id);
	rc = cm_accept(id, &cmd.conn_param, &cmd.ece);
	if (!rc)
		id->uid = cmd.uid;
	return rc;
}

static int reject_id(struct cm_call *c)
{
	struct rdma_ucm_reject cmd;
	uint32_t reason;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	reason = cmd.reason ? cmd.reason : CM_REJECT_CONSUMER;
	if (reason != CM_REJECT_CONSUMER && reason != CM_REJECT_VENDOR_OPTION)
		return -EINVAL;
	rc = cm_id_find(c->file, cmd.id, &id);
	return rc ? rc : cm_reject(id, reason, cmd.private_data, cmd.private_data_len);
}

static int disconnect_id(struct cm_call *c, struct cm_id *id)
{
	(void)c;
	return cm_disconnect(id);
}

static int notify_id(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_notify cmd;

	memcpy(&cmd, c->in, sizeof(cmd));
	return cm_notify(id, cmd.event);
}

static int get_event(struct cm_call *c)
{
	struct rdma_ucm_event_resp resp;

	if (!cm_event_take(c->file, &resp))
		return -EAGAIN;
	cm_reply(c, &resp, sizeof(resp));
	return 0;
}

/* ---- options ------------------------------------------------------------------------------------- */

static int set_id_option(struct cm_id *id, uint32_t name, const uint8_t *value, uint32_t bytes)
{
	int number = 0;

	if (name > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (bytes != sizeof(uint8_t))
			return -EINVAL;
	} else {
		if (bytes != sizeof(number))
			return -EINVAL;
		memcpy(&number, value, sizeof(number));
	}
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id->has_tos = true;
		id->tos = value[0];
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (id->qp_type != IBV_QPT_RC)
			return -EINVAL;
		id->has_ack_timeout = true;
		id->ack_timeout = value[0] & 0x1f;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (!number && id->state != CM_ID_IDLE)
			return -EINVAL;
		id->reuse_address = number;
		return 0;
	default:
		if (id->state != CM_ID_IDLE && id->state != CM_ID_BOUND)
			return -EINVAL;
		id->v6_only = number;
		return 0;
	}
}

static int set_path_option(struct cm_id *id, const uint8_t *value, uint32_t bytes)
{
	struct ib_path_rec_data path = { .flags = 0 };

	if (bytes % sizeof(path))
		return -EINVAL;
	for (; bytes; bytes -= sizeof(path), value += sizeof(path)) {
		memcpy(&path, value, sizeof(path));
		if (path.flags == (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL))
			break;
	}
	if (!bytes || id->state != CM_ID_ADDRESS_RESOLVED ||
	    !cm_path_from_record(&id->path, (const uint8_t *)path.path_rec))
		return -EINVAL;
	return cm_resolve_route(id);
}

static int set_option(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_set_option cmd;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (cmd.level == RDMA_OPTION_ID)
		return set_id_option(id, cmd.optname, c->option, c->option_bytes);
	if (cmd.level == RDMA_OPTION_IB && cmd.optname == RDMA_OPTION_IB_PATH)
		return set_path_option(id, c->option, c->option_bytes);
	return -ENOSYS;
}

/* ---- multicast: no port of ours can it --------------------------------------------------------------- */

static int join(struct cm_call *c, uint32_t handle)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, handle, &id);

	if (rc)
		return rc;
	if (!id->has_device || id->qp_type != IBV_QPT_UD ||
	    (id->state != CM_ID_BOUND && id->state != CM_ID_ADDRESS_RESOLVED))
		return -EINVAL;
	return -ENOSYS;
}

static int join_ip_mcast(struct cm_call *c)
{
	struct rdma_ucm_join_ip_mcast cmd;
	union cm_address a;

	memcpy(&cmd, c->in, sizeof(cmd));
	memcpy(&a, &cmd.addr, sizeof(a));
	return cm_address_bytes(&a) ? join(c, cmd.id) : -EINVAL;
}

static int join_mcast(struct cm_call *c)
{
	struct rdma_ucm_join_mcast cmd;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (!cmd.addr_size || cmd.addr_size != kernel_address_bytes(&cmd.addr) ||
	    cmd.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join(c, cmd.id);
}

static int leave_mcast(struct cm_call *c)
{
	(void)c;
	return -ENOENT;
}

/* ---- dispatch --------------------------------------------------------------------------------------------- */

#define NO_RESPONSE UINT32_MAX

/* Most commands are about one id of the file, and those that check nothing before it get it
 * found for them. */
struct handler {
	int (*run)(struct cm_call *c);	/* or */
	int (*run_on)(struct cm_call *c, struct cm_id *id);
	uint32_t id_at;
	uint32_t in_bytes, out_bytes;	/* at least */
	uint32_t response_at;		/* where in the command the reply's address lies */
};

#define OF_ID(command, type)	.run_on = command, .id_at = offsetof(struct type, id)
#define SILENT(type)		.in_bytes = sizeof(struct type), .response_at = NO_RESPONSE
/* What later kernels added at the end may be missing. */
#define SILENT_TO(type, end)	.in_bytes = offsetof(struct type, end), .response_at = NO_RESPONSE
#define ANSWERS(type, out)	.in_bytes = sizeof(struct type), .out_bytes = out, \
				.response_at = offsetof(struct type, response)

static const struct handler handlers[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = { .run = create_id,
		ANSWERS(rdma_ucm_create_id, sizeof(struct rdma_ucm_create_id_resp)) },
	[RDMA_USER_CM_CMD_DESTROY_ID] = { OF_ID(destroy_id, rdma_ucm_destroy_id),
		ANSWERS(rdma_ucm_destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)) },
	[RDMA_USER_CM_CMD_BIND_IP] = { OF_ID(bind_ip, rdma_ucm_bind_ip),
		SILENT(rdma_ucm_bind_ip) },
	[RDMA_USER_CM_CMD_RESOLVE_IP] = { OF_ID(resolve_ip, rdma_ucm_resolve_ip),
		SILENT(rdma_ucm_resolve_ip) },
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = { OF_ID(resolve_route, rdma_ucm_resolve_route),
		SILENT(rdma_ucm_resolve_route) },
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = { OF_ID(cm_query_route, rdma_ucm_query),
		ANSWERS(rdma_ucm_query, offsetof(struct rdma_ucm_query_route_resp, ibdev_index)) },
	[RDMA_USER_CM_CMD_CONNECT] = { .run = connect_id, SILENT_TO(rdma_ucm_connect, ece) },
	[RDMA_USER_CM_CMD_LISTEN] = { OF_ID(listen_id, rdma_ucm_listen),
		SILENT(rdma_ucm_listen) },
	[RDMA_USER_CM_CMD_ACCEPT] = { OF_ID(accept_id, rdma_ucm_accept),
		SILENT_TO(rdma_ucm_accept, ece) },
	[RDMA_USER_CM_CMD_REJECT] = { .run = reject_id, SILENT(rdma_ucm_reject) },
	[RDMA_USER_CM_CMD_DISCONNECT] = { OF_ID(disconnect_id, rdma_ucm_disconnect),
		SILENT(rdma_ucm_disconnect) },
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = { .run = cm_init_qp_attr,
		ANSWERS(rdma_ucm_init_qp_attr, sizeof(struct ib_uverbs_qp_attr)) },
	[RDMA_USER_CM_CMD_GET_EVENT] = { .run = get_event,
		ANSWERS(rdma_ucm_get_event, offsetof(struct rdma_ucm_event_resp, reserved)) },
	[RDMA_USER_CM_CMD_SET_OPTION] = { OF_ID(set_option, rdma_ucm_set_option),
		SILENT(rdma_ucm_set_option) },
	[RDMA_USER_CM_CMD_NOTIFY] = { OF_ID(notify_id, rdma_ucm_notify),
		SILENT(rdma_ucm_notify) },
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = { .run = join_ip_mcast,
		ANSWERS(rdma_ucm_join_ip_mcast, sizeof(struct rdma_ucm_create_id_resp)) },
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = { .run = leave_mcast,
		ANSWERS(rdma_ucm_destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)) },
	[RDMA_USER_CM_CMD_MIGRATE_ID] = { .run = migrate_id,
		ANSWERS(rdma_ucm_migrate_id, sizeof(struct rdma_ucm_migrate_resp)) },
	[RDMA_USER_CM_CMD_QUERY] = { OF_ID(cm_query, rdma_ucm_query),
		ANSWERS(rdma_ucm_query, 0) },
	[RDMA_USER_CM_CMD_BIND] = { .run = bind_any, SILENT(rdma_ucm_bind) },
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = { .run = resolve_addr, SILENT(rdma_ucm_resolve_addr) },
	[RDMA_USER_CM_CMD_JOIN_MCAST] = { .run = join_mcast,
		ANSWERS(rdma_ucm_join_mcast, sizeof(struct rdma_ucm_create_id_resp)) },
};

static int run(struct cm_call *c, const struct handler *h)
{
	struct cm_id *id;
	uint32_t handle;
	int rc;

	if (h->run)
		return h->run(c);
	memcpy(&handle, c->in + h->id_at, sizeof(handle));
	rc = cm_id_find(c->file, handle, &id);
	return rc ? rc : h->run_on(c, id);
}

int cm_command(struct cm_call *c)
{
	const struct handler *h;
	int rc;

	if (c->command >= sizeof(handlers) / sizeof(handlers[0]))
		return -EINVAL;
	h = &handlers[c->command];
	if (!h->run && !h->run_on)
		return -ENOSYS;
	if (c->out_bytes < h->out_bytes)
		return -ENOSPC;
	if (c->in_bytes < h->in_bytes)
		return -EINVAL;
	if (h->response_at != NO_RESPONSE)
		memcpy(&c->response, c->in + h->response_at, sizeof(c->response));
	rc = run(c, h);
	c->drained = cm_event_drained(c->file);
	return rc;
}
