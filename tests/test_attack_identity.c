/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_identity.c - lies about who one is: names, handles and pids of others.
 * tentd is real, and two honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "tests/common/foe.h"

#define STRANGER 54321u	/* a user that owns nothing here */

/* ---- who one is ----------------------------------------------------------------------- */

static int attack_name(struct arena *a, void *arg)
{
	static const char *const bad[] = { "a/b", "..", "a b", "\xff", "a\n",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

	(void)arg;
	for (size_t i = 0; i < 1 + sizeof(bad) / sizeof(bad[0]); i++) {
		struct raw r = { .sock = raw_socket(a->tentd.socket) };
		int rc = raw_hello(&r, i ? bad[i - 1] : "store", 0);

		if (i == 0)
			need(rc < 0 && (r.status.rule == TENT_RULE_NAME_TAKEN ||
					r.status.rule == TENT_RULE_NAME_OTHER_TENANT));
		else if (strcmp(bad[i - 1], ".."))
			need(rc < 0);
		close(r.sock);
	}
	return 0;
}

static int hold_name(struct arena *a, void *arg)
{
	struct raw r;

	(void)arg;
	raw_attach(&r, a->tentd.socket, "ghost");
	return 0;
}

static int attack_ghost(struct arena *a, void *arg)
{
	struct raw r = { .sock = raw_socket(a->tentd.socket) };

	(void)arg;
	need(raw_hello(&r, "ghost", 0) == TENT_ERR_POLICY_DENIED);
	need(r.status.rule == TENT_RULE_NAME_OTHER_TENANT);
	return 0;
}

static void a_name_is_its_owners_and_after_death_its_tenants(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_name, NULL, 0), 0);
	assert_int_equal(arena_attack(&arena, attack_name, NULL, STRANGER), 0);
	assert_int_equal(arena_attack(&arena, hold_name, NULL, 0), 0);
	arena_check(&arena);
	assert_int_equal(arena_attack(&arena, attack_ghost, NULL, STRANGER), 0);
	arena_check(&arena);
}

/* The address is right; only the handle is missing. */
static void guess_handle(struct arena *a, struct foe *f, uint64_t handle)
{
	struct tent_completion c;

	memset(f->memory.addr, 0, 64);
	raw_request(&f->ring, 0, TENT_OPCODE_READ, f->memory.addr, handle, a->board->base, 64);
	raw_publish(&f->ring, 1);
	need(raw_wait(&f->ring, &c));
	need(c.rule == TENT_RULE_SEGMENT || handle == 0); /* 0 is its own memory */
	for (uint32_t i = 0; i < 64; i++)
		need(f->memory.addr[i] == 0);
}

/* By its name, and by guessing a handle; one that the judge could mistake for its own
 * marks among them. */
static int attack_segment(struct arena *a, void *arg)
{
	struct foe f;
	uint64_t id;

	(void)arg;
	foe_open(&f, a);
	if (raw_open_segment(&f.raw, a->board->segment, &id) != TENT_ERR_POLICY_DENIED)
		return 1;
	need(f.raw.status.rule == TENT_RULE_SEGMENT_TENANT);
	for (uint64_t guess = 0; guess < 1000; guess++) {
		guess_handle(a, &f, guess);
		guess_handle(a, &f, UINT64_MAX - guess);
		guess_handle(a, &f, (uint64_t)UINT32_MAX + guess - 500);
		guess_handle(a, &f, INT64_MAX + guess - 500);
	}
	return 0;
}

static void a_stranger_can_neither_open_nor_guess_a_segment(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_segment, NULL, STRANGER), 0);
	arena_check(&arena);
}

static int attack_strange_queries(struct arena *a, void *arg)
{
	static const uint32_t what[] = { TENT_QUERY_CLIENTS, TENT_QUERY_SEGMENTS,
					 TENT_QUERY_STATS, 0, 99 };
	struct raw r;

	(void)arg;
	raw_attach(&r, a->tentd.socket, NULL);
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		struct ctl_message m = { .nr_fds = 0 };

		((struct tent_ctl_query *)m.bytes)->what = what[i];
		need(raw_call(&r, &m, TENT_CTL_QUERY, sizeof(struct tent_ctl_query)) < 0);
	}
	return 0;
}

static void a_stranger_learns_nothing_about_others(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_strange_queries, NULL, STRANGER), 0);
	arena_check(&arena);
}

/* An observer owns nothing, and gets nothing either. */
static int attack_observer(struct arena *a, void *arg)
{
	struct raw r = { .sock = raw_socket(a->tentd.socket) };
	struct raw_memory m;
	struct raw_ring ring;

	(void)arg;
	need(raw_ring_open(&r, 64, &ring) < 0);	/* no hello yet */
	close(r.sock);
	r.sock = raw_socket(a->tentd.socket);
	need(raw_hello(&r, NULL, TENT_CTL_HELLO_OBSERVER) == 0);
	need(raw_ring_open(&r, 64, &ring) < 0);
	need(raw_alloc(&r, 4096, &m) < 0);
	need(raw_register(&r, TENT_MEM_PRIVATE, &r, 64, 0, -1, 0, 2) < 0);
	return 0;
}

