/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctl.c - the attributes of an RDMA_VERBS_IOCTL, and the few methods that are answered
 * here. To all others the answer is the kernel's to a method it does not have, and
 * libibverbs then uses the older command through INVOKE_WRITE.
 */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "sim/hca/mem/user.h"
#include "sim/hca/uverbs/command.h"

#define MAX_ATTRS ((UVERBS_PAGE - sizeof(struct ib_uverbs_ioctl_hdr)) /	\
		   sizeof(struct ib_uverbs_attr))
#define MAX_SPECS 10

enum kind {
	VALUE_IN,		/* a number, inline */
	POINTER_IN,		/* bytes: inline up to 8, else where data points */
	POINTER_OUT,
	OBJECT_IN,		/* a handle */
	OBJECT_OUT,
};

struct spec {
	uint16_t id;
	uint8_t kind;
	bool is_optional;
	uint16_t min_bytes, max_bytes;	/* max 0: any */
};

struct call {
	struct command command;
	const struct method *method;
	uint64_t address;		/* of the program's attribute 0 */
	unsigned nr_attrs;
	struct ib_uverbs_attr attrs[MAX_ATTRS];
	int found[MAX_SPECS];		/* index in attrs of each spec, -1: not given */
};

struct method {
	uint16_t object, method;
	int (*run)(struct call *call);
	unsigned nr_specs;
	struct spec specs[MAX_SPECS];
};

/* ---- what methods take from and give to their attributes -------------------- */

static const struct ib_uverbs_attr *get(const struct call *call, unsigned spec)
{
	return call->found[spec] < 0 ? NULL : &call->attrs[call->found[spec]];
}

static uint64_t get_number(const struct call *call, unsigned spec)
{
	const struct ib_uverbs_attr *a = get(call, spec);
	uint64_t value = 0;

	memcpy(&value, &a->data, a->len < sizeof(value) ? a->len : sizeof(value));
	return value;
}

static int get_bytes(const struct call *call, unsigned spec, uint8_t *to, uint32_t *length)
{
	const struct ib_uverbs_attr *a = get(call, spec);
	size_t n;

	if (!a)
		return 0;
	*length = a->len;
	n = a->len < COMMAND_BYTES ? a->len : COMMAND_BYTES;
	if (a->len > sizeof(a->data))
		return user_read(to, a->data, n);
	memcpy(to, &a->data, n);
	return 0;
}

/* Tells the program that this output is there. */
static int mark_valid(struct call *call, unsigned spec)
{
	uint16_t flags = get(call, spec)->flags | UVERBS_ATTR_F_VALID_OUTPUT;
	uint64_t at = call->address + (unsigned)call->found[spec] * sizeof(call->attrs[0]);

	return user_write(at + offsetof(struct ib_uverbs_attr, flags), &flags, sizeof(flags));
}

/* The room behind what there is gets zeros, as the kernel does. */
static int put_bytes(struct call *call, unsigned spec, const uint8_t *from, size_t used)
{
	static const uint8_t zeros[COMMAND_BYTES];
	const struct ib_uverbs_attr *a = get(call, spec);
	size_t n;
	int rc;

	if (!a)
		return 0;
	n = used < a->len ? used : a->len;
	rc = user_write(a->data, from, n);
	for (size_t at = n; !rc && at < a->len; at += n) {
		n = a->len - at < sizeof(zeros) ? a->len - at : sizeof(zeros);
		rc = user_write(a->data + at, zeros, n);
	}
	return rc ? rc : mark_valid(call, spec);
}

static int put_handle(struct call *call, unsigned spec, uint64_t handle)
{
	uint64_t at = call->address + (unsigned)call->found[spec] * sizeof(call->attrs[0]);

	return user_write(at + offsetof(struct ib_uverbs_attr, data), &handle, sizeof(handle));
}

/* ---- the methods --------------------------------------------------------- */

enum { WRITE_CMD, WRITE_CORE_IN, WRITE_CORE_OUT, WRITE_HW_IN, WRITE_HW_OUT };

static int is_tail_zero(const struct call *call, bool *is_zero)
{
	const struct ib_uverbs_attr *a = get(call, WRITE_CORE_IN);
	uint8_t bytes[COMMAND_BYTES];
	size_t n;
	int rc;

	*is_zero = true;
	for (size_t at = COMMAND_BYTES; a && at < a->len; at += n) {
		n = a->len - at < sizeof(bytes) ? a->len - at : sizeof(bytes);
		rc = user_read(bytes, a->data + at, n);
		if (rc)
			return rc;
		for (size_t i = 0; i < n; i++)
			*is_zero &= !bytes[i];
	}
	return 0;
}

