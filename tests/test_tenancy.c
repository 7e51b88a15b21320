/* SPDX-License-Identifier: Apache-2.0 */
/* test_tenancy.c - what one user's clients may do to another's: nothing, but for what its
 * contract shares. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/config.h"
#include "engine/names.h"
#include "tests/common/engine_fix.h"

#define NOBODY 65534u
#define SOMEBODY 65533u
#define COLLECTOR 65532u	/* has no name yet */
#define SIZE 65536u
#define OWN "127.0.0.1:15000"

/* ---- names of the living ----------------------------------------------- */

static int opens_of_a_stranger_fail(struct engine_fix *f)
{
	static const char *const names[] = { "secret", OWN "/secret" };
	struct tent_client *c;
	tent_segment_id_t id;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	for (int i = 0; i < 2; i++) {
		need(tent_client_open_segment(c, names[i], &id) == TENT_ERR_POLICY_DENIED);
		need(engine_fix_rule() == TENT_RULE_SEGMENT_TENANT);
	}
	return 0;
}

/* Every handle and address it can think of: the guess is refused, nothing moves. */
static int guesses_of_a_stranger_fail(struct engine_fix *f)
{
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion done;
	void *m;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_alloc(c, SIZE, NULL, &m) == 0);
	need(tent_client_register(c, m, SIZE, 2, NULL, 0) == 0);
	need(tent_ring_open(c, 64, 64, &ring) == 0);
	for (uint64_t id = 0; id < 20; id++) {
		struct tent_request_v1 r = engine_fix_request(TENT_OPCODE_READ, m, id,
							      (void *)0x7f0000000000, 64);

		need(tent_ring_submit(ring, &r, 1, sizeof(r), 0, 0) == 0);
		need(tent_ring_wait(ring, UINT64_MAX) == 0);
		need(tent_ring_poll(ring, &done, 1) == 1);
		need(done.flags & TENT_CQE_F_REJECTED);
		need(done.rule == (id ? TENT_RULE_SEGMENT : TENT_RULE_TARGET_UNREGISTERED));
	}
	return 0;
}

static int cannot_take_the_name(struct engine_fix *f)
{
	struct raw r = { .sock = raw_socket(f->path) };

	need(raw_hello(&r, "secret", 0) == TENT_ERR_POLICY_DENIED);
	need(r.status.rule == TENT_RULE_NAME_OTHER_TENANT);
	need(raw_hello(&r, "other", 0) == 0);	/* the connection is as good as new */
	return 0;
}

static void a_stranger_cannot_open_guess_or_impersonate_a_segment(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, "secret");

	(void)state;
	engine_fix_memory(c, SIZE);
	assert_int_equal(engine_fix_child(&fix, NOBODY, opens_of_a_stranger_fail), 0);
	assert_int_equal(engine_fix_child(&fix, SOMEBODY, guesses_of_a_stranger_fail), 0);
	assert_int_equal(engine_fix_child(&fix, NOBODY, cannot_take_the_name), 0);
	tent_client_detach(c);
}

static int holds_a_segment(struct engine_fix *f)
{
	struct tent_client *c;
	char byte;

	need(tent_client_attach(f->path, "nobodys", &c) == 0);
	need(send(f->fds, "x", 1, 0) == 1);	/* it is there */
	need(recv(f->fds, &byte, 1, 0) == 0);	/* until it need not be */
	return 0;
}

/* The engine's own user, root here, is a tenant like any other. */
static void root_is_no_exception(void **state)
{
	struct engine_fix f = fix;
	tent_segment_id_t id;
	struct tent_client *c;
	int pair[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	f.fds = pair[1];
	pid = engine_fix_spawn(&f, NOBODY, holds_a_segment);
	close(pair[1]);
	assert_int_equal(recv(pair[0], &byte, 1, 0), 1);
	c = engine_fix_attach(&fix, NULL);
	assert_int_equal(tent_client_open_segment(c, "nobodys", &id), TENT_ERR_POLICY_DENIED);
	tent_client_detach(c);
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(engine_fix_reap(pid), 0);
	close(pair[0]);
}

static void a_name_in_use_is_refused_to_its_own_tenant_too(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, "mine"), *again = NULL;

	(void)state;
	assert_int_equal(tent_client_attach(fix.path, "mine", &again), TENT_ERR_ARGUMENTS);
	assert_int_equal(engine_fix_rule(), TENT_RULE_NAME_TAKEN);
	assert_null(again);
	tent_client_detach(c);
	c = engine_fix_attach(&fix, "mine");
	tent_client_detach(c);
}

