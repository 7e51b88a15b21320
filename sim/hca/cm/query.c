/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - the commands that only ask: addresses, routes, what a QP is to be told.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "sim/hca/cm/core.h"

/* struct sockaddr_ib of rdma/ib.h. */
struct ib_address {
	uint16_t family, pkey;
	uint32_t flow_info;
	uint8_t gid[16];
	uint64_t service_id, service_mask, scope;
};
static_assert(sizeof(struct ib_address) == CM_IB_ADDRESS_BYTES, "as the kernel has it");

void cm_reply(struct cm_call *c, const void *from, uint32_t bytes)
{
	c->reply_bytes = bytes < c->out_bytes ? bytes : c->out_bytes;
	memcpy(c->reply, from, c->reply_bytes);
}

static bool port_of(const struct cm_id *id, struct cm_port *out)
{
	struct cm_env *env = &id->file->cm->env;

	return id->has_device && env->port(env->ctx, id->path.place, out);
}

/* The addresses of a path whose route is not resolved yet; no more is known of it. */
static void fill_gids(const struct cm_id *id, struct ib_user_path_rec *out)
{
	memcpy(out->sgid, id->path.sgid, sizeof(out->sgid));
	memcpy(out->dgid, id->path.dgid, sizeof(out->dgid));
	out->pkey = htobe16(CM_DEFAULT_PKEY);
}

int cm_query_route(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_query_route_resp resp = { .ibdev_index = 0 };
	struct cm_port port;

	memcpy(&resp.src_addr, &id->source, sizeof(resp.src_addr));
	memcpy(&resp.dst_addr, &id->destination, sizeof(resp.dst_addr));
	if (port_of(id, &port)) {
		resp.node_guid = htobe64(port.node_guid);
		resp.port_num = (uint8_t)id->path.place.port;
		resp.ibdev_index = port.ibdev_index;
		resp.num_paths = id->nr_paths;
		if (id->nr_paths)
			cm_path_to_user(&id->path, &resp.ib_route[0]);
		else
			fill_gids(id, &resp.ib_route[0]);
	}
	cm_reply(c, &resp, sizeof(resp));
	return 0;
}

static void fill_device(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	struct cm_port port;

	if (!port_of(id, &port))
		return;
	resp->node_guid = htobe64(port.node_guid);
	resp->port_num = (uint8_t)id->path.place.port;
	resp->pkey = htobe16(CM_DEFAULT_PKEY);
	resp->ibdev_index = port.ibdev_index;
}

static void query_addr(struct cm_call *c, const struct cm_id *id)
{
	struct rdma_ucm_query_addr_resp resp = { .node_guid = 0 };

	resp.src_size = (uint16_t)cm_address_bytes(&id->source);
	memcpy(&resp.src_addr, &id->source, resp.src_size);
	resp.dst_size = (uint16_t)cm_address_bytes(&id->destination);
	memcpy(&resp.dst_addr, &id->destination, resp.dst_size);
	fill_device(id, &resp);
	cm_reply(c, &resp, sizeof(resp));
}

static void fill_ib_address(const struct cm_id *id, const union cm_address *a,
			    const uint8_t gid[16], struct __kernel_sockaddr_storage *out)
{
	struct ib_address ib = {
		.family = CM_AF_IB,
		.pkey = htobe16(CM_DEFAULT_PKEY),
		.service_id = htobe64(cm_service_id(id, a)),
	};

	memcpy(ib.gid, gid, sizeof(ib.gid));
	memcpy(out, &ib, sizeof(ib));
}

static void query_gid(struct cm_call *c, const struct cm_id *id)
{
	struct rdma_ucm_query_addr_resp resp = { .node_guid = 0 };

	fill_device(id, &resp);
	resp.src_size = resp.dst_size = CM_IB_ADDRESS_BYTES;
	fill_ib_address(id, &id->source, id->path.sgid, &resp.src_addr);
	fill_ib_address(id, &id->destination, id->path.dgid, &resp.dst_addr);
	cm_reply(c, &resp, sizeof(resp));
}

static void query_path(struct cm_call *c, const struct cm_id *id)
{
	struct rdma_ucm_query_path_resp head = { .num_paths = id->nr_paths };
	struct ib_path_rec_data path = {
		.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL,
	};
	uint8_t resp[sizeof(head) + sizeof(path)];

	cm_path_to_record(&id->path, (uint8_t *)path.path_rec);
	memcpy(resp, &head, sizeof(head));
	memcpy(resp + sizeof(head), &path, sizeof(path));
	if (id->nr_paths && c->out_bytes >= sizeof(resp))
		cm_reply(c, resp, sizeof(resp));
	else
		cm_reply(c, resp, sizeof(head));
}

int cm_query(struct cm_call *c, struct cm_id *id)
{
	struct rdma_ucm_query cmd;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (cmd.option > RDMA_USER_CM_QUERY_GID)
		return -ENOSYS;
	if (c->out_bytes < (cmd.option == RDMA_USER_CM_QUERY_PATH
			    ? sizeof(struct rdma_ucm_query_path_resp)
			    : offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)))
		return -ENOSPC;
	if (cmd.option == RDMA_USER_CM_QUERY_ADDR)
		query_addr(c, id);
	else if (cmd.option == RDMA_USER_CM_QUERY_PATH)
		query_path(c, id);
	else
		query_gid(c, id);
	return 0;
}

int cm_init_qp_attr(struct cm_call *c)
{
	struct rdma_ucm_init_qp_attr cmd;
	struct ib_uverbs_qp_attr resp;
	struct cm_id *id;
	int rc;

	memcpy(&cmd, c->in, sizeof(cmd));
	if (cmd.qp_state > IBV_QPS_ERR)
		return -EINVAL;
	rc = cm_id_find(c->file, cmd.id, &id);
	if (!rc)
		rc = cm_qp_attributes(id, cmd.qp_state, &resp);
	if (!rc)
		cm_reply(c, &resp, sizeof(resp));
	return rc;
}
