/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers.c - two engines that open each other's segments over TCP. */
#define _GNU_SOURCE
#include <jansson.h>
#include <pthread.h>
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

#define OWNER_FDS 8	/* of a client with memory, at most */

static struct engine_fix one, two;
static char shared_name[TENT_CTL_NAME_SIZE];	/* what children and threads open */

static void patient(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");	/* nobody is silent, however slow */
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&one, patient);
	engine_fix_start(&two, patient);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&two);
	engine_fix_stop(&one);
	return 0;
}

/* The rule that one request ends with. */
static uint32_t rule_of_move(struct tent_client *c, int opcode, const void *source,
			     tent_segment_id_t id, const void *target)
{
	struct tent_ring *ring = engine_fix_ring(c);
	struct tent_completion done = engine_fix_move(ring, opcode, source, id, target, 64);

	tent_ring_close(ring);
	return done.status == TENT_STATUS_COMPLETED ? 0 : (uint32_t)-done.error;
}

/* ---- two engines ------------------------------------------------------- */

static void a_segment_of_another_engine_opens_with_its_buffers(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "store"), *user;
	uint8_t *memory = engine_fix_memory(owner, 8192);
	tent_segment_id_t id, again;
	tent_segment_info_t info;

	(void)state;
	user = engine_fix_attach(&one, "user");
	id = far_open_it(user, tent_client_segment(owner));
	assert_int_not_equal(id, 0);
	again = far_open_it(user, tent_client_segment(owner));
	assert_int_equal(id, again);
	assert_int_equal(tent_client_segment_info(user, id, &info), 0);
	assert_int_equal(info.num_buffers, 1);
	assert_true(info.buffers[0].base == (uintptr_t)memory);
	assert_int_equal(info.buffers[0].length, 8192);
	free(info.buffers);
	tent_client_detach(user);
	tent_client_detach(owner);
}

static void no_tcp(struct engine_config *c)
{
	patient(c);
	wire_set(c, "transports/tcp/enable", "false");
}

/* One that moves no bytes for others still tells what it has. */
static void requests_to_it_are_judged_and_find_no_transport(void **state)
{
	struct engine_fix mute;
	struct tent_client *owner, *user;
	uint8_t *memory, *mine;
	tent_segment_id_t id;

	(void)state;
	engine_fix_start(&mute, no_tcp);
	owner = engine_fix_attach(&mute, "store");
	memory = engine_fix_memory(owner, 8192);
	user = engine_fix_attach(&one, "user");
	mine = engine_fix_memory(user, 4096);
	id = far_open_it(user, tent_client_segment(owner));
	assert_int_equal(rule_of_move(user, TENT_OPCODE_WRITE, mine, id, memory),
			 (uint32_t)-TENT_ERR_TRANSPORT);
	assert_int_equal(rule_of_move(user, TENT_OPCODE_WRITE, mine, id, memory + 8192),
			 (uint32_t)-TENT_ERR_ADDRESS);
	tent_client_detach(user);
	tent_client_detach(owner);
	engine_fix_stop(&mute);
}

static void changes_reach_those_who_have_it_open(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "store"), *user;
	static uint8_t *memory[700];
	uint8_t *base;
	tent_segment_id_t id;

	(void)state;
	user = engine_fix_attach(&one, "user");
	id = far_open_it(user, tent_client_segment(owner));
	assert_int_equal(far_buffers(user, id), 0);
	assert_int_equal(tent_client_alloc(owner, sizeof(memory) * 512, "*", (void **)&base), 0);
	for (size_t i = 0; i < NR(memory); i++) {	/* several pages of them */
		memory[i] = base + i * 4096;
		assert_int_equal(tent_client_register(owner, memory[i], 4096,
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	}
	far_expect_buffers(user, id, (int)NR(memory));
	for (size_t i = 0; i < NR(memory); i += 2)
		assert_int_equal(tent_client_unregister(owner, memory[i], 4096), 0);
	far_expect_buffers(user, id, (int)NR(memory) / 2);
	tent_client_detach(user);
	tent_client_detach(owner);
}

static void an_owner_that_ends_is_gone_and_its_successor_is_another(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "store"), *user;
	tent_segment_id_t id, next;
	char name[TENT_CTL_NAME_SIZE];

	(void)state;
	strcpy(name, tent_client_segment(owner));
	engine_fix_memory(owner, 4096);
	user = engine_fix_attach(&one, "user");
	id = far_open_it(user, name);
	tent_client_detach(owner);
	far_expect_buffers(user, id, -TENT_RULE_TARGET_GONE);
	assert_int_equal(far_rule_of_open(user, name, &next), TENT_RULE_SEGMENT_UNKNOWN);
	owner = engine_fix_attach(&two, "store");
	next = far_open_it(user, name);
	assert_int_not_equal(next, id);
	assert_int_equal(far_buffers(user, next), 0);
	assert_int_equal(far_buffers(user, id), -TENT_RULE_TARGET_GONE);
	tent_client_detach(user);
	tent_client_detach(owner);
}

