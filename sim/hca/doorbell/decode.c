/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c - prefixes, opcode, address, and the stores of general registers.
 */
#include <errno.h>
#include <string.h>

#include "sim/hca/doorbell/insn.h"

#define NONE	(1 << PREFIX_NONE)
#define P66	(1 << PREFIX_66)
#define PF3	(1 << PREFIX_F3)
#define PF2	(1 << PREFIX_F2)
#define LEGACY	FORM_LEGACY
#define VECTOR	(FORM_LEGACY | FORM_VEX | FORM_EVEX)

enum { RAX = 0, RCX = 1, RSP = 4, RBP = 5, RSI = 6, RDI = 7 };
enum { SEGMENT_FS = 1, SEGMENT_GS };
#define RFLAGS_DF (1u << 10)

static const struct insn_op ops[] = {
	{ 0, 0x86, 0, LEGACY, KIND_EXCHANGE, 1 },
	{ 0, 0x87, 0, LEGACY, KIND_EXCHANGE, SIZE_OPERAND },
	{ 0, 0x88, 0, LEGACY, KIND_REGISTER, 1 },
	{ 0, 0x89, 0, LEGACY, KIND_REGISTER, SIZE_OPERAND },
	{ 0, 0x8b, 0, LEGACY, KIND_LOAD, SIZE_OPERAND },
	{ 0, 0xa2, 0, LEGACY, KIND_ABSOLUTE, 1 },
	{ 0, 0xa3, 0, LEGACY, KIND_ABSOLUTE, SIZE_OPERAND },
	{ 0, 0xa4, 0, LEGACY, KIND_MOVS, 1 },
	{ 0, 0xa5, 0, LEGACY, KIND_MOVS, SIZE_OPERAND },
	{ 0, 0xaa, 0, LEGACY, KIND_STOS, 1 },
	{ 0, 0xab, 0, LEGACY, KIND_STOS, SIZE_OPERAND },
	{ 0, 0xc6, 0, LEGACY, KIND_IMMEDIATE, 1 },
	{ 0, 0xc7, 0, LEGACY, KIND_IMMEDIATE, SIZE_OPERAND },

	{ 1, 0x11, NONE | P66, VECTOR, KIND_VECTOR, SIZE_VECTOR },	/* movups, movupd */
	{ 1, 0x11, PF3, VECTOR, KIND_LOW, 4 },				/* movss */
	{ 1, 0x11, PF2, VECTOR, KIND_LOW, 8 },				/* movsd */
	{ 1, 0x13, NONE | P66, VECTOR, KIND_LOW, 8 },			/* movlps, movlpd */
	{ 1, 0x17, NONE | P66, VECTOR, KIND_HIGH, 8 },			/* movhps, movhpd */
	{ 1, 0x29, NONE | P66, VECTOR, KIND_VECTOR, SIZE_VECTOR },	/* movaps, movapd */
	{ 1, 0x2b, NONE | P66, VECTOR, KIND_VECTOR, SIZE_VECTOR },	/* movntps, movntpd */
	{ 1, 0x7e, NONE, LEGACY, KIND_MMX, SIZE_W },			/* movd, movq */
	{ 1, 0x7e, P66, VECTOR, KIND_LOW, SIZE_W },
	{ 1, 0x7f, NONE, LEGACY, KIND_MMX, 8 },				/* movq */
	{ 1, 0x7f, P66 | PF3, VECTOR, KIND_VECTOR, SIZE_VECTOR },	/* movdqa, movdqu */
	{ 1, 0x7f, PF2, FORM_EVEX, KIND_VECTOR, SIZE_VECTOR },		/* vmovdqu8, 16 */
	{ 1, 0xc3, NONE, LEGACY, KIND_REGISTER, SIZE_W },		/* movnti */
	{ 1, 0xd6, P66, VECTOR, KIND_LOW, 8 },				/* movq */
	{ 1, 0xe7, NONE, LEGACY, KIND_MMX, 8 },				/* movntq */
	{ 1, 0xe7, P66, VECTOR, KIND_VECTOR, SIZE_VECTOR },		/* movntdq */

	{ 2, 0x2e, P66, FORM_VEX, KIND_MASKED, 4 },			/* vmaskmovps */
	{ 2, 0x2f, P66, FORM_VEX, KIND_MASKED, 8 },			/* vmaskmovpd */
	{ 2, 0x8e, P66, FORM_VEX, KIND_MASKED, SIZE_W },		/* vpmaskmov */
	{ 2, 0xf1, NONE | P66, LEGACY, KIND_SWAPPED, SIZE_OPERAND },	/* movbe */
	{ 2, 0xf8, P66, LEGACY, KIND_DIRECT64, 64 },			/* movdir64b */
	{ 2, 0xf9, NONE, LEGACY, KIND_REGISTER, SIZE_W },		/* movdiri */

	{ 3, 0x14, P66, VECTOR, KIND_ELEMENT, 1 },			/* pextrb */
	{ 3, 0x15, P66, VECTOR, KIND_ELEMENT, 2 },			/* pextrw */
	{ 3, 0x16, P66, VECTOR, KIND_ELEMENT, SIZE_W },			/* pextrd, pextrq */
	{ 3, 0x17, P66, VECTOR, KIND_ELEMENT, 4 },			/* extractps */
	{ 3, 0x19, P66, FORM_VEX | FORM_EVEX, KIND_ELEMENT, 16 },	/* vextractf128 .. */
	{ 3, 0x1b, P66, FORM_EVEX, KIND_ELEMENT, 32 },
	{ 3, 0x39, P66, FORM_VEX | FORM_EVEX, KIND_ELEMENT, 16 },	/* vextracti128 .. */
	{ 3, 0x3b, P66, FORM_EVEX, KIND_ELEMENT, 32 },
};

