/* SPDX-License-Identifier: Apache-2.0 */
/* test_bounds.c - what a tenant may have in flight: who is held, who is not, for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "engine/bounds.h"
#include "engine/config.h"
#include "engine/contract.h"
#include "engine/round.h"
#include "engine/sched.h"
#include "tests/common/rig.h"

#define POLLERS 2	/* of which there is the first one */

static struct bounds_account *accounts;
static struct contract_set *set;

/* Everybody of client 0 and 1 is the tenant of user 1, or of 2. */
static void put_under(struct rig *r, const char *json, uint32_t uid_of_1)
{
	static struct engine_config config;
	static struct config_report said;
	const struct contract_world w = {
		.planner = &r->poller->planner, .default_priority = TENT_PRIORITY_MEDIUM,
	};
	struct contract_set *old = set;
	int rc;

	engine_config_default(&config);
	if (engine_config_apply_json(&config, json, &said))
		fail_msg("%s", said.error);
	set = contract_set_create(&config.contracts, &w, &rc);
	assert_int_equal(rc, 0);
	assert_int_equal(contract_set_bind(set, &accounts, POLLERS), 0);
	r->clients[0].space.contract = contract_of(set, 1, false);
	r->clients[1].space.contract = contract_of(set, uid_of_1, false);
	grace_discard(old);
}

static struct rig *start(const char *faults, const char *json)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = faults, .slots = 256, .completions = 256 });

	put_under(r, json, 1);
	return r;
}

static void stop(struct rig *r)
{
	rig_stop(r);
	for (const struct bounds_account *a = accounts; a; a = a->next)
		for (int i = 0; i < INTENTS; i++)
			assert_true(!a->shares[0].bytes[i] && !a->shares[0].requests[i]);
	bounds_close(&accounts);
	grace_discard(set);
	set = NULL;
}

#define TENANTS "\"authorization\":{\"tenants\":[{\"name\":\"a\",\"uids\":[1]},"	\
		"{\"name\":\"b\",\"uids\":[2]}]}"
#define QOS(terms) "{" TENANTS ",\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"a\","	\
		   "\"intents\":{\"migration\":{" terms "}}}]}}"

static struct tent_slot *fill(struct rig_ring *ring, uint32_t i, int intent, uint64_t length)
{
	struct tent_slot *s = rig_request(ring, i, 0, 0, 0, length);

	s->request.intent_type = intent;
	return s;
}

static void publish(struct rig_ring *ring, int intent, uint32_t n, uint64_t length)
{
	for (uint32_t i = 0; i < n; i++)
		fill(ring, i, intent, length);
	rig_publish(ring, n, TENT_OP_REQUEST, 0);
}

/* Turns until n completed; the most that was with the transport after any of them. */
static uint32_t most_posted(struct rig *r, uint32_t n)
{
	uint32_t most = 0;

	for (uint32_t done = 0, turns = 0; done < n; turns++) {
		assert_true(turns < 10000);
		poller_turn(r->poller);
		if (r->poller->nr_posted > most)
			most = r->poller->nr_posted;
		for (uint32_t k = 0; k < RIG_RINGS; k++)
			done += rig_reap_all(&r->rings[k]);
	}
	return most;
}

static void no_more_requests_than_the_bound_are_in_flight(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_requests\":3"));

	(void)state;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 10, 64);
	publish(&r->rings[1], TENT_INTENT_MIGRATION, 10, 64);
	assert_int_equal(most_posted(r, 20), 3);
	assert_int_equal(r->poller->stats.held, 17);
	stop(r);
}

static void no_more_bytes_than_the_bound_are_in_flight(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_bytes\":\"4 kib\""));

	(void)state;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 16, 1000);
	assert_int_equal(most_posted(r, 16), 4);
	stop(r);
}

static void a_batch_of_one_is_bound_too(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_requests\":2"));

	(void)state;
	for (int i = 0; i < 10; i++)
		publish(&r->rings[0], TENT_INTENT_MIGRATION, 1, 64);
	assert_int_equal(most_posted(r, 10), 2);
	stop(r);
}

