/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/tool/tool.h"

int tool_fail(int status, const char *format, ...)
{
	va_list args;

	fputs("tent-sim: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return status;
}

uint32_t tool_number(const char *text, uint32_t max)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno || v > max ? 0 : (uint32_t)v;
}

bool tool_device(const char *name, uint32_t *out)
{
	const char *number = strncmp(name, "mlx5_", 5) ? name : name + 5;

	if (!strcmp(name, "all")) {
		*out = HOST_ALL_DEVICES;
		return true;
	}
	if (number[0] < '0' || number[0] > '9' || number[1])
		return false;
	*out = (uint32_t)(number[0] - '0');
	return *out < HOST_MAX_DEVICES;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "hosts"))
		return tool_hosts(argc - 2, argv + 2);
	if (argc > 1 && !strcmp(argv[1], "ctl"))
		return tool_ctl(argc - 2, argv + 2);
	return tool_run(argc - 1, argv + 1);
}
