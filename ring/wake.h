/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake.h - how one side of a ring goes to sleep and the other wakes it.
 *
 * Both F pairs of order.h have the same shape. Who goes to sleep: store the word
 * that says so, wake_barrier(), look again, sleep. Who publishes: store, compiler
 * fence, look at the word, wake. The barrier runs a full fence on every core
 * that the kernel knows to run a registered process, so the publishing side needs none;
 * order.h says which ones it does not know.
 */
#ifndef TENT_RING_WAKE_H
#define TENT_RING_WAKE_H

#include <stdbool.h>
#include <stdint.h>

/* Makes this process one that wake_barrier() of others reaches. 0 or -errno; may be
 * called again. */
int wake_barrier_register(void);

/* F5, F6: the sleeping side's fence. False when the kernel has no membarrier: only
 * a local full fence was made, so a partner without a fence of its own may be
 * missed and the sleep must be short. */
bool wake_barrier(void);

/* Sleeps while *word is expected; shared, works on a read-only mapping. 0 when woken
 * or *word differs, -ETIMEDOUT, -EINTR. */
int wake_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/* Wakes every sleeper of a word. */
void wake_futex_wake(uint32_t *word);

#define WAKE_SOCKET_BYTES 4096	/* buffered by a socket that stands for an eventfd */

/* Adds 1 to an eventfd. */
void wake_event_signal(int fd);

/* A token into a socket that stands for an eventfd: never blocks, raises no SIGPIPE. */
void wake_socket_signal(int fd);

/* Empties an eventfd or such a socket without ever blocking, whatever another holder of it
 * did to its O_NONBLOCK flag. */
void wake_event_drain(int fd);

#endif /* TENT_RING_WAKE_H */
