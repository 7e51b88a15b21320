/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_decode.c - each store is run twice from the same registers on the same address:
 * by the CPU on plain memory, and trapped and emulated. Memory and registers must end up
 * the same. What cannot be run here is decoded from its bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/doorbell/decode.h"
#include "sim/hca/doorbell/doorbell.h"
#include "sim/hca/mem/fault.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Low, so that 32 bit addresses reach it; the stores go to its middle, where no doorbell
 * register is. */
#define PAGE_ADDRESS 0x20000000ull
#define TARGET (PAGE_ADDRESS + 0x400)
#define PAGE 4096u

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* ---- what runs one instruction -------------------------------------------------- */

/* The assembly below knows these offsets: 0, 128, 2176. */
struct machine {
	uint64_t gpr[16];
	uint8_t zmm[32][64];
	uint64_t k[8];
};
#define HIDDEN __attribute__((visibility("hidden"), used))
HIDDEN struct machine test_before;
HIDDEN uint64_t test_after[16];
HIDDEN const void *test_code;
HIDDEN uint32_t test_vector_bytes;	/* of the largest that this CPU has */
void test_run(void);

#define EACH_GPR(X) X(rcx, 1) X(rdx, 2) X(rbx, 3) X(rbp, 5) X(rsi, 6) X(rdi, 7) X(r8, 8) \
	X(r9, 9) X(r10, 10) X(r11, 11) X(r12, 12) X(r13, 13) X(r14, 14) X(r15, 15) X(rax, 0)
#define LOAD(reg, n) "mov test_before+" #n "*8(%rip), %" #reg "\n"
#define SAVE(reg, n) "mov %" #reg ", test_after+" #n "*8(%rip)\n"
#define LOW_16 "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"

