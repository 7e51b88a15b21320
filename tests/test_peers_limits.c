/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers_limits.c - what one user may have of other engines. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/wire.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define STRANGER 65534u

static struct engine_fix one, two, three;

static void few(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "limits/far_segments_per_tenant", "3");
	wire_set(c, "limits/far_buffers_per_tenant", "10");
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&one, few);
	engine_fix_start(&two, wire_tune);
	engine_fix_start(&three, wire_tune);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&three);
	engine_fix_stop(&two);
	engine_fix_stop(&one);
	return 0;
}

static void expect_limit(const char *key)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	assert_int_equal(info.rule, TENT_RULE_MEM_LIMIT);
	if (!strstr(info.message, key))
		fail_msg("\"%s\" does not name %s", info.message, key);
}

struct owners {
	struct tent_client *clients[4];
	const char *names[4];
};

static void owners_attach(struct owners *o)
{
	static const char *const texts[] = { "a", "b", "c", "d" };

	for (size_t i = 0; i < NR(texts); i++) {
		o->clients[i] = engine_fix_attach(i < 2 ? &two : &three, texts[i]);
		o->names[i] = tent_client_segment(o->clients[i]);
	}
}

static void owners_detach(struct owners *o)
{
	for (size_t i = 0; i < NR(o->clients); i++)
		tent_client_detach(o->clients[i]);
}

static void the_limit_on_segments_holds_for_a_user_and_room_comes_back(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL), *d = engine_fix_attach(&one, NULL);
	tent_segment_id_t ids[4];
	struct owners o;

	(void)state;
	owners_attach(&o);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(far_rule_of_open(i % 2 ? c : d, o.names[i], &ids[i]), 0);
		assert_int_equal(far_rule_of_open(d, o.names[0], &ids[3]), 0);	/* open already */
		assert_int_equal(far_rule_of_open(c, o.names[3], &ids[3]), TENT_RULE_MEM_LIMIT);
		expect_limit("limits/far_segments_per_tenant");
		assert_int_equal(tent_client_close_segment(c, ids[1]), 0);
		assert_int_equal(far_rule_of_open(c, o.names[3], &ids[3]), 0);
		assert_int_equal(tent_client_close_segment(c, ids[3]), 0);
		assert_int_equal(tent_client_close_segment(d, ids[0]), 0);
		assert_int_equal(tent_client_close_segment(d, ids[2]), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(far_rule_of_open(d, o.names[i], &ids[i]), 0);
	tent_client_detach(d);		/* leaves without closing */
	for (int i = 1; i < 4; i++)
		while (far_rule_of_open(c, o.names[i], &ids[i]))	/* once its end was seen */
			expect_limit("limits/far_segments_per_tenant");
	tent_client_detach(c);
	owners_detach(&o);
}

static void opens_that_fail_take_no_room(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL);
	tent_segment_id_t ids[3];
	char name[TENT_CTL_NAME_SIZE];
	struct owners o;

	(void)state;
	owners_attach(&o);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "127.0.0.1:%d/x", 1 + i % 5);
		assert_int_equal(far_rule_of_open(c, name, ids), TENT_RULE_SEGMENT_UNKNOWN);
		snprintf(name, sizeof(name), "%s%d", o.names[i % 4], i);
		assert_int_equal(far_rule_of_open(c, name, ids), TENT_RULE_SEGMENT_UNKNOWN);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(far_rule_of_open(c, o.names[i], &ids[i]), 0);
	tent_client_detach(c);
	owners_detach(&o);
}

static int opens_two_of_its_own(struct engine_fix *f)
{
	struct tent_client *c, *a, *b;
	tent_segment_id_t id;

	need(tent_client_attach(two.path, "his", &a) == 0);
	need(tent_client_attach(three.path, "his", &b) == 0);
	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_open_segment(c, tent_client_segment(a), &id) == 0);
	need(tent_client_open_segment(c, tent_client_segment(b), &id) == 0);
	return 0;
}

