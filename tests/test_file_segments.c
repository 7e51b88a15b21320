/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_segments.c - files as segments of an engine: who opens them, what their
 * handles mean, and that nothing is left when they close.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <tent/rules.h>

#include "tests/common/engine_fix.h"
#include "tests/common/pinned.h"

#define SIZE (2u << 20)
#define STRANGER 54321u

/* A client with memory, a ring and a file of its own. */
struct user {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	char path[48], name[96];
	int fd;
};

static void make_file(struct user *u)
{
	strcpy(u->path, "/var/tmp/tent-segment-XXXXXX");
	u->fd = mkstemp(u->path);
	assert_true(u->fd >= 0);
	snprintf(u->name, sizeof(u->name), "file://%s", u->path);
}

static void user_start(struct user *u, bool local)
{
	u->client = local ? engine_fix_local(&fix) : engine_fix_attach(&fix, NULL);
	u->ring = engine_fix_ring(u->client);
	u->memory = engine_fix_memory(u->client, SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		u->memory[i] = (uint8_t)(i * 2654435761u >> 13);
	make_file(u);
}

static void user_stop(struct user *u)
{
	tent_client_detach(u->client);
	close(u->fd);
	unlink(u->path);
}

static tent_segment_id_t open_it(struct user *u)
{
	struct tent_error_info info = { .size = sizeof(info) };
	tent_segment_id_t id;

	if (tent_client_open_segment(u->client, u->name, &id)) {
		tent_client_error(&info);
		fail_msg("%s", info.message);
	}
	return id;
}

static struct tent_completion move(struct user *u, int op, uint64_t at, tent_segment_id_t id,
				   uint64_t offset, uint64_t length)
{
	return engine_fix_move(u->ring, op, u->memory + at, id, (void *)(uintptr_t)offset,
			       length);
}

static void moved(const struct tent_completion *c, uint64_t length)
{
	if (c->status != TENT_STATUS_COMPLETED)
		fail_msg("ended with %s", tent_rule_name(c->rule));
	assert_int_equal(c->bytes, length);
	assert_int_equal(c->transport, TENT_TRANSPORT_IOURING);
}

static void refused(const struct tent_completion *c, uint16_t rule)
{
	assert_string_equal(tent_rule_name(c->rule), tent_rule_name(rule));
	assert_int_not_equal(c->status, TENT_STATUS_COMPLETED);
}

/* ---- moving -------------------------------------------------------------- */

static void goes_there_and_back(bool local)
{
	static const uint64_t sizes[] = { 1, 4096, 100001, SIZE / 2 };
	struct tent_completion c;
	tent_segment_id_t id;
	struct user u;
	uint8_t *seen = malloc(SIZE);

	user_start(&u, local);
	id = open_it(&u);
	for (size_t i = 0; i < 4; i++) {
		c = move(&u, TENT_OPCODE_WRITE, 0, id, 7 * i, sizes[i]);
		moved(&c, sizes[i]);
		assert_int_equal(pread(u.fd, seen, SIZE, (off_t)(7 * i)), sizes[i]);
		assert_memory_equal(seen, u.memory, sizes[i]);
		c = move(&u, TENT_OPCODE_READ, SIZE / 2, id, 7 * i, sizes[i]);
		moved(&c, sizes[i]);
		assert_memory_equal(u.memory + SIZE / 2, u.memory, sizes[i]);
	}
	c = move(&u, TENT_OPCODE_READ, 0, id, SIZE, 1);
	refused(&c, TENT_RULE_FILE_END);
	c = move(&u, TENT_OPCODE_READ, 0, id, SIZE, 0);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	c = move(&u, TENT_OPCODE_READ, 0, id, INT64_MAX, 1);
	refused(&c, TENT_RULE_TARGET_UNREGISTERED);
	c = move(&u, TENT_OPCODE_READ, 0, id, UINT64_MAX, 1);
	refused(&c, TENT_RULE_TARGET_RANGE);
	user_stop(&u);
	free(seen);
}

static void bytes_go_there_and_back(void **state)
{
	(void)state;
	goes_there_and_back(true);
	goes_there_and_back(false);
}

static void private_memory_goes_there_and_back(void **state)
{
	struct tent_completion c;
	tent_segment_id_t id;
	struct user u;
	uint8_t *heap = malloc(SIZE);

	(void)state;
	user_start(&u, false);
	id = open_it(&u);
	memcpy(heap, u.memory, SIZE);
	assert_int_equal(tent_client_register(u.client, heap, SIZE, TENT_PERM_GLOBAL_READ_WRITE,
					      NULL, 0), 0);
	c = engine_fix_move(u.ring, TENT_OPCODE_WRITE, heap + 1, id, NULL, SIZE / 2);
	moved(&c, SIZE / 2);
	c = engine_fix_move(u.ring, TENT_OPCODE_READ, heap + SIZE / 2, id, NULL, SIZE / 2);
	moved(&c, SIZE / 2);
	assert_memory_equal(heap + SIZE / 2, u.memory + 1, SIZE / 2);
	c = engine_fix_move(u.ring, TENT_OPCODE_READ, heap, id, (void *)(uintptr_t)100, SIZE / 2);
	refused(&c, TENT_RULE_FILE_END);
	user_stop(&u);
	free(heap);
}

static void the_hint_may_name_it_and_only_it(void **state)
{
	struct tent_request_v1 r;
	struct tent_completion c;
	tent_segment_id_t id;
	struct user u;

	(void)state;
	user_start(&u, false);
	id = open_it(&u);
	r = engine_fix_request(TENT_OPCODE_WRITE, u.memory, id, NULL, 100);
	r.transport_hint = TENT_TRANSPORT_IOURING;
	engine_fix_submit(u.ring, &r);
	c = engine_fix_wait(u.ring);
	moved(&c, 100);
	r.transport_hint = TENT_TRANSPORT_SHM;
	engine_fix_submit(u.ring, &r);
	c = engine_fix_wait(u.ring);
	refused(&c, TENT_RULE_TRANSPORT_REACH);
	r = engine_fix_request(TENT_OPCODE_WRITE, u.memory, 0, u.memory + 4096, 100);
	r.transport_hint = TENT_TRANSPORT_IOURING;
	engine_fix_submit(u.ring, &r);
	c = engine_fix_wait(u.ring);
	refused(&c, TENT_RULE_TRANSPORT_REACH);
	user_stop(&u);
}

/* ---- handles ------------------------------------------------------------- */

static void a_file_has_one_handle_however_it_is_named(void **state)
{
	char other[80];
	tent_segment_id_t id, again;
	struct user u;

	(void)state;
	user_start(&u, false);
	id = open_it(&u);
	assert_int_not_equal(id, 0);
	assert_int_equal(open_it(&u), id);
	snprintf(other, sizeof(other), "%s.other", u.path);
	assert_int_equal(link(u.path, other), 0);
	snprintf(u.name, sizeof(u.name), "file://%s", other);
	assert_int_equal(open_it(&u), id);
	unlink(other);

	/* Another file in its place is another segment; the old one is what it was. */
	snprintf(u.name, sizeof(u.name), "file://%s", u.path);
	close(open(other, O_CREAT | O_RDWR, 0600));
	assert_int_equal(rename(other, u.path), 0);
	again = open_it(&u);
	assert_int_not_equal(again, id);
	assert_int_equal(tent_client_close_segment(u.client, id), 0);
	assert_int_not_equal(tent_client_close_segment(u.client, id), 0);
	assert_int_equal(engine_fix_rule(), TENT_RULE_SEGMENT);
	user_stop(&u);
}

static char held_path[48];

/* How many descriptors of this process, which the engine lives in, are of held_path. */
static int count_held(void)
{
	char link[64], target[64];
	int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, target, sizeof(target) - 1);
		if (length > 0) {
			target[length] = '\0';
			n += !strcmp(target, held_path);
		}
	}
	return n;
}