static int opens_a_strangers(struct engine_fix *f)
{
	struct tent_client *c;
	tent_segment_id_t id;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	return tent_client_open_segment(c, shared_name, &id) == TENT_ERR_POLICY_DENIED ? 0 : 1;
}

static void another_users_segment_is_refused_from_afar_too(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "mine");

	(void)state;
	strcpy(shared_name, tent_client_segment(owner));
	assert_int_equal(engine_fix_child(&one, 65534, opens_a_strangers), 0);
	tent_client_detach(owner);
}

/* ---- what a contract shares with users of another engine ------------------ */

#define GUEST 65534u
#define OTHER 65533u

static void sharing(struct engine_config *c)
{
	static struct config_report said;
	static const char text[] =
		"{\"authorization\":{\"tenants\":["
		"{\"name\":\"owner\",\"uids\":[0],\"shares_with\":[\"guest\"]},"
		"{\"name\":\"guest\",\"uids\":[65534]},"
		"{\"name\":\"other\",\"uids\":[65533]}]}}";

	patient(c);
	if (engine_config_apply_json(c, text, &said))
		fail_msg("%s", said.error);
}

/* Reads what is shared from afar; the owner's permission keeps it from writing. */
static int uses_what_is_shared(struct engine_fix *f)
{
	static const int32_t ends[] = { 0, -TENT_ERR_ADDRESS };	/* of READ, WRITE */
	struct tent_client *c;
	tent_segment_info_t info;
	tent_segment_id_t id;
	void *m;

	need(tent_client_attach(f->path, "guest", &c) == 0);
	need(tent_client_alloc(c, 4096, NULL, &m) == 0);
	need(tent_client_register(c, m, 4096, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0) == 0);
	need(tent_client_open_segment(c, shared_name, &id) == 0);
	need(tent_client_segment_info(c, id, &info) == 0 && info.num_buffers == 1);
	for (int op = TENT_OPCODE_READ; op <= TENT_OPCODE_WRITE; op++)
		need(rule_of_move(c, op, m, id, (void *)(uintptr_t)info.buffers[0].base) ==
		     (uint32_t)ends[op]);
	need(memcmp(m, "shared", 6) == 0);
	tent_client_detach(c);
	return 0;
}

static void a_contract_shares_with_whom_it_lists_at_another_engine(void **state)
{
	static struct engine_fix three;
	struct tent_client *owner;
	void *m;

	(void)state;
	if (getuid())
		skip();		/* becomes other users */
	engine_fix_start(&three, sharing);
	owner = engine_fix_attach(&three, "shared");
	assert_int_equal(tent_client_alloc(owner, 4096, NULL, &m), 0);
	strcpy(m, "shared");
	assert_int_equal(tent_client_register(owner, m, 4096, TENT_PERM_GLOBAL_READ_ONLY, NULL,
					      0), 0);
	strcpy(shared_name, tent_client_segment(owner));
	assert_int_equal(engine_fix_child(&one, GUEST, uses_what_is_shared), 0);
	assert_int_equal(engine_fix_child(&one, OTHER, opens_a_strangers), 0);
	tent_client_detach(owner);
	engine_fix_stop(&three);
}

