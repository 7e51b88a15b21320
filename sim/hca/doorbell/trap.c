/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trap.c - a store that faulted on a watched page: does it through the alias and rings.
 * Nothing opens the page meanwhile, so other threads' stores fault too and none is missed.
 */
#define _GNU_SOURCE
#include <string.h>
#include <ucontext.h>

#include "sim/hca/doorbell/pages.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include "sim/hca/doorbell/decode.h"
#include "sim/hca/mem/guard.h"
#include "sim/hca/mem/sys.h"

/* In the signal frame, in bytes of the FXSAVE area that hardware leaves to software. */
enum { FRAME_MAGIC_OFFSET = 464, FRAME_SIZE_OFFSET = 480, FXSAVE_BYTES = 512 };
#define FRAME_MAGIC 0x46505853u
#define ERROR_WRITE 2
/* What running a queue may need, with room for a handler on top. */
#define STACK_NEEDED_BYTES (128u << 10)
enum { GET_FS = 0x1003, GET_GS = 0x1004 };	/* arch_prctl() */

static const int greg_of[16] = {
	REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

static uint32_t component_offset[STORE_NR_COMPONENTS];

void trap_init(void)
{
	for (unsigned i = STORE_AVX; i < STORE_NR_COMPONENTS; i++) {
		unsigned size, offset, c, d;

		if (__get_cpuid_count(0xd, i, &size, &offset, &c, &d) && size)
			component_offset[i] = offset;
	}
}

static void vectors_from(struct store_vectors *v, const uint8_t *area)
{
	uint32_t magic, size = FXSAVE_BYTES;

	if (!area)
		return;
	memcpy(&magic, area + FRAME_MAGIC_OFFSET, sizeof(magic));
	if (magic == FRAME_MAGIC)
		memcpy(&size, area + FRAME_SIZE_OFFSET, sizeof(size));
	v->area = area;
	v->bytes = size;
	memcpy(v->offset, component_offset, sizeof(component_offset));
}

static void cpu_from(struct store_cpu *cpu, const ucontext_t *u)
{
	memset(cpu, 0, sizeof(*cpu));
	for (int i = 0; i < 16; i++)
		cpu->gpr[i] = (uint64_t)u->uc_mcontext.gregs[greg_of[i]];
	cpu->rip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	cpu->rflags = (uint64_t)u->uc_mcontext.gregs[REG_EFL];
	syscall(SYS_arch_prctl, GET_FS, &cpu->fs_base);
	syscall(SYS_arch_prctl, GET_GS, &cpu->gs_base);
	vectors_from(&cpu->vectors, (const uint8_t *)u->uc_mcontext.fpregs);
}

static void cpu_to(const struct store_cpu *cpu, ucontext_t *u)
{
	for (int i = 0; i < 16; i++)
		u->uc_mcontext.gregs[greg_of[i]] = (greg_t)cpu->gpr[i];
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)cpu->rip;
}

static bool load(void *to, uint64_t address, uint32_t n)
{
	return !guard_copy(to, (const void *)(uintptr_t)address, n);
}

/* An instruction may be the last before memory that is not there. */
static size_t load_code(uint8_t *code, uint64_t rip)
{
	size_t to_page_end = DOORBELL_PAGE_BYTES - rip % DOORBELL_PAGE_BYTES;
	size_t n = STORE_CODE_BYTES_MAX;

	if (load(code, rip, STORE_CODE_BYTES_MAX))
		return n;
	if (to_page_end < n && load(code, rip, (uint32_t)to_page_end))
		return to_page_end;
	return 0;
}

/* Through the alias, in one store where the program's was one. */
static bool apply(const struct page *p, uint32_t offset, const struct store *s)
{
	uint64_t word;

	if (s->size == 8 && offset % 8 == 0 && s->enabled == UINT64_MAX >> 56) {
		memcpy(&word, s->bytes, sizeof(word));
		return !guard_store64((uint64_t *)(p->alias + offset), word);
	}
	for (uint32_t i = 0; i < s->size; i++) {
		if (s->enabled >> i & 1 && guard_store8(p->alias + offset + i, s->bytes[i]))
			return false;
	}
	return true;
}

