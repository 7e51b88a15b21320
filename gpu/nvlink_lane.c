/* SPDX-License-Identifier: Apache-2.0 */
/* nvlink_lane.c - streams and events of a lane, all made before its first copy. */
#include "gpu/nvlink.h"

static void destroy(const struct cuda_api *cuda, struct lane *l)
{
	for (uint32_t i = 0; i < LANE_DEPTH; i++) {
		if (l->flights[i].event)
			cuda->cuEventDestroy_v2(l->flights[i].event);
		l->flights[i].event = NULL;
	}
	if (l->stream)
		cuda->cuStreamDestroy_v2(l->stream);
	l->stream = NULL;
}

/* In its context. */
static cuda_result create(const struct cuda_api *cuda, struct lane *l)
{
	cuda_result rc = cuda->cuStreamCreate(&l->stream, CUDA_STREAM_NON_BLOCKING);

	if (rc != CUDA_OK)
		l->stream = NULL;
	for (uint32_t i = 0; rc == CUDA_OK && i < LANE_DEPTH; i++) {
		rc = cuda->cuEventCreate(&l->flights[i].event, CUDA_EVENT_DISABLE_TIMING);
		if (rc != CUDA_OK)
			l->flights[i].event = NULL;
	}
	if (rc != CUDA_OK)
		destroy(cuda, l);
	return rc;
}

cuda_result lane_open(const struct cuda_api *cuda, struct lane *l, int device)
{
	cuda_context popped;
	cuda_result rc = cuda->cuDevicePrimaryCtxRetain(&l->context, device);

	if (rc != CUDA_OK)
		return rc;
	rc = cuda->cuCtxPushCurrent_v2(l->context);
	if (rc == CUDA_OK) {
		rc = create(cuda, l);
		cuda->cuCtxPopCurrent_v2(&popped);
	}
	if (rc != CUDA_OK)
		cuda->cuDevicePrimaryCtxRelease_v2(device);
	return rc;
}

void lane_close(const struct cuda_api *cuda, struct lane *l, int device)
{
	cuda_context popped;

	if (!l->stream)
		return;
	if (cuda->cuCtxPushCurrent_v2(l->context) == CUDA_OK) {
		cuda->cuStreamSynchronize(l->stream);
		destroy(cuda, l);
		cuda->cuCtxPopCurrent_v2(&popped);
	}
	cuda->cuDevicePrimaryCtxRelease_v2(device);
}
