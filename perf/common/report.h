/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what a perf program says: facts as "# name value" lines, warnings,
 * then tables. With json the same content as one object on stdout.
 *
 * Facts and warnings appear at once in text form. Texts are copied.
 */
#ifndef TENT_PERF_REPORT_H
#define TENT_PERF_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define REPORT_COLUMNS_MAX 16

struct report {
	bool json;
	FILE *out;
	/* json only: the parts of the object, collected until report_end() */
	FILE *facts, *warnings, *tables;
	char *facts_text, *warnings_text, *tables_text;
	size_t facts_size, warnings_size, tables_size;
	uint32_t nr_facts, nr_warnings, nr_tables;
	/* the table being filled: cells as text, column by column in each row */
	const char *name;
	const char *const *columns;
	uint32_t nr_columns, nr_cells;
	char **cells;
};

/* program and version are the first fact. */
void report_begin(struct report *r, bool json, const char *program);

/* A fact whose value is text, or one that is a number. */
void report_fact(struct report *r, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void report_number(struct report *r, const char *name, int decimals, double value);

/* The numbers cannot be trusted fully, because. */
void report_warn(struct report *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* columns: names with units, borrowed until report_table_end(). */
void report_table_begin(struct report *r, const char *name,
			const char *const *columns, uint32_t nr_columns);
void report_cell_text(struct report *r, const char *text);
void report_cell(struct report *r, int decimals, double value);
void report_cell_none(struct report *r);	/* "-", null */
void report_table_end(struct report *r);

/* Prints what is left; frees everything. */
void report_end(struct report *r);

#endif /* TENT_PERF_REPORT_H */
