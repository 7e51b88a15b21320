/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_death.c - clients that die at any instant: what they held is freed, who touched
 * it is told, a number that changes hands deceives nobody.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/peercred.h"
#include "ring/order.h"
#include "tests/common/engine_fix.h"
#include "tests/common/soak.h"

#define SIZE 65536u

/* What a victim tells from its process: how far it came, where its memory lies. */
struct board {
	uint32_t steps;
	uint32_t round;
	uint64_t memory;
	char name[TENT_CTL_NAME_SIZE];
};
static struct board *board;

static int setup(void **state)
{
	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	engine_fix_start(&fix, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&fix);
	munmap(board, sizeof(*board));
	return 0;
}

static void step(void)
{
	fetch_add(&board->steps, 1u);
}

static void await_steps(uint32_t steps)
{
	while (load_acquire(&board->steps) < steps)
		sched_yield();
}

/* ---- at random instants -------------------------------------------------- */

/* Everything a client can hold, over and over: the test kills it somewhere in here. */
static bool live(struct engine_fix *f, uint8_t *private)
{
	struct tent_client *c;
	struct tent_ring *rings[2];
	struct tent_completion done;
	tent_segment_id_t peer;
	void *m;

	need(tent_client_attach(f->path, "victim", &c) == 0);
	step();
	need(tent_client_alloc(c, SIZE, NULL, &m) == 0);
	step();
	need(tent_client_register(c, m, SIZE, 2, NULL, 0) == 0);
	store_release(&board->memory, (uint64_t)(uintptr_t)m);
	step();
	need(tent_client_register(c, private, SIZE, 2, NULL, 0) == 0);
	step();
	for (int i = 0; i < 2; i++)
		need(tent_ring_open(c, 64, 64, &rings[i]) == 0);
	step();
	need(tent_client_open_segment(c, "honest", &peer) == 0);
	for (int i = 0; i < 40; i++) {
		uint8_t *from = i % 3 ? m : private;
		struct tent_request_v1 r = engine_fix_request(1, from, 0, (uint8_t *)m + 4096,
							      4096);

		need(tent_ring_submit(rings[i % 2], &r, 1, sizeof(r), 0, 0) == 0);
		step();
	}
	for (int i = 0; i < 40; i++) {
		need(tent_ring_wait(rings[i % 2], UINT64_MAX) == 0);
		need(tent_ring_poll(rings[i % 2], &done, 1) == 1);
		need(done.status == TENT_STATUS_COMPLETED);
		step();
	}
	need(tent_client_unregister(c, private, SIZE) == 0);
	step();
	need(tent_client_free(c, m) == 0);
	step();
	for (int i = 0; i < 2; i++)
		tent_ring_close(rings[i]);
	tent_client_detach(c);
	step();
	return true;
}

static int victim(struct engine_fix *f)
{
	uint8_t *private = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0);

	while (live(f, private))
		;
	return 0;
}

struct honest {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *m;
	unsigned rounds;
};

/* Its own data is right, whatever happens around it. */
static void honest_round(struct honest *h)
{
	memset(h->m, (int)(h->rounds * 7 + 1), 8192);
	assert_int_equal(engine_fix_move(h->ring, 1, h->m, 0, h->m + 16384, 8192).status,
			 TENT_STATUS_COMPLETED);
	assert_memory_equal(h->m, h->m + 16384, 8192);
	h->rounds++;
}

/* Touches the victim's memory: it works, or the reason is one of those it may be. */
static void touch(struct honest *h)
{
	const void *there = (const void *)(uintptr_t)load_acquire(&board->memory);
	tent_segment_id_t id;
	struct tent_completion done;

	if (tent_client_open_segment(h->client, "victim", &id)) {
		assert_int_equal(engine_fix_rule(), TENT_RULE_SEGMENT_UNKNOWN);
		return;
	}
	done = engine_fix_move(h->ring, TENT_OPCODE_READ, h->m + 32768, id, there, 16384);
	if (done.status != TENT_STATUS_COMPLETED && done.rule != TENT_RULE_TARGET_GONE &&
	    done.rule != TENT_RULE_TARGET_UNREGISTERED)
		fail_msg("%s: %s", tent_rule_name(done.rule), "not a reason that a death gives");
	assert_int_equal(tent_client_close_segment(h->client, id), 0);
}