static int invoke_write(struct call *call)
{
	struct command *c = &call->command;
	const struct ib_uverbs_attr *out = get(call, WRITE_CORE_OUT);
	const struct ib_uverbs_attr *hw_out = get(call, WRITE_HW_OUT);
	uint64_t number = get_number(call, WRITE_CMD);
	int rc;

	if (number > UINT32_MAX)
		return -EINVAL;
	c->out_length = out ? out->len : 0;
	c->hw_out_length = hw_out ? hw_out->len : 0;
	rc = get_bytes(call, WRITE_CORE_IN, c->in, &c->in_length);
	if (!rc)
		rc = get_bytes(call, WRITE_HW_IN, c->hw_in, &c->hw_in_length);
	if (!rc)
		rc = is_tail_zero(call, &c->is_in_tail_zero);
	if (!rc)
		rc = command_invoke_write(c, (uint32_t)number);
	if (!rc)
		rc = put_bytes(call, WRITE_CORE_OUT, c->out, c->out_used);
	if (!rc)
		rc = put_bytes(call, WRITE_HW_OUT, c->hw_out, c->hw_out_used);
	return rc;
}

enum { UAR_HANDLE, UAR_TYPE, UAR_OFFSET, UAR_LENGTH, UAR_PAGE_ID };

static int alloc_uar(struct call *call)
{
	uint32_t length = UVERBS_PAGE, page;
	uint64_t offset;
	int rc = command_alloc_uar(&call->command, get_number(call, UAR_TYPE));

	if (rc)
		return rc;
	page = call->command.made->uar;
	offset = (uint64_t)(UVERBS_FIRST_UAR_PAGE + page) * UVERBS_PAGE;
	rc = put_bytes(call, UAR_OFFSET, (uint8_t *)&offset, sizeof(offset));
	if (!rc)
		rc = put_bytes(call, UAR_LENGTH, (uint8_t *)&length, sizeof(length));
	if (!rc)
		rc = put_bytes(call, UAR_PAGE_ID, (uint8_t *)&page, sizeof(page));
	if (!rc)
		rc = put_handle(call, UAR_HANDLE, call->command.made->handle);
	return rc;
}

static int destroy_uar(struct call *call)
{
	return command_destroy(&call->command, OBJECT_UAR,
			       (uint32_t)get(call, UAR_HANDLE)->data);
}

enum { DMABUF_HANDLE, DMABUF_PD, DMABUF_OFFSET, DMABUF_LENGTH, DMABUF_IOVA, DMABUF_FD,
       DMABUF_ACCESS, DMABUF_LKEY, DMABUF_RKEY };

static int reg_dmabuf_mr(struct call *call)
{
	struct command_dmabuf d = {
		.offset = get_number(call, DMABUF_OFFSET),
		.length = get_number(call, DMABUF_LENGTH),
		.iova = get_number(call, DMABUF_IOVA),
		.pd_handle = (uint32_t)get(call, DMABUF_PD)->data,
		.access = get(call, DMABUF_ACCESS) ?
			  (uint32_t)get_number(call, DMABUF_ACCESS) : 0,
		.fd = (int)get_number(call, DMABUF_FD),
	};
	int rc = command_reg_dmabuf_mr(&call->command, &d);
	uint32_t key;

	if (rc)
		return rc;
	key = call->command.made->mr.key;
	rc = put_bytes(call, DMABUF_LKEY, (uint8_t *)&key, sizeof(key));
	if (!rc)
		rc = put_bytes(call, DMABUF_RKEY, (uint8_t *)&key, sizeof(key));
	if (!rc)
		rc = put_handle(call, DMABUF_HANDLE, call->command.made->handle);
	return rc;
}

#define OPTIONAL true
#define NEEDED false

static const struct method methods[] = {
	{ UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, invoke_write, 5, {
		[WRITE_CMD] = { UVERBS_ATTR_WRITE_CMD, VALUE_IN, NEEDED, 8, 8 },
		[WRITE_CORE_IN] = { UVERBS_ATTR_CORE_IN, POINTER_IN, OPTIONAL, 1, 0 },
		[WRITE_CORE_OUT] = { UVERBS_ATTR_CORE_OUT, POINTER_OUT, OPTIONAL, 0, 0 },
		[WRITE_HW_IN] = { UVERBS_ATTR_UHW_IN, POINTER_IN, OPTIONAL, 0, 0 },
		[WRITE_HW_OUT] = { UVERBS_ATTR_UHW_OUT, POINTER_OUT, OPTIONAL, 0, 0 },
	} },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, alloc_uar, 5, {
		[UAR_HANDLE] = { MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, OBJECT_OUT, NEEDED, 0, 0 },
		[UAR_TYPE] = { MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, VALUE_IN, NEEDED, 8, 8 },
		[UAR_OFFSET] = { MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, POINTER_OUT, NEEDED,
				 8, 8 },
		[UAR_LENGTH] = { MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, POINTER_OUT, NEEDED,
				 4, 4 },
		[UAR_PAGE_ID] = { MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, POINTER_OUT, NEEDED,
				  4, 4 },
	} },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, destroy_uar, 1, {
		[UAR_HANDLE] = { MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, OBJECT_IN, NEEDED, 0, 0 },
	} },
	{ UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, reg_dmabuf_mr, 9, {
		[DMABUF_HANDLE] = { UVERBS_ATTR_REG_DMABUF_MR_HANDLE, OBJECT_OUT, NEEDED, 0, 0 },
		[DMABUF_PD] = { UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, OBJECT_IN, NEEDED, 0, 0 },
		[DMABUF_OFFSET] = { UVERBS_ATTR_REG_DMABUF_MR_OFFSET, VALUE_IN, NEEDED, 8, 8 },
		[DMABUF_LENGTH] = { UVERBS_ATTR_REG_DMABUF_MR_LENGTH, VALUE_IN, NEEDED, 8, 8 },
		[DMABUF_IOVA] = { UVERBS_ATTR_REG_DMABUF_MR_IOVA, VALUE_IN, NEEDED, 8, 8 },
		[DMABUF_FD] = { UVERBS_ATTR_REG_DMABUF_MR_FD, VALUE_IN, NEEDED, 4, 8 },
		[DMABUF_ACCESS] = { UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, VALUE_IN, OPTIONAL,
				    4, 8 },
		[DMABUF_LKEY] = { UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, POINTER_OUT, NEEDED,
				  4, 4 },
		[DMABUF_RKEY] = { UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, POINTER_OUT, NEEDED,
				  4, 4 },
	} },
};