__asm__(".text\n"
	"test_run:\n"
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"sub $8, %rsp\n"
	"lea test_before(%rip), %rax\n"
	"cmpl $64, test_vector_bytes(%rip)\n je 3f\n"
	"cmpl $32, test_vector_bytes(%rip)\n je 2f\n"
	".irp n, " LOW_16 "\n movdqu (128 + 64 * \\n)(%rax), %xmm\\n\n .endr\n"
	"jmp 4f\n"
	"2:\n"
	".irp n, " LOW_16 "\n vmovdqu (128 + 64 * \\n)(%rax), %ymm\\n\n .endr\n"
	"jmp 4f\n"
	"3:\n"
	".irp n, " LOW_16 ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"vmovdqu64 (128 + 64 * \\n)(%rax), %zmm\\n\n"
	".endr\n"
	".irp n, 1,2,3,4,5,6,7\n kmovq (2176 + 8 * \\n)(%rax), %k\\n\n .endr\n"
	"4:\n"
	"movq 128(%rax), %mm3\n"
	EACH_GPR(LOAD)
	"call *test_code(%rip)\n"
	EACH_GPR(SAVE)
	"cld\n emms\n"
	"cmpl $32, test_vector_bytes(%rip)\n jb 5f\n vzeroupper\n"
	"5:\n add $8, %rsp\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

/* rdi, rbx, r8, r12 and r13 hold the target, rsi a source, rcx 3, r9 5, r10 the target - 40,
 * r11 the target less the base of fs. */
#define STORES(X)						\
	X(BASE, "movb %al, (%rdi)")				\
	X(BASE, "movb %ah, 1(%rdi)")				\
	X(BASE, "movb %bh, (%rdi)")				\
	X(BASE, "movb %sil, -3(%rdi)")				\
	X(BASE, "movb %r15b, (%rdi,%rcx,4)")			\
	X(BASE, "movw %ax, 0x20(%rdi)")				\
	X(BASE, "movl %edx, (%rbx)")				\
	X(BASE, "movq %rdx, (%r8)")				\
	X(BASE, "movq %r14, 0x123(%r8)")			\
	X(BASE, "movq %r15, (%r12)")				\
	X(BASE, "movq %r15, (%r13)")				\
	X(BASE, "movq %rax, (%r10,%r9,8)")			\
	X(BASE, "movq %rax, -0x20000400(%rdi,%r12)")		\
	X(BASE, "movq %rax, -0x20000400(%r13,%r12,1)")		\
	X(BASE, "movq %rax, 0x20000400(,%rcx,8)")		\
	X(BASE, "movq %rax, 0x20000400")			\
	X(BASE, "movq %rax, %fs:(%r11)")			\
	X(BASE, "movq %rax, %gs:(%rdi)")			\
	X(BASE, "movl %eax, (%edi)")				\
	X(BASE, "movl %eax, %fs:(%r11,%rcx,2)")			\
	X(BASE, "movabs %al, 0x20000401")			\
	X(BASE, "movabs %ax, 0x20000401")			\
	X(BASE, "movabs %eax, 0x20000401")			\
	X(BASE, "movabs %rax, 0x20000401")			\
	X(BASE, ".byte 0x67,0xa3\n .long 0x20000401")		\
	X(BASE, "movb $0x81, (%rdi)")				\
	X(BASE, "movw $0x8182, 7(%rdi)")			\
	X(BASE, "movl $0x81828384, 0x111(%rdi)")		\
	X(BASE, "movq $-0x123456, (%rdi,%rcx)")			\
	X(BASE, "movq $0x123456, %ds:(%rdi)")			\
	X(BASE, "movnti %eax, (%rdi)")				\
	X(BASE, "movnti %r15, (%rdi)")				\
	X(BASE, "xchg %al, (%rdi)")				\
	X(BASE, "xchg %dh, (%rdi)")				\
	X(BASE, "xchg %r15w, (%rdi)")				\
	X(BASE, "xchg %eax, (%rdi)")				\
	X(BASE, "lock xchg %r14, (%rdi)")			\
	X(BASE, "stosb")					\
	X(BASE, "stosw")					\
	X(BASE, "stosl")					\
	X(BASE, "stosq")					\
	X(BASE, "rep stosb")					\
	X(BASE, "rep stosq")					\
	X(BASE, ".byte 0xf3,0x67,0xab")			\
	X(BASE, "std\n rep stosw")				\
	X(BASE, "movsb")					\
	X(BASE, "movsw")					\
	X(BASE, "movsl")					\
	X(BASE, "movsq")					\
	X(BASE, "rep movsb")					\
	X(BASE, "rep movsw")					\
	X(BASE, "rep movsl")					\
	X(BASE, "rep movsq")					\
	X(BASE, "std\n rep movsq")				\
	X(BASE, "mov $0, %ecx\n rep movsb\n movb $1, (%rdi)")	\
	X(BASE, "mov $0xc10, %ecx\n lea -0x1000(%rdi), %rdi\n rep stosb") \
	X(BASE, "lea 0xbf0(%rdi), %rdi\n rep movsq")		\
	X(BASE, "movq %rax, (%rdi)\n movq (%rsi), %rdx\n movq %rdx, 8(%rdi)\n"	\
		"movl 8(%rsi), %r9d\n movl %r9d, 16(%rdi)")	\
	X(BASE, "movq %rax, (%rdi)\n movq (%rsi), %rdx\n movq %rdx, (%rdi)")	\
	X(BASE, "movq %rax, (%rdi)\n movw (%rsi), %dx\n ret")	\
	X(BASE, "movups %xmm0, 3(%rdi)")			\
	X(BASE, "movupd %xmm15, (%r8)")				\
	X(BASE, "movaps %xmm7, (%rdi)")				\
	X(BASE, "movapd %xmm8, 0x10(%rdi)")			\
	X(BASE, "movdqu %xmm9, 1(%rdi)")			\
	X(BASE, "movdqa %xmm1, (%r12)")				\
	X(BASE, "movntps %xmm2, (%rdi)")			\
	X(BASE, "movntpd %xmm2, (%rdi)")			\
	X(BASE, "movntdq %xmm3, (%rdi)")			\
	X(BASE, "movss %xmm4, (%rdi)")				\
	X(BASE, "movsd %xmm4, (%rdi)")				\
	X(BASE, "movlps %xmm5, (%rdi)")				\
	X(BASE, "movlpd %xmm5, (%rdi)")				\
	X(BASE, "movhps %xmm6, (%rdi)")				\
	X(BASE, "movhpd %xmm14, (%rdi)")			\
	X(BASE, "movd %xmm1, (%rdi)")				\
	X(BASE, "movq %xmm1, (%rdi)")				\
	X(BASE, ".byte 0x66,0x48,0x0f,0x7e,0x0f")		\
	X(BASE, "movq %mm3, (%rdi)")				\
	X(BASE, "movd %mm3, (%rdi)")				\
	X(BASE, "movntq %mm3, (%rdi)")				\
	X(SSE41, "pextrb $7, %xmm3, (%rdi)")			\
	X(SSE41, "pextrw $3, %xmm13, (%rdi)")			\
	X(SSE41, "pextrd $2, %xmm3, (%rdi)")			\
	X(SSE41, "pextrq $1, %xmm3, (%rdi)")			\
	X(SSE41, "extractps $3, %xmm3, (%rdi)")			\
	X(MOVBE, "movbe %ax, (%rdi)")				\
	X(MOVBE, "movbe %r15d, (%rdi)")				\
	X(MOVBE, "movbe %rdx, (%rdi)")				\
	X(AVX, "vmovups %xmm1, 5(%rdi)")			\
	X(AVX, "vmovups %ymm1, 5(%rdi)")			\
	X(AVX, "vmovupd %ymm9, 5(%r8)")				\
	X(AVX, "vmovaps %ymm2, 0x20(%rdi)")			\
	X(AVX, "vmovdqu %xmm3, (%rdi)")				\
	X(AVX, "vmovdqu %ymm3, 9(%r10,%r9,8)")			\
	X(AVX, "vmovdqa %ymm15, (%r12)")			\
	X(AVX, "vmovntdq %ymm4, (%rdi)")			\
	X(AVX, "vmovntps %ymm4, (%rdi)")			\
	X(AVX, "vmovss %xmm4, (%rdi)")				\
	X(AVX, "vmovsd %xmm4, (%rdi)")				\
	X(AVX, "vmovlps %xmm5, (%rdi)")				\
	X(AVX, "vmovhps %xmm5, (%rdi)")				\
	X(AVX, "vmovd %xmm5, (%rdi)")				\
	X(AVX, "vmovq %xmm5, (%rdi)")				\
	X(AVX, "vpextrq $1, %xmm5, (%rdi)")			\
	X(AVX, "vextractf128 $1, %ymm6, (%rdi)")		\
	X(AVX, "vextractf128 $0, %ymm6, (%rdi)")		\
	X(AVX, "vmaskmovps %ymm1, %ymm2, (%rdi)")		\
	X(AVX, "vmaskmovpd %xmm1, %xmm10, (%rdi)")		\
	X(AVX2, "vpmaskmovd %ymm1, %ymm2, (%rdi)")		\
	X(AVX2, "vpmaskmovq %ymm1, %ymm3, (%rdi)")		\
	X(AVX2, "vextracti128 $1, %ymm13, (%r8)")		\
	X(AVX512, "vmovdqu64 %zmm1, 64(%rdi)")			\
	X(AVX512, "vmovdqu64 %zmm17, 3(%rdi)")			\
	X(AVX512, "vmovdqu32 %zmm31, -64(%r8)")			\
	X(AVX512, "vmovdqu8 %zmm9, -128(%rdi,%rcx,8)")		\
	X(AVX512, "vmovdqu16 %ymm21, 32(%rdi)")			\
	X(AVX512, "vmovdqa64 %zmm30, 0x40(%rdi)")		\
	X(AVX512, "vmovdqa32 %xmm22, 16(%rdi)")			\
	X(AVX512, "vmovups %zmm5, 0x40(%rdi)")			\
	X(AVX512, "vmovupd %zmm25, 0x44(%rdi)")			\
	X(AVX512, "vmovaps %zmm5, 0x40(%rdi)")			\
	X(AVX512, "vmovntdq %zmm6, 0x80(%rdi)")			\
	X(AVX512, "vmovntps %zmm16, (%rdi)")			\
	X(AVX512, "vmovntpd %ymm16, (%rdi)")			\
	X(AVX512, "vmovdqu8 %zmm1, (%rdi){%k1}")		\
	X(AVX512, "vmovdqu16 %zmm2, (%rdi){%k2}")		\
	X(AVX512, "vmovdqu32 %zmm3, (%rdi){%k3}")		\
	X(AVX512, "vmovdqu64 %zmm4, (%rdi){%k4}")		\
	X(AVX512, "vmovdqa32 %ymm4, (%rdi){%k5}")		\
	X(AVX512, "vmovups %zmm4, (%rdi){%k6}")			\
	X(AVX512, "vmovapd %zmm24, (%rdi){%k7}")		\
	X(AVX512, "vmovss %xmm20, 4(%rdi)")			\
	X(AVX512, "vmovsd %xmm20, 8(%rdi)")			\
	X(AVX512, "vmovlps %xmm20, 8(%rdi)")			\
	X(AVX512, "vmovhpd %xmm20, 8(%rdi)")			\
	X(AVX512, "vmovd %xmm20, 4(%rdi)")			\
	X(AVX512, "vmovq %xmm20, 8(%rdi)")			\
	X(AVX512, "vpextrb $9, %xmm20, 1(%rdi)")		\
	X(AVX512, "vpextrw $5, %xmm20, 2(%rdi)")		\
	X(AVX512, "vpextrd $1, %xmm20, 4(%rdi)")		\
	X(AVX512, "vpextrq $1, %xmm20, 8(%rdi)")		\
	X(AVX512, "vextracti32x4 $3, %zmm20, 16(%rdi)")		\
	X(AVX512, "vextracti64x2 $1, %ymm20, 16(%rdi)")		\
	X(AVX512, "vextracti64x4 $1, %zmm20, 32(%rdi)")		\
	X(AVX512, "vextractf32x8 $1, %zmm20, 32(%rdi){%k3}")	\
	X(MOVDIRI, "movdiri %eax, (%rdi)")			\
	X(MOVDIRI, "movdiri %r15, 8(%rdi)")			\
	X(MOVDIR64B, "movdir64b (%rsi), %rdi")			\
	X(MOVDIR64B, "movdir64b 3(%rsi,%rcx,2), %r12")		\
	X(MOVDIR64B, "movdir64b (%esi), %edi")

#define AS_CODE(need, text) "9: " text "\n ret\n .pushsection .data\n .quad 9b\n .popsection\n"
#define AS_CASE(need, text) { need, text },

extern const void *const test_codes[] __attribute__((visibility("hidden")));
__asm__(".data\n .balign 8\n test_codes:\n .text\n" STORES(AS_CODE));

enum need { BASE, SSE41, MOVBE, AVX, AVX2, AVX512, MOVDIRI, MOVDIR64B };
static const struct {
	enum need need;
	const char *text;
} cases[] = { STORES(AS_CASE) };
#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

static bool cpuid_bit(unsigned leaf, int reg, unsigned bit)
{
	unsigned r[4];

	return __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]) && r[reg] >> bit & 1;
}

