/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentctl_table.c - any JSON object as text for people: its plain members as
 * "name value" lines, each array of objects as a table, a wide one on its side. It
 * knows no names, so what tentd adds shows up without a new tentctl.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tentctl.h"

#define COLUMNS_MAX 64
#define CELL_SIZE 256
#define WIDTH_MAX 120		/* a wider table stands on its side */

/* The members of all rows, in the order in which rows bring them. */
struct table {
	const json_t *rows;
	size_t nr_rows, nr_names;
	const char *names[COLUMNS_MAX];
	bool is_text[COLUMNS_MAX];	/* left-aligned */
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
	snprintf(text, CELL_SIZE, "%s", *from ? from : "-");
	for (char *at = text; *at; at++) {
		if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
			*at = '?';
	}
	free(dump);
}

/* Nested objects become members of their own: tentd sends two levels, a parser takes
 * 2048. */
static void flatten(json_t *to, const json_t *from, const char *prefix)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)from, name, value) {
		char path[CELL_SIZE];

		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
		if (json_is_object(value))
			flatten(to, value, path);
		else
			json_object_set(to, path, value);
	}
}

static json_t *flattened(const json_t *object)
{
	json_t *flat = json_object();

	flatten(flat, object, "");
	return flat;
}

static bool is_table(const json_t *value)
{
	return json_is_array(value) && json_array_size(value) > 0 &&
	       json_is_object(json_array_get(value, 0));
}

static void note_name(struct table *t, const char *name, const json_t *value)
{
	size_t i = 0;

	while (i < t->nr_names && strcmp(t->names[i], name) != 0)
		i++;
	if (i == COLUMNS_MAX)
		return;
	if (i == t->nr_names)
		t->names[t->nr_names++] = name;
	t->is_text[i] |= !json_is_number(value);
}

static void table_read(struct table *t, const json_t *rows)
{
	const json_t *row;
	size_t i;

	*t = (struct table) { .rows = rows, .nr_rows = json_array_size(rows) };
	json_array_foreach(rows, i, row) {
		const char *name;
		json_t *value;

		json_object_foreach((json_t *)row, name, value)
			note_name(t, name, value);
	}
}

/* Item 0 is the heading, item i the row i - 1. */
static void table_cell(const struct table *t, size_t item, size_t name, char text[CELL_SIZE])
{
	if (item == 0)
		snprintf(text, CELL_SIZE, "%s", t->names[name]);
	else
		cell_text(json_object_get(json_array_get(t->rows, item - 1), t->names[name]),
			  text);
}

static size_t name_width(const struct table *t, size_t name)
{
	char text[CELL_SIZE];
	size_t width = 0;

	for (size_t item = 0; item <= t->nr_rows; item++) {
		table_cell(t, item, name, text);
		if (strlen(text) > width)
			width = strlen(text);
	}
	return width;
}

static size_t item_width(const struct table *t, size_t item)
{
	char text[CELL_SIZE];
	size_t width = 0;

	for (size_t name = 0; name < t->nr_names; name++) {
		table_cell(t, item, name, text);
		if (strlen(text) > width)
			width = strlen(text);
	}
	return width;
}

static bool has_text(const struct table *t)
{
	for (size_t name = 0; name < t->nr_names; name++) {
		if (t->is_text[name])
			return true;
	}
	return false;
}

static void print_cell(const char *text, size_t width, bool is_text, bool is_last)
{
	int padded = (int)width;

	if (is_text && is_last)
		printf("%s\n", text);	/* no trailing blanks */
	else
		printf("%*s%s", is_text ? -padded : padded, text, is_last ? "\n" : "  ");
}

/* A heading and a line per row. */
static void print_upright(const struct table *t, const size_t widths[COLUMNS_MAX])
{
	char text[CELL_SIZE];

	for (size_t item = 0; item <= t->nr_rows; item++) {
		for (size_t name = 0; name < t->nr_names; name++) {
			table_cell(t, item, name, text);
			print_cell(text, widths[name], t->is_text[name],
				   name + 1 == t->nr_names);
		}
	}
}

/* A line per name and a column per row. */
static void print_sideways(const struct table *t)
{
	bool is_text = has_text(t);
	char text[CELL_SIZE];

	for (size_t name = 0; name < t->nr_names; name++) {
		for (size_t item = 0; item <= t->nr_rows; item++) {
			table_cell(t, item, name, text);
			print_cell(text, item_width(t, item), is_text || item == 0,
				   item == t->nr_rows);
		}
	}
}

static void print_rows(const json_t *rows)
{
	size_t widths[COLUMNS_MAX], upright = 0, sideways = 0;
	struct table t;

	table_read(&t, rows);
	for (size_t name = 0; name < t.nr_names; name++) {
		widths[name] = name_width(&t, name);
		upright += widths[name] + 2;
	}
	for (size_t item = 0; item <= t.nr_rows && sideways < upright; item++)
		sideways += item_width(&t, item) + 2;
	if (upright > WIDTH_MAX && sideways < upright)
		print_sideways(&t);
	else
		print_upright(&t, widths);
}

static void print_table(const json_t *rows)
{
	json_t *flat = json_array();
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		json_array_append_new(flat, flattened(row));
	print_rows(flat);
	json_decref(flat);
}

/* Plain members, as wide as the longest name. */
static bool print_members(const json_t *object)
{
	const char *name;
	size_t width = 0;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		if (!json_is_array(value) && strlen(name) > width)
			width = strlen(name);
	}
	json_object_foreach((json_t *)object, name, value) {
		char text[CELL_SIZE];

		if (json_is_array(value))
			continue;
		cell_text(value, text);
		printf("%-*s  %s\n", (int)width, name, text);
	}
	return width > 0;
}

static void print_list(const json_t *list)
{
	char text[CELL_SIZE];
	const json_t *value;
	size_t i;

	json_array_foreach(list, i, value) {
		cell_text(value, text);
		puts(text);
	}
}

static void print_object(const json_t *nested)
{
	json_t *object = flattened(nested), *value;
	bool is_first = !print_members(object);
	const char *name;

	json_object_foreach(object, name, value) {
		if (!json_is_array(value))
			continue;
		printf("%s%s:%s\n", is_first ? "" : "\n", name,
		       json_array_size(value) ? "" : " none");
		is_first = false;
		if (is_table(value))
			print_table(value);
		else
			print_list(value);
	}
	json_decref(object);
}

void tentctl_print_value(const struct tentctl_options *o, const json_t *root)
{
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
}

enum tentctl_exit tentctl_print(const struct tentctl_options *o, const char *json)
{
	json_error_t error;
	json_t *root = json_loads(json, 0, &error);

	if (!root) {
		tentctl_say("tentd's answer is no JSON: %s", error.text);
		return TENTCTL_FAILED;
	}
	tentctl_print_value(o, root);
	json_decref(root);
	return TENTCTL_OK;
}
