/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - what a tick is worth. Both ends of a ring read the CPU's counter; only
 * the engine measures it against CLOCK_MONOTONIC and tells the client in the header.
 */
#include <time.h>

#include "ring/clock.h"

#define CALIBRATE_NS 5000000u	/* long enough for a rate within some ppm */
#define PAIR_TRIES 16		/* the tightest of these is taken */

uint64_t clock_monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* One moment in both clocks: the try with the fewest ticks around the syscall. */
static void read_pair(uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < PAIR_TRIES; i++) {
		uint64_t before = ticks_now();
		uint64_t now = clock_monotonic_ns();
		uint64_t span = ticks_now() - before;

		if (span < best) {
			best = span;
			*ticks = before + span / 2;
			*ns = now;
		}
	}
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
	uint64_t ticks, ns, end_ticks, end_ns;

	read_pair(&ticks, &ns);
	do {
		read_pair(&end_ticks, &end_ns);
	} while (end_ns - ns < CALIBRATE_NS || end_ticks == ticks);
	c->tick_mult = rate(end_ns - ns, end_ticks - ticks);
	c->tick_origin = end_ticks;
	c->ns_origin = end_ns;
}

/* Between two calls lies a second or so: the pair's error of some 50 ns is then far
 * below what the clock is slewed by. Too short a span would measure only the error. */
void tick_clock_resync(struct tick_clock *c)
{
	uint64_t ticks, ns;

	read_pair(&ticks, &ns);
	if (ns - c->ns_origin >= CALIBRATE_NS && ticks > c->tick_origin)
		c->tick_mult = rate(ns - c->ns_origin, ticks - c->tick_origin);
	c->tick_origin = ticks;
	c->ns_origin = ns;
}
