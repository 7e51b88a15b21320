/* SPDX-License-Identifier: Apache-2.0 */
/* test_explain_same.c - explain says what completions report: random requests of every
 * kind, explained first and then submitted one by one, under two contracts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/config.h"
#include "engine/words.h"
#include "ring/clock.h"
#include "tests/common/engine_fix.h"
#include "tests/common/random.h"

#define REQUESTS 5000	/* under each contract */
#define TOGETHER 500u
#define MEMORY 65536u

#define SECTIONS(terms)							\
	"{\"transports\":{\"null\":{\"enable\":true}},"			\
	"\"policy\":[{\"name\":\"get\",\"intent_type\":\"foreground_get\","	\
	"\"transports\":[\"mpcomm\",\"shm\"]},"				\
	"{\"name\":\"large\",\"min_size\":2048,\"max_size\":4096,"	\
	"\"transports\":[\"mpcomm\"]},"					\
	"{\"name\":\"high\",\"priority\":\"high\",\"transports\":[\"shm\"]},"	\
	"{\"name\":\"hidden\"},"					\
	"{\"name\":\"small\",\"max_size\":1024},"			\
	"{\"name\":\"files\",\"segment_type\":\"file\"}],"		\
	"\"qos\":{\"version\":1,\"defaults\":{},\"tenants\":[{\"name\":\"default\","	\
	"\"intents\":{\"migration\":{\"priority\":\"low\"},"		\
	"\"weight_loading\":{\"max_inflight_bytes\":4096},"		\
	"\"checkpoint\":{\"priority\":\"high\"}}}]},"			\
	"\"authorization\":{\"tenants\":[{\"name\":\"default\","	\
	"\"policies\":[\"get\",\"large\",\"high\",\"small\",\"files\"]," terms "}]}}"

static void apply(struct engine_config *c, const char *json)
{
	static struct config_report said;

	if (engine_config_apply_json(c, json, &said))
		fail_msg("%s", said.error);
}

static void strict(struct engine_config *c)
{
	apply(c, SECTIONS("\"priority_cap\":\"medium\",\"on_expired\":\"refuse\""));
}

static void lenient(struct engine_config *c)
{
	apply(c, SECTIONS("\"priority_cap\":\"medium\",\"validation\":\"compat\""));
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
	return random_next(seed) % n;
}

static uint64_t some_deadline(uint64_t *seed)
{
	switch (below(seed, 8)) {
	case 0:
		return 1;
	case 1:
		return clock_monotonic_ns() + 3600000000000ull;
	case 2:
		return UINT64_MAX;
	default:
		return 0;
	}
}

static struct tent_request_v1 some_request(uint64_t *seed, uint8_t *m)
{
	static const char *const names[] = { "get", "large", "high", "hidden", "small", "files",
					     "nobody", "", "not good" };
	struct tent_request_v1 r = {
		.struct_size = below(seed, 6) ? 88 : 44 + 4 * below(seed, 12),
		.schema_version = below(seed, 40) ? 1 : 2,
		.opcode = below(seed, 30) ? (int)below(seed, 2) : 2,
		.source = m + below(seed, MEMORY / 2),
		.target_id = below(seed, 30) ? 0 : 9,
		.target_offset = (uintptr_t)m + MEMORY / 2 + below(seed, MEMORY / 2),
		.length = below(seed, 10) ? below(seed, 6000) : 0,
		.intent_type = below(seed, 20) ? (int)below(seed, 6) : (int)below(seed, 9),
		.requested_priority = below(seed, 20) ? (int)below(seed, 4) : -1,
		.deadline_ns = some_deadline(seed),
		.transport_hint = below(seed, 3) ? 0 : (int)below(seed, 14),
		.reserved0 = !below(seed, 60), .flags = !below(seed, 60),
	};

	if (below(seed, 2))
		r.policy_name = names[below(seed, sizeof(names) / sizeof(names[0]))];
	return r;
}

/* ---- comparing ---------------------------------------------------------- */

static const char *text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	assert_non_null(value);
	return value;
}

static void expect_same_refusal(const json_t *error, const struct tent_completion *c)
{
	assert_string_equal(text(error, "rule"), tent_rule_name(c->rule));
	assert_int_equal(json_integer_value(json_object_get(error, "category")), c->error);
	assert_true(json_integer_value(json_object_get(error, "value")) == (json_int_t)c->bytes);
	assert_true(c->flags & TENT_CQE_F_REJECTED);
}

