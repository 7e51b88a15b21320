/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c - sorted arrays of all values; nothing is estimated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/common/samples.h"

static void resize(struct samples *s, size_t room)
{
	uint64_t *values = realloc(s->values, room * sizeof(*values));

	if (!values) {
		fprintf(stderr, "out of memory for %zu samples\n", room);
		exit(1);
	}
	memset(values + s->nr, 0, (room - s->nr) * sizeof(*values));
	s->values = values;
	s->room = room;
}

void samples_init(struct samples *s, size_t nr)
{
	*s = (struct samples) { 0 };
	resize(s, nr ? nr : 1);
}

void samples_free(struct samples *s)
{
	free(s->values);
	*s = (struct samples) { 0 };
}

void samples_grow(struct samples *s)
{
	resize(s, s->room ? s->room * 2 : 1024);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort(struct samples *s)
{
	if (!s->sorted && s->nr)
		qsort(s->values, s->nr, sizeof(*s->values), compare);
	s->sorted = true;
}

uint64_t samples_percentile(struct samples *s, double share)
{
	double exact = share * (double)s->nr;
	size_t rank = (size_t)exact;

	if (!s->nr)
		return 0;
	sort(s);
	if ((double)rank < exact)
		rank++;
	if (rank < 1)
		rank = 1;
	return s->values[(rank < s->nr ? rank : s->nr) - 1];
}

uint64_t samples_max(struct samples *s)
{
	return samples_percentile(s, 1.0);
}
