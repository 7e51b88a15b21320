/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/tests/common/program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

/* ---- the world ------------------------------------------------------------------- */

static int event_open(void *ctx, struct event_queue *q)
{
	struct program *p = ctx;

	for (int i = 0; i < PROGRAM_MAX_FDS; i++)
		if (!p->fds[i]) {
			p->fds[i] = q;
			return PROGRAM_FIRST_FD + i;
		}
	return -EMFILE;
}

struct event_queue *program_queue(struct program *p, int fd)
{
	int i = fd - PROGRAM_FIRST_FD;

	return i >= 0 && i < PROGRAM_MAX_FDS ? p->fds[i] : NULL;
}

int program_read_event(struct event_queue *q, void *to, size_t n)
{
	struct pollfd p = { .fd = event_queue_fd(q), .events = POLLIN };
	uint64_t count;

	if (poll(&p, 1, 0) != 1 || read(p.fd, &count, sizeof(count)) != sizeof(count))
		return -EAGAIN;
	return event_queue_take(q, to, n);
}

static struct event_queue *event_of(void *ctx, int fd)
{
	return program_queue(ctx, fd);
}

static void event_abandon(void *ctx, int fd)
{
	struct program *p = ctx;

	event_queue_drop(p->fds[fd - PROGRAM_FIRST_FD]);
	p->fds[fd - PROGRAM_FIRST_FD] = NULL;
}

static void port(void *ctx, unsigned number, struct uverbs_port *out)
{
	const struct program *p = ctx;

	(void)number;
	*out = (struct uverbs_port){ .is_ethernet = p->is_ethernet, .is_up = p->is_up,
				     .active_mtu_bytes = 4096, .lid = 7 };
}

static bool gid(void *ctx, unsigned number, unsigned index, uint8_t out[16])
{
	(void)ctx;
	(void)number;
	memset(out, 0, 16);
	out[15] = (uint8_t)(index + 1);
	return index < 2;
}

static uint64_t max_mr_bytes(void *ctx)
{
	return ((struct program *)ctx)->max_mr_bytes;
}

static int refuse_mr(void *ctx)
{
	return ((struct program *)ctx)->refusal;
}

static int refuse_qp(void *ctx)
{
	return ((struct program *)ctx)->qp_refusal;
}

static bool takes_dma_bufs(void *ctx)
{
	return !((struct program *)ctx)->no_dma_bufs;
}

static bool takes_peers(void *ctx)
{
	return ((struct program *)ctx)->has_peers;
}

static void uars_used(void *ctx)
{
	(void)ctx;
}

static void uar_freed(void *ctx, unsigned page)
{
	(void)page;
	((struct program *)ctx)->nr_freed_uars++;
}

static void send_nowhere(void *ctx, const struct hca_packet *packet)
{
	(void)ctx;
	(void)packet;
}

static uint64_t no_time(void *ctx)
{
	(void)ctx;
	return 1;
}

static void cq_event(void *ctx, void *cookie)
{
	(void)ctx;
	uverbs_cq_event(cookie);
}

static void async_event(void *ctx, enum hca_event event, void *cookie)
{
	(void)ctx;
	uverbs_async_event(event, cookie);
}

static void make_device(struct program *p)
{
	struct hca_config c = { .env = &p->hca_env, .faults = &p->faults,
				.counters = &p->counters, .is_ethernet = true,
				.first_qpn = 0x10000, .nr_qpns = 0x10000 };

	p->hca_env = (struct hca_env){ .ctx = p, .send = send_nowhere, .now_ns = no_time,
				       .cq_event = cq_event, .async_event = async_event };
	p->env = (struct uverbs_env){ p, event_open, event_abandon, event_of, port, gid,
				      max_mr_bytes, refuse_mr, refuse_qp, takes_dma_bufs,
				      takes_peers, uars_used, uar_freed };
	uverbs_fill_config(&c);
	p->device.env = &p->env;
	p->device.node_guid = 0x0002c90300000001;
	p->device.nr_ports = 1;
	if (hca_create(&p->device.hca, &c) || uverbs_open(&p->file, &p->device))
		abort();
}

