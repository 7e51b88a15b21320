/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - memory of GPUs that a program has from us. It is made here, in the program: who
 * registers it is an engine in the same process. What was registered of it is remembered,
 * so that nothing of an engine refers to it once it is freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "gpu/memory.h"
#include "lib/lib.h"

struct lib_gpu_range {
	struct lib_gpu_range *next;
	uintptr_t base;
	size_t size;
};

struct lib_gpu_memory {
	struct lib_gpu_memory *next;
	uint64_t base, size;
	int device;
	struct lib_gpu_range *ranges;	/* one for each registration */
};

bool lib_gpu_location(const char *location)
{
	int device;

	return gpu_location(location, &device);
}

static int refuse(int error, const char *location, size_t size, const char *why)
{
	if (error == -ENOSYS)
		return lib_fail_text(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "location",
				     "location is \"%s\", and memory of GPUs is not in this build "
				     "or on this machine: %s", location, why);
	if (error == -ENODEV)
		return lib_fail_text(TENT_ERR_ENUM, TENT_RULE_LOCATION, "location",
				     "location is \"%s\": %s", location, why);
	return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "location",
			     "no memory of %zu bytes at \"%s\": %s", size, location, why);
}

int lib_gpu_allocate(struct lib_engine *e, void **addr, size_t size, const char *location)
{
	struct lib_gpu_memory *m;
	char why[GPU_TEXT_SIZE];
	int rc;

	if (!e->local)
		return lib_fail_text(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "location",
				     "location is \"%s\", and the engine is another process; "
				     "allowed: memory of the host, or an engine in this program",
				     location);
	if (!size)
		return lib_fail_text(TENT_ERR_ADDRESS, TENT_RULE_MEM_RANGE, "size",
				     "size is 0; allowed: at least 1 byte");
	m = calloc(1, sizeof(*m));
	if (!m)
		return lib_fail_memory();
	m->size = size;
	gpu_location(location, &m->device);
	rc = gpu_allocate(m->device, size, &m->base, why, sizeof(why));
	if (rc) {
		free(m);
		return refuse(rc, location, size, why);
	}
	*addr = (void *)(uintptr_t)m->base;
	lib_pool_lock();
	m->next = e->gpu_memory;
	e->gpu_memory = m;
	lib_pool_unlock();
	return 0;
}

/* ---- what is registered of it ------------------------------------------- */

/* Pool lock. */
static struct lib_gpu_memory *find(struct lib_engine *e, const void *addr)
{
	struct lib_gpu_memory *m = e->gpu_memory;

	while (m && (uintptr_t)addr - m->base >= m->size)
		m = m->next;
	return m;
}

/* A range that cannot be remembered is one that its owner unregisters by itself. */
void lib_gpu_registered(struct lib_engine *e, const void *addr, size_t size)
{
	struct lib_gpu_range *r = NULL;
	struct lib_gpu_memory *m;

	lib_pool_lock();
	m = find(e, addr);
	if (m)
		r = malloc(sizeof(*r));
	if (r) {
		*r = (struct lib_gpu_range){ m->ranges, (uintptr_t)addr, size };
		m->ranges = r;
	}
	lib_pool_unlock();
}

void lib_gpu_unregistered(struct lib_engine *e, const void *addr, size_t size)
{
	struct lib_gpu_range **at, *r = NULL;
	struct lib_gpu_memory *m;

	lib_pool_lock();
	m = find(e, addr);
	for (at = m ? &m->ranges : NULL; at && (r = *at); at = &r->next) {
		if (r->base != (uintptr_t)addr || r->size != size)
			continue;
		*at = r->next;
		break;
	}
	lib_pool_unlock();
	free(r);
}

/* ---- its end ------------------------------------------------------------ */

/* Nobody of ours names it any more. */
static void release(struct lib_gpu_memory *m)
{
	struct lib_gpu_range *r;

	while ((r = m->ranges)) {
		m->ranges = r->next;
		free(r);
	}
	gpu_free(m->base, m->device);
	free(m);
}

static struct lib_gpu_memory *take(struct lib_engine *e, const void *addr)
{
	struct lib_gpu_memory **at = &e->gpu_memory, *m;

	lib_pool_lock();
	while (*at && (*at)->base != (uintptr_t)addr)
		at = &(*at)->next;
	m = *at;
	if (m)
		*at = m->next;
	lib_pool_unlock();
	return m;
}

/* When it returns no request touches the memory any more: an engine that is lost does not
 * either. */
bool lib_gpu_free(struct lib_engine *e, const void *addr)
{
	struct lib_gpu_memory *m = take(e, addr);

	if (!m)
		return false;
	for (const struct lib_gpu_range *r = m->ranges; r; r = r->next)
		tent_client_unregister(e->client, (void *)r->base, r->size);
	release(m);
	return true;
}

void lib_gpu_forget(struct lib_engine *e)
{
	struct lib_gpu_memory *m;

	while ((m = e->gpu_memory)) {
		e->gpu_memory = m->next;
		release(m);
	}
}

/* Copies through /proc would find nothing at such an address. */
int lib_gpu_check(const struct lib_engine *e, const void *addr)
{
	int device = e->local ? -1 : gpu_memory_device((uintptr_t)addr);

	if (device < 0)
		return 0;
	return lib_fail_text(TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE, "address",
			     "address is %p, memory of GPU %d, and the engine is another process; "
			     "allowed: memory of the host, or an engine in this program", addr,
			     device);
}
