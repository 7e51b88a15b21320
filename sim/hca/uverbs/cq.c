/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "sim/hca/uverbs/command.h"
#include "sim/hca/uverbs/datasheet.h"

/* The extended form of the command says all that the old one can. */
struct cq_request {
	struct ib_uverbs_ex_create_cq core;
	struct mlx5_ib_create_cq hw;
	struct event_queue *channel;
	uint32_t nr_cqes;
};

/* The next power of two that has room for one more than n; n is small. */
static uint32_t nr_with_room(uint32_t n)
{
	uint32_t size = 1;

	while (size < n + 1)
		size <<= 1;
	return size;
}

static int find_channel(struct command *c, struct cq_request *r)
{
	const struct uverbs_env *env = c->file->device->env;

	if (r->core.comp_channel < 0)
		return 0;
	r->channel = env->event_of(env->ctx, r->core.comp_channel);
	if (!r->channel)
		return -EBADF;
	return event_queue_is_async(r->channel) ? -EINVAL : 0;
}

static int check_hw(const struct command *c, const struct mlx5_ib_create_cq *hw)
{
	if (c->hw_in_length < offsetof(struct mlx5_ib_create_cq, flags))
		return -EINVAL;
	if (hw->flags & ~(MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX |
			  MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD |
			  MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS))
		return -EINVAL;
	if (hw->cqe_size != 64 && hw->cqe_size != 128)
		return -EINVAL;
	if (hw->cqe_comp_en || hw->flags & (MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD |
					    MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS))
		return -EOPNOTSUPP;
	if (hw->flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX &&
	    !command_knows_uar(c, hw->uar_page_index))
		return -EINVAL;
	return 0;
}

