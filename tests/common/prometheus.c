/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.c - see prometheus.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/prometheus.h"

struct family {
	char name[96], type[16];
	int samples;
	/* of a histogram: the series that goes on */
	char series[96];
	double le;
	long long count, inf;
};

static size_t name_length(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789");

	return *text >= '0' && *text <= '9' ? 0 : n;
}

/* {a="b",c="d"}; takes le out. Returns what follows. */
static const char *read_labels(const char *at, char series[96], double *le)
{
	series[0] = '\0';
	*le = -1;
	if (*at != '{')
		return at;
	do {
		size_t name = name_length(++at);
		const char *text = at + name + 2, *end = strchr(text, '"');

		assert_true(name && at[name] == '=' && at[name + 1] == '"' && end);
		if (name == 2 && strncmp(at, "le", 2) == 0)
			*le = strncmp(text, "+Inf", 4) == 0 ? 1e300 : atof(text);
		else
			strncat(series, at, (size_t)(end - at) + 1);
		at = end + 1;
	} while (*at == ',');
	assert_int_equal(*at, '}');
	return at + 1;
}

static void judge_bucket(struct family *f, const char *series, double le, long long number)
{
	if (strcmp(f->series, series) != 0) {
		strcpy(f->series, series);	/* another transport's begins */
		f->count = 0;
		f->le = 0;
	}
	assert_true(le > f->le && number >= f->count);
	f->le = le;
	f->count = number;
	if (le == 1e300)
		f->inf = number;
}

static void judge_sample(struct family *f, const char *line)
{
	size_t name = name_length(line), base = strlen(f->name);
	char series[96], *end;
	const char *at, *suffix = line + base;
	long long number;
	double le;

	assert_true(name > 0 && strncmp(line, f->name, base) == 0);
	at = read_labels(line + name, series, &le);
	assert_int_equal(*at++, ' ');
	number = strtoll(at, &end, 10);
	assert_true(end != at && *end == '\n' && number >= 0);
	f->samples++;
	if (strcmp(f->type, "histogram") != 0) {
		assert_int_equal(name, base);
		assert_true(le == -1);
	} else if (strncmp(suffix, "_bucket{", 8) == 0) {
		assert_true(le >= 0);
		judge_bucket(f, series, le, number);
	} else if (strncmp(suffix, "_count", 6) == 0) {
		assert_int_equal(number, f->inf);
	} else {
		assert_int_equal(strncmp(suffix, "_sum", 4), 0);
	}
}

static void begin_family(struct family *all, size_t nr, const char *help, const char *type)
{
	struct family *f = &all[nr];

	memset(f, 0, sizeof(*f));
	assert_int_equal(sscanf(help, "# HELP %95s", f->name), 1);
	assert_int_equal(name_length(f->name), strlen(f->name));
	assert_true(strncmp(f->name, "tent_", 5) == 0);
	assert_int_equal(strncmp(type, "# TYPE ", 7), 0);
	assert_int_equal(strncmp(type + 7, f->name, strlen(f->name)), 0);
	assert_int_equal(sscanf(type + 7 + strlen(f->name), " %15s", f->type), 1);
	assert_true(strcmp(f->type, "counter") == 0 || strcmp(f->type, "gauge") == 0 ||
		    strcmp(f->type, "histogram") == 0);
	assert_int_equal(strcmp(f->type, "counter") == 0, strstr(f->name, "_total") != NULL);
	for (size_t i = 0; i < nr; i++)
		assert_string_not_equal(all[i].name, f->name);
}

size_t prometheus_judge(const char *text)
{
	static struct family all[256];
	size_t nr = 0;

	assert_true(*text && text[strlen(text) - 1] == '\n');
	while (*text) {
		const char *next = strchr(text, '\n') + 1;

		if (*text == '#') {
			assert_true(nr < 256);
			begin_family(all, nr++, text, next);
			next = strchr(next, '\n') + 1;
		} else {
			assert_true(nr > 0);
			judge_sample(&all[nr - 1], text);
		}
		text = next;
	}
	return nr;
}
