/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_faults.c - the file backend with a table of operations of the test's own:
 * every result that a kernel may give, what is cancelled when, and whose turn it is.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "test_file_fix.h"

/* ---- a table of faults --------------------------------------------------- */

static struct {
	int32_t (*result)(const struct file_op *op); /* NULL: as the system says */
	bool hold;		/* nothing comes back */
	uint32_t started, out, most_out, cancels;
	uint64_t offsets[256];	/* of the first ones started */
	struct file_op *list, **end;
} faulty;

static int32_t system_result(const struct file_op *op)
{
	ssize_t n = op->is_read ? pread(op->file->fd, op->memory, op->length, (off_t)op->offset) :
				  pwrite(op->file->fd, op->memory, op->length, (off_t)op->offset);

	return n < 0 ? -errno : (int32_t)n;
}

static int faulty_open(struct file_queue *q, char *why, size_t size)
{
	(void)q;
	(void)why;
	(void)size;
	memset(&faulty, 0, sizeof(faulty));
	faulty.end = &faulty.list;
	return 0;
}

static void faulty_close(struct file_queue *q)
{
	(void)q;
}

static void faulty_start(struct file_queue *q, struct file_op *op)
{
	(void)q;
	if (faulty.started < 256)
		faulty.offsets[faulty.started] = op->offset;
	faulty.started++;
	if (++faulty.out > faulty.most_out)
		faulty.most_out = faulty.out;
	op->next = NULL;
	*faulty.end = op;
	faulty.end = &op->next;
}

static void faulty_flush(struct file_queue *q)
{
	(void)q;
}

static struct file_op *faulty_reap(struct file_queue *q)
{
	struct file_op *op = faulty.list;

	(void)q;
	if (!op || faulty.hold)
		return NULL;
	faulty.list = op->next;
	if (!op->next)
		faulty.end = &faulty.list;
	faulty.out--;
	op->result = faulty.result ? faulty.result(op) : system_result(op);
	return op;
}

static void faulty_cancel(struct file_queue *q, struct file_op *op)
{
	(void)q;
	(void)op;
	faulty.cancels++;
}

static const struct file_io faulty_io = {
	"faults", faulty_open, faulty_close, faulty_start, faulty_flush, faulty_reap,
	faulty_cancel,
};

static int start_faulty(void **state) { return start(state, false, &faulty_io); }

/* ---- results ---------------------------------------------------------------- */

static int32_t come_back_short(const struct file_op *op)
{
	struct file_op part = *op;

	part.length = 1 + (uint32_t)(op->offset * 2654435761u >> 8) % op->length;
	return system_result(&part);
}

static void short_results_are_continued_until_all_bytes_are_there(void **state)
{
	struct fix *f = *state;

	faulty.result = come_back_short;
	move(f, TENT_OPCODE_WRITE, 3, 17, 700000);
	move(f, TENT_OPCODE_READ, SIZE / 2, 17, 700000);
	assert_memory_equal(f->memory + SIZE / 2, f->memory + 3, 700000);
	assert_true(queue_of(f)->counts.short_ops > 10);
}

static int32_t fault_errno, fault_after;

static int32_t fail_later(const struct file_op *op)
{
	return op->offset >= (uint64_t)fault_after ? fault_errno : system_result(op);
}

static void every_error_has_its_rule(void **state)
{
	static const struct { int32_t result; uint16_t rule; bool read_only; } rows[] = {
		{ -EIO, TENT_RULE_FILE_IO, false }, { -ENOSPC, TENT_RULE_FILE_SPACE, false },
		{ -EDQUOT, TENT_RULE_FILE_SPACE, false }, { -EFBIG, TENT_RULE_FILE_SPACE, false },
		{ -EFAULT, TENT_RULE_COPY_FAULT, false }, { -EBADF, TENT_RULE_FILE_ACCESS, false },
		{ -EPERM, TENT_RULE_FILE_ACCESS, false }, { -EROFS, TENT_RULE_FILE_ACCESS, false },
		{ -ESTALE, TENT_RULE_FILE_ACCESS, false }, { -ENOMEM, TENT_RULE_SYSTEM, false },
		{ -EINVAL, TENT_RULE_FILE_IO, false }, { -ENOTCONN, TENT_RULE_FILE_IO, false },
		{ 0, TENT_RULE_FILE_END, true },
	};
	struct fix *f = *state;

	faulty.result = fail_later;
	fault_after = 3 * CHUNK;
	assert_int_equal(ftruncate(f->file.fd, SIZE), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int op = 0; op < 2; op++) {
			struct transfer t = make(f, op, 1, 1, 20 * CHUNK);

			fault_errno = rows[i].result;
			run(f, &t);
			failed(&t, rows[i].read_only && op ? TENT_RULE_FILE_IO : rows[i].rule);
			assert_true(t.done >= 3 * CHUNK && t.done < 6 * CHUNK);
			assert_int_equal(queue_of(f)->nr_jobs, 0);
		}
	}
}

static int transient_left;

static int32_t fail_sometimes(const struct file_op *op)
{
	static const int32_t transient[] = { -EINTR, -EAGAIN, -ECANCELED };

	return transient_left > 0 ? transient[--transient_left % 3] : system_result(op);
}

static void what_the_kernel_did_not_begin_goes_again_but_not_for_ever(void **state)
{
	struct fix *f = *state;
	struct transfer t;

	faulty.result = fail_sometimes;
	transient_left = 90;
	move(f, TENT_OPCODE_WRITE, 0, 1, 4 * CHUNK);
	assert_int_equal(queue_of(f)->counts.retries, 90);
	transient_left = 1 << 30;
	t = make(f, TENT_OPCODE_WRITE, 0, 1, 4 * CHUNK);
	run(f, &t);
	failed(&t, TENT_RULE_FILE_IO);
}