static int check_create(struct command *c, struct cq_request *r)
{
	if (r->core.comp_vector >= datasheet.completion_vectors)
		return -EINVAL;
	if (r->core.flags & ~(uint32_t)(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
					IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (!r->core.cqe || r->core.cqe > datasheet.max_cqe)
		return -EINVAL;
	r->nr_cqes = nr_with_room(r->core.cqe);
	return check_hw(c, &r->hw);
}

static int pin_queues(const struct cq_request *r, struct hca_cq_attr *a)
{
	int rc = umem_pin(&a->buffer, r->hw.buf_addr, (uint64_t)r->nr_cqes * r->hw.cqe_size,
			  true);

	if (rc)
		return rc;
	rc = umem_pin(&a->record, r->hw.db_addr, 2 * sizeof(uint32_t), true);
	if (rc)
		umem_release(a->buffer);
	return rc;
}

static int make_cq(struct command *c, const struct cq_request *r, uint32_t *cqn)
{
	struct object *o = command_make(c, OBJECT_CQ);
	struct hca_cq_attr a = {
		.cqe_bytes = r->hw.cqe_size,
		.nr_cqes = r->nr_cqes,
		.ignore_overrun = r->core.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN,
		.cookie = o,
	};
	int rc = o ? pin_queues(r, &a) : -ENOMEM;

	if (!rc) {
		rc = hca_cq_create(c->file->device->hca, &a, &o->cq.hca, cqn);
		if (rc) {
			umem_release(a.record);
			umem_release(a.buffer);
		}
	}
	if (rc)
		return command_unmake(c, rc);
	o->user_handle = r->core.user_handle;
	o->cq.cqe_bytes = r->hw.cqe_size;
	o->cq.nr_cqes = r->nr_cqes;
	if (r->channel)
		o->cq.channel = event_queue_hold(r->channel);
	return 0;
}

static int create(struct command *c, struct cq_request *r,
		  struct ib_uverbs_create_cq_resp *out)
{
	const struct uverbs_env *env = c->file->device->env;
	int rc = check_create(c, r);

	if (!rc)
		rc = find_channel(c, r);
	if (rc)
		return rc;
	env->uars_used(env->ctx);
	rc = make_cq(c, r, &COMMAND_HW_OUT(c, mlx5_ib_create_cq_resp)->cqn);
	if (rc)
		return rc;
	out->cq_handle = c->made->handle;
	out->cqe = r->nr_cqes - 1;
	return 0;
}

int command_create_cq(struct command *c)
{
	const struct ib_uverbs_create_cq *in = COMMAND_IN(c, ib_uverbs_create_cq);
	struct cq_request r = {
		.core = { .user_handle = in->user_handle, .cqe = in->cqe,
			  .comp_vector = in->comp_vector, .comp_channel = in->comp_channel },
		.hw = *COMMAND_HW_IN(c, mlx5_ib_create_cq),
	};

	return create(c, &r, COMMAND_OUT(c, ib_uverbs_create_cq_resp));
}

int command_create_cq_ex(struct command *c)
{
	struct ib_uverbs_ex_create_cq_resp *out = COMMAND_OUT(c, ib_uverbs_ex_create_cq_resp);
	struct cq_request r = {
		.core = *COMMAND_IN(c, ib_uverbs_ex_create_cq),
		.hw = *COMMAND_HW_IN(c, mlx5_ib_create_cq),
	};

	if (r.core.comp_mask || r.core.reserved)
		return -EINVAL;
	if (!command_is_tail_zero(c, sizeof(r.core)))
		return -EOPNOTSUPP;
	out->response_length = command_response_length(c, sizeof(*out));
	return create(c, &r, &out->base);
}

int command_resize_cq(struct command *c)
{
	const struct ib_uverbs_resize_cq *in = COMMAND_IN(c, ib_uverbs_resize_cq);
	const struct mlx5_ib_resize_cq *hw = COMMAND_HW_IN(c, mlx5_ib_resize_cq);
	struct object *o = command_find(c, OBJECT_CQ, in->cq_handle);
	struct umem *buffer;
	uint32_t nr_cqes;
	int rc;

	if (!o)
		return -ENOENT;
	if (c->hw_in_length < sizeof(*hw) || !in->cqe || in->cqe > datasheet.max_cqe ||
	    hw->reserved0 || hw->reserved1 || (hw->cqe_size != 64 && hw->cqe_size != 128))
		return -EINVAL;
	nr_cqes = nr_with_room(in->cqe);
	rc = umem_pin(&buffer, hw->buf_addr, (uint64_t)nr_cqes * hw->cqe_size, true);
	if (rc)
		return rc;
	rc = hca_cq_resize(o->cq.hca, buffer, 0, hw->cqe_size, nr_cqes);
	if (rc) {
		umem_release(buffer);
		/* The firmware calls it a bad size, whatever there is no room for. */
		return rc == -EBUSY ? -EINVAL : rc;
	}
	o->cq.nr_cqes = nr_cqes;
	o->cq.cqe_bytes = hw->cqe_size;
	COMMAND_OUT(c, ib_uverbs_resize_cq_resp)->cqe = nr_cqes - 1;
	return 0;
}

/* Moderation says how late an event may come; ours are never late. */
int command_modify_cq_ex(struct command *c)
{
	const struct ib_uverbs_ex_modify_cq *in = COMMAND_IN(c, ib_uverbs_ex_modify_cq);

	if (!command_is_tail_zero(c, sizeof(*in)))
		return -EOPNOTSUPP;
	if (!in->attr_mask || in->reserved)
		return -EINVAL;
	if (in->attr_mask > 1)		/* IBV_CQ_ATTR_MODERATE */
		return -EOPNOTSUPP;
	if (in->attr.cq_period > datasheet.max_moderation_period_us)
		return -EINVAL;
	return command_find(c, OBJECT_CQ, in->cq_handle) ? 0 : -ENOENT;
}

int command_destroy_cq(struct command *c)
{
	uint32_t handle = COMMAND_IN(c, ib_uverbs_destroy_cq)->cq_handle;
	struct object *o = command_find(c, OBJECT_CQ, handle);
	struct ib_uverbs_destroy_cq_resp *out = COMMAND_OUT(c, ib_uverbs_destroy_cq_resp);

	if (!o)
		return -ENOENT;
	out->comp_events_reported = o->comp_reported;
	out->async_events_reported = o->async_reported;
	return uverbs_destroy_object(o);
}
