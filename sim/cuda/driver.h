/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the calls of libcuda.so.1 that are here, listed once. A call, a type or a
 * number that differs from a toolkit's cuda.h fails tests/test_cuda_calls.c.
 */
#ifndef TENT_SIM_CUDA_DRIVER_H
#define TENT_SIM_CUDA_DRIVER_H

#include <stddef.h>

typedef unsigned int cu_enum;
typedef cu_enum cu_result;
typedef int cu_device;
typedef unsigned long long cu_ptr, cu_handle;
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;

struct cu_ipc {
	char bytes[64];
};

struct cu_location {
	cu_enum type;
	int id;
};

struct cu_access {
	struct cu_location location;
	cu_enum flags;
};

struct cu_prop {
	cu_enum type;
	cu_enum handle_types;
	struct cu_location location;
	void *windows;
	unsigned char compression, rdma_capable;
	unsigned short usage;
	unsigned char resv[4];
};

#define CU_CALLS(X)								\
	X(cuInit, (unsigned int flags))						\
	X(cuGetErrorName, (cu_result result, const char **name))		\
	X(cuGetErrorString, (cu_result result, const char **text))		\
	X(cuDriverGetVersion, (int *version))					\
	X(cuDeviceGetCount, (int *nr))						\
	X(cuDeviceGet, (cu_device *device, int ordinal))			\
	X(cuDeviceGetName, (char *name, int size, cu_device device))		\
	X(cuDeviceTotalMem_v2, (size_t *bytes, cu_device device))		\
	X(cuDeviceGetAttribute, (int *value, cu_enum attribute, cu_device device)) \
	X(cuDeviceGetPCIBusId, (char *id, int size, cu_device device))		\
	X(cuDeviceCanAccessPeer, (int *can, cu_device device, cu_device peer))	\
	X(cuDevicePrimaryCtxRetain, (cu_context *context, cu_device device))	\
	X(cuDevicePrimaryCtxRelease_v2, (cu_device device))			\
	X(cuDevicePrimaryCtxReset_v2, (cu_device device))			\
	X(cuDevicePrimaryCtxGetState,						\
	  (cu_device device, unsigned int *flags, int *active))			\
	X(cuCtxPushCurrent_v2, (cu_context context))				\
	X(cuCtxPopCurrent_v2, (cu_context *context))				\
	X(cuCtxSetCurrent, (cu_context context))				\
	X(cuCtxGetCurrent, (cu_context *context))				\
	X(cuCtxGetDevice, (cu_device *device))					\
	X(cuCtxSynchronize, (void))						\
	X(cuPointerGetAttribute, (void *value, cu_enum attribute, cu_ptr ptr))	\
	X(cuPointerGetAttributes,						\
	  (unsigned int nr, cu_enum *attributes, void **values, cu_ptr ptr))	\
	X(cuPointerSetAttribute, (const void *value, cu_enum attribute, cu_ptr ptr)) \
	X(cuMemGetAddressRange_v2, (cu_ptr *base, size_t *size, cu_ptr ptr))	\
	X(cuMemGetInfo_v2, (size_t *left, size_t *total))			\
	X(cuMemAlloc_v2, (cu_ptr *ptr, size_t size))				\
	X(cuMemFree_v2, (cu_ptr ptr))						\
	X(cuMemHostAlloc, (void **memory, size_t size, unsigned int flags))	\
	X(cuMemFreeHost, (void *memory))					\
	X(cuMemHostRegister_v2, (void *memory, size_t size, unsigned int flags)) \
	X(cuMemHostUnregister, (void *memory))					\
	X(cuMemAddressReserve,							\
	  (cu_ptr *ptr, size_t size, size_t alignment, cu_ptr wish,		\
	   unsigned long long flags))						\
	X(cuMemAddressFree, (cu_ptr ptr, size_t size))				\
	X(cuMemCreate,								\
	  (cu_handle *handle, size_t size, const struct cu_prop *prop,		\
	   unsigned long long flags))						\
	X(cuMemRelease, (cu_handle handle))					\
	X(cuMemMap,								\
	  (cu_ptr ptr, size_t size, size_t offset, cu_handle handle,		\
	   unsigned long long flags))						\
	X(cuMemUnmap, (cu_ptr ptr, size_t size))				\
	X(cuMemSetAccess,							\
	  (cu_ptr ptr, size_t size, const struct cu_access *access, size_t nr))	\
	X(cuMemGetAllocationGranularity,					\
	  (size_t *granularity, const struct cu_prop *prop, cu_enum option))	\
	X(cuMemRetainAllocationHandle, (cu_handle *handle, void *address))	\
	X(cuMemExportToShareableHandle,						\
	  (void *shareable, cu_handle handle, cu_enum type, unsigned long long flags)) \
	X(cuMemImportFromShareableHandle,					\
	  (cu_handle *handle, void *shareable, cu_enum type))			\
	X(cuMemGetHandleForAddressRange,					\
	  (void *handle, cu_ptr ptr, size_t size, cu_enum type,			\
	   unsigned long long flags))						\
	X(cuIpcGetMemHandle, (struct cu_ipc *handle, cu_ptr ptr))		\
	X(cuIpcOpenMemHandle_v2,						\
	  (cu_ptr *ptr, struct cu_ipc handle, unsigned int flags))		\
	X(cuIpcCloseMemHandle, (cu_ptr ptr))					\
	X(cuStreamCreate, (cu_stream *stream, unsigned int flags))		\
	X(cuStreamDestroy_v2, (cu_stream stream))				\
	X(cuStreamQuery, (cu_stream stream))					\
	X(cuStreamSynchronize, (cu_stream stream))				\
	X(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned int flags)) \
	X(cuEventCreate, (cu_event *event, unsigned int flags))			\
	X(cuEventDestroy_v2, (cu_event event))					\
	X(cuEventRecord, (cu_event event, cu_stream stream))			\
	X(cuEventQuery, (cu_event event))					\
	X(cuEventSynchronize, (cu_event event))					\
	X(cuMemcpyHtoD_v2, (cu_ptr to, const void *from, size_t size))		\
	X(cuMemcpyDtoH_v2, (void *to, cu_ptr from, size_t size))		\
	X(cuMemcpyHtoDAsync_v2,							\
	  (cu_ptr to, const void *from, size_t size, cu_stream stream))		\
	X(cuMemcpyDtoHAsync_v2, (void *to, cu_ptr from, size_t size, cu_stream stream)) \
	X(cuMemcpyDtoDAsync_v2, (cu_ptr to, cu_ptr from, size_t size, cu_stream stream)) \
	X(cuMemcpyPeerAsync,							\
	  (cu_ptr to, cu_context to_context, cu_ptr from, cu_context from_context, \
	   size_t size, cu_stream stream))					\
	X(cuFlushGPUDirectRDMAWrites, (cu_enum target, cu_enum scope))

