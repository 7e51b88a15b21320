/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes' ends of the wire in one, on the loopback interface of a namespace of
 * their own. Time stands still unless a test moves it.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/host/parts.h"
#include "sim/hca/tests/common/netns.h"
#include "sim/hca/wire/codec.h"
#include "sim/hca/wire/wire.h"

#define MAX_TAKEN 40000

enum { V4, V6, IB, NR_DEVICES };

static struct ports ports;

static struct fix {
	struct wire *a, *b;		/* slots 1 and 2 */
	struct wire_port port[NR_DEVICES];
	uint8_t gid[NR_DEVICES][16];
	struct wire_faults faults[NR_DEVICES];
	struct wire_counters sent[NR_DEVICES], got[NR_DEVICES];
	uint64_t now_ns;
	uint32_t nr_taken;
	struct {
		uint32_t device, psn;
		struct hca_route route;
		uint8_t first;		/* of the payload */
		uint32_t length;
	} taken[MAX_TAKEN];
} f;

static uint64_t now(void *ctx)
{
	(void)ctx;
	return f.now_ns;
}

static void take(void *ctx, uint32_t device, const struct hca_packet *p)
{
	(void)ctx;
	assert_true(f.nr_taken < MAX_TAKEN);
	f.taken[f.nr_taken].device = device;
	f.taken[f.nr_taken].psn = p->psn;
	f.taken[f.nr_taken].route = p->route;
	f.taken[f.nr_taken].length = p->length;
	f.taken[f.nr_taken++].first = p->length ? *p->payload : 0;
}

static struct wire *open_end(uint32_t slot, struct wire_counters *counters, bool use_gso)
{
	struct wire_device devices[NR_DEVICES];
	struct wire_config c = {
		.fd = ports.fds[slot], .devices = devices, .nr_devices = NR_DEVICES,
		.use_gso = use_gso, .now_ns = now,
	};
	struct wire *w;

	for (int i = 0; i < NR_DEVICES; i++)
		devices[i] = (struct wire_device){
			.ports = { &f.port[i] }, .nr_ports = 1, .faults = &f.faults[i],
			.counters = &counters[i],
		};
	assert_int_equal(wire_open(&w, &c), 0);
	return w;
}

static void describe_ports(void)
{
	for (int i = 0; i < NR_DEVICES; i++)
		f.port[i] = (struct wire_port){ .is_ethernet = i != IB, .is_up = 1 };
	inet_pton(AF_INET6, "::ffff:127.0.0.1", f.gid[V4]);
	inet_pton(AF_INET6, "::1", f.gid[V6]);
	inet_pton(AF_INET6, "::ffff:127.0.0.3", f.port[IB].address);
	inet_pton(AF_INET6, "fe80::2:c903:7f00:3", f.gid[IB]);
	f.port[IB].lid = 3;
	for (int i = 0; i < NR_DEVICES; i++)
		wire_gid_set(&f.port[i].gids, 0, f.gid[i]);
}

static void begin(bool use_gso)
{
	memset(&f, 0, sizeof(f));
	f.now_ns = 1000000000;
	describe_ports();
	f.a = open_end(1, f.sent, use_gso);
	f.b = open_end(2, f.got, use_gso);
}