static bool cpu_has(enum need need)
{
	switch (need) {
	case SSE41:
		return __builtin_cpu_supports("sse4.1");
	case MOVBE:
		return cpuid_bit(1, 2, 22);
	case AVX:
		return __builtin_cpu_supports("avx");
	case AVX2:
		return __builtin_cpu_supports("avx2");
	case AVX512:
		return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		       __builtin_cpu_supports("avx512dq");
	case MOVDIRI:
		return cpuid_bit(7, 2, 27);
	case MOVDIR64B:
		return cpuid_bit(7, 2, 28);
	default:
		return true;
	}
}

/* ---- running each twice ------------------------------------------------------------ */

static uint8_t *source;		/* below 4 GiB too */

static void fill(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = (uint8_t)rand();
}

static void machine_fill(void)
{
	uint64_t *r = test_before.gpr, fs_base;

	fill(&test_before, sizeof(test_before));
	syscall(SYS_arch_prctl, 0x1003, &fs_base);
	r[RDI] = r[RBX] = r[R8] = r[R12] = r[R13] = TARGET;
	r[RSI] = (uint64_t)(uintptr_t)source + 64;
	r[RCX] = 3;
	r[R9] = 5;
	r[R10] = TARGET - 40;
	r[R11] = TARGET - fs_base;
	test_vector_bytes = cpu_has(AVX512) ? 64 : cpu_has(AVX) ? 32 : 16;
}

