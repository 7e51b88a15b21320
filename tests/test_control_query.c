/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_query.c - what the engine tells about itself, and explain. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ring/clock.h"
#include "ring/mem.h"
#include "tests/common/engine_fix.h"
#include "tests/ring_pool.h"

#define SIZE 65536u

struct desk {
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	uint8_t *m;
};

static void desk_open(struct desk *d, void (*tune)(struct engine_config *))
{
	engine_fix_start(&d->f, tune);
	d->c = engine_fix_attach(&d->f, "desk");
	d->m = engine_fix_memory(d->c, SIZE);
	d->ring = engine_fix_ring(d->c);
}

static void desk_close(struct desk *d)
{
	tent_ring_close(d->ring);
	tent_client_detach(d->c);
	engine_fix_stop(&d->f);
}

static json_t *ask(struct tent_client *c, uint32_t what)
{
	char *text = NULL;
	json_t *json;

	assert_int_equal(tent_client_query(c, what, &text), 0);
	json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	assert_non_null(json);
	return json;
}

static json_t *at(json_t *json, const char *name)
{
	json_t *value = json_object_get(json, name);

	if (!value)
		fail_msg("no %s in %s", name, json_dumps(json, 0));
	return value;
}

static int64_t number(json_t *json, const char *name)
{
	assert_true(json_is_integer(at(json, name)));
	return json_integer_value(at(json, name));
}

static const char *text(json_t *json, const char *name)
{
	assert_true(json_is_string(at(json, name)));
	return json_string_value(at(json, name));
}

/* ---- stats, clients, segments ------------------------------------------ */

static void counters_are_those_of_what_was_done(void **state)
{
	struct desk d;
	json_t *stats, *totals;

	(void)state;
	desk_open(&d, NULL);
	for (int i = 0; i < 10; i++)
		engine_fix_move(d.ring, i % 2, d.m, 0, d.m + 4096, 100);
	engine_fix_move(d.ring, 7, d.m, 0, d.m + 4096, 100);	/* refused */
	stats = ask(d.c, TENT_QUERY_STATS);
	totals = at(stats, "totals");
	assert_int_equal(number(totals, "requests"), 10);
	assert_int_equal(number(totals, "completed"), 10);
	assert_int_equal(number(totals, "rejected_batches"), 1);
	assert_int_equal(number(totals, "read_bytes"), 500);
	assert_int_equal(number(totals, "written_bytes"), 500);
	assert_int_equal(json_array_size(at(stats, "pollers")), 1);
	assert_int_equal(json_array_size(at(stats, "rings")), 1);
	assert_int_equal(number(json_array_get(at(stats, "rings"), 0), "requests"), 10);
	assert_string_equal(text(at(stats, "engine"), "mode"), "thread");
	assert_string_equal(json_string_value(json_array_get(at(stats, "transports"), 0)), "shm");
	json_decref(stats);
	desk_close(&d);
}

static void a_closed_rings_counters_stay_its_clients(void **state)
{
	struct desk d;
	json_t *clients, *mine;

	(void)state;
	desk_open(&d, NULL);
	engine_fix_move(d.ring, TENT_OPCODE_WRITE, d.m, 0, d.m + 4096, 100);
	tent_ring_close(d.ring);
	d.ring = engine_fix_ring(d.c);
	engine_fix_move(d.ring, TENT_OPCODE_WRITE, d.m, 0, d.m + 4096, 100);
	clients = ask(d.c, TENT_QUERY_CLIENTS);
	mine = json_array_get(at(clients, "clients"), 0);
	assert_int_equal(number(mine, "requests"), 2);
	assert_int_equal(number(mine, "bytes"), 200);
	assert_int_equal(number(mine, "rings"), 1);
	assert_int_equal(number(mine, "regions"), 1);
	assert_int_equal(number(mine, "pid"), getpid());
	assert_string_equal(text(mine, "segment"), tent_client_segment(d.c));
	json_decref(clients);
	desk_close(&d);
}

