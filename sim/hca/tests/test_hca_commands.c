/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device answers to a program's commands, right ones and wrong ones: as ib_uverbs
 * and mlx5_ib of the kernel do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "sim/hca/tests/common/program.h"

/* Nothing is ever mapped so low. */
#define NOWHERE 8

/* ---- how a command may look ---------------------------------------------------------- */

static void a_request_without_its_buffers_is_enospc(void **state)
{
	struct program *p = *state;

	/* libibverbs' probe for INVOKE_WRITE */
	assert_int_equal(program_write(p, &(struct program_write){
			 .number = IB_USER_VERBS_CMD_QUERY_DEVICE }), -ENOSPC);
}

static void a_request_one_byte_short_is_enospc(void **state)
{
	struct ib_uverbs_query_port in = { .port_num = 1 };
	struct ib_uverbs_query_port_resp out;

	assert_int_equal(program_write_command(*state, IB_USER_VERBS_CMD_QUERY_PORT, &in,
				       sizeof(in) - 1, &out, sizeof(out)), -ENOSPC);
	assert_int_equal(program_write_command(*state, IB_USER_VERBS_CMD_QUERY_PORT, &in,
				       sizeof(in), &out, sizeof(out) - 1), -ENOSPC);
	assert_int_equal(program_write_command(*state, IB_USER_VERBS_CMD_QUERY_PORT, &in,
				       sizeof(in), &out, sizeof(out)), 0);
}

