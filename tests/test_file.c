/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file.c - the file backend on real files: what it moves, by io_uring and by
 * threads, and how what goes wrong with a file, its file system or the memory ends.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/mount.h>

#include "test_file_fix.h"

static int start_uring(void **state) { return start(state, true, NULL); }
static int start_threads(void **state) { return start(state, false, NULL); }

/* ---- what it moves ------------------------------------------------------- */

static void read_and_write_move_exactly_their_bytes(void **state)
{
	static const uint64_t sizes[] = { 1, 64, 4095, 4096, 65536, 65537, (2u << 20) - 8192 + 7 };
	static const uint64_t shifts[] = { 0, 1, 512, 4096 };
	struct fix *f = *state;
	uint8_t *copy = malloc(SIZE), *half = f->memory + SIZE / 2;

	for (size_t i = 0; i < 7; i++) {
		for (size_t k = 0; k < 16; k++) {
			uint64_t n = sizes[i], at = shifts[k % 4], offset = shifts[k / 4];

			assert_int_equal(ftruncate(f->file.fd, 0), 0);
			pattern_fill(f->memory, SIZE, (uint32_t)(i * 16 + k));
			memcpy(copy, f->memory, SIZE);
			move(f, TENT_OPCODE_WRITE, at, offset, n);
			assert_int_equal(lseek(f->file.fd, 0, SEEK_END), offset + n);
			move(f, TENT_OPCODE_READ, SIZE / 2 + at, offset, n);
			assert_memory_equal(half + at, copy + at, n);
			memcpy(copy + SIZE / 2 + at, copy + at, n);
			assert_memory_equal(f->memory, copy, SIZE);
		}
	}
	free(copy);
}

static void zero_bytes_complete_at_once(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 0, 1 << 20, 0);

	assert_int_equal(file_backend.post(f->queue, &t, 1), POST_DONE);
	completed(&t);
}

static void aligned_transfers_go_direct_and_others_do_not(void **state)
{
	static const struct { uint64_t at, offset, length; bool direct; } rows[] = {
		{ 0, 0, 65536, true }, { PAGE, PAGE, 3 * PAGE, true }, { 0, 0, 3 * CHUNK, true },
		{ 1, 0, 65536, false }, { 0, 1, 65536, false }, { 0, 0, 65535, false },
		{ 512, 512, 512, false },
	};
	struct fix *f = *state;
	struct file_queue *q = queue_of(f);

	if (f->file.direct_fd < 0)
		skip();		/* this file system knows no O_DIRECT */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ops = q->counts.ops, direct = q->counts.direct;

		move(f, TENT_OPCODE_WRITE, rows[i].at, rows[i].offset, rows[i].length);
		move(f, TENT_OPCODE_READ, rows[i].at, rows[i].offset, rows[i].length);
		assert_int_equal(q->counts.direct - direct,
				 rows[i].direct ? q->counts.ops - ops : 0);
	}
	q->o.direct = false;
	move(f, TENT_OPCODE_READ, 0, 0, 65536);
	assert_int_equal(q->counts.direct, 2 * (1 + 1 + 3));
}

static void a_sparse_file_has_offsets_beyond_4_gib(void **state)
{
	struct fix *f = *state;
	const uint64_t far = (5ull << 30) + 12345;
	uint8_t zero[100] = { 0 };

	move(f, TENT_OPCODE_WRITE, 0, far, 100000);
	pattern_fill(f->memory + SIZE / 2, 200000, 9);
	move(f, TENT_OPCODE_READ, SIZE / 2, far - 100, 100100);
	assert_memory_equal(f->memory + SIZE / 2, zero, 100);
	assert_memory_equal(f->memory + SIZE / 2 + 100, f->memory, 100000);
	move(f, TENT_OPCODE_READ, SIZE / 2, 1ull << 32, 100);
	assert_memory_equal(f->memory + SIZE / 2, zero, 100);
}

