/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_calls.c - what a client's calls send and what they make of the answer. */
#include "tests/ring_fake.h"

#include <sys/mman.h>

/* ---- memory -------------------------------------------------------------------- */

static const struct tent_ctl_mem_register *last_register(const struct fake *f)
{
	assert_int_equal(f->last.head.type & ~TENT_CTL_REPLY, TENT_CTL_MEM_REGISTER);
	return (const void *)f->last.bytes;
}

static void allocated_memory_is_shared_with_the_engine(void **state)
{
	struct session *s = *state;
	void *p;

	assert_int_equal(tent_client_alloc(s->client, 5000, NULL, &p), 0);
	memset(p, 0x5a, 5000);
	assert_int_equal(((uint8_t *)s->fake->buffers[0].addr)[4999], 0x5a);
	assert_int_equal(tent_client_free(s->client, p), 0);
	assert_int_equal(tent_client_free(s->client, p), TENT_ERR_ADDRESS);
	assert_int_equal(last_error().rule, TENT_RULE_MEM_UNKNOWN);
}

/* Inside a buffer of ours: shared. Even one byte outside: private. */
static void a_range_is_shared_only_when_wholly_inside_a_buffer(void **state)
{
	struct session *s = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *first, *second;
	char *p;

	assert_int_equal(tent_client_alloc(s->client, page, NULL, &first), 0);
	assert_int_equal(tent_client_alloc(s->client, 2 * page, NULL, &second), 0);
	p = second;
	assert_int_equal(tent_client_register(s->client, p + 8, 2 * page - 8,
					      TENT_PERM_GLOBAL_READ_ONLY, "cpu:1", 1), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_BUFFER);
	assert_int_equal(last_register(s->fake)->buffer_id, 2);
	assert_int_equal(last_register(s->fake)->offset, 8);
	assert_int_equal(last_register(s->fake)->base, (uintptr_t)p + 8);
	assert_int_equal(last_register(s->fake)->length, 2 * page - 8);
	assert_int_equal(last_register(s->fake)->permission, TENT_PERM_GLOBAL_READ_ONLY);
	assert_int_equal(last_register(s->fake)->internal, 1);
	assert_string_equal(last_register(s->fake)->location, "cpu:1");

	assert_int_equal(tent_client_register(s->client, p + 8, 2 * page - 7, 0, NULL, 0), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_PRIVATE);
	assert_int_equal(tent_client_register(s->client, p - 1, 2, 0, NULL, 0), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_PRIVATE);
	assert_int_equal(tent_client_register(s->client, p, SIZE_MAX, 0, NULL, 0), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_PRIVATE);
	assert_int_equal(tent_client_register(s->client, &s, sizeof(s), 0, NULL, 0), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_PRIVATE);
	assert_string_equal(last_register(s->fake)->location, "*");
}

static void a_location_that_does_not_fit_is_refused(void **state)
{
	struct session *s = *state;
	char location[65];
	void *p;

	memset(location, 'l', sizeof(location));
	location[64] = '\0';
	assert_int_equal(tent_client_alloc(s->client, 1, location, &p), TENT_ERR_ENUM);
	assert_int_equal(last_error().rule, TENT_RULE_LOCATION);
	assert_int_equal(tent_client_register(s->client, s, 1, 0, location, 0), TENT_ERR_ENUM);
	assert_int_equal(s->fake->seen[TENT_CTL_MEM_ALLOC], 0);
}

static void a_memfd_of_the_program_travels_with_its_offset(void **state)
{
	struct session *s = *state;
	int before = count_fds(), fd = memfd_create("mine", MFD_CLOEXEC);

	assert_int_equal(tent_client_register_fd(s->client, fd, 4096, s, 100, 2, "cpu"), 0);
	assert_int_equal(last_register(s->fake)->kind, TENT_MEM_FD);
	assert_int_equal(last_register(s->fake)->offset, 4096);
	assert_int_equal(s->fake->last.nr_fds, 1);
	close(fd);
	assert_int_equal(count_fds(), before);
	assert_int_equal(tent_client_register_fd(s->client, -1, 0, s, 1, 2, NULL),
			 TENT_ERR_RUNTIME);	/* and the connection still works */
	assert_int_equal(tent_client_unregister(s->client, s, 100), 0);
}

static void bend_alloc_short(struct fake *f, struct ctl_message *m)
{
	(void)f;
	if (m->head.type == (TENT_CTL_MEM_ALLOC | TENT_CTL_REPLY))
		((struct tent_ctl_mem_alloc_reply *)m->bytes)->length = 4096;
}

static void bend_alloc_unsealed(struct fake *f, struct ctl_message *m)
{
	(void)f;
	if (m->head.type != (TENT_CTL_MEM_ALLOC | TENT_CTL_REPLY))
		return;
	m->fds[0] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ftruncate(m->fds[0], 1 << 20) < 0)
		abort();
	f->argument = m->fds[0];
}

static void memory_that_is_short_or_unsealed_is_given_back(void **state)
{
	struct session *s = *state;
	void *p = NULL;

	s->fake->bend = bend_alloc_short;
	assert_int_equal(tent_client_alloc(s->client, 5000, NULL, &p), TENT_ERR_RUNTIME);
	assert_int_equal(s->fake->seen[TENT_CTL_MEM_FREE], 1);
	s->fake->bend = bend_alloc_unsealed;
	assert_int_equal(tent_client_alloc(s->client, 5000, NULL, &p), TENT_ERR_RUNTIME);
	assert_int_equal(s->fake->seen[TENT_CTL_MEM_FREE], 2);
	assert_null(p);
	close(s->fake->argument);
}

/* ---- segments and queries -------------------------------------------------------- */

