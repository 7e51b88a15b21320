/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_small.c - clocks, cores and sentences: the ring layer's small parts. */
#include "tests/ring_fake.h"

#include <sched.h>
#include <sys/stat.h>

#include "ring/spin.h"

/* ---- clock ---------------------------------------------------------------------- */

/* A second of ticks at 3 GHz and at 24 MHz, exactly. */
static void ticks_become_nanoseconds_at_any_rate(void **state)
{
	struct tick_clock fast = { 1000, 5000, (1ull << 32) / 3 };
	struct tick_clock slow = { 1000, 5000, (1000ull << 32) / 24 };
	uint64_t year = 365ull * 86400;

	(void)state;
	assert_true(ticks_to_ns(&fast, 1000) == 5000);
	assert_in_range(ticks_to_ns(&fast, 1000 + 3000000000u), 5000 + 999999998u,
			5000 + 1000000000u);
	assert_in_range(ticks_to_ns(&slow, 1000 + 24000000u), 5000 + 999999998u,
			5000 + 1000000000u);
	/* a year of uptime does not overflow */
	assert_in_range(ticks_delta_to_ns(&slow, year * 24000000u) / 1000000000u, year - 1,
			year);
}

static void ticks_before_the_origin_are_in_the_past(void **state)
{
	struct tick_clock c = { 1u << 20, 1u << 30, 1ull << 31 };

	(void)state;
	assert_true(ticks_to_ns(&c, (1u << 20) - 100) == (1u << 30) - 50);
}

/* The clock is never further off than the time its own two readings took. */
static void assert_agrees(const struct tick_clock *c, uint64_t slack)
{
	uint64_t before = clock_monotonic_ns();
	uint64_t told = ticks_to_ns(c, ticks_now());
	uint64_t after = clock_monotonic_ns();

	assert_in_range(told, before - slack, after + slack);
}

static void a_calibrated_clock_agrees_with_the_monotonic_one(void **state)
{
	struct tick_clock c;

	(void)state;
	tick_clock_calibrate(&c);
	assert_true(c.tick_mult > 0);
	for (int i = 0; i < 1000; i++)
		assert_agrees(&c, 100000);
	for (int i = 0; i < 5; i++) {
		tick_clock_resync(&c);
		assert_agrees(&c, 100000);
	}
}

static void a_resync_too_soon_keeps_the_rate(void **state)
{
	struct tick_clock c;
	uint64_t rate, origin;

	(void)state;
	tick_clock_calibrate(&c);
	rate = c.tick_mult;
	origin = c.ns_origin = clock_monotonic_ns();
	c.tick_origin = ticks_now();
	tick_clock_resync(&c);
	assert_true(c.tick_mult == rate || clock_monotonic_ns() - origin > 4000000);
}

/* ---- cores ------------------------------------------------------------------------ */

