/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h - accesses to memory that may not be there. Each returns 0, or -EFAULT where a
 * plain access would have raised SIGSEGV or SIGBUS. Any thread, also in a signal handler;
 * fault_install() comes first.
 */
#ifndef TENT_SIM_HCA_GUARD_H
#define TENT_SIM_HCA_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int guard_copy(void *to, const void *from, size_t n);

/* Aligned words: an acquire load and release stores. */
int guard_load32(const uint32_t *from, uint32_t *value);
int guard_store8(uint8_t *to, uint8_t value);
int guard_store64(uint64_t *to, uint64_t value);
int guard_fetch_add64(uint64_t *at, uint64_t add, uint64_t *before);
int guard_compare_swap64(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *before);

/* Touches one byte of each page, leaving it as it is. */
int guard_probe(uint64_t start, uint64_t length, bool writing);

/* Does this thread access memory through this file just now? */
bool guard_is_active(void);
/* From the handler: does not return if the fault was a guarded access's. */
void guard_escape(const siginfo_t *info);

#endif /* TENT_SIM_HCA_GUARD_H */
