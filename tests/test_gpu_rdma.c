/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu_rdma.c - memory of GPUs of two hosts, between which cards move it by themselves: by
 * dma-buf, by address, or not at all. Both programs run on software cards and GPUs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/transfer_engine.h>

#include "sim/cuda/driver.h"
#include "tests/common/gpu_agent.h"
#include "tests/common/sim.h"

#define SIZE (5ull << 20)
#define CHUNK (2ull << 20)
#define MARGIN 64u		/* on either side of what is moved, and left alone */
#define ALONE "transports/tcp/enable=false"
/* All of it each time: what a host's cards were told may outlive who said it. Retries of half a
 * second in all are too short for a machine that others use. */
#define CARD(no_dma_buf, peer_memory) "--fault", "timeouts=400%", \
	"--fault", "no_dma_buf=" no_dma_buf, "--fault", "peer_memory=" peer_memory

static struct hosts hosts;
static bool is_permitted;

static const char *const by_dma_buf[] = { CARD("off", "off"), NULL };
static const char *const by_both[] = { CARD("off", "on"), NULL };
static const char *const by_address[] = { CARD("on", "on"), NULL };
static const char *const by_nothing[] = { CARD("on", "off"), NULL };

/* Two programs: host 0 owns a segment, host 1 uses it. */
struct pair {
	struct gpu_agent owner, user;
	uint64_t id;
	uint64_t mine, theirs;	/* SIZE of GPU 0: the user's, the owner's */
};

static void start(struct pair *p, const char *const *owner, const char *const *user)
{
	if (!is_permitted)
		skip();
	gpu_agent_start(&p->owner, &hosts, 0, owner);
	gpu_agent_start(&p->user, &hosts, 1, user);
}

static uint64_t memory(struct gpu_agent *a, int gpu, uint64_t size)
{
	uint64_t at = gpu_agent_allocate(a, gpu, size);

	assert_int_equal(gpu_agent_register(a, at, size), 0);
	return at;
}

/* A peer that did not answer in time, on a machine that others use, is called again a little
 * later; one that never is fails the test. */
static void connect_cards(struct pair *p)
{
	const struct gpu_request r = { TENT_OPCODE_WRITE, memory(&p->user, -1, 4096),
				       memory(&p->owner, -1, 4096), 1 };
	int64_t batch, status = TENT_STATUS_PENDING;
	const char *why = NULL;

	while (status != TENT_STATUS_COMPLETED) {
		batch = gpu_agent_submit(&p->user, p->id, &r, &why);
		if (batch < 0 && batch != TENT_ERR_ADDRESS && batch != TENT_ERR_TRANSPORT)
			fail_msg("%d: %s", (int)batch, why);
		status = batch < 0 ? status : gpu_agent_wait(&p->user, batch, &why);
		if (status == TENT_STATUS_FAILED && !strstr(why, "engine answered"))
			fail_msg("%s", why);
	}
}

static void engines(struct pair *p)
{
	char name[256];

	snprintf(name, sizeof(name), "%s", gpu_agent_engine(&p->owner, 0, ALONE));
	gpu_agent_engine(&p->user, 1, ALONE);
	p->id = gpu_agent_open(&p->user, name);
	connect_cards(p);
	p->theirs = memory(&p->owner, 0, SIZE);
	p->mine = memory(&p->user, 0, SIZE);
}

static void end(struct pair *p)
{
	gpu_agent_engine_end(&p->user);
	gpu_agent_engine_end(&p->owner);
	gpu_agent_end(&p->user);
	gpu_agent_end(&p->owner);
}

/* It is told of what its owner registers a little later. */
static int64_t submit(struct pair *p, const struct gpu_request *r)
{
	const char *why;
	int64_t batch;

	do {
		batch = gpu_agent_submit(&p->user, p->id, r, &why);
	} while (batch == TENT_ERR_ADDRESS);
	if (batch < 0)
		fail_msg("%d: %s", (int)batch, why);
	return batch;
}

static void move(struct pair *p, int opcode, uint64_t source, uint64_t target, uint64_t length)
{
	const struct gpu_request r = { opcode, source, target, length };
	const char *why;

	if (gpu_agent_wait(&p->user, submit(p, &r), &why) != TENT_STATUS_COMPLETED)
		fail_msg("%s", why);
}

