/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - reads a trace. Strict: a line is one flat object of numbers and
 * arrays of numbers, or the file is refused. Unknown keys are skipped.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/replay/trace.h"

#define LINE_IDS_MAX (1u << 20)
#define MS 1000ull		/* microseconds */

struct reader {
	struct trace *trace;
	size_t requests_room, ids_room;
	const char *at;		/* in the current line */
	const char *why;	/* what is wrong with it */
};

static int bad(struct reader *r, const char *why)
{
	r->why = why;
	return -1;
}

static void *grow(void *array, size_t *room, size_t nr, size_t item)
{
	size_t want = *room ? *room * 2 : 1024;
	void *bigger;

	if (nr < *room)
		return array;
	bigger = realloc(array, want * item);
	if (bigger)
		*room = want;
	return bigger;
}

static void skip_space(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n')
		r->at++;
}

static int expect(struct reader *r, char c, const char *why)
{
	skip_space(r);
	if (*r->at != c)
		return bad(r, why);
	r->at++;
	skip_space(r);
	return 0;
}

static int number(struct reader *r, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)*r->at))
		return bad(r, "a non-negative integer is expected");
	errno = 0;
	*value = strtoull(r->at, &end, 10);
	if (errno)
		return bad(r, "a number is too large");
	r->at = end;
	return 0;
}

static int add_id(struct reader *r, uint64_t id)
{
	struct trace *t = r->trace;
	uint64_t *ids = grow(t->ids, &r->ids_room, t->nr_ids, sizeof(*ids));

	if (!ids || t->nr_ids >= UINT32_MAX)
		return bad(r, "out of memory");
	t->ids = ids;
	t->ids[t->nr_ids++] = id;
	return 0;
}

/* "[1, 2, 3]". keep: the ids go to the trace. */
static int array(struct reader *r, int keep)
{
	uint64_t value;

	if (expect(r, '[', "'[' is expected"))
		return -1;
	if (*r->at == ']') {
		r->at++;
		return 0;
	}
	for (uint32_t i = 0; i < LINE_IDS_MAX; i++) {
		if (number(r, &value) || (keep && add_id(r, value)))
			return -1;
		skip_space(r);
		if (*r->at == ']') {
			r->at++;
			return 0;
		}
		if (expect(r, ',', "',' or ']' is expected in an array"))
			return -1;
	}
	return bad(r, "an array is too long");
}

static int value_of(struct reader *r, const char *key, size_t length,
		    struct trace_request *q, unsigned int *seen)
{
	uint64_t ignored;

	if (length == 9 && !memcmp(key, "timestamp", 9)) {
		*seen |= 1;
		if (number(r, &q->arrival_us))
			return -1;
		return __builtin_mul_overflow(q->arrival_us, MS, &q->arrival_us) ?
		       bad(r, "timestamp is too large") : 0;
	}
	if (length == 8 && !memcmp(key, "hash_ids", 8)) {
		if (*seen & 2)
			return bad(r, "hash_ids appears twice");
		*seen |= 2;
		return array(r, 1);
	}
	return *r->at == '[' ? array(r, 0) : number(r, &ignored);
}

static int member(struct reader *r, struct trace_request *q, unsigned int *seen)
{
	const char *key;
	size_t length;

	if (expect(r, '"', "a key is expected"))
		return -1;
	key = r->at;
	length = strcspn(key, "\"\\");
	if (key[length] != '"')
		return bad(r, "a key does not end");
	r->at = key + length + 1;
	if (expect(r, ':', "':' is expected after a key"))
		return -1;
	return value_of(r, key, length, q, seen);
}

static int object(struct reader *r, struct trace_request *q)
{
	unsigned int seen = 0;

	if (expect(r, '{', "'{' is expected"))
		return -1;
	do {
		if (member(r, q, &seen))
			return -1;
		skip_space(r);
	} while (*r->at == ',' && r->at++);
	if (expect(r, '}', "',' or '}' is expected"))
		return -1;
	if (*r->at)
		return bad(r, "text after the object");
	return seen == 3 ? 0 : bad(r, "timestamp and hash_ids are required");
}

static int add_line(struct reader *r, const char *line)
{
	struct trace *t = r->trace;
	struct trace_request q = { .first = (uint32_t)t->nr_ids }, *requests;

	r->at = line;
	if (object(r, &q))
		return -1;
	q.nr = (uint32_t)t->nr_ids - q.first;
	if (t->nr_requests && q.arrival_us < t->requests[t->nr_requests - 1].arrival_us)
		return bad(r, "timestamp goes back");
	requests = grow(t->requests, &r->requests_room, t->nr_requests, sizeof(q));
	if (!requests)
		return bad(r, "out of memory");
	t->requests = requests;
	t->requests[t->nr_requests++] = q;
	return 0;
}

static int read_lines(struct reader *r, FILE *f, size_t max, size_t *at)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n = 0;
	int rc = 0;

	while (!rc && (!max || r->trace->nr_requests < max) &&
	       (n = getline(&line, &room, f)) >= 0) {
		++*at;
		if (line[strspn(line, " \t\r\n")] == '\0' && strlen(line) == (size_t)n)
			continue;
		rc = strlen(line) == (size_t)n ? add_line(r, line) : bad(r, "a NUL byte");
	}
	if (!rc && ferror(f))
		rc = bad(r, "the file cannot be read");
	free(line);
	return rc;
}

int trace_load(struct trace *t, const char *path, size_t max, char *error,
	       size_t error_size)
{
	struct reader r = { .trace = t };
	size_t line = 0;
	FILE *f;
	int rc;

	*t = (struct trace) { 0 };
	f = fopen(path, "re");
	if (!f) {
		snprintf(error, error_size, "%s: %s", path, strerror(errno));
		return -1;
	}
	rc = read_lines(&r, f, max, &line);
	fclose(f);
	if (!rc && !t->nr_requests)
		rc = bad(&r, "no request");
	if (rc) {
		snprintf(error, error_size, "%s line %zu: %s", path, line, r.why);
		trace_free(t);
	}
	return rc;
}

void trace_free(struct trace *t)
{
	free(t->requests);
	free(t->ids);
	*t = (struct trace) { 0 };
}

/* xorshift64*: the next of a stream of jitters; its state must not be zero. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/* Spreads requests [first, last), which arrive together, over gap_us. */
static void spread_group(struct trace *t, size_t first, size_t last, uint64_t gap_us,
			 uint64_t *state)
{
	uint64_t nr = last - first;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t from = gap_us * i / nr, to = gap_us * (i + 1) / nr;

		t->requests[first + i].arrival_us += from +
			(to > from ? next_random(state) % (to - from) : 0);
	}
}

void trace_spread(struct trace *t, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15ull | 1, gap_us = 0;
	size_t last;

	for (size_t first = 0; first < t->nr_requests; first = last) {
		uint64_t at = t->requests[first].arrival_us;

		for (last = first + 1; last < t->nr_requests; last++)
			if (t->requests[last].arrival_us != at)
				break;
		if (last < t->nr_requests)	/* the last group keeps the gap before it */
			gap_us = t->requests[last].arrival_us - at;
		spread_group(t, first, last, gap_us, &state);
	}
}
