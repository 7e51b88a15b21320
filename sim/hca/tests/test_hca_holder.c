/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A holder and its clients: slots, packets, and what can be set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/tests/common/holder_fix.h"

/* ---- slots ------------------------------------------------------------------- */

static void processes_get_slots_of_their_own(void **state)
{
	struct host *a = holder_fix_join(), *b = holder_fix_join();

	(void)state;
	assert_int_not_equal(host_slot(a), 0);
	assert_int_not_equal(host_slot(b), 0);
	assert_int_not_equal(host_slot(a), host_slot(b));
	assert_int_equal(host_table(a)->nr_devices, 2);
	assert_string_equal(host_table(a)->devices[1].name, "mlx5_1");
	assert_int_equal(host_table(a)->devices[1].nr_ports, 2);
	assert_int_equal(host_table(a)->users[host_slot(b)].pid, getpid());
	host_leave(a);
	host_leave(b);
}

static void a_slot_rests_before_it_is_given_again(void **state)
{
	uint8_t used[HOST_NR_SLOTS] = { 0 };

	(void)state;
	for (int i = 1; i < HOST_NR_SLOTS; i++) {
		struct host *h = holder_fix_join();

		assert_int_equal(used[host_slot(h)]++, 0);
		host_leave(h);
	}
	host_leave(holder_fix_join());
}

static void when_all_slots_are_taken_the_next_is_refused(void **state)
{
	struct host *all[HOST_NR_SLOTS], *more;
	char text[HOST_TEXT_BYTES] = "";

	(void)state;
	for (int i = 1; i < HOST_NR_SLOTS; i++)
		all[i] = holder_fix_join();
	assert_int_equal(host_open(&more, HOST_JOIN, NULL, text), -EUSERS);
	assert_non_null(strstr(text, "255"));
	host_leave(all[77]);
	more = holder_fix_join();
	host_leave(more);
	for (int i = 1; i < HOST_NR_SLOTS; i++)
		if (i != 77)
			host_leave(all[i]);
}

static void a_killed_process_leaves_its_slot_and_no_counter(void **state)
{
	int told[2];
	pid_t pid;
	uint32_t slot;

	(void)state;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (!pid) {
		struct host *h = holder_fix_join();

		slot = host_slot(h);
		host_memory(h)->devices[0].slots[slot].wire.sent = 77;
		if (write(told[1], &slot, sizeof(slot)) > 0)
			pause();
		_exit(0);
	}
	assert_int_equal(read(told[0], &slot, sizeof(slot)), sizeof(slot));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < HOST_NR_SLOTS; i++) {
		struct host *h = holder_fix_join();
		bool is_same = host_slot(h) == slot;

		if (is_same)
			assert_int_equal(host_memory(h)->devices[0].slots[slot].wire.sent, 0);
		host_leave(h);
		if (is_same)
			return;
	}
	fail();
}

/* ---- packets ----------------------------------------------------------------- */

static uint64_t no_time(void *ctx)
{
	(void)ctx;
	return 1;
}

static struct wire *wire_of(const struct host *h)
{
	struct wire_device devices[HOST_MAX_DEVICES];
	struct wire_config c = {
		.fd = host_udp_fd(h), .devices = devices, .use_gso = true, .now_ns = no_time,
	};
	struct wire *w;

	c.nr_devices = host_wire_devices(h, devices);
	assert_int_equal(wire_open(&w, &c), 0);
	return w;
}

static void note_psn(void *ctx, uint32_t device, const struct hca_packet *p)
{
	assert_int_equal(device, 1);
	assert_int_equal(p->route.port, 2);
	*(uint32_t *)ctx = p->psn;
}

static void send_to(struct wire *w, const struct host *h, uint32_t slot, uint32_t psn)
{
	struct hca_packet p = {
		.opcode = HCA_ACKNOWLEDGE, .dest_qpn = slot << HOST_SLOT_SHIFT | 9, .psn = psn,
		.route.port = 2,
	};

	assert_true(host_gid(host_table(h), 1, 2, 0, p.route.dgid));
	wire_send(w, 1, &p);
	wire_flush(w);
}