uint8_t insn_byte(struct insn *i)
{
	if (i->at == i->end) {
		i->is_short = true;
		return 0;
	}
	return *i->at++;
}

uint64_t insn_signed(struct insn *i, unsigned n)
{
	uint64_t value = 0;

	for (unsigned k = 0; k < n; k++)
		value |= (uint64_t)insn_byte(i) << (8 * k);
	if (n < 8 && value >> (8 * n - 1))
		value |= UINT64_MAX << (8 * n);
	return value;
}

/* ---- prefixes and opcode ------------------------------------------------------- */

static bool take_prefix(struct insn *i, uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e:	/* segments that start at 0 */
		return true;
	case 0x64:
		i->segment = SEGMENT_FS;
		return true;
	case 0x65:
		i->segment = SEGMENT_GS;
		return true;
	case 0x66:
		i->has_66 = true;
		return true;
	case 0x67:
		i->has_addr32 = true;
		return true;
	case 0xf0:
		i->has_lock = true;
		return true;
	case 0xf2: case 0xf3:
		i->has_rep = true;
		i->prefix = byte == 0xf3 ? PREFIX_F3 : PREFIX_F2;
		return true;
	default:
		return false;
	}
}

static void take_rex(struct insn *i, uint8_t rex)
{
	i->has_rex = rex;
	i->w = rex & 8;
	i->r = rex & 4 ? 8 : 0;
	i->x = rex & 2 ? 8 : 0;
	i->b = rex & 1 ? 8 : 0;
}

static void take_legacy(struct insn *i, uint8_t byte)
{
	i->form = FORM_LEGACY;
	i->vector_bytes = 16;
	if (!i->prefix && i->has_66)
		i->prefix = PREFIX_66;
	if (byte != 0x0f) {
		i->opcode = byte;
		return;
	}
	i->map = 1;
	byte = insn_byte(i);
	if (byte == 0x38 || byte == 0x3a) {
		i->map = byte == 0x38 ? 2 : 3;
		byte = insn_byte(i);
	}
	i->opcode = byte;
}