static void *map_at_page(int prot, int fd)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *p = mmap((void *)PAGE_ADDRESS, PAGE, prot, flags, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void ignore_ring(void *cookie, enum doorbell_kind kind, const uint8_t bytes[8],
			bool may_run)
{
	(void)cookie;
	(void)kind;
	(void)bytes;
	(void)may_run;
}

static bool has_turned_to_polling;

static void turned_to_polling(void)
{
	has_turned_to_polling = true;
}

static int setup(void **state)
{
	static const struct doorbell_ops ops = { ignore_ring, turned_to_polling };

	(void)state;
	source = mmap((void *)0x30000000, PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (source == MAP_FAILED)
		return -1;
	fill(source, PAGE);
	doorbell_init(&ops, false);
	return 0;
}

static void run_plain(size_t i, uint8_t *memory, uint64_t *registers)
{
	uint8_t *p = map_at_page(PROT_READ | PROT_WRITE, -1);

	memset(p, 0xa5, PAGE);
	test_code = test_codes[i];
	test_run();
	memcpy(memory, p, PAGE);
	memcpy(registers, test_after, sizeof(test_after));
}

static void run_trapped(size_t i, uint8_t *memory)
{
	int fd = memfd_create("uar", MFD_CLOEXEC);
	uint8_t *p;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	p = map_at_page(PROT_READ | PROT_WRITE, fd);
	memset(p, 0xa5, PAGE);
	assert_int_equal(doorbell_watch(p, fd, 0, NULL), 0);
	test_code = test_codes[i];
	test_run();
	memcpy(memory, p, PAGE);
	doorbell_unwatch(p, PAGE);
	close(fd);
}

static void a_trapped_store_does_what_the_cpu_does(void **state)
{
	uint8_t plain[PAGE], trapped[PAGE];
	uint64_t registers[16];
	unsigned nr_skipped = 0;

	(void)state;
	fault_install();	/* cmocka has set its own handler since */
	for (size_t i = 0; i < NR_CASES; i++) {
		if (!cpu_has(cases[i].need)) {
			nr_skipped++;
			continue;
		}
		machine_fill();
		/* What a page before the watched one would take. */
		mmap((void *)(PAGE_ADDRESS - PAGE), PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		mmap((void *)(PAGE_ADDRESS + PAGE), PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		run_plain(i, plain, registers);
		run_trapped(i, trapped);
		if (has_turned_to_polling || memcmp(plain, trapped, PAGE) ||
		    memcmp(registers, test_after, sizeof(registers)))
			fail_msg("%s: %s", cases[i].text,
				 has_turned_to_polling ? "not decoded" :
				 memcmp(plain, trapped, PAGE) ? "other memory" :
								"other registers");
	}
	print_message("%zu stores, %u that this CPU does not have\n", NR_CASES, nr_skipped);
}

/* ---- decoding bytes ------------------------------------------------------------------ */

static bool no_load(void *to, uint64_t address, uint32_t n)
{
	(void)to;
	(void)address;
	(void)n;
	return false;
}

static int decode(struct store_cpu *cpu, const char *code, size_t n, struct store *s)
{
	return store_decode(cpu, (const uint8_t *)code, n, no_load, s);
}

#define CODE(bytes) (bytes), sizeof(bytes) - 1

static void rip_relative_counts_from_the_next_instruction(void **state)
{
	struct store_cpu cpu = { .rip = 0x1000, .gpr[RAX] = 0x1122334455667788 };
	struct store s;

	(void)state;
	/* movl $0x44332211, 0x10(%rip) */
	assert_int_equal(decode(&cpu, CODE("\xc7\x05\x10\0\0\0\x11\x22\x33\x44"), &s), 0);
	assert_int_equal(s.address, 0x101a);
	assert_int_equal(cpu.rip, 0x100a);
	assert_memory_equal(s.bytes, "\x11\x22\x33\x44", 4);
	/* mov %rax, -0x11(%rip) */
	assert_int_equal(decode(&cpu, CODE("\x48\x89\x05\xef\xff\xff\xff"), &s), 0);
	assert_int_equal(s.address, 0x1000);
	assert_memory_equal(s.bytes, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
}

static void the_stack_pointer_is_a_base_but_no_index(void **state)
{
	struct store_cpu cpu = { .gpr[RSP] = 0x5000, .gpr[RAX] = 0xab };
	struct store s;

	(void)state;
	assert_int_equal(decode(&cpu, CODE("\x88\x44\x24\x08"), &s), 0); /* mov %al, 8(%rsp) */
	assert_int_equal(s.address, 0x5008);
	assert_int_equal(s.size, 1);
}

static void a_rex_that_is_not_last_means_nothing(void **state)
{
	struct store_cpu cpu = { .gpr[RDI] = 0x5000 };
	struct store s;

	(void)state;
	assert_int_equal(decode(&cpu, CODE("\x48\x66\x89\x07"), &s), 0); /* mov %ax, (%rdi) */
	assert_int_equal(s.size, 2);
}

static void other_instructions_are_refused_and_change_nothing(void **state)
{
	static const struct { const char *code; size_t n; } refused[] = {
		{ CODE("\x8a\x07") },				/* mov (%rdi), %al */
		{ CODE("\x48\x89\xf8") },			/* mov %rdi, %rax */
		{ CODE("\x48\x83\x0f\x01") },			/* or $1, (%rdi) */
		{ CODE("\xf0\x48\x89\x07") },			/* lock mov */
		{ CODE("\xc7\x0f\0\0\0\0") },			/* c7 /1 */
		{ CODE("\xf2\x0f\x38\xf8\x07") },		/* enqcmd */
		{ CODE("\xf3\x0f\x38\xf8\x07") },		/* enqcmds */
		{ CODE("\xf2\x0f\x38\xf1\x07") },		/* crc32 */
		{ CODE("\x66\xc5\xfe\x7f\x07") },		/* VEX after 66 */
		{ CODE("\xc5\xf6\x7f\x07") },			/* VEX with a second source */
		{ CODE("\x62\xf1\xfe\xc8\x7f\x07") },		/* EVEX that zeroes */
		{ CODE("\x62\xf1\xfe\x58\x7f\x07") },		/* EVEX that broadcasts */
		{ CODE("\x62\xf1\xfe\x68\x7f\x07") },		/* EVEX of 1024 bits */
		{ CODE("\x0f\x11\x07") },			/* vectors that we were not given */
		{ CODE("\x48\xc7\x07\0\0\0") },			/* cut short */
		{ CODE("\x48") },
		{ CODE("") },
		{ CODE("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x89\x07") },
	};
	struct store_cpu before = { .rip = 0x77, .gpr = { 1, 2, 3, 4, 5, 6, 7, 8 } }, cpu;
	struct store s;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		cpu = before;
		assert_int_equal(decode(&cpu, refused[i].code, refused[i].n, &s), -EOPNOTSUPP);
		assert_memory_equal(&cpu, &before, sizeof(cpu));
	}
	cpu = before;
	assert_int_equal(decode(&cpu, CODE("\xa4"), &s), -EFAULT);	/* movsb */
	assert_memory_equal(&cpu, &before, sizeof(cpu));
}

/* A component in its initial state need not be written at all. */
static void a_component_in_its_initial_state_is_zero(void **state)
{
	static uint8_t area[832];
	struct store_cpu cpu = { .gpr[RDI] = 0x5000,
		.vectors = { .area = area, .bytes = sizeof(area), .offset[STORE_AVX] = 576 } };
	struct store s;
	uint8_t zeros[16] = { 0 };

	(void)state;
	memset(area, 0xee, sizeof(area));
	area[512] = 1 << STORE_SSE;
	assert_int_equal(decode(&cpu, CODE("\xc5\xfe\x7f\x07"), &s), 0); /* vmovdqu %ymm0, (%rdi) */
	assert_int_equal(s.size, 32);
	assert_memory_equal(s.bytes, area, 16);
	assert_memory_equal(s.bytes + 16, zeros, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trapped_store_does_what_the_cpu_does),
		cmocka_unit_test(rip_relative_counts_from_the_next_instruction),
		cmocka_unit_test(the_stack_pointer_is_a_base_but_no_index),
		cmocka_unit_test(a_rex_that_is_not_last_means_nothing),
		cmocka_unit_test(other_instructions_are_refused_and_change_nothing),
		cmocka_unit_test(a_component_in_its_initial_state_is_zero),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif
