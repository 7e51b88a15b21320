/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentctl.h - the parts of the command. tentctl.c: command line and queries;
 * tentctl_table.c: JSON as tables; tentctl_config.c: configuration files, which
 * need no tentd; tentctl_explain.c: what tentd would do with a request; tentctl_top.c:
 * what clients do now.
 */
#ifndef TENT_TOOLS_TENTCTL_H
#define TENT_TOOLS_TENTCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Exit statuses, documented in tentctl(1). */
enum tentctl_exit {
	TENTCTL_OK = 0,
	TENTCTL_FAILED = 1,	/* tentd refused, or the configuration is bad */
	TENTCTL_USAGE = 2,	/* bad command line */
	TENTCTL_NO_TENTD = 3	/* nobody answers at the socket */
};

struct tentctl_options {
	const char *socket;
	bool json;
};

/* "tentctl: " and a line on stderr. */
__attribute__((format(printf, 1, 2)))
void tentctl_say(const char *format, ...);

/* Says the last libtentring failure; returns the exit status for it. */
enum tentctl_exit tentctl_say_error(const struct tentctl_options *o);

/* Prints JSON text that tentd gave: as tables for people, or as it came, one line.
 * Text that is no JSON is a failure. */
enum tentctl_exit tentctl_print(const struct tentctl_options *o, const char *json);

/* The same for a value that we made. */
void tentctl_print_value(const struct tentctl_options *o, const json_t *root);

/* argv[0] is the word after the command's name. */
enum tentctl_exit tentctl_config(const struct tentctl_options *o, int argc, char **argv);
enum tentctl_exit tentctl_explain(const struct tentctl_options *o, int argc, char **argv);
enum tentctl_exit tentctl_top(const struct tentctl_options *o, int argc, char **argv);

#endif /* TENT_TOOLS_TENTCTL_H */
