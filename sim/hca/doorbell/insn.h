/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insn.h - between the files of the decoder: an instruction taken apart.
 */
#ifndef TENT_SIM_HCA_INSN_H
#define TENT_SIM_HCA_INSN_H

#include "sim/hca/doorbell/decode.h"

enum insn_form { FORM_LEGACY = 1, FORM_VEX = 2, FORM_EVEX = 4 };
/* The mandatory prefix; values as VEX encodes them. */
enum insn_prefix { PREFIX_NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };

enum store_kind {
	KIND_REGISTER,		/* a general register */
	KIND_IMMEDIATE,
	KIND_ABSOLUTE,		/* rax, to an address in the instruction */
	KIND_EXCHANGE,
	KIND_LOAD,		/* stores nothing, but stands between stores of a copy */
	KIND_STOS,
	KIND_MOVS,
	KIND_SWAPPED,		/* movbe */
	KIND_DIRECT64,		/* movdir64b */
	KIND_VECTOR,		/* a whole vector register */
	KIND_LOW,		/* its low bytes */
	KIND_HIGH,		/* bytes 8 to 15 */
	KIND_MMX,
	KIND_ELEMENT,		/* the element that an immediate names */
	KIND_MASKED,		/* elements whose sign is set in another vector */
};

/* size in bytes, or: */
enum { SIZE_OPERAND = 0, SIZE_W = 0xfd, SIZE_VECTOR = 0xfe };

struct insn_op {
	uint8_t map, opcode;
	uint8_t prefixes;	/* bits: 1 << enum insn_prefix; 0: any */
	uint8_t forms;
	uint8_t kind;		/* enum store_kind */
	uint8_t size;
};

struct insn {
	const uint8_t *at, *end;
	bool is_short;		/* read past the end */
	uint8_t form, map, opcode, prefix, segment;
	bool has_66, has_rep, has_lock, has_addr32, has_rex, w;
	uint8_t r, x, b;	/* what they add to a register's number: 0, 8, and 16 for r */
	uint8_t vector_bytes, vvvv, mask;
	uint8_t mod, reg, rm;
	bool is_rip_relative;
	uint64_t memory;	/* effective address but for rip */
	uint64_t immediate;
	const struct insn_op *op;
	uint32_t size;
};

uint8_t insn_byte(struct insn *i);
/* n bytes, little-endian, sign-extended. */
uint64_t insn_signed(struct insn *i, unsigned n);

/* vectors.c. Fills out->bytes and out->enabled of a store from vector registers; false: the
 * area does not hold them, or no such instruction. */
bool vectors_store(const struct insn *i, const struct store_vectors *v, struct store *out);

#endif /* TENT_SIM_HCA_INSN_H */