static void kill_one(struct honest *h, uint64_t *seed)
{
	uint32_t goal = load_acquire(&board->steps) + random_next(seed) % 200;
	pid_t pid = engine_fix_spawn(&fix, 0, victim);

	while (load_acquire(&board->steps) < goal) {
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		touch(h);
		honest_round(h);
	}
	kill(pid, SIGKILL);
	touch(h);
	assert_int_equal(engine_fix_reap(pid), 128 + SIGKILL);
	touch(h);
	honest_round(h);
}

static void killing_a_client_at_any_instant_frees_all_it_held(void **state)
{
	uint32_t kills = soak_rounds(30);
	uint64_t seed = 20260830;
	struct honest h = { .client = engine_fix_attach(&fix, "honest") };
	int fds, maps, threads;

	(void)state;
	h.m = engine_fix_memory(h.client, SIZE);
	h.ring = engine_fix_ring(h.client);
	honest_round(&h);
	fds = engine_fix_quiet(&fix, 1);
	maps = engine_fix_count_maps("/memfd:tent-");
	threads = engine_fix_count_threads();
	for (uint32_t i = 0; i < kills; i++) {
		kill_one(&h, &seed);
		engine_fix_quiet(&fix, 1);
		assert_int_equal(engine_fix_count_maps("/memfd:tent-"), maps);
		/* the worker of its private memory may come back a little later */
		engine_fix_settle(engine_fix_count_fds, fds);
		engine_fix_settle(engine_fix_count_threads, threads);
	}
	tent_ring_close(h.ring);
	tent_client_detach(h.client);
}

/* ---- what others hold of it ---------------------------------------------- */

static int owner_that_waits(struct engine_fix *f)
{
	struct tent_client *c;
	void *m;

	need(tent_client_attach(f->path, "owner", &c) == 0);
	need(tent_client_alloc(c, SIZE, NULL, &m) == 0);
	memset(m, 0xaa + (int)board->round, SIZE);
	need(tent_client_register(c, m, SIZE, 2, NULL, 0) == 0);
	store_release(&board->memory, (uint64_t)(uintptr_t)m);
	step();
	while (pause())
		;
	return 0;
}

/* A process of its own that owns a segment and does nothing. */
static pid_t spawn_owner(struct engine_fix *f)
{
	uint32_t before = load_acquire(&board->steps);
	pid_t pid;

	board->round++;
	pid = engine_fix_spawn(f, 0, owner_that_waits);
	await_steps(before + 1);
	return pid;
}

static void bury(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(engine_fix_reap(pid), 128 + SIGKILL);
}

static void hold(struct engine_config *c)
{
	c->shm_enable = false;
	c->null_enable = true;
	strcpy(c->null_faults, "pending=1,hold,late");
}

