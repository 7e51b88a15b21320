/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - commands that ask what the device is, and the files that events come from.
 */
#include <endian.h>
#include <errno.h>

#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"
#include "sim/hca/uverbs/datasheet.h"

/* ---- GET_CONTEXT ------------------------------------------------------------ */

static int check_context_request(const struct command *c)
{
	const struct mlx5_ib_alloc_ucontext_req_v2 *r =
		COMMAND_HW_IN(c, mlx5_ib_alloc_ucontext_req_v2);

	if (c->hw_in_length < offsetof(struct mlx5_ib_alloc_ucontext_req_v2, lib_caps))
		return -EINVAL;
	if (r->reserved0 || r->reserved1 || r->reserved2 || r->comp_mask)
		return -EOPNOTSUPP;
	/* DevX is what libmlx5 tries first, and a device without it refuses so. */
	if (r->flags)
		return -EINVAL;
	if (!r->total_num_bfregs || r->num_low_latency_bfregs > r->total_num_bfregs - 1)
		return -EINVAL;
	/* UAR pages exist only on demand. */
	return r->lib_caps & MLX5_LIB_CAP_DYN_UAR ? 0 : -EOPNOTSUPP;
}

static void fill_context(struct command *c)
{
	struct mlx5_ib_alloc_ucontext_resp *r = COMMAND_HW_OUT(c, mlx5_ib_alloc_ucontext_resp);

	*r = (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = datasheet.max_qp,
		.bf_reg_size = datasheet.doorbell_bytes,
		.tot_bfregs = 0,	/* libmlx5: UARs are allocated one by one */
		.cache_line_size = datasheet.cache_line_bytes,
		.max_sq_desc_sz = (__u16)datasheet.max_send_wqe_bytes,
		.max_rq_desc_sz = (__u16)datasheet.max_recv_wqe_bytes,
		.max_send_wqebb = datasheet.max_send_blocks,
		.max_recv_wr = datasheet.max_qp_wr,
		.max_srq_recv_wr = datasheet.max_srq_wr,
		.num_ports = (__u16)c->file->device->nr_ports,
		.response_length = c->hw_out_length < sizeof(*r) ? c->hw_out_length :
				   (__u32)sizeof(*r),
		.cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE |
				 MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = datasheet.max_dynamic_doorbells,
	};
}

static int open_events(struct command *c, size_t bytes, struct event_queue **out)
{
	const struct uverbs_env *env = c->file->device->env;
	int rc = event_queue_create(out, bytes);

	if (rc)
		return rc;
	c->made_fd = env->event_open(env->ctx, *out);
	if (c->made_fd < 0) {
		event_queue_drop(*out);
		return c->made_fd;
	}
	return 0;
}

int command_get_context(struct command *c)
{
	struct ib_uverbs_get_context_resp *out = COMMAND_OUT(c, ib_uverbs_get_context_resp);
	struct event_queue *async;
	int rc;

	if (c->file->async)
		return -EINVAL;
	rc = check_context_request(c);
	if (!rc)
		rc = open_events(c, sizeof(struct ib_uverbs_async_event_desc), &async);
	if (rc)
		return rc;
	c->file->async = event_queue_hold(async);
	out->async_fd = (__u32)c->made_fd;
	out->num_comp_vectors = datasheet.completion_vectors;
	fill_context(c);
	return 0;
}

int command_create_comp_channel(struct command *c)
{
	struct event_queue *q;
	int rc = open_events(c, sizeof(struct ib_uverbs_comp_event_desc), &q);

	if (rc)
		return rc;
	COMMAND_OUT(c, ib_uverbs_create_comp_channel_resp)->fd = (__u32)c->made_fd;
	return 0;
}

/* ---- QUERY_DEVICE ---------------------------------------------------------- */

static void fill_device(const struct uverbs_device *d, struct ib_uverbs_query_device_resp *r)
{
	*r = (struct ib_uverbs_query_device_resp){
		.fw_ver = datasheet.firmware_version,
		.node_guid = htobe64(d->node_guid),
		.sys_image_guid = htobe64(d->node_guid),
		.max_mr_size = d->env->max_mr_bytes(d->env->ctx),
		.page_size_cap = datasheet.page_sizes,
		.vendor_id = datasheet.vendor_id,
		.vendor_part_id = datasheet.part_id,
		.hw_ver = datasheet.hardware_version,
		.max_qp = datasheet.max_qp,
		.max_qp_wr = datasheet.max_qp_wr,
		.device_cap_flags = datasheet.capabilities,
		.max_sge = datasheet.max_sge,
		.max_sge_rd = datasheet.max_sge_read,
		.max_cq = datasheet.max_cq,
		.max_cqe = datasheet.max_cqe,
		.max_mr = datasheet.max_mr,
		.max_pd = datasheet.max_pd,
		.max_qp_rd_atom = datasheet.max_rd_atomic,
		.max_res_rd_atom = datasheet.max_rd_atomic * datasheet.max_qp,
		.max_qp_init_rd_atom = datasheet.max_rd_atomic,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = datasheet.max_ah,
		.max_srq = datasheet.max_srq,
		.max_srq_wr = datasheet.max_srq_wr,
		.max_srq_sge = datasheet.max_srq_sge,
		.max_pkeys = (__u16)datasheet.max_pkeys,
		.local_ca_ack_delay = (__u8)datasheet.local_ack_delay,
		.phys_port_cnt = (__u8)d->nr_ports,
	};
}

