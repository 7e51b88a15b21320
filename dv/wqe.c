/* SPDX-License-Identifier: Apache-2.0 */
/* wqe.c - the shape that is too long to be inlined. */
#include <string.h>

#include "dv/wqe.h"

void dv_wqe_inline(struct dv_wqe_inline *w, uint32_t pi, uint32_t qpn,
		   const struct dv_piece *p, const void *bytes)
{
	uint32_t ds = dv_inline_ds(p->length);
	uint8_t *last = (uint8_t *)w + (ds - 1) * DV_SEGMENT;

	w->ctrl = dv_ctrl(MLX5_OPCODE_RDMA_WRITE, pi, dv_qpn_ds(qpn, ds));
	w->raddr = (struct mlx5_wqe_raddr_seg) {
		.raddr = htobe64(p->remote),
		.rkey  = htobe32(p->rkey),
	};
	memset(last, 0, DV_SEGMENT);
	w->head.byte_count = htobe32(p->length | MLX5_INLINE_SEG);
	memcpy(w->bytes, bytes, p->length);
}
