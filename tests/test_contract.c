/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract.c - what tenants get: one table of requests against one configuration,
 * and properties that hold whatever is asked. */
#include "engine/config.h"
#include "engine/contract.h"
#include "engine/round.h"
#include "tests/test_intent_fix.h"

#define SHM TENT_TRANSPORT_SHM
#define TCP TENT_TRANSPORT_TCP
#define FILES TENT_TRANSPORT_IOURING
#define RDMA TENT_TRANSPORT_RDMA
#define GET TENT_INTENT_FOREGROUND_GET
#define BULK TENT_INTENT_MIGRATION
#define HIGH TENT_PRIORITY_HIGH
#define MEDIUM TENT_PRIORITY_MEDIUM
#define LOW TENT_PRIORITY_LOW
#define LOWERED TENT_CQE_F_PRIORITY_DOWNGRADED
#define RENAMED TENT_CQE_F_POLICY_DOWNGRADED

static bool reaches(const struct backend_instance *inst, const struct region *local,
		    const struct region *remote)
{
	(void)inst;
	return local->addr && remote->addr;
}

static bool reaches_never(const struct backend_instance *inst, const struct region *local,
			  const struct region *remote)
{
	(void)inst;
	(void)local;
	(void)remote;
	return false;
}

static const struct backend tcp_backend = { .name = "tcp", .transport = TCP, .reaches = reaches };
static const struct backend away_backend = {
	.name = "io_uring", .transport = FILES, .reaches = reaches_never,
};

/* The rig's queue, which reaches mapped memory, then TCP, then one that reaches nothing. */
struct world {
	struct intent_fix *f;
	struct backend_instance instances[2];
	struct backend_queue others[2], *queues[3];
	struct contract_set *set;
};

static struct world world;

static void put_under(struct world *w, const char *json, bool compat)
{
	static struct engine_config config;
	static struct config_report said;
	const struct contract_world around = {
		.planner = &w->f->planner, .compat = compat, .default_priority = MEDIUM,
	};
	int rc;

	engine_config_default(&config);
	if (engine_config_apply_json(&config, json, &said))
		fail_msg("%s", said.error);
	grace_discard(w->set);
	w->set = contract_set_create(&config.contracts, &around, &rc);
	assert_int_equal(rc, 0);
}

static int world_setup(void **state)
{
	struct world *w = &world;

	setup((void **)&w->f);
	w->instances[0].ops = &tcp_backend;
	w->instances[1].ops = &away_backend;
	w->others[0] = (struct backend_queue){ .ops = &tcp_backend, .inst = &w->instances[0] };
	w->others[1] = (struct backend_queue){ .ops = &away_backend, .inst = &w->instances[1] };
	w->queues[0] = w->f->rig.queue;
	w->queues[1] = &w->others[0];
	w->queues[2] = &w->others[1];
	w->f->j.queues = w->queues;
	w->f->j.nr_queues = 3;
	w->set = NULL;
	judge_settle(&w->f->j, &w->f->planner, w->f->kinds);
	assert_int_equal(w->f->planner.transport, SHM);
	*state = w;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *w = *state;

	grace_discard(w->set);
	return teardown((void **)&w->f);
}

static void as_user(struct world *w, uint32_t uid)
{
	w->f->own->space.contract = contract_of(w->set, uid, false);
}

static void name(struct intent_fix *f, uint32_t i, const char *policy)
{
	memset(f->cells[i], 'Z', sizeof(f->cells[i]));	/* what the cell held before */
	memcpy(f->cells[i], policy, strlen(policy));
	f->slots[i].request.policy_name = (void *)(uintptr_t)strlen(policy);
}

/* ---- the table ---------------------------------------------------------- */

/*
 * Users 1 to 4 are tenants a to d; 9 is nobody. Tenant a may have everything of "gold" and
 * "any"; b is capped and lowered, c is capped and refused, d has one policy.
 */
