/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentctl_top.c - what each client did in the last interval, again and again. Two
 * answers of tentd make one picture: rates are differences, so tentd keeps nothing for
 * it. A client that came meanwhile began at nothing; one that left is not shown.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <tent/ctl.h>
#include <tent/tentring.h>

#include "ring/clock.h"
#include "tools/tentctl.h"

#define INTERVAL_MIN_S 0.01
#define INTERVAL_MAX_S 86400.0
#define HEADER_LINES 7	/* above the clients, and the prompt below them */

struct top {
	uint64_t interval_ns;
	uint64_t count;		/* pictures; 0: until it is interrupted */
};

/* One answer and its moment. */
struct sample {
	json_t *clients;	/* array */
	uint64_t at_ns;		/* CLOCK_MONOTONIC */
};

/* ---- command line ------------------------------------------------------ */

static bool parse_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= INTERVAL_MIN_S && seconds <= INTERVAL_MAX_S))
		return false;
	*ns = (uint64_t)(seconds * 1e9);
	return true;
}

static bool parse_count(const char *text, uint64_t *count)
{
	char *end;

	errno = 0;
	*count = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *count;
}

static enum tentctl_exit read_options(struct top *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 }
	};
	int option;

	optind = 0;	/* a new array */
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == '?')
			return TENTCTL_USAGE;
		if (option == 'i' && !parse_seconds(optarg, &t->interval_ns)) {
			tentctl_say("--interval %s; allowed: 0.01..86400 seconds", optarg);
			return TENTCTL_USAGE;
		}
		if (option == 'n' && !parse_count(optarg, &t->count)) {
			tentctl_say("--count %s; allowed: a number from 1 on", optarg);
			return TENTCTL_USAGE;
		}
	}
	if (optind == argc)
		return TENTCTL_OK;
	tentctl_say("top: unexpected argument %s", argv[optind]);
	return TENTCTL_USAGE;
}

/* ---- differences ------------------------------------------------------- */

static int64_t number(const json_t *client, const char *name)
{
	return client ? json_integer_value(json_object_get(client, name)) : 0;
}

static const json_t *find(const json_t *clients, int64_t id)
{
	const json_t *client;
	size_t i;

	json_array_foreach(clients, i, client)
		if (number(client, "id") == id)
			return client;
	return NULL;
}

static json_int_t per_second(int64_t done, uint64_t ns)
{
	return ns ? (json_int_t)((double)done * 1e9 / (double)ns + 0.5) : 0;
}

static json_t *row_of(const json_t *now, const json_t *before, uint64_t ns)
{
#define DONE(name) (number(now, name) - number(before, name))
	return json_pack("{s:O,s:O,s:O,s:O,s:I,s:I,s:I,s:I,s:I,s:I}",
		"client", json_object_get(now, "id"),
		"uid", json_object_get(now, "uid"),
		"pid", json_object_get(now, "pid"),
		"segment", json_object_get(now, "segment"),
		"requests_per_s", per_second(DONE("requests"), ns),
		"bytes_per_s", per_second(DONE("bytes"), ns),
		"in_flight", (json_int_t)number(now, "in_flight"),
		"failed", (json_int_t)DONE("failed"),
		"met", (json_int_t)DONE("deadlines_met"),
		"missed", (json_int_t)DONE("deadlines_missed"));
#undef DONE
}

/* The busiest first. */
static int compare_rows(const void *left, const void *right)
{
	static const char *const keys[] = { "bytes_per_s", "requests_per_s", "client" };
	const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int64_t x = number(a, keys[i]), y = number(b, keys[i]);

		if (x != y)
			return x > y ? -1 : 1;
	}
	return 0;
}

static json_t *sorted(json_t *rows, size_t max)
{
	size_t nr = json_array_size(rows), i;
	json_t **list = calloc(nr + 1, sizeof(*list)), *row, *out = json_array();

	if (!list) {
		json_decref(out);
		return rows;
	}
	json_array_foreach(rows, i, row)
		list[i] = row;
	qsort(list, nr, sizeof(*list), compare_rows);
	for (i = 0; i < nr && i < max; i++)
		json_array_append(out, list[i]);
	free(list);
	json_decref(rows);
	return out;
}

