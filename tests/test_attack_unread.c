/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_unread.c - clients that ask for descriptors and never receive them, while
 * the kernel counts them as the engine's.
 */
#define _GNU_SOURCE
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "tests/common/engine_fix.h"

#define FDS_MAX 320u	/* of this process; the engine keeps 64 from its clients */
#define SHARE ((FDS_MAX - 64) / 2)	/* what one tenant may have of them */
#define CLIENT_FDS 3u
#define ATTACKERS 4
#define ASKED 60u

static struct rlimit before;
static struct raw other;	/* an honest client */

static int setup(void **state)
{
	struct rlimit few;

	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = FDS_MAX;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	engine_fix_setup(state);
	raw_attach(&other, fix.path, NULL);
	return 0;
}

static int teardown(void **state)
{
	close(other.sock);
	engine_fix_teardown(state);
	return setrlimit(RLIMIT_NOFILE, &before);
}

static void send_message(struct raw *r, struct ctl_message *m, uint16_t type, uint32_t size)
{
	m->head.type = type;
	m->head.size = size;
	assert_int_equal(ctl_send(r->sock, m, 0), 0);
}

static void send_query(struct raw *r)
{
	struct ctl_message m = { .nr_fds = 0 };

	((struct tent_ctl_query *)m.bytes)->what = TENT_QUERY_CLIENTS;
	send_message(r, &m, TENT_CTL_QUERY, sizeof(struct tent_ctl_query));
}

/* The engine has taken everything that was sent, and answered it: it serves one message
 * after the other. */
static void wait_served(struct raw *r)
{
	uint64_t id;
	int left;

	do {
		sched_yield();
		assert_int_equal(ioctl(r->sock, SIOCOUTQ, &left), 0);
	} while (left);
	assert_int_equal(raw_open_segment(&other, "", &id), 0);
}

struct tally {
	uint32_t replies, fds, refused;
};

/* Receives what has arrived. */
static struct tally receive_all(struct raw *r)
{
	struct tally t = { 0 };
	struct ctl_message m;

	while (ctl_recv(r->sock, &m, MSG_DONTWAIT) == 0) {
		const struct tent_ctl_plain_reply *reply = (const void *)m.bytes;

		t.replies++;
		t.fds += (uint32_t)m.nr_fds;
		t.refused += reply->status.rule == TENT_RULE_CLIENT_LIMIT;
		ctl_close_fds(&m);
	}
	return t;
}

static void query_succeeds(struct raw *r)
{
	struct tally t;

	send_query(r);
	wait_served(r);
	t = receive_all(r);
	assert_int_equal(t.replies, 1);
	assert_int_equal(t.fds, 1);
}

static void answers_nobody_reads_are_bounded_over_all_of_a_tenants_clients(void **state)
{
	struct raw r[ATTACKERS];
	uint32_t fds = 0, refused = 0;

	(void)state;
	for (int i = 0; i < ATTACKERS; i++)
		raw_attach(&r[i], fix.path, NULL);
	for (int i = 0; i < ATTACKERS; i++) {
		for (uint32_t n = 0; n < ASKED; n++)
			send_query(&r[i]);
		wait_served(&r[i]);
	}
	for (int i = 0; i < ATTACKERS; i++) {
		struct tally t = receive_all(&r[i]);

		assert_int_equal(t.replies, ASKED);
		assert_int_equal(t.fds + t.refused, ASKED);
		fds += t.fds;
		refused += t.refused;
	}
	assert_true(fds && refused);
	assert_in_range(fds + (ATTACKERS + 1) * CLIENT_FDS, 1, SHARE);
	for (int i = 0; i < ATTACKERS; i++) {
		query_succeeds(&r[i]);
		close(r[i].sock);
	}
}

static void rings_opened_and_closed_unread_are_bounded(void **state)
{
	struct raw r;
	struct tally t;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (uint32_t i = 0; i < ASKED; i++) {
		struct ctl_message m = { .nr_fds = 0 };

		((struct tent_ctl_ring_open *)m.bytes)->slot_count = 64;
		send_message(&r, &m, TENT_CTL_RING_OPEN, sizeof(struct tent_ctl_ring_open));
		memset(&m, 0, sizeof(m));
		((struct tent_ctl_id *)m.bytes)->id = i + 1;
		send_message(&r, &m, TENT_CTL_RING_CLOSE, sizeof(struct tent_ctl_id));
	}
	wait_served(&r);
	t = receive_all(&r);
	assert_true(t.fds && t.refused);
	assert_in_range(t.fds, 1, SHARE - 2 * CLIENT_FDS);
	query_succeeds(&r);
	close(r.sock);
}

/* It asked, and then half-closed its end; the engine has ended it. */
static void leave_unread(struct raw *r)
{
	struct pollfd p;

	raw_attach(r, fix.path, NULL);
	send_query(r);
	wait_served(r);
	shutdown(r->sock, SHUT_WR);
	p = (struct pollfd){ .fd = r->sock, .events = POLLRDHUP };
	while (!(p.revents & POLLRDHUP))
		assert_int_equal(poll(&p, 1, -1), 1);
}

static void who_leaves_answers_unread_keeps_its_place_until_it_read_them(void **state)
{
	struct raw r;
	struct tally t;

	(void)state;
	engine_fix_quiet(&fix, 1);
	leave_unread(&r);
	assert_int_equal(engine_fix_clients(&fix), 2);
	t = receive_all(&r);
	assert_int_equal(t.fds, 1);
	engine_fix_quiet(&fix, 1);
	close(r.sock);
}

static void who_leaves_answers_unread_keeps_its_place_until_it_closed(void **state)
{
	struct raw r;

	(void)state;
	engine_fix_quiet(&fix, 1);
	leave_unread(&r);
	assert_int_equal(engine_fix_clients(&fix), 2);
	close(r.sock);
	engine_fix_quiet(&fix, 1);
}

static void an_engine_stops_without_waiting_for_readers(void **state)
{
	struct raw r;

	(void)state;
	leave_unread(&r);
	engine_destroy(fix.engine);
	assert_int_equal(receive_all(&r).fds, 1);
	close(r.sock);
	close(other.sock);
	rmdir(fix.folder);
	engine_fix_start(&fix, NULL);
	raw_attach(&other, fix.path, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			answers_nobody_reads_are_bounded_over_all_of_a_tenants_clients),
		cmocka_unit_test(rings_opened_and_closed_unread_are_bounded),
		cmocka_unit_test(
			who_leaves_answers_unread_keeps_its_place_until_it_read_them),
		cmocka_unit_test(who_leaves_answers_unread_keeps_its_place_until_it_closed),
		cmocka_unit_test(an_engine_stops_without_waiting_for_readers),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
