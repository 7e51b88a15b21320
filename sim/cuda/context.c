/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - the primary context of each device, and which one a thread is in. */
#include "sim/cuda/parts.h"

#define DEPTH_MAX 32

static struct CUctx_st primaries[GPUS_MAX];
static __thread struct {
	cu_context stack[DEPTH_MAX];
	int depth;
} here;

static bool is_context(cu_context context)
{
	return context >= primaries && context < primaries + gpu_count();
}

cu_result context_check(cu_context context)
{
	cu_result lost;

	if (!is_context(context))
		return CU_INVALID_CONTEXT;
	if (!context->is_live)
		return CU_CONTEXT_IS_DESTROYED;
	lost = __atomic_load_n(&the_control->gpus[context->device].lost, __ATOMIC_SEQ_CST);
	return lost ? lost : context->failed;
}

static cu_context top(void)
{
	return here.depth ? here.stack[here.depth - 1] : NULL;
}

cu_result context_current(cu_context *context)
{
	*context = top();
	return context_check(*context);
}

static cu_result retain(cu_context *context, cu_device device)
{
	struct CUctx_st *c = is_gpu(device) ? &primaries[device] : NULL;
	cu_result lost;

	if (!c)
		return CU_INVALID_DEVICE;
	lost = __atomic_load_n(&the_control->gpus[device].lost, __ATOMIC_SEQ_CST);
	if (lost)
		return lost;
	if (!c->is_live)
		*c = (struct CUctx_st){ .device = device, .is_live = true };
	c->retained++;
	*context = c;
	return CU_OK;
}

/* Its memory and its streams go with it. */
static void destroy(cu_context c)
{
	c->is_live = false;
	c->retained = 0;
	streams_end(c);
	ranges_end(c);
}

static cu_result release(cu_device device)
{
	struct CUctx_st *c = is_gpu(device) ? &primaries[device] : NULL;

	if (!c)
		return CU_INVALID_DEVICE;
	if (!c->retained)
		return CU_INVALID_CONTEXT;
	if (!--c->retained)
		destroy(c);
	return CU_OK;
}

static cu_result reset(cu_device device)
{
	if (!is_gpu(device))
		return CU_INVALID_DEVICE;
	if (primaries[device].is_live)
		destroy(&primaries[device]);
	return CU_OK;
}

static cu_result state(cu_device device, unsigned int *flags, int *active)
{
	if (!is_gpu(device))
		return CU_INVALID_DEVICE;
	*flags = 0;
	*active = primaries[device].is_live;
	return CU_OK;
}

static cu_result push(cu_context context)
{
	if (!is_context(context))
		return CU_INVALID_CONTEXT;
	if (here.depth == DEPTH_MAX)
		return CU_INVALID_VALUE;
	here.stack[here.depth++] = context;
	return CU_OK;
}

static cu_result pop(cu_context *context)
{
	if (!here.depth)
		return CU_INVALID_CONTEXT;
	if (context)
		*context = top();
	here.depth--;
	return CU_OK;
}

/* In place of the one that the thread is in; NULL: it leaves that. */
static cu_result set(cu_context context)
{
	if (context && !is_context(context))
		return CU_INVALID_CONTEXT;
	if (here.depth)
		here.depth--;
	if (context)
		here.stack[here.depth++] = context;
	return CU_OK;
}

static cu_result get(cu_context *context)
{
	*context = top();
	return CU_OK;
}

static cu_result device_of_current(cu_device *device)
{
	if (!top())
		return CU_INVALID_CONTEXT;
	*device = top()->device;
	return CU_OK;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
	return CALL(cuDevicePrimaryCtxRetain, retain(context, device));
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
	return CALL(cuDevicePrimaryCtxRelease_v2, release(device));
}

cu_result cuDevicePrimaryCtxReset_v2(cu_device device)
{
	return CALL(cuDevicePrimaryCtxReset_v2, reset(device));
}

cu_result cuDevicePrimaryCtxGetState(cu_device device, unsigned int *flags, int *active)
{
	return CALL(cuDevicePrimaryCtxGetState, state(device, flags, active));
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
	return CALL(cuCtxPushCurrent_v2, push(context));
}

cu_result cuCtxPopCurrent_v2(cu_context *context)
{
	return CALL(cuCtxPopCurrent_v2, pop(context));
}

cu_result cuCtxSetCurrent(cu_context context)
{
	return CALL(cuCtxSetCurrent, set(context));
}

cu_result cuCtxGetCurrent(cu_context *context)
{
	return CALL(cuCtxGetCurrent, get(context));
}

cu_result cuCtxGetDevice(cu_device *device)
{
	return CALL(cuCtxGetDevice, device_of_current(device));
}
