/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_client.c - a client and an engine that may answer anything. */
#include "tests/ring_fake.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "ring/client_ring.h"

static void hello_names_the_segment_and_the_epoch(void **state)
{
	struct session *s = *state;

	assert_string_equal(tent_client_segment(s->client), "127.0.0.1:15000/fake");
	assert_true(tent_client_epoch(s->client) == FAKE_EPOCH);
	assert_int_equal(tent_client_engine_alive(s->client), 1);
}

/* ---- replies that do not fit --------------------------------------------------- */

static void bend_cookie(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.cookie++;
}

static void bend_type(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.type ^= 1;
}

static void bend_no_reply_bit(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.type &= (uint16_t)~TENT_CTL_REPLY;
}

static void bend_shorter(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.size -= 8;
}

static void bend_longer(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.size += 8;
}

static void bend_tiny(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.size = sizeof(m->head);
}

static void bend_no_fds(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->nr_fds = 0;
}

static void bend_one_fd(struct fake *f, struct ctl_message *m)
{
	m->nr_fds = 1;
	m->fds[0] = f->hosts[0].event_fd;
}

static void bend_positive_error(struct fake *f, struct ctl_message *m)
{
	(void)f;
	((struct tent_ctl_plain_reply *)m->bytes)->status.error = 1;
}

static void bend_unknown_error(struct fake *f, struct ctl_message *m)
{
	(void)f;
	((struct tent_ctl_plain_reply *)m->bytes)->status.error = -1000;
}

static void bend_error_with_fds(struct fake *f, struct ctl_message *m)
{
	(void)f;
	m->head.size = sizeof(struct tent_ctl_plain_reply);
	((struct tent_ctl_plain_reply *)m->bytes)->status.error = TENT_ERR_CAPACITY;
}

/* After such a reply nothing on the connection can be believed: it is given up. */
static void a_reply_that_does_not_fit_ends_the_connection(void **state)
{
	static void (*const bends[])(struct fake *, struct ctl_message *) = {
		bend_cookie, bend_type, bend_no_reply_bit, bend_shorter, bend_longer,
		bend_tiny, bend_no_fds, bend_one_fd, bend_positive_error,
		bend_unknown_error, bend_error_with_fds,
	};
	int before = count_fds();

	(void)state;
	for (size_t i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
		struct fake *f = fake_start(fake_geometry(8, 8, 0, 0));
		struct tent_client *c = fake_attach(f);
		struct tent_ring *r = NULL;
		tent_segment_id_t id;

		f->bend = bends[i];
		assert_int_equal(tent_ring_open(c, 0, 0, &r), TENT_ERR_PROTOCOL);
		assert_int_equal(last_error().rule, TENT_RULE_CTL_MESSAGE);
		assert_null(r);
		assert_int_equal(tent_client_open_segment(c, "x", &id), TENT_ERR_STALE_HANDLE);
		assert_int_equal(f->seen[TENT_CTL_SEGMENT_OPEN], 0);
		tent_client_detach(c);
		fake_stop(f);
	}
	assert_int_equal(count_fds(), before);
}

static void bend_refuse(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_plain_reply *r;

	(void)f;
	m->nr_fds = 0;
	r = fake_reply(m, sizeof(*r));
	r->status.error = TENT_ERR_CAPACITY;
	r->status.rule = TENT_RULE_RING_LIMIT;
	r->status.value = 64;
	strcpy(r->status.message, "rings is 64; allowed: 64 per client");
}

static void an_engines_refusal_comes_with_its_own_sentence(void **state)
{
	struct session *s = *state;
	struct tent_ring *r = NULL;

	s->fake->bend = bend_refuse;
	assert_int_equal(tent_ring_open(s->client, 0, 0, &r), TENT_ERR_CAPACITY);
	assert_null(r);
	assert_int_equal(last_error().error, TENT_ERR_CAPACITY);
	assert_int_equal(last_error().rule, TENT_RULE_RING_LIMIT);
	assert_string_equal(last_error().field, "rings");
	assert_string_equal(last_error().message, "rings is 64; allowed: 64 per client");
	s->fake->bend = NULL;	/* a refusal ends nothing */
	assert_int_equal(tent_ring_open(s->client, 0, 0, &r), 0);
	tent_ring_close(r);
}

static void bend_rude_text(struct fake *f, struct ctl_message *m)
{
	bend_refuse(f, m);
	memset(((struct tent_ctl_plain_reply *)m->bytes)->status.message, 'x', 256);
}

static void a_sentence_without_its_nul_is_cut(void **state)
{
	struct session *s = *state;
	tent_segment_id_t id;

	s->fake->bend = bend_rude_text;
	assert_int_equal(tent_client_open_segment(s->client, "x", &id), TENT_ERR_CAPACITY);
	assert_int_equal(strlen(last_error().message), 255);
}