static void a_closed_handle_is_stale_and_comes_not_back(void **state)
{
	struct tent_completion c;
	tent_segment_id_t id;
	struct user u;

	(void)state;
	user_start(&u, false);
	strcpy(held_path, u.path);
	id = open_it(&u);
	assert_true(count_held() > 1);		/* ours, and the engine's */
	assert_int_equal(tent_client_close_segment(u.client, id), 0);
	engine_fix_settle(count_held, 1);
	c = move(&u, TENT_OPCODE_WRITE, 0, id, 0, 10);
	refused(&c, TENT_RULE_SEGMENT);
	assert_int_equal(open_it(&u), id + 1);
	user_stop(&u);
}

static void info_tells_how_long_the_file_is(void **state)
{
	struct tent_segment_info info;
	tent_segment_id_t id;
	struct user u;

	(void)state;
	user_start(&u, false);
	id = open_it(&u);
	for (off_t size = 0; size < 1ll << 40; size = 3 * size + 1000) {
		assert_int_equal(ftruncate(u.fd, size), 0);
		assert_int_equal(tent_client_segment_info(u.client, id, &info), 0);
		assert_int_equal(info.type, TENT_SEGMENT_FILE);
		assert_int_equal(info.num_buffers, 1);
		assert_int_equal(info.buffers[0].base, 0);
		assert_int_equal(info.buffers[0].length, size);
		free(info.buffers);
	}
	user_stop(&u);
}

