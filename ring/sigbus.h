/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigbus.h - survives memory that its owner takes away.
 *
 * Sealing keeps a memfd from shrinking, but nothing keeps a client from punching
 * holes into memory it may write; when the pool of huge pages is then empty, our
 * next access is a SIGBUS. The handler maps zeroed private pages over the place,
 * so the access goes on, and sets the owner's condemned word, so that it is ended.
 *
 * Process-wide state: only tentd turns it on. A library must not take a signal
 * away from the program it lives in.
 */
#ifndef TENT_RING_SIGBUS_H
#define TENT_RING_SIGBUS_H

#include <stddef.h>
#include <stdint.h>

#include "ring/mem.h"

#define SIGBUS_RANGES_MAX 16384

/* Takes SIGBUS over; what is not ours goes to the handler that was there before.
 * 0 or -errno, -EALREADY when it is on. */
int sigbus_install(void);

/* Gives SIGBUS back to whoever had it. */
void sigbus_uninstall(void);

/* Guards [addr, addr + size), a mapping of pages of page_size bytes. On a fault in
 * it *condemned becomes 1; the word must outlive the guard. Any thread. 0,
 * -EINVAL for a range that is not whole pages, -ENOSPC when the table is full. */
int sigbus_guard(void *addr, size_t size, size_t page_size, uint32_t *condemned);

/* The same for a mapping of mem.h. */
int sigbus_guard_mem(const struct shared_mem *m, uint32_t *condemned);

/* Ends the guard that starts at addr, if there is one. Call it before the unmap,
 * when no other thread touches the range any more. */
void sigbus_unguard(const void *addr);

#endif /* TENT_RING_SIGBUS_H */
