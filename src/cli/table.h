/* SPDX-License-Identifier: MIT */
/*
 * One table, four ways out: text for a terminal (at most 100 columns), CSV, Markdown, JSON rows.
 *
 * Describe the columns once, fill rows cell by cell, print. A cell carries what people read and
 * what programs read: text and Markdown show the former, CSV and JSON the latter. Text columns
 * wrap when the table would be too wide; numbers never do: if they alone are too wide, the table
 * is printed as several, each beginning with the first column.
 */
#ifndef HOTLOCK_TABLE_H
#define HOTLOCK_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_WIDTH 100

typedef enum {
    TABLE_LEFT,   /* words; may wrap */
    TABLE_RIGHT,  /* numbers; decimal points line up when every cell has the same decimals */
} table_align_t;

typedef enum {
    TABLE_BOTH,
    TABLE_PEOPLE,   /* only in text and Markdown */
    TABLE_PROGRAMS  /* only in CSV and JSON */
} table_readers_t;

typedef struct {
    const char *key;   /* name in CSV and JSON */
    const char *title; /* heading in text and Markdown */
    table_align_t align;
    table_readers_t readers;
} table_column_t;

typedef enum { TABLE_TEXT, TABLE_CSV, TABLE_MARKDOWN, TABLE_JSON } table_format_t;

typedef struct table table_t;

table_t *table_new(const table_column_t *columns, size_t count); /* columns must outlive it */
void table_free(table_t *t);

/* Cells are added left to right; the first cell after a full row begins the next row. */
void table_text(table_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_int(table_t *t, long long value);
void table_real(table_t *t, double value, int decimals); /* NaN or infinite: as table_none() */
void table_none(table_t *t); /* "-" for people, null or empty for programs */
/* The general form: what people read, and the value (stolen) programs read. */
void table_cell(table_t *t, json_t *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void table_print(const table_t *t, table_format_t format, FILE *out); /* TABLE_JSON: the rows */
void table_csv(const table_t *t, FILE *out, int with_heading); /* several tables, one heading */
json_t *table_rows(const table_t *t); /* array of objects, new reference */

/* Columns a terminal needs for this UTF-8 text. */
int table_text_width(const char *utf8);

/* A string for JSON from bytes that may not be UTF-8; what is not becomes U+FFFD. */
json_t *table_json_string(const char *bytes);

#endif
