/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_tenants.c - tenants of an engine use one peer, played by hand, and have no
 * connection in common: what happens to the requests of one is nothing to the others.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "tests/test_tcp_stage.h"

#define TENANTS 64	/* that have connections to one peer at a time: docs/peers.md */
#define FIRST 70000u	/* a user; others follow */

static struct stage stage;	/* of the user that the test is */

/* A client of a user of its own, who has opened the same segment. */
struct other {
	struct stage *stage;
	uint32_t uid;
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	tent_segment_id_t id;
};

/* This thread alone. */
static void become(uint32_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

static void *other_opens(void *arg)
{
	struct other *o = arg;

	assert_int_equal(tent_client_open_segment(o->client, o->stage->name, &o->id), 0);
	return NULL;
}

/* The peer tells each user anew what the segment is. */
static void other_open(struct other *o, struct stage *s, uint32_t uid)
{
	pthread_t thread;
	json_t *p = page();

	*o = (struct other){ .stage = s, .uid = uid };
	become(uid);
	o->client = engine_fix_attach(&one, NULL);
	become(0);
	o->memory = engine_fix_memory(o->client, CHUNK);
	o->ring = engine_fix_ring(o->client);
	assert_int_equal(pthread_create(&thread, NULL, other_opens, o), 0);
	json_decref(wire_expect(&s->link, "describe"));
	json_object_set_new(p, "uid", json_integer(uid));
	wire_send(&s->link, p);
	pthread_join(thread, NULL);
}

static void other_close(struct other *o)
{
	tent_ring_close(o->ring);
	tent_client_detach(o->client);
}

static void other_submit(struct other *o, int opcode)
{
	struct tent_request_v1 r = engine_fix_request(opcode, o->memory, o->id,
						      (void *)(uintptr_t)THEIRS, 64);

	engine_fix_submit(o->ring, &r);
}

static int take_and_welcome(struct stage *s)
{
	struct tcp_hello h;
	int fd = stage_take(s, &h);

	assert_int_equal(h.purpose, TCP_FOR_DATA);
	welcome(fd, h.connection, 64);
	return fd;
}

static void serve_one(struct stage *s, int fd)
{
	static uint8_t bytes[CHUNK];
	struct tcp_head h;
	int before = s->fd;

	s->fd = fd;
	h = next_whole(s, bytes);
	answer(s, &h, bytes);
	s->fd = before;
}

/* ---- tests ------------------------------------------------------------- */

static void a_connection_that_breaks_carried_nothing_of_another_tenant(void **state)
{
	static uint8_t bytes[64];
	struct other o;
	int fd;

	(void)state;
	stage_open(&stage);
	other_open(&o, &stage, FIRST);
	submit(&stage, TENT_OPCODE_WRITE, 0, 64);
	stage_accept(&stage);
	next_whole(&stage, bytes);
	other_submit(&o, TENT_OPCODE_READ);
	fd = take_and_welcome(&stage);
	close(stage.fd);
	stage.fd = -1;
	expect(engine_fix_wait(stage.ring), TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	serve_one(&stage, fd);
	completed(engine_fix_wait(o.ring), 64);
	close(fd);
	other_close(&o);
	stage_close(&stage);
}

/* None of its answers come: nobody else waits behind it. */
static void a_tenant_whose_answers_do_not_come_holds_up_nobody(void **state)
{
	struct other o;
	int fd;

	(void)state;
	stage_open(&stage);
	other_open(&o, &stage, FIRST);
	tent_ring_close(stage.ring);
	assert_int_equal(tent_ring_open(stage.user, 512, 512, &stage.ring), 0);
	for (int i = 0; i < 512; i++)	/* more than its lines hold */
		submit(&stage, TENT_OPCODE_READ, 0, 64);
	stage_accept(&stage);
	other_submit(&o, TENT_OPCODE_WRITE);
	fd = take_and_welcome(&stage);
	serve_one(&stage, fd);
	completed(engine_fix_wait(o.ring), 64);
	close(stage.fd);
	stage.fd = -1;
	close(stage.data_listener);
	for (int i = 0; i < 512; i++)
		expect(engine_fix_wait(stage.ring), TENT_ERR_PEER_UNREACHABLE,
		       TENT_RULE_PEER_LOST);
	stage.data_listener = dup(stage.listener);
	close(fd);
	other_close(&o);
	stage_close(&stage);
}

/* As many as have connections, and none is idle: one more waits for the first that is,
 * and has its connection then. */
static void a_tenant_too_many_waits_until_another_has_nothing_under_way(void **state)
{
	static struct other others[TENANTS + 1];
	int fds[TENANTS];

	(void)state;
	stage_open(&stage);
	for (uint32_t i = 0; i <= TENANTS; i++)
		other_open(&others[i], &stage, FIRST + i);
	for (uint32_t i = 0; i < TENANTS; i++) {
		other_submit(&others[i], TENT_OPCODE_READ);
		fds[i] = take_and_welcome(&stage);
	}
	other_submit(&others[TENANTS], TENT_OPCODE_READ);
	serve_one(&stage, fds[7]);
	completed(engine_fix_wait(others[7].ring), 64);
	serve_one(&stage, fds[7]);
	completed(engine_fix_wait(others[TENANTS].ring), 64);
	for (uint32_t i = 0; i < TENANTS; i++) {
		if (i != 7)
			serve_one(&stage, fds[i]);
		if (i != 7)
			completed(engine_fix_wait(others[i].ring), 64);
		close(fds[i]);
	}
	for (uint32_t i = 0; i <= TENANTS; i++)
		other_close(&others[i]);
	stage_close(&stage);
}

/* None is ever idle: the first is made to be, so that one more gets in. It asks for more
 * before anything is answered, and that it was taken shows on its connection. */
static void tenants_that_are_never_idle_take_turns_with_one_too_many(void **state)
{
	static struct other others[TENANTS + 1];
	static uint8_t bytes[CHUNK];
	struct tent_completion done;
	int fds[TENANTS];

	(void)state;
	stage_open(&stage);
	for (uint32_t i = 0; i <= TENANTS; i++)
		other_open(&others[i], &stage, FIRST + i);
	for (uint32_t i = 0; i < TENANTS; i++) {
		other_submit(&others[i], TENT_OPCODE_READ);
		fds[i] = take_and_welcome(&stage);
	}
	other_submit(&others[TENANTS], TENT_OPCODE_READ);
	stage.fd = fds[0];
	while (!tent_ring_poll(others[TENANTS].ring, &done, 1)) {
		struct pollfd more = { .fd = fds[0], .events = POLLIN };
		struct tcp_head h = next(&stage);

		other_submit(&others[0], TENT_OPCODE_READ);
		poll(&more, 1, 1000);	/* a moment: what is not taken never comes */
		answer(&stage, &h, bytes);
		while (tent_ring_poll(others[0].ring, &done, 1))
			completed(done, 64);
	}
	completed(done, 64);
	for (uint32_t i = 0; i < TENANTS; i++)
		close(fds[i]);
	stage.fd = -1;
	for (uint32_t i = 0; i <= TENANTS; i++)
		other_close(&others[i]);
	stage_close(&stage);
}

STAGE_SETUP(patient, "transports/tcp/chunk_bytes", "65536", "engine/priorities", "false")

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_that_breaks_carried_nothing_of_another_tenant),
		cmocka_unit_test(a_tenant_whose_answers_do_not_come_holds_up_nobody),
		cmocka_unit_test(a_tenant_too_many_waits_until_another_has_nothing_under_way),
		cmocka_unit_test(tenants_that_are_never_idle_take_turns_with_one_too_many),
	};

	return cmocka_run_group_tests(tests, patient, stage_stop);
}