/* All of them, whether a row of theirs is shown or not. */
static json_t *sum_of(const json_t *rows, uint64_t ns)
{
	static const char *const keys[] = {
		"requests_per_s", "bytes_per_s", "in_flight", "failed", "met", "missed"
	};
	json_t *sum = json_pack("{s:I}", "interval_ms", (json_int_t)(ns / 1000000));

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const json_t *row;
		int64_t total = 0;
		size_t i;

		json_array_foreach(rows, i, row)
			total += number(row, keys[k]);
		json_object_set_new(sum, keys[k], json_integer(total));
	}
	return sum;
}

/* Observers have none. */
static bool owns_segment(const json_t *client)
{
	const char *name = json_string_value(json_object_get(client, "segment"));

	return name && *name;
}

static json_t *picture(const struct sample *now, const struct sample *before, size_t rows_max)
{
	uint64_t ns = now->at_ns - before->at_ns;
	json_t *rows = json_array(), *all;
	const json_t *client;
	size_t i;

	json_array_foreach(now->clients, i, client)
		if (owns_segment(client))
			json_array_append_new(rows, row_of(client, find(before->clients,
							   number(client, "id")), ns));
	all = sum_of(rows, ns);
	json_object_set_new(all, "clients", sorted(rows, rows_max));
	return all;
}

/* ---- the loop ---------------------------------------------------------- */

static enum tentctl_exit take_sample(const struct tentctl_options *o, struct tent_client *client,
				     struct sample *s)
{
	json_t *root;
	char *text;

	if (tent_client_query(client, TENT_QUERY_CLIENTS, &text))
		return tentctl_say_error(o);
	s->at_ns = clock_monotonic_ns();
	root = json_loads(text, 0, NULL);
	free(text);
	s->clients = json_incref(json_object_get(root, "clients"));
	json_decref(root);
	if (json_is_array(s->clients))
		return TENTCTL_OK;
	tentctl_say("tentd's answer has no clients in it");
	return TENTCTL_FAILED;
}

static void wait_until(uint64_t ns)
{
	const struct timespec t = {
		.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Rows that a terminal has room for; anything else takes all. */
static size_t rows_that_fit(bool on_terminal)
{
	struct winsize size;

	if (!on_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ||
	    size.ws_row <= HEADER_LINES)
		return SIZE_MAX;
	return size.ws_row - HEADER_LINES;
}

static enum tentctl_exit show(const struct tentctl_options *o, const struct sample *now,
			      const struct sample *before)
{
	bool on_terminal = !o->json && isatty(STDOUT_FILENO);
	json_t *all = picture(now, before, rows_that_fit(on_terminal));

	if (on_terminal)
		fputs("\033[H\033[2J", stdout);	/* home, and nothing below it */
	tentctl_print_value(o, all);
	json_decref(all);
	if (!on_terminal && !o->json)
		putchar('\n');
	if (fflush(stdout) == 0)
		return TENTCTL_OK;
	tentctl_say("standard output: %s", strerror(errno));
	return TENTCTL_FAILED;
}

static enum tentctl_exit watch(const struct tentctl_options *o, struct tent_client *client,
			       const struct top *t)
{
	struct sample before = { NULL, 0 }, now;
	enum tentctl_exit rc = take_sample(o, client, &before);
	uint64_t next = before.at_ns;

	for (uint64_t i = 0; !rc && (!t->count || i < t->count); i++) {
		next += t->interval_ns;
		wait_until(next);
		now = (struct sample){ NULL, 0 };
		rc = take_sample(o, client, &now);
		if (!rc)
			rc = show(o, &now, &before);
		json_decref(before.clients);
		before = now;
		if (next + t->interval_ns < now.at_ns)
			next = now.at_ns;	/* we were stopped: no burst */
	}
	json_decref(before.clients);
	return rc;
}

enum tentctl_exit tentctl_top(const struct tentctl_options *o, int argc, char **argv)
{
	struct top t = { .interval_ns = 1000000000 };
	enum tentctl_exit rc = read_options(&t, argc, argv);
	struct tent_client *client;

	if (rc)
		return rc;
	if (tent_client_observe(o->socket, &client))
		return tentctl_say_error(o);
	rc = watch(o, client, &t);
	tent_client_detach(client);
	return rc;
}
