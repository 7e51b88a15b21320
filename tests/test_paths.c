/* SPDX-License-Identifier: Apache-2.0 */
/* test_paths.c - paths that failed are paused, tried after a time, and used again. */
#include "engine/paths.h"
#include "ring/clock.h"
#include "tests/test_failover_fix.h"

#define A TENT_TRANSPORT_TCP
#define B TENT_TRANSPORT_SHM
#define WINDOW 1000u	/* ticks */
#define PAUSE 100u
#define PAUSE_MAX 350u

static struct far_end far_away = { .epoch = 77 };
static struct region there = { .far = &far_away }, here;

static void begin(struct paths *p)
{
	*p = (struct paths){ .errors = 3, .window = WINDOW, .pause = PAUSE,
			     .pause_max = PAUSE_MAX };
}

static struct transfer by(uint8_t transport, struct region *remote, uint64_t seen)
{
	return (struct transfer){ .transport = transport, .remote = remote,
				  .seen_ticks = seen };
}

static bool admits(struct paths *p, uint8_t transport, struct region *remote, uint64_t seen,
		   uint64_t now)
{
	struct transfer t = by(transport, remote, seen);
	bool admitted = paths_admit(p, transport, &t, now);

	if (!admitted)
		assert_int_equal(t.flags, 0);
	return admitted;
}

static bool fails(struct paths *p, uint8_t transport, struct region *remote, uint64_t now)
{
	struct transfer t = by(transport, remote, 1);

	return paths_failed(p, &t, now);
}

static void pause_it(struct paths *p, uint64_t now)
{
	begin(p);
	assert_false(fails(p, A, &there, now));
	assert_false(fails(p, A, &there, now));
	assert_true(fails(p, A, &there, now));
}

/* The batch that tries it: fails or works. True: something changed. */
static bool probe(struct paths *p, uint64_t seen, uint64_t now, bool works)
{
	struct transfer t = by(A, &there, seen);

	assert_true(paths_admit(p, A, &t, now));
	assert_int_equal(t.flags, TRANSFER_F_PROBE);
	return works ? paths_worked(p, &t) : paths_failed(p, &t, now);
}

static void so_many_failures_within_the_window_pause_it(void **state)
{
	struct paths p;

	(void)state;
	begin(&p);
	assert_false(fails(&p, A, &there, 10));
	assert_false(fails(&p, A, &there, 20));
	assert_false(fails(&p, A, &there, 11 + WINDOW));	/* a new window */
	assert_false(fails(&p, A, &there, 12 + WINDOW));
	assert_int_equal(p.nr_paused, 0);
	assert_true(fails(&p, A, &there, 11 + 2 * WINDOW));
	assert_int_equal(p.nr_paused, 1);
	assert_false(admits(&p, A, &there, 5, 12 + 2 * WINDOW));
}

static void another_engine_or_transport_is_another_path(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	assert_false(admits(&p, A, &there, 5, 11));
	assert_true(admits(&p, B, &there, 5, 11));
	assert_true(admits(&p, A, &here, 5, 11));
}

static void after_the_pause_one_batch_tries_it_and_no_other(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	assert_false(admits(&p, A, &there, 5, 9 + PAUSE));
	assert_true(admits(&p, A, &there, 6, 10 + PAUSE));
	assert_true(admits(&p, A, &there, 6, 11 + PAUSE));
	assert_false(admits(&p, A, &there, 7, 11 + PAUSE));
}

static void a_probe_that_works_lets_everybody_in(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	assert_true(probe(&p, 6, 10 + PAUSE, true));
	assert_int_equal(p.nr_paused, 0);
	assert_true(admits(&p, A, &there, 7, 11 + PAUSE));
	/* and it is as if nothing had been */
	assert_false(fails(&p, A, &there, 12 + PAUSE));
	assert_int_equal(p.nr_paused, 0);
}

static void a_probe_that_fails_doubles_the_pause_up_to_its_bound(void **state)
{
	static const uint64_t pauses[] = { PAUSE, 2 * PAUSE, PAUSE_MAX, PAUSE_MAX };
	uint64_t now = 10;
	struct paths p;

	(void)state;
	pause_it(&p, now);
	for (uint64_t i = 0; i < 4; i++) {
		assert_false(admits(&p, A, &there, 100 + i, now + pauses[i] - 1));
		now += pauses[i];
		assert_true(probe(&p, 200 + i, now, false));
		assert_int_equal(p.nr_paused, 1);
	}
}

static void what_was_under_way_does_not_make_it_longer(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	for (uint64_t i = 0; i < 10; i++)
		assert_false(fails(&p, A, &there, 10 + i));
	assert_true(admits(&p, A, &there, 6, 10 + PAUSE));
}

static void a_batch_that_never_ends_is_followed_by_another(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	assert_true(admits(&p, A, &there, 6, 10 + PAUSE));
	assert_false(admits(&p, A, &there, 7, 9 + 2 * PAUSE));
	assert_true(admits(&p, A, &there, 8, 10 + 2 * PAUSE));
	assert_false(admits(&p, A, &there, 6, 11 + 2 * PAUSE));
}

static void who_only_asks_tries_nothing(void **state)
{
	struct paths p;

	(void)state;
	pause_it(&p, 10);
	assert_false(admits(&p, A, &there, 0, 9 + PAUSE));
	assert_true(admits(&p, A, &there, 0, 10 + PAUSE));
	assert_true(admits(&p, A, &there, 6, 10 + PAUSE));	/* is the first */
	assert_false(admits(&p, A, &there, 0, 11 + PAUSE));
}

static void with_a_threshold_of_none_nothing_is_paused(void **state)
{
	struct paths p;

	(void)state;
	begin(&p);
	p.errors = 0;
	for (uint64_t i = 0; i < 100; i++)
		assert_false(fails(&p, A, &there, 10));
	assert_true(admits(&p, A, &there, 5, 10));
}