static void an_unknown_method_is_eprotonosupport(void **state)
{
	struct program *p = *state;

	program_begin(p, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	assert_int_equal(program_ioctl(p), -EPROTONOSUPPORT);
	program_begin(p, 0xffff, 0xffff);
	assert_int_equal(program_ioctl(p), -EPROTONOSUPPORT);
}

static void another_ioctl_is_enotty(void **state)
{
	struct program *p = *state;

	assert_int_equal(uverbs_ioctl(p->file, 0x5401, 0), -ENOTTY);
}

static void a_header_that_contradicts_itself_is_refused(void **state)
{
	struct program *p = *state;

	program_begin(p, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	p->call.hdr.length++;
	assert_int_equal(program_ioctl(p), -EINVAL);
	program_begin(p, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	p->call.hdr.num_attrs = 0xffff;
	p->call.hdr.length = 0xffff;
	assert_int_equal(program_ioctl(p), -EINVAL);
	program_begin(p, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	p->call.hdr.driver_id++;
	assert_int_equal(program_ioctl(p), -EINVAL);
	program_begin(p, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	p->call.hdr.reserved1 = 1;
	assert_int_equal(program_ioctl(p), -EPROTONOSUPPORT);
}

static void an_unknown_attribute_is_refused_only_if_it_is_mandatory(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_attr *a;
	uint32_t page;

	program_alloc_uar(p, &page);
	a = program_attr(p, 0x7777, 0, 0);
	p->call.attrs[0].data = 0;
	assert_int_equal(program_ioctl(p), -EPROTONOSUPPORT);
	a->flags = 0;
	assert_int_equal(program_ioctl(p), 0);
}

static void an_attribute_twice_or_of_wrong_length_or_missing_is_einval(void **state)
{
	struct program *p = *state;
	uint32_t page;

	program_alloc_uar(p, &page);
	p->call.attrs[4].attr_id = p->call.attrs[3].attr_id;
	assert_int_equal(program_ioctl(p), -EINVAL);

	program_alloc_uar(p, &page);
	p->call.attrs[1].len = 4;
	assert_int_equal(program_ioctl(p), -EINVAL);

	program_alloc_uar(p, &page);
	p->call.hdr.num_attrs--;
	p->call.hdr.length -= sizeof(struct ib_uverbs_attr);
	assert_int_equal(program_ioctl(p), -EINVAL);
}

static void memory_that_is_not_there_is_efault(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_query_port in = { .port_num = 1 };
	struct ib_uverbs_query_port_resp out;

	assert_int_equal(uverbs_ioctl(p->file, RDMA_VERBS_IOCTL, NOWHERE), -EFAULT);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), 0);
	p->call.attrs[1].data = NOWHERE;
	assert_int_equal(program_ioctl(p), -EFAULT);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), 0);
	p->call.attrs[2].data = NOWHERE;
	assert_int_equal(program_ioctl(p), -EFAULT);
}

static void an_answer_fills_all_the_room_with_zeros_behind_it(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_alloc_pd in = { 0 };
	uint8_t out[700];

	memset(out, 0xa5, sizeof(out));
	assert_int_equal(program_write_command(p, IB_USER_VERBS_CMD_ALLOC_PD, &in, sizeof(in), out,
				       sizeof(out) - 1), 0);
	for (size_t i = sizeof(struct ib_uverbs_alloc_pd_resp); i < sizeof(out) - 1; i++)
		assert_int_equal(out[i], 0);
	assert_int_equal(out[sizeof(out) - 1], 0xa5);
	assert_true(p->call.attrs[2].flags & UVERBS_ATTR_F_VALID_OUTPUT);
}

static void what_the_device_has_not_is_eopnotsupp(void **state)
{
	static const uint32_t numbers[] = {
		IB_USER_VERBS_CMD_ALLOC_MW, IB_USER_VERBS_CMD_OPEN_XRCD,
		IB_USER_VERBS_CMD_CREATE_XSRQ, IB_USER_VERBS_CMD_ATTACH_MCAST,
		IB_USER_VERBS_CMD_POST_SEND, IB_USER_VERBS_CMD_OPEN_QP,
		IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_FLOW,
		IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_WQ,
		IB_USER_VERBS_CMD_FLAG_EXTENDED | 0xff,
	};
	uint8_t bytes[128] = { 0 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		assert_int_equal(PROGRAM_WRITE(*state, numbers[i], bytes, bytes), -EOPNOTSUPP);
	assert_int_equal(PROGRAM_WRITE(*state, IB_USER_VERBS_CMD_OPEN_QP + 1, bytes, bytes), -EINVAL);
	assert_int_equal(PROGRAM_WRITE(*state, 0x100, bytes, bytes), -EINVAL);
}

static void an_extended_request_may_be_longer_only_with_zeros(void **state)
{
	struct { struct ib_uverbs_ex_query_device in; uint8_t more[600]; } in = { 0 };
	struct ib_uverbs_ex_query_device_resp out;
	uint32_t number = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;

	assert_int_equal(PROGRAM_WRITE(*state, number, in, out), 0);
	in.more[0] = 1;
	assert_int_equal(PROGRAM_WRITE(*state, number, in, out), -EOPNOTSUPP);
	in.more[0] = 0;
	in.more[599] = 1;
	assert_int_equal(PROGRAM_WRITE(*state, number, in, out), -EOPNOTSUPP);
}

/* ---- the device ------------------------------------------------------------------------ */

static void commands_before_the_context_are_einval(void **state)
{
	struct program *p = *state;

	assert_int_equal(program_alloc_pd(p), -EINVAL);
	assert_true(program_get_context(p) >= PROGRAM_FIRST_FD);
	assert_true(program_alloc_pd(p) >= 0);
	assert_int_equal(program_get_context(p), -EINVAL);
}

static void devx_is_refused_so_that_libmlx5_asks_again_without(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_get_context in = { 0 };
	struct ib_uverbs_get_context_resp out;
	struct mlx5_ib_alloc_ucontext_req_v2 hw_in = {
		.total_num_bfregs = 16, .num_low_latency_bfregs = 4,
		.flags = MLX5_IB_ALLOC_UCTX_DEVX, .max_cqe_version = 1,
		.lib_caps = MLX5_LIB_CAP_DYN_UAR,
	};
	struct mlx5_ib_alloc_ucontext_resp hw_out;
	struct program_write w = { IB_USER_VERBS_CMD_GET_CONTEXT, &in, sizeof(in), &out,
				   sizeof(out), &hw_in, sizeof(hw_in), &hw_out,
				   sizeof(hw_out) };

	assert_int_equal(program_write(p, &w), -EINVAL);
	hw_in.flags = 0;
	hw_in.reserved1 = 1;
	assert_int_equal(program_write(p, &w), -EOPNOTSUPP);
	hw_in.reserved1 = 0;
	assert_int_equal(program_write(p, &w), 0);
	assert_int_equal(hw_out.tot_bfregs, 0);
	assert_int_equal(hw_out.cqe_version, 1);
	assert_int_equal(hw_out.bf_reg_size, 512);
	assert_int_equal(hw_out.response_length, sizeof(hw_out));
}

static void a_context_whose_answer_cannot_be_written_can_be_had_again(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_get_context in = { 0 };
	struct mlx5_ib_alloc_ucontext_req_v2 hw_in = {
		.total_num_bfregs = 16, .lib_caps = MLX5_LIB_CAP_DYN_UAR };

	assert_int_equal(program_write(p, &(struct program_write){
			 .number = IB_USER_VERBS_CMD_GET_CONTEXT, .in = &in,
			 .in_bytes = sizeof(in), .out = (void *)NOWHERE,
			 .out_bytes = sizeof(struct ib_uverbs_get_context_resp),
			 .hw_in = &hw_in, .hw_in_bytes = sizeof(hw_in) }), -EFAULT);
	assert_null(p->fds[0]);
	assert_true(program_get_context(p) >= 0);
}

static void the_device_reports_its_data_sheet_and_its_faults(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_query_device in = { 0 };
	struct ib_uverbs_query_device_resp out;

	p->max_mr_bytes = 1 << 20;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_DEVICE, in, out), 0);
	assert_int_equal(out.vendor_part_id, 4129);
	assert_int_equal(out.max_mr_size, 1 << 20);
	assert_int_equal(out.max_mw, 0);
	assert_int_equal(out.phys_port_cnt, 1);
}

