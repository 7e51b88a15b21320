/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - what the files of the stand-in share. One lock for everything; who waits, waits
 * for the_change. Only copies run without it.
 */
#ifndef TENT_SIM_CUDA_PARTS_H
#define TENT_SIM_CUDA_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/calls.h"
#include "sim/cuda/control.h"

#define BLOCK_BYTES (2ull << 20)	/* memory of a device comes in these */
#define SMALL_BYTES 512u		/* what small allocations are multiples of */

extern pthread_mutex_t the_lock;
extern pthread_cond_t the_change;
extern struct gpu_control *the_control;

/* A call as the program makes it: counted, refused if it is to fail, then under the lock. */
#define CALL(name, expression)							\
	({									\
		cu_result begun = call_begin(CALL_##name);			\
										\
		if (!begun) {							\
			pthread_mutex_lock(&the_lock);				\
			begun = (expression);					\
			pthread_mutex_unlock(&the_lock);			\
		}								\
		begun;								\
	})

/* driver.c */
cu_result call_begin(enum cu_call call);
int gpu_count(void);
bool is_gpu(cu_device device);
uint64_t gpu_memory_bytes(void);

/* context.c */
struct CUctx_st {
	int device;
	uint32_t retained;
	bool is_live;
	cu_result failed;	/* what a piece of its work ended with: all that it says now */
};

/* Is it one, and alive, and what is wrong with it or its device? */
cu_result context_check(cu_context context);
/* The calling thread's, which is well. */
cu_result context_current(cu_context *context);

/* ---- memory.c ---- */

/* Bytes of a device: a file that this process maps where the program does not know. */
struct memory {
	int fd;
	int device;
	uint8_t *bytes;
	uint64_t size;
	uint32_t refs;		/* of ranges and handles */
	uint64_t address;	/* of the addresses that are its own; 0: it has none */
	uint64_t used;		/* of a block of small allocations */
	bool is_charged;	/* to the device: it was made here */
	bool is_rdma_capable, is_exportable;
};

enum range_kind {
	RANGE_ALLOCATED,	/* cuMemAlloc() */
	RANGE_MAPPED,		/* cuMemMap() */
	RANGE_OPENED,		/* cuIpcOpenMemHandle() */
	RANGE_HOST,		/* cuMemHostAlloc() */
	RANGE_REGISTERED	/* cuMemHostRegister() */
};

/* Addresses that mean something. */
struct range {
	struct range *next;
	enum range_kind kind;
	uint64_t base, size;
	uint64_t start, extent;	/* of the allocation or reservation that it belongs to */
	struct memory *memory;	/* NULL: of the host */
	uint64_t offset;	/* in it, of base */
	cu_context context;	/* that it ends with; NULL: none */
	uint64_t id;
	uint32_t reachable_by;	/* bit n: device n */
	uint32_t opens;
	bool syncs;
};

cu_result memory_create(struct memory **out, int device, uint64_t size);
/* One that another process made; takes fd over. */
cu_result memory_import(struct memory **out, int fd, int device, uint64_t size);
void memory_put(struct memory *m);
/* Addresses nobody can touch, aligned to a block; 0: there are none. */
uint64_t addresses_reserve(uint64_t size);
void addresses_return(uint64_t base, uint64_t size);
/* They are those of m, from its first byte on, or NULL: of nothing. The offset of their mapping
 * says so to devices that register memory by its address (sim/hca/mem/peer.h): in its bits
 * from 44 on, m's descriptor + 1. False: no memory. */
bool addresses_show(uint64_t base, uint64_t size, const struct memory *m);

/* Links it; NULL: no memory. */
struct range *range_add(const struct range *like);
void range_remove(struct range *r);
struct range *range_find(uint64_t address);
/* The first that has something in [base, base + size), or NULL. */
struct range *range_overlapping(uint64_t base, uint64_t size);
/* All of a context that ends. */
void ranges_end(cu_context context);
uint64_t memory_left(int device);

/* ---- virtual.c ---- */

/* The reservation that address lies in. */
bool reservation_find(uint64_t address, uint64_t *base, uint64_t *size);

/* ---- export.c ---- */

/* A descriptor of a part of it, for other processes and for devices. -1: none to be had. */
int memory_export(const struct memory *m, uint64_t start, uint64_t length);
/* The memory that such a descriptor stands for, of another process; fd stays the caller's. */
cu_result memory_opened(struct memory **m, int fd);

/* ---- stream.c ---- */

/* Bytes in a row at both ends. */
struct piece {
	uint8_t *to;
	const uint8_t *from;
	uint64_t bytes;
};

/* The pieces and what is staged for them are its own from now on. */
cu_result stream_copy(cu_context context, cu_stream stream, struct piece *pieces, uint32_t nr,
		      void *staged);
/* Waits until the work of this stream is over; NULL: the context's own stream. */
cu_result stream_settle(cu_context context, cu_stream stream);
/* The same for all streams of the process. */
void streams_settle(void);
/* Ends the streams of a context that is no more, whatever is left of their work. */
void streams_end(cu_context context);

#endif /* TENT_SIM_CUDA_PARTS_H */
