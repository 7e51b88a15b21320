/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/uverbs/command.h"

#include <errno.h>

struct write_method {
	int (*run)(struct command *c);
	uint16_t in_bytes, out_bytes;	/* less is -ENOSPC */
};

#define IO(command, request, response)					\
	{ command, sizeof(struct request), sizeof(struct response) }
#define IN(command, request) { command, sizeof(struct request), 0 }
/* Extended commands have grown; these are the members that were there at first. */
#define END_OF(type, member)						\
	(offsetof(struct type, member) + sizeof(((struct type *)NULL)->member))
#define IO_EX(command, request, last, response)				\
	{ command, END_OF(request, last), END_OF(response, response_length) }

static const struct write_method legacy[] = {
	[IB_USER_VERBS_CMD_GET_CONTEXT] = IO(command_get_context, ib_uverbs_get_context,
					     ib_uverbs_get_context_resp),
	[IB_USER_VERBS_CMD_QUERY_DEVICE] = IO(command_query_device, ib_uverbs_query_device,
					      ib_uverbs_query_device_resp),
	[IB_USER_VERBS_CMD_QUERY_PORT] = IO(command_query_port, ib_uverbs_query_port,
					    ib_uverbs_query_port_resp),
	[IB_USER_VERBS_CMD_ALLOC_PD] = IO(command_alloc_pd, ib_uverbs_alloc_pd,
					  ib_uverbs_alloc_pd_resp),
	[IB_USER_VERBS_CMD_DEALLOC_PD] = IN(command_dealloc_pd, ib_uverbs_dealloc_pd),
	[IB_USER_VERBS_CMD_CREATE_AH] = IO(command_create_ah, ib_uverbs_create_ah,
					   ib_uverbs_create_ah_resp),
	[IB_USER_VERBS_CMD_DESTROY_AH] = IN(command_destroy_ah, ib_uverbs_destroy_ah),
	[IB_USER_VERBS_CMD_REG_MR] = IO(command_reg_mr, ib_uverbs_reg_mr,
					ib_uverbs_reg_mr_resp),
	[IB_USER_VERBS_CMD_REREG_MR] = IO(command_rereg_mr, ib_uverbs_rereg_mr,
					  ib_uverbs_rereg_mr_resp),
	[IB_USER_VERBS_CMD_DEREG_MR] = IN(command_dereg_mr, ib_uverbs_dereg_mr),
	[IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL] = IO(command_create_comp_channel,
						     ib_uverbs_create_comp_channel,
						     ib_uverbs_create_comp_channel_resp),
	[IB_USER_VERBS_CMD_CREATE_CQ] = IO(command_create_cq, ib_uverbs_create_cq,
					   ib_uverbs_create_cq_resp),
	[IB_USER_VERBS_CMD_RESIZE_CQ] = { command_resize_cq, sizeof(struct ib_uverbs_resize_cq),
					  END_OF(ib_uverbs_resize_cq_resp, cqe) },
	[IB_USER_VERBS_CMD_DESTROY_CQ] = IO(command_destroy_cq, ib_uverbs_destroy_cq,
					    ib_uverbs_destroy_cq_resp),
	[IB_USER_VERBS_CMD_CREATE_QP] = IO(command_create_qp, ib_uverbs_create_qp,
					   ib_uverbs_create_qp_resp),
	[IB_USER_VERBS_CMD_QUERY_QP] = IO(command_query_qp, ib_uverbs_query_qp,
					  ib_uverbs_query_qp_resp),
	[IB_USER_VERBS_CMD_MODIFY_QP] = IN(command_modify_qp, ib_uverbs_modify_qp),
	[IB_USER_VERBS_CMD_DESTROY_QP] = IO(command_destroy_qp, ib_uverbs_destroy_qp,
					    ib_uverbs_destroy_qp_resp),
	[IB_USER_VERBS_CMD_CREATE_SRQ] = IO(command_create_srq, ib_uverbs_create_srq,
					    ib_uverbs_create_srq_resp),
	[IB_USER_VERBS_CMD_MODIFY_SRQ] = IN(command_modify_srq, ib_uverbs_modify_srq),
	[IB_USER_VERBS_CMD_QUERY_SRQ] = IO(command_query_srq, ib_uverbs_query_srq,
					   ib_uverbs_query_srq_resp),
	[IB_USER_VERBS_CMD_DESTROY_SRQ] = IO(command_destroy_srq, ib_uverbs_destroy_srq,
					     ib_uverbs_destroy_srq_resp),
	[IB_USER_VERBS_CMD_OPEN_QP] = { NULL, 0, 0 },	/* the last one that exists */
};

