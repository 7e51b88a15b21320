/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract_engine.c - contracts in a running engine: by who the kernel says a client
 * is, explained, and reloaded by who may. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ring/ctl_io.h"
#include "ring/order.h"
#include "tests/test_contract_fix.h"

#define STRANGER 65533u

/* ---- tenants ------------------------------------------------------------ */

/* This test's user may use gold and more; the stranger is capped and lowered. */
static void two_tenants(struct engine_config *c)
{
	char json[1024];

	snprintf(json, sizeof(json),
		 "{\"policy\":[{\"name\":\"gold\",\"transports\":[\"shm\"],\"service_level\":3},"
		 "{\"name\":\"plain\"}],"
		 "\"transports\":{\"rdma\":{\"endpoint\":{\"qp_pools\":[{\"name\":\"kv\","
		 "\"num_qp\":1}]}}},"
		 "\"qos\":{\"version\":1,\"tenants\":[{\"name\":\"own\",\"intents\":{"
		 "\"foreground_get\":{\"priority\":\"high\",\"max_inflight_bytes\":\"1 GiB\","
		 "\"allowed_degraded_actions\":[\"delay\",\"reject\"]}}}]},"
		 "\"authorization\":{\"tenants\":[{\"name\":\"own\",\"uids\":[%u]},"
		 "{\"name\":\"strange\",\"uids\":[%u],\"policies\":[\"plain\"],"
		 "\"priority_cap\":\"low\",\"on_denied\":\"downgrade\"}]}}",
		 (unsigned)getuid(), STRANGER);
	apply(c, json);
}

static int strange_gold(struct engine_fix *f)
{
	return move_named(f, "gold");
}

static int nobodys_gold(struct engine_fix *f)
{
	return -move_named(f, "gold");
}

static void who_the_kernel_says_a_client_is_decides_what_a_name_gives(void **state)
{
	struct engine_fix f;

	(void)state;
	if (getuid())
		skip();		/* becomes other users */
	engine_fix_start(&f, two_tenants);
	assert_int_equal(move_named(&f, "gold"), 0);
	assert_int_equal(engine_fix_child(&f, STRANGER, strange_gold),
			 TENT_CQE_F_POLICY_DOWNGRADED | TENT_CQE_F_PRIORITY_DOWNGRADED);
	assert_int_equal(engine_fix_child(&f, STRANGER - 1, nobodys_gold),
			 TENT_RULE_TENANT_DENIED);
	engine_fix_quiet(&f, 0);
	engine_fix_stop(&f);
}

/* ---- explain ------------------------------------------------------------ */

static json_t *explain(struct tent_client *c, const struct tent_request_v1 *r)
{
	json_t *all, *entry;
	char *text;

	assert_int_equal(tent_client_explain(c, r, 1, sizeof(*r), &text), 0);
	all = json_loads(text, 0, NULL);
	free(text);
	entry = json_incref(json_array_get(json_object_get(all, "entries"), 0));
	json_decref(all);
	return entry;
}

/* Whether the entry says so, as compact JSON, in the member of that name. */
static void expect_says(json_t *entry, const char *member, const char *says)
{
	char *text = json_dumps(json_object_get(entry, member), JSON_COMPACT | JSON_SORT_KEYS);

	if (!text || !strstr(text, says))
		fail_msg("%s is %s, lacks %s", member, text, says);
	free(text);
}

