/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c - memory of a device for others: dma-bufs, and processes that open it too.
 *
 * A descriptor that stands for a part of a memory is one of its whole file, whose position
 * is that of a struct gpu_window behind the memory's bytes: which part it is. Nobody seeks
 * in a dma-buf to read, so the position is free for it, and it goes where the descriptor
 * goes. The software ConnectX knows (sim/hca/mem/window.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/parts.h"

#define WINDOW_MAGIC 0x776f646e69772d67ull	/* "g-window" */
#define IPC_MAGIC 0x6370692d75706774ull		/* "tgpu-ipc" */

struct gpu_window {
	uint64_t magic;
	uint64_t start, length;	/* in the file */
	uint32_t device, resv;
};

/* What a struct cu_ipc has in its bytes: whose descriptor it is, and of which file. */
struct ipc {
	uint64_t magic;
	int32_t pid, fd;
	uint64_t file;		/* its inode */
	uint64_t offset, size;	/* of the allocation; of all of the memory */
	int32_t device;
};
_Static_assert(sizeof(struct ipc) <= sizeof(struct cu_ipc), "fits");

/* ---- descriptors ------------------------------------------------------------ */

/* Where this window is described; at the end of the file where it was not yet. -1: errno. */
static off_t place_window(const struct memory *m, const struct gpu_window *w)
{
	struct gpu_window there;
	off_t at = (off_t)m->size;

	while (pread(m->fd, &there, sizeof(there), at) == sizeof(there)) {
		if (!memcmp(&there, w, sizeof(there)))
			return at;
		at += (off_t)sizeof(there);
	}
	return pwrite(m->fd, w, sizeof(*w), at) == sizeof(*w) ? at : -1;
}

int memory_export(const struct memory *m, uint64_t start, uint64_t length)
{
	struct gpu_window w = { .magic = WINDOW_MAGIC, .start = start, .length = length,
				.device = (uint32_t)m->device };
	off_t at = place_window(m, &w);
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	fd = at < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && lseek(fd, at, SEEK_SET) == at)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Memory of a device, as far as one handle reaches. */
static const struct range *exportable(uint64_t address, uint64_t size, uint64_t *start)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct range *r = range_find(address);

	/* A page of small allocations is of several: the driver gives it out nevertheless. */
	for (uint64_t at = address; !r && at < address + page; at += SMALL_BYTES)
		r = range_find(at);
	if (!r || !r->memory || !size || address % page || size % page)
		return NULL;
	*start = r->offset + address - r->base;
	if (r->kind == RANGE_MAPPED && size > r->base + r->size - address)
		return NULL;
	return *start <= r->memory->size && size <= r->memory->size - *start ? r : NULL;
}

static cu_result export(int *fd, uint64_t address, uint64_t size, cu_enum type,
			unsigned long long flags)
{
	cu_context context;
	cu_result rc = context_current(&context);
	const struct range *r;
	uint64_t start;

	if (rc)
		return rc;
	r = exportable(address, size, &start);
	if (type != RANGE_DMA_BUF || flags || !r)
		return CU_INVALID_VALUE;
	if (the_control->gpus[r->memory->device].no_dma_buf || !r->memory->is_rdma_capable)
		return CU_NOT_SUPPORTED;
	*fd = memory_export(r->memory, start, size);
	return *fd < 0 ? CU_OUT_OF_MEMORY : CU_OK;
}

/* ---- shareable handles ------------------------------------------------------ */

cu_result memory_opened(struct memory **m, int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct gpu_window w;

	if (at < 0 || pread(fd, &w, sizeof(w), at) != sizeof(w) || w.magic != WINDOW_MAGIC ||
	    w.start || !is_gpu((int)w.device))
		return CU_INVALID_VALUE;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? CU_OUT_OF_MEMORY : memory_import(m, fd, (int)w.device, w.length);
}

/* ---- IPC -------------------------------------------------------------------- */

