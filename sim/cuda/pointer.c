/* SPDX-License-Identifier: Apache-2.0 */
/* pointer.c - what an address means. */
#include <string.h>

#include "sim/cuda/parts.h"

struct answer {
	uint64_t value;
	uint8_t bytes;		/* that the driver writes; 0: there is no such attribute */
};

static cu_enum type_of(const struct range *r)
{
	return !r ? 0 : r->memory ? MEMORY_DEVICE : MEMORY_HOST;
}

static int device_of(const struct range *r)
{
	return !r ? 0 : r->memory ? r->memory->device : r->context->device;
}

static uint64_t id_of(const struct range *r)
{
	return r ? r->id : 0;
}

static struct answer about(const struct range *r, uint64_t address, cu_enum attribute)
{
	uint64_t start = r ? r->start : 0, extent = r ? r->extent : 0;

	if (!r)
		reservation_find(address, &start, &extent);
	switch (attribute) {
	case POINTER_CONTEXT:
		return (struct answer){ r ? (uintptr_t)r->context : 0, sizeof(cu_context) };
	case POINTER_MEMORY_TYPE:
		return (struct answer){ type_of(r), sizeof(cu_enum) };
	case POINTER_DEVICE_POINTER:
		return (struct answer){ r ? address : 0, sizeof(cu_ptr) };
	case POINTER_HOST_POINTER:
		return (struct answer){ type_of(r) == MEMORY_HOST ? address : 0, sizeof(void *) };
	case POINTER_SYNC_MEMOPS:
		return (struct answer){ r && r->syncs, 1 };
	case POINTER_BUFFER_ID:
		return (struct answer){ id_of(r), sizeof(uint64_t) };
	case POINTER_IS_MANAGED:
		return (struct answer){ 0, 1 };
	case POINTER_DEVICE_ORDINAL:
		return (struct answer){ (uint32_t)device_of(r), sizeof(int) };
	case POINTER_IPC_CAPABLE:
		return (struct answer){ r && r->kind == RANGE_ALLOCATED, 1 };
	case POINTER_RANGE_START:
		return (struct answer){ start, sizeof(cu_ptr) };
	case POINTER_RANGE_SIZE:
		return (struct answer){ extent, sizeof(size_t) };
	case POINTER_MAPPED:
		return (struct answer){ r && r->memory, 1 };
	case POINTER_RDMA_CAPABLE:
		return (struct answer){ r && r->memory && r->memory->is_rdma_capable, 1 };
	default:
		return (struct answer){ 0, 0 };
	}
}

static cu_result get_one(void *value, cu_enum attribute, uint64_t address)
{
	const struct range *r = range_find(address);
	struct answer a = about(r, address, attribute);

	if (!r || !a.bytes)
		return CU_INVALID_VALUE;
	memcpy(value, &a.value, a.bytes);
	return CU_OK;
}

/* Unlike it, this one answers for any address: zeroes. */
static cu_result get_all(unsigned int nr, const cu_enum *attributes, void **values,
			 uint64_t address)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct answer a = about(range_find(address), address, attributes[i]);

		if (!a.bytes)
			return CU_INVALID_VALUE;
		memcpy(values[i], &a.value, a.bytes);
	}
	return CU_OK;
}

static cu_result set_one(const void *value, cu_enum attribute, uint64_t address)
{
	struct range *r = range_find(address);

	if (!r || !r->memory || attribute != POINTER_SYNC_MEMOPS)
		return CU_INVALID_VALUE;
	r->syncs = *(const unsigned char *)value != 0;
	return CU_OK;
}

static cu_result range_of(cu_ptr *base, size_t *size, uint64_t address)
{
	cu_context context;
	cu_result rc = context_current(&context);
	const struct range *r = range_find(address);

	if (rc || !r)
		return rc ? rc : CU_INVALID_VALUE;
	if (base)
		*base = r->base;
	if (size)
		*size = r->size;
	return CU_OK;
}

cu_result cuPointerGetAttribute(void *value, cu_enum attribute, cu_ptr ptr)
{
	return CALL(cuPointerGetAttribute, get_one(value, attribute, ptr));
}

cu_result cuPointerGetAttributes(unsigned int nr, cu_enum *attributes, void **values, cu_ptr ptr)
{
	return CALL(cuPointerGetAttributes, get_all(nr, attributes, values, ptr));
}

cu_result cuPointerSetAttribute(const void *value, cu_enum attribute, cu_ptr ptr)
{
	return CALL(cuPointerSetAttribute, set_one(value, attribute, ptr));
}

cu_result cuMemGetAddressRange_v2(cu_ptr *base, size_t *size, cu_ptr ptr)
{
	return CALL(cuMemGetAddressRange_v2, range_of(base, size, ptr));
}
