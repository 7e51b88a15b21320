/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h - the only file that spells a memory order. It orders threads and
 * processes that share memory, and, by other names, what a device sees.
 *
 * Pairs (R = release, A = acquire; both ends carry the label):
 *   R1/A1  slot {seq, nr}      client publishes  -> engine takes the batch
 *   R2/A2  consumed            engine judged     -> client reuses slots and cells
 *   R3/A3  completion seq      engine completes  -> client reads it (and the data)
 *   R4/A4  cq_head             client reaped     -> engine reuses completions
 *                              (in the slot: covered by R1/A1)
 *   F5/F5  want_wake           client will sleep <-> engine has published
 *   F6/F6  NEED_WAKE           engine will sleep <-> client has published
 *   F7/F7  what is in flight   poller counts one <-> another counts one
 *   R7/A7  region table        control thread    -> poller
 *   R8/A8  poller command      control thread    -> poller, and its answer back
 *   R9/A9  guarded range       control thread    -> SIGBUS handler
 *   R10/A10 lane, file op      poller            -> worker: of private memory, of files
 *   R11/A11 inbox              worker            -> poller, with the lane's result
 *   R12/A12 life               thread <-> control: whoever comes second frees (an
 *                              owner of private memory, an errand)
 *   R13/A13 flags, wake_seq    engine            -> client, with the end_rule
 *   R14/A14 driving            caller mode: one thread's turn -> the next one's
 *   R15/A15 references         who lets go       -> who frees
 *   R16/A16 note               poller <-> thread of the tcp backend, control -> both
 *   R17/A17 notices            poller            -> control thread
 *   R18/A18 arrived            control thread    -> client that takes notifications
 *   R19/A19 changes, is_open   control thread    -> poller: what a backend reaches, lends
 *   D1     WQE                 poller            -> card, before the doorbell record
 *   D2     doorbell record     poller            -> card, before its register
 *   D3     op_own of a CQE     card              -> poller, before the rest and the data
 * libtent's own, L1 to L6, are in lib/lib.h. A relaxed access hands nothing over by itself.
 * F pairs are store-then-load on both sides (Dekker): the side that goes to
 * sleep pays, with membarrier(GLOBAL_EXPEDITED) or a full fence. The membarrier can
 * pass a core by: Linux remembers per core whether the process there registered, and
 * does not learn it on a core that the process used before it registered, until another
 * program runs there. So an F pair shortens waits and no wait rests on it alone: an
 * engine that sleeps looks again after a millisecond, and one that is awake looks late
 * at clients that sleep.
 */
#ifndef TENT_RING_ORDER_H
#define TENT_RING_ORDER_H

#include <stdint.h>

#define load_relaxed(p)		__atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)		__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Read-modify-writes: never on the data path (make cost counts them). */
#define fetch_add(p, v)		__atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define exchange(p, v)		__atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define compare_exchange(p, expected, desired)				\
	__atomic_compare_exchange_n((p), (expected), (desired), 0,	\
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* tsan does not model fences, and gcc says so. No release/acquire pair of ours rests
 * on one: F pairs are Dekker, and what they guard is loaded with its own label. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* The F pairs' fence, for a side that has no membarrier partner. */
static inline void full_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The F pairs' cheap side: the compiler may not move the load above the store;
 * the sleeping side's membarrier does the rest. */
static inline void compiler_fence(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Streaming stores are weakly ordered: fence before anything that can publish
 * their end. */
static inline void stream_fence(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/*
 * What a card sees, and when. Never for threads: on x86 two of these only bind the
 * compiler, as stores and loads of write-back memory keep their order there. DMA is
 * coherent on both CPUs; what is write-combining is only the card's register.
 */
#if defined(__x86_64__) || defined(__i386__)
#define DEVICE_FENCE(x86, arm64) __asm__ volatile(x86 ::: "memory")
#elif defined(__aarch64__)
#define DEVICE_FENCE(x86, arm64) __asm__ volatile(arm64 ::: "memory")
#else
#define DEVICE_FENCE(x86, arm64) full_fence()
#endif

/* D1: stores before it are seen by the card before stores after it. */
static inline void device_store_fence(void)
{
	DEVICE_FENCE("", "dmb oshst");
}

/* D3: loads after it see what the card wrote before the word that was loaded before it. */
static inline void device_load_fence(void)
{
	DEVICE_FENCE("", "dmb oshld");
}

/* D2: stores to memory before it are seen before a store to a register after it, even one
 * that is write-combining. */
static inline void register_fence(void)
{
	DEVICE_FENCE("sfence", "dsb st");
}

/* What was stored to a write-combining register leaves the CPU now. */
static inline void register_flush(void)
{
	DEVICE_FENCE("sfence", "dsb st");
}

/* The same after whole lines of 64 bytes, which x86 sends by itself. */
static inline void register_line_flush(void)
{
	DEVICE_FENCE("", "dsb st");
}

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* TENT_RING_ORDER_H */