static void packets_find_the_process_by_its_slot(void **state)
{
	struct host *h[5];
	struct wire *w[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		h[i] = holder_fix_join();
		w[i] = wire_of(h[i]);
	}
	for (int from = 0; from < 5; from++)
		for (int to = 0; to < 5; to++) {
			uint32_t psn = 0;

			send_to(w[from], h[from], host_slot(h[to]), 10u + (uint32_t)to);
			for (int i = 0; i < 5; i++) {
				int nr = wire_receive(w[i], note_psn, &psn);

				assert_int_equal(nr, i == to);
			}
			assert_int_equal(psn, 10 + to);
		}
	for (int i = 0; i < 5; i++) {
		wire_close(w[i]);
		host_leave(h[i]);
	}
}

static void packets_for_a_free_slot_do_not_reach_its_next_user(void **state)
{
	struct host *a = holder_fix_join();
	struct wire *w = wire_of(a);

	(void)state;
	for (uint32_t slot = 1; slot < HOST_NR_SLOTS; slot++)
		send_to(w, a, slot, 5);
	for (int i = 1; i < HOST_NR_SLOTS - 1; i++) {
		struct host *b = holder_fix_join();
		struct wire *to_b = wire_of(b);
		uint32_t psn = 0;

		assert_int_equal(wire_receive(to_b, note_psn, &psn), 0);
		send_to(w, a, host_slot(b), 6);
		assert_int_equal(wire_receive(to_b, note_psn, &psn), 1);
		assert_int_equal(psn, 6);
		send_to(w, a, host_slot(b), 7);		/* lies there when b ends */
		wire_close(to_b);
		host_leave(b);
	}
	wire_close(w);
	host_leave(a);
}

/* ---- what it is made of ------------------------------------------------------ */

static void another_wish_names_what_is_and_what_was_asked(void **state)
{
	static const struct {
		struct holder_config c;
		const char *text;
	} wishes[] = {
		{ { .nr_devices = 3 }, "this host runs with --devices 2, not 3" },
		{ { .nr_ports = 1 }, "this host runs with --ports 2, not 1" },
		{ { .link = HOLDER_LINK_IB }, "this host runs with --link roce, not ib" },
		{ { .gso = HOLDER_GSO_OFF }, "this host runs with GSO on, not off" },
	};
	char text[HOST_TEXT_BYTES];
	struct host *h;

	(void)state;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		assert_int_equal(host_open(&h, HOST_ATTACH, &wishes[i].c, text), -EBUSY);
		assert_string_equal(text, wishes[i].text);
	}
	assert_int_equal(host_open(&h, HOST_ATTACH, &holder_fix_config, text), 0);
	host_leave(h);
}

static void there_is_one_holder_at_a_time(void **state)
{
	pid_t first = holder_fix_pid;

	(void)state;
	assert_string_equal(holder_fix_start(&holder_fix_config), "(nothing)");
	assert_int_not_equal(holder_fix_status(), 0);
	holder_fix_pid = first;
}

static void it_ends_with_its_last_client_and_takes_its_folder(void **state)
{
	char tree[64];

	(void)state;
	memcpy(tree, host_table(holder_fix_lease)->tree, sizeof(tree));
	assert_int_equal(access(tree, F_OK), 0);
	host_leave(holder_fix_lease);
	holder_fix_lease = NULL;
	assert_int_equal(holder_fix_status(), 0);
	assert_int_equal(access(tree, F_OK), -1);
	*strrchr(tree, '/') = '\0';
	assert_int_equal(access(tree, F_OK), -1);
	holder_fix_setup(state);
}

static void after_a_killed_holder_the_next_one_clears_up(void **state)
{
	struct host *h = holder_fix_join();
	struct host_event e;
	char tree[64];

	(void)state;
	memcpy(tree, host_table(holder_fix_lease)->tree, sizeof(tree));
	kill(holder_fix_pid, SIGKILL);
	holder_fix_status();
	assert_int_equal(holder_fix_event(h, &e), -EPIPE);
	assert_int_equal(access(tree, F_OK), 0);
	host_leave(h);
	host_leave(holder_fix_lease);
	assert_int_equal(holder_fix_setup(state), 0);
	assert_int_equal(access(tree, F_OK), -1);
}

