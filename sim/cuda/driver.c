/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - the devices, and what every call passes first. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/parts.h"

#define GPUS_DEFAULT 2
#define MEMORY_DEFAULT (16ull << 30)
#define VERSION 12040		/* of a driver for CUDA 12.4 */

pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t the_change = PTHREAD_COND_INITIALIZER;
struct gpu_control *the_control;

static pid_t who_began;		/* 0: cuInit() was not called */
static const int buses[GPUS_MAX] = { 0x17, 0x65, 0xb3, 0xca, 0xd1, 0xd9, 0xe2, 0xea };

/* ---- what may be set -------------------------------------------------------- */

static void *map_control(void)
{
	const char *path = getenv("TENT_SIM_GPU_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *p;

	if (path && (fd < 0 || ftruncate(fd, sizeof(struct gpu_control)) < 0)) {
		perror(path);
		abort();
	}
	p = mmap(NULL, sizeof(struct gpu_control), PROT_READ | PROT_WRITE,
		 path ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
	if (fd >= 0)
		close(fd);
	return p;
}

__attribute__((constructor)) static void load(void)
{
	the_control = map_control();
	if (the_control == MAP_FAILED)
		abort();
}

struct gpu_control *sim_gpu_control(void)
{
	return the_control;
}

int gpu_count(void)
{
	const char *text = getenv("TENT_SIM_GPUS");
	int nr = text ? atoi(text) : GPUS_DEFAULT;

	return nr < 0 ? 0 : nr > GPUS_MAX ? GPUS_MAX : nr;
}

uint64_t gpu_memory_bytes(void)
{
	const char *text = getenv("TENT_SIM_GPU_MEMORY");

	return text ? strtoull(text, NULL, 0) : MEMORY_DEFAULT;
}

bool is_gpu(cu_device device)
{
	return device >= 0 && device < gpu_count();
}

/* ---- calls ------------------------------------------------------------------ */

/* A fault's counts fall as calls meet them; two calls at once fall by two. */
static bool falls(uint32_t *count)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_SEQ_CST);

	while (n && n != UINT32_MAX)
		if (__atomic_compare_exchange_n(count, &n, n - 1, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			break;
	return n != 0;
}

static bool needs_no_init(enum cu_call call)
{
	return call == CALL_cuInit || call == CALL_cuGetErrorName ||
	       call == CALL_cuGetErrorString || call == CALL_cuDriverGetVersion;
}

cu_result call_begin(enum cu_call call)
{
	struct gpu_fault *f = &the_control->faults[call];

	__atomic_fetch_add(&the_control->calls[call], 1, __ATOMIC_SEQ_CST);
	if (!needs_no_init(call) && __atomic_load_n(&who_began, __ATOMIC_SEQ_CST) != getpid())
		return CU_NOT_INITIALIZED;	/* a forked child has no driver either */
	if (!__atomic_load_n(&f->times, __ATOMIC_SEQ_CST) || falls(&f->after))
		return CU_OK;
	return falls(&f->times) ? __atomic_load_n(&f->result, __ATOMIC_SEQ_CST) : CU_OK;
}

cu_result cuInit(unsigned int flags)
{
	pid_t nobody = 0;
	cu_result rc = call_begin(CALL_cuInit);

	if (rc || flags)
		return rc ? rc : CU_INVALID_VALUE;
	if (!gpu_count())
		return CU_NO_DEVICE;
	if (__atomic_compare_exchange_n(&who_began, &nobody, getpid(), false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST) || nobody == getpid())
		return CU_OK;
	return CU_NOT_INITIALIZED;
}

cu_result cuDriverGetVersion(int *version)
{
	cu_result rc = call_begin(CALL_cuDriverGetVersion);

	if (rc || !version)
		return rc ? rc : CU_INVALID_VALUE;
	*version = VERSION;
	return CU_OK;
}

static const struct { const char *name, *text; cu_result result; } results[] = {
#define RESULT(theirs, ours, number, text) { #theirs, text, ours },
	CU_RESULTS(RESULT)
#undef RESULT
};

static cu_result describe(cu_result result, const char **text, bool by_name)
{
	*text = NULL;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].result == result)
			*text = by_name ? results[i].name : results[i].text;
	return *text ? CU_OK : CU_INVALID_VALUE;
}

