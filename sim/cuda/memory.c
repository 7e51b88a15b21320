/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - memory of devices and of the host. What a device has lies in files; the
 * addresses that the program gets are of a file without bytes, so that neither the CPU nor
 * the kernel, on anybody's behalf, reads or writes anything through them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/parts.h"

static struct range *all;
static uint64_t last_id;
static uint64_t taken[GPUS_MAX];		/* bytes of each device */
static struct memory *small[GPUS_MAX];		/* where the next small ones go; no reference */

/* ---- addresses -------------------------------------------------------------- */

#define PLACE_BITS 44	/* of an offset in the file without bytes, see addresses_show() */

static void *map_nothing(void *at, uint64_t size, uint64_t offset)
{
	static int empty = -1;

	if (empty < 0)
		empty = memfd_create("tent-gpu-addresses", MFD_CLOEXEC);
	return mmap(at, size, PROT_NONE, MAP_SHARED | (at ? MAP_FIXED : 0), empty, (off_t)offset);
}

uint64_t addresses_reserve(uint64_t size)
{
	uint64_t whole = size + BLOCK_BYTES, at, base;
	void *p = map_nothing(NULL, whole, 0);

	if (p == MAP_FAILED)
		return 0;
	at = (uintptr_t)p;
	base = (at + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1);
	if (base > at)
		munmap(p, base - at);
	munmap((void *)(uintptr_t)(base + size), at + whole - base - size);
	return base;
}

void addresses_return(uint64_t base, uint64_t size)
{
	munmap((void *)(uintptr_t)base, size);
}

bool addresses_show(uint64_t base, uint64_t size, const struct memory *m)
{
	uint64_t offset = m && m->is_rdma_capable ? (uint64_t)(m->fd + 1) << PLACE_BITS : 0;

	return map_nothing((void *)(uintptr_t)base, size, offset) != MAP_FAILED;
}

/* ---- bytes ------------------------------------------------------------------ */

uint64_t memory_left(int device)
{
	return gpu_memory_bytes() - taken[device];
}

cu_result memory_import(struct memory **out, int fd, int device, uint64_t size)
{
	struct memory *m = calloc(1, sizeof(*m));
	void *p = m ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (p == MAP_FAILED) {
		free(m);
		close(fd);
		return CU_OUT_OF_MEMORY;
	}
	madvise(p, size, MADV_DONTFORK);
	*m = (struct memory){ .fd = fd, .device = device, .bytes = p, .size = size, .refs = 1,
			      .is_rdma_capable = true };
	*out = m;
	return CU_OK;
}

cu_result memory_create(struct memory **out, int device, uint64_t size)
{
	int fd = size <= memory_left(device) ? memfd_create("tent-gpu", MFD_CLOEXEC) : -1;
	cu_result rc;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		if (fd >= 0)
			close(fd);
		return CU_OUT_OF_MEMORY;
	}
	rc = memory_import(out, fd, device, size);
	if (rc)
		return rc;
	taken[device] += size;
	(*out)->is_charged = true;
	return CU_OK;
}

void memory_put(struct memory *m)
{
	if (--m->refs)
		return;
	if (small[m->device] == m)
		small[m->device] = NULL;
	if (m->is_charged)
		taken[m->device] -= m->size;
	if (m->address)
		addresses_return(m->address, m->size);
	munmap(m->bytes, m->size);
	close(m->fd);
	free(m);
}

/* ---- ranges ----------------------------------------------------------------- */

struct range *range_add(const struct range *like)
{
	struct range *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = *like;
	r->id = ++last_id;
	r->next = all;
	all = r;
	return r;
}

void range_remove(struct range *r)
{
	struct range **at = &all;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (r->memory)
		memory_put(r->memory);
	if (r->kind == RANGE_HOST)
		munmap((void *)(uintptr_t)r->base, r->size);
	free(r);
}

struct range *range_overlapping(uint64_t base, uint64_t size)
{
	struct range *r = all;

	while (r && (r->base >= base + size || base >= r->base + r->size))
		r = r->next;
	return r;
}

struct range *range_find(uint64_t address)
{
	return range_overlapping(address, 1);
}

void ranges_end(cu_context context)
{
	for (struct range *r = all, *next; r; r = next) {
		next = r->next;
		if (r->context == context)
			range_remove(r);
	}
}

/* ---- cuMemAlloc() ----------------------------------------------------------- */

