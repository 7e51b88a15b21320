/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - what a program can ask the library before it has an engine. */
#include "engine/intent.h"
#include "lib/lib.h"
#include "ring/clock.h"

uint32_t tent_get_api_version(void)
{
	return TENT_API_VERSION;
}

int tent_get_request_schema_info(uint32_t schema_version, size_t *minimum_size,
				 size_t *known_size)
{
	if (schema_version != TENT_REQUEST_SCHEMA_V1)
		return lib_fail(TENT_RULE_ARG_SCHEMA, schema_version);
	if (minimum_size)
		*minimum_size = TENT_REQUEST_V1_MIN_SIZE;
	if (known_size)
		*known_size = TENT_REQUEST_V1_SIZE;
	return 0;
}

uint64_t tent_monotonic_now_ns(void)
{
	return clock_monotonic_ns();
}

int tent_deadline_after_ns(uint64_t budget_ns, uint64_t *deadline_ns_out)
{
	uint64_t deadline;

	if (!deadline_ns_out)
		return lib_fail_null("deadline_ns_out");
	if (budget_ns > DEADLINE_HORIZON_NS ||
	    __builtin_add_overflow(clock_monotonic_ns(), budget_ns, &deadline))
		return lib_fail_text(TENT_ERR_DEADLINE, TENT_RULE_DEADLINE_FAR, "budget_ns",
				     "budget_ns is %llu; allowed: up to 365 days",
				     (unsigned long long)budget_ns);
	*deadline_ns_out = deadline;
	return 0;
}
