/* SPDX-License-Identifier: Apache-2.0 */
/* test_control.c - every control message wrong in every way, and who is still served. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"

static const struct form {
	uint16_t type;
	uint32_t size;
	uint32_t text, text_size;
} forms[] = {
	{ TENT_CTL_HELLO, sizeof(struct tent_ctl_hello),
	  offsetof(struct tent_ctl_hello, name), TENT_CTL_NAME_SIZE },
	{ TENT_CTL_RING_OPEN, sizeof(struct tent_ctl_ring_open), 0, 0 },
	{ TENT_CTL_RING_CLOSE, sizeof(struct tent_ctl_id), 0, 0 },
	{ TENT_CTL_MEM_ALLOC, sizeof(struct tent_ctl_mem_alloc),
	  offsetof(struct tent_ctl_mem_alloc, location), 64 },
	{ TENT_CTL_MEM_FREE, sizeof(struct tent_ctl_id), 0, 0 },
	{ TENT_CTL_MEM_REGISTER, sizeof(struct tent_ctl_mem_register),
	  offsetof(struct tent_ctl_mem_register, location), 64 },
	{ TENT_CTL_MEM_UNREGISTER, sizeof(struct tent_ctl_mem_unregister), 0, 0 },
	{ TENT_CTL_SEGMENT_OPEN, sizeof(struct tent_ctl_segment_open),
	  offsetof(struct tent_ctl_segment_open, name), TENT_CTL_NAME_SIZE },
	{ TENT_CTL_SEGMENT_CLOSE, sizeof(struct tent_ctl_id), 0, 0 },
	{ TENT_CTL_SEGMENT_INFO, sizeof(struct tent_ctl_segment_info), 0, 0 },
	{ TENT_CTL_QUERY, sizeof(struct tent_ctl_query), 0, 0 },
};
#define NR_FORMS (sizeof(forms) / sizeof(forms[0]))

static void refused(struct raw *r, struct ctl_message *m, uint16_t type, uint32_t size,
		    uint32_t rule)
{
	int error = raw_call(r, m, type, size);

	if (error != tent_rule_error(rule) || r->status.rule != rule)
		fail_msg("type %u, size %u: error %d, rule %u, not %u: %s", type, size, error,
			 r->status.rule, rule, r->status.message);
	assert_true(strlen(r->status.message) > 0);
}

static void refused_plain(struct raw *r, uint16_t type, uint32_t size, uint32_t rule)
{
	struct ctl_message m = { .nr_fds = 0 };

	refused(r, &m, type, size, rule);
}

static void served(struct raw *r)
{
	struct raw_memory m;

	assert_int_equal(raw_alloc(r, 1, &m), 0);
	close(m.fd);
}

/* ---- form -------------------------------------------------------------- */

static void a_message_of_any_other_size_is_refused(void **state)
{
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < NR_FORMS; i++) {
		for (uint32_t size = 16; size <= TENT_CTL_MAX_SIZE; size += i % 2 ? 1 : 8) {
			if (size != forms[i].size)
				refused_plain(&r, forms[i].type, size, TENT_RULE_CTL_MESSAGE);
		}
	}
	served(&r);
	close(r.sock);
}

static void unknown_types_are_refused(void **state)
{
	static const uint16_t types[] = { 0, 14, 15, 255, 0x7fff, 0x8001, 0xffff };
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ctl_message m = { .nr_fds = 0 }, reply;

		m.head.size = 24;
		m.head.type = types[i];
		m.head.cookie = 77;
		assert_int_equal(ctl_send(r.sock, &m, 0), 0);
		assert_int_equal(ctl_recv(r.sock, &reply, 0), 0);
		assert_int_equal(reply.head.type, types[i] | TENT_CTL_REPLY);
		assert_int_equal(reply.head.cookie, 77);
		assert_int_equal(((struct tent_ctl_plain_reply *)reply.bytes)->status.rule,
				 TENT_RULE_CTL_MESSAGE);
	}
	served(&r);
	close(r.sock);
}

