/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_gids.c - a GID is whole whoever is stopped where: a reader or a writer of the
 * table runs in a child, instruction by instruction, and this process is the other one.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/wire/gids.h"

enum { PLACE = 3, MOST_POINTS = 64 };

static const uint8_t before[16] = "16 bytes before.", after[16] = "SIXTEEN AFTER IT",
		     none[16];

enum phase { BETWEEN, WITHIN };

/* Shared with the child. */
struct scene {
	struct wire_gids gids;
	uint8_t found[16];
	enum phase phase;
};

static int setup(void **state)
{
	struct scene *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*state = s;
	if (s == MAP_FAILED)
		return -1;
	wire_gid_set(&s->gids, PLACE, before);
	return 0;
}

static int teardown(void **state)
{
	return munmap(*state, sizeof(struct scene));
}

static void write_it(struct scene *s)
{
	wire_gid_set(&s->gids, PLACE, after);
}

static void read_it(struct scene *s)
{
	wire_gid_get(&s->gids, PLACE, s->found);
}

static void enter(struct scene *s, enum phase phase)
{
	__atomic_store_n(&s->phase, phase, __ATOMIC_SEQ_CST);
}

static bool is_within(struct scene *s)
{
	return __atomic_load_n(&s->phase, __ATOMIC_SEQ_CST) == WITHIN;
}

/* A child that does it again and again, and stands before the first time. */
static pid_t start(struct scene *s, void (*does)(struct scene *s))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(1);
		raise(SIGSTOP);
		for (;;) {
			enter(s, WITHIN);
			does(s);
			enter(s, BETWEEN);
		}
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL), 0);
	return pid;
}

static void step(pid_t pid)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

static void step_until(struct scene *s, pid_t pid, enum phase phase)
{
	while (is_within(s) != (phase == WITHIN))
		step(pid);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool is_whole(const uint8_t gid[16])
{
	return !memcmp(gid, before, 16) || !memcmp(gid, after, 16);
}

static void gid_is_whole_wherever_its_writer_stops(void **state)
{
	struct scene *s = *state;
	pid_t pid = start(s, write_it);
	uint8_t gid[16], last[16];
	uint32_t nr_changes = 0;

	memcpy(last, before, 16);
	step_until(s, pid, WITHIN);
	while (is_within(s)) {
		step(pid);
		assert_true(wire_gid_get(&s->gids, PLACE, gid));
		assert_true(is_whole(gid));
		nr_changes += memcmp(last, gid, 16) != 0;
		memcpy(last, gid, 16);
	}
	assert_int_equal(nr_changes, 1);
	assert_memory_equal(last, after, 16);
	end(pid);
}

/* Instructions of one undisturbed reading. */
static uint32_t count_steps(struct scene *s, pid_t pid)
{
	uint32_t n = 0;

	step_until(s, pid, BETWEEN);
	step_until(s, pid, WITHIN);
	for (; is_within(s); n++)
		step(pid);
	return n;
}

static void gid_is_whole_wherever_its_reader_is_overtaken(void **state)
{
	struct scene *s = *state;
	pid_t pid = start(s, read_it);
	uint32_t nr = count_steps(s, pid), nr_new = 0;

	for (uint32_t at = 0; at < nr; at += nr / MOST_POINTS + 1) {
		step_until(s, pid, WITHIN);
		for (uint32_t i = 0; i < at; i++)
			step(pid);
		wire_gid_set(&s->gids, PLACE, after);
		step_until(s, pid, BETWEEN);
		assert_true(is_whole(s->found));
		nr_new += !memcmp(s->found, after, 16);
		wire_gid_set(&s->gids, PLACE, before);
	}
	assert_true(nr_new > 1);
	end(pid);
}

static void empty_places_and_those_beyond_have_no_gid(void **state)
{
	struct scene *s = *state;
	uint8_t gid[16];

	assert_false(wire_gid_get(&s->gids, PLACE + 1, gid));
	assert_memory_equal(gid, none, 16);
	assert_false(wire_gid_get(&s->gids, WIRE_MAX_GIDS, gid));
	assert_false(wire_gid_get(&s->gids, UINT32_MAX, gid));
	assert_int_equal(wire_gid_find(&s->gids, before), PLACE);
	assert_int_equal(s->gids.nr, PLACE + 1);
	wire_gid_set(&s->gids, PLACE, none);
	assert_false(wire_gid_get(&s->gids, PLACE, gid));
	assert_int_equal(wire_gid_find(&s->gids, before), -1);
	assert_int_equal(wire_gid_find(&s->gids, none), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(gid_is_whole_wherever_its_writer_stops, setup,
						teardown),
		cmocka_unit_test_setup_teardown(gid_is_whole_wherever_its_reader_is_overtaken,
						setup, teardown),
		cmocka_unit_test_setup_teardown(empty_places_and_those_beyond_have_no_gid, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
