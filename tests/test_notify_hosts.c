/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_notify_hosts.c - notifications between clients of two tentd on two hosts: who hears
 * of a batch, when, and how often; and what /metrics of both says of it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/http.h"
#include "tests/common/soak.h"
#include "tests/common/tentd_pair.h"

#define PARTS 16u
#define PART 65536u
#define SIZE (PARTS * PART)
#define TEXT_SIZE 8192u		/* behind them: a notification that is sent */
#define OTHER 54321u		/* another user */

static struct tentd_pair two;

/* A client: owners are on host 0, users on host 1. */
struct party {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	int heard;
	char name[TENT_NOTIFY_NAME_MAX + 1], message[TENT_NOTIFY_MESSAGE_MAX + 1]; /* the last */
};

/* ---- hosts ------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	tentd_pair_open(&two);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tentd_pair_close(&two);
	return 0;
}

static int begin(void **state)
{
	(void)state;
	for (int i = 0; two.permitted && i < 2; i++)
		tentd_pair_start(&two, i, HOSTS_IPV4, NULL, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (two.permitted)
		tentd_pair_end(&two);
	return 0;
}

/* What a host's tentd counts, once it is as expected: it tells what was 0.1 s ago. */
static void expect_metric(int host, const char *name, long long expected)
{
	static struct http_answer got;
	const char *at;

	hosts_enter(&two.hosts, host);
	do {
		http_ask(9100, "GET", "/metrics", &got);
		at = strstr(got.body, name);
		while (at && at[-1] != '\n')
			at = strstr(at + 1, name);
		assert_non_null(at);
	} while (atoll(at + strlen(name)) < expected);
	hosts_enter(&two.hosts, -1);
	assert_int_equal(atoll(at + strlen(name)), expected);
}

/* ---- parties ----------------------------------------------------------- */

