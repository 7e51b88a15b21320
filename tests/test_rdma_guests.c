/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_guests.c - engines that ask for more connections than one may have: by frames as
 * their links would bring them, to the rdma backend on a software ConnectX.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dv/backend.h"
#include "dv/rdma.h"
#include "engine/config.h"
#include "tests/common/sim.h"

#define TENANT 1000u

/* Two engines; nobody looks into what stands for them. */
static const char engines[2];

struct world {
	struct backend_instance *base;
	const struct wired_ops *ops;
	char said[16], reason[201];	/* in the last frame to a guest */
	const struct guest *to;
};

static const struct guest *guest(uint32_t i)
{
	return (const struct guest *)(const void *)&engines[i];
}

static bool to_far(void *context, const struct far_end *f, json_t *frame)
{
	(void)context;
	(void)f;
	json_decref(frame);
	return false;
}

static bool to_guest(void *context, const struct guest *g, json_t *frame)
{
	struct world *w = context;
	const char *reason = json_string_value(json_object_get(frame, "reason"));

	w->to = g;
	strncpy(w->said, json_string_value(json_object_get(frame, "what")), sizeof(w->said) - 1);
	strncpy(w->reason, reason ? reason : "", sizeof(w->reason) - 1);
	json_decref(frame);
	return true;
}

static int setup(void **state)
{
	static struct engine_config config;
	static struct world w;
	const struct wired_link link = { .context = &w, .to_far = to_far, .to_guest = to_guest };
	struct backend_options o = { .faults = "" };
	int fd;

	memset(&w, 0, sizeof(w));
	engine_config_default(&config);
	o.rdma = config.rdma;
	w.ops = rdma_backend.wired;
	assert_int_equal(rdma_backend.open(&w.base, &o), 0);
	assert_int_equal(w.ops->start(w.base, &link, &fd), 0);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (uint32_t i = 0; i < 2; i++)
		w->ops->guest_close(w->base, guest(i));
	rdma_backend.close(w->base);
	return 0;
}

/* From a QP of the same port: that nobody is there shows only once something is sent. What
 * is answered. */
static const char *say(struct world *w, uint32_t who, const char *what, uint64_t id)
{
	const struct rdma_instance *inst = (const struct rdma_instance *)w->base;
	const struct dv_endpoint e = {
		.address = inst->rails[0].device.address, .qpn = 77, .psn = 1, .reads = 1,
	};
	json_t *frame = rdma_frame(what, id, strcmp(what, "call") ? NULL : &e, NULL);

	w->to = NULL;
	w->ops->guest_frame(w->base, guest(who), TENANT, frame);
	json_decref(frame);
	assert_ptr_equal(w->to, guest(who));
	return w->said;
}

static void call_all(struct world *w)
{
	for (uint32_t i = 0; i < RDMA_GUEST_MAX; i++)
		if (strcmp(say(w, 0, "call", i), "answer") != 0)
			fail_msg("call %u: %s, %s", i, w->said, w->reason);
}

static void who_has_as_many_connections_as_it_may_is_told_so(void **state)
{
	struct world *w = *state;

	call_all(w);
	assert_string_equal(say(w, 0, "call", RDMA_GUEST_MAX), "refuse");
	assert_string_equal(w->reason, "its engine serves as many connections as it may");
}

static void another_engine_is_served_while_one_has_all_that_it_may(void **state)
{
	struct world *w = *state;

	call_all(w);
	assert_string_equal(say(w, 1, "call", 0), "answer");
}

static void a_connection_that_ended_makes_room_for_one(void **state)
{
	struct world *w = *state;

	call_all(w);
	assert_string_equal(say(w, 0, "end", 7), "ended");
	assert_string_equal(say(w, 0, "call", RDMA_GUEST_MAX), "answer");
	assert_string_equal(say(w, 0, "call", RDMA_GUEST_MAX + 1), "refuse");
}

static void an_engine_that_is_gone_leaves_no_connection(void **state)
{
	struct world *w = *state;
	const struct rdma_instance *inst = (const struct rdma_instance *)w->base;

	call_all(w);
	assert_string_equal(say(w, 1, "call", 0), "answer");
	w->ops->guest_close(w->base, guest(0));
	assert_int_equal(inst->nr_served, 1);
	call_all(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	static const char *const links[] = { "--link roce", "--link ib", NULL };
	const struct CMUnitTest tests[] = {
		TEST(who_has_as_many_connections_as_it_may_is_told_so),
		TEST(another_engine_is_served_while_one_has_all_that_it_may),
		TEST(a_connection_that_ended_makes_room_for_one),
		TEST(an_engine_that_is_gone_leaves_no_connection),
	};

	(void)argc;
	sim_main(argv, links);
	return cmocka_run_group_tests_name(sim_has("ib") ? "guests, InfiniBand" : "guests, RoCE",
					   tests, NULL, NULL);
}