static int setup(void **state)
{
	(void)state;
	begin(true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wire_close(f.a);
	wire_close(f.b);
	return 0;
}

static struct hca_packet packet(int device, uint32_t psn, uint32_t length)
{
	static uint8_t payload[4096];
	struct hca_packet p = {
		.opcode = HCA_WRITE_MIDDLE, .pkey = 0xffff, .dest_qpn = 2 << 16 | 5, .psn = psn,
		.payload = payload, .length = length,
		.route = { .port = 1, .dlid = 3 },
	};

	payload[0] = (uint8_t)psn;
	memcpy(p.route.dgid, f.gid[device], 16);
	return p;
}

static void send_one(int device, uint32_t psn, uint32_t length)
{
	struct hca_packet p = packet(device, psn, length);

	wire_send(f.a, (uint32_t)device, &p);
}

static void deliver(void)
{
	wire_flush(f.a);
	while (wire_receive(f.b, take, NULL))
		;
}

/* In portions that the socket's buffer holds, in privileged tests and others. */
static void send_many(int device, uint32_t nr, uint32_t length)
{
	for (uint32_t i = 0; i < nr; i++) {
		send_one(device, i, length);
		if (i % 8 == 7)
			deliver();
	}
	deliver();
}

/* ---- carrying ---------------------------------------------------------------- */

static void a_packet_comes_with_its_route(void **state)
{
	struct hca_packet p;

	(void)state;
	for (int device = V4; device <= V6; device++) {
		p = packet(device, 7, 100);
		p.route.tclass = 0x68;
		p.route.hop_limit = 9;
		wire_send(f.a, (uint32_t)device, &p);
		deliver();
		assert_int_equal(f.nr_taken, device + 1);
		assert_int_equal(f.taken[device].device, device);
		assert_int_equal(f.taken[device].psn, 7);
		assert_int_equal(f.taken[device].length, 100);
		assert_memory_equal(f.taken[device].route.sgid, f.gid[device], 16);
		assert_memory_equal(f.taken[device].route.dgid, f.gid[device], 16);
		assert_int_equal(f.taken[device].route.tclass, 0x68);
		assert_int_equal(f.taken[device].route.hop_limit, 9);
		assert_int_equal(f.taken[device].route.port, 1);
		assert_true(f.taken[device].route.has_grh);
	}
}

static void infiniband_goes_by_lid_with_or_without_grh(void **state)
{
	struct hca_packet p = packet(IB, 7, 4);

	(void)state;
	p.route.sl = 5;
	wire_send(f.a, IB, &p);
	p.route.has_grh = true;
	wire_send(f.a, IB, &p);
	deliver();
	assert_int_equal(f.nr_taken, 2);
	assert_int_equal(f.taken[0].route.slid, 3);
	assert_int_equal(f.taken[0].route.dlid, 3);
	assert_int_equal(f.taken[0].route.sl, 5);
	assert_false(f.taken[0].route.has_grh);
	assert_true(f.taken[1].route.has_grh);
	assert_memory_equal(f.taken[1].route.sgid, f.gid[IB], 16);
}

static void cards_of_one_link_type_do_not_hear_the_other(void **state)
{
	struct hca_packet p = packet(V4, 1, 4);

	(void)state;
	memcpy(p.route.dgid, f.port[IB].address, 16);
	wire_send(f.a, V4, &p);
	deliver();
	assert_int_equal(f.nr_taken, 0);
	assert_int_equal(f.got[IB].dropped, 1);
}

static void a_message_of_a_megabyte_comes_in_order(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (i) {
			teardown(state);
			begin(false);
		}
		send_many(V4, 256, 4096);
		send_many(V6, 256, 1024);
		assert_int_equal(f.nr_taken, 512);
		for (uint32_t k = 0; k < 512; k++) {
			assert_int_equal(f.taken[k].psn, k % 256);
			assert_int_equal(f.taken[k].first, k % 256);
		}
		assert_int_equal(f.got[V4].bad_icrc + f.got[V6].bad_icrc, 0);
	}
}

static void sizes_may_mix(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		send_one(V4, i, (i * 37) % 4097);
		if (i % 8 == 7)
			deliver();
	}
	assert_int_equal(f.nr_taken, 200);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(f.taken[i].length, (i * 37) % 4097);
}

static void the_top_byte_of_the_qpn_says_who_gets_it(void **state)
{
	struct hca_packet p = packet(V4, 1, 4);

	(void)state;
	p.dest_qpn = 1 << 16 | 5;
	wire_send(f.a, V4, &p);
	p.psn = 2;
	p.dest_qpn = 2 << 16 | 5;
	wire_send(f.a, V4, &p);
	deliver();
	assert_int_equal(f.nr_taken, 1);
	assert_int_equal(f.taken[0].psn, 2);
	while (wire_receive(f.a, take, NULL))
		;
	assert_int_equal(f.nr_taken, 2);
	assert_int_equal(f.taken[1].psn, 1);
}

static void what_cannot_be_sent_is_counted(void **state)
{
	struct hca_packet p = packet(V4, 1, 4);

	(void)state;
	p.route.sgid_index = 1;		/* an empty place */
	wire_send(f.a, V4, &p);
	p = packet(V4, 1, 4);
	p.route.port = 2;
	wire_send(f.a, V4, &p);
	p = packet(V4, 1, 4);
	memcpy(p.route.dgid, f.gid[V6], 16);
	wire_send(f.a, V4, &p);
	p = packet(V4, 1, 4);
	p.opcode = 0xff;
	wire_send(f.a, V4, &p);
	p = packet(IB, 1, 4);
	p.route.dlid = 0;
	wire_send(f.a, IB, &p);
	deliver();
	assert_int_equal(f.nr_taken, 0);
	assert_int_equal(f.sent[V4].unsent, 4);
	assert_int_equal(f.sent[IB].unsent, 1);
}

