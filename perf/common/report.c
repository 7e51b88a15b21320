/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - facts, warnings and aligned tables; or the same as JSON. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "perf/common/report.h"

static void *need(void *p)
{
	if (!p) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	return p;
}

static void json_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

void report_begin(struct report *r, bool json, const char *program)
{
	*r = (struct report) { .json = json, .out = stdout };
	if (json) {
		r->facts = need(open_memstream(&r->facts_text, &r->facts_size));
		r->warnings = need(open_memstream(&r->warnings_text, &r->warnings_size));
		r->tables = need(open_memstream(&r->tables_text, &r->tables_size));
	}
	report_fact(r, "program", "%s %s", program, TENT_VERSION);
}

static void fact_json(struct report *r, const char *name, const char *value, bool number)
{
	fputs(r->nr_facts++ ? ",\n    " : "\n    ", r->facts);
	json_string(r->facts, name);
	fputs(": ", r->facts);
	if (number)
		fputs(value, r->facts);
	else
		json_string(r->facts, value);
}

static void fact(struct report *r, const char *name, const char *value, bool number)
{
	if (r->json) {
		fact_json(r, name, value, number);
		return;
	}
	fprintf(r->out, "# %-24s %s\n", name, value);
	fflush(r->out);
}

void report_fact(struct report *r, const char *name, const char *format, ...)
{
	char value[512];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	fact(r, name, value, false);
}

void report_number(struct report *r, const char *name, int decimals, double value)
{
	char text[64];

	if (!__builtin_isfinite(value)) {
		fact(r, name, "none", false);
		return;
	}
	snprintf(text, sizeof(text), "%.*f", decimals, value);
	fact(r, name, text, true);
}

void report_warn(struct report *r, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!r->json) {
		fprintf(r->out, "# warning: %s\n", text);
		fflush(r->out);
		return;
	}
	fputs(r->nr_warnings++ ? ",\n    " : "\n    ", r->warnings);
	json_string(r->warnings, text);
}

void report_table_begin(struct report *r, const char *name,
			const char *const *columns, uint32_t nr_columns)
{
	r->name = name;
	r->columns = columns;
	r->nr_columns = nr_columns;
	r->nr_cells = 0;
	r->cells = NULL;
}

/* Cells are kept as they will be printed; the first character says what they
 * are in JSON: 't'ext, 'n'umber or '-' none. */
static void add_cell(struct report *r, char kind, const char *text)
{
	char *cell = need(malloc(strlen(text) + 2));

	cell[0] = kind;
	strcpy(cell + 1, text);
	r->cells = need(realloc(r->cells, (r->nr_cells + 1) * sizeof(*r->cells)));
	r->cells[r->nr_cells++] = cell;
}

void report_cell_text(struct report *r, const char *text)
{
	add_cell(r, 't', text);
}

void report_cell(struct report *r, int decimals, double value)
{
	char text[64];

	if (!__builtin_isfinite(value)) {
		report_cell_none(r);
		return;
	}
	snprintf(text, sizeof(text), "%.*f", decimals, value);
	add_cell(r, 'n', text);
}

void report_cell_none(struct report *r)
{
	add_cell(r, '-', "-");
}

static void print_row(const struct report *r, const uint32_t *widths, uint32_t row)
{
	char **cells = r->cells + row * r->nr_columns;

	fputs("  ", r->out);
	for (uint32_t c = 0; c < r->nr_columns; c++)
		fprintf(r->out, cells[c][0] == 't' ? "%-*s%s" : "%*s%s", (int)widths[c],
			cells[c] + 1, c + 1 < r->nr_columns ? "  " : "\n");
}

static void table_text(const struct report *r)
{
	uint32_t widths[REPORT_COLUMNS_MAX] = { 0 };
	uint32_t rows = r->nr_cells / r->nr_columns;

	for (uint32_t c = 0; c < r->nr_columns; c++)
		widths[c] = (uint32_t)strlen(r->columns[c]);
	for (uint32_t i = 0; i < r->nr_cells; i++) {
		uint32_t n = (uint32_t)strlen(r->cells[i] + 1);

		if (n > widths[i % r->nr_columns])
			widths[i % r->nr_columns] = n;
	}
	fputs("# ", r->out);
	for (uint32_t c = 0; c < r->nr_columns; c++) {
		bool text = rows && r->cells[c][0] == 't';

		fprintf(r->out, text ? "%-*s%s" : "%*s%s", (int)widths[c], r->columns[c],
			c + 1 < r->nr_columns ? "  " : "\n");
	}
	for (uint32_t row = 0; row < rows; row++)
		print_row(r, widths, row);
	fflush(r->out);
}

static void table_json(struct report *r)
{
	FILE *f = r->tables;

	fputs(r->nr_tables++ ? ",\n    " : "\n    ", f);
	json_string(f, r->name);
	fputs(": [", f);
	for (uint32_t i = 0; i < r->nr_cells; i++) {
		uint32_t c = i % r->nr_columns;
		const char *cell = r->cells[i];

		fputs(c ? ", " : i ? "},\n      {" : "\n      {", f);
		json_string(f, r->columns[c]);
		fputs(": ", f);
		if (cell[0] == 't')
			json_string(f, cell + 1);
		else
			fputs(cell[0] == 'n' ? cell + 1 : "null", f);
	}
	fputs(r->nr_cells ? "}\n    ]" : "]", f);
}

void report_table_end(struct report *r)
{
	if (r->json)
		table_json(r);
	else
		table_text(r);
	for (uint32_t i = 0; i < r->nr_cells; i++)
		free(r->cells[i]);
	free(r->cells);
	r->cells = NULL;
	r->nr_cells = 0;
}

void report_end(struct report *r)
{
	if (!r->json)
		return;
	fclose(r->facts);
	fclose(r->warnings);
	fclose(r->tables);
	fprintf(r->out, "{\n  \"facts\": {%s\n  },\n  \"warnings\": [%s%s],\n"
		"  \"tables\": {%s\n  }\n}\n", r->facts_text, r->warnings_text,
		r->nr_warnings ? "\n  " : "", r->tables_text);
	free(r->facts_text);
	free(r->warnings_text);
	free(r->tables_text);
}
