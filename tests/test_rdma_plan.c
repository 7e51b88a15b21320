/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_plan.c - by which devices and queue pairs requests go, as explain says it, and
 * as a QP pool's traffic class shows it in packets.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/rdma_pair.h"
#include "tests/common/tap.h"

#define CLASS 96	/* of the pool */
#define POOLS								\
	", \"endpoint\": {\"qp_pools\": [{\"name\": \"other\", \"num_qp\": 1}, "	\
	"{\"name\": \"kv\", \"num_qp\": 1, \"service_level\": 3, \"traffic_class\": 96}]}"
#define POLICY								\
	", \"policy\": [{\"name\": \"get\", \"intent_type\": \"foreground_get\", "	\
	"\"qp_pool\": \"kv\"}, {\"name\": \"rest\"}]"

static const char *const one[] = { "--link", "roce", "--fault", "timeouts=400%", NULL };
static const char *const two[] = { "--devices", "2", "--link", "roce", "--fault", "timeouts=400%",
				   NULL };

/* ---- explain ----------------------------------------------------------- */

static struct tent_request_v1 request(const struct rdma_pair *p, int32_t intent)
{
	struct tent_request_v1 r = engine_fix_request(TENT_OPCODE_WRITE, p->mine, p->id,
						      p->theirs, RDMA_PART);

	r.intent_type = intent;
	return r;
}

static json_t *entry_of(const struct rdma_pair *p, int32_t intent)
{
	const struct tent_request_v1 r = request(p, intent);
	json_t *all, *entry;
	char *text;

	assert_int_equal(tent_client_explain(p->user, &r, 1, sizeof(r), &text), 0);
	all = json_loads(text, 0, NULL);
	entry = json_incref(json_array_get(json_object_get(all, "entries"), 0));
	assert_non_null(json_object_get(entry, "plan"));
	json_decref(all);
	free(text);
	return entry;
}

static void the_plan_has_device_port_peer_and_slices(void **state)
{
	const char *transport, *peer, *device, *address;
	int slices, slice_bytes, rail, port, used;
	json_t *plan, *entry;
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], ", \"workers\": {\"block_size\": 50000}", "");
	entry = entry_of(&p, TENT_INTENT_UNSPEC);
	plan = json_object_get(entry, "plan");
	assert_int_equal(json_unpack(plan, "{s:s,s:s,s:n,s:i,s:i,s:[{s:i,s:s,s:i,s:s,s:b}]}",
		"transport", &transport, "peer", &peer, "qp_pool", "slices", &slices,
		"slice_bytes", &slice_bytes, "rails", "rail", &rail, "device", &device, "port",
		&port, "address", &address, "used", &used), 0);
	assert_string_equal(transport, "rdma");
	assert_string_equal(peer, "10.77.0.1:15000");
	assert_int_equal(slices, (RDMA_PART + 49999) / 50000);
	assert_int_equal(slice_bytes, 50000);
	assert_int_equal(rail, 0);
	assert_string_equal(device, "mlx5_0");
	assert_int_equal(port, 1);
	assert_string_equal(address, "GID ::ffff:10.77.0.2");
	assert_true(used);
	json_decref(entry);
	rdma_pair_end(&p);
}

/* Of the plan's list, the member that has this name: why it is not used. */
static void expect_why_not(const struct rdma_pair *p, const char *list, const char *key,
			   const char *name, const char *says)
{
	json_t *entry = entry_of(p, TENT_INTENT_UNSPEC), *member;
	const char *why = "";
	size_t i;

	json_array_foreach(json_object_get(json_object_get(entry, "plan"), list), i, member)
		if (!strcmp(json_string_value(json_object_get(member, key)), name))
			why = json_string_value(json_object_get(member, "why_not"));
	if (!why || !strstr(why, says))
		fail_msg("no \"%s\" in: %s", says, why ? why : "nothing");
	json_decref(entry);
}

static void tentctl_explains_requests_to_a_segment_of_another_engine(void **state)
{
	static struct program ctl;
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[1], "", "");
	assert_int_equal(program_run(&ctl, "tools/tentctl", (const char *const []){
		"-s", rdma_two.daemons[1].socket, "--json", "explain", "--opcode", "write",
		"--segment", tent_client_segment(p.owner), NULL }), 0);
	assert_non_null(strstr(ctl.output, "\"transport\":\"rdma\""));
	assert_non_null(strstr(ctl.output, "\"peer\":\"10.77.0.1:15000\""));
	assert_non_null(strstr(ctl.output, "\"device\":\"mlx5_0\""));
	rdma_pair_end(&p);
}

static void a_rail_that_is_not_used_says_why(void **state)
{
	struct rdma_pair p;

	(void)state;
	rdma_pair_open_as(&p, (const struct rdma_host[2]){
		{ .sim = two, .rdma = ", \"devices\": \"mlx5_0\"" }, { .sim = two } });
	expect_why_not(&p, "rails", "device", "mlx5_1",
		       "the other engine has no device of that number");
	rdma_pair_end(&p);
}

static void what_keeps_a_request_from_rdma_is_said(void **state)
{
	static const char *const forbidden[] = { "--fault", "no_permission=on", NULL };
	static const struct {
		struct rdma_host hosts[2];
		const char *sentence;
	} all[] = {
		{ { { .sim = NULL }, { .sim = one } },
		  "the other engine offers this memory to no device" },
		{ { { .sim = one }, { .sim = NULL } }, "there is no mlx5 device here" },
		{ { { .sim = one }, { .sim = forbidden } },
		  "mlx5_0: no permission to open /dev/infiniband/" },
	};
	struct rdma_pair p;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		rdma_pair_open_as(&p, all[i].hosts);
		expect_why_not(&p, "others", "transport", "rdma", all[i].sentence);
		rdma_pair_end(&p);
	}
}