static void both_sides_open_each_other_at_once(void **state)
{
	struct tent_client *a = engine_fix_attach(&one, "a"), *b = engine_fix_attach(&two, "b");
	char name_a[TENT_CTL_NAME_SIZE], name_b[TENT_CTL_NAME_SIZE];

	(void)state;
	strcpy(name_a, tent_client_segment(a));
	strcpy(name_b, tent_client_segment(b));
	for (int i = 0; i < 50; i++) {
		tent_segment_id_t x = far_open_it(a, name_b), y = far_open_it(b, name_a);

		assert_int_equal(tent_client_close_segment(a, x), 0);
		assert_int_equal(tent_client_close_segment(b, y), 0);
	}
	tent_client_detach(a);
	tent_client_detach(b);
}

static void *open_and_leave(void *arg)
{
	struct tent_client *c = NULL;
	tent_segment_id_t id;

	(void)arg;
	if (tent_client_attach(one.path, NULL, &c) ||
	    tent_client_open_segment(c, shared_name, &id))
		return c;
	tent_client_detach(c);
	return NULL;
}

static void many_clients_open_one_segment_at_once(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "shared");
	pthread_t threads[40];

	(void)state;
	strcpy(shared_name, tent_client_segment(owner));
	for (size_t i = 0; i < NR(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_leave, NULL), 0);
	for (size_t i = 0; i < NR(threads); i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	tent_client_detach(owner);
}

static void a_host_name_is_looked_up(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "store"), *user;
	struct engine_address a = wire_address(&two);
	char name[TENT_CTL_NAME_SIZE];
	tent_segment_id_t id;

	(void)state;
	user = engine_fix_attach(&one, NULL);
	snprintf(name, sizeof(name), "localhost:%u/store", a.port);
	far_open_it(user, name);
	snprintf(name, sizeof(name), "no-such-host.invalid:%u/store", a.port);
	assert_int_equal(far_rule_of_open(user, name, &id), TENT_RULE_SEGMENT_UNKNOWN);
	tent_client_detach(user);
	tent_client_detach(owner);
}

static void an_engine_that_is_not_there_is_an_error_at_once(void **state)
{
	struct tent_client *user = engine_fix_attach(&one, NULL);
	tent_segment_id_t id;

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(far_rule_of_open(user, "127.0.0.1:9/x", &id),
				 TENT_RULE_SEGMENT_UNKNOWN);
	assert_int_equal(far_rule_of_open(user, "127.0.0.1:0/x", &id), TENT_RULE_SEGMENT_UNKNOWN);
	tent_client_detach(user);
}

/* ---- an engine that restarts ------------------------------------------- */

static char restart_port[8];

static void on_that_port(struct engine_config *c)
{
	patient(c);
	if (*restart_port)
		wire_set(c, "rpc_server_port", restart_port);
}

/* Its owner leaves after it: what he has open is not its. */
static void stop_under(struct engine_fix *f, struct tent_client *owner)
{
	f->fds += OWNER_FDS;
	engine_fix_stop(f);
	tent_client_detach(owner);
}

static void a_restarted_engine_is_another_and_the_old_memory_is_gone(void **state)
{
	struct tent_client *user = engine_fix_attach(&one, NULL), *owner;
	char name[TENT_CTL_NAME_SIZE];
	struct engine_fix third;
	tent_segment_id_t id, next;
	uint8_t *mine = engine_fix_memory(user, 4096), *memory;

	(void)state;
	*restart_port = '\0';
	engine_fix_start(&third, on_that_port);
	snprintf(restart_port, sizeof(restart_port), "%u", wire_address(&third).port);
	owner = engine_fix_attach(&third, "kv");
	memory = engine_fix_memory(owner, 4096);
	strcpy(name, tent_client_segment(owner));
	id = far_open_it(user, name);
	stop_under(&third, owner);
	far_expect_buffers(user, id, -TENT_RULE_TARGET_PEER);
	assert_int_equal(rule_of_move(user, TENT_OPCODE_WRITE, mine, id, memory),
			 (uint32_t)-TENT_ERR_PEER_UNREACHABLE);

	engine_fix_start(&third, on_that_port);
	owner = engine_fix_attach(&third, "kv");
	engine_fix_memory(owner, 4096);
	next = far_open_it(user, name);
	assert_int_not_equal(next, id);
	assert_int_equal(far_buffers(user, next), 1);
	far_expect_buffers(user, id, -TENT_RULE_TARGET_GONE);
	assert_int_equal(rule_of_move(user, TENT_OPCODE_WRITE, mine, id, memory),
			 (uint32_t)-TENT_ERR_ADDRESS);
	tent_client_detach(user);
	stop_under(&third, owner);
}