/* The register bits of VEX and EVEX are inverted. */
static void take_vex(struct insn *i, uint8_t first)
{
	uint8_t a = insn_byte(i), last = a;

	i->form = FORM_VEX;
	i->map = 1;
	i->r = a & 0x80 ? 0 : 8;
	if (first == 0xc4) {
		i->x = a & 0x40 ? 0 : 8;
		i->b = a & 0x20 ? 0 : 8;
		i->map = a & 0x1f;
		last = insn_byte(i);
		i->w = last & 0x80;
	}
	i->vvvv = (uint8_t)(~last >> 3 & 15);
	i->vector_bytes = last & 4 ? 32 : 16;
	i->prefix = last & 3;
	i->opcode = insn_byte(i);
}

static bool take_evex(struct insn *i)
{
	uint8_t a = insn_byte(i), b = insn_byte(i), c = insn_byte(i);

	i->form = FORM_EVEX;
	i->r = (uint8_t)((a & 0x80 ? 0 : 8) + (a & 0x10 ? 0 : 16));
	i->x = a & 0x40 ? 0 : 8;
	i->b = a & 0x20 ? 0 : 8;
	i->map = a & 7;
	i->w = b & 0x80;
	i->prefix = b & 3;
	i->vector_bytes = (uint8_t)(16 << (c >> 5 & 3));
	i->mask = c & 7;
	i->opcode = insn_byte(i);
	/* A store has no second source, zeroes nothing and broadcasts nothing. */
	return !(a & 8) && (b & 0x7c) == 0x7c && (c & 0x98) == 8 && i->vector_bytes <= 64;
}

static bool take_opcode(struct insn *i)
{
	bool was_prefixed;
	uint8_t byte = insn_byte(i), rex = 0;

	while (take_prefix(i, byte) || (byte & 0xf0) == 0x40) {
		/* One that is not the last before the opcode means nothing. */
		rex = (byte & 0xf0) == 0x40 ? byte : 0;
		byte = insn_byte(i);
		if (i->is_short)
			return false;
	}
	was_prefixed = i->has_66 || i->has_rep || i->has_lock || rex;
	if (byte == 0xc4 || byte == 0xc5) {
		take_vex(i, byte);
		return !was_prefixed;
	}
	if (byte == 0x62)
		return !was_prefixed && take_evex(i);
	take_rex(i, rex);
	take_legacy(i, byte);
	return true;
}

static uint32_t size_of(const struct insn *i)
{
	switch (i->op->size) {
	case SIZE_OPERAND:
		return i->w ? 8 : i->has_66 ? 2 : 4;
	case SIZE_W:
		return i->w ? 8 : 4;
	case SIZE_VECTOR:
		return i->vector_bytes;
	default:
		return i->op->kind == KIND_MASKED ? i->vector_bytes : i->op->size;
	}
}

static bool find_op(struct insn *i)
{
	for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
		const struct insn_op *o = &ops[k];

		if (o->map == i->map && o->opcode == i->opcode && o->forms & i->form &&
		    (!o->prefixes || o->prefixes & 1 << i->prefix)) {
			i->op = o;
			i->size = o->kind == KIND_MASKED ? i->vector_bytes : size_of(i);
			return (!i->has_lock || o->kind == KIND_EXCHANGE) &&
			       (!i->vvvv || o->kind == KIND_MASKED);
		}
	}
	return false;
}

/* ---- the address ---------------------------------------------------------------- */

static uint64_t take_sib(struct insn *i, const struct store_cpu *cpu)
{
	uint8_t sib = insn_byte(i);
	uint8_t index = (sib >> 3 & 7) + i->x, base = sib & 7;
	uint64_t address = 0;

	if (index != RSP)
		address = cpu->gpr[index] << (sib >> 6);
	if (base == RBP && !i->mod)
		return address + insn_signed(i, 4);
	return address + cpu->gpr[base + i->b];
}