static void descriptors_that_a_type_does_not_take_are_refused_and_closed(void **state)
{
	int fd = memfd_create("unasked", MFD_CLOEXEC), fds;
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	served(&r);
	fds = engine_fix_quiet(&fix, 1);
	for (size_t i = 0; i < NR_FORMS; i++) {
		for (int nr = 1; nr <= TENT_CTL_MAX_FDS; nr++) {
			struct ctl_message m = { .nr_fds = nr, .fds = { fd, fd, fd, fd } };

			if (forms[i].type == TENT_CTL_MEM_REGISTER && nr == 1)
				((struct tent_ctl_mem_register *)m.bytes)->kind =
					TENT_MEM_PRIVATE;
			refused(&r, &m, forms[i].type, forms[i].size, TENT_RULE_CTL_MESSAGE);
		}
	}
	engine_fix_settle(engine_fix_count_fds, fds);
	close(fd);
	close(r.sock);
}

static void texts_without_an_end_are_refused(void **state)
{
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < NR_FORMS; i++) {
		struct ctl_message m = { .nr_fds = 0 };

		if (!forms[i].text_size)
			continue;
		memset(m.bytes + forms[i].text, 'a', forms[i].text_size);
		refused(&r, &m, forms[i].type, forms[i].size, TENT_RULE_CTL_MESSAGE);
	}
	close(r.sock);
}

static void hung_up(int sock)
{
	struct ctl_message m;

	assert_int_equal(ctl_recv(sock, &m, 0), -EPIPE);
	close(sock);
}

static void broken_framing_ends_the_connection(void **state)
{
	struct { uint32_t told, sent; } sizes[] = {
		{ 16, 1 }, { 16, 15 }, { 24, 16 }, { 16, 24 }, { 0, 16 }, { UINT32_MAX, 152 },
		{ 4096, 4095 },
	};
	int fds = engine_fix_quiet(&fix, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ctl_message m = { .nr_fds = 0 };
		struct raw r;

		raw_attach(&r, fix.path, NULL);
		m.head.size = sizes[i].told;
		m.head.type = TENT_CTL_QUERY;
		assert_int_equal(send(r.sock, m.bytes, sizes[i].sent, 0), sizes[i].sent);
		hung_up(r.sock);
	}
	for (int empty = 0; empty < 2; empty++) {
		uint8_t large[TENT_CTL_MAX_SIZE + 8] = { 0 };
		struct raw r;

		raw_attach(&r, fix.path, NULL);
		assert_true(send(r.sock, large, empty ? 0 : sizeof(large), 0) >= 0);
		hung_up(r.sock);
	}
	engine_fix_settle(engine_fix_count_fds, fds);
}

static void nothing_is_served_before_hello(void **state)
{
	struct raw r = { .sock = raw_socket(fix.path) };

	(void)state;
	for (size_t i = 1; i < NR_FORMS; i++)
		refused_plain(&r, forms[i].type, forms[i].size, TENT_RULE_CTL_MESSAGE);
	assert_int_equal(raw_hello(&r, NULL, 0), 0);
	served(&r);
	close(r.sock);
}

/* ---- HELLO ------------------------------------------------------------- */

static void hello_is_refused_for_each_thing_wrong_in_it(void **state)
{
	static const char *const bad[] = { "a b", "a/b", "a:b", "~1", "\x80", "\n", "ab\xff" };
	char long_name[65];
	struct raw r = { .sock = raw_socket(fix.path) };
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_hello *h = (void *)m.bytes;

	(void)state;
	h->abi_major = 2;
	refused(&r, &m, TENT_CTL_HELLO, sizeof(*h), TENT_RULE_CTL_VERSION);
	for (uint32_t bit = 2; bit < 32; bit++)
		assert_int_equal(raw_hello(&r, NULL, 1u << bit), TENT_ERR_PROTOCOL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(raw_hello(&r, bad[i], 0), TENT_ERR_ARGUMENTS);
		assert_int_equal(r.status.rule, TENT_RULE_NAME_FORM);
	}
	memset(long_name, 'x', 64);
	long_name[64] = '\0';
	assert_int_equal(raw_hello(&r, long_name, 0), TENT_ERR_ARGUMENTS);
	long_name[63] = '\0';
	assert_int_equal(raw_hello(&r, long_name, 0), 0);	/* after all of that */
	assert_int_equal(raw_hello(&r, NULL, 0), TENT_ERR_PROTOCOL);
	served(&r);
	close(r.sock);
}

