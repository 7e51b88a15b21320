/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - what a tick is worth. Both ends of a ring read the CPU's counter; only
 * the engine measures it against CLOCK_MONOTONIC and tells the client in the header.
 */
#include <time.h>

#include "ring/clock.h"

#define CALIBRATE_NS 5000000u	/* long enough for a rate within some ppm */
#define MOMENT_TRIES 16

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* One moment in both clocks. */
struct moment {
	uint64_t ticks, ns;
};

/* The try with the fewest ticks around the clock's reading. */
static struct moment read_moment(void)
{
	struct moment m = { 0, 0 };
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < MOMENT_TRIES; i++) {
		uint64_t before = ticks_now();
		uint64_t ns = clock_monotonic_ns();
		uint64_t span = ticks_now() - before;

		if (span <= best) {
			best = span;
			m = (struct moment){ before + span / 2, ns };
		}
	}
	return m;
}

/* (ns << 32) / ticks without 128-bit arithmetic: ns has 64 bits on any ABI. */
static uint64_t rate(uint64_t ns, uint64_t ticks)
{
	uint64_t whole = ns / ticks, rest = ns % ticks;

	while (ticks >> 32) {	/* rest << 32 must fit */
		ticks >>= 1;
		rest >>= 1;
	}
	return (whole << 32) + (rest << 32) / ticks;
}

void tick_clock_calibrate(struct tick_clock *c)
{
	struct moment start = read_moment(), end;

	do {
		end = read_moment();
	} while (end.ns - start.ns < CALIBRATE_NS || end.ticks <= start.ticks);
	c->tick_mult = rate(end.ns - start.ns, end.ticks - start.ticks);
	c->tick_origin = end.ticks;
	c->ns_origin = end.ns;
}

/* Between two calls lies a second or so: the error of some 50 ns in a moment is then
 * far below what the clock is slewed by. A short span would measure only that error. */
void tick_clock_resync(struct tick_clock *c)
{
	struct moment now = read_moment();

	if (now.ns - c->ns_origin >= CALIBRATE_NS && now.ticks > c->tick_origin)
		c->tick_mult = rate(now.ns - c->ns_origin, now.ticks - c->tick_origin);
	c->tick_origin = now.ticks;
	c->ns_origin = now.ns;
}
