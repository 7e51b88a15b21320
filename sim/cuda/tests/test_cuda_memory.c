/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_memory.c - allocations, pinned memory, virtual memory, and what pointers mean. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "sim/cuda/tests/cuda_fix.h"

static int setup(void **state)
{
	(void)state;
	enter(0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	leave(0);
	return 0;
}

/* ---- out of the CPU's reach ------------------------------------------------ */

static void touch(void *context)
{
	*(volatile uint8_t *)(uintptr_t)*(cu_ptr *)context = 1;
}

static void look(void *context)
{
	_exit(*(volatile const uint8_t *)(uintptr_t)*(cu_ptr *)context);
}

static void a_touch_by_the_cpu_is_the_end(void **state)
{
	cu_ptr p = allocate(100);

	(void)state;
	assert_int_equal(in_child(touch, &p), 128 + SIGSEGV);
	assert_int_equal(in_child(look, &p), 128 + SIGSEGV);
	assert_cuda(cuMemFree_v2(p));
}

/* Neither by a system call nor by the way around all protections. */
static void the_kernel_reaches_it_on_nobodys_behalf(void **state)
{
	cu_ptr p = allocate(100);
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), ends[2];
	char byte = 1;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], (void *)(uintptr_t)p, 1), -1);
	assert_int_equal(pread(fd, &byte, 1, (off_t)p), -1);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)p), -1);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	assert_cuda(cuMemFree_v2(p));
}

/* ---- cuMemAlloc() ----------------------------------------------------------- */

static void what_went_in_comes_out(void **state)
{
	static uint8_t in[100001], out[100001];
	cu_ptr p = allocate(sizeof(in) + 1);

	(void)state;
	fill(in, sizeof(in), 1);
	assert_cuda(cuMemcpyHtoD_v2(p + 1, in, sizeof(in)));
	assert_cuda(cuMemcpyDtoH_v2(out, p + 1, sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	assert_cuda(cuMemFree_v2(p));
}

static void small_ones_share_a_page(void **state)
{
	cu_ptr a = allocate(1000), b = allocate(1000), base;
	size_t size;

	(void)state;
	assert_int_equal(b - a, 1024);
	assert_cuda(cuMemGetAddressRange_v2(&base, &size, b + 999));
	assert_int_equal(base, b);
	assert_int_equal(size, 1000);
	assert_int_equal(cuMemGetAddressRange_v2(&base, &size, b + 1000), CU_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2((uint8_t[2000]){ 0 }, a, 1025), CU_INVALID_VALUE);
	assert_cuda(cuMemFree_v2(a));
	assert_cuda(cuMemFree_v2(b));
	assert_int_equal(cuMemFree_v2(b), CU_INVALID_VALUE);
}

static void a_device_has_so_much_and_no_more(void **state)
{
	size_t left, total, then;
	cu_context context;
	cu_ptr p;

	(void)state;
	assert_cuda(cuMemGetInfo_v2(&left, &total));
	assert_int_equal(cuMemAlloc_v2(&p, left + 1), CU_OUT_OF_MEMORY);
	p = allocate(left);
	assert_int_equal(cuMemAlloc_v2(&p, BLOCK), CU_OUT_OF_MEMORY);
	assert_cuda(cuMemGetInfo_v2(&then, &total));
	assert_int_equal(then, 0);
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	assert_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	assert_cuda(cuMemGetInfo_v2(&then, &total));
	assert_int_equal(then, left);
}

/* ---- pointers --------------------------------------------------------------- */

struct meaning {
	uint64_t type, device, mapped, start, extent, rdma;
};

static struct meaning meaning_of(uint64_t address)
{
	struct meaning m = { 0 };
	cu_enum attributes[] = { POINTER_MEMORY_TYPE, POINTER_DEVICE_ORDINAL, POINTER_MAPPED,
				 POINTER_RANGE_START, POINTER_RANGE_SIZE, POINTER_RDMA_CAPABLE };
	void *values[] = { &m.type, &m.device, &m.mapped, &m.start, &m.extent, &m.rdma };

	assert_cuda(cuPointerGetAttributes(6, attributes, values, address));
	return m;
}

static void an_inner_pointer_tells_what_it_is_in(void **state)
{
	cu_ptr p = allocate(3 * BLOCK);
	struct meaning m = meaning_of(p + BLOCK + 77);

	(void)state;
	assert_int_equal(m.type, MEMORY_DEVICE);
	assert_int_equal(m.mapped, 1);
	assert_int_equal(m.start, p);
	assert_int_equal(m.extent, 3 * BLOCK);
	assert_int_equal(m.rdma, 1);
	assert_cuda(cuMemFree_v2(p));
	assert_int_equal(meaning_of(p).type, 0);
}

/* Of many attributes it is no error to ask for memory that is nobody's; of one it is. */
static void memory_of_the_program_is_none_of_its_business(void **state)
{
	uint64_t here = 0;
	cu_enum type = 7;

	(void)state;
	assert_int_equal(meaning_of((uintptr_t)&here).type, 0);
	assert_int_equal(cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, (uintptr_t)&here),
			 CU_INVALID_VALUE);
}

static void memory_is_pinned_once(void **state)
{
	uint8_t *bytes = malloc(3 * 4096);

	(void)state;
	assert_cuda(cuMemHostRegister_v2(bytes, 3 * 4096, 0));
	assert_int_equal(meaning_of((uintptr_t)bytes + 5).type, MEMORY_HOST);
	assert_int_equal(cuMemHostRegister_v2(bytes + 4096, 1, 0), CU_ALREADY_REGISTERED);
	assert_cuda(cuMemHostUnregister(bytes));
	assert_int_equal(cuMemHostUnregister(bytes), CU_NOT_REGISTERED);
	assert_int_equal(cuMemHostRegister_v2((void *)0x1000, 4096, 0), CU_INVALID_VALUE);
	free(bytes);
}

/* ---- virtual memory --------------------------------------------------------- */

static const struct cu_prop on_gpu_0 = {
	.type = ALLOCATION_PINNED, .handle_types = HANDLE_POSIX_FD, .rdma_capable = 1,
	.location = { LOCATION_DEVICE, 0 },
};
static const struct cu_access by_gpu_0 = { { LOCATION_DEVICE, 0 }, ACCESS_READ_WRITE };

/* Chunks 0, 1 and 3 of four. */
static cu_ptr with_a_hole(void)
{
	cu_ptr p;
	cu_handle h;

	assert_cuda(cuMemAddressReserve(&p, 4 * BLOCK, 0, 0, 0));
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		assert_cuda(cuMemCreate(&h, BLOCK, &on_gpu_0, 0));
		assert_cuda(cuMemMap(p + i * BLOCK, BLOCK, 0, h, 0));
		assert_cuda(cuMemRelease(h));
		assert_cuda(cuMemSetAccess(p + i * BLOCK, BLOCK, &by_gpu_0, 1));
	}
	return p;
}

