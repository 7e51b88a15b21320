/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract_reload.c - contracts are replaced while an engine runs, under load. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/test_contract_fix.h"

/* ---- reload ------------------------------------------------------------- */

#define RELOADS 300
#define BATCH 16u

struct load {
	struct engine_fix *f;
	uint32_t stop, batches;		/* no pairs */
};

/* Batches that one set takes as they are and the other refuses. */
static void *submit_all_the_time(void *context)
{
	struct load *l = context;
	struct tent_client *c = engine_fix_attach(l->f, NULL);
	struct tent_ring *ring = engine_fix_ring(c);
	uint8_t *m = engine_fix_memory(c, 8192);
	struct tent_request_v1 r[BATCH];

	for (uint32_t i = 0; i < BATCH; i++) {
		r[i] = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
		r[i].policy_name = i % 2 ? "gold" : NULL;
	}
	while (!load_relaxed(&l->stop)) {
		uint32_t credits = 0;

		assert_int_equal(tent_ring_submit(ring, r, BATCH, sizeof(r[0]), 0, 0), 0);
		while (credits < BATCH) {
			struct tent_completion done = engine_fix_wait(ring);

			credits += done.credits;
			if (done.rule)
				assert_int_equal(done.rule, TENT_RULE_POLICY_DENIED);
		}
		assert_int_equal(credits, BATCH);
		store_relaxed(&l->batches, l->batches + 1);
	}
	tent_ring_close(ring);
	tent_client_detach(c);
	return NULL;
}

static void no_batch_is_lost_while_contracts_are_replaced(void **state)
{
	static struct engine_config c[2];
	struct engine_fix f;
	struct load l = { .f = &f };
	pthread_t thread;
	struct tent_client *observer;

	(void)state;
	engine_fix_start(&f, under_sets_0);
	for (int i = 0; i < 2; i++) {
		engine_config_default(&c[i]);
		apply(&c[i], sets[i]);
	}
	assert_int_equal(pthread_create(&thread, NULL, submit_all_the_time, &l), 0);
	observer = engine_fix_attach(&f, NULL);
	while (!load_relaxed(&l.batches))
		sched_yield();
	for (int i = 0; i <= RELOADS; i++) {
		char *text;

		assert_int_equal(engine_reload(f.engine, &c[i % 2], "", 0), 0);
		/* the control thread has passed it once it answers this */
		assert_int_equal(tent_client_query(observer, TENT_QUERY_STATS, &text), 0);
		free(text);
	}
	store_relaxed(&l.stop, 1u);
	pthread_join(thread, NULL);
	tent_client_detach(observer);
	assert_int_equal(move_named(&f, "gold"), 0);	/* the last one: set 0 */
	assert_int_equal(engine_reload(f.engine, &c[1], "", 0), 0);
	assert_int_equal(-move_named(&f, "gold"), TENT_RULE_POLICY_DENIED);
	engine_fix_stop(&f);
}

/* A new contract may lie where the one before the last lay. */
static void who_was_idle_through_several_reloads_goes_by_the_last(void **state)
{
	static const char *const texts[] = {
		"{\"policy\":[{\"name\":\"any\"}]}", "{\"policy\":[{\"name\":\"all\"}]}",
		"{\"policy\":[{\"name\":\"far\",\"transports\":[\"tcp\"]}]}",
	};
	static struct engine_config c[3];
	struct tent_client *idle, *observer;
	struct tent_request_v1 r;
	struct tent_ring *ring;
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, under_sets_0);
	idle = engine_fix_attach(&f, NULL);
	observer = engine_fix_attach(&f, NULL);
	ring = engine_fix_ring(idle);
	r.source = engine_fix_memory(idle, 8192);
	r = engine_fix_request(TENT_OPCODE_WRITE, r.source, 0, (uint8_t *)r.source + 4096, 64);
	for (int i = 0; i < 30; i++) {
		char *text;

		engine_config_default(&c[i % 3]);
		apply(&c[i % 3], texts[i % 3]);
		assert_int_equal(engine_reload(f.engine, &c[i % 3], "", 0), 0);
		assert_int_equal(tent_client_query(observer, TENT_QUERY_STATS, &text), 0);
		free(text);
		if (i % 3 == 1)
			continue;
		for (int again = 0; again < 3; again++) {	/* the first leaves hints */
			engine_fix_submit(ring, &r);
			assert_int_equal(!engine_fix_wait(ring).rule, i % 3 == 0);
		}
	}
	tent_ring_close(ring);
	tent_client_detach(idle);
	tent_client_detach(observer);
	engine_fix_stop(&f);
}

static void a_reload_may_bring_contracts_and_take_them_away(void **state)
{
	static struct engine_config c;
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, NULL);
	assert_int_equal(-move_named(&f, "gold"), TENT_RULE_POLICY_UNKNOWN);
	engine_config_default(&c);
	apply(&c, sets[0]);
	assert_int_equal(engine_reload(f.engine, &c, "", 0), 0);
	assert_int_equal(move_named(&f, "gold"), 0);
	engine_config_default(&c);
	assert_int_equal(engine_reload(f.engine, &c, "", 0), 0);
	assert_int_equal(-move_named(&f, "gold"), TENT_RULE_POLICY_UNKNOWN);
	engine_fix_stop(&f);
}

static void a_programs_own_engine_is_not_reloaded(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	char *text;

	(void)state;
	engine_fix_start(&f, NULL);
	c = engine_fix_attach(&f, NULL);
	assert_int_equal(tent_client_query(c, TENT_QUERY_RELOAD, &text), TENT_ERR_UNSUPPORTED);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_batch_is_lost_while_contracts_are_replaced),
		cmocka_unit_test(who_was_idle_through_several_reloads_goes_by_the_last),
		cmocka_unit_test(a_reload_may_bring_contracts_and_take_them_away),
		cmocka_unit_test(a_programs_own_engine_is_not_reloaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