static const char table_config[] =
	"{\"policy\":["
	"{\"name\":\"gold\",\"intent_type\":\"foreground_get\",\"priority\":\"high\","
	" \"transports\":[\"tcp\",\"shm\"]},"
	"{\"name\":\"large\",\"min_size\":4096,\"transports\":[\"tcp\"]},"
	"{\"name\":\"files\",\"segment_type\":\"file\"},"
	"{\"name\":\"away\",\"transports\":[\"io_uring\"]},"
	"{\"name\":\"pool\",\"qp_pool\":\"kv\"},"
	"{\"name\":\"any\",\"transports\":[\"shm\",\"tcp\",\"rdma\"]},"
	"{\"name\":\"other\",\"same_machine\":false},"
	"{\"name\":\"gpu\",\"remote_memory\":\"cuda\"}],"
	"\"transports\":{\"rdma\":{\"endpoint\":{\"qp_pools\":[{\"name\":\"kv\",\"num_qp\":1}]}}},"
	"\"qos\":{\"version\":1,\"tenants\":["
	"{\"name\":\"a\",\"intents\":{\"checkpoint\":{\"priority\":\"low\"},"
	" \"migration\":{\"priority\":\"high\"}}},"
	"{\"name\":\"b\",\"defaults\":{},\"intents\":{\"migration\":{\"priority\":\"high\"}}}]},"
	"\"authorization\":{\"tenants\":["
	"{\"name\":\"a\",\"uids\":[1],\"policies\":[\"gold\",\"away\",\"any\",\"other\",\"gpu\"],"
	" \"qp_pools\":[\"kv\"]},"
	"{\"name\":\"b\",\"uids\":[2],\"policies\":[\"large\",\"pool\",\"any\"],"
	" \"transports\":[\"shm\",\"tcp\"],\"priority_cap\":\"medium\","
	" \"on_denied\":\"downgrade\",\"on_expired\":\"refuse\"},"
	"{\"name\":\"c\",\"uids\":[3],\"policies\":[\"files\",\"pool\"],"
	" \"priority_cap\":\"medium\",\"qp_pools\":[\"kv\"],\"transports\":[\"tcp\"],"
	" \"validation\":\"compat\",\"on_denied\":\"reject\"},"
	"{\"name\":\"d\",\"uids\":[4],\"policies\":[\"gold\"]}]}}";

struct vector {
	uint32_t uid;
	int intent, priority, hint;
	const char *policy;
	uint64_t deadline, length;
	/* either */
	uint16_t rule;
	/* or */
	uint8_t gets;
	uint8_t transport;
	uint16_t flags;
};

#define RULE(name) TENT_RULE_##name, 0, 0, 0
#define GETS(priority, transport, flags) 0, priority, transport, flags