static void holding(struct engine_config *c)
{
	c->shm_enable = false;
	c->null_enable = true;
	strcpy(c->null_faults, "pending=1,hold");
}

static int64_t first_in_flight(struct desk *d, uint32_t what, const char *list)
{
	json_t *answer = ask(d->c, what);
	json_t *row = list ? json_array_get(at(answer, list), 0) : at(answer, "totals");
	int64_t nr = number(row, "in_flight");

	json_decref(answer);
	return nr;
}

static void what_has_not_ended_is_in_flight_everywhere(void **state)
{
	struct desk d;

	(void)state;
	desk_open(&d, holding);
	for (int i = 0; i < 3; i++) {
		struct tent_request_v1 r = engine_fix_request(TENT_OPCODE_WRITE, d.m, 0,
							      d.m + 4096, 100);

		engine_fix_submit(d.ring, &r);
	}
	while (first_in_flight(&d, TENT_QUERY_STATS, "rings") < 3 ||
	       first_in_flight(&d, TENT_QUERY_STATS, "pollers") < 3)
		;
	assert_int_equal(first_in_flight(&d, TENT_QUERY_STATS, "rings"), 3);
	assert_int_equal(first_in_flight(&d, TENT_QUERY_CLIENTS, "clients"), 3);
	assert_int_equal(first_in_flight(&d, TENT_QUERY_STATS, "pollers"), 3);
	assert_int_equal(first_in_flight(&d, TENT_QUERY_STATS, NULL), 3);
	desk_close(&d);
}

static void segments_tell_who_owns_which_name_dead_or_alive(void **state)
{
	struct desk d;
	struct tent_client *other;
	json_t *segments, *row;
	char gone[TENT_CTL_NAME_SIZE];
	size_t i;
	int alive = 0, dead = 0;

	(void)state;
	desk_open(&d, NULL);
	other = engine_fix_attach(&d.f, "gone");
	strcpy(gone, tent_client_segment(other));
	tent_client_detach(other);
	segments = ask(d.c, TENT_QUERY_SEGMENTS);
	assert_int_equal(json_array_size(at(segments, "segments")), 2);
	json_array_foreach(at(segments, "segments"), i, row) {
		bool lives = json_is_true(at(row, "alive"));

		alive += lives;
		dead += !lives;
		assert_string_equal(text(row, "segment"),
				    lives ? tent_client_segment(d.c) : gone);
		assert_true(number(row, "shared_bytes") == (lives ? SIZE : 0));
	}
	assert_int_equal(alive, 1);
	assert_int_equal(dead, 1);
	json_decref(segments);
	desk_close(&d);
}

/* What the one segment there is tells of its pages, once it has such a buffer too. */
static void expect_pages(struct desk *d, size_t size, const char *pages)
{
	json_t *segments, *row;

	engine_fix_memory(d->c, size);
	segments = ask(d->c, TENT_QUERY_SEGMENTS);
	row = json_array_get(at(segments, "segments"), 0);
	assert_string_equal(text(row, "pages"), pages);
	json_decref(segments);
}

static void segments_tell_why_a_buffer_has_no_huge_pages(void **state)
{
	struct desk d;

	(void)state;
	if (huge_info("HugePages_Free") > 0)
		skip_because("this machine has free huge pages: no fallback to see\n");
	desk_open(&d, NULL);
	expect_pages(&d, huge_page_size(), "ENOMEM");
	desk_close(&d);
	desk_open(&d, NULL);
	expect_pages(&d, 4096, "base");		/* too small to want any */
	desk_close(&d);
}

static void segments_tell_what_lies_on_huge_pages(void **state)
{
	struct desk d;
	long before = 0;

	(void)state;
	if (!huge_pool_reserve(16, &before))
		skip_because("no huge pages could be reserved: not tested\n");
	desk_open(&d, NULL);
	assert_int_equal(tent_client_unregister(d.c, d.m, SIZE), 0);
	expect_pages(&d, huge_page_size(), "huge");
	huge_pool_set(before);
	desk_close(&d);
}

