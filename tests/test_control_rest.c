/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_rest.c - what a client may take of the control thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/clock.h"
#include "tests/common/engine_fix.h"
#include "tests/common/waiters.h"

#define CALLS 10

/* A question that is soon answered. */
static void ask(struct raw *r)
{
	struct ctl_message m;
	struct tent_ctl_id *q = (void *)m.bytes;

	memset(&m, 0, sizeof(m));
	q->id = UINT64_MAX;
	raw_call(r, &m, TENT_CTL_SEGMENT_CLOSE, sizeof(*q));
	need(r->status.error != TENT_ERR_ENGINE_LOST);
}

static uint64_t asking_ns(struct raw *r)
{
	uint64_t before = clock_monotonic_ns();

	for (int i = 0; i < CALLS; i++)
		ask(r);
	return clock_monotonic_ns() - before;
}

/* What it costs to send one message past as many waiters. */
static uint64_t sending_ns(int fd)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_thread_cpu_ns(), cost;

		need(send(fd, "", 1, MSG_DONTWAIT) == 1);
		cost = clock_thread_cpu_ns() - before;
		least = cost < least ? cost : least;
	}
	return least;
}

/* A call takes the send at least, and the rest after it 16 times that. */
static void whoever_makes_answers_costly_waits_many_times_that_cost(void **state)
{
	struct waiters waiters;
	uint64_t cost, later, took;
	struct raw r;
	int pair[2];

	(void)state;
	need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	raw_attach(&r, fix.path, NULL);
	waiters_start(&waiters, r.sock, pair[1]);
	cost = sending_ns(pair[0]);
	took = asking_ns(&r);
	later = sending_ns(pair[0]);	/* the core may be faster now */
	cost = later < cost ? later : cost;
	waiters_end(&waiters);
	print_message("a send takes %llu us, %d answers %llu us\n",
		      (unsigned long long)cost / 1000, CALLS, (unsigned long long)took / 1000);
	assert_true(took > (CALLS - 1) * 10 * cost);
	ask(&r);	/* its rest ends */
	close(r.sock);
	close(pair[0]);
	close(pair[1]);
	engine_fix_quiet(&fix, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_makes_answers_costly_waits_many_times_that_cost),
	};

	return cmocka_run_group_tests(tests, engine_fix_setup, engine_fix_teardown);
}