int command_query_device(struct command *c)
{
	fill_device(c->file->device, COMMAND_OUT(c, ib_uverbs_query_device_resp));
	return 0;
}

/* What mlx5 adds is all zero but for its own length: no offloads. */
static void fill_driver_device(struct command *c)
{
	struct mlx5_ib_query_device_resp *r = COMMAND_HW_OUT(c, mlx5_ib_query_device_resp);

	r->response_length = c->hw_out_length < sizeof(*r) ? c->hw_out_length :
			     (__u32)sizeof(*r);
}

int command_query_device_ex(struct command *c)
{
	const struct ib_uverbs_ex_query_device *in = COMMAND_IN(c, ib_uverbs_ex_query_device);
	struct ib_uverbs_ex_query_device_resp *out =
		COMMAND_OUT(c, ib_uverbs_ex_query_device_resp);

	if (in->comp_mask || in->reserved)
		return -EINVAL;
	if (!command_is_tail_zero(c, sizeof(*in)))
		return -EOPNOTSUPP;
	fill_device(c->file->device, &out->base);
	out->response_length = command_response_length(c, sizeof(*out));
	out->timestamp_mask = datasheet.timestamp_mask;
	out->hca_core_clock = datasheet.clock_khz;
	out->device_cap_flags_ex = datasheet.capabilities;
	out->cq_moderation_caps.max_cq_moderation_count =
		(__u16)datasheet.max_moderation_count;
	out->cq_moderation_caps.max_cq_moderation_period =
		(__u16)datasheet.max_moderation_period_us;
	if (c->hw_out_length)
		fill_driver_device(c);
	return 0;
}

/* ---- QUERY_PORT ------------------------------------------------------------ */

enum {				/* ib_port_capability_mask_bits of the kernel */
	PORT_SYS_IMAGE_GUID = 1 << 11,
	PORT_CM = 1 << 16,
	PORT_IP_BASED_GIDS = 1 << 26,
};
enum { PORT_GRH_REQUIRED = 1 };
enum { PHYSICAL_DISABLED = 3, PHYSICAL_LINK_UP = 5 };

/* 256 to 4096 bytes, as enum ibv_mtu. */
static uint8_t mtu_code(uint32_t bytes)
{
	uint8_t code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 256U << code <= bytes)
		code++;
	return code;
}

int command_query_port(struct command *c)
{
	const struct uverbs_device *d = c->file->device;
	uint8_t number = COMMAND_IN(c, ib_uverbs_query_port)->port_num;
	struct uverbs_port port;

	if (!number || number > d->nr_ports)
		return -EINVAL;
	d->env->port(d->env->ctx, number, &port);
	*COMMAND_OUT(c, ib_uverbs_query_port_resp) = (struct ib_uverbs_query_port_resp){
		.port_cap_flags = PORT_CM | (port.is_ethernet ? PORT_IP_BASED_GIDS :
							        PORT_SYS_IMAGE_GUID),
		.max_msg_sz = datasheet.max_message_bytes,
		.gid_tbl_len = datasheet.gid_table_entries,
		.pkey_tbl_len = (__u16)datasheet.max_pkeys,
		.lid = port.is_ethernet ? 0 : port.lid,
		.sm_lid = port.is_ethernet ? 0 : 1,
		.state = port.is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mtu_code(port.active_mtu_bytes),
		.max_vl_num = port.is_ethernet ? 0 : 4,
		.subnet_timeout = port.is_ethernet ? 0 : 18,
		.active_width = datasheet.link_width,
		.active_speed = datasheet.link_speed,
		.phys_state = port.is_up ? PHYSICAL_LINK_UP : PHYSICAL_DISABLED,
		.link_layer = port.is_ethernet ? IBV_LINK_LAYER_ETHERNET :
						 IBV_LINK_LAYER_INFINIBAND,
		.flags = port.is_ethernet ? PORT_GRH_REQUIRED : 0,
	};
	return 0;
}