static void a_port_tells_its_link(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_query_port in = { .port_num = 1 };
	struct ib_uverbs_query_port_resp out;

	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), 0);
	assert_int_equal(out.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(out.state, IBV_PORT_ACTIVE);
	assert_int_equal(out.active_mtu, IBV_MTU_4096);
	p->is_ethernet = p->is_up = false;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), 0);
	assert_int_equal(out.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(out.state, IBV_PORT_DOWN);
	assert_int_equal(out.lid, 7);
	in.port_num = 2;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), -EINVAL);
	in.port_num = 0;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_PORT, in, out), -EINVAL);
}

static void a_removed_device_is_eio_and_says_so_once(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_async_event_desc e;

	p->device.is_removed = true;
	uverbs_port_event(&p->device, IBV_EVENT_DEVICE_FATAL, 0);
	assert_int_equal(program_alloc_pd(p), -EIO);
	assert_int_equal(program_read_event(p->fds[0], &e, sizeof(e)), sizeof(e));
	assert_int_equal(e.event_type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(program_read_event(p->fds[0], &e, sizeof(e)), -EIO);
}

/* ---- memory ------------------------------------------------------------------------------ */

static void a_domain_in_use_is_ebusy_and_one_that_is_gone_enoent(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_dealloc_pd dealloc = { .pd_handle = (uint32_t)program_alloc_pd(p) };
	struct ib_uverbs_reg_mr reg = { .start = (uintptr_t)p->memory, .length = 100,
					.hca_va = (uintptr_t)p->memory };
	struct ib_uverbs_dereg_mr dereg;
	int mr = program_reg_mr(p, dealloc.pd_handle, &reg);

	assert_true(mr >= 0);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), -EBUSY);
	dereg.mr_handle = dealloc.pd_handle;	/* of the wrong type */
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEREG_MR, dereg), -ENOENT);
	dereg.mr_handle = (uint32_t)mr;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEREG_MR, dereg), 0);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEREG_MR, dereg), -ENOENT);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), 0);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), -ENOENT);
	dealloc.pd_handle = UINT32_MAX;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), -ENOENT);
}

static void an_mr_without_an_answer_leaves_nothing(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_dealloc_pd dealloc = { .pd_handle = (uint32_t)program_alloc_pd(p) };
	struct ib_uverbs_reg_mr reg = { .start = (uintptr_t)p->memory, .length = 100,
					.hca_va = (uintptr_t)p->memory };

	assert_int_equal(program_write(p, &(struct program_write){
			 .number = IB_USER_VERBS_CMD_REG_MR, .in = &reg,
			 .in_bytes = sizeof(reg), .out = (void *)NOWHERE,
			 .out_bytes = sizeof(struct ib_uverbs_reg_mr_resp) }), -EFAULT);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), 0);
}

