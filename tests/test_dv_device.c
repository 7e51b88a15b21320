/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_device.c - devices and memory of dv/, through the distribution's libibverbs and
 * libmlx5 on software ConnectX devices: what is found, what is refused and with which words.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "dv/mr.h"
#include "tests/common/dv_fix.h"
#include "tests/common/sim.h"

#define SIZE 65536u
#define FAR_BASE 0x7000000000ull	/* what an owner calls its memory */

static char names[DV_DEVICES_MAX][DV_NAME_SIZE];

/* ---- which devices ----------------------------------------------------- */

static void all_devices_are_found_in_order(void **state)
{
	(void)state;
	assert_int_equal(dv_device_names(&dv_fix_any, names, WHY), 2);
	assert_string_equal(names[0], "mlx5_0");
	assert_string_equal(names[1], "mlx5_1");
}

static void an_allow_list_leaves_what_it_names(void **state)
{
	struct dv_choice c = dv_fix_any;

	(void)state;
	c.allow = "mlx5_7,mlx5_1";
	assert_int_equal(dv_device_names(&c, names, WHY), 1);
	assert_string_equal(names[0], "mlx5_1");
}

static void a_deny_list_wins_over_an_allow_list(void **state)
{
	struct dv_choice c = dv_fix_any;

	(void)state;
	c.allow = "mlx5_0,mlx5_1";
	c.deny = "mlx5_0";
	assert_int_equal(dv_device_names(&c, names, WHY), 1);
	assert_string_equal(names[0], "mlx5_1");
}

static void a_name_is_compared_whole(void **state)
{
	struct dv_choice c = dv_fix_any;

	(void)state;
	c.allow = "mlx5_,mlx5_01,lx5_0";
	assert_int_equal(dv_device_names(&c, names, WHY), -ENODEV);
	assert_non_null(strstr(dv_fix_why, "of 2 mlx5 devices none is allowed"));
}

static void a_device_that_is_not_there_is_named(void **state)
{
	struct dv_device d;

	(void)state;
	assert_int_equal(dv_device_open(&d, "mlx5_9", &dv_fix_any, WHY), -ENODEV);
	assert_string_equal(dv_fix_why, "there is no device mlx5_9");
}

static void a_node_without_permission_says_so(void **state)
{
	struct dv_device d;

	(void)state;
	sim_set("no_permission=on");
	assert_int_equal(dv_device_open(&d, "mlx5_0", &dv_fix_any, WHY), -EACCES);
	sim_set("no_permission=off");
	assert_non_null(strstr(dv_fix_why, "mlx5_0: no permission to open /dev/infiniband/uverbs"));
}

/* ---- ports and addresses ----------------------------------------------- */

static void the_link_layer_is_that_of_the_port(void **state)
{
	struct dv_device d;

	(void)state;
	dv_fix_device(&d);
	assert_string_equal(dv_link_name(d.address.link),
			    sim_has("ib") ? "InfiniBand" : "RoCE");
	assert_true(sim_has("ib") == (d.address.lid != 0));
	assert_int_equal(d.port, 1);
	assert_true(d.max_reads > 0 && d.max_served > 0);
	dv_device_close(&d);
}

static void a_port_beyond_the_last_is_refused(void **state)
{
	struct dv_choice c = dv_fix_any;
	struct dv_device d;

	(void)state;
	c.port = 3;
	assert_int_equal(dv_device_open(&d, "mlx5_0", &c, WHY), -ENODEV);
	assert_string_equal(dv_fix_why, "mlx5_0 has no port 3; allowed: 1 to 1");
}

static void a_port_that_is_down_is_refused(void **state)
{
	struct dv_device d;

	(void)state;
	sim_set("link=down");
	assert_int_equal(dv_device_open(&d, "mlx5_0", &dv_fix_any, WHY), -ENETDOWN);
	sim_set("link=up");
	assert_non_null(strstr(dv_fix_why, "mlx5_0 port 1 is"));
}

