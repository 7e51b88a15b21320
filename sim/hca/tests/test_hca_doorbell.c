/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_doorbell.c - what rings when a program stores into a UAR page, trapped and
 * polled. Which way is a choice of the whole process, so each test is a child.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/doorbell/doorbell.h"
#include "sim/hca/mem/fault.h"

#define PAGE DOORBELL_PAGE_BYTES
#define DOORBELL 0x1122334455667788ull

static struct {
	unsigned nr, nr_sends, nr_arms, nr_postponed, nr_polls;
	void *cookie;
	uint64_t value;
} rung;
static int fd;

static void on_ring(void *cookie, enum doorbell_kind kind, const uint8_t bytes[8],
		    bool may_run)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	__atomic_store_n(&rung.cookie, cookie, __ATOMIC_RELAXED);
	__atomic_store_n(&rung.value, value, __ATOMIC_RELAXED);
	__atomic_fetch_add(&rung.nr, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(kind == DOORBELL_SEND ? &rung.nr_sends : &rung.nr_arms, 1,
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&rung.nr_postponed, !may_run, __ATOMIC_RELAXED);
}

static void on_poll(void)
{
	rung.nr_polls++;
}

static volatile uint8_t *page_map(uint64_t offset)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (p == MAP_FAILED || doorbell_watch(p, fd, offset, (void *)(uintptr_t)(offset + 1)))
		_exit(90);
	return p;
}

static void start(bool polled)
{
	static const struct doorbell_ops ops = { on_ring, on_poll };

	fd = memfd_create("uar", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 4 * PAGE))
		_exit(91);
	doorbell_init(&ops, polled);
}