/* Well, or because the segment goes: taken back, or judged when its handle was closed. At
 * no time has the segment a handle and no region. */
static void may_end(const struct tent_completion *c)
{
	if (c->status != TENT_STATUS_COMPLETED && c->rule != TENT_RULE_TARGET_GONE &&
	    c->rule != TENT_RULE_SEGMENT)
		fail_msg("ended with %s", tent_rule_name(c->rule));
}

static void closing_waits_for_what_is_under_way(void **state)
{
	struct tent_request_v1 r[32];
	struct tent_completion c[32];
	tent_segment_id_t id;
	uint32_t n = 0;
	struct stat before, after;
	struct user u;

	(void)state;
	user_start(&u, false);
	for (int round = 0; round < 20; round++) {
		id = open_it(&u);
		for (uint64_t i = 0; i < 32; i++)
			r[i] = engine_fix_request(TENT_OPCODE_WRITE, u.memory, id,
						  (void *)(uintptr_t)(i * SIZE), SIZE);
		assert_int_equal(tent_ring_submit(u.ring, r, 32, sizeof(r[0]), 0, 0), 0);
		assert_int_equal(tent_client_close_segment(u.client, id), 0);
		assert_int_equal(fstat(u.fd, &before), 0);
		for (n = 0; n < 32; ) {
			uint32_t got = (uint32_t)tent_ring_poll(u.ring, c, 32);

			for (uint32_t i = 0; i < got; i++)
				may_end(&c[i]);
			n += got && c[0].credits > 1 ? c[0].credits : got;
		}
		assert_int_equal(fstat(u.fd, &after), 0);
		assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
		assert_int_equal(before.st_size, after.st_size);
	}
	user_stop(&u);
}

/* ---- permission ----------------------------------------------------------- */

static char stranger_name[96];

/* A user who may only read the file. */
static int read_only(struct engine_fix *f)
{
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion end;
	tent_segment_id_t id;
	void *memory;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_alloc(c, 4096, NULL, &memory) == 0);
	need(tent_client_register(c, memory, 4096, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0) == 0);
	need(tent_ring_open(c, 64, 64, &ring) == 0);
	need(tent_client_open_segment(c, stranger_name, &id) == 0);
	for (int op = 0; op < 2; op++) {
		struct tent_request_v1 r = {
			.struct_size = sizeof(r), .schema_version = 1, .opcode = op,
			.source = memory, .target_id = id, .length = 5,
		};

		need(tent_ring_submit(ring, &r, 1, sizeof(r), 0, 0) == 0);
		while (!tent_ring_poll(ring, &end, 1))
			sched_yield();
		need(op ? end.rule == TENT_RULE_TARGET_PERMISSION :
			  end.status == TENT_STATUS_COMPLETED && !memcmp(memory, "bytes", 5));
	}
	need(tent_client_open_segment(c, "file:///etc/shadow", &id) != 0);
	need(engine_fix_rule() == TENT_RULE_FILE_PATH);
	tent_client_detach(c);
	return 0;
}

static void who_may_only_read_the_file_writes_nothing(void **state)
{
	struct user u;

	(void)state;
	make_file(&u);
	assert_int_equal(write(u.fd, "bytes", 5), 5);
	assert_int_equal(fchmod(u.fd, 0644), 0);
	strcpy(stranger_name, u.name);
	assert_int_equal(engine_fix_child(&fix, STRANGER, read_only), 0);
	close(u.fd);
	unlink(u.path);
}

/* ---- what people see -------------------------------------------------------- */

