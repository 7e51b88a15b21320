/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_docs.c - the manual page of tent-sim has every setting and what it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/host/parts.h"

static char page[65536];

/* Tests run in the source tree. */
static int read_page(void **state)
{
	FILE *f = fopen("docs/tent-sim.1", "re");
	size_t n = f ? fread(page, 1, sizeof(page) - 1, f) : 0;

	(void)state;
	if (f)
		fclose(f);
	return n ? 0 : -1;
}

static void every_setting_is_in_the_manual(void **state)
{
	(void)state;
	for (unsigned i = 0; i < nr_knobs; i++) {
		char text[64];

		snprintf(text, sizeof(text), "\n.It Cm %s%sNs =", knobs[i].name,
			 knobs[i].kind == KNOB_GID ? ". Ns Ar index " : " ");
		if (!strstr(page, text))
			fail_msg("tent-sim.1 lacks \"%s\"", text + 1);
	}
}

static void every_kind_of_value_is_in_the_manual(void **state)
{
	(void)state;
	for (unsigned i = 0; i < nr_knobs; i++)
		if (!strstr(page, knob_values(knobs[i].kind)))
			fail_msg("tent-sim.1 lacks \"%s\"", knob_values(knobs[i].kind));
}

static void no_other_setting_is_in_the_manual(void **state)
{
	unsigned nr = 0;

	(void)state;
	for (const char *at = page; (at = strstr(at, "\n.It Cm ")); at++)
		nr++;
	assert_int_equal(nr, nr_knobs);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_setting_is_in_the_manual),
		cmocka_unit_test(every_kind_of_value_is_in_the_manual),
		cmocka_unit_test(no_other_setting_is_in_the_manual),
	};

	return cmocka_run_group_tests(tests, read_page, NULL);
}