static const struct vector vectors[] = {
	/* who nobody listed */
	{ 9, 0, 0, 0, NULL, 0, 64, RULE(TENANT_DENIED) },
	{ 9, GET, HIGH, SHM, "gold", 0, 64, RULE(TENANT_DENIED) },
	{ 0, 0, 0, 0, NULL, 0, 0, RULE(TENANT_DENIED) },
	/* a: the first policy that fits and is its own */
	{ 1, 0, 0, 0, NULL, 0, 64, GETS(MEDIUM, 0, 0) },	/* away fits first */
	{ 1, GET, HIGH, 0, NULL, 0, 64, GETS(HIGH, TCP, 0) },
	{ 1, GET, MEDIUM, TCP, NULL, 0, 64, RULE(TRANSPORT_DENIED) },
	{ 1, GET, HIGH, SHM, NULL, 0, 64, GETS(HIGH, SHM, 0) },
	{ 1, GET, HIGH, RDMA, NULL, 0, 64, RULE(TRANSPORT_BUILD) },
	{ 1, GET, HIGH, FILES, NULL, 0, 64, RULE(TRANSPORT_DENIED) },
	{ 1, 0, 0, FILES, NULL, 0, 64, RULE(TRANSPORT_REACH) },
	/* a: by name; the filters are not for who names it */
	{ 1, 0, 0, 0, "any", 0, 64, GETS(MEDIUM, SHM, 0) },
	{ 1, 0, 0, TCP, "any", 0, 64, GETS(MEDIUM, TCP, 0) },
	{ 1, 0, LOW, 0, "gold", 0, 64, GETS(LOW, TCP, 0) },
	{ 1, 0, 0, 0, "other", 0, 64, GETS(MEDIUM, SHM, 0) },
	{ 1, 0, 0, 0, "gpu", 0, 64, GETS(MEDIUM, SHM, 0) },
	{ 1, 0, 0, 0, "large", 0, 8192, RULE(POLICY_DENIED) },
	{ 1, 0, 0, 0, "pool", 0, 64, RULE(POLICY_DENIED) },
	{ 1, 0, 0, 0, "files", 0, 64, RULE(POLICY_UNKNOWN) },
	{ 1, 0, 0, 0, "gol", 0, 64, RULE(POLICY_UNKNOWN) },
	{ 1, 0, 0, 0, "golden", 0, 64, RULE(POLICY_UNKNOWN) },
	{ 1, 0, 0, 0, "Gold", 0, 64, RULE(POLICY_UNKNOWN) },
	{ 1, 0, 0, 0, "zzz", 0, 64, RULE(POLICY_UNKNOWN) },
	/* a: the contract's priority replaces what was asked for */
	{ 1, TENT_INTENT_CHECKPOINT, HIGH, 0, "any", 0, 64, GETS(LOW, SHM, LOWERED) },
	{ 1, TENT_INTENT_CHECKPOINT, LOW, 0, "any", 0, 64, GETS(LOW, SHM, 0) },
	{ 1, TENT_INTENT_CHECKPOINT, 0, 0, "any", 0, 64, GETS(LOW, SHM, 0) },
	{ 1, BULK, LOW, 0, "any", 0, 64, GETS(HIGH, SHM, 0) },
	{ 1, BULK, 0, 0, "any", 0, 64, GETS(HIGH, SHM, 0) },
	/* a: late is served */
	{ 1, 0, 0, 0, "any", 1, 64, GETS(MEDIUM, SHM, 0) },
	/* b: capped and downgraded, whoever asks for more */
	{ 2, 0, HIGH, 0, NULL, 0, 64, GETS(MEDIUM, SHM, LOWERED) },
	{ 2, 0, MEDIUM, 0, NULL, 0, 64, GETS(MEDIUM, SHM, 0) },
	{ 2, 0, LOW, 0, NULL, 0, 64, GETS(LOW, SHM, 0) },
	{ 2, BULK, HIGH, 0, NULL, 0, 64, GETS(MEDIUM, SHM, LOWERED) },
	{ 2, BULK, 0, 0, NULL, 0, 64, GETS(MEDIUM, SHM, 0) },
	{ 2, GET, HIGH, 0, "gold", 0, 64, GETS(MEDIUM, SHM, LOWERED | RENAMED) },
	{ 2, 0, 0, 0, "gold", 0, 4096, GETS(MEDIUM, TCP, RENAMED) },
	{ 2, 0, 0, 0, "pool", 0, 64, GETS(MEDIUM, SHM, RENAMED) },
	{ 2, 0, 0, 0, "nobody-has-it", 0, 64, RULE(POLICY_UNKNOWN) },
	{ 2, 0, 0, 0, NULL, 0, 4095, GETS(MEDIUM, SHM, 0) },
	{ 2, 0, 0, 0, NULL, 0, 4096, GETS(MEDIUM, TCP, 0) },
	{ 2, 0, 0, SHM, NULL, 0, 4096, RULE(TRANSPORT_DENIED) },
	{ 2, 0, 0, 0, "large", 0, 64, GETS(MEDIUM, TCP, 0) },
	/* b: late is refused, at the very moment too */
	{ 2, 0, 0, 0, NULL, 1, 64, RULE(DEADLINE_EXPIRED) },
	{ 2, 0, 0, 0, NULL, NOW, 64, RULE(DEADLINE_EXPIRED) },
	{ 2, 0, 0, 0, NULL, NOW + 1, 64, GETS(MEDIUM, SHM, 0) },
	/* c: capped and refused; compat where something is not known */
	{ 3, 0, HIGH, 0, NULL, 0, 64, RULE(PRIORITY_DENIED) },
	{ 3, 0, MEDIUM, 0, NULL, 0, 64, GETS(MEDIUM, TCP, 0) },
	{ 3, 0, 0, SHM, NULL, 0, 64, RULE(TRANSPORT_DENIED) },
	{ 3, 0, 0, TCP, "pool", 0, 64, GETS(MEDIUM, TCP, 0) },
	{ 3, 0, 0, 0, "gold", 0, 64, RULE(POLICY_DENIED) },
	{ 3, 0, 0, 0, "nobody-has-it", 0, 64, GETS(MEDIUM, TCP, RENAMED) },
	{ 3, 0, 0, 0, "files", 0, 64, GETS(MEDIUM, TCP, RENAMED) },
	{ 3, 99, 0, 0, NULL, 0, 64, GETS(MEDIUM, TCP, TENT_CQE_F_INTENT_DOWNGRADED) },
	{ 3, 0, 99, 0, NULL, 0, 64, GETS(MEDIUM, TCP, LOWERED) },
	/* d: where its only policy does not fit it has none */
	{ 4, 0, 0, 0, NULL, 0, 64, RULE(NO_POLICY) },
	{ 4, GET, LOW, 0, NULL, 0, 64, RULE(NO_POLICY) },
	{ 4, 0, 0, TCP, NULL, 0, 64, RULE(NO_POLICY) },
	{ 4, GET, HIGH, 0, NULL, 0, 64, GETS(HIGH, TCP, 0) },
	{ 4, 0, 0, 0, "gold", 0, 64, GETS(MEDIUM, TCP, 0) },
	/* a is strict, as the engine is */
	{ 1, 99, 0, 0, NULL, 0, 64, RULE(INTENT) },
	/* the first in the order of fields is the answer */
	{ 3, 0, HIGH, SHM, "gold", 1, 64, RULE(PRIORITY_DENIED) },
	{ 2, 0, HIGH, RDMA, "gold", 1, 64, RULE(DEADLINE_EXPIRED) },
	{ 3, 0, 0, SHM, "gold", 1, 64, RULE(POLICY_DENIED) },
};
#define NR_VECTORS (sizeof(vectors) / sizeof(vectors[0]))

