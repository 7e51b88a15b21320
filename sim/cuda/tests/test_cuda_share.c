/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_share.c - memory of a device in other processes, and as a dma-buf. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "sim/cuda/tests/cuda_fix.h"
#include "sim/hca/mem/umem.h"

#define BYTES 3000u
#define PAGE 4096u

/* ---- processes -------------------------------------------------------------- */

/* The other end of a pair, in a process that has a driver of its own. */
static struct other {
	int sock;
	pid_t pid;
} owner, sharer;

static void other_start(struct other *o, void (*body)(int sock))
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (o->pid == 0) {
		close(ends[0]);
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	o->sock = ends[0];
}

static void other_end(struct other *o)
{
	int status;

	shutdown(o->sock, SHUT_RDWR);	/* others were forked with it */
	close(o->sock);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
}

static void send_fd(int sock, const void *bytes, size_t n, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { (void *)(uintptr_t)bytes, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (fd < 0) {
		m.msg_controllen = 0;
	} else {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	if (sendmsg(sock, &m, 0) != (ssize_t)n)
		abort();
}

static int receive_fd(int sock, void *bytes, size_t n)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { bytes, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = room,
			    .msg_controllen = sizeof(room) };
	int fd = -1;

	if (recvmsg(sock, &m, 0) != (ssize_t)n)
		abort();
	if (CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

/* It keeps memory at an odd place of device 1, and names it until it is told to end. */
static void owner_main(int sock)
{
	uint8_t bytes[BYTES];
	struct cu_ipc handle;
	cu_ptr p;

	enter(1);
	allocate(512);
	p = allocate(BYTES);
	fill(bytes, BYTES, 7);
	assert_cuda(cuMemcpyHtoD_v2(p, bytes, BYTES));
	assert_cuda(cuIpcGetMemHandle(&handle, p));
	assert_int_equal(cuIpcOpenMemHandle_v2(&p, handle, IPC_LAZY_PEER), CU_INVALID_CONTEXT);
	send_fd(sock, &handle, sizeof(handle), -1);
	while (recv(sock, bytes, 1, 0) == 1) {
		assert_cuda(cuMemcpyDtoH_v2(bytes, p, BYTES));
		send_fd(sock, bytes, BYTES, -1);
	}
}

static void a_handle_opens_the_memory_of_its_process(void **state)
{
	uint8_t bytes[BYTES], expected[BYTES];
	struct cu_ipc handle;
	cu_ptr p, again;

	(void)state;
	receive_fd(owner.sock, &handle, sizeof(handle));
	enter(0);
	assert_cuda(cuIpcOpenMemHandle_v2(&p, handle, IPC_LAZY_PEER));
	fill(expected, BYTES, 7);
	assert_cuda(cuMemcpyDtoH_v2(bytes, p, BYTES));
	assert_memory_equal(bytes, expected, BYTES);
	fill(expected, BYTES, 8);
	assert_cuda(cuMemcpyHtoD_v2(p, expected, BYTES));
	send_fd(owner.sock, "", 1, -1);
	receive_fd(owner.sock, bytes, BYTES);
	assert_memory_equal(bytes, expected, BYTES);
	assert_cuda(cuIpcOpenMemHandle_v2(&again, handle, IPC_LAZY_PEER));
	assert_int_equal(again, p);
	assert_cuda(cuIpcCloseMemHandle(p));
	assert_cuda(cuMemcpyDtoH_v2(bytes, p, BYTES));
	assert_cuda(cuIpcCloseMemHandle(p));
	assert_int_equal(cuIpcCloseMemHandle(p), CU_INVALID_VALUE);
	other_end(&owner);
	assert_int_equal(cuIpcOpenMemHandle_v2(&p, handle, IPC_LAZY_PEER), CU_INVALID_VALUE);
	handle.bytes[0] ^= 1;
	assert_int_equal(cuIpcOpenMemHandle_v2(&p, handle, IPC_LAZY_PEER), CU_INVALID_VALUE);
	leave(0);
}

static const struct cu_prop on_gpu_1 = {
	.type = ALLOCATION_PINNED, .handle_types = HANDLE_POSIX_FD, .rdma_capable = 1,
	.location = { LOCATION_DEVICE, 1 },
};

static cu_ptr map_handle(cu_handle h)
{
	const struct cu_access access = { { LOCATION_DEVICE, 1 }, ACCESS_READ_WRITE };
	cu_ptr p;

	assert_cuda(cuMemAddressReserve(&p, BLOCK, 0, 0, 0));
	assert_cuda(cuMemMap(p, BLOCK, 0, h, 0));
	assert_cuda(cuMemSetAccess(p, BLOCK, &access, 1));
	return p;
}

static void sharer_main(int sock)
{
	cu_handle h;
	int fd;

	enter(1);
	assert_cuda(cuMemCreate(&h, BLOCK, &on_gpu_1, 0));
	assert_cuda(cuMemcpyHtoD_v2(map_handle(h), "chunk", 5));
	assert_cuda(cuMemExportToShareableHandle(&fd, h, HANDLE_POSIX_FD, 0));
	send_fd(sock, "", 1, fd);
	recv(sock, &fd, 1, 0);
}

static void a_chunk_goes_by_descriptor(void **state)
{
	cu_handle h;
	char byte, bytes[5];
	int fd;

	(void)state;
	fd = receive_fd(sharer.sock, &byte, 1);
	enter(1);
	assert_cuda(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, HANDLE_POSIX_FD));
	close(fd);
	assert_cuda(cuMemcpyDtoH_v2(bytes, map_handle(h), 5));
	assert_memory_equal(bytes, "chunk", 5);
	assert_int_equal(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)sharer.sock,
							HANDLE_POSIX_FD), CU_INVALID_VALUE);
	other_end(&sharer);
	leave(1);
}

