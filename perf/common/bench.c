/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - options, then a report that is measured. */
#include <stdio.h>

#include "perf/common/bench.h"
#include "perf/common/machine.h"

int bench_main(const struct bench_program *p, int argc, char **argv)
{
	int rc = args_parse(argc, argv, p->title, p->args);
	uint32_t cores = machine_cores();
	struct report r;

	if (rc >= 0)
		return rc;
	rc = p->check ? p->check() : 0;
	if (rc)
		return rc;
	if (cores < p->cores) {
		fprintf(stderr, "%s: %u usable cores are needed; there are %u\n", p->name,
			p->cores, cores);
		return 2;
	}
	report_begin(&r, *p->json, p->name);
	rc = p->run(&r);
	report_end(&r);
	return rc;
}