static void ask(struct intent_fix *f, uint32_t i, const struct vector *v)
{
	struct tent_request_v1 *r = &f->slots[i].request;

	good(f, i);
	r->intent_type = v->intent;
	r->requested_priority = v->priority;
	r->transport_hint = v->hint;
	r->deadline_ns = v->deadline;
	r->length = v->length;
	if (v->policy)
		name(f, i, v->policy);
}

/* "away" reaches nothing: a request that goes by it has nowhere to go. */
static uint16_t rule_of(const struct vector *v)
{
	return v->rule ? v->rule : v->transport ? 0 : TENT_RULE_NO_TRANSPORT;
}

static void expect_vector(struct intent_fix *f, const struct vector *v, uint32_t i)
{
	const struct transfer *t = &f->transfers[i];

	if (t->priority != v->gets || t->transport != v->transport || t->flags != v->flags)
		fail_msg("vector %zu: priority %d, transport %d, flags %d", v - vectors,
			 t->priority, t->transport, t->flags);
	assert_int_equal(t->level, v->gets - HIGH);
	assert_int_equal(t->queue->ops->transport, v->transport);
}

static void every_vector_gets_its_verdict(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	for (size_t k = 0; k < NR_VECTORS; k++) {
		const struct vector *v = &vectors[k];

		as_user(w, v->uid);
		ask(f, 0, v);
		if (judge(f, 1) != !rule_of(v) || f->why.rule != rule_of(v))
			fail_msg("vector %zu: %s, not %s", k, tent_rule_name(f->why.rule),
				 tent_rule_name(rule_of(v)));
		if (!rule_of(v))
			expect_vector(f, v, 0);
	}
}

/* Each in the midst of others that have another policy, intent and priority. */
static void neighbours_in_a_batch_do_not_change_a_verdict(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	for (size_t k = 0; k < NR_VECTORS * NR_VECTORS; k++) {
		const struct vector *a = &vectors[k / NR_VECTORS], *b = &vectors[k % NR_VECTORS];

		if (a->uid != b->uid || rule_of(a) || rule_of(b))
			continue;
		as_user(w, a->uid);
		ask(f, 0, a);
		ask(f, 1, b);
		ask(f, 2, a);
		assert_true(judge(f, 3));
		expect_vector(f, a, 0);
		expect_vector(f, b, 1);
		expect_vector(f, a, 2);
	}
}

static void one_bad_entry_refuses_the_whole_batch(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	as_user(w, 3);
	for (uint32_t i = 0; i < 4; i++)
		good(f, i);
	f->slots[2].request.requested_priority = HIGH;
	expect(f, 4, TENT_RULE_PRIORITY_DENIED, 2, HIGH);
	f->slots[3].request.source = NULL;	/* addresses go before policy */
	expect(f, 4, TENT_RULE_SOURCE_UNREGISTERED, 3, 0);
}

static void a_legacy_batch_fails_only_what_its_contract_refuses(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	as_user(w, 3);
	f->j.slot_flags = TENT_SLOT_F_LEGACY;
	for (uint32_t i = 0; i < 3; i++) {
		good(f, i);
		f->slots[i].request.requested_priority = (int)i;	/* HIGH, MEDIUM, LOW */
	}
	assert_true(judge(f, 3));
	assert_int_equal(f->transfers[0].status, TENT_STATUS_FAILED);
	assert_int_equal(f->transfers[0].rule, TENT_RULE_PRIORITY_DENIED);
	assert_int_equal(f->transfers[1].priority, MEDIUM);
	assert_int_equal(f->transfers[2].priority, LOW);
}