static void a_name_has_two_spellings_and_one_handle(void **state)
{
	struct tent_client *a = engine_fix_attach(&fix, "two"), *b = engine_fix_attach(&fix, NULL);
	tent_segment_id_t first, second, own;

	(void)state;
	assert_string_equal(tent_client_segment(a), OWN "/two");
	assert_int_equal(tent_client_open_segment(b, "two", &first), 0);
	assert_int_equal(tent_client_open_segment(b, OWN "/two", &second), 0);
	assert_int_equal(first, second);
	assert_int_equal(tent_client_open_segment(a, "two", &own), 0);
	assert_int_equal(own, 0);
	assert_int_equal(tent_client_open_segment(a, "", &own), 0);
	assert_int_equal(own, 0);
	tent_client_detach(a);
	tent_client_detach(b);
}

/* Its names are what the configuration says, whatever this host's addresses are. */
static void alone(struct engine_config *c)
{
	c->peers_enable = false;
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&fix, alone);
	return 0;
}

static void on_ipv6(struct engine_config *c)
{
	alone(c);
	strcpy(c->host, "0:0::1");
}

static void an_engine_of_an_ipv6_address_knows_its_spellings(void **state)
{
	static const char *const spellings[] = {
		"[::1]:15000/six", "[0:0:0:0:0:0:0:1]:15000/six", "six",
	};
	static const char *const others[] = { "::1:15000/six", "[::2]:15000/six", "::1/six" };
	struct engine_fix f;
	struct tent_client *c;
	tent_segment_id_t id;

	(void)state;
	engine_fix_start(&f, on_ipv6);
	c = engine_fix_attach(&f, "six");
	assert_string_equal(tent_client_segment(c), "[::1]:15000/six");
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
		assert_int_equal(tent_client_open_segment(c, spellings[i], &id), 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_not_equal(tent_client_open_segment(c, others[i], &id), 0);
		assert_int_equal(engine_fix_rule(), TENT_RULE_SEGMENT_UNKNOWN);
	}
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static void names_of_nobody_of_others_and_of_files_are_told_apart(void **state)
{
	static const struct { const char *name; uint32_t rule; } names[] = {
		{ "nobody-has-this", TENT_RULE_SEGMENT_UNKNOWN },
		{ OWN "/nobody-has-this", TENT_RULE_SEGMENT_UNKNOWN },
		{ OWN "/", TENT_RULE_SEGMENT_UNKNOWN },
		{ OWN, TENT_RULE_SEGMENT_UNKNOWN },	/* no client of this process */
		{ OWN "1", TENT_RULE_SEGMENT_UNKNOWN },
		{ "10.0.0.1:15000", TENT_RULE_SEGMENT_UNKNOWN },
		{ "10.0.0.1:15000/two", TENT_RULE_SEGMENT_UNKNOWN },
		{ "/", TENT_RULE_SEGMENT_UNKNOWN },
		{ "file:///nowhere/at/all", TENT_RULE_FILE_PATH },
	};
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	tent_segment_id_t id;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_not_equal(tent_client_open_segment(c, names[i].name, &id), 0);
		assert_int_equal(engine_fix_rule(), names[i].rule);
	}
	tent_client_detach(c);
}

static void the_programs_own_engine_is_the_bare_address(void **state)
{
	struct tent_client *a = engine_fix_local(&fix), *b = engine_fix_local(&fix);
	tent_segment_id_t id;

	(void)state;
	assert_string_equal(tent_client_segment(a), OWN);
	assert_string_not_equal(tent_client_segment(b), OWN);
	assert_int_equal(tent_client_open_segment(b, OWN, &id), 0);
	assert_int_equal(id, 1);
	tent_client_detach(a);
	tent_client_detach(b);
	a = engine_fix_local(&fix);
	assert_string_equal(tent_client_segment(a), OWN);
	tent_client_detach(a);
}

/* ---- names of the dead -------------------------------------------------- */

