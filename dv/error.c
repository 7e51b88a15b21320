/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - the tables of syndromes and of other entries, and their words. */
#include <stdio.h>

#include "dv/error.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define FAULT(scope, rule, text) { DV_SCOPE_##scope, true, TENT_RULE_##rule, text }
#define OTHER(scope, rule, text) { DV_SCOPE_##scope, false, TENT_RULE_##rule, text }

/* Of the requester, IBA volume 1, 10.10.3 and mlx5dv.h. */
static const struct dv_fault syndromes[] = {
	[MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR] =
		FAULT(REQUEST, CARD, "more bytes than a message may have"),
	[MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR] =
		FAULT(CONNECTION, CARD, "the card cannot execute this WQE"),
	[MLX5_CQE_SYNDROME_LOCAL_PROT_ERR] =
		FAULT(REQUEST, SOURCE_GONE, "the local key does not cover these bytes"),
	[MLX5_CQE_SYNDROME_WR_FLUSH_ERR] =
		FAULT(CONNECTION, NONE, "not executed, its connection had ended"),
	[MLX5_CQE_SYNDROME_MW_BIND_ERR] =
		FAULT(DEVICE, CARD, "a memory window, of which there are none"),
	[MLX5_CQE_SYNDROME_BAD_RESP_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's answer made no sense"),
	[MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's request may not touch this memory"),
	[MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's card takes no such request"),
	[MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR] =
		FAULT(REQUEST, TARGET_GONE, "the remote key does not cover these bytes, or "
		      "does not allow this"),
	[MLX5_CQE_SYNDROME_REMOTE_OP_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's card could not do it"),
	[MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's card does not answer"),
	[MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's card is never ready"),
	[MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR] =
		FAULT(CONNECTION, PEER_LOST, "the peer's card gave it up"),
};
static const struct dv_fault unknown_syndrome =
	FAULT(DEVICE, CARD, "a syndrome that is not known");

/* What the entry is, where it is no error of the requester. */
static const struct dv_fault others[] = {
	[MLX5_CQE_REQ] =
		FAULT(DEVICE, CARD, "data or more completions in the entry, which is off"),
	[MLX5_CQE_RESP_WR_IMM] =
		OTHER(CONNECTION, PEER_LOST, "an immediate from the peer, who sends none"),
	[MLX5_CQE_RESP_SEND] =
		OTHER(CONNECTION, PEER_LOST, "a message from the peer, who sends none"),
	[MLX5_CQE_RESP_SEND_IMM] =
		OTHER(CONNECTION, PEER_LOST, "a message from the peer, who sends none"),
	[MLX5_CQE_RESP_SEND_INV] =
		OTHER(CONNECTION, PEER_LOST, "a message from the peer, who sends none"),
	[MLX5_CQE_RESIZE_CQ] =
		OTHER(DEVICE, CARD, "the queue was resized, which nobody asked for"),
	[MLX5_CQE_NO_PACKET] =
		OTHER(DEVICE, CARD, "an entry of another kind of queue"),
	[MLX5_CQE_SIG_ERR] =
		OTHER(DEVICE, CARD, "a signature error, and nothing is signed"),
	[MLX5_CQE_RESP_ERR] =
		OTHER(CONNECTION, PEER_LOST, "the peer's request could not be served"),
};
static const struct dv_fault unknown_entry = OTHER(DEVICE, CARD, "an entry that is not known");

const struct dv_fault dv_fault_stray = OTHER(DEVICE, CARD, "it names a WQE that is not posted");

static uint8_t opcode_of(const struct mlx5_cqe64 *cqe)
{
	return cqe->op_own >> 4;
}

static const struct mlx5_err_cqe *as_error(const struct mlx5_cqe64 *cqe)
{
	return (const struct mlx5_err_cqe *)(const void *)cqe;
}

static const struct dv_fault *find(const struct dv_fault *table, size_t nr, uint8_t number,
				   const struct dv_fault *unknown)
{
	return number < nr && table[number].text ? &table[number] : unknown;
}

const struct dv_fault *dv_fault_of(const struct mlx5_cqe64 *cqe)
{
	if (opcode_of(cqe) == MLX5_CQE_REQ_ERR)
		return find(syndromes, COUNT(syndromes), as_error(cqe)->syndrome,
			    &unknown_syndrome);
	return find(others, COUNT(others), opcode_of(cqe), &unknown_entry);
}

static const char *operation_of(const struct mlx5_cqe64 *cqe)
{
	switch (be32toh(cqe->sop_drop_qpn) >> 24) {
	case MLX5_OPCODE_RDMA_WRITE: return "WRITE";
	case MLX5_OPCODE_RDMA_READ: return "READ";
	case MLX5_OPCODE_NOP: return "NOP";
	default: return "operation";
	}
}

void dv_fault_describe(const struct dv_fault *f, const struct mlx5_cqe64 *cqe, char *text,
		       size_t size)
{
	uint32_t qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff;
	uint8_t opcode = opcode_of(cqe);

	if (opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR)
		snprintf(text, size, "%s of QP 0x%x, block %u: %s (syndrome 0x%02x, vendor 0x%02x)",
			 opcode == MLX5_CQE_REQ_ERR ? operation_of(cqe) : "receive", qpn,
			 be16toh(cqe->wqe_counter), f->text, as_error(cqe)->syndrome,
			 as_error(cqe)->vendor_err_synd);
	else
		snprintf(text, size, "completion of QP 0x%x, block %u: %s (op_own 0x%02x)", qpn,
			 be16toh(cqe->wqe_counter), f->text, cqe->op_own);
}
