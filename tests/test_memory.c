/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - what may be registered, how often, and when it is let go. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/region_table.h"
#include "engine/round.h"
#include "ring/order.h"
#include "tests/common/engine_fix.h"

#define PAGE 4096u
#define SIZE 65536u

static void small_limits(struct engine_config *c)
{
	c->regions_max = 100;
	c->memory_max = 16u << 20;
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&fix, small_limits);
	return 0;
}

static int memfd(size_t size, int seals)
{
	int fd = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuses(struct raw *r, int error, uint32_t rule)
{
	if (r->status.error != error || r->status.rule != rule)
		fail_msg("error %d, rule %u: %s", r->status.error, r->status.rule,
			 r->status.message);
}

/* ---- registering -------------------------------------------------------- */

static void a_range_that_is_empty_or_wraps_is_refused(void **state)
{
	static const struct { uint64_t base, length; } bad[] = {
		{ 4096, 0 }, { 0, 0 }, { UINT64_MAX, 1 }, { 4096, UINT64_MAX },
		{ UINT64_MAX - 4095, 4096 }, { 1, UINT64_MAX },
	};
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		raw_register(&r, TENT_MEM_PRIVATE, (void *)(uintptr_t)bad[i].base, bad[i].length,
			     0, -1, 0, 2);
		refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_RANGE);
	}
	close(r.sock);
}

