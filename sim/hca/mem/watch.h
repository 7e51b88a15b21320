/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - hears from the kernel when pages are unmapped, moved or dropped, whoever does
 * it: libc's free(), a raw system call. One userfaultfd, and a thread that does nothing
 * else and frees nothing, since whoever unmaps waits for it.
 *
 * Where the kernel grants none, and for files that cannot be watched, only what is
 * interposed is heard of.
 */
#ifndef TENT_SIM_HCA_WATCH_H
#define TENT_SIM_HCA_WATCH_H

#include <stdint.h>

/* Calls umem_suspend(), umem_pages_went() and umem_resume() when something happens to
 * pages in this range, before the call that did it returns. */
void watch_range(uint64_t start, uint64_t length);
/* No longer, unless some umem still overlaps its pages. */
void watch_end(uint64_t start, uint64_t length);

/* In a forked child: as if nothing had been watched. */
void watch_fork_child(void);

#endif /* TENT_SIM_HCA_WATCH_H */
