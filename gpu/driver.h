/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the CUDA driver of this process. It is never begun for a program that does not
 * ask for GPU memory: it would make the driver useless in its forked children. Who has GPU
 * memory has begun it, and then it is found here.
 */
#ifndef TENT_GPU_DRIVER_H
#define TENT_GPU_DRIVER_H

#include "gpu/cuda_api.h"

#define GPUS_MAX 16
#define GPU_TEXT_SIZE 160u

/* If the program has it loaded; else NULL. Any thread. */
const struct cuda_api *gpu_driver(void);
/* Loads and begins it. NULL: why says what there is not. Any thread; may block. */
const struct cuda_api *gpu_driver_begin(char *why, size_t size);

/* "CUDA_ERROR_OUT_OF_MEMORY", or "error 12345". */
const char *gpu_error(const struct cuda_api *cuda, cuda_result result, char text[40]);

/* The calling thread enters a device's primary context, which it holds until it leaves.
 * 0, or what the driver says. */
cuda_result gpu_enter(const struct cuda_api *cuda, int device);
void gpu_leave(const struct cuda_api *cuda, int device);

/* "cuda:N"? *device: N. */
bool gpu_location(const char *text, int *device);

/* Memory of a device, in whole for the program; see tent_allocate_memory(). 0, or -errno
 * and why. */
int gpu_allocate(int device, uint64_t size, uint64_t *address, char *why, size_t why_size);
void gpu_free(uint64_t address, int device);

#endif /* TENT_GPU_DRIVER_H */