/* ---- properties --------------------------------------------------------- */

static uint32_t below(uint64_t *seed, uint32_t n)
{
	return random_next(seed) % n;
}

/* Whatever fields hold, in both validations and numberings: tenant b never gets HIGH, nor
 * a transport, nor a policy's list, that is not its own. */
static void no_field_and_no_mode_gets_more_than_the_contract(void **state)
{
	static const char *const names[] = { "gold", "large", "away", "pool", "any", "gpu", "x" };
	struct world *w = *state;
	struct intent_fix *f = w->f;
	uint64_t seed = 6;
	uint32_t accepted = 0;

	for (uint32_t k = 0; k < 40000; k++) {
		const struct transfer *t = &f->transfers[0];
		struct tent_request_v1 *q = &f->slots[0].request;

		if (k % 20000 == 0)
			put_under(w, table_config, k > 0);
		as_user(w, 2);
		f->j.slot_flags = below(&seed, 2) ? TENT_SLOT_F_LEGACY : 0;
		good(f, 0);
		q->intent_type = (int)below(&seed, 9);
		q->requested_priority = (int)below(&seed, 5);
		q->transport_hint = below(&seed, 2) ? (int)below(&seed, 14) : 0;
		q->length = below(&seed, 8192);
		q->deadline_ns = below(&seed, 4) ? 0 : NOW - 2 + below(&seed, 4);
		q->struct_size = below(&seed, 4) ? 88 : 48 + 4 * below(&seed, 11);
		if (below(&seed, 2))
			name(f, 0, names[below(&seed, 7)]);
		if (!judge(f, 1) || t->status == TENT_STATUS_FAILED)
			continue;
		accepted++;
		assert_true(t->priority >= MEDIUM);
		assert_true(t->transport == SHM || t->transport == TCP);
		assert_true(q->length < 4096 || t->transport == TCP || q->policy_name);
		assert_true(!t->deadline_ns || t->deadline_ns > NOW);
	}
	assert_true(accepted > 5000);
}

static void two_tenants_get_different_verdicts_for_the_same_name(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	good(f, 0);
	name(f, 0, "gold");
	as_user(w, 1);
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].transport, TCP);
	as_user(w, 2);
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].flags, RENAMED);
	as_user(w, 3);
	expect(f, 1, TENT_RULE_POLICY_DENIED, 0, 4);
}

/* The short way and the long way: only the second looks at each policy. */
static void plain_requests_get_what_those_with_a_hint_get(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, table_config, false);
	for (uint32_t uid = 1; uid <= 4; uid++)
		for (int intent = 0; intent < 6; intent++)
			for (int priority = 0; priority < 4; priority++) {
				const struct vector v = { uid, intent, priority, 0, NULL, 0, 64,
							  GETS(0, 0, 0) };
				struct transfer t;
				bool first;

				as_user(w, uid);
				ask(f, 0, &v);
				judge(f, 1);		/* leaves hints */
				first = judge(f, 1);
				t = f->transfers[0];
				f->slots[0].tail_offset = 4096;	/* not plain, and no matter */
				assert_int_equal(judge(f, 1), first);
				if (!first)
					continue;
				assert_int_equal(f->transfers[0].priority, t.priority);
				assert_int_equal(f->transfers[0].flags, t.flags);
				assert_ptr_equal(f->transfers[0].queue, t.queue);
			}
}

static void without_sections_there_is_no_contract(void **state)
{
	struct world *w = *state;

	put_under(w, "{\"engine\":{\"idle\":\"busy\"},\"policy\":[]}", false);
	assert_null(w->set);
	as_user(w, 1);
	assert_null(w->f->own->space.contract);
}

static void without_authorization_every_user_is_tenant_default(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, "{\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"high\"},"
		  "\"tenants\":[{\"name\":\"\",\"intents\":{\"\":{\"priority\":\"low\"}}}]}}",
		  false);
	as_user(w, 12345);
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].priority, LOW);
	f->slots[0].request.intent_type = GET;
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].priority, HIGH);
}