static void queries_and_explain_show_it(void **state)
{
	struct tent_request_v1 r;
	tent_segment_id_t id;
	json_t *root, *row, *found = NULL;
	char *text = NULL;
	struct user u;
	size_t i;

	(void)state;
	user_start(&u, true);
	id = open_it(&u);
	assert_int_equal(tent_client_query(u.client, TENT_QUERY_SEGMENTS, &text), 0);
	root = json_loads(text, 0, NULL);
	json_array_foreach(json_object_get(root, "segments"), i, row)
		if (!strcmp(json_string_value(json_object_get(row, "segment")), u.name))
			found = row;
	assert_non_null(found);
	assert_string_equal(json_string_value(json_object_get(found, "type")), "file");
	assert_string_equal(json_string_value(json_object_get(found, "access")), "read_write");
	json_decref(root);
	free(text);

	r = engine_fix_request(TENT_OPCODE_WRITE, u.memory, id, NULL, 100);
	assert_int_equal(tent_client_explain(u.client, &r, 1, sizeof(r), &text), 0);
	assert_non_null(strstr(text, "\"transport\":\"file\""));
	assert_non_null(strstr(text, "\"remote\":\"file\""));
	free(text);
	assert_int_equal(tent_client_query(u.client, TENT_QUERY_STATS, &text), 0);
	assert_non_null(strstr(text, "\"transport_facts\":{\"file\":\"by "));
	free(text);
	user_stop(&u);
}

/* This process is its engine. */
static void memory_that_is_used_again_is_pinned_until_it_is_unregistered(void **state)
{
	struct tent_completion c;
	tent_segment_id_t id;
	struct user u;
	int direct_fd;

	(void)state;
	user_start(&u, false);
	direct_fd = open(u.path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (direct_fd < 0) {
		user_stop(&u);
		skip();		/* this file system knows no O_DIRECT */
	}
	close(direct_fd);
	id = open_it(&u);
	await_nothing_pinned();
	for (int i = 0; i < 8; i++) {
		c = move(&u, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, 0, id, 0, SIZE / 2);
		moved(&c, SIZE / 2);
	}
	assert_int_equal(pinned_kib(), SIZE / 1024);
	assert_int_equal(tent_client_unregister(u.client, u.memory, SIZE), 0);
	assert_int_equal(pinned_kib(), 0);
	user_stop(&u);
}

static void off(struct engine_config *c)
{
	c->file_enable = false;
}

static void an_engine_without_the_transport_says_so(void **state)
{
	tent_segment_id_t id;
	struct user u;

	(void)state;
	engine_fix_start(&fix, off);
	user_start(&u, false);
	assert_int_not_equal(tent_client_open_segment(u.client, u.name, &id), 0);
	assert_int_equal(engine_fix_rule(), TENT_RULE_NOT_BUILT);
	user_stop(&u);
	engine_fix_stop(&fix);
}

static void threads(struct engine_config *c)
{
	c->file.io_uring = false;
}

static int setup_threads(void **state)
{
	(void)state;
	engine_fix_start(&fix, threads);
	return 0;
}

#define TESTS								\
	cmocka_unit_test(bytes_go_there_and_back),			\
	cmocka_unit_test(private_memory_goes_there_and_back),		\
	cmocka_unit_test(the_hint_may_name_it_and_only_it),		\
	cmocka_unit_test(closing_waits_for_what_is_under_way),		\
	cmocka_unit_test(who_may_only_read_the_file_writes_nothing)

int main(void)
{
	const struct CMUnitTest by_uring[] = {
		TESTS,
		cmocka_unit_test(a_file_has_one_handle_however_it_is_named),
		cmocka_unit_test(a_closed_handle_is_stale_and_comes_not_back),
		cmocka_unit_test(info_tells_how_long_the_file_is),
		cmocka_unit_test(queries_and_explain_show_it),
		cmocka_unit_test(memory_that_is_used_again_is_pinned_until_it_is_unregistered),
	};
	const struct CMUnitTest by_threads[] = { TESTS };
	const struct CMUnitTest without[] = {
		cmocka_unit_test(an_engine_without_the_transport_says_so),
	};

	return cmocka_run_group_tests(by_uring, engine_fix_setup, engine_fix_teardown) ||
	       cmocka_run_group_tests(by_threads, setup_threads, engine_fix_teardown) ||
	       cmocka_run_group_tests(without, NULL, NULL);
}