/* ---- dma-bufs --------------------------------------------------------------- */

static cu_result export(int *fd, cu_ptr p, size_t size)
{
	return cuMemGetHandleForAddressRange(fd, p, size, RANGE_DMA_BUF, 0);
}

/* As the software ConnectX registers it. */
static void a_dma_buf_is_the_part_that_was_asked_for(void **state)
{
	uint8_t bytes[2 * PAGE], got[2 * PAGE];
	struct umem *m;
	cu_ptr p;
	int fd;

	(void)state;
	enter(0);
	p = allocate(BLOCK) + 5 * PAGE;
	assert_cuda(export(&fd, p, 2 * PAGE));
	fill(bytes, sizeof(bytes), 9);
	assert_cuda(cuMemcpyHtoD_v2(p, bytes, sizeof(bytes)));
	assert_int_equal(umem_pin_fd(&m, fd, 0, 2 * PAGE, true), 0);
	assert_int_equal(umem_read(m, 0, got, sizeof(got)), 0);
	assert_memory_equal(got, bytes, sizeof(got));
	assert_int_equal(umem_write(m, PAGE + 1, "card", 4), 0);
	assert_cuda(cuMemcpyDtoH_v2(got, p + PAGE + 1, 4));
	assert_memory_equal(got, "card", 4);
	umem_release(m);
	assert_int_equal(umem_pin_fd(&m, fd, PAGE, 2 * PAGE, true), -EINVAL);
	close(fd);
	leave(0);
}

static void a_dma_buf_has_whole_pages_of_one_memory(void **state)
{
	cu_ptr p, small;
	int fd;

	(void)state;
	enter(0);
	p = allocate(BLOCK);
	small = allocate(100);
	assert_int_equal(export(&fd, p + 512, PAGE), CU_INVALID_VALUE);
	assert_int_equal(export(&fd, p, PAGE + 512), CU_INVALID_VALUE);
	assert_int_equal(export(&fd, p, 2 * BLOCK), CU_INVALID_VALUE);
	assert_int_equal(export(&fd, p, 0), CU_INVALID_VALUE);
	assert_cuda(export(&fd, small & ~(PAGE - 1ull), PAGE));
	close(fd);
	leave(0);
}