static void all_rings_of_a_tenant_share_its_bound(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_requests\":3"));

	(void)state;
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		publish(&r->rings[k], TENT_INTENT_MIGRATION, 8, 64);
	assert_int_equal(most_posted(r, 32), 3);
	stop(r);
}

static void another_tenant_is_not_held_by_it(void **state)
{
	struct rig *r = start("pending=1,hold", QOS("\"max_inflight_requests\":1"));

	(void)state;
	put_under(r, QOS("\"max_inflight_requests\":1"), 2);
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 5, 64);
	publish(&r->rings[1], TENT_INTENT_MIGRATION, 7, 64);
	rig_settle(r);
	assert_int_equal(r->rings[0].state->nr_posted, 1);
	assert_int_equal(r->rings[1].state->nr_posted, 7);
	stop(r);
}

static void another_intent_is_not_held_by_it(void **state)
{
	struct rig *r = start("pending=1,hold", QOS("\"max_inflight_requests\":1"));

	(void)state;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 5, 64);
	publish(&r->rings[0], TENT_INTENT_CHECKPOINT, 5, 64);
	rig_settle(r);
	assert_int_equal(r->rings[0].state->nr_posted, 6);
	stop(r);
}

static void what_another_poller_has_in_flight_counts(void **state)
{
	struct rig *r = start("pending=1,hold", QOS("\"max_inflight_requests\":3"));
	struct bounds_share *other = &accounts->shares[1];

	(void)state;
	other->requests[TENT_INTENT_MIGRATION] = 2;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 5, 64);
	poller_turn(r->poller);
	poller_turn(r->poller);
	assert_int_equal(r->rings[0].state->nr_posted, 1);
	other->requests[TENT_INTENT_MIGRATION] = 0;
	poller_turn(r->poller);
	assert_int_equal(r->rings[0].state->nr_posted, 3);
	stop(r);
}

/* ---- who comes first ----------------------------------------------------- */

static void of_those_that_are_held_the_higher_level_goes_first(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_requests\":1"));
	static const int asked[] = { 2, 3, 1, 3, 1 };
	static const uint64_t order[] = { 0, 2, 4, 1, 3 };

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		struct tent_slot *s = fill(&r->rings[0], i, TENT_INTENT_MIGRATION, 64);

		s->request.requested_priority = asked[i];
	}
	rig_publish(&r->rings[0], 5, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(rig_finish(r, &r->rings[0]).index, order[i]);
	stop(r);
}

static void who_comes_later_does_not_pass_one_that_is_held(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_bytes\":4096"));

	(void)state;
	fill(&r->rings[0], 0, TENT_INTENT_MIGRATION, 2048);
	fill(&r->rings[0], 1, TENT_INTENT_MIGRATION, 4096);
	fill(&r->rings[0], 2, TENT_INTENT_MIGRATION, 64);	/* there would be room */
	rig_publish(&r->rings[0], 3, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rig_finish(r, &r->rings[0]).index, i);
	stop(r);
}

/* ---- what does not fit --------------------------------------------------- */

static void what_would_never_fit_is_refused_with_its_batch(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_bytes\":4096"));
	struct tent_completion c;

	(void)state;
	fill(&r->rings[0], 0, TENT_INTENT_MIGRATION, 4096);
	fill(&r->rings[0], 1, TENT_INTENT_MIGRATION, 4097);
	rig_publish(&r->rings[0], 2, TENT_OP_REQUEST, 0);
	c = rig_finish(r, &r->rings[0]);
	rig_expect_refused(&c, TENT_RULE_INFLIGHT_BYTES, 1, 2);
	assert_int_equal(c.error, TENT_ERR_CAPACITY);
	put_under(r, QOS("\"max_inflight_requests\":0"), 1);
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 1, 64);
	c = rig_finish(r, &r->rings[0]);
	rig_expect_refused(&c, TENT_RULE_INFLIGHT_REQUESTS, 0, 1);
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 1, 0);	/* is never in flight */
	assert_int_equal(rig_finish(r, &r->rings[0]).status, TENT_STATUS_COMPLETED);
	stop(r);
}