/* ---- what can be set --------------------------------------------------------- */

static void a_link_that_goes_down_is_told_to_those_who_joined(void **state)
{
	struct host *h = holder_fix_join();
	const struct host_port *p = &host_table(h)->devices[1].ports[1];
	struct host_event e;

	(void)state;
	assert_int_equal(host_set(holder_fix_lease, 1, "2/link=down", NULL), 0);
	assert_int_equal(p->state, HOST_PORT_DOWN);
	assert_int_equal(p->wire.is_up, 0);
	assert_int_equal(host_table(h)->devices[1].ports[0].state, HOST_PORT_ACTIVE);
	assert_int_equal(holder_fix_event(h, &e), 0);
	assert_int_equal(e.ibv_event, IBV_EVENT_PORT_ERR);
	assert_int_equal(e.device, 1);
	assert_int_equal(e.port, 2);
	assert_int_equal(host_set(holder_fix_lease, 1, "2/link=down", NULL), 0);	/* is already */
	assert_int_equal(host_set(holder_fix_lease, 1, "2/link=up", NULL), 0);
	assert_int_equal(holder_fix_event(h, &e), 0);
	assert_int_equal(e.ibv_event, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(host_read(h, &e), -EAGAIN);
	host_leave(h);
}

static void a_gid_changes_for_all_and_in_the_tree(void **state)
{
	static const uint8_t expected[16] = { [10] = 0xff, [11] = 0xff, 10, 1, 2, 3 };
	struct host *h = holder_fix_join();
	char path[160], line[64] = "";
	struct host_event e;
	uint8_t gid[16];
	FILE *file;

	(void)state;
	assert_false(host_gid(host_table(h), 0, 1, 3, gid));
	assert_int_equal(host_set(holder_fix_lease, 0, "gid.3=10.1.2.3", NULL), 0);
	assert_true(host_gid(host_table(h), 0, 1, 3, gid));
	assert_memory_equal(gid, expected, 16);
	assert_int_equal(holder_fix_event(h, &e), 0);
	assert_int_equal(e.ibv_event, IBV_EVENT_GID_CHANGE);
	snprintf(path, sizeof(path), "%s/sys/class/infiniband/mlx5_0/ports/1/gids/3",
		 host_table(h)->tree);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	assert_string_equal(line, "0000:0000:0000:0000:0000:ffff:0a01:0203\n");
	assert_int_equal(host_set(holder_fix_lease, 0, "gid.3=none", NULL), 0);
	assert_false(host_gid(host_table(h), 0, 1, 3, gid));
	assert_false(host_gid(host_table(h), 0, 1, 16, gid));
	assert_false(host_gid(host_table(h), 0, 3, 0, gid));
	assert_false(host_gid(host_table(h), 2, 1, 0, gid));
	host_leave(h);
}

static void a_removed_device_is_told_and_leaves_the_tree(void **state)
{
	struct host *h = holder_fix_join();
	struct host_event e;
	char path[128];

	(void)state;
	assert_int_equal(host_set(holder_fix_lease, 0, "removed=on", NULL), 0);
	assert_int_equal(holder_fix_event(h, &e), 0);
	assert_int_equal(e.ibv_event, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(e.device, 0);
	assert_int_equal(host_table(h)->devices[0].is_removed, 1);
	snprintf(path, sizeof(path), "%s/sys/class/infiniband/mlx5_0", host_table(h)->tree);
	assert_int_equal(access(path, F_OK), -1);
	path[strlen(path) - 1] = '1';
	assert_int_equal(access(path, F_OK), 0);
	host_leave(h);
}

static void settings_reach_the_shared_memory(void **state)
{
	struct host_memory *m = host_memory(holder_fix_lease);

	(void)state;
	assert_int_equal(host_set(holder_fix_lease, HOST_ALL_DEVICES, "loss=0.5%", NULL), 0);
	assert_int_equal(m->devices[0].wire.loss_ppm, 5000);
	assert_int_equal(m->devices[1].wire.loss_ppm, 5000);
	assert_int_equal(host_set(holder_fix_lease, 0, "latency=2.5us", NULL), 0);
	assert_int_equal(m->devices[0].wire.latency_ns, 2500);
	assert_int_equal(m->devices[1].wire.latency_ns, 0);
	assert_int_equal(host_set(holder_fix_lease, 0, "bandwidth=10gbit", NULL), 0);
	assert_int_equal(m->devices[0].wire.bandwidth_mbps, 10000);
	assert_int_equal(host_set(holder_fix_lease, 0, "max_mr_size=2M", NULL), 0);
	assert_int_equal(m->devices[0].front.max_mr_bytes, 2 << 20);
	assert_int_equal(host_set(holder_fix_lease, 0, "no_permission=on", NULL), 0);
	assert_int_equal(m->devices[0].front.no_permission, 1);
	assert_int_equal(host_set(holder_fix_lease, 0, "timeouts=10%", NULL), 0);
	assert_int_equal(m->devices[0].engine.timeout_scale_percent, 10);
	assert_int_equal(host_set(holder_fix_lease, 0, "mtu=1024", NULL), 0);
	assert_int_equal(host_table(holder_fix_lease)->devices[0].ports[1].active_mtu_bytes, 1024);
	assert_int_equal(host_set(holder_fix_lease, 0, "loss=0", NULL), 0);
	assert_int_equal(m->devices[0].wire.loss_ppm, 0);
}

static void a_wrong_setting_says_what_was_allowed(void **state)
{
	static const char *const wrong[][2] = {
		{ "loss", "NAME=VALUE" },
		{ "=1", "NAME=VALUE" },
		{ "lost=1%", "there is no such setting" },
		{ "loss=1", "0 to 100%" },
		{ "loss=101%", "0 to 100%" },
		{ "loss=-1%", "0 to 100%" },
		{ "loss=nan%", "0 to 100%" },
		{ "latency=5s", "below 4.29s" },
		{ "latency=10", "a time like" },
		{ "loss_count=4294967296", "0 to 4294967295" },
		{ "loss_count=18446744073709551616", "0 to 4294967295" },
		{ "max_mr_size=99999999999G", "bytes" },
		{ "mtu=1500", "256, 512, 1024, 2048 or 4096" },
		{ "link=sideways", "up or down" },
		{ "removed=off", "takes on" },
		{ "gid=10.0.0.1", "gid.INDEX" },
		{ "gid.16=10.0.0.1", "0 to 15" },
		{ "gid.x=10.0.0.1", "0 to 15" },
		{ "gid.1=10.0.0.256", "address" },
		{ "loss.1=1%", "only gid" },
		{ "3/link=up", "ports are 1 to 2" },
		{ "1/loss=1%", "not of a port" },
		{ "1/removed=on", "not of a port" },
	};
	char text[HOST_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		text[0] = '\0';
		assert_int_equal(host_set(holder_fix_lease, 0, wrong[i][0], text), -EINVAL);
		if (!strstr(text, wrong[i][1]))
			fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i][0], text, wrong[i][1]);
	}
	assert_int_equal(host_set(holder_fix_lease, 2, "loss=1%", text), -ENODEV);
	assert_non_null(strstr(text, "0 to 1"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, holder_fix_setup, holder_fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(processes_get_slots_of_their_own),
		TEST(a_slot_rests_before_it_is_given_again),
		TEST(when_all_slots_are_taken_the_next_is_refused),
		TEST(a_killed_process_leaves_its_slot_and_no_counter),
		TEST(packets_find_the_process_by_its_slot),
		TEST(packets_for_a_free_slot_do_not_reach_its_next_user),
		TEST(another_wish_names_what_is_and_what_was_asked),
		TEST(there_is_one_holder_at_a_time),
		TEST(it_ends_with_its_last_client_and_takes_its_folder),
		TEST(after_a_killed_holder_the_next_one_clears_up),
		TEST(a_link_that_goes_down_is_told_to_those_who_joined),
		TEST(a_gid_changes_for_all_and_in_the_tree),
		TEST(a_removed_device_is_told_and_leaves_the_tree),
		TEST(settings_reach_the_shared_memory),
		TEST(a_wrong_setting_says_what_was_allowed),
	};

	return cmocka_run_group_tests(tests, holder_fix_enter, NULL);
}
