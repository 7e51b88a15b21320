/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_unfenced.c - the one end that is terminal before the last byte is known to
 * have moved, as a program of the C API sees it: a WRITE into memory that sticks.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/lib_fix.h"
#include "tests/common/raw.h"
#include "tests/common/stuck_page.h"

static struct stuck_board *board;

/* What became of one WRITE of 4096 bytes. */
static tent_error_info_t write_page(tent_engine_t engine, void *from, void *to)
{
	tent_request_v1_t r = {
		.struct_size = sizeof(r), .schema_version = 1, .opcode = TENT_OPCODE_WRITE,
		.source = from, .target_offset = (uintptr_t)to, .length = 4096,
	};
	tent_batch_id_t batch = tent_allocate_batch(engine, 1);
	tent_error_info_t info = { .size = sizeof(info) };
	tent_status_t status;

	need(tent_submit_v1(engine, batch, &r, 1) == 0);
	do
		need(tent_task_status(engine, batch, 0, &status) == 0);
	while (status.status < TENT_STATUS_INVALID);
	need(tent_task_error(engine, batch, 0, &info) == 0);
	need(tent_free_batch(engine, batch) == 0);
	return info;
}

static void write_into_stuck_page(void *page, void *word)
{
	tent_error_info_t info;
	tent_engine_t engine;
	void *memory;

	setenv("TENT_ENGINE", word, 1);
	engine = tent_create_engine();
	need(tent_available(engine));
	need(tent_allocate_memory(engine, &memory, 8192, "*") == 0);
	need(tent_register_memory(engine, memory, 8192) == 0);
	need(tent_register_memory(engine, page, 4096) == 0);
	info = write_page(engine, memory, (uint8_t *)memory + 4096);
	need(info.error == 0 && info.flags == 0);
	info = write_page(engine, memory, page);
	need(info.error == TENT_ERR_TIMEOUT);
	need(info.flags == TENT_CQE_F_TARGET_UNFENCED);
	store_release(&board->stage, 1u);
	_exit(0);
}

static void a_task_says_that_its_target_may_still_change(void **state)
{
	struct lib_fix f = { .mode = LIB_DAEMON };
	pid_t server, attacker;

	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(board, MAP_FAILED);
	lib_fix_tentd(&f, (const char *const[]){ "engine/request_timeout_ms=200", NULL });
	server = stuck_page_start(board, write_into_stuck_page, f.word);
	if (server >= 0) {
		while (!(attacker = load_acquire(&board->attacker)))
			sched_yield();
		while (!load_acquire(&board->stage) && kill(attacker, 0) == 0)
			sched_yield();
		kill(server, SIGKILL);	/* the page fails, the worker comes back */
		waitpid(server, NULL, 0);
	}
	lib_fix_kill(&f, SIGTERM);
	if (server < 0) {
		print_message("this machine has no /dev/fuse: not run\n");
		skip();
	}
	assert_int_equal(load_acquire(&board->stage), 1);
	munmap(board, sizeof(*board));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_says_that_its_target_may_still_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
