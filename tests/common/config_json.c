/* SPDX-License-Identifier: Apache-2.0 */
/* config_json.c - see config_json.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/config_json.h"

void nest(char *json, size_t size, const char *path, const char *value)
{
	size_t used = 0, depth = 1;

	for (const char *part = path; ; depth++) {
		size_t len = strcspn(part, "/");

		used += (size_t)snprintf(json + used, size - used, "{\"%.*s\":", (int)len, part);
		if (part[len] == '\0')
			break;
		part += len + 1;
	}
	used += (size_t)snprintf(json + used, size - used, "%s", value);
	while (depth-- > 0 && used < size)
		used += (size_t)snprintf(json + used, size - used, "}");
	if (used >= size)
		abort();
}