/* ---- what it tells ------------------------------------------------------ */

static void tentctl_sees_both_ends(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "store"), *user, *o;
	json_t *root, *peer;
	char *text;

	(void)state;
	user = engine_fix_attach(&one, NULL);
	far_open_it(user, tent_client_segment(owner));
	assert_int_equal(tent_client_observe(one.path, &o), 0);
	assert_int_equal(tent_client_query(o, TENT_QUERY_PEERS, &text), 0);
	tent_client_detach(o);
	root = json_loads(text, 0, NULL);
	free(text);
	json_t *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(root, "peers"), i, peer)
		if (strcmp(json_string_value(json_object_get(peer, "state")), "up") == 0)
			found = peer;
	assert_non_null(found);
	assert_int_equal(json_integer_value(json_object_get(found, "segments")), 1);
	json_decref(root);
	assert_int_equal(tent_client_observe(two.path, &o), 0);
	assert_int_equal(tent_client_query(o, TENT_QUERY_PEERS, &text), 0);
	tent_client_detach(o);
	assert_non_null(strstr(text, "\"follows\":1"));
	free(text);
	tent_client_detach(user);
	tent_client_detach(owner);
}

static json_t *segment_row(const struct engine_fix *f, const char *name)
{
	struct tent_client *o;
	json_t *root, *row, *found = NULL;
	char *text;
	size_t i;

	assert_int_equal(tent_client_observe(f->path, &o), 0);
	assert_int_equal(tent_client_query(o, TENT_QUERY_SEGMENTS, &text), 0);
	tent_client_detach(o);
	root = json_loads(text, 0, NULL);
	free(text);
	json_array_foreach(json_object_get(root, "segments"), i, row)
		if (strcmp(json_string_value(json_object_get(row, "segment")), name) == 0)
			found = json_incref(row);
	json_decref(root);
	return found;
}

static void tentctl_lists_segments_of_others_that_are_open(void **state)
{
	struct tent_client *owner = engine_fix_attach(&two, "listed"), *user;
	char name[TENT_CTL_NAME_SIZE];
	const char *type, *peer;
	int buffers, bytes, handles, alive;
	json_t *row;

	(void)state;
	strcpy(name, tent_client_segment(owner));
	engine_fix_memory(owner, 8192);
	user = engine_fix_attach(&one, NULL);
	assert_null(segment_row(&one, name));
	far_open_it(user, name);
	row = segment_row(&one, name);
	assert_int_equal(json_unpack(row, "{s:s,s:s,s:i,s:i,s:i,s:b}", "type", &type,
				     "peer_state", &peer, "buffers", &buffers, "far_bytes",
				     &bytes, "handles", &handles, "alive", &alive), 0);
	assert_string_equal(type, "far");
	assert_string_equal(peer, "up");
	assert_int_equal(buffers, 1);
	assert_int_equal(bytes, 8192);
	assert_int_equal(handles, 1);
	assert_true(alive);
	json_decref(row);
	tent_client_detach(user);
	tent_client_detach(owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_of_another_engine_opens_with_its_buffers),
		cmocka_unit_test(requests_to_it_are_judged_and_find_no_transport),
		cmocka_unit_test(changes_reach_those_who_have_it_open),
		cmocka_unit_test(an_owner_that_ends_is_gone_and_its_successor_is_another),
		cmocka_unit_test(another_users_segment_is_refused_from_afar_too),
		cmocka_unit_test(a_contract_shares_with_whom_it_lists_at_another_engine),
		cmocka_unit_test(both_sides_open_each_other_at_once),
		cmocka_unit_test(many_clients_open_one_segment_at_once),
		cmocka_unit_test(a_host_name_is_looked_up),
		cmocka_unit_test(an_engine_that_is_not_there_is_an_error_at_once),
		cmocka_unit_test(a_restarted_engine_is_another_and_the_old_memory_is_gone),
		cmocka_unit_test(tentctl_sees_both_ends),
		cmocka_unit_test(tentctl_lists_segments_of_others_that_are_open),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