/* As X(its name in cuda.h, ours without CUDA_ERROR_, number, what it means). */
#define CU_RESULTS(X)								\
	X(CUDA_SUCCESS, CU_OK, 0, "no error")					\
	X(CUDA_ERROR_INVALID_VALUE, CU_INVALID_VALUE, 1, "an argument has no meaning here") \
	X(CUDA_ERROR_OUT_OF_MEMORY, CU_OUT_OF_MEMORY, 2, "the device has no such memory left") \
	X(CUDA_ERROR_NOT_INITIALIZED, CU_NOT_INITIALIZED, 3, "cuInit was not called here") \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, CU_DEVICE_UNAVAILABLE, 46, "the device is gone") \
	X(CUDA_ERROR_NO_DEVICE, CU_NO_DEVICE, 100, "there is no device")	\
	X(CUDA_ERROR_INVALID_DEVICE, CU_INVALID_DEVICE, 101, "there is no such device")	\
	X(CUDA_ERROR_INVALID_CONTEXT, CU_INVALID_CONTEXT, 201, "no such context, or none here") \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, CU_ECC_UNCORRECTABLE, 214, "memory that cannot be read") \
	X(CUDA_ERROR_INVALID_HANDLE, CU_INVALID_HANDLE, 400, "no such object, or of another context") \
	X(CUDA_ERROR_NOT_READY, CU_NOT_READY, 600, "work is not over yet")	\
	X(CUDA_ERROR_ILLEGAL_ADDRESS, CU_ILLEGAL_ADDRESS, 700, "a copy met memory that is not there") \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, CU_CONTEXT_IS_DESTROYED, 709, "its context is no more") \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CU_ALREADY_REGISTERED, 712, \
	  "some of it is registered")						\
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CU_NOT_REGISTERED, 713, "it is not registered") \
	X(CUDA_ERROR_LAUNCH_FAILED, CU_LAUNCH_FAILED, 719, "work of the device failed") \
	X(CUDA_ERROR_NOT_SUPPORTED, CU_NOT_SUPPORTED, 801, "not by this device")	\
	X(CUDA_ERROR_UNKNOWN, CU_UNKNOWN, 999, "something else")