static void many_transfers_at_once_all_arrive(void **state)
{
	struct fix *f = *state;
	struct transfer t[24];
	int left = 24;

	for (uint32_t i = 0; i < 24; i++) {
		t[i] = make(f, TENT_OPCODE_WRITE, i * 70000, (23 - i) * 70000ull, 70000);
		t[i].level = (uint8_t)(i % LEVELS);
		assert_int_equal(file_backend.post(f->queue, &t[i], 1), POST_PENDING);
	}
	while (left > 0)
		for (struct transfer *e = turn(f); e; e = e->next, left--)
			completed(e);
	for (uint32_t i = 0; i < 24; i++) {
		move(f, TENT_OPCODE_READ, SIZE / 2, (23 - i) * 70000ull, 70000);
		assert_memory_equal(f->memory + SIZE / 2, f->memory + i * 70000, 70000);
	}
}

static void one_enter_sets_off_all_that_was_posted(void **state)
{
	struct fix *f = *state;
	struct transfer t[DEPTH];
	uint32_t left = DEPTH;

	move(f, TENT_OPCODE_WRITE, 0, 0, DEPTH * PAGE);
	queue_of(f)->kring.enters = 0;
	for (uint32_t i = 0; i < DEPTH; i++) {
		t[i] = make(f, TENT_OPCODE_READ, i * PAGE, i * PAGE, 100);
		assert_int_equal(file_backend.post(f->queue, &t[i], 1), POST_PENDING);
	}
	assert_int_equal(queue_of(f)->kring.enters, 0);
	while (left > 0)
		for (struct transfer *e = file_backend.poll(f->queue); e; e = e->next, left--)
			completed(e);
	assert_int_equal(queue_of(f)->kring.enters, 1);
}

/* ---- what goes wrong ----------------------------------------------------- */

static void a_read_past_the_end_fails_and_says_how_far_it_came(void **state)
{
	struct fix *f = *state;
	uint8_t *copy = malloc(SIZE);
	struct transfer t;

	assert_int_equal(ftruncate(f->file.fd, 5 * CHUNK + 100), 0);
	memcpy(copy, f->memory, SIZE);
	memset(copy, 0, 5 * CHUNK + 100);
	t = make(f, TENT_OPCODE_READ, 0, 0, 8 * CHUNK);
	run(f, &t);
	failed(&t, TENT_RULE_FILE_END);
	assert_int_equal(t.done, 5 * CHUNK + 100);
	/* A direct read may leave zeros behind the end. */
	assert_memory_equal(f->memory, copy, 5 * CHUNK + 100);
	assert_memory_equal(f->memory + 8 * CHUNK, copy + 8 * CHUNK, SIZE - 8 * CHUNK);
	t = make(f, TENT_OPCODE_READ, 0, 1ull << 40, 64);
	run(f, &t);
	failed(&t, TENT_RULE_FILE_END);
	assert_int_equal(t.done, 0);
	free(copy);
}

static void memory_that_is_not_there_is_a_copy_fault(void **state)
{
	struct fix *f = *state;
	uint8_t *hole = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct transfer t;

	assert_int_equal(mprotect(hole + 2 * PAGE, PAGE, PROT_NONE), 0);
	f->local = (struct region){ .base = 0, .end = 4 * PAGE, .addr = hole };
	for (int op = 0; op < 2; op++) {
		t = make(f, op, 0, 0, 4 * PAGE);
		assert_int_equal(ftruncate(f->file.fd, 4 * PAGE), 0);
		run(f, &t);
		failed(&t, TENT_RULE_COPY_FAULT);
	}
	munmap(hole, 4 * PAGE);
}

static void a_full_file_system_is_told_of_and_nothing_else_breaks(void **state)
{
	struct fix *f = *state;
	char folder[] = "/tmp/tent-full-XXXXXX", path[64];
	struct transfer t;

	assert_non_null(mkdtemp(folder));
	if (mount("tent", folder, "tmpfs", 0, "size=1m") < 0) {
		rmdir(folder);
		skip();		/* needs root */
	}
	close_file(f);
	snprintf(path, sizeof(path), "%s/file", folder);
	open_file(f, path);
	t = make(f, TENT_OPCODE_WRITE, 0, 0, 2 << 20);
	run(f, &t);
	failed(&t, TENT_RULE_FILE_SPACE);
	assert_true(t.done <= 1 << 20);
	assert_int_equal(ftruncate(f->file.fd, 0), 0);
	move(f, TENT_OPCODE_WRITE, 0, 0, 512 << 10);
	move(f, TENT_OPCODE_READ, SIZE / 2, 0, 512 << 10);
	assert_memory_equal(f->memory, f->memory + SIZE / 2, 512 << 10);
	close_file(f);
	assert_int_equal(umount(folder), 0);
	rmdir(folder);
	open_file(f, f->path);
}