cu_result cuGetErrorName(cu_result result, const char **name)
{
	return CALL(cuGetErrorName, describe(result, name, true));
}

cu_result cuGetErrorString(cu_result result, const char **text)
{
	return CALL(cuGetErrorString, describe(result, text, false));
}

/* ---- devices ---------------------------------------------------------------- */

static cu_result count(int *nr)
{
	*nr = gpu_count();
	return CU_OK;
}

static cu_result get(cu_device *device, int ordinal)
{
	*device = ordinal;
	return is_gpu(ordinal) ? CU_OK : CU_INVALID_DEVICE;
}

static cu_result put_text(char *to, int size, cu_device device, const char *format, int value)
{
	char text[32];

	if (!is_gpu(device))
		return CU_INVALID_DEVICE;
	snprintf(text, sizeof(text), format, value);
	if (size <= 0 || (size_t)size <= strlen(text))
		return CU_INVALID_VALUE;
	strcpy(to, text);
	return CU_OK;
}

static cu_result total(size_t *bytes, cu_device device)
{
	*bytes = gpu_memory_bytes();
	return is_gpu(device) ? CU_OK : CU_INVALID_DEVICE;
}

static cu_result attribute(int *value, cu_enum which, cu_device device)
{
	if (!is_gpu(device))
		return CU_INVALID_DEVICE;
	switch (which) {
	case DEVICE_PCI_BUS: *value = buses[device]; return CU_OK;
	case DEVICE_PCI_DEVICE: *value = 0; return CU_OK;
	case DEVICE_PCI_DOMAIN: *value = 0; return CU_OK;
	case DEVICE_MAJOR: *value = 9; return CU_OK;
	case DEVICE_MINOR: *value = 0; return CU_OK;
	case DEVICE_PROCESSORS: case DEVICE_UNIFIED: case DEVICE_HOST_REGISTER: case DEVICE_VIRTUAL:
	case DEVICE_POSIX_FD: case DEVICE_RDMA_VIRTUAL: case DEVICE_RDMA: case DEVICE_FLUSH:
		*value = 1;
		return CU_OK;
	case DEVICE_ORDERING:
		*value = the_control->gpus[device].no_ordering ? 0 : ORDERING_OWNER;
		return CU_OK;
	case DEVICE_DMA_BUF:
		*value = !the_control->gpus[device].no_dma_buf;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

static cu_result can_access(int *can, cu_device device, cu_device peer)
{
	*can = device != peer;
	return is_gpu(device) && is_gpu(peer) ? CU_OK : CU_INVALID_DEVICE;
}

cu_result cuDeviceGetCount(int *nr)
{
	return CALL(cuDeviceGetCount, count(nr));
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
	return CALL(cuDeviceGet, get(device, ordinal));
}

cu_result cuDeviceGetName(char *name, int size, cu_device device)
{
	return CALL(cuDeviceGetName, put_text(name, size, device, "simulated GPU %d", device));
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
	return CALL(cuDeviceTotalMem_v2, total(bytes, device));
}

cu_result cuDeviceGetAttribute(int *value, cu_enum which, cu_device device)
{
	return CALL(cuDeviceGetAttribute, attribute(value, which, device));
}

cu_result cuDeviceGetPCIBusId(char *id, int size, cu_device device)
{
	return CALL(cuDeviceGetPCIBusId, put_text(id, size, device, "0000:%02X:00.0",
						  is_gpu(device) ? buses[device] : 0));
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device device, cu_device peer)
{
	return CALL(cuDeviceCanAccessPeer, can_access(can, device, peer));
}
