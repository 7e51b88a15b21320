/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what an address is: memory of a GPU, and of which, or of the host. */
#ifndef TENT_GPU_MEMORY_H
#define TENT_GPU_MEMORY_H

#include "engine/mem.h"
#include "gpu/driver.h"

/* Is [base, base + length) memory of one device? 1: m says of which and how. 0: it is of
 * the host. -EFAULT: some of it is not, and why says where. May block. */
int gpu_memory_find(struct device_memory *m, uint64_t base, uint64_t length, char *why,
		    size_t size);
/* Of which device is this byte? -1: of none. */
int gpu_memory_device(uint64_t address);

/* share.c. In m->context: what cards need of it, and the descriptor's end, if it is there. */
void gpu_share_open(const struct cuda_api *cuda, struct device_memory *m, uint64_t base,
		    uint64_t length);
void gpu_share_close(struct device_memory *m);

/* Host memory that devices copy from and to by themselves. True: it is now, or was. */
struct gpu_pins;
struct gpu_pins *gpu_pins_create(void);
void gpu_pins_destroy(struct gpu_pins *p);
bool gpu_pin(struct gpu_pins *p, uint64_t base, uint64_t end, int device);
/* It was pinned: no more for this range. */
void gpu_unpin(struct gpu_pins *p, uint64_t base, uint64_t end);

#endif /* TENT_GPU_MEMORY_H */