/* The flag that stands for the rule of a downgrade. */
static uint16_t flag_of(const char *rule)
{
	return strncmp(rule, "INTENT", 6) == 0 ? TENT_CQE_F_INTENT_DOWNGRADED :
	       strncmp(rule, "PRIORITY", 8) == 0 ? TENT_CQE_F_PRIORITY_DOWNGRADED :
	       strncmp(rule, "POLICY", 6) == 0 ? TENT_CQE_F_POLICY_DOWNGRADED :
						 TENT_CQE_F_TAIL_IGNORED;
}

static uint8_t transport_of(const char *name)
{
	int32_t transport = TENT_TRANSPORT_MPCOMM;	/* null's number */

	word_find(WORD_TRANSPORT, name, &transport);
	return (uint8_t)transport;
}

static void expect_same_end(const json_t *entry, const struct tent_completion *c)
{
	const json_t *downgrades = json_object_get(entry, "downgrades"), *d;
	const char *deadline = text(json_object_get(entry, "deadline"), "state");
	uint16_t flags = strcmp(deadline, "expired") ? 0 : TENT_CQE_F_DEADLINE_MISSED;
	size_t i;

	json_array_foreach(downgrades, i, d)
		flags |= flag_of(text(d, "rule"));
	assert_int_equal(c->flags, flags);
	assert_int_equal(c->transport,
			 transport_of(text(json_object_get(entry, "plan"), "transport")));
	assert_int_equal(c->status, TENT_STATUS_COMPLETED);
	assert_int_equal(c->rule, 0);
}

struct tally {
	uint32_t refused, lowered, nulls;
};

static void compare(const json_t *entry, const struct tent_completion *c, struct tally *t)
{
	const json_t *error = json_object_get(entry, "error");

	if (error) {
		expect_same_refusal(error, c);
		t->refused++;
		return;
	}
	expect_same_end(entry, c);
	t->lowered += (c->flags & (TENT_CQE_F_PRIORITY_DOWNGRADED |
				   TENT_CQE_F_POLICY_DOWNGRADED)) != 0;
	t->nulls += c->transport == TENT_TRANSPORT_MPCOMM;
}

static void ask_and_submit(struct tent_client *c, struct tent_ring *ring,
			   const struct tent_request_v1 *r, struct tally *t)
{
	json_t *all, *entry;
	char *json;
	size_t i;

	assert_int_equal(tent_client_explain(c, r, TOGETHER, sizeof(*r), &json), 0);
	all = json_loads(json, 0, NULL);
	free(json);
	json_array_foreach(json_object_get(all, "entries"), i, entry) {
		struct tent_completion done;

		engine_fix_submit(ring, &r[i]);
		done = engine_fix_wait(ring);
		compare(entry, &done, t);
	}
	assert_int_equal(i, TOGETHER);
	json_decref(all);
}

static struct tally run(void (*tune)(struct engine_config *c), uint64_t seed)
{
	static struct tent_request_v1 r[TOGETHER];
	struct tally t = { 0 };
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	uint8_t *m;

	engine_fix_start(&f, tune);
	c = engine_fix_attach(&f, NULL);
	ring = engine_fix_ring(c);
	m = engine_fix_memory(c, MEMORY);
	for (uint32_t n = 0; n < REQUESTS; n += TOGETHER) {
		for (uint32_t i = 0; i < TOGETHER; i++)
			r[i] = some_request(&seed, m);
		ask_and_submit(c, ring, r, &t);
	}
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
	return t;
}

static void explain_equals_completions_where_what_is_denied_is_refused(void **state)
{
	struct tally t = run(strict, 1);

	(void)state;
	assert_in_range(t.refused, REQUESTS / 4, REQUESTS - REQUESTS / 8);
	assert_in_range(t.nulls, REQUESTS / 50, REQUESTS);
}

static void explain_equals_completions_where_what_is_denied_is_lowered(void **state)
{
	struct tally t = run(lenient, 2);

	(void)state;
	assert_in_range(t.lowered, REQUESTS / 8, REQUESTS);
	assert_in_range(t.nulls, REQUESTS / 50, REQUESTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(explain_equals_completions_where_what_is_denied_is_refused),
		cmocka_unit_test(explain_equals_completions_where_what_is_denied_is_lowered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