static void segments_open_by_name_and_close_by_id(void **state)
{
	struct session *s = *state;
	tent_segment_id_t id = 0;
	char name[129];

	assert_int_equal(tent_client_open_segment(s->client, "127.0.0.1:15000/b", &id), 0);
	assert_int_equal(id, 42);
	assert_string_equal((char *)s->fake->last.bytes + 16, "127.0.0.1:15000/b");
	assert_int_equal(tent_client_close_segment(s->client, id), 0);
	assert_int_equal(((struct tent_ctl_id *)s->fake->last.bytes)->id, 42);
	memset(name, 'n', sizeof(name));
	name[128] = '\0';
	assert_int_equal(tent_client_open_segment(s->client, name, &id),
			 TENT_ERR_PEER_UNREACHABLE);
	assert_int_equal(tent_client_open_segment(s->client, NULL, &id), TENT_ERR_ARGUMENTS);
}

static void all_pages_of_a_segments_buffers_are_read(void **state)
{
	static const uint32_t counts[] = { 0, 1, 31, 32, 33, 64, 100 };
	struct session *s = *state;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct tent_segment_info info;

		s->fake->nr_segment_buffers = counts[i];
		assert_int_equal(tent_client_segment_info(s->client, 1, &info), 0);
		assert_int_equal(info.num_buffers, counts[i]);
		for (uint32_t b = 0; b < counts[i]; b++) {
			assert_int_equal(info.buffers[b].base, 0x1000 * (b + 1));
			assert_int_equal(info.buffers[b].length, b + 1);
			assert_int_equal(strlen(info.buffers[b].location), 63);
		}
		free(info.buffers);
	}
}

static void bend_too_many(struct fake *f, struct ctl_message *m)
{
	(void)f;
	((struct tent_ctl_segment_info_reply *)m->bytes)->count =
		TENT_CTL_BUFFERS_PER_REPLY + 1;
}

static void a_page_with_more_buffers_than_fit_is_refused(void **state)
{
	struct session *s = *state;
	struct tent_segment_info info = { .num_buffers = -7 };

	s->fake->nr_segment_buffers = 40;
	s->fake->bend = bend_too_many;
	assert_int_equal(tent_client_segment_info(s->client, 1, &info), TENT_ERR_PROTOCOL);
	assert_int_equal(info.num_buffers, -7);
}

/* One more exchange: the fake has closed the fd of its last reply by then. */
static int settled_fds(struct session *s)
{
	s->fake->bend = NULL;
	assert_int_equal(tent_client_close_segment(s->client, 1), 0);
	return count_fds();
}

static void a_query_brings_its_text(void **state)
{
	struct session *s = *state;
	int before = count_fds();
	char *json = NULL;

	s->fake->json = "{\"clients\": []}";
	assert_int_equal(tent_client_query(s->client, TENT_QUERY_CLIENTS, &json), 0);
	assert_string_equal(json, "{\"clients\": []}");
	free(json);
	assert_int_equal(settled_fds(s), before);
}

static void bend_long_text(struct fake *f, struct ctl_message *m)
{
	((struct tent_ctl_query_reply *)m->bytes)->length = f->argument < 0 ?
		UINT64_MAX : (uint64_t)f->argument;
}

static void a_query_longer_than_its_file_is_refused(void **state)
{
	struct session *s = *state;
	int before = count_fds();
	char *json = NULL;

	s->fake->bend = bend_long_text;
	for (s->fake->argument = 3; s->fake->argument >= -1; s->fake->argument -= 4)
		assert_true(tent_client_query(s->client, TENT_QUERY_STATS, &json) < 0);
	assert_null(json);
	assert_int_equal(settled_fds(s), before);
}

static void explain_sends_what_a_ring_would(void **state)
{
	struct session *s = *state;
	struct tent_request_v1 r[2] = {
		{ .struct_size = 88, .length = 5, .policy_name = "gold" },
		{ .struct_size = 48, .length = 6 },
	};
	const struct tent_slot *slots;
	int before = count_fds();
	char *json = NULL;

	assert_int_equal(tent_client_explain(s->client, r, 2, 88, &json), 0);
	free(json);
	slots = (const void *)s->fake->explained;
	assert_int_equal(slots[0].request.length, 5);
	assert_int_equal(slots[0].seq | slots[0].nr | slots[0].op, 0);
	assert_int_equal((uintptr_t)slots[0].request.policy_name, 4);
	assert_memory_equal((const char *)(slots + 2), "gold", 4);
	assert_int_equal(slots[1].request.struct_size, 48);
	assert_int_equal(tent_client_explain(s->client, r, 2, 44, &json), TENT_ERR_LAYOUT);
	assert_int_equal(tent_client_explain(s->client, NULL, 2, 88, &json),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_client_explain(s->client, r, TENT_EXPLAIN_MAX + 1, 88, &json),
			 TENT_ERR_CAPACITY);
	assert_int_equal(settled_fds(s), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SESSION(allocated_memory_is_shared_with_the_engine),
		IN_SESSION(a_range_is_shared_only_when_wholly_inside_a_buffer),
		IN_SESSION(a_location_that_does_not_fit_is_refused),
		IN_SESSION(a_memfd_of_the_program_travels_with_its_offset),
		IN_SESSION(memory_that_is_short_or_unsealed_is_given_back),
		IN_SESSION(segments_open_by_name_and_close_by_id),
		IN_SESSION(all_pages_of_a_segments_buffers_are_read),
		IN_SESSION(a_page_with_more_buffers_than_fit_is_refused),
		IN_SESSION(a_query_brings_its_text),
		IN_SESSION(a_query_longer_than_its_file_is_refused),
		IN_SESSION(explain_sends_what_a_ring_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
