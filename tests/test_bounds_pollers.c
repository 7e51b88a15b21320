/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bounds_pollers.c - two users of one tenant, each on a poller of its own, as hard as they
 * can: together they never have more in flight than their contract says, and all of it ends.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "engine/bounds.h"
#include "engine/config.h"
#include "engine/contract.h"
#include "engine/round.h"
#include "engine/transfer_list.h"
#include "tests/common/rig.h"
#include "tests/common/soak.h"

#define POLLERS 2u
#define BATCH 8u
#define LENGTH 1000u

/* ---- a transport that counts what it has -------------------------------- */

static uint32_t has;		/* transfers, of both pollers */
static uint32_t batches;	/* of each: it is by chance that they meet */

struct gauge_queue {
	struct backend_queue base;
	struct transfer_list kept;
	uint32_t most;		/* there were when one came */
};

static const struct backend gauge;

static int gauge_open(struct backend_instance **inst, const struct backend_options *o)
{
	(void)o;
	*inst = calloc(1, sizeof(**inst));
	rig_need(*inst, "no memory");
	(*inst)->ops = &gauge;
	return 0;
}

static void gauge_close(struct backend_instance *inst)
{
	free(inst);
}

static int gauge_queue_open(struct backend_instance *inst, int event_fd,
			    struct backend_queue **queue)
{
	struct gauge_queue *q = calloc(1, sizeof(*q));

	(void)event_fd;
	rig_need(q, "no memory");
	q->base.ops = &gauge;
	q->base.inst = inst;
	transfer_list_init(&q->kept);
	*queue = &q->base;
	return 0;
}

static void gauge_queue_close(struct backend_queue *queue)
{
	free(queue);
}

static bool gauge_reaches(const struct backend_instance *inst, const struct region *local,
			  const struct region *remote)
{
	(void)inst;
	(void)local;
	(void)remote;
	return true;
}

static enum post_result gauge_post(struct backend_queue *queue, struct transfer *t,
				   uint64_t budget)
{
	struct gauge_queue *q = (struct gauge_queue *)queue;
	uint32_t now = fetch_add(&has, 1u) + 1;

	(void)budget;
	if (now > q->most)
		q->most = now;
	transfer_list_push(&q->kept, t);
	return POST_PENDING;
}

static struct transfer *gauge_poll(struct backend_queue *queue)
{
	struct gauge_queue *q = (struct gauge_queue *)queue;
	struct transfer_list ended;
	struct transfer *t;

	transfer_list_init(&ended);
	while ((t = transfer_list_pop(&q->kept))) {
		t->done = t->length;
		transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
		fetch_add(&has, -1u);
		transfer_list_push(&ended, t);
	}
	return transfer_list_take(&ended);
}

static bool gauge_cancel(struct backend_queue *queue, struct transfer *t, uint16_t rule)
{
	(void)queue;
	(void)t;
	(void)rule;
	return false;	/* the next poll() */
}

static const struct backend gauge = {
	.name = "gauge", .transport = TENT_TRANSPORT_SHM,
	.open = gauge_open, .close = gauge_close,
	.queue_open = gauge_queue_open, .queue_close = gauge_queue_close,
	.reaches = gauge_reaches, .reaches_mapped = true,
	.post = gauge_post, .poll = gauge_poll, .cancel = gauge_cancel,
};

/* ---- both pollers -------------------------------------------------------- */

static struct rig rigs[POLLERS];
static struct bounds_account *accounts;
static struct contract_set *set;
static pthread_barrier_t together;

/* Poller i's clients are user i + 1; both are tenant a. */
static void start(const char *terms)
{
	static struct engine_config config;
	static struct config_report said;
	char json[512];
	int rc;

	for (uint32_t i = 0; i < POLLERS; i++)
		rig_start(&rigs[i], &(struct rig_options){
			.backends = { { .ops = &gauge } },
			.poller = { .index = i, .core = -1, .turn_slots = 16, .turn_bytes = 65536,
				    .answer_fd = -1, .event_fd = -1 } });
	snprintf(json, sizeof(json), "{\"authorization\":{\"tenants\":[{\"name\":\"a\","
		 "\"uids\":[1,2]}]},\"qos\":{\"version\":1,\"defaults\":{%s}}}", terms);
	engine_config_default(&config);
	if (engine_config_apply_json(&config, json, &said))
		fail_msg("%s", said.error);
	set = contract_set_create(&config.contracts, &(struct contract_world){
		.planner = &rigs[0].poller->planner,
		.default_priority = TENT_PRIORITY_MEDIUM }, &rc);
	assert_int_equal(rc, 0);
	assert_int_equal(contract_set_bind(set, &accounts, POLLERS), 0);
	for (uint32_t i = 0; i < POLLERS; i++)
		for (uint32_t k = 0; k < 2; k++)
			rigs[i].clients[k].space.contract = contract_of(set, i + 1, false);
}

static void stop(void)
{
	for (uint32_t i = 0; i < POLLERS; i++)
		rig_stop(&rigs[i]);
	assert_int_equal(has, 0);
	bounds_close(&accounts);
	grace_discard(set);
}

static void *drive(void *of)
{
	struct rig *r = of;
	struct rig_ring *ring = &r->rings[0];

	for (uint32_t i = 0; i < batches; i++) {
		pthread_barrier_wait(&together);
		for (uint32_t k = 0; k < BATCH; k++)
			rig_request(ring, k, TENT_OPCODE_WRITE, 0, 0, LENGTH);
		rig_publish(ring, BATCH, TENT_OP_REQUEST, 0);
		for (uint32_t done = 0; done < BATCH; done += rig_reap_all(ring))
			poller_turn(r->poller);
	}
	return NULL;
}

/* The most that the transport had at a time. */
static uint32_t most_at_once(const char *terms)
{
	pthread_t threads[POLLERS];
	uint32_t most = 0;

	start(terms);
	pthread_barrier_init(&together, NULL, POLLERS);
	for (uint32_t i = 0; i < POLLERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, drive, &rigs[i]), 0);
	for (uint32_t i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&together);
	for (uint32_t i = 0; i < POLLERS; i++) {
		const struct gauge_queue *q = (const struct gauge_queue *)rigs[i].queue;

		assert_int_equal(rigs[i].poller->stats.completed, batches * BATCH);
		most = q->most > most ? q->most : most;
	}
	stop();
	return most;
}

/* ---- tests --------------------------------------------------------------- */

static void both_together_have_no_more_requests_than_the_bound(void **state)
{
	(void)state;
	assert_int_equal(most_at_once("\"max_inflight_requests\":1"), 1);
	assert_in_range(most_at_once("\"max_inflight_requests\":3"), 1, 3);
}

static void both_together_have_no_more_bytes_than_the_bound(void **state)
{
	(void)state;
	assert_int_equal(most_at_once("\"max_inflight_bytes\":1999"), 1);
	assert_in_range(most_at_once("\"max_inflight_bytes\":3000"), 1, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_together_have_no_more_requests_than_the_bound),
		cmocka_unit_test(both_together_have_no_more_bytes_than_the_bound),
	};

	batches = soak_rounds(20000);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