static void more_paths_than_places_leave_the_count_right(void **state)
{
	static struct far_end ends[3 * PATHS_MAX];
	static struct region regions[3 * PATHS_MAX];
	struct paths p;

	(void)state;
	begin(&p);
	p.errors = 1;
	for (uint32_t i = 0; i < 3 * PATHS_MAX; i++) {
		ends[i].epoch = i + 1;
		regions[i].far = &ends[i];
		assert_true(fails(&p, A, &regions[i], 10 + i));
		assert_int_equal(p.nr_paused, i < PATHS_MAX ? i + 1 : PATHS_MAX);
		assert_false(admits(&p, A, &regions[i], 5, 10 + i));
	}
}

/* ---- in a poller ----------------------------------------------------------- */

static struct rig *start_pausing(const struct rig_backend *list, uint64_t pause_ns)
{
	struct rig_options o = {
		.backends = { list[0], list[1] },
		.poller = {
			.core = -1, .spin_ns = 50000, .turn_slots = 16, .turn_bytes = 65536,
			.answer_fd = -1, .event_fd = -1, .failover_attempts = 3,
			.path_errors = 2, .path_window_ns = HOUR_NS,
			.path_pause_ns = pause_ns, .path_pause_max_ns = HOUR_NS,
		},
	};

	return rig_new(&o);
}

static void what_is_paused_is_passed_by(void **state)
{
	struct rig *r = start_pausing((const struct rig_backend[]){
		{ scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" } }, HOUR_NS);
	struct tent_completion c;

	(void)state;
	for (int i = 0; i < 2; i++) {
		c = write_one(r);
		expect_over(&c, SECOND, NULLS, 2);
	}
	assert_int_equal(r->poller->stats.pauses, 1);
	assert_int_equal(script.posts, 2);
	for (int i = 0; i < 5; i++) {
		c = write_one(r);
		assert_int_equal(c.transport, NULLS);
		assert_int_equal(c.attempts, 1);
		assert_int_equal(c.flags, 0);
	}
	assert_int_equal(script.posts, 2);
	rig_stop(r);
}

static void a_hint_is_obeyed_all_the_same(void **state)
{
	struct rig *r = start_pausing((const struct rig_backend[]){
		{ scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" } }, HOUR_NS);
	struct tent_completion c;

	(void)state;
	for (int i = 0; i < 3; i++)
		write_one(r);
	c = move(r, TENT_OPCODE_WRITE, SECOND);
	expect_over(&c, SECOND, NULLS, 2);
	rig_stop(r);
}

static void where_there_is_no_other_way_a_paused_one_is_used(void **state)
{
	struct rig *r = start_pausing((const struct rig_backend[]){
		{ scripted(TENT_RULE_PEER_LOST), "" } , { NULL, NULL } }, HOUR_NS);
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 1; i < 6; i++) {
		c = write_one(r);
		expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_PEER_LOST, SECOND, 1);
		assert_int_equal(script.posts, i);
	}
	rig_stop(r);
}

static void it_is_tried_and_used_again(void **state)
{
	struct rig *r = start_pausing((const struct rig_backend[]){
		{ scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" } }, 1);
	struct tent_completion c;

	(void)state;
	for (int i = 0; i < 5; i++) {	/* from the third on as a probe */
		c = write_one(r);
		expect_over(&c, SECOND, NULLS, 2);
		assert_int_equal(r->poller->stats.pauses, i);
		assert_int_equal(!r->poller->planner.mapped, i > 0);
	}
	script.rule = 0;
	c = write_one(r);
	assert_int_equal(c.transport, SECOND);
	assert_int_equal(c.flags, 0);
	assert_int_equal(r->poller->paths.nr_paused, 0);
	assert_ptr_equal(r->poller->planner.mapped, r->queues[0]);
	rig_stop(r);
}

static void what_a_client_can_bring_about_pauses_nothing(void **state)
{
	static const uint16_t rules[] = {
		TENT_RULE_INTEGRITY, TENT_RULE_FILE_IO, TENT_RULE_TRANSPORT_REACH,
		TENT_RULE_COPY_FAULT, TENT_RULE_TARGET_GONE,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct rig *r = start_pausing((const struct rig_backend[]){
			{ scripted(rules[i]), "" }, { &null_backend, "" } }, HOUR_NS);

		for (int k = 0; k < 5; k++)
			write_one(r);
		assert_int_equal(script.posts, 5);
		assert_int_equal(r->poller->stats.pauses, 0);
		rig_stop(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_failures_within_the_window_pause_it),
		cmocka_unit_test(another_engine_or_transport_is_another_path),
		cmocka_unit_test(after_the_pause_one_batch_tries_it_and_no_other),
		cmocka_unit_test(a_probe_that_works_lets_everybody_in),
		cmocka_unit_test(a_probe_that_fails_doubles_the_pause_up_to_its_bound),
		cmocka_unit_test(what_was_under_way_does_not_make_it_longer),
		cmocka_unit_test(a_batch_that_never_ends_is_followed_by_another),
		cmocka_unit_test(who_only_asks_tries_nothing),
		cmocka_unit_test(with_a_threshold_of_none_nothing_is_paused),
		cmocka_unit_test(more_paths_than_places_leave_the_count_right),
		cmocka_unit_test(what_is_paused_is_passed_by),
		cmocka_unit_test(a_hint_is_obeyed_all_the_same),
		cmocka_unit_test(where_there_is_no_other_way_a_paused_one_is_used),
		cmocka_unit_test(it_is_tried_and_used_again),
		cmocka_unit_test(what_a_client_can_bring_about_pauses_nothing),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
