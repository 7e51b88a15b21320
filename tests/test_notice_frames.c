/* SPDX-License-Identifier: Apache-2.0 */
/* test_notice_frames.c - notify frames that a peer made up: judged in full, one by one. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/wire.h"

#define EPOCH 77u

static struct tent_client *owner;
static struct engine_address address;
static const char *life;		/* of the owner's segment */
static json_t *described;

static int count(void *context, const char *name, uint32_t name_length, const char *message,
		 uint32_t message_length)
{
	(void)name;
	(void)message;
	assert_true(name_length <= 255 && message_length <= 4095);
	++*(int *)context;
	return 0;
}

static int heard(void)
{
	int nr = 0;

	assert_true(tent_client_take_notifs(owner, count, &nr) >= 0);
	return nr;
}

static json_t *notify(const char *member, json_t *value)
{
	json_t *frame = json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:s}", "type", "notify", "segment",
				  "kv", "uid", (json_int_t)getuid(), "life", life, "id", "0x1",
				  "name", "6e", "message", "6d6d");

	if (member)
		json_object_set_new(frame, member, value);
	return frame;
}

/* A link of its own, after which the engine serves others. */
static void start(struct wire *w)
{
	engine_fix_start(&fix, wire_tune);
	owner = engine_fix_attach(&fix, "kv");
	address = wire_address(&fix);
	wire_join(w, &address, EPOCH);
	wire_send(w, json_pack("{s:s,s:s,s:I,s:i}", "type", "describe", "segment", "kv", "uid",
			       (json_int_t)getuid(), "first", 0));
	described = wire_expect(w, "segment");
	life = json_string_value(json_object_get(described, "life"));
	assert_non_null(life);
}

static void stop(struct wire *w)
{
	wire_close(w);
	json_decref(described);
	tent_client_detach(owner);
	engine_fix_stop(&fix);
}

static void expect_answer(struct wire *w, json_t *frame, int rule)
{
	json_t *answer;

	wire_send(w, frame);
	answer = wire_expect(w, "notified");
	assert_int_equal(json_integer_value(json_object_get(answer, "rule")), rule);
	assert_string_equal(json_string_value(json_object_get(answer, "id")), "0x1");
	json_decref(answer);
}

static void a_sound_one_arrives_and_is_answered(void **state)
{
	struct wire w;

	(void)state;
	start(&w);
	expect_answer(&w, notify(NULL, NULL), 0);
	assert_int_equal(heard(), 1);
	stop(&w);
}

static void another_life_or_name_hears_nothing(void **state)
{
	struct wire w;

	(void)state;
	start(&w);
	expect_answer(&w, notify("life", json_string("0x1")), TENT_RULE_TARGET_GONE);
	expect_answer(&w, notify("segment", json_string("kw")), TENT_RULE_TARGET_GONE);
	expect_answer(&w, notify("uid", json_integer(getuid() + 1)), TENT_RULE_SEGMENT_TENANT);
	assert_int_equal(heard(), 0);
	stop(&w);
}

static json_t *digits(size_t nr)
{
	char text[8200];

	memset(text, '6', nr);
	return json_stringn(text, nr);
}

/* Each ends its own link, and nobody is told. */
static void what_is_no_notification_ends_its_link_only(void **state)
{
	const struct { const char *member; json_t *value; } wrong[] = {
		{ "name", json_string("6") }, { "name", json_string("6G") },
		{ "name", json_string("00") }, { "name", json_string("6E") },
		{ "name", digits(512) }, { "name", json_null() },
		{ "message", json_string("610") }, { "message", json_string("6100") },
		{ "message", digits(8192) }, { "message", json_integer(1) },
		{ "id", json_integer(1) }, { "id", json_string("x") },
		{ "life", json_null() }, { "uid", json_integer(-1) },
		{ "segment", json_null() }, { "segment", json_integer(0) },
	};
	struct wire honest, w;

	(void)state;
	start(&honest);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wire_join(&w, &address, EPOCH + 1);
		wire_send(&w, notify(wrong[i].member, wrong[i].value));
		wire_expect_refusal(&w, "notify needs");
		wire_close(&w);
	}
	assert_int_equal(heard(), 0);
	expect_answer(&honest, notify(NULL, NULL), 0);
	assert_int_equal(heard(), 1);
	stop(&honest);
}

/* A flood at one who takes none: each is answered, and the owner keeps what he has. */
static void a_flood_is_refused_one_by_one(void **state)
{
	struct wire w;
	int kept = 0;

	(void)state;
	start(&w);
	for (int i = 0; i < 400; i++) {
		json_t *answer;

		wire_send(&w, notify("message", digits(8190)));
		answer = wire_expect(&w, "notified");
		kept += json_integer_value(json_object_get(answer, "rule")) == 0;
		json_decref(answer);
	}
	assert_true(kept > 0 && kept < 400);
	assert_int_equal(heard(), kept);
	expect_answer(&w, notify(NULL, NULL), 0);
	stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_one_arrives_and_is_answered),
		cmocka_unit_test(another_life_or_name_hears_nothing),
		cmocka_unit_test(what_is_no_notification_ends_its_link_only),
		cmocka_unit_test(a_flood_is_refused_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