static void a_tenant_called_default_is_for_users_of_none(void **state)
{
	struct world *w = *state;
	struct intent_fix *f = w->f;

	put_under(w, "{\"authorization\":{\"tenants\":[{\"name\":\"a\",\"uids\":[1]},"
		  "{\"name\":\"default\",\"priority_cap\":\"low\"}]}}", true);
	as_user(w, 77);
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].priority, LOW);
	assert_int_equal(f->transfers[0].flags, 0);	/* it asked for nothing */
	as_user(w, 1);
	expect(f, 1, 0, 0, 0);
	assert_int_equal(f->transfers[0].priority, MEDIUM);
}

static void this_process_is_the_tenant_that_is_configured(void **state)
{
	struct world *w = *state;

	put_under(w, "{\"authorization\":{\"in_process\":\"b\",\"tenants\":[{\"name\":\"a\","
		  "\"uids\":[1]},{\"name\":\"b\"}]}}", false);
	assert_string_equal(contract_of(w->set, 1, true)->name, "b");
	assert_string_equal(contract_of(w->set, 1, false)->name, "a");
	assert_false(contract_of(w->set, 2, false)->listed);
}

static void expect_terms(const struct contract_set *set, uint32_t uid, int intent,
			 const char *matched, const struct qos_terms *terms)
{
	const struct contract *c = contract_of(set, uid, false);
	const struct qos_terms *t = &c->terms[intent];
	char text[128];

	contract_matched_name(c, (uint8_t)intent, text, sizeof(text));
	assert_string_equal(text, matched);
	assert_int_equal(t->given, terms->given);
	assert_int_equal(t->priority, terms->priority);
	assert_true(t->max_inflight_bytes == terms->max_inflight_bytes);
	assert_int_equal(t->max_inflight_requests, terms->max_inflight_requests);
	assert_int_equal(t->actions, terms->actions);
}

/* The existing engine's rows Q2 to Q6. */
static void terms_come_from_global_tenant_and_intent_in_this_order(void **state)
{
	struct world *w = *state;

	put_under(w, "{\"authorization\":{\"tenants\":[{\"name\":\" Tenant-A \",\"uids\":[1]},"
		  "{\"name\":\"missing\",\"uids\":[2]}]},"
		  "\"qos\":{\"version\":1,\"defaults\":{\"priority\":\"medium\","
		  "\"max_inflight_requests\":128,"
		  "\"allowed_degraded_actions\":[\"fallback_transport\",\"reject\"]},"
		  "\"tenants\":[{\"name\":\"tenant-a\",\"defaults\":{\"max_inflight_bytes\":"
		  "\"1GiB\"},\"intents\":{\"Foreground_Get\":{\"priority\":\"high\","
		  "\"max_inflight_bytes\":4294967296,\"max_inflight_requests\":4096,"
		  "\"allowed_degraded_actions\":[\"local_recompute\"]},"
		  "\"checkpoint\":{\"allowed_degraded_actions\":[]}}}]}}", false);
	expect_terms(w->set, 1, GET, "tenant-a.foreground_get", &(struct qos_terms){
		1ull << 32, 4096, 15, HIGH, 1u << QOS_LOCAL_RECOMPUTE });
	expect_terms(w->set, 1, BULK, "tenant-a.default", &(struct qos_terms){
		1ull << 30, 128, 15, MEDIUM, 1u << QOS_FALLBACK_TRANSPORT | 1u << QOS_REJECT });
	expect_terms(w->set, 1, TENT_INTENT_CHECKPOINT, "tenant-a.checkpoint",
		     &(struct qos_terms){ 1ull << 30, 128, 15, MEDIUM, 0 });
	expect_terms(w->set, 2, GET, "global_default", &(struct qos_terms){
		0, 128, 13, MEDIUM, 1u << QOS_FALLBACK_TRANSPORT | 1u << QOS_REJECT });
}

#define WORLD(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(every_vector_gets_its_verdict),
		WORLD(neighbours_in_a_batch_do_not_change_a_verdict),
		WORLD(one_bad_entry_refuses_the_whole_batch),
		WORLD(a_legacy_batch_fails_only_what_its_contract_refuses),
		WORLD(no_field_and_no_mode_gets_more_than_the_contract),
		WORLD(two_tenants_get_different_verdicts_for_the_same_name),
		WORLD(plain_requests_get_what_those_with_a_hint_get),
		WORLD(without_sections_there_is_no_contract),
		WORLD(without_authorization_every_user_is_tenant_default),
		WORLD(a_tenant_called_default_is_for_users_of_none),
		WORLD(this_process_is_the_tenant_that_is_configured),
		WORLD(terms_come_from_global_tenant_and_intent_in_this_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