struct program *program_create(void)
{
	struct program *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->is_ethernet = p->is_up = true;
	p->max_mr_bytes = UINT64_MAX;
	p->memory = mmap(NULL, PROGRAM_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->memory == MAP_FAILED)
		abort();
	make_device(p);
	return p;
}

void program_destroy(struct program *p)
{
	uverbs_close(p->file);
	for (int i = 0; i < PROGRAM_MAX_FDS; i++)
		if (p->fds[i])
			event_queue_drop(p->fds[i]);
	hca_destroy(p->device.hca);
	munmap(p->memory, PROGRAM_BYTES);
	free(p);
}

int program_setup(void **state)
{
	*state = program_create();
	return 0;
}

int program_setup_open(void **state)
{
	*state = program_create();
	return program_get_context(*state) < 0;
}

int program_teardown(void **state)
{
	program_destroy(*state);
	return 0;
}

/* ---- ioctl --------------------------------------------------------------------------- */

void program_begin(struct program *p, uint16_t object, uint16_t method)
{
	memset(&p->call, 0, sizeof(p->call));
	p->call.hdr.object_id = object;
	p->call.hdr.method_id = method;
	p->call.hdr.driver_id = RDMA_DRIVER_MLX5;
	p->call.hdr.length = sizeof(p->call.hdr);
}

struct ib_uverbs_attr *program_attr(struct program *p, uint16_t id, uint16_t length,
				    uint64_t data)
{
	struct ib_uverbs_attr *a = &p->call.attrs[p->call.hdr.num_attrs++];

	*a = (struct ib_uverbs_attr){ .attr_id = id, .len = length,
				      .flags = UVERBS_ATTR_F_MANDATORY, .data = data };
	p->call.hdr.length += sizeof(*a);
	return a;
}

struct ib_uverbs_attr *program_bytes(struct program *p, uint16_t id, const void *bytes,
				     size_t n)
{
	uint64_t data = (uintptr_t)bytes;

	if (n <= sizeof(data)) {
		data = 0;
		memcpy(&data, bytes, n);
	}
	return program_attr(p, id, (uint16_t)n, data);
}

int program_ioctl(struct program *p)
{
	return uverbs_ioctl(p->file, RDMA_VERBS_IOCTL, (uintptr_t)&p->call);
}

int program_write(struct program *p, const struct program_write *w)
{
	program_begin(p, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	program_attr(p, UVERBS_ATTR_WRITE_CMD, 8, w->number);
	if (w->in)
		program_bytes(p, UVERBS_ATTR_CORE_IN, w->in, w->in_bytes);
	if (w->out)
		program_attr(p, UVERBS_ATTR_CORE_OUT, (uint16_t)w->out_bytes,
			     (uintptr_t)w->out);
	if (w->hw_in)
		program_bytes(p, UVERBS_ATTR_UHW_IN, w->hw_in, w->hw_in_bytes);
	if (w->hw_out)
		program_attr(p, UVERBS_ATTR_UHW_OUT, (uint16_t)w->hw_out_bytes,
			     (uintptr_t)w->hw_out);
	return program_ioctl(p);
}

int program_write_command(struct program *p, uint32_t number, const void *in, size_t in_bytes,
			  void *out, size_t out_bytes)
{
	return program_write(p, &(struct program_write){ .number = number, .in = in,
			     .in_bytes = in_bytes, .out = out, .out_bytes = out_bytes });
}

/* ---- what tests begin with ------------------------------------------------------------ */

int program_get_context(struct program *p)
{
	struct ib_uverbs_get_context in = { 0 };
	struct ib_uverbs_get_context_resp out;
	struct mlx5_ib_alloc_ucontext_req_v2 hw_in = {
		.total_num_bfregs = 16, .num_low_latency_bfregs = 4, .max_cqe_version = 1,
		.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR,
	};
	struct mlx5_ib_alloc_ucontext_resp hw_out;
	int rc = program_write(p, &(struct program_write){
		IB_USER_VERBS_CMD_GET_CONTEXT, &in, sizeof(in), &out, sizeof(out), &hw_in,
		sizeof(hw_in), &hw_out, sizeof(hw_out) });

	return rc ? rc : (int)out.async_fd;
}

int program_alloc_pd(struct program *p)
{
	struct ib_uverbs_alloc_pd in = { 0 };
	struct ib_uverbs_alloc_pd_resp out;
	int rc = program_write(p, &(struct program_write){
		.number = IB_USER_VERBS_CMD_ALLOC_PD, .in = &in, .in_bytes = sizeof(in),
		.out = &out, .out_bytes = sizeof(out) });

	return rc ? rc : (int)out.pd_handle;
}

int program_alloc_uar(struct program *p, uint32_t *page)
{
	int rc;

	program_begin(p, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 8, 0);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8, (uintptr_t)&p->uar_offset);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4, (uintptr_t)&p->uar_length);
	program_attr(p, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4, (uintptr_t)page);
	rc = program_ioctl(p);
	if (!rc && p->uar_offset != (uint64_t)(UVERBS_FIRST_UAR_PAGE + *page) * UVERBS_PAGE)
		abort();
	return rc ? rc : (int)p->call.attrs[0].data;
}