/* ---- pools ------------------------------------------------------------- */

static void move_as(struct rdma_pair *p, int32_t intent)
{
	for (int opcode = 0; opcode < 2; opcode++) {
		struct tent_request_v1 r = request(p, intent);
		struct tent_completion c;

		r.opcode = opcode;
		pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, RDMA_PART,
			     (uint32_t)(intent + opcode));
		engine_fix_submit(p->ring, &r);
		c = engine_fix_wait(p->ring);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.transport, TENT_TRANSPORT_RDMA);
		assert_memory_equal(p->mine, p->theirs, RDMA_PART);
	}
}

/* No packet to either host has another class. */
static void expect_class(const int taps[2], int class)
{
	bool seen[256];

	for (int host = 0; host < 2; host++) {
		tap_classes(taps[host], seen);
		for (int i = 0; i < 256; i++)
			if (seen[i] != (i == class))
				fail_msg("at host %d, class %d: %sseen", host, i,
					 seen[i] ? "" : "not ");
	}
}

static void a_pool_has_queue_pairs_with_its_traffic_class_at_either_end(void **state)
{
	int taps[2];
	struct rdma_pair p;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], POOLS RDMA_ALONE, POLICY);
	for (int i = 0; i < 2; i++)
		taps[i] = rdma_tap_at(i);
	move_as(&p, TENT_INTENT_CHECKPOINT);
	expect_class(taps, 0);
	assert_non_null(strstr(rdma_facts_at(0), "; 1 connections served"));
	move_as(&p, TENT_INTENT_FOREGROUND_GET);
	expect_class(taps, CLASS);
	assert_non_null(strstr(rdma_facts_at(0), "; 2 connections served"));
	for (int i = 0; i < 2; i++)
		close(taps[i]);
	rdma_pair_end(&p);
}

/* This thread alone. */
static void become(uint32_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

/* Of another user, at the daemons that there are. */
static void open_other(struct rdma_pair *p)
{
	become(70000);
	assert_int_equal(tent_client_attach(rdma_two.daemons[0].socket, "other", &p->owner), 0);
	assert_int_equal(tent_client_attach(rdma_two.daemons[1].socket, NULL, &p->user), 0);
	become(0);
	p->theirs = engine_fix_memory(p->owner, RDMA_PART);
	p->mine = engine_fix_memory(p->user, RDMA_PART);
	p->ring = engine_fix_ring(p->user);
	p->id = far_open_it(p->user, tent_client_segment(p->owner));
}

static void tenants_share_no_queue_pair_of_a_pool(void **state)
{
	struct rdma_pair p, other;

	(void)state;
	rdma_pair_open(&p, rdma_links[0], POOLS RDMA_ALONE, POLICY);
	open_other(&other);
	move_as(&p, TENT_INTENT_FOREGROUND_GET);
	assert_non_null(strstr(rdma_facts_at(0), "; 1 connections served"));
	move_as(&other, TENT_INTENT_FOREGROUND_GET);
	assert_non_null(strstr(rdma_facts_at(0), "; 2 connections served"));
	move_as(&p, TENT_INTENT_FOREGROUND_GET);
	assert_non_null(strstr(rdma_facts_at(0), "; 2 connections served"));
	rdma_pair_close(&other);
	rdma_pair_end(&p);
}

static void the_plan_names_the_pool(void **state)
{
	const char *pool, *effective;
	struct rdma_pair p;
	json_t *entry;

	(void)state;
	rdma_pair_open(&p, rdma_links[1], POOLS, POLICY);
	entry = entry_of(&p, TENT_INTENT_FOREGROUND_GET);
	assert_int_equal(json_unpack(entry, "{s:{s:s},s:{s:s}}", "plan", "qp_pool", &pool,
				     "effective", "qp_pool", &effective), 0);
	assert_string_equal(pool, "kv");
	assert_string_equal(effective, "kv");
	json_decref(entry);
	move_as(&p, TENT_INTENT_FOREGROUND_GET);
	rdma_pair_end(&p);
}

/* Connections are there, by those that were. */
static void other_pools_take_a_new_start(void **state)
{
	static struct program ctl;
	struct tentd *t = &rdma_two.daemons[1];
	const char *const reload[] = { "-s", t->socket, "reload", NULL };

	(void)state;
	rdma_start_at(1, &(const struct rdma_host){ NULL, POOLS, POLICY });
	tentd_configure(t, "{\"policy\": [{\"name\": \"rest\"}]}");
	assert_int_equal(program_run(&ctl, "tools/tentctl", reload), 1);
	assert_non_null(strstr(ctl.errors, "transports/rdma/endpoint/qp_pools has changed"));
	assert_int_equal(tentd_end(t, SIGTERM), 0);
	tentd_cleanup(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_plan_has_device_port_peer_and_slices),
		cmocka_unit_test(tentctl_explains_requests_to_a_segment_of_another_engine),
		cmocka_unit_test(a_rail_that_is_not_used_says_why),
		cmocka_unit_test(what_keeps_a_request_from_rdma_is_said),
		cmocka_unit_test(a_pool_has_queue_pairs_with_its_traffic_class_at_either_end),
		cmocka_unit_test(tenants_share_no_queue_pair_of_a_pool),
		cmocka_unit_test(the_plan_names_the_pool),
		cmocka_unit_test(other_pools_take_a_new_start),
	};

	return cmocka_run_group_tests(tests, rdma_setup, rdma_teardown);
}
