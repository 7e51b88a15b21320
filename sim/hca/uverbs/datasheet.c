/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datasheet.c - the card: a ConnectX-7 with what the engine has, and zero for what it has
 * not. No DevX, DC, XRC, UC, raw Ethernet, memory windows, on-demand paging, device
 * memory, multicast, tag matching, flow steering, RSS, packet pacing or CQE compression.
 */
#include "sim/hca/uverbs/datasheet.h"

#include <rdma/ib_user_verbs.h>

#include "sim/hca/uverbs/uverbs.h"

const struct datasheet datasheet = {
	.vendor_id		= 0x02c9,
	.part_id		= 4129,			/* MT4129: ConnectX-7 */
	.hardware_version	= 0,
	.firmware_version	= 28ULL << 32 | 39 << 16 | 1002,

	.max_mr_bytes		= UINT64_MAX,
	.page_sizes		= 0xfffffffffffff000,
	.max_mr			= 1 << 20,
	.max_pd			= 1 << 20,
	.max_ah			= INT32_MAX,

	.max_qp			= 1 << 16,
	.max_qp_wr		= 32768,
	.max_sge		= 30,
	.max_sge_read		= 30,
	.max_send_blocks	= 32768,
	.max_send_wqe_bytes	= 1024,
	.max_recv_wqe_bytes	= 512,
	.max_rd_atomic		= 16,
	.max_inline_bytes	= 1024,

	.max_srq		= 1 << 16,
	.max_srq_wr		= 32767,
	.max_srq_sge		= 31,
	.max_cq			= 1 << 16,
	.max_cqe		= 4194303,
	.completion_vectors	= 8,
	.max_moderation_count	= 65535,
	.max_moderation_period_us = 4095,

	.max_pkeys		= 1,
	.max_message_bytes	= HCA_MAX_MESSAGE_BYTES,
	.gid_table_entries	= 16,
	.local_ack_delay	= 16,
	.link_width		= 2,			/* 4x */
	.link_speed		= 128,			/* NDR, 100 Gb/s a lane */

	.clock_khz		= 1000000,
	.timestamp_mask		= INT64_MAX,

	.doorbell_bytes		= 512,
	.cache_line_bytes	= 64,
	.max_dynamic_doorbells	= UVERBS_MAX_UARS * 2,

	.capabilities		= IB_UVERBS_DEVICE_BAD_PKEY_CNTR |
				  IB_UVERBS_DEVICE_BAD_QKEY_CNTR |
				  IB_UVERBS_DEVICE_CURR_QP_STATE_MOD |
				  IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT |
				  IB_UVERBS_DEVICE_SYS_IMAGE_GUID |
				  IB_UVERBS_DEVICE_RC_RNR_NAK_GEN,
};

void uverbs_fill_config(struct hca_config *c)
{
	c->max_rd_atomic = datasheet.max_rd_atomic;
	c->max_mr_bytes = datasheet.max_mr_bytes;
}
