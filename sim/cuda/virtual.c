/* SPDX-License-Identifier: Apache-2.0 */
/* virtual.c - addresses, memory, and what lies where: three things that a program joins. */
#include <stdlib.h>

#include "sim/cuda/parts.h"

#define HANDLES_MAX 4096

struct reservation {
	struct reservation *next;
	uint64_t base, size;
};

static struct reservation *reservations;
static struct {
	struct memory *memory;
	uint32_t holds;		/* created, imported or retained, and not released */
} handles[HANDLES_MAX];		/* a handle is its place, from 1 */

static bool is_whole(uint64_t bytes)
{
	return bytes && bytes % BLOCK_BYTES == 0;
}

/* ---- addresses -------------------------------------------------------------- */

static struct reservation **find(uint64_t address, uint64_t size)
{
	struct reservation **at = &reservations;

	while (*at && (address < (*at)->base || address - (*at)->base > (*at)->size ||
		       size > (*at)->size - (address - (*at)->base)))
		at = &(*at)->next;
	return at;
}

bool reservation_find(uint64_t address, uint64_t *base, uint64_t *size)
{
	const struct reservation *r = *find(address, 1);

	if (!r)
		return false;
	*base = r->base;
	*size = r->size;
	return true;
}

static cu_result reserve(cu_ptr *ptr, uint64_t size)
{
	struct reservation *r = is_whole(size) ? malloc(sizeof(*r)) : NULL;

	if (!r)
		return is_whole(size) ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
	*r = (struct reservation){ .next = reservations, .size = size };
	r->base = addresses_reserve(size);
	if (!r->base) {
		free(r);
		return CU_OUT_OF_MEMORY;
	}
	reservations = r;
	*ptr = r->base;
	return CU_OK;
}

static cu_result unreserve(uint64_t base, uint64_t size)
{
	struct reservation **at = find(base, size), *r = *at;

	if (!r || r->base != base || r->size != size || range_overlapping(base, size))
		return CU_INVALID_VALUE;
	*at = r->next;
	addresses_return(base, size);
	free(r);
	return CU_OK;
}

/* ---- memory ----------------------------------------------------------------- */

static struct memory *memory_of(cu_handle handle)
{
	return handle - 1 < HANDLES_MAX && handles[handle - 1].holds ?
	       handles[handle - 1].memory : NULL;
}

/* Where a memory's handle is, or may be; -1: there are too many. */
static int place_of(const struct memory *m)
{
	int free_place = -1;

	for (int i = 0; i < HANDLES_MAX; i++) {
		if (handles[i].holds && handles[i].memory == m)
			return i;
		if (!handles[i].holds && free_place < 0)
			free_place = i;
	}
	return free_place;
}

/* One hold more of its handle, which takes over the caller's reference. */
static cu_result hold(cu_handle *handle, struct memory *m)
{
	int place = place_of(m);

	if (place < 0)
		return CU_OUT_OF_MEMORY;
	if (handles[place].holds++)
		memory_put(m);		/* one reference for all holds */
	handles[place].memory = m;
	*handle = (cu_handle)place + 1;
	return CU_OK;
}

static bool is_sound(const struct cu_prop *p)
{
	return p && p->type == ALLOCATION_PINNED && p->location.type == LOCATION_DEVICE &&
	       is_gpu(p->location.id) && !(p->handle_types & ~(cu_enum)HANDLE_POSIX_FD);
}

static cu_result create(cu_handle *handle, uint64_t size, const struct cu_prop *prop)
{
	struct memory *m;
	cu_result rc;

	if (!is_sound(prop) || !is_whole(size))
		return CU_INVALID_VALUE;
	rc = memory_create(&m, prop->location.id, size);
	if (rc)
		return rc;
	m->is_rdma_capable = prop->rdma_capable;
	m->is_exportable = prop->handle_types & HANDLE_POSIX_FD;
	rc = hold(handle, m);
	if (rc)
		memory_put(m);
	return rc;
}

static cu_result let_go(cu_handle handle)
{
	struct memory *m = memory_of(handle);

	if (!m)
		return CU_INVALID_VALUE;
	if (!--handles[handle - 1].holds)
		memory_put(m);
	return CU_OK;
}

static cu_result granularity_of(size_t *granularity, const struct cu_prop *prop, cu_enum option)
{
	if (!is_sound(prop) || option > GRANULARITY_RECOMMENDED)
		return CU_INVALID_VALUE;
	*granularity = BLOCK_BYTES;
	return CU_OK;
}

static cu_result retain(cu_handle *handle, uint64_t address)
{
	const struct range *r = range_find(address);
	cu_result rc;

	if (!r || r->kind != RANGE_MAPPED)
		return CU_INVALID_VALUE;
	r->memory->refs++;
	rc = hold(handle, r->memory);
	if (rc)
		memory_put(r->memory);
	return rc;
}

/* ---- what lies where -------------------------------------------------------- */