static int stranger_asks(struct engine_fix *f)
{
	struct tent_client *c;
	char *json;

	need(tent_client_observe(f->path, &c) == 0);
	for (uint32_t what = TENT_QUERY_CLIENTS; what <= TENT_QUERY_NICS; what++) {
		if (what == TENT_QUERY_EXPLAIN)
			continue;	/* about nobody but who asks */
		need(tent_client_query(c, what, &json) == TENT_ERR_POLICY_DENIED);
		need(engine_fix_rule() == TENT_RULE_CTL_DENIED);
	}
	return 0;
}

static void strangers_learn_nothing_about_others(void **state)
{
	struct desk d;

	(void)state;
	desk_open(&d, NULL);
	assert_int_equal(engine_fix_child(&d.f, 65534, stranger_asks), 0);
	desk_close(&d);
}

static void unknown_queries_are_refused(void **state)
{
	static const uint32_t whats[] = { 0, 9, 10, UINT32_MAX };
	struct desk d;
	char *json;

	(void)state;
	desk_open(&d, NULL);
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
		assert_int_equal(tent_client_query(d.c, whats[i], &json), TENT_ERR_PROTOCOL);
	assert_int_equal(tent_client_query(d.c, TENT_QUERY_EXPLAIN, &json), TENT_ERR_PROTOCOL);
	desk_close(&d);
}

/* ---- explain ----------------------------------------------------------- */

static void compat(struct engine_config *c)
{
	c->compat = true;
}

static json_t *explain(struct desk *d, const struct tent_request_v1 *r, size_t count)
{
	char *answer = NULL;
	json_t *json;

	assert_int_equal(tent_client_explain(d->c, r, count, sizeof(*r), &answer), 0);
	json = json_loads(answer, 0, NULL);
	free(answer);
	assert_non_null(json);
	assert_int_equal(json_array_size(at(json, "entries")), count);
	return json;
}

static struct tent_request_v1 request(const struct desk *d)
{
	return engine_fix_request(TENT_OPCODE_WRITE, d->m, 0, d->m + 4096, 100);
}

static void a_good_entry_is_explained_with_its_plan(void **state)
{
	struct desk d;
	struct tent_request_v1 r;
	json_t *json, *entry;

	(void)state;
	desk_open(&d, NULL);
	r = request(&d);
	r.intent_type = TENT_INTENT_CHECKPOINT;
	r.deadline_ns = clock_monotonic_ns() + 1000000000;
	json = explain(&d, &r, 1);
	entry = json_array_get(at(json, "entries"), 0);
	assert_true(json_is_true(at(json, "accepted")));
	assert_string_equal(text(at(entry, "requested"), "intent"), "checkpoint");
	assert_string_equal(text(at(entry, "requested"), "priority"), "unspec");
	assert_string_equal(text(at(entry, "effective"), "priority"), "medium");
	assert_string_equal(text(at(entry, "plan"), "transport"), "shm");
	assert_string_equal(text(at(entry, "deadline"), "state"), "ahead");
	assert_true(json_is_true(at(at(entry, "deadline"), "feasible")));
	assert_true(number(at(entry, "deadline"), "needs_bytes_per_second") >= (int)r.length);
	assert_int_equal(json_array_size(at(entry, "downgrades")), 0);
	json_decref(json);
	json = ask(d.c, TENT_QUERY_STATS);
	assert_int_equal(number(at(json, "totals"), "requests"), 0);
	json_decref(json);
	desk_close(&d);
}