static void registrations_that_the_kernel_refuses_are_refused(void **state)
{
	struct program *p = *state;
	uint32_t pd = (uint32_t)program_alloc_pd(p);
	uint64_t va = (uintptr_t)p->memory;
	static const struct { uint64_t start, length, iova; uint32_t access; int rc; } cases[] = {
		{ 0, 64, 0, IBV_ACCESS_REMOTE_WRITE, -EINVAL },
		{ 0, 64, 0, IBV_ACCESS_REMOTE_ATOMIC, -EINVAL },
		{ 0, 64, 0, IBV_ACCESS_ON_DEMAND, -EOPNOTSUPP },
		{ 0, 64, 0, 1 << 10, -EINVAL },
		{ 0, 0, 0, 0, -EINVAL },
		{ 8, 64, 0, 0, -EINVAL },	/* iova in another place of its page */
		{ 0, UINT64_MAX, 0, 0, -EINVAL },
		{ 0, 64, 4096, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ib_uverbs_reg_mr reg = { .start = va + cases[i].start,
			.length = cases[i].length, .hca_va = va + cases[i].iova,
			.access_flags = cases[i].access };
		int rc = program_reg_mr(p, pd, &reg);

		assert_int_equal(rc < 0 ? rc : 0, cases[i].rc);
	}
}

static void a_fault_refuses_registrations(void **state)
{
	struct program *p = *state;
	uint32_t pd = (uint32_t)program_alloc_pd(p);
	struct ib_uverbs_reg_mr reg = { .start = (uintptr_t)p->memory, .length = 8192,
					.hca_va = (uintptr_t)p->memory };

	p->refusal = -ENOMEM;
	assert_int_equal(program_reg_mr(p, pd, &reg), -ENOMEM);
	p->refusal = 0;
	p->max_mr_bytes = 8191;
	assert_int_equal(program_reg_mr(p, pd, &reg), -EINVAL);
	p->max_mr_bytes = 8192;
	assert_true(program_reg_mr(p, pd, &reg) >= 0);
}

/* Bytes in a file, and addresses that stand for them, as mem/peer.h has it. */
static uint64_t device_memory(void)
{
	int bytes = memfd_create("memory", MFD_CLOEXEC);
	int none = memfd_create("tent-gpu-addresses", MFD_CLOEXEC);
	void *p = mmap(NULL, 8192, PROT_NONE, MAP_SHARED, none, (off_t)(bytes + 1) << 44);

	assert_int_equal(ftruncate(bytes, 8192), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(none);
	return (uintptr_t)p;
}

static void memory_of_devices_is_registered_by_address_where_that_is_on(void **state)
{
	struct program *p = *state;
	uint32_t pd = (uint32_t)program_alloc_pd(p);
	uint64_t at = device_memory();
	struct ib_uverbs_reg_mr reg = { .start = at + 100, .length = 8092, .hca_va = at + 100,
					.access_flags = IBV_ACCESS_LOCAL_WRITE };

	assert_int_equal(program_reg_mr(p, pd, &reg), -EFAULT);
	p->has_peers = true;
	assert_true(program_reg_mr(p, pd, &reg) >= 0);
	reg.length++;
	assert_int_equal(program_reg_mr(p, pd, &reg), -EFAULT);
	munmap((void *)(uintptr_t)at, 8192);
	reg.length--;
	assert_int_equal(program_reg_mr(p, pd, &reg), -EFAULT);
}

static int reg_dma_buf(struct program *p, uint32_t pd, int fd)
{
	uint32_t access = 0, lkey, rkey;

	program_begin(p, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, 0);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, 4096);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, 0);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_FD, 8, (uint64_t)fd);
	program_bytes(p, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &access, sizeof(access));
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&lkey);
	program_attr(p, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&rkey);
	return program_ioctl(p);
}

static void dma_bufs_are_refused_where_there_are_none(void **state)
{
	struct program *p = *state;
	uint32_t pd = (uint32_t)program_alloc_pd(p);
	int fd = memfd_create("dma-buf", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, 4096), 0);
	p->no_dma_bufs = true;
	assert_int_equal(reg_dma_buf(p, pd, fd), -EOPNOTSUPP);
	p->no_dma_bufs = false;
	assert_int_equal(reg_dma_buf(p, pd, fd), 0);
	close(fd);
}

static void a_region_can_change_domain_and_place(void **state)
{
	struct program *p = *state;
	uint32_t from = (uint32_t)program_alloc_pd(p), to = (uint32_t)program_alloc_pd(p);
	struct ib_uverbs_reg_mr reg = { .start = (uintptr_t)p->memory, .length = 100,
					.hca_va = (uintptr_t)p->memory };
	struct ib_uverbs_rereg_mr in = { .mr_handle = (uint32_t)program_reg_mr(p, from, &reg),
					 .pd_handle = to };
	struct ib_uverbs_rereg_mr_resp out;
	struct ib_uverbs_dealloc_pd dealloc = { .pd_handle = from };

	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_REREG_MR, in, out), -EINVAL);
	in.flags = 1 << 5;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_REREG_MR, in, out), -EOPNOTSUPP);
	in.flags = IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION;
	in.start = in.hca_va = (uintptr_t)p->memory + 4096;
	in.length = 50;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_REREG_MR, in, out), 0);
	assert_int_not_equal(out.lkey, 0);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), 0);
	dealloc.pd_handle = to;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), -EBUSY);
}