static cu_result map(uint64_t address, uint64_t size, uint64_t offset, cu_handle handle)
{
	const struct reservation *place = *find(address, size);
	struct range like = { .kind = RANGE_MAPPED, .base = address, .size = size,
			      .memory = memory_of(handle) };

	if (!place || !like.memory || offset || !is_whole(size) || address % BLOCK_BYTES ||
	    size > like.memory->size || range_overlapping(address, size))
		return CU_INVALID_VALUE;
	like.start = place->base;
	like.extent = place->size;
	if (!addresses_show(address, size, like.memory) || !range_add(&like))
		return CU_OUT_OF_MEMORY;
	like.memory->refs++;
	return CU_OK;
}

/* Are there mappings, each of them whole, from one end to the other? */
static bool is_mapped(uint64_t base, uint64_t size)
{
	const struct range *r;
	uint64_t at = base;

	for (; at < base + size; at = r->base + r->size) {
		r = range_find(at);
		if (!r || r->kind != RANGE_MAPPED || r->base != at)
			return false;
	}
	return at == base + size && size;
}

static cu_result unmap(uint64_t base, uint64_t size)
{
	struct range *r;

	if (!is_mapped(base, size))
		return CU_INVALID_VALUE;
	streams_settle();
	while ((r = range_overlapping(base, size)))
		range_remove(r);
	return addresses_show(base, size, NULL) ? CU_OK : CU_OUT_OF_MEMORY;
}

static bool allow(uint64_t base, uint64_t size, const struct cu_access *access)
{
	struct range *r;

	if (access->location.type != LOCATION_DEVICE || !is_gpu(access->location.id))
		return false;
	for (uint64_t at = base; at < base + size; at = r->base + r->size) {
		uint32_t bit = 1u << access->location.id;

		r = range_find(at);
		r->reachable_by &= ~bit;
		r->reachable_by |= access->flags == ACCESS_READ_WRITE ? bit : 0;
	}
	return true;
}

static cu_result allow_all(uint64_t base, uint64_t size, const struct cu_access *access,
			   size_t nr)
{
	if (!is_mapped(base, size) || !nr)
		return CU_INVALID_VALUE;
	for (size_t i = 0; i < nr; i++)
		if (!allow(base, size, &access[i]))
			return CU_INVALID_VALUE;
	return CU_OK;
}

/* ---- for other processes ---------------------------------------------------- */

static cu_result share(int *fd, cu_handle handle, cu_enum type)
{
	const struct memory *m = memory_of(handle);

	if (!m || type != HANDLE_POSIX_FD || !m->is_exportable)
		return CU_INVALID_VALUE;
	*fd = memory_export(m, 0, m->size);
	return *fd < 0 ? CU_OUT_OF_MEMORY : CU_OK;
}

static cu_result import(cu_handle *handle, int fd, cu_enum type)
{
	struct memory *m;
	cu_result rc = type == HANDLE_POSIX_FD ? memory_opened(&m, fd) : CU_INVALID_VALUE;

	if (rc)
		return rc;
	m->is_exportable = true;
	rc = hold(handle, m);
	if (rc)
		memory_put(m);
	return rc;
}

cu_result cuMemAddressReserve(cu_ptr *ptr, size_t size, size_t alignment, cu_ptr wish,
			      unsigned long long flags)
{
	(void)wish;	/* a hint, which the driver need not follow either */
	if (flags || alignment > BLOCK_BYTES)
		return CU_INVALID_VALUE;
	return CALL(cuMemAddressReserve, reserve(ptr, size));
}

cu_result cuMemAddressFree(cu_ptr ptr, size_t size)
{
	return CALL(cuMemAddressFree, unreserve(ptr, size));
}

cu_result cuMemCreate(cu_handle *handle, size_t size, const struct cu_prop *prop,
		      unsigned long long flags)
{
	return flags ? CU_INVALID_VALUE : CALL(cuMemCreate, create(handle, size, prop));
}

cu_result cuMemRelease(cu_handle handle)
{
	return CALL(cuMemRelease, let_go(handle));
}

cu_result cuMemMap(cu_ptr ptr, size_t size, size_t offset, cu_handle handle,
		   unsigned long long flags)
{
	return flags ? CU_INVALID_VALUE : CALL(cuMemMap, map(ptr, size, offset, handle));
}

cu_result cuMemUnmap(cu_ptr ptr, size_t size)
{
	return CALL(cuMemUnmap, unmap(ptr, size));
}

cu_result cuMemSetAccess(cu_ptr ptr, size_t size, const struct cu_access *access, size_t nr)
{
	return CALL(cuMemSetAccess, allow_all(ptr, size, access, nr));
}

cu_result cuMemGetAllocationGranularity(size_t *granularity, const struct cu_prop *prop,
					cu_enum option)
{
	return CALL(cuMemGetAllocationGranularity, granularity_of(granularity, prop, option));
}

cu_result cuMemRetainAllocationHandle(cu_handle *handle, void *address)
{
	return CALL(cuMemRetainAllocationHandle, retain(handle, (uintptr_t)address));
}

cu_result cuMemExportToShareableHandle(void *shareable, cu_handle handle, cu_enum type,
				       unsigned long long flags)
{
	return flags ? CU_INVALID_VALUE :
		       CALL(cuMemExportToShareableHandle, share(shareable, handle, type));
}

cu_result cuMemImportFromShareableHandle(cu_handle *handle, void *shareable, cu_enum type)
{
	return CALL(cuMemImportFromShareableHandle,
		    import(handle, (int)(intptr_t)shareable, type));
}
