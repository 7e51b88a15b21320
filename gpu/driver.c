/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - finds the driver, and what is asked of it but for copies. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/driver.h"
#include "ring/order.h"

#define DEVICE_DIGITS 2u

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_api the_api;		/* constant once is_loaded is set */
static uint32_t is_loaded;		/* R7/A7 */
static char what_lacks[GPU_TEXT_SIZE];	/* the_lock: of an attempt that failed */

/* ---- finding it --------------------------------------------------------- */

/* Under the_lock. A library that lacks a call does not grow one: it is tried once. */
static bool load(void)
{
	if (load_relaxed(&is_loaded))
		return true;
	if (what_lacks[0] || !cuda_api_load(&the_api, CUDA_LIBRARY, what_lacks, sizeof(what_lacks)))
		return false;
	store_release(&is_loaded, 1u);	/* R7, pairs with A7 in gpu_driver() */
	return true;
}

static bool is_in_this_process(void)
{
	void *handle = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle;
}

const struct cuda_api *gpu_driver(void)
{
	bool found;

	if (load_acquire(&is_loaded))	/* A7, pairs with R7 in load() */
		return &the_api;
	if (!is_in_this_process())
		return NULL;
	pthread_mutex_lock(&the_lock);
	found = load();
	pthread_mutex_unlock(&the_lock);
	return found ? &the_api : NULL;
}

const struct cuda_api *gpu_driver_begin(char *why, size_t size)
{
	char text[40];
	cuda_result rc;
	bool found;

	pthread_mutex_lock(&the_lock);
	found = load();
	if (!found)
		snprintf(why, size, "%s", what_lacks);
	pthread_mutex_unlock(&the_lock);
	if (!found)
		return NULL;
	rc = the_api.cuInit(0);
	if (rc == CUDA_OK)
		return &the_api;
	snprintf(why, size, "cuInit: %s", gpu_error(&the_api, rc, text));
	return NULL;
}

const char *gpu_error(const struct cuda_api *cuda, cuda_result result, char text[40])
{
	const char *name = NULL;

	if (cuda->cuGetErrorName(result, &name) == CUDA_OK && name)
		snprintf(text, 40, "%s", name);
	else
		snprintf(text, 40, "error %u", result);
	return text;
}

/* ---- contexts ----------------------------------------------------------- */

cuda_result gpu_enter(const struct cuda_api *cuda, int device)
{
	cuda_context context;
	cuda_result rc = cuda->cuDevicePrimaryCtxRetain(&context, device);

	if (rc != CUDA_OK)
		return rc;
	rc = cuda->cuCtxPushCurrent_v2(context);
	if (rc != CUDA_OK)
		cuda->cuDevicePrimaryCtxRelease_v2(device);
	return rc;
}

void gpu_leave(const struct cuda_api *cuda, int device)
{
	cuda_context context;

	cuda->cuCtxPopCurrent_v2(&context);
	cuda->cuDevicePrimaryCtxRelease_v2(device);
}

/* ---- memory ------------------------------------------------------------- */

bool gpu_location(const char *text, int *device)
{
	size_t digits;

	if (strncmp(text, "cuda:", 5) != 0)
		return false;
	text += 5;
	digits = strspn(text, "0123456789");
	if (!digits || digits > DEVICE_DIGITS || text[digits])
		return false;
	*device = atoi(text);
	return true;
}

static int refuse(const struct cuda_api *cuda, const char *call, cuda_result rc, char *why,
		  size_t size)
{
	char text[40];

	snprintf(why, size, "%s: %s", call, gpu_error(cuda, rc, text));
	return rc == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static int check_device(const struct cuda_api *cuda, int device, char *why, size_t size)
{
	cuda_result rc;
	int nr = 0;

	rc = cuda->cuDeviceGetCount(&nr);
	if (rc != CUDA_OK)
		return refuse(cuda, "cuDeviceGetCount", rc, why, size);
	nr = nr < GPUS_MAX ? nr : GPUS_MAX;
	if (device < nr)
		return 0;
	snprintf(why, size, "GPU %d is not there; allowed: 0..%d", device, nr - 1);
	return -ENODEV;
}

/* The context is held for as long as the memory is there, which would go with it. */
int gpu_allocate(int device, uint64_t size, uint64_t *address, char *why, size_t why_size)
{
	const struct cuda_api *cuda = gpu_driver_begin(why, why_size);
	cuda_address at;
	cuda_context context;
	cuda_result rc;
	int error = cuda ? check_device(cuda, device, why, why_size) : -ENOSYS;

	if (error)
		return error;
	rc = gpu_enter(cuda, device);
	if (rc != CUDA_OK)
		return refuse(cuda, "cuDevicePrimaryCtxRetain", rc, why, why_size);
	rc = cuda->cuMemAlloc_v2(&at, size);
	if (rc != CUDA_OK) {
		gpu_leave(cuda, device);
		return refuse(cuda, "cuMemAlloc", rc, why, why_size);
	}
	cuda->cuCtxPopCurrent_v2(&context);
	*address = at;
	return 0;
}

void gpu_free(uint64_t address, int device)
{
	const struct cuda_api *cuda = gpu_driver();

	if (gpu_enter(cuda, device) == CUDA_OK) {
		cuda->cuMemFree_v2(address);
		gpu_leave(cuda, device);
	}
	cuda->cuDevicePrimaryCtxRelease_v2(device);	/* that of gpu_allocate() */
}