static bool take_memory(struct insn *i, const struct store_cpu *cpu)
{
	uint8_t modrm = insn_byte(i);

	i->mod = modrm >> 6;
	i->reg = (modrm >> 3 & 7) + i->r;
	i->rm = modrm & 7;
	if (i->mod == 3)
		return false;
	if (i->rm == RSP) {
		i->memory = take_sib(i, cpu);
	} else if (i->rm == RBP && !i->mod) {
		i->is_rip_relative = true;
		i->memory = insn_signed(i, 4);
	} else {
		i->memory = cpu->gpr[i->rm + i->b];
	}
	if (i->mod == 1)
		i->memory += insn_signed(i, 1) * (i->form == FORM_EVEX ? i->size : 1);
	else if (i->mod == 2)
		i->memory += insn_signed(i, 4);
	return true;
}

static uint64_t linear(const struct insn *i, const struct store_cpu *cpu, uint64_t effective)
{
	if (i->has_addr32)
		effective = (uint32_t)effective;
	if (i->segment)
		effective += i->segment == SEGMENT_FS ? cpu->fs_base : cpu->gs_base;
	return effective;
}

static bool take_operands(struct insn *i, const struct store_cpu *cpu)
{
	switch (i->op->kind) {
	case KIND_STOS:
	case KIND_MOVS:
		return true;
	case KIND_ABSOLUTE:
		i->memory = insn_signed(i, i->has_addr32 ? 4 : 8);
		return true;
	case KIND_IMMEDIATE:
		if (!take_memory(i, cpu) || i->reg & 7)
			return false;
		i->immediate = insn_signed(i, i->size < 4 ? i->size : 4);
		return true;
	case KIND_ELEMENT:
		if (!take_memory(i, cpu))
			return false;
		i->immediate = insn_byte(i);
		return true;
	default:
		return take_memory(i, cpu);
	}
}

/* ---- what it does ----------------------------------------------------------------- */

/* A register's low byte; without REX, numbers 4 to 7 mean bits 8 to 15 of the first four. */
static bool is_high_byte(const struct insn *i)
{
	return i->size == 1 && !i->has_rex && i->reg >= 4;
}

static uint64_t gpr_get(const struct insn *i, const struct store_cpu *cpu)
{
	return is_high_byte(i) ? cpu->gpr[i->reg - 4] >> 8 : cpu->gpr[i->reg];
}

static void gpr_set(const struct insn *i, struct store_cpu *cpu, uint64_t value)
{
	uint64_t *r = &cpu->gpr[is_high_byte(i) ? i->reg - 4 : i->reg];
	unsigned shift = is_high_byte(i) ? 8 : 0;
	uint64_t mask = i->size == 1 ? 0xffULL << shift : i->size == 2 ? 0xffff : UINT64_MAX;

	if (i->size == 4)
		value = (uint32_t)value;
	*r = (*r & ~mask) | (value << shift & mask);
}

static void put(struct store *out, uint64_t value)
{
	for (unsigned k = 0; k < 8; k++)
		out->bytes[k] = (uint8_t)(value >> (8 * k));
}

/* What a register is about to be loaded with. */
static bool get(const struct insn *i, uint64_t address, store_load load, uint64_t *value)
{
	uint8_t bytes[8] = { 0 };

	if (!load(bytes, address, i->size))
		return false;
	*value = 0;
	for (unsigned k = 0; k < i->size; k++)
		*value |= (uint64_t)bytes[k] << (8 * k);
	return true;
}

static int exchange(const struct insn *i, struct store_cpu *cpu, store_load load,
		    struct store *out)
{
	uint64_t before;

	if (!get(i, out->address, load, &before))
		return -EFAULT;
	put(out, gpr_get(i, cpu));
	gpr_set(i, cpu, before);
	return 0;
}

static int only_load(const struct insn *i, struct store_cpu *cpu, store_load load,
		     struct store *out)
{
	uint64_t value;

	if (!get(i, out->address, load, &value))
		return -EFAULT;
	gpr_set(i, cpu, value);
	out->size = 0;
	return 0;
}