static void a_sealed_file_is_an_access_error(void **state)
{
	struct fix *f = *state;
	struct transfer t;
	int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	close_file(f);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	f->file = (struct file){ .fd = fd, .direct_fd = -1, .writable = true };
	assert_int_equal(file_backend.file_open(f->inst, &f->file), 0);
	move(f, TENT_OPCODE_WRITE, 0, 0, 4096);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW), 0);
	t = make(f, TENT_OPCODE_WRITE, 0, 0, 4096);
	run(f, &t);
	failed(&t, TENT_RULE_FILE_ACCESS);
	move(f, TENT_OPCODE_READ, SIZE / 2, 0, 4096);
	assert_memory_equal(f->memory + SIZE / 2, f->memory, 4096);
}

static void what_no_judge_lets_pass_is_refused_here_too(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 1, 0, SIZE);

	run(f, &t);
	failed(&t, TENT_RULE_TARGET_UNREGISTERED);
	t = make(f, TENT_OPCODE_READ, 0, INT64_MAX, 1);
	run(f, &t);
	failed(&t, TENT_RULE_TARGET_UNREGISTERED);
	f->file.writable = false;
	t = make(f, TENT_OPCODE_WRITE, 0, 0, 1);
	run(f, &t);
	failed(&t, TENT_RULE_TARGET_UNREGISTERED);
	f->file.writable = true;
}

/* ---- the rest -------------------------------------------------------------- */

static void it_reaches_from_mapped_memory_to_files_only(void **state)
{
	struct fix *f = *state;
	struct region private = { .base = 0, .end = 1 };

	assert_true(file_backend.reaches(f->inst, &f->local, &f->remote));
	assert_false(file_backend.reaches(f->inst, &f->local, &f->local));
	assert_false(file_backend.reaches(f->inst, &private, &f->remote));
	assert_false(shm_backend.reaches(NULL, &f->local, &f->remote));
}

static void files_beyond_the_table_go_by_descriptor(void **state)
{
	struct fix *f = *state;
	struct file_instance *inst = (struct file_instance *)f->inst;
	bool used[FILE_PLACES];

	assert_int_equal(f->file.place, 0);
	close_file(f);
	memcpy(used, inst->used, sizeof(used));
	memset(inst->used, 1, sizeof(inst->used));
	open_file(f, f->path);
	assert_int_equal(f->file.place, FILE_NO_PLACE);
	move(f, TENT_OPCODE_WRITE, 0, 0, 4 * CHUNK);
	move(f, TENT_OPCODE_READ, SIZE / 2, 0, 4 * CHUNK);
	assert_memory_equal(f->memory, f->memory + SIZE / 2, 4 * CHUNK);
	memcpy(inst->used, used, sizeof(used));
}

static void facts_say_by_what_means_and_why(void **state)
{
	struct fix *f = *state;
	char text[512];

	file_backend.facts(f->inst, text, sizeof(text));
	assert_non_null(strstr(text, "by threads (transports/file/io_uring is false): 0 operations"));
}

#define WITH(start, test) cmocka_unit_test_setup_teardown(test, start, stop)
#define BOTH(test)							\
	{ #test " (io_uring)", test, start_uring, stop, NULL },	\
	{ #test " (threads)", test, start_threads, stop, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(read_and_write_move_exactly_their_bytes),
		BOTH(zero_bytes_complete_at_once),
		BOTH(aligned_transfers_go_direct_and_others_do_not),
		BOTH(a_sparse_file_has_offsets_beyond_4_gib),
		BOTH(many_transfers_at_once_all_arrive),
		WITH(start_uring, one_enter_sets_off_all_that_was_posted),
		BOTH(a_read_past_the_end_fails_and_says_how_far_it_came),
		BOTH(memory_that_is_not_there_is_a_copy_fault),
		BOTH(a_full_file_system_is_told_of_and_nothing_else_breaks),
		BOTH(a_sealed_file_is_an_access_error),
		BOTH(what_no_judge_lets_pass_is_refused_here_too),
		WITH(start_uring, it_reaches_from_mapped_memory_to_files_only),
		WITH(start_uring, files_beyond_the_table_go_by_descriptor),
		WITH(start_threads, facts_say_by_what_means_and_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