static void only_known_permissions_and_locations_pass(void **state)
{
	static const char *const good[] = { "", "*", "cpu", "cpu:0", "cpu:7", "cpu:1023" };
	static const char *const bad[] = { "cuda:x", "cpu:", "cpu:x", "cpu:0x", "CPU", "cpu:-1",
					   "cpu:99999", " cpu", "**" };
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	void *m;

	(void)state;
	assert_int_equal(tent_client_alloc(c, SIZE, NULL, &m), 0);
	for (int permission = -2; permission < 6; permission++)
		assert_int_equal(tent_client_register(c, (char *)m + 64 * (permission + 2), 64,
						      permission, NULL, 0),
				 permission < 0 || permission > 2 ? TENT_ERR_ENUM : 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(tent_client_register(c, m, SIZE - i, 2, good[i], 0), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(tent_client_register(c, m, 128 + i, 2, bad[i], 0), TENT_ERR_ENUM);
		assert_int_equal(engine_fix_rule(), TENT_RULE_LOCATION);
		assert_int_equal(tent_client_alloc(c, SIZE, bad[i], &m), TENT_ERR_ENUM);
	}
	assert_int_equal(tent_client_register(c, m, 64, 2, "cuda:0", 0), TENT_ERR_UNSUPPORTED);
	assert_int_equal(engine_fix_rule(), TENT_RULE_NOT_BUILT);
	assert_int_equal(tent_client_alloc(c, SIZE, "cuda:0", &m), TENT_ERR_ENUM);
	assert_int_equal(tent_client_alloc(c, SIZE, "cpu:0", &m), 0);
	assert_int_equal(tent_client_alloc(c, SIZE, "cpu:1023", &m), TENT_ERR_ENUM);
	tent_client_detach(c);
}

static void the_same_range_counts_and_others_stand_beside_it(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	struct tent_ring *ring = engine_fix_ring(c);
	void *m;

	(void)state;
	assert_int_equal(tent_client_alloc(c, SIZE, NULL, &m), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tent_client_register(c, m, SIZE, 2, NULL, 0), 0);
	assert_int_equal(tent_client_register(c, m, SIZE / 2, 2, NULL, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(engine_fix_move(ring, 1, m, 0, (char *)m + SIZE - 64, 64).rule, 0);
		assert_int_equal(tent_client_unregister(c, m, SIZE), 0);
	}
	assert_int_equal(engine_fix_move(ring, 1, m, 0, (char *)m + SIZE - 64, 64).rule,
			 TENT_RULE_TARGET_UNREGISTERED);
	assert_int_equal(engine_fix_move(ring, 1, m, 0, (char *)m + 64, 64).rule, 0);
	assert_int_equal(tent_client_unregister(c, m, 0), 0);	/* by base */
	assert_int_equal(engine_fix_move(ring, 1, m, 0, (char *)m + 64, 64).rule,
			 TENT_RULE_SOURCE_UNREGISTERED);
	tent_ring_close(ring);
	tent_client_detach(c);
}

static void unregistering_the_unknown_succeeds(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	uint8_t *m = engine_fix_memory(c, SIZE);

	(void)state;
	assert_int_equal(tent_client_unregister(c, m + 64, 64), 0);
	assert_int_equal(tent_client_unregister(c, m, SIZE - 1), 0);
	assert_int_equal(tent_client_unregister(c, (void *)1, SIZE_MAX), 0);
	assert_int_equal(tent_client_unregister(c, NULL, 0), 0);
	tent_client_detach(c);
}

static void a_registration_again_cannot_hide_a_change(void **state)
{
	struct raw_memory a, b;
	struct raw r;
	int fd = memfd(SIZE, F_SEAL_SHRINK), other = memfd(SIZE, F_SEAL_SHRINK);
	char *at = (char *)0x700000000000;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	assert_int_equal(raw_alloc(&r, SIZE, &a), 0);
	assert_int_equal(raw_alloc(&r, SIZE, &b), 0);
	assert_int_equal(raw_register(&r, TENT_MEM_BUFFER, at, PAGE, a.id, -1, 0, 2), 0);
	assert_int_equal(raw_register(&r, TENT_MEM_BUFFER, at, PAGE, a.id, -1, 0, 2), 0);
	raw_register(&r, TENT_MEM_BUFFER, at, PAGE, a.id, -1, PAGE, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	raw_register(&r, TENT_MEM_BUFFER, at, PAGE, b.id, -1, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	raw_register(&r, TENT_MEM_FD, at, PAGE, 0, fd, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	raw_register(&r, TENT_MEM_PRIVATE, at, PAGE, 0, -1, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	raw_register(&r, TENT_MEM_BUFFER, at, PAGE, a.id, -1, 0, 1);
	refuses(&r, TENT_ERR_ENUM, TENT_RULE_MEM_PERMISSION);
	at += SIZE;
	assert_int_equal(raw_register(&r, TENT_MEM_FD, at, PAGE, 0, fd, 0, 2), 0);
	assert_int_equal(raw_register(&r, TENT_MEM_FD, at, PAGE, 0, fd, 0, 2), 0);
	raw_register(&r, TENT_MEM_FD, at, PAGE, 0, other, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	close(a.fd);
	close(b.fd);
	close(fd);
	close(other);
	close(r.sock);
}

/* ---- mappings behind it ------------------------------------------------- */

static void offsets_must_fit_the_memory_and_its_pages(void **state)
{
	static const struct { uint64_t base, offset, length; } bad[] = {
		{ 0x10000, SIZE, 1 }, { 0x10000, 0, SIZE + 1 }, { 0x10000, UINT64_MAX, 2 },
		{ 0x10000, 1, 64 }, { 0x10008, 16, 64 }, { 0x10000, PAGE, SIZE },
		{ 0x10000, UINT64_MAX - PAGE + 1, PAGE },
	};
	struct raw_memory m;
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	assert_int_equal(raw_alloc(&r, SIZE, &m), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		raw_register(&r, TENT_MEM_BUFFER, (void *)(uintptr_t)bad[i].base, bad[i].length,
			     m.id, -1, bad[i].offset, 2);
		refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_RANGE);
	}
	assert_int_equal(raw_register(&r, TENT_MEM_BUFFER, (void *)0x10008, 64, m.id, -1,
				      PAGE + 8, 2), 0);
	raw_register(&r, TENT_MEM_BUFFER, (void *)0x20000, 64, m.id + 1, -1, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_UNKNOWN);
	raw_register(&r, TENT_MEM_BUFFER, (void *)0x20000, 64, 0, -1, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_UNKNOWN);
	close(m.fd);
	close(r.sock);
}

static void only_memfds_that_cannot_shrink_are_shared(void **state)
{
	int open_memfd = memfd(SIZE, 0), empty = memfd(0, F_SEAL_SHRINK);
	int frozen = memfd(SIZE, F_SEAL_SHRINK | F_SEAL_WRITE), good = memfd(SIZE, F_SEAL_SHRINK);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int large = memfd(1u << 30, F_SEAL_SHRINK);
	struct raw r;

	(void)state;
	raw_attach(&r, fix.path, NULL);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, open_memfd, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_SEALS);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, empty, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_SEALS);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, file, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_SEALS);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, frozen, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, large, 0, 2);
	refuses(&r, TENT_ERR_CAPACITY, TENT_RULE_MEM_LIMIT);
	raw_register(&r, TENT_MEM_FD, (void *)0x10000, SIZE + 1, 0, good, 0, 2);
	refuses(&r, TENT_ERR_ADDRESS, TENT_RULE_MEM_RANGE);
	engine_fix_quiet(&fix, 1);	/* the clients of earlier tests have mappings, too */
	assert_int_equal(engine_fix_count_maps("/memfd:theirs"), 0);
	assert_int_equal(raw_register(&r, TENT_MEM_FD, (void *)0x10000, PAGE, 0, good, 0, 2), 0);
	close(r.sock);
	close(open_memfd);
	close(empty);
	close(frozen);
	close(good);
	close(file);
	close(large);
}

static void ranges_of_one_memfd_share_a_mapping_and_the_last_takes_it_along(void **state)
{
	int fd = memfd(SIZE, F_SEAL_SHRINK);
	struct raw r;

	(void)state;
	engine_fix_quiet(&fix, 0);
	raw_attach(&r, fix.path, NULL);
	for (unsigned i = 0; i < SIZE / PAGE; i++)
		assert_int_equal(raw_register(&r, TENT_MEM_FD, (void *)(0x10000ul + i * PAGE), PAGE,
					      0, fd, i * PAGE, 2), 0);
	assert_int_equal(engine_fix_count_maps("/memfd:theirs"), 1);
	for (unsigned i = 0; i < SIZE / PAGE; i++) {
		assert_int_equal(engine_fix_count_maps("/memfd:theirs"), 1);
		assert_int_equal(raw_unregister(&r, (void *)(0x10000ul + i * PAGE), PAGE), 0);
	}
	assert_int_equal(engine_fix_count_maps("/memfd:theirs"), 0);
	close(fd);
	close(r.sock);
}

static void allocated_memory_goes_with_its_registrations(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	struct tent_ring *ring = engine_fix_ring(c);
	int quiet = engine_fix_quiet(&fix, 1), before = engine_fix_count_maps("/memfd:tent-buffer");
	uint8_t *keep = engine_fix_memory(c, SIZE), *m = engine_fix_memory(c, SIZE);

	(void)state;
	(void)quiet;
	for (int i = 1; i < 50; i++)
		assert_int_equal(tent_client_register(c, m + 64 * i, 64, 2, NULL, 0), 0);
	assert_int_equal(tent_client_free(c, m), 0);
	/* ours and the engine's, of what is kept */
	assert_int_equal(engine_fix_count_maps("/memfd:tent-buffer"), before + 2);
	assert_int_equal(engine_fix_move(ring, 1, keep, 0, m, 64).rule,
			 TENT_RULE_TARGET_UNREGISTERED);
	tent_ring_close(ring);
	tent_client_detach(c);
	assert_int_equal(engine_fix_count_maps("/memfd:tent-buffer"), before);
}

static void limits_are_kept_and_given_back(void **state)
{
	struct tent_client *c = engine_fix_attach(&fix, NULL);
	void *m, *large;

	(void)state;
	assert_int_equal(tent_client_alloc(c, 17u << 20, NULL, &m), TENT_ERR_CAPACITY);
	assert_int_equal(tent_client_alloc(c, SIZE_MAX, NULL, &m), TENT_ERR_CAPACITY);
	assert_int_equal(tent_client_alloc(c, 12u << 20, NULL, &large), 0);
	assert_int_equal(tent_client_alloc(c, 12u << 20, NULL, &m), TENT_ERR_CAPACITY);
	assert_int_equal(tent_client_free(c, large), 0);
	assert_int_equal(tent_client_alloc(c, 12u << 20, NULL, &large), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(tent_client_register(c, (char *)large + i, 64, 2, NULL, 0), 0);
	assert_int_equal(tent_client_register(c, (char *)large + 100, 64, 2, NULL, 0),
			 TENT_ERR_CAPACITY);
	assert_int_equal(tent_client_register(c, large, 64, 2, NULL, 0), 0);	/* again */
	assert_int_equal(tent_client_unregister(c, (char *)large + 5, 64), 0);
	assert_int_equal(tent_client_register(c, (char *)large + 100, 64, 2, NULL, 0), 0);
	tent_client_detach(c);
}

/* ---- private memory ----------------------------------------------------- */

static void in_process_memory_is_used_in_place_if_it_is_there(void **state)
{
	struct tent_client *c = engine_fix_local(&fix);
	struct tent_ring *ring = engine_fix_ring(c);
	uint8_t *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	(void)state;
	munmap(m + 2 * PAGE, PAGE);
	assert_int_equal(tent_client_register(c, m, 4 * PAGE, 2, NULL, 0), TENT_ERR_ADDRESS);
	assert_int_equal(engine_fix_rule(), TENT_RULE_MEM_NOT_SHAREABLE);
	memset(m, 5, PAGE); /* before a call: tsan sees that, and no ring's two mappings */
	assert_int_equal(tent_client_register(c, m, 2 * PAGE, 2, NULL, 0), 0);
	assert_int_equal(engine_fix_move(ring, 1, m, 0, m + PAGE, PAGE).rule, 0);
	assert_memory_equal(m, m + PAGE, PAGE);
	tent_ring_close(ring);
	tent_client_detach(c);
	munmap(m, 2 * PAGE);
	munmap(m + 3 * PAGE, PAGE);
}

static void null_only(struct engine_config *c)
{
	c->shm_enable = false;
	c->null_enable = true;
}

static void private_memory_that_nothing_copies_is_refused_with_the_reason(void **state)
{
	static uint8_t m[PAGE];
	struct engine_fix f;
	struct tent_client *c;
	struct tent_error_info info = { .size = sizeof(info) };

	(void)state;
	engine_fix_start(&f, null_only);
	c = engine_fix_attach(&f, NULL);
	assert_int_equal(tent_client_register(c, m, PAGE, 2, NULL, 0), TENT_ERR_ADDRESS);
	tent_client_error(&info);
	assert_int_equal(info.rule, TENT_RULE_MEM_NOT_SHAREABLE);
	assert_non_null(strstr(info.message, "no enabled transport copies"));
	tent_client_detach(c);
	engine_fix_stop(&f);
}

/* ---- letting go --------------------------------------------------------- */

static void hold_shared(struct engine_config *c)
{
	null_only(c);
	strcpy(c->null_faults, "pending=1,hold,late");
}

/* Everything is with the backend until it is asked back. */
static void unregistering_ends_what_is_in_flight_and_returns_after_it(void **state)
{
	struct engine_fix f;
	struct tent_client *owner, *peer;
	struct tent_ring *mine, *his;
	struct tent_completion done;
	uint8_t *m, *n;
	tent_segment_id_t id;

	(void)state;
	engine_fix_start(&f, hold_shared);
	owner = engine_fix_attach(&f, "owner");
	peer = engine_fix_attach(&f, NULL);
	m = engine_fix_memory(owner, SIZE);
	n = engine_fix_memory(peer, SIZE);
	mine = engine_fix_ring(owner);
	his = engine_fix_ring(peer);
	assert_int_equal(tent_client_open_segment(peer, "owner", &id), 0);
	for (int i = 0; i < 20; i++) {
		struct tent_request_v1 r = engine_fix_request(1, m, 0, m + 4096, 64);

		engine_fix_submit(mine, &r);
		r = engine_fix_request(1, n, id, m, 64);
		engine_fix_submit(his, &r);
	}
	while (!tent_ring_consumed(mine, 20) || !tent_ring_consumed(his, 20))
		sched_yield();
	assert_int_equal(tent_client_unregister(owner, m, SIZE), 0);
	for (int i = 0; i < 20; i++) {	/* all of them have ended by now */
		assert_int_equal(tent_ring_poll(mine, &done, 1), 1);
		assert_int_equal(done.rule, TENT_RULE_SOURCE_GONE);
		assert_int_equal(tent_ring_poll(his, &done, 1), 1);
		assert_int_equal(done.rule, TENT_RULE_TARGET_GONE);
		assert_int_equal(done.error, TENT_ERR_OWNER_GONE);
	}
	tent_ring_close(mine);
	tent_ring_close(his);
	tent_client_detach(owner);
	tent_client_detach(peer);
	engine_fix_stop(&f);
}

static void two_pollers(struct engine_config *c)
{
	c->nr_pollers = 2;
}

/* While pollers use the tables, the control thread makes new ones as fast as it can. */
static void registering_beside_running_requests_disturbs_none(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, two_pollers);
	c = engine_fix_attach(&f, NULL);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	for (int i = 0; i < 300; i++) {
		struct tent_request_v1 r = engine_fix_request(1, m, 0, m + SIZE / 2, 256);
		uint8_t *extra = m + 64 * (1 + i % 100);

		memset(m, i, 256);
		engine_fix_submit(ring, &r);
		assert_int_equal(tent_client_register(c, extra, 64, 2, NULL, 0), 0);
		assert_int_equal(engine_fix_wait(ring).status, TENT_STATUS_COMPLETED);
		assert_memory_equal(m, m + SIZE / 2, 256);
		if (i % 3)
			assert_int_equal(tent_client_unregister(c, extra, 64), 0);
	}
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

/* ---- tables ------------------------------------------------------------- */

#define REGIONS 60

struct model {
	struct region regions[REGIONS];
	bool present[REGIONS];
};

static bool leaves(const struct region *r, const void *context)
{
	return r == context;
}

static void discard(struct region_table *t)
{
	if (t != region_table_empty())
		grace_discard(t);
}

/* The table agrees with a plain search over all regions, after each change. */
static void compare(const struct region_table *t, const struct model *m, uint64_t *seed)
{
	for (int probe = 0; probe < 40; probe++) {
		uint64_t addr = random_next(seed) % 1200, length = random_next(seed) % 200;
		const struct region *found = region_find(t, addr, length);
		bool expected = false;

		for (int i = 0; i < REGIONS; i++)
			expected |= m->present[i] && m->regions[i].base <= addr &&
				    m->regions[i].end >= addr + length;
		assert_int_equal(found != NULL, expected);
		if (found)
			assert_true(found->base <= addr && found->end >= addr + length);
	}
	for (int i = 0; i < REGIONS; i++)
		assert_int_equal(region_table_exact(t, m->regions[i].base, m->regions[i].end) ==
				 &m->regions[i], m->present[i]);
}

static void a_table_finds_what_a_plain_search_finds(void **state)
{
	struct region_table *t = region_table_empty(), *next;
	struct model m = { 0 };
	uint64_t seed = 7;

	(void)state;
	for (uint64_t i = 0; i < REGIONS; i++) {	/* distinct ranges that nest and overlap */
		m.regions[i].base = (i * 37) % 1000;
		m.regions[i].end = m.regions[i].base + 1 + i * i % 331;
	}
	for (int step = 0; step < 600; step++) {
		int i = (int)(random_next(&seed) % REGIONS);

		next = m.present[i] ? region_table_without(t, leaves, &m.regions[i]) :
				      region_table_with(t, &m.regions[i]);
		assert_non_null(next);
		discard(t);
		t = next;
		m.present[i] = !m.present[i];
		compare(t, &m, &seed);
	}
	discard(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_that_is_empty_or_wraps_is_refused),
		cmocka_unit_test(only_known_permissions_and_locations_pass),
		cmocka_unit_test(the_same_range_counts_and_others_stand_beside_it),
		cmocka_unit_test(unregistering_the_unknown_succeeds),
		cmocka_unit_test(a_registration_again_cannot_hide_a_change),
		cmocka_unit_test(offsets_must_fit_the_memory_and_its_pages),
		cmocka_unit_test(only_memfds_that_cannot_shrink_are_shared),
		cmocka_unit_test(ranges_of_one_memfd_share_a_mapping_and_the_last_takes_it_along),
		cmocka_unit_test(allocated_memory_goes_with_its_registrations),
		cmocka_unit_test(limits_are_kept_and_given_back),
		cmocka_unit_test(in_process_memory_is_used_in_place_if_it_is_there),
		cmocka_unit_test(private_memory_that_nothing_copies_is_refused_with_the_reason),
		cmocka_unit_test(unregistering_ends_what_is_in_flight_and_returns_after_it),
		cmocka_unit_test(registering_beside_running_requests_disturbs_none),
		cmocka_unit_test(a_table_finds_what_a_plain_search_finds),
	};

	return cmocka_run_group_tests(tests, setup, engine_fix_teardown);
}