static void an_observer_owns_nothing(void **state)
{
	struct raw r = { .sock = raw_socket(fix.path) };
	struct tent_client *c;
	char *json;

	(void)state;
	assert_int_equal(raw_hello(&r, "named", TENT_CTL_HELLO_OBSERVER), TENT_ERR_ARGUMENTS);
	assert_int_equal(raw_hello(&r, NULL, TENT_CTL_HELLO_OBSERVER), 0);
	for (size_t i = 1; i < NR_FORMS; i++) {
		if (forms[i].type != TENT_CTL_QUERY)
			refused_plain(&r, forms[i].type, forms[i].size, TENT_RULE_CTL_MESSAGE);
	}
	close(r.sock);
	assert_int_equal(tent_client_observe(fix.path, &c), 0);
	assert_string_equal(tent_client_segment(c), "");
	assert_int_equal(tent_client_query(c, TENT_QUERY_CLIENTS, &json), 0);
	free(json);
	tent_client_detach(c);
}

/* ---- fields ------------------------------------------------------------ */

static void ring_sizes_are_powers_of_two_within_the_limit(void **state)
{
	static const uint32_t bad[] = { 3, 65537, 131072, 0x80000000u, UINT32_MAX };
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_ring_open *o = (void *)m.bytes;
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		o->slot_count = bad[i];
		o->completion_count = 8;
		refused(&r, &m, TENT_CTL_RING_OPEN, sizeof(*o), TENT_RULE_RING_SIZE);
		o = (void *)memset(m.bytes, 0, sizeof(m.bytes));
		o->slot_count = 8;
		o->completion_count = bad[i];
		refused(&r, &m, TENT_CTL_RING_OPEN, sizeof(*o), TENT_RULE_RING_SIZE);
		assert_int_equal(r.status.value, bad[i]);
	}
	close(r.sock);
}

static void ids_that_name_nothing_are_refused(void **state)
{
	static const struct { uint16_t type; uint32_t rule; } ids[] = {
		{ TENT_CTL_RING_CLOSE, TENT_RULE_RING_CLOSED },
		{ TENT_CTL_MEM_FREE, TENT_RULE_MEM_UNKNOWN },
		{ TENT_CTL_SEGMENT_CLOSE, TENT_RULE_SEGMENT },
		{ TENT_CTL_SEGMENT_INFO, TENT_RULE_SEGMENT },
	};
	static const uint64_t values[] = { 1, 2, UINT32_MAX, 1ull << 32, UINT64_MAX };
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			struct ctl_message m = { .nr_fds = 0 };

			((struct tent_ctl_id *)m.bytes)->id = values[v];
			refused(&r, &m, ids[i].type, ids[i].type == TENT_CTL_SEGMENT_INFO ?
				sizeof(struct tent_ctl_segment_info) :
				sizeof(struct tent_ctl_id), ids[i].rule);
			assert_int_equal(r.status.value, values[v]);
		}
	}
	served(&r);
	close(r.sock);
}

static void messages_sent_ahead_are_answered_in_order(void **state)
{
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (uint64_t i = 0; i < 8; i++) {
		struct ctl_message m = { .nr_fds = 0 };

		((struct tent_ctl_ring_open *)m.bytes)->slot_count = 8;
		m.head.size = sizeof(struct tent_ctl_ring_open);
		m.head.type = TENT_CTL_RING_OPEN;	/* waits for a poller */
		m.head.cookie = i;
		assert_int_equal(ctl_send(r.sock, &m, 0), 0);
	}
	for (uint64_t i = 0; i < 8; i++) {
		struct ctl_message m;

		assert_int_equal(ctl_recv(r.sock, &m, 0), 0);
		assert_int_equal(m.head.cookie, i);
		assert_int_equal(((struct tent_ctl_ring_open_reply *)m.bytes)->ring_id, i + 1);
		ctl_close_fds(&m);
	}
	close(r.sock);
}

/* ---- floods ------------------------------------------------------------ */

static void a_client_that_reads_no_answer_is_let_go(void **state)
{
	int fds = engine_fix_quiet(&fix, 0);
	struct tent_client *honest;
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (;;) {
		struct ctl_message m = { .nr_fds = 0 };

		m.head.size = sizeof(struct tent_ctl_segment_info);
		m.head.type = TENT_CTL_SEGMENT_INFO;
		if (ctl_send(r.sock, &m, 0) < 0)
			break;	/* the engine hung up */
	}
	honest = engine_fix_attach(&fix, NULL);
	engine_fix_memory(honest, 4096);
	tent_client_detach(honest);
	close(r.sock);
	engine_fix_settle(engine_fix_count_fds, fds);
}