static int cannot_inherit(struct engine_fix *f)
{
	struct raw r = { .sock = raw_socket(f->path) };

	need(raw_hello(&r, "left-behind", 0) == TENT_ERR_POLICY_DENIED);
	need(r.status.rule == TENT_RULE_NAME_OTHER_TENANT);
	return 0;
}

static void a_dead_owners_name_stays_its_tenants(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, "left-behind");

	(void)state;
	tent_client_detach(c);
	assert_int_equal(engine_fix_child(&fix, NOBODY, cannot_inherit), 0);
	c = engine_fix_attach(&fix, "left-behind");	/* ours restarts */
	tent_client_detach(c);
	assert_int_equal(engine_fix_child(&fix, SOMEBODY, cannot_inherit), 0);
}

static void names_that_the_engine_picks_cannot_be_asked_for_and_never_return(void **state)
{
	struct tent_client *a = engine_fix_attach(&fix, NULL), *b;
	char first[TENT_CTL_NAME_SIZE];
	struct raw r = { .sock = raw_socket(fix.path) };

	(void)state;
	strcpy(first, tent_client_segment(a));
	tent_client_detach(a);
	assert_int_equal(raw_hello(&r, strchr(first, '/') + 1, 0), TENT_ERR_ARGUMENTS);
	close(r.sock);
	b = engine_fix_attach(&fix, NULL);
	assert_string_not_equal(tent_client_segment(b), first);
	tent_client_detach(b);
}

/* One connection after the other, each with another name, until one is refused. */
static int collects_names(struct engine_fix *f)
{
	for (unsigned i = 0; i <= NAMES_PER_TENANT_MAX; i++) {
		struct raw r = { .sock = raw_socket(f->path) };
		char name[32], byte;
		int rc;

		need(r.sock >= 0);
		snprintf(name, sizeof(name), "collected-%u", i);
		rc = raw_hello(&r, name, 0);
		shutdown(r.sock, SHUT_WR);
		if (rc)
			need(r.status.rule == TENT_RULE_CLIENT_LIMIT);
		need(!rc == (i < NAMES_PER_TENANT_MAX));
		while (recv(r.sock, &byte, 1, 0) > 0)
			;
		close(r.sock);
	}
	return 0;
}

static int keeps_a_name(struct engine_fix *f)
{
	struct raw r;

	raw_attach(&r, f->path, "still-possible");
	return 0;
}

static void one_tenant_cannot_use_up_all_names(void **state)
{
	(void)state;
	assert_int_equal(engine_fix_child(&fix, COLLECTOR, collects_names), 0);
	assert_int_equal(engine_fix_child(&fix, SOMEBODY, keeps_a_name), 0);
}

/* ---- permissions -------------------------------------------------------- */

static void permissions_bind_others_and_not_the_owner(void **state)
{
	struct tent_client *owner = engine_fix_attach(&fix, "guarded");
	struct tent_client *other = engine_fix_attach(&fix, NULL);
	struct tent_ring *mine = engine_fix_ring(owner), *his = engine_fix_ring(other);
	uint8_t *local = engine_fix_memory(other, SIZE), *source = engine_fix_memory(owner, SIZE);
	tent_segment_id_t id;

	(void)state;
	assert_int_equal(tent_client_open_segment(other, "guarded", &id), 0);
	for (int permission = 0; permission <= 2; permission++) {
		for (int opcode = 0; opcode < 2; opcode++) {
			bool may = permission == 2 || (permission == 1 && opcode == 0);
			struct tent_completion done;
			void *m;

			assert_int_equal(tent_client_alloc(owner, 4096, NULL, &m), 0);
			assert_int_equal(tent_client_register(owner, m, 4096, permission, NULL, 0),
					 0);
			done = engine_fix_move(his, opcode, local, id, m, 64);
			assert_int_equal(done.rule, may ? 0 : TENT_RULE_TARGET_PERMISSION);
			done = engine_fix_move(mine, opcode, source, 0, m, 64);
			assert_int_equal(done.status, TENT_STATUS_COMPLETED);
			assert_int_equal(tent_client_free(owner, m), 0);
		}
	}
	tent_ring_close(mine);
	tent_ring_close(his);
	tent_client_detach(owner);
	tent_client_detach(other);
}