/* ---- errors -------------------------------------------------------------------- */

#define TEXTS_END offsetof(struct tent_error_info, flags)

static void only_as_much_of_an_error_is_written_as_was_asked_for(void **state)
{
	struct session *s = *state;
	tent_segment_id_t id;
	uint8_t bytes[sizeof(struct tent_error_info)] __attribute__((aligned(8)));
	struct tent_error_info *info = (void *)bytes;

	s->fake->bend = bend_refuse;
	tent_client_open_segment(s->client, "x", &id);
	for (uint32_t size = 0; size <= sizeof(bytes); size++) {
		memset(bytes, 0xa5, sizeof(bytes));
		info->size = size;
		assert_int_equal(tent_client_error(info), size < 16 ? TENT_ERR_ARGUMENTS : 0);
		assert_int_equal(info->size, size);
		for (uint32_t i = size < 16 ? 4 : size; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0xa5);
		if (size > 16)	/* a text ends here, or before flags that do not fit */
			assert_int_equal(bytes[size < sizeof(bytes) && size > TEXTS_END ?
					       TEXTS_END - 1 : size - 1], 0);
	}
	assert_int_equal(tent_client_error(NULL), TENT_ERR_ARGUMENTS);
}

static void *fail_elsewhere(void *client)
{
	tent_client_register(NULL, client, 1, 0, NULL, 0);
	return NULL;
}

static void each_thread_has_its_own_last_error(void **state)
{
	struct session *s = *state;
	tent_segment_id_t id;
	pthread_t thread;

	s->fake->bend = bend_refuse;
	tent_client_open_segment(s->client, "x", &id);
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, s->client), 0);
	pthread_join(thread, NULL);
	assert_int_equal(last_error().rule, TENT_RULE_RING_LIMIT);
}

static void a_name_that_cannot_travel_is_refused_here(void **state)
{
	struct fake *f;
	struct tent_client *c = NULL;
	char name[200];
	int before = count_fds();

	(void)state;
	memset(name, 'n', sizeof(name));
	for (int i = 0; i < 2; i++) {
		name[i ? 128 : 0] = '\0';
		f = fake_start(fake_geometry(8, 8, 0, 0));
		assert_int_equal(tent_client_attach_fd(f->client_fd, name, &c),
				 TENT_ERR_ARGUMENTS);
		assert_int_equal(last_error().rule, TENT_RULE_NAME_FORM);
		assert_null(c);
		fake_stop(f);	/* the fd was the client's: the engine saw it close */
	}
	assert_int_equal(count_fds(), before);
}

static void bend_version(struct fake *f, struct ctl_message *m)
{
	(void)f;
	((struct tent_ctl_hello_reply *)m->bytes)->abi_major = 2;
}

static void another_abi_major_is_refused(void **state)
{
	struct fake *f = fake_start(fake_geometry(8, 8, 0, 0));
	struct tent_client *c = NULL;

	(void)state;
	f->bend = bend_version;
	assert_int_equal(tent_client_attach_fd(f->client_fd, NULL, &c), TENT_ERR_SCHEMA);
	assert_int_equal(last_error().rule, TENT_RULE_CTL_VERSION);
	fake_stop(f);
}

static void an_absent_engine_is_named_by_its_path(void **state)
{
	struct tent_client *c = NULL;
	char path[300];

	(void)state;
	assert_int_equal(tent_client_attach("/nowhere/tentd.sock", NULL, &c),
			 TENT_ERR_ENGINE_LOST);
	assert_non_null(strstr(last_error().message, "/nowhere/tentd.sock"));
	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(tent_client_attach(path, NULL, &c), TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_client_attach(NULL, NULL, &c), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_client_attach_fd(-1, NULL, &c) < 0, 1);
	assert_null(c);
}

/* ---- life and death ---------------------------------------------------------------- */

static void rings_and_memory_leave_no_descriptor_behind(void **state)
{
	int before = count_fds();

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fake *f = fake_start(fake_geometry(8, 8, 0, 0));
		struct tent_client *c = fake_attach(f);
		struct tent_ring *r[3];
		void *p;

		for (int n = 0; n < 3; n++)
			assert_int_equal(tent_ring_open(c, 0, 0, &r[n]), 0);
		assert_int_equal(tent_client_alloc(c, 100, NULL, &p), 0);
		tent_ring_close(r[1]);	/* the others go with the client */
		assert_int_equal(f->seen[TENT_CTL_RING_CLOSE], 1);
		tent_client_detach(c);
		fake_stop(f);
	}
	assert_int_equal(count_fds(), before);
	tent_client_detach(NULL);
	tent_ring_close(NULL);
}