static void without_hole(cu_ptr p)
{
	assert_int_equal(cuMemAddressFree(p, 4 * BLOCK), CU_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(p, 4 * BLOCK), CU_INVALID_VALUE);
	assert_cuda(cuMemUnmap(p, 2 * BLOCK));
	assert_cuda(cuMemUnmap(p + 3 * BLOCK, BLOCK));
	assert_cuda(cuMemAddressFree(p, 4 * BLOCK));
}

static void a_copy_runs_over_chunks_and_into_no_hole(void **state)
{
	static uint8_t in[BLOCK], out[BLOCK];
	cu_ptr p = with_a_hole();

	(void)state;
	fill(in, sizeof(in), 2);
	assert_cuda(cuMemcpyHtoD_v2(p + BLOCK / 2 + 3, in, sizeof(in)));
	assert_cuda(cuMemcpyDtoH_v2(out, p + BLOCK / 2 + 3, sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(cuMemcpyHtoD_v2(p + BLOCK + 1, in, sizeof(in)), CU_INVALID_VALUE);
	without_hole(p);
}

static void a_hole_is_in_a_range_and_has_no_memory(void **state)
{
	cu_ptr p = with_a_hole(), base;
	struct meaning m = meaning_of(p + 2 * BLOCK);
	size_t size;

	(void)state;
	assert_int_equal(m.mapped, 0);
	assert_int_equal(m.start, p);
	assert_int_equal(m.extent, 4 * BLOCK);
	assert_int_equal(meaning_of(p + 3 * BLOCK).start, p);
	assert_cuda(cuMemGetAddressRange_v2(&base, &size, p + BLOCK + 5));
	assert_int_equal(base, p + BLOCK);
	assert_int_equal(size, BLOCK);
	without_hole(p);
}

static void a_chunk_is_reached_by_who_may(void **state)
{
	uint8_t byte = 1;
	cu_handle h, again;
	cu_ptr p;

	(void)state;
	assert_cuda(cuMemAddressReserve(&p, BLOCK, 0, 0, 0));
	assert_cuda(cuMemCreate(&h, BLOCK, &on_gpu_0, 0));
	assert_int_equal(cuMemCreate(&again, BLOCK + 1, &on_gpu_0, 0), CU_INVALID_VALUE);
	assert_cuda(cuMemMap(p, BLOCK, 0, h, 0));
	assert_int_equal(cuMemMap(p, BLOCK, 0, h, 0), CU_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2(p, &byte, 1), CU_INVALID_VALUE);
	assert_cuda(cuMemSetAccess(p, BLOCK, &by_gpu_0, 1));
	assert_cuda(cuMemcpyHtoD_v2(p, &byte, 1));
	assert_cuda(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
	assert_int_equal(again, h);
	assert_cuda(cuMemRelease(h));
	assert_cuda(cuMemRelease(h));
	assert_int_equal(cuMemRelease(h), CU_INVALID_VALUE);
	assert_cuda(cuMemUnmap(p, BLOCK));
	assert_cuda(cuMemAddressFree(p, BLOCK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_touch_by_the_cpu_is_the_end),
		cmocka_unit_test(the_kernel_reaches_it_on_nobodys_behalf),
		cmocka_unit_test(what_went_in_comes_out),
		cmocka_unit_test(small_ones_share_a_page),
		cmocka_unit_test(a_device_has_so_much_and_no_more),
		cmocka_unit_test(an_inner_pointer_tells_what_it_is_in),
		cmocka_unit_test(memory_of_the_program_is_none_of_its_business),
		cmocka_unit_test(memory_is_pinned_once),
		cmocka_unit_test(a_copy_runs_over_chunks_and_into_no_hole),
		cmocka_unit_test(a_hole_is_in_a_range_and_has_no_memory),
		cmocka_unit_test(a_chunk_is_reached_by_who_may),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