static void bad_entries_are_explained_beside_good_ones(void **state)
{
	struct desk d;
	struct tent_request_v1 r[3];
	json_t *json, *error;

	(void)state;
	desk_open(&d, NULL);
	for (int i = 0; i < 3; i++)
		r[i] = request(&d);
	r[1].transport_hint = TENT_TRANSPORT_RDMA;
	r[2].intent_type = 99;
	json = explain(&d, r, 3);
	assert_true(json_is_false(at(json, "accepted")));
	/* as a batch the intent comes first: fields before transports */
	assert_int_equal(number(at(json, "refusal"), "index"), 2);
	assert_non_null(json_object_get(json_array_get(at(json, "entries"), 0), "plan"));
	error = at(json_array_get(at(json, "entries"), 1), "error");
	assert_string_equal(text(error, "rule"), "TRANSPORT_BUILD");
	assert_int_equal(number(error, "index"), 1);
	error = at(json_array_get(at(json, "entries"), 2), "error");
	assert_string_equal(text(error, "field"), "intent_type");
	assert_int_equal(number(error, "value"), 99);
	assert_int_equal(number(error, "category"), TENT_ERR_ENUM);
	json_decref(json);
	desk_close(&d);
}

static void downgrades_are_named_with_what_stands_in(void **state)
{
	struct desk d;
	struct tent_request_v1 r;
	json_t *json, *list;

	(void)state;
	desk_open(&d, compat);
	r = request(&d);
	r.intent_type = 77;
	r.requested_priority = 55;
	r.policy_name = "none";
	json = explain(&d, &r, 1);
	list = at(json_array_get(at(json, "entries"), 0), "downgrades");
	assert_int_equal(json_array_size(list), 3);
	assert_string_equal(text(json_array_get(list, 0), "rule"), "INTENT");
	assert_non_null(strstr(text(json_array_get(list, 0), "sentence"), "77"));
	assert_string_equal(text(json_array_get(list, 0), "instead"), "unspec");
	assert_string_equal(text(json_array_get(list, 1), "rule"), "PRIORITY");
	assert_string_equal(text(json_array_get(list, 2), "rule"), "POLICY_UNKNOWN");
	json_decref(json);
	desk_close(&d);
}

static void private_memory_and_expired_deadlines_show(void **state)
{
	static uint8_t private[4096];
	struct desk d;
	struct tent_request_v1 r;
	json_t *json, *entry;

	(void)state;
	desk_open(&d, NULL);
	assert_int_equal(tent_client_register(d.c, private, sizeof(private), 2, NULL, 0), 0);
	r = engine_fix_request(TENT_OPCODE_WRITE, private, 0, d.m, 100);
	r.deadline_ns = 1;
	json = explain(&d, &r, 1);
	entry = json_array_get(at(json, "entries"), 0);
	assert_string_equal(text(at(entry, "plan"), "local"), "private");
	assert_string_equal(text(at(entry, "plan"), "remote"), "shared");
	assert_string_equal(text(at(entry, "deadline"), "state"), "expired");
	assert_true(json_is_false(at(at(entry, "deadline"), "feasible")));
	json_decref(json);
	desk_close(&d);
}

static void fields_beyond_struct_size_are_not_shown_as_asked(void **state)
{
	struct desk d;
	struct tent_request_v1 r;
	json_t *json, *asked;

	(void)state;
	desk_open(&d, NULL);
	r = request(&d);
	r.intent_type = 3;
	r.requested_priority = 3;
	r.deadline_ns = 5;
	r.transport_hint = 3;
	r.struct_size = TENT_REQUEST_V1_MIN_SIZE;
	json = explain(&d, &r, 1);
	asked = at(json_array_get(at(json, "entries"), 0), "requested");
	assert_string_equal(text(asked, "intent"), "unspec");
	assert_string_equal(text(asked, "priority"), "unspec");
	assert_string_equal(text(asked, "transport_hint"), "unspec");
	assert_int_equal(number(asked, "deadline_ns"), 0);
	json_decref(json);
	desk_close(&d);
}

static void refuse_explain(struct raw *r, int fd, uint32_t count, int error)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { fd } };
	struct tent_ctl_query *q = (void *)m.bytes;

	q->what = TENT_QUERY_EXPLAIN;
	q->count = count;
	assert_int_equal(raw_call(r, &m, TENT_CTL_QUERY, sizeof(*q)), error);
}