/* This thread alone. */
static void become(uint32_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

static void party_open(struct party *p, int host, const char *name, uint32_t uid)
{
	void *memory;

	*p = (struct party){ .heard = 0 };
	become(uid);
	assert_int_equal(tent_client_attach(two.daemons[host].socket, name, &p->client), 0);
	become(0);
	assert_int_equal(tent_client_alloc(p->client, SIZE + TEXT_SIZE, "*", &memory), 0);
	assert_int_equal(tent_client_register(p->client, memory, SIZE + TEXT_SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	p->memory = memory;
	p->ring = engine_fix_ring(p->client);
}

static void party_close(struct party *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->client);
}

static int hear(void *context, const char *name, uint32_t name_length, const char *message,
		uint32_t message_length)
{
	struct party *p = context;

	p->heard++;
	memcpy(p->name, name, name_length + 1);
	memcpy(p->message, message, message_length + 1);
	return 0;
}

static void listen_to(struct party *p)
{
	assert_true(tent_client_take_notifs(p->client, hear, p) >= 0);
}

static tent_segment_id_t open_it(struct party *user, const struct party *owner)
{
	return far_open_it(user->client, tent_client_segment(owner->client));
}

static void fill(struct party *p, uint32_t seed)
{
	for (uint32_t i = 0; i < SIZE; i += 4) {
		seed = seed * 1664525 + 1013904223;
		memcpy(p->memory + i, &seed, 4);
	}
}

/* All parts of the user's memory, each to the same place of an owner's. */
static void requests_to(const struct party *user, const struct party *owner,
			tent_segment_id_t id, struct tent_request_v1 r[PARTS])
{
	for (uint32_t i = 0; i < PARTS; i++)
		r[i] = engine_fix_request(TENT_OPCODE_WRITE, user->memory + i * PART, id,
					  owner->memory + i * PART, PART);
}

/* In the party's own memory, until the batch is judged. */
static uint64_t write_text(struct party *p, const char *name, const char *message)
{
	struct tent_notify *n = (struct tent_notify *)(p->memory + SIZE);
	char *text = (char *)(n + 1);

	n->name_length = (uint32_t)strlen(name);
	n->message_length = (uint32_t)strlen(message);
	memcpy(text, name, n->name_length);
	memcpy(text + n->name_length, message, n->message_length);
	return (uintptr_t)n;
}

static void submit(struct party *p, const struct tent_request_v1 *r, uint32_t nr,
		   const char *name, const char *message)
{
	for (uint32_t i = 0; i < nr; i++) {
		tent_entry_load(tent_ring_slot(p->ring, i), tent_ring_cell(p->ring, i), &r[i],
				sizeof(r[i]));
		tent_ring_slot(p->ring, i)->user_data = i;
	}
	tent_ring_slot(p->ring, 0)->notify = write_text(p, name, message);
	tent_ring_publish(p->ring, nr, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY);
}

/* How many of nr completed. */
static uint32_t reap(struct party *p, uint32_t nr)
{
	uint32_t good = 0;

	while (nr--)
		good += engine_fix_wait(p->ring).status == TENT_STATUS_COMPLETED;
	return good;
}

/* When it has ended it is there, and with it whatever was sent before. */
static void send_alone(struct party *p, tent_segment_id_t id, const char *message)
{
	struct tent_slot *slot = tent_ring_slot(p->ring, 0);

	memset(slot, 0, sizeof(*slot));
	slot->request.target_id = id;
	slot->notify = write_text(p, "alone", message);
	tent_ring_publish(p->ring, 1, TENT_OP_NOTIFY, 0);
	assert_int_equal(reap(p, 1), 1);
}

/* ---- tests ------------------------------------------------------------- */

static void it_is_heard_once_and_behind_all_of_its_data(void **state)
{
	const int rounds = (int)soak_rounds(40);
	struct tent_request_v1 r[PARTS];
	struct party owner, user;
	tent_segment_id_t id;

	(void)state;
	if (!two.permitted)
		skip();
	party_open(&owner, 0, "kv", 0);
	party_open(&user, 1, NULL, 0);
	id = open_it(&user, &owner);
	for (int round = 1; round <= rounds; round++) {
		char message[16];

		fill(&user, (uint32_t)round);
		requests_to(&user, &owner, id, r);
		snprintf(message, sizeof(message), "%d", round);
		submit(&user, r, PARTS, "landed", message);
		while (owner.heard < round)
			listen_to(&owner);
		assert_memory_equal(owner.memory, user.memory, SIZE);
		assert_string_equal(owner.name, "landed");
		assert_string_equal(owner.message, message);
		assert_int_equal(reap(&user, PARTS), PARTS);
	}
	send_alone(&user, id, "last");
	listen_to(&owner);
	assert_int_equal(owner.heard, rounds + 1);
	assert_string_equal(owner.message, "last");
	expect_metric(0, "tent_notifications_delivered_total ", rounds + 1);
	expect_metric(1, "tent_notifications_sent_total ", rounds + 1);
	expect_metric(0, "tent_notifications_refused_total ", 0);
	expect_metric(1, "tent_notifications_refused_total ", 0);
	party_close(&user);
	party_close(&owner);
}

/* One request of each batch reads from a file that has nothing; all others arrive. */
static void after_a_failure_nobody_hears(void **state)
{
	char name[] = "file:///tmp/tent-notify-XXXXXX", *path = name + strlen("file://");
	struct tent_request_v1 r[PARTS];
	struct party owner, user;
	tent_segment_id_t id, file;

	(void)state;
	if (!two.permitted)
		skip();
	party_open(&owner, 0, "kv", 0);
	party_open(&user, 1, NULL, 0);
	id = open_it(&user, &owner);
	close(mkstemp(path));
	file = far_open_it(user.client, name);
	fill(&user, 1);
	for (uint32_t bad = 0; bad < PARTS; bad++) {
		requests_to(&user, &owner, id, r);
		r[bad].opcode = TENT_OPCODE_READ;
		r[bad].target_id = file;
		r[bad].target_offset = 0;
		submit(&user, r, PARTS, "n", "m");
		assert_int_equal(reap(&user, PARTS), PARTS - 1);
	}
	send_alone(&user, id, "last");
	listen_to(&owner);
	listen_to(&user);
	assert_int_equal(owner.heard, 1);
	assert_string_equal(owner.message, "last");
	assert_int_equal(user.heard, 0);
	party_close(&user);
	party_close(&owner);
	unlink(path);
}

static void after_a_cut_nobody_hears(void **state)
{
	struct tent_request_v1 r[PARTS];
	struct party owner, user;
	tent_segment_id_t id;

	(void)state;
	if (!two.permitted)
		skip();
	party_open(&owner, 0, "kv", 0);
	party_open(&user, 1, NULL, 0);
	id = open_it(&user, &owner);
	requests_to(&user, &owner, id, r);
	hosts_cut(&two.hosts);
	submit(&user, r, PARTS, "n", "m");
	assert_int_equal(reap(&user, PARTS), 0);
	hosts_heal(&two.hosts);
	far_expect_buffers(user.client, id, 1);
	send_alone(&user, id, "last");
	listen_to(&owner);
	assert_int_equal(owner.heard, 1);
	assert_string_equal(owner.message, "last");
	party_close(&user);
	party_close(&owner);
}

static void one_that_is_too_long_is_refused_with_its_batch(void **state)
{
	static char name[TENT_NOTIFY_NAME_MAX + 2], message[TENT_NOTIFY_MESSAGE_MAX + 2];
	struct tent_request_v1 r[PARTS];
	struct tent_completion done;
	struct party owner, user;
	tent_segment_id_t id;

	(void)state;
	if (!two.permitted)
		skip();
	memset(name, 'n', sizeof(name) - 1);
	memset(message, 'm', sizeof(message) - 1);
	party_open(&owner, 0, "kv", 0);
	party_open(&user, 1, NULL, 0);
	id = open_it(&user, &owner);
	fill(&user, 1);
	requests_to(&user, &owner, id, r);
	for (int i = 0; i < 2; i++) {
		submit(&user, r, PARTS, i ? "n" : name, i ? message : "m");
		done = engine_fix_wait(user.ring);
		assert_int_equal(done.flags, TENT_CQE_F_REJECTED);
		assert_int_equal(done.rule, i ? TENT_RULE_NOTIFY_MESSAGE : TENT_RULE_NOTIFY_NAME);
	}
	name[TENT_NOTIFY_NAME_MAX] = message[TENT_NOTIFY_MESSAGE_MAX] = '\0';
	assert_true(owner.memory[0] == 0 && !memcmp(owner.memory, owner.memory + 1, SIZE - 1));
	submit(&user, r, PARTS, name, message);
	assert_int_equal(reap(&user, PARTS), PARTS);
	while (!owner.heard)
		listen_to(&owner);
	assert_int_equal(owner.heard, 1);
	assert_string_equal(owner.name, name);
	assert_string_equal(owner.message, message);
	party_close(&user);
	party_close(&owner);
}

/* Two owners of one user and one of another, all of one tentd. */
static void each_client_and_each_user_hears_only_of_its_own(void **state)
{
	struct tent_request_v1 r[2 * PARTS];
	struct party owners[3], users[2];
	tent_segment_id_t ids[3];

	(void)state;
	if (!two.permitted)
		skip();
	party_open(&owners[0], 0, "a", 0);
	party_open(&owners[1], 0, "b", 0);
	party_open(&owners[2], 0, "c", OTHER);
	party_open(&users[0], 1, NULL, 0);
	party_open(&users[1], 1, NULL, OTHER);
	for (int i = 0; i < 3; i++)
		ids[i] = open_it(&users[i / 2], &owners[i]);
	assert_int_equal(far_rule_of_open(users[1].client, tent_client_segment(owners[0].client),
					  &ids[0]), TENT_RULE_SEGMENT_TENANT);
	requests_to(&users[0], &owners[1], ids[1], r);
	submit(&users[0], r, PARTS, "n", "for b");
	requests_to(&users[1], &owners[2], ids[2], r);
	submit(&users[1], r, PARTS, "n", "for c");
	assert_int_equal(reap(&users[0], PARTS) + reap(&users[1], PARTS), 2 * PARTS);
	send_alone(&users[1], ids[2], "of the other");
	requests_to(&users[0], &owners[0], ids[0], r);
	requests_to(&users[0], &owners[1], ids[1], r + PARTS);
	submit(&users[0], r, 2 * PARTS, "n", "for a and b");
	assert_int_equal(reap(&users[0], 2 * PARTS), 2 * PARTS);
	send_alone(&users[0], ids[0], "last of a");
	for (int i = 0; i < 3; i++)
		listen_to(&owners[i]);
	assert_int_equal(owners[0].heard, 2);
	assert_string_equal(owners[0].message, "last of a");
	assert_int_equal(owners[1].heard, 2);
	assert_string_equal(owners[1].message, "for a and b");
	assert_int_equal(owners[2].heard, 2);
	assert_string_equal(owners[2].message, "of the other");
	for (int i = 0; i < 5; i++)
		party_close(i < 3 ? &owners[i] : &users[i - 3]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_is_heard_once_and_behind_all_of_its_data),
		TEST(after_a_failure_nobody_hears),
		TEST(after_a_cut_nobody_hears),
		TEST(one_that_is_too_long_is_refused_with_its_batch),
		TEST(each_client_and_each_user_hears_only_of_its_own),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