/* What lies in memory of one of the two. */
struct place {
	struct gpu_agent *agent;
	int gpu;
	uint64_t at;
};

/* Every byte of it, and none beside it. */
static void expect_moved(struct pair *p, int opcode, struct place mine, struct place theirs,
			 uint64_t length, uint32_t seed)
{
	const struct place *from = opcode == TENT_OPCODE_WRITE ? &mine : &theirs;
	const struct place *to = opcode == TENT_OPCODE_WRITE ? &theirs : &mine;

	gpu_agent_fill(from->agent, from->gpu, from->at, length, seed);
	gpu_agent_fill(to->agent, to->gpu, to->at - MARGIN, MARGIN, seed + 1);
	gpu_agent_fill(to->agent, to->gpu, to->at, length, seed + 2);
	gpu_agent_fill(to->agent, to->gpu, to->at + length, MARGIN, seed + 3);
	move(p, opcode, mine.at, theirs.at, length);
	assert_true(gpu_agent_has(to->agent, to->gpu, to->at, length, seed));
	assert_true(gpu_agent_has(to->agent, to->gpu, to->at - MARGIN, MARGIN, seed + 1));
	assert_true(gpu_agent_has(to->agent, to->gpu, to->at + length, MARGIN, seed + 3));
}

/* At odd places, in odd lengths: what would go inline of the host's, and more than one piece. */
static void expect_all_moved(struct pair *p, struct place mine, struct place theirs)
{
	static const uint64_t lengths[] = { 1, 64, 219, 4095, 65537, (3u << 20) + 11 };

	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct place from = mine, to = theirs;

		from.at += 1001 + i;
		to.at += 4093 - i;
		expect_moved(p, TENT_OPCODE_WRITE, from, to, lengths[i], 10 * i);
		expect_moved(p, TENT_OPCODE_READ, from, to, lengths[i], 10 * i + 5);
	}
}

static void expect_explained(struct pair *p, uint64_t source, uint64_t target, const char *text)
{
	const struct gpu_request r = { TENT_OPCODE_WRITE, source, target, 100 };
	const char *json = gpu_agent_explain(&p->user, p->id, &r);

	if (!strstr(json, text))
		fail_msg("no \"%s\" in: %s", text, json);
}

static void round_trips(const char *const *sim, const char *way)
{
	struct pair p;
	uint64_t theirs;

	start(&p, sim, sim);
	engines(&p);
	theirs = memory(&p.owner, 1, SIZE);
	expect_all_moved(&p, (struct place){ &p.user, 0, p.mine },
			 (struct place){ &p.owner, 1, theirs });
	expect_explained(&p, p.mine, theirs, way);
	expect_explained(&p, p.mine, theirs, "\"transport\":\"rdma\"");
	end(&p);
}

/* ---- how cards have it --------------------------------------------------------- */

static void bytes_go_from_gpu_to_gpu_by_dma_buf(void **state)
{
	(void)state;
	round_trips(by_dma_buf, "registered with mlx5_0 by dma-buf\"");
}

static void where_a_card_takes_no_dma_buf_they_go_by_address(void **state)
{
	(void)state;
	round_trips(by_address, "registered with mlx5_0 by its address; not by dma-buf: mlx5_0: ");
}

static void where_the_driver_has_no_dma_buf_they_go_by_address(void **state)
{
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_both);
	gpu_agent_set(&p.user, 0, GPU_NO_DMA_BUF, true);
	engines(&p);
	expect_all_moved(&p, (struct place){ &p.user, 0, p.mine },
			 (struct place){ &p.owner, 0, p.theirs });
	expect_explained(&p, p.mine, p.theirs,
			 "by its address; not by dma-buf: GPU 0 has none");
	end(&p);
}