static int32_t refuse_direct(const struct file_op *op)
{
	return op->direct ? -EINVAL : system_result(op);
}

static void a_file_system_that_takes_o_direct_back_gets_buffered_operations(void **state)
{
	struct fix *f = *state;

	if (f->file.direct_fd < 0)
		skip();
	faulty.result = refuse_direct;
	move(f, TENT_OPCODE_WRITE, 0, 0, 4 * CHUNK);
	assert_int_equal(queue_of(f)->counts.direct, 4);
}

static struct fix *cut_in;

static int32_t cut_the_file(const struct file_op *op)
{
	if (op->offset >= 10 * CHUNK)
		assert_int_equal(ftruncate(cut_in->file.fd, 4 * CHUNK), 0);
	return system_result(op);
}

static void truncation_while_it_is_read_is_a_failure(void **state)
{
	struct fix *f = cut_in = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 0, 0, 30 * CHUNK);

	assert_int_equal(ftruncate(f->file.fd, SIZE), 0);
	faulty.result = cut_the_file;
	run(f, &t);
	failed(&t, TENT_RULE_FILE_END);
	assert_int_equal(t.done, 10 * CHUNK);
}

/* ---- cancelling, turns --------------------------------------------------------- */

static void only_the_kernels_result_ends_what_was_cancelled(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, 0, 0, 30 * CHUNK);

	assert_int_equal(file_backend.post(f->queue, &t, 1), POST_PENDING);
	faulty.hold = true;
	assert_null(file_backend.poll(f->queue));
	assert_int_equal(faulty.out, DEPTH / 4);
	assert_false(file_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	assert_int_equal(faulty.cancels, DEPTH / 4);
	for (int i = 0; i < 10; i++)
		assert_null(file_backend.poll(f->queue));
	faulty.hold = false;
	assert_ptr_equal(file_backend.poll(f->queue), &t);
	failed(&t, TENT_RULE_CANCELED);
	assert_int_equal(t.status, TENT_STATUS_CANCELED);
	assert_int_equal(t.done, DEPTH / 4 * CHUNK);	/* it came too late for these */
	assert_int_equal(faulty.started, DEPTH / 4);
}

static void what_has_not_begun_is_given_back_at_once(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, 0, 0, CHUNK);

	assert_int_equal(file_backend.post(f->queue, &t, 1), POST_PENDING);
	assert_true(file_backend.cancel(f->queue, &t, TENT_RULE_TIMEOUT));
	failed(&t, TENT_RULE_TIMEOUT);
	assert_int_equal(t.status, TENT_STATUS_TIMEOUT);
	assert_int_equal(faulty.started, 0);
	assert_null(file_backend.poll(f->queue));
}

static void a_cancel_that_comes_after_the_last_byte_finds_a_success(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, 0, 0, CHUNK);

	assert_int_equal(file_backend.post(f->queue, &t, 1), POST_PENDING);
	faulty.hold = true;
	assert_null(file_backend.poll(f->queue));
	assert_false(file_backend.cancel(f->queue, &t, TENT_RULE_CANCELED));
	faulty.hold = false;
	assert_ptr_equal(file_backend.poll(f->queue), &t);
	completed(&t);
}

static void a_queue_holds_so_many_transfers_and_no_more(void **state)
{
	struct transfer t[FILE_JOBS * DEPTH + 1];
	struct fix *f = *state;
	uint32_t ended = 0;

	for (uint32_t i = 0; i <= FILE_JOBS * DEPTH; i++) {
		t[i] = make(f, TENT_OPCODE_WRITE, i, i, 4 * CHUNK);
		assert_int_equal(file_backend.post(f->queue, &t[i], 1),
				 i < FILE_JOBS * DEPTH ? POST_PENDING : POST_BUSY);
	}
	while (ended < FILE_JOBS * DEPTH)
		for (struct transfer *e = file_backend.poll(f->queue); e; e = e->next)
			ended++;
	assert_int_equal(faulty.most_out, DEPTH);
	assert_int_equal(file_backend.post(f->queue, &t[FILE_JOBS * DEPTH], 1), POST_PENDING);
	while (!file_backend.poll(f->queue))
		;
}

static void a_large_transfer_leaves_room_for_others(void **state)
{
	struct fix *f = *state;
	struct transfer large = make(f, TENT_OPCODE_WRITE, 0, 0, 60 * CHUNK);
	struct transfer small = make(f, TENT_OPCODE_WRITE, 0, 1ull << 32, 100);

	assert_int_equal(file_backend.post(f->queue, &large, 1), POST_PENDING);
	faulty.hold = true;
	assert_null(file_backend.poll(f->queue));
	assert_int_equal(file_backend.post(f->queue, &small, 1), POST_PENDING);
	assert_null(file_backend.poll(f->queue));
	assert_int_equal(faulty.offsets[faulty.started - 1], 1ull << 32);
	faulty.hold = false;
	assert_ptr_equal(file_backend.poll(f->queue), &small);
	while (!file_backend.poll(f->queue))
		;
	completed(&large);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, start_faulty, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(short_results_are_continued_until_all_bytes_are_there),
		TEST(every_error_has_its_rule),
		TEST(what_the_kernel_did_not_begin_goes_again_but_not_for_ever),
		TEST(a_file_system_that_takes_o_direct_back_gets_buffered_operations),
		TEST(truncation_while_it_is_read_is_a_failure),
		TEST(only_the_kernels_result_ends_what_was_cancelled),
		TEST(what_has_not_begun_is_given_back_at_once),
		TEST(a_cancel_that_comes_after_the_last_byte_finds_a_success),
		TEST(a_queue_holds_so_many_transfers_and_no_more),
		TEST(a_large_transfer_leaves_room_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