static void a_vanished_engine_fails_every_call_and_frees_all(void **state)
{
	struct fake *f = fake_start(fake_geometry(8, 8, 0, 0));
	struct tent_client *c = fake_attach(f);
	struct tent_ring *r, *second = NULL;
	tent_segment_id_t id;
	void *p;

	(void)state;
	assert_int_equal(tent_ring_open(c, 0, 0, &r), 0);
	assert_int_equal(tent_client_alloc(c, 100, NULL, &p), 0);
	shutdown(f->fd, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	assert_int_equal(tent_client_open_segment(c, "x", &id), TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_ring_open(c, 0, 0, &second), TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_client_register(c, p, 1, 0, NULL, 0), TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_client_free(c, p), 0);	/* nobody touches it any more */
	tent_ring_close(r);
	tent_client_detach(c);
	assert_int_equal(pthread_create(&f->thread, NULL, fail_elsewhere, NULL), 0);
	fake_stop(f);
}

/* What the child maps itself where its parent has a ring stays the child's. */
static bool detach_leaves_others_alone(struct tent_client *c, void *parents)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *own = mmap(parents, page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	tent_client_detach(c);
	return own == parents && msync(own, page, MS_ASYNC) == 0;
}

/* Exit code of what a forked child finds, 0 when all is well. */
static int child_of(struct tent_client *c, struct tent_ring *r, void *memory, void *slots)
{
	struct tent_request_v1 request = { .struct_size = 88 };
	struct tent_completion done;
	struct tent_ring *second;
	tent_segment_id_t id;

	if (tent_client_open_segment(c, "x", &id) != TENT_ERR_STALE_HANDLE ||
	    tent_ring_open(c, 0, 0, &second) != TENT_ERR_STALE_HANDLE ||
	    tent_client_register(c, memory, 1, 0, NULL, 0) != TENT_ERR_STALE_HANDLE ||
	    tent_client_free(c, memory) != TENT_ERR_STALE_HANDLE)
		return 1;
	if (tent_ring_submit(r, &request, 1, 88, 0, 0) != TENT_ERR_STALE_HANDLE ||
	    tent_ring_wait(r, 1000) != TENT_ERR_STALE_HANDLE)
		return 2;
	if (tent_ring_room(r) || tent_ring_publish(r, 1, TENT_OP_NOP, 0) ||
	    tent_ring_poll(r, &done, 1) || tent_ring_consumed(r, 0) ||
	    tent_ring_end_rule(r) || tent_ring_event_fd(r) >= 0 || tent_ring_arm(r) != 1)
		return 3;
	tent_ring_close(r);
	return detach_leaves_others_alone(c, slots) ? 0 : 4;
}

static void a_forked_child_can_use_nothing_and_breaks_nothing(void **state)
{
	struct tent_request_v1 request = { .struct_size = 88 };
	struct pair p;
	int status;
	void *memory;
	void *slots;
	pid_t pid;

	(void)state;
	if (is_emulated())
		skip_because("madvise does nothing in an emulator: not tested\n");
	pair_open(&p, fake_geometry(8, 8, 0, 0));
	assert_int_equal(tent_client_alloc(p.client, 100, NULL, &memory), 0);
	slots = p.ring->record->client_mem.addr;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(child_of(p.client, p.ring, memory, slots));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* and the parent goes on */
	assert_int_equal(tent_ring_submit(p.ring, &request, 1, 88, 0, 0), 0);
	assert_int_equal(engine_take(p.host), 1);
	assert_int_equal(tent_client_free(p.client, memory), 0);
	pair_close(&p);
}

/* Calls from several threads take turns: each gets the reply to its own request. */
static void *ask_often(void *client)
{
	tent_segment_id_t id;
	intptr_t bad = 0;

	for (int i = 0; i < 200; i++)
		bad += tent_client_open_segment(client, "x", &id) != 0 || id != 42;
	return (void *)bad;
}

static void threads_take_turns_on_the_connection(void **state)
{
	struct session *s = *state;
	pthread_t threads[4];
	void *bad;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, s->client), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SESSION(hello_names_the_segment_and_the_epoch),
		cmocka_unit_test(a_reply_that_does_not_fit_ends_the_connection),
		IN_SESSION(an_engines_refusal_comes_with_its_own_sentence),
		IN_SESSION(a_sentence_without_its_nul_is_cut),
		IN_SESSION(only_as_much_of_an_error_is_written_as_was_asked_for),
		IN_SESSION(each_thread_has_its_own_last_error),
		cmocka_unit_test(a_name_that_cannot_travel_is_refused_here),
		cmocka_unit_test(another_abi_major_is_refused),
		cmocka_unit_test(an_absent_engine_is_named_by_its_path),
		cmocka_unit_test(rings_and_memory_leave_no_descriptor_behind),
		cmocka_unit_test(a_vanished_engine_fails_every_call_and_frees_all),
		cmocka_unit_test(a_forked_child_can_use_nothing_and_breaks_nothing),
		IN_SESSION(threads_take_turns_on_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