static cu_result name_memory(struct cu_ipc *handle, uint64_t address)
{
	const struct range *r = range_find(address);
	struct ipc ipc = { .magic = IPC_MAGIC, .pid = getpid() };
	struct stat st;

	if (!r || r->kind != RANGE_ALLOCATED || fstat(r->memory->fd, &st) < 0)
		return CU_INVALID_VALUE;
	ipc.fd = r->memory->fd;
	ipc.file = st.st_ino;
	ipc.offset = r->offset;
	ipc.size = r->memory->size;
	ipc.device = r->memory->device;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	return CU_OK;
}

/* Where the maker's descriptor is of another file by now, it has freed the memory. */
static int open_named(const struct ipc *ipc)
{
	struct stat st;
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == ipc->file &&
		       (uint64_t)st.st_size >= ipc->size))
		return fd;
	close(fd);
	return -1;
}

static struct range *find_opened(const struct ipc *ipc)
{
	struct range *r;

	for (r = range_overlapping(0, UINT64_MAX); r; r = r->next) {
		struct stat st;

		if (r->kind == RANGE_OPENED && r->offset == ipc->offset &&
		    fstat(r->memory->fd, &st) == 0 && st.st_ino == ipc->file)
			return r;
	}
	return NULL;
}

static cu_result map_named(cu_ptr *ptr, const struct ipc *ipc, cu_context context)
{
	struct range like = { .kind = RANGE_OPENED, .offset = ipc->offset, .context = context,
			      .opens = 1, .reachable_by = UINT32_MAX };
	int fd = open_named(ipc);
	cu_result rc = fd < 0 ? CU_INVALID_VALUE :
				memory_import(&like.memory, fd, ipc->device, ipc->size);

	if (rc)
		return rc;
	like.memory->address = addresses_reserve(ipc->size);
	like.base = like.start = like.memory->address + ipc->offset;
	like.size = like.extent = ipc->size - ipc->offset;
	if (!like.memory->address ||
	    !addresses_show(like.memory->address, ipc->size, like.memory) || !range_add(&like)) {
		memory_put(like.memory);
		return CU_OUT_OF_MEMORY;
	}
	*ptr = like.base;
	return CU_OK;
}

static cu_result open_handle(cu_ptr *ptr, const struct cu_ipc *handle, unsigned int flags)
{
	cu_context context;
	cu_result rc = context_current(&context);
	struct range *r;
	struct ipc ipc;

	memcpy(&ipc, handle, sizeof(ipc));
	if (rc)
		return rc;
	if (ipc.magic != IPC_MAGIC || flags != IPC_LAZY_PEER || !is_gpu(ipc.device) ||
	    ipc.offset >= ipc.size)
		return CU_INVALID_VALUE;
	if (ipc.pid == getpid())
		return CU_INVALID_CONTEXT;	/* it has it already */
	r = find_opened(&ipc);
	if (!r)
		return map_named(ptr, &ipc, context);
	r->opens++;
	*ptr = r->base;
	return CU_OK;
}

static cu_result close_handle(uint64_t address)
{
	struct range *r = range_find(address);

	if (!r || r->kind != RANGE_OPENED || r->base != address)
		return CU_INVALID_VALUE;
	if (--r->opens)
		return CU_OK;
	streams_settle();
	range_remove(r);
	return CU_OK;
}

cu_result cuMemGetHandleForAddressRange(void *handle, cu_ptr ptr, size_t size, cu_enum type,
					unsigned long long flags)
{
	return CALL(cuMemGetHandleForAddressRange, export(handle, ptr, size, type, flags));
}

cu_result cuIpcGetMemHandle(struct cu_ipc *handle, cu_ptr ptr)
{
	return CALL(cuIpcGetMemHandle, name_memory(handle, ptr));
}

cu_result cuIpcOpenMemHandle_v2(cu_ptr *ptr, struct cu_ipc handle, unsigned int flags)
{
	return CALL(cuIpcOpenMemHandle_v2, open_handle(ptr, &handle, flags));
}

cu_result cuIpcCloseMemHandle(cu_ptr ptr)
{
	return CALL(cuIpcCloseMemHandle, close_handle(ptr));
}
