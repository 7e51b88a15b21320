/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_fix.h - runs a test as a program that has GPUs, those of sim/cuda. */
#ifndef TENT_TESTS_GPU_FIX_H
#define TENT_TESTS_GPU_FIX_H

#include "gpu/cuda_api.h"
#include "sim/cuda/control.h"

/* First in main(): runs the program again with the stand-in for libcuda.so.1 where it is
 * looked for. False: it is not that run yet, and rc is how the other one ended. */
bool gpu_fix_main(char **argv, int *rc);

/* As a program that uses CUDA: the driver is loaded, and is not begun. */
extern struct cuda_api gpu_fix_cuda;
extern struct gpu_control *gpu_fix_control;
void gpu_fix_load(void);

/* Has the device a primary context? */
bool gpu_fix_is_active(int device);

/* Memory of a device, of the program's own; its context stays. */
uint64_t gpu_fix_allocate(int device, size_t size);
/* In this device's context: for the calls that need one. */
void gpu_fix_enter(int device);
void gpu_fix_leave(int device);

/* What lies in it; by copies that wait. */
void gpu_fix_put(int device, uint64_t to, const void *from, size_t size);
void gpu_fix_get(int device, void *to, uint64_t from, size_t size);

/* So many turns of a poller that has something with a GPU. */
void gpu_fix_let_turn(uint32_t turns);

/* Chunks of 2 MiB behind each other, of device 0, but for one: -1, all are there. */
uint64_t gpu_fix_chunks(int nr, int hole);

#endif /* TENT_TESTS_GPU_FIX_H */