static void an_address_handle_needs_a_gid_that_is_there(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_create_ah in = { .pd_handle = (uint32_t)program_alloc_pd(p),
		.attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1 } } };
	struct ib_uverbs_create_ah_resp out;
	struct ib_uverbs_destroy_ah destroy;

	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_CREATE_AH, in, out), 0);
	destroy.ah_handle = out.ah_handle;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_DESTROY_AH, destroy), 0);
	in.attr.grh.sgid_index = 2;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_CREATE_AH, in, out), -EINVAL);
	in.attr.is_global = 0;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_CREATE_AH, in, out), -EINVAL);
}

/* ---- UAR pages ------------------------------------------------------------------------------ */

static void only_pages_that_were_given_out_can_be_mapped(void **state)
{
	struct program *p = *state;
	uint64_t at = (uint64_t)UVERBS_FIRST_UAR_PAGE * UVERBS_PAGE;
	uint32_t page, handle;

	assert_int_equal(uverbs_check_mmap(p->file, at, 4096, true), -EINVAL);
	handle = (uint32_t)program_alloc_uar(p, &page);
	assert_int_equal(page, 0);
	assert_int_equal(uverbs_check_mmap(p->file, at, 4096, true), 0);
	assert_int_equal(uverbs_check_mmap(p->file, at, 8192, true), -EINVAL);
	assert_int_equal(uverbs_check_mmap(p->file, at + 8, 4096, true), -EINVAL);
	assert_int_equal(uverbs_check_mmap(p->file, at + 4096, 4096, true), -EINVAL);
	at = (uint64_t)UVERBS_CLOCK_PAGE * UVERBS_PAGE;
	assert_int_equal(uverbs_check_mmap(p->file, at, 4096, false), 0);
	assert_int_equal(uverbs_check_mmap(p->file, at, 4096, true), -EPERM);
	assert_int_equal(uverbs_check_mmap(p->file, 0, 4096, true), -EINVAL);

	program_begin(p, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 0, handle);
	assert_int_equal(program_ioctl(p), 0);
	assert_int_equal(program_ioctl(p), -ENOENT);
	assert_int_equal(p->nr_freed_uars, 1);
}

static void pages_end_and_come_back(void **state)
{
	struct program *p = *state;
	uint32_t page;

	for (int i = 0; i < UVERBS_MAX_UARS; i++)
		assert_true(program_alloc_uar(p, &page) >= 0);
	assert_int_equal(program_alloc_uar(p, &page), -ENOMEM);
	uverbs_close(p->file);
	assert_int_equal(uverbs_open(&p->file, &p->device), 0);
	assert_true(program_get_context(p) >= 0);
	assert_true(program_alloc_uar(p, &page) >= 0);
}

#define CLOSED(test) cmocka_unit_test_setup_teardown(test, program_setup, program_teardown)
#define OPEN(test) cmocka_unit_test_setup_teardown(test, program_setup_open, program_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLOSED(a_request_without_its_buffers_is_enospc),
		OPEN(a_request_one_byte_short_is_enospc),
		OPEN(an_unknown_method_is_eprotonosupport),
		OPEN(another_ioctl_is_enotty),
		OPEN(a_header_that_contradicts_itself_is_refused),
		OPEN(an_unknown_attribute_is_refused_only_if_it_is_mandatory),
		OPEN(an_attribute_twice_or_of_wrong_length_or_missing_is_einval),
		OPEN(memory_that_is_not_there_is_efault),
		OPEN(an_answer_fills_all_the_room_with_zeros_behind_it),
		OPEN(what_the_device_has_not_is_eopnotsupp),
		OPEN(an_extended_request_may_be_longer_only_with_zeros),
		CLOSED(commands_before_the_context_are_einval),
		CLOSED(devx_is_refused_so_that_libmlx5_asks_again_without),
		CLOSED(a_context_whose_answer_cannot_be_written_can_be_had_again),
		OPEN(the_device_reports_its_data_sheet_and_its_faults),
		OPEN(a_port_tells_its_link),
		OPEN(a_removed_device_is_eio_and_says_so_once),
		OPEN(a_domain_in_use_is_ebusy_and_one_that_is_gone_enoent),
		OPEN(an_mr_without_an_answer_leaves_nothing),
		OPEN(registrations_that_the_kernel_refuses_are_refused),
		OPEN(a_fault_refuses_registrations),
		OPEN(memory_of_devices_is_registered_by_address_where_that_is_on),
		OPEN(dma_bufs_are_refused_where_there_are_none),
		OPEN(a_region_can_change_domain_and_place),
		OPEN(an_address_handle_needs_a_gid_that_is_there),
		OPEN(only_pages_that_were_given_out_can_be_mapped),
		OPEN(pages_end_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