static void where_delay_is_not_allowed_it_fails_at_once(void **state)
{
	struct rig *r = start("pending=1,hold", QOS("\"max_inflight_requests\":2,"
						    "\"allowed_degraded_actions\":[\"reject\"]"));

	(void)state;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 5, 64);
	for (uint32_t i = 2; i < 5; i++) {
		struct tent_completion c = rig_finish(r, &r->rings[0]);

		assert_int_equal(c.index, i);
		assert_int_equal(c.status, TENT_STATUS_FAILED);
		assert_int_equal(c.rule, TENT_RULE_INFLIGHT_REQUESTS);
		assert_int_equal(c.flags, 0);
	}
	assert_int_equal(r->poller->nr_posted, 2);
	stop(r);
}

static void where_delay_is_allowed_it_waits(void **state)
{
	struct rig *r = start("pending=1", QOS("\"max_inflight_requests\":2,"
					       "\"allowed_degraded_actions\":[\"delay\"]"));

	(void)state;
	publish(&r->rings[0], TENT_INTENT_MIGRATION, 5, 64);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(rig_finish(r, &r->rings[0]).status, TENT_STATUS_COMPLETED);
	stop(r);
}

/* ---- how a held one may end ---------------------------------------------- */

/* Of 6 with the same user_data one is with the transport, and 5 are held. */
static struct rig *start_held(void)
{
	struct rig *r = start("pending=1,hold", QOS("\"max_inflight_requests\":1"));

	for (uint32_t i = 0; i < 6; i++)
		fill(&r->rings[0], i, TENT_INTENT_MIGRATION, 64)->user_data = i ? 7 : 0;
	rig_publish(&r->rings[0], 6, TENT_OP_REQUEST, 0);
	rig_settle(r);
	assert_int_equal(r->rings[0].state->nr_held, 5);
	return r;
}

static void expect_ends(struct rig *r, uint8_t status)
{
	struct tent_completion c;

	for (int i = 0; i < 5; i++) {
		assert_true(rig_reap(&r->rings[0], &c));
		assert_int_equal(c.status, status);
		assert_int_equal(c.flags, 0);
	}
	assert_int_equal(r->rings[0].state->nr_held, 0);
	assert_int_equal(r->poller->nr_odd, 0);
}

static void a_held_one_can_be_canceled(void **state)
{
	struct rig *r = start_held();
	const uint64_t user_data = 7;

	(void)state;
	memcpy(&rig_slot(&r->rings[0], 0)->request.source, &user_data, sizeof(user_data));
	rig_publish(&r->rings[0], 1, TENT_OP_CANCEL, 0);
	rig_settle(r);
	expect_ends(r, TENT_STATUS_CANCELED);
	stop(r);
}

static void a_held_one_times_out(void **state)
{
	struct rig *r = start_held();

	(void)state;
	r->poller->timeout_ticks = 0;
	bounds_expire(r->poller, ticks_now());
	expect_ends(r, TENT_STATUS_TIMEOUT);
	stop(r);
}

static void a_ring_that_ends_takes_its_held_ones_along(void **state)
{
	struct rig *r = start_held();

	(void)state;
	ring_begin_end(r->rings[0].state, TENT_RULE_RING_CLOSED);
	rig_settle(r);
	assert_true(r->rings[0].state->ended);
	expect_ends(r, TENT_STATUS_CANCELED);
	stop(r);
}

static void a_region_that_goes_ends_the_held_ones_that_name_it(void **state)
{
	struct rig *r = start_held();

	(void)state;
	rig_order(r, POLLER_DROP_REGION, NULL, &r->clients[0].regions[0], TENT_RULE_TARGET_GONE);
	assert_int_equal(rig_reap_all(&r->rings[0]), 6);
	assert_int_equal(r->rings[0].state->nr_held, 0);
	stop(r);
}

