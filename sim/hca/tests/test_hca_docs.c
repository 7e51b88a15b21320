/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_docs.c - the manual page of tent-sim has every setting and what it takes, and
 * with README.md every variable that is read or set.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/host/parts.h"

static char page[65536], readme[65536], source[65536];

/* Tests run in the source tree. */
static int read_text(const char *path, char to[65536])
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(to, 1, 65535, f) : 0;

	if (f)
		fclose(f);
	to[n] = '\0';
	return n ? 0 : -1;
}

static int read_texts(void **state)
{
	(void)state;
	return read_text("docs/tent-sim.1", page) || read_text("sim/hca/README.md", readme);
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

/* ---- variables ------------------------------------------------------------------- */

static char seen[1024];			/* " TENT_SIM_A TENT_SIM_B " */

/* The name that begins at `at`, without the number that may follow. */
static void name_at(const char *at, char name[64])
{
	int n = 0;

	while (n < 63 && (isupper(at[n]) || at[n] == '_'))
		n++;
	while (n && at[n - 1] == '_')
		n--;
	snprintf(name, 64, "%.*s", n, at);
}

static void check_source(const char *path)
{
	char name[64];

	for (const char *at = source; (at = strstr(at, "\"TENT_")); at++) {
		name_at(at + 1, name);
		if (strncmp(name, "TENT_SIM_", 9) || !strstr(page, name) || !strstr(readme, name))
			fail_msg("%s: %s is of another family, or not in both texts", path, name);
		strncat(seen, " ", sizeof(seen) - strlen(seen) - 1);
		strncat(seen, name, sizeof(seen) - strlen(seen) - 1);
	}
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *name = path + at->base, *end = strrchr(name, '.');

	(void)st;
	if (type == FTW_D && at->level == 1 && (!strcmp(name, "tests") || !strcmp(name, "judges")))
		return FTW_SKIP_SUBTREE;
	if (type != FTW_F || !end || (strcmp(end, ".c") && strcmp(end, ".h")))
		return FTW_CONTINUE;
	assert_int_equal(read_text(path, source), 0);
	check_source(path);
	return FTW_CONTINUE;
}

static void check_text(const char *text)
{
	char name[64];

	for (const char *at = text; (at = strstr(at, "TENT_SIM_")); at++) {
		name_at(at, name);
		if (!strstr(seen, name))
			fail_msg("nothing reads or sets %s", name);
	}
}

static void variables_are_of_one_family_and_in_both_texts(void **state)
{
	(void)state;
	assert_int_equal(nftw("sim/hca", visit, 16, FTW_ACTIONRETVAL | FTW_PHYS), 0);
	check_text(page);
	check_text(readme);
}

/* ---- what README.md names -------------------------------------------------------- */

static void every_test_that_is_named_exists(void **state)
{
	char path[128];
	int n;

	(void)state;
	for (const char *at = readme; (at = strstr(at, "test_hca_")); at++) {
		n = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
		if (n == (int)strlen("test_hca_"))
			continue;	/* test_hca_X stands for all */
		snprintf(path, sizeof(path), "sim/hca/tests/%.*s.c", n, at);
		if (access(path, F_OK))
			fail_msg("README.md names %s", path);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_setting_is_in_the_manual),
		cmocka_unit_test(every_kind_of_value_is_in_the_manual),
		cmocka_unit_test(no_other_setting_is_in_the_manual),
		cmocka_unit_test(variables_are_of_one_family_and_in_both_texts),
		cmocka_unit_test(every_test_that_is_named_exists),
	};

	return cmocka_run_group_tests(tests, read_texts, NULL);
}