static void explain_has_the_effective_policy_and_why_others_do_not_move_it(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_request_v1 r;
	json_t *entry;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, two_tenants);
	c = engine_fix_attach(&f, NULL);
	m = engine_fix_memory(c, 8192);
	r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	r.intent_type = TENT_INTENT_FOREGROUND_GET;
	r.requested_priority = TENT_PRIORITY_LOW;
	entry = explain(c, &r);
	expect_says(entry, "requested", "\"priority\":\"low\"");
	expect_says(entry, "effective", "\"priority\":\"high\"");
	expect_says(entry, "effective", "\"policy\":\"gold\"");
	expect_says(entry, "effective", "\"matched_policy\":\"own.foreground_get\"");
	expect_says(entry, "effective", "\"authorized_transports\":[\"shm\"]");
	expect_says(entry, "effective", "\"qp_pool\":null");
	expect_says(entry, "effective", "\"service_level\":3");
	expect_says(entry, "effective", "\"degraded_actions\":[\"delay\",\"reject\"]");
	expect_says(entry, "effective", "\"max_inflight_bytes\":1073741824");
	expect_says(entry, "plan", "\"transport\":\"shm\"");
	expect_says(entry, "plan", "{\"transport\":\"file\",\"why_not\":\"the policy does not list it\"}");
	json_decref(entry);
	r.policy_name = "plain";
	entry = explain(c, &r);
	expect_says(entry, "plan", "{\"transport\":\"file\",\"why_not\":\"it does not reach both ends\"}");
	json_decref(entry);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static void lowering(struct engine_config *c)
{
	apply(c, "{\"policy\":[{\"name\":\"gold\"},{\"name\":\"plain\"}],"
	      "\"authorization\":{\"tenants\":[{\"name\":\"default\",\"policies\":[\"plain\"],"
	      "\"priority_cap\":\"low\",\"on_denied\":\"downgrade\"}]}}");
}

static void explain_names_the_rule_of_each_downgrade_that_completions_record(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_request_v1 r;
	json_t *entry;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, lowering);
	c = engine_fix_attach(&f, NULL);
	m = engine_fix_memory(c, 8192);
	r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	r.requested_priority = TENT_PRIORITY_HIGH;
	r.policy_name = "gold";
	entry = explain(c, &r);
	expect_says(entry, "downgrades", "\"rule\":\"PRIORITY_DENIED\"");
	expect_says(entry, "downgrades", "\"instead\":\"low\"");
	expect_says(entry, "downgrades", "\"rule\":\"POLICY_DENIED\"");
	expect_says(entry, "effective", "\"policy\":\"plain\"");
	json_decref(entry);
	tent_client_detach(c);
	assert_int_equal(move_named(&f, "gold"), TENT_CQE_F_POLICY_DOWNGRADED |
			 TENT_CQE_F_PRIORITY_DOWNGRADED);
	engine_fix_stop(&f);
}

/* ---- who asks ------------------------------------------------------------ */

struct asker {
	struct engine_fix *f;
	struct tent_client *c;
	int rc;
	char message[256];
	uint32_t wished;	/* the engine passed the wish on */
};

static void wished(void *context)
{
	struct asker *a = context;

	store_release(&a->wished, 1u);
}

static void *ask_for_reload(void *context)
{
	struct tent_error_info info = { .size = sizeof(info) };
	struct asker *a = context;
	char *text;

	a->rc = tent_client_query(a->c, TENT_QUERY_RELOAD, &text);
	if (a->rc == 0) {
		snprintf(a->message, sizeof(a->message), "%s", text);
		free(text);
	} else {
		tent_client_error(&info);
		snprintf(a->message, sizeof(a->message), "%s", info.message);
	}
	return NULL;
}

static void asker_start(struct asker *a, struct engine_fix *f, pthread_t *thread)
{
	*a = (struct asker){ .f = f };
	engine_fix_start(f, NULL);
	engine_on_reload(f->engine, wished, a);
	a->c = engine_fix_attach(f, NULL);
	assert_int_equal(pthread_create(thread, NULL, ask_for_reload, a), 0);
	while (!load_acquire(&a->wished))
		sched_yield();
}

static void who_asked_is_told_what_is_wrong(void **state)
{
	struct engine_fix f;
	struct asker a;
	pthread_t thread;

	(void)state;
	asker_start(&a, &f, &thread);
	engine_refuse_reload(f.engine, "too early", 0);	/* read before it asked */
	engine_refuse_reload(f.engine, "policy[0] is 3", 1);
	pthread_join(thread, NULL);
	assert_int_equal(a.rc, TENT_ERR_CONFIG);
	assert_non_null(strstr(a.message, "policy[0] is 3"));
	tent_client_detach(a.c);
	engine_fix_stop(&f);
}

