/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_pins.c - memory that direct operations find pinned: only what they name again
 * and again, never more than there are places for, and never beyond its own end.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/common/pinned.h"
#include "tests/test_file_fix.h"

#define PIECES (2 * FILE_PINS)
#define NOBODY 65534u

static struct fix *fix;

/* Memory of a new memory file, the same pages in every piece. */
static void map_pieces(uint8_t *at)
{
	int fd = memfd_create("pieces", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, FILE_PIN_BYTES), 0);
	for (uint32_t i = 0; i < PIECES; i++)
		assert_ptr_equal(mmap(at + (uint64_t)i * FILE_PIN_BYTES, FILE_PIN_BYTES,
				      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
				 at + (uint64_t)i * FILE_PIN_BYTES);
	close(fd);
}

static int begin(void **state)
{
	uint64_t size = (uint64_t)PIECES * FILE_PIN_BYTES;

	start(state, true, NULL);
	fix = *state;
	free(fix->memory);
	fix->memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(fix->memory, MAP_FAILED);
	map_pieces(fix->memory);
	fix->local.addr = fix->memory;
	fix->local.end = fix->local.base + size;
	fix->local.backing = fix;	/* it is of a memory file */
	await_nothing_pinned();
	return 0;
}

static int end(void **state)
{
	munmap(fix->memory, (size_t)PIECES * FILE_PIN_BYTES);
	fix->memory = NULL;
	return stop(state);
}

static uint64_t nr_by_pins(void)
{
	return queue_of(fix)->counts.pinned;
}

static uint32_t nr_pins(void)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < FILE_PINS; i++)
		nr += queue_of(fix)->pins[i].pinned;
	return nr;
}

static void write_chunk(uint64_t at)
{
	move(fix, TENT_OPCODE_WRITE, at, 0, CHUNK);
}

static void pin_piece(uint32_t piece)
{
	for (uint32_t i = 0; i <= FILE_PIN_AFTER; i++)
		write_chunk((uint64_t)piece * FILE_PIN_BYTES);
}

/* Other bytes in the file than in memory, and then the same. */
static void read_anew(uint64_t at, uint32_t seed)
{
	static uint8_t bytes[CHUNK];

	pattern_fill(bytes, CHUNK, seed);
	assert_int_equal(pwrite(fix->file.fd, bytes, CHUNK, 0), CHUNK);
	assert_int_equal(fdatasync(fix->file.fd), 0);
	move(fix, TENT_OPCODE_READ, at, 0, CHUNK);
	assert_memory_equal(fix->memory + at, bytes, CHUNK);
}

static void only_what_is_named_again_and_again_is_pinned(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < FILE_PIN_AFTER; i++)
		write_chunk(0);
	assert_int_equal(nr_pins(), 0);
	write_chunk(CHUNK);
	assert_int_equal(nr_pins(), 1);
	assert_int_equal(nr_by_pins(), 1);
	for (uint32_t i = 0; i < 8; i++)
		read_anew(i * CHUNK, i);
	assert_int_equal(nr_by_pins(), 9);
}

static void memory_that_may_move_is_not_pinned(void **state)
{
	(void)state;
	fix->local.backing = NULL;
	pin_piece(0);
	assert_int_equal(nr_pins(), 0);
	read_anew(0, 1);
}

static void what_lies_across_two_pieces_goes_without(void **state)
{
	(void)state;
	pin_piece(0);
	pin_piece(1);
	assert_int_equal(nr_pins(), 2);
	read_anew(FILE_PIN_BYTES - PAGE, 1);
	assert_int_equal(nr_by_pins(), 2);
}

/* The kernel would go on to write to the pages that were there. */
static void memory_that_was_dropped_is_pinned_no_more(void **state)
{
	(void)state;
	pin_piece(0);
	pin_piece(1);
	assert_int_equal(pinned_kib(), 2 * FILE_PIN_BYTES / 1024);
	assert_true(file_backend.drop(fix->queue, &fix->local));
	assert_int_equal(nr_pins(), 0);
	assert_int_equal(pinned_kib(), 0);
	map_pieces(fix->memory);
	pin_piece(1);
	read_anew(FILE_PIN_BYTES, 7);
	assert_int_equal(nr_by_pins(), 4);
}

static void memory_that_is_under_way_is_dropped_afterwards(void **state)
{
	struct file_pin *pins = queue_of(fix)->pins;
	uint32_t i = 0;

	(void)state;
	pin_piece(0);
	while (!pins[i].pinned)
		i++;
	pins[i].nr_out++;	/* as of an operation that does not come back */
	assert_false(file_backend.drop(fix->queue, &fix->local));
	assert_int_equal(nr_pins(), 1);
	pins[i].nr_out--;
	assert_true(file_backend.drop(fix->queue, &fix->local));
	assert_int_equal(nr_pins(), 0);
}

static void more_pieces_than_places_take_turns(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PIECES; i++)
		pin_piece(i);
	assert_in_range(nr_pins(), FILE_PINS / 2, FILE_PINS);
	assert_int_equal(pinned_kib(), nr_pins() * (FILE_PIN_BYTES / 1024));
	for (uint32_t i = 0; i < PIECES; i++)
		read_anew((uint64_t)i * FILE_PIN_BYTES, i);
	assert_true(file_backend.drop(fix->queue, &fix->local));
	assert_int_equal(nr_pins(), 0);
}

/* A hole that nothing may fill. */
static void memory_that_cannot_be_pinned_costs_no_other_its_pins(void **state)
{
	uint8_t *hole = fix->memory + FILE_PIN_BYTES + CHUNK;

	(void)state;
	assert_ptr_equal(mmap(hole, CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			      0), hole);
	pin_piece(1);
	assert_int_equal(nr_pins(), 0);
	read_anew(FILE_PIN_BYTES, 5);
	pin_piece(0);
	assert_int_equal(nr_pins(), 1);
}

/* In a child that may lock none. Its status: 0, if no operation found pinned memory. */
static void run_without_locked_memory(void)
{
	const struct rlimit none = { 0, 0 };
	void *state;
	bool pinned;

	if (setrlimit(RLIMIT_MEMLOCK, &none) || setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
	begin(&state);
	pin_piece(0);
	read_anew(0, 3);
	pinned = nr_pins() || nr_by_pins();
	end(&state);
	_exit(pinned ? 2 : 0);
}

static void where_nothing_may_be_pinned_it_goes_without(void **state)
{
	pid_t child;
	int status;

	(void)state;
	if (getuid())
		skip();
	child = fork();
	assert_true(child >= 0);
	if (!child)
		run_without_locked_memory();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(only_what_is_named_again_and_again_is_pinned),
		TEST(memory_that_may_move_is_not_pinned),
		TEST(what_lies_across_two_pieces_goes_without),
		TEST(memory_that_was_dropped_is_pinned_no_more),
		TEST(memory_that_is_under_way_is_dropped_afterwards),
		TEST(more_pieces_than_places_take_turns),
		TEST(memory_that_cannot_be_pinned_costs_no_other_its_pins),
		cmocka_unit_test(where_nothing_may_be_pinned_it_goes_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
