/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - a bar for whoever watches; nothing when nobody does. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "perf/replay/replay.h"

#define STEP_NS 100000000ull
#define WIDTH 40

static bool shown;

static void draw_bar(const struct server *s)
{
	size_t done = s->next * WIDTH / s->trace->nr_requests;
	char bar[WIDTH + 1];

	memset(bar, '-', WIDTH);
	memset(bar, '#', done);
	bar[WIDTH] = '\0';
	fprintf(stderr, "\r[%s] %zu of %zu requests, %u batches in flight \033[K", bar, s->next,
		s->trace->nr_requests, s->running.nr);
	shown = true;
}

void progress_show(const struct server *s)
{
	static int terminal = -1;
	static uint64_t next_ns;
	uint64_t now;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	now = tent_monotonic_now_ns();
	if (now < next_ns)
		return;
	next_ns = now + STEP_NS;
	draw_bar(s);
}

void progress_clear(void)
{
	if (shown)
		fprintf(stderr, "\r\033[K");
	shown = false;
}
