/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent_far.c - requests to memory of another engine: who moved one like it before is
 * taken again unasked, but never where the planner would choose another. */
#include "engine/config.h"
#include "engine/contract.h"
#include "engine/region_hints.h"
#include "engine/round.h"
#include "tests/common/random.h"
#include "tests/test_intent_fix.h"

#define RDMA TENT_TRANSPORT_RDMA
#define TCP TENT_TRANSPORT_TCP
#define GET TENT_INTENT_FOREGROUND_GET
#define NEAR 0u		/* handle of the own segment, which is mapped */
#define FAR RIG_PEER	/* and of the one that is not */

/* The rig's queue, which copies what is mapped here, and two that lead to the far engine: the
 * first while it is up. */
struct far_world {
	struct intent_fix *f;
	struct backend_instance instances[2];
	struct backend_queue others[2], *queues[3];
	struct far_end end;
	struct paths paths;
	struct contract_set *set;
};

static struct far_world world;
static bool rdma_is_up;
static uint64_t nr_asked;

static bool rdma_reaches(const struct backend_instance *inst, const struct region *local,
			 const struct region *remote)
{
	(void)inst;
	nr_asked++;
	return rdma_is_up && local->addr && remote->far;
}

static bool tcp_reaches(const struct backend_instance *inst, const struct region *local,
			const struct region *remote)
{
	(void)inst;
	nr_asked++;
	return local->addr && remote->far;
}

static const struct backend rdma_fake = {
	.name = "rdma", .transport = RDMA, .reaches = rdma_reaches,
};
static const struct backend tcp_fake = {
	.name = "tcp", .transport = TCP, .reaches = tcp_reaches,
};

static void turn(struct far_world *w, bool up)
{
	rdma_is_up = up;
	w->instances[0].changes++;
}

static void move_away(struct far_world *w)
{
	struct rig_client *peer = w->f->peer;

	w->end.epoch = 7;
	peer->segment.is_far = true;
	for (int i = 0; i < RIG_REGIONS; i++) {
		peer->regions[i].addr = NULL;
		peer->regions[i].far = &w->end;
	}
	peer->regions[1].is_gpu = true;
}

static int far_setup(void **state)
{
	struct far_world *w = &world;

	memset(w, 0, sizeof(*w));
	setup((void **)&w->f);
	w->instances[0].ops = &rdma_fake;
	w->instances[1].ops = &tcp_fake;
	w->others[0] = (struct backend_queue){ .ops = &rdma_fake, .inst = &w->instances[0] };
	w->others[1] = (struct backend_queue){ .ops = &tcp_fake, .inst = &w->instances[1] };
	w->queues[0] = w->f->rig.queue;
	w->queues[1] = &w->others[0];
	w->queues[2] = &w->others[1];
	w->f->j.queues = w->queues;
	w->f->j.nr_queues = 3;
	w->f->planner.paths = &w->paths;
	judge_settle(&w->f->j, &w->f->planner, w->f->kinds);
	move_away(w);
	turn(w, true);
	*state = w;
	return 0;
}

static int far_teardown(void **state)
{
	struct far_world *w = *state;

	grace_discard(w->set);
	return teardown((void **)&w->f);
}

static void put_under(struct far_world *w, const char *json, uint32_t uid)
{
	static struct engine_config config;
	static struct config_report said;
	const struct contract_world around = {
		.planner = &w->f->planner, .default_priority = TENT_PRIORITY_MEDIUM,
	};
	int rc;

	engine_config_default(&config);
	if (engine_config_apply_json(&config, json, &said))
		fail_msg("%s", said.error);
	grace_discard(w->set);
	w->set = contract_set_create(&config.contracts, &around, &rc);
	assert_int_equal(rc, 0);
	w->f->own->space.contract = contract_of(w->set, uid, false);
}

/* One request by each of n, all of them accepted. */
static void expect_by(struct far_world *w, uint32_t n, uint8_t transport)
{
	expect(w->f, n, 0, 0, 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(w->f->transfers[i].transport, transport);
		assert_int_equal(w->f->transfers[i].queue->ops->transport, transport);
		assert_ptr_equal(w->f->transfers[i].remote->far, &w->end);
	}
}

static uint64_t asked_for(struct far_world *w, uint32_t n, uint8_t transport)
{
	uint64_t before = nr_asked;

	expect_by(w, n, transport);
	return nr_asked - before;
}

/* ---- ways ---------------------------------------------------------------- */

static void who_moved_one_like_it_is_taken_again_unasked(void **state)
{
	struct far_world *w = *state;

	assert_true(asked_for(w, NR, RDMA) > 0);
	assert_int_equal(asked_for(w, NR, RDMA), 0);
	for (uint32_t i = 0; i < NR; i++)
		w->f->slots[i].request.intent_type = GET;	/* another kind */
	assert_true(asked_for(w, NR, RDMA) > 0);
	assert_int_equal(asked_for(w, NR, RDMA), 0);
}