static void where_there_is_no_way_requests_are_refused_with_both_reasons(void **state)
{
	struct gpu_request r = { TENT_OPCODE_WRITE, 0, 0, 100 };
	const char *why, *json;
	int64_t rc;
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_nothing);
	engines(&p);
	r.source = p.mine;
	r.target = p.theirs;
	do {
		rc = gpu_agent_submit(&p.user, p.id, &r, &why);
	} while (rc == TENT_ERR_ADDRESS);
	assert_int_equal(rc, TENT_ERR_TRANSPORT);
	json = gpu_agent_explain(&p.user, p.id, &r);
	if (!strstr(json, "registered with no card; not by dma-buf: ") ||
	    !strstr(json, "Operation not supported; not by its address: ") ||
	    !strstr(json, "Bad address"))
		fail_msg("%s", json);
	end(&p);
}

/* ---- which memory --------------------------------------------------------------- */

static void bytes_go_between_a_gpu_and_a_host(void **state)
{
	uint64_t host;
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	engines(&p);
	host = memory(&p.user, -1, SIZE);
	expect_all_moved(&p, (struct place){ &p.user, -1, host },
			 (struct place){ &p.owner, 0, p.theirs });
	host = memory(&p.owner, -1, SIZE);
	expect_all_moved(&p, (struct place){ &p.user, 0, p.mine },
			 (struct place){ &p.owner, -1, host });
	end(&p);
}

/* A range that begins and ends in the middle of a page, and of others' allocations. */
static void a_part_of_an_allocation_is_registered_alone(void **state)
{
	uint64_t mine, theirs;
	struct gpu_request r;
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_address);
	engines(&p);
	theirs = gpu_agent_allocate(&p.owner, 0, 9000);
	mine = gpu_agent_allocate(&p.user, 0, 9000);
	assert_int_equal(gpu_agent_register(&p.owner, theirs + 777, 5555), 0);
	assert_int_equal(gpu_agent_register(&p.user, mine + 333, 5555), 0);
	expect_moved(&p, TENT_OPCODE_WRITE, (struct place){ &p.user, 0, mine + 333 },
		     (struct place){ &p.owner, 0, theirs + 777 }, 5555, 1);
	expect_moved(&p, TENT_OPCODE_READ, (struct place){ &p.user, 0, mine + 334 },
		     (struct place){ &p.owner, 0, theirs + 778 }, 5554, 2);
	r = (struct gpu_request){ TENT_OPCODE_WRITE, mine + 333, theirs + 778, 5555 };
	assert_int_equal(gpu_agent_submit(&p.user, p.id, &r, NULL), TENT_ERR_ADDRESS);
	end(&p);
}

/* ---- how it ends ----------------------------------------------------------------- */

static void what_is_unregistered_in_flight_ends_and_may_be_freed(void **state)
{
	enum { ROUNDS = 8, DEEP = 8 };
	uint64_t theirs, keeper;
	int64_t batches[DEEP];
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	engines(&p);
	keeper = memory(&p.owner, 1, SIZE);
	for (int i = 0; i < ROUNDS; i++) {
		theirs = memory(&p.owner, 0, SIZE);
		for (int j = 0; j < DEEP; j++)
			batches[j] = submit(&p, &(const struct gpu_request){
					    i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, p.mine,
					    theirs, SIZE });
		assert_int_equal(gpu_agent_unregister(&p.owner, theirs, SIZE), 0);
		gpu_agent_free(&p.owner, 0, theirs);
		for (int j = 0; j < DEEP; j++)
			assert_true(gpu_agent_wait(&p.user, batches[j], NULL) >=
				    TENT_STATUS_INVALID);
		expect_moved(&p, TENT_OPCODE_WRITE, (struct place){ &p.user, 0, p.mine + 99 },
			     (struct place){ &p.owner, 1, keeper + 77 }, 9999, (uint32_t)i);
	}
	end(&p);
}

/* ---- when it is there ------------------------------------------------------------ */

static void direct_requests_call_no_driver(void **state)
{
	static const int calls[] = { CALL_cuCtxPushCurrent_v2, CALL_cuPointerGetAttributes,
				     CALL_cuFlushGPUDirectRDMAWrites, CALL_cuEventQuery,
				     CALL_cuMemGetHandleForAddressRange };
	uint64_t before[5];
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	engines(&p);
	move(&p, TENT_OPCODE_WRITE, p.mine, p.theirs, 1000);
	for (int i = 0; i < 5; i++)
		before[i] = gpu_agent_calls(&p.user, calls[i]);
	for (int i = 0; i < 20; i++)
		move(&p, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, p.mine, p.theirs, SIZE);
	for (int i = 0; i < 5; i++)
		assert_int_equal(gpu_agent_calls(&p.user, calls[i]), before[i]);
	end(&p);
}

