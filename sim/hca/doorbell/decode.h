/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - one x86-64 instruction that stores: what it would store, where, and what else
 * it would change. A plain load into a register is known too. Pure: no system call, no memory but what it is given. Instruction
 * formats: Intel SDM volume 2, chapter 2; XSAVE area: volume 1, chapter 13.
 */
#ifndef TENT_SIM_HCA_DECODE_H
#define TENT_SIM_HCA_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_BYTES_MAX 64
#define STORE_CODE_BYTES_MAX 15		/* of one instruction */

/* State components of an XSAVE area, numbered as in XSTATE_BV. */
enum store_component { STORE_X87, STORE_SSE, STORE_AVX, STORE_OPMASK = 5, STORE_ZMM_HI256,
		       STORE_HI16_ZMM, STORE_NR_COMPONENTS };

/* An XSAVE area in standard form, or the 512 bytes that FXSAVE writes. */
struct store_vectors {
	const uint8_t *area;
	size_t bytes;
	uint32_t offset[STORE_NR_COMPONENTS];	/* CPUID 0xd; 0: this CPU has none of it */
};

struct store_cpu {
	uint64_t gpr[16];	/* in the order of their encoding: rax, rcx, rdx, rbx, rsp, .. */
	uint64_t rip, rflags, fs_base, gs_base;
	struct store_vectors vectors;
};

struct store {
	uint64_t address;
	uint32_t size;		/* 0: nothing is stored */
	uint64_t enabled;	/* bit i: bytes[i] is stored */
	uint8_t bytes[STORE_BYTES_MAX];
};

/* Memory that an instruction loads from; false: it cannot be read. */
typedef bool (*store_load)(void *to, uint64_t address, uint32_t n);

/*
 * code: what lies at cpu->rip, code_bytes of it. On success cpu is as after the
 * instruction. One step of a repeated string instruction, which leaves rip where it is
 * until the last. 0, -EOPNOTSUPP (another instruction), -EFAULT (load failed).
 */
int store_decode(struct store_cpu *cpu, const uint8_t *code, size_t code_bytes,
		 store_load load, struct store *out);

#endif /* TENT_SIM_HCA_DECODE_H */