static void internal_buffers_are_not_listed_and_others_are_paged(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	struct tent_segment_info info;
	void *m;

	(void)state;
	assert_int_equal(tent_client_alloc(c, 200 * 64, NULL, &m), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(tent_client_register(c, (uint8_t *)m + 64 * i, 64, 2, "cpu:0",
						      i % 2), 0);
	assert_int_equal(tent_client_segment_info(c, 0, &info), 0);
	assert_int_equal(info.num_buffers, 100);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(info.buffers[i].base, (uintptr_t)m + 128 * (unsigned)i);
		assert_int_equal(info.buffers[i].length, 64);
		assert_string_equal(info.buffers[i].location, "cpu:0");
	}
	free(info.buffers);
	tent_client_detach(c);
}

static void a_closed_handle_is_stale_and_its_number_is_not_used_again(void **state)
{
	struct tent_client *a = engine_fix_attach(&fix, "again"), *b = engine_fix_attach(&fix, NULL);
	struct tent_ring *ring = engine_fix_ring(b);
	uint8_t *far = engine_fix_memory(a, SIZE), *near = engine_fix_memory(b, SIZE);
	tent_segment_id_t first, second;

	(void)state;
	assert_int_equal(tent_client_open_segment(b, "again", &first), 0);
	assert_int_equal(engine_fix_move(ring, 1, near, first, far, 64).rule, 0);
	assert_int_equal(tent_client_close_segment(b, first), 0);
	assert_int_equal(tent_client_close_segment(b, first), TENT_ERR_STALE_HANDLE);
	assert_int_equal(engine_fix_move(ring, 1, near, first, far, 64).rule, TENT_RULE_SEGMENT);
	assert_int_equal(tent_client_open_segment(b, "again", &second), 0);
	assert_int_not_equal(first, second);
	assert_int_equal(engine_fix_move(ring, 1, near, second, far, 64).rule, 0);
	assert_int_equal(tent_client_close_segment(b, 0), 0);
	tent_ring_close(ring);
	tent_client_detach(a);
	tent_client_detach(b);
}

/* ---- refusals ---------------------------------------------------------- */

static void room_for_one(struct engine_config *c)
{
	c->clients_max = 1;
}

/* Two of one user's, both refused, both gone: they share what is known of him. */
static int comes_twice_for_nothing(struct engine_fix *f)
{
	struct raw r[2] = { { .sock = raw_socket(f->path) }, { .sock = raw_socket(f->path) } };

	for (int i = 0; i < 2; i++)
		need(raw_hello(&r[i], NULL, 0) == TENT_ERR_CAPACITY);
	return 0;
}

static void a_user_whose_clients_were_all_refused_is_forgotten_once(void **state)
{
	static struct engine_fix f;
	struct tent_client *c;

	(void)state;
	engine_fix_start(&f, room_for_one);
	c = engine_fix_attach(&f, NULL);
	for (int i = 0; i < 10; i++)
		assert_int_equal(engine_fix_child(&f, NOBODY, comes_twice_for_nothing), 0);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

/* ---- what a contract shares -------------------------------------------- */

static void shares(struct engine_config *c)
{
	static struct config_report said;
	static const char text[] =
		"{\"authorization\":{\"tenants\":["
		"{\"name\":\"owner\",\"uids\":[0],\"shares_with\":[\"Guest\"]},"
		"{\"name\":\"guest\",\"uids\":[65534]},"
		"{\"name\":\"other\",\"uids\":[65533]}]}}";

	if (engine_config_apply_json(c, text, &said))
		fail_msg("%s", said.error);
}

static int uses_what_is_shared(struct engine_fix *f)
{
	struct tent_segment_info info;
	struct tent_client *c;
	struct tent_ring *ring;
	uint64_t reads;
	tent_segment_id_t id;
	void *m;

	need(tent_client_attach(f->path, "guests", &c) == 0);
	need(tent_client_alloc(c, SIZE, NULL, &m) == 0);
	need(tent_client_register(c, m, SIZE, 2, NULL, 0) == 0);
	need(tent_ring_open(c, 64, 64, &ring) == 0);
	need(tent_client_open_segment(c, "owners", &id) == 0);
	need(tent_client_segment_info(c, id, &info) == 0 && info.num_buffers == 1);
	reads = info.buffers[0].base;
	for (int op = TENT_OPCODE_READ; op <= TENT_OPCODE_WRITE; op++) {
		struct tent_request_v1 r = engine_fix_request(op, m, id,
							      (void *)(uintptr_t)reads, 64);
		struct tent_completion done;

		need(tent_ring_submit(ring, &r, 1, sizeof(r), 0, 0) == 0);
		need(tent_ring_wait(ring, UINT64_MAX) == 0);
		need(tent_ring_poll(ring, &done, 1) == 1);
		need(done.rule == (op == TENT_OPCODE_READ ? 0 : TENT_RULE_TARGET_PERMISSION));
	}
	need(memcmp(m, "shared", 6) == 0);
	tent_client_detach(c);
	return 0;
}

static int finds_nothing_shared(struct engine_fix *f)
{
	struct tent_client *c;
	tent_segment_id_t id;

	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_open_segment(c, "owners", &id) == TENT_ERR_POLICY_DENIED);
	need(engine_fix_rule() == TENT_RULE_SEGMENT_TENANT);
	tent_client_detach(c);
	return 0;
}

