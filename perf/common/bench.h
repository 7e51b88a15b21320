/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what programs that measure have in common from their first line on. */
#ifndef TENT_PERF_BENCH_H
#define TENT_PERF_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/common/args.h"
#include "perf/common/report.h"

/* The option that all of them have. */
#define ARG_JSON(flag)	\
	{ "json", ARG_FLAG, flag, 0, 0, NULL, "one JSON object instead of a table" }

struct bench_program {
	const char *name, *title;
	const struct arg *args;
	const bool *json;	/* set by args */
	uint32_t cores;		/* that it takes at least */
	/* Optional. What one option's range cannot say: 0, or the exit status. */
	int (*check)(void);
	/* Required. Measures and fills the report; the exit status. */
	int (*run)(struct report *r);
};

/* The body of main(). */
int bench_main(const struct bench_program *p, int argc, char **argv);

#endif /* TENT_PERF_BENCH_H */