static void one_user_at_his_limit_leaves_the_others_room(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL);
	tent_segment_id_t ids[4];
	struct owners o;

	(void)state;
	owners_attach(&o);
	for (int i = 0; i < 3; i++)
		assert_int_equal(far_rule_of_open(c, o.names[i], &ids[i]), 0);
	assert_int_equal(far_rule_of_open(c, o.names[3], &ids[3]), TENT_RULE_MEM_LIMIT);
	assert_int_equal(engine_fix_child(&one, STRANGER, opens_two_of_its_own), 0);
	tent_client_detach(c);
	owners_detach(&o);
}

/* Whose owner has gone stays a burden until its handle is closed. */
static void segments_that_are_gone_count_until_they_are_closed(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL), *owner;
	tent_segment_id_t ids[3], id;
	tent_segment_info_t info;

	(void)state;
	for (int i = 0; i < 3; i++) {
		owner = engine_fix_attach(&two, "kv");
		assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &ids[i]), 0);
		tent_client_detach(owner);
		while (tent_client_segment_info(c, ids[i], &info) == 0)
			free(info.buffers);
	}
	owner = engine_fix_attach(&two, "kv");
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), TENT_RULE_MEM_LIMIT);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tent_client_close_segment(c, ids[i]), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), 0);
	tent_client_detach(owner);
	tent_client_detach(c);
}

static void the_limit_on_buffers_holds_and_room_comes_back(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL), *owner, *other;
	tent_segment_id_t id, far;
	uint8_t *memory;

	(void)state;
	owner = engine_fix_attach(&two, "kv");
	other = engine_fix_attach(&three, "kv");
	assert_int_equal(tent_client_alloc(owner, 16 * 4096, "*", (void **)&memory), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(tent_client_register(owner, memory + i * 4096, 4096,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), 0);
	far = far_open_it(c, tent_client_segment(other));	/* it has none */
	assert_int_equal(tent_client_close_segment(c, far), 0);
	engine_fix_memory(other, 4096);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(other), &far),
			 TENT_RULE_MEM_LIMIT);
	expect_limit("limits/far_buffers_per_tenant");
	assert_int_equal(tent_client_close_segment(c, id), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(other), &far), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), TENT_RULE_MEM_LIMIT);
	assert_int_equal(tent_client_unregister(owner, memory, 4096), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), 0);
	tent_client_detach(c);
	tent_client_detach(owner);
	tent_client_detach(other);
}

/* What grows while it is open: lost, until it fits again. */
static void a_segment_that_outgrows_the_limit_is_lost_until_it_fits(void **state)
{
	struct tent_client *c = engine_fix_attach(&one, NULL), *owner;
	tent_segment_id_t id;
	uint8_t *memory;

	(void)state;
	owner = engine_fix_attach(&two, "kv");
	assert_int_equal(tent_client_alloc(owner, 16 * 4096, "*", (void **)&memory), 0);
	assert_int_equal(far_rule_of_open(c, tent_client_segment(owner), &id), 0);
	for (int i = 0; i < 11; i++)
		assert_int_equal(tent_client_register(owner, memory + i * 4096, 4096,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	while (far_buffers(c, id) != -TENT_RULE_TARGET_PEER)
		usleep(1000);
	assert_int_equal(tent_client_unregister(owner, memory, 4096), 0);
	while (far_buffers(c, id) != 10)
		usleep(1000);
	tent_client_detach(c);
	tent_client_detach(owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_on_segments_holds_for_a_user_and_room_comes_back),
		cmocka_unit_test(opens_that_fail_take_no_room),
		cmocka_unit_test(one_user_at_his_limit_leaves_the_others_room),
		cmocka_unit_test(segments_that_are_gone_count_until_they_are_closed),
		cmocka_unit_test(the_limit_on_buffers_holds_and_room_comes_back),
		cmocka_unit_test(a_segment_that_outgrows_the_limit_is_lost_until_it_fits),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