static void a_contract_shares_with_those_it_lists_and_by_permission(void **state)
{
	static struct engine_fix f;
	struct tent_client *c;
	void *m;

	(void)state;
	engine_fix_start(&f, shares);
	c = engine_fix_attach(&f, "owners");
	assert_int_equal(tent_client_alloc(c, SIZE, NULL, &m), 0);
	strcpy(m, "shared");
	assert_int_equal(tent_client_register(c, m, SIZE, TENT_PERM_GLOBAL_READ_ONLY, NULL, 0), 0);
	assert_int_equal(engine_fix_child(&f, NOBODY, uses_what_is_shared), 0);
	assert_int_equal(engine_fix_child(&f, SOMEBODY, finds_nothing_shared), 0);
	assert_int_equal(engine_fix_child(&f, COLLECTOR, finds_nothing_shared), 0);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static int holds_guests(struct engine_fix *f)
{
	struct tent_client *c;
	char byte;

	need(tent_client_attach(f->path, "guests", &c) == 0);
	need(send(f->fds, "x", 1, 0) == 1);
	need(recv(f->fds, &byte, 1, 0) == 0);
	return 0;
}

static void what_a_guest_owns_is_not_shared_for_it(void **state)
{
	static struct engine_fix f;
	struct tent_client *c;
	tent_segment_id_t id;
	int pair[2], fds;
	pid_t pid;
	char byte;

	(void)state;
	engine_fix_start(&f, shares);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fds = f.fds;
	f.fds = pair[1];
	pid = engine_fix_spawn(&f, NOBODY, holds_guests);
	f.fds = fds;
	close(pair[1]);
	assert_int_equal(recv(pair[0], &byte, 1, 0), 1);
	c = engine_fix_attach(&f, NULL);
	assert_int_equal(tent_client_open_segment(c, "guests", &id), TENT_ERR_POLICY_DENIED);
	tent_client_detach(c);
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(engine_fix_reap(pid), 0);
	close(pair[0]);
	engine_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_contract_shares_with_those_it_lists_and_by_permission),
		cmocka_unit_test(what_a_guest_owns_is_not_shared_for_it),
		cmocka_unit_test(a_stranger_cannot_open_guess_or_impersonate_a_segment),
		cmocka_unit_test(root_is_no_exception),
		cmocka_unit_test(a_name_in_use_is_refused_to_its_own_tenant_too),
		cmocka_unit_test(a_name_has_two_spellings_and_one_handle),
		cmocka_unit_test(an_engine_of_an_ipv6_address_knows_its_spellings),
		cmocka_unit_test(names_of_nobody_of_others_and_of_files_are_told_apart),
		cmocka_unit_test(the_programs_own_engine_is_the_bare_address),
		cmocka_unit_test(a_dead_owners_name_stays_its_tenants),
		cmocka_unit_test(names_that_the_engine_picks_cannot_be_asked_for_and_never_return),
		cmocka_unit_test(one_tenant_cannot_use_up_all_names),
		cmocka_unit_test(permissions_bind_others_and_not_the_owner),
		cmocka_unit_test(internal_buffers_are_not_listed_and_others_are_paged),
		cmocka_unit_test(a_closed_handle_is_stale_and_its_number_is_not_used_again),
		cmocka_unit_test(a_user_whose_clients_were_all_refused_is_forgotten_once),
	};

	return cmocka_run_group_tests(tests, setup, engine_fix_teardown);
}
