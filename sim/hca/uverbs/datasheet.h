/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datasheet.h - what this card is and how much of everything it has.
 */
#ifndef TENT_SIM_HCA_DATASHEET_H
#define TENT_SIM_HCA_DATASHEET_H

#include <stdint.h>

struct datasheet {
	/* identity */
	uint32_t vendor_id, part_id, hardware_version;
	uint64_t firmware_version;	/* major << 32 | minor << 16 | sub-minor */

	/* memory */
	uint64_t max_mr_bytes, page_sizes;	/* page_sizes: bit n, 2^n bytes */
	uint32_t max_mr, max_pd, max_ah;

	/* queue pairs */
	uint32_t max_qp, max_qp_wr, max_sge, max_sge_read;
	uint32_t max_send_blocks;	/* of 64 bytes, of one queue */
	uint32_t max_send_wqe_bytes, max_recv_wqe_bytes;
	uint32_t max_rd_atomic;		/* of one QP, each way */
	uint32_t max_inline_bytes;

	/* shared receive queues, completion queues */
	uint32_t max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_cq, max_cqe, completion_vectors;
	uint32_t max_moderation_count, max_moderation_period_us;

	/* ports */
	uint32_t max_pkeys, max_message_bytes, gid_table_entries;
	uint32_t local_ack_delay;	/* 4.096 us * 2^n */
	uint8_t link_width, link_speed;	/* as QUERY_PORT codes them */

	/* time: completions carry ticks of a clock */
	uint64_t clock_khz, timestamp_mask;

	/* what libmlx5 asks of its driver */
	uint32_t doorbell_bytes;	/* of a BlueFlame register, both halves */
	uint32_t cache_line_bytes, max_dynamic_doorbells;

	uint32_t capabilities;		/* enum ib_uverbs_device_cap_flags */
};

extern const struct datasheet datasheet;

#endif /* TENT_SIM_HCA_DATASHEET_H */
