/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - each WQE, packet and CQE as one line of text, for people and tests.
 */
#include <stdarg.h>
#include <stdio.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

enum { LINE_BYTES = 256 };

static const char *const operation_names[32] = {
	[HCA_SEND_FIRST] = "send_first", [HCA_SEND_MIDDLE] = "send_middle",
	[HCA_SEND_LAST] = "send_last", [HCA_SEND_LAST_IMM] = "send_last_imm",
	[HCA_SEND_ONLY] = "send_only", [HCA_SEND_ONLY_IMM] = "send_only_imm",
	[HCA_WRITE_FIRST] = "write_first", [HCA_WRITE_MIDDLE] = "write_middle",
	[HCA_WRITE_LAST] = "write_last", [HCA_WRITE_LAST_IMM] = "write_last_imm",
	[HCA_WRITE_ONLY] = "write_only", [HCA_WRITE_ONLY_IMM] = "write_only_imm",
	[HCA_READ_REQUEST] = "read_request",
	[HCA_READ_RESPONSE_FIRST] = "read_response_first",
	[HCA_READ_RESPONSE_MIDDLE] = "read_response_middle",
	[HCA_READ_RESPONSE_LAST] = "read_response_last",
	[HCA_READ_RESPONSE_ONLY] = "read_response_only",
	[HCA_ACKNOWLEDGE] = "acknowledge", [HCA_ATOMIC_ACKNOWLEDGE] = "atomic_acknowledge",
	[HCA_COMPARE_SWAP] = "compare_swap", [HCA_FETCH_ADD] = "fetch_add",
	[HCA_SEND_LAST_INVALIDATE] = "send_last_invalidate",
	[HCA_SEND_ONLY_INVALIDATE] = "send_only_invalidate",
};

__attribute__((format(printf, 2, 3)))
static void say(const struct hca *h, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	h->env.trace(h->env.ctx, line);
}

void hca_trace_wqe(const struct hca_qp *qp, const struct hca_wqe *w)
{
	if (!qp->hca->env.trace)
		return;
	say(qp->hca, "wqe qpn 0x%06x index %u opcode %s bytes %llu segments %u signalled %d "
	    "fence %u raddr 0x%llx rkey 0x%x syndrome 0x%02x",
	    qp->qpn, w->index, hca_wqe_name(w->opcode), (unsigned long long)w->data.length,
	    w->data.nr, w->is_signalled, w->fence, (unsigned long long)w->remote_address,
	    w->rkey, w->syndrome);
}

void hca_trace_packet(const struct hca *h, const struct hca_packet *p, bool is_sent)
{
	const char *name = operation_names[p->opcode & 0x1f];

	if (!h->env.trace)
		return;
	say(h, "packet %s %s %s qpn 0x%06x psn %u bytes %u ack_request %d aeth 0x%02x msn %u",
	    is_sent ? "sent" : "received", (p->opcode & 0xe0) == HCA_UD ? "ud" : "rc",
	    name ? name : "unknown", p->dest_qpn, p->psn, p->length, p->ack_request,
	    p->syndrome, p->msn);
}

void hca_trace_cqe(const struct hca_cq *cq, uint32_t index, const uint8_t bytes[64])
{
	const struct mlx5_cqe64 *cqe = (const void *)bytes;
	const struct mlx5_err_cqe *error = (const void *)bytes;
	uint8_t opcode = bytes[63] >> 4;
	bool is_error = opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;

	if (!cq->hca->env.trace)
		return;
	say(cq->hca, "cqe cqn %u index %u opcode %u qpn 0x%06x wqe %u bytes %u syndrome 0x%02x",
	    cq->cqn, index, opcode, be32toh(cqe->sop_drop_qpn) & HCA_QPN_MASK,
	    be16toh(cqe->wqe_counter), is_error ? 0 : be32toh(cqe->byte_cnt),
	    is_error ? error->syndrome : 0);
}
