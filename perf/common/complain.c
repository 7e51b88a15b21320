/* SPDX-License-Identifier: Apache-2.0 */
/* complain.c - prints what the library found wrong. */
#include <stdio.h>
#include <tent/tentring.h>

#include "perf/common/complain.h"

static int print(const char *what, const struct tent_error_info *info)
{
	fprintf(stderr, "%s: %s (error %d)\n", what, info->message, info->error);
	return -1;
}

int complain(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_last_error(&info);
	return print(what, &info);
}

int complain_ring(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	return print(what, &info);
}
