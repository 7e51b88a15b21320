/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rdma_load.c - what an engine tells of its network interfaces, two software ConnectX
 * devices, while it writes to a tentd by both: in each kind of engine that a program may use.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/lib_fix.h"
#include "tests/common/sim.h"
#include "tests/common/tentd.h"

#define SIZE ((size_t)4 << 20)
#define NICS 2

/* However slow the machine is, nobody is silent. */
static const char *const keys[] = {
	"peers/enable=true", "rpc_server_hostname=127.0.0.1", "peers/keepalive_ms=20000",
	"transports/rdma/enable=true", "transports/tcp/enable=false", NULL
};

struct far {
	struct lib_fix here, there;	/* there: a tentd alone */
	struct tent_client *owner;
	void *memory;			/* the owner's */
	tent_segment_id_t id;
	uint64_t moved;			/* bytes */
};

static void far_open(struct far *f, enum lib_mode mode)
{
	memset(f, 0, sizeof(*f));
	lib_fix_tentd(&f->there, keys);
	assert_int_equal(tent_client_attach(f->there.tentd->socket, "kv", &f->owner), 0);
	assert_int_equal(tent_client_alloc(f->owner, SIZE, NULL, &f->memory), 0);
	assert_int_equal(tent_client_register(f->owner, f->memory, SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	lib_fix_start(&f->here, mode, SIZE, keys);
	assert_int_equal(tent_open_segment(f->here.engine, &f->id,
					   tent_client_segment(f->owner)), 0);
}

static void far_close(struct far *f)
{
	lib_fix_stop(&f->here);
	tent_client_detach(f->owner);
	lib_fix_kill(&f->there, SIGTERM);
}

static tent_batch_id_t begin(struct far *f)
{
	struct tent_request_v1 r = lib_fix_request(&f->here, TENT_OPCODE_WRITE, 0, 0, SIZE);
	tent_batch_id_t batch = tent_allocate_batch(f->here.engine, 1);

	r.target_id = f->id;
	r.target_offset = (uintptr_t)f->memory;
	assert_int_equal(tent_submit_v1(f->here.engine, batch, &r, 1), 0);
	f->moved += SIZE;
	return batch;
}

static void finish(struct far *f, tent_batch_id_t batch)
{
	assert_int_equal(lib_fix_wait(f->here.engine, batch).status, TENT_STATUS_COMPLETED);
	assert_int_equal(tent_free_batch(f->here.engine, batch), 0);
}

struct sums {
	uint64_t out_bytes;
	double bandwidth;
};

static struct sums look(const struct far *f)
{
	static const char *const names[NICS] = { "mlx5_0", "mlx5_1" };
	tent_nic_load_stat_t nics[NICS + 1];
	struct sums sums = { 0 };
	size_t nr = NICS + 1;

	if (tent_get_nic_load_stats(f->here.engine, nics, &nr))
		fail_msg("%s", lib_fix_error().message);
	assert_int_equal(nr, NICS);
	for (int i = 0; i < NICS; i++) {
		assert_string_equal(nics[i].device_name, names[i]);
		sums.out_bytes += nics[i].inflight_bytes;
		sums.bandwidth += nics[i].ewma_bandwidth_bps;
	}
	return sums;
}

/* ---- tests ------------------------------------------------------------- */

static void devices_that_have_nothing_to_do_say_so(enum lib_mode mode)
{
	struct sums sums;
	struct far f;

	far_open(&f, mode);
	sums = look(&f);
	assert_int_equal(sums.out_bytes, 0);
	assert_true(sums.bandwidth == 0);
	far_close(&f);
}

/* The devices are slow, so that there is time to look. */
static void what_is_out_is_told_until_it_has_ended(enum lib_mode mode)
{
	struct sums sums;
	struct far f;

	far_open(&f, mode);
	finish(&f, begin(&f));
	sim_set("bandwidth=50mbit");
	do {
		tent_batch_id_t batch = begin(&f);

		sums = look(&f);
		finish(&f, batch);
		assert_int_equal(look(&f).out_bytes, 0);
	} while (!sums.out_bytes);
	assert_true(sums.out_bytes <= SIZE);
	sim_set("bandwidth=0");
	far_close(&f);
}

/* Over a second, so it is never more a second than all that was moved. */
static void the_average_follows_what_is_moved_and_forgets_it(enum lib_mode mode)
{
	struct sums sums;
	struct far f;
	double most;

	far_open(&f, mode);
	finish(&f, begin(&f));
	do
		most = look(&f).bandwidth;
	while (!(most > 0));
	finish(&f, begin(&f));
	do {
		sums = look(&f);
		assert_true(sums.bandwidth > 0 && sums.bandwidth <= (double)f.moved);
		most = sums.bandwidth > most ? sums.bandwidth : most;
	} while (sums.bandwidth > most / 2);
	far_close(&f);
}

static void more_devices_than_there_is_room_for_are_none(enum lib_mode mode)
{
	tent_nic_load_stat_t nic = { .device_name = "untouched" };
	size_t nr = 1;
	struct far f;

	far_open(&f, mode);
	assert_int_equal(tent_get_nic_load_stats(f.here.engine, &nic, &nr), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_CAPACITY);
	assert_int_equal(nr, NICS);
	assert_string_equal(nic.device_name, "untouched");
	far_close(&f);
}

#define TESTS(X)								\
	X(devices_that_have_nothing_to_do_say_so)				\
	X(what_is_out_is_told_until_it_has_ended)				\
	X(the_average_follows_what_is_moved_and_forgets_it)			\
	X(more_devices_than_there_is_room_for_are_none)

#define BODIES(name)								\
static void name##_to_a_thread(void **state) { (void)state; name(LIB_THREAD); }	\
static void name##_to_a_caller(void **state) { (void)state; name(LIB_CALLER); }	\
static void name##_to_a_daemon(void **state) { (void)state; name(LIB_DAEMON); }
TESTS(BODIES)

int main(int argc, char **argv)
{
	static const char *const options[] = { "--devices 2 --fault timeouts=400%", NULL };
#define ROWS(name)								\
	cmocka_unit_test(name##_to_a_thread), cmocka_unit_test(name##_to_a_caller), \
	cmocka_unit_test(name##_to_a_daemon),
	const struct CMUnitTest tests[] = { TESTS(ROWS) };

	(void)argc;
	sim_main(argv, options);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