static void where_writes_are_not_ordered_a_read_ends_with_a_flush(void **state)
{
	uint64_t flushes;
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	gpu_agent_set(&p.user, 0, GPU_NO_ORDERING, true);
	engines(&p);
	flushes = gpu_agent_calls(&p.user, CALL_cuFlushGPUDirectRDMAWrites);
	move(&p, TENT_OPCODE_WRITE, p.mine, p.theirs, SIZE);
	assert_int_equal(gpu_agent_calls(&p.user, CALL_cuFlushGPUDirectRDMAWrites), flushes);
	expect_moved(&p, TENT_OPCODE_READ, (struct place){ &p.user, 0, p.mine + 100 },
		     (struct place){ &p.owner, 0, p.theirs + 100 }, SIZE - 200, 4);
	assert_int_equal(gpu_agent_calls(&p.user, CALL_cuFlushGPUDirectRDMAWrites), flushes + 1);
	end(&p);
}

static void a_flush_that_fails_fails_its_request(void **state)
{
	const char *why;
	struct pair p;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	gpu_agent_set(&p.user, 0, GPU_NO_ORDERING, true);
	engines(&p);
	move(&p, TENT_OPCODE_READ, p.mine, p.theirs, 1000);
	gpu_agent_fail(&p.user, CALL_cuFlushGPUDirectRDMAWrites, CU_ECC_UNCORRECTABLE);
	assert_int_equal(gpu_agent_wait(&p.user, submit(&p, &(const struct gpu_request){
					TENT_OPCODE_READ, p.mine, p.theirs, 1000 }), &why),
			 TENT_STATUS_FAILED);
	move(&p, TENT_OPCODE_READ, p.mine, p.theirs, 1000);
	end(&p);
}

/* Whoever writes cannot tell the GPU there, and its owner is not asked. */
static void peers_do_not_write_where_writes_are_not_ordered(void **state)
{
	struct gpu_request r = { TENT_OPCODE_WRITE, 0, 0, 1000 };
	struct pair p;
	int64_t rc;

	(void)state;
	start(&p, by_dma_buf, by_dma_buf);
	gpu_agent_set(&p.owner, 0, GPU_NO_ORDERING, true);
	engines(&p);
	r.target = p.theirs;
	r.source = p.mine;
	do {
		rc = gpu_agent_submit(&p.user, p.id, &r, NULL);
	} while (rc == TENT_ERR_ADDRESS);
	assert_int_equal(rc, TENT_ERR_TRANSPORT);
	expect_explained(&p, r.source, r.target, "offers this memory to no device");
	end(&p);
}

static int setup(void **state)
{
	(void)state;
	is_permitted = hosts_open(&hosts);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (is_permitted)
		hosts_close(&hosts);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_from_gpu_to_gpu_by_dma_buf),
		cmocka_unit_test(where_a_card_takes_no_dma_buf_they_go_by_address),
		cmocka_unit_test(where_the_driver_has_no_dma_buf_they_go_by_address),
		cmocka_unit_test(where_there_is_no_way_requests_are_refused_with_both_reasons),
		cmocka_unit_test(bytes_go_between_a_gpu_and_a_host),
		cmocka_unit_test(a_part_of_an_allocation_is_registered_alone),
		cmocka_unit_test(what_is_unregistered_in_flight_ends_and_may_be_freed),
		cmocka_unit_test(direct_requests_call_no_driver),
		cmocka_unit_test(where_writes_are_not_ordered_a_read_ends_with_a_flush),
		cmocka_unit_test(a_flush_that_fails_fails_its_request),
		cmocka_unit_test(peers_do_not_write_where_writes_are_not_ordered),
	};

	(void)argc;
	gpu_agent_main(argv);
	return cmocka_run_group_tests(tests, setup, teardown);
}