static void what_is_no_memfd_of_enough_slots_is_not_read(void **state)
{
	int pipes[2], small = memfd_create("small", MFD_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct engine_fix f;
	struct raw r;

	(void)state;
	engine_fix_start(&f, NULL);
	raw_attach(&r, f.path, NULL);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(ftruncate(small, 191), 0);
	refuse_explain(&r, pipes[0], 1, TENT_ERR_PROTOCOL);
	refuse_explain(&r, event, 1, TENT_ERR_PROTOCOL);
	refuse_explain(&r, file, 1, TENT_ERR_PROTOCOL);
	refuse_explain(&r, small, 1, TENT_ERR_PROTOCOL);
	refuse_explain(&r, small, TENT_EXPLAIN_MAX + 1, TENT_ERR_CAPACITY);
	refuse_explain(&r, small, UINT32_MAX, TENT_ERR_CAPACITY);
	close(pipes[0]);
	close(pipes[1]);
	close(r.sock);
	engine_fix_stop(&f);
	close(small);
	close(event);
	close(file);
}

/* Random entries: explain says accepted, and which transport, exactly when the ring does. */
static void explain_says_what_completions_report(void **state)
{
	uint64_t seed = 20260830;
	struct desk d;

	(void)state;
	desk_open(&d, compat);
	for (int i = 0; i < 300; i++) {
		struct tent_request_v1 r = request(&d);
		struct tent_completion done;
		json_t *json, *entry;

		r.opcode = (int32_t)(random_next(&seed) % 9 == 0 ? 2 : random_next(&seed) % 2);
		r.intent_type = (int32_t)(random_next(&seed) % 9);
		r.requested_priority = (int32_t)(random_next(&seed) % 6);
		r.transport_hint = random_next(&seed) % 3 ? 0 : (int32_t)(random_next(&seed) % 15);
		r.length = random_next(&seed) % 5 ? random_next(&seed) % 4096 : SIZE;
		r.target_id = random_next(&seed) % 12 ? 0 : 3;
		json = explain(&d, &r, 1);
		entry = json_array_get(at(json, "entries"), 0);
		engine_fix_submit(d.ring, &r);
		done = engine_fix_wait(d.ring);
		if (done.flags & TENT_CQE_F_REJECTED) {
			assert_string_equal(text(at(entry, "error"), "rule"),
					    tent_rule_name(done.rule));
			assert_int_equal(number(at(entry, "error"), "value"), done.bytes);
		} else {
			assert_string_equal(text(at(entry, "plan"), "transport"),
					    done.transport == TENT_TRANSPORT_SHM ? "shm" : "");
			assert_int_equal(json_array_size(at(entry, "downgrades")),
					 __builtin_popcount(done.flags & TENT_CQE_F_DOWNGRADES));
		}
		json_decref(json);
	}
	desk_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_are_those_of_what_was_done),
		cmocka_unit_test(a_closed_rings_counters_stay_its_clients),
		cmocka_unit_test(what_has_not_ended_is_in_flight_everywhere),
		cmocka_unit_test(segments_tell_who_owns_which_name_dead_or_alive),
		cmocka_unit_test(segments_tell_why_a_buffer_has_no_huge_pages),
		cmocka_unit_test(segments_tell_what_lies_on_huge_pages),
		cmocka_unit_test(strangers_learn_nothing_about_others),
		cmocka_unit_test(unknown_queries_are_refused),
		cmocka_unit_test(a_good_entry_is_explained_with_its_plan),
		cmocka_unit_test(bad_entries_are_explained_beside_good_ones),
		cmocka_unit_test(downgrades_are_named_with_what_stands_in),
		cmocka_unit_test(private_memory_and_expired_deadlines_show),
		cmocka_unit_test(fields_beyond_struct_size_are_not_shown_as_asked),
		cmocka_unit_test(what_is_no_memfd_of_enough_slots_is_not_read),
		cmocka_unit_test(explain_says_what_completions_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