/* The other numbers, as X(its name in cuda.h, ours, number). */
#define CU_NUMBERS(X)								\
	X(CU_POINTER_ATTRIBUTE_CONTEXT, POINTER_CONTEXT, 1)			\
	X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, POINTER_MEMORY_TYPE, 2)		\
	X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, POINTER_DEVICE_POINTER, 3)	\
	X(CU_POINTER_ATTRIBUTE_HOST_POINTER, POINTER_HOST_POINTER, 4)		\
	X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, POINTER_SYNC_MEMOPS, 6)		\
	X(CU_POINTER_ATTRIBUTE_BUFFER_ID, POINTER_BUFFER_ID, 7)			\
	X(CU_POINTER_ATTRIBUTE_IS_MANAGED, POINTER_IS_MANAGED, 8)		\
	X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, POINTER_DEVICE_ORDINAL, 9)	\
	X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, POINTER_IPC_CAPABLE, 10) \
	X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, POINTER_RANGE_START, 11)	\
	X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, POINTER_RANGE_SIZE, 12)		\
	X(CU_POINTER_ATTRIBUTE_MAPPED, POINTER_MAPPED, 13)			\
	X(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, POINTER_RDMA_CAPABLE, 15) \
	X(CU_MEMORYTYPE_HOST, MEMORY_HOST, 1)					\
	X(CU_MEMORYTYPE_DEVICE, MEMORY_DEVICE, 2)				\
	X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, DEVICE_PROCESSORS, 16)	\
	X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, DEVICE_PCI_BUS, 33)			\
	X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, DEVICE_PCI_DEVICE, 34)		\
	X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, DEVICE_UNIFIED, 41)		\
	X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, DEVICE_PCI_DOMAIN, 50)		\
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, DEVICE_MAJOR, 75)	\
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, DEVICE_MINOR, 76)	\
	X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, DEVICE_HOST_REGISTER, 99) \
	X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, DEVICE_VIRTUAL, 102) \
	X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, DEVICE_POSIX_FD, 103) \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, DEVICE_RDMA_VIRTUAL, 110) \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, DEVICE_RDMA, 116)	\
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, DEVICE_FLUSH, 117) \
	X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, DEVICE_ORDERING, 118) \
	X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, DEVICE_DMA_BUF, 124)		\
	X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, RANGE_DMA_BUF, 1)		\
	X(CU_MEM_ALLOCATION_TYPE_PINNED, ALLOCATION_PINNED, 1)			\
	X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, HANDLE_POSIX_FD, 1)		\
	X(CU_MEM_LOCATION_TYPE_DEVICE, LOCATION_DEVICE, 1)			\
	X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ACCESS_READ_WRITE, 3)		\
	X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, GRANULARITY_RECOMMENDED, 1)	\
	X(CU_MEMHOSTREGISTER_READ_ONLY, HOST_REGISTER_READ_ONLY, 8)		\
	X(CU_STREAM_NON_BLOCKING, STREAM_NON_BLOCKING, 1)			\
	X(CU_EVENT_INTERPROCESS, EVENT_INTERPROCESS, 4)				\
	X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, IPC_LAZY_PEER, 1)			\
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, FLUSH_CURRENT_CONTEXT, 0) \
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, FLUSH_TO_OWNER, 100)	\
	X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES, FLUSH_TO_ALL, 200)	\
	X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, ORDERING_OWNER, 100)

enum {
#define CU_RESULT(theirs, ours, number, text) ours = number,
	CU_RESULTS(CU_RESULT)
#undef CU_RESULT
#define CU_NUMBER(theirs, ours, number) ours = number,
	CU_NUMBERS(CU_NUMBER)
#undef CU_NUMBER
};

enum cu_call {
#define CU_CALL(name, args) CALL_##name,
	CU_CALLS(CU_CALL)
#undef CU_CALL
	CALL_COUNT
};

#endif /* TENT_SIM_CUDA_DRIVER_H */