static void affinity_limits_the_usable_cores(void **state)
{
	cpu_set_t all, one;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_in_range(spin_usable_cores(), 1, (uint32_t)CPU_COUNT(&all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(spin_usable_cores(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void write_quota(const char *root, const char *group, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", root, group);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void remove_quota(const char *root, const char *group)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
	unlink(path);
	snprintf(path, sizeof(path), "%s%s", root, group);
	rmdir(path);
}

static void the_tightest_quota_above_a_group_counts(void **state)
{
	char root[] = "/tmp/tent-cgroup-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(root));
	write_quota(root, "/a", "200000 100000\n");
	write_quota(root, "/a/b", "max 100000\n");
	write_quota(root, "/a/b/c", "450000 100000\n");
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b/c\n"), 2);
	assert_int_equal(spin_cgroup_cores(root, "12:cpu:/x\n1:name=y:/\n0::/a/b/c\n"), 2);
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b"), 2);
	write_quota(root, "/a", "max 100000\n");
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b/c\n"), 4);
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b\n"), UINT32_MAX);
	write_quota(root, "/a/b", "50000 100000\n");	/* half a core is one spinner */
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b/c\n"), 1);
	write_quota(root, "/a/b", "nonsense\n");
	write_quota(root, "/a", "100000 0\n");
	assert_int_equal(spin_cgroup_cores(root, "0::/a/b\n"), UINT32_MAX);
	assert_int_equal(spin_cgroup_cores(root, "0::/\n"), UINT32_MAX);
	assert_int_equal(spin_cgroup_cores(root, "0::/gone\n"), UINT32_MAX);
	assert_int_equal(spin_cgroup_cores(root, "3:cpu:/a\n"), UINT32_MAX); /* only v1 */
	assert_int_equal(spin_cgroup_cores(root, ""), UINT32_MAX);
	remove_quota(root, "/a/b/c");
	remove_quota(root, "/a/b");
	remove_quota(root, "/a");
	rmdir(root);
}

/* A container's own root has its quota at the root of the mount. */
static void the_quota_of_the_mount_itself_counts(void **state)
{
	char root[] = "/tmp/tent-cgroup-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(root));
	write_quota(root, "", "300000 100000\n");
	assert_int_equal(spin_cgroup_cores(root, "0::/\n"), 3);
	assert_int_equal(spin_cgroup_cores(root, "0::/some/path\n"), 3);
	remove_quota(root, "");
}

/* ---- rules ------------------------------------------------------------------------- */

static void every_rule_has_a_field_a_name_and_a_sentence(void **state)
{
	char text[512];

	(void)state;
#define CHECK(rule, number, category, rule_field, rule_allowed)			\
	assert_int_equal(tent_rule_error(number), TENT_ERR_##category);		\
	assert_string_equal(tent_rule_field(TENT_RULE_##rule), rule_field);	\
	assert_string_equal(tent_rule_name(TENT_RULE_##rule), #rule);		\
	tent_rule_describe(number, 7, text, sizeof(text));			\
	assert_true(strstr(text, rule_field " is ") || strstr(text, rule_field " has ")); \
	assert_non_null(strstr(text, "; allowed: " rule_allowed));		\
	assert_true(number < TENT_RULE_COUNT);					\
	assert_true(strlen(text) < sizeof(((struct tent_error_info *)0)->message));
	TENT_RULES(CHECK)
#undef CHECK
}

static void a_sentence_names_the_value(void **state)
{
	char text[256];

	(void)state;
	tent_rule_describe(TENT_RULE_OPCODE, 9, text, sizeof(text));
	assert_string_equal(text, "opcode is 9; allowed: 0 READ or 1 WRITE");
	tent_rule_describe(TENT_RULE_OPCODE, -1, text, sizeof(text));
	assert_string_equal(text, "opcode is -1; allowed: 0 READ or 1 WRITE");
	tent_rule_describe(TENT_RULE_SOURCE_UNREGISTERED, 0x7f00, text, sizeof(text));
	assert_string_equal(text, "source is 0x7f00; allowed: inside one buffer this program "
				  "registered");
	tent_rule_describe(TENT_RULE_POLICY_UNKNOWN, 4, text, sizeof(text));
	assert_string_equal(text, "policy_name has a length of 4; allowed: a configured policy");
	tent_rule_describe(TENT_RULE_POLICY_CHARS, ' ', text, sizeof(text));
	assert_string_equal(text, "policy_name has the byte 0x20; allowed: "
				  "only A-Z a-z 0-9 . _ : / -");
}

static void a_sentence_ends_inside_its_buffer(void **state)
{
	char text[64];

	(void)state;
	for (size_t size = 0; size < sizeof(text); size++) {
		memset(text, 0x7f, sizeof(text));
		tent_rule_describe(TENT_RULE_OPCODE, 9, text, size);
		for (size_t i = size; i < sizeof(text); i++)
			assert_int_equal(text[i], 0x7f);
		if (size)
			assert_true(strlen(text) < size);
	}
}

static void an_unknown_rule_is_a_runtime_failure(void **state)
{
	static const uint32_t unknown[] = { 4, 127, TENT_RULE_COUNT, UINT32_MAX };
	char text[64];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(tent_rule_error(unknown[i]), TENT_ERR_RUNTIME);
		assert_string_equal(tent_rule_field(unknown[i]), "");
		assert_string_equal(tent_rule_name(unknown[i]), "");
		tent_rule_describe(unknown[i], 5, text, sizeof(text));
		assert_non_null(strstr(text, "value 5"));
	}
	assert_int_equal(tent_rule_error(TENT_RULE_NONE), TENT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ticks_become_nanoseconds_at_any_rate),
		cmocka_unit_test(ticks_before_the_origin_are_in_the_past),
		cmocka_unit_test(a_calibrated_clock_agrees_with_the_monotonic_one),
		cmocka_unit_test(a_resync_too_soon_keeps_the_rate),
		cmocka_unit_test(affinity_limits_the_usable_cores),
		cmocka_unit_test(the_tightest_quota_above_a_group_counts),
		cmocka_unit_test(the_quota_of_the_mount_itself_counts),
		cmocka_unit_test(every_rule_has_a_field_a_name_and_a_sentence),
		cmocka_unit_test(a_sentence_names_the_value),
		cmocka_unit_test(a_sentence_ends_inside_its_buffer),
		cmocka_unit_test(an_unknown_rule_is_a_runtime_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
