/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the tick counter that both ends of a ring can read for free. */
#ifndef TENT_RING_CLOCK_H
#define TENT_RING_CLOCK_H

#include <stdint.h>

/* ns = ns_origin + ((ticks - tick_origin) * tick_mult >> 32) */
struct tick_clock {
	uint64_t tick_origin;
	uint64_t ns_origin;
	uint64_t tick_mult;
};

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
#error "no tick counter is known for this CPU"
#endif
}

static inline uint64_t ticks_delta_to_ns(const struct tick_clock *c, uint64_t ticks)
{
#ifdef __SIZEOF_INT128__
	return (uint64_t)(((unsigned __int128)ticks * c->tick_mult) >> 32);
#else
	uint64_t hi = ticks >> 32, lo = (uint32_t)ticks;
	uint64_t mhi = c->tick_mult >> 32, mlo = (uint32_t)c->tick_mult;

	return ((hi * mhi) << 32) + hi * mlo + lo * mhi + ((lo * mlo) >> 32);
#endif
}

/* Good before the origin too: a stage time may be older than the last resync. */
static inline uint64_t ticks_to_ns(const struct tick_clock *c, uint64_t ticks)
{
	if ((int64_t)(ticks - c->tick_origin) < 0)
		return c->ns_origin - ticks_delta_to_ns(c, c->tick_origin - ticks);
	return c->ns_origin + ticks_delta_to_ns(c, ticks - c->tick_origin);
}

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t clock_monotonic_ns(void);

/* CPU time of the calling thread, nanoseconds. */
uint64_t clock_thread_cpu_ns(void);

/* Measures the tick rate against CLOCK_MONOTONIC; takes some milliseconds. */
void tick_clock_calibrate(struct tick_clock *c);

/* Moves the origin to now and takes the rate measured since the last origin:
 * ticks_to_ns() stays within microseconds of CLOCK_MONOTONIC when this is called
 * every second or so. */
void tick_clock_resync(struct tick_clock *c);

#endif /* TENT_RING_CLOCK_H */