/* ---- when the contract changes ------------------------------------------- */

static void a_bound_that_is_lifted_lets_them_go(void **state)
{
	struct rig *r = start_held();

	(void)state;
	put_under(r, "{" TENANTS "}", 1);
	rig_settle(r);
	assert_int_equal(r->rings[0].state->nr_posted, 6);
	stop(r);
}

static void a_bound_that_is_raised_lets_some_go(void **state)
{
	struct rig *r = start_held();

	(void)state;
	put_under(r, QOS("\"max_inflight_requests\":4"), 1);
	poller_turn(r->poller);
	assert_int_equal(r->rings[0].state->nr_posted, 4);
	stop(r);
}

static void one_that_fits_no_more_fails(void **state)
{
	struct rig *r = start_held();

	(void)state;
	put_under(r, QOS("\"max_inflight_bytes\":63"), 1);
	poller_turn(r->poller);
	expect_ends(r, TENT_STATUS_FAILED);
	stop(r);
}

/* rig_stop() checks that each one that was admitted has ended; stop(), that none is counted
 * any more. */
static void every_request_ends_once_and_is_counted_off(void **state)
{
	static const char *const contracts[] = {
		QOS("\"max_inflight_requests\":3"), QOS("\"max_inflight_bytes\":9000"),
		QOS("\"max_inflight_requests\":3,\"allowed_degraded_actions\":[]"),
		"{" TENANTS "}",
	};

	(void)state;
	for (uint64_t seed = 1, from = 1; from <= 20; seed = ++from) {
		struct rig *r = start("busy=3,more=4,pending=5,fail=7", contracts[from % 4]);

		for (int i = 0; i < 80; i++) {
			struct rig_ring *ring = &r->rings[random_next(&seed) % RIG_RINGS];

			if (ring->state->in_flight < 200)
				publish(ring, random_next(&seed) % 2 ? TENT_INTENT_MIGRATION : 0,
					1 + random_next(&seed) % 10, random_next(&seed) % 9000);
			if (random_next(&seed) % 2)
				poller_turn(r->poller);
			if (random_next(&seed) % 16 == 0)
				put_under(r, contracts[random_next(&seed) % 4],
					  1 + random_next(&seed) % 2);
			for (uint32_t k = 0; k < RIG_RINGS; k++)
				rig_reap_all(&r->rings[k]);
		}
		stop(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_requests_than_the_bound_are_in_flight),
		cmocka_unit_test(no_more_bytes_than_the_bound_are_in_flight),
		cmocka_unit_test(a_batch_of_one_is_bound_too),
		cmocka_unit_test(all_rings_of_a_tenant_share_its_bound),
		cmocka_unit_test(another_tenant_is_not_held_by_it),
		cmocka_unit_test(another_intent_is_not_held_by_it),
		cmocka_unit_test(what_another_poller_has_in_flight_counts),
		cmocka_unit_test(of_those_that_are_held_the_higher_level_goes_first),
		cmocka_unit_test(who_comes_later_does_not_pass_one_that_is_held),
		cmocka_unit_test(what_would_never_fit_is_refused_with_its_batch),
		cmocka_unit_test(where_delay_is_not_allowed_it_fails_at_once),
		cmocka_unit_test(where_delay_is_allowed_it_waits),
		cmocka_unit_test(a_held_one_can_be_canceled),
		cmocka_unit_test(a_held_one_times_out),
		cmocka_unit_test(a_ring_that_ends_takes_its_held_ones_along),
		cmocka_unit_test(a_region_that_goes_ends_the_held_ones_that_name_it),
		cmocka_unit_test(a_bound_that_is_lifted_lets_them_go),
		cmocka_unit_test(a_bound_that_is_raised_lets_some_go),
		cmocka_unit_test(one_that_fits_no_more_fails),
		cmocka_unit_test(every_request_ends_once_and_is_counted_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
