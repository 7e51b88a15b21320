/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_api.h - what we use of the CUDA driver API, of CUDA 11.7 and later. It is found by
 * name, so that neither a build nor a run needs a toolkit or a GPU. Names, types and
 * numbers are the driver's stable ABI; tests/test_cuda_api.c holds them against cuda.h
 * where there is one.
 */
#ifndef TENT_GPU_CUDA_API_H
#define TENT_GPU_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_LIBRARY "libcuda.so.1"

typedef unsigned int cuda_enum;		/* the API's enums have no negative values */
typedef cuda_enum cuda_result;
typedef int cuda_device;		/* a number from cuDeviceGet(), here the ordinal */
typedef unsigned long long cuda_address; /* of a GPU; the same in all contexts of a process */
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;

/* Of an allocation, for another process. */
struct cuda_ipc_memory {
	char bytes[64];
};

#define CUDA_FUNCTIONS(X)							\
	X(cuInit, (unsigned int flags))						\
	X(cuGetErrorName, (cuda_result result, const char **name))		\
	X(cuGetErrorString, (cuda_result result, const char **text))		\
	X(cuDriverGetVersion, (int *version))					\
	X(cuDeviceGetCount, (int *nr))						\
	X(cuDeviceGet, (cuda_device *device, int ordinal))			\
	X(cuDeviceGetName, (char *name, int size, cuda_device device))		\
	X(cuDeviceGetAttribute, (int *value, cuda_enum attribute, cuda_device device)) \
	X(cuDeviceGetPCIBusId, (char *id, int size, cuda_device device))	\
	X(cuDevicePrimaryCtxRetain, (cuda_context *context, cuda_device device)) \
	X(cuDevicePrimaryCtxRelease_v2, (cuda_device device))			\
	X(cuCtxPushCurrent_v2, (cuda_context context))				\
	X(cuCtxPopCurrent_v2, (cuda_context *context))				\
	X(cuPointerGetAttributes,						\
	  (unsigned int nr, cuda_enum *attributes, void **values, cuda_address address)) \
	X(cuPointerSetAttribute,						\
	  (const void *value, cuda_enum attribute, cuda_address address))	\
	X(cuMemGetAddressRange_v2,						\
	  (cuda_address *base, size_t *size, cuda_address address))		\
	X(cuMemAlloc_v2, (cuda_address *address, size_t size))			\
	X(cuMemFree_v2, (cuda_address address))					\
	X(cuMemHostAlloc, (void **memory, size_t size, unsigned int flags))	\
	X(cuMemFreeHost, (void *memory))					\
	X(cuMemHostRegister_v2, (void *memory, size_t size, unsigned int flags)) \
	X(cuMemHostUnregister, (void *memory))					\
	X(cuMemGetHandleForAddressRange,					\
	  (void *handle, cuda_address address, size_t size, cuda_enum type,	\
	   unsigned long long flags))						\
	X(cuIpcGetMemHandle, (struct cuda_ipc_memory *handle, cuda_address address)) \
	X(cuIpcOpenMemHandle_v2,						\
	  (cuda_address *address, struct cuda_ipc_memory handle, unsigned int flags)) \
	X(cuIpcCloseMemHandle, (cuda_address address))				\
	X(cuStreamCreate, (cuda_stream *stream, unsigned int flags))		\
	X(cuStreamDestroy_v2, (cuda_stream stream))				\
	X(cuStreamSynchronize, (cuda_stream stream))				\
	X(cuEventCreate, (cuda_event *event, unsigned int flags))		\
	X(cuEventDestroy_v2, (cuda_event event))				\
	X(cuEventRecord, (cuda_event event, cuda_stream stream))		\
	X(cuEventQuery, (cuda_event event))					\
	X(cuMemcpyHtoDAsync_v2,							\
	  (cuda_address to, const void *from, size_t size, cuda_stream stream))	\
	X(cuMemcpyDtoHAsync_v2,							\
	  (void *to, cuda_address from, size_t size, cuda_stream stream))	\
	X(cuMemcpyDtoDAsync_v2,							\
	  (cuda_address to, cuda_address from, size_t size, cuda_stream stream)) \
	X(cuMemcpyPeerAsync,							\
	  (cuda_address to, cuda_context to_context, cuda_address from,		\
	   cuda_context from_context, size_t size, cuda_stream stream))		\
	X(cuFlushGPUDirectRDMAWrites, (cuda_enum target, cuda_enum scope))

struct cuda_api {
#define CUDA_POINTER(name, args) cuda_result (*name) args;
	CUDA_FUNCTIONS(CUDA_POINTER)
#undef CUDA_POINTER
};

/* The driver's numbers, as X(ours, its name, number). */
#define CUDA_NUMBERS(X)								\
	X(CUDA_OK, CUDA_SUCCESS, 0)						\
	X(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)			\
	X(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)			\
	X(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)				\
	X(CUDA_NOT_READY, CUDA_ERROR_NOT_READY, 600)				\
	X(CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712) \
	X(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)	\
	X(CUDA_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)	\
	X(CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)		\
	X(CUDA_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)		\
	X(CUDA_POINTER_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10) \
	X(CUDA_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)	\
	X(CUDA_POINTER_MAPPED, CU_POINTER_ATTRIBUTE_MAPPED, 13)			\
	X(CUDA_POINTER_RDMA_CAPABLE, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15) \
	X(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST, 1)				\
	X(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE, 2)				\
	X(CUDA_DEVICE_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)	\
	X(CUDA_DEVICE_FLUSH, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117) \
	X(CUDA_DEVICE_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118) \
	X(CUDA_DEVICE_DMA_BUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)	\
	X(CUDA_ORDERING_NONE, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE, 0)	\
	X(CUDA_ORDERING_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)	\
	X(CUDA_FLUSH_BY_HOST, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)	\
	X(CUDA_FLUSH_CONTEXT, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0) \
	X(CUDA_FLUSH_TO_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, 100)	\
	X(CUDA_RANGE_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)		\
	X(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)			\
	X(CUDA_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 1)		\
	X(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)			\
	X(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)		\
	X(CUDA_IPC_LAZY_PEER, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)

enum {
#define CUDA_ENUM(ours, theirs, number) ours = number,
	CUDA_NUMBERS(CUDA_ENUM)
#undef CUDA_ENUM
};

/* Fills a table. False: the sentence of what is missing is in missing. */
bool cuda_api_load(struct cuda_api *api, const char *library, char *missing, size_t size);

#endif /* TENT_GPU_CUDA_API_H */