static void step(const struct insn *i, uint64_t *reg, uint64_t by)
{
	*reg = i->has_addr32 ? (uint32_t)(*reg + by) : *reg + by;
}

/* One step; the last one of a repeated instruction moves rip on. */
static int string(const struct insn *i, struct store_cpu *cpu, uint64_t here,
		  store_load load, struct store *out)
{
	uint64_t by = cpu->rflags & RFLAGS_DF ? -(uint64_t)i->size : i->size, count;

	count = i->has_addr32 ? (uint32_t)cpu->gpr[RCX] : cpu->gpr[RCX];
	if (i->has_rep && !count) {
		out->size = 0;
		return 0;
	}
	out->address = i->has_addr32 ? (uint32_t)cpu->gpr[RDI] : cpu->gpr[RDI];
	if (i->op->kind == KIND_STOS)
		put(out, cpu->gpr[RAX]);
	else if (!load(out->bytes, linear(i, cpu, cpu->gpr[RSI]), i->size))
		return -EFAULT;
	step(i, &cpu->gpr[RDI], by);
	if (i->op->kind == KIND_MOVS)
		step(i, &cpu->gpr[RSI], by);
	if (i->has_rep) {
		step(i, &cpu->gpr[RCX], UINT64_MAX);
		if (count > 1)
			cpu->rip = here;
	}
	return 0;
}

static void swap(struct store *out)
{
	for (uint32_t k = 0; k < out->size / 2; k++) {
		uint8_t byte = out->bytes[k];

		out->bytes[k] = out->bytes[out->size - 1 - k];
		out->bytes[out->size - 1 - k] = byte;
	}
}

static int direct64(const struct insn *i, struct store_cpu *cpu, store_load load,
		    struct store *out)
{
	uint64_t from = out->address;

	out->address = i->has_addr32 ? (uint32_t)cpu->gpr[i->reg] : cpu->gpr[i->reg];
	if (out->address % 64)
		return -EOPNOTSUPP;
	return load(out->bytes, from, 64) ? 0 : -EFAULT;
}

static int act(const struct insn *i, struct store_cpu *cpu, uint64_t here, store_load load,
	       struct store *out)
{
	switch (i->op->kind) {
	case KIND_REGISTER:
	case KIND_SWAPPED:
		put(out, gpr_get(i, cpu));
		if (i->op->kind == KIND_SWAPPED)
			swap(out);
		return 0;
	case KIND_IMMEDIATE:
		put(out, i->immediate);
		return 0;
	case KIND_ABSOLUTE:
		put(out, cpu->gpr[RAX]);
		return 0;
	case KIND_EXCHANGE:
		return exchange(i, cpu, load, out);
	case KIND_LOAD:
		return only_load(i, cpu, load, out);
	case KIND_STOS:
	case KIND_MOVS:
		return string(i, cpu, here, load, out);
	case KIND_DIRECT64:
		return direct64(i, cpu, load, out);
	default:
		return vectors_store(i, &cpu->vectors, out) ? 0 : -EOPNOTSUPP;
	}
}

int store_decode(struct store_cpu *cpu, const uint8_t *code, size_t code_bytes,
		 store_load load, struct store *out)
{
	size_t n = code_bytes < STORE_CODE_BYTES_MAX ? code_bytes : STORE_CODE_BYTES_MAX;
	struct insn i = { .at = code, .end = code + n };
	struct store_cpu after = *cpu;
	int rc;

	if (!take_opcode(&i) || !find_op(&i) || !take_operands(&i, cpu) || i.is_short)
		return -EOPNOTSUPP;
	after.rip = cpu->rip + (uint64_t)(i.at - code);
	if (i.is_rip_relative)
		i.memory += after.rip;
	memset(out, 0, sizeof(*out));
	out->address = linear(&i, cpu, i.memory);
	out->size = i.size;
	out->enabled = UINT64_MAX >> (64 - i.size);
	rc = act(&i, &after, cpu->rip, load, out);
	if (!rc)
		*cpu = after;
	return rc;
}