static void a_gid_that_is_empty_is_refused(void **state)
{
	struct dv_choice c = dv_fix_any;
	struct dv_device d;

	(void)state;
	if (sim_has("ib"))
		return;		/* its GIDs are not what RoCE needs them to be */
	c.gid_index = 13;
	assert_int_equal(dv_device_open(&d, "mlx5_0", &c, WHY), -EADDRNOTAVAIL);
	assert_string_equal(dv_fix_why, "mlx5_0 port 1: GID 13 is empty");
}

static void a_port_without_a_gid_is_refused(void **state)
{
	struct dv_device d;

	(void)state;
	if (sim_has("ib"))
		return;
	dv_fix_device(&d);
	for (int i = 0; i < 16; i++)
		sim_set("gid.%d=none", i);
	assert_int_equal(dv_device_probe(&d, WHY), -EADDRNOTAVAIL);
	assert_non_null(strstr(dv_fix_why, "mlx5_0 port 1: no GID"));
	sim_set("gid.0=127.0.0.1");
	assert_true(dv_device_probe(&d, WHY) >= 0);
	dv_device_close(&d);
}

static void another_gid_is_noticed_and_the_same_is_not(void **state)
{
	struct dv_device d;
	char text[128];

	(void)state;
	if (sim_has("ib"))
		return;
	dv_fix_device(&d);
	assert_int_equal(dv_device_probe(&d, WHY), 0);
	sim_set("gid.%u=10.1.2.3", d.gid_index);
	assert_int_equal(dv_device_probe(&d, WHY), 1);
	dv_address_text(&d.address, text, sizeof(text));
	assert_string_equal(text, "GID ::ffff:10.1.2.3");
	sim_set("gid.%u=127.0.0.1", d.gid_index);
	dv_device_close(&d);
}

/* ---- memory ------------------------------------------------------------ */

static void memory_of_two_pieces_has_a_key_for_each(void **state)
{
	uint8_t *memory = dv_fix_pages(3 * SIZE);
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_mr *m;
	uint64_t span;
	uint32_t first;

	(void)state;
	d.max_mr_bytes = 2 * SIZE + 100;	/* rounded down to pages */
	assert_int_equal(dv_mr_open(&m, &d, pd, memory, 3 * SIZE, FAR_BASE, DV_ACCESS_READ, NULL,
				    WHY), 0);
	assert_int_equal(m->remote.nr, 2);
	first = dv_keys_find(&m->remote, FAR_BASE + 2 * SIZE - 1, SIZE, &span);
	assert_int_equal(span, 1);		/* it ends with its piece */
	assert_int_not_equal(dv_keys_find(&m->remote, FAR_BASE + 2 * SIZE, SIZE, &span), first);
	assert_int_equal(span, SIZE);
	dv_mr_close(m);
	dv_fix_close(&d, pd);
	munmap(memory, 3 * SIZE);
}

static void memory_that_stays_local_has_no_remote_key(void **state)
{
	uint8_t *memory = dv_fix_pages(SIZE);
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_mr *m;

	(void)state;
	assert_int_equal(dv_mr_open(&m, &d, pd, memory, SIZE, FAR_BASE, DV_ACCESS_RELAXED, NULL,
				    WHY), 0);
	assert_int_equal(m->local.nr, 1);
	assert_int_equal(m->remote.nr, 0);
	dv_mr_close(m);
	dv_fix_close(&d, pd);
	munmap(memory, SIZE);
}