/* ---- rubbish from the network ------------------------------------------------ */

static void send_raw(const uint8_t *bytes, size_t n)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
	close(fd);
	while (wire_receive(f.b, take, NULL))
		;
}

static void rubbish_is_counted_and_goes_no_further(void **state)
{
	uint8_t bytes[64] = { HCA_SEND_ONLY, 0x40, 0xff, 0xff, 0, 2, 0, 5 };

	(void)state;
	send_raw(bytes, 15);
	assert_int_equal(f.got[V4].malformed, 1);
	send_raw(bytes, 33);
	assert_int_equal(f.got[V4].malformed, 2);
	send_raw(bytes, sizeof(bytes));
	assert_int_equal(f.got[V4].bad_icrc, 1);
	bytes[0] = 0xee;
	send_raw(bytes, sizeof(bytes));
	assert_int_equal(f.got[V4].malformed, 3);
	assert_int_equal(f.nr_taken, 0);
}

/* ---- faults ------------------------------------------------------------------ */

static void a_count_of_losses_is_kept_to_the_packet(void **state)
{
	(void)state;
	f.faults[V4].loss_count = 3;
	send_many(V4, 10, 4);
	assert_int_equal(f.nr_taken, 7);
	assert_int_equal(f.taken[0].psn, 3);
	assert_int_equal(f.sent[V4].dropped, 3);
	assert_int_equal(f.faults[V4].loss_count, 0);
}

static void a_rate_of_losses_is_about_kept_and_a_seed_repeats_it(void **state)
{
	static uint32_t first[4000];
	uint32_t nr;

	(void)state;
	f.faults[V4].loss_ppm = 100000;
	f.faults[V4].seed = 42;
	send_many(V4, 4000, 4);
	nr = f.nr_taken;
	assert_in_range(nr, 3400, 3800);
	for (uint32_t i = 0; i < nr; i++)
		first[i] = f.taken[i].psn;
	teardown(state);
	begin(true);
	f.faults[V4].loss_ppm = 100000;
	f.faults[V4].seed = 42;
	send_many(V4, 4000, 4);
	assert_int_equal(f.nr_taken, nr);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(f.taken[i].psn, first[i]);
}

static void requests_and_responses_are_dropped_apart(void **state)
{
	struct hca_packet ack = packet(V4, 100, 0);

	(void)state;
	ack.opcode = HCA_ACKNOWLEDGE;
	f.faults[V4].drop_request_count = 1;
	wire_send(f.a, V4, &ack);
	send_one(V4, 1, 4);
	send_one(V4, 2, 4);
	deliver();
	assert_int_equal(f.nr_taken, 2);
	assert_int_equal(f.taken[0].psn, 100);
	assert_int_equal(f.taken[1].psn, 2);
	f.faults[V4].drop_response_ppm = 1000000;
	wire_send(f.a, V4, &ack);
	send_one(V4, 3, 4);
	deliver();
	assert_int_equal(f.nr_taken, 3);
	assert_int_equal(f.taken[2].psn, 3);
}

static void a_link_that_is_down_sends_and_takes_nothing(void **state)
{
	(void)state;
	f.port[V4].is_up = 0;
	send_one(V4, 1, 4);
	deliver();
	assert_int_equal(f.sent[V4].dropped, 1);
	f.port[V4].is_up = 1;
	send_one(V4, 2, 4);
	wire_flush(f.a);
	f.port[V4].is_up = 0;
	deliver();
	assert_int_equal(f.nr_taken, 0);
	assert_int_equal(f.got[V4].dropped, 1);
}

static void run_until(uint64_t ns)
{
	while (wire_next_ns(f.a) <= ns) {
		f.now_ns = wire_next_ns(f.a);
		wire_run(f.a);
		deliver();
	}
	f.now_ns = ns;
}

static void a_slow_packet_comes_when_it_is_due(void **state)
{
	uint64_t start = f.now_ns;

	(void)state;
	f.faults[V4].latency_ns = 5000;
	send_one(V4, 1, 4);
	deliver();
	assert_int_equal(f.nr_taken, 0);
	assert_int_equal(wire_next_ns(f.a), start + 5000);
	f.now_ns += 4999;
	wire_run(f.a);
	deliver();
	assert_int_equal(f.nr_taken, 0);
	f.now_ns++;
	wire_run(f.a);
	deliver();
	assert_int_equal(f.nr_taken, 1);
	assert_int_equal(wire_next_ns(f.a), UINT64_MAX);
}

