/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - memory of a GPU for cards: the dma-buf that they register it by, and how what they
 * have written gets to be seen. The caller is the control thread, but for flush().
 */
#include <stdio.h>
#include <unistd.h>

#include "gpu/memory.h"

/* The card has completed it, and the GPU may still not see it. */
static bool flush(const struct device_memory *m)
{
	const struct cuda_api *cuda = gpu_driver();
	cuda_context popped;
	cuda_result rc = cuda->cuCtxPushCurrent_v2(m->context);

	if (rc != CUDA_OK)
		return false;
	rc = cuda->cuFlushGPUDirectRDMAWrites(CUDA_FLUSH_CONTEXT, CUDA_FLUSH_TO_OWNER);
	cuda->cuCtxPopCurrent_v2(&popped);
	return rc == CUDA_OK;
}

static int attribute(const struct cuda_api *cuda, const struct device_memory *m, cuda_enum which)
{
	int value = 0;

	return cuda->cuDeviceGetAttribute(&value, which, (int)m->number) == CUDA_OK ? value : 0;
}

/* Where cards' writes are in no order with what the GPU does later, somebody has to flush. */
static void find_order(const struct cuda_api *cuda, struct device_memory *m)
{
	bool can_flush = attribute(cuda, m, CUDA_DEVICE_FLUSH) & CUDA_FLUSH_BY_HOST;

	m->cards_may = true;
	if (attribute(cuda, m, CUDA_DEVICE_ORDERING) >= CUDA_ORDERING_OWNER)
		return;
	m->flush = can_flush ? flush : NULL;
	m->cards_may = can_flush;
	if (!can_flush)
		snprintf(m->card, sizeof(m->card), "registered with no card: what a card writes is "
			 "not ordered for this GPU, and cuFlushGPUDirectRDMAWrites() is not there");
}

/* Whole pages, as the driver takes them; what else is in these is not registered. */
static void export(const struct cuda_api *cuda, struct device_memory *m, uint64_t base,
		   uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = base & ~(page - 1), end = (base + length + page - 1) & ~(page - 1);
	cuda_context popped;
	char text[40];
	cuda_result rc = cuda->cuCtxPushCurrent_v2(m->context);
	bool pushed = rc == CUDA_OK;

	if (pushed) {
		rc = cuda->cuMemGetHandleForAddressRange(&m->fd, start, end - start,
							 CUDA_RANGE_DMA_BUF, 0);
		cuda->cuCtxPopCurrent_v2(&popped);
	}
	m->fd_base = start;
	if (rc == CUDA_OK)
		return;
	m->fd = -1;
	snprintf(m->no_fd, sizeof(m->no_fd), "cuMemGetHandleForAddressRange: %s",
		 gpu_error(cuda, rc, text));
}

void gpu_share_open(const struct cuda_api *cuda, struct device_memory *m, uint64_t base,
		    uint64_t length)
{
	m->fd = -1;
	find_order(cuda, m);
	if (!m->cards_may)
		return;
	if (attribute(cuda, m, CUDA_DEVICE_DMA_BUF))
		export(cuda, m, base, length);
	else
		snprintf(m->no_fd, sizeof(m->no_fd), "GPU %u has none", m->number);
}

void gpu_share_close(struct device_memory *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}