static void before_hello_and_for_observers_there_is_no_memory(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_observer, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- whose memory it is ------------------------------------------------------------------ */

static pid_t clone_with(uint64_t flags, pid_t want)
{
	struct clone_args c = { .flags = flags, .exit_signal = SIGCHLD };

	if (want) {
		c.set_tid = (uintptr_t)&want;
		c.set_tid_size = 1;
	}
	return (pid_t)syscall(SYS_clone3, &c, sizeof(c));
}

/* Connects in a process that is gone at once, but leaves its socket to us: it shares
 * our table of descriptors. Its pid, to be had again. */
static pid_t connect_and_die(struct arena *a, struct raw *r, bool with_hello)
{
	static int sock;
	int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	pid_t pid = clone_with(CLONE_FILES, 0);

	need(pid >= 0);
	if (pid == 0) {
		struct raw dead = { .sock = raw_socket(a->tentd.socket) };

		if (with_hello)
			need(raw_hello(&dead, NULL, 0) == 0);
		*shared = dead.sock;
		_exit(0);
	}
	need(waitpid(pid, NULL, 0) == pid);
	sock = *shared;
	r->sock = sock;
	return pid;
}

/* The victim gets the dead one's pid; its page holds what we are after. */
static void need_no_secret(struct raw *r, const uint8_t *page)
{
	struct raw_memory m;
	struct raw_ring ring;
	struct tent_completion c;

	if (raw_alloc(r, 4096, &m))
		return;			/* it knows that its client is dead */
	m.addr = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	need(m.addr != MAP_FAILED);
	if (raw_register(r, TENT_MEM_BUFFER, m.addr, 4096, m.id, -1, 0, 2) ||
	    raw_register(r, TENT_MEM_PRIVATE, page, 4096, 0, -1, 0, 2) ||
	    raw_ring_open(r, 64, &ring))
		return;
	raw_request(&ring, 0, TENT_OPCODE_READ, m.addr, 0, (uintptr_t)page, 4096);
	raw_publish(&ring, 1);
	if (raw_wait(&ring, &c))
		need(c.status != TENT_STATUS_COMPLETED);
	need(m.addr[0] != 's');
}

static int attack_pid_reuse(struct arena *a, void *arg)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	struct raw r;
	pid_t pid = connect_and_die(a, &r, arg != NULL), victim;

	victim = clone_with(0, pid);
	if (victim < 0 && errno == EPERM)
		return 77;
	need(victim == 0 || victim == pid);
	if (victim == 0) {
		strcpy((char *)page, "secret");
		for (;;)
			pause();
	}
	if (arg || raw_hello(&r, NULL, 0) == 0)
		need_no_secret(&r, page);
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	return 0;
}

static void a_recycled_pid_does_not_lend_its_memory(void **state)
{
	int rc = arena_attack(&arena, attack_pid_reuse, NULL, 0);

	(void)state;
	if (rc == 77) {
		print_message("pids cannot be chosen here (CAP_CHECKPOINT_RESTORE): not run\n");
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(arena_attack(&arena, attack_pid_reuse, (void *)1, 0), 0);
	arena_check(&arena);
}

/* Connects in a process that leaves its socket to us and executes a program. When that has
 * more rights than its user, the process still has its pid, but no memory of its own. */
static pid_t connect_and_execute(struct arena *a, struct raw *r, const char *program)
{
	int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	char comm[64], name[32] = "";
	pid_t pid = clone_with(CLONE_FILES, 0);

	need(pid >= 0);
	if (pid == 0) {
		*shared = raw_socket(a->tentd.socket);
		execl(program, "gained", "3600", NULL);
		_exit(1);
	}
	snprintf(comm, sizeof(comm), "/proc/%d/comm", pid);
	while (strncmp(name, "gained\n", 7)) {
		int fd = open(comm, O_RDONLY);

		need(fd >= 0 && read(fd, name, sizeof(name) - 1) > 0);
		close(fd);
		need(waitpid(pid, NULL, WNOHANG) == 0);
	}
	r->sock = *shared;
	return pid;
}

static int attack_gained(struct arena *a, void *program)
{
	struct stat st;
	struct raw r;
	pid_t pid;
	int rc;

	need(stat(program, &st) == 0);
	pid = connect_and_execute(a, &r, program);
	need(raw_hello(&r, NULL, 0) == 0);
	rc = raw_register(&r, TENT_MEM_PRIVATE, (void *)0x10000, 1u << 30, 0, -1, 0, 2);
	need(st.st_mode & S_ISUID ? rc == TENT_ERR_ADDRESS : rc == 0);
	need(kill(pid, SIGKILL) == 0);
	return 0;
}

/* The program is a copy of sleep, under a name that shows that it runs. */
static void a_process_that_gained_rights_does_not_lend_its_memory(void **state)
{
	char program[128], command[320];

	(void)state;
	snprintf(program, sizeof(program), "%s/gained", arena.tentd.folder);
	snprintf(command, sizeof(command), "cp \"$(command -v sleep)\" %s", program);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(program, 0755), 0);
	assert_int_equal(arena_attack(&arena, attack_gained, program, STRANGER), 0);
	assert_int_equal(chmod(program, 04755), 0);
	assert_int_equal(arena_attack(&arena, attack_gained, program, STRANGER), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_its_owners_and_after_death_its_tenants),
		cmocka_unit_test(a_stranger_can_neither_open_nor_guess_a_segment),
		cmocka_unit_test(a_stranger_learns_nothing_about_others),
		cmocka_unit_test(before_hello_and_for_observers_there_is_no_memory),
		cmocka_unit_test(a_recycled_pid_does_not_lend_its_memory),
		cmocka_unit_test(a_process_that_gained_rights_does_not_lend_its_memory),
	};

	return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