static const struct write_method extended[] = {
	[IB_USER_VERBS_EX_CMD_QUERY_DEVICE] = IO_EX(command_query_device_ex,
						    ib_uverbs_ex_query_device, reserved,
						    ib_uverbs_ex_query_device_resp),
	[IB_USER_VERBS_EX_CMD_CREATE_CQ] = IO_EX(command_create_cq_ex, ib_uverbs_ex_create_cq,
						 reserved, ib_uverbs_ex_create_cq_resp),
	[IB_USER_VERBS_EX_CMD_CREATE_QP] = IO_EX(command_create_qp_ex, ib_uverbs_ex_create_qp,
						 create_flags, ib_uverbs_ex_create_qp_resp),
	[IB_USER_VERBS_EX_CMD_MODIFY_QP] = IO_EX(command_modify_qp_ex, ib_uverbs_ex_modify_qp,
						 base, ib_uverbs_ex_modify_qp_resp),
	[IB_USER_VERBS_EX_CMD_MODIFY_CQ] = { command_modify_cq_ex,
					     END_OF(ib_uverbs_ex_modify_cq, reserved), 0 },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* *error: what the kernel says to a number that it does not know, or knows but the driver
 * does not have. */
static const struct write_method *find_method(uint32_t number, int *error)
{
	uint32_t index = number & IB_USER_VERBS_CMD_COMMAND_MASK;
	bool is_extended = number & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	const struct write_method *m = NULL;

	*error = -EOPNOTSUPP;
	if (number & ~(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK))
		*error = -EINVAL;
	else if (is_extended && index < COUNT(extended))
		m = &extended[index];
	else if (!is_extended && index < COUNT(legacy))
		m = &legacy[index];
	else if (!is_extended)
		*error = -EINVAL;
	return m && m->run ? m : NULL;
}

int command_invoke_write(struct command *c, uint32_t number)
{
	int error;
	const struct write_method *m = find_method(number, &error);

	if (!m)
		return error;
	if (c->in_length < m->in_bytes || c->out_length < m->out_bytes)
		return -ENOSPC;
	if (!c->file->async && m->run != command_get_context)
		return -EINVAL;
	return m->run(c);
}

bool command_is_tail_zero(const struct command *c, uint32_t known)
{
	for (uint32_t i = known; i < c->in_length && i < COMMAND_BYTES; i++)
		if (c->in[i])
			return false;
	return c->is_in_tail_zero;
}

uint32_t command_response_length(const struct command *c, uint32_t full)
{
	return c->out_length < full ? c->out_length : full;
}

struct object *command_find(const struct command *c, enum object_type type, uint32_t handle)
{
	return object_find(&c->file->objects, type, handle);
}

struct object *command_make(struct command *c, enum object_type type)
{
	c->made = object_make(&c->file->objects, type);
	if (c->made)
		c->made->file = c->file;
	return c->made;
}

int command_unmake(struct command *c, int rc)
{
	if (c->made)
		object_free(&c->file->objects, c->made);
	c->made = NULL;
	return rc;
}

int command_destroy(struct command *c, enum object_type type, uint32_t handle)
{
	struct object *o = command_find(c, type, handle);

	return o ? uverbs_destroy_object(o) : -ENOENT;
}
