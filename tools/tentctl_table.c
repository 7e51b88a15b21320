/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentctl_table.c - any JSON object as text for people: its plain members as
 * "name value" lines, each array of objects as a table with a column per member.
 * It knows no names, so what tentd adds shows up without a new tentctl.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tentctl.h"

#define COLUMNS_MAX 64
#define CELL_SIZE 256

struct column {
	const char *name;
	size_t width;
	bool is_text;		/* left-aligned */
};

/* One value in one cell; nested values shrink to compact JSON. Names come from
 * other users' programs, so nothing that could steer a terminal passes. */
static void cell_text(const json_t *value, char text[CELL_SIZE])
{
	char *dump = NULL;
	const char *from = "-";

	if (json_is_string(value)) {
		from = json_string_value(value);
	} else if (value && !json_is_null(value)) {
		dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
		from = dump ? dump : "?";
	}
	snprintf(text, CELL_SIZE, "%s", from);
	for (char *at = text; *at; at++) {
		if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
			*at = '?';
	}
	free(dump);
}

static bool is_table(const json_t *value)
{
	return json_is_array(value) && json_array_size(value) > 0 &&
	       json_is_object(json_array_get(value, 0));
}

static size_t find_column(struct column *columns, size_t *nr, const char *name)
{
	size_t i;

	for (i = 0; i < *nr; i++) {
		if (strcmp(columns[i].name, name) == 0)
			return i;
	}
	if (*nr == COLUMNS_MAX)
		return COLUMNS_MAX;
	columns[(*nr)++] = (struct column) { .name = name, .width = strlen(name) };
	return i;
}

/* Columns in the order in which rows bring them, as wide as their widest cell. */
static size_t measure(const json_t *rows, struct column *columns)
{
	size_t nr = 0, i;
	const json_t *row;

	json_array_foreach(rows, i, row) {
		const char *name;
		json_t *value;

		json_object_foreach((json_t *)row, name, value) {
			size_t at = find_column(columns, &nr, name);
			char text[CELL_SIZE];

			if (at == COLUMNS_MAX)
				continue;
			cell_text(value, text);
			if (strlen(text) > columns[at].width)
				columns[at].width = strlen(text);
			columns[at].is_text |= !json_is_number(value);
		}
	}
	return nr;
}

static void print_cell(const struct column *c, const char *text, bool is_last)
{
	int width = (int)c->width;

	if (c->is_text && is_last)
		printf("%s\n", text);	/* no trailing blanks */
	else
		printf("%*s%s", c->is_text ? -width : width, text, is_last ? "\n" : "  ");
}

static void print_table(const json_t *rows)
{
	struct column columns[COLUMNS_MAX];
	size_t nr = measure(rows, columns), i;
	const json_t *row;

	for (size_t c = 0; c < nr; c++)
		print_cell(&columns[c], columns[c].name, c + 1 == nr);
	json_array_foreach(rows, i, row) {
		for (size_t c = 0; c < nr; c++) {
			char text[CELL_SIZE];

			cell_text(json_object_get(row, columns[c].name), text);
			print_cell(&columns[c], text, c + 1 == nr);
		}
	}
}

/* The length of the longest plain member's name, prefix included. */
static size_t name_width(const json_t *object, size_t prefix)
{
	size_t width = 0;
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		size_t own = prefix + strlen(name);

		if (json_is_object(value))
			own = name_width(value, own + 1);
		else if (json_is_array(value))
			continue;
		if (own > width)
			width = own;
	}
	return width;
}

/* Nested objects are flattened: tentd sends two levels, a parser at most 2048. */
static void print_members(const json_t *object, const char *prefix, int width)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		char path[CELL_SIZE], text[CELL_SIZE];

		snprintf(path, sizeof(path), "%s%s", prefix, name);
		if (json_is_object(value)) {
			if (strlen(path) + 2 < sizeof(path))
				strcat(path, ".");
			print_members(value, path, width);
		} else if (!json_is_array(value)) {
			cell_text(value, text);
			printf("%-*s  %s\n", width, path, text);
		}
	}
}

static void print_object(const json_t *object)
{
	bool is_first = name_width(object, 0) == 0;
	const char *name;
	json_t *value;

	print_members(object, "", (int)name_width(object, 0));
	json_object_foreach((json_t *)object, name, value) {
		if (!json_is_array(value))
			continue;
		printf("%s%s:%s\n", is_first ? "" : "\n", name,
		       json_array_size(value) ? "" : " none");
		is_first = false;
		if (is_table(value)) {
			print_table(value);
			continue;
		}
		for (size_t i = 0; i < json_array_size(value); i++) {
			char text[CELL_SIZE];

			cell_text(json_array_get(value, i), text);
			puts(text);
		}
	}
}

enum tentctl_exit tentctl_print(const struct tentctl_options *o, const char *json)
{
	json_error_t error;
	json_t *root = json_loads(json, 0, &error);

	if (!root) {
		tentctl_say("tentd's answer is no JSON: %s", error.text);
		return TENTCTL_FAILED;
	}
	if (o->json) {
		json_dumpf(root, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (is_table(root)) {
		print_table(root);
	} else if (json_is_array(root)) {
		puts("none");
	} else {
		print_object(root);
	}
	json_decref(root);
	return TENTCTL_OK;
}