/* dv_fix_close() would find the pieces that were left. */
static void a_piece_that_fails_takes_the_others_back(void **state)
{
	uint8_t *memory = dv_fix_pages(2 * SIZE);
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_mr *m;

	(void)state;
	d.max_mr_bytes = SIZE;
	munmap(memory + SIZE, SIZE);	/* the second of two */
	assert_true(dv_mr_open(&m, &d, pd, memory, 2 * SIZE, FAR_BASE, DV_ACCESS_LOCAL, NULL,
			       WHY) < 0);
	assert_non_null(strstr(dv_fix_why, "131072 bytes at 0x7000000000"));
	dv_fix_close(&d, pd);
	munmap(memory, SIZE);
}

static void memory_beyond_all_pieces_is_refused(void **state)
{
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_mr *m;

	(void)state;
	d.max_mr_bytes = 4096;
	assert_int_equal(dv_mr_open(&m, &d, pd, names, 65 * 4096, FAR_BASE, DV_ACCESS_LOCAL, NULL,
				    WHY), -EFBIG);
	assert_non_null(strstr(dv_fix_why, "takes 4096 at once; allowed: up to 64 times as many"));
	dv_fix_close(&d, pd);
}

static void a_limit_of_locked_memory_is_explained(void **state)
{
	uint8_t *memory = dv_fix_pages(SIZE);
	struct rlimit before, small;
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_mr *m;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	small = before;
	small.rlim_cur = 8192;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	sim_set("reg_mr_fails=1");
	assert_int_equal(dv_mr_open(&m, &d, pd, memory, SIZE, FAR_BASE, DV_ACCESS_LOCAL, NULL,
				    WHY), -ENOMEM);
	assert_non_null(strstr(dv_fix_why, "RLIMIT_MEMLOCK, 8192 bytes, is too small"));
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	dv_fix_close(&d, pd);
	munmap(memory, SIZE);
}

/* ---- the end of a device ----------------------------------------------- */

/* The last test: there is no way back. */
static void a_device_that_is_taken_out_announces_it(void **state)
{
	struct dv_device d;
	enum dv_event e;
	const void *queue;

	(void)state;
	dv_fix_device(&d);
	assert_int_equal(dv_device_event(&d, &queue), DV_EVENT_NONE);
	sim_set("removed=on");
	while ((e = dv_device_event(&d, &queue)) == DV_EVENT_NONE || e == DV_EVENT_OTHER ||
	       e == DV_EVENT_PORT)
		;
	assert_int_equal(e, DV_EVENT_GONE);
	dv_device_close(&d);
}

int main(int argc, char **argv)
{
	static const char *const links[] = {
		"--devices 2 --link roce", "--devices 2 --link ib", NULL,
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_devices_are_found_in_order),
		cmocka_unit_test(an_allow_list_leaves_what_it_names),
		cmocka_unit_test(a_deny_list_wins_over_an_allow_list),
		cmocka_unit_test(a_name_is_compared_whole),
		cmocka_unit_test(a_device_that_is_not_there_is_named),
		cmocka_unit_test(a_node_without_permission_says_so),
		cmocka_unit_test(the_link_layer_is_that_of_the_port),
		cmocka_unit_test(a_port_beyond_the_last_is_refused),
		cmocka_unit_test(a_port_that_is_down_is_refused),
		cmocka_unit_test(a_gid_that_is_empty_is_refused),
		cmocka_unit_test(a_port_without_a_gid_is_refused),
		cmocka_unit_test(another_gid_is_noticed_and_the_same_is_not),
		cmocka_unit_test(memory_of_two_pieces_has_a_key_for_each),
		cmocka_unit_test(memory_that_stays_local_has_no_remote_key),
		cmocka_unit_test(a_piece_that_fails_takes_the_others_back),
		cmocka_unit_test(memory_beyond_all_pieces_is_refused),
		cmocka_unit_test(a_limit_of_locked_memory_is_explained),
		cmocka_unit_test(a_device_that_is_taken_out_announces_it),
	};

	(void)argc;
	sim_main(argv, links);
	return cmocka_run_group_tests_name(sim_has("ib") ? "dv, InfiniBand" : "dv, RoCE", tests,
					   NULL, NULL);
}