static void a_device_may_have_no_dma_bufs(void **state)
{
	struct gpu_control *c = sim_gpu_control();
	int fd, supported;
	cu_ptr p;

	(void)state;
	enter(0);
	p = allocate(BLOCK);
	gpu_set(&c->gpus[0].no_dma_buf, 1);
	assert_int_equal(export(&fd, p, PAGE), CU_NOT_SUPPORTED);
	assert_cuda(cuDeviceGetAttribute(&supported, DEVICE_DMA_BUF, 0));
	assert_false(supported);
	gpu_set(&c->gpus[0].no_dma_buf, 0);
	assert_cuda(cuDeviceGetAttribute(&supported, DEVICE_DMA_BUF, 0));
	assert_true(supported);
	leave(0);
}

/* The same by its address, which means nothing to whoever registers the program's own. */
static void a_device_registers_memory_by_its_address(void **state)
{
	uint8_t bytes[BYTES], got[BYTES];
	struct umem *m;
	cu_handle h;
	cu_ptr p, chunk;

	(void)state;
	enter(1);
	p = allocate(BLOCK + 5000) + 4001;
	fill(bytes, BYTES, 3);
	assert_cuda(cuMemcpyHtoD_v2(p, bytes, BYTES));
	assert_int_equal(umem_pin(&m, p, BYTES, true), -EFAULT);
	assert_int_equal(umem_pin_peer(&m, p, BYTES, true), 0);
	assert_int_equal(umem_read(m, 0, got, BYTES), 0);
	assert_memory_equal(got, bytes, BYTES);
	assert_int_equal(umem_write(m, 7, "card", 4), 0);
	assert_cuda(cuMemcpyDtoH_v2(got, p + 7, 4));
	assert_memory_equal(got, "card", 4);
	umem_release(m);
	assert_int_equal(umem_pin_peer(&m, p, 3 * BLOCK, true), -EFAULT);
	assert_cuda(cuMemFree_v2(p - 4001));
	assert_int_equal(umem_pin_peer(&m, p, BYTES, true), -EFAULT);
	assert_cuda(cuMemCreate(&h, BLOCK, &on_gpu_1, 0));
	chunk = map_handle(h);
	assert_int_equal(umem_pin_peer(&m, chunk + BLOCK - 9, 9, true), 0);
	umem_release(m);
	assert_cuda(cuMemUnmap(chunk, BLOCK));
	assert_int_equal(umem_pin_peer(&m, chunk, 9, true), -EFAULT);
	assert_int_equal(umem_pin_peer(&m, (uintptr_t)bytes, 9, true), -EFAULT);
	leave(1);
}

static void memory_that_is_made_for_no_other_device_is_registered_by_none(void **state)
{
	struct cu_prop prop = on_gpu_1;
	struct umem *m;
	cu_handle h;

	(void)state;
	prop.rdma_capable = 0;
	enter(1);
	assert_cuda(cuMemCreate(&h, BLOCK, &prop, 0));
	assert_int_equal(umem_pin_peer(&m, map_handle(h), 9, true), -EFAULT);
	leave(1);
}

/* They begin before there is a driver here: a forked child has none. */
static int start_others(void **state)
{
	(void)state;
	other_start(&owner, owner_main);
	other_start(&sharer, sharer_main);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_opens_the_memory_of_its_process),
		cmocka_unit_test(a_chunk_goes_by_descriptor),
		cmocka_unit_test(a_dma_buf_is_the_part_that_was_asked_for),
		cmocka_unit_test(a_dma_buf_has_whole_pages_of_one_memory),
		cmocka_unit_test(a_device_may_have_no_dma_bufs),
		cmocka_unit_test(a_device_registers_memory_by_its_address),
		cmocka_unit_test(memory_that_is_made_for_no_other_device_is_registered_by_none),
	};

	return cmocka_run_group_tests(tests, start_others, NULL);
}