static void once_a_backend_reaches_otherwise_it_is_asked_again(void **state)
{
	struct far_world *w = *state;

	for (int round = 0; round < 3; round++) {
		expect_by(w, NR, RDMA);
		expect_by(w, NR, RDMA);
		turn(w, false);
		expect_by(w, NR, TCP);
		assert_int_equal(asked_for(w, NR, TCP), 0);
		turn(w, true);
	}
}

static void a_way_that_is_paused_is_left_by_who_took_it_before(void **state)
{
	struct far_world *w = *state;
	struct transfer failed = { .transport = RDMA, .remote = &w->f->peer->regions[0] };

	expect_by(w, NR, RDMA);
	expect_by(w, NR, RDMA);
	w->paths.errors = 1;
	w->paths.window = w->paths.pause = w->paths.pause_max = UINT64_MAX / 4;
	assert_true(paths_failed(&w->paths, &failed, 1));
	expect_by(w, NR, TCP);
	expect_by(w, NR, TCP);
	assert_true(paths_worked(&w->paths, &failed));
	expect_by(w, NR, RDMA);
}

/* The second contract lies where the first one lay, or not: its serial is another. */
static void another_contract_means_another_choice(void **state)
{
	struct far_world *w = *state;

	for (int round = 0; round < 4; round++) {
		put_under(w, "{\"policy\":[{\"name\":\"r\",\"transports\":[\"rdma\"]}]}", 1);
		expect_by(w, NR, RDMA);
		expect_by(w, NR, RDMA);
		put_under(w, "{\"policy\":[{\"name\":\"t\",\"transports\":[\"tcp\"]}]}", 1);
		expect_by(w, NR, TCP);
		expect_by(w, NR, TCP);
	}
}

static void what_others_may_only_read_is_written_by_nobody_who_has_read_it(void **state)
{
	struct far_world *w = *state;
	struct tent_request_v1 *r = &w->f->slots[0].request;

	r->target_offset = w->f->peer->regions[2].base;
	for (int round = 0; round < 3; round++) {
		r->opcode = TENT_OPCODE_READ;
		expect_by(w, 1, RDMA);
		r->opcode = TENT_OPCODE_WRITE;
		expect(w->f, 1, TENT_RULE_TARGET_PERMISSION, 0, (int64_t)r->target_offset);
	}
}

#define BESIDE REGION_WAYS_BESIDE
static struct region_hints memory;
static const struct region here;

/* Nobody looks at what it points to. */
static const struct region *at(uint32_t i)
{
	return (const struct region *)((uintptr_t)(i + 1) * 64);
}

static void keep(const struct region *remote)
{
	way_keep(&memory, &(struct region_way){ .local = &here, .remote = remote, .changes = 1 });
}

static uint64_t group_of(const struct region *remote)
{
	return (uint64_t)(way_at(&memory, &here, remote, 0) - memory.ways) / BESIDE;
}

/* Not one after the other: none of them may go while there is room. */
static void ways_that_lie_beside_each_other_are_all_remembered(void **state)
{
	const struct region *kept[BESIDE];
	uint32_t n;

	(void)state;
	for (uint32_t first = 0; first < 64; first++) {
		memset(&memory, 0, sizeof(memory));
		n = 0;
		for (uint32_t i = first; n < BESIDE; i++)
			if (group_of(at(i)) == group_of(at(first)))
				keep(kept[n++] = at(i));
		while (n--)
			assert_non_null(way_find(&memory, &here, kept[n], 0, 1));
	}
}

/* ---- whatever is asked ---------------------------------------------------- */

static const char random_config[] =
	"{\"policy\":["
	"{\"name\":\"large-to-gpus\",\"remote_memory\":\"cuda\",\"min_size\":4096,"
	" \"intent_type\":\"foreground_get\",\"transports\":[\"tcp\"]},"
	"{\"name\":\"gpus\",\"remote_memory\":\"cuda\",\"intent_type\":\"migration\","
	" \"transports\":[\"rdma\"]},"
	"{\"name\":\"gets\",\"intent_type\":\"foreground_get\",\"transports\":[\"rdma\",\"tcp\"]},"
	"{\"name\":\"large\",\"min_size\":4096,\"intent_type\":\"migration\","
	" \"transports\":[\"tcp\"]},"
	"{\"name\":\"near\",\"same_machine\":true,\"transports\":[\"shm\"]},"
	"{\"name\":\"far\",\"same_machine\":false,\"priority\":\"low\",\"transports\":[\"tcp\"]},"
	"{\"name\":\"any\"}],"
	"\"qos\":{\"version\":1,\"tenants\":["
	"{\"name\":\"a\",\"intents\":{\"checkpoint\":{\"priority\":\"low\"},"
	" \"background_prefetch\":{\"max_inflight_bytes\":4096}}}]},"
	"\"authorization\":{\"tenants\":["
	"{\"name\":\"a\",\"uids\":[1]},"
	"{\"name\":\"b\",\"uids\":[2],\"transports\":[\"shm\",\"tcp\"],"
	" \"priority_cap\":\"medium\",\"on_denied\":\"downgrade\"},"
	"{\"name\":\"c\",\"uids\":[3],\"policies\":[\"gets\",\"near\"],"
	" \"priority_cap\":\"medium\",\"on_denied\":\"reject\"}]}}";

