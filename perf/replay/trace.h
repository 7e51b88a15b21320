/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - the Mooncake trace format: one JSON object a line. */
#ifndef TENT_PERF_REPLAY_TRACE_H
#define TENT_PERF_REPLAY_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct trace_request {
	uint64_t arrival_us;	/* after the trace's origin */
	uint32_t first, nr;	/* its blocks: trace.ids[first..first + nr) */
};

struct trace {
	struct trace_request *requests;
	uint64_t *ids;		/* prefix hashes of all requests, one after another */
	size_t nr_requests, nr_ids;
};

/* Reads at most max requests (0: all). 0, or -1 with one sentence in error that
 * names the line. Arrivals must not go
 * back. */
int trace_load(struct trace *t, const char *path, size_t max, char *error,
	       size_t error_size);
void trace_free(struct trace *t);

/* Undoes the publisher's rounding: requests with the same timestamp are spread
 * evenly, with jitter, over the time until the next timestamp. */
void trace_spread(struct trace *t, uint64_t seed);

#endif /* TENT_PERF_REPLAY_TRACE_H */