static void who_asked_is_told_what_waits_for_a_new_start(void **state)
{
	static struct engine_config c;
	struct engine_fix f;
	struct asker a;
	pthread_t thread;

	(void)state;
	asker_start(&a, &f, &thread);
	engine_config_default(&c);
	apply(&c, sets[0]);
	assert_int_equal(engine_reload(f.engine, &c, "engine/pollers\nengine/idle\n", 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(a.rc, 0);
	assert_non_null(strstr(a.message, "\"policies\":2"));
	assert_non_null(strstr(a.message, "[\"engine/pollers\",\"engine/idle\"]"));
	tent_client_detach(a.c);
	engine_fix_stop(&f);
}

static void an_engine_that_ends_does_not_leave_who_asked_waiting(void **state)
{
	struct engine_fix f;
	struct asker a;
	pthread_t thread;

	(void)state;
	asker_start(&a, &f, &thread);
	engine_destroy(f.engine);
	f.engine = NULL;
	pthread_join(thread, NULL);
	assert_true(a.rc < 0);
	tent_client_detach(a.c);
	engine_fix_stop(&f);
}

static void one_that_died_while_it_waited_is_forgotten(void **state)
{
	struct ctl_message m = {
		.head = { .size = sizeof(struct tent_ctl_query), .type = TENT_CTL_QUERY },
	};
	struct asker a = { .rc = 0 };
	struct engine_fix f;
	struct raw r;

	(void)state;
	engine_fix_start(&f, NULL);
	engine_on_reload(f.engine, wished, &a);
	raw_attach(&r, f.path, "dies");
	((struct tent_ctl_query *)m.bytes)->what = TENT_QUERY_RELOAD;
	assert_int_equal(ctl_send(r.sock, &m, 0), 0);
	while (!load_acquire(&a.wished))
		sched_yield();
	close(r.sock);
	engine_refuse_reload(f.engine, "no", 1);
	engine_fix_quiet(&f, 0);
	engine_fix_stop(&f);
}

/* ---- what is in flight --------------------------------------------------- */

#define BOUNDED(transport, requests)						\
	"{\"transports\":{" transport "},"					\
	"\"qos\":{\"version\":1,\"defaults\":{\"max_inflight_requests\":" requests "}}}"
#define LATE_NULL "\"shm\":{\"enable\":false},"				\
		  "\"null\":{\"enable\":true,\"faults\":\"pending=1\"}"

static void one_at_a_time(struct engine_config *c)
{
	apply(c, BOUNDED(LATE_NULL, "1"));
}

/* Submits 8 as one batch and sees them end. */
static void move_eight(struct tent_ring *ring, uint8_t *m)
{
	struct tent_request_v1 r[8];

	for (int i = 0; i < 8; i++)
		r[i] = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	assert_int_equal(tent_ring_submit(ring, r, 8, sizeof(r[0]), 0, 0), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(engine_fix_wait(ring).status, TENT_STATUS_COMPLETED);
}

static int64_t held(struct tent_client *c)
{
	json_int_t n = -1;
	json_t *stats;
	char *text;

	assert_int_equal(tent_client_query(c, TENT_QUERY_STATS, &text), 0);
	stats = json_loads(text, 0, NULL);
	free(text);
	assert_int_equal(json_unpack(stats, "{s:{s:I}}", "totals", "held", &n), 0);
	json_decref(stats);
	return n;
}

static void bounds_hold_in_a_running_engine_until_a_reload_lifts_them(void **state)
{
	static struct engine_config later;
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, one_at_a_time);
	c = engine_fix_attach(&f, NULL);
	ring = engine_fix_ring(c);
	m = engine_fix_memory(c, 8192);
	move_eight(ring, m);
	assert_int_equal(held(c), 7);
	engine_config_default(&later);
	apply(&later, BOUNDED(LATE_NULL, "8"));
	assert_int_equal(engine_reload(f.engine, &later, "", 0), 0);
	assert_int_equal(held(c), 7);	/* the control thread has passed it, too */
	move_eight(ring, m);
	assert_int_equal(held(c), 7);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

#define STUCK_NULL "\"shm\":{\"enable\":false},"				\
		   "\"null\":{\"enable\":true,\"faults\":\"pending=2,hold\"}"

/* Of what a poller gets every second one stays with the transport until it is asked back. */
static void one_at_a_time_of_two_users(struct engine_config *c)
{
	char json[512];

	snprintf(json, sizeof(json),
		 "{\"transports\":{" STUCK_NULL "},\"authorization\":{\"tenants\":["
		 "{\"name\":\"a\",\"uids\":[0,%u]}]},"
		 "\"qos\":{\"version\":1,\"defaults\":{\"max_inflight_requests\":1}}}", STRANGER);
	apply(c, json);
	c->nr_pollers = 2;
}

static int move_one(struct engine_fix *f)
{
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion done;
	void *m;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_alloc(c, 4096, NULL, &m) == 0);
	need(tent_client_register(c, m, 4096, TENT_PERM_LOCAL_READ_WRITE, NULL, 0) == 0);
	need(tent_ring_open(c, 0, 0, &ring) == 0);
	done = engine_fix_move(ring, TENT_OPCODE_WRITE, m, 0, (uint8_t *)m + 64, 64);
	return done.status != TENT_STATUS_COMPLETED;
}

static void cancel(struct tent_ring *ring, uint64_t user_data)
{
	struct tent_slot *s = tent_ring_slot(ring, 0);

	memset(&s->user_data, 0, sizeof(*s) - offsetof(struct tent_slot, user_data));
	memcpy(&s->request.source, &user_data, sizeof(user_data));
	tent_ring_publish(ring, 1, TENT_OP_CANCEL, 0);
}

static void a_user_waits_for_another_one_of_its_tenant_on_another_poller(void **state)
{
	struct tent_request_v1 r;
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	pid_t other;
	uint8_t *m;

	(void)state;
	if (getuid())
		skip();		/* becomes another user */
	engine_fix_start(&f, one_at_a_time_of_two_users);
	c = engine_fix_attach(&f, NULL);
	ring = engine_fix_ring(c);
	m = engine_fix_memory(c, 8192);
	assert_int_equal(engine_fix_move(ring, TENT_OPCODE_WRITE, m, 0, m + 4096, 64).status,
			 TENT_STATUS_COMPLETED);
	r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	assert_int_equal(tent_ring_submit(ring, &r, 1, sizeof(r), 7, 0), 0);
	other = engine_fix_spawn(&f, STRANGER, move_one);
	while (held(c) != 1)
		sched_yield();
	cancel(ring, 7);
	assert_int_equal(engine_fix_reap(other), 0);
	assert_int_equal(engine_fix_wait(ring).status, TENT_STATUS_CANCELED);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_the_kernel_says_a_client_is_decides_what_a_name_gives),
		cmocka_unit_test(explain_has_the_effective_policy_and_why_others_do_not_move_it),
		cmocka_unit_test(explain_names_the_rule_of_each_downgrade_that_completions_record),
		cmocka_unit_test(who_asked_is_told_what_is_wrong),
		cmocka_unit_test(who_asked_is_told_what_waits_for_a_new_start),
		cmocka_unit_test(an_engine_that_ends_does_not_leave_who_asked_waiting),
		cmocka_unit_test(one_that_died_while_it_waited_is_forgotten),
		cmocka_unit_test(bounds_hold_in_a_running_engine_until_a_reload_lifts_them),
		cmocka_unit_test(a_user_waits_for_another_one_of_its_tenant_on_another_poller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