int program_create_channel(struct program *p)
{
	struct ib_uverbs_create_comp_channel in = { 0 };
	struct ib_uverbs_create_comp_channel_resp out;
	int rc = program_write(p, &(struct program_write){
		.number = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, .in = &in,
		.in_bytes = sizeof(in), .out = &out, .out_bytes = sizeof(out) });

	return rc ? rc : (int)out.fd;
}

int program_create_cq(struct program *p, uint32_t cqe, int channel, uint64_t user_handle)
{
	struct ib_uverbs_create_cq in = { .user_handle = user_handle, .cqe = cqe,
					  .comp_channel = channel };
	struct ib_uverbs_create_cq_resp out;
	struct mlx5_ib_create_cq hw_in = {
		.buf_addr = (uintptr_t)p->memory,
		.db_addr = (uintptr_t)p->memory + PROGRAM_BYTES - 64,
		.cqe_size = 64,
	};
	int rc = program_write(p, &(struct program_write){
		.number = IB_USER_VERBS_CMD_CREATE_CQ, .in = &in, .in_bytes = sizeof(in),
		.out = &out, .out_bytes = sizeof(out), .hw_in = &hw_in,
		.hw_in_bytes = sizeof(hw_in) });

	return rc ? rc : (int)out.cq_handle;
}

int program_reg_mr(struct program *p, uint32_t pd, const struct ib_uverbs_reg_mr *in)
{
	struct ib_uverbs_reg_mr request = *in;
	struct ib_uverbs_reg_mr_resp out;
	int rc;

	request.pd_handle = pd;
	rc = program_write(p, &(struct program_write){
		.number = IB_USER_VERBS_CMD_REG_MR, .in = &request,
		.in_bytes = sizeof(request), .out = &out, .out_bytes = sizeof(out) });
	return rc ? rc : (int)out.mr_handle;
}

int program_create_srq(struct program *p, uint32_t pd, uint32_t max_wr)
{
	struct ib_uverbs_create_srq in = { .pd_handle = pd, .max_wr = max_wr, .max_sge = 1 };
	struct ib_uverbs_create_srq_resp out;
	struct mlx5_ib_create_srq hw_in = {
		.buf_addr = (uintptr_t)p->memory + 8 * 4096,
		.db_addr = (uintptr_t)p->memory + PROGRAM_BYTES - 128,
	};
	int rc = program_write(p, &(struct program_write){
		.number = IB_USER_VERBS_CMD_CREATE_SRQ, .in = &in, .in_bytes = sizeof(in),
		.out = &out, .out_bytes = sizeof(out), .hw_in = &hw_in,
		.hw_in_bytes = sizeof(hw_in) });

	return rc ? rc : (int)out.srq_handle;
}
