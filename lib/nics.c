/* SPDX-License-Identifier: Apache-2.0 */
/* nics.c - what the engine's network interfaces have to do, from its own words. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/ctl.h>
#include <tent/transfer_engine.h>

#include "lib/lib.h"

static int fail_words(void)
{
	return lib_fail_text(TENT_ERR_PROTOCOL, TENT_RULE_CTL_MESSAGE, "reply",
			     "the engine's answer is no list of network interfaces");
}

static int read_one(json_t *row, tent_nic_load_stat_t *s)
{
	const char *name;
	json_int_t bytes;
	double bandwidth;

	if (json_unpack(row, "{s:s,s:I,s:F}", "device", &name, "in_flight_bytes", &bytes,
			"bytes_per_second", &bandwidth) || bytes < 0)
		return fail_words();
	memset(s, 0, sizeof(*s));
	snprintf(s->device_name, sizeof(s->device_name), "%s", name);
	s->inflight_bytes = (uint64_t)bytes;
	s->ewma_bandwidth_bps = bandwidth;
	return 0;
}

static int read_all(json_t *nics, tent_nic_load_stat_t *stats, size_t *count)
{
	size_t room = *count, nr = json_array_size(nics);
	int rc = json_is_array(nics) ? 0 : fail_words();

	for (size_t i = 0; i < nr && nr <= room && !rc; i++)
		rc = read_one(json_array_get(nics, i), &stats[i]);
	*count = rc ? 0 : nr;
	if (rc || nr <= room)
		return rc;
	return lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_ARG_VALUE, "count",
			     "count is %zu; allowed: at least %zu, the number of interfaces",
			     room, nr);
}

int lib_nic_loads(struct lib_engine *e, struct tent_nic_load_stat *stats, size_t *count)
{
	char *text = NULL;
	json_t *json;
	int rc;

	if (tent_client_query(e->client, TENT_QUERY_NICS, &text)) {
		*count = 0;
		return lib_fail_client();
	}
	json = json_loads(text, 0, NULL);
	free(text);
	rc = read_all(json_object_get(json, "nics"), stats, count);
	json_decref(json);
	return rc;
}
