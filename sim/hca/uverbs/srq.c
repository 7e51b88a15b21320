/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"
#include "sim/hca/uverbs/datasheet.h"

struct srq_request {
	const struct ib_uverbs_create_srq *core;
	const struct mlx5_ib_create_srq *hw;
	struct object *pd;
	uint32_t nr_wqes, stride_bytes;
};

static uint32_t round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size <<= 1;
	return size;
}

/* A receive WQE of an SRQ: the link to the next, then the scatter list. */
static int check_create(const struct command *c, struct srq_request *r)
{
	uint32_t bytes;

	if (!r->pd)
		return -ENOENT;
	if (c->hw_in_length < offsetof(struct mlx5_ib_create_srq, uidx) ||
	    r->hw->reserved0 || r->hw->reserved1)
		return -EINVAL;
	if (r->hw->flags & MLX5_SRQ_FLAG_SIGNATURE)
		return -EOPNOTSUPP;
	if (r->core->max_wr > datasheet.max_srq_wr || r->core->max_sge > datasheet.max_srq_sge)
		return -EINVAL;
	bytes = (uint32_t)sizeof(struct mlx5_wqe_srq_next_seg) +
		r->core->max_sge * (uint32_t)sizeof(struct mlx5_wqe_data_seg);
	r->stride_bytes = round_up(bytes < 32 ? 32 : bytes);
	r->nr_wqes = round_up(r->core->max_wr + 1);
	return r->core->srq_limit > r->core->max_wr ? -EINVAL : 0;
}

static int pin_queues(const struct srq_request *r, struct hca_srq_attr *a)
{
	int rc = umem_pin(&a->buffer, r->hw->buf_addr, (uint64_t)r->nr_wqes * r->stride_bytes,
			  true);

	if (rc)
		return rc;
	rc = umem_pin(&a->record, r->hw->db_addr, sizeof(uint32_t), true);
	if (rc)
		umem_release(a->buffer);
	return rc;
}

static int make_srq(struct command *c, const struct srq_request *r, uint32_t *srqn)
{
	struct object *o = command_make(c, OBJECT_SRQ);
	struct hca_srq_attr a = { .pd = r->pd->pd, .nr_wqes = r->nr_wqes,
				  .stride_bytes = r->stride_bytes, .cookie = o };
	int rc = o ? pin_queues(r, &a) : -ENOMEM;

	if (!rc) {
		rc = hca_srq_create(c->file->device->hca, &a, &o->srq.hca, srqn);
		if (rc) {
			umem_release(a.record);
			umem_release(a.buffer);
		}
	}
	if (rc)
		return command_unmake(c, rc);
	o->user_handle = r->core->user_handle;
	o->srq.nr_wqes = r->nr_wqes;
	o->srq.max_sge = (r->stride_bytes - (uint32_t)sizeof(struct mlx5_wqe_srq_next_seg)) /
			 (uint32_t)sizeof(struct mlx5_wqe_data_seg);
	object_use(o, r->pd);
	return 0;
}

int command_create_srq(struct command *c)
{
	const struct ib_uverbs_create_srq *in = COMMAND_IN(c, ib_uverbs_create_srq);
	struct srq_request r = { .core = in, .hw = COMMAND_HW_IN(c, mlx5_ib_create_srq),
				 .pd = command_find(c, OBJECT_PD, in->pd_handle) };
	struct ib_uverbs_create_srq_resp *out = COMMAND_OUT(c, ib_uverbs_create_srq_resp);
	uint32_t srqn;
	int rc = check_create(c, &r);

	if (!rc)
		rc = make_srq(c, &r, &srqn);
	if (!rc && in->srq_limit)
		rc = hca_srq_set_limit(c->made->srq.hca, in->srq_limit);
	if (rc)
		return rc;
	out->srq_handle = c->made->handle;
	out->max_wr = r.nr_wqes - 1;
	out->max_sge = c->made->srq.max_sge;
	COMMAND_HW_OUT(c, mlx5_ib_create_srq_resp)->srqn = srqn;
	return 0;
}

int command_modify_srq(struct command *c)
{
	const struct ib_uverbs_modify_srq *in = COMMAND_IN(c, ib_uverbs_modify_srq);
	struct object *o = command_find(c, OBJECT_SRQ, in->srq_handle);

	if (!o)
		return -ENOENT;
	if (in->attr_mask & IBV_SRQ_MAX_WR)	/* nor does mlx5 resize them */
		return -EINVAL;
	if (!(in->attr_mask & IBV_SRQ_LIMIT))
		return 0;
	return in->srq_limit >= o->srq.nr_wqes ? -EINVAL :
	       hca_srq_set_limit(o->srq.hca, in->srq_limit);
}

int command_query_srq(struct command *c)
{
	struct object *o = command_find(c, OBJECT_SRQ,
					COMMAND_IN(c, ib_uverbs_query_srq)->srq_handle);

	if (!o)
		return -ENOENT;
	*COMMAND_OUT(c, ib_uverbs_query_srq_resp) = (struct ib_uverbs_query_srq_resp){
		.max_wr = o->srq.nr_wqes - 1,
		.max_sge = o->srq.max_sge,
		.srq_limit = hca_srq_limit(o->srq.hca),
	};
	return 0;
}

int command_destroy_srq(struct command *c)
{
	struct object *o = command_find(c, OBJECT_SRQ,
					COMMAND_IN(c, ib_uverbs_destroy_srq)->srq_handle);
	struct ib_uverbs_destroy_srq_resp *out = COMMAND_OUT(c, ib_uverbs_destroy_srq_resp);

	if (!o)
		return -ENOENT;
	out->events_reported = o->async_reported;
	return uverbs_destroy_object(o);
}