/* Bytes of the page that one instruction has stored. */
struct span {
	uint32_t start, end;
};

static void span_add(struct span *span, uint32_t offset, uint32_t n)
{
	if (!span->end || offset < span->start)
		span->start = offset;
	if (offset + n > span->end)
		span->end = offset + n;
}

/* Loads between two stores, of a copy. */
#define LOADS_MAX 8

/*
 * The instruction at cpu->rip, all of its steps that stay in this page. Each fault costs
 * much, so of a copy in pieces, as libmlx5 fills a BlueFlame buffer, all pieces are done
 * at once: loads into registers, and stores each right behind the last. False: it does no
 * store here that we know.
 */
static bool emulate(const struct page *p, struct store_cpu *cpu, struct span *span)
{
	uint8_t code[STORE_CODE_BYTES_MAX];
	struct store_cpu next = *cpu;
	unsigned nr_loads = LOADS_MAX;		/* not before the first store */
	uint64_t rip = 0;
	size_t n = 0;

	for (;;) {
		bool is_next_step = next.rip == rip;
		struct store s;
		uint64_t offset;

		if (!is_next_step)
			n = load_code(code, next.rip);
		rip = next.rip;
		if (store_decode(&next, code, n, load, &s))
			break;
		if (!s.size) {
			if (nr_loads++ == LOADS_MAX)
				break;
			continue;
		}
		offset = s.address - p->start;
		if (offset >= DOORBELL_PAGE_BYTES || s.size > DOORBELL_PAGE_BYTES - offset ||
		    (span->end && !is_next_step && offset != span->end) ||
		    !apply(p, (uint32_t)offset, &s))
			break;
		span_add(span, (uint32_t)offset, s.size);
		nr_loads = 0;
		*cpu = next;
	}
	return span->end;
}

/* A register rings with its last byte: it may be written in two halves. */
static void ring(const struct page *p, const struct span *span, bool may_run)
{
	for (unsigned i = 0; i < NR_REGISTERS; i++) {
		const struct page_register *r = &page_registers[i];
		uint32_t last = r->offset + REGISTER_BYTES - 1u;
		uint8_t bytes[REGISTER_BYTES];

		if (last < span->start || last >= span->end ||
		    guard_copy(bytes, p->alias + r->offset, sizeof(bytes)))
			continue;
		/* So that polling, should it begin, does not find it again. */
		guard_store64((uint64_t *)(p->alias + r->offset), 0);
		doorbell_ops.ring(p->cookie, r->kind, bytes, may_run);
	}
}

/* An alternate signal stack may be just large enough for a handler. */
static bool stack_is_large(const ucontext_t *u)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t bottom = (uintptr_t)u->uc_stack.ss_sp;

	return here - bottom >= u->uc_stack.ss_size || here - bottom >= STACK_NEEDED_BYTES;
}

bool trap_claim(siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	struct span span = { 0 };
	struct store_cpu cpu;
	struct page p;

	if (!(u->uc_mcontext.gregs[REG_ERR] & ERROR_WRITE) ||
	    !page_find((uintptr_t)info->si_addr, &p))
		return false;
	/* Another thread has turned to polling since: the store can be done again. */
	if (doorbell_is_polled())
		return !sys_protect((void *)p.start, DOORBELL_PAGE_BYTES,
				    PROT_READ | PROT_WRITE);
	cpu_from(&cpu, u);
	if (!emulate(&p, &cpu, &span)) {
		pages_become_polled();
		doorbell_ops.poll();
		return true;
	}
	cpu_to(&cpu, u);
	ring(&p, &span, stack_is_large(u));
	return true;
}

#else

void trap_init(void)
{
}

bool trap_claim(siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	return false;
}

#endif