/* ---- decoding ------------------------------------------------------------- */

static const struct method *find_method(uint16_t object, uint16_t method)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (methods[i].object == object && methods[i].method == method)
			return &methods[i];
	return NULL;
}

static int check_attr(const struct ib_uverbs_attr *a, const struct spec *s)
{
	bool is_object = s->kind == OBJECT_IN || s->kind == OBJECT_OUT;

	if (a->attr_data.reserved)
		return -EINVAL;
	if (is_object)
		return a->len ? -EINVAL : 0;
	return a->len < s->min_bytes || (s->max_bytes && a->len > s->max_bytes) ? -EINVAL : 0;
}

/* Finds each attribute's place; one that nobody knows may be there if it is optional. */
static int sort_attrs(struct call *call)
{
	const struct method *m = call->method;
	int rc;

	for (unsigned s = 0; s < m->nr_specs; s++)
		call->found[s] = -1;
	for (unsigned i = 0; i < call->nr_attrs; i++) {
		const struct ib_uverbs_attr *a = &call->attrs[i];
		unsigned s = 0;

		while (s < m->nr_specs && m->specs[s].id != a->attr_id)
			s++;
		if (s == m->nr_specs) {
			if (a->flags & UVERBS_ATTR_F_MANDATORY)
				return -EPROTONOSUPPORT;
			continue;
		}
		rc = call->found[s] >= 0 ? -EINVAL : check_attr(a, &m->specs[s]);
		if (rc)
			return rc;
		call->found[s] = (int)i;
	}
	for (unsigned s = 0; s < m->nr_specs; s++)
		if (call->found[s] < 0 && !m->specs[s].is_optional)
			return -EINVAL;
	return 0;
}

static int read_call(struct call *call, uint64_t argument)
{
	struct ib_uverbs_ioctl_hdr h;
	int rc = user_read(&h, argument, sizeof(h));

	if (rc)
		return rc;
	if (h.length > UVERBS_PAGE || h.num_attrs > MAX_ATTRS ||
	    h.length != sizeof(h) + h.num_attrs * sizeof(call->attrs[0]))
		return -EINVAL;
	if (h.reserved1 || h.reserved2)
		return -EPROTONOSUPPORT;
	if (h.driver_id != RDMA_DRIVER_MLX5)
		return -EINVAL;
	call->method = find_method(h.object_id, h.method_id);
	if (!call->method)
		return -EPROTONOSUPPORT;
	call->address = argument + sizeof(h);
	call->nr_attrs = h.num_attrs;
	rc = user_read(call->attrs, call->address, h.num_attrs * sizeof(call->attrs[0]));
	return rc ? rc : sort_attrs(call);
}

/* The program never learns of what was made, so it must not stay. */
static void undo(struct command *c)
{
	const struct uverbs_env *env = c->file->device->env;

	if (c->made)
		uverbs_destroy_object(c->made);
	if (c->made_fd < 0)
		return;
	if (c->file->async && env->event_of(env->ctx, c->made_fd) == c->file->async) {
		event_queue_drop(c->file->async);
		c->file->async = NULL;
	}
	env->event_abandon(env->ctx, c->made_fd);
}

int uverbs_ioctl(struct uverbs_file *f, unsigned long request, uint64_t argument)
{
	struct call call;
	int rc;

	if (request != RDMA_VERBS_IOCTL)
		return -ENOTTY;
	if (f->device->is_removed)
		return -EIO;
	memset(&call.command, 0, sizeof(call.command));
	call.command.file = f;
	call.command.made_fd = -1;
	rc = read_call(&call, argument);
	if (rc)
		return rc;
	rc = call.method->run(&call);
	if (rc)
		undo(&call.command);
	return rc;
}