static void ask_anything(struct far_world *w, uint32_t i, uint64_t *seed)
{
	static const uint64_t lengths[] = { 0, 64, 4095, 4096, 8192 };
	struct intent_fix *f = w->f;
	struct tent_request_v1 *r = &f->slots[i].request;
	const struct rig_client *to = random_next(seed) % 3 ? f->peer : f->own;

	good(f, i);
	r->opcode = (int32_t)(random_next(seed) % 2);
	r->target_id = to == f->peer ? FAR : NEAR;
	r->source = (void *)(uintptr_t)f->own->regions[random_next(seed) % 2].base;
	r->target_offset = to->regions[random_next(seed) % 3].base +
			   random_next(seed) % 4 * 8192;
	r->length = lengths[random_next(seed) % 5];
	r->intent_type = (int32_t)(random_next(seed) % 6);
	r->requested_priority = (int32_t)(random_next(seed) % 3);
	if (random_next(seed) % 16 == 0)
		r->transport_hint = random_next(seed) % 2 ? RDMA : TCP;
}

static void compare(const struct transfer *a, const struct transfer *b)
{
	assert_ptr_equal(a->local, b->local);
	assert_ptr_equal(a->remote, b->remote);
	assert_ptr_equal(a->queue, b->queue);
	assert_memory_equal(&a->local_addr, &b->local_addr,
			    offsetof(struct transfer, batch) -
			    offsetof(struct transfer, local_addr));
}

/* By a judge that remembers nothing. */
static void expect_the_same(struct far_world *w, uint32_t n, bool accepted)
{
	static struct transfer other[NR], *list[NR];
	struct judge bare = w->f->j;
	struct refusal why;

	bare.way = SHORT_NONE;
	bare.hints = NULL;
	bare.planner = NULL;
	for (uint32_t i = 0; i < n; i++)
		list[i] = &other[i];
	assert_int_equal(judge_batch(&bare, w->f->slots, (const void *)w->f->cells, n, list,
				     &why) != BATCH_REFUSED, accepted);
	for (uint32_t i = 0; accepted && i < n; i++)
		compare(&w->f->transfers[i], &other[i]);
	if (accepted)
		return;
	assert_int_equal(w->f->why.rule, why.rule);
	assert_int_equal(w->f->why.index, why.index);
}

#define ROUNDS 60000

static void with_and_without_a_memory_the_judge_says_the_same(void **state)
{
	struct far_world *w = *state;
	uint64_t seed = 20261201;
	uint32_t accepted = 0;

	put_under(w, random_config, 1);
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n = 1 + random_next(&seed) % 4;
		bool good;

		if (random_next(&seed) % 64 == 0)
			w->f->own->space.contract = random_next(&seed) % 4 == 0 ? NULL :
				contract_of(w->set, 1 + random_next(&seed) % 3, false);
		if (random_next(&seed) % 64 == 0)
			turn(w, random_next(&seed) % 2);
		w->f->j.slot_flags = random_next(&seed) % 4 ? 0 : TENT_SLOT_F_LEGACY;
		for (uint32_t i = 0; i < n; i++)
			ask_anything(w, i, &seed);
		good = judge(w->f, n);
		accepted += good;
		expect_the_same(w, n, good);
	}
	assert_in_range(accepted, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

#define FAR_TEST(name) cmocka_unit_test_setup_teardown(name, far_setup, far_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAR_TEST(who_moved_one_like_it_is_taken_again_unasked),
		FAR_TEST(once_a_backend_reaches_otherwise_it_is_asked_again),
		FAR_TEST(a_way_that_is_paused_is_left_by_who_took_it_before),
		FAR_TEST(another_contract_means_another_choice),
		FAR_TEST(what_others_may_only_read_is_written_by_nobody_who_has_read_it),
		cmocka_unit_test(ways_that_lie_beside_each_other_are_all_remembered),
		FAR_TEST(with_and_without_a_memory_the_judge_says_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