static void jitter_keeps_the_order(void **state)
{
	(void)state;
	f.faults[V4].latency_ns = 5000;
	f.faults[V4].jitter_ns = 100000;
	for (uint32_t i = 0; i < 1000; i++) {
		f.now_ns += 100;
		send_one(V4, i, 4);
	}
	run_until(f.now_ns + 200000);
	assert_int_equal(f.nr_taken, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(f.taken[i].psn, i);
}

static void a_link_that_becomes_fast_again_keeps_the_order(void **state)
{
	(void)state;
	f.faults[V4].latency_ns = 5000;
	send_one(V4, 0, 4);
	f.now_ns += 10000;	/* due, but nobody has looked yet */
	f.faults[V4].latency_ns = 0;
	send_one(V4, 1, 4);
	deliver();
	assert_int_equal(f.nr_taken, 2);
	assert_int_equal(f.taken[0].psn, 0);
}

static void some_are_overtaken_but_none_is_lost(void **state)
{
	uint32_t late = 0, sum = 0;

	(void)state;
	f.faults[V4].reorder_ppm = 50000;
	f.faults[V4].reorder_ns = 1000;
	for (uint32_t i = 0; i < 1000; i++) {
		f.now_ns += 300;
		send_one(V4, i, 4);
		deliver();
	}
	run_until(f.now_ns + 2000);
	assert_int_equal(f.nr_taken, 1000);
	for (uint32_t i = 0; i < 1000; i++) {
		late += i && f.taken[i].psn < f.taken[i - 1].psn;
		sum += f.taken[i].psn;
	}
	assert_in_range(late, 20, 100);
	assert_int_equal(sum, 999 * 1000 / 2);
}

static void a_link_is_no_faster_than_it_says(void **state)
{
	uint64_t start = f.now_ns, bytes = 100 * (12 + 4096);

	(void)state;
	f.faults[V4].bandwidth_mbps = 1000;
	for (uint32_t i = 0; i < 100; i++)
		send_one(V4, i, 4096);
	run_until(start + bytes * 8 - 200);	/* a nanosecond a bit, rounded down 100 times */
	assert_int_equal(f.nr_taken, 99);
	run_until(start + bytes * 8);
	assert_int_equal(f.nr_taken, 100);
	/* Rubbish in the shared word holds nobody up for long. */
	f.faults[V4].link_free_ns = UINT64_MAX;
	send_one(V4, 100, 4096);
	assert_in_range(wire_next_ns(f.a), f.now_ns, f.now_ns + 1000000);
}

static void delayed_packets_are_not_kept_without_end(void **state)
{
	(void)state;
	f.faults[V4].delay_request_ppm = 1000000;
	for (uint32_t i = 0; i < 20000; i++)
		send_one(V4, i, 4096);
	assert_in_range(f.sent[V4].queue_full, 1000, 19000);
	assert_int_equal(f.sent[V4].queue_full + f.sent[V4].delayed, 20000);
	run_until(f.now_ns + 2000000);
	assert_int_equal(wire_next_ns(f.a), UINT64_MAX);
}

static int open_ports(void **state)
{
	(void)state;
	if (netns_enter() || ports_open(&ports))
		return -1;
	return ports_take(&ports) == 1 && ports_take(&ports) == 2 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_packet_comes_with_its_route),
		TEST(infiniband_goes_by_lid_with_or_without_grh),
		TEST(cards_of_one_link_type_do_not_hear_the_other),
		TEST(a_message_of_a_megabyte_comes_in_order),
		TEST(sizes_may_mix),
		TEST(the_top_byte_of_the_qpn_says_who_gets_it),
		TEST(what_cannot_be_sent_is_counted),
		TEST(rubbish_is_counted_and_goes_no_further),
		TEST(a_count_of_losses_is_kept_to_the_packet),
		TEST(a_rate_of_losses_is_about_kept_and_a_seed_repeats_it),
		TEST(requests_and_responses_are_dropped_apart),
		TEST(a_link_that_is_down_sends_and_takes_nothing),
		TEST(a_slow_packet_comes_when_it_is_due),
		TEST(jitter_keeps_the_order),
		TEST(a_link_that_becomes_fast_again_keeps_the_order),
		TEST(some_are_overtaken_but_none_is_lost),
		TEST(a_link_is_no_faster_than_it_says),
		TEST(delayed_packets_are_not_kept_without_end),
	};

	return cmocka_run_group_tests(tests, open_ports, NULL);
}
