/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - one table of options per perf program: parsed, checked, explained. */
#ifndef TENT_PERF_ARGS_H
#define TENT_PERF_ARGS_H

#include <stddef.h>
#include <stdint.h>

enum arg_kind {
	ARG_FLAG,	/* bool */
	ARG_NUMBER,	/* uint64_t */
	ARG_SIZE,	/* uint64_t, bytes; K, M, G suffixes count in 1024 */
	ARG_TEXT,	/* const char * */
	ARG_CHOICE	/* int: index in choices, "a|b|c" */
};

struct arg {
	const char *name;	/* without dashes, "size", or "s,size" for -s too; NULL ends */
	enum arg_kind kind;
	void *value;		/* holds the default; shown by --help */
	uint64_t min, max;	/* NUMBER and SIZE: inclusive */
	const char *choices;	/* CHOICE */
	const char *help;
};

/* Parses argv into the table's values. -1: go on. Otherwise the exit status: 0
 * after --help, 2 after an error, which was printed on stderr and names the
 * option, the value and what is allowed. */
int args_parse(int argc, char **argv, const char *title, const struct arg *args);

/* "64K" -> 65536. -EINVAL when it is no size, -ERANGE when it overflows. */
int args_parse_size(const char *text, uint64_t *size);

#endif /* TENT_PERF_ARGS_H */
