/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - memory that requests may name: control calls, one engine round trip each.
 */
#include <string.h>
#include <tent/transfer_engine.h>

#include "lib/lib.h"

/* Memory of the host is one for all transports that reach it, memory of GPUs nvlink's. */
static bool is_for(int transport, bool gpu)
{
	switch (transport) {
	case TENT_TRANSPORT_UNSPEC:
		return true;
	case TENT_TRANSPORT_RDMA:
	case TENT_TRANSPORT_SHM:
	case TENT_TRANSPORT_IOURING:
	case TENT_TRANSPORT_TCP:
		return !gpu;
	default:
		return gpu && transport == TENT_TRANSPORT_NVLINK;
	}
}

static int check_transport(int transport, const char *location)
{
	if (transport < 0 || transport >= TENT_TRANSPORT_COUNT)
		return lib_fail_field(TENT_RULE_TRANSPORT, "transport_type", transport);
	if (!is_for(transport, lib_gpu_location(location)))
		return lib_fail_field(TENT_RULE_TRANSPORT_BUILD, "transport_type", transport);
	return 0;
}

static int check_options(const tent_memory_options_t *o)
{
	int rc;

	if (!o)
		return lib_fail_null("opts");
	if (!memchr(o->location, 0, sizeof(o->location)))
		return lib_fail_text(TENT_ERR_ENUM, TENT_RULE_LOCATION, "location",
				     "location has no end; allowed: up to 63 bytes and a NUL");
	if (o->permission < TENT_PERM_LOCAL_READ_WRITE ||
	    o->permission > TENT_PERM_GLOBAL_READ_WRITE)
		return lib_fail(TENT_RULE_MEM_PERMISSION, o->permission);
	rc = check_transport(o->transport_type, o->location);
	if (rc)
		return rc;
	if (o->shm_path[0])
		return lib_fail_text(TENT_ERR_ARGUMENTS, TENT_RULE_ARG_VALUE, "shm_path",
				     "shm_path is \"%.80s\"; allowed: \"\"", o->shm_path);
	if (o->shm_offset)
		return lib_fail_text(TENT_ERR_ARGUMENTS, TENT_RULE_ARG_VALUE, "shm_offset",
				     "shm_offset is %zu; allowed: 0", o->shm_offset);
	return 0;
}

static int allocate(tent_engine_t engine, void **addr, size_t size, const char *location)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc = 0;

	if (!e)
		return lib_last_error()->error;
	if (lib_gpu_location(location))
		rc = lib_gpu_allocate(e, addr, size, location);
	else if (tent_client_alloc(e->client, size, location, addr))
		rc = lib_fail_client();
	lib_engine_leave(e);
	return rc;
}

int tent_allocate_memory(tent_engine_t engine, void **addr, size_t size, const char *location)
{
	if (!addr || !location)
		return lib_fail_null(addr ? "location" : "addr");
	return allocate(engine, addr, size, location);
}

int tent_allocate_memory_ex(tent_engine_t engine, void **addr, size_t size,
			    tent_memory_options_t *opts)
{
	int rc = addr ? check_options(opts) : lib_fail_null("addr");

	return rc ? rc : allocate(engine, addr, size, opts->location);
}

int tent_free_memory(tent_engine_t engine, void *addr)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc = 0;

	if (!e)
		return lib_last_error()->error;
	if (!lib_gpu_free(e, addr) && tent_client_free(e->client, addr))
		rc = lib_fail_client();
	lib_engine_leave(e);
	return rc;
}

static int register_one(struct lib_engine *e, void *addr, size_t size,
			const tent_memory_options_t *o)
{
	int rc = lib_gpu_check(e, addr);

	if (rc)
		return rc;
	if (tent_client_register(e->client, addr, size, o->permission,
				 o->location[0] ? o->location : NULL, o->internal != 0))
		return lib_fail_client();
	lib_gpu_registered(e, addr, size);
	return 0;
}

static int unregister_one(struct lib_engine *e, void *addr, size_t size)
{
	int rc = tent_client_unregister(e->client, addr, size);

	if (!rc)
		lib_gpu_unregistered(e, addr, size);
	return rc;
}

/* count ranges with the same options, all or none. */
static int register_all(struct lib_engine *e, void **addrs, const size_t *sizes, size_t count,
			const tent_memory_options_t *o)
{
	int rc = 0;
	size_t i;

	for (i = 0; i < count && !rc; i++)
		rc = register_one(e, addrs[i], sizes[i], o);
	if (rc)
		for (i--; i-- > 0;)
			unregister_one(e, addrs[i], sizes[i]);
	return rc;
}

int tent_register_memory_batch_ex(tent_engine_t engine, void **addrs, size_t *sizes,
				  size_t count, tent_memory_options_t *opts)
{
	struct lib_engine *e;
	int rc = check_options(opts);

	if (!rc && count && !(addrs && sizes))
		rc = lib_fail_null(addrs ? "sizes" : "addrs");
	if (rc)
		return rc;
	e = lib_engine_enter(engine);
	if (!e)
		return lib_last_error()->error;
	rc = register_all(e, addrs, sizes, count, opts);
	lib_engine_leave(e);
	return rc;
}

int tent_register_memory_ex(tent_engine_t engine, void *addr, size_t size,
			    tent_memory_options_t *opts)
{
	return tent_register_memory_batch_ex(engine, &addr, &size, 1, opts);
}

int tent_register_memory_batch(tent_engine_t engine, void **addrs, size_t *sizes, size_t count,
			       int permission)
{
	tent_memory_options_t o = { .permission = permission };

	return tent_register_memory_batch_ex(engine, addrs, sizes, count, &o);
}

int tent_register_memory_with_perm(tent_engine_t engine, void *addr, size_t size, int permission)
{
	return tent_register_memory_batch(engine, &addr, &size, 1, permission);
}

int tent_register_memory(tent_engine_t engine, void *addr, size_t size)
{
	return tent_register_memory_with_perm(engine, addr, size, TENT_PERM_GLOBAL_READ_WRITE);
}

/* Programs unregister on every path out: a range that is not there is no error. */
static int unregister(struct lib_engine *e, void *addr, size_t size)
{
	int rc;

	if (!unregister_one(e, addr, size))
		return 0;
	rc = lib_fail_client();
	return lib_last_error()->rule == TENT_RULE_MEM_UNKNOWN ? 0 : rc;
}

int tent_unregister_memory_batch(tent_engine_t engine, void **addrs, size_t *sizes, size_t count)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc = 0, first = 0;

	if (!e)
		return lib_last_error()->error;
	if (count && !addrs)
		first = lib_fail_null("addrs");
	for (size_t i = 0; addrs && i < count; i++) {
		rc = unregister(e, addrs[i], sizes ? sizes[i] : 0);
		if (rc && !first)
			first = rc;
	}
	lib_engine_leave(e);
	return first;
}

int tent_unregister_memory(tent_engine_t engine, void *addr, size_t size)
{
	return tent_unregister_memory_batch(engine, &addr, &size, 1);
}