static int end_of(int (*child)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(child());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What rings changes memory behind the compiler's back. */
static void store8(volatile uint8_t *at, uint64_t value)
{
	*(volatile uint64_t *)at = value;
	__asm__ volatile("" : : : "memory");
}

static void store4(volatile uint8_t *at, uint32_t value)
{
	*(volatile uint32_t *)at = value;
	__asm__ volatile("" : : : "memory");
}

#define EXPECT(what) do { if (!(what)) return __LINE__ % 80 + 1; } while (0)

/* ---- polled ---------------------------------------------------------------------- */

static int polled_registers(void)
{
	static const uint16_t sends[] = { 0x800, 0x900, 0xa00, 0xb00 };
	volatile uint8_t *p, *q;

	start(true);
	p = page_map(0);
	q = page_map(2 * PAGE);
	EXPECT(doorbell_is_polled() && !doorbell_scan() && !rung.nr);
	for (unsigned i = 0; i < 4; i++) {
		store8(p + sends[i], DOORBELL + i);
		EXPECT(doorbell_scan() && rung.nr_sends == i + 1 && rung.value == DOORBELL + i);
	}
	store8(q + 0x20, DOORBELL);
	EXPECT(doorbell_scan() && rung.nr_arms == 1 && rung.cookie == (void *)(2 * PAGE + 1ul));
	EXPECT(!doorbell_scan());
	store8(q + 0x20, DOORBELL);		/* the same again rings again */
	EXPECT(doorbell_scan() && rung.nr_arms == 2);
	store8(p + 0x808, DOORBELL);		/* the rest of a WQE is none */
	EXPECT(!doorbell_scan());
	store8(p + 0x800, DOORBELL);
	doorbell_unwatch((void *)p, PAGE);
	EXPECT(!doorbell_scan());
	return 0;
}

static void polling_finds_each_register_once(void **state)
{
	(void)state;
	assert_int_equal(end_of(polled_registers), 0);
}

static void the_environment_decides(void **state)
{
	(void)state;
	setenv("TENT_SIM_DOORBELL", "poll", 1);
	assert_true(doorbell_default_is_polled());
	setenv("TENT_SIM_DOORBELL", "trap", 1);
	assert_false(doorbell_default_is_polled());
	unsetenv("TENT_SIM_DOORBELL");
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif
#else
#define IS_SANITIZED
#endif
#if defined(IS_SANITIZED)
	assert_true(doorbell_default_is_polled());
#endif
}

#if defined(__x86_64__)

/* ---- trapped --------------------------------------------------------------------- */

static int trapped_registers(void)
{
	static const uint16_t sends[] = { 0x800, 0x900, 0xa00, 0xb00 };
	volatile uint8_t *p, *q;

	start(false);
	p = page_map(0);
	q = page_map(PAGE);
	EXPECT(!doorbell_is_polled());
	for (unsigned i = 0; i < 4; i++) {
		store8(q + sends[i], DOORBELL + i);
		EXPECT(rung.nr == i + 1 && rung.nr_sends == i + 1 && rung.value == DOORBELL + i &&
		       rung.cookie == (void *)(PAGE + 1ul));
	}
	store8(p + 0x20, DOORBELL);
	EXPECT(rung.nr_arms == 1 && rung.value == DOORBELL && rung.cookie == (void *)1ul);
	store8(p + 0x28, DOORBELL);
	EXPECT(rung.nr == 5);
	return 0;
}

/* A BlueFlame buffer as libmlx5, as UCX and as a byte copy fill it; and 32-bit halves. */
static int trapped_buffers(void)
{
	static uint8_t wqe[64] __attribute__((aligned(64)));
	volatile uint8_t *p, *to;
	const void *from = wqe;
	uint64_t first = DOORBELL, n = 64;

	start(false);
	p = page_map(0);
	memcpy(wqe, &first, 8);
	memset(wqe + 8, 7, 56);
	for (unsigned i = 0; i < 8; i++)
		store8(p + 0x800 + 8 * i, ((uint64_t *)wqe)[i]);
	EXPECT(rung.nr == 1 && rung.value == DOORBELL && p[0x83f] == 7);
	to = p + 0x900;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	EXPECT(rung.nr == 2 && rung.value == DOORBELL && p[0x93f] == 7 && !n &&
	       to == p + 0x940);
	if (__builtin_cpu_supports("avx512f")) {
		__asm__ volatile("vmovdqu64 (%0), %%zmm20\n vmovdqu64 %%zmm20, (%1)" : :
				 "r"(wqe), "r"(p + 0xa00) : "memory");
		EXPECT(rung.nr == 3 && rung.value == DOORBELL && p[0xa3f] == 7);
	}
	/* Two doorbells of one register, with no more between them than a copy has. */
	rung.nr = 0;
	__asm__ volatile("movq %%rax, (%0)\n movq (%1), %%rax\n movq %%rax, (%0)" : :
			 "r"(p + 0xb00), "r"(wqe), "a"(first + 1) : "memory");
	EXPECT(rung.nr == 2 && rung.value == DOORBELL);
	rung.nr = 0;
	store4(p + 0x20, (uint32_t)DOORBELL);
	EXPECT(!rung.nr);
	store4(p + 0x24, DOORBELL >> 32);
	EXPECT(rung.nr == 1 && rung.value == DOORBELL);
	return 0;
}

static void trapping_rings_before_the_next_instruction(void **state)
{
	(void)state;
	assert_int_equal(end_of(trapped_registers), 0);
	assert_int_equal(end_of(trapped_buffers), 0);
}

static int unknown_store(void)
{
	volatile uint8_t *p, *q;
	uint64_t value = DOORBELL;

	start(false);
	p = page_map(0);
	store8(p + 0x800, DOORBELL);
	EXPECT(rung.nr == 1);
	__asm__ volatile("orq %1, (%0)" : : "r"(p + 0x800), "r"(value) : "memory", "cc");
	EXPECT(rung.nr == 1 && rung.nr_polls == 1 && doorbell_is_polled());
	EXPECT(doorbell_scan() && rung.nr == 2 && rung.value == DOORBELL && !doorbell_scan());
	q = page_map(PAGE);
	store8(q + 0x800, DOORBELL);
	EXPECT(doorbell_scan() && rung.nr == 3 && rung.nr_polls == 1);
	return 0;
}

static void an_unknown_store_turns_trapping_into_polling(void **state)
{
	(void)state;
	assert_int_equal(end_of(unknown_store), 0);
}

static void programs_handler(int sig)
{
	(void)sig;
	_exit(42);
}

static int other_fault(void)
{
	volatile uint8_t *p;

	signal(SIGSEGV, programs_handler);
	start(false);
	p = page_map(0);
	store8(p + 0x800, DOORBELL);
	EXPECT(rung.nr == 1);
	doorbell_unwatch((void *)p, PAGE);
	store8(p + 0x800, DOORBELL);
	return 1;
}

static void other_faults_are_the_programs(void **state)
{
	(void)state;
	assert_int_equal(end_of(other_fault), 42);
}

static int small_stack(void)
{
	static uint8_t small[32 << 10], large[512 << 10];
	stack_t s = { .ss_sp = small, .ss_size = sizeof(small) };
	struct sigaction a = { .sa_handler = programs_handler, .sa_flags = SA_ONSTACK };
	volatile uint8_t *p;

	sigaction(SIGSEGV, &a, NULL);
	start(false);
	fault_program_action(SIGSEGV, &a, NULL);
	p = page_map(0);
	sigaltstack(&s, NULL);
	store8(p + 0x800, DOORBELL);
	EXPECT(rung.nr == 1 && rung.nr_postponed == 1);
	s.ss_sp = large;
	s.ss_size = sizeof(large);
	sigaltstack(&s, NULL);
	store8(p + 0x800, DOORBELL);
	EXPECT(rung.nr == 2 && rung.nr_postponed == 1);
	s.ss_flags = SS_DISABLE;
	sigaltstack(&s, NULL);
	store8(p + 0x800, DOORBELL);
	EXPECT(rung.nr == 3 && rung.nr_postponed == 1);
	return 0;
}

static void a_small_stack_is_told(void **state)
{
	(void)state;
	assert_int_equal(end_of(small_stack), 0);
}

enum { NR_THREADS = 4, NR_STORES = 2000 };

static void *store_many(void *arg)
{
	for (int i = 0; i < NR_STORES; i++)
		store8(arg, DOORBELL);
	return NULL;
}

static int threads(void)
{
	pthread_t thread[NR_THREADS];

	start(false);
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_create(&thread[i], NULL, store_many,
			       (void *)(page_map(i / 2 * PAGE) + 0x800 + i % 2 * 0x200));
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	EXPECT(rung.nr == NR_THREADS * NR_STORES);
	return 0;
}

static void no_threads_store_is_missed(void **state)
{
	(void)state;
	assert_int_equal(end_of(threads), 0);
}

/* A thread turns to polling while others are storing: none may fall, none may hang. */
static int turn_while_storing(void)
{
	volatile uint8_t *p;
	pthread_t thread;

	start(false);
	p = page_map(0);
	pthread_create(&thread, NULL, store_many, (void *)(p + 0x800));
	while (__atomic_load_n(&rung.nr, __ATOMIC_RELAXED) < 10)
		;
	__asm__ volatile("orb $0, (%0)" : : "r"(p + 0x400) : "memory", "cc");
	pthread_join(thread, NULL);
	EXPECT(rung.nr_polls == 1);
	doorbell_scan();
	store8(p + 0x800, DOORBELL);
	EXPECT(doorbell_scan());
	return 0;
}

static void turning_to_polling_stops_nobody(void **state)
{
	(void)state;
	assert_int_equal(end_of(turn_while_storing), 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polling_finds_each_register_once),
		cmocka_unit_test(the_environment_decides),
#if defined(__x86_64__)
		cmocka_unit_test(trapping_rings_before_the_next_instruction),
		cmocka_unit_test(an_unknown_store_turns_trapping_into_polling),
		cmocka_unit_test(other_faults_are_the_programs),
		cmocka_unit_test(a_small_stack_is_told),
		cmocka_unit_test(no_threads_store_is_missed),
		cmocka_unit_test(turning_to_polling_stops_nobody),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
