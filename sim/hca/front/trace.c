/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/hca/front/card.h"

static int trace_fd = -1;

/* Appends, so that processes share the file and lines stay whole. */
bool trace_is_on(void)
{
	const char *path = getenv(TRACE_ENV);

	if (trace_fd < 0 && path)
		trace_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	return trace_fd >= 0;
}

/* May be called from a signal handler: no stdio stream. */
void trace_line(uint32_t device, const char *line)
{
	char text[512];
	uint64_t now = card_now_ns();
	int n = snprintf(text, sizeof(text), "%llu.%09llu %d mlx5_%u %s\n",
			 (unsigned long long)(now / 1000000000),
			 (unsigned long long)(now % 1000000000), (int)getpid(), device, line);

	if (n >= (int)sizeof(text)) {
		n = sizeof(text);
		text[n - 1] = '\n';
	}
	n = (int)write(trace_fd, text, (size_t)n);
	(void)n;			/* a full disk costs only the trace */
}
