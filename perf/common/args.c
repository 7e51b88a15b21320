/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - getopt_long over a table, with errors that say what is allowed. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/common/args.h"

#define ARGS_MAX 40
#define ARG_BAD 2	/* exit status */
#define ARG_BASE 256	/* option values beyond any short option */

/* 0: it has none. */
static char letter_of(const struct arg *a)
{
	return a->name[0] && a->name[1] == ',' ? a->name[0] : '\0';
}

static const char *long_name(const struct arg *a)
{
	return letter_of(a) ? a->name + 2 : a->name;
}

int args_parse_size(const char *text, uint64_t *size)
{
	static const char suffixes[] = "KMGT";
	uint64_t number;
	const char *at;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno == ERANGE)
		return errno ? -ERANGE : -EINVAL;
	if (*end == '\0') {
		*size = number;
		return 0;
	}
	at = strchr(suffixes, toupper((unsigned char)*end));
	if (!at || (end[1] && strcmp(end + 1, "iB") && strcmp(end + 1, "B")))
		return -EINVAL;
	if (__builtin_mul_overflow(number, 1ull << (10 * (at - suffixes + 1)), size))
		return -ERANGE;
	return 0;
}

static int choice_find(const char *choices, const char *text)
{
	size_t length = strlen(text);

	for (int i = 0; *choices; i++) {
		size_t n = strcspn(choices, "|");

		if (n == length && !memcmp(choices, text, n))
			return i;
		choices += n + (choices[n] == '|');
	}
	return -1;
}

/* Name of choice i in "a|b|c". The text is valid until the next call. */
static const char *choice_name(const char *choices, int i)
{
	static char name[32];

	for (; i > 0 && *choices; i--) {
		choices += strcspn(choices, "|");
		choices += *choices == '|';
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(choices, "|"), choices);
	return name;
}

static void size_text(uint64_t size, char *text, size_t room)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	unsigned int unit = 0;

	while (size && size % 1024 == 0 && unit < 4) {
		size /= 1024;
		unit++;
	}
	snprintf(text, room, "%llu%s", (unsigned long long)size, units[unit]);
}

static int refuse_range(const struct arg *a, const char *text)
{
	char low[24], high[24];

	if (a->kind == ARG_NUMBER) {
		snprintf(low, sizeof(low), "%llu", (unsigned long long)a->min);
		snprintf(high, sizeof(high), "%llu", (unsigned long long)a->max);
	} else {
		size_text(a->min, low, sizeof(low));
		size_text(a->max, high, sizeof(high));
	}
	fprintf(stderr, "--%s is %s; allowed: %s..%s\n", long_name(a), text, low, high);
	return ARG_BAD;
}

static int take_number(const struct arg *a, const char *text)
{
	uint64_t value;
	char *end;

	if (a->kind != ARG_NUMBER) {
		if (args_parse_size(text, &value))
			return refuse_range(a, text);
	} else {
		errno = 0;
		value = strtoull(text, &end, 10);
		if (errno || *end || !isdigit((unsigned char)*text))
			return refuse_range(a, text);
	}
	if (value < a->min || value > a->max)
		return refuse_range(a, text);
	*(uint64_t *)a->value = value;
	return 0;
}

static int take(const struct arg *a, const char *text)
{
	int choice;

	switch (a->kind) {
	case ARG_FLAG:
		*(bool *)a->value = true;
		return 0;
	case ARG_TEXT:
		*(const char **)a->value = text;
		return 0;
	case ARG_CHOICE:
		choice = choice_find(a->choices, text);
		if (choice < 0) {
			fprintf(stderr, "--%s is %s; allowed: %s\n", long_name(a),
				text, a->choices);
			return ARG_BAD;
		}
		*(int *)a->value = choice;
		return 0;
	case ARG_NUMBER:
	case ARG_SIZE:
		return take_number(a, text);
	}
	return ARG_BAD;
}

static void default_text(const struct arg *a, char *text, size_t room)
{
	const char *word = "";

	switch (a->kind) {
	case ARG_NUMBER:
		snprintf(text, room, "%llu",
			 (unsigned long long)*(uint64_t *)a->value);
		return;
	case ARG_SIZE:
		size_text(*(uint64_t *)a->value, text, room);
		return;
	case ARG_TEXT:
		word = *(const char **)a->value ? *(const char **)a->value : "";
		break;
	case ARG_CHOICE:
		word = choice_name(a->choices, *(int *)a->value);
		break;
	case ARG_FLAG:
		break;
	}
	snprintf(text, room, "%s", word);
}

static void print_help(const char *program, const char *title, const struct arg *args)
{
	printf("%s: %s\n\n", program, title);
	for (const struct arg *a = args; a->name; a++) {
		static const char *const words[] = { "", " N", " SIZE", " TEXT", " " };
		const char letter[] = { '-', letter_of(a), ',', ' ', '\0' };
		char left[64], text[128];

		snprintf(left, sizeof(left), "%s--%s%s%s", letter_of(a) ? letter : "",
			 long_name(a), words[a->kind],
			 a->kind == ARG_CHOICE ? a->choices : "");
		default_text(a, text, sizeof(text));
		printf("  %-34s %s%s%s%s\n", left, a->help, *text ? " [" : "", text,
		       *text ? "]" : "");
	}
	printf("  %-34s this text\n", "--help");
}

static void build_options(const struct arg *args, struct option *options)
{
	unsigned int nr = 0;

	for (; args[nr].name && nr < ARGS_MAX; nr++)
		options[nr] = (struct option) {
			.name = long_name(&args[nr]),
			.has_arg = args[nr].kind == ARG_FLAG ? no_argument : required_argument,
			.val = ARG_BASE + (int)nr,
		};
	options[nr] = (struct option) { .name = "help", .val = 'h' };
}

static void build_letters(const struct arg *args, char *letters)
{
	*letters++ = 'h';
	for (; args->name; args++) {
		if (!letter_of(args))
			continue;
		*letters++ = letter_of(args);
		if (args->kind != ARG_FLAG)
			*letters++ = ':';
	}
	*letters = '\0';
}

/* By what getopt_long found; NULL: nothing. */
static const struct arg *find(const struct arg *args, int c)
{
	if (c >= ARG_BASE)
		return &args[c - ARG_BASE];
	while (args->name && letter_of(args) != c)
		args++;
	return args->name ? args : NULL;
}

int args_parse(int argc, char **argv, const char *title, const struct arg *args)
{
	struct option options[ARGS_MAX + 2] = { 0 };
	char letters[2 * ARGS_MAX + 2];
	const struct arg *a;
	const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	int c, rc;

	build_options(args, options);
	build_letters(args, letters);
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (c == 'h') {
			print_help(program, title, args);
			return 0;
		}
		a = find(args, c);
		if (!a) {	/* getopt_long has named the option */
			fprintf(stderr, "%s --help lists the options\n", program);
			return ARG_BAD;
		}
		rc = take(a, optarg);
		if (rc)
			return rc;
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s'\n", program, argv[optind]);
		return ARG_BAD;
	}
	return -1;
}
