/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_config.c - any text as a configuration: it is taken, or refused with a
 * sentence and without a trace.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	struct engine_config before, after;
	struct config_report report;
	int rc;

	if (!text)
		return 0;
	memcpy(text, data, size);
	memset(&before, 0, sizeof(before));
	engine_config_default(&before);
	memcpy(&after, &before, sizeof(after));
	rc = engine_config_apply_json(&after, text, &report);
	if (rc && (!report.error[0] || memcmp(&before, &after, sizeof(before))))
		abort();
	free(text);
	return 0;
}
