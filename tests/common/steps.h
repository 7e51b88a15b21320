/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.h - runs a function in a child, one instruction at a time. What it does to memory
 * that it shares with the test is seen after each. x86-64.
 */
#ifndef TENT_TESTS_STEPS_H
#define TENT_TESTS_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* What ran, of the kinds that a data path has to count. */
struct steps {
	uint32_t instructions;
	uint32_t store_fences;	/* sfence */
	uint32_t fences;	/* mfence, lfence */
	uint32_t locked;	/* lock prefixes, xchg with memory */
	uint32_t syscalls;
	uint32_t heap_calls;	/* malloc, calloc, realloc, free */
};

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define STEPS_COUNT 1
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef STEPS_COUNT
#endif
#endif
#endif

/* Calls f(arg) in a child, and after each of its instructions seen(arg, s) here, where s
 * counts it already. Fails the test where it cannot. */
void steps_run(void (*f)(void *arg), void (*seen)(void *arg, const struct steps *s), void *arg,
	       struct steps *s);

#endif /* TENT_TESTS_STEPS_H */