static void few(struct engine_config *c)
{
	c->clients_per_tenant_max = 4;
}

static void one_client_too_many_hears_why_and_gets_the_next_free_place(void **state)
{
	struct raw r[4], late = { .sock = -1 };
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, few);
	for (int i = 0; i < 4; i++)
		raw_attach(&r[i], f.path, NULL);
	late.sock = raw_socket(f.path);
	assert_int_equal(raw_hello(&late, NULL, 0), TENT_ERR_CAPACITY);
	assert_int_equal(late.status.rule, TENT_RULE_CLIENT_LIMIT);
	hung_up(late.sock);
	shutdown(r[0].sock, SHUT_WR);
	hung_up(r[0].sock);	/* it left nothing */
	raw_attach(&r[0], f.path, NULL);
	for (int i = 0; i < 4; i++)
		close(r[i].sock);
	engine_fix_stop(&f);
}

static void many_connections_that_say_nothing_leave_others_served(void **state)
{
	int socks[100];
	struct engine_fix f;
	struct raw r[4];

	(void)state;
	engine_fix_start(&f, few);
	raw_attach(&r[0], f.path, NULL);
	for (int i = 0; i < 100; i++)
		socks[i] = raw_socket(f.path);
	served(&r[0]);
	for (int i = 0; i < 100; i++)
		close(socks[i]);
	for (int i = 1; i < 4; i++) {	/* they are free again, once it has noticed */
		do {
			r[i].sock = raw_socket(f.path);
		} while (raw_hello(&r[i], NULL, 0) && close(r[i].sock) == 0);
	}
	for (int i = 0; i < 4; i++)
		close(r[i].sock);
	engine_fix_stop(&f);
}

/* Connects, and is hung up on each time. */
static int knock(struct engine_fix *f)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	need(setrlimit(RLIMIT_NOFILE, &l) == 0);
	for (int i = 0; i < 40; i++) {
		struct raw r = { .sock = raw_socket(f->path) };
		char byte;

		need(r.sock >= 0);
		need(recv(r.sock, &byte, 1, 0) <= 0);
		close(r.sock);
	}
	return 0;
}

static void without_a_free_descriptor_connections_are_shed_and_served_later(void **state)
{
	struct rlimit before, none;
	struct tent_client *c;
	int rc;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	c = engine_fix_attach(&fix, NULL);
	none = before;
	none.rlim_cur = (rlim_t)dup(0);	/* the lowest that is free, and then not */
	close((int)none.rlim_cur);
	setrlimit(RLIMIT_NOFILE, &none);
	rc = engine_fix_child(&fix, 0, knock);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(rc, 0);
	engine_fix_memory(c, 4096);
	tent_client_detach(c);
	c = engine_fix_attach(&fix, NULL);
	tent_client_detach(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_of_any_other_size_is_refused),
		cmocka_unit_test(unknown_types_are_refused),
		cmocka_unit_test(descriptors_that_a_type_does_not_take_are_refused_and_closed),
		cmocka_unit_test(texts_without_an_end_are_refused),
		cmocka_unit_test(broken_framing_ends_the_connection),
		cmocka_unit_test(nothing_is_served_before_hello),
		cmocka_unit_test(hello_is_refused_for_each_thing_wrong_in_it),
		cmocka_unit_test(an_observer_owns_nothing),
		cmocka_unit_test(ring_sizes_are_powers_of_two_within_the_limit),
		cmocka_unit_test(ids_that_name_nothing_are_refused),
		cmocka_unit_test(messages_sent_ahead_are_answered_in_order),
		cmocka_unit_test(a_client_that_reads_no_answer_is_let_go),
		cmocka_unit_test(one_client_too_many_hears_why_and_gets_the_next_free_place),
		cmocka_unit_test(many_connections_that_say_nothing_leave_others_served),
		cmocka_unit_test(without_a_free_descriptor_connections_are_shed_and_served_later),
	};

	return cmocka_run_group_tests(tests, engine_fix_setup, engine_fix_teardown);
}
