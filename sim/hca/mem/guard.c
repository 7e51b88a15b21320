/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.c - a guarded access notes what it touches and where to go on if that faults. The
 * note is one variable per thread; the handler takes only faults in the noted ranges, since
 * a handler of the program may interrupt an access and fault on its own.
 */
#include <errno.h>
#include <setjmp.h>
#include <unistd.h>

#include "sim/hca/mem/guard.h"

struct guard {
	struct guard *outer;	/* interrupted by a signal handler that came here too */
	uintptr_t a, b;		/* starts of the ranges */
	size_t n;		/* length of each */
	sigjmp_buf out;
};

/* In the static block, since the lazily allocated one would call malloc in a handler. */
static __thread struct guard *active __attribute__((tls_model("initial-exec")));

/* An address that no process can have faults without saying which it was. */
static bool covers(const struct guard *g, const siginfo_t *info)
{
	uintptr_t address = (uintptr_t)info->si_addr;

	if (info->si_code == SI_KERNEL)
		return (g->a | g->b) >> (sizeof(uintptr_t) * 8 - 17);
	return info->si_code > 0 && (address - g->a < g->n || address - g->b < g->n);
}

bool guard_is_active(void)
{
	return active;
}

void guard_escape(const siginfo_t *info)
{
	struct guard *g = active;

	if (g && covers(g, info)) {
		active = g->outer;
		siglongjmp(g->out, 1);
	}
}

/* Ends the guard; the asm keeps the access before it. */
static void leave(const struct guard *g)
{
	__asm__ volatile("" ::: "memory");
	active = g->outer;
}

/* A macro, as the frame that called sigsetjmp() must live until the access is over. The
 * mask need not be saved: our handler runs with it unchanged. */
#define GUARDED(first, second, bytes, access)						\
	do {										\
		struct guard g = { .outer = active, .a = (uintptr_t)(first),		\
				   .b = (uintptr_t)(second), .n = (bytes) };		\
		if (sigsetjmp(g.out, 0))						\
			return -EFAULT;							\
		active = &g;								\
		__asm__ volatile("" ::: "memory");					\
		access;									\
		leave(&g);								\
		return 0;								\
	} while (0)

/* Not memcpy(): a sanitizer would take the program's freed memory, which a device may well
 * touch, for a fault of ours. */
static __attribute__((no_sanitize("address", "thread"), noinline))
void copy(void *to, const void *from, size_t n)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
#else
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;

	while (n--)
		*t++ = *f++;
#endif
}

#define UNCHECKED __attribute__((no_sanitize("address", "undefined", "thread")))

UNCHECKED int guard_copy(void *to, const void *from, size_t n)
{
	GUARDED(to, from, n, copy(to, from, n));
}

UNCHECKED int guard_load32(const uint32_t *from, uint32_t *value)
{
	GUARDED(from, from, sizeof(*from), *value = __atomic_load_n(from, __ATOMIC_ACQUIRE));
}

UNCHECKED int guard_store8(uint8_t *to, uint8_t value)
{
	GUARDED(to, to, sizeof(*to), __atomic_store_n(to, value, __ATOMIC_RELEASE));
}

UNCHECKED int guard_store64(uint64_t *to, uint64_t value)
{
	GUARDED(to, to, sizeof(*to), __atomic_store_n(to, value, __ATOMIC_RELEASE));
}

UNCHECKED int guard_fetch_add64(uint64_t *at, uint64_t add, uint64_t *before)
{
	GUARDED(at, at, sizeof(*at), *before = __atomic_fetch_add(at, add, __ATOMIC_ACQ_REL));
}

UNCHECKED int guard_compare_swap64(uint64_t *at, uint64_t compare, uint64_t swap,
				   uint64_t *before)
{
	GUARDED(at, at, sizeof(*at),
		*before = compare;
		__atomic_compare_exchange_n(at, before, swap, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
}

/* Another thread may store into the same byte, so it is exchanged for itself; compilers
 * make a mere load of operations that never change anything. */
UNCHECKED static int probe_byte(uint8_t *at, bool writing)
{
	GUARDED(at, at, 1,
		uint8_t value = *(volatile uint8_t *)at;
		if (writing)
			__atomic_compare_exchange_n(at, &value, value, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

int guard_probe(uint64_t start, uint64_t length, bool writing)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int rc = 0;

	for (uint64_t at = start; at < start + length && !rc; at = (at | (page - 1)) + 1)
		rc = probe_byte((uint8_t *)(uintptr_t)at, writing);
	return rc;
}