static void requests_in_flight_to_a_dead_owner_end_with_the_reason(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_segment_info info;
	tent_segment_id_t id;
	uint8_t *m;
	pid_t pid;

	(void)state;
	engine_fix_start(&f, hold);
	pid = spawn_owner(&f);
	c = engine_fix_attach(&f, NULL);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	assert_int_equal(tent_client_open_segment(c, "owner", &id), 0);
	for (int i = 0; i < 32; i++) {
		struct tent_request_v1 r =
			engine_fix_request(1, m, id, (void *)(uintptr_t)board->memory, 64);

		engine_fix_submit(ring, &r);
	}
	while (!tent_ring_consumed(ring, 32))
		sched_yield();
	bury(pid);
	for (int i = 0; i < 32; i++) {
		struct tent_completion done = engine_fix_wait(ring);

		assert_int_equal(done.status, TENT_STATUS_FAILED);
		assert_int_equal(done.rule, TENT_RULE_TARGET_GONE);
	}
	assert_int_equal(tent_client_segment_info(c, id, &info), TENT_ERR_OWNER_GONE);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static void an_old_handle_does_not_reach_the_names_next_owner(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	struct tent_ring *ring = engine_fix_ring(c);
	uint8_t *m = engine_fix_memory(c, SIZE);
	tent_segment_id_t old, new;
	pid_t pid = spawn_owner(&fix);
	const void *there = (const void *)(uintptr_t)board->memory;

	(void)state;
	assert_int_equal(tent_client_open_segment(c, "owner", &old), 0);
	assert_int_equal(engine_fix_move(ring, 0, m, old, there, 64).rule, 0);
	bury(pid);
	engine_fix_quiet(&fix, 1);
	pid = spawn_owner(&fix);
	there = (const void *)(uintptr_t)board->memory;
	assert_int_equal(engine_fix_move(ring, 0, m, old, there, 64).rule,
			 TENT_RULE_TARGET_UNREGISTERED);
	assert_int_equal(tent_client_open_segment(c, "owner", &new), 0);
	assert_int_not_equal(old, new);
	assert_int_equal(engine_fix_move(ring, 0, m, new, there, 64).rule, 0);
	assert_int_equal(m[0], (uint8_t)(0xaa + board->round));
	bury(pid);
	tent_ring_close(ring);
	tent_client_detach(c);
}

/* ---- how deaths are noticed ----------------------------------------------- */

/* Its child has the socket too, so only the pidfd tells of the end. */
static int dies_and_leaves_a_child_with_its_socket(struct engine_fix *f)
{
	struct tent_client *c;

	need(tent_client_attach(f->path, "orphaned", &c) == 0);
	if (fork() == 0) {
		store_release(&board->round, (uint32_t)getpid());
		step();
		while (pause())
			;
	}
	while (pause())
		;
	return 0;
}

static void a_death_is_noticed_though_a_child_holds_the_socket(void **state)
{
	uint32_t before = load_acquire(&board->steps);
	struct tent_client *c;
	pid_t pid = engine_fix_spawn(&fix, 0, dies_and_leaves_a_child_with_its_socket);

	(void)state;
	await_steps(before + 1);
	assert_int_equal(engine_fix_clients(&fix), 1);
	bury(pid);
	engine_fix_quiet(&fix, 0);
	c = engine_fix_attach(&fix, "orphaned");
	tent_client_detach(c);
	kill((pid_t)load_acquire(&board->round), SIGKILL);
}

static void half_closing_ends_a_client_and_the_end_of_file_comes_last(void **state)
{
	int maps = engine_fix_count_maps("/memfd:tent-");
	int fds = engine_fix_quiet(&fix, 0);
	struct raw_memory m;
	struct raw r;
	char byte;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	assert_int_equal(raw_alloc(&r, SIZE, &m), 0);
	close(m.fd);
	assert_int_equal(engine_fix_count_maps("/memfd:tent-"), maps + 1);
	shutdown(r.sock, SHUT_WR);
	assert_int_equal(recv(r.sock, &byte, 1, 0), 0);
	assert_int_equal(engine_fix_count_maps("/memfd:tent-"), maps);
	close(r.sock);
	assert_int_equal(engine_fix_count_fds(), fds);
}

/* ---- pids that change hands ------------------------------------------------ */

static int waits(struct engine_fix *f)
{
	(void)f;
	while (pause())
		;
	return 0;
}

/* A pidfd of the one and the number of the other: what reuse looks like. */
static void memory_is_opened_of_the_process_that_attached_and_no_other(void **state)
{
	pid_t first = engine_fix_spawn(&fix, 0, waits), second = engine_fix_spawn(&fix, 0, waits);
	int pidfd = (int)syscall(SYS_pidfd_open, first, 0), fd;

	(void)state;
	assert_true(pidfd >= 0);
	fd = peer_open_memory(first, pidfd);
	assert_true(fd >= 0);
	close(fd);
	bury(first);
	assert_false(peer_is_alive(pidfd));
	assert_int_equal(peer_open_memory(second, pidfd), -ESRCH);
	assert_int_equal(peer_open_memory(0, pidfd), -ENOENT);
	assert_int_equal(peer_open_memory(second, -1), -ENOENT);
	close(pidfd);
	bury(second);
}

static int connects_and_dies(struct engine_fix *f)
{
	struct raw r = { .sock = raw_socket(f->path) };
	struct ctl_message m = { .nr_fds = 1, .fds = { r.sock } };

	m.head.size = sizeof(m.head);
	need(ctl_send(f->fds, &m, 0) == 0);
	return 0;
}

/* The heir of its socket cannot pass for it. */
static void a_connection_of_the_dead_is_not_served(void **state)
{
	struct engine_fix f = fix;
	struct ctl_message m;
	struct raw r;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	f.fds = pair[1];
	assert_int_equal(engine_fix_child(&f, 0, connects_and_dies), 0);
	assert_int_equal(ctl_recv(pair[0], &m, 0), 0);
	r.sock = m.fds[0];
	assert_int_equal(raw_hello(&r, NULL, 0), TENT_ERR_ENGINE_LOST);
	close(r.sock);
	close(pair[0]);
	close(pair[1]);
}

static void the_clock_is_shared_with_whom_it_is(void **state)
{
	(void)state;
	assert_true(peer_shares_clock(getpid()));
	assert_false(peer_shares_clock(0));
	assert_false(peer_shares_clock(-1));
	assert_false(peer_shares_clock(0x7fffffff));	/* nobody */
}

/* In a time namespace of its own; skipped where there is none to be had. */
static int lives_in_another_time(struct engine_fix *f)
{
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion done;
	struct tent_request_v1 r;
	int offsets;
	void *m;
	pid_t pid;
	int status;

	if (unshare(CLONE_NEWTIME) < 0)
		return 77;
	offsets = open("/proc/self/timens_offsets", O_WRONLY);
	need(offsets >= 0 && write(offsets, "monotonic 100000 0\n", 19) == 19);
	pid = fork();	/* children live in it */
	if (pid) {
		need(waitpid(pid, &status, 0) == pid);
		return WEXITSTATUS(status);
	}
	need(tent_client_attach(f->path, NULL, &c) == 0);
	need(tent_client_alloc(c, SIZE, NULL, &m) == 0);
	need(tent_client_register(c, m, SIZE, 2, NULL, 0) == 0);
	need(tent_ring_open(c, 64, 64, &ring) == 0);
	r = engine_fix_request(1, m, 0, m, 64);
	r.deadline_ns = 1;
	need(tent_ring_submit(ring, &r, 1, sizeof(r), 0, 0) == 0);
	need(tent_ring_wait(ring, UINT64_MAX) == 0);
	need(tent_ring_poll(ring, &done, 1) == 1);
	need(done.rule == TENT_RULE_DEADLINE_CLOCK);
	return 0;
}

static void deadlines_of_another_time_namespace_are_refused(void **state)
{
	int rc = engine_fix_child(&fix, 0, lives_in_another_time);

	(void)state;
	if (rc == 77) {
		print_message("time namespaces cannot be made here: not run\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killing_a_client_at_any_instant_frees_all_it_held),
		cmocka_unit_test(requests_in_flight_to_a_dead_owner_end_with_the_reason),
		cmocka_unit_test(an_old_handle_does_not_reach_the_names_next_owner),
		cmocka_unit_test(a_death_is_noticed_though_a_child_holds_the_socket),
		cmocka_unit_test(half_closing_ends_a_client_and_the_end_of_file_comes_last),
		cmocka_unit_test(memory_is_opened_of_the_process_that_attached_and_no_other),
		cmocka_unit_test(a_connection_of_the_dead_is_not_served),
		cmocka_unit_test(the_clock_is_shared_with_whom_it_is),
		cmocka_unit_test(deadlines_of_another_time_namespace_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