/* A block of its own, or a part of one that small ones share; with a reference. */
static cu_result find_room(struct memory **out, int device, uint64_t size)
{
	bool is_small = size < BLOCK_BYTES / 2;
	struct memory *m = is_small ? small[device] : NULL;
	cu_result rc;

	if (m && m->size - m->used >= size) {
		m->refs++;
		*out = m;
		return CU_OK;
	}
	rc = memory_create(&m, device, (size + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1));
	if (rc)
		return rc;
	m->address = addresses_reserve(m->size);
	if (!m->address || !addresses_show(m->address, m->size, m)) {
		memory_put(m);
		return CU_OUT_OF_MEMORY;
	}
	if (is_small)
		small[device] = m;
	*out = m;
	return CU_OK;
}

static cu_result allocate(cu_ptr *ptr, uint64_t size)
{
	uint64_t rounded = (size + SMALL_BYTES - 1) & ~(uint64_t)(SMALL_BYTES - 1);
	struct range like = { .kind = RANGE_ALLOCATED, .size = size, .extent = size };
	cu_result rc = context_current(&like.context);

	if (rc || !size || rounded < size)
		return rc ? rc : CU_INVALID_VALUE;
	rc = find_room(&like.memory, like.context->device, rounded);
	if (rc)
		return rc;
	like.offset = like.memory->used;
	like.base = like.start = like.memory->address + like.offset;
	like.reachable_by = UINT32_MAX;
	if (!range_add(&like)) {
		memory_put(like.memory);
		return CU_OUT_OF_MEMORY;
	}
	like.memory->used += rounded;
	*ptr = like.base;
	return CU_OK;
}

/* Nothing is freed under work that is on its way. */
static cu_result give_back(uint64_t address, enum range_kind kind, cu_result unknown)
{
	cu_context context;
	struct range *r;
	cu_result rc = context_current(&context);

	if (rc)
		return rc;
	streams_settle();
	r = range_find(address);
	if (!r || r->kind != kind || r->base != address)
		return unknown;
	range_remove(r);
	return CU_OK;
}

static cu_result info(size_t *left, size_t *total)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc)
		return rc;
	*total = gpu_memory_bytes();
	*left = memory_left(context->device);
	return CU_OK;
}

cu_result cuMemAlloc_v2(cu_ptr *ptr, size_t size)
{
	return CALL(cuMemAlloc_v2, allocate(ptr, size));
}

cu_result cuMemFree_v2(cu_ptr ptr)
{
	return CALL(cuMemFree_v2, give_back(ptr, RANGE_ALLOCATED, CU_INVALID_VALUE));
}

cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
	return CALL(cuMemGetInfo_v2, info(left, total));
}

/* ---- pinned memory ---------------------------------------------------------- */

static cu_result add_host(uint64_t base, uint64_t size, enum range_kind kind, cu_context context)
{
	struct range like = { .kind = kind, .base = base, .size = size, .start = base,
			      .extent = size, .context = context, .reachable_by = UINT32_MAX };

	return range_add(&like) ? CU_OK : CU_OUT_OF_MEMORY;
}

static cu_result allocate_host(void **memory, size_t size)
{
	cu_context context;
	cu_result rc = context_current(&context);
	void *p;

	if (rc || !size)
		return rc ? rc : CU_INVALID_VALUE;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	rc = add_host((uintptr_t)p, size, RANGE_HOST, context);
	if (rc)
		munmap(p, size);
	else
		*memory = p;
	return rc;
}

/* Pages that are not there, or may not be written, cannot be pinned. */
static bool is_there(uintptr_t base, size_t size, unsigned int flags)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = base & ~(page - 1);

	return madvise((void *)at, base + size - at, flags & HOST_REGISTER_READ_ONLY ?
		       MADV_POPULATE_READ : MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

static cu_result register_host(void *memory, size_t size, unsigned int flags)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc)
		return rc;
	if (!size || !is_there((uintptr_t)memory, size, flags))
		return CU_INVALID_VALUE;
	if (range_overlapping((uintptr_t)memory, size))
		return CU_ALREADY_REGISTERED;
	return add_host((uintptr_t)memory, size, RANGE_REGISTERED, context);
}

cu_result cuMemHostAlloc(void **memory, size_t size, unsigned int flags)
{
	(void)flags;
	return CALL(cuMemHostAlloc, allocate_host(memory, size));
}

cu_result cuMemFreeHost(void *memory)
{
	return CALL(cuMemFreeHost, give_back((uintptr_t)memory, RANGE_HOST, CU_INVALID_VALUE));
}

cu_result cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags)
{
	return CALL(cuMemHostRegister_v2, register_host(memory, size, flags));
}

cu_result cuMemHostUnregister(void *memory)
{
	return CALL(cuMemHostUnregister,
		    give_back((uintptr_t)memory, RANGE_REGISTERED, CU_NOT_REGISTERED));
}
