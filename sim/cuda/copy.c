/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - copies. Which bytes they mean is decided when they are asked for; memory that
 * they mean is not freed before they are over.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/parts.h"

struct end {
	uint64_t address;
	bool is_device;
	bool is_pinned;			/* the host's: a device reaches it later, too */
	const struct range *first;	/* a device's */
};

/* A device's must be reachable, and not run over from one allocation into another. */
static uint8_t *run_at(const struct end *e, uint64_t done, int device, uint64_t *n)
{
	uint64_t address = e->address + done, left;
	const struct range *r;

	if (!e->is_device)
		return (uint8_t *)(uintptr_t)address;
	r = range_find(address);
	if (!r || !r->memory || !(r->reachable_by >> device & 1) || r->start != e->first->start)
		return NULL;
	left = r->base + r->size - address;
	*n = left < *n ? left : *n;
	return r->memory->bytes + r->offset + (address - r->base);
}

static struct piece *cut(const struct end *to, const struct end *from, uint64_t size, int device,
			 uint32_t *nr)
{
	struct piece *pieces = NULL;

	*nr = 0;
	for (uint64_t done = 0, n; done < size; done += n) {
		struct piece *more = realloc(pieces, (*nr + 1) * sizeof(*pieces)), *p;

		if (!more)
			abort();
		pieces = more;
		p = &pieces[(*nr)++];
		n = size - done;
		p->to = run_at(to, done, device, &n);
		p->from = run_at(from, done, device, &n);
		p->bytes = n;
		if (p->to && p->from)
			continue;
		free(pieces);
		return NULL;
	}
	return pieces;
}

static bool look_at(struct end *e, uint64_t size)
{
	const struct range *r = range_find(e->address);

	if (e->is_device) {
		e->first = r;
		return r && r->memory;
	}
	e->is_pinned = r && !r->memory && size <= r->base + r->size - e->address;
	return !r || !r->memory;
}

/* Pageable memory is read before the call returns. */
static void *stage(struct end *from, uint64_t size)
{
	void *bytes = from->is_device || from->is_pinned ? NULL : malloc(size);

	if (!bytes)
		return NULL;
	memcpy(bytes, (void *)(uintptr_t)from->address, size);
	from->address = (uintptr_t)bytes;
	return bytes;
}

static cu_result copy(struct end to, struct end from, uint64_t size, cu_stream stream, bool waits)
{
	cu_context context;
	cu_result rc = context_current(&context);
	struct piece *pieces;
	void *staged;
	uint32_t nr;

	if (rc || !size)
		return rc;
	if (!look_at(&to, size) || !look_at(&from, size))
		return CU_INVALID_VALUE;
	staged = stage(&from, size);
	pieces = cut(&to, &from, size, context->device, &nr);
	if (!pieces) {
		free(staged);
		return CU_INVALID_VALUE;
	}
	rc = stream_copy(context, stream, pieces, nr, staged);
	/* And pageable memory is written before it returns. */
	if (rc || !(waits || (!to.is_device && !to.is_pinned)))
		return rc;
	return stream_settle(context, stream);
}

static struct end at_device(uint64_t address)
{
	return (struct end){ .address = address, .is_device = true };
}

static struct end at_host(const void *memory)
{
	return (struct end){ .address = (uintptr_t)memory };
}

static bool is_of(cu_context context, uint64_t address)
{
	const struct range *r = range_find(address);

	return r && r->memory && r->memory->device == context->device;
}

static cu_result copy_peer(uint64_t to, cu_context to_context, uint64_t from,
			   cu_context from_context, uint64_t size, cu_stream stream)
{
	cu_result rc = context_check(to_context);

	if (!rc)
		rc = context_check(from_context);
	if (rc)
		return rc;
	if (size && (!is_of(to_context, to) || !is_of(from_context, from)))
		return CU_INVALID_VALUE;
	return copy(at_device(to), at_device(from), size, stream, false);
}

/* Nothing is held back here, so there is nothing to flush; that it was asked for counts. */
static cu_result flush(cu_enum target, cu_enum scope)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc)
		return rc;
	return target == FLUSH_CURRENT_CONTEXT && (scope == FLUSH_TO_OWNER ||
						   scope == FLUSH_TO_ALL) ? CU_OK :
									    CU_INVALID_VALUE;
}

cu_result cuMemcpyHtoD_v2(cu_ptr to, const void *from, size_t size)
{
	return CALL(cuMemcpyHtoD_v2, copy(at_device(to), at_host(from), size, NULL, true));
}

cu_result cuMemcpyDtoH_v2(void *to, cu_ptr from, size_t size)
{
	return CALL(cuMemcpyDtoH_v2, copy(at_host(to), at_device(from), size, NULL, true));
}

cu_result cuMemcpyHtoDAsync_v2(cu_ptr to, const void *from, size_t size, cu_stream stream)
{
	return CALL(cuMemcpyHtoDAsync_v2,
		    copy(at_device(to), at_host(from), size, stream, false));
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_ptr from, size_t size, cu_stream stream)
{
	return CALL(cuMemcpyDtoHAsync_v2,
		    copy(at_host(to), at_device(from), size, stream, false));
}

cu_result cuMemcpyDtoDAsync_v2(cu_ptr to, cu_ptr from, size_t size, cu_stream stream)
{
	return CALL(cuMemcpyDtoDAsync_v2,
		    copy(at_device(to), at_device(from), size, stream, false));
}

cu_result cuMemcpyPeerAsync(cu_ptr to, cu_context to_context, cu_ptr from,
			    cu_context from_context, size_t size, cu_stream stream)
{
	return CALL(cuMemcpyPeerAsync,
		    copy_peer(to, to_context, from, from_context, size, stream));
}

cu_result cuFlushGPUDirectRDMAWrites(cu_enum target, cu_enum scope)
{
	return CALL(cuFlushGPUDirectRDMAWrites, flush(target, scope));
}
